"""A repository with a ``max_loss``: the rule, its landmarks, what they say of all tasks, and the way there and back."""

from __future__ import annotations

import itertools
import shutil

import numpy as np
import pytest
import sqlalchemy as sa
from faults import small_task
from repository_reference import constant_policy, one_step_task, random_task, random_tasks, same_bits
from seams import Stack, addition, admission, asked, auditing

from pastmaster import (
    ContinualTransfer,
    GymTask,
    InvalidInputError,
    Repository,
    cross_values,
    solve,
)
from pastmaster.clustering.over_all import lower_limit
from pastmaster.domains import windy_corridor

MAX_LOSS = 0.5


def family(count=60):
    return [small_task(number) for number in range(count)]


def stored_values(repository, tasks):
    """U of these tasks under all stored policies, computed from scratch, and the own best of each task."""
    policies = [repository.policy(record.id) for record in repository.policy_records()]
    return cross_values(tasks, policies), np.array([cross_values([task], [solve(task)])[0, 0] for task in tasks])


def salted(monkeypatch, salt):
    monkeypatch.setattr(admission.secrets, "token_hex", lambda n: f"{salt:0{2 * n}x}")


# The rule


def test_a_policy_is_stored_where_its_task_would_lose_more_and_only_there(place):
    tasks = family()
    with Repository(place, max_loss=MAX_LOSS) as repository:
        for task in tasks[:20]:
            repository.add(task)
        repository.add_many(tasks[20:], batch=7)
        assert repository.check() == []
        U, best = stored_values(repository, tasks)
        assert (best - U.max(axis=1) <= MAX_LOSS + 1e-9).all()
        ids = [record.id for record in repository.policy_records()]
        assert 1 < len(ids) < len(tasks)
        founded = {number: i for i, record in enumerate(repository.records()) for number in [record.own_policy]}
        first = {}
        for i, record in enumerate(repository.records()):
            first.setdefault(record.own_policy, i)
        assert sorted(first) == ids == sorted(founded)
        for j, number in enumerate(ids[1:], start=1):  # each lost more under every policy before it
            assert best[first[number]] - U[first[number], :j].max() > MAX_LOSS
        for record, own, row in zip(repository.records(), best.tolist(), U, strict=True):
            assert record.best_value == own
            assert record.value == row[ids.index(record.policy_of_record)]


def test_many_at_once_are_the_same_as_one_by_one(path, tmp_path):
    tasks = family(30)
    with Repository(path, max_loss=MAX_LOSS) as one, Repository(tmp_path / "many.db", max_loss=MAX_LOSS) as many:
        ids = [one.add(task) for task in tasks]
        assert many.add_many(iter([*tasks, tasks[3]]), batch=8) == [*ids, ids[3]]
        assert many.records() == one.records()
        assert many.policy_records() == one.policy_records()


def test_many_at_once_without_a_rule_fill_the_whole_matrix(path, rng):
    tasks = random_tasks(rng, 9)
    with Repository(path) as repository:
        assert repository.add_many(tasks, batch=4) == list(range(1, 10))
        assert same_bits(repository.cross_values(), cross_values(tasks))
        assert repository.check() == []


def test_a_stack_values_policies_with_the_bits_of_cross_values(rng):
    tasks = random_tasks(rng, 8)
    policies = [np.asarray(solve(task).policy) for task in tasks]
    some = Stack().joined(dict(enumerate(policies[:3])))
    stack = some.joined(dict(enumerate(policies)))
    assert stack.joined({5: policies[5], 8: "no table"}) is stack
    assert len(some.places) == 3
    for task in tasks:
        for numbers in (range(8), [5], [3, 1, 7]):
            expected = cross_values([task], [policies[number] for number in numbers])[0]
            assert same_bits(stack.values(task, numbers), expected)


def test_a_given_policy_that_is_covered_is_forgotten_and_one_that_is_better_is_stored(path):
    with Repository(path, max_loss=1.0) as repository:
        repository.add(one_step_task(5.0, 0.0, 0.0), constant_policy(0))
        other = one_step_task(4.0, 4.5, 9.0)
        number = repository.add(other, constant_policy(1))
        assert len(repository.policy_records()) == 1
        assert (repository.record(number).value, repository.record(number).best_value) == (4.0, 4.5)
        assert repository.add(other, constant_policy(1)) == number
        assert len(repository.policy_records()) == 1
        assert repository.add(other, constant_policy(2)) == number
        record = repository.record(number)
        assert (record.value, record.best_value, record.own_policy) == (9.0, 9.0, 2)
        repository.replace_policy(1, constant_policy(1))  # stored, better or not
        assert repository.record(1).own_policy == 3
        assert repository.check() == []


