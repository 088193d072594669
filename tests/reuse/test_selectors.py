"""What every selector keeps to: ask, tell, refuse, resume; and each one's arithmetic against plain references."""

from __future__ import annotations

import functools
import json
import math

import numpy as np
import pytest
import reuse_reference as reference
from numba import njit
from scipy import optimize
from seams import layout, selecting as kernels

from pastmaster import (
    Episode,
    Exp3Transfer,
    Informed,
    InvalidInputError,
    ProbabilisticPolicyReuse,
    RegretBalancing,
    TsallisINF,
    regret_bound,
)

BOUNDED = [Exp3Transfer, TsallisINF, RegretBalancing, Informed]
SELECTORS = [*BOUNDED, ProbabilisticPolicyReuse]
every_selector = pytest.mark.parametrize("cls", SELECTORS, ids=lambda cls: cls.name)
bounded_selector = pytest.mark.parametrize("cls", BOUNDED, ids=lambda cls: cls.name)


def make(cls, rng, n_sources=3, episodes=500, bounds=(-2.0, 6.0), **settings):
    known = reference.some_experience(
        cls, n_sources if type(n_sources) is int and n_sources in range(20) else 3, (-2.0, 6.0)
    )
    return cls(n_sources, episodes, bounds=bounds, rng=rng, **known, **settings)


def payoff_of(arm, rng, n_arms=4):
    """A return within (-2, 6) that leans towards the higher arms."""
    return -2.0 + 8.0 * float(rng.random()) ** (n_arms - arm)


def run(selector, episodes, rng):
    """Ask and tell; the arms asked for."""
    arms = []
    for _ in range(episodes):
        episode = selector.ask()
        arms.append(episode.arm)
        selector.tell(episode, payoff_of(episode.arm, rng))
    return arms


# ask and tell


@every_selector
def test_ask_gives_an_episode_of_an_arm_with_the_next_number(cls, rng):
    selector = make(cls, rng)
    seen = set()
    for number in range(300):
        assert selector.open == ()
        episode = selector.ask()
        assert type(episode.arm) is type(episode.number) is int
        assert 0 <= episode.arm <= 3
        assert episode.number == number
        assert selector.open == (episode,)
        selector.tell(episode, payoff_of(episode.arm, rng))
        seen.add(episode.arm)
    assert seen == {0, 1, 2, 3} or cls is ProbabilisticPolicyReuse  # for which an arm unseen is worth 0
    assert selector.n_asked == selector.n_told == selector.counts.sum() == 300


@every_selector
def test_looking_at_a_selector_does_not_change_it(cls, rng):
    selector = make(cls, rng)
    run(selector, 30, rng)
    for _ in range(2):
        before = selector.to_dict()
        np.testing.assert_allclose(selector.probabilities.sum(), 1.0, rtol=1e-12)
        _ = selector.active, selector.eliminated_at, selector.counts, selector.mean_returns, repr(selector)
        _ = selector.regret_guarantee(), selector.n_told, selector.n_clipped
        selector.probabilities[:] = 7.0
        selector.active[:] = False
        assert selector.to_dict() == before
        selector.ask()


@every_selector
def test_probabilities_are_those_of_the_next_ask(cls, rng):
    selector = make(cls, rng)
    for _ in range(50):
        ahead = selector.probabilities
        episode = selector.ask()
        assert selector._asked.get(episode.number).chances.tolist() == ahead.tolist()
        assert ahead[episode.arm] > 0
        selector.tell(episode, payoff_of(episode.arm, rng))


@every_selector
def test_arms_are_drawn_as_often_as_their_probabilities_say(cls, rng):
    """Each draw's indicator minus its probability is a martingale difference: Azuma's bound at level 1e-6."""
    selector, surplus, n = make(cls, rng), np.zeros(4), 2000
    for _ in range(n):
        chances, episode = selector.probabilities, selector.ask()
        arm = episode.arm
        surplus += np.eye(4)[arm] - chances
        selector.tell(episode, payoff_of(arm, rng))
    assert np.abs(surplus).max() <= math.sqrt(2 * n * math.log(2 * 4 / 1e-6))


@every_selector
def test_own_episodes_are_counted_and_averaged(cls, rng):
    selector, returns = make(cls, rng), [[], [], [], []]
    assert np.isnan(selector.mean_returns).all()
    for _ in range(100):
        episode = selector.ask()
        arm = episode.arm
        returns[arm].append(payoff_of(arm, rng))
        selector.tell(episode, returns[arm][-1])
    assert selector.counts.tolist() == [len(arm) for arm in returns]
    for mean, own in zip(selector.mean_returns, returns, strict=True):
        assert mean == pytest.approx(np.mean(own)) if own else np.isnan(mean)


@every_selector
def test_the_learner_is_always_in_play(cls, rng):
    selector = make(cls, rng)
    for _ in range(300):
        episode = selector.ask()
        arm = episode.arm
        selector.tell(episode, -2.0 if arm == 3 else 6.0)
        assert selector.active[3]
    assert len(selector.eliminated_at) == 3


REFUSALS = {
    "unasked": "was never asked for (",
    "again": "was told or cancelled before, must be one that is open: ",
    "unknown": "must be the Episode that ask returned",
    "other": "but ask said ",
    "nan": "value is nan, must be a finite number",
    "infinite": "value is inf, must be a finite number",
    "outside": "must be within the bounds -2 .. 6",
    "shape": "must be (4,), one to an arm",
    "dtype": "must hold numbers",
    "likelihood": "must be at least 0, finite, and above 0 for some arm that could have been asked for",
    "no number": "value is '1', must be a finite number",
}


def refused(selector, sentence, *told, method="tell"):
    """A tell that must be refused with its sentence, and leave the state as it was."""
    before = selector.to_dict()
    with pytest.raises(InvalidInputError) as caught:
        getattr(selector, method)(*told)
    assert selector.to_dict() == before
    assert str(caught.value).startswith(f"{type(selector).__name__}.{method}: ")
    assert [name for name, part in REFUSALS.items() if part in str(caught.value)] == [sentence], str(caught.value)


