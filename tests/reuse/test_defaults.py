"""What ``transfer`` does where it is not told, and what it says to those who make a mistake."""

from __future__ import annotations

import re
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from seams import wider

import pastmaster
from pastmaster import (
    Exp3Transfer,
    FixedPolicy,
    GymTask,
    InvalidInputError,
    QLearning,
    SB3Learning,
    TabularMDP,
    TsallisINF,
    decay,
    return_bounds,
    solve,
    transfer,
)
from pastmaster.policies import FunctionPolicy, NetworkPolicy, TablePolicy
from pastmaster.reuse import defaults
from pastmaster.reuse.defaults import default_learner
from pastmaster.values import Bounds

LAKE = TabularMDP.from_gymnasium("FrozenLake-v1", gamma=0.99)
CART = GymTask("pastmaster/CartPole-v0", horizon=20)
BALANCE = NetworkPolicy([([[0, 0, -1, -1], [0, 0, 1, 1]], [0, 0])])
THREE = NetworkPolicy([([[0, -1, -1], [0, 1, 1]], [0, 0])])  # for observations of three numbers
STILL = np.zeros(16, int)
BOX = spaces.Box(-1, 1, (3,))


# The seed


def test_a_run_tells_its_seed_and_that_seed_gives_the_same_run():
    fresh = transfer(LAKE, [STILL], episodes=50, trials=2)
    again = transfer(LAKE, [STILL], episodes=50, trials=2, rng=fresh.seed)
    assert isinstance(fresh.seed, int)
    assert again.seed == fresh.seed
    assert np.array_equal(fresh.returns, again.returns)
    assert np.array_equal(fresh.arms, again.arms)
    assert np.array_equal(fresh.learners[1].Q, again.learners[1].Q)
    assert transfer(LAKE, [STILL], episodes=5).seed != fresh.seed


def test_a_generator_is_the_seed_it_was_made_of_and_has_none_to_tell():
    one, other = (transfer(LAKE, [STILL], episodes=50, rng=rng) for rng in (7, np.random.default_rng(7)))
    assert np.array_equal(one.returns, other.returns)
    assert (one.seed, other.seed) == (7, None)


# The learner


def test_the_learner_fits_the_task():
    assert default_learner(spaces.Discrete(4), spaces.Discrete(2)) == QLearning(epsilon=decay(0.1, 500))
    pytest.importorskip("stable_baselines3")
    for observations in (BOX, spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(4)):
        assert default_learner(observations, spaces.Discrete(2)).algorithm == "DQN"
        assert default_learner(observations, spaces.Box(-1, 1, (2,))).algorithm == "SAC"
    assert default_learner(spaces.Discrete(4), spaces.Box(-1, 1, (2,))).algorithm == "SAC"


@pytest.mark.parametrize(
    ("observations", "actions", "sentence"),
    [
        (spaces.Dict({"a": BOX}), spaces.Discrete(2), "no learner here takes Dict observations.*FlattenObservation"),
        (spaces.Tuple([BOX]), spaces.Discrete(2), "no learner here takes Tuple observations.*FlattenObservation"),
        (spaces.Box(0, 255, (9, 9, 3), np.uint8), spaces.Discrete(2), "no learner here takes images.*wrap the task"),
        (BOX, spaces.MultiDiscrete([2, 2]), "no learner here takes MultiDiscrete actions.*FixedPolicy"),
        (BOX, spaces.Discrete(2, start=1), "no learner here takes Discrete actions.*FixedPolicy"),
    ],
)
def test_where_no_learner_fits_one_sentence_says_what_to_do(observations, actions, sentence):
    with pytest.raises(InvalidInputError, match=f"^transfer: learner is None, must be given.*{sentence}"):
        default_learner(observations, actions)
    pytest.importorskip("stable_baselines3")
    with pytest.raises(InvalidInputError, match=f"^SB3Learning.*{sentence}"):
        SB3Learning("DQN").start(observations, actions, 0.9, np.random.default_rng(0))


