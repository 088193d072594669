"""Compiles the kernels of a fresh clone, once: workers of the tests that start together would each do so.

``make test`` runs this script twice side by side, each with some of the parts, and the type checker. What it leaves
out is compiled by the first test that needs it.

    python tests/compile_kernels.py [exact] [clustering] [reuse] [estimation]
"""

from __future__ import annotations

import sys

import numpy as np
from clustering_reference import random_symmetric
from reference import random_mdp, random_policy

from pastmaster import (
    GymTask,
    QLearning,
    TabularMDP,
    cross_values,
    decay,
    estimate_cross_values,
    evaluate,
    greedy_clustering,
    keep,
    return_bounds,
    return_spread,
    search_clusterings,
    solve,
    transfer,
)
from pastmaster.policies import NetworkPolicy

SETTING = {"episodes": 100, "span": 1.0}


def exact(rng: np.random.Generator) -> None:
    """Solving, values and bounds of tasks with and without chance, with and without an end."""
    for outcomes in (None, 3):
        for horizon in (None, 20):
            task = random_mdp(rng, 12, 3, outcomes, horizon=horizon)
            same = {"gamma": task.gamma, "probability": task.probability, "horizon": horizon}
            twin = TabularMDP(task.next_state, 2 * task.reward, terminated=task.terminated, start=task.start, **same)
            policies = [random_policy(rng, task, mixed=mixed) for mixed in (False, True)]
            for policy in (*policies, solve(task).policy):
                evaluate(task, policy)
            cross_values([task, twin], policies)
            cross_values([task])
            return_bounds(task)


def clustering(rng: np.random.Generator) -> None:
    """Searches and bounds."""
    distance = random_symmetric(rng, 12)
    for directed in (False, True):
        greedy_clustering(distance, **SETTING, directed=directed, rng=rng)
        for variant in ("default", "paper"):
            search_clusterings(
                distance,
                **SETTING,
                directed=directed,
                variant=variant,
                rng=rng,
                restarts=2,
                iterations=50,
                certify=True,
            )
    search_clusterings(distance, **SETTING, kind="worst", rng=rng, restarts=1, iterations=50)
    keep(rng.random((30, 12)), k=4, rng=rng)


def reuse(rng: np.random.Generator) -> None:
    """Episodes of every selector, on models with and without chance."""
    for outcomes in (None, 3):
        task = random_mdp(rng, 8, 3, outcomes, horizon=10)
        sources = [random_policy(rng, task, mixed=mixed) for mixed in (False, True)]
        for selector in ("exp3-transfer", "tsallis-inf", "regret-balancing", "ppr"):
            settings = {"bounds": (-0.2, 0.2), "on_violation": "widen", "selector": selector}
            transfer(task, sources, episodes=20, rng=rng, learner=QLearning(step_size=decay(0.9, 20)), **settings)
            transfer(task, [], episodes=5, rng=rng, **settings)
        bounds = {"bounds": (-0.2, 0.2), "on_violation": "widen"}
        transfer(task, sources, episodes=20, experience=rng.random((3, 2)), rng=rng, **bounds)
        return_spread([task], sources)


def estimation(rng: np.random.Generator) -> None:
    """Estimates from episodes, of networks and tables."""
    carts = [GymTask("pastmaster/CartPole-v0", {"gravity": gravity}, horizon=9) for gravity in (5.0, 9.0)]
    networks = [NetworkPolicy([(rng.normal(size=(2, 4)), np.zeros(2))]) for _ in range(2)]
    clustering = SETTING | {"directed": True, "restarts": 1, "iterations": 50}
    estimate_cross_values(carts, networks, budget=60, rng=rng, clustering=clustering)
    task = random_mdp(rng, 8, 3, 3, horizon=10)
    estimate_cross_values([task], [random_policy(rng, task)], budget=30, rng=rng, allocation="uniform")


if __name__ == "__main__":
    parts = {part.__name__: part for part in (exact, clustering, reuse, estimation)}
    for name in sys.argv[1:] or parts:
        parts[name](np.random.default_rng(0))
