"""A synthetic corpus: conversation turns, facts and questions, the same on every machine and in every run.

Words follow a Zipf-Mandelbrot distribution over real English words and compounds of them, mixed with function words,
names, places, dates and numbers; a turn has about 40 words. Every turn is made from its own number, so that any of them
can be made alone. Only the standard library is used: a peer's interpreter imports this module too.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

SEED = 20
TURNS_PER_SESSION = 10
FACTS_PER_TURN = 0.05
COMPOUNDS = 20_000
FIRST_TURN_AT = datetime(2020, 1, 1, 8, 0, tzinfo=UTC)
BETWEEN_TURNS = timedelta(minutes=12)

FUNCTION_WORDS = (
    "the to and a i of you in it is that for my on was with we have this at but not be so they are as had me what your "
    "about from there when will our just can some or by like been if would out how were an no up did could them then "
    "all their more than who now also very her his he she which after before because while again only into over"
).split()
CONTENT_WORDS = (
    "day time work week home family friend house kids dog plan weekend book music school job dinner trip people "
    "year garden car project walk team lunch morning evening night idea photo story class game movie food coffee "
    "bread summer winter spring autumn city park river beach mountain forest lake island street road bridge train "
    "flight ticket hotel museum library market shop office meeting client report budget email phone call letter "
    "birthday party wedding guest gift cake recipe soup salad cheese fish chicken pasta rice apple lemon tomato "
    "pepper garlic kitchen table chair window door wall floor roof paint color light lamp mirror picture camera "
    "lens concert guitar piano violin drum song band choir dance theatre painting pottery clay brush canvas "
    "sculpture design pattern sewing wool scarf jacket dress shoes boots hat glasses watch ring necklace bag "
    "suitcase tent camp fire trail hike climb run marathon race bike wheel helmet swim pool boat sail wind storm "
    "rain snow cloud sun moon star telescope planet science lab experiment data model code program server laptop "
    "screen keyboard robot engine battery cable sensor map compass course lesson exam grade teacher student college "
    "degree research paper theory history language grammar poem novel chapter author editor press news article "
    "interview question answer advice support health doctor clinic nurse therapy medicine sleep breakfast exercise "
    "yoga muscle knee shoulder allergy peanut gluten vegan diet sugar water juice tea wine beer bottle cup plate "
    "spoon knife oven grill smoke charity volunteer shelter adoption animal cat puppy rabbit horse bird parrot "
    "turtle nest feather seed flower rose tulip tree branch leaf root soil farm barn field harvest wheat corn honey "
    "bee village town neighbor church temple festival parade flag election council law court judge police safety "
    "insurance bank loan mortgage rent salary tax invoice price discount order delivery package courier customs "
    "border visa passport embassy airport harbor ferry cruise desert canyon valley waterfall glacier volcano museum "
    "archive statue castle tower palace"
).split()
NAMES = (
    "Maria James Aisha Chen Olga Pedro Fatima Lucas Emma Kofi Yuki Sara Omar Ingrid Mateo Priya Daniel Hana Viktor "
    "Leila Tom Nina Carlos Grace Ivan Zoe Samuel Mei Andre Clara"
).split()
PLACES = (
    "Lisbon Oslo Kyoto Nairobi Toronto Lima Berlin Austin Mumbai Cairo Dublin Seoul Quito Prague Boston Hanoi".split()
)
MONTHS = "January February March April May June July August September October November December".split()
PREDICATES = "likes visited works_with owns plays reads recommends cooks avoids studies remembers plans".split()


class Turn(NamedTuple):
    """One exchange of a conversation."""

    id: str
    user: str
    session: str
    occurred_at: datetime
    input: str
    output: str


class Statement(NamedTuple):
    """One fact."""

    user: str
    subject: str
    predicate: str
    object: str
    recorded_at: datetime


def _zipf(count: int, shift: float) -> list[float]:
    return list(itertools.accumulate(1 / (rank + shift) for rank in range(count)))


def _vocabulary() -> list[str]:
    words = list(dict.fromkeys(CONTENT_WORDS))
    pairs = [f"{first}{second}" for first in words for second in words if first != second]
    return words + random.Random(SEED).sample(pairs, COMPOUNDS)


_WORDS = _vocabulary()
_WORD_WEIGHTS = _zipf(len(_WORDS), 40)
_FUNCTION_WEIGHTS = _zipf(len(FUNCTION_WORDS), 3)


def user_name(number: int) -> str:
    """The id of the user of this number, from 0."""
    return f"user-{number}"


def turn(number: int, users: int = 1) -> Turn:
    """The turn of this number, from 0. Sessions go round the users, so that everyone's memory grows at once."""
    rng = random.Random(SEED * 1_000_003 + number)
    session = number // TURNS_PER_SESSION
    return Turn(
        id=f"turn-{number}",
        user=user_name(session % users),
        session=f"session-{session}",
        occurred_at=FIRST_TURN_AT + number * BETWEEN_TURNS,
        input=_sentences(rng, rng.choice((1, 1, 2))),
        output=_sentences(rng, rng.choice((2, 2, 3))),
    )


