"""The processes of a run of `latency.py`: each case is one, so that its peak memory and its caches are its own."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import time
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REFERENCE = "loomflow==0.20.0"
READS = ("recall", "recall_facts", "inject_unbounded")
CURVE = ("inject", "inject_fill")
STARTS = ("cold", "cold_fill")
USERS_LOOKED_AT = 50
REMOVED = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
"""Not passed on to the measuring processes: they make numpy choose kernels of another processor."""
UNWANTED = (*REMOVED, "PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE")
FRESH = """
import asyncio, sys
from loomflow import Memory, Tuning
async def main(path):
    async with Memory.open(path) as memory:
        block = await memory.inject("who plays the guitar?", user_id="user-0", tuning=Tuning(memory_token_budget=1500))
        assert block.items and not block.problems
asyncio.run(main(sys.argv[1]))
"""


class Bench:
    """One run: its settings, its folder of databases, and the processes that it starts."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options = options
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items() if name not in UNWANTED}
        # Compiled modules, as an installed package has them; in the folder of the run, as a checkout may have none.
        self.environment["PYTHONPYCACHEPREFIX"] = str(folder.resolve() / "bytecode")
        self.removed = [name for name in REMOVED if name in os.environ]
        self.reads = 10 if options.quick else 200
        self.alone = 1 if options.quick else 5
        self.writes = 20 if options.quick else 2000
        self.starts = 1 if options.quick else 9
        self.imports = 2 if options.quick else 25

    def case(self, script: str, case: str, path: Path, size: int, python: str = sys.executable, **values: Any) -> Any:
        """Run one case in a fresh process; its values."""
        say(f"{script} {case}: {size:,} episodes")
        extra = [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]
        command = [python, str(HERE / f"{script}.py"), case, f"--path={path}", f"--size={size}", *extra]
        done = subprocess.run(command, env=self.environment, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout.splitlines()[-1])

    def build(self, size: int, users: int = 1) -> tuple[Path, dict[str, Any]]:
        """Write a corpus; its file, and what that cost."""
        path = self.folder / f"ours-{size}-{users}.db"
        path.unlink(missing_ok=True)
        cost = self.case("latency_cases", "build", path, size, users=users)
        return path, cost | {"file_mb": round(path.stat().st_size / 1e6, 2)}

    def ours(self, size: int) -> dict[str, Any]:
        """All cases of one user."""
        path, cost = self.build(size)
        values = {"build": cost} | self.read(READS, path, size) | self.read(CURVE, path, size)
        values |= self.cold(path, size, self.starts)
        values["cold"]["fresh_process"] = self.fresh(path)
        values["remember"] = self.remember(path, size, self.writes)
        path.unlink()
        return values

    def curve(self, size: int) -> dict[str, Any]:
        """The cases of the growth curve, of one user."""
        path, cost = self.build(size)
        values = {"build": cost} | self.read(CURVE, path, size) | self.cold(path, size, -(-self.starts // 2))
        values["remember"] = self.remember(path, size, min(self.writes, size))
        path.unlink()
        return values

    def crowd(self, size: int, users: int) -> dict[str, Any]:
        """All cases of many users in one file."""
        path, cost = self.build(size, users)
        values: dict[str, Any] = {"episodes": size, "users": users, "build": cost}
        looked_at = min(USERS_LOOKED_AT, users)
        self.case("latency_users", "alone", path, size, users=users, repeat=looked_at)
        values["apart"] = {
            case: self.case("latency_users", case, path, size, users=users, repeat=looked_at) for case in CURVE
        }
        values |= self.read((*CURVE, "inject_everyone"), path, size, users)
        values |= self.cold(path, size, self.starts, users)
        values["cold"]["fresh_process"] = self.fresh(path)
        values["remember"] = self.remember(path, size, self.writes, users)
        for file in (path, *self.folder.glob(f"{path.name}.*.db")):
            file.unlink()
        return values

    def read(self, cases: Sequence[str], path: Path, size: int, users: int = 1) -> dict[str, Any]:
        settings = {"users": users, "repeat": self.reads, "warm_up": self.reads // 10, "alone": self.alone}
        return {case: self.case("latency_cases", case, path, size, **settings) for case in cases}

    def cold(self, path: Path, size: int, starts: int, users: int = 1) -> dict[str, Any]:
        return {
            case: medians([self.case("latency_cases", case, path, size, users=users) for _ in range(starts)])
            for case in STARTS
        }

    def remember(self, path: Path, size: int, writes: int, users: int = 1) -> dict[str, Any]:
        """Last of all cases of a file, as it writes into it."""
        return self.case("latency_cases", "remember", path, size, users=users, repeat=writes, warm_up=5)

    def fresh(self, path: Path) -> dict[str, float]:
        """A whole process that opens a memory and makes one injection, interpreter included."""
        command = [sys.executable, "-c", FRESH, str(path)]
        runs = [process_cost(command, self.environment) for _ in range(self.starts)]
        return {name: round(statistics.median(run[name] for run in runs), 3) for name in runs[0]}

    def reference(self, size: int, python: str) -> dict[str, Any]:
        """All cases of one corpus with the reference: few repetitions, as a single call may take seconds."""
        path = self.folder / f"peer-{size}.db"
        path.unlink(missing_ok=True)
        script = "reference_loomflow"
        self.case(script, "build", path, size, python)
        repeat = 5 if self.options.quick else 15 if size <= 1_000 else 7 if size <= 10_000 else 2
        warm_up = 1 if size <= 10_000 else 0
        values = {
            case: self.case(script, case, path, size, python, repeat=repeat, warm_up=warm_up)
            for case in ("recall", "recall_facts", "inject", "inject_unbounded")
        }
        values["remember"] = self.case(script, "remember", path, size, python, repeat=self.writes, warm_up=5)
        path.unlink()
        return values

    def import_costs(self, python: str, statements: Sequence[str]) -> dict[str, dict[str, float]]:
        """Cost of a process that runs each statement, and what that is over bare Python; taken in turns."""
        say(f"imports: {self.imports} processes for each of {len(statements)} statements")
        costs: dict[str, list[dict[str, float]]] = {name: [] for name in ("python", *statements)}
        for turn in range(self.imports + 1):
            for name, runs in costs.items():
                statement = "pass" if name == "python" else name
                cost = process_cost([python, "-c", statement], self.environment)
                if turn > 0:  # the first one may have had to compile
                    runs.append(cost)
        values = {
            name: {key: round(statistics.median(run[key] for run in runs), 3) for key in runs[0]}
            for name, runs in costs.items()
        }
        bare = values["python"]["cpu_ms"]
        return {name: value | {"over_python_ms": round(value["cpu_ms"] - bare, 3)} for name, value in values.items()}

    def reference_python(self) -> str:
        """The interpreter that has the reference; makes a virtual environment for it unless one is given."""
        if self.options.reference_python:
            return self.options.reference_python
        home = Path(self.options.env_dir or self.folder / "reference")
        python = home / "bin" / "python"
        if not python.exists():
            say(f"making a virtual environment with {REFERENCE}")
            venv.create(home, with_pip=True)
            install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", REFERENCE]
            subprocess.run(install, check=True, stdout=sys.stderr)
        return str(python)


def process_cost(command: Sequence[str], environment: Mapping[str, str]) -> dict[str, float]:
    """CPU time (user and system), wall time and peak memory of a process, as the kernel accounts for it."""
    began = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)} ended with {process.returncode}")
    peak = usage.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
    return {"cpu_ms": (usage.ru_utime + usage.ru_stime) * 1000, "wall_ms": wall * 1000, "peak_mb": peak}


def medians(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of several values of one shape (mappings of numbers, in any depth), the median of each number."""
    return {
        name: medians([run[name] for run in runs])
        if isinstance(first, Mapping)
        else round(statistics.median(run[name] for run in runs), 3)
        for name, first in runs[0].items()
    }


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
