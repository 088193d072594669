"""The law of the chain, exactly: its transition matrix on all partitions of 4 and 5 tasks and three rungs.

The matrix is built by enumerating every draw of the paper's move (a cell, another or a new one, k from PE, k members)
with the acceptance the kernels' own ratios give; the compiled walk is then held against it, one step at a time.
"""

from __future__ import annotations

import itertools
import math

import clustering_reference as reference
import numpy as np
import pytest
from scipy import stats
from seams import filled, sealed

from pastmaster import mhav, regret_bound
from pastmaster.clustering import _chain_kernels as chain, _kernels as kernels

LEVEL = 1e-6
LADDER = np.array([1.0, 4.0, 9.0])
NO_WEIGHTS = np.zeros(3)
WEIGHTS = np.array([0.0, 2.3, 4.1])
ALPHA, BETA, UP = 0.1, 0.8, 0.3  # up is not 1/2, so that the sides of the ladder's ratio differ
THETA = 0.7


class Chain:
    """The space of (rung, partition), its costs, and the ratios of the kernel, any of which a test may break."""

    def __init__(self, distance, directed=False, weights=NO_WEIGHTS):
        self.distance, self.directed, self.weights = sealed(distance), directed, weights
        n_tasks = len(distance)
        self.partitions = list(reference.partitions(n_tasks))
        self.cost = np.array([reference.cost(distance, p, 100, 1.0, directed=directed) for p in self.partitions])
        self.place = {p: at for at, p in enumerate(self.partitions)}
        self.log_factorial = np.array([math.lgamma(n + 1) for n in range(n_tasks + 1)])

    def log_ratio(self, c, n_source, n_target, k):
        return chain.log_ratio(c, n_source, n_target, k, THETA, self.log_factorial)

    def log_ladder_ratio(self, rung, to):
        return chain.log_ladder_ratio(rung, to, len(LADDER), UP)

    def state(self, rung, at):
        return rung * len(self.partitions) + at

    @property
    def law(self):
        """Pi(l, A) ~ exp(-ladder[l] cost(A) + weights[l])."""
        log = (-LADDER[:, None] * self.cost + self.weights[:, None]).ravel()
        weight = np.exp(log - log.max())
        return weight / weight.sum()

    def moves(self, at):
        """Every draw of the move from a partition: (probability, partition after, ln of the ratio)."""
        labels = self.partitions[at]
        cells = reference.cells(labels)
        c = len(cells)
        for source, position in itertools.product(range(c), range(c)):
            members = cells[source]
            n = len(members)
            new = position == source
            for k in range(1, n + 1):
                chance = reference.size_probability(k, n, THETA) / math.comb(n, k) / c**2
                for moved in itertools.combinations(members, k):
                    if new and k == n:
                        yield chance, at, 0.0
                        continue
                    after = list(labels)
                    for i in moved:
                        after[i] = c if new else labels[cells[position][0]]
                    ratio = self.log_ratio(c, n, 0 if new else len(cells[position]), k)
                    yield chance, self.place[reference.canonical(after)], ratio

    def matrix(self):
        n_partitions, n_rungs = len(self.partitions), len(LADDER)
        P = np.zeros((n_rungs * n_partitions,) * 2)
        for rung, at in itertools.product(range(n_rungs), range(n_partitions)):
            here = self.state(rung, at)
            for to, chance in self.rungs_from(rung):
                ratio = (LADDER[rung] - LADDER[to]) * self.cost[at] + self.weights[to] - self.weights[rung]
                accept = math.exp(min(0.0, ratio + self.log_ladder_ratio(rung, to)))
                P[here, self.state(to, at)] += ALPHA * chance * accept
                P[here, here] += ALPHA * chance * (1 - accept)
            for chance, after, ratio in self.moves(at):
                accept = math.exp(min(0.0, LADDER[rung] * (self.cost[at] - self.cost[after]) + ratio))
                P[here, self.state(rung, after)] += BETA * chance * accept
                P[here, here] += BETA * chance * (1 - accept)
            P[here, here] += 1 - ALPHA - BETA
        return P

    @staticmethod
    def rungs_from(rung):
        if rung == 0:
            return [(1, 1.0)]
        if rung == len(LADDER) - 1:
            return [(rung - 1, 1.0)]
        return [(rung + 1, UP), (rung - 1, 1 - UP)]


