"""Names and files of policies, lists of records as people see them, and seeds that are told."""

from __future__ import annotations

import json

import numpy as np
import pytest
from repository_reference import one_step_task
from seams import RECORDS

import pastmaster
from pastmaster import InvalidInputError, Repository
from pastmaster.policies import NetworkPolicy

ALWAYS = [np.full(6, action) for action in range(3)]
TASKS = [one_step_task(9, 0, 0), one_step_task(0, 9, 0), one_step_task(0, 0, 9)]


def named(repository):
    for task, policy, name in zip(TASKS, ALWAYS, "abc", strict=True):
        repository.add(task, policy, source=f"drawer/{name}.npy")
    return repository


def test_a_policy_is_called_by_its_file_or_the_name_given_or_its_task(repository):
    repository.add(TASKS[0], ALWAYS[0], source="drawer/a.npy")
    repository.add(TASKS[1], ALWAYS[1], source="drawer/b.npy", name="the second")
    repository.add(TASKS[2])
    assert [(p.name, p.source) for p in repository.policy_records()] == [
        ("a.npy", "drawer/a.npy"),
        ("the second", "drawer/b.npy"),
        (TASKS[2].name or "policy 3", None),
    ]
    assert [(r.policy_name, r.policy_source) for r in repository.records()][:2] == [
        ("a.npy", "drawer/a.npy"),
        ("the second", "drawer/b.npy"),
    ]
    assert repository.record(1) == repository.records()[0]
    assert repository.check() == []


def test_the_policy_of_record_is_named_and_not_the_tasks_own(repository):
    repository.add(TASKS[0], ALWAYS[1], source="worse.npy")
    repository.add(one_step_task(8, 0, 0), ALWAYS[0], source="better.npy")
    first = repository.record(1)
    assert (first.own_policy, first.policy_of_record, first.policy_source) == (1, 2, "better.npy")


def test_a_name_stays_when_its_task_is_removed(repository):
    repository.add(TASKS[0], ALWAYS[1], source="worse.npy")
    number = repository.add(one_step_task(8, 0, 0), ALWAYS[0], source="better.npy")
    repository.remove(number)
    assert repository.record(1).policy_source == "better.npy"


def test_names_are_given_later_and_are_no_part_of_what_a_policy_is(repository):
    number = repository.add(TASKS[0], ALWAYS[0])
    digest = repository.policy_records()[0].digest
    assert repository.add(TASKS[0], ALWAYS[0], source="drawer/a.npy") == number
    (record,) = repository.policy_records()
    assert (record.name, record.source, record.digest) == ("a.npy", "drawer/a.npy", digest)
    repository.add(TASKS[0], ALWAYS[1], source="drawer/other.npy")  # worse: not stored, and renames nothing
    assert repository.policy_records() == [record]
    repository.replace_policy(number, ALWAYS[2], name="replaced")
    assert repository.policy_records()[-1].name == "replaced"
    assert repository.check() == []


def test_a_network_keeps_its_digest_under_a_name(place):
    network = NetworkPolicy([(np.eye(3, 6, dtype=np.float32), np.zeros(3, np.float32))], one_hot=True, head="argmax")
    with Repository(place) as repository:
        repository.add(TASKS[0], network, source="net.zip", evaluation_episodes=2)
    with Repository(place) as repository:
        assert np.array_equal(repository.policy(1).weights, network.weights)
        assert repository.policy_records()[0].name == "net.zip"
        assert repository.check() == []


def test_export_and_import_keep_names(repository, tmp_path):
    named(repository).export(tmp_path / "out")
    with Repository(tmp_path / "copy.db") as copy:
        copy.import_(tmp_path / "out")
        assert copy.policy_records() == repository.policy_records()
        assert copy.check() == []


def test_a_damaged_policy_leaves_the_list_of_tasks_readable(repository):
    named(repository)
    table = RECORDS["policies"]
    repository.database.write(lambda c: c.execute(table.update().where(table.c.id == 2).values(checksum="0" * 64)))
    assert [record.policy_name for record in repository.records()] == ["a.npy", "policy 2", "c.npy"]


@pytest.mark.parametrize("wrong", [{"name": 5}, {"name": ""}, {"source": 5}, {"name": "x" * 1001}, {"name": "\0"}])
def test_bad_names_are_refused_and_nothing_is_stored(repository, wrong):
    with pytest.raises(InvalidInputError, match=rf"^Repository.add: {next(iter(wrong))} is .*, must be"):
        repository.add(TASKS[0], ALWAYS[0], **wrong)
    assert len(repository) == 0


def test_kept_policies_are_named_and_any_stored_policy_may_be_kept(repository):
    """A compromise that is the best nowhere is kept where one policy must serve all: not so by symmetric distances."""
    repository.add(one_step_task(9, 0, 8), ALWAYS[0], source="first.npy")
    repository.add(one_step_task(0, 9, 8), ALWAYS[1], source="second.npy")
    repository.add(one_step_task(9, 0, 7), ALWAYS[2], source="both.npy")
    kept = repository.cluster(n_clusters=1, rng=0, restarts=1, iterations=100)
    assert kept.directed
    (policy,) = repository.policy_records(repository.source_ids())
    assert policy.source == "both.npy"
    assert list(repository.named_sources()) == ["both.npy"]
    assert kept.policy_names == repository.clustering().policy_names == ("first.npy", "second.npy", "both.npy")
    assert [kept.policy(j) for j in kept.representatives] == ["both.npy"]
    assert repository.cell_policies() == [policy.id]
    paper = repository.cluster(n_clusters=1, rng=0, directed=False, restarts=1, iterations=100)
    assert not paper.directed
    assert "both.npy" not in repository.named_sources()
    assert repository.check() == []


