"""``keep`` against all choices of columns, in exact arithmetic."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from pastmaster import InvalidInputError, keep
from pastmaster.clustering.losses import losses_of

KINDS = ("real", "ties", "twins", "missing", "runtimes", "groups")
ROUNDING = Fraction(1, 10**8)  # choices that are better by less are not looked for


def drawn(rng, kind):
    """A small table of a kind."""
    n_tasks, n_policies = int(rng.integers(1, 9)), int(rng.integers(1, 8))
    scores = rng.normal(size=(n_tasks, n_policies))
    if kind == "ties":
        scores = rng.integers(-1, 3, size=scores.shape).astype(float)
    elif kind == "twins":
        scores = scores[:, rng.integers(n_policies, size=n_policies)]
    elif kind == "missing":
        scores[rng.random(scores.shape) < 0.4] = np.nan
        scores[np.arange(n_tasks), rng.integers(n_policies, size=n_tasks)] = rng.normal(size=n_tasks)
    elif kind == "runtimes":
        scores = -np.minimum(np.exp(3.0 * scores), 50.0)
    elif kind == "groups":
        scores = scores[rng.integers(n_tasks, size=n_tasks)] + 0.01 * rng.normal(size=scores.shape)
    return scores


def extras(rng, scores):
    """Weights, columns that must be kept and columns that must not, each in some cases."""
    n_tasks, n_policies = scores.shape
    order = rng.permutation(n_policies).tolist()
    weights = rng.integers(0, 4, size=n_tasks).astype(float) + (np.arange(n_tasks) == 0)
    must = order[: rng.integers(0, 2)] if rng.random() < 0.3 else []
    never = order[len(must) :][: rng.integers(0, 3)] if rng.random() < 0.3 and n_policies > 3 else []
    return {"weights": weights if rng.random() < 0.4 else None, "must_keep": must, "never_keep": never}


def choices(n_policies, must_keep, never_keep):
    """All sets of columns that may be kept."""
    free = [j for j in range(n_policies) if j not in must_keep and j not in never_keep]
    for size in range(len(free) + 1):
        for chosen in itertools.combinations(free, size):
            if must_keep or chosen:
                yield [*must_keep, *chosen]


def exact(number):
    return math.inf if math.isinf(number) else Fraction(number)


def mean_loss(losses, chosen, weights):
    """Exactly, as a fraction; infinite if a task has no column."""
    least = [min(exact(loss) for loss in row) for row in losses[:, chosen].tolist()]
    if math.inf in least:
        return math.inf
    shares = [Fraction(w) for w in (np.ones(len(least)) if weights is None else weights).tolist()]
    return sum(share * loss for share, loss in zip(shares, least, strict=True)) / sum(shares)


def check_answer(found, losses, weights, cost_of):
    """The losses are those of the kept columns, and the cost is that of the best choice; returns the exact cost."""
    chosen = found.columns.tolist()
    assert len(set(chosen)) == len(chosen)
    assert found.losses.tolist() == losses[:, chosen].min(axis=1).tolist()
    assert found.mean_loss == pytest.approx(float(mean_loss(losses, chosen, weights)), rel=1e-12, abs=1e-300)
    assert found.largest_loss == max(found.losses)
    served = found.columns[found.labels]
    assert (losses[np.arange(len(losses)), served] == found.losses).all()
    cost = cost_of(chosen)
    assert found.cost == pytest.approx(float(cost), rel=1e-12, abs=1e-300)
    return cost


@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_for_k_is_the_best_of_all(rng, kind):
    for _ in range(250):
        scores = drawn(rng, kind)
        given, losses = extras(rng, scores), losses_of(scores)
        limited = given["must_keep"], given["never_keep"]
        k = int(rng.integers(max(1, len(limited[0])), scores.shape[1] - len(limited[1]) + 1))
        costs = [mean_loss(losses, c, given["weights"]) for c in choices(scores.shape[1], *limited) if len(c) == k]
        if min(costs) == math.inf:
            with pytest.raises(InvalidInputError, match=f"keep: k is {k}, but|keep: never_keep leaves"):
                keep(scores, k=k, rng=rng, **given)
            continue
        found = keep(scores, k=k, rng=rng, **given)
        cost = check_answer(found, losses, given["weights"], lambda c: mean_loss(losses, c, given["weights"]))  # noqa: B023
        assert len(found.columns) == k
        assert set(limited[0]) <= set(found.columns.tolist())
        assert not set(limited[1]) & set(found.columns.tolist())
        assert Fraction(found.lower_bound) <= min(costs) <= cost <= (1 + ROUNDING) * min(costs)
        assert found.is_optimal


@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_for_a_price_is_the_best_of_all(rng, kind):
    for _ in range(150):
        scores = drawn(rng, kind)
        given, losses = extras(rng, scores), losses_of(scores)
        price = float(rng.choice([0.0, 0.125, 0.5, 2.0]) * rng.random())

        def cost_of(chosen):
            return Fraction(price) * len(chosen) + mean_loss(losses, chosen, given["weights"])  # noqa: B023

        least = min(map(cost_of, choices(scores.shape[1], given["must_keep"], given["never_keep"])))
        if least == math.inf:
            with pytest.raises(InvalidInputError, match="keep: never_keep leaves task"):
                keep(scores, price=price, rng=rng, **given)
            continue
        found = keep(scores, price=price, rng=rng, **given)
        cost = check_answer(found, losses, given["weights"], cost_of)
        assert Fraction(found.lower_bound) <= least <= cost <= (1 + ROUNDING) * least
        assert found.is_optimal


@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_for_a_limit_is_the_fewest_and_of_these_the_best(rng, kind):
    for _ in range(150):
        scores = drawn(rng, kind)
        given, losses = extras(rng, scores), losses_of(scores)
        limit = float(rng.choice(losses[np.isfinite(losses)]) if rng.random() < 0.7 else rng.random())
        within = [
            chosen
            for chosen in choices(scores.shape[1], given["must_keep"], given["never_keep"])
            if losses[:, chosen].min(axis=1).max() <= limit
        ]
        if not within:
            with pytest.raises(InvalidInputError, match=r"keep: max_loss is .*, but task|keep: never_keep leaves task"):
                keep(scores, max_loss=limit, rng=rng, **given)
            continue
        fewest = min(map(len, within))
        found = keep(scores, max_loss=limit, rng=rng, **given)
        check_answer(found, losses, given["weights"], len)
        assert found.largest_loss <= limit
        assert (found.lower_bound, found.cost, found.possible_c) == (fewest, fewest, (fewest,))
        least = min(mean_loss(losses, chosen, given["weights"]) for chosen in within if len(chosen) == fewest)
        assert mean_loss(losses, found.columns.tolist(), given["weights"]) <= (1 + ROUNDING) * least
