"""What the pages take from the code (lists, tables, figures, a drawing) is what the code says."""

from __future__ import annotations

import dataclasses
import importlib
import re
import sys
from pathlib import Path
from typing import get_args

import pytest

from loomflow import Tuning
from loomflow.context import compaction, counting, limits
from loomflow.distill import guards
from loomflow.distill.guards import admitted
from loomflow.distill.statements import BlockAddition, Reading, Reason, Said, Statement
from loomflow.predicates import SINGLE_VALUED, SINGLE_VALUED_ENDS, SINGLE_VALUED_STARTS, SYNONYMS

ROOT = Path(__file__).parents[2]
FACTS = (ROOT / "docs" / "facts.md").read_text(encoding="utf-8")
DISTILL = (ROOT / "docs" / "distill.md").read_text(encoding="utf-8")
CONTEXT = (ROOT / "docs" / "context.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
FIGURES = (ROOT / "benchmarks" / "results" / "distill_cost.md").read_text(encoding="utf-8")
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)


def rows(page: str, first_head: str) -> list[list[str]]:
    """The rows of the table whose first column has this head."""
    (table,) = [table for table in TABLE.findall(page) if table.startswith(f"| {first_head} |")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def names(text: str) -> list[str]:
    """Names between commas, in text that may run over lines of a quotation."""
    return [name.strip() for name in re.sub(r"\n>? ?", " ", text).split(",")]


def test_the_page_lists_the_predicates_of_one_value() -> None:
    quotation = re.search(r"The list:\n\n> (.*?)\n\n", FACTS, re.DOTALL)
    assert quotation is not None
    assert len(names(quotation[1])) == len(set(names(quotation[1])))
    assert set(names(quotation[1])) == SINGLE_VALUED


@pytest.mark.parametrize(
    ("verb", "parts"), [("begins", SINGLE_VALUED_STARTS), ("ends", SINGLE_VALUED_ENDS)], ids=["begins", "ends"]
)
def test_the_page_lists_how_they_begin_and_end(verb: str, parts: tuple[str, ...]) -> None:
    line = re.search(rf"^- {verb} with: (.*)[;.]$", FACTS, re.MULTILINE)
    assert line is not None
    assert names(line[1]) == [part.strip() for part in parts]


def test_the_page_lists_the_synonyms() -> None:
    listed = {synonym: name for name, synonyms in rows(FACTS, "Compared as") for synonym in names(synonyms)}
    assert listed == SYNONYMS


REASONS = {row[0].strip("`"): row[1:] for row in rows(DISTILL, "Reason")}


def read(predicate: str = "lives_in", object: str = "Porto", quote: str = "I live in Porto") -> Statement:
    return Statement(subject="user", predicate=predicate, object=object, quote=quote)


def test_the_page_has_every_reason_with_its_limits() -> None:
    assert set(REASONS) == set(get_args(Reason))
    limits = [guards.MAX_NAME_CHARS, guards.MAX_VALUE_CHARS, guards.MAX_QUOTE_CHARS]
    assert re.findall(r"\d+", REASONS["too long"][0]) == list(map(str, limits))
    assert re.findall(r"\d+", REASONS["over the cap"][0]) == [str(guards.MAX_FACTS_A_RUN)] * 2


@pytest.mark.parametrize("reason", [reason for reason, (_, turn, _) in REASONS.items() if turn])
def test_the_example_of_a_reason_is_refused_for_it(reason: str) -> None:
    _, turn, what = REASONS[reason]
    statement, _, quote = what.partition(": ")
    subject, predicate, object = statement.split(" ", 2)
    assert subject == "user"
    admission = admitted(Reading(facts=(read(predicate, object, quote),)), Said(turn))
    assert [refused.reason for refused in admission.refused] == [reason]


def test_the_reasons_without_an_example_are_those_of_whole_readings_and_of_size() -> None:
    many = [read(f"p{number}") for number in range(guards.MAX_FACTS_A_RUN)]
    facts = (read(object="x" * (guards.MAX_VALUE_CHARS + 1)), read(), read(), *many)
    line = BlockAddition(block="profile", text="Lives in Porto", quote="I live in Porto")
    admission = admitted(Reading(facts=facts, blocks=(line,)), Said("I live in Porto."))
    refused = {refused.reason for refused in admission.refused}
    assert refused == {reason for reason, (_, turn, _) in REASONS.items() if not turn}


@pytest.mark.parametrize(("page", "script"), [("facts", "timeline"), ("context", "request")])
async def test_the_drawing_is_what_the_example_of_its_page_gives(
    monkeypatch: pytest.MonkeyPatch, page: str, script: str
) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "docs"), *sys.path])
    drawn = (ROOT / "docs" / f"{page}.svg").read_text(encoding="utf-8")
    assert drawn == await importlib.import_module(script).drawing(), f"run: python docs/{script}.py"


