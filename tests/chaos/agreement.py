"""Whether what a memory stores agrees: rows, keyword index and vectors, of every user."""

from __future__ import annotations

from loomflow import Memory


async def agreement(memory: Memory) -> list[str]:
    """What does not agree, in words; nothing if all is well. Reads the whole index as it is stored."""
    wrong = [str(fault) for fault in (await memory.check()).faults]
    stats = await memory.stats()
    if memory.embedder is not None and stats.unembedded:
        wrong.append(f"stats count {stats.unembedded} without a vector")
    return wrong
