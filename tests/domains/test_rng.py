from __future__ import annotations

import numpy as np
import pytest

from pastmaster import InvalidInputError
from pastmaster.domains import cart_pole, coloured_grid, surveillance, windy_corridor

DRAWN = {
    "cart_pole.family": lambda **rng: cart_pole.family(2, **rng),
    "coloured_grid.new_tasks": lambda **rng: coloured_grid.new_tasks(2, size=3, **rng),
    "surveillance.family": lambda **rng: surveillance.family(3, 1, n_sequences=2, **rng),
    "surveillance.stream": lambda **rng: surveillance.stream(3, 1, n_sequences=2, **rng),
    "surveillance.new_tasks": lambda **rng: surveillance.new_tasks([surveillance.task([5])], 2, **rng),
    "windy_corridor.new_tasks": lambda **rng: windy_corridor.new_tasks(2, **rng),
}


def named(tasks) -> list[str]:
    return [task.name for task in tasks]


@pytest.mark.parametrize("function", DRAWN)
def test_a_seed_is_the_generator_of_that_seed(function):
    draw = DRAWN[function]
    assert named(draw(rng=3)) == named(draw(rng=np.random.default_rng(3)))
    assert len(draw()) == len(draw(rng=None)) == len(draw(rng=3))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: windy_corridor.task(3, 0.5, gamma=2), r"windy_corridor\.task: gamma is 2, must be in \[0, 1\)"),
        (lambda: windy_corridor.family(horizon=1.5), r"windy_corridor\.family: horizon is 1\.5, must be"),
        (lambda: windy_corridor.new_tasks(1, corridor=0), r"windy_corridor\.new_tasks: corridor is 0, must be"),
        (lambda: windy_corridor.task(3, 0.5, terminating="no"), r"windy_corridor\.task: terminating is 'no', must be"),
        (lambda: coloured_grid.task((0, 1), size=1), r"coloured_grid\.task: size is 1, must be"),
        (lambda: coloured_grid.family([[0, 1], [0, 2]]), r"coloured_grid\.family: weights\[1, 1\] is 2, must be in"),
        (lambda: coloured_grid.new_tasks(2, gamma=1, horizon=None), r"coloured_grid\.new_tasks: gamma is 1, must be"),
        (
            lambda: surveillance.family(2, 1, n_sequences=1, gamma=1, horizon=None),
            r"surveillance\.family: gamma is 1, must be",
        ),
        (lambda: surveillance.new_tasks([], 1), r"surveillance\.new_tasks: tasks is empty, must hold"),
        (lambda: cart_pole.task("heavy", 1, 1), r"cart_pole\.task: gravity is 'heavy', must be a finite number"),
        (lambda: cart_pole.family(2, rng=0, gamma=2), r"cart_pole\.family: gamma is 2, must be in 0 \.\. 1"),
    ],
)
def test_errors_name_the_function_that_was_called(call, sentence):
    with pytest.raises(InvalidInputError, match=f"^{sentence}"):
        call()