def test_black_boxes_obey_the_rule_by_their_estimates(path):
    boxes = [GymTask("FrozenLake-v1", {"is_slippery": False, "map_name": name}, gamma=0.99) for name in ("4x4",)]
    policies = [np.zeros(16, int), np.full(16, 2), np.array([1, 2, 1, 0, 1, 0, 1, 0, 2, 1, 1, 0, 0, 2, 2, 0])]
    with Repository(path, max_loss=0.5) as repository:
        number = repository.add(boxes[0], policies[0])
        assert repository.add(boxes[0], policies[1]) == number
        assert len(repository.policy_records()) == 1
        repository.add(boxes[0], policies[2])
        assert repository.record(number).value > 0.9
        assert repository.keep(k=1, rng=0).over_all.n_tasks == 1


# Landmarks


def test_every_cell_has_a_landmark_and_weights_make_means_unbiased(tmp_path):
    """Over all salts the weighted mean of any number of a task is that of all tasks; the plain mean is not."""
    with Repository(tmp_path / "r.db", max_loss=MAX_LOSS) as repository:
        repository.add_many(family(80))
        own = {record.id: record.own_policy for record in repository.records()}
        number = {i: float(np.random.default_rng(cell).random() + i / 80) for i, cell in own.items()}
        truth, weighted, plain = np.mean(list(number.values())), [], []
        for salt in range(600):
            rule = admission.Admission(MAX_LOSS, str(salt))
            marks = repository.database.read(lambda c, r=rule: admission.landmarks(c, r, 16))
            assert {own[task] for task in marks.tasks} == {*own.values()}
            assert marks.weights.sum() == pytest.approx(1.0)
            fewer = repository.database.read(lambda c, r=rule: admission.landmarks(c, r, 8))
            assert {*fewer.tasks} <= {*marks.tasks}
            found = np.array([number[task] for task in marks.tasks])
            weighted.append(float(marks.weights @ found))
            plain.append(found.mean())
    error = np.std(weighted) / np.sqrt(len(weighted))
    assert abs(np.mean(weighted) - truth) < 5 * error
    assert abs(np.mean(plain) - truth) > 5 * error


def test_values_of_landmarks_are_completed_when_they_are_asked_for_and_stored(place):
    tasks = family(40)
    with Repository(place, max_loss=MAX_LOSS) as repository:
        repository.add_many(tasks)
        known = repository.keep(k=2, rng=0)
        U, best = stored_values(repository, tasks)
        assert np.abs(known.distance - (best[:, None] - U)).max() < 1e-9
        assert repository.check() == []
    with Repository(place) as again:
        assert same_bits(again.clustering().distance, known.distance)
        assert repr(again.clustering()) == repr(known)
        before = again.database.read(lambda c: c.execute(sa.text("SELECT count(*), sum(size) FROM arrays")).one())
        experience = again.experience()
        assert same_bits(experience.best, best)
        after = again.database.read(lambda c: c.execute(sa.text("SELECT count(*), sum(size) FROM arrays")).one())
        assert before == after


# What landmarks say of all tasks


@pytest.fixture(scope="module")
def streamed(tmp_path_factory):
    """A place with 100 tasks, all values of its candidates, and the own best of each task."""
    place, tasks = tmp_path_factory.mktemp("streamed") / "r.db", windy_corridor.family()
    with Repository(place, max_loss=1.0) as repository:
        repository.add_many(tasks)
        U, best = stored_values(repository, tasks)
        return place, np.maximum(0.0, best[:, None] - U)


def test_of_few_tasks_all_are_looked_at_and_the_mean_is_exact(streamed):
    place, losses = streamed
    with Repository(place) as repository:
        for question in ({"k": 2}, {"price": 0.3}, {"max_loss": 3.0}):
            kept = repository.keep(**question, rng=0)
            assert kept.over_all.mean_loss == pytest.approx(losses[:, kept.columns].min(axis=1).mean(), abs=1e-12)
            assert (kept.over_all.sampled, kept.over_all.low, kept.over_all.high) == (0,) + 2 * (
                kept.over_all.mean_loss,
            )


