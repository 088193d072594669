"""The two bodies of the episode engine give the same bits; so do any number of workers and of trials."""

from __future__ import annotations

from functools import cache, partial

import gymnasium as gym
import numpy as np
import pytest
import reference
import reuse_reference
from hypothesis import given, settings, strategies as st
from reuse_reference import some_experience
from seams import endless_states

from pastmaster import (
    Exp3Transfer,
    Informed,
    InvalidInputError,
    ProbabilisticPolicyReuse,
    QLearning,
    RegretBalancing,
    TabularMDP,
    TransferRun,
    TsallisINF,
    decay,
    return_bounds,
    transfer,
)
from pastmaster.reuse import SELECTORS

BOUNDED = sorted(set(SELECTORS) - {"ppr"})
SHARING = ["exp3-transfer", "tsallis-inf"]
STEP_SIZES = (0.5, 1.0, (1.0, 0.5, 0.25), lambda n: 1.0 / (n + 1))
EPSILONS = (0.1, 0.0, 1.0, (1.0, 0.5, 0.0), decay(0.8, 3.0))
LONG = 10**9  # what an environment without a step limit must be told


@cache
def learner(step: int, epsilon: int, learn_from: str) -> QLearning:
    """One of the settings above; functions are tabulated once for all examples."""
    return QLearning(STEP_SIZES[step], EPSILONS[epsilon], learn_from=learn_from)


def eager(selector: str, bounds: tuple[float, float]):
    """The selector of this name, made to eliminate as early as it can."""
    early = {
        "exp3-transfer": partial(Exp3Transfer, check_every=3, delta=1.0),
        "tsallis-inf": partial(TsallisINF, elimination="anytime", check_every=2, delta=1.0),
        "regret-balancing": partial(RegretBalancing, check_every=1, delta=1.0, preference=1.5),
        "informed": partial(Informed, check_every=1, delta=1.0, preference=1.5),
        "ppr": partial(ProbabilisticPolicyReuse, psi=0.7, upsilon=0.8, temperature_step=1 / (bounds[1] - bounds[0])),
    }
    return early[selector]


