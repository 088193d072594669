"""JAX tasks in a repository: those with an id are stored, and valued by programs."""

from __future__ import annotations

import numpy as np
import pytest
from seams import Valued, Vector

from pastmaster import InvalidInputError, JaxTask, Repository
from pastmaster.estimation import means
from pastmaster.estimation.jax_rollouts import is_program
from pastmaster.policies import NetworkPolicy

pytest.importorskip("jax")

POLE = "pastmaster/JaxCartPole-v0"


def network(seed: int) -> NetworkPolicy:
    rng = np.random.default_rng(seed)
    return NetworkPolicy([(rng.normal(size=(6, 4)), rng.normal(size=6)), (rng.normal(size=(2, 6)), np.zeros(2))])


def test_tasks_with_an_id_are_stored_valued_all_at_once_and_read(tmp_path, monkeypatch):
    tasks = JaxTask.variants(POLE, {"length": [0.3, 0.5, 0.9]}, gamma=0.97, horizon=30)
    played, calls = means.play_runs, []
    monkeypatch.setattr(means, "play_runs", lambda *a, **k: calls.append(len(a[0])) or played(*a, **k))
    with Repository(tmp_path / "poles.db") as repository:
        for seed, task in enumerate(tasks):
            repository.add(task, network(seed))
        assert calls == [1, 2]  # a policy in all old tasks
        values = np.array(repository.cross_values())
        assert values.shape == (3, 3)
        assert np.isfinite(values).all()
    with Repository(tmp_path / "poles.db") as repository:
        read = list(repository.tasks())
        assert [task.name for task in read] == [task.name for task in tasks]
        assert [task.identity for task in read] == [task.identity for task in tasks]
        assert all(is_program(task, [network(0)]) for task in read)
        np.testing.assert_array_equal(repository.cross_values(), values)
        assert len(repository.keep(k=1).policies) == 1


def test_all_at_once_gives_the_values_of_each_alone():
    tasks = JaxTask.variants(POLE, {"length": [0.3, 0.5, 0.9]}, gamma=0.97, horizon=30)
    valued = [Valued(task, 20 + i, 7 * i) for i, task in enumerate(tasks)]
    together, alone = Vector(), Vector()
    together.value_tasks([4, 2, 3], valued, network(0))
    for number, some in zip([4, 2, 3], valued, strict=True):
        alone.value_policies(some, [number], [network(0)])
    assert together.worths == alone.worths
    assert together.episodes == alone.episodes == 63


def test_an_object_is_not_stored(tmp_path):
    from pastmaster.domains.jax_cart_pole import CartPole

    with Repository(tmp_path / "poles.db") as repository:
        with pytest.raises(
            InvalidInputError, match="can be used but not stored: JaxTask: env is 'CartPole', an object"
        ):
            repository.add(JaxTask(CartPole(), horizon=30), network(0))
        assert len(repository) == 0
