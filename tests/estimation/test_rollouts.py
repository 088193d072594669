from __future__ import annotations

import gymnasium as gym
import misbehaving  # noqa: F401  registers its walk
import numpy as np
import pytest
import reference

from pastmaster import GymTask, InvalidInputError, TabularMDP, cross_values, solve
from pastmaster.estimation import EpisodeRange, episode_returns, rollouts
from pastmaster.policies import FunctionPolicy, NetworkPolicy, TablePolicy, as_policy

CART = GymTask("pastmaster/CartPole-v0", {"length": 0.3, "force_mag": 20.0}, reward_range=(1, 1), horizon=120)
STANDARD = GymTask("CartPole-v1", reward_range=(1, 1), horizon=120)  # its vector environment takes one seed for all
LAKE = GymTask("FrozenLake-v1", horizon=40)
PENDULUM = GymTask("Pendulum-v1", horizon=25)


def cart_networks(rng: np.random.Generator, count: int = 4, width: int = 8) -> list[NetworkPolicy]:
    """Networks that balance for a while: what they do in state 0 is random."""
    balance = np.array([[0, 0, -1, -1], [0, 0, 1, 1]], np.float32)
    return [
        NetworkPolicy([(rng.normal(size=(width, 4)), np.zeros(width)),
                       (balance @ rng.normal(size=(4, width)), np.zeros(2))]) for _ in range(count)
    ]  # fmt: skip


def by_hand(task: GymTask, policy, number: int, seed: int) -> float:
    """The return of one episode, run alone and plainly."""
    rng = np.random.default_rng([seed, number])
    env = task()
    observation, _ = env.reset(seed=int(rng.integers(2**31)))
    total, weight = 0.0, 1.0
    for _ in range(task.horizon):
        drawn = (np.array([rng.random()]),) if getattr(policy, "random", False) else ()
        action = policy.act(np.array([observation]), *drawn)[0]
        observation, reward, terminated, truncated, _ = env.step(action)
        total += weight * reward
        weight *= task.gamma
        if terminated or truncated:
            break
    env.close()
    return total


