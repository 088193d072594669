"""Values that were wrong when they were stored: ``check`` cannot see them, ``check(values=True)`` does."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from faults import small_task
from seams import Stack, rows, spot_check

from pastmaster import GymTask, InvalidInputError, Repository, TabularMDP, solve
from pastmaster.cli import main

COUNT = 12
LIMITS = (None, 0.3)


def filled(place: str, max_loss: float | None = None) -> Repository:
    """A repository of tasks with a model, some of them valued by episodes."""
    repository = Repository(place, max_loss=max_loss)
    repository.add_many(map(small_task, range(COUNT)))
    task = small_task(COUNT)
    repository.add(task, solve(task).policy, evaluation_episodes=10)
    return repository


def store_wrong(repository: Repository, table: str, number: int, name: str, at: int, by: float) -> tuple[int, float]:
    """Change one entry of a stored array as if it had been computed so; returns whom it is paired with, and it."""
    kind = name.partition("_")[0]

    def change(connection: sa.Connection) -> tuple[int, float]:
        its_arrays = next(iter(rows.fetch_arrays(connection, table, [number])))[1]
        wrong = its_arrays[name].copy()
        wrong[at] += by
        rows.replace_arrays(connection, table, number, {name: wrong})
        return int(its_arrays[f"{kind}_ids"][at]), float(wrong[at])

    return repository.database.write(change)


def long_vector(repository: Repository, table: str, kind: str) -> int:
    """The record of the longest row or column."""

    def lengths(connection: sa.Connection) -> dict[int, int]:
        numbers = rows.numbers(connection, table)
        return {i: len(found[f"{kind}_ids"]) for i, found in rows.fetch_arrays(connection, table, numbers)}

    found = repository.database.read(lengths)
    return max(found, key=found.__getitem__)


def unused(repository: Repository, task: int) -> int:
    """A place in a task's row that is not the policy of record."""
    record = repository.record(task).policy_of_record
    ids = repository.database.read(lambda c: next(iter(rows.fetch_arrays(c, "tasks", [task])))[1]["row_ids"])
    return int(np.flatnonzero(ids != record)[0])


@pytest.mark.parametrize("max_loss", LIMITS)
def test_what_nobody_touched_is_right(place, max_loss):
    with filled(place, max_loss) as repository:
        found = repository.check(values=True)
        assert found == []
        assert found.valued == found.values > COUNT
        assert found.skipped == []
        without = repository.check()
        assert (without, without.valued, without.values) == ([], 0, 0)


@pytest.mark.parametrize("max_loss", LIMITS)
@pytest.mark.parametrize(("what", "words"), [("values", "value"), ("errors", "standard error")])
def test_a_wrong_entry_of_a_row_with_a_right_checksum_is_named(path, max_loss, what, words):
    with filled(path, max_loss) as repository:
        task = long_vector(repository, "tasks", "row")
        at = unused(repository, task)
        policy, stored = store_wrong(repository, "tasks", task, f"row_{what}", at, 1e-3)
        assert repository.check() == []
        (damage,) = repository.check(values=True)
        assert damage.place == f"tasks {task}"
        assert damage.problem.startswith(f"its {words} under policy {policy} is {stored:.12g}, must be ")


def test_a_wrong_entry_of_a_column_is_named(tmp_path):
    with filled(str(tmp_path / "repository.db")) as repository:
        policy = long_vector(repository, "policies", "column")
        task, _ = store_wrong(repository, "policies", policy, "column_values", 0, -0.5)
        assert repository.check() == []
        (damage,) = repository.check(values=True)
        assert damage.place == f"tasks {task}"
        assert f"under policy {policy} " in damage.problem


@pytest.mark.parametrize("max_loss", LIMITS)
def test_a_wrong_value_of_record_is_named(path, max_loss):
    """As threads stored it that raced: row and record say the same, which is another policy's value."""
    with filled(path, max_loss) as repository:
        task = repository.records()[3]

        def change(connection: sa.Connection) -> None:
            its_arrays = next(iter(rows.fetch_arrays(connection, "tasks", [task.id])))[1]
            wrong = its_arrays["row_values"] + 0.01
            rows.replace_arrays(connection, "tasks", task.id, {"row_values": wrong})
            row = rows.fetch(connection, "tasks", [task.id])[0]
            at = its_arrays["row_ids"].tolist().index(task.policy_of_record)
            rows.update(connection, "tasks", row, value=float(wrong[at]))

        repository.database.write(change)
        assert repository.check() == []
        found = repository.check(values=True)
        assert {damage.place for damage in found} == {f"tasks {task.id}"}
        assert any(f"under policy {task.policy_of_record} " in damage.problem for damage in found)


def test_values_that_were_computed_from_another_policys_actions_are_found(path, monkeypatch):
    """What threads did to each other in the array of policies: the places of some were those of others."""
    right = Stack.values
    monkeypatch.setattr(Stack, "values", lambda self, task, numbers: np.roll(right(self, task, numbers), 1))
    with Repository(path, max_loss=0.05) as repository:
        repository.add_many(map(small_task, range(COUNT)))
        assert repository.check() == []
        assert repository.check(values=True)


@pytest.mark.parametrize("by", [1e-12, -1e-12])
def test_rounding_is_no_damage(tmp_path, by):
    with filled(str(tmp_path / "repository.db")) as repository:
        task = long_vector(repository, "tasks", "row")
        store_wrong(repository, "tasks", task, "row_values", unused(repository, task), by)
        assert repository.check(values=True) == []