def test_without_stable_baselines_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setattr(defaults, "find_spec", lambda name: None)
    with pytest.raises(InvalidInputError, match=r"^transfer: learner is None, for this task DQN .*pip install stable"):
        transfer(CART, [BALANCE], episodes=2)
    assert transfer(CART, [BALANCE], episodes=2, learner=FixedPolicy(BALANCE)).returns.shape == (1, 2)


@pytest.mark.parametrize("task", [CART, GymTask("Pendulum-v1", horizon=5)], ids=str)
def test_the_default_learner_runs_where_there_are_no_states(task):
    pytest.importorskip("stable_baselines3")
    run = transfer(task, [], episodes=3, rng=0)
    assert type(run.learners[0]).__name__ == "SB3Learner"
    assert (run.arms == 0).all()


# Bounds


def test_a_model_bounds_its_own_returns():
    run = transfer(LAKE, [STILL], episodes=20, rng=0)
    assert run.bounds == [return_bounds(LAKE)]
    assert run.bounds_from == "task"
    declared = transfer(LAKE, [STILL], episodes=20, rng=0, bounds=return_bounds(LAKE))
    assert np.array_equal(run.returns, declared.returns)
    assert declared.bounds_from == "declared"


def test_an_environment_of_which_nothing_is_known_has_running_bounds():
    run = transfer("CartPole-v1", [lambda x: int(x[2] > 0)], episodes=6, gamma=0.9, learner=FixedPolicy(BALANCE), rng=0)
    assert run.bounds_from == "running"
    assert run.bounds[0].lower <= run.returns.min()
    assert run.bounds[0].upper >= run.returns.max()


def test_plain_sums_of_an_environment_with_a_table_can_be_transferred_to():
    run = transfer(GymTask("FrozenLake-v1", gamma=1.0), [solve(LAKE)], episodes=20, rng=0)
    assert np.array_equal(run.returns, run.undiscounted)


@pytest.mark.parametrize("seed", range(20))
def test_running_bounds_never_span_four_times_the_range_of_the_returns(seed):
    """The proof in docs/guarantees.md rests on that."""
    rng = np.random.default_rng(seed)
    returns = rng.standard_cauchy(200)
    first = Bounds(float(returns[:2].min()), float(returns[:2].max()))
    bounds, sides = first, 0
    for i, value in enumerate(returns[2:], start=3):
        if not bounds.lower <= value <= bounds.upper:
            before, bounds, sides = bounds, wider(bounds, float(value)), sides + 1
            assert bounds.span >= 2 * before.span * (1 - 1e-12)
            assert bounds.span < 4 * np.ptp(returns[:i])
    assert sides <= np.log2(4 * np.ptp(returns) / first.span)


# Undiscounted returns


def test_the_plain_sums_of_rewards_are_beside_the_discounted_ones():
    run = transfer(CART, [BALANCE], episodes=4, learner=FixedPolicy(lambda x: 0), rng=0)
    assert run.gamma == 0.99
    steps = run.undiscounted  # a reward of 1 a step
    assert run.returns == pytest.approx((1 - 0.99**steps) / (1 - 0.99))
    assert f"undiscounted {steps.mean():.4g} (gamma 0.99)" in str(run)
    assert transfer(LAKE, [STILL], episodes=4, rng=0).undiscounted is None
    played = transfer(LAKE, [lambda s: 0], episodes=4, rng=0)  # functions are not compiled
    assert played.undiscounted.shape == (1, 4)


def test_saved_trials_keep_the_plain_sums(tmp_path):
    chosen = {"episodes": 10, "trials": 2, "rng": 0, "save": tmp_path}
    one, again = (transfer(GymTask("FrozenLake-v1"), [STILL], **chosen) for _ in range(2))
    assert one.undiscounted.shape == (2, 10)
    assert np.array_equal(one.undiscounted, again.undiscounted)
    assert transfer(LAKE, [STILL], **chosen).undiscounted is None
    assert transfer(LAKE, [STILL], **chosen).undiscounted is None