class WithoutHastings(Chain):
    def log_ratio(self, c, n_source, n_target, k):
        return 0.0


class WithTheAppendixsEnds(Chain):
    """Cases 1 and 2 of the appendix: (1 - alpha') / alpha' up, its inverse down, also at the ends."""

    def log_ladder_ratio(self, rung, to):
        return math.log((1 - UP) / UP) if to > rung else math.log(UP / (1 - UP))


class WithThePrintedSizes(Chain):
    """The printed PE(k; n, theta), its denominator 1 - e^{n theta}, in the ratio (its sign cancels)."""

    def log_ratio(self, c, n_source, n_target, k):
        def log_printed(n):
            return -k * THETA + math.log(math.expm1(THETA)) - math.log(math.expm1(n * THETA))

        joined, created, emptied = n_target + k, n_target == 0, n_source == k
        choices = math.log(math.comb(n_source, k) / math.comb(joined, k))
        return log_printed(joined) - log_printed(n_source) + choices + 2 * math.log(c / (c + created - emptied))


def imbalance(tested):
    """The largest |Pi(x) P(x, y) - Pi(y) P(y, x)|."""
    flow = tested.law[:, None] * tested.matrix()
    return np.abs(flow - flow.T).max()


def chains(rng, kinds=Chain):
    for n_tasks, weights in itertools.product((4, 5), (NO_WEIGHTS, WEIGHTS)):
        yield kinds(reference.random_symmetric(rng, n_tasks), weights=weights)
        yield kinds(reference.random_symmetric(rng, n_tasks, levels=3) / 2, weights=weights)
    yield kinds(reference.random_directed(rng, 4, 4), directed=True, weights=WEIGHTS)
    yield kinds(reference.random_directed(rng, 5, 3), directed=True)


def test_there_are_15_partitions_of_4_tasks_and_52_of_5():
    assert [len(set(reference.partitions(n))) for n in (1, 2, 3, 4, 5)] == [1, 2, 5, 15, 52]


def test_the_chain_is_balanced_and_keeps_its_law(rng):
    for tested in chains(rng):
        P, law = tested.matrix(), tested.law
        np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=0, atol=1e-12)
        assert imbalance(tested) <= 1e-12
        np.testing.assert_allclose(law @ P, law, rtol=0, atol=1e-12)


def test_the_chain_is_irreducible_and_aperiodic(rng):
    for tested in chains(rng):
        P = tested.matrix()
        reached = np.linalg.matrix_power((P > 0).astype(float), len(P)) > 0
        assert reached.all()
        assert (np.diagonal(P) > 0).all()


@pytest.mark.parametrize("broken", [WithoutHastings, WithTheAppendixsEnds, WithThePrintedSizes])
def test_a_chain_with_wrong_ratios_is_not_balanced(rng, broken):
    for tested in chains(rng, broken):
        assert imbalance(tested) > 1e-6
        assert np.abs(tested.law @ tested.matrix() - tested.law).max() > 1e-6


