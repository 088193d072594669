"""Where episodes go: what a round may spend, which entries matter, and what is never forgotten."""

from __future__ import annotations

import numpy as np
import pytest
from seams import Returns

from pastmaster import Clustering, clustering_cost, policy_distance, search_clusterings
from pastmaster.clustering import Question
from pastmaster.errors import InvalidInputError
from pastmaster.estimation.allocation import Allocation, carried, evenly, gradient, parts, quick_labels
from pastmaster.estimation.cross_values import checked_question


def sampled(rng: np.random.Generator, U: np.ndarray, counts: np.ndarray, noise: float = 0.3) -> Returns:
    """Returns of entries with these means, the noise of an episode common to its row."""
    returns = Returns(np.zeros(U.shape, np.bool_), paired=True)
    shared = noise * rng.normal(size=(len(U), counts.max()))
    for i, j in np.ndindex(*U.shape):
        n = counts[i, j]
        returns.add(i, j, U[i, j] + shared[i, :n] + noise * rng.normal(size=n))
    return returns


def three_groups(rng: np.random.Generator) -> np.ndarray:
    """U of nine tasks in three groups: within one, a policy loses a little, outside all."""
    group = np.arange(9) // 3
    U = np.where(group[:, None] == group[None, :], 1.0 - 0.1 * rng.random((9, 9)), 0.0)
    U[np.arange(9), np.arange(9)] = 1.0
    return U


def test_the_gradient_is_that_of_the_cost(rng):
    for directed, paired in ((False, True), (True, True), (True, False)):
        question = Question(episodes=100, span=1.0, directed=directed)
        U = rng.random((7, 7)) + (0.5 if paired else 0.9) * np.eye(7)  # some are beaten by others' policies
        labels = np.array([0, 0, 1, 1, 1, 2, 2], np.int32)
        distance = policy_distance(U, directed=directed, paired=paired)
        cost = clustering_cost(distance, labels, episodes=100, span=1.0, directed=directed)
        slopes = gradient(
            question.about("test", distance), U, U.argmax(axis=1), labels, representatives(distance, labels, directed)
        )
        assert (slopes != 0).any()
        for i, j in np.ndindex(7, 7):
            moved = U.copy()
            moved[i, j] += 1e-7
            there = policy_distance(moved, directed=directed, paired=paired)
            there = clustering_cost(there, labels, episodes=100, span=1.0, directed=directed)
            assert (there - cost) / 1e-7 == pytest.approx(slopes[i, j], abs=1e-5)


def representatives(distance: np.ndarray, labels: np.ndarray, directed: bool) -> np.ndarray:
    kept = []
    for cell in range(labels.max() + 1):
        members = np.flatnonzero(labels == cell)
        centres = np.arange(distance.shape[1]) if directed else members
        kept.append(centres[np.argmin([distance[members, j].max() for j in centres])])
    return np.array(kept)


def test_a_policy_that_earns_what_the_pivot_earns_leaves_it_nothing_to_carry():
    slopes = np.array([[1.0, -1.0, 0.0]])
    assert carried(slopes, np.array([[0.0, 1.0, 0.3]]), np.array([0])).tolist() == [[0.0, -1.0, 0.0]]
    assert carried(slopes, np.array([[0.0, 0.0, 0.3]]), np.array([0])).tolist() == [[1.0, -1.0, 0.0]]


def test_parts_sum_to_one_or_are_nothing(rng):
    assert parts(rng.normal(size=(3, 4))).sum() == pytest.approx(1.0)
    assert not parts(np.zeros((2, 2))).any()


def test_a_plan_keeps_to_its_size_and_the_pivot_keeps_up(rng):
    U = three_groups(rng)
    returns = sampled(rng, U, np.full(U.shape, 4))
    allocation = Allocation(Question(100, 1.0), rng)
    allocation.look(returns, allocation.incumbent(returns, None))
    for size in (1, 8, 50, 333, 5000):
        plan = allocation.plan(returns, size)
        assert 0 < plan.sum() <= size
        after = returns.counts + plan
        claimed = plan > 0
        own = np.diagonal(after)[:, None] * np.ones(9)
        if size >= 50:
            assert (own >= after)[claimed & (plan > 8)].all()


