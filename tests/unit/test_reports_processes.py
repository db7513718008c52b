"""Several processes on one memory file: no lock errors, no lost updates, nothing acknowledged is lost to a kill.

The module is also the program that the other processes run, with a role, a file and an argument.
"""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from loomflow import Agent, ConflictError, EchoModel, Episode, Fact, Memory, SchemaError, StoreError
from loomflow.index.segments import from_bytes
from tests.watching import watched

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PROGRAM = "tests.unit.test_reports_processes"
TIMEOUT = 60
WRITES = 200
THREADS, APPENDS = 8, 10


# What the other processes do


async def _read(memory: Memory, over: Callable[[], bool]) -> None:
    while not over():
        await memory.recall("ferry", user_id="ana")
        await memory.working(user_id="ana")
        await asyncio.sleep(0.001)


async def _write_and_read(path: str, write: bool) -> None:
    """Two readers, and a writer of `WRITES` episodes or a wait for the end of the input; prints the longest turn."""
    ended = threading.Event()
    async with Memory.open(path, embedder=None) as memory:
        await memory.working()
        async with watched() as turns:
            readers = [asyncio.create_task(_read(memory, ended.is_set)) for _ in range(2)]
            if write:
                for number in range(WRITES):
                    await memory.remember(Episode(f"ferry {number}", "", session_id="s", user_id="ana"))
            else:
                await asyncio.to_thread(sys.stdin.read)
            ended.set()
            await asyncio.gather(*readers)
    print(max(turns))


def _append(path: str, mark: str) -> None:
    """From `THREADS` threads, add lines to one block, `APPENDS` each; every other one by compare-and-set."""
    memory = Memory.open(path, embedder=None)

    async def add(line: str, by_hand: bool) -> None:
        if not by_hand:
            await memory.append_block("log", line)
            return
        while True:
            (block,) = await memory.working()
            with suppress(ConflictError):
                await memory.update_block("log", f"{block.content}\n{line}", expected_version=block.version)
                return

    def work(thread: int) -> None:
        for number in range(APPENDS):
            asyncio.run(add(f"{mark}.{thread}.{number}", by_hand=number % 5 == 4))

    with ThreadPoolExecutor(THREADS) as threads:
        done = threads.map(work, range(THREADS))
    asyncio.run(memory.aclose())
    list(done)  # raises what a thread raised


async def _acknowledge(path: str, mark: str) -> None:
    """Write for ever, and print what is written as soon as it is."""
    async with Memory.open(path, embedder=None) as memory:
        for number in range(1_000_000):
            name = f"{mark}.{number}"
            await memory.remember(Episode(name, "", session_id="s", id=name))
            print("episode", name, flush=True)
            await memory.facts.append(Fact("log", "has", name))
            print("fact", name, flush=True)
            await memory.append_block(mark, name)
            print("line", name, flush=True)


async def _run(path: str, mark: str) -> None:
    """Answer prompts for ever, and print each when it is answered."""
    agent = Agent(model=EchoModel(), memory=Memory.open(path, embedder=None))
    for number in range(1_000_000):
        await agent.run(f"{mark}.{number}", session_id="s")
        print("run", f"{mark}.{number}", flush=True)


async def _open_first(path: str, mark: str) -> None:
    """Say "ready", wait for a line, then open the file at the same moment as the others."""
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    async with Memory.open(path, embedder=None) as memory:
        await memory.remember(Episode(mark, "", session_id="s"))
        await memory.append_block("log", mark)


def _use_and_leave(path: str) -> None:
    """Use an agent from several event loops and threads, and end without closing anything."""
    agent = Agent(model=EchoModel(), memory=path)
    asyncio.run(agent.run("a", session_id="s"))
    asyncio.run(agent.run("b", session_id="s"))
    agent.run_sync("c", session_id="s")
    thread = threading.Thread(target=agent.run_sync, args=("d",), kwargs={"session_id": "s"})
    thread.start()
    thread.join()
    print(len(asyncio.run(agent.memory.session_messages("s"))))