def test_the_chain_converges_within_the_papers_bound(rng):
    """Total variation after n steps is at most (1 - delta)^floor(n / D); the spectral gap tells the true rate."""
    for tested in itertools.islice(chains(rng), 0, None, 5):
        P, law = tested.matrix(), tested.law
        D, power = 1, P
        while not (power > 0).all():
            D, power = D + 1, power @ P
        delta = (power / law).min()
        assert 0 < delta <= 1
        scaled = np.sqrt(law)[:, None] * P / np.sqrt(law)
        eigenvalues = np.sort(np.abs(np.linalg.eigvalsh((scaled + scaled.T) / 2)))
        gap = 1 - eigenvalues[-2]
        print(f"{len(P)} states: D {D}, delta {delta:.3g}, spectral gap {gap:.3g}")
        assert 0 < gap < 1
        power = np.eye(len(P))
        for n in range(1, 121):
            power = power @ P
            distance = 0.5 * np.abs(power - law).sum(axis=1)
            assert distance.max() <= (1 - delta) ** (n // D) + 1e-12
            assert (distance <= 0.5 * np.sqrt(1 / law - 1) * (1 - gap) ** n + 1e-9).all()


# the sizes of moves


def test_the_papers_sizes_sum_to_one_and_the_printed_ones_do_not():
    """PE(k; n, theta) = e^{-k theta} (e^theta - 1) / (1 - e^{-n theta}); the print has 1 - e^{n theta} below."""
    for n, theta in itertools.product((1, 2, 7, 60), (1e-3, 0.7, 5.0)):
        sizes = np.arange(1, n + 1)
        law = np.exp(-sizes * theta) * math.expm1(theta)
        np.testing.assert_allclose(
            law / -math.expm1(-n * theta), [reference.size_probability(k, n, theta) for k in sizes]
        )
        assert (law / -math.expm1(-n * theta)).sum() == pytest.approx(1.0)
        assert (law / -math.expm1(n * theta)).sum() < 0


@pytest.mark.parametrize("theta", [1e-3, 0.7, 5.0, 40.0, 800.0])
def test_the_ratio_of_a_move_is_that_of_the_probabilities_multiplied_out(theta):
    log_factorial = np.array([math.lgamma(n + 1) for n in range(21)])

    def log_chance(c, n, k):
        """ln of 1/c for the cell, 1/c for the other, PE for k (shifted by k theta, which cancels), and the choice."""
        size = 1 / sum(math.exp(-j * theta) for j in range(n))
        return math.log(size / math.comb(n, k) / c**2)

    for c, n_source, n_target in itertools.product((1, 2, 5), (1, 2, 8), (0, 1, 9)):
        for k in range(1, n_source + 1):
            after = c + (n_target == 0) - (n_source == k)
            if after == 0:
                continue
            expected = log_chance(after, n_target + k, k) - log_chance(c, n_source, k)
            assert chain.log_ratio(c, n_source, n_target, k, theta, log_factorial) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("theta", [0.05, 0.7, 2.0])
def test_drawn_sizes_follow_their_law(rng, theta):
    for n in (1, 2, 6):
        drawn = np.array([chain.draw_size(n, theta, rng) for _ in range(20_000)])
        counts = np.bincount(drawn, minlength=n + 1)
        assert counts[0] == 0
        assert len(counts) == n + 1
        expected = len(drawn) * np.array([reference.size_probability(k, n, theta) for k in range(1, n + 1)])
        assert n == 1 or stats.chisquare(counts[1:], expected).pvalue > LEVEL


# the compiled walk


def steps_from(tested, rung, at, n_steps, rng, ladder=LADDER, theta=THETA):
    """How often one step of the compiled walk leads from (rung, partition) to each state."""
    distance, directed = tested.distance, tested.directed
    size_cost = regret_bound(np.arange(len(distance) + 1), 100, 1.0)
    labels = sealed(np.array(tested.partitions[at], np.int32))
    move, best = kernels.new_move(*distance.shape), labels.copy()
    chances, counts = np.array([ALPHA, BETA, UP]), np.zeros(len(LADDER) * len(tested.partitions), int)
    state = filled(distance, labels, directed, kernels.AVERAGE)
    record = np.zeros((4, len(LADDER)))
    for _ in range(n_steps):
        kernels.fill(state, labels, distance, directed, kernels.AVERAGE)
        reached, _ = chain.walk(
            state, move, distance, directed, kernels.AVERAGE, size_cost, ladder, tested.weights, theta, chances,
            tested.log_factorial, rung, 1, rng, best, np.inf, record,
        )  # fmt: skip
        counts[tested.state(reached, tested.place[reference.canonical(state.label)])] += 1
    assert record[0].sum() == n_steps
    return counts


def p_value(counts, row):
    """Pearson's test of the counts against the row; states of under 5 expected visits are pooled."""
    expected = counts.sum() * row
    assert (counts[row == 0] == 0).all()
    rare = expected < 5
    observed = np.append(counts[~rare], counts[rare].sum())
    wanted = np.append(expected[~rare], expected[rare].sum())
    kept = wanted > 0
    return stats.chisquare(observed[kept], wanted[kept] * observed[kept].sum() / wanted[kept].sum()).pvalue


def given_states(tested, rng):
    """One cell of all, all apart, and two others, each on its own rung."""
    last = len(tested.partitions) - 1
    yield from ((0, 0), (2, last), (1, int(rng.integers(1, last))), (1, int(rng.integers(1, last))))


@pytest.mark.parametrize("directed", [False, True])
def test_one_step_of_the_compiled_walk_follows_the_matrix(rng, directed):
    distance = reference.random_directed(rng, 4, 3) if directed else reference.random_symmetric(rng, 4)
    tested = Chain(distance, directed, WEIGHTS)
    P = tested.matrix()
    for rung, at in given_states(tested, rng):
        counts = steps_from(tested, rung, at, 10_000, rng)
        assert p_value(counts, P[tested.state(rung, at)]) > LEVEL / 8


def test_a_walk_with_another_theta_or_ladder_does_not_follow_the_matrix(rng):
    tested = Chain(reference.random_symmetric(rng, 4), weights=WEIGHTS)
    row = tested.matrix()[tested.state(1, 0)]
    assert p_value(steps_from(tested, 1, 0, 20_000, rng, theta=2 * THETA), row) < LEVEL
    assert p_value(steps_from(tested, 1, 0, 20_000, rng, ladder=LADDER * [1, 1, 3]), row) < LEVEL


def test_a_long_walk_spends_its_time_as_its_law_says(rng):
    """Independent walks of 60 steps, long enough to forget the start: their ends are draws from Pi."""
    tested = Chain(reference.random_symmetric(rng, 4), weights=WEIGHTS)
    P = tested.matrix()
    start, n_steps, size_cost = tested.state(0, 0), 60, regret_bound(np.arange(5), 100, 1.0)
    row = np.linalg.matrix_power(P, n_steps)[start]
    state, move = kernels.new_state(4, 4, False), kernels.new_move(4, 4)
    labels, counts, record = sealed(np.zeros(4, np.int32)), np.zeros(len(P), int), np.zeros((4, 3))
    for _ in range(10_000):
        kernels.fill(state, labels, tested.distance, False, kernels.AVERAGE)
        rung, _ = chain.walk(
            state, move, tested.distance, False, kernels.AVERAGE, size_cost, LADDER, WEIGHTS, THETA,
            np.array([ALPHA, BETA, UP]), tested.log_factorial, 0, n_steps, rng, labels.copy(), np.inf, record,
        )  # fmt: skip
        counts[tested.state(rung, tested.place[reference.canonical(state.label)])] += 1
    assert p_value(counts, row) > LEVEL
    assert record[0].sum() == 600_000
    assert (record[2] <= record[1]).all()


@pytest.mark.parametrize("directed", [False, True])
def test_the_compiled_walk_and_the_python_it_is_written_in_take_the_same_steps(seed, directed):
    made = np.random.default_rng(seed)
    drawn = reference.random_directed(made, 7, 4) if directed else reference.random_symmetric(made, 7)
    tested, size_cost = Chain(drawn, directed, WEIGHTS), regret_bound(np.arange(8), 100, 1.0)
    ends = []
    for walk in (chain.walk, chain.walk.py_func):
        state = filled(tested.distance, np.zeros(7, np.int32), directed, kernels.AVERAGE)
        move, best, record = kernels.new_move(*drawn.shape), np.zeros(7, np.int32), np.zeros((4, 3))
        rng = np.random.default_rng(seed)
        rung, best_cost = walk(
            state, move, tested.distance, directed, kernels.AVERAGE, size_cost, LADDER, WEIGHTS, THETA,
            np.array([ALPHA, BETA, UP]), tested.log_factorial, 0, 500, rng, best, np.inf, record,
        )  # fmt: skip
        ends.append((rung, best_cost, state.label.tolist(), best.tolist(), record[:3].tolist(), rng.random()))
    assert ends[0] == ends[1]


# the general optimiser

COSTS = np.array([0.9, 0.1, 0.6, 0.0, 0.7])


def one_way_round(point, rng):
    """A lopsided walk on a ring: up with chance 0.7, down with 0.3, and its ratio."""
    up = rng.random() < 0.7
    return (point + (1 if up else -1)) % len(COSTS), math.log(0.3 / 0.7) if up else math.log(0.7 / 0.3)


def ring_matrix(weights):
    """The transition matrix of MHAV on the ring, by hand."""
    n = len(COSTS)
    P = np.zeros((3 * n, 3 * n))
    for rung, y in itertools.product(range(3), range(n)):
        proposals = [(rung, (y + 1) % n, BETA * 0.7, math.log(3 / 7)), (rung, (y - 1) % n, BETA * 0.3, math.log(7 / 3))]
        ends = {0: 1.0, 1: None, 2: 1.0}
        for to in (rung - 1, rung + 1):
            if 0 <= to <= 2:
                forward = ends[rung] or (UP if to > rung else 1 - UP)
                backward = ends[to] or (UP if rung > to else 1 - UP)
                proposals.append((to, y, ALPHA * forward, math.log(backward / forward)))
        for to, there, chance, ratio in proposals:
            gain = LADDER[rung] * COSTS[y] - LADDER[to] * COSTS[there] + weights[to] - weights[rung]
            P[rung * n + y, to * n + there] += chance * min(1.0, math.exp(gain + ratio))
        P[rung * n + y, rung * n + y] += 1 - P[rung * n + y].sum()
    return P


@pytest.mark.parametrize("weights", [NO_WEIGHTS, WEIGHTS])
def test_the_general_optimiser_has_the_same_law(rng, weights):
    """Runs of 40 steps end on a rung with the matrix's probability: ends are seen through the rungs' visits."""
    P = ring_matrix(weights)
    law = np.exp((-LADDER[:, None] * COSTS + weights[:, None]).ravel())
    law /= law.sum()
    np.testing.assert_allclose(law @ P, law, rtol=0, atol=1e-12)

    def after(n_steps):
        seen = []
        result = mhav.minimize(
            lambda y: COSTS[y], lambda y, rng: (seen.append(y), one_way_round(y, rng))[1], 0, ladder=LADDER,
            weights=weights, iterations=n_steps, rng=rng, alpha=ALPHA, beta=BETA, up=UP,
        )  # fmt: skip
        return result.visits, seen

    rungs_after_15 = np.zeros(3)
    for _ in range(3000):
        visits, _ = after(15)
        rungs_after_15 += visits
    expected = np.zeros(3)
    here = np.eye(len(P))[0]
    for _ in range(15):
        here = here @ P
        expected += here.reshape(3, -1).sum(axis=1)
    # a run's visits to a rung lie in 0..15: Hoeffding's bound at level 1e-6 over three rungs
    allowed = 15 * math.sqrt(math.log(2 * 3 / LEVEL) / (2 * 3000))
    assert np.abs(rungs_after_15 / 3000 - expected).max() < allowed
    _, points = after(60_000)  # every proposal starts from the current point
    share = np.bincount(points, minlength=len(COSTS)) / len(points)
    assert 0.5 * np.abs(share - law.reshape(3, -1).sum(axis=0)).sum() < 0.05


def test_the_general_optimiser_finds_the_minimum_and_reports_how(rng):
    result = mhav.minimize(lambda y: COSTS[y], one_way_round, 0, ladder=LADDER, iterations=3000, rng=rng)
    assert (result.point, result.cost) == (3, 0.0)
    assert result.trace.shape == (3000,)
    assert (np.diff(result.trace) <= 0).all()
    assert result.trace[-1] == result.cost
    assert result.visits.sum() == 3000
    assert ((result.acceptance >= 0) & (result.acceptance <= 1)).all()
    assert result.acceptance[0] > 0
    assert "cost 0 after 3,000 steps on 3 rungs" in repr(result)


def test_a_ladder_of_one_rung_will_do(rng):
    result = mhav.minimize(lambda y: COSTS[y], one_way_round, 2, ladder=[3.0], iterations=2000, rng=rng)
    assert result.cost == 0.0
    assert result.visits.tolist() == [2000]


def test_the_same_seed_gives_the_same_walk(seed):
    runs = [
        mhav.minimize(
            lambda y: COSTS[y], one_way_round, 0, ladder=LADDER, iterations=500, rng=np.random.default_rng(seed)
        )
        for _ in range(2)
    ]
    assert runs[0].visits.tolist() == runs[1].visits.tolist()
    assert runs[0].trace.tolist() == runs[1].trace.tolist()
