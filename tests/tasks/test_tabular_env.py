from __future__ import annotations

import math

import gymnasium as gym
import numpy as np
import pytest
import reference
from gymnasium.utils.env_checker import check_env
from scipy.stats import binomtest

from pastmaster import InvalidInputError, TabularEnv, TabularMDP, evaluate

IDS = ("pastmaster/WindyCorridor-v0", "pastmaster/ColouredGrid-v0", "pastmaster/Surveillance-v0")
RENDER_MODES = (None, "ansi", "rgb_array")
LEVEL = 1e-6  # the chance that a statistical test fails although all is well


def random_env(rng, **settings) -> TabularEnv:
    return reference.random_mdp(rng, **settings).to_gymnasium()


def episode(env, seed, actions) -> list[tuple]:
    """What happens under these actions, up to the end of the episode."""
    seen = [env.reset(seed=seed)]
    for action in actions:
        seen.append(env.step(action))
        if seen[-1][2] or seen[-1][3]:
            break
    return seen


# Gymnasium's own check; warnings are errors in this suite


@pytest.mark.parametrize("render_mode", RENDER_MODES)
@pytest.mark.parametrize("name", IDS)
def test_registered_environments_pass_gymnasiums_check(name, render_mode):
    env = gym.make(name, render_mode=render_mode)
    assert env.render_mode == render_mode
    check_env(env.unwrapped)


@pytest.mark.parametrize("render_mode", RENDER_MODES)
@pytest.mark.parametrize("n_outcomes", [None, 3])
def test_any_task_passes_gymnasiums_check(rng, n_outcomes, render_mode):
    env = reference.random_mdp(rng, n_outcomes=n_outcomes).to_gymnasium(render_mode)
    assert isinstance(env, TabularEnv)
    assert env.render_mode == render_mode
    check_env(env)


def test_gymnasiums_check_can_fail_here(rng):
    class Silent(TabularEnv):
        def reset(self, *, seed=None, options=None):
            state, _ = super().reset(seed=seed, options=options)
            return state + self.mdp.n_states, {}  # outside the observation space

    with pytest.raises(AssertionError):
        check_env(Silent(reference.random_mdp(rng)))
    with pytest.raises(UserWarning, match="spec"):
        check_env(TabularEnv(reference.random_mdp(rng)))


def test_vector_environments_can_be_made():
    envs = gym.make_vec("pastmaster/WindyCorridor-v0", num_envs=3, wind=0.5)
    observations, _ = envs.reset(seed=1)
    assert observations.tolist() == [30, 30, 30]
    envs.close()


# Stepping


@pytest.mark.parametrize("n_outcomes", [None, 3])
def test_the_table_and_the_start_are_those_of_the_task(rng, n_outcomes):
    mdp = reference.random_mdp(rng, n_outcomes=n_outcomes)
    env = mdp.to_gymnasium()
    for s, a in np.ndindex(mdp.n_states, mdp.n_actions):
        assert [row for row in env.P[s][a] if row[0] > 0] == reference.outcomes(mdp, s, a)
    assert np.array_equal(env.initial_state_distrib, reference.start_distribution(mdp))
    assert (env.observation_space.n, env.action_space.n) == (mdp.n_states, mdp.n_actions)


def test_steps_follow_the_table(rng):
    env = random_env(rng, n_states=8, ending=0.1)
    table = env.P
    state, _ = env.reset(seed=3)
    for _ in range(300):
        action = int(rng.integers(env.action_space.n))
        following, reward, terminated, truncated, info = env.step(action)
        assert (info["prob"], following, reward, terminated) in table[state][action]
        assert info["prob"] > 0
        assert not truncated
        state = env.reset()[0] if terminated else following


@pytest.mark.parametrize("n_outcomes", [None, 3])
@pytest.mark.parametrize("horizon", [1, 2, 7])
def test_an_episode_is_truncated_exactly_at_the_horizon(rng, n_outcomes, horizon):
    env = random_env(rng, n_outcomes=n_outcomes, horizon=horizon, ending=0.0)
    for _ in range(2):  # the count starts afresh at a reset
        seen = episode(env, 0, [0] * (horizon + 5))
        assert len(seen) == 1 + horizon
        assert [truncated for *_, truncated, _ in seen[1:]] == [False] * (horizon - 1) + [True]


def test_an_episode_that_ends_at_the_horizon_is_terminated_not_truncated():
    env = TabularMDP([[1], [1]], [[0], [5]], terminated=[[False], [True]], gamma=0.9, horizon=2).to_gymnasium()
    env.reset()
    assert env.step(0)[2:4] == (False, False)
    assert env.step(0)[:4] == (1, 5.0, True, False)


def test_there_is_no_truncation_without_a_horizon(rng):
    env = random_env(rng, ending=0.0, horizon=None)
    assert len(episode(env, 0, [0] * 500)) == 501


def test_stepping_before_the_start_or_after_the_end_is_refused():
    env = TabularMDP([[0]], [[1]], gamma=0.9, horizon=1).to_gymnasium()
    with pytest.raises(InvalidInputError, match="call reset first"):
        env.step(0)
    env.reset()
    env.step(0)
    with pytest.raises(InvalidInputError, match="the episode is over"):
        env.step(0)
    env.reset()
    assert env.step(0)[1] == 1.0


@pytest.mark.parametrize("action", [2, -1, 0.5, None, "north"])
def test_an_unknown_action_is_refused_and_the_episode_goes_on(action):
    env = TabularMDP([[0, 0]], [[1, 2]], gamma=0.9).to_gymnasium()
    env.reset()
    with pytest.raises(InvalidInputError, match=r"step: action is .*, must be in 0\.\.1"):
        env.step(action)
    assert env.step(np.int64(1))[1] == 2.0


