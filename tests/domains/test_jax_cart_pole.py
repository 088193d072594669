"""The JAX CartPole is Gymnasium's, to the rounding of float32."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from pastmaster import JaxTask
from pastmaster.domains import cart_pole
from pastmaster.estimation import EpisodeRange, episode_returns
from pastmaster.policies import NetworkPolicy

jax = pytest.importorskip("jax")

VARIANTS = ({}, {"length": 1.5, "gravity": 1.6}, {"force_mag": -7.0}, {"masscart": 2.0, "masspole": 0.3})


def networks(count: int) -> list[NetworkPolicy]:
    """Some that balance the pole, some that do not."""
    rng = np.random.default_rng(5)
    balancing = [NetworkPolicy([([[-0.1, -0.2, -1, -1], [0.1, 0.2, 1, 1]], [0.0, 0.0])])]
    return balancing + [
        NetworkPolicy([(rng.normal(size=(2, 4)) * [0.1, 0.3, 3, 1], np.zeros(2))]) for _ in range(count - 1)
    ]


def gymnasium_env(variant: dict[str, float]) -> gym.Env:
    return gym.make("CartPole-v1") if not variant else gym.make("pastmaster/CartPole-v0", **variant)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_step_is_gymnasiums_from_the_same_state(variant):
    from pastmaster.domains.jax_cart_pole import CartPole, Params, State

    ours, theirs = CartPole(), gymnasium_env(variant)
    step, params = jax.jit(ours.step), Params()._replace(**variant)
    rng = np.random.default_rng(0)
    seen = 0
    for seed in range(3):
        observation, _ = theirs.reset(seed=seed)
        over = False
        while not over:
            action = int(rng.integers(2)) if rng.random() < 0.3 else int(observation[2] + observation[3] > 0)
            action = action if variant.get("force_mag", 1) > 0 else 1 - action
            state = State(*np.asarray(theirs.unwrapped.state, np.float32))
            got = step(jax.random.PRNGKey(0), state, action, params)
            observation, reward, terminated, truncated, _ = theirs.step(action)
            np.testing.assert_allclose(got[0], observation, rtol=2e-6, atol=2e-7)
            assert float(got[2]) == reward
            edge = min(abs(abs(observation[0]) - 2.4), abs(abs(observation[2]) - 0.20943951))
            assert bool(got[3]) == terminated or edge < 1e-6
            over, seen = terminated or truncated, seen + 1
    assert seen > 300


@pytest.mark.parametrize("variant", VARIANTS)
def test_episodes_from_the_same_starts_earn_what_gymnasiums_do(variant):
    """A pole that is neither held nor dropped at once doubles what rounding changed every nine steps or so."""
    task, theirs, policies = (
        JaxTask("pastmaster/JaxCartPole-v0", variant, gamma=0.99),
        gymnasium_env(variant),
        networks(6),
    )
    seen = []
    ours = episode_returns(task, policies, [EpisodeRange(j, 0, 4) for j in range(6)], seed=11)
    for policy in policies:
        for k in range(4):
            single = task()
            start, _ = single.reset(seed=int(np.random.default_rng([11, k]).integers(2**31)))
            theirs.reset(seed=0)
            theirs.unwrapped.state = np.asarray(start, np.float64)
            observation, total, weight, over = start, 0.0, 1.0, False
            while not over:
                observation, reward, ended, cut, _ = theirs.step(int(policy.act(observation[None])[0]))
                total, weight, over = total + weight * reward, weight * 0.99, ended or cut
            seen.append(total)
    steps = [np.log1p(-0.01 * np.ravel(some)) / np.log(0.99) for some in (ours, seen)]
    assert max(steps[1]) == pytest.approx(500) or variant
    settled = (steps[1] < 60) | (steps[1] > 499)
    np.testing.assert_allclose(steps[0][settled], steps[1][settled], atol=1e-6)
    assert settled.mean() > 0.6
    assert np.mean(np.abs(steps[0] - steps[1]) < 1e-6) > 0.8


def test_a_family_by_id_is_that_of_the_black_boxes():
    tasks = cart_pole.family(3, rng=0)
    family = JaxTask.variants("pastmaster/JaxCartPole-v0", [task.kwargs for task in tasks], gamma=0.99)
    assert [dict(task.kwargs) for task in family] == [dict(task.kwargs) for task in tasks]
    assert family[0].known_rewards == (1.0, 1.0)
    with pytest.raises(ValueError, match="length is -1, must be a number above 0"):
        JaxTask("pastmaster/JaxCartPole-v0", {"length": -1})