@st.composite
def tasks(draw: st.DrawFn) -> tuple[TabularMDP, np.random.Generator]:
    """A task of any kind whose episodes end, by a horizon or for sure, and a generator for what else is needed."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_states, n_actions = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    n_outcomes = draw(st.sampled_from([None, 1, 2, 3]))
    horizon = draw(st.one_of(st.none(), st.integers(1, 20)))
    ending = draw(st.sampled_from([0.0, 0.2, 0.6]))
    arrays = reference.random_arrays(rng, n_states, n_actions, n_outcomes, ending=ending)
    if horizon is None and (n_outcomes is None or draw(st.booleans())):  # always forward, and over at the last state
        own = np.arange(n_states).reshape(-1, *[1] * (arrays["next_state"].ndim - 1))
        arrays["next_state"] = np.minimum(np.maximum(arrays["next_state"], own + 1), n_states - 1)
        arrays["terminated"][-1] = True
    elif horizon is None:  # round in circles, but over in the end: the first outcome is always possible
        arrays["terminated"][..., 0] = True
    gamma = draw(st.sampled_from([0.0, 0.5, 0.9, 0.99]))
    return TabularMDP(**arrays, gamma=gamma, start=reference.random_start(rng, n_states), horizon=horizon), rng


def some_sources(rng: np.random.Generator, mdp: TabularMDP) -> list[np.ndarray]:
    """0 to 4 sources, some deterministic, some random, some twice the same."""
    sources = [reference.random_policy(rng, mdp, mixed=rng.random() < 0.4) for _ in range(int(rng.integers(4)))]
    return sources + sources[:1]


def as_functions(sources: list[np.ndarray]) -> list:
    """The deterministic sources as functions of the observation; random ones stay, since they draw."""
    return [(lambda s, actions=x: int(actions[s])) if x.ndim == 1 else x for x in sources]


def outcome(call) -> TransferRun | str:
    """A run, or what it was refused for."""
    try:
        return call()
    except InvalidInputError as error:
        return str(error)


def assert_same(one: TransferRun, other: TransferRun) -> None:
    """Everything that happened, and everything as it ended, to the last bit."""
    for name in ("returns", "arms", "eliminated_at", "clipped", "widened", "recommended"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    for a, b in zip(one.learners, other.learners, strict=True):
        assert np.array_equal(a.Q, b.Q)
        assert np.array_equal(a.visits, b.visits)
        assert np.array_equal(a.own_episodes, b.own_episodes)
        assert a.rng.bit_generator.state == b.rng.bit_generator.state
    for a, b in zip(one.selectors, other.selectors, strict=True):
        assert a.to_dict() == b.to_dict()


def both(mdp: TabularMDP, sources: list, seed: int, **settings) -> tuple[TransferRun, TransferRun]:
    """A run by the compiled body and one by the plain body."""
    compiled = transfer(mdp, sources, rng=np.random.default_rng(seed), **settings)
    env = mdp.to_gymnasium()
    horizon = LONG if mdp.horizon is None else None
    rng = np.random.default_rng(seed)
    plain = transfer(env, sources, rng=rng, gamma=mdp.gamma, horizon=horizon, **settings)
    return compiled, plain


# Plain equals compiled


@pytest.mark.parametrize(("selector", "share"), [(name, False) for name in SELECTORS] + [(n, True) for n in SHARING])
@settings(max_examples=60)
@given(tasks(), st.data())
def test_plain_equals_compiled(selector, share, drawn, data):
    mdp, rng = drawn
    sources = some_sources(rng, mdp)
    low, high = return_bounds(mdp)
    bounds = (low - 0.1, high + 0.1)
    chosen = {
        "episodes": data.draw(st.integers(1, 40), "episodes"),
        "trials": data.draw(st.integers(1, 2), "trials"),
        "bounds": bounds,
        "share": share,
        "selector": data.draw(st.sampled_from([selector, eager(selector, bounds)]), "selector"),
        "learner": learner(
            data.draw(st.integers(0, len(STEP_SIZES) - 1), "step size"),
            data.draw(st.integers(0, len(EPSILONS) - 1), "epsilon"),
            data.draw(st.sampled_from(["own", "every"]), "learn from"),
        ),
        **some_experience(selector, len(sources), bounds),
    }
    seed = int(rng.integers(2**32))
    compiled, plain = both(mdp, sources, seed, **chosen)
    assert_same(compiled, plain)
    functions = transfer(mdp, as_functions(sources), rng=np.random.default_rng(seed), **chosen)
    assert_same(compiled, functions)


@pytest.mark.parametrize("selector", BOUNDED)
@pytest.mark.parametrize("on_violation", ["raise", "widen", "clip"])
@settings(max_examples=30)
@given(tasks(), st.data())
def test_plain_equals_compiled_when_returns_violate_the_bounds(selector, on_violation, drawn, data):
    mdp, rng = drawn
    sources = some_sources(rng, mdp)
    low, high = return_bounds(mdp)
    middle, span = 0.5 * (low + high), high - low + 0.01
    chosen = {
        "episodes": data.draw(st.integers(1, 40), "episodes"),
        "bounds": (middle - 0.1 * span, middle + data.draw(st.sampled_from([0.02, 0.1]), "width") * span),
        "on_violation": on_violation,
        "selector": data.draw(st.sampled_from([selector, eager(selector, (low, high))]), "selector"),
        "share": selector in SHARING and data.draw(st.booleans(), "share"),
        **some_experience(selector, len(sources), (low, high)),
    }
    seed = int(rng.integers(2**32))
    compiled = outcome(lambda: transfer(mdp, sources, rng=np.random.default_rng(seed), **chosen))
    limits = {"gamma": mdp.gamma, "horizon": LONG if mdp.horizon is None else None}
    plain = outcome(lambda: transfer(mdp.to_gymnasium(), sources, rng=np.random.default_rng(seed), **limits, **chosen))
    if isinstance(compiled, str):
        assert on_violation == "raise"
        assert compiled == plain
    else:
        assert_same(compiled, plain)
        assert compiled.widened.any() <= (on_violation == "widen")
        assert compiled.clipped.any() <= (on_violation == "clip")


def test_the_comparison_sees_a_difference_in_any_part(rng):
    mdp = reference.random_mdp(rng, horizon=10)
    sources = [reference.random_policy(rng, mdp)]
    chosen = {"episodes": 20, "bounds": return_bounds(mdp), "learner": learner(2, 0, "own")}
    one, other = both(mdp, sources, 1, **chosen)
    assert_same(one, other)
    changes = [one.returns, one.arms, one.learners[0].Q, one.learners[0].visits, one.selectors[0]._arms]
    for array in changes:
        kept = array.flat[0]
        array.flat[0] += 1
        with pytest.raises(AssertionError):
            assert_same(one, other)
        array.flat[0] = kept
        assert_same(one, other)


def test_the_examples_meet_eliminations_and_both_bodies_agree_on_them():
    """Arm 0 always pays 0, arm 1 always 1: arm 0 is dropped, at the same episode in both bodies.

    It is dropped when its own episodes show it to be worse. In regret balancing these are the guard's, and come late.
    """
    mdp = TabularMDP([[0, 0]], [[0.0, 1.0]], terminated=[[True, True]], gamma=0.9)
    eager_checks = {"exp3-transfer": 3, "tsallis-inf": 2, "regret-balancing": 1, "informed": 1}
    for selector in BOUNDED:
        n = 400 if selector in SHARING else 2000
        chosen = {"episodes": n, "bounds": (0, 1), "selector": eager(selector, (0, 1)), "trials": 3}
        chosen |= some_experience(selector, 2)
        for share in (False, True) if selector in SHARING else (False,):
            compiled, plain = both(mdp, [np.array([0]), np.array([1])], 3, share=share, **chosen)
            assert_same(compiled, plain)
            dropped = compiled.eliminated_at[:, 0] > 0
            assert dropped.all()
            assert (compiled.eliminated_at[:, 1] == -1).all()
            for k, ended in enumerate(compiled.selectors):
                rule = {"elimination": ended.elimination, "delta": 1.0, "check_every": eager_checks[selector]}
                by_hand = reuse_reference.Exp3(2, 0.1, **rule)
                for arm, payoff in zip(compiled.arms[k, :100].tolist(), compiled.returns[k].tolist(), strict=False):
                    by_hand.tell(arm, payoff)
                early = compiled.eliminated_at[k]
                assert by_hand.eliminated_at == np.where(early <= 100, early, -1).tolist()


def test_a_task_of_arrays_is_compiled_and_functions_make_it_plain(rng):
    """Only the plain loop adds up rewards without discount."""
    mdp = reference.random_mdp(rng, horizon=5)
    chosen = {"episodes": 3, "bounds": return_bounds(mdp), "rng": rng}

    arrays = [reference.random_policy(rng, mdp), reference.random_policy(rng, mdp, mixed=True)]
    assert transfer(mdp, arrays, **chosen).undiscounted is None
    assert transfer(mdp, [lambda s: 0], **chosen).undiscounted is not None


@pytest.mark.parametrize("horizon", [1, 3, 20])
def test_the_horizon_cuts_an_episode_in_both_bodies(horizon):
    mdp = TabularMDP([[0]], [[1.0]], gamma=0.5, horizon=horizon)
    for run in both(mdp, [np.array([0])], 0, episodes=10, bounds=(0, 2)):
        assert (run.returns == 2.0 - 0.5 ** (horizon - 1)).all()


def test_the_shorter_of_the_two_horizons_counts_for_an_environment():
    env = TabularMDP([[0]], [[1.0]], gamma=0.5, horizon=4).to_gymnasium()
    for horizon, value in ((None, 1.875), (2, 1.5), (9, 1.875)):
        rng = np.random.default_rng(0)
        run = transfer(env, [], episodes=3, bounds=(0, 2), gamma=0.5, horizon=horizon, rng=rng)
        assert (run.returns == value).all()


def test_a_time_limit_put_around_an_environment_counts():
    env = gym.wrappers.TimeLimit(TabularMDP([[0]], [[1.0]], gamma=0.5).to_gymnasium(), 3)
    run = transfer(env, [], episodes=3, bounds=(0, 2), gamma=0.5, rng=np.random.default_rng(0))
    assert (run.returns == 1.75).all()


def test_long_episodes_outgrow_no_buffer(rng):
    """Sharing keeps what it must undo in the learner; 256 steps fit before the room is doubled."""
    mdp = TabularMDP([[0, 0]], [[0.0, 1.0]], gamma=0.9, horizon=700)
    chosen = {"episodes": 6, "bounds": (0, 10), "share": True, "learner": learner(2, 0, "own")}
    compiled, plain = both(mdp, [np.array([1]), np.array([0])], 1, selector="tsallis-inf", **chosen)
    assert (compiled.arms < 2).any()
    assert_same(compiled, plain)


@pytest.mark.parametrize("selector", SHARING)
def test_sharing_survives_episodes_whose_likelihood_is_below_the_smallest_number(selector):
    """1,000 steps of 4 equally good actions: each course of the episode has likelihood 4^-1000, which is 0.0."""
    mdp = TabularMDP(np.zeros((1, 4), int), np.zeros((1, 4)), gamma=0.9, horizon=1000)
    sources = [np.array([0]), np.full((1, 4), 0.25)]
    compiled, plain = both(mdp, sources, 0, episodes=15, bounds=(0, 1), selector=selector, share=True)
    assert_same(compiled, plain)
    assert np.isfinite(compiled.selectors[0].probabilities).all()


@pytest.mark.parametrize("selector", ["ppr", partial(ProbabilisticPolicyReuse, psi=1.0, upsilon=1.0)])
def test_policy_reuse_with_sharing_is_refused_alike_by_both_bodies(rng, selector):
    """It makes no use of sharing, even where it never mixes."""
    mdp = reference.random_mdp(rng, horizon=10, ending=0.0)
    sources = [reference.random_policy(rng, mdp) for _ in range(3)]
    chosen = {"episodes": 30, "selector": selector, "share": True}
    compiled = outcome(lambda: transfer(mdp, sources, rng=np.random.default_rng(1), **chosen))
    env = mdp.to_gymnasium()
    plain = outcome(lambda: transfer(env, sources, gamma=mdp.gamma, rng=np.random.default_rng(1), **chosen))
    refusal = "transfer: share is True, must be False for policy reuse: its episodes are mixed"
    assert compiled == plain == refusal


@pytest.mark.parametrize("selector", ["regret-balancing", "informed", partial(RegretBalancing, kappa=1.0)])
def test_selectors_that_draw_no_arms_share_no_episodes(rng, selector):
    mdp = reference.random_mdp(rng, horizon=10, ending=0.0)
    sources = [reference.random_policy(rng, mdp) for _ in range(3)]
    chosen = {"episodes": 30, "selector": selector, "share": True, **some_experience(selector, 3)}
    compiled = outcome(lambda: transfer(mdp, sources, rng=np.random.default_rng(1), **chosen))
    env = mdp.to_gymnasium()
    plain = outcome(lambda: transfer(env, sources, gamma=mdp.gamma, rng=np.random.default_rng(1), **chosen))
    name = "informed" if selector == "informed" else "regret-balancing"
    assert compiled == plain
    assert compiled.startswith(f"transfer: share is True, must be False for {name!r}, which draws no arms at random")


# Seeds, workers, trials


@pytest.mark.parametrize("selector", SELECTORS)
@pytest.mark.parametrize("functions", [False, True])
def test_results_depend_on_the_seed_alone(rng, selector, functions):
    mdp = reference.random_mdp(rng, horizon=8)
    sources = [reference.random_policy(rng, mdp, mixed=i == 1) for i in range(3)]
    sources = as_functions(sources) if functions else sources
    bounds = return_bounds(mdp)
    chosen = {"episodes": 30, "bounds": bounds, "selector": selector, **some_experience(selector, 3, bounds)}
    five = transfer(mdp, sources, trials=5, rng=np.random.default_rng(7), **chosen)
    assert_same(five, transfer(mdp, sources, trials=5, rng=np.random.default_rng(7), **chosen))
    if not functions or selector == "informed":  # functions need processes, which take seconds to start
        assert_same(five, transfer(mdp, sources, trials=5, n_jobs=2, rng=np.random.default_rng(7), **chosen))
    another = transfer(mdp, sources, trials=5, rng=np.random.default_rng(8), **chosen)
    assert not np.array_equal(five.returns, another.returns)
    assert len({row.tobytes() for row in five.returns}) == 5  # trials differ from one another
    two = transfer(mdp, sources, trials=2, rng=np.random.default_rng(7), **chosen)
    for name in ("returns", "arms", "eliminated_at", "recommended"):
        assert np.array_equal(getattr(five, name)[:2], getattr(two, name))
    for k in range(2):
        assert np.array_equal(five.learners[k].Q, two.learners[k].Q)
        assert five.selectors[k].to_dict() == two.selectors[k].to_dict()


def test_the_streams_are_apart_so_that_another_learner_leaves_the_environment_as_it_was(rng):
    """Only the outcomes are random, and one source alone acts: the learner's settings cannot change its returns."""
    mdp = reference.random_mdp(rng, horizon=8)
    sources = [reference.random_policy(rng, mdp, mixed=True)]
    selector = partial(Exp3Transfer, beta=1.0)  # either arm with probability 1/2, whatever they earn
    runs = [
        transfer(
            mdp, sources, episodes=50, bounds=return_bounds(mdp), selector=selector, rng=np.random.default_rng(3),
            learner=QLearning(step),
        )
        for step in (0.1, 0.9)
    ]  # fmt: skip
    assert np.array_equal(runs[0].arms, runs[1].arms)
    first_own = int(np.argmax(runs[0].arms[0] == 1))
    assert np.array_equal(runs[0].returns[0, :first_own], runs[1].returns[0, :first_own])