# Every kind of policy, everywhere


POLICIES = {
    "an array": solve(LAKE).policy,
    "a list": solve(LAKE).policy.tolist(),
    "a solution": solve(LAKE),
    "a table": TablePolicy(solve(LAKE).policy),
    "a function": lambda state: int(solve(LAKE).policy[state]),
    "a batched function": FunctionPolicy(lambda states: solve(LAKE).policy[np.asarray(states)], batched=True),
    "probabilities": np.eye(4)[solve(LAKE).policy],
}


@pytest.mark.parametrize("kind", POLICIES)
def test_every_policy_is_a_source_and_can_stand_in_the_learners_place(kind):
    policy = POLICIES[kind]
    as_source = transfer(LAKE, [policy], episodes=30, selector="exp3-transfer", rng=0)
    array = transfer(LAKE, [solve(LAKE).policy], episodes=30, selector="exp3-transfer", rng=0)
    if kind not in ("probabilities",):  # these draw
        assert np.array_equal(as_source.returns, array.returns)
    fixed = transfer(LAKE, [STILL], episodes=30, learner=FixedPolicy(policy), rng=0)
    assert fixed.returns[fixed.arms == 1].mean() > 0.3
    assert len(repr(FixedPolicy(policy))) <= 100


def test_a_solution_is_compiled_like_the_array_it_holds():
    run = transfer(LAKE, [solve(LAKE)], episodes=30, rng=0)
    assert isinstance(run.sources[0], np.ndarray)
    assert isinstance(FixedPolicy(solve(LAKE)).policy, np.ndarray)


def test_frames_and_series_are_tables():
    pd = pytest.importorskip("pandas")
    for given in (pd.Series(STILL), pd.DataFrame(np.eye(4)[STILL])):
        assert transfer(LAKE, [given], episodes=5, rng=0).n_sources == 1
        assert FixedPolicy(given).policy.shape[0] == 16


# Names


def leaning(x) -> int:
    return int(x[2] > 0)


def test_sources_keep_their_names():
    named = BALANCE.__class__([([[0, 0, -1, -1], [0, 0, 1, 1]], [0, 0])])
    chosen = {"episodes": 4, "learner": FixedPolicy(BALANCE), "rng": 0}
    run = transfer(CART, [leaning, lambda x: 0, named, leaning], **chosen)
    assert run.arm_names == ["leaning (0)", "source 1", "source 2", "leaning (3)", "learner"]
    run = transfer(CART, {"old.zip": BALANCE, "new.zip": leaning}, **chosen)
    assert run.arm_names == ["old.zip", "new.zip", "learner"]
    assert run.sources == [BALANCE, leaning]


# Mistakes


def refused(call) -> str:
    with pytest.raises(InvalidInputError) as caught:
        call()
    return str(caught.value)


def met(sources=(), **changes):
    return transfer(LAKE, list(sources) if isinstance(sources, tuple) else sources, **({"episodes": 5} | changes))


