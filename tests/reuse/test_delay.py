"""Many episodes open at once: estimates against plain delayed references, evidence in the order of asks, threads."""

from __future__ import annotations

import copy
import itertools
import json
import math
import multiprocessing
import pickle
import threading

import numpy as np
import pytest
import reuse_reference as reference
from balancing_reference import Balancing
from seams import LIKENESS, layout, selector_module

from pastmaster import (
    Episode,
    Exp3Transfer,
    Informed,
    InvalidInputError,
    ProbabilisticPolicyReuse,
    RegretBalancing,
    TsallisINF,
)

SELECTORS = [Exp3Transfer, TsallisINF, RegretBalancing, Informed, ProbabilisticPolicyReuse]
every_selector = pytest.mark.parametrize("cls", SELECTORS, ids=lambda cls: cls.name)
UNIT = (0.0, 1.0)


class Delayed:
    """Episodes by number, with what the reference knew when each was asked for, and their payoffs once told."""

    def __init__(self, n_arms):
        self.n_arms, self.asked, self.dropped = n_arms, {}, set()

    def ask(self, number, arm, p, **known):
        self.asked[number] = {"arm": arm, "p": p, **known}

    def tell(self, number, x):
        self.learn(self.asked[number], x)
        self.asked[number]["x"] = x

    def cancel(self, number):
        self.dropped.add(number)

    def own(self, arm):
        """The numbers of an arm's episodes, cancelled ones left out."""
        return [n for n, asked in self.asked.items() if asked["arm"] == arm and n not in self.dropped]

    def told(self, arm):
        return [self.asked[n]["x"] for n in self.own(arm) if "x" in self.asked[n]]

    def waiting(self, arm):
        return len(self.own(arm)) - len(self.told(arm))

    def seen(self, arm):
        """The payoffs of an arm, in the order of asks, up to the first episode of any arm that is still open."""
        still = [n for n in self.asked if n not in self.dropped and "x" not in self.asked[n]]
        return [self.asked[n]["x"] for n in self.own(arm) if n < min(still, default=math.inf)]


class DelayedExp3(Delayed):
    """EXP-3 whose weights grow by beta / (c + 1) x / p, p as it was at the ask."""

    def __init__(self, n_arms, beta):
        super().__init__(n_arms)
        self.beta, self.log_weight = beta, [0.0] * n_arms

    def probabilities(self):
        top = max(self.log_weight)
        weights = [math.exp(value - top) for value in self.log_weight]
        return [(1 - self.beta) * w / math.fsum(weights) + self.beta / self.n_arms for w in weights]

    def known(self):
        return {}

    def learn(self, asked, x):
        self.log_weight[asked["arm"]] += self.beta * x / asked["p"][asked["arm"]] / self.n_arms


class DelayedTsallis(Delayed):
    """Tsallis-INF: ask t has the rate 4 or 2 over sqrt(t); estimates use the probabilities and the rate of the ask."""

    def __init__(self, n_arms, reduced):
        super().__init__(n_arms)
        self.reduced, self.losses = reduced, [0.0] * n_arms

    def eta(self, t):
        return (4 if self.reduced else 2) / math.sqrt(t)

    def probabilities(self):
        return reference.tsallis_probabilities(self.losses, self.eta(len(self.asked) + 1))

    def known(self):
        return {"eta": self.eta(len(self.asked) + 1)}

    def learn(self, asked, x):
        for i, p in enumerate(asked["p"]):
            base = 0.5 if self.reduced and p >= asked["eta"] ** 2 else 0.0
            ran = 1.0 if i == asked["arm"] else 0.0
            self.losses[i] += (1 - x - base) * ran / p + base


class DelayedReuse(Delayed):
    """Policy reuse: means of episodes told; the temperature rises with asks."""

    def probabilities(self):
        means = [math.fsum(self.told(i)) / max(1, len(self.told(i))) for i in range(self.n_arms)]
        weights = [math.exp(0.05 * len(self.asked) * (mean - max(means))) for mean in means]
        return [w / math.fsum(weights) for w in weights]

    def known(self):
        return {}

    def learn(self, asked, x):
        pass


