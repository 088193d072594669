"""What every task and every policy adapter must do, and that clustering, reuse and the repository accept them all."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import cloudpickle
import gymnasium as gym
import misbehaving
import numpy as np
import pytest
import reference
from seams import wider

import pastmaster
from pastmaster import (
    ContinualTransfer,
    DamagedError,
    GymTask,
    InvalidInputError,
    Repository,
    RepositoryError,
    TabularMDP,
    cross_values,
    estimate_cross_values,
    policy_distance,
    search_clusterings,
    transfer,
)  # fmt: skip
from pastmaster.estimation import EpisodeRange, episode_returns, estimate_values
from pastmaster.policies import FunctionPolicy, NetworkPolicy, TablePolicy, as_policy
from pastmaster.policies.batch import is_random
from pastmaster.reuse import FixedPolicy
from pastmaster.values import task_bounds

CART = "pastmaster/CartPole-v0"


def plain_cart(**kwargs) -> gym.Env:
    return gym.make(CART, **kwargs)


def made_with_a_spec() -> gym.Env:
    return gym.wrappers.TimeAwareObservation(gym.make("CartPole-v1", max_episode_steps=30))


TASKS = {
    "an id": lambda: GymTask("FrozenLake-v1", {"is_slippery": False}, gamma=0.9, horizon=20),
    "an id with a vector environment": lambda: GymTask(CART, {"gravity": 5.0}, horizon=40),
    "continuous actions": lambda: GymTask("Pendulum-v1", horizon=10, reward_range=(-17, 0)),
    "a function with a spec": lambda: GymTask(made_with_a_spec, reward_range=(1, 1)),
    "a function with arguments": lambda: GymTask(plain_cart, {"length": 1.0}, horizon=15),
    "a function without a spec": lambda: GymTask(misbehaving.Walk, horizon=9),
    "a model": lambda: reference.random_mdp(np.random.default_rng(1), 6, 3, 3, horizon=12),
}
STORED = [name for name in TASKS if name != "a function without a spec"]


def spaces(task) -> tuple[gym.Space, gym.Space]:
    if isinstance(task, TabularMDP):
        return gym.spaces.Discrete(task.n_states), gym.spaces.Discrete(task.n_actions)
    return task.observation_space, task.action_space


def policies_of(task, rng: np.random.Generator) -> dict[str, object]:
    """Every kind of policy that the task's spaces allow."""
    observations, actions = spaces(task)
    n_in = int(observations.n) if isinstance(observations, gym.spaces.Discrete) else int(np.prod(observations.shape))
    one_hot = isinstance(observations, gym.spaces.Discrete)
    if isinstance(actions, gym.spaces.Discrete):
        n_out, head = int(actions.n), {"head": "argmax"}
    else:
        n_out, head = int(np.prod(actions.shape)), {"head": "clip", "low": actions.low, "high": actions.high}
    network = NetworkPolicy(
        [(rng.normal(size=(5, n_in)), rng.normal(size=5)), (rng.normal(size=(n_out, 5)), rng.normal(size=n_out))],
        one_hot=one_hot, **head,
    )  # fmt: skip
    found = {"network": network, "function": lambda observation: network.act(np.array([observation]))[0]}
    if one_hot:
        found["table"] = rng.integers(n_out, size=n_in)
        found["random table"] = rng.dirichlet(np.ones(n_out), n_in)
        found["table policy"] = TablePolicy(found["table"])
    return found


KINDS = [
    (name, kind)
    for name, make in TASKS.items()
    for kind in ("network", "function", "table", "random table", "table policy")
    if kind in ("network", "function") or isinstance(spaces(make())[0], gym.spaces.Discrete)
]


# Tasks


@pytest.mark.parametrize("name", TASKS)
def test_a_task_tells_its_name_discount_horizon_and_family(name):
    task = TASKS[name]()
    assert isinstance(task.name, str)
    assert 0 <= task.gamma <= 1
    assert task.horizon >= 1
    if isinstance(task, GymTask):
        assert task.name
        assert str(task) == task.name
        assert json.loads(json.dumps(task.family)) == task.family
        env = task()
        assert (env.observation_space, env.action_space) == (task.observation_space, task.action_space)
        env.close()


@pytest.mark.parametrize("name", TASKS)
def test_a_task_can_be_sent_to_another_process(name, rng):
    task = TASKS[name]()
    policy = as_policy(policies_of(task, rng)["network"], "policy")
    again = pickle.loads(cloudpickle.dumps(task))
    one, other = (episode_returns(each, [policy], [EpisodeRange(0, 0, 4)], 3)[0] for each in (task, again))
    assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("name", TASKS)
