"""A real Ctrl-C, in each phase of a search, returns the best so far."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import clustering_reference as reference
import numpy as np
import pytest
from seams import _bound_kernels, _chain_kernels

from pastmaster import InvalidInputError, search_clusterings

SETTING = {"episodes": 1000, "span": 2.0}

pytestmark = pytest.mark.usefixtures("ctrl_c")


@pytest.fixture(scope="module")
def distance() -> np.ndarray:
    return reference.random_symmetric(np.random.default_rng(0), 120)


@pytest.fixture
def interrupt_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str, int], list[int]]:
    """Has Ctrl-C pressed during the n-th call of a kernel; what is returned grows with every call."""

    def arrange(module: Any, name: str, call: int) -> list[int]:
        kernel, calls = getattr(module, name), []

        def pressed(*arguments: Any) -> Any:
            calls.append(len(calls))
            if len(calls) == call:
                os.kill(os.getpid(), signal.SIGINT)
            return kernel(*arguments)

        monkeypatch.setattr(module, name, pressed)
        return calls

    return arrange


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_walk_is_ended_and_its_best_returned(distance, rng, n_jobs, interrupt_at):
    """Its 2.5 million slices would take hours."""
    calls = interrupt_at(_chain_kernels, "walk", 5)
    found = search_clusterings(
        distance, **SETTING, rng=rng, restarts=4, iterations=50_000_000_000, n_jobs=n_jobs, certify=True
    )
    assert found.interrupted
    assert len(calls) >= 5
    assert found.lower_bound is None
    assert len(found.labels) == len(distance)


def test_a_proof_is_ended_and_the_clustering_kept(distance, rng, interrupt_at):
    calls = interrupt_at(_bound_kernels, "ascend", 2)
    found = search_clusterings(
        distance, **SETTING, rng=rng, restarts=1, iterations=100, certify=True, certify_seconds=1e6
    )
    assert len(calls) == 2
    assert found.interrupted
    assert found.lower_bound is None
    assert len(found.labels) == len(distance)


def test_more_cells_than_policies_are_refused(rng):
    with pytest.raises(InvalidInputError, match=r"n_clusters is 3, must be a whole number, in 1\.\.1"):
        search_clusterings(rng.random((6, 1)), directed=True, n_clusters=3, rng=rng)