class DelayedBalancing(Delayed):
    """Regret balancing, with or without old tasks: what ``balancing_reference`` makes of what is told and open."""

    def __init__(self, n_arms, rule):
        super().__init__(n_arms)
        self.rule = rule

    def ask(self, number, arm, p, **known):
        super().ask(number, arm, p, **known)
        self.rule.ask(arm)

    def probabilities(self):
        return self.rule.probabilities()

    def known(self):
        return {}

    def learn(self, asked, x):
        self.rule.tell(asked["arm"], x)

    def cancel(self, number):
        super().cancel(number)
        self.rule.cancel(self.asked[number]["arm"])


OLD_TASKS = np.array([[0.2, 0.7, 0.5], [0.7, 0.3, 0.4], [0.1, 0.2, 0.9], [0.6, 0.5, 0.4]])


def with_old_tasks(rng):
    return Informed(3, 400, bounds=UNIT, delta=1e-12, kappa=0.8, preference=4.0, experience=OLD_TASKS, rng=rng)


def by_old_tasks():
    likeness = with_old_tasks(0)._settings[LIKENESS].tolist()
    return Balancing(3, 400, values=OLD_TASKS, likeness=likeness, delta=1e-12, kappa=0.8, preference=4.0)


CASES = {
    "exp3": (lambda rng: Exp3Transfer(3, 500, bounds=UNIT, elimination="none", rng=rng), DelayedExp3),
    "tsallis": (lambda rng: TsallisINF(3, bounds=UNIT, rng=rng), lambda n, _: DelayedTsallis(n, True)),
    "tsallis, weights alone": (
        lambda rng: TsallisINF(3, bounds=UNIT, estimator="importance-weighted", rng=rng),
        lambda n, _: DelayedTsallis(n, False),
    ),
    "balancing": (
        lambda rng: RegretBalancing(3, bounds=UNIT, delta=1e-12, kappa=0.8, preference=4.0, rng=rng),
        lambda n, _: DelayedBalancing(n, Balancing(3, delta=1e-12, kappa=0.8, preference=4.0)),
    ),
    "balancing, informed": (with_old_tasks, lambda n, _: DelayedBalancing(n, by_old_tasks())),
    "policy reuse": (lambda rng: ProbabilisticPolicyReuse(3, rng=rng), lambda n, _: DelayedReuse(n)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("most", [1, 2, 20])
def test_estimates_and_probabilities_are_those_of_a_plain_delayed_reference(case, most, seed):
    """Episodes are told in any order, one in twelve is cancelled; half-way the selector goes through JSON."""
    make, made = CASES[case]
    selector = make(seed)
    plain = made(4, getattr(selector, "beta", None))
    rng, opened, means = np.random.default_rng(seed + 1), [], (0.2, 0.7, 0.5, 0.4)
    for step in range(600):
        if step == 300:
            selector = type(selector).from_dict(json.loads(json.dumps(selector.to_dict())))
            assert selector.open == tuple(sorted(opened, key=lambda episode: episode.number))
        if len(opened) < most and (not opened or rng.random() < 0.55):
            p = plain.probabilities()
            np.testing.assert_allclose(selector.probabilities, p, rtol=1e-7, atol=1e-12)
            episode = selector.ask()
            assert episode.number == len(plain.asked)
            plain.ask(episode.number, episode.arm, p, **plain.known())
            opened.append(episode)
            continue
        episode = opened.pop(int(rng.integers(len(opened))))
        if rng.random() < 1 / 12:
            selector.cancel(episode)
            plain.cancel(episode.number)
            continue
        x = float(np.clip(means[episode.arm] + rng.normal(0, 0.2), 0, 1))
        selector.tell(episode, x)
        plain.tell(episode.number, x)
        assert selector.counts.tolist() == [len(plain.told(i)) for i in range(4)]
        assert selector._arms[layout.OPEN].tolist() == [plain.waiting(i) for i in range(4)]
        if "balancing" in case:
            assert selector._arms[layout.SEEN].tolist() == [len(plain.seen(i)) for i in range(4)]
            np.testing.assert_allclose(selector._arms[layout.SEEN_TOTAL], [sum(plain.seen(i)) for i in range(4)])
    for mean, i in zip(selector.mean_returns, range(4), strict=True):
        assert mean == pytest.approx(np.mean(plain.told(i))) if plain.told(i) else np.isnan(mean)


@pytest.mark.parametrize("case", ["exp3", "tsallis", "tsallis, weights alone"])
def test_estimates_are_unbiased_however_late_an_episode_is_told(case):
    """Exact, over all arms that four episodes can have: three open at once, the fourth asked for after two tells."""
    payoffs = np.random.default_rng(5).random((4, 4))
    expected, total = np.zeros(4), 0.0
    for arms in itertools.product(range(4), repeat=4):
        selector = CASES[case][0](0)
        chance, episodes = 1.0, []
        for number, told in ((0, ()), (1, ()), (2, ()), (3, (2, 0))):
            for late in told:
                selector.tell(episodes[late], float(payoffs[late, arms[late]]))
            chance *= selector.probabilities[arms[number]]
            episodes.append(reference.forced(selector, arms[number]))
        for late in (3, 1):
            selector.tell(episodes[late], float(payoffs[late, arms[late]]))
        row = layout.LOG_WEIGHT if case == "exp3" else layout.LOSS
        expected += chance * selector._arms[row]
        total += chance
    assert total == pytest.approx(1.0, rel=1e-12)
    wanted = selector.beta / 4 * payoffs.sum(axis=0) if case == "exp3" else (1 - payoffs).sum(axis=0)
    np.testing.assert_allclose(expected, wanted, rtol=1e-9)


def test_evidence_is_seen_in_the_order_of_asks():
    """Failures end at once, successes are told ten asks later: seen first, they would make a good arm look bad."""
    selector = Exp3Transfer(1, 10_000, bounds=UNIT, elimination="anytime", beta=1.0, rng=0)
    rng, late, own = np.random.default_rng(1), [], [[], []]
    for _ in range(4000):
        episode = selector.ask()
        x = float(rng.random() < 0.9)
        own[episode.arm].append(x)
        if x == 0.0:
            selector.tell(episode, x)
        else:
            late.append((episode, x))
        if len(late) > 10:
            selector.tell(*late.pop(0))
        for arm in range(2):
            seen = int(selector._arms[layout.SEEN, arm])
            assert selector._arms[layout.SEEN_TOTAL, arm] == sum(own[arm][:seen])
    for told in late:
        selector.tell(*told)
    assert selector.counts.tolist() == selector._arms[layout.SEEN].tolist() == [len(arm) for arm in own]


def test_whether_a_source_is_dropped_does_not_depend_on_the_arm_of_an_open_episode():
    """Evidence waits for it whatever its arm: the estimates of that episode stay unbiased."""
    for arm in range(3):
        selector = Exp3Transfer(2, 1000, bounds=UNIT, check_every=1, beta=1.0, rng=0)
        opened = reference.forced(selector, arm)
        for _ in range(200):
            selector.tell(reference.forced(selector, 0), 1.0)
            selector.tell(reference.forced(selector, 1), 0.0)
        assert selector.active.all()
        selector.tell(opened, 0.5)
        assert selector.active.tolist() == [True, False, True]


def test_an_episode_nobody_tells_holds_back_evidence_alone():
    """And no more: means, counts and the learner's account go on without it."""
    for lost in (False, True):
        selector = RegretBalancing(2, bounds=UNIT, rng=0)
        if lost:
            selector.ask()
        for _ in range(3000):
            episode = selector.ask()
            selector.tell(episode, 0.5 if episode.arm == 2 else 0.0)
        assert selector.counts.sum() == 3000
        assert selector.counts[2] > 2800
        assert bool(selector._arms[layout.SEEN].sum() == 0) is lost
    selector.cancel(selector.open[0])
    assert selector._arms[layout.SEEN].tolist() == selector.counts.tolist()


def test_one_bad_return_does_not_send_a_whole_fleet_to_the_learner():
    """Its open episodes, worth nothing, are at most kappa sqrt(t) + 1 behind what the source may be worth."""
    selector = RegretBalancing(1, bounds=UNIT, rng=0)
    selector.tell(selector.ask(), 0.0)
    learner = 0
    for t in range(2, 402):
        learner += selector.ask().arm == 1
        assert learner * selector._memory[layout.HOPE] <= selector.kappa * math.sqrt(t) + 1.0
    assert 1 <= learner <= 0.1 * 400


def test_a_source_dropped_while_its_episode_is_open_stays_out_when_that_is_told(rng):
    selector, late = Exp3Transfer(2, 1000, bounds=UNIT, check_every=1, beta=1.0, rng=rng), None
    while selector.active[0]:
        episode = selector.ask()
        if episode.arm != 0:
            selector.tell(episode, (0.0, 1.0, 0.5)[episode.arm])
            continue
        if late is not None:
            selector.tell(late, 0.0)
        late = episode
    assert late in selector.open
    before = selector.probabilities
    selector.tell(late, 1.0)
    assert selector._arms[layout.WEIGHT, 0] == 0.0
    assert selector.probabilities.tolist() == before.tolist()


@every_selector
def test_twenty_threads_may_share_a_selector(cls):
    selector, errors = cls(3, 4000, bounds=UNIT, rng=0, **reference.some_experience(cls, 3)), []

    def robot(seed):
        rng = np.random.default_rng(seed)
        try:
            for _ in range(100):
                episode = selector.ask()
                if rng.random() < 0.05:
                    selector.cancel(episode)
                else:
                    selector.tell(episode, float(rng.random()))
        except Exception as error:
            errors.append(error)

    robots = [threading.Thread(target=robot, args=(seed,)) for seed in range(20)]
    for thread in robots:
        thread.start()
    for thread in robots:
        thread.join()
    assert errors == []
    assert selector.n_asked == 2000
    assert selector.open == ()
    assert selector.counts.sum() == selector.n_told <= 2000
    assert selector.probabilities.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    "damage",
    [
        lambda state: state.update(open=7),
        lambda state: state["open"].append(state["open"][0]),
        lambda state: state["open"].pop(),
        lambda state: state["open"][0].pop(),
        lambda state: state["open"].__setitem__(0, {}),
        lambda state: state.update(most_open=1),
    ],
)
def test_a_damaged_list_of_open_episodes_is_refused(damage, rng):
    selector = TsallisINF(3, bounds=UNIT, rng=rng)
    for _ in range(6):
        selector.tell(selector.ask(), 0.5)
    for _ in range(3):
        selector.ask()
    state = selector.to_dict()
    assert TsallisINF.from_dict(json.loads(json.dumps(state))).to_dict() == state
    state = json.loads(json.dumps(state))
    damage(state)
    with pytest.raises(InvalidInputError, match=r"TsallisINF\.from_dict"):
        TsallisINF.from_dict(state)


# what delay costs


def test_the_price_of_delay_is_stated_and_grows_with_the_episodes_open_at_once():
    exp3 = Exp3Transfer(3, 10_000, bounds=(0, 2), elimination="none", rng=0)
    alone, twenty = exp3.regret_guarantee(), exp3.regret_guarantee(at_once=20)
    added = 2 * 19 * (math.e - 1) ** 2 * exp3.beta / 4
    assert twenty.to_learner - alone.to_learner == pytest.approx(added)
    assert twenty.to_each_source == twenty.to_best_source == twenty.to_learner
    assert f"{added:.4g} is for episodes open at once" in twenty.statement
    assert "at most 20 open at once" in twenty.statement
    assert "at once" not in alone.statement
    dropping = Exp3Transfer(3, 10_000, bounds=(0, 2), elimination="anytime", rng=0)
    more = dropping.regret_guarantee(at_once=20).to_learner - dropping.regret_guarantee().to_learner
    assert more == pytest.approx(added + 2 * 19 * (math.e - 1) * 3 / 10_000)
    weights = TsallisINF(3, 10_000, bounds=UNIT, estimator="importance-weighted", rng=0)
    added = weights.regret_guarantee(at_once=3).to_learner - weights.regret_guarantee().to_learner
    assert added == pytest.approx(4 * 2 / 100)
    reduced = TsallisINF(3, 10_000, bounds=UNIT, rng=0).regret_guarantee(at_once=3)
    assert (reduced.to_learner, reduced.to_each_source, reduced.to_best_source) == (None, None, None)
    assert "Nothing is proven with up to 3 episodes open at once" in reduced.statement
    balanced = RegretBalancing(3, 10_000, bounds=UNIT, rng=0).regret_guarantee(at_once=3)
    assert (balanced.to_learner, balanced.to_each_source, balanced.to_best_source) == (None, None, None)
    assert balanced.statement == "Nothing is proven with several episodes open at once."


def test_a_guarantee_counts_as_many_at_once_as_there_were(rng):
    selector = Exp3Transfer(3, 100, bounds=UNIT, beta=0.001, elimination="none", rng=rng)
    for episode in [selector.ask() for _ in range(7)]:
        selector.tell(episode, 0.5)
    resumed = Exp3Transfer.from_dict(json.loads(json.dumps(selector.to_dict())))
    for each in (selector, resumed):
        assert each.regret_guarantee() == each.regret_guarantee(at_once=7)
        for wrong in (6, 0, 2.5, "7"):
            with pytest.raises(InvalidInputError, match=r"Exp3Transfer\.regret_guarantee: at_once is "):
                each.regret_guarantee(at_once=wrong)


def test_cancelled_episodes_do_not_make_a_guarantee_better():
    for cls in (Exp3Transfer, RegretBalancing, Informed, TsallisINF):
        told, also = (cls(3, 100, bounds=UNIT, rng=0, **reference.some_experience(cls, 3)) for _ in range(2))
        for _ in range(10):
            told.tell(told.ask(), 0.5)
            also.tell(also.ask(), 0.5)
        for _ in range(5000):
            also.cancel(also.ask())
        assert also.regret_guarantee().episodes == told.regret_guarantee().episodes == 100
        if not issubclass(cls, RegretBalancing):
            assert also.regret_guarantee().to_learner >= told.regret_guarantee().to_learner


def test_cancelling_many_takes_time_in_proportion():
    selector = TsallisINF(0, bounds=UNIT, rng=0)
    opened = [selector.ask() for _ in range(30_000)]
    for episode in reversed(opened[1:]):  # each a search of the whole list, if it were one
        selector.cancel(episode)
    assert selector.open == (opened[0],)
    selector.tell(opened[0], 1.0)
    assert selector._asked.entries() == []


def ask_in_a_child(selector, answers):
    answers.put(selector.ask().arm)


def test_a_fork_while_another_thread_holds_the_lock_does_not_hang():
    made, context = TsallisINF(3, bounds=UNIT, rng=0), multiprocessing.get_context("fork")
    held, over = threading.Event(), threading.Event()

    def hold():
        with selector_module.LOCK:
            held.set()
            over.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    answers = context.SimpleQueue()
    child = context.Process(target=ask_in_a_child, args=(made, answers))
    child.start()
    child.join(60)
    over.set()
    thread.join()
    assert child.exitcode == 0
    assert answers.get() in range(4)


def test_copies_are_whole_and_share_nothing(rng):
    selector = RegretBalancing(3, bounds=UNIT, rng=rng)
    opened = [selector.ask() for _ in range(6)]
    selector.tell(opened[3], 0.5)
    state = selector.to_dict()
    for copied in (copy.copy(selector), copy.deepcopy(selector), pickle.loads(pickle.dumps(selector))):
        assert copied.to_dict() == state
        copied.tell(opened[0], 1.0)
        copied.cancel(opened[1])
        copied.ask()
        assert selector.to_dict() == state


def adversary(T, n_arms, rng):
    """Payoffs by episode and arm: who is best changes half-way."""
    levels = np.where(np.arange(T)[:, None] < T // 2, np.linspace(0.2, 0.8, n_arms), np.linspace(0.9, 0.1, n_arms))
    return (rng.random((T, n_arms)) < levels).astype(float)


@pytest.mark.parametrize("kind", ["exp3", "tsallis, weights alone"])
def test_the_loss_with_delays_stays_below_what_is_proven(kind, seed):
    """In expectation over 30 runs: the mean loss to every arm, plus four standard errors, is below the bound."""
    T, most, losses = 2000, 5, []
    for run in range(30):
        rng = np.random.default_rng([seed, run])
        payoffs, opened, earned = adversary(T, 3, rng), [], 0.0
        options = {"elimination": "none"} if kind == "exp3" else {"estimator": "importance-weighted"}
        cls = Exp3Transfer if kind == "exp3" else TsallisINF
        selector = cls(2, T, bounds=UNIT, rng=rng, **options)
        for t in range(T):
            opened.append(selector.ask())
            earned += payoffs[t, opened[-1].arm]
            if len(opened) == most:
                episode = opened.pop(int(rng.integers(most)))
                selector.tell(episode, float(payoffs[episode.number, episode.arm]))
        losses.append((payoffs.sum(axis=0) - earned) / T)
    worst = (np.mean(losses, axis=0) + 4 * np.std(losses, axis=0) / math.sqrt(30)).max()
    assert worst <= selector.regret_guarantee(at_once=most).to_each_source


@pytest.mark.parametrize("most", [1, 2, 20])
@pytest.mark.parametrize("cls", [RegretBalancing, Informed], ids=lambda cls: cls.name)
def test_neither_account_gets_more_than_its_share_however_late_episodes_are_told(cls, most, seed):
    """At every ask, d sqrt(n + 1) of the one that runs is at most ``preference`` times the other's, open ones too."""
    rng, opened = np.random.default_rng(seed), []
    known = reference.some_experience(cls, 2)
    selector = cls(2, 1500, bounds=UNIT, preference=3.0, rng=seed, **known)
    asked = [0, 0]
    for t in range(1500):
        rates = selector._memory[[layout.RATE, layout.RATE + 1]]
        opened.append(selector.ask())
        side = int(opened[-1].arm == 2)
        mine, other = (rates[k] * math.sqrt(asked[k] + 1) for k in (side, 1 - side))
        assert mine <= selector.preference * other * (1 + 1e-12)
        asked[side] += 1
        if len(opened) == most:
            late = opened.pop(int(rng.integers(most)))
            means = (0.5, 0.3, 0.1) if t < 700 else (0.4, 0.2, 1.0)
            selector.tell(late, float(rng.random() < means[late.arm]))
    assert min(asked) > 100


def test_a_return_that_no_mean_can_hold_is_refused():
    selector = ProbabilisticPolicyReuse(1, rng=0)
    for value in (1e308, -1e101, True):
        with pytest.raises(InvalidInputError, match=r"ProbabilisticPolicyReuse\.tell: value is"):
            selector.tell(selector.ask(), value)


def test_an_episode_is_a_pair_that_reads_well():
    assert repr(Episode(2, 17)) == "Episode(arm=2, number=17)"
    assert Episode(*json.loads(json.dumps(Episode(2, 17)))) == Episode(2, 17)


def test_a_fleet_that_starts_at_once_does_not_all_go_to_the_learner():
    """Nothing is measured yet: the learner may be kappa sqrt(t) + 1 episodes ahead of what it has shown, no more."""
    selector = RegretBalancing(3, bounds=UNIT, rng=0)
    arms = [selector.ask().arm for _ in range(20)]
    assert arms.count(3) <= selector.kappa * math.sqrt(20) + 1
    assert set(arms) >= {0, 1, 2}


def test_a_state_can_be_written_in_parts_that_do_not_depend_on_how_many_are_open():
    selector = TsallisINF(3, bounds=(0, 1), rng=0)
    asked = [selector.ask() for _ in range(6)]
    for number in (0, 3, 4):
        selector.tell(asked[number], 0.5)
    selector.cancel(asked[5])
    assert (selector.first_open, selector.n_open) == (1, 2)
    assert [selector.arm_of(number) for number in range(7)] == [
        None, asked[1].arm, asked[2].arm, None, None, None, None,
    ]  # fmt: skip
    parts = selector.pending(range(7))
    assert list(parts) == [1, 2, 3, 4]
    whole = selector.to_dict()
    assert selector.to_dict_alone() | {"open": list(parts.values()), "checksum": whole["checksum"]} == whole
    again = TsallisINF.from_dict(selector.to_dict_alone())
    with pytest.raises(InvalidInputError, match=r"episodes of each arm are open, must be \["):
        again._put_back([])
    again._put_back(parts.values())
    assert again.to_dict() == whole
    for number in (1, 2):
        selector.tell(asked[number], 0.5)
    assert (selector.first_open, selector.n_open, selector.pending(range(7))) == (6, 0, {})
