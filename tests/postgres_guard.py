"""A process that outlives the tests by a moment: it ends a PostgreSQL server and removes the server's folder.

    python postgres_guard.py FOLDER

It waits for the end of its standard input, which comes when whoever started it closes that pipe or is gone, by
whatever signal. So an interrupted test run leaves neither a process nor a folder.
"""

from __future__ import annotations

import shutil
import signal
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import psutil

SECONDS_TO_STOP = 20


def end_processes(data: Path) -> None:
    """End what runs on this data folder: `initdb`, or a server, which stops without a checkpoint."""
    found = [process for process in psutil.process_iter(["cmdline"]) if str(data) in (process.info["cmdline"] or [])]
    family = {member for process in found for member in (process, *process.children(recursive=True))}
    for process in found:
        process.send_signal(signal.SIGQUIT)
    if not has_ended(family, SECONDS_TO_STOP):
        kill(family)


def kill(processes: Collection[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    if not has_ended(processes, SECONDS_TO_STOP):
        raise TimeoutError(f"still there after SIGKILL: {processes}")


def has_ended(processes: Collection[psutil.Process], seconds: float) -> bool:
    """Whether all have ended in time. One that nobody has asked for its exit status has ended too."""
    deadline = time.monotonic() + seconds
    while any(_is_alive(process) for process in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def main() -> None:
    folder = Path(sys.argv[1])
    sys.stdin.buffer.read()
    end_processes(folder / "data")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
