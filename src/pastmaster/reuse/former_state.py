"""A selector's state as files hold it: its numbers, and what earlier versions wrote in place of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pastmaster.arrays import FloatArray, as_array
from pastmaster.errors import InvalidInputError
from pastmaster.reuse import _layout as at
from pastmaster.reuse.asked import NOTHING

ONE_OPEN = 11  # rows of ``arms`` when one episode could be open
WEIGHED = 14  # rows when the evidence about a source was not yet sums alone; what was at rows 7 to 10 has no use now
SCATTER, OPEN, SEEN, SEEN_TOTAL = 7, 11, 12, 13  # in those


def numbers(caller: str, key: str, values: Any, shape: tuple[int, ...]) -> FloatArray:
    """Finite numbers of a shape."""
    try:
        array = as_array(values, f"{caller}: {key}", None)
    except InvalidInputError:
        array = NOTHING
    if array.shape != shape or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise InvalidInputError(f"{caller}: {key} has shape {array.shape}, must be finite numbers {shape}")
    return array.astype(np.float64)


def renewed(caller: str, state: Mapping[str, Any], n_arms: int) -> Mapping[str, Any]:
    """A state as it is written now; ``arms`` has its size."""
    if "open" not in state:
        state = with_open_episodes(caller, state, n_arms)
    given = state["arms"]
    if isinstance(given, list) and len(given) == WEIGHED:
        state = {**state, "arms": with_sums(numbers(caller, "arms", given, (WEIGHED, n_arms))).tolist()}
    numbers(caller, "arms", state["arms"], (at.N_ROWS, n_arms))
    return state


def with_open_episodes(caller: str, state: Mapping[str, Any], n_arms: int) -> dict[str, Any]:
    """A state written when only one episode could be open: ``memory[ASKED]`` held its arm, or -1."""
    former = numbers(caller, "arms", state["arms"], (ONE_OPEN, n_arms))
    memory = numbers(caller, "memory", state["memory"], (at.N_MEMORY,))
    pending, told = memory[at.ASKED], memory[at.EPISODE]
    if pending not in range(-1, n_arms):
        raise InvalidInputError(f"{caller}: the pending arm is {pending:g}, must be in 0..{n_arms - 1} or -1")
    arms, opened = np.zeros((WEIGHED, n_arms)), []
    arms[:ONE_OPEN] = former
    arms[[SEEN, SEEN_TOTAL]] = former[[at.COUNT, at.TOTAL]]
    if pending >= 0:
        arm = int(pending)
        arms[OPEN, arm] = 1.0
        time = former[at.COUNT, :-1].sum() + 1.0 if state["selector"] == "regret-balancing" else told + 1.0
        opened.append([int(told), arm, float(time), None, former[at.PROBABILITY].tolist()])
    memory[at.ASKED] = told + len(opened)
    return {**state, "arms": arms.tolist(), "memory": memory.tolist(), "open": opened, "most_open": 1}


def with_sums(former: FloatArray) -> FloatArray:
    """The rows as they are now. A payoff in 0 .. 1 is at least its square, so less is taken for shown than was.

    Distances were taken from means that began at 1/2; about what that added is taken off again.
    """
    arms = np.zeros((at.N_ROWS, former.shape[1]))
    arms[: at.SCATTER] = former[: at.SCATTER]
    counts = former[at.COUNT, :-1]
    off = (former[at.TOTAL, :-1] / np.maximum(counts, 1.0) - 0.5) ** 2
    pulled = off * np.maximum(np.pi**2 / 6.0 - 1.0 - 1.0 / (counts + 1.5), 0.0)
    arms[at.SCATTER, :-1] = np.clip(former[SCATTER, :-1] - pulled, 0.0, counts)
    arms[[at.OPEN, at.SEEN, at.SEEN_TOTAL]] = former[[OPEN, SEEN, SEEN_TOTAL]]
    arms[at.SEEN_SQUARES] = arms[at.SEEN_TOTAL]
    return arms


def with_accounts(caller: str, state: Mapping[str, Any], fresh: FloatArray) -> list[float]:
    """The memory of regret balancing, from a state in which it had no model yet: what its counts and payoffs say.

    The learner's progress is taken to have been even.
    """
    memory = fresh.copy()
    former = numbers(caller, "memory", state["memory"], (at.N_MEMORY,))
    memory[: at.N_MEMORY] = former
    memory[at.SHIFT] = 0.0
    arms = numbers(caller, "arms", state["arms"], (at.N_ROWS, np.shape(state["arms"])[-1]))
    counts, totals = arms[at.COUNT], arms[at.TOTAL]
    memory[at.RUNS], memory[at.EARNED], memory[at.AWAITED] = (
        counts[:-1].sum(),
        totals[:-1].sum(),
        arms[at.OPEN, :-1].sum(),
    )
    memory[at.REPEATS] = np.maximum(counts[:-1] - 1.0, 0.0).sum()
    memory[at.SQUARES] = min(arms[at.SCATTER, :-1].sum(), memory[at.REPEATS])
    if counts[-1] > 0.0:
        mark = 2.0 ** np.floor(np.log2(counts[-1]))
        for place, n in ((at.MARK, mark), (at.BEFORE, np.floor(mark / 2.0))):
            memory[place], memory[place + 1] = n, n * totals[-1] / counts[-1]
    return [float(number) for number in memory]
