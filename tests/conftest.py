"""Settings for the whole test suite: how much Hypothesis tries, and that it is repeatable where CI is set."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "loomflow", deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.register_profile("ci", settings.get_profile("loomflow"), derandomize=True, max_examples=200)
settings.load_profile("ci" if os.environ.get("CI") else "loomflow")
