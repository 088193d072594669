"""What the tests of the paper's package share: their seed, and Ctrl-C where tests run in a script's background.

The seed is the library's: 42, or any of 0 to 99 that the environment variable PASTMASTER_TEST_SEED names.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

SEED = int(os.environ.get("PASTMASTER_TEST_SEED", "42"))


@pytest.fixture(scope="session")
def seed() -> int:
    return SEED


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt meanwhile, here and in processes started here: in a background it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A chromium without a window."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser can be driven")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not on the PATH")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"], timeout=240_000)
        yield started
        started.close()