def test_the_global_random_state_and_the_callers_generator_are_left_alone(rng):
    mdp = reference.random_mdp(rng, horizon=8)
    before = np.random.get_state()[1].tolist()  # noqa: NPY002  this is what must not be touched
    state = rng.bit_generator.state
    both(mdp, [np.zeros(mdp.n_states, int)], 5, episodes=20, bounds=return_bounds(mdp))
    transfer(mdp, [], episodes=5, bounds=return_bounds(mdp), rng=rng)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002
    assert rng.bit_generator.state == state


# Violations, worked by hand


def one_step(*rewards: float) -> TabularMDP:
    """A task of one step, in which the action's reward is the return."""
    return TabularMDP([[0] * len(rewards)], [list(rewards)], terminated=[[True] * len(rewards)], gamma=0.9)


@pytest.mark.parametrize("selector", BOUNDED)
@pytest.mark.parametrize(("reward", "wider"), [(3.0, (0.0, 4.0)), (-3.0, (-3.0, 1.0)), (1.5, (0.0, 2.0))])
def test_widening_doubles_the_span_and_starts_the_selector_anew(selector, reward, wider):
    """From (0, 1): a return of 3 needs 1 -> 2 -> 4, one of -3 needs 0 -> -1 -> -3; one restart each."""
    chosen = {"episodes": 9, "bounds": (0, 1), "selector": selector, "on_violation": "widen", "trials": 2}
    chosen |= some_experience(selector, 1)
    for run in both(one_step(reward), [np.array([0])], 0, **chosen):
        assert run.widened.tolist() == [1, 1]
        assert run.clipped.tolist() == [0, 0]
        assert (run.returns == reward).all()
        for ended in run.selectors:
            assert tuple(ended.bounds) == wider
            assert ended.n_told == 8  # the return that broke the bounds was told to nobody
            assert ended.episodes == 8
        assert "bounds widened 2 times" in str(run)


