"""``check_selector`` passes every selector of ours, and names what the broken ones break."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from pastmaster import (
    Episode,
    Exp3Transfer,
    Informed,
    ProbabilisticPolicyReuse,
    RegretBalancing,
    TsallisINF,
)
from pastmaster.errors import ContractError, PastmasterError
from pastmaster.testing import check_selector


def informed(n_sources, episodes, **settings):
    """With experience of five tasks, in the units of ``check_selector``'s bounds."""
    experience = np.random.default_rng(n_sources).uniform(-2.0, 6.0, (5, n_sources))
    return Informed(n_sources, episodes, experience=experience, **settings)


OURS = {
    "exp3": Exp3Transfer,
    "exp3, anytime": partial(Exp3Transfer, elimination="anytime", check_every=5, delta=0.5),
    "exp3, uniform": partial(Exp3Transfer, beta=1.0, elimination="none"),
    "tsallis": TsallisINF,
    "tsallis, weights alone": partial(TsallisINF, estimator="importance-weighted", elimination="paper"),
    "balancing": RegretBalancing,
    "balancing, eager": partial(RegretBalancing, kappa=0.0, preference=1.0, check_every=1),
    "informed": informed,
    "informed, eager": partial(informed, kappa=2.0, preference=1.5, delta=1.0, check_every=1),
    "policy reuse": ProbabilisticPolicyReuse,
}


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("n_sources", [1, 5])
def test_our_selectors_keep_the_contract(name, n_sources, seed):
    """And without sources, which ``check_selector`` always tries."""
    check_selector(OURS[name], n_sources=n_sources, episodes=50, seed=seed)


class Greedy:
    """A selector with no more than it must have: the best mean so far, each arm once before."""

    def __init__(self, n_sources, episodes, *, bounds, rng):
        self.returns = [[] for _ in range(n_sources + 1)]
        self.rng, self.pending = rng, None

    def ask(self):
        if self.pending is None:
            worth = [np.mean(own) if own else np.inf for own in self.returns]
            explore = self.rng.random() < 0.1
            self.pending = int(self.rng.integers(len(worth))) if explore else int(np.argmax(worth))
        return self.pending

    def tell(self, arm, episode_return):
        self.check(arm, episode_return)
        self.returns[arm].append(episode_return)
        self.pending = None

    def check(self, arm, episode_return):
        if self.pending is None or arm != self.pending or not np.isfinite(episode_return):
            raise ValueError("refused")


def test_a_state_may_hold_arrays_where_it_is_not_read_back():
    check_selector(InArrays)


def test_a_selector_with_no_more_than_it_must_have_keeps_the_contract():
    check_selector(Greedy)


class NoTell(Greedy):
    tell = None


class Elsewhere(Greedy):
    def ask(self):
        return super().ask() + 4


class AsFloat(Greedy):
    def ask(self):
        return float(super().ask())


class Restless(Greedy):
    """Draws anew at every ask."""

    def ask(self):
        self.pending = None
        return super().ask()


class Forgetful(Greedy):
    """Takes a tell and forgets the return."""

    def tell(self, arm, episode_return):
        self.check(arm, episode_return)
        self.pending = None


class Deaf(Greedy):
    """Forgets that it was told, so that it can be told again."""

    def tell(self, arm, episode_return):
        self.check(arm, episode_return)
        self.returns[arm].append(episode_return)


class Credulous(Greedy):
    """Takes a return that is no number."""

    def check(self, arm, episode_return):
        super().check(arm, 0.0)


class AnyArm(Greedy):
    """Takes any arm there is."""

    def check(self, arm, episode_return):
        super().check(self.pending if 0 <= arm < len(self.returns) else -1, episode_return)


class Hasty(Greedy):
    """Counts a return before it looks at it."""

    def tell(self, arm, episode_return):
        if 0 <= arm < len(self.returns):
            self.returns[arm].append(5.0)
        self.check(arm, episode_return)
        self.pending = None


class Wild(Greedy):
    """Draws from a generator of its own."""

    source = np.random.default_rng(7)

    def __init__(self, n_sources, episodes, *, bounds, rng):
        super().__init__(n_sources, episodes, bounds=bounds, rng=self.source)