@every_selector
@pytest.mark.parametrize("method", ["tell", "cancel"])
def test_an_episode_that_is_not_open_is_refused_with_its_own_sentence(cls, rng, method):
    selector = make(cls, rng)
    value = (1.0,) if method == "tell" else ()
    refused(selector, "unasked", Episode(0, 0), *value, method=method)
    first, second = selector.ask(), selector.ask()
    refused(selector, "unasked", Episode(first.arm, 2), *value, method=method)
    refused(selector, "unasked", Episode(first.arm, -1), *value, method=method)
    refused(selector, "unasked", Episode(first.arm, "0"), *value, method=method)
    for arm in {0, 1, 2, 3, 4, -1, "0", None} - {first.arm}:
        refused(selector, "other", Episode(arm, 0), *value, method=method)
    for no_episode in (first.arm, tuple(first), list(first), None, "0", 1.5):
        refused(selector, "unknown", no_episode, *value, method=method)
    selector.tell(second, 1.0)
    refused(selector, "again", second, *value, method=method)
    selector.tell(first, 1.0)
    refused(selector, "again", first, *value, method=method)
    third = selector.ask()
    selector.cancel(third)
    refused(selector, "again", third, *value, method=method)
    assert (selector.n_asked, selector.n_told, selector.open) == (3, 2, ())


@every_selector
def test_a_return_that_is_no_finite_number_is_refused(cls, rng):
    selector = make(cls, rng)
    run(selector, 5, rng)
    episode = selector.ask()
    refused(selector, "nan", episode, math.nan)
    refused(selector, "infinite", episode, math.inf)
    with pytest.raises(InvalidInputError, match="value is -inf"):
        selector.tell(episode, -math.inf)
    refused(selector, "no number", episode, "1")
    for value in (None, [1.0], 1j, 10**400):
        with pytest.raises(InvalidInputError, match=r"value is .*, must be a finite number"):
            selector.tell(episode, value)
    selector.tell(episode, np.float64(1.0))
    assert selector.n_told == 6


@bounded_selector
def test_a_return_outside_the_bounds_is_refused_and_rounding_is_not(cls, rng):
    selector = make(cls, rng)
    episode = selector.ask()
    for outside in (6.001, -2.001, 1e300, -1e300):
        refused(selector, "outside", episode, outside)
    selector.tell(episode, 6.0 + 1e-12)
    selector.tell(selector.ask(), -2.0 - 1e-12)
    assert selector.n_clipped == 0
    assert selector.n_told == 2


@every_selector
def test_a_likelihood_that_cannot_be_one_is_refused(cls, rng):
    selector = make(cls, rng)
    episode = selector.ask()
    arm = episode.arm
    refused(selector, "shape", episode, 1.0, [1.0, 1.0])
    refused(selector, "shape", episode, 1.0, np.ones((4, 1)))
    refused(selector, "dtype", episode, 1.0, "x")
    for i in range(4):
        for value in (-0.1, -math.inf, math.nan, math.inf):
            refused(selector, "likelihood", episode, 1.0, np.where(np.arange(4) == i, value, 1.0))
    refused(selector, "likelihood", episode, 1.0, np.zeros(4))
    impossible = np.where(selector._asked.get(episode.number).chances == 0.0, 1.0, 0.0)
    refused(selector, "likelihood", episode, 1.0, impossible)
    selector.tell(episode, 1.0, np.eye(4)[arm])


@every_selector
@pytest.mark.parametrize("likelihood", [["1"] * 4, [None] * 4, [10**400] * 4, np.full(4, 1j), [[1.0], 2.0, 3.0, 4.0]])
def test_a_likelihood_that_is_no_numbers_is_refused(cls, rng, likelihood):
    selector = make(cls, rng)
    episode = selector.ask()
    with pytest.raises(InvalidInputError, match="likelihood"):
        selector.tell(episode, 1.0, likelihood)
    assert selector.n_told == 0


@every_selector
def test_likelihoods_count_up_to_a_common_factor(cls, seed):
    """Powers of 2, by which division is exact: the states agree bit for bit, and none need be a probability."""
    selectors = [make(cls, np.random.default_rng(seed)) for _ in range(3)]
    rng = np.random.default_rng(seed + 1)
    for _ in range(100):
        (episode,) = {selector.ask() for selector in selectors}
        value, likelihood = payoff_of(episode.arm, rng), rng.random(4) + 0.01
        for selector, factor in zip(selectors, (1.0, 2.0**300, 2.0**-500), strict=True):
            selector.tell(episode, value, factor * likelihood)
    states = [(selector._arms.tobytes(), selector._memory.tobytes()) for selector in selectors]
    assert states[0] == states[1] == states[2]


@every_selector
def test_an_arm_may_have_run_what_it_was_unlikely_to_if_another_could_have(cls, rng):
    """As where its own likelihood vanished beside others': all that counts is that the acts had some probability."""
    selector = make(cls, rng)
    episode = selector.ask()
    arm = episode.arm
    others = (np.arange(4) != arm).astype(float)
    if cls is Informed:  # which draws nothing: no other arm could have been asked for
        with pytest.raises(InvalidInputError, match="above 0 for some arm that could have been asked for"):
            selector.tell(episode, 1.0, others)
        selector.tell(episode, 1.0)
    else:
        selector.tell(episode, 1.0, others)
    assert selector.n_told == selector.counts[arm] == 1
    assert np.isfinite(selector._arms).all()


@bounded_selector
def test_clip_moves_returns_onto_the_bounds_and_counts_them(cls, seed):
    clipping = make(cls, np.random.default_rng(seed), clip=True)
    plain = make(cls, np.random.default_rng(seed))
    outside = 0
    rng = np.random.default_rng(seed + 1)
    for _ in range(200):
        episode, value = clipping.ask(), float(rng.normal(2.0, 4.0))
        assert plain.ask() == episode
        clipping.tell(episode, value)
        plain.tell(episode, min(max(value, -2.0), 6.0))
        outside += not -2.0 <= value <= 6.0
    assert clipping.n_clipped == outside > 20
    assert plain.n_clipped == 0
    assert clipping.probabilities.tolist() == plain.probabilities.tolist()
    with pytest.raises(InvalidInputError, match="finite"):
        clipping.tell(clipping.ask(), math.nan)