def test_widening_happens_as_often_as_it_must():
    """The last arm pays 7 more than the bounds say, the one before 1 more: each is met once, in some order."""
    chosen = {"episodes": 200, "bounds": (0, 1), "on_violation": "widen", "learner": QLearning(epsilon=1.0)}
    for run in both(one_step(0.5, 2.0, 8.0), [np.array([0])], 0, **chosen):
        first = [int(np.argmax(run.returns[0] == value)) for value in (2.0, 8.0)]
        assert run.widened.tolist() == [2 if first[0] < first[1] else 1]
        assert tuple(run.selectors[0].bounds) == (0.0, 8.0)
        assert run.selectors[0].n_told == 200 - 1 - max(first[1], 0)


@pytest.mark.parametrize("selector", BOUNDED)
def test_a_violation_is_refused_with_its_episode_and_return_or_clipped_and_counted(selector):
    """Up to the first return outside, the refused run is the clipped one."""
    mdp = one_step(0.25, 1.75, -0.5, 0.5)
    made = selector if selector in SHARING else eager(selector, (0, 1))  # of which the learner gets enough episodes
    chosen = {"episodes": 500, "bounds": (0, 1), "selector": made, "learner": QLearning(epsilon=1.0)}
    chosen |= some_experience(selector, 2)
    for run in both(mdp, [np.array([0]), np.array([3])], 4, on_violation="clip", **chosen):
        outside = (run.returns[0] < 0) | (run.returns[0] > 1)
        assert outside.sum() > 1
        assert run.clipped.tolist() == [outside.sum()]
        assert run.widened.tolist() == [0]
        assert set(run.returns[0]) <= {0.25, 1.75, -0.5, 0.5}  # the run tells what happened, unclipped
        assert np.nanmax(run.selectors[0].mean_returns) <= 1
        assert f"{outside.sum()} returns clipped" in str(run)
        first = int(outside.argmax())
        value = run.returns[0, first]
        sentence = (
            rf"return of episode {first} is {value:.6g}, must be within the declared bounds 0 \.\. 1: declare wider"
        )
        for call in (mdp, mdp.to_gymnasium()):
            more = {} if call is mdp else {"gamma": 0.9, "horizon": 5}
            with pytest.raises(InvalidInputError, match=sentence):
                transfer(call, [np.array([0]), np.array([3])], rng=np.random.default_rng(4), **more, **chosen)