def test_returns_stay_within_the_bounds_a_task_tells(name, rng):
    task = TASKS[name]()
    bounds = task_bounds(task)
    if name == "a function without a spec":
        assert bounds is None
        return
    policies = [as_policy(policy, "policy") for policy in policies_of(task, rng).values()]
    returns = np.array(episode_returns(task, policies, [EpisodeRange(j, 0, 20) for j in range(len(policies))], 1))
    assert bounds.lower <= returns.min() <= returns.max() <= bounds.upper


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_stored_and_comes_back_the_same_or_says_why_not(name, rng, place):
    task = TASKS[name]()
    network = policies_of(task, rng)["network"]
    with Repository(place) as repository:
        if name not in STORED:
            with pytest.raises(InvalidInputError, match=r"Walk can be used but not stored: .* without a spec: reg"):
                repository.add(task, network)
            assert len(repository) == 0
            return
        exact = {} if isinstance(task, GymTask) else {"evaluation_episodes": 30}
        repository.add(task, network, **exact)
    with Repository(place) as reopened:
        stored, policy = reopened.task(1), reopened.policy(1)
        observations = [spaces(task)[0].sample() for _ in range(20)]
        assert policy.act(np.array(observations)).tobytes() == network.act(np.array(observations)).tobytes()
        one, other = (
            episode_returns(each, [network], [EpisodeRange(0, 0, 5)], 3)[0].tolist() for each in (task, stored)
        )  # fmt: skip
        assert one == other
        assert reopened.add(stored, network, **exact) == 1
        assert reopened.check() == []
        assert reopened.cross_values().shape == (1, 1)


@pytest.mark.parametrize("name", [name for name in TASKS if name != "a model"])
def test_a_task_is_met_by_transfer_without_further_ado(name, rng):
    task = TASKS[name]()
    found = policies_of(task, rng)
    run = transfer(task, list(found.values()), episodes=12, rng=np.random.default_rng(1),
                   selector="tsallis-inf", learner=FixedPolicy(found["function"]))  # fmt: skip
    assert run.returns.shape == (1, 12)
    told = {"a function without a spec": "running"}.get(name, "task")
    assert run.bounds_from == told
    assert ("bounds running: " if told == "running" else "bounds of the task: ") in str(run)


def tried(tasks, policies, rng, episodes=4, **options):
    """Every policy tried so often in every task."""
    budget = episodes * len(tasks) * len(policies)
    return estimate_cross_values(
        tasks, policies, rng=rng, budget=budget, allocation="uniform", paired=False, **options
    )  # fmt: skip


@pytest.mark.parametrize("name", TASKS)
def test_cross_values_and_clusters_of_a_task(name, rng):
    task = TASKS[name]()
    found = list(policies_of(task, rng).values())
    tasks = [task, task]
    U = tried(tasks, found, rng, episodes=8).mean
    assert U.shape[0] == 2
    assert np.isfinite(U).all()
    distance = policy_distance(U, directed=True, paired=False)
    clustering = search_clusterings(distance, directed=True, episodes=100, span=10.0, rng=rng, restarts=1)
    assert clustering.n_clusters >= 1


# Policies


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_a_policy_acts_on_batches_as_it_does_on_single_observations(name, kind, rng):
    task = TASKS[name]()
    found = policies_of(task, rng)
    policy = as_policy(found[kind], "policy")
    observations = np.array([spaces(task)[0].sample() for _ in range(30)])
    uniforms = (rng.random(30),) if is_random(policy) else ()
    actions = policy.act(observations, *uniforms)
    assert len(actions) == 30
    space = spaces(task)[1]
    for k in range(30):
        alone = policy.act(observations[k : k + 1], *(u[k : k + 1] for u in uniforms))[0]
        np.testing.assert_array_equal(alone, actions[k])
        assert space.contains(int(alone) if isinstance(space, gym.spaces.Discrete) else np.asarray(alone, space.dtype))


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_a_policy_is_worth_the_same_to_estimates_and_to_transfer(name, kind, rng):
    """As the source that is always chosen, it earns in ``transfer`` what the estimate says, to 5 standard errors."""
    task = TASKS[name]()
    found = policies_of(task, rng)
    estimate = estimate_values(task, [found[kind]], episodes=60, seed=5)
    run = transfer(task, [found[kind]], episodes=60, rng=np.random.default_rng(1), bounds=(-1e4, 1e4),
                   selector=AlwaysTheSource, learner=FixedPolicy(found["function"]))  # fmt: skip
    assert (run.arms == 0).all()
    error = np.hypot(estimate.error[0], run.returns.std(ddof=1) / np.sqrt(60))
    assert abs(run.returns.mean() - estimate.mean[0]) <= 5 * error + 1e-9


