"""What a kept policy should cost: the price at which tasks left out, and met as new ones, earn most.

Which policies to keep is settled by a price: each must earn so much a task. The regret bound g prices them at the worst
case of one bandit. What they cost the selector in use is measured here. Tasks are left out in turn, a quarter of them
at a time, with the policies that were learned in them. At each of some prices the others say what is kept, and the
selector meets each task left out, with what the others tell as experience. A learner is taken to earn the least return.
The price at which the mean return is largest is the answer; of equals, the lowest: a policy that one stored task needs
shows nothing when that task is left out with it, and sources cost the informed selector little.

A task's returns are drawn from the table: its value under the policy that runs, and noise if its spread is known. So no
episode is run, and a learner's progress, which the table does not know, does not count.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from pastmaster.arrays import FloatArray, LongArray
from pastmaster.clustering.losses import Losses, losses_of
from pastmaster.reuse import _price_kernels as kernels
from pastmaster.reuse.experience import Experience
from pastmaster.reuse.informed import Informed

PARTS = 4  # in turn left out
LEFT_OUT = 32  # tasks at most
HALVINGS = 12  # prices: what the best single policy loses, and halves of that
LOOKED_AT = 300  # episodes of a task that are looked at one by one; the others earn what the best arm then does
EQUAL = 1e-4  # of the span: returns that differ by less are equal
FEWEST = 8  # tasks; fewer are not enough to leave some out


def measured_price(
    values: FloatArray, episodes: int, rng: np.random.Generator, *, spread: FloatArray | None = None,
    own: Sequence[int] | None = None, deadline: float = math.inf,
) -> float:  # fmt: skip
    """The price of a policy for tasks of so many episodes, by what policies [M] are worth in tasks [N, M].

    ``spread`` [N, M] is the standard deviation of a return, by default 0; ``own`` [M] the task in which each policy was
    learned, or -1. After the ``deadline`` no more tasks are left out.
    """
    n_tasks, n_policies = values.shape
    losses = losses_of(values)
    highest = float(losses.mean(axis=0).min())
    if n_tasks < FEWEST or highest == 0.0:
        return highest * 2.0**-HALVINGS
    learned_in = np.full(n_policies, -1) if own is None else np.asarray(own)
    prices = highest * 2.0 ** -np.arange(HALVINGS)
    order = rng.permutation(n_tasks)
    earned, counted = np.zeros(HALVINGS), 0
    for part in range(PARTS):
        left_out = order[part::PARTS]
        rest = np.setdiff1d(order, left_out)
        columns = np.flatnonzero(~np.isin(learned_in, left_out))
        if not len(columns) or (part > 0 and time.perf_counter() > deadline):
            continue
        for k, price in enumerate(prices):
            found = Losses(losses_of(values[np.ix_(rest, columns)])).at_price(float(price), rng, deadline, False)
            kept = columns[found.columns]
            for task in left_out[: LEFT_OUT // PARTS]:
                earned[k] += met(values, spread, rest, kept, int(task), episodes, rng)
        counted += min(LEFT_OUT // PARTS, len(left_out))
    close = earned >= earned.max() - counted * EQUAL * float(np.ptp(values))
    return float(prices[close].min())


def met(
    values: FloatArray, spread: FloatArray | None, rest: LongArray, kept: LongArray, task: int, episodes: int,
    rng: np.random.Generator,
) -> float:  # fmt: skip
    """The mean return of a task that is met with the kept policies and with what they were worth in the rest."""
    lower, upper = float(values.min()), float(values.max())
    known: dict[str, Any] = {} if spread is None else {"spread": spread[np.ix_(rest, kept)]}
    experience = Experience(values[np.ix_(rest, kept)], best=values[rest].max(axis=1), **known)
    selector = Informed(len(kept), episodes, bounds=(lower, upper), experience=experience, clip=True, rng=rng)
    worth = np.append(values[task, kept], lower)
    noise = np.zeros(len(worth)) if spread is None else np.append(spread[task, kept], 0.0)
    looked_at = min(episodes, LOOKED_AT)
    total, last = kernels.meet(
        selector._arms, selector._memory, selector._settings, worth, noise, rng.random(looked_at),
        rng.standard_normal(looked_at),
    )  # fmt: skip
    return float((total + (episodes - looked_at) * worth[last]) / episodes)