class Jackpot(gym.Env):
    """One step an episode; action a pays a, but the last of ``episodes`` pays 100 whatever is done."""

    def __init__(self, episodes: int) -> None:
        self.observation_space, self.action_space = gym.spaces.Discrete(1), gym.spaces.Discrete(2)
        self.left = episodes

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left -= 1
        return 0, {}

    def step(self, action):
        return 0, 100.0 if self.left == 0 else float(action), True, False, {}


@pytest.mark.parametrize("selector", BOUNDED)
def test_a_violation_in_the_last_episode_leaves_the_eliminations_when_they_were(selector):
    n = 300 if selector in SHARING else 2000
    chosen = {
        "episodes": n, "gamma": 0.9, "horizon": 1, "bounds": (0, 1), "on_violation": "widen",
        "selector": eager(selector, (0, 1)), **some_experience(selector, 2),
    }  # fmt: skip
    sources = [np.array([0]), np.array([1])]
    run = transfer(Jackpot(n), sources, rng=np.random.default_rng(0), **chosen)
    calm = transfer(Jackpot(10**6), sources, rng=np.random.default_rng(0), **chosen)
    assert run.widened.tolist() == [1]
    assert run.returns[0, -1] == 100
    assert np.array_equal(run.returns[:, :-1], calm.returns[:, :-1])
    assert 0 < calm.eliminated_at[0, 0] < n
    assert np.array_equal(run.eliminated_at, calm.eliminated_at)


