"""Every example in a docstring runs and gives what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import loomflow

MODULES = sorted(
    info.name for info in pkgutil.walk_packages(loomflow.__path__, "loomflow.") if "__main__" not in info.name
)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_give_what_they_say(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


def test_there_are_docstring_examples() -> None:
    attempted = sum(doctest.testmod(importlib.import_module(name)).attempted for name in MODULES)
    assert attempted >= 5
