"""The paper's hardness reduction, run: the cheapest max_diameter clustering is a minimum clique cover of a graph."""

from __future__ import annotations

import itertools

import clustering_reference as reference
import numpy as np
import pytest

from pastmaster import TabularMDP, cross_values, exhaustive_clustering, policy_distance, regret_bound

GAMMA = 0.9
H = 1.5  # the proof asks for h > 1


def random_graph(rng, n_vertices):
    edges = np.triu(rng.random((n_vertices, n_vertices)) < rng.choice([0.2, 0.5, 0.8]), 1)
    return edges | edges.T


def tasks_of(graph, penalty):
    """One state, one action to a vertex: in task i action j pays 0 if j is i or its neighbour, else -penalty.

    gamma is 0.9 and the episode never ends, so rewards are scaled by 1 - gamma: what is lost is the penalty itself.
    """
    n = len(graph)
    rewards = np.where(graph | np.eye(n, dtype=bool), 0.0, -penalty * (1 - GAMMA))
    return [TabularMDP(np.zeros((1, n), int), rewards[i : i + 1], gamma=GAMMA) for i in range(n)]


def is_clique(graph, vertices):
    return all(graph[i, j] for i, j in itertools.combinations(vertices, 2))


def fewest_cliques(graph):
    """The size of a minimum clique cover: over all partitions of the vertices, by brute force."""
    least = len(graph)
    for labels in reference.partitions(len(graph)):
        if max(labels) + 1 < least and all(is_clique(graph, members) for members in reference.cells(labels)):
            least = max(labels) + 1
    return least


def cover_of(graph, episodes, span, *, penalised=True):
    """The cheapest clustering of the graph's tasks; without the penalty's factor h M a negative control."""
    n = len(graph)
    g = regret_bound(n, episodes, span)
    tasks = tasks_of(graph, H * n * g if penalised else 1e-3 * g)
    U = cross_values(tasks, [np.array([j]) for j in range(n)])  # "always action j": a canonical optimum may be another
    distance = policy_distance(U, paired=True)
    return exhaustive_clustering(distance, episodes=episodes, span=span, kind="max_diameter"), distance


@pytest.mark.parametrize("n_vertices", [1, 2, 3, 4, 5, 6, 7])
def test_the_cheapest_clustering_is_a_minimum_clique_cover(rng, n_vertices):
    """The proof holds for any T and span, with the penalty h M g(M), h > 1: here 100 episodes and a span of 2.

    Its cost is then g of the number of cliques alone.
    """
    for _ in range(4):
        graph = random_graph(rng, n_vertices)
        found, distance = cover_of(graph, 100, 2.0)
        apart = ~(graph | np.eye(n_vertices, dtype=bool))
        penalty = H * n_vertices * regret_bound(n_vertices, 100, 2.0)
        np.testing.assert_allclose(distance, np.where(apart, penalty, 0.0), rtol=1e-9, atol=1e-9)
        assert all(is_clique(graph, found.members(cell)) for cell in range(found.n_clusters))
        assert found.n_clusters == fewest_cliques(graph)
        assert found.cost == pytest.approx(regret_bound(found.n_clusters, 100, 2.0), rel=1e-9)


def test_the_reduction_holds_for_any_episodes_and_span(rng):
    graph = random_graph(rng, 6)
    for episodes, span in itertools.product((1, 10_000), (0.01, 2100.0)):
        assert cover_of(graph, episodes, span)[0].n_clusters == fewest_cliques(graph)


def test_a_graph_of_eight_vertices_is_covered(rng):
    graph = random_graph(rng, 8)
    found, _ = cover_of(graph, 1000, 1.0)
    assert found.n_clusters == fewest_cliques(graph)
    assert all(is_clique(graph, found.members(cell)) for cell in range(found.n_clusters))


def test_with_too_small_a_penalty_cells_are_no_cliques():
    graph = np.zeros((5, 5), bool)
    graph[0, 1] = graph[1, 0] = True
    found, _ = cover_of(graph, 100, 2.0, penalised=False)
    assert fewest_cliques(graph) == 4
    assert found.n_clusters == 1
