"""The compiled state after any moves is what a fresh measurement, and the plain loops, say it is."""

from __future__ import annotations

import itertools
import math

import clustering_reference as reference
import numpy as np
import pytest
from hypothesis import given, strategies as st
from seams import canonical_labels, filled, sealed

from pastmaster import InvalidInputError, regret_bound
from pastmaster.clustering import _chain_kernels as chain, _kernels as kernels, _local_kernels as local

CASES = [(kind, False) for kind in range(3)] + [(kind, True) for kind in range(2)]


class Walker:
    """A kernel state that makes every proposed move, whatever it costs."""

    def __init__(self, distance, labels, directed, kind, theta=0.5):
        self.distance = distance = sealed(distance)  # as the library calls its kernels: one compilation for both
        self.directed, self.kind, self.theta = directed, kind, theta
        self.size_cost = regret_bound(np.arange(len(distance) + 1), 100, 1.0)
        self.log_factorial = np.array([math.lgamma(n + 1) for n in range(len(distance) + 1)])
        self.state = filled(distance, canonical_labels("test", labels, len(distance)), directed, kind)
        self.scratch = kernels.new_move(*distance.shape)
        self.fresh = kernels.new_state(len(distance), distance.shape[1], directed)

    @property
    def cost(self):
        return kernels.cost_of(self.state, self.size_cost, self.kind)

    def move(self, rng):
        """Propose and make a move; returns the cost foretold, or None for a proposal to stay."""
        source, target, k, _ = chain.propose(self.state, self.theta, self.log_factorial, rng)
        if k == 0:
            return None
        before = self.cost
        foretold = chain.cost_after(
            self.state, self.scratch, source, target, k, self.distance, self.directed, self.kind, self.size_cost
        )
        assert self.cost == before  # foretelling changes nothing
        kernels.make_move(self.state, self.scratch, source, target, k, self.directed)
        return foretold

    def check(self):
        """Hold the state against a fresh one of the same partition."""
        state, fresh = self.state, self.fresh
        labels = canonical_labels("test", state.label, len(self.distance))
        kernels.fill(fresh, sealed(labels), self.distance, self.directed, self.kind)
        assert state.counts[0] == fresh.counts[0]
        assert abs(self.cost - kernels.cost_of(fresh, self.size_cost, self.kind)) <= 1e-12
        if not self.directed:
            assert (state.far_value[0] == fresh.far_value[0]).all()
        for row in state.rows[: state.counts[0]]:
            members = kernels.members_of(state, row)
            same = fresh.label[members[0]]
            assert state.radius[row] == fresh.radius[same]
            if self.directed:
                assert (state.far_value[row] == fresh.far_value[same]).all()

    def check_books(self):
        """Every index of the state points back to where it came from, and witnesses attain their values."""
        state = self.state
        n_tasks = len(state.label)
        assert sorted(state.rows) == list(range(n_tasks))
        assert (state.rows[state.where] == np.arange(n_tasks)).all()
        active = state.rows[: state.counts[0]]
        assert state.size[active].sum() == n_tasks
        assert (state.size[active] > 0).all()
        for i in range(n_tasks):
            assert kernels.members_of(state, state.label[i])[state.slot[i]] == i
            assert state.slot[i] < state.size[state.label[i]]
        spans = sorted((state.first[row], state.first[row] + state.room[row]) for row in active)
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))  # no row reaches into another
        assert spans[-1][1] <= state.counts[1] <= len(state.pool)
        assert (state.size[active] <= state.room[active]).all()
        for row in active:
            members = kernels.members_of(state, row)
            for j in range(self.distance.shape[1]) if self.directed else members:
                at = row if self.directed else 0
                witness = state.far_member[at, j]
                assert witness in members
                assert self.distance[witness, j] == state.far_value[at, j]


def matrix_of(rng, directed, n_tasks, levels=None):
    if directed:
        return reference.random_directed(rng, n_tasks, n_tasks + int(rng.integers(-2, 3)), levels=levels)
    return reference.random_symmetric(rng, n_tasks, levels=levels)