@bounded_selector
def test_clipping_may_start_in_the_middle_of_a_run(cls, seed):
    selector, clipping = (make(cls, np.random.default_rng(seed), clip=clip) for clip in (False, True))
    for each in (selector, clipping):
        run(each, 20, np.random.default_rng(seed))
    episode = selector.ask()
    assert clipping.ask() == episode
    refused(selector, "outside", episode, 7.0)
    assert not selector.clip
    selector.start_clipping()
    assert selector.clip
    assert not selector.refuses(7.0)
    for each in (selector, clipping):
        each.tell(episode, 7.0)
    assert selector.n_clipped == 1
    assert selector.to_dict() == clipping.to_dict()
    assert cls.from_dict(selector.to_dict()).clip


@every_selector
def test_a_selector_says_beforehand_what_it_would_refuse(cls, rng):
    """Which policy reuse, that knows no bounds, does with no finite return; it alone mixes arms in one episode."""
    selector = make(cls, rng)
    assert (selector.bounded, selector.mixes) == (cls in BOUNDED, cls not in BOUNDED)
    for value, outside in ((-2.001, True), (-2.0, False), (-2.0 - 1e-12, False), (6.0, False), (6.001, True)):
        episode = selector.ask()
        assert selector.refuses(value) is (outside and selector.bounded)
        if selector.refuses(value):
            refused(selector, "outside", episode, value)
        else:
            selector.tell(episode, value)


def test_policy_reuse_takes_any_finite_return(rng):
    selector = make(ProbabilisticPolicyReuse, rng)
    for value in (1e6, -1e6, 0.0):
        selector.tell(selector.ask(), value)
    assert selector.n_clipped == 0
    assert np.isfinite(selector.probabilities).all()


# small numbers of sources


@every_selector
@pytest.mark.parametrize("n_sources", [0, 1, 2])
def test_no_source_and_one_source_will_do(cls, rng, n_sources):
    selector = make(cls, rng, n_sources)
    arms = run(selector, 300, rng)
    assert set(arms) == set(range(n_sources + 1))
    assert selector.probabilities.shape == (n_sources + 1,)
    assert selector.probabilities.sum() == pytest.approx(1.0)
    assert selector.eliminated_at.tolist() == [-1] * n_sources or n_sources == 2
    assert selector.active[-1]
    assert np.isfinite(selector.probabilities).all()


@every_selector
def test_sources_that_are_all_equal_stay_in_play(cls, rng):
    selector = make(cls, rng, 4, **({} if cls is ProbabilisticPolicyReuse else {"check_every": 1}))
    for _ in range(500):
        selector.tell(selector.ask(), 2.0)
    assert selector.active.all()
    assert selector.eliminated_at.tolist() == [-1] * 4
    assert (selector.counts > 0).all() or cls is ProbabilisticPolicyReuse  # for which an arm unseen is worth 0


@pytest.mark.parametrize("n_sources", [1, 2])
def test_regret_balancing_works_at_the_largest_delta_it_takes(rng, n_sources):
    """With one source and delta 1 the confidence level is ln(1) = 0."""
    selector = make(RegretBalancing, rng, n_sources, delta=1.0)
    run(selector, 100, rng)
    assert selector.n_told == 100


@pytest.mark.parametrize("cls", [Exp3Transfer, TsallisINF])
@pytest.mark.parametrize("elimination", ["paper", "anytime"])
def test_with_delta_0_no_source_is_ever_eliminated(cls, rng, elimination):
    selector = make(cls, rng, delta=0.0, check_every=1, elimination=elimination)
    assert selector.elimination == "none"
    for _ in range(1000):
        episode = selector.ask()
        arm = episode.arm
        selector.tell(episode, 6.0 if arm == 0 else -2.0)
    assert selector.active.all()


# written down and resumed


KINDS = ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"]


@every_selector
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pending", [False, True])
def test_a_resumed_run_equals_the_uninterrupted_one_bit_for_bit(cls, seed, kind, pending):
    extra = {} if cls is ProbabilisticPolicyReuse else {"check_every": 7, "clip": True}
    selector = make(cls, np.random.Generator(getattr(np.random, kind)(seed)), **extra)
    rng = np.random.default_rng(seed)
    run(selector, 61, rng)
    if pending:
        asked = selector.ask()
    state = json.loads(json.dumps(selector.to_dict(), allow_nan=False))
    resumed = cls.from_dict(state)
    assert resumed.to_dict() == selector.to_dict() == state
    assert repr(resumed) == repr(selector)
    assert resumed.probabilities.tobytes() == selector.probabilities.tobytes()
    if pending:
        assert resumed.open == (asked,)
        for each in (selector, resumed):
            each.tell(asked, 1.0)
    later = np.random.default_rng(seed + 1)
    arms = run(selector, 150, later)
    assert run(resumed, 150, np.random.default_rng(seed + 1)) == arms
    assert resumed.to_dict() == selector.to_dict()
    unused = (layout.ANY, layout.CHANGED) if cls is RegretBalancing else ()  # what it keeps for old tasks alone
    rows = [row for row in range(len(selector._arms)) if row not in unused]
    assert resumed._arms[rows].tobytes() == selector._arms[rows].tobytes()
    assert resumed._memory.tobytes() == selector._memory.tobytes()
    assert resumed._settings.tobytes() == selector._settings.tobytes()


@every_selector
def test_a_written_state_is_a_copy(cls, rng):
    selector = make(cls, rng)
    run(selector, 10, rng)
    state, kept = selector.to_dict(), json.dumps(selector.to_dict())
    cls.from_dict(state).ask()
    state["arms"][0][0], state["memory"][0] = 9.0, 9.0
    assert json.dumps(selector.to_dict()) == kept
    state["arguments"]["n_sources"] = 9
    assert json.dumps(selector.to_dict()) == kept


