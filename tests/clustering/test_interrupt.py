"""A real Ctrl-C, in each phase of a search, returns the best so far."""

from __future__ import annotations

import os
import signal
import threading
import time

import clustering_reference as reference
import pytest

from pastmaster import InvalidInputError, search_clusterings

SETTING = {"episodes": 1000, "span": 2.0}


@pytest.fixture(scope="module")
def distance():
    import numpy as np

    matrix = reference.random_symmetric(np.random.default_rng(0), 120)
    for certify in (False, True):  # compile before any clock runs
        search_clusterings(
            matrix[:9, :9], **SETTING, rng=np.random.default_rng(0), restarts=2, iterations=100, certify=certify
        )
    return matrix


def interrupted_after(seconds, **settings):
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    begun = time.perf_counter()
    try:
        found = search_clusterings(**settings)
    finally:
        timer.cancel()  # where the search ended first
        timer.join()
    return found, time.perf_counter() - begun


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_walk_is_ended_and_its_best_returned(distance, rng, n_jobs):
    found, took = interrupted_after(
        0.5, distance=distance, **SETTING, rng=rng, restarts=4, iterations=50_000_000, n_jobs=n_jobs, certify=True
    )
    assert found.interrupted
    assert took < 20
    assert found.lower_bound is None
    assert len(found.labels) == len(distance)


def test_a_proof_is_ended_and_the_clustering_kept(distance, rng):
    found, _ = interrupted_after(
        1.5, distance=distance, **SETTING, rng=rng, restarts=1, iterations=100, certify=True, certify_seconds=15.0
    )
    assert len(found.labels) == len(distance)
    assert found.interrupted or found.lower_bound is not None


def test_more_cells_than_policies_are_refused(rng):
    with pytest.raises(InvalidInputError, match=r"n_clusters is 3, must be in 1\.\.1"):
        search_clusterings(rng.random((6, 1)), directed=True, n_clusters=3, rng=rng)