@pytest.mark.parametrize("name", ["prompt_cache", "estimate"])
def test_the_page_on_context_has_the_tables_of_the_benchmarks(name: str) -> None:
    results = (ROOT / "benchmarks" / "results" / f"{name}.md").read_text(encoding="utf-8")
    assert [table for table in TABLE.findall(results) if table not in CONTEXT] == []


def test_the_page_on_context_has_the_limits_of_the_code() -> None:
    def share(name: str) -> str:
        return {0.5: "½", 0.75: "0.75", 0.25: "¼"}[getattr(limits, name)]

    on_tools, on_history, on_result, on_all = (
        cells[2] for cells in rows(CONTEXT, "Part") if cells[0] in {"tools", "history", "transcript", "all of it"}
    )
    assert on_tools.startswith(f"{share('TOOLS_SHARE')} of the window")
    assert on_history == f"{share('HISTORY_SHARE')} of the window"
    assert on_result == f"{Tuning().tool_result_max_tokens:,} a result"
    assert on_all.startswith(f"{share('COMPACT_SHARE')} of the window")
    assert f"{limits.UNKNOWN_WINDOW:,} is reckoned with" in CONTEXT
    assert f"Each counts {counting.MEDIA_TOKENS} tokens" in CONTEXT
    assert f"{compaction.MAX_SUMMARY_TOKENS:,} at most" in CONTEXT
    assert f"about {({0.1: 'a tenth'})[compaction.SUMMARY_SHARE]} of the trigger" in CONTEXT
    assert f"its first and last {compaction.MAX_MESSAGE_CHARS // 2:,} characters" in " ".join(CONTEXT.split())
    assert counting.CALL_TOKENS == counting.DEFINITION_TOKENS
    assert f"It counts {counting.MESSAGE_TOKENS} tokens for each message" in CONTEXT
    assert f"and {counting.CALL_TOKENS} for each call, result and tool definition" in " ".join(CONTEXT.split())


def test_the_readme_lists_every_setting_with_its_default() -> None:
    listed: dict[str, str] = {}
    for names_, defaults, _ in rows(README, "Setting"):
        listed |= dict(zip(names(names_), names(defaults), strict=True))
    fields = {f"`{field.name}`": field.default for field in dataclasses.fields(Tuning)}
    assert set(listed) == set(fields)
    for name, default in fields.items():
        shown = f'"{default}"' if isinstance(default, str) else repr(default)
        assert listed[name].strip("`").replace(",", "").replace("_", "") == shown.replace("_", ""), name


def test_the_page_has_the_figures_of_the_benchmark() -> None:
    for table in TABLE.findall(FIGURES):
        assert table in DISTILL, "docs/distill.md does not have the tables of benchmarks/results/distill_cost.md"


def test_the_benchmark_still_counts_what_every_request_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    benchmark = importlib.import_module("distill_cost")
    assert benchmark.fixed_table() in FIGURES, "run: python benchmarks/distill_cost.py"
    assert len(TABLE.findall(benchmark.page())) == len(TABLE.findall(FIGURES))