@pytest.mark.parametrize(
    ("cls", "settings"),
    [
        (Exp3Transfer, {"beta": 0.25, "elimination": "anytime", "delta": 0.3, "check_every": 5}),
        (Exp3Transfer, {"delta": 0.0}),
        (Exp3Transfer, {"n_sources": np.int64(3), "episodes": np.int64(50), "delta": np.float32(0.5)}),
        (Exp3Transfer, {"beta": np.float64(0.5), "check_every": np.int32(3), "clip": np.True_}),
        (TsallisINF, {"estimator": "importance-weighted", "elimination": "paper", "clip": True}),
        (TsallisINF, {"episodes": None, "bounds": np.array([-2.0, 6.0])}),
        (RegretBalancing, {"kappa": 1, "preference": np.float64(1.0), "delta": 1e-9}),
        (RegretBalancing, {"episodes": None, "preference": 3}),
        (Informed, {"kappa": 1, "preference": np.float32(2.5), "delta": 1e-9}),
        (ProbabilisticPolicyReuse, {"psi": 0.5, "upsilon": 1, "temperature": 2, "temperature_step": np.float32(0.25)}),
        (ProbabilisticPolicyReuse, {"episodes": None, "temperature": 1e100}),
    ],
)
def test_all_settings_are_written_down(cls, rng, settings):
    selector = make(cls, rng, **settings)
    run(selector, 30, rng)
    resumed = cls.from_dict(json.loads(json.dumps(selector.to_dict(), allow_nan=False)))
    assert resumed._settings.tobytes() == selector._settings.tobytes()
    assert resumed.reuse == selector.reuse
    assert resumed.regret_guarantee() == selector.regret_guarantee()
    for name in ("n_sources", "episodes", "bounds", "clip", "elimination", "delta"):
        assert getattr(resumed, name) == getattr(selector, name)


def damaged(state, path, value):
    """The state with one entry changed, or taken out where the value is ``damaged`` itself."""
    state = json.loads(json.dumps(state))
    *way, last = path
    inner = functools.reduce(lambda place, key: place[key], way, state)
    if value is damaged:
        del inner[last]
    else:
        inner[last] = value
    return state


DAMAGE = [
    (["selector"], "another"),
    (["selector"], None),
    (["selector"], damaged),
    (["arguments"], damaged),
    (["rng"], damaged),
    (["arms"], damaged),
    (["memory"], damaged),
    (["arguments"], [1, 2]),
    (["arguments", "surprise"], 1),
    (["arguments", "rng"], 1),
    (["arguments", "n_sources"], damaged),
    (["arguments", "n_sources"], -1),
    (["arguments", "n_sources"], 4),
    (["arms"], [[1.0]]),
    (["arms"], "x"),
    (["arms"], None),
    (["arms", 0], [1.0]),
    (["arms", 3, 1], math.nan),
    (["arms", 3, 1], math.inf),
    (["arms", 3, 1], "x"),
    (["memory"], [0.0]),
    (["memory", 0], math.nan),
    (["memory", 0], None),
    (["rng"], None),
    (["rng", "bit_generator"], "Dice"),
    (["rng", "bit_generator"], damaged),
    (["rng", "state"], damaged),
    (["rng", "state"], 3),
    (["rng", "state", "state"], "x"),
]


@every_selector
def test_a_damaged_state_is_refused(cls, rng):
    selector = make(cls, rng)
    run(selector, 10, rng)
    state = selector.to_dict()
    for path, value in DAMAGE:
        with pytest.raises(InvalidInputError, match=r"from_dict|n_sources"):
            cls.from_dict(damaged(state, path, value))


def leaves(value, path=()):
    """Where the numbers, words and empty places of a state are."""
    if not isinstance(value, dict | list) or not value:
        yield [*path]
        return
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield from leaves(inner, (*path, key))


@every_selector
def test_nothing_in_a_state_can_change_unseen(cls, rng):
    """Each number to its neighbour, each word to another, one after the other; two episodes are open, one waits."""
    selector = make(cls, rng, 2)
    first, _ = selector.ask(), selector.ask()
    selector.tell(selector.ask(), 0.5)
    state = json.loads(json.dumps(selector.to_dict()))
    assert cls.from_dict(state).to_dict() == state
    assert first in cls.from_dict(state).open
    for path in leaves(state):
        value = functools.reduce(lambda place, key: place[key], path, state)
        other = value + 1 if type(value) is int else "x"
        if isinstance(value, float):
            other = math.nextafter(value, math.inf)
        with pytest.raises(InvalidInputError):
            cls.from_dict(damaged(state, path, other))


@pytest.mark.parametrize("kind", ["MT19937", "Philox"])
def test_a_generator_state_cut_short_is_refused(seed, kind):
    state = make(Exp3Transfer, np.random.Generator(getattr(np.random, kind)(seed))).to_dict()
    sentence = rf"Exp3Transfer\.from_dict: rng must be a state of {kind} as rng_to_dict wrote it"
    with pytest.raises(InvalidInputError, match=sentence):
        Exp3Transfer.from_dict(damaged(state, ["rng", "state", "key" if kind == "MT19937" else "counter"], [1, 2]))


@every_selector
@pytest.mark.parametrize("state", [None, [], "x", {}])
def test_what_is_no_state_at_all_is_refused(cls, state):
    with pytest.raises(InvalidInputError, match=r"must be what to_dict returned$"):
        cls.from_dict(state)


# EXP-3-Transfer


