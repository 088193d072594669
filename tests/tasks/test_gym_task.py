from __future__ import annotations

import time

import gymnasium as gym
import misbehaving
import numpy as np
import pytest
import reference
import seams

from pastmaster import GymTask, InvalidInputError, TabularMDP, TaskError, cross_values, solve
from pastmaster.estimation import EpisodeRange, episode_returns, estimate_values
from pastmaster.policies import NetworkPolicy
from pastmaster.values import task_bounds

LAKE, WATCH = "FrozenLake-v1", "pastmaster/Surveillance-v0"


# GymTask


@pytest.mark.parametrize(("env_id", "horizon"), [(LAKE, 100), (WATCH, 200), (reference.TAXI, 200)])
def test_a_task_knows_its_sizes_and_its_step_limit(env_id, horizon):
    env = gym.make(env_id)
    task = GymTask(env_id)
    assert (task.n_states, task.n_actions) == (env.observation_space.n, env.action_space.n)
    assert task.horizon == horizon
    assert task.gamma == 0.99
    assert task.name == env_id
    assert type(task().unwrapped) is type(env.unwrapped)
    assert task() is not task()
    env.close()


def test_a_horizon_that_is_given_counts():
    assert GymTask(LAKE, horizon=7).horizon == 7
    assert GymTask(LAKE, {"max_episode_steps": 9}).horizon == 9
    assert GymTask(reference.CLIFF, horizon=50).horizon == 50


def test_arguments_reach_the_environment_and_the_name():
    task = GymTask(LAKE, {"map_name": "8x8", "is_slippery": False})
    assert task.n_states == 64
    assert task.name == "FrozenLake-v1(map_name=8x8, is_slippery=False)"
    assert GymTask(LAKE, {"desc": ("SF", "HG")}).kwargs == {"desc": ["SF", "HG"]}
    assert GymTask(LAKE, name="mine").name == "mine"


def test_arguments_are_the_tasks_own():
    mine = {"desc": ["SF", "HG"]}
    task = GymTask(LAKE, mine)
    mine["desc"][0] = "SH"
    assert task.kwargs == {"desc": ["SF", "HG"]}


def digest(*arguments, **settings) -> str:
    return seams.task_digest(GymTask(*arguments, **settings))


def test_a_digest_is_of_what_makes_the_task():
    base = digest(LAKE, {"is_slippery": True, "map_name": "4x4"})
    assert base == digest(LAKE, {"map_name": "4x4", "is_slippery": True}, name="another name")
    others = [
        digest(LAKE, {"is_slippery": False, "map_name": "4x4"}),
        digest(LAKE, {"map_name": "4x4"}),
        digest(LAKE, {"is_slippery": True, "map_name": "4x4"}, gamma=0.9),
        digest(LAKE, {"is_slippery": True, "map_name": "4x4"}, horizon=99),
        digest("FrozenLake8x8-v1", {"is_slippery": True, "map_name": "4x4"}),
    ]
    assert len({base, *others}) == 6


