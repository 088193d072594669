"""``Repository.keep``: asked of what is stored, stored with names, read again."""

from __future__ import annotations

import math

import numpy as np
import pytest
from repository_reference import constant_policy, one_step_task, random_tasks

import pastmaster
from pastmaster import InvalidInputError, Repository, RepositoryError

POLICIES = [constant_policy(action) for action in range(3)]
SAME = (
    "labels", "representatives", "radii", "cost", "size_cost", "kind", "directed", "distance", "lower_bound",
    "possible_c", "interrupted", "seed", "task_names", "policy_names", "weights", "standard_errors", "must_keep",
    "never_keep", "max_loss", "losses", "mean_loss", "largest_loss",
)  # fmt: skip
QUESTIONS = [
    {"k": 2}, {"max_loss": 3.0}, {"price": 0.5}, {"episodes": 10, "span": 9.0}, {"k": 2, "certify": False},
    {"k": 2, "weights": [5, 1, 1, 1], "must_keep": "c.npy", "never_keep": ["a.npy"]}, {"price": 1, "must_keep": [1]},
]  # fmt: skip


def stocked(repository):
    """Four tasks; a compromise is kept for the two that differ, though it is the best for neither."""
    tasks = [one_step_task(9, 0, 8), one_step_task(0, 9, 8), one_step_task(9, 1, 7), one_step_task(4, 5, 9)]
    for i, task in enumerate(tasks[:3]):
        repository.add(task, POLICIES[i], source=f"drawer/{'abc'[i]}.npy")
    repository.add(tasks[3], POLICIES[2], name="d")
    return repository


def same(one, other):
    for name in SAME:
        a, b = getattr(one, name), getattr(other, name)
        assert np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b, name


@pytest.mark.parametrize("asked", QUESTIONS, ids=str)
def test_the_answer_is_that_of_the_function_and_is_stored_with_names(repository, asked):
    stocked(repository)
    kept = repository.keep(rng=3, **asked)
    U = [[9, 0, 8, 8], [0, 9, 8, 8], [9, 1, 7, 7], [4, 5, 9, 9]]
    names = ["a.npy", "b.npy", "c.npy", "d"]
    wanted = pastmaster.keep(U, policies=names, rng=3, **asked)
    assert kept.policies == wanted.policies
    assert kept.losses.tolist() == wanted.losses.tolist()
    assert (kept.cost, kept.kind) == (wanted.cost, wanted.kind)
    assert kept.policy_names == tuple(names)
    assert kept.task_names == tuple(record.name or f"task {record.id}" for record in repository.records())
    same(repository.clustering(), kept)
    assert repository.check() == []
    record = repository.clusterings()[-1]
    assert record.seed == 3
    assert record.settings["method"] == "keep"
    assert {name: record.settings[name] for name in asked if name in record.settings}.items() <= asked.items()
    assert (record.result["mean_loss"], record.result["largest_loss"]) == (kept.mean_loss, kept.largest_loss)


def test_sources_are_those_kept(repository):
    stocked(repository)
    assert repository.keep(k=1).policies == ["c.npy"]
    assert list(repository.named_sources()) == ["c.npy"]
    assert repository.source_ids() == repository.cell_policies() == [3]
    assert repository.sources()[0].tolist() == POLICIES[2].tolist()
    assert repository.experience().values.tolist() == [[8.0], [8.0], [7.0], [9.0]]
    assert set(repository.cells().values()) == {0}


def test_an_answer_outlives_the_file_and_an_export(place, tmp_path):
    with Repository(place) as repository:
        kept = stocked(repository).keep(k=2, weights=[1, 2, 3, 4], never_keep="d", rng=0)
        repository.export(tmp_path / "out")
    with Repository(place) as repository:
        same(repository.clustering(), kept)
    with Repository(tmp_path / "copy.db") as copy:
        copy.import_(tmp_path / "out")
        same(copy.clustering(), kept)
        assert copy.check() == []


def test_it_never_loses_more_than_clusters_by_radius(repository, rng):
    for task in random_tasks(rng, 12):
        repository.add(task)
    by_radius = [repository.cluster(n_clusters=k, rng=0, restarts=2, iterations=2000).mean_loss for k in (1, 2, 4)]
    by_loss = [repository.keep(k=k).mean_loss for k in (1, 2, 4)]
    assert all(loss <= other + 1e-12 for loss, other in zip(by_loss, by_radius, strict=True))
    assert repository.clustering().is_optimal


def test_by_default_the_span_is_that_of_the_stored_bounds(repository):
    stocked(repository)
    span = repository.return_bounds().span
    kept = repository.keep(episodes=100, rng=0)
    assert kept.cost == repository.keep(episodes=100, span=span, rng=0).cost
    paper = repository.cluster(episodes=100, certify=True, rng=0, restarts=2, iterations=1000)
    assert kept.cost == paper.cost


def test_scores_that_should_be_measured_again_are_told_where_values_are_estimates(repository, rng):
    for i, task in enumerate(random_tasks(rng, 4)):
        repository.add(task, POLICIES[i % 3], name=f"p{i}", evaluation_episodes=5)
    kept = repository.keep(k=2)
    assert kept.standard_errors.shape == (4, 4)
    assert (kept.standard_errors > 0).any()
    assert [doubt.policy for doubt in kept.doubts()] == [doubt.policy for doubt in repository.clustering().doubts()]
    assert kept.doubts()


REFUSALS = [
    ({}, "nothing is asked, must be one question"),
    ({"k": 2, "price": 1}, "k and price are given, must be one question"),
    ({"k": 5}, r"k is 5, must be a whole number, in 1\.\.4"),
    ({"k": 2, "rng": 1.5}, "rng is 1.5, must be a seed"),
    ({"max_loss": math.nan}, "max_loss is nan, must be"),
    ({"span": 3.0}, "episodes is None, must be given where span is"),
    ({"k": 1, "must_keep": "c"}, r"must_keep holds 'c', must be the name of a policy or a column in 0..3"),
    ({"k": 1, "weights": {"x": 1}}, "weights: "),
    ({"k": 1, "certify": "yes"}, "certify is 'yes', must be True or False"),
]


@pytest.mark.parametrize(("asked", "sentence"), REFUSALS)
def test_a_bad_question_is_refused_by_name_and_nothing_is_stored(repository, asked, sentence):
    with pytest.raises(InvalidInputError, match=f"^Repository.keep: {sentence}"):
        stocked(repository).keep(**asked)
    assert repository.clusterings() == []


def test_without_tasks_there_is_nothing_to_keep(repository):
    with pytest.raises(RepositoryError, match="holds no tasks yet, so there is nothing to keep"):
        repository.keep(k=1)
    with pytest.raises(RepositoryError, match=r"holds? no .*|keeps no tasks yet"):
        repository.experience()
    repository.add(one_step_task(1, 2, 3))
    with pytest.raises(RepositoryError, match=r"keeps no policies yet, so there is no experience: keep\(\)"):
        repository.experience()


def test_a_record_tells_what_is_lost(repository):
    stocked(repository).keep(k=2)
    assert repr(repository.clusterings()[0]) == "ClusteringRecord(1: 2 kept for 4 tasks, mean loss 0.25)"