@pytest.mark.parametrize("elimination", ["none", "paper", "anytime"])
@pytest.mark.parametrize("beta", [None, 0.7])
def test_exp3_transfer_follows_algorithm_1(seed, elimination, beta):
    """Sources of payoffs 0.9, 0.85, 0.1, 0.1: removals come in one check, which must not undo one another."""
    c, episodes, level = 4, 600, (0.9, 0.85, 0.1, 0.1, 0.5)
    rng = np.random.default_rng(seed)
    selector = Exp3Transfer(
        c, episodes, bounds=(-1.0, 3.0), elimination=elimination, delta=0.2, check_every=20, beta=beta,
        rng=np.random.default_rng(seed + 1),
    )  # fmt: skip
    plain = reference.Exp3(c, selector.beta, elimination=elimination, delta=0.2, check_every=20)
    for _ in range(episodes):
        np.testing.assert_allclose(selector.probabilities, plain.probabilities(), rtol=1e-11, atol=0)
        episode = selector.ask()
        arm = episode.arm
        x = float(np.clip(level[arm] + 0.1 * (rng.random() - 0.5), 0.0, 1.0))
        selector.tell(episode, -1.0 + 4.0 * x)
        plain.tell(arm, (-1.0 + 4.0 * x + 1.0) / 4.0)
        np.testing.assert_allclose(selector._arms[layout.LOG_WEIGHT], plain.log_weight, rtol=1e-11, atol=0)
        assert set(np.flatnonzero(selector.active)) == plain.in_play
        assert selector.eliminated_at.tolist() == plain.eliminated_at
    if elimination == "none":
        assert selector.active.all()
    else:
        assert selector.active[[0, 2, 3, 4]].tolist() == [True, False, False, True]


def staged(cls, rng, counts, means, **settings):
    """A selector about to check its sources, whose own episodes had these numbers and mean payoffs, all 0 or 1."""
    selector = make(cls, rng, len(counts) - 1, bounds=(0.0, 1.0), check_every=1, **settings)
    totals = [n * mean for n, mean in zip(counts, means, strict=True)]
    selector._arms[[layout.COUNT, layout.SEEN]] = counts
    selector._arms[[layout.TOTAL, layout.SEEN_TOTAL, layout.SEEN_SQUARES]] = totals
    selector._memory[[layout.EPISODE, layout.ASKED]] = sum(counts)
    selector._memory[layout.NEXT_CHECK] = sum(counts) + 1
    return selector


def tell_learner(selector, x):
    """One episode of the learner, whoever was asked for."""
    selector.tell(reference.forced(selector, selector.n_sources), x)


def test_removals_of_one_check_do_not_undo_one_another(rng):
    """The print subtracts from C_t at each removal, so that only the last of a check would stand."""

    def width(n):
        return 2 * math.sqrt(math.log(2 * 3 / 0.1) / (2 * n))

    counts = [100, 10_000, 10_000, 10_000]
    means = [0.95, 0.95 - width(100) - 0.01, 0.95 - width(100) - 0.02 - width(10_000), 0.0]
    selector = staged(Exp3Transfer, rng, counts, means, beta=0.01)
    tell_learner(selector, 0.5)
    assert selector.active.tolist() == [True, False, False, True]
    assert selector.eliminated_at.tolist() == [-1, 30_101, 30_101]


def test_a_source_dropped_before_drops_nobody(rng):
    """Source 0, long out of play, had by far the best mean."""
    for in_play in (True, False):
        selector = staged(Exp3Transfer, rng, [1000, 1000, 1000, 10], [0.9, 0.5, 0.5, 0.0])
        if not in_play:
            selector._arms[layout.ACTIVE, 0], selector._arms[layout.DROPPED, 0] = 0.0, 500.0
        tell_learner(selector, 0.5)
        assert selector.active[1:].tolist() == [not in_play, not in_play, True]


def test_the_paper_drops_a_source_just_beyond_the_printed_width_and_not_just_within(rng):
    """By the smaller of the two counts, whichever has it."""
    for counts in ([300, 5000, 7], [5000, 300, 7]):
        width = 2 * math.sqrt(math.log(2 * 2 / 0.1) / (2 * 300))
        for gap, dropped in ((width + 1e-6, True), (width - 1e-6, False)):
            selector = staged(Exp3Transfer, rng, counts, [0.3, 0.3 + gap, 0.0], beta=0.01)
            tell_learner(selector, 0.0)
            assert selector.active.tolist() == [not dropped, True, True]


def test_beta_is_by_default_the_theorems(rng):
    for c, episodes in ((0, 10), (1, 10), (3, 1000), (16, 10_000), (16, 3)):
        expected = min(1.0, math.sqrt((c + 1) * math.log(c + 1) / ((math.e - 1) * episodes)))
        assert make(Exp3Transfer, rng, c, episodes).beta == pytest.approx(expected, rel=1e-15)
    assert make(Exp3Transfer, rng, 16, 3).beta == 1.0
    assert make(Exp3Transfer, rng, 16, 3, beta=0.125).beta == 0.125


def test_the_theorems_beta_minimises_the_bound():
    for c, episodes in ((1, 100), (5, 2000)):
        n_ln_n = (c + 1) * math.log(c + 1)
        found = optimize.minimize_scalar(
            lambda beta: (math.e - 1) * beta + n_ln_n / (beta * episodes),  # noqa: B023  called at once
            bounds=(1e-6, 1.0), method="bounded", options={"xatol": 1e-10},
        )  # fmt: skip
        assert found.x == pytest.approx(Exp3Transfer(c, episodes, bounds=(0, 1)).beta, rel=1e-5)
        assert found.fun == pytest.approx(regret_bound(c, episodes, 1.0), rel=1e-9)


def test_a_shared_episode_counts_for_every_arm_that_could_have_run_it(rng):
    """Hand-computed: x over the total probability of the acts, times each arm's likelihood of them."""
    selector = make(Exp3Transfer, rng, beta=0.4, bounds=(0.0, 1.0))
    run_in_bounds = np.array([0.1, 0.4, 0.3, 0.2])
    selector._arms[layout.LOG_WEIGHT] = np.log(run_in_bounds)
    selector._arms[layout.WEIGHT] = run_in_bounds
    p = 0.6 * run_in_bounds + 0.1
    np.testing.assert_allclose(selector.probabilities, p, rtol=1e-12)
    likelihood = np.array([1.0, 0.0, 1.0, 0.25])
    while (episode := selector.ask()).arm == 1:
        selector.cancel(episode)
    selector.tell(episode, 0.8, likelihood)
    grown = 0.4 / 4 * 0.8 * likelihood / (p[0] + p[2] + 0.25 * p[3])
    np.testing.assert_allclose(selector._arms[layout.LOG_WEIGHT] - np.log(run_in_bounds), grown, rtol=1e-10, atol=1e-15)