class AlwaysTheSource:
    def __init__(self, n_sources, episodes, *, bounds, rng):
        pass

    def ask(self):
        return 0

    def tell(self, arm, episode_return):
        pass


class ActsAndIsCalled:
    """A policy that is callable besides, and then means something else."""

    def act(self, observations):
        return np.ones(len(observations), int)

    def __call__(self, observation):
        raise AssertionError("it should act")


def test_what_acts_is_asked_to_act():
    run = transfer(GymTask(misbehaving.Walk, horizon=9), [ActsAndIsCalled()], episodes=3, rng=np.random.default_rng(0),
                   selector=AlwaysTheSource, bounds=(0, 9), learner=FixedPolicy(lambda o: 0))  # fmt: skip
    assert run.returns.shape == (1, 3)


def test_functions_are_used_but_not_stored(tmp_path):
    task = TASKS["an id"]()
    with Repository(tmp_path / "a.db") as repository:
        for policy in (lambda observation: 0, FunctionPolicy(lambda observation: 0)):
            with pytest.raises(InvalidInputError, match="policy is a function, must be an array, a Network"):
                repository.add(task, policy)
        assert len(repository) == 0


# The repository and the lifelong agent


def test_networks_survive_export_and_import(tmp_path, rng):
    task = TASKS["an id with a vector environment"]()
    network = policies_of(task, rng)["network"]
    with Repository(tmp_path / "a.db") as repository:
        repository.add(task, network)
        repository.export(tmp_path / "out")
    with Repository(tmp_path / "b.db") as other:
        other.import_(tmp_path / "out")
        assert other.check() == []
        assert other.policy(1).weights.tobytes() == network.weights.tobytes()
        assert other.task(1) == task


def test_tasks_of_other_spaces_are_refused(tmp_path, rng):
    cart, pendulum = TASKS["an id with a vector environment"](), TASKS["continuous actions"]()
    with Repository(tmp_path / "a.db") as repository:
        repository.add(cart, policies_of(cart, rng)["network"])
        with pytest.raises(InvalidInputError, match=r"task.observations is Box \[3\] float32, must be Box \[4\] floa"):
            repository.add(pendulum, policies_of(pendulum, rng)["network"])
        with pytest.raises(InvalidInputError, match=r"policy is a table, which needs Discrete observations and a"):
            repository.add(cart, np.zeros(4, int))
        with pytest.raises(InvalidInputError, match="has no model to solve"):
            repository.add(cart)


def test_damaged_weights_are_found(tmp_path, rng):
    task = TASKS["an id with a vector environment"]()
    with Repository(tmp_path / "a.db") as repository:
        repository.add(task, policies_of(task, rng)["network"])

        def spoil(connection):
            connection.exec_driver_sql("UPDATE policies SET settings = replace(settings, 'tanh', 'relu')")

        repository.database.write(spoil)
        assert [damage.place for damage in repository.check()] == ["policies 1"]
    with Repository(tmp_path / "a.db") as repository, pytest.raises(RepositoryError, match="policies 1"):
        repository.policy(1)


class Kept:
    def __init__(self, policy):
        self.policy = policy

    def act(self, observation):
        return int(self.policy.act(observation[None])[0])

    def learn(self, *step):
        pass


class Starting:
    def start(self, observations, actions, gamma, rng):
        return Kept(NetworkPolicy([(np.array([[0, 0, -1, -1], [0, 0, 1, 1]]), np.zeros(2))]))


def test_a_lifelong_agent_meets_continuous_tasks(tmp_path):
    carts = [GymTask(CART, {"gravity": gravity}, horizon=60) for gravity in (4.0, 8.0, 12.0, 20.0)]
    with Repository(tmp_path / "a.db") as repository:
        agent = ContinualTransfer(
            repository, episodes=6, recluster_every=2, rng=np.random.default_rng(0), learner=Starting(),
            evaluation_episodes=4, clustering={"restarts": 1, "iterations": 100},
        )  # fmt: skip
        run = agent.run(carts)
        assert run.returns.shape == (4, 6)
        assert run.n_sources.tolist() == [0, 0, 1, 1]
        assert repository.check() == []
        assert list(repository.tasks()) == carts


# Running bounds


