"""Arguments that make no sense: each is refused by the function that was called, with value and remedy."""

from __future__ import annotations

import numpy as np
import pytest

from pastmaster import (
    Clustering,
    InvalidInputError,
    clustering_cost,
    regret_bound,
    search_clusterings,
    sensitivity,
)

DISTANCE = np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 9.0], [9.0, 9.0, 0.0]])
FOUND = Clustering.from_labels(DISTANCE, [0, 0, 1])


def search(**settings):
    return search_clusterings(DISTANCE, **({"restarts": 1, "iterations": 10, "rng": 0} | settings))


def by_episodes(**settings):
    return sensitivity(DISTANCE, episodes=[10], spans=[1.0], **settings)


REFUSED = {
    "a flag, directed": (lambda: search(n_clusters=2, directed="yes"), "search_clusterings: directed is 'yes', must"),
    "a flag, certify": (lambda: search(n_clusters=2, certify="yes"), "search_clusterings: certify is 'yes', must be T"),
    "a flag, progress": (lambda: search(n_clusters=2, progress=1), "search_clusterings: progress is 1, must be True"),
    "a near name": (
        lambda: by_episodes(n_cluster=2),
        r"sensitivity: n_cluster is no option here \(did you mean n_clusters\?\), must be one of certify, ",
    ),
    "another word": (lambda: by_episodes(k=2), r"sensitivity: k is no option here \(did you mean n_clusters\?\), must"),
    "an odd name": (lambda: by_episodes(zebra=2), "sensitivity: zebra is no option here, must be one of certify"),
    "an argument in the plural": (lambda: by_episodes(span=2), "sensitivity: span is no option here, must be one of"),
    "episodes alone": (
        lambda: search(episodes=100),
        "search_clusterings: span is None, must be given where episodes is: the largest less the smallest return",
    ),
    "a span alone": (lambda: search(span=1.0), "search_clusterings: episodes is None, must be given where span is: "),
    "a radius in words": (
        lambda: search(max_radius="a"),
        "search_clusterings: max_radius is 'a', must be a number, at",
    ),
    "c as text": (lambda: regret_bound("3", 100, 1), "regret_bound: c has dtype <U1, must hold numbers"),
    "c and a half": (lambda: regret_bound(2.5, 100, 1), "regret_bound: c is 2.5, must be whole numbers, each at least"),
    "c without end": (lambda: regret_bound([1, np.inf], 100, 1), r"regret_bound: c is \[1, inf\], must be whole num"),
    "a cell in words": (lambda: FOUND.members("a"), "Clustering.members: i is 'a', must be a cell in 0..1"),
    "a cell as a float": (lambda: FOUND.members(0.0), "Clustering.members: i is 0.0, must be a cell in 0..1"),
    "no such task": (lambda: FOUND.task(3), "Clustering.task: i is 3, must be a task in 0..2"),
    "a task in words": (lambda: FOUND.task("x"), "Clustering.task: i is 'x', must be a task in 0..2"),
    "no such policy": (lambda: FOUND.policy(99), "Clustering.policy: j is 99, must be a column in 0..2"),
    "a policy from the end": (lambda: FOUND.policy(-1), "Clustering.policy: j is -1, must be a column in 0..2"),
    "letters for names": (lambda: FOUND.named("abc"), "Clustering.named: tasks is 'abc', must be a list of 3 names"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused_in_a_sentence(what):
    call, sentence = REFUSED[what]
    with pytest.raises(InvalidInputError, match=f"^{sentence}"):
        call()


def test_a_label_below_0_is_a_cell_like_any_other():
    setting = {"episodes": 100, "span": 1.0}
    assert clustering_cost(DISTANCE, [0, -1, 0], **setting) == clustering_cost(DISTANCE, [0, 1, 0], **setting)


def test_names_are_told_by_number_of_any_integer_kind():
    named = FOUND.named(["a", "b", "c"])
    assert [named.task(np.int64(1)), named.policy(np.int32(2))] == ["b", "c"]
    assert regret_bound(np.array([1.0, 4.0]), 100, 1.0).tolist() == regret_bound([1, 4], 100, 1.0).tolist()
