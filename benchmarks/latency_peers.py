"""Other libraries beside loomflow: the reference, of which all calls are measured, and the search of the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pages import ms, table

LARGEST = 10_000
"""Peers take seconds a call above that."""
CALLS = {
    "recall": "recall_scored, 12 episodes",
    "recall_facts": "recall_facts, 5 facts",
    "remember": "remember, one durable episode",
    "inject": "inject, budget 1,500 tokens",
    "inject_unbounded": "inject, no budget",
}
OURS = {"recall": "recall_scored", "inject": "inject, top", "inject_fill": "inject, fill"}


def searches(size: int, home: Path | None) -> dict[str, Any]:
    """The search of each peer among so many episodes."""
    from peers.environments import TIMED, Environments  # noqa: PLC0415 - imports latency, which imports this

    environments = Environments(home)
    return {peer.name: asdict(environments.latency(peer, size)) for peer in TIMED}


def without_embedding(values: Mapping[str, Any]) -> float:
    """The median CPU of a call less what the embedding of its question takes."""
    return values["cpu_ms"]["median"] - values["embedding_cpu_ms"]


def peers(results: Mapping[str, Any]) -> str:
    """The tables of what there is of peers."""
    parts = [part(results) for key, part in (("peers", _searches), ("reference", _reference)) if key in results]
    return "\n\n".join(parts)


def _searches(results: Mapping[str, Any]) -> str:
    sizes = {size: [without_embedding(results["sizes"][size][case]) for case in OURS] for size in results["peers"]}
    own = [(f"{int(size):,}", *map(ms, calls)) for size, calls in sizes.items()]
    rows = [
        (f"{int(size):,}", peer, values["version"], ms(values["search_cpu_ms_median"]),
         *(ms(values["search_cpu_ms_median"] / call) for call in sizes[size]),
         f"{values['add_cpu_s'] * 1000 / values['episodes']:.2f}", values["note"])
        for size, of in results["peers"].items()
        for peer, values in of.items()
    ]  # fmt: skip
    ratios = [f"/ {name}" for name in OURS.values()]
    heads = ("episodes", "peer", "version", "search", *ratios, "add an episode", "set up as")
    return (
        "## Peers\n\nThe same corpus and questions in the same run; median CPU milliseconds, without the embedding of "
        f"the question. loomflow:\n\n{table(('episodes', *OURS.values()), own)}\n\nPeers get random vectors of 384 "
        "dimensions. Their search is for the ten best items, which are not put into a text yet. Columns with a slash "
        f"say how many times loomflow's call that is.\n\n{table(heads, rows)}"
    )


def _reference(results: Mapping[str, Any]) -> str:
    reference = results["reference"]
    heads = (
        "episodes",
        "call",
        "loomflow CPU",
        "reference CPU",
        "ratio",
        "loomflow MB",
        "reference MB",
        "loomflow loop",
        "reference loop",
    )
    return (
        f"## Reference\n\n`{reference['package']}` of the package index, another library of this name: its SQLite "
        "memory with its default embedder, in the same run, on the same corpus and questions. Medians.\n\n"
        f"{table(heads, list(_ratios(results)))}"
    )


def _ratios(results: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for size, theirs in results["reference"]["sizes"].items():
        ours = results["sizes"][size]
        for case, name in CALLS.items():
            if case in theirs:
                ours_ms, theirs_ms = (whose[case]["cpu_ms"]["median"] for whose in (ours, theirs))
                times = (ms(ours_ms), ms(theirs_ms), f"{theirs_ms / ours_ms:.1f}")
                others = [f"{whose[case][key]:.0f}" for key in ("peak_mb", "yardstick_ms") for whose in (ours, theirs)]
                yield (f"{int(size):,}", name, *times, *others)
