"""Which predicates hold one value at a time.

Only a fact with the same subject and the same single-valued predicate can be superseded. Which predicates those are is
a list of names and endings, and a setting of the memory; every other predicate gathers values, because a true fact that
is retired by mistake (a second allergy) does more harm than an old one that stays (it ranks below the new one and can
be retracted).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from .checks import check_text
from .errors import ConfigError
from .items import Fact
from .words import normal_form

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")

SINGLE_VALUED = frozenset(
    " ".join(name.split())
    for name in """
    name, full name, first name, last name, nickname, age, birthday, born on, born in, date of birth, birthplace,
    gender, pronouns, lives in, lives at, live in, resides in, residence, home, home city, home town, hometown,
    city, country, town, state, address, location, located in, based in, moved to, current city, current location,
    timezone, time zone, native language, preferred language, language preference, works at, works for, work at,
    work for, employer, employed by, company, workplace, job, job title, title, role, position, occupation,
    profession, works as, is employed at, is employed by, reports to, manager, boss, salary, department, married
    to, spouse, wife, husband, partner, fiance, marital status, relationship status, email, email address, phone,
    phone number, mobile, username, handle, website, status, mood, weight, height, blood type, diet, nationality,
    religion, school, university, studies at, attends, major, plan, subscription, tier, account number, passport
    number, same as
    """.split(",")
)
"""Predicates that hold one value at a time, in normal form."""

SINGLE_VALUED_STARTS = ("favorite ", "current ", "preferred ", "primary ", "main ", "default ")
SINGLE_VALUED_ENDS = (" name", " email", " phone", " address", " status", " birthday", " age", " timezone")

SAME_AS = "same_as"
"""The predicate with which a merge notes that two subjects are one."""


SYNONYMS = {
    name: group[0]
    for group in (
        ("lives in", "live in", "living in", "is living in", "resides in", "residence", "moved to", "has moved to",
         "current residence", "current city", "based in", "is based in"),
        ("works at", "work at", "works for", "work for", "employer", "employed by", "employed at", "is employed by",
         "is employed at", "current employer", "workplace"),
        ("job", "job title", "occupation", "profession", "works as", "current job", "employed as"),
        ("married to", "is married to", "spouse", "husband", "wife"),
        ("birthday", "born on", "date of birth", "birth date", "birthdate"),
        ("email", "email address", "e mail", "e mail address", "mail address"),
        ("phone", "phone number", "telephone", "telephone number"),
        ("timezone", "time zone"),
        ("reports to", "manager", "boss"),
    )
    for name in group[1:]
}  # fmt: skip
"""Predicates in normal form that say the same, and the one that stands for them: a new employer ends the old one,
whether it was told as `works_at` or as `employer`."""


@lru_cache(maxsize=4096)
def predicate_key(predicate: str) -> str:
    """A predicate in the form in which it is compared: `Lives_In`, `livesIn` and `resides in` are one."""
    key = normal_form(_CAMEL.sub(" ", predicate).replace("_", " ").replace("-", " "))
    return SYNONYMS.get(key, key.replace("favourite", "favorite"))


@lru_cache(maxsize=4096)
def is_single_valued(predicate: str) -> bool:
    """Whether a subject has one value at a time for this predicate, where nothing else is set.

    >>> is_single_valued("lives_in"), is_single_valued("allergic_to")
    (True, False)
    """
    key = predicate_key(predicate)
    return key in SINGLE_VALUED or key.startswith(SINGLE_VALUED_STARTS) or key.endswith(SINGLE_VALUED_ENDS)


@dataclass(frozen=True, slots=True)
class Predicates:
    """The setting of a memory: what the list does not say, or says otherwise.

    Attributes:
        single_valued, multi_valued: predicates in the form in which they are compared.

    >>> Predicates.of(single_valued=["mentor"]).is_single_valued("Mentor")
    True
    """

    single_valued: frozenset[str] = frozenset()
    multi_valued: frozenset[str] = frozenset()

    @classmethod
    def of(cls, single_valued: Iterable[str] = (), multi_valued: Iterable[str] = ()) -> Predicates:
        """Check a setting.

        Raises:
            ConfigError: a name is blank or no string, or stands in both.
        """
        single, multi = _keys("single_valued", single_valued), _keys("multi_valued", multi_valued)
        both = sorted(single & multi)
        if both:
            raise ConfigError(f"single_valued and multi_valued both name {', '.join(map(repr, both))}")
        if predicate_key(SAME_AS) in multi:
            raise ConfigError(f"multi_valued must not name {SAME_AS!r}: a subject is the same as one other")
        return cls(single, multi)

    def is_single_valued(self, predicate: str) -> bool:
        """Whether a subject has one value at a time for this predicate."""
        key = predicate_key(predicate)
        return key in self.single_valued or (key not in self.multi_valued and is_single_valued(predicate))


def _keys(field: str, names: Iterable[str]) -> frozenset[str]:
    if isinstance(names, str) or not isinstance(names, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError.of(field, "a list of predicates", names)
    return frozenset(predicate_key(check_text(field, name, blank=False)) for name in names)


def fact_key(fact: Fact) -> tuple[str, str]:
    """Subject and predicate in normal form: facts with equal keys are about the same thing."""
    return normal_form(fact.subject), predicate_key(fact.predicate)