def test_tasks_that_were_valued_together_agree_with_each_alone(tmp_path):
    """Tasks that share their dynamics are valued by occupancies, one alone is not: sums differ by rounding."""
    rng = np.random.default_rng(0)
    shape = (6, 3, 2)
    next_state, probability = rng.integers(6, size=shape), np.full(shape, 0.5)
    tasks = [
        TabularMDP(next_state, rng.normal(size=shape) * 1000.0, probability=probability, gamma=0.99) for _ in range(8)
    ]
    with Repository(tmp_path / "repository.db") as repository:
        repository.add_many(tasks)
        found = repository.check(values=True)
        assert (found, found.valued) == ([], 64)


def test_of_many_values_a_sample_is_looked_at_the_same_for_the_same_seed(tmp_path, monkeypatch):
    monkeypatch.setattr(spot_check, "MOST", 40)
    with filled(str(tmp_path / "repository.db")) as repository:
        task = long_vector(repository, "tasks", "row")
        for at in range(COUNT):
            store_wrong(repository, "tasks", task, "row_errors", at, 1.0)
        once, again, other = (repository.check(values=True, rng=seed) for seed in (1, 1, 2))
        assert 40 <= once.valued <= 40 + COUNT + 1
        assert once.values == (COUNT + 1) ** 2
        assert once == again != other
        assert 0 < len(once) < COUNT


def test_values_by_episodes_of_an_environment_are_run_again(path):
    down = np.ones(16, int)
    with Repository(path) as repository:
        for slippery in (True, False):
            repository.add(GymTask("FrozenLake-v1", {"is_slippery": slippery}), down, evaluation_episodes=20)
            repository.add(GymTask("FrozenLake-v1", {"is_slippery": slippery}, horizon=7), down + 1)
        found = repository.check(values=True)
        assert (found, found.skipped) == ([], [])
        assert found.valued == found.values == 16
        store_wrong(repository, "tasks", 2, "row_values", 0, 0.05)
        assert repository.check() == []
        (damage,) = repository.check(values=True)
        assert damage.place == "tasks 2"
        assert "as computed again by the same 30 episodes" in damage.problem


class Broken(gym.Env[Any, Any]):
    """An environment whose episodes cannot be run any more."""

    observation_space = gym.spaces.Discrete(16)
    action_space = gym.spaces.Discrete(4)

    def reset(self, **_: Any) -> Any:
        raise OSError("no licence")


def test_an_environment_that_cannot_be_made_or_run_here_is_no_damage(path):
    down = np.ones(16, int)
    gym.register("SpotCheckLake-v0", entry_point="gymnasium.envs.toy_text.frozen_lake:FrozenLakeEnv")
    try:
        with Repository(path) as repository:
            repository.add(GymTask("SpotCheckLake-v0", horizon=20), down, evaluation_episodes=5)
            repository.add(GymTask("FrozenLake-v1", horizon=20), down, evaluation_episodes=5)
            assert repository.check(values=True).skipped == []
        gym.registry.pop("SpotCheckLake-v0")
        with Repository(path) as repository:
            found = repository.check(values=True)
            assert found == []
            (skipped,) = found.skipped
            assert skipped.place == "tasks 1"
            assert "SpotCheckLake-v0 is not registered here" in skipped.problem
            assert (found.valued, found.values) == (2, 4)
        gym.register("SpotCheckLake-v0", entry_point=Broken)
        with Repository(path) as repository:
            found = repository.check(values=True)
            assert (found, len(found.skipped)) == ([], 1)
            assert "no licence" in found.skipped[0].problem
    finally:
        gym.registry.pop("SpotCheckLake-v0", None)


def test_damage_does_not_keep_the_other_values_from_being_looked_at(tmp_path):
    with filled(str(tmp_path / "repository.db")) as repository:
        task = long_vector(repository, "tasks", "row")
        store_wrong(repository, "tasks", task, "row_values", unused(repository, task), 1.0)
        with repository.database.backend.engine.connect() as connection:  # type: ignore[union-attr]
            here = "owner = 'policies' AND owner_id = 2 AND name = 'policy'"
            connection.exec_driver_sql(f"UPDATE arrays SET data = x'00' WHERE {here}")
        found = {damage.place for damage in repository.check(values=True)}
        assert {"policies 2", f"tasks {task}"} <= found


def test_what_is_asked_is_checked(repository):
    with pytest.raises(InvalidInputError, match=r"Repository.check: values is 3"):
        repository.check(values=3)
    with pytest.raises(InvalidInputError, match=r"Repository.check: rng is 'x'"):
        repository.check(values=True, rng="x")


def test_the_command_computes_values_again(tmp_path):
    place = str(tmp_path / "repository.db")
    run = CliRunner().invoke
    with filled(place) as repository:
        task = long_vector(repository, "tasks", "row")
        well = run(main, ["repo", "check", place, "--values"])
        assert well.exit_code == 0, well.output
        total = (COUNT + 1) ** 2
        assert well.stdout.splitlines() == [
            f"all is well: {COUNT + 1} tasks",
            f"{total} of {total} values computed again",
        ]
        store_wrong(repository, "tasks", task, "row_values", unused(repository, task), 1.0)
    assert run(main, ["repo", "check", place]).exit_code == 0
    found = run(main, ["repo", "check", place, "--values"])
    assert found.exit_code == 1
    assert found.stdout.startswith(f"tasks {task}: its value under policy ")