def test_exact_entries_get_no_episodes(rng):
    exact = np.zeros((3, 3), np.bool_)
    exact[0] = True
    returns = Returns(exact, paired=True)
    for i, j in np.ndindex(3, 3):
        returns.add(i, j, np.array([1.0 * (i == j)]) if i == 0 else rng.random(4))
    allocation = Allocation(Question(100, 1.0), rng)
    allocation.look(returns, allocation.incumbent(returns, None))
    assert not allocation.plan(returns, 200)[0].any()
    assert evenly(returns, 13)[0].sum() == 0
    assert evenly(returns, 13).sum() == 13
    assert np.ptp(evenly(returns, 13)[1:]) == 1


def test_episodes_go_to_the_doubtful_pair_and_every_entry_has_its_turn(rng):
    """Task 2 may join task 0 or task 1, at nearly the same loss; task 3 is far from all."""
    U = np.zeros((4, 4))
    np.fill_diagonal(U, 1.0)
    U[2, 0], U[2, 1], U[0, 2], U[1, 2] = 0.80, 0.79, 1.0, 1.0
    returns = sampled(rng, U, np.full(U.shape, 64))
    allocation = Allocation(Question(n_clusters=3), rng)
    for _ in range(5):
        allocation.look(returns, allocation.incumbent(returns, None))
        plan = allocation.plan(returns, 200)
        for i, j in np.argwhere(plan).tolist():
            returns.add(i, j, U[i, j] + 0.3 * rng.normal(size=plan[i, j]))
    more = returns.counts - 64
    assert more[2, :3].sum() + more[:2, 2].sum() > 3 * more[3].sum()
    assert (more > 0).sum() >= 5


def test_a_wide_interval_claims_the_task_that_widens_it(rng):
    U = three_groups(rng)
    clustering = Clustering.from_labels(policy_distance(U, paired=True), np.arange(9) // 3)
    allocation = Allocation(Question(n_clusters=3), rng, claim=np.full((9, 9), 1 / 81))
    low, high = np.zeros(9), np.full(9, 0.0)
    high[4] = 0.5
    ahead = np.zeros((9, 9))
    allocation.look_at_width(clustering, low, high, ahead)
    middle = clustering.representatives[1]
    assert allocation.claim.sum() == pytest.approx(2.0)
    assert allocation.claim[4, middle] > 0.4
    assert allocation.claim[middle, 4] > 0.4
    ahead[4, 8] = 0.1  # may be the best policy of task 4
    allocation.look_at_width(clustering, low, high, ahead)
    assert allocation.claim[4, 8] > 0.4


def test_a_quick_search_finds_plain_groups(rng):
    U = three_groups(rng)
    distance = policy_distance(U, paired=True)
    for question in (Question(100, 1.0), Question(n_clusters=3), Question(max_radius=0.2)):
        labels = quick_labels(question.about("test", distance), [], rng, 2, 5_000)
        assert labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    found = search_clusterings(distance, episodes=100, span=1.0, rng=rng)
    assert Question(100, 1.0).about("test", distance).objective(found.labels) == found.cost


def test_a_task_out_of_reach_of_every_policy_is_alone():
    distance = np.array([[0.0, 0.5], [0.05, 0.5], [0.3, 0.2]])
    problem = Question(directed=True, max_radius=0.1).about("test", distance)
    assert quick_labels(problem, [], np.random.default_rng(0), 1, 10).tolist() == [0, 0, 1]
    assert problem.objective(np.array([0, 0, 1], np.int32)) > 2


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (7, "must be options of search_clusterings"),
        ({"certify": True}, "clustering has 'certify', must be of"),
        ({"directed": True}, "clustering: nothing is asked, must be one question: episodes and span"),
        (
            {"n_clusters": 2, "max_radius": 1.0, "directed": True},
            "clustering: n_clusters and max_radius are both given",
        ),
        ({"n_clusters": 5, "directed": True}, "clustering: n_clusters is 5, must be a whole number, in 1..3"),
        ({"episodes": -10, "directed": True}, "clustering: episodes is -10, must be a positive number"),
        ({"span": 1.0, "n_clusters": 2, "directed": True}, "clustering: episodes is None, must be given where span is"),
        ({"episodes": 10}, "must have 'directed': True"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(options, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        checked_question(options, Returns(np.zeros((4, 3), np.bool_), paired=False))
