from __future__ import annotations

from typing import ClassVar

import gymnasium as gym
import misbehaving  # noqa: F401  registers its walk
import numpy as np
import pytest
import reference

from pastmaster import GymTask, InvalidInputError, TabularMDP, cross_values, estimate_cross_values, solve
from pastmaster.estimation import EpisodeRange, episode_returns, rollouts
from pastmaster.policies import FunctionPolicy, NetworkPolicy, PredictPolicy, TablePolicy, as_policy

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
    task = GymTask(reference.CLIFF, gamma=1.0, horizon=7)
    policy, two = TablePolicy(np.zeros(48, int)), EpisodeRange(0, 0, 2)
    assert episode_returns(task, [policy], [two], 0)[0].tolist() == [-7.0, -7.0]
    short = GymTask(reference.CLIFF, {"max_episode_steps": 4}, gamma=1.0, horizon=7)
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


class Compound(gym.Env):
    """Observations and actions of several parts; a step pays for what the action says."""

    PARTS: ClassVar = {"gear": gym.spaces.Discrete(3), "wheel": gym.spaces.Box(-1.0, 1.0, (2,))}
    observation_space = gym.spaces.Tuple((gym.spaces.Discrete(4), gym.spaces.Box(0.0, 9.0, (2,))))

    def __init__(self, kind="dict"):
        self.action_space = {
            "dict": gym.spaces.Dict(self.PARTS), "tuple": gym.spaces.Tuple(self.PARTS.values()),
            "numbers": gym.spaces.Tuple((gym.spaces.Discrete(3), gym.spaces.Discrete(5))),
        }[kind]  # fmt: skip

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.n = 0
        return (self.n, np.ones(2, np.float32)), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        gear, wheel = action.values() if isinstance(action, dict) else action
        self.n += 1
        return (self.n, np.ones(2, np.float32)), float(gear) + float(np.sum(wheel)), self.n == 3, False, {}


ACTIONS = {
    "dict": lambda o: {"gear": o[0] % 3, "wheel": 0.25 * o[1]},
    "tuple": lambda o: (o[0] % 3, 0.25 * o[1]),
    "numbers": lambda o: (o[0] % 3, 1),
}


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("kind", ACTIONS)
def test_actions_and_observations_of_several_parts_work_in_batches(kind, batched):
    task, act = GymTask(Compound, {"kind": kind}, horizon=5, gamma=0.5), ACTIONS[kind]
    policy = FunctionPolicy((lambda batch: [act(o) for o in batch]) if batched else act, batched)
    per_step = 1.0 if kind == "numbers" else 0.5
    expected = (0 + per_step) + 0.5 * (1 + per_step) + 0.25 * (2 + per_step)
    (found,) = episode_returns(task, [policy], [EpisodeRange(0, 0, 40)], 0)
    assert found.tolist() == [expected] * 40
    estimate = estimate_cross_values([task], [policy], budget=20)
    assert estimate.mean.tolist() == [[expected]]


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("dict", lambda o: {"gear": 0}), ("dict", lambda o: {"gear": 7, "wheel": np.zeros(2)}), ("dict", lambda o: 0),
        ("dict", lambda o: {"gear": 0, "wheel": np.array([np.nan, 0.0])}), ("tuple", lambda o: (0,)),
        ("tuple", lambda o: (0, np.zeros(3))), ("numbers", lambda o: (0, 5)), ("numbers", lambda o: (0.5, 1)),
    ],
)  # fmt: skip
def test_actions_of_several_parts_that_do_not_fit_are_refused(kind, wrong):
    task = GymTask(Compound, {"kind": kind}, horizon=5, gamma=0.5)
    with pytest.raises(InvalidInputError, match=r"policies\[0\], FunctionPolicy.* gave .* must be one of (Dict|Tuple)"):
        episode_returns(task, [FunctionPolicy(wrong)], [EpisodeRange(0, 0, 2)], 0)


def test_policies_for_arrays_refuse_observations_of_several_parts_in_one_sentence():
    task = GymTask(Compound, {"kind": "dict"}, horizon=5, gamma=0.5)
    network = NetworkPolicy([(np.zeros((2, 3)), np.zeros(2))])
    for policy, words in (
        (network, "act: observations are each a tuple, must be arrays"),
        (TablePolicy([0, 1]), r"TablePolicy\.act: observations"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            episode_returns(task, [policy], [EpisodeRange(0, 0, 1)], 0)


def test_models_of_others_get_one_array_to_each_part():
    class Model:
        policy = action_space = None

        def predict(self, observations, deterministic):
            assert sorted((key, value.shape) for key, value in observations.items()) == [("a", (3, 2)), ("b", (3,))]
            return observations["b"], None

    batch = [{"a": np.zeros(2), "b": i} for i in range(3)]
    assert PredictPolicy(Model()).act(batch).tolist() == [0, 1, 2]


def test_a_model_without_a_horizon_is_refused(rng):
    task = TabularMDP(**reference.random_arrays(rng, 6, 3, None), gamma=0.9)
    with pytest.raises(InvalidInputError, match="has no horizon, must have one"):
        episode_returns(task, [TablePolicy(solve(task).policy)], [EpisodeRange(0, 0, 1)], 0)