def main() -> None:
    """Play one role."""
    role, path, argument = sys.argv[1:4]
    if role == "append":
        _append(path, argument)
    elif role == "leave":
        _use_and_leave(path)
    elif role in ("write", "read"):
        asyncio.run(_write_and_read(path, role == "write"))
    else:
        asyncio.run({"acknowledge": _acknowledge, "run": _run, "open": _open_first}[role](path, argument))


# The tests


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@contextmanager
def process(role: str, path: Path, argument: str = "") -> Generator[subprocess.Popen[str]]:
    """Another process that plays a role; it is gone when the block is left."""
    command = [sys.executable, "-W", "error", "-m", PROGRAM, role, str(path), argument]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


def ended(process: subprocess.Popen[str]) -> str:
    """What a process printed; it must have ended well and without a word of complaint."""
    output, errors = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, errors) == (0, "")
    return output


def intact(path: Path) -> bool:
    """Whether the file is whole, and the keyword index of every user has exactly the rows that there are, in order."""
    with closing(sqlite3.connect(path)) as db:
        for kind, table in enumerate(("episodes", "facts")):
            for (user,) in db.execute("SELECT no FROM users").fetchall():
                query = "SELECT data FROM segments WHERE user_no = ? AND kind = ? AND embedder_no = 0 ORDER BY no"
                parts = [from_bytes(data) for (data,) in db.execute(query, (user, kind))]
                rows = db.execute(f"SELECT no FROM {table} WHERE user_no = ? ORDER BY no", (user,)).fetchall()
                if [number for part in parts for number in part.numbers.tolist()] != [number for (number,) in rows]:
                    return False
        return db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def test_a_writer_and_readers_in_two_processes_never_meet_a_lock(path: Path) -> None:
    with process("read", path) as reader, process("write", path) as writer:
        turns = [float(ended(writer)), float(ended(reader))]
    async with Memory.open(path, embedder=None) as memory:
        said = [message.content for message in await memory.session_messages("s", user_id="ana")]
    assert said == [f"ferry {number}" for number in range(WRITES)]
    assert max(turns) < 200
    assert intact(path)


async def test_threads_of_four_processes_lose_no_update(path: Path) -> None:
    marks = [f"p{number}" for number in range(4)]
    async with Memory.open(path, embedder=None) as memory:
        await memory.update_block("log", "start")
    with ExitStack() as stack:
        for started in [stack.enter_context(process("append", path, mark)) for mark in marks]:
            ended(started)
    async with Memory.open(path, embedder=None) as memory:
        (block,) = await memory.working()
    lines = [f"{mark}.{thread}.{number}" for mark in marks for thread in range(THREADS) for number in range(APPENDS)]
    assert sorted(block.content.splitlines()) == sorted(["start", *lines])
    assert block.version == 1 + len(lines)


async def test_what_is_acknowledged_survives_a_kill(path: Path) -> None:
    acknowledged: dict[str, set[str]] = {"episode": set(), "fact": set(), "line": set()}
    for round_ in range(10):
        with process("acknowledge", path, f"r{round_}") as started:
            assert started.stdout is not None
            for _ in range(20 + 7 * round_):
                kind, name = started.stdout.readline().split()
                acknowledged[kind].add(name)
            started.send_signal(signal.SIGKILL)
            for line in started.stdout:
                if line.endswith("\n"):
                    kind, name = line.split()
                    acknowledged[kind].add(name)
            started.wait(TIMEOUT)
        async with Memory.open(path, embedder=None) as memory:
            episodes = {episode.input for episode in await memory.store.episodes(None)}
            facts = {fact.object for fact in await memory.facts.query()}
            lines = {line for block in await memory.working() for line in block.content.splitlines()}
            assert [acknowledged["episode"] - episodes, acknowledged["fact"] - facts, acknowledged["line"] - lines] == [
                set()
            ] * 3
            assert len(episodes) <= len(acknowledged["episode"]) + round_ + 1
            assert len(await memory.recall(f"r{round_}", limit=100)) > 5
        assert intact(path)


