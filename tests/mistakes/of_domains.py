"""Mistakes in calls that make the tasks of our domains."""

from __future__ import annotations

import math
from functools import partial

from right import Call, each

from pastmaster import domains

s, g, w, c = domains.surveillance, domains.coloured_grid, domains.windy_corridor, domains.cart_pole
MANY = {"n_tasks": 2, "n_targets": 1, "n_sequences": 2, "rng": 0}
WATCHED = [s.task([0]), s.task([1])]
SIZES = [
    *each("size", [1, 0, -3, 2.5, None, 3001], "is ..., must be a whole number, in 2..3000"),
    ({"size": "x"}, "size is 'x', must be a whole number, in 2..3000"),
    ({"seed": "x"}, "seed is 'x', must be a whole number, in"),
]

CALLS = {
    "domains.surveillance.groups": Call(s.groups, dict).refuses(
        ({"complex": "x"}, "complex is 'x', must be True or False"),
    ),
    "domains.surveillance.locations": Call(s.locations, dict).refuses(
        ({"complex": "x"}, "complex is 'x', must be True or False"),
    ),
    "domains.surveillance.stand_ins": Call(s.stand_ins, lambda: {"location": 3}).refuses(
        ({"location": "x"}, "location is 'x', must be a whole number, in 0..63"),
    ),
    "domains.surveillance.task": Call(s.task, lambda: {"sequence": [3, 4]}).refuses(
        ({"sequence": []}, "sequence has 0 v-locations, must have 1 to 4"),
        ({"sequence": [0, 1, 2, 3, 4]}, "sequence has 5 v-locations, must have 1 to 4"),
        ({"sequence": [5, 64]}, "sequence[1] is 64, must be a whole number, in 0..63"),
        ({"sequence": [5, 80], "complex": True}, "sequence[1] is 80, must be a whole number, in"),
        ({"sequence": [-1]}, "sequence[0] is -1, must be a whole number, in 0..63"),
        ({"sequence": [1.0]}, "sequence[0] is 1.0, must be a whole number, in 0..63"),
        ({"sequence": ["a"]}, "sequence[0] is 'a', must be a whole number, in 0..63"),
        ({"sequence": "x"}, "sequence is 'x', must be 1 to 4 v-locations"),
        ({"sequence": [[1.0, 2.0], [3.0]]}, "sequence[0] is [1.0, 2.0], must be a whole number, in 0..63"),
        ({"complex": "x"}, "complex is 'x', must be True or False"),
        ({"gamma": "x"}, "gamma is 'x', must be in [0, 1), or 1 with a horizon"),
        ({"horizon": "x"}, "horizon is 'x', must be a positive number of steps or None, below 2^31"),
        ({"escape_ends": "x"}, "escape_ends is 'x', must be True or False"),
    ),
    "domains.surveillance.family": Call(s.family, lambda: MANY).refuses(
        *each("n_targets", [0, 5], "is ..., must be a whole number, in 1..4"),
        *each("n_tasks", [0, 33], "is ..., must be a whole number, in 2.."),
        ({"n_tasks": "x"}, "n_tasks is 'x', must be a whole number, in 2..8"),
        ({"n_targets": "x"}, "n_targets is 'x', must be a whole number, in 1..4"),
        ({"n_sequences": "x"}, "n_sequences is 'x', must be a whole number, in 1..16"),
        ({"rng": "x"}, "rng is 'x', must be a seed (a whole number, at least 0), a numpy.random.Generator"),
        ({"complex": "x"}, "complex is 'x', must be True or False"),
    ),
    "domains.surveillance.stream": Call(s.stream, lambda: MANY).refuses(
        ({"n_tasks": "x"}, "n_tasks is 'x', must be a whole number, in 1..8"),
        ({"n_targets": "x"}, "n_targets is 'x', must be a whole number, in 1..4"),
        ({"n_sequences": "x"}, "n_sequences is 'x', must be a whole number, in 1..16"),
        ({"rng": "x"}, "rng is 'x', must be a seed (a whole number, at least 0), a numpy.random.Generator"),
        ({"complex": "x"}, "complex is 'x', must be True or False"),
    ),
    "domains.surveillance.new_tasks": Call(s.new_tasks, lambda: {"tasks": WATCHED, "n_tasks": 1}).refuses(
        ({"tasks": "x"}, "tasks is 'x', must be a list"),
        ({"tasks": [[1.0, 2.0], [3.0]]}, "tasks[0] is a list, must be a TabularMDP"),
        ({"n_tasks": "x"}, "n_tasks is 'x', must be a whole number, in 1..4"),
        ({"rng": "x"}, "rng is 'x', must be a seed (a whole number, at least 0), a numpy.random.Generator"),
    ),
    "domains.surveillance.group_sequences": Call(s.group_sequences, lambda: {"tasks": WATCHED}).refuses(
        ({"tasks": "x"}, "tasks is 'x', must be a list"),
        ({"tasks": [[1.0, 2.0], [3.0]]}, "tasks[0] is a list, must be a TabularMDP"),
    ),
    "domains.coloured_grid.family": Call(g.family, lambda: {"weights": [[1.0, 0.5]], "size": 3}).refuses(
        ({"weights": [0.1, 0.2]}, "weights has shape (2,), must be [N, 2]"),
        ({"weights": [[0.1], [0.2]]}, "weights has shape (2, 1), must be [N, 2]"),
        ({"weights": [[0.1, 0.2, 0.3]]}, "weights has shape (1, 3), must be [N, 2]"),
        ({"weights": [[0.1, 0.2], [0.3]]}, "weights is ragged, must have rows of one length"),
        ({"weights": 0.5}, "weights has shape (), must be [N, 2]"),
        *SIZES,
        ({"weights": "x"}, "weights has dtype <U1, must hold numbers"),
        ({"weights": -1}, "weights has shape (), must be [N, 2]"),
        ({"gamma": "x"}, "gamma is 'x', must be in [0, 1), or 1 with a horizon"),
        ({"horizon": "x"}, "horizon is 'x', must be a positive number of steps or None, below 2^31"),
    ),
    "domains.coloured_grid.new_tasks": Call(partial(g.new_tasks, size=3), lambda: {"n_tasks": 2}).refuses(
        *each("n_tasks", [0, 2.5, True], "is ..., must be a whole number"),
        ({"n_tasks": "x"}, "n_tasks is 'x', must be a whole number, at least 1 (and < 1e12)"),
        ({"rng": "x"}, "rng is 'x', must be a seed (a whole number, at least 0), a numpy.random.Generator"),
    ),
    "domains.coloured_grid.task": Call(g.task, lambda: {"weights": (0.2, 0.9), "size": 3}).refuses(
        ({"weights": [0.5]}, "weights is [0.5], must be two numbers in [0, 1]"),
        ({"weights": [0.1, 0.2, 0.3]}, "weights is [0.1, 0.2, 0.3], must be two numbers in [0, 1]"),
        ({"weights": [-0.1, 0.5]}, "weights is [-0.1, 0.5], must be two numbers in [0, 1]"),
        ({"weights": [0.5, 1.1]}, "weights is [0.5, 1.1], must be two numbers in [0, 1]"),
        ({"weights": [math.nan, 0.5]}, "weights is [nan, 0.5], must be two numbers in [0, 1]"),
        ({"weights": 0.5}, "weights is 0.5, must be two numbers in [0, 1]"),
        ({"weights": ["a", "b"]}, "weights has dtype <U1, must hold numbers"),
        ({"weights": [[0.1], [0.2, 0.3]]}, "weights is ragged, must have rows of one length"),
        *SIZES,
        ({"weights": "x"}, "weights has dtype <U1, must hold numbers"),
        ({"weights": -1}, "weights is -1, must be two numbers in [0, 1]"),
        ({"gamma": "x"}, "gamma is 'x', must be in [0, 1), or 1 with a horizon"),
        ({"horizon": "x"}, "horizon is 'x', must be a positive number of steps or None, below 2^31"),
    ),
    "domains.coloured_grid.colours": Call(g.colours, lambda: {"size": 3}).refuses(
        *SIZES,
    ),
    "domains.windy_corridor.new_tasks": Call(w.new_tasks, lambda: {"n_tasks": 2}).refuses(
        *each("n_tasks", [0, 2.5, True], "is ..., must be a whole number"),
        ({"n_tasks": "x"}, "n_tasks is 'x', must be a whole number, at least 1 (and < 1e12)"),
        ({"rng": "x"}, "rng is 'x', must be a seed (a whole number, at least 0), a numpy.random.Generator"),
    ),
    "domains.windy_corridor.task": Call(w.task, lambda: {"goal": 3, "wind": 0.25}).refuses(
        *each("goal", [10, 2.5], "is ..., must be a whole number, in 0..9"),
        *each("wind", [1.1, math.nan], "is ..., must be in 0 .. 1"),
        *each("corridor", [0, 2.5], "is ..., must be a whole number, in 1..100000"),
        ({"gamma": 1, "horizon": None}, "gamma is 1, must be in [0, 1), or 1 with a horizon"),
        ({"horizon": 0}, "horizon is 0, must be a positive number of steps or None"),
        ({"goal": "x"}, "goal is 'x', must be a whole number, in 0..9"),
        ({"wind": "x"}, "wind is 'x', must be a number, in 0 .. 1"),
        ({"wind": -1}, "wind is -1, must be in 0 .. 1"),
        ({"corridor": "x"}, "corridor is 'x', must be a whole number, in 1..100000"),
        ({"gamma": "x"}, "gamma is 'x', must be in [0, 1), or 1 with a horizon"),
        ({"horizon": "x"}, "horizon is 'x', must be a positive number of steps or None, below 2^31"),
        ({"terminating": "x"}, "terminating is 'x', must be True or False"),
    ),
    "domains.cart_pole.family": Call(c.family, lambda: {"n_tasks": 1}).refuses(
        *each("n_tasks", [0, 2.5, True], "is ..., must be a whole number"),
        ({"n_tasks": "x"}, "n_tasks is 'x', must be a whole number, at least 1 (and < 1e12)"),
        ({"rng": "x"}, "rng is 'x', must be a seed (a whole number, at least 0), a numpy.random.Generator"),
        ({"gamma": "x"}, "gamma is 'x', must be a number, in 0 .. 1"),
        ({"gamma": -1}, "gamma is -1, must be in 0 .. 1"),
        ({"horizon": "x"}, "horizon is 'x', must be a whole number, in 1..500"),
    ),
    "domains.cart_pole.task": Call(c.task, lambda: {"gravity": 9.8, "length": 0.5, "force_mag": 10.0}).refuses(
        ({"gravity": "x"}, "gravity is 'x', must be a finite number"),
        ({"gravity": -1}, "... cannot be made with ... CartPole: gravity is -1.0, must be a number above 0"),
        ({"length": "x"}, "length is 'x', must be a finite number"),
        ({"length": -1}, "... cannot be made with ... CartPole: length is -1.0, must be a number above 0"),
        ({"force_mag": "x"}, "force_mag is 'x', must be a finite number"),
        ({"force_mag": 0}, "... cannot be made with ... CartPole: force_mag is 0.0, must be a number other"),
        ({"gamma": "x"}, "gamma is 'x', must be a number, in 0 .. 1"),
        ({"gamma": -1}, "gamma is -1, must be in 0 .. 1"),
        ({"horizon": "x"}, "horizon is 'x', must be a whole number, in 1..500"),
    ),
}