CASES = {
    "one by one": (STANDARD, cart_networks),
    "a table": (LAKE, lambda rng: [TablePolicy(rng.integers(4, size=16)) for _ in range(3)]),
    "a random table": (LAKE, lambda rng: [TablePolicy(rng.dirichlet(np.ones(4), 16)) for _ in range(3)]),
    "functions of continuous actions": (
        PENDULUM, lambda rng: [FunctionPolicy(lambda o, k=k: np.array([k * o[1]], np.float32)) for k in (-1, 0.5, 2)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_returns_are_those_of_episodes_run_one_by_one(case, rng):
    task, make = CASES[case]
    policies = make(rng)
    runs = [EpisodeRange(1, 0, 3), EpisodeRange(0, 2, 40), EpisodeRange(2, 5, 1), EpisodeRange(1, 3, 2)]
    found = episode_returns(task, policies, runs, 11)
    for run, returns in zip(runs, found, strict=True):
        numbers = range(run.first, run.first + run.count)
        assert returns.tolist() == [by_hand(task, policies[run.policy], k, 11) for k in numbers]


def test_lanes_that_step_as_one_are_worth_what_single_ones_are(rng, monkeypatch):
    """The vector environment rounds otherwise than the single one, so an episode may end some steps apart."""
    policies = cart_networks(rng, 6)
    runs = [EpisodeRange(j, 0, 30) for j in range(6)]
    assert CART.vector_environment(2, CART.watch()) is not None
    as_one = np.array(episode_returns(CART, policies, runs, 3))
    monkeypatch.setattr(GymTask, "vector_environment", lambda *_: None)
    single = np.array(episode_returns(CART, policies, runs, 3))
    assert (np.isclose(as_one, single, rtol=1e-9)).mean() > 0.95
    assert len(np.unique(as_one.round(6))) > 5


def test_an_environment_that_takes_one_seed_for_all_lanes_is_stepped_one_by_one():
    assert STANDARD.vector_environment(2, STANDARD.watch()) is None


@pytest.mark.parametrize("task", [CART, STANDARD, LAKE])
def test_returns_do_not_depend_on_how_episodes_are_put_together(task, rng, monkeypatch):
    policies = CASES["a table"][1](rng) if task is LAKE else cart_networks(rng, 3)
    whole = episode_returns(task, policies, [EpisodeRange(j, 0, 12) for j in range(3)], 5)
    pieces = episode_returns(
        task, policies, [EpisodeRange(2, 0, 5), EpisodeRange(0, 0, 12), EpisodeRange(2, 5, 7), EpisodeRange(1, 4, 3)], 5
    )
    assert np.concatenate([pieces[0], pieces[2]]).tobytes() == whole[2].tobytes()
    assert pieces[1].tobytes() == whole[0].tobytes()
    assert pieces[3].tobytes() == whole[1][4:7].tobytes()
    monkeypatch.setattr(rollouts, "SINGLE_LANES", 3)
    monkeypatch.setattr(rollouts, "VECTOR_LANES", 7)
    narrow = episode_returns(task, policies, [EpisodeRange(j, 0, 12) for j in range(3)], 5)
    assert np.array(narrow).tobytes() == np.array(whole).tobytes()
    if task is not LAKE:  # where few ever reach the goal
        assert np.array(episode_returns(task, policies, [EpisodeRange(0, 0, 12)], 6)).tobytes() != whole[0].tobytes()


def test_policies_meet_the_same_chances(rng):
    policy = cart_networks(rng, 1)[0]
    twin = NetworkPolicy.from_data(policy.settings, policy.weights)
    for task in (CART, STANDARD):
        one, other = episode_returns(task, [policy, twin], [EpisodeRange(0, 0, 20), EpisodeRange(1, 0, 20)], 9)
        assert one.tobytes() == other.tobytes()
        assert len(set(one.tolist())) > 1


def test_networks_of_several_shapes_and_functions_share_the_lanes(rng):
    policies = [*cart_networks(rng, 2), *cart_networks(rng, 2, width=3), FunctionPolicy(lambda o: int(o[2] + o[3] > 0))]
    mixed = episode_returns(CART, policies, [EpisodeRange(j, 0, 6) for j in range(5)], 2)
    for j, policy in enumerate(policies):
        assert episode_returns(CART, [policy], [EpisodeRange(0, 0, 6)], 2)[0].tobytes() == mixed[j].tobytes()


def test_a_model_is_valued_as_its_exact_values(rng, seed):
    """Every mean within 5 standard errors of the exact value: fails with probability 6e-7 each."""
    task = reference.random_mdp(rng, 6, 3, 3, horizon=15)
    policies = [reference.random_policy(rng, task, mixed=bool(j % 2)) for j in range(6)]
    things = [as_policy(policy, "policy") for policy in policies]
    returns = np.array(episode_returns(task, things, [EpisodeRange(j, 0, 300) for j in range(6)], seed))
    error = returns.std(axis=1, ddof=1) / np.sqrt(300)
    assert (np.abs(returns.mean(axis=1) - cross_values([task], policies)[0]) < 5 * error + 1e-12).all()


@pytest.mark.parametrize("n_outcomes", [3, None])
def test_compiled_episodes_of_a_model_are_those_of_its_environment(n_outcomes, rng, monkeypatch):
    start = rng.dirichlet(np.ones(6)) * (rng.random(6) < 0.7) + np.eye(6)[2]
    task = TabularMDP(
        **reference.random_arrays(rng, 6, 3, n_outcomes), gamma=0.9, horizon=15, start=start / start.sum()
    )
    policies = [as_policy(reference.random_policy(rng, task, mixed=bool(j % 2)), "policy") for j in range(4)]
    ranges = ((1, 0, 30), (0, 4, 20), (3, 0, 2), (2, 7, 40), (1, 30, 5))
    runs = [EpisodeRange(*numbers) for numbers in ranges]
    monkeypatch.setattr(rollouts, "KEPT_NUMBERS", 16 * 9)  # nine episodes at a time
    compiled = episode_returns(task, policies, runs, 8)
    monkeypatch.setattr(rollouts.kernels, "play", rollouts.kernels.play.py_func)
    assert np.concatenate(episode_returns(task, policies, runs, 8)).tobytes() == np.concatenate(compiled).tobytes()
    monkeypatch.setattr(rollouts, "TablePolicy", NetworkPolicy)  # so that none is one, and all are stepped one by one
    single = episode_returns(task, policies, runs, 8)
    assert np.concatenate(single).tobytes() == np.concatenate(compiled).tobytes()
    assert len(np.unique(np.concatenate(single))) > 50 or n_outcomes is None


def test_the_horizon_ends_an_episode_and_so_does_the_environment():
    task = GymTask("CliffWalking-v1", gamma=1.0, horizon=7)
    policy, two = TablePolicy(np.zeros(48, int)), EpisodeRange(0, 0, 2)
    assert episode_returns(task, [policy], [two], 0)[0].tolist() == [-7.0, -7.0]
    short = GymTask("CliffWalking-v1", {"max_episode_steps": 4}, gamma=1.0, horizon=7)
    assert episode_returns(short, [policy], [two], 0)[0].tolist() == [-4.0, -4.0]


WRONG = {
    "too large": lambda o: 2,
    "a fraction": lambda o: 0.5,
    "a list": lambda o: [0, 1],
    "negative": lambda o: -1,
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("task", [CART, STANDARD])
def test_actions_that_do_not_fit_are_refused_by_name(task, wrong):
    sentence = r"^.*CartPole.*: policies\[0\], FunctionPolicy\(.*\) gave .* must be one of Discrete\(2\) for each"
    with pytest.raises(InvalidInputError, match=sentence):
        episode_returns(task, [FunctionPolicy(WRONG[wrong])], [EpisodeRange(0, 0, 2)], 0)


def test_continuous_actions_must_be_finite():
    policy = FunctionPolicy(lambda o: np.array([np.nan]))
    with pytest.raises(InvalidInputError, match=r"must be one of Box\(-2.0, 2.0, \(1,\), float32\) for each"):
        episode_returns(PENDULUM, [policy], [EpisodeRange(0, 0, 1)], 0)


def test_observations_that_are_no_arrays_reach_functions_as_they_are():
    class Named(gym.Env):
        observation_space = gym.spaces.Dict({"place": gym.spaces.Discrete(3), "speed": gym.spaces.Box(0, 1, (2,))})
        action_space = gym.spaces.Discrete(3)

        def reset(self, *, seed=None, options=None):
            return {"place": 1, "speed": np.ones(2, np.float32)}, {}

        def step(self, action):
            return {"place": 2, "speed": np.zeros(2, np.float32)}, float(action), False, False, {}

    task = GymTask(Named, horizon=2, gamma=0.5)
    found = episode_returns(task, [FunctionPolicy(lambda o: o["place"])], [EpisodeRange(0, 0, 1)], 0)
    assert found[0].tolist() == [1 + 0.5 * 2]


def test_a_model_without_a_horizon_is_refused(rng):
    task = TabularMDP(**reference.random_arrays(rng, 6, 3, None), gamma=0.9)
    with pytest.raises(InvalidInputError, match="has no horizon, must have one"):
        episode_returns(task, [TablePolicy(solve(task).policy)], [EpisodeRange(0, 0, 1)], 0)