async def test_a_session_goes_on_after_a_kill_in_the_middle(path: Path) -> None:
    answered: list[str] = []
    for round_ in range(3):
        with process("run", path, f"r{round_}") as started:
            assert started.stdout is not None
            answered += [started.stdout.readline().split()[1] for _ in range(5 + round_)]
            started.send_signal(signal.SIGKILL)
            answered += [line.split()[1] for line in started.stdout if line.endswith("\n")]
            started.wait(TIMEOUT)
    echo = EchoModel()
    async with Memory.open(path, embedder=None) as memory:
        await Agent(model=echo, memory=memory).run("are you there?", session_id="s")
    messages = echo.requests[0].messages
    said = [text for role, text in messages if role == "user"]
    assert [text for text in said if text in answered] == answered
    assert len(said) <= len(answered) + 3 + 1
    assert {text for role, text in messages if role == "assistant"} >= {f"Echo: {text}" for text in answered}


async def test_six_processes_can_open_a_new_file_at_once(path: Path) -> None:
    marks = [f"p{number}" for number in range(6)]
    with ExitStack() as stack:
        started = [stack.enter_context(process("open", path, mark)) for mark in marks]
        for one in started:
            assert one.stdout is not None
            assert one.stdout.readline() == "ready\n"
        for one in started:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        for one in started:
            ended(one)
    async with Memory.open(path, embedder=None) as memory:
        assert {episode.input for episode in await memory.store.episodes(None)} == set(marks)
        (block,) = await memory.working()
        assert sorted(block.content.splitlines()) == marks
    assert intact(path)


def test_a_program_may_end_without_closing_anything(path: Path) -> None:
    with process("leave", path) as started:
        assert ended(started).strip() == "8"
    assert intact(path)


# Files that are not for us


def folder_of(path: Path) -> dict[str, bytes]:
    """All files in the folder of a file, with what is in them."""
    return {entry.name: entry.read_bytes() for entry in path.parent.iterdir()}


async def attempts(path: Path, error: type[StoreError]) -> None:
    """Every way in is refused, again and again."""
    memory = Memory.open(path, embedder=None)
    for _ in range(2):
        with pytest.raises(error, match=str(path)):
            await memory.working()
        with pytest.raises(error, match=str(path)):
            await memory.remember(Episode("x", "", session_id="s"))
        with pytest.raises(error, match=str(path)):
            await memory.store.open()
    await memory.aclose()


async def test_a_file_of_a_newer_version_is_refused_and_left_alone(path: Path) -> None:
    async with Memory.open(path, embedder=None) as memory:
        await memory.update_block("profile", "x")
    with closing(sqlite3.connect(path)) as db:
        newest = db.execute("PRAGMA user_version").fetchone()[0]
        db.execute(f"PRAGMA user_version = {newest + 1}")
        db.execute("CREATE TABLE added_later (x)")
        db.commit()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = folder_of(path)
    await attempts(path, SchemaError)
    assert folder_of(path) == before


def sqlite_file(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        for statement in ("CREATE TABLE notes (x)", "INSERT INTO notes VALUES ('kept')", *statements):
            db.execute(statement)
        db.commit()


FOREIGN: dict[str, Callable[[Path], object]] = {
    "another program": sqlite_file,
    "another program with versions": lambda path: sqlite_file(path, "PRAGMA user_version = 1"),
    "another program with an id": lambda path: sqlite_file(path, "PRAGMA application_id = 77"),
    "text": lambda path: path.write_text("dear diary, " * 500, encoding="utf-8"),
    "a picture": lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20),
    "short text": lambda path: path.write_text("xx", encoding="utf-8"),
    "a header and no more": lambda path: path.write_bytes(b"SQLite format 3\0" + b"\xff" * 3000),
}


@pytest.mark.parametrize("kind", list(FOREIGN))
async def test_a_file_that_is_not_a_memory_is_refused_and_left_alone(path: Path, kind: str) -> None:
    FOREIGN[kind](path)
    before = folder_of(path)
    await attempts(path, StoreError if kind == "a header and no more" else SchemaError)
    assert folder_of(path) == before


async def test_an_empty_file_becomes_a_memory(path: Path) -> None:
    sqlite3.connect(path).close()
    assert folder_of(path) == {path.name: b""}
    async with Memory.open(path, embedder=None) as memory:
        await memory.update_block("profile", "x")
    assert intact(path)


async def test_a_folder_is_no_memory(tmp_path: Path) -> None:
    await attempts(tmp_path, StoreError)
    assert folder_of(tmp_path / "any") == {}


if __name__ == "__main__":
    main()
