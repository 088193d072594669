"""Sources in a JAX task: their episodes run in blocks, and are those that step by step would be."""

from __future__ import annotations

import numpy as np
import pytest

from pastmaster import FixedPolicy, JaxTask, transfer
from pastmaster.errors import TaskError
from pastmaster.policies import FunctionPolicy, NetworkPolicy
from pastmaster.reuse import ahead

jax = pytest.importorskip("jax")

TASK = JaxTask("pastmaster/JaxCartPole-v0", {"length": 0.4}, gamma=0.97, horizon=30)


def network(seed: int) -> NetworkPolicy:
    rng = np.random.default_rng(seed)
    return NetworkPolicy([(rng.normal(size=(6, 4)), rng.normal(size=6)), (rng.normal(size=(2, 6)), np.zeros(2))])


def test_blocks_give_the_run_that_single_steps_give(monkeypatch):
    networks, learner = [network(seed) for seed in range(2)], FixedPolicy(network(9))
    blocks = []
    played = ahead.play_runs
    monkeypatch.setattr(ahead, "play_runs", lambda *a, **k: blocks.append(a[3]) or played(*a, **k))
    ours = transfer(TASK, networks, episodes=100, learner=learner, trials=2, rng=3)
    assert 0 < len(blocks) <= 12
    assert {int(block.number[0]) for block in blocks} <= set(range(1, 65))
    functions = [FunctionPolicy(policy.act, batched=True) for policy in networks]
    plain = transfer(TASK, functions, episodes=100, learner=learner, trials=2, rng=3)
    np.testing.assert_array_equal(ours.arms, plain.arms)
    np.testing.assert_allclose(ours.returns, plain.returns, rtol=1e-10)
    np.testing.assert_allclose(ours.undiscounted, plain.undiscounted)
    again = transfer(TASK, networks, episodes=100, learner=learner, trials=2, rng=ours.seed)
    np.testing.assert_array_equal(ours.returns, again.returns)


def test_a_bad_reward_of_a_source_is_told():
    from pastmaster.domains.jax_cart_pole import CartPole

    class Broken(CartPole):
        def step(self, key, state, action, params):
            observation, state, reward, over, info = super().step(key, state, action, params)
            return observation, state, reward * jax.numpy.nan, over, info

    task = JaxTask(Broken(), horizon=5, name="broken")
    with pytest.raises(TaskError, match=r"^broken: step returned the reward nan in episode \d+ of sourc"):
        transfer(task, [network(0)], episodes=5, learner=FixedPolicy(FunctionPolicy(lambda x: 0)), rng=0, bounds=(0, 5))
