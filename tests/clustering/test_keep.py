"""``keep`` against all choices of columns, in exact arithmetic."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
import time
from fractions import Fraction

import clustering_reference as reference
import numpy as np
import pytest
from seams import _column_kernels as kernels, columns, distance, losses as losses_module, losses_of

from pastmaster import InvalidInputError, keep, search_clusterings

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


@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_for_learning_is_the_best_of_all_partitions(rng, kind):
    scores = np.empty((0, 0))
    while min(scores.shape) < 4:  # of fewer tasks or policies any search finds the best
        scores = drawn(rng, kind)[:6]
    losses, setting = losses_of(scores), {"episodes": 200, "span": 1.0}
    most_wanted = int(losses.mean(axis=0).argmin())
    never = [most_wanted] if kind != "missing" else []
    open_losses = np.delete(losses, never, axis=1)
    least = min(
        reference.cost(open_losses, labels, *setting.values(), directed=True)
        for labels in reference.partitions(len(losses))
    )
    found = keep(scores, never_keep=never, rng=rng, **setting)
    assert found.cost == pytest.approx(least, rel=1e-9)
    assert found.lower_bound <= least * (1 + 1e-12)
    assert found.losses.tolist() == losses[:, found.columns].min(axis=1).tolist()
    assert not set(never) & set(found.columns.tolist())
    cells = [found.members(c) for c in range(found.n_clusters)]
    radii = [losses[cell, j].max() for cell, j in zip(cells, found.columns, strict=True)]
    assert found.radii.tolist() == radii
    assert found.mean_radius >= found.mean_loss


# negative controls


def test_the_mean_radius_is_another_question(rng):
    """The cells with the least mean radius often lose more than the best k columns, so the check above finds them."""
    more = []
    for _ in range(12):
        scores = rng.random((40, 12))
        losses, best = losses_of(scores), keep(scores, k=3, rng=0)
        other = search_clusterings(losses, n_clusters=3, directed=True, rng=0, restarts=4, iterations=2000)
        more.append(other.mean_loss / best.mean_loss - 1)
        assert more[-1] >= -1e-9
    assert np.mean(np.array(more) > 1e-6) > 0.5


def test_without_the_charge_for_rounding_a_bound_is_no_proof(rng):
    """The bound for one column is its sum. Rounded sums are above the exact one in many cases; the bound never is."""
    above = 0
    for _ in range(200):
        losses = np.abs(rng.normal(size=(60, 1))) * np.exp(8.0 * rng.normal(size=(60, 1)))
        scores = np.hstack([np.zeros((60, 1)), -losses])
        found = keep(scores, k=1, must_keep=[1], rng=0)
        least = mean_loss(losses_of(scores), [1], None)
        above += Fraction(found.cost) > least
        assert Fraction(found.lower_bound) <= least
    assert above > 20


def test_a_bound_that_is_too_high_is_found_out(rng, monkeypatch):
    """The comparison with all choices is sharp: a bound a millionth too high fails it."""
    solved = columns.ColumnProblem.solved

    def boasting(self, *given, **named):
        choice = solved(self, *given, **named)
        return choice._replace(lower_bound=choice.lower_bound * 1.000001, cost=choice.cost)

    monkeypatch.setattr(columns.ColumnProblem, "solved", boasting)
    monkeypatch.setattr(losses_module, "min", lambda *numbers: max(numbers), raising=False)
    scores = rng.normal(size=(8, 6))
    least = min(mean_loss(losses_of(scores), list(c), None) for c in itertools.combinations(range(6), 2))
    assert Fraction(keep(scores, k=2, rng=0).lower_bound) > least


# the solver


BITS = """
import sys
import numpy as np
from pastmaster import keep
from pastmaster.clustering import _column_kernels as kernels
rng = np.random.default_rng(int(sys.argv[1]))
for question in ({"k": 3}, {"price": 0.1}, {"max_loss": 0.7}):
    for shape in ((1, 4), (12, 9), (30, 14)):
        scores = rng.random(shape)
        scores[rng.random(shape) < 0.1] = np.nan
        scores[:, 0] = rng.random(shape[0])
        found = keep(scores, rng=0, **question)
        print(found.lower_bound.hex(), found.cost.hex(), found.columns.tolist(), found.labels.tolist())