def test_the_interval_holds_the_mean_loss_over_all_tasks(streamed, monkeypatch, tmp_path):
    """[300 draws]: at 95%, more than 27 misses have a chance below 1 in 1,000. A third of the width would miss more."""
    place, losses = streamed
    monkeypatch.setattr(auditing, "AUDIT", 60)
    with Repository(shutil.copy(place, tmp_path / "r.db")) as repository:
        values = asked.Values.of_all(repository._contents, True)
        found = repository.keep(k=2, rng=0)
        truth = losses[:, found.columns].min(axis=1).mean()
        told = [
            auditing.audit(repository._contents, values, found, np.random.default_rng([5, i])).told for i in range(300)
        ]
    assert all(one.sampled == 60 and one.low <= one.mean_loss <= one.high for one in told)
    assert sum(not one.low <= truth <= one.high for one in told) <= 27
    third = [(one.mean_loss - one.low, one.high - one.mean_loss, one.mean_loss) for one in told]
    assert sum(not mean - low / 8 <= truth <= mean + high / 8 for low, high, mean in third) > 27
    assert np.mean([one.mean_loss for one in told]) == pytest.approx(truth, rel=0.1)


@pytest.mark.parametrize("question", [{"k": 2}, {"price": 0.3}])
def test_the_lower_bound_holds_for_all_tasks_and_that_of_landmarks_alone_does_not(
    streamed, monkeypatch, tmp_path, question
):
    """[60 salts]: all choices are enumerated. The bound of the sample itself is above the truth at times."""
    place, losses = streamed
    sizes = (2,) if "k" in question else range(1, 5)
    optimum = min(
        question.get("price", 0.0) * size + losses[:, list(columns)].min(axis=1).mean()
        for size in sizes
        for columns in itertools.combinations(range(losses.shape[1]), size)
    )
    monkeypatch.setattr(asked, "LANDMARKS", 10)
    with Repository(shutil.copy(place, tmp_path / "r.db")) as repository:
        bounds, alone = [], []
        for salt in range(60):
            rule = admission.Admission(MAX_LOSS, str(salt))
            monkeypatch.setattr(type(repository._contents), "rule", lambda self, c, rule=rule: rule)
            kept = repository.keep(**question, rng=salt)
            assert kept.is_optimal
            bounds.append(kept.over_all.lower_bound)
            alone.append(kept.lower_bound)
    assert sum(bound > optimum + 1e-9 for bound in bounds) <= 3  # 1 in 20
    assert sum(bound > optimum + 1e-9 for bound in alone) > 3


def test_the_lower_limit_is_where_chernoffs_bound_is_the_level():
    for found, weight, span in ((2.0, 1 / 500, 90.0), (0.1, 1 / 50, 1.0), (30.0, 0.01, 100.0)):
        low = lower_limit(found, weight, span, 0.95)
        assert 0.0 < low < found
        assert np.exp(-(found * np.log(found / low) - found + low) / (span * weight)) == pytest.approx(0.05)
    assert lower_limit(0.0, 0.1, 1.0) == 0.0
    rng, covered = np.random.default_rng(0), 0
    for _ in range(2000):  # coins, the widest terms there are
        covered += lower_limit(float((rng.random(40) < 0.1).mean()), 1 / 40, 1.0) <= 0.1
    assert covered >= 0.95 * 2000 - 3 * np.sqrt(2000 * 0.05 * 0.95)


# The knob


def test_copying_is_the_way_from_one_kind_to_the_other(tmp_path):
    tasks = family(20)
    with Repository(tmp_path / "exact.db") as exact, Repository(tmp_path / "streaming.db", max_loss=1.0) as streaming:
        exact.add_many(tasks)
        streaming.add_many(exact.tasks())
        assert len(streaming) == 20 > len(streaming.policy_records())
        with Repository(tmp_path / "again.db") as again:
            again.add_many(streaming.tasks())
            assert same_bits(again.cross_values(), exact.cross_values())