def test_the_same_seed_gives_the_same_episode_and_another_seed_another(rng, seed):
    mdp = reference.random_mdp(rng, n_states=20, ending=0.0, horizon=50)
    actions = rng.integers(3, size=50).tolist()
    one, same = (episode(mdp.to_gymnasium(), seed, actions) for _ in range(2))
    assert one == same
    assert len(one) == 51
    assert one != episode(mdp.to_gymnasium(), seed + 1, actions)


def test_a_reset_without_a_seed_goes_on_with_the_stream(rng):
    env = random_env(rng, n_states=20, ending=0.0, horizon=30)
    first = episode(env, 5, [0] * 30)
    assert episode(env, None, [0] * 30) != first
    assert episode(env, 5, [0] * 30) == first


def test_the_global_random_state_is_left_alone(rng):
    before = np.random.get_state()[1].tolist()  # noqa: NPY002  this is what must not be touched
    episode(random_env(rng, ending=0.0), 1, [0] * 20)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


# Statistics


def test_starts_and_outcomes_come_as_often_as_they_should(rng, seed):
    """Each count is binomial; the level is shared among all of them."""
    mdp = TabularMDP(
        [[[0, 1, 2], [1, 1, 0]], [[0, 0, 2], [2, 1, 0]], [[1, 2, 2], [0, 0, 0]]],
        np.arange(18.0).reshape(3, 2, 3),  # the reward tells the outcome
        probability=[[[0.2, 0, 0.8], [0.5, 0.3, 0.2]], [[0.01, 0.9, 0.09], [1, 0, 0]], [[0, 0.5, 0.5], [0.6, 0.4, 0]]],
        gamma=0.9,
        start=[0.1, 0.6, 0.3],
        horizon=12,
    )
    env = mdp.to_gymnasium()
    starts, counts = np.zeros(3), np.zeros((3, 2, 3))
    env.reset(seed=seed)
    for _ in range(3000):
        state, _ = env.reset()
        starts[state] += 1
        truncated = False
        while not truncated:
            action = int(rng.integers(2))
            following, reward, _, truncated, _ = env.step(action)
            counts[state, action, int(reward) % 3] += 1
            state = following
    assert counts[mdp.probability == 0].sum() == 0
    tables = [(starts, np.asarray(mdp.start)), *zip(counts.reshape(6, 3), mdp.probability.reshape(6, 3), strict=True)]
    for got, expected in tables:
        n = int(got.sum())
        assert n >= 3000  # enough for the test to mean something
        for count, chance in zip(got.astype(int), expected, strict=True):
            assert binomtest(int(count), n, chance).pvalue > LEVEL / 21


@pytest.mark.parametrize("horizon", [5, 12])
def test_the_mean_return_of_episodes_is_the_value(rng, seed, horizon):
    """Hoeffding: P(|mean - V| >= e) <= 2 exp(-2 n e^2 / span^2)."""
    mdp = reference.random_mdp(rng, horizon=horizon, ending=0.1)
    policy = reference.random_policy(rng, mdp)
    env, returns, n = mdp.to_gymnasium(), [], 3000
    env.reset(seed=seed)
    for _ in range(n):
        state, _ = env.reset()
        total, discount, over = 0.0, 1.0, False
        while not over:
            state, reward, terminated, truncated, _ = env.step(int(policy[state]))
            total, discount, over = total + discount * reward, discount * mdp.gamma, terminated or truncated
        returns.append(total)
    lower, upper = reference.extreme_returns(mdp, horizon)
    allowed = (upper - lower) * math.sqrt(math.log(2 / LEVEL) / (2 * n))
    value = float(reference.start_distribution(mdp) @ evaluate(mdp, policy))
    assert abs(np.mean(returns) - value) < allowed


# Pictures


@pytest.mark.parametrize(
    "make",
    [
        lambda mode: TabularMDP([[1], [2], [0]], [[0], [0], [0]], gamma=0.9).to_gymnasium(mode),
        *(lambda mode, name=name: gym.make(name, render_mode=mode) for name in IDS),
    ],
)
def test_pictures_show_the_agent_where_it_is(make):
    texts, images = make("ansi"), make("rgb_array")
    texts.reset(seed=0)
    images.reset(seed=0)
    text, image = texts.render(), images.render()
    assert isinstance(text, str)
    assert text.endswith("\n")
    assert image.dtype == np.uint8
    assert image.ndim == 3
    assert image.shape[2] == 3
    assert 64 <= max(image.shape) <= 1024
    assert np.array_equal(images.render(), image)  # looking changes nothing
    for env in (texts, images):
        here, there = env.unwrapped._state, env.step(min(1, env.action_space.n - 1))[0]
        assert here != there
    assert texts.render() != text
    assert images.render().shape == image.shape
    assert not np.array_equal(images.render(), image)


@pytest.mark.parametrize("n_states", [1, 2, 7, 60])
def test_every_state_of_a_plain_task_has_its_own_picture(n_states):
    ring = (np.arange(n_states)[:, None] + 1) % n_states
    env = TabularMDP(ring, np.zeros((n_states, 1)), gamma=0.9).to_gymnasium("rgb_array")
    env.reset()
    images = set()
    for _ in range(n_states):
        images.add(env.render().tobytes())
        env.step(0)
    assert len(images) == n_states


def test_rendering_is_refused_without_a_mode_or_a_state():
    mdp = TabularMDP([[0]], [[0]], gamma=0.9)
    with pytest.raises(InvalidInputError, match="without a render_mode"):
        mdp.to_gymnasium().render()
    with pytest.raises(InvalidInputError, match="call reset first"):
        mdp.to_gymnasium("ansi").render()
    with pytest.raises(InvalidInputError, match="render_mode is 'human'"):
        TabularEnv(mdp, render_mode="human")
