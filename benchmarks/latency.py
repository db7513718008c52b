"""Measures how long loomflow takes, and a peer on the same corpus: CPU, wall clock and peak memory of every case.

    python benchmarks/latency.py --reference

Each case runs in a process of its own. The results are printed, and written to `results/latency.md` and
`results/latency.json`, with the command line, the machine and the date. See `README.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from latency_report import markdown

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
REFERENCE = "loomflow==0.20.0"
SIZES = (1_000, 10_000, 100_000)
MANY = (200_000, 2_000)
"""Episodes and users of the case with many users."""
READS = ("recall", "recall_facts", "inject", "inject_unbounded")
REMOVED = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
"""Not passed on to the measuring processes: they make numpy choose kernels of another processor."""
IMPORTS = {
    "python": "pass",
    "import loomflow": "import loomflow",
    "from loomflow import Memory": "from loomflow import Memory",
    "from loomflow import Agent": "from loomflow import Agent",
}
PEER_IMPORTS = {
    "python": "pass",
    "import loomflow": "import loomflow",
    "from loomflow import Agent": "from loomflow import Agent",
}
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
        self.environment = {
            name: value for name, value in os.environ.items() if name not in {*REMOVED, "PYTHONPATH", "PYTHONHOME"}
        }
        self.removed = [name for name in REMOVED if name in os.environ]
        self.reads = 10 if options.quick else 200
        self.alone = 1 if options.quick else 5
        self.writes = 20 if options.quick else 1000
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
        return path, cost | {"file_mb": round(path.stat().st_size / 1e6, 1)}

    def ours(self, size: int, users: int = 1) -> dict[str, Any]:
        """All cases of one corpus."""
        path, cost = self.build(size, users)
        values: dict[str, Any] = {"build": cost}
        reads = READS if users == 1 else ("inject", "inject_everyone")
        for case in reads:
            values[case] = self.case(
                "latency_cases",
                case,
                path,
                size,
                users=users,
                repeat=self.reads,
                warm_up=self.reads // 10,
                alone=self.alone,
            )
        starts = [self.case("latency_cases", "cold", path, size, users=users) for _ in range(self.starts)]
        values["cold"] = medians(starts)
        values["cold"]["fresh_process"] = self.fresh(path)
        copied = self.copy(path)
        values["remember"] = self.case(
            "latency_cases", "remember", copied, size, users=users, repeat=self.writes, warm_up=5
        )
        copied.unlink()
        return values

    def fresh(self, path: Path) -> dict[str, float]:
        """A whole process that opens a memory and makes one injection, interpreter included."""
        command = [sys.executable, "-c", FRESH, str(path)]
        runs = [process_cost(command, self.environment) for _ in range(self.starts)]
        return {name: round(statistics.median(run[name] for run in runs), 3) for name in runs[0]}

    def peer(self, size: int, python: str) -> dict[str, Any]:
        """All cases of one corpus with the peer: few repetitions, as a single call may take seconds."""
        path = self.folder / f"peer-{size}.db"
        path.unlink(missing_ok=True)
        self.case("reference_loomflow", "build", path, size, python)
        repeat = 5 if self.options.quick else 15 if size <= 1_000 else 7 if size <= 10_000 else 2
        warm_up = 1 if size <= 10_000 else 0
        values = {
            case: self.case("reference_loomflow", case, path, size, python, repeat=repeat, warm_up=warm_up)
            for case in READS
        }
        copied = self.copy(path)
        values["remember"] = self.case(
            "reference_loomflow", "remember", copied, size, python, repeat=self.writes, warm_up=5
        )
        copied.unlink()
        return values

    def copy(self, path: Path) -> Path:
        return Path(shutil.copy(path, path.with_suffix(".copy.db")))

    def import_costs(self, python: str, statements: Mapping[str, str]) -> dict[str, dict[str, float]]:
        """Cost of a process that runs each statement, and what that is over bare Python; taken in turns."""
        say(f"imports: {self.imports} processes for each of {len(statements)} statements")
        costs: dict[str, list[dict[str, float]]] = {name: [] for name in statements}
        for turn in range(self.imports + 1):
            for name, statement in statements.items():
                cost = process_cost([python, "-c", statement], self.environment)
                if turn > 0:  # the first one may have had to compile
                    costs[name].append(cost)
        values = {
            name: {key: round(statistics.median(run[key] for run in runs), 3) for key in runs[0]}
            for name, runs in costs.items()
        }
        bare = values["python"]["cpu_ms"]
        return {name: value | {"over_python_ms": round(value["cpu_ms"] - bare, 3)} for name, value in values.items()}


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


def reference_python(options: argparse.Namespace, folder: Path) -> str:
    """The interpreter that has the peer; makes a virtual environment for it unless one is given."""
    if options.reference_python:
        return options.reference_python
    home = Path(options.env_dir or folder / "reference")
    python = home / "bin" / "python"
    if not python.exists():
        say(f"making a virtual environment with {REFERENCE}")
        venv.create(home, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", REFERENCE]
        subprocess.run(install, check=True, stdout=sys.stderr)
    return str(python)


def machine() -> dict[str, Any]:
    """Where the numbers were measured."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "cores": os.cpu_count(),
        "processor": models[0] if models else platform.processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "load_before": round(os.getloadavg()[0], 2),
    }


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run everything that was asked for."""
    bench = Bench(options, folder)
    results: dict[str, Any] = {
        "command": shlex.join(["python", "benchmarks/latency.py", *sys.argv[1:]]),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": machine(),
        "not_passed_on": list(REMOVED),
        "were_set": bench.removed,
        "repetitions": {
            "reads": bench.reads,
            "alone": bench.alone,
            "writes": bench.writes,
            "starts": bench.starts,
            "imports": bench.imports,
        },
        "imports": bench.import_costs(sys.executable, IMPORTS),
        "sizes": dict[str, Any](),
    }
    python, peers = "", dict[str, Any]()
    if options.reference or options.reference_python:
        python = reference_python(options, folder)
        costs = bench.import_costs(python, PEER_IMPORTS)
        results["reference"] = {"package": REFERENCE, "imports": costs, "sizes": peers}
    for size in options.sizes:  # one right after the other: the machine is not equally fast at all times
        results["sizes"][str(size)] = bench.ours(size)
        if python and (size <= 10_000 or options.reference_full):
            peers[str(size)] = bench.peer(size, python)
    if not options.one_user:
        episodes, users = (options.sizes[0], 10) if options.quick else MANY
        results["many_users"] = {"episodes": episodes, "users": users} | bench.ours(episodes, users)
    return results


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def parse() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--sizes", type=numbers, help="episodes of one user, as in 1000,10000")
    made.add_argument("--quick", action="store_true", help="tiny sizes and few repetitions: does it run?")
    made.add_argument("--one-user", action="store_true", help="leave out the case with many users")
    made.add_argument("--reference", action="store_true", help=f"also measure the peer {REFERENCE}")
    made.add_argument("--reference-python", help="an interpreter that has the peer; implies --reference")
    made.add_argument("--reference-full", action="store_true", help="the peer also above 10,000 episodes: many minutes")
    made.add_argument("--env-dir", help="folder for the peer's virtual environment; a temporary one by default")
    made.add_argument("--work-dir", help="folder for the databases; a temporary one by default")
    made.add_argument("--output", type=Path, help="folder for the results; benchmarks/results, or none with --quick")
    made.add_argument("--profile", type=int, metavar="SIZE", help="only print where the time goes at this size")
    made.add_argument("--profiled", default="inject", choices=["inject", "cold", "remember"])
    options = made.parse_args()
    options.sizes = options.sizes or ([200] if options.quick else list(SIZES))
    return options


def main() -> None:
    options = parse()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.work_dir or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if options.profile:
            bench, size = Bench(options, folder), options.profile
            path, _ = bench.build(size)
            print(bench.case("latency_cases", "profile", path, size, repeat=50, profiled=options.profiled)["text"])
            return
        results = measure(options, folder)
    text = markdown(results)
    print(text)
    output = options.output or (None if options.quick else RESULTS)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        (output / "latency.md").write_text(text, encoding="utf-8")
        (output / "latency.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