def test_eliminations_after_a_restart_are_counted_from_the_first_episode():
    """The first episode breaks the bounds, so every later one is told one late."""

    class Early(Jackpot):
        def step(self, action):
            return 0, 4.0 if self.left == 1999 else float(action), True, False, {}

    chosen = {"episodes": 2000, "gamma": 0.9, "horizon": 1, "on_violation": "widen"}
    run = transfer(
        Early(2000), [np.array([0]), np.array([1])], rng=np.random.default_rng(0), bounds=(0, 2),
        selector=partial(Exp3Transfer, check_every=10), **chosen,
    )  # fmt: skip
    assert run.widened.tolist() == [1]
    assert run.eliminated_at[0, 0] % 10 == 1
    dropped = int(run.eliminated_at[0, 0])
    assert (run.arms[0, :dropped] == 0).any()
    assert not (run.arms[0, dropped:] == 0).any()


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("on_violation", ["raise", "widen", "clip"])
@pytest.mark.parametrize("selector", SELECTORS)
def test_a_return_that_is_no_number_is_refused_whatever_is_asked(value, on_violation, selector):
    class Broken(Jackpot):
        def step(self, action):
            return 0, value, True, False, {}

    chosen = {"episodes": 10, "gamma": 0.9, "horizon": 1, "bounds": (0, 1), "on_violation": on_violation}
    chosen |= some_experience(selector, 2)
    with pytest.raises(InvalidInputError, match=rf"the return of episode 0 is {value}, must be a finite number"):
        transfer(Broken(10), [[0], [1]], rng=np.random.default_rng(0), selector=selector, **chosen)


