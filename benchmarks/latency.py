"""Measures how long loomflow takes, and peers on the same corpus: CPU, wall clock and memory of every case.

    python benchmarks/latency.py --reference --peers

Each case runs in a process of its own. The results are printed, and written to `results/latency.md`, `latency.json` and
`latency_growth.svg`, with the command line, the machine and the date. See `README.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sqlite3
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from latency_growth import plot, point
from latency_peers import LARGEST, searches
from latency_processes import HERE, REFERENCE, REMOVED, Bench
from latency_report import markdown

RESULTS = HERE / "results"
SIZES = (1_000, 10_000, 100_000)
BETWEEN = (100, 300, 3_000, 30_000)
"""Further sizes of the growth curve."""
MANY, FEWER = (1_000_000, 10_000), (100_000, 1_000)
"""Episodes and users of the case with many users; `FEWER` with `--fewer-users`."""
IMPORTS = ("import loomflow", "from loomflow import Memory", "from loomflow import Agent")
REFERENCE_IMPORTS = ("import loomflow", "from loomflow import Agent")

__all__ = ["REMOVED", "machine"]


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
        "growth": dict[str, Any](),
    }
    python = ""
    if options.reference or options.reference_python:
        python = bench.reference_python()
        costs = bench.import_costs(python, REFERENCE_IMPORTS)
        results["reference"] = {"package": REFERENCE, "imports": costs, "sizes": dict[str, Any]()}
    if options.peers:
        results["peers"] = dict[str, Any]()
    for size in sorted({*options.sizes, *options.between}):
        _measure_size(bench, results, size, python)
    if not options.one_user:
        results["many_users"] = bench.crowd(*options.many)
    return results


def _measure_size(bench: Bench, results: dict[str, Any], size: int, python: str) -> None:
    """Ours, then everyone else's at once: the machine is not equally fast at all times."""
    key, options = str(size), bench.options
    if size not in options.sizes:
        results["growth"][key] = point(bench.curve(size))
        return
    values = results["sizes"][key] = bench.ours(size)
    results["growth"][key] = point(values)
    if python and (size <= LARGEST or options.reference_full):
        results["reference"]["sizes"][key] = bench.reference(size, python)
    if options.peers and size <= LARGEST:
        results["peers"][key] = searches(size, options.peers_dir)


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def parse() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--sizes", type=numbers, help="episodes of one user, as in 1000,10000; no growth curve between")
    made.add_argument("--quick", action="store_true", help="tiny sizes and few repetitions: does it run?")
    made.add_argument("--one-user", action="store_true", help="leave out the case with many users")
    made.add_argument("--fewer-users", action="store_true", help="1,000 with 100,000 episodes, not ten times as many")
    made.add_argument("--reference", action="store_true", help=f"also measure all calls of {REFERENCE}")
    made.add_argument("--reference-python", help="an interpreter that has it; implies --reference")
    made.add_argument("--reference-full", action="store_true", help="also above 10,000 episodes: many minutes")
    made.add_argument("--env-dir", help="folder for its virtual environment; a temporary one by default")
    made.add_argument("--peers", action="store_true", help="also measure the search of peers, up to 10,000 episodes")
    made.add_argument("--peers-dir", type=Path, help="folder of their environments; benchmarks/.peers by default")
    made.add_argument("--work-dir", help="folder for the databases; a temporary one by default")
    made.add_argument("--output", type=Path, help="folder for the results; benchmarks/results, or none with --quick")
    made.add_argument("--profile", type=int, metavar="SIZE", help="only print where the time goes at this size")
    made.add_argument(
        "--profiled", default="inject", choices=["inject", "inject_fill", "cold", "cold_fill", "remember"]
    )
    options = made.parse_args()
    options.between = [] if options.sizes else [100] if options.quick else list(BETWEEN)
    options.sizes = options.sizes or ([300] if options.quick else list(SIZES))
    options.many = (options.sizes[0], 10) if options.quick else FEWER if options.fewer_users else MANY
    return options


def main() -> None:
    options = parse()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.work_dir or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if options.profile:
            bench, size = Bench(options, folder), options.profile
            path, _ = bench.build(size)
            print(bench.case("latency_profile", options.profiled, path, size, repeat=50)["text"])
            return
        results = measure(options, folder)
    text = markdown(results)
    print(text)
    output = options.output or (None if options.quick else RESULTS)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        (output / "latency.md").write_text(text, encoding="utf-8")
        (output / "latency.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        (output / "latency_growth.svg").write_text(plot(results), encoding="utf-8")


if __name__ == "__main__":
    main()