def test_the_rule_is_kept_in_backups_and_exported_folders(tmp_path):
    with Repository(tmp_path / "r.db", max_loss=MAX_LOSS) as repository:
        repository.add_many(family(20))
        repository.keep(k=2, rng=0)
        records, kept = repository.records(), repr(repository.clustering())
        repository.backup(tmp_path / "copy.db")
        repository.export(tmp_path / "folder")
    with Repository(tmp_path / "copy.db") as copy, Repository(tmp_path / "imported.db") as imported:
        imported.import_(tmp_path / "folder")
        for one in (copy, imported):
            assert (one.max_loss, one.records(), repr(one.clustering())) == (MAX_LOSS, records, kept)
            one.add(small_task(77))
            assert one.check() == []


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM admissions",
        "UPDATE admissions SET max_loss = 7",
        "UPDATE admissions SET settings = '{}'",
    ],
)
def test_a_damaged_rule_is_named(tmp_path, statement):
    """Without it nobody knows which values must be there."""
    with Repository(tmp_path / "r.db", max_loss=MAX_LOSS) as repository:
        repository.add_many(family(20))
        repository.database.write(lambda c: c.execute(sa.text(statement)))
        found = repository.check()
        assert "admissions 1" in {damage.place for damage in found}


@pytest.mark.parametrize("wrong", [-1, float("nan"), "much", float("inf"), True, [1]])
def test_nonsense_is_refused_by_name(tmp_path, wrong):
    with pytest.raises(InvalidInputError, match=r"Repository: max_loss is .*, must be"):
        Repository(tmp_path / "r.db", max_loss=wrong)
    assert not (tmp_path / "r.db").exists()
    with Repository(tmp_path / "r.db") as repository:
        with pytest.raises(InvalidInputError, match=r"Repository.add_many: tasks\[1\] is .*, must be"):
            repository.add_many([small_task(0), wrong])
        assert len(repository) == 0


def test_what_does_not_fit_is_refused_by_name(tmp_path, rng):
    with Repository(tmp_path / "r.db", max_loss=1.0) as repository:
        repository.add_many(family(3))
        with pytest.raises(InvalidInputError, match=r"Repository.keep: weights is given, must be None"):
            repository.keep(k=1, weights=[1, 1, 1])
        other = windy_corridor.task(goal=1, wind=0.0)
        with pytest.raises(InvalidInputError, match=r"Repository.add_many: task.n_states is 60, must be 6"):
            repository.add_many([random_task(rng), other])
        assert len(repository) == 3
    with pytest.raises(InvalidInputError, match=r"Repository: max_loss is 2, must be 1 as .*r.db has it"):
        Repository(tmp_path / "r.db", max_loss=2.0)
    with Repository(tmp_path / "exact.db") as repository:
        repository.add(small_task(0))
    with pytest.raises(InvalidInputError, match=r"max_loss is 2, must be None as .*exact.db has it"):
        Repository(tmp_path / "exact.db", max_loss=2.0)
    with Repository(tmp_path / "r.db", max_loss=1.0) as same, Repository(tmp_path / "r.db") as unsaid:
        assert same.max_loss == unsaid.max_loss == 1.0


def test_the_first_batch_of_a_new_repository_must_be_of_one_family(tmp_path, rng):
    with Repository(tmp_path / "r.db", max_loss=1.0) as repository:
        with pytest.raises(InvalidInputError, match=r"Repository.add_many: task.n_states is 60, must be 6 as in"):
            repository.add_many([random_task(rng), windy_corridor.task(goal=1, wind=0.0)])
        assert len(repository) == 0
        assert repository.add(random_task(rng)) == 1


def test_an_exact_repository_says_when_it_has_become_large(tmp_path, monkeypatch):
    monkeypatch.setattr(addition, "EXACT_UP_TO", 3)
    with Repository(tmp_path / "r.db") as repository:
        repository.add_many(family(3))
        with pytest.warns(UserWarning, match=r"Repository.add: 3 tasks are stored, .* max_loss="):
            repository.add(small_task(10))
        repository.add(small_task(11))


def test_an_agent_lives_in_a_streaming_repository(tmp_path):
    tasks = windy_corridor.family()[::6]
    with Repository(tmp_path / "r.db", max_loss=1.0) as repository:
        agent = ContinualTransfer(repository, episodes=30, recluster_every=5, rng=0)
        run = agent.run(tasks)
        assert len(run.values) == len(tasks) == len(repository)
        assert len(repository.policy_records()) < len(tasks)
        assert repository.clustering().over_all.n_tasks >= 15
        assert repository.check() == []
