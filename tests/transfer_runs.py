"""Runs of ``transfer`` and what makes two of them the same."""

from __future__ import annotations

import numpy as np
from reference import random_mdp, random_policy

from pastmaster import QLearning, TabularMDP, decay, solve, transfer

LAKE = "FrozenLake-v1"


def assert_same_run(one, other):
    for name in ("returns", "arms", "eliminated_at", "clipped", "widened", "recommended"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
        assert getattr(one, name).dtype == getattr(other, name).dtype
    for mine, theirs in zip(one.selectors, other.selectors, strict=True):
        assert type(mine) is type(theirs)
        assert mine.to_dict() == theirs.to_dict()
        assert mine._rng.spawn(1)[0].random() == theirs._rng.spawn(1)[0].random()
    for mine, theirs in zip(one.learners, other.learners, strict=True):
        for name in ("Q", "visits", "own_episodes", "steps", "epsilons"):
            assert getattr(mine, name).tobytes() == getattr(theirs, name).tobytes()
        assert mine.rng.bit_generator.state == theirs.rng.bit_generator.state
        assert mine.rng.spawn(1)[0].random() == theirs.rng.spawn(1)[0].random()
        assert mine.Q.flags.writeable
        assert theirs.Q.flags.writeable


def compiled_trials(**settings):
    """A run on arrays, whose bounds are too narrow at first."""
    rng = np.random.default_rng(3)
    task = random_mdp(rng, 20, 3, 3, horizon=30)
    sources = [random_policy(rng, task) for _ in range(3)]
    chosen = {"learner": QLearning(step_size=decay(0.9, 20)), "on_violation": "widen", "bounds": (-0.2, 0.2)}
    return transfer(task, sources, episodes=300, trials=5, rng=np.random.default_rng(4), **(chosen | settings))


def plain_trials(**settings):
    """A run in a Gymnasium environment."""
    sources = [solve(TabularMDP.from_gymnasium(LAKE, 0.95)).policy, np.full((16, 4), 0.25)]
    chosen = {"task": LAKE, "episodes": 40, "bounds": (0, 1), "gamma": 0.95, "trials": 4}
    return transfer(sources=sources, rng=np.random.default_rng(5), **(chosen | settings))