def test_dropping_the_source_with_all_the_weight_leaves_the_others_in_play(rng):
    """All other weights are exp(-1000) of its own, 0 in floating point, until they are taken relative to themselves."""
    selector = staged(Exp3Transfer, rng, [1000, 1000, 1000], [0.0, 1.0, 0.0], beta=0.3)
    selector._arms[layout.LOG_WEIGHT] = [1000.0, 0.0, 0.0]
    selector._arms[layout.WEIGHT] = [1.0, 0.0, 0.0]
    selector._memory[layout.SHIFT] = 1000.0
    episode = selector.ask()
    selector.tell(episode, 0.0)
    assert selector.active.tolist() == [False, True, True]
    np.testing.assert_allclose(selector.probabilities, [0.0, 0.5, 0.5], atol=1e-9)


# Tsallis-INF


@pytest.mark.parametrize("estimator", ["reduced-variance", "importance-weighted"])
def test_tsallis_inf_follows_its_definition(seed, estimator):
    c, rng = 4, np.random.default_rng(seed)
    reduced = estimator == "reduced-variance"
    selector = TsallisINF(c, bounds=(0.0, 1.0), estimator=estimator, rng=np.random.default_rng(seed + 1))
    plain = reference.Tsallis(c + 1, reduced)
    for t in range(1, 401):
        p = selector.probabilities
        np.testing.assert_allclose(p, plain.probabilities(), rtol=1e-9)
        assert p.sum() == pytest.approx(1.0, rel=1e-13)
        eta = (4 if reduced else 2) / math.sqrt(t)
        normaliser = selector._arms[layout.LOSS] - 2 / (eta * np.sqrt(p))  # one x for all arms
        np.testing.assert_allclose(normaliser, normaliser[0], rtol=1e-9, atol=1e-9)
        episode = selector.ask()
        arm = episode.arm
        x = float(rng.random() ** (1 + arm))
        shares = None if t % 3 else np.where(np.arange(c + 1) == arm, 1.0, rng.random(c + 1))
        selector.tell(episode, x, shares)
        plain.tell(arm, x, shares)
        np.testing.assert_allclose(selector._arms[layout.LOSS], plain.losses, rtol=1e-8, atol=1e-8)


def test_tsallis_probabilities_solve_the_regularised_problem(rng):
    """argmin over the simplex of <p, L> - (4 / eta) sum (sqrt(p_i) - p_i / 2), the 1/2-Tsallis entropy."""
    selector = TsallisINF(2, bounds=(0.0, 1.0), rng=rng)
    for losses, t in (([0.0, 1.0, 3.0], 9), ([5.0, 4.0, 4.5], 100), ([0.0, 0.0, 0.0], 1), ([-2.0, 20.0, 0.0], 400)):
        selector._arms[layout.LOSS] = losses
        selector._memory[layout.ASKED] = t - 1.0
        eta, losses = 4 / math.sqrt(t), np.array(losses)

        def cost(free, losses=losses, eta=eta):
            p = np.append(free, 1 - free.sum())
            return math.inf if p.min() < 0 else p @ losses - 4 / eta * (np.sqrt(p) - p / 2).sum()

        start = np.full(2, 1 / 3)
        found = optimize.minimize(cost, start, method="Nelder-Mead", options={"xatol": 1e-11, "fatol": 1e-15})
        p = selector.probabilities
        np.testing.assert_allclose(p[:2], found.x, atol=2e-6)
        assert cost(p[:2]) <= found.fun + 1e-12


def test_tsallis_estimates_of_losses_by_hand(rng):
    """t = 100: eta = 0.4 with reduced variance, so that arms of probability 0.16 and more have the base 1/2."""
    p = np.array([0.5, 0.4, 0.1])
    for estimator, x, expected in (
        ("reduced-variance", 0.3, lambda arm: (0.7 - BASE[arm]) / p[arm] + BASE[arm]),
        ("importance-weighted", 0.3, lambda arm: 0.7 / p[arm]),
    ):
        selector = TsallisINF(2, bounds=(0.0, 1.0), estimator=estimator, rng=rng)
        for arm in range(3):
            selector._arms[layout.LOSS] = 0.0
            selector.tell(reference.forced(selector, arm, p, 100.0), x)
            others = BASE if estimator == "reduced-variance" else np.zeros(3)
            wanted = np.where(np.arange(3) == arm, expected(arm), others)
            np.testing.assert_allclose(selector._arms[layout.LOSS], wanted, rtol=1e-12)


BASE = np.array([0.5, 0.5, 0.0])


def test_tsallis_weighs_only_the_arms_in_play(rng):
    """Even where one that was dropped had lost less than all others."""
    selector = TsallisINF(3, bounds=(0.0, 1.0), elimination="anytime", rng=rng)
    run_losses, left = [40.0, 2.0, 43.0, 45.0], [0, 2, 3]
    selector._arms[layout.LOSS] = run_losses
    selector._arms[layout.ACTIVE, 1] = 0.0
    selector._memory[layout.ASKED] = 399.0
    wanted = reference.tsallis_probabilities([run_losses[i] for i in left], 4 / math.sqrt(400))
    np.testing.assert_allclose(selector.probabilities[left], wanted, rtol=1e-9)
    assert selector.probabilities[1] == 0.0


# policy reuse


