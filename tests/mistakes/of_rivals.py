"""Mistakes in calls of rivals and of opponents at poker."""

from __future__ import annotations

import numpy as np
from of_selectors import KNOWN, MADE, of_every_selector
from right import Call

import pastmaster as pm
from pastmaster.domains import leduc

RIVALS = (pm.BayesianPolicyReuse, pm.LatentUCB, pm.LatentThompson, pm.PolicyAdvice, pm.UCB1)
EVERY_RIVAL = [
    ({"n_sources": "x"}, "n_sources is 'x', must be a whole number, in 0..1000000"),
    ({"n_sources": 0}, "n_sources is 0, must be at least 1: it has no learner, and runs sources alone"),
    ({"episodes": "x"}, "episodes is 'x', must be a whole number, at least 1 (and < 1e12)"),
    ({"bounds": "x"}, "bounds is 'x', must be (lower, upper)"),
    ({"bounds": [[1.0, 2.0], [3.0]]}, "bounds is [[1.0, 2.0], [3.0]], must be finite, lower below"),
    ({"clip": "x"}, "clip is 'x', must be True or False"),
    ({"rng": "x"}, "rng is 'x', must be a seed (a whole number, at least 0), a numpy.random.Generator"),
]
WITH_EXPERIENCE = [
    ({"experience": "x"}, "experience: values has dtype <U1, must hold numbers"),
    ({"experience": -1}, "experience: values has shape (1,), must be [tasks, sources] with one task"),
    ({"noise": "x"}, "noise is 'x', must be a number, at least 1e-09"),
    ({"noise": -1}, "noise is -1, must be at least 1e-09"),
]

CALLS = {
    "BayesianPolicyReuse": Call(pm.BayesianPolicyReuse, lambda: MADE | KNOWN).refuses(
        *EVERY_RIVAL,
        *WITH_EXPERIENCE,
        (
            {"explore": "x"},
            "explore is 'x', must be one of 'probability-of-improvement', 'expected-improvement', 'thompson'",
        ),
        (
            {"explore": [[1.0, 2.0], [3.0]]},
            "explore is [[1.0, 2.0], [3.0]], must be one of 'probability-of-improvement',",
        ),
        ({"improvement": "x"}, "improvement is 'x', must be a number, at least 0"),
        ({"improvement": -1}, "improvement is -1, must be at least 0"),
    ),
    "LatentUCB": Call(pm.LatentUCB, lambda: MADE | KNOWN).refuses(
        *EVERY_RIVAL,
        *WITH_EXPERIENCE,
        ({"deviation": "x"}, "deviation is 'x', must be a number, at least 0"),
        ({"deviation": -1}, "deviation is -1, must be at least 0"),
    ),
    "LatentThompson": Call(pm.LatentThompson, lambda: MADE | KNOWN).refuses(
        *EVERY_RIVAL,
        *WITH_EXPERIENCE,
    ),
    "PolicyAdvice": Call(pm.PolicyAdvice, lambda: MADE).refuses(
        *EVERY_RIVAL,
        ({"delta": "x"}, "delta is 'x', must be a number, in 1e-300 .. 1"),
        ({"delta": -1}, "delta is -1, must be in 1e-300 .. 1"),
        ({"span_guess": "x"}, "span_guess is 'x', must be one of 'none', 'log'"),
    ),
    "UCB1": Call(pm.UCB1, lambda: MADE).refuses(
        *EVERY_RIVAL,
    ),
    "domains.leduc.opponent": Call(leduc.opponent, lambda: {"kind": "rock"}).refuses(
        (
            {"kind": "x"},
            "kind is 'x', must be one of 'rock', 'calling station', 'tight-aggressive', 'maniac', 'random',",
        ),
        (
            {"kind": [[1.0, 2.0], [3.0]]},
            "kind is [[1.0, 2.0], [3.0]], must be one of 'rock', 'calling station', 'tight-aggressive',",
        ),
        ({"rng": "x"}, "rng is 'x', must be a seed (a whole number, at least 0), a numpy.random.Generator"),
    ),
    "domains.leduc.task": Call(leduc.task, lambda: {"strategy": np.ones(288, int)}).refuses(
        ({"strategy": "x"}, "strategy is 'x', and there is no such file, must be a policy: pass"),
        (
            {"strategy": -1},
            "strategy is -1, a number, must be [288] integer actions or [288, 3] probabilities: if the list is",
        ),
        ({"name": 3}, "name is 3, must be a text"),
        ({"params": "x"}, "params is 'x', must be a mapping or None"),
    ),
    "domains.leduc.family": Call(leduc.family, lambda: {"n_opponents": 2}).refuses(
        ({"n_opponents": "x"}, "n_opponents is 'x', must be a whole number, in 1..1000000"),
        ({"rng": "x"}, "rng is 'x', must be a seed (a whole number, at least 0), a numpy.random.Generator"),
    ),
    "domains.leduc.new_tasks": Call(leduc.new_tasks, lambda: {"n_tasks": 1}).refuses(
        ({"n_tasks": "x"}, "n_tasks is 'x', must be a whole number, in 1..1000000"),
        ({"rng": "x"}, "rng is 'x', must be a seed (a whole number, at least 0), a numpy.random.Generator"),
    ),
} | {name: call for of in RIVALS for name, call in of_every_selector(of)}
