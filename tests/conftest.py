"""One seed for every test: 42, or any of 0 to 99 that the environment variable OLDHAND_TEST_SEED names."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import settings

SEED = int(os.environ.get("OLDHAND_TEST_SEED", "42"))

# No database: what hypothesis tries depends on the seed alone, not on what earlier runs left on this machine.
settings.register_profile("oldhand", deadline=None, derandomize=False, max_examples=40, database=None)
settings.load_profile("oldhand")


def pytest_configure(config: pytest.Config) -> None:
    if not 0 <= SEED <= 99:
        raise pytest.UsageError(f"OLDHAND_TEST_SEED is {SEED}, must be in 0..99")
    if config.getoption("--hypothesis-seed") is None:
        config.option.hypothesis_seed = str(SEED)


def pytest_report_header() -> str:
    return f"OLDHAND_TEST_SEED={SEED}"


@pytest.fixture(scope="session")
def seed() -> int:
    return SEED


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)
