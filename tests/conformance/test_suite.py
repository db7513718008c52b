"""The conformance suite itself: every test in it is run."""

from __future__ import annotations

from collections import Counter

from loomflow.testing import StoreConformance


def test_no_part_of_the_suite_hides_a_test_or_helper_of_another() -> None:
    parts = StoreConformance.__mro__[1:-1]
    names = Counter(name for part in parts for name in vars(part) if not name.startswith("_"))
    assert [name for name, count in names.items() if count > 1] == []
