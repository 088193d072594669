"""Whether the numbers of a stored selector can be those of one: each in its range, and all of them together.

A state that no run can lead to may divide by 0 or give probabilities that are no numbers, many episodes later. So it is
refused where it comes in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pastmaster.arrays import FloatArray, as_array
from pastmaster.errors import InvalidInputError
from pastmaster.reuse import _layout as at, _selector_kernels as kernels
from pastmaster.reuse.asked import NOTHING, AskedEpisodes

LARGEST_RETURN = 1e100  # in size, where there are no bounds
MOST_EPISODES = 2.0**50
MOST_WEIGHT = 2.0**50
"""Of a log-weight or an estimated loss, with all that open episodes may still add: a payoff of 1 then still counts."""
ROUNDED = 1e-6  # of a sum of payoffs, for each 1 that it may reach


def numbers(caller: str, key: str, values: Any, shape: tuple[int, ...]) -> FloatArray:
    """Finite numbers of a shape."""
    try:
        array = as_array(values, f"{caller}: {key}", None)
    except InvalidInputError:
        array = NOTHING
    if array.shape != shape or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise InvalidInputError(f"{caller}: {key} has shape {array.shape}, must be finite numbers {shape}")
    return array.astype(np.float64)


def misfit(arms: FloatArray, memory: FloatArray, settings: FloatArray, asked: AskedEpisodes) -> str | None:
    """What does not fit, in words; None where everything does."""
    checks = (
        _episodes(arms, memory, settings, asked),
        _payoffs(arms, settings),
        _weights(arms, memory, settings, asked),
        _accounts(arms, memory) if settings[at.RULE] == at.BALANCING else iter(()),
    )
    return next((words for group in checks for fits, words in group if not fits), None)


def _episodes(
    arms: FloatArray, memory: FloatArray, settings: FloatArray, asked: AskedEpisodes
) -> Iterator[tuple[bool, str]]:
    """The counts of episodes, and the arms in play."""
    (told, n_asked), n_arms = memory[[at.EPISODE, at.ASKED]], arms.shape[1]
    counts = np.concatenate([arms[[at.COUNT, at.OPEN, at.SEEN]].ravel(), memory[[at.EPISODE, at.ASKED, at.CLIPPED]]])
    yield _are_whole(counts, 0.0, MOST_EPISODES), "a count of episodes is no whole number from 0 on"
    yield bool((arms[at.OPEN] == asked.per_arm(n_arms, told=False)).all()), "the arms of open episodes are not counted"
    yield arms[at.COUNT].sum() == told, "the episodes told of all arms are not as many as were told"
    yield told + asked.n_open <= n_asked, "more episodes were told and are open than were asked for"
    yield memory[at.CLIPPED] <= told, "more returns were clipped than told"
    never, waiting = settings[at.ELIMINATION] == at.NEVER, asked.per_arm(n_arms, told=True)
    yield not asked.starts_told, "an episode waits for one that is not open"
    yield (
        bool((arms[at.SEEN] <= arms[at.COUNT]).all() if never else (arms[at.SEEN] + waiting == arms[at.COUNT]).all()),
        "the episodes seen and those that wait are not those told",
    )
    in_play = arms[at.ACTIVE] == 1.0
    yield bool(np.isin(arms[at.ACTIVE], (0.0, 1.0)).all()) and bool(in_play[-1]), "an arm is neither in play nor out"
    yield bool(in_play.all() if never else n_arms == 1 or in_play[:-1].any()), "arms are out of play that cannot be"
    dropped = arms[at.DROPPED]
    yield bool((in_play == (dropped == -1.0)).all()), "the arms dropped are not those out of play"
    yield _are_whole(dropped[~in_play], 1.0, told), "an arm was dropped at no episode that was told"
    least, every = 0.0 if never else told + 1.0, settings[at.CHECK_EVERY]
    yield _are_whole(memory[[at.NEXT_CHECK]], least, told + every), "the next check is at no episode that it can be"


def _payoffs(arms: FloatArray, settings: FloatArray) -> Iterator[tuple[bool, str]]:
    """The sums of payoffs and what they are evidence of: at most 1 to an episode."""
    count, seen = arms[at.COUNT], arms[at.SEEN]
    if settings[at.RULE] == at.POLICY_REUSE:
        most = LARGEST_RETURN * (count + 1.0)
        yield bool((np.abs(arms[[at.TOTAL, at.SEEN_TOTAL]]) <= most).all()), "a sum of returns is out of bounds"
        yield bool((np.abs(arms[at.MEAN_RETURN]) <= LARGEST_RETURN).all()), "a mean return is out of bounds"
    else:
        yield _are_within(arms[at.TOTAL], count), "a sum of payoffs is out of bounds"
        yield _are_within(arms[at.SEEN_TOTAL], seen), "a sum of payoffs seen is out of bounds"
        yield _are_squares(arms[at.SEEN_SQUARES], arms[at.SEEN_TOTAL], seen), "squared payoffs seen are out of bounds"
    yield _are_within(arms[at.SCATTER], count), "the squared distances of payoffs are out of bounds"


def _weights(
    arms: FloatArray, memory: FloatArray, settings: FloatArray, asked: AskedEpisodes
) -> Iterator[tuple[bool, str]]:
    """What the arms are chosen by, now and when the open episodes are told."""
    rule = settings[at.RULE]
    yield _are_within(arms[at.PROBABILITY], np.ones(arms.shape[1])), "a probability is not in 0 .. 1"
    if rule != at.POLICY_REUSE:
        largest = max(np.abs(arms[at.LOG_WEIGHT]).max(), abs(memory[at.SHIFT]))
        yield largest + asked.most_added() <= MOST_WEIGHT, "a weight is out of bounds, or would be with open episodes"
    yield rule != at.EXP3 or bool(kernels.weights_fit(arms, memory)), "the weights are not those of the log-weights"
    weighed = arms.copy()
    try:
        kernels.weigh(weighed, memory.copy(), settings)
    except ZeroDivisionError:
        yield False, "the arms have no probabilities"
    chances = weighed[at.PROBABILITY]
    good = (chances >= 0.0).all() and abs(chances.sum() - 1.0) < 1e-9 and not chances[arms[at.ACTIVE] == 0.0].any()
    yield bool(good), "the probabilities of arms in play do not sum to 1"


def _accounts(arms: FloatArray, memory: FloatArray) -> Iterator[tuple[bool, str]]:
    """What regret balancing keeps of the sources and of the learner."""
    counts, totals, opened = (arms[row, :-1] for row in (at.COUNT, at.TOTAL, at.OPEN))
    told, learner = memory[at.EPISODE], arms[at.COUNT, -1]
    yield memory[at.RUNS] == counts.sum() and memory[at.AWAITED] == opened.sum(), "the sources' episodes are others"
    yield abs(memory[at.EARNED] - totals.sum()) <= ROUNDED * (counts.sum() + 1.0), "the sources' payoffs are others"
    repeats = np.maximum(counts - 1.0, 0.0).sum()
    yield memory[at.REPEATS] == repeats and -ROUNDED <= memory[at.SQUARES] <= repeats + ROUNDED, "the noise is no noise"
    yield 0.0 < memory[at.NOISE] <= 1e12, "the noise is out of bounds"
    rates = memory[at.RATE : at.RATE + 2]
    yield bool((np.isin(rates, 2.0 ** np.arange(60))).all()), "a coefficient is no power of 2"
    yield _are_whole(memory[[at.ARM]], 0.0, max(arms.shape[1] - 2.0, 0.0)), "the arm chosen is none of the sources"
    yield _are_whole(memory[[at.DECIDE_AT]], 0.0, told + told / 2.0 + 2.0), "the next choice is at no episode it can be"
    yield _are_whole(memory[[at.GUARD]], 0.0, memory[at.ASKED]), "the guard's episodes are no count"
    yield bool(np.isin(memory[[at.SEARCHING, at.REPAYING]], (0.0, 1.0)).all()), "a mark is neither 0 nor 1"
    known = memory[[at.LEADING, at.POTENTIAL, at.HOPE, at.SURE]]
    yield bool((np.abs(known) <= 1e12).all()), "what the arms are worth is out of bounds"
    mark, before = memory[at.MARK], memory[at.BEFORE]
    yield mark == (2.0 ** np.floor(np.log2(learner)) if learner > 0.0 else 0.0), "the learner's progress is not its own"
    yield before == (np.floor(mark / 2.0)), "the learner's progress is not its own"
    earned = memory[[at.BEFORE + 1, at.MARK + 1]]
    yield _are_within(earned, np.array([before, mark])), "the learner's payoffs are out of bounds"


def _are_whole(values: FloatArray, lowest: float, highest: float) -> bool:
    return bool(((values == np.floor(values)) & (values >= lowest) & (values <= highest)).all())


def _are_within(sums: FloatArray, counts: FloatArray) -> bool:
    """Whether sums of numbers in 0 .. 1, as many as ``counts`` says, can be these."""
    room = ROUNDED * (counts + 1.0)
    return bool(((sums >= -room) & (sums <= counts + room)).all())


def _are_squares(squares: FloatArray, totals: FloatArray, counts: FloatArray) -> bool:
    """Whether squares of numbers in 0 .. 1 with these sums can sum to these."""
    room = ROUNDED * (counts + 1.0)
    least = totals * totals / np.maximum(counts, 1.0)
    return bool(((squares >= least - room) & (squares <= totals + room)).all())