def test_policies_of_one_name_are_told_apart(repository):
    for task, policy, folder in zip(TASKS, ALWAYS, "abc", strict=True):
        repository.add(task, policy, source=f"{folder}/best_model.zip")
    repository.cluster(n_clusters=3, rng=0, restarts=1, iterations=100)
    assert sorted(repository.named_sources()) == [f"best_model.zip ({i})" for i in (1, 2, 3)]


def test_the_seed_of_a_clustering_is_told_and_gives_it_again(repository):
    named(repository)
    first = repository.cluster(episodes=100, restarts=1, iterations=100)
    again = repository.cluster(episodes=100, rng=first.seed, restarts=1, iterations=100)
    assert first.seed == again.seed == repository.clusterings()[-1].seed == repository.clustering().seed
    assert first.cost == again.cost
    assert np.array_equal(first.labels, again.labels)
    assert repository.cluster(episodes=100, rng=np.random.default_rng(0), restarts=1, iterations=100).seed is None
    assert repository.cluster(n_clusters=2, rng=7, directed=False, restarts=1, iterations=100).seed == 7


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"n_clusters": 2.0}, r"^Repository.cluster: n_clusters is 2.0, must be a whole number"),
        ({"n_clusters": 2, "rng": 1.5}, r"^Repository.cluster: rng is 1.5, must be a seed"),
        ({"n_clusters": 2, "directed": "yes"}, r"^Repository.cluster: directed is 'yes', must be True or False"),
        (
            {"n_cluster": 2},
            r"^Repository.cluster: n_cluster is no option here \(did you mean n_clusters\?\), must ",
        ),
        ({}, r"^Repository.cluster: "),
    ],
)
def test_a_bad_question_is_refused_by_the_name_of_what_was_called(repository, asked, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        named(repository).cluster(**asked)
    assert repository.clusterings() == []


def test_a_policy_that_does_not_fit_is_refused_by_the_name_of_what_was_called(repository):
    repository.add(TASKS[0], ALWAYS[0])
    with pytest.raises(InvalidInputError, match=r"^Repository.replace_policy: policy has shape \(2,\)"):
        repository.replace_policy(1, [0, 1])
    with pytest.raises(InvalidInputError, match=r"^Repository.replace_policy: policy is a function"):
        repository.replace_policy(1, lambda state: 0)


def test_a_network_of_other_spaces_is_refused_in_one_sentence(tmp_path):
    network = NetworkPolicy([(np.ones((2, 4), np.float32), np.zeros(2, np.float32))], head="argmax")
    wanted = (
        r"^Repository.add: policy is a network that takes 4 numbers and gives one of 2 actions, must fit Pendulum-v1, "
        r"which has Box \[3\] float32 observations and Box \[1\] float32 actions$"
    )
    with Repository(tmp_path / "boxes.db") as repository:
        with pytest.raises(InvalidInputError, match=wanted):
            repository.add(pastmaster.GymTask("Pendulum-v1"), network)
        with pytest.raises(InvalidInputError, match="gives one of 2 actions, must fit"):
            repository.add(TASKS[0], network)
        assert len(repository) == 0


def test_everything_prints_in_one_short_line(tmp_path):
    with Repository(tmp_path / ("a long name " * 12 + ".db")) as repository:
        named(repository)
        repository.add(one_step_task(1, 2, 3), ALWAYS[2], name="n" * 300, source="s" * 300)
        repository.cluster(n_clusters=2, rng=0, restarts=1, iterations=100)
        shown = [
            repository, repository.records(), repository.policy_records(), repository.clusterings(), repository.runs(),
            repository.records()[0], *repository.policy_records(), repository.clusterings()[0],
        ]  # fmt: skip
        for item in shown:
            assert len(repr(item)) <= 100
            assert "\n" not in repr(item)


def test_lists_of_records_are_frames_and_tables(repository):
    named(repository)
    frame = repository.to_frame()
    assert frame.equals(repository.records().to_frame())
    assert frame["policy_source"].tolist() == ["drawer/a.npy", "drawer/b.npy", "drawer/c.npy"]
    assert "digest" not in frame
    assert repository.policy_records().to_frame()["name"].tolist() == ["a.npy", "b.npy", "c.npy"]
    page = repository.records()._repr_html_()
    assert page.count("<tr>") == 4
    assert "drawer/b.npy" in page
    repository.add(one_step_task(1, 2, 3), ALWAYS[0], name="<script>")
    assert "<script>" not in repository.policy_records()._repr_html_()
    assert json.loads(repository.records().to_frame().drop(columns="bounds").to_json())
