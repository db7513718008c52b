"""From statements to facts; who is at a run in the queue; and the work in the background."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomflow import Episode, Fact, Memory, ModelError, StoreError
from loomflow.distill import background
from loomflow.distill.background import Background
from loomflow.distill.claims import is_dead, new_claim
from loomflow.distill.guards import admitted
from loomflow.distill.learning import fact_of, learning
from loomflow.distill.statements import Reading, Said, Statement
from loomflow.stores.sqlite import SQLiteStore
from loomflow.testing import ManualClock
from loomflow.transactions import Rules

TOLD = datetime(2026, 3, 2, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def day(year: int, month: int = 1, day: int = 1) -> datetime:
    return datetime(year, month, day, tzinfo=UTC)


def statement(object_: str = "Turin", **fields: Any) -> Statement:
    known: dict[str, Any] = {"subject": "user", "predicate": "lives_in", "quote": "as I said"}
    return Statement(object=object_, **(known | fields))


def episode(at: datetime = TOLD, **fields: Any) -> Episode:
    known: dict[str, Any] = {"id": "e", "session_id": "s", "user_id": "ana"}
    return Episode("Hello", "Hi", occurred_at=at, **(known | fields))


# What a statement states


@pytest.mark.parametrize(
    ("named", "since"),
    [
        (None, None),
        ("", None),
        ("2026-03-02", TOLD),  # today: after all that was said before
        ("2026-03-02T08:00", TOLD),
        ("2026-03", None),  # a month that is going on: it began before that was said
        ("2026", None),
        ("2026-03-01", day(2026, 3, 1)),
        ("2026-02", day(2026, 2)),
        ("2024", day(2024)),
        ("2024-06-15", day(2024, 6, 15)),
        ("2026-04", day(2026, 4)),
        ("2027", day(2027)),
        ("last spring", None),
        ("2026-02-30", None),
        ("0000-00", None),
        ("٢٠٢٤", None),
    ],
)
def test_a_start_is_when_it_began_as_far_as_was_said(named: str | None, since: datetime | None) -> None:
    fact = fact_of(statement(valid_from=named), episode())
    assert (fact.valid_from, fact.valid_until, fact.told_at) == (since, None, TOLD)


@pytest.mark.parametrize(
    ("named", "until"),
    [
        (None, None),
        ("2024", day(2025)),
        ("2024-06", day(2024, 7)),
        ("2024-06-15", day(2024, 6, 15)),
        ("2026", TOLD),
        ("2027", day(2028)),
        ("some day", None),
    ],
)
def test_an_end_is_the_end_of_what_was_named(named: str | None, until: datetime | None) -> None:
    assert fact_of(statement(valid_until=named), episode()).valid_until == until


@pytest.mark.parametrize(
    ("named", "until"), [(None, TOLD), ("2024", day(2025)), ("unreadable", TOLD), ("2026-03-01", day(2026, 3, 1))]
)
def test_what_ends_has_ended_when_that_was_said_if_no_date_was(named: str | None, until: datetime) -> None:
    assert fact_of(statement(change="ends", valid_until=named), episode()).valid_until == until


def test_an_end_before_the_start_leaves_the_end() -> None:
    fact = fact_of(statement(valid_from="2025-06", valid_until="2024-06"), episode())
    assert (fact.valid_from, fact.valid_until) == (None, day(2024, 7))


@pytest.mark.parametrize(
    "name", ["user", "User", " the user ", "THE USER", "I", "me", "Myself", "user.", "Ana", " ana"]
)
def test_the_user_has_one_name(name: str) -> None:
    assert fact_of(statement(subject=name), episode(user_name="Ana")).subject == "user"


@pytest.mark.parametrize("name", ["user's sister", "Bo", "users", "Anabel", "my dog"])
def test_others_keep_their_names(name: str) -> None:
    assert fact_of(statement(subject=f" {name} "), episode(user_name="Ana")).subject == name
    assert fact_of(statement(subject="Ana"), episode()).subject == "Ana"


def test_a_fact_says_where_it_is_from() -> None:
    said = statement(" Turin ", predicate=" lives_in ", quote=" in Turin ", said_by="tool", confidence=0.5)
    fact = fact_of(said, episode())
    assert (fact.text, fact.quote, fact.origin, fact.confidence) == ("user lives_in Turin", "in Turin", "tool", 0.5)
    assert (fact.source_episode_id, fact.user_id, fact.told_at) == ("e", "ana", TOLD)


DATES = st.one_of(
    st.none(),
    st.text(max_size=12),
    st.dates().map(str),
    st.datetimes().map(lambda moment: moment.isoformat()),
    st.from_regex(r"\A\d{4}(-\d{1,2}){0,2}\Z"),
)
TEXTS = st.text(max_size=20)


@given(
    subject=TEXTS, predicate=TEXTS, object_=TEXTS, start=DATES, end=DATES, share=st.floats(0, 1),
    change=st.sampled_from(["states", "corrects", "ends"]), at=st.datetimes(timezones=st.just(UTC)),
)  # fmt: skip
def test_whatever_the_guards_let_in_is_a_fact(
    subject: str, predicate: str, object_: str, start: str | None, end: str | None, share: float, change: Any,
    at: datetime,
) -> None:  # fmt: skip
    proposed = Statement(
        subject=subject, predicate=predicate, object=object_, quote="I live there", change=change, valid_from=start,
        valid_until=end, confidence=share,
    )  # fmt: skip
    for admittable in admitted(Reading(facts=(proposed,)), Said("I live there, you know.")).facts:
        fact = fact_of(admittable, episode(at))
        assert fact.valid_from is None or fact.valid_until is None or fact.valid_from <= fact.valid_until


# What becomes of it


class Learner:
    """Learns statements, a day after another."""

    def __init__(self, memory: Memory, clock: ManualClock) -> None:
        self.memory = memory
        self.clock = clock

    async def learn(self, *statements: Statement) -> list[Fact]:
        self.clock.advance(days=1)
        said = episode(self.clock(), id=f"{self.clock():%d}")
        rules = Rules(self.clock(), self.memory.is_single_valued)
        return await self.memory.store.change_facts("ana", lambda: learning(statements, said, rules))

    async def now(self) -> list[str]:
        """What is true and believed, as text."""
        return sorted(fact.text for fact in await self.memory.facts.query(user_id="ana"))

    async def at(self, moment: datetime) -> list[str]:
        """What was true at a moment, as is believed now."""
        return sorted(fact.object for fact in await self.memory.facts.query(user_id="ana", valid_at=moment))

    async def ever(self) -> set[str]:
        """Every object that was ever recorded."""
        return {fact.object for fact in await self.memory.facts.history(user_id="ana")}


@pytest.fixture
async def learner() -> AsyncIterator[Learner]:
    clock = ManualClock(TOLD)
    async with Memory(SQLiteStore(None, clock=clock), embedder=None) as memory:
        yield Learner(memory, clock)


async def test_each_statement_gives_one_version(learner: Learner) -> None:
    written = await learner.learn(statement(), statement("tea", predicate="likes"), statement())
    assert [fact.object for fact in written] == ["Turin", "tea", "Turin"]
    assert await learner.now() == ["user likes tea", "user lives_in Turin"]
    assert await learner.learn() == []


async def test_a_later_value_ends_an_earlier_one(learner: Learner) -> None:
    await learner.learn(statement())
    await learner.learn(statement("Porto"))
    assert await learner.now() == ["user lives_in Porto"]
    assert await learner.at(TOLD + DAY) == ["Turin"]


@pytest.mark.parametrize("words", ["Turin", "turin!", "Turin, in Italy", "the old Turin"])
async def test_what_ends_is_found_by_its_words(words: str, learner: Learner) -> None:
    known = "Turin" if words != "Turin" else "Turin, Italy"
    await learner.learn(statement(known))
    await learner.learn(statement(words, change="ends"))
    assert await learner.now() == []
    assert await learner.at(TOLD + DAY) == [known]
    assert await learner.ever() == {known}


async def test_what_could_mean_two_values_ends_neither(learner: Learner) -> None:
    teas = [statement(f"{kind} tea", predicate="likes") for kind in ("green", "black")]
    await learner.learn(*teas)
    await learner.learn(statement("tea", predicate="likes", change="ends"))
    assert await learner.now() == ["user likes black tea", "user likes green tea"]


async def test_the_exact_value_comes_before_those_that_contain_it(learner: Learner) -> None:
    await learner.learn(*(statement(value, predicate="likes") for value in ("tea", "green tea")))
    await learner.learn(statement("Tea", predicate="likes", change="ends"))
    assert await learner.now() == ["user likes green tea"]


async def test_the_end_of_what_was_not_known_is_recorded(learner: Learner) -> None:
    await learner.learn(statement("Turin", change="ends"))
    assert await learner.now() == []
    assert await learner.at(TOLD) == ["Turin"]


@pytest.mark.parametrize("wrong", ["Turin", "TURIN", "Turin in Italy"])
async def test_a_correction_is_meant_for_the_time_of_what_was_wrong(wrong: str, learner: Learner) -> None:
    await learner.learn(statement(valid_from="2024"))
    (fact,) = await learner.learn(statement("Porto", change="corrects", instead_of=wrong))
    assert await learner.now() == ["user lives_in Porto"]
    assert await learner.at(day(2025)) == ["Porto"]
    assert fact.valid_from == day(2024)
    assert await learner.ever() == {"Turin", "Porto"}


async def test_a_correction_can_give_another_time(learner: Learner) -> None:
    await learner.learn(statement(valid_from="2024"))
    (fact,) = await learner.learn(statement(change="corrects", instead_of="Turin", valid_from="2023"))
    assert (fact.object, fact.valid_from) == ("Turin", day(2023))


@pytest.mark.parametrize("instead_of", [None, "Rome", ""])
async def test_a_correction_of_nothing_known_is_a_statement(instead_of: str | None, learner: Learner) -> None:
    await learner.learn(statement())
    await learner.learn(statement("Porto", change="corrects", instead_of=instead_of))
    assert await learner.now() == ["user lives_in Porto"]
    assert "Turin" in await learner.ever()


@pytest.mark.parametrize("origin", ["agent", "tool"])
async def test_nobody_else_corrects_what_the_user_said(origin: Any, learner: Learner) -> None:
    (said,) = await learner.learn(statement(predicate="likes"))
    await learner.learn(statement("Porto", predicate="likes", change="corrects", instead_of="Turin", said_by=origin))
    assert "user likes Turin" in await learner.now()
    (kept,) = await learner.memory.facts.query(user_id="ana", object="Turin")
    assert kept == said


async def test_the_user_corrects_what_others_said(learner: Learner) -> None:
    await learner.learn(statement(predicate="likes", said_by="agent"))
    (fact,) = await learner.learn(statement("Porto", predicate="likes", change="corrects", instead_of="Turin"))
    assert fact.origin == "user"
    assert await learner.now() == ["user likes Porto"]


async def test_a_correction_whose_times_do_not_go_with_what_is_known_is_told_as_it_is(learner: Learner) -> None:
    await learner.learn(statement(valid_from="2025"))
    (fact,) = await learner.learn(statement("Porto", change="corrects", instead_of="Turin", valid_until="2023"))
    assert (fact.object, fact.valid_until) == ("Porto", day(2024))
    assert await learner.now() == ["user lives_in Turin"]


async def test_a_subject_that_was_merged_is_learned_of_under_its_name(learner: Learner) -> None:
    await learner.memory.facts.append(Fact("Bo", "lives_in", "Turin", user_id="ana"))
    await learner.memory.facts.merge("Bo", "Robert", user_id="ana")
    await learner.learn(statement("Turin", subject="Bo", change="ends"))
    assert [text for text in await learner.now() if "lives_in" in text] == []
    await learner.learn(statement("Porto", subject="bo"))
    assert "Robert lives_in Porto" in await learner.now()


# Claims


def test_a_claim_names_its_process_and_is_made_once() -> None:
    claims = {new_claim() for _ in range(100)}
    assert len(claims) == 100
    assert all(claim.startswith(f"{platform.node()}|{os.getpid()}|") for claim in claims)
    assert not any(map(is_dead, claims))


@pytest.mark.skipif(os.name != "posix", reason="processes are told apart on POSIX only")
def test_the_claim_of_a_process_that_is_no_more_is_dead() -> None:
    code = "from loomflow.distill.claims import new_claim; print(new_claim())"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    claim = ended.stdout.strip()
    assert is_dead(claim)
    _, _, rest = claim.partition("|")
    assert not is_dead(f"another-machine|{rest}")


@pytest.mark.skipif(os.name != "posix", reason="processes are told apart on POSIX only")
def test_the_claim_of_a_living_process_is_not_dead() -> None:
    code = "from loomflow.distill.claims import new_claim; print(new_claim(), flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout is not None
        assert not is_dead(process.stdout.readline().strip())
        process.communicate("\n", timeout=60)


@pytest.mark.parametrize("number", ["", "0", "1", "-1", "x", "²", "9" * 30, " 1"])
def test_a_claim_that_cannot_be_told_counts(number: str) -> None:
    assert not is_dead(f"{platform.node()}|{number}|x")
    assert not is_dead(number)


@given(st.text())
def test_no_text_is_an_error_as_a_claim(text: str) -> None:
    assert not is_dead(text)


# The background


class Work:
    """A drain that counts, and waits where the test says."""

    def __init__(self, *failures: BaseException | None, waits: bool = False) -> None:
        self.failures = list(failures)
        self.begun = 0
        self.ended = 0
        self.threads: set[str] = set()
        self.is_open = threading.Event()
        if not waits:
            self.is_open.set()

    async def drain(self) -> None:
        self.begun += 1
        self.threads.add(threading.current_thread().name)
        while not self.is_open.is_set():  # noqa: ASYNC110  (it is opened in another event loop)
            await asyncio.sleep(0.005)
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        self.ended += 1


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  (what others do is asked for)
            await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "PAUSE_SECONDS", 0.01)


Begin = Callable[[Background], None]


@pytest.fixture(params=["task", "thread"])
def begin(request: pytest.FixtureRequest) -> Begin:
    return Background.begin if request.param == "task" else Background.begin_in_thread


async def test_what_is_begun_is_done(begin: Begin) -> None:
    work = Work()
    worker = Background(work.drain)
    begin(worker)
    await until(lambda: work.ended == 1)
    begin(worker)
    await until(lambda: work.ended == 2)
    await worker.aclose()


async def test_to_begin_while_it_is_at_work_makes_it_look_once_more(begin: Begin) -> None:
    work = Work(waits=True)
    worker = Background(work.drain)
    begin(worker)
    await until(lambda: work.begun == 1)
    for _ in range(10):
        worker.begin()
        worker.begin_in_thread()
    work.is_open.set()
    await until(lambda: work.ended == 2)
    await asyncio.sleep(0.05)
    assert work.begun == 2
    assert len(work.threads) == 1
    await worker.aclose()


async def test_begun_many_times_before_it_starts_it_works_once() -> None:
    work = Work()
    worker = Background(work.drain)
    for _ in range(10):
        worker.begin()
    await until(lambda: work.ended)
    await asyncio.sleep(0.05)
    assert work.begun == 1


@pytest.mark.parametrize("failure", [RuntimeError("broken"), ModelError("no key"), StoreError("no disk")])
async def test_after_a_failure_it_begins_again(
    failure: Exception, begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    work = Work(failure)
    worker = Background(work.drain)
    begin(worker)
    await until(lambda: caplog.records)
    assert str(failure) in caplog.text
    begin(worker)
    await until(lambda: work.ended == 1)
    await worker.aclose()


async def test_what_was_asked_for_while_it_failed_is_done(begin: Begin) -> None:
    work = Work(StoreError("no disk"), waits=True)
    worker = Background(work.drain)
    begin(worker)
    await until(lambda: work.begun == 1)
    worker.begin()
    work.is_open.set()
    await until(lambda: work.ended == 1)
    await worker.aclose()


async def test_the_same_warning_is_given_once(caplog: pytest.LogCaptureFixture) -> None:
    work = Work(*(ModelError("no key") for _ in range(5)), ModelError("no model"))
    worker = Background(work.drain)
    for _ in range(6):
        await worker.aclose()
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 2
    assert "no key" in warnings[0]
    assert "no model" in warnings[1]


async def test_closing_does_not_wait_for_the_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "PAUSE_SECONDS", 600)
    work = Work()
    async with asyncio.timeout(20):
        await Background(work.drain).aclose()
    assert work.ended == 1


async def test_closing_waits_for_some_time_then_stops_the_work(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "CLOSE_SECONDS", 0.05)
    work = Work(waits=True)
    worker = Background(work.drain)
    begin(worker)
    await until(lambda: work.begun == 1)
    await worker.aclose()
    work.is_open.set()
    await asyncio.sleep(0.05)
    assert work.ended == 0
    assert not any(thread.name == "loomflow-distill" for thread in threading.enumerate())
    await worker.aclose()  # and it can be used again
    assert work.ended == 1


async def test_closing_waits_for_the_thread(begin: Begin) -> None:
    work = Work(waits=True)
    worker = Background(work.drain)
    begin(worker)
    await until(lambda: work.begun == 1)
    closing = asyncio.create_task(worker.aclose())
    await asyncio.sleep(0.03)
    assert not closing.done()
    work.is_open.set()
    await closing
    assert work.ended >= 1


async def test_closing_that_is_cancelled_stops_the_work_first() -> None:
    work = Work(waits=True)
    worker = Background(work.drain)
    worker.begin()
    await until(lambda: work.begun == 1)
    closing = asyncio.create_task(worker.aclose())
    await asyncio.sleep(0.01)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    work.is_open.set()
    await asyncio.sleep(0.03)
    assert work.ended == 0


def in_a_loop_of_its_own(work: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await work()

    asyncio.run(main())


def test_event_loops_that_end_leave_it_usable() -> None:
    work = Work()
    worker = Background(work.drain)

    async def only_begin() -> None:
        worker.begin()

    async def cancelled_at_once() -> None:
        worker.begin()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    for program in (only_begin, cancelled_at_once, only_begin):
        in_a_loop_of_its_own(program)
    assert work.begun == 0
    in_a_loop_of_its_own(worker.aclose)
    assert work.ended == 1


def test_an_event_loop_that_was_closed_over_it_leaves_it_usable() -> None:
    work = Work(waits=True)
    worker = Background(work.drain)
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda loop, context: None)  # asyncio notes that a task was left

    async def begin() -> None:
        worker.begin()

    loop.run_until_complete(begin())
    loop.close()
    work.is_open.set()
    in_a_loop_of_its_own(worker.aclose)
    assert work.ended == 1


def test_threads_that_begin_at_once_are_served_by_one() -> None:
    work = Work()
    worker = Background(work.drain)
    threads = [threading.Thread(target=worker.begin_in_thread) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    in_a_loop_of_its_own(worker.aclose)
    assert 1 <= work.ended <= 21
    assert work.begun == work.ended
