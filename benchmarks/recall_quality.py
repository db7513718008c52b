"""Measures how much of what answers a question is injected under a budget, and how much peers put in the same budget.

    python benchmarks/recall_quality.py benchmarks/data --ablation --floor
    python benchmarks/recall_quality.py benchmarks/data locomo10.json --ablation --floor --peers

No model judges: what counts is whether the turns that hold the answer are in the block, see `scoring.py`. The results
are printed, and written to `results/recall_quality.md`, `.json` and `.svg`, with the command line, the machine and the
date. See `README.md`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from conversations import Conversation, Question, load
from latency import machine
from peers.environments import PEERS, Environments
from recall_quality_cases import (
    BUDGETS,
    BY_CHARACTERS,
    CONTENTLESS,
    FLOOR_BUDGET,
    MODES,
    NOT_MAIN,
    OF_VECTORS,
    OFF_TOPIC,
    SIGNALS,
    THRESHOLDS,
    DataSet,
    Filled,
    Memo,
    ablation,
    floor,
    recalled,
)
from recall_quality_plot import plot
from recall_quality_report import markdown
from scoring import Score, mean, score

from loomflow import EmbedderError, Memory
from loomflow.embedders import resolve_embedder

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
EMBEDDERS = {
    "default": "the static vectors that come with the package",
    "none": "no embedder: keyword search only",
    "minilm": "all-MiniLM-L6-v2, int8 ONNX, as `onnx:DIRECTORY`",
}
QUICK_BUDGETS, QUICK_THRESHOLDS, QUICK_SIGNALS = (256, 1000), (0.0, 0.05), ("nearby", "vector")
QUICK_QUESTIONS = 8


class Bench:
    """One run: its settings, its data, and the results so far."""

    def __init__(self, options: argparse.Namespace, data: Sequence[DataSet]) -> None:
        self.options = options
        self.data = data
        self.budgets, self.thresholds, self.signals = BUDGETS, THRESHOLDS, SIGNALS
        if options.quick:
            self.budgets, self.thresholds, self.signals = QUICK_BUDGETS, QUICK_THRESHOLDS, QUICK_SIGNALS
        self.environments = Environments(options.peers_dir)
        self.results: dict[str, Any] = {
            "command": command(),
            "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "machine": machine(),
            "quick": options.quick,
            "budgets": list(self.budgets),
            "embedders": {name: EMBEDDERS[name] for name in options.embedders},
            "prompts": {"contentless": list(CONTENTLESS), "off_topic": list(OFF_TOPIC)},
            "floor_budget": FLOOR_BUDGET,
            "data": {one.name: described(one) for one in data},
        }

    async def run(self) -> None:
        """Everything that was asked for; the peers last."""
        for name in self.options.embedders:
            embedder = self.embedder(name)
            for data in self.data:
                async with Memory.open("inmemory", embedder=embedder) as memory:
                    say(f"{data.name}, embedder {name}: storing")
                    await self.measure(await Filled.of(memory, embedder, data), name)
        for rows in self.results["recall"].values():  # one mode after the other reads better
            for how in (MODES[0], BY_CHARACTERS, MODES[1]):
                rows |= {name: rows.pop(name) for name in list(rows) if name.partition(", ")[0] == how.name}
        if self.options.peers:
            self.peers()

    async def measure(self, filled: Filled, name: str) -> None:
        data = filled.data
        for how in (*MODES, *([BY_CHARACTERS] if data.is_wide else [])):
            say(f"{data.name}, embedder {name}: mode {how.name}")
            found = await recalled(filled, how, self.budgets)
            self.keep("recall", data.name, f"{how.name}, {name}", row(data, found.scores, found.cpu_ms))
        if self.options.ablation:
            say(f"{data.name}, embedder {name}: without each signal")
            signals = [signal for signal in self.signals if name != "none" or signal not in OF_VECTORS]
            self.keep("ablation", data.name, name, await ablation(filled, self.budgets, signals))
        if self.options.floor:
            for how in MODES:
                say(f"{data.name}, embedder {name}: thresholds of relevance, mode {how.name}")
                self.keep("floor", data.name, f"{how.name}, {name}", await floor(filled, how, self.thresholds))

    def keep(self, what: str, data: str, row: str, values: Any) -> None:
        self.results.setdefault(what, {}).setdefault(data, {})[row] = values

    def peers(self) -> None:
        """The same questions and budgets, asked of every peer."""
        described = self.results["peers"] = dict[str, Any]()
        for data in self.data:
            for peer in PEERS:
                found = self.environments.recall(peer, data.conversations, self.budgets)
                name = f"{peer.name} {found.version.rpartition(' ')[2]}"
                described[name] = {"package": found.version, "note": found.note, "minilm": peer.embedder}
                scores = {
                    question.id: {
                        budget: score(found.blocks[question.id][budget], question.gold_texts, budget)
                        for budget in self.budgets
                    }
                    for _, question in data.questions
                }
                self.keep("recall", data.name, name, row(data, scores, found.search_cpu_ms_median))

    def embedder(self, name: str) -> Memo | None:
        if name == "none":
            return None
        if name == "default":
            made = resolve_embedder("default")
            assert made is not None
            return Memo(made)
        folder = self.environments.onnx_dir()
        made = resolve_embedder(f"onnx:{folder}")
        assert made is not None
        # The peers keep theirs in the same file; the name of the embedder tells the two apart.
        from peers.minilm import CACHE, VectorCache  # noqa: PLC0415 - needs onnxruntime

        os.environ.setdefault(CACHE, str(self.environments.home / "vectors"))
        return Memo(made, VectorCache(made.name))


def row(data: DataSet, scores: Mapping[str, Mapping[int, Score]], cpu_ms: float) -> dict[str, Any]:
    """What is kept of a system and a data set."""
    return {"cpu_ms": round(cpu_ms, 2), "scores": averages(data, scores)}


def averages(data: DataSet, scores: Mapping[str, Mapping[int, Score]]) -> dict[str, dict[int, dict[str, float]]]:
    """The mean scores of the main categories together and of every category, for each budget."""
    groups: dict[str, list[str]] = {"main": [question.id for _, question in data.main]}
    for _, question in data.questions:
        groups.setdefault(question.category, []).append(question.id)
    return {
        group: {budget: rounded(mean([scores[one][budget] for one in ids])) for budget in scores[ids[0]]}
        for group, ids in groups.items()
        if ids
    }


def rounded(one: Score) -> dict[str, float]:
    return {name: round(value, 5) for name, value in asdict(one).items()}


def described(data: DataSet) -> dict[str, Any]:
    """How much there is of a data set, and in which categories its questions are."""
    categories: dict[str, int] = {}
    for _, question in data.questions:
        categories[question.category] = categories.get(question.category, 0) + 1
    return {
        "conversations": [one.id for one in data.conversations],
        "episodes": sum(len(one.episodes) for one in data.conversations),
        "main": len(data.main),
        "categories": categories,
        "not_main": NOT_MAIN if NOT_MAIN in categories else None,
        "wide": data.is_wide,
    }


def read(paths: Iterable[Path], *, quick: bool) -> list[DataSet]:
    """The data sets of files and folders.

    Raises:
        FileNotFoundError: one is missing, or a folder has none.
        ValueError: a file is something else.
    """
    files: list[Path] = []
    for path in paths:
        found = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not found:
            raise FileNotFoundError(f"the folder {path} has no data set: no file *.json")
        files += found
    sets = [DataSet(file.stem, tuple(load(file))) for file in files]
    return [slice_of(one) for one in sets] if quick else sets


def slice_of(data: DataSet) -> DataSet:
    """A few questions of the first conversation, from all over it."""
    first: Conversation = data.conversations[0]
    step = max(len(first.questions) // QUICK_QUESTIONS, 1)
    asked: tuple[Question, ...] = first.questions[::step]
    return DataSet(data.name, (replace(first, questions=asked),))


def command() -> str:
    """The command line; of what lies outside of the project, the name alone."""
    shown = [argument if not Path(argument).is_absolute() else Path(argument).name for argument in sys.argv[1:]]
    return shlex.join(["python", "benchmarks/recall_quality.py", *shown])


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def names(text: str) -> list[str]:
    wanted = text.split(",")
    if not wanted or not set(wanted) <= EMBEDDERS.keys():
        raise argparse.ArgumentTypeError(f"embedders are {', '.join(EMBEDDERS)}, got {text}")
    return wanted


def parse() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("data", type=Path, nargs="+", help="LoCoMo, a data set of this project, or a folder")
    made.add_argument("--embedders", type=names, default=list(EMBEDDERS), help="as in default,none,minilm")
    made.add_argument("--ablation", action="store_true", help="also measure what each signal is worth")
    made.add_argument("--floor", action="store_true", help="also measure what memory_min_relevance costs and keeps out")
    made.add_argument("--peers", action="store_true", help="also ask the peers; makes their environments at first")
    made.add_argument("--peers-dir", type=Path, help="folder of the peers and of MiniLM; benchmarks/.peers by default")
    made.add_argument("--quick", action="store_true", help="a few questions of each data set: does it run?")
    made.add_argument("--output", type=Path, help="folder for the results; benchmarks/results, or none with --quick")
    return made.parse_args()


def main() -> None:
    options = parse()
    try:
        data = read(options.data, quick=options.quick)
    except (FileNotFoundError, ValueError) as error:
        sys.exit(str(error))
    bench = Bench(options, data)
    try:
        asyncio.run(bench.run())
    except EmbedderError as error:
        sys.exit(str(error))
    results = json.loads(json.dumps(bench.results))  # as they will be read from the file: keys are strings
    text = markdown(results)
    print(text)
    output = options.output or (None if options.quick else RESULTS)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        (output / "recall_quality.md").write_text(text, encoding="utf-8")
        (output / "recall_quality.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        (output / "recall_quality.svg").write_text(plot(results), encoding="utf-8")


if __name__ == "__main__":
    main()