@pytest.mark.parametrize(("kind", "directed"), CASES)
def test_the_incremental_cost_is_the_recomputed_one_after_each_of_3000_moves(rng, kind, directed):
    for levels, n_moves in ((None, 2000), (3, 1000)):
        distance = matrix_of(rng, directed, 14, levels)
        walker = Walker(distance, rng.integers(4, size=14), directed, kind, theta=0.3)
        made, sizes = 0, set()
        while made < n_moves:
            foretold = walker.move(rng)
            if foretold is None:
                continue
            made += 1
            assert abs(foretold - walker.cost) <= 1e-12
            walker.check()
            sizes.add(int(walker.state.counts[0]))
            if made % 100 == 0:
                walker.check_books()
                labels = walker.state.label.tolist()
                expected = reference.cost(distance, labels, 100, 1.0, reference.KINDS[kind], directed)
                assert abs(walker.cost - expected) <= 1e-12
        assert len(sizes) >= 5  # the walk has seen few cells and many


@given(
    st.sampled_from(CASES), st.integers(1, 6), st.integers(1, 6), st.integers(1, 3),
    st.integers(0, 2**32 - 1), st.floats(0.05, 5.0),
)  # fmt: skip
def test_after_any_moves_on_tied_matrices_the_state_is_right(case, n_tasks, n_columns, levels, drawn, theta):
    (kind, directed), rng = case, np.random.default_rng(drawn)
    if directed:
        distance = reference.random_directed(rng, n_tasks, n_columns, levels=levels)
    else:
        distance = reference.random_symmetric(rng, n_tasks, levels=levels)
    walker = Walker(distance, rng.integers(n_tasks, size=n_tasks), directed, kind, theta)
    for _ in range(60):
        foretold = walker.move(rng)
        if foretold is not None:
            assert abs(foretold - walker.cost) <= 1e-12
        walker.check()
        walker.check_books()
        labels = walker.state.label.tolist()
        expected = reference.cost(distance, labels, 100, 1.0, reference.KINDS[kind], directed)
        assert abs(walker.cost - expected) <= 1e-12


def test_a_stale_far_value_is_noticed(rng):
    """Negative control: one far value off, and the check fails."""
    for directed in (False, True):
        walker = Walker(matrix_of(rng, directed, 8), rng.integers(3, size=8), directed, kernels.AVERAGE)
        walker.check()
        walker.state.far_value[walker.state.rows[0] if directed else 0, 0] += 1e-6
        with pytest.raises(AssertionError):
            walker.check()


@pytest.mark.parametrize(("kind", "directed"), CASES)
def test_descent_never_raises_the_cost_and_ends_where_no_single_move_helps(rng, kind, directed):
    for _ in range(5):
        distance = matrix_of(rng, directed, 8)
        walker = Walker(distance, rng.integers(4, size=8), directed, kind)
        before = walker.cost
        around = (walker.state, walker.scratch, walker.distance, directed, kind, walker.size_cost)
        while any(local.descend(*around, first, first + 4) for first in (0, 4)):  # both halves, again and again
            assert walker.cost < before
        after = walker.cost
        assert after <= before
        walker.check()
        walker.check_books()
        labels = reference.canonical(walker.state.label)
        for i, cell in itertools.product(range(8), range(max(labels) + 2)):
            moved = (*labels[:i], cell, *labels[i + 1 :])
            cost = reference.cost(distance, moved, 100, 1.0, reference.KINDS[kind], directed)
            assert cost >= after - 1e-9


def test_threshold_cells_hold_all_that_is_in_reach_of_their_seed(rng):
    distance = sealed(reference.random_symmetric(rng, 12))
    order = rng.permutation(12)
    labels = local.threshold_labels(distance, order, 0.2, False)
    free = list(range(12))
    for cell in range(labels.max() + 1):
        seed = next(i for i in order if i in free)
        expected = [i for i in free if distance[i, seed] <= 0.2]
        assert np.flatnonzero(labels == cell).tolist() == expected
        free = [i for i in free if i not in expected]
    assert not free


def test_labels_are_renamed_in_the_order_of_their_first_tasks():
    assert canonical_labels("test", [5, -1, 5, 0, -1], 5).tolist() == [0, 1, 0, 2, 1]
    with pytest.raises(InvalidInputError, match="test: labels"):
        canonical_labels("test", [0, 1], 3)