REFUSED = {
    "unknown": (("NoSuch-v0",), r"NoSuch-v0 cannot be made with \{\}"),
    "unknown version": (("FrozenLake-v99",), "FrozenLake-v99 cannot be made"),
    "no step limit": ((reference.CLIFF,), f"{reference.CLIFF} has no step limit, so horizon must be given"),
    "an unknown argument": ((LAKE, {"colour": "red"}), "FrozenLake-v1 cannot be made with"),
    "a wrong argument": ((LAKE, {"map_name": "9x9"}), "FrozenLake-v1 cannot be made with"),
    "a wrong map": ((LAKE, {"desc": []}), "FrozenLake-v1 cannot be made with"),
    "unknown, with a horizon": (("NoSuch-v0", {}, 0.9, 5), "NoSuch-v0 cannot be made"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_task_is_refused(case):
    arguments, sentence = REFUSED[case]
    with pytest.raises(InvalidInputError, match=f"^GymTask: {sentence}"):
        GymTask(*arguments)


def test_an_id_with_a_module_imports_nothing(tmp_path, monkeypatch):
    (tmp_path / "planted.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InvalidInputError, match="without a module"):
        GymTask("planted:Foo-v0", horizon=3)


# Functions, wrappers, and what tells environments apart


def lake_paying(goal: float) -> gym.Env:
    env = gym.make(LAKE, map_name="8x8")
    for actions in env.unwrapped.P.values():
        for outcomes in actions.values():
            outcomes[:] = [(p, s, goal * r, end) for p, s, r, end in outcomes]
    return env


def slower_cart() -> gym.Env:
    env = gym.make("CartPole-v1")
    env.unwrapped.gravity = 5.0
    return env


def patched_cart() -> gym.Env:
    env = gym.make("CartPole-v1")
    env.unwrapped.step = lambda action: (np.zeros(4, np.float32), 1.0, True, False, {})
    return env


@pytest.mark.parametrize("changed", [lambda: lake_paying(-7.0), slower_cart, patched_cart])
def test_an_environment_changed_after_it_was_made_is_not_taken_for_its_spec(changed):
    with pytest.raises(InvalidInputError, match="makes environments that are not what their spec says"):
        _ = GymTask(changed).identity


def test_a_function_with_a_spec_is_known_by_it():
    plain = GymTask(lambda: gym.make(LAKE, map_name="8x8", max_episode_steps=30))
    assert plain.identity == {"env_id": LAKE, "kwargs": {"map_name": "8x8", "max_episode_steps": 30}}
    assert GymTask(**plain.identity).horizon == 30
    wrapped = GymTask(lambda: gym.wrappers.FlattenObservation(gym.wrappers.ClipReward(gym.make(LAKE), 0, 0.5)))
    assert [wrapper["name"] for wrapper in wrapped.identity["wrappers"]] == ["ClipReward", "FlattenObservation"]
    again = GymTask(**wrapped.identity)
    assert again.observation_space == wrapped.observation_space
    assert again.identity == wrapped.identity
    assert task_bounds(again) is None  # wrappers may change rewards


def test_wrappers_of_other_kinds_are_not_stored():
    class Mine(gym.ObservationWrapper):
        def observation(self, observation):
            return observation

    for wrap in (Mine, lambda env: gym.wrappers.TransformReward(env, lambda r: -r)):
        with pytest.raises(InvalidInputError, match=r"is another wrapper, must be one of ClipAction"):
            _ = GymTask(lambda wrap=wrap: wrap(gym.make(LAKE))).identity
    video = {"name": "RecordVideo", "entry_point": "gymnasium.wrappers.rendering:RecordVideo",
             "kwargs": {"video_folder": "never"}}  # fmt: skip
    copy = {"name": "ClipReward", "entry_point": "gymnasium.wrappers.common:deepcopy", "kwargs": {}}
    for wrapper in (video, copy):
        with pytest.raises(InvalidInputError, match="is another wrapper, must be one of"):
            GymTask("CartPole-v1", wrappers=(wrapper,))


@pytest.mark.parametrize("wrap", [gym.wrappers.NormalizeObservation, gym.wrappers.NormalizeReward])
def test_wrappers_that_learn_from_episode_to_episode_are_refused(wrap):
    with pytest.raises(InvalidInputError, match=r"learns from episode to episode, .* load_sb3\(\.\.\., normalise"):
        GymTask(lambda: gym.wrappers.TimeAwareObservation(wrap(gym.make("CartPole-v1"))))


def test_keys_of_arguments_stay_what_they_are():
    with pytest.raises(InvalidInputError, match="a key of a mapping is no text"):
        GymTask(LAKE, {"desc": [{1: "S"}]})


def test_a_function_may_make_its_environment_by_another_task():
    task = GymTask(lambda: GymTask("CartPole-v1")().env, time_limit=300.0)
    assert task.horizon == 500


class SlowToClose(gym.Env):
    observation_space = action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return 0, 0.0, True, False, {}

    def close(self):
        misbehaving.lose_an_hour()
        time.sleep(3600)


def test_an_environment_that_hangs_when_it_is_closed_is_told(clock):
    with pytest.raises(TaskError, match=r"SlowToClose: making it has not returned for 0\.3 seconds"):
        GymTask(SlowToClose, horizon=1, time_limit=0.3)
    assert GymTask(LAKE).horizon == 100  # others are not held up


class OneSeed(gym.vector.VectorEnv):
    """Takes a list of seeds as one seed for all lanes."""

    if hasattr(gym.vector, "AutoresetMode"):  # from Gymnasium 1.1 on
        metadata = {"autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP}

    def __init__(self, num_envs, max_episode_steps=9):
        self.num_envs = num_envs
        self.single_observation_space = self.single_action_space = gym.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        return np.random.default_rng(seed).random((self.num_envs, 1)).astype(np.float32), {}


class Single(gym.Env):
    observation_space = action_space = gym.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        return np.random.default_rng(seed).random(1).astype(np.float32), {}


def test_lanes_that_share_a_seed_are_not_used():
    gym.register("OneSeed-v0", Single, vector_entry_point=OneSeed, max_episode_steps=9)
    try:
        task = GymTask("OneSeed-v0")
        assert task.vector_environment(2, task.watch()) is None
    finally:
        del gym.registry["OneSeed-v0"]


class NeverResets(OneSeed):
    def reset(self, *, seed=None, options=None):
        misbehaving.lose_an_hour()
        time.sleep(3600)


def test_a_vector_environment_that_hangs_is_told(clock):
    gym.register("NeverResets-v0", Single, vector_entry_point=NeverResets, max_episode_steps=9)
    try:
        task = GymTask("NeverResets-v0", time_limit=0.3)
        policy = NetworkPolicy([([[1]], [0])], head="clip", low=[-1], high=[1])
        with pytest.raises(TaskError, match=r"NeverResets-v0: reset has not returned for 0\.3 seconds"):
            episode_returns(task, [policy], [EpisodeRange(0, 0, 2)], 0)
    finally:
        del gym.registry["NeverResets-v0"]


def test_a_wrapped_task_needs_no_registry_in_another_process():
    gym.register("Mine-v0", "gymnasium.envs.toy_text.frozen_lake:FrozenLakeEnv", max_episode_steps=7)
    try:
        task = GymTask(lambda: gym.wrappers.ClipReward(gym.make("Mine-v0"), 0, 0.5))
        by_id = GymTask(**task.identity)
    finally:
        del gym.registry["Mine-v0"]  # as in a worker
    assert isinstance(by_id().env, gym.wrappers.ClipReward)


def test_equal_tasks_have_equal_hashes():
    assert len({GymTask(LAKE), GymTask(LAKE), GymTask(LAKE, gamma=0.5)}) == 2


# estimate_values


def test_estimates_agree_with_exact_values(rng, seed):
    """Each of 16 means within 5 standard errors: by chance one is outside with probability 16 * 1.5e-6 < 3e-5."""
    for n_outcomes in (3, None):
        task = reference.random_mdp(rng, 6, 3, n_outcomes, horizon=20)
        policies = [reference.random_policy(rng, task, mixed=bool(j % 2)) for j in range(8)]
        found = estimate_values(task, policies, episodes=150, seed=seed)
        exact = cross_values([task], policies)[0]
        random = found.error > 0
        assert random.sum() >= 4
        z = np.abs(found.mean - exact)[random] / found.error[random]
        print(f"largest deviation {z.max():.2f} standard errors, mean {z.mean():.2f}")
        assert z.max() < 5
        assert z.mean() > 0.3  # the errors are not too large either: a half normal has mean 0.8
        np.testing.assert_allclose(found.mean[~random], exact[~random], rtol=1e-12)
        assert found.episodes == 150 * 8


def test_a_biased_estimate_would_be_noticed(rng, seed):
    task = reference.random_mdp(rng, 6, 3, 3, horizon=20)
    policy = solve(task).policy
    found = estimate_values(task, [policy], episodes=400, seed=seed)
    other = TabularMDP(task.next_state, task.reward + 0.3, probability=task.probability, terminated=task.terminated,
                       gamma=task.gamma, start=task.start, horizon=20)  # fmt: skip
    assert abs(found.mean[0] - cross_values([other], [policy])[0, 0]) > 4.7 * found.error[0]


def test_the_environment_and_its_model_are_worth_the_same(seed):
    task, model = GymTask(LAKE), TabularMDP.from_gymnasium(LAKE, gamma=0.99)
    policies = [solve(model).policy, np.full((16, 4), 0.25)]
    found = estimate_values(task, policies, episodes=300, seed=seed)
    assert (np.abs(found.mean - cross_values([model], policies)[0]) < 4.7 * found.error).all()


def test_a_policy_of_actions_in_a_deterministic_task_is_exact(rng):
    task = TabularMDP(**reference.random_arrays(rng, 6, 3, None), gamma=0.9, start=2, horizon=20)
    policies = [reference.random_policy(rng, task) for _ in range(5)]
    found = estimate_values(task, policies, episodes=7, seed=1)
    assert found.mean.tobytes() == cross_values([task], policies)[0].tobytes()
    assert found.error.tolist() == [0.0] * 5
    assert found.episodes == 35


def test_a_random_start_or_policy_is_sampled_though_the_task_is_deterministic(rng):
    arrays = reference.random_arrays(rng, 6, 3, None)
    task = TabularMDP(**arrays, gamma=0.9, start=np.full(6, 1 / 6), horizon=20)
    assert estimate_values(task, [reference.random_policy(rng, task)], episodes=30, seed=1).error[0] > 0
    sure = TabularMDP(**arrays, gamma=0.9, horizon=20)
    assert estimate_values(sure, [reference.random_policy(rng, sure, mixed=True)], episodes=30, seed=1).error[0] > 0


@pytest.mark.parametrize("kind", ["model", "environment"])
def test_an_estimate_depends_on_nothing_but_the_policy_and_the_seed(rng, kind):
    lake = TabularMDP.from_gymnasium(LAKE, gamma=0.99)
    task = lake if kind == "model" else GymTask(LAKE)
    policies = [solve(lake).policy, *(rng.integers(4, size=16) for _ in range(3)), np.full((16, 4), 0.25)]
    whole = estimate_values(task, policies, episodes=10, seed=5)
    order = rng.permutation(5)
    shuffled = estimate_values(task, [policies[j] for j in order], episodes=10, seed=5)
    assert shuffled.mean.tobytes() == whole.mean[order].tobytes()
    assert shuffled.error.tobytes() == whole.error[order].tobytes()
    for j, policy in enumerate(policies):
        alone = estimate_values(task, [policy], episodes=10, seed=5)
        assert (alone.mean[0], alone.error[0]) == (whole.mean[j], whole.error[j])
    other = estimate_values(task, policies, episodes=10, seed=6)
    assert (other.mean != whole.mean).any()


def test_policies_meet_the_same_chances(rng):
    """Two policies that act alike wherever the walk goes have the same returns, though they are different arrays."""
    task = reference.random_mdp(rng, 6, 3, 3, horizon=20)
    policy = reference.random_policy(rng, task)
    certain = np.eye(3)[policy]  # the same actions as probabilities
    found = estimate_values(task, [policy, certain], episodes=20, seed=3)
    assert found.mean[0] == pytest.approx(found.mean[1], rel=1e-12)
    longer = estimate_values(task, [policy], episodes=40, seed=3)
    assert longer.mean[0] != found.mean[0]


def test_one_episode_has_no_standard_error(rng):
    task = reference.random_mdp(rng, 6, 3, 3, horizon=20)
    assert estimate_values(task, [np.zeros(6, int)], episodes=1, seed=0).error[0] == np.inf


def test_no_policies_take_no_episodes(rng):
    assert estimate_values(GymTask(LAKE), [], episodes=5, seed=0).episodes == 0


def test_a_wrong_policy_is_named():
    with pytest.raises(InvalidInputError, match=r"policies\[1\] has shape \(3,\)"):
        estimate_values(GymTask(LAKE), [np.zeros(16, int), np.zeros(3, int)], episodes=2, seed=0)


def test_the_horizon_ends_an_episode():
    task = GymTask(reference.CLIFF, gamma=1.0, horizon=5)
    found = estimate_values(task, [np.zeros(48, int)], episodes=3, seed=0)
    assert found.mean.tolist() == [-5.0]
    assert found.error.tolist() == [0.0]