def test_policy_reuse_draws_by_the_softmax_of_mean_returns(seed):
    """W_k is the running mean of an arm's returns, 0 before the first; the temperature rises by 0.05 an episode."""
    rng = np.random.default_rng(seed)
    selector = ProbabilisticPolicyReuse(2, rng=np.random.default_rng(seed + 1))
    returns = [[], [], []]
    np.testing.assert_allclose(selector.probabilities, [1 / 3] * 3)
    for t in range(200):
        W = [math.fsum(own) / len(own) if own else 0.0 for own in returns]
        weight = [math.exp(0.05 * t * w) for w in W]
        np.testing.assert_allclose(selector.probabilities, np.array(weight) / math.fsum(weight), rtol=1e-9)
        episode = selector.ask()
        arm = episode.arm
        returns[arm].append(float(rng.normal(arm, 1.0)))
        selector.tell(episode, returns[arm][-1])


def test_policy_reuse_by_hand():
    selector = ProbabilisticPolicyReuse(1, temperature=2.0, temperature_step=0.5, rng=np.random.default_rng(0))
    np.testing.assert_allclose(selector.probabilities, [0.5, 0.5])
    selector.tell(reference.forced(selector, 0), 1.0)
    selector.tell(reference.forced(selector, 0), 0.5)
    p = math.exp(3.0 * 0.75) / (math.exp(3.0 * 0.75) + 1.0)  # temperature 2 + 2 * 0.5, mean return 0.75 against 0
    np.testing.assert_allclose(selector.probabilities, [p, 1 - p], rtol=1e-12)


def test_policy_reuse_at_temperature_0_is_uniform(rng):
    selector = ProbabilisticPolicyReuse(3, temperature_step=0.0, rng=rng)
    for _ in range(50):
        episode = selector.ask()
        arm = episode.arm
        selector.tell(episode, 1000.0 * arm)
        np.testing.assert_allclose(selector.probabilities, [0.25] * 4)


@pytest.mark.parametrize("temperature", [1e3, 1e50, 1e100])
def test_a_huge_temperature_does_not_overflow(rng, temperature):
    selector = ProbabilisticPolicyReuse(2, temperature=temperature, rng=rng)
    for arm, value in ((0, -400.0), (1, 300.0), (2, 200.0)):
        selector.tell(reference.forced(selector, arm), value)
    np.testing.assert_allclose(selector.probabilities, [0.0, 1.0, 0.0], atol=1e-300)
    assert selector.ask().arm == 1


# long runs


@njit
def tell_many(arms, memory, settings, uniforms, noise, means, n, own, nobody):
    """n rounds by the kernels; the log-weights' growth of each arm is summed apart, with compensation (Neumaier)."""
    total, lost = np.zeros(arms.shape[1]), np.zeros(arms.shape[1])
    lowest, least_sum, greatest_sum = np.inf, np.inf, -np.inf
    for t in range(n):
        arm = kernels.choose(arms, memory, settings, uniforms[t % len(uniforms)])
        x = min(max(means[arm] + noise[(7 * t) % len(noise)], 0.0), 1.0)
        summed = 0.0
        for i in range(arms.shape[1]):
            summed += arms[layout.PROBABILITY, i]
            lowest = min(lowest, arms[layout.PROBABILITY, i])
        least_sum, greatest_sum = min(least_sum, summed), max(greatest_sum, summed)
        grown = settings[layout.BETA] * x / arms[layout.PROBABILITY, arm] / arms.shape[1]
        if not own:
            base = 0.5 if arms[layout.PROBABILITY, arm] >= 16.0 / (t + 1.0) else 0.0
            grown = (1.0 - x - base) / arms[layout.PROBABILITY, arm]
            for i in range(arms.shape[1]):  # every arm's base of reduced variance
                if arms[layout.PROBABILITY, i] >= 16.0 / (t + 1.0):
                    after = total[i] + 0.5
                    lost[i] += (total[i] - after) + 0.5 if abs(total[i]) >= 0.5 else (0.5 - after) + total[i]
                    total[i] = after
        after = total[arm] + grown
        big = abs(total[arm]) >= abs(grown)
        lost[arm] += (total[arm] - after) + grown if big else (grown - after) + total[arm]
        total[arm] = after
        if not kernels.record(arms, memory, settings, arm, x, nobody):
            return total, lowest, least_sum, -1.0
    return total + lost, lowest, least_sum, greatest_sum


@pytest.mark.parametrize(("cls", "n"), [(Exp3Transfer, 2 * 10**6), (TsallisINF, 5 * 10**5)])
def test_long_runs_neither_overflow_nor_lose_precision(rng, cls, n):
    means = np.array([0.5, 0.9, 0.0, 0.899, 0.7])
    selector = make(cls, rng, 4, 1000, bounds=(0.0, 1.0), **({"elimination": "none"} if cls is Exp3Transfer else {}))
    uniforms, noise = rng.random(1_000_003), 0.1 * (rng.random(999_983) - 0.5)
    score, lowest, least_sum, greatest_sum = tell_many(
        selector._arms, selector._memory, selector._settings, uniforms, noise, means, n, cls is Exp3Transfer,
        np.empty(0),
    )  # fmt: skip
    assert selector.n_told == selector.counts.sum() == n
    assert (least_sum, greatest_sum) == (pytest.approx(1.0, abs=1e-12), pytest.approx(1.0, abs=1e-12))
    assert lowest > 0.0
    assert np.isfinite(selector._arms).all()
    assert np.isfinite(selector._memory).all()
    row = layout.LOG_WEIGHT if cls is Exp3Transfer else layout.LOSS
    np.testing.assert_allclose(selector._arms[row], score, rtol=1e-6)
    assert selector._arms[row].max() > (2e3 if cls is Exp3Transfer else 5e4)
    assert selector.probabilities.sum() == pytest.approx(1.0, abs=1e-12)
    assert json.dumps(selector.to_dict(), allow_nan=False)
    run_on = cls.from_dict(selector.to_dict())
    for _ in range(100):
        run_on.tell(run_on.ask(), 1.0)
    assert run_on.n_told == n + 100


# what is guaranteed


def guarantee(cls, rng, c=3, episodes=5000, span=8.0, **settings):
    return make(cls, rng, c, episodes, bounds=(-2.0, -2.0 + span), **settings).regret_guarantee()


ALONE = "no bound against the learner run alone"