def test_running_bounds_begin_with_the_returns_seen_and_double():
    returns = iter([3.0, 3.0, 5.0, 4.0, 5.5, 4.0, 30.0, 4.0, 4.0, 4.0, 4.0, 4.0])

    class Paid(gym.Env):
        observation_space = action_space = gym.spaces.Discrete(1)

        def reset(self, *, seed=None, options=None):
            return 0, {}

        def step(self, action):
            return 0, next(returns), True, False, {}

    run = transfer(Paid, [np.zeros(1, int)], episodes=12, rng=np.random.default_rng(0), gamma=1.0, horizon=1,
                   bounds="running", selector="tsallis-inf")  # fmt: skip
    assert run.arms[0, :3].tolist() == [1, 0, 1]  # in turn, the learner first, until two returns differ
    assert run.widened.tolist() == [2]  # 3 .. 5, then 3 .. 7, then 3 .. 35
    assert run.bounds == [(3.0, 35.0)]
    assert run.bounds_from == "running"
    assert "bounds widened 2 times, bounds running: 3 .. 35" in str(run)


def test_running_bounds_of_a_task_that_always_pays_the_same():
    task = GymTask(misbehaving.Walk, horizon=1)
    run = transfer(task, [lambda o: 0], episodes=7, rng=np.random.default_rng(0), learner=FixedPolicy(lambda o: 0))
    assert run.arms[0].tolist() == [1, 0, 1, 0, 1, 0, 1]
    assert run.bounds == [(0.0, 1.0)]


def test_the_spans_of_running_bounds_sum_to_no_more_than_the_proof_says(rng):
    """The spans of all starts sum to at most 8 true spans, whatever the order of the returns."""
    for _ in range(200):
        values = rng.normal(size=40) ** 3
        bounds = pastmaster.Bounds(*sorted(values[:2]))
        spans = [bounds.span]
        for value in values[2:]:
            while not bounds.lower <= value <= bounds.upper:
                bounds = wider(bounds, float(value))
                spans.append(bounds.span)
        assert sum(spans) <= 8 * np.ptp(values) * (1 + 1e-9)


def test_running_bounds_are_not_for_models(rng):
    task = reference.random_mdp(rng, 6, 3, 3, horizon=12)
    with pytest.raises(InvalidInputError, match=r"bounds is 'running', must be \(lower, upper\) or None, for those"):
        transfer(task, [], episodes=3, rng=rng, bounds="running")
    with pytest.raises(InvalidInputError, match=r"bounds is 'none', must be \(lower, upper\), 'running' or None"):
        transfer(GymTask("FrozenLake-v1"), [], episodes=3, rng=rng, bounds="none")


def test_a_task_has_its_own_gamma_and_horizon(rng):
    task = GymTask("FrozenLake-v1", gamma=0.9, horizon=20)
    for name, value in (("gamma", 0.5), ("horizon", 3)):
        with pytest.raises(InvalidInputError, match=f"{name} is {value}, but the task has its own"):
            transfer(task, [], episodes=3, rng=rng, **{name: value})


def test_trials_of_a_task_do_not_depend_on_who_runs_them(rng):
    task = TASKS["a function without a spec"]()
    network = policies_of(task, rng)["network"]
    options = {"episodes": 8, "trials": 3, "learner": FixedPolicy(lambda o: 0), "selector": "tsallis-inf"}
    one = transfer(task, [network], rng=np.random.default_rng(2), **options)
    with ThreadPoolExecutor(2) as threads:
        for workers in ({"n_jobs": 2}, {"executor": threads}):
            many = transfer(task, [network], rng=np.random.default_rng(2), **workers, **options)
            assert one.returns.tobytes() == many.returns.tobytes()
            assert one.arms.tobytes() == many.arms.tobytes()


def test_running_bounds_are_widened_not_clipped():
    task = GymTask(misbehaving.Walk, horizon=5)
    run = transfer(task, [lambda o: 1], episodes=60, rng=np.random.default_rng(3), on_violation="clip",
                   selector="tsallis-inf", learner=FixedPolicy(lambda o: int(o[0] > 0)))  # fmt: skip
    assert run.clipped.tolist() == [0]
    assert run.bounds[0].lower <= run.returns.min() <= run.returns.max() <= run.bounds[0].upper


