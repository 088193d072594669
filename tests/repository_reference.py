"""What the tests of the repository compare with: everything computed from scratch, in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import reference
from seams import read_known

from pastmaster import Repository, TabularMDP, cross_values

N_STATES, N_ACTIONS = 6, 3


def random_task(rng: np.random.Generator, n_outcomes: int | None = None, **settings: Any) -> TabularMDP:
    """A small task of one family."""
    return reference.random_mdp(rng, N_STATES, N_ACTIONS, n_outcomes, horizon=20, **settings)


def random_tasks(rng: np.random.Generator, n_tasks: int) -> list[TabularMDP]:
    """Deterministic and stochastic ones by turns."""
    return [random_task(rng, 3 if i % 2 else None) for i in range(n_tasks)]


def worst_policy(task: TabularMDP) -> np.ndarray:
    """The policy of actions that is worth least in a task."""
    policies = list(reference.all_policies(task))
    return policies[int(cross_values([task], policies)[0].argmin())]


def constant_policy(action: int) -> np.ndarray:
    return np.full(N_STATES, action)


def one_step_task(*rewards: float) -> TabularMDP:
    """A task of one step that pays ``rewards[action]``: a constant policy is worth exactly its action's reward."""
    return TabularMDP(
        np.zeros((N_STATES, N_ACTIONS), int),
        np.tile(np.array(rewards), (N_STATES, 1)),
        terminated=np.ones((N_STATES, N_ACTIONS), bool),
        gamma=0.9,
        horizon=20,
    )


def same_bits(one: Any, other: Any) -> bool:
    """Whether two arrays are the same in dtype, shape and every bit."""
    one, other = np.asarray(one), np.asarray(other)
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def same_task(one: TabularMDP, other: TabularMDP) -> bool:
    arrays = ("next_state", "reward", "terminated", "start_states", "start_probability")
    plain = ("gamma", "horizon", "name", "params", "is_deterministic")
    return (
        all(same_bits(getattr(one, name), getattr(other, name)) for name in arrays)
        and all(getattr(one, name) == getattr(other, name) for name in plain)
        and (one.probability is None or same_bits(one.probability, other.probability))
    )


def from_scratch(repository: Repository) -> np.ndarray:
    """U of the tasks and policies as they are stored, every pair valued anew."""
    return cross_values(list(repository.tasks()), list(repository.policies()))


def wrong_values(repository: Repository) -> int:
    """How many stored values are not those of their policy in their task."""
    tasks, policies = repository.records(), repository.policy_records()
    ids, numbers = [task.id for task in tasks], [policy.id for policy in policies]
    stored = repository.database.read(lambda connection: read_known(connection, ids, numbers))
    truth = cross_values(list(repository.tasks()), [repository.policy(number) for number in numbers])
    value = dict(zip(numbers, truth.T, strict=True))
    of_record = [abs(task.value - value[task.policy_of_record][i]) > 1e-9 for i, task in enumerate(tasks)]
    return int((np.abs(stored - truth) > 1e-9).sum()) + sum(of_record)


def stored_policies(repository: Repository) -> dict[int, np.ndarray]:
    """All policies that some task needs, by id."""
    ids = {number for record in repository.records() for number in (record.own_policy, record.policy_of_record)}
    return {number: repository.policy(number) for number in sorted(ids)}


def rank(values: dict[int, float], own: int) -> list[int]:
    """Ids of policies from the one that must be of record down: best first; of equals the own, then the earliest."""
    top = max(values.values())
    rounding = 1e-9 * max(abs(value) for value in values.values())
    return sorted(values, key=lambda number: (values[number] < top - rounding, number != own, number))


def assert_whole(repository: Repository, *, strict_ties: bool = True) -> None:
    """All that must hold of a repository, whatever was done to it; ``strict_ties``: who is of record among equals."""
    assert repository.check() == []
    records = repository.records()
    assert len(repository) == len(records) == len(repository.tasks()) == len(repository.policies())
    if not records:
        return
    U = repository.cross_values()
    assert same_bits(U, from_scratch(repository))
    assert [record.value for record in records] == np.diag(U).tolist()
    policies = stored_policies(repository)
    for record, task in zip(records, repository.tasks(), strict=True):
        worth = cross_values([task], list(policies.values()))[0].tolist()
        values = dict(zip(policies, worth, strict=True))
        ranking = rank(values, record.own_policy)
        if strict_ties:
            assert record.policy_of_record == ranking[0]
        assert values[record.policy_of_record] >= values[ranking[0]] - 1e-9 * max(map(abs, worth))
        assert record.value == values[record.policy_of_record]
        assert record.value_error == 0