def test_with_no_elimination_the_bound_holds_to_every_arm(rng):
    for settings in ({"elimination": "none"}, {"delta": 0.0, "elimination": "paper"}, {"delta": 0.0}):
        promised, g = guarantee(Exp3Transfer, rng, **settings), regret_bound(3, 5000, 8.0)
        assert promised.to_learner == pytest.approx(g, rel=1e-12)
        assert promised.to_each_source == promised.to_best_source == promised.to_learner
        assert (
            f"at most {g:.4g} below what the learner would have earned with what it had learned by each episode;"
            in promised.statement
        )
        assert f"at most {g:.4g} below the value of each source." in promised.statement
        assert ALONE in promised.statement
        assert str(promised) == promised.statement
        assert promised.episodes == 5000


def test_under_anytime_elimination_it_holds_to_the_learner_and_with_delta_of_the_span_to_the_best_source(rng):
    promised, g = guarantee(Exp3Transfer, rng, elimination="anytime", delta=0.05), regret_bound(3, 5000, 8.0)
    assert promised.to_learner == pytest.approx(g, rel=1e-12)
    assert promised.to_best_source == pytest.approx(g + 0.05 * 8.0, rel=1e-12)
    assert promised.to_each_source is None
    assert (
        f"at most {g + 0.4:.4g} below the value of the best source (0.4 of it for wrong eliminations)."
        in promised.statement
    )
    assert "each source" not in promised.statement
    assert ALONE in promised.statement


def test_under_the_printed_elimination_nothing_is_proven_to_the_sources(rng):
    for promised in (guarantee(Exp3Transfer, rng), guarantee(Exp3Transfer, rng, elimination="paper")):
        assert promised.to_learner == pytest.approx(regret_bound(3, 5000, 8.0), rel=1e-12)
        assert promised.to_each_source is None
        assert promised.to_best_source is None
        assert "below the value of the sources by an amount not proven" in promised.statement
        assert ALONE in promised.statement


def test_a_beta_of_ones_own_has_its_own_bound(rng):
    promised = guarantee(Exp3Transfer, rng, beta=0.1, elimination="none")
    expected = 8.0 * ((math.e - 1) * 0.1 + 4 * math.log(4) / (0.1 * 5000))
    assert promised.to_learner == pytest.approx(expected, rel=1e-12)
    assert promised.to_learner > regret_bound(3, 5000, 8.0)
    assert guarantee(Exp3Transfer, rng, beta=0.0).to_learner == 8.0


def test_no_bound_exceeds_the_span_and_none_is_needed_without_sources(rng):
    for elimination in ("none", "anytime"):
        promised = guarantee(Exp3Transfer, rng, c=50, episodes=10, elimination=elimination)
        assert promised.to_learner == promised.to_best_source == 8.0
    for cls in (Exp3Transfer, TsallisINF):
        assert guarantee(cls, rng, c=0).to_learner == 0.0


def test_the_bound_is_over_the_episodes_told_if_these_are_more_than_planned(rng):
    selector = make(Exp3Transfer, rng, 3, 50, elimination="none")
    run(selector, 400, rng)
    promised = selector.regret_guarantee()
    expected = (math.e - 1) * selector.beta + 4 * math.log(4) / (selector.beta * 400)
    assert promised.episodes == 400
    assert promised.to_learner == pytest.approx(8.0 * min(1.0, expected), rel=1e-12)


@pytest.mark.parametrize("estimator", ["reduced-variance", "importance-weighted"])
def test_tsallis_inf_promises_what_its_authors_proved(rng, estimator):
    """Zimmert and Seldin, Theorem 1: 4 sqrt(KT) + 1, or 2 sqrt(KT) + 10 K ln T + 16 with reduced variance."""
    T = 1_000_000
    total = {"importance-weighted": 4 * math.sqrt(4 * T) + 1}.get(
        estimator, 2 * math.sqrt(4 * T) + 40 * math.log(T) + 16
    )
    expected = 8.0 * total / T
    promised = guarantee(TsallisINF, rng, episodes=T, estimator=estimator)
    assert promised.to_learner == pytest.approx(expected, rel=1e-12)
    assert promised.to_each_source == promised.to_best_source == promised.to_learner
    assert (
        f"at most {expected:.4g} below what the learner would have earned with what it had learned by each episode;"
        in promised.statement
    )
    assert ALONE in promised.statement
    anytime = guarantee(TsallisINF, rng, episodes=T, estimator=estimator, elimination="anytime", delta=0.02)
    assert (anytime.to_each_source, anytime.to_learner) == (None, promised.to_learner)
    assert anytime.to_best_source == pytest.approx(expected + 0.02 * 8.0, rel=1e-12)
    paper = guarantee(TsallisINF, rng, episodes=T, estimator=estimator, elimination="paper")
    assert (paper.to_each_source, paper.to_best_source, paper.to_learner) == (None, None, promised.to_learner)
    assert "below the value of the sources by an amount not proven" in paper.statement


def test_of_policy_reuse_nothing_is_proven(rng):
    selector = make(ProbabilisticPolicyReuse, rng)
    run(selector, 20, rng)
    promised = selector.regret_guarantee()
    assert (promised.to_learner, promised.to_each_source, promised.to_best_source) == (None, None, None)
    assert str(promised) == "Nothing is proven."
    assert promised.episodes == 20


def test_a_guarantee_speaks_of_a_number_of_episodes_and_of_clipped_returns_where_they_are(rng):
    unknown = TsallisINF(2, bounds=(0, 1), clip=True, rng=rng)
    with pytest.raises(InvalidInputError, match=r"TsallisINF\.regret_guarantee: episodes is None, must be given"):
        unknown.regret_guarantee()
    unknown.tell(unknown.ask(), 3.0)
    assert "Over 1 episode," in unknown.regret_guarantee().statement
    assert "clipped onto the bounds" in unknown.regret_guarantee().statement
    plain = TsallisINF(2, 10, bounds=(0, 1), rng=rng)
    assert "clipped" not in plain.regret_guarantee().statement