def test_networks_as_sources_can_be_saved_with_trials(tmp_path, rng):
    task = TASKS["an id"]()
    network = policies_of(task, rng)["network"]
    options = {"episodes": 6, "trials": 2, "save": tmp_path / "kept"}
    one = transfer(task, [network], rng=np.random.default_rng(1), **options)
    files = sorted((tmp_path / "kept").iterdir())
    assert len(files) == 2
    again = transfer(task, [network], rng=np.random.default_rng(1), **options)
    assert one.returns.tobytes() == again.returns.tobytes()
    other = NetworkPolicy.from_data(network.settings, -network.weights)
    transfer(task, [other], rng=np.random.default_rng(1), **options)
    assert len(list((tmp_path / "kept").iterdir())) == 4
    with pytest.raises(InvalidInputError, match="save is given with a function as a source"):
        transfer(task, [lambda o: 0], rng=np.random.default_rng(1), **options)


def test_a_task_has_one_horizon_everywhere():
    class Long(misbehaving.Walk):
        horizon = 2

    task = GymTask(Long, horizon=4, gamma=1.0)
    policy = FunctionPolicy(lambda o: 1)
    run = transfer(task, [], episodes=2, rng=np.random.default_rng(0), bounds=(0, 9), learner=FixedPolicy(lambda o: 1))
    assert (
        run.returns[0].tolist() == episode_returns(task, [policy], [EpisodeRange(0, 0, 2)], 0)[0].tolist() == [2.0, 2.0]
    )


def test_what_is_kept_on_disk_is_told_from_what_is_registered_later(tmp_path):
    tasks, policies = [GymTask("misbehaving/Walk-v0", reward_range=(0, 500))], [NetworkPolicy([(np.eye(2), [0, 0])])]

    def values(tasks):
        return tried(tasks, policies, np.random.default_rng(0), save=tmp_path).mean

    before = values(tasks)
    spec = gym.registry.pop("misbehaving/Walk-v0")
    try:
        gym.register("misbehaving/Walk-v0", misbehaving.Walk, max_episode_steps=2)
        shorter = GymTask("misbehaving/Walk-v0", reward_range=(0, 500), horizon=50)
        after = values([shorter])
    finally:
        gym.registry["misbehaving/Walk-v0"] = spec
    assert after[0, 0] < before[0, 0]
    assert values(tasks).tobytes() == before.tobytes()


def test_uniform_estimates_run_just_so_many_episodes(rng):
    task = TASKS["an id with a vector environment"]()
    network = policies_of(task, rng)["network"]
    for episodes in (4, 30):
        seeds = np.random.default_rng(0).integers(2**63, size=1).tolist()
        returns = episode_returns(task, [network], [EpisodeRange(0, 0, episodes)], seeds[0])[0]
        found = tried([task], [network], np.random.default_rng(0), episodes=episodes)
        assert found.mean[0, 0] == pytest.approx(returns.mean(), rel=1e-12)


def test_cross_values_of_what_has_no_model_are_refused(rng):
    task = TASKS["an id with a vector environment"]()
    with pytest.raises(InvalidInputError, match=r"cross_values: tasks holds a GymTask, .*estimate_cross_values"):
        cross_values([task], [policies_of(task, rng)["network"]])


def test_errors_of_policies_name_policy_and_task(rng):
    cart = TASKS["an id with a vector environment"]()
    good, small = policies_of(cart, rng)["network"], NetworkPolicy([(np.ones((2, 8)), np.zeros(2))])
    with pytest.raises(InvalidInputError, match=r"tasks\[0\] policies\[1\] is a network that takes 8 numbers"):
        tried([cart], [good, small], rng)
    with pytest.raises(InvalidInputError, match=r"in tasks\[0\] policies\[0\] is a table, which needs Discrete"):
        tried([cart], [np.zeros(4, int)], rng)
    with pytest.raises(ZeroDivisionError) as caught:
        tried([cart], [good, lambda observation: 1 // 0], rng)
    assert "policies[1], FunctionPolicy" in caught.value.__notes__[0]


def test_an_environment_that_cannot_be_made_again_is_no_damage(tmp_path, rng, monkeypatch):
    task = GymTask("misbehaving/Walk-v0")
    with Repository(tmp_path / "a.db") as repository:
        repository.add(task, NetworkPolicy([(np.eye(2), [0, 0])]))
    with Repository(tmp_path / "a.db") as reopened:
        with monkeypatch.context() as patch:
            patch.setattr(misbehaving.Walk, "__init__", lambda self: 1 / 0)
            with pytest.raises(RepositoryError, match="tasks 1: its environment cannot be made here") as e:
                reopened.task(1)
            assert not isinstance(e.value, DamagedError)
            assert reopened.check() == []
        assert reopened.task(1) == task