MISTAKES = {
    "no sources": (lambda: met(None), "sources is None, must be a list of policies"),
    "None in the list": (lambda: met([STILL, None]), r"sources\[1\] is None, must be an array"),
    "one policy": (lambda: met(STILL), r"sources is an array \[S\], one policy, must be a list: pass \[policy\]"),
    "one solution": (lambda: met(solve(LAKE)), r"sources is Solution\(.*must be a list of policies: pass \[policy\]"),
    "a missing zip": (lambda: met(["no.zip"]), r"sources\[0\] is 'no.zip', and there is no such file, .*load_sb3"),
    "a path": (lambda: met([Path(__file__)]), r"sources\[0\] is '.*test_defaults.py', must be a policy: pass load_sb3"),
    "a folder": (lambda: met("policies"), "sources is 'policies', must be a list of policies"),
    "a class": (lambda: met([TablePolicy]), r"sources\[0\] is <class .*>, must be an array"),
    "too few states": (lambda: met([[0, 1]]), r"sources\[0\] has shape \(2,\) .*must be \[16\] integer actions"),
    "floats": (lambda: met([np.zeros(16)]), r"sources\[0\] has shape \(16,\) and dtype float64, must be \[16\]"),
    "an action": (lambda: met([np.full(16, 9)]), r"sources\[0\]\[0\] is action 9, must be in 0\.\.3"),
    "another space": (lambda: met([BALANCE]), r"sources\[0\] is NetworkPolicy\(4 - 2.*cannot act on Discrete\(16\)"),
    "another solution": (
        lambda: met([solve(TabularMDP([[0]], [[0.0]], gamma=0.9))]), r"sources\[0\] has shape \(1,\) .*must be \[16\]",
    ),
    "three numbers": (
        lambda: transfer(CART, [THREE], episodes=1), r"sources\[0\] is NetworkPolicy\(3 - 2.*cannot act on Box \[4\]",
    ),
    "a table for numbers": (
        lambda: transfer(CART, [[0, 1]], episodes=1), r"sources\[0\] is a table, .*must be a policy for Box \[4\]",
    ),
    "an action of another space": (
        lambda: met([FunctionPolicy(lambda s: 7)]), r"sources\[0\] is .*gives the action 7, must be a policy for",
    ),
    "a learner by name": (lambda: met(learner="DQN"), r"learner is 'DQN', must be a QLearning\(\), an SB3Learning\("),
    "a policy as learner": (lambda: met(learner=solve(LAKE)), r"learner is Solution.*FixedPolicy\(policy\)"),
    "episodes": (lambda: met(episodes=100.0), r"episodes is 100\.0, must be a whole number, at least 1"),
    "rng": (lambda: met(rng=np.random.RandomState(0)), r"rng is RandomState.*must be a seed .* or None"),
    "rng as a text": (lambda: met(rng="0"), r"rng is '0', must be a seed"),
    "bounds": (lambda: met(bounds=1), r"bounds is 1, must be \(lower, upper\)"),
    "selector": (lambda: met(selector="exp3"), "selector is 'exp3', must be one of informed, regret-balancing"),
    "a selector object": (
        lambda: met(selector=TsallisINF(1, bounds=(0, 1), rng=np.random.default_rng(0))), "selector is .*each trial",
    ),
    "no task": (lambda: transfer(None, [], episodes=1), "task is None, must be a TabularMDP, a GymTask"),
    "tasks": (lambda: transfer([LAKE], [], episodes=1), r"task is \[TabularMDP.*must be a TabularMDP"),
    "an unknown id": (lambda: transfer("Nope-v0", [], episodes=1, gamma=0.9), "task is 'Nope-v0', must be .*Nope"),
    "no gamma": (lambda: transfer("CartPole-v1", [], episodes=1), "gamma is None, must be given"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_its_value_its_place_and_a_remedy(mistake):
    if mistake in ("three numbers", "a table for numbers"):  # by default another library's learner learns from them
        pytest.importorskip("stable_baselines3")
    call, sentence = MISTAKES[mistake]
    assert re.match(f"transfer: {sentence}", refused(call)), refused(call)


def test_a_frame_of_sources_is_refused():
    pd = pytest.importorskip("pandas")
    assert "sources is a DataFrame, must be a list of policies: pass [table]" in refused(
        lambda: met(pd.DataFrame([STILL]))
    )


OTHERS = {
    "FixedPolicy: policy is None, must be an array": lambda: FixedPolicy(None),
    "FixedPolicy: policy is 'a.zip', and there is no such file, must be a policy": lambda: FixedPolicy("a.zip"),
    r"transfer: learner\.policy has shape \(2,\) .*must be \[16\]": lambda: met(learner=FixedPolicy([0, 1])),
    r"transfer: learner\.policy is NetworkPolicy\(4 - 2": lambda: met(learner=FixedPolicy(BALANCE)),
    "QLearning: epsilon is 2, must be numbers in 0 .. 1": lambda: QLearning(epsilon=2),
    "QLearning: epsilon is 'fast', must be numbers": lambda: QLearning(epsilon="fast"),
    "QLearning: initial is None, must be a finite number": lambda: QLearning(initial=None),
    "decay: first is 'a', must be a number, in 0 .. 1": lambda: decay("a", 1),
    "decay: half is 0, must be a number above 0": lambda: decay(0.1, 0),
    "SB3Learning: algorithm is 'PPO', must be one of": lambda: SB3Learning("PPO"),
    "TabularMDP: next_state is None, must be an array": lambda: TabularMDP(None, [[0.0]], gamma=0.9),
    r"TabularMDP: reward has shape \(2,\), must be \(1, 2\)": lambda: TabularMDP([[0, 0]], [0.0, 1.0], gamma=0.9),
    "TabularMDP: gamma is '0.9', must be in": lambda: TabularMDP([[0]], [[0.0]], gamma="0.9"),
    "plot_curves: runs is .*, must be a dict of names and runs": lambda: pastmaster.plot_curves([1]),
}


@pytest.mark.parametrize("sentence", OTHERS)
def test_so_do_mistakes_elsewhere(sentence):
    assert re.match(sentence, refused(OTHERS[sentence])), refused(OTHERS[sentence])


def test_box_actions_are_not_told_to_use_dqn():
    pendulum = GymTask("Pendulum-v1", horizon=5)
    assert "SB3Learning('SAC')" in refused(lambda: transfer(pendulum, [], episodes=1, learner=QLearning()))
    pytest.importorskip("stable_baselines3")
    wrong = refused(lambda: transfer(pendulum, [], episodes=1, learner=SB3Learning("DQN")))
    assert wrong.startswith(
        "transfer: learner.algorithm is 'DQN', must be 'SAC' or 'TD3' or 'DDPG' for actions of Box [1]"
    )


# Shown


def test_reprs_are_one_short_line():
    long = TabularMDP([[0]], [[0.0]], gamma=0.9, horizon=1)
    run = transfer(long, {"a name " * 30: [0]}, episodes=5, rng=0)
    shown = [run, QLearning(epsilon=np.linspace(1, 0, 1000)), SB3Learning("DQN", policy_kwargs={"a": "b" * 200})]
    shown += [run.learners[0], Exp3Transfer(1, 5, bounds=(0, 1), rng=0).regret_guarantee(), FixedPolicy(BALANCE)]
    for thing in shown:
        assert len(repr(thing)) <= 100
        assert "\n" not in repr(thing)
        assert type(thing).__name__ in repr(thing)


def test_a_run_is_a_frame_and_a_table_in_a_notebook():
    pytest.importorskip("pandas")
    run = transfer(CART, {"<balance>": BALANCE}, episodes=4, trials=2, learner=FixedPolicy(BALANCE), rng=0)
    frame = run.to_frame()
    assert list(frame.columns) == ["trial", "episode", "arm", "name", "return", "undiscounted"]
    assert len(frame) == 8
    assert np.array_equal(frame["return"].to_numpy().reshape(2, 4), run.returns)
    assert set(frame["name"]) <= {"<balance>", "learner"}
    assert "undiscounted" not in transfer(LAKE, [], episodes=3, rng=0).to_frame()
    shown = run._repr_html_()
    assert "&lt;balance&gt;" in shown
    assert shown.count("<tr>") == 3


def test_the_dictionary_of_recommendations_is_what_the_defaults_are():
    recommended = pastmaster.RECOMMENDED
    assert set(recommended) == {"selector", "learner"}
    assert recommended["selector"] == "regret-balancing"
    assert recommended["learner"] == default_learner(spaces.Discrete(4), spaces.Discrete(2))


def test_gymnasium_spaces_of_an_environment_are_not_seeded_by_the_check():
    env = gym.make("FrozenLake-v1")
    env.observation_space.seed(5)
    drawn = gym.spaces.Discrete(16, seed=5).sample()
    transfer(env, [FunctionPolicy(lambda s: 0)], episodes=1, gamma=0.9, rng=0)
    assert env.observation_space.sample() == drawn