def test_policy_reuse_needs_no_bounds_and_violates_none():
    for run in both(one_step(5.0, -7.0), [np.array([0])], 0, episodes=20, selector="ppr"):
        assert set(run.returns[0]) <= {5.0, -7.0}
        assert run.widened.tolist() == run.clipped.tolist() == [0]


# What a task without a horizon must be


def closed(mdp: TabularMDP, policy: np.ndarray, s: int) -> bool:
    """Whether from s, under the policy, no outcome that can ever happen ends the episode."""
    seen, queue = {s}, [s]
    while queue:
        here = queue.pop()
        for _, following, _, terminated in reference.outcomes(mdp, here, int(policy[here])):
            if terminated:
                return False
            if following not in seen:
                seen.add(following)
                queue.append(following)
    return True


def reachable(mdp: TabularMDP) -> set[int]:
    """The states an episode can come to by any actions."""
    seen = set(np.flatnonzero(reference.start_distribution(mdp)).tolist())
    queue = list(seen)
    while queue:
        here = queue.pop()
        for a in range(mdp.n_actions):
            for _, following, _, terminated in reference.outcomes(mdp, here, a):
                if not terminated and following not in seen:
                    seen.add(following)
                    queue.append(following)
    return seen


@pytest.mark.parametrize("gamma", [0.9, 0.0])
@settings(max_examples=100)
@given(st.data())
def test_endless_states_are_those_that_some_policy_never_leaves(gamma, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    n_states, n_actions = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 2))
    n_outcomes, ending = data.draw(st.sampled_from([None, 2, 3])), data.draw(st.sampled_from([0.2, 0.4, 0.6]))
    mdp = reference.random_mdp(rng, n_states, n_actions, n_outcomes, gamma=gamma, ending=ending)
    met = reachable(mdp)
    policies = list(reference.all_policies(mdp))
    expected = [s in met and any(closed(mdp, policy, s) for policy in policies) for s in range(mdp.n_states)]
    assert endless_states(mdp).tolist() == expected


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_there_are_endless_states_just_where_some_policy_keeps_on_with_positive_probability(seed):
    """The mass still going after 4,000 steps of any of the policies is 0, or it is there for ever."""
    rng = np.random.default_rng(seed)
    mdp = reference.random_mdp(rng, int(rng.integers(1, 5)), 2, [None, 2][int(rng.integers(2))], ending=0.4)
    P, _ = reference.matrices(mdp)
    start, every = reference.start_distribution(mdp), np.arange(mdp.n_states)
    left = [(start @ np.linalg.matrix_power(P[every, policy], 4000)).sum() for policy in reference.all_policies(mdp)]
    assert endless_states(mdp).any() == (max(left) > 1e-9)