class Narrow(Greedy):
    """Refuses a return within the bounds."""

    def check(self, arm, episode_return):
        super().check(arm, episode_return)
        if episode_return < 0:
            raise ValueError("negative")


class Unsure(Greedy):
    probabilities = np.array([0.5, 0.5, 0.5, 0.5])


class Impossible(Greedy):
    """Says that the arm it asks for is impossible."""

    @property
    def probabilities(self):
        chances = np.zeros(len(self.returns))
        chances[(self.ask() + 1) % len(self.returns)] = 1.0
        return chances


class Unseeded(Exp3Transfer):
    """Loses its generator on the way to JSON."""

    @classmethod
    def from_dict(cls, state):
        selector = super().from_dict(state)
        selector._rng = np.random.default_rng(0)
        return selector


class Unpending(Exp3Transfer):
    """Loses the open episodes on the way from JSON."""

    @classmethod
    def from_dict(cls, state):
        made = super().from_dict(state)
        for number in range(made.episodes):
            if made.arm_of(number) is not None:
                made.cancel(Episode(made.arm_of(number), number))
        return made


class OneNumber(Exp3Transfer):
    """Gives two episodes the same number."""

    def ask(self):
        episode = super().ask()
        return episode._replace(number=episode.number // 2)

    def tell(self, episode, value, *likelihood):
        same = [mine for mine in self.open if (mine.arm, mine.number // 2) == episode]
        super().tell(same[0] if same else Episode(0, -1), value, *likelihood)


class Twice(TsallisINF):
    """Takes a second tell of an episode while others are open."""

    def tell(self, episode, value, *likelihood):
        if episode not in self.open and len(self.open) > 1 and episode.number < self.n_asked:
            return
        super().tell(episode, value, *likelihood)


class Flat(TsallisINF):
    """Loses the probabilities of the open episodes on the way from JSON."""

    @classmethod
    def from_dict(cls, state):
        made = super().from_dict(state)
        open_now = list(made.open)
        for episode in open_now if len(open_now) > 1 else []:
            asked = made._asked.get(episode.number)
            asked.chances = np.full_like(asked.chances, 1 / len(asked.chances))
        return made


class NoJson(Exp3Transfer):
    def to_dict(self):
        return super().to_dict() | {"arms": self._arms}


class InArrays(Greedy):
    """Writes its state with an array in it."""

    def to_dict(self):
        return {"counts": np.zeros(4)}


class NeedsOne(Greedy):
    def __init__(self, n_sources, *arguments, **options):
        if n_sources < 1:
            raise ValueError("at least one source")
        super().__init__(n_sources, *arguments, **options)


def positional(n_sources, episodes, bounds_of_returns, rng):
    raise AssertionError("called")


BROKEN = {
    positional: "cannot be called as factory",
    NoTell: "has no method tell",
    Elsewhere: r"ask gives \d, must be an Episode of, or just, a whole number in 0 \.\. 3, 3 for",
    AsFloat: r"ask gives \d\.0, must be an Episode of, or just, a whole number",
    Restless: "a second ask gives another arm",
    Forgetful: "does tell forget them",
    Deaf: "tell takes the same episode twice",
    Credulous: "tell takes a return that is not a number",
    AnyArm: "tell takes an arm that was not asked for",
    Hasty: "a refused tell changes later arms",
    Wild: "the same seed and returns give other arms: does it draw from a generator other than its rng",
    Narrow: "tell raises ValueError",
    Unsure: "must be 4 numbers that sum to 1",
    Impossible: "which has probability 0",
    Unseeded: "read back from JSON it goes on in another way",
    Unpending: "was told or cancelled before.* which was asked for",
    OneNumber: "must be all different",
    Twice: "tell takes an episode that is not open any more",
    Flat: "with episodes open it goes on in another way",
    NoJson: "cannot be written as JSON",
    NeedsOne: "raises ValueError.* for 0 sources",
}


@pytest.mark.parametrize("factory", BROKEN, ids=lambda factory: factory.__name__)
def test_what_is_broken_is_named(factory):
    with pytest.raises(ContractError, match=BROKEN[factory]) as caught:
        check_selector(factory, episodes=50)
    assert isinstance(caught.value, PastmasterError)
    assert isinstance(caught.value, AssertionError)