print(hasattr(kernels.explore, "py_func"))
"""


def test_compiled_equals_plain_bit_for_bit(seed):
    plain, compiled = (
        subprocess.run(
            [sys.executable, "-c", BITS, str(seed)],
            env=os.environ | {"NUMBA_DISABLE_JIT": flag}, capture_output=True, text=True, check=True,
        ).stdout.splitlines()
        for flag in "10"
    )  # fmt: skip
    assert (plain[-1], compiled[-1]) == ("False", "True")
    assert plain[:-1] == compiled[:-1]
    assert len(plain) == 10


def hard(rng, n_tasks=60, n_policies=30):
    """A table without structure, which needs the tree."""
    return rng.random((n_tasks, n_policies))


def test_a_table_without_structure_is_proven_by_the_tree(rng):
    for _ in range(3):
        scores = hard(rng, 40, 15)
        losses = losses_of(scores)
        least = min(losses[:, list(chosen)].min(axis=1).mean() for chosen in itertools.combinations(range(15), 4))
        found = keep(scores, k=4, rng=rng)
        assert found.mean_loss == pytest.approx(least, rel=1e-12)
        assert found.is_optimal


def test_the_bound_of_a_search_that_is_cut_short_still_holds(rng):
    scores = hard(rng)
    proven = keep(scores, k=5, rng=0)
    assert proven.is_optimal
    for seconds in (0.0, 0.001, 0.02):
        found = keep(scores, k=5, rng=0, time_limit=seconds)
        assert found.lower_bound <= proven.cost <= found.cost
        assert len(found.columns) == 5


@pytest.mark.parametrize("question", [{"k": 5}, {"max_loss": 0.2}, {"price": 0.01}, {"episodes": 1e4, "span": 1.0}])
def test_time_is_limited_for_search_and_proof_together(rng, question):
    scores = rng.random((400, 400))
    keep(scores[:20, :20], rng=0, **question)  # compiled
    begun = time.perf_counter()
    found = keep(scores, rng=0, time_limit=0.7, **question)
    assert time.perf_counter() - begun < 5  # the paper's search alone takes longer
    assert found.lower_bound <= found.cost


def test_without_a_certificate_there_is_no_bound(rng):
    found = keep(hard(rng), k=5, certify=False, rng=0)
    assert (found.lower_bound, found.gap, found.is_optimal) == (None, None, False)
    assert "optimal" not in repr(found)


def test_ctrl_c_ends_it_with_the_best_so_far(rng, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(kernels, "explore", interrupt)
    found = keep(hard(rng), k=5, rng=0)
    assert found.interrupted
    assert len(found.columns) == 5
    assert repr(found).endswith("interrupted")


def test_the_same_seed_gives_the_same_answer(rng):
    scores = hard(rng)
    fresh = keep(scores, k=4)
    again = keep(scores, k=4, rng=fresh.seed)
    assert (again.columns.tolist(), again.lower_bound, again.seed) == (
        fresh.columns.tolist(), fresh.lower_bound, fresh.seed,
    )  # fmt: skip
    assert keep(scores, k=4, rng=rng).seed is None


@pytest.mark.parametrize("size", [1e-305, 1e-200, 1e200, 1e299])
def test_very_large_and_very_small_scores_are_no_trouble(rng, size):
    scores = hard(rng, 20, 8)
    plain = keep(scores, k=3, rng=0)
    for question in ({"k": 3}, {"max_loss": plain.largest_loss * size}, {"price": 0.02 * size}):
        found = keep(scores * size, rng=0, **question)
        assert found.is_optimal
        assert np.isfinite([found.mean_loss, found.cost, found.lower_bound]).all()
    assert keep(scores * size, k=3, rng=0).columns.tolist() == plain.columns.tolist()


def test_a_constant_for_each_task_changes_nothing(rng):
    """Scores may be negative: only differences within a row count."""
    scores = rng.integers(-9, 9, size=(15, 7)).astype(float)
    shifted = scores - rng.integers(100, 200, size=(15, 1))
    for question in ({"k": 2}, {"price": 1.0}, {"max_loss": 6.0}):
        one, other = keep(scores, rng=0, **question), keep(shifted, rng=0, **question)
        assert one.columns.tolist() == other.columns.tolist()
        assert one.losses.tolist() == other.losses.tolist()


def test_costs_are_scores_turned_round(rng):
    times = rng.exponential(size=(20, 8))
    one, other = keep(times, k=3, lower_is_better=True, rng=0), keep(-times, k=3, rng=0)
    assert one.columns.tolist() == other.columns.tolist()
    assert one.losses.tolist() == other.losses.tolist()


def test_exactly_k_come_back_where_fewer_would_do():
    found = keep([[1.0, 1.0, 1.0, 0.0], [2.0, 2.0, 2.0, 0.0]], k=3, rng=0)
    assert sorted(found.columns.tolist()) == [0, 1, 2]
    assert (found.n_clusters, found.members(1).tolist(), found.radii.tolist()) == (3, [], [0.0] * 3)
    assert "3 of 4 policies kept" in repr(found)
    assert found._repr_html_()
    assert keep([[1.0, 2.0, 3.0]], k=3, rng=0).n_clusters == 3


def test_losses_count_from_the_best_known_also_if_it_is_never_kept():
    found = keep([[5.0, 3.0, 0.0]], k=1, never_keep=0, rng=0)
    assert (found.columns.tolist(), found.losses.tolist()) == ([1], [2.0])


def test_equal_but_for_rounding_loses_nothing():
    found = keep([[0.3, 0.1 + 0.2], [1.0, 0.0]], max_loss=0.0, rng=0)
    assert (found.columns.tolist(), found.losses.tolist()) == ([0], [0.0, 0.0])
    assert losses_module.TIE == distance.TIE


def test_a_limit_is_met_up_to_rounding():
    """1.1 - 1.0 is more than 0.1 by a bit."""
    assert keep([[1.1, 1.0]], max_loss=0.1, never_keep=[0]).policies == [1]
    assert len(keep([[1.1, 1.0], [1.0, 1.1]], max_loss=0.1).policies) == 1
    with pytest.raises(InvalidInputError, match=r"max_loss is 0.099, but task 0 loses at least 0.1 .* at least 0.1"):
        keep([[1.1, 1.0]], max_loss=0.099, never_keep=[0])


def test_small_tables_are_always_decided(rng):
    """Where all other columns are closed, what is left is one choice; its cost is known."""
    assert keep([[0, 2, 2], [1, 1, 0], [3, 2, 3], [2, 3, 3], [1, 2, 2]], price=0.3, rng=0).is_optimal
    for _ in range(300):
        table = rng.integers(0, 5, (rng.integers(2, 9), rng.integers(2, 7)))
        price = float(rng.choice([0.1, 0.2, 0.3, 0.5, 1.0]))
        found, lost = keep(table, price=price, rng=0), table.max(axis=1, keepdims=True) - table
        sizes = range(1, table.shape[1] + 1)
        choices = (list(c) for size in sizes for c in itertools.combinations(range(table.shape[1]), size))
        least = min(price * len(chosen) + lost[:, chosen].min(axis=1).mean() for chosen in choices)
        assert found.is_optimal
        assert found.cost == pytest.approx(least)
        assert found.lower_bound <= least + 1e-12