def turns(count: int, users: int = 1, first: int = 0) -> Iterator[Turn]:
    """`count` turns, from the number `first` on."""
    return (turn(number, users) for number in range(first, first + count))


def turns_of(user: int, turn_count: int, users: int) -> Iterator[Turn]:
    """The turns of one user, by number, among so many turns of so many users."""
    for session in range(user, -(-turn_count // TURNS_PER_SESSION), users):
        first = session * TURNS_PER_SESSION
        yield from turns(min(TURNS_PER_SESSION, turn_count - first), users, first)


def statement(number: int, users: int = 1) -> Statement:
    """The fact of this number, from 0. Predicates hold many values, so no fact ends another."""
    rng = random.Random(SEED * 2_000_003 + number)
    subject = f"{rng.choice(NAMES)} {_word(rng).capitalize()}"
    value = " ".join(_word(rng) for _ in range(rng.randint(1, 3)))
    recorded_at = FIRST_TURN_AT + number * BETWEEN_TURNS / FACTS_PER_TURN
    return Statement(user_name(number % users), subject, rng.choice(PREDICATES), value, recorded_at)


def statements(turn_count: int, users: int = 1) -> Iterator[Statement]:
    """The facts that go with so many turns."""
    return (statement(number, users) for number in range(round(turn_count * FACTS_PER_TURN)))


def statements_of(user: int, turn_count: int, users: int) -> Iterator[Statement]:
    """The facts of one user, by number, that go with so many turns of so many users."""
    return (statement(number, users) for number in range(user, round(turn_count * FACTS_PER_TURN), users))


def questions(count: int, turn_count: int, users: int = 1, user: int | None = None) -> list[tuple[str, str]]:
    """Pairs of a user's id and a question: 5 to 9 words that stand together in one of that user's turns.

    Args:
        count: how many.
        turn_count: how many turns the corpus has.
        users: how many users.
        user: number of the one to ask; None asks everyone, one after the other.
    """
    rng = random.Random(SEED * 3_000_003)
    sessions = max(turn_count // TURNS_PER_SESSION // users, 1)
    asked: list[tuple[str, str]] = []
    for place in range(count):
        asking = place % users if user is None else user
        session = asking + users * rng.randrange(sessions)
        chosen = turn(session * TURNS_PER_SESSION + rng.randrange(TURNS_PER_SESSION), users)
        words = f"{chosen.input} {chosen.output}".replace(".", "").replace("?", "").split()
        length = min(rng.randint(5, 9), len(words))
        start = rng.randrange(len(words) - length + 1)
        asked.append((chosen.user, f"{' '.join(words[start : start + length])}?"))
    return asked


def _sentences(rng: random.Random, count: int) -> str:
    return " ".join(_sentence(rng) for _ in range(count))


def _sentence(rng: random.Random) -> str:
    length = rng.randint(6, 15)
    content = rng.choices(_WORDS, cum_weights=_WORD_WEIGHTS, k=length)
    function = rng.choices(FUNCTION_WORDS, cum_weights=_FUNCTION_WEIGHTS, k=length)
    words: list[str] = []
    while len(words) < length:
        kind = rng.random()
        if kind < 0.44:
            words.append(function.pop())
        elif kind < 0.92:
            words.append(content.pop())
        elif kind < 0.96:
            words.append(rng.choice(NAMES))
        elif kind < 0.98:
            words.append(rng.choice(PLACES))
        elif kind < 0.99:
            words.append(str(rng.randint(2, 400)))
        else:
            words += [str(rng.randint(1, 28)), rng.choice(MONTHS), str(rng.randint(2019, 2025))]
    words[0] = words[0].capitalize()
    return f"{' '.join(words)}{rng.choice('...?')}"


def _word(rng: random.Random) -> str:
    return rng.choices(_WORDS, cum_weights=_WORD_WEIGHTS)[0]
