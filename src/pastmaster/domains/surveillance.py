"""The surveillance domain of the paper, simple and complex.

A 48 x 48 grid with 16 groups of v-locations on a 4 x 4 lattice, group g = 4 i + j centred on (6 + 12 i, 6 + 12 j)
as (row, column). The simple domain has four v-locations to a group, the leaves at (+-2, +-2) from the centre; the
complex one adds a hub on the centre. A task is a sequence of one to four v-locations where the infiltrators will
appear. State = progress * 2304 + row * 48 + column; the agent starts at (24, 24) with progress 0.

Four moves (north, east, south, west; a wall stops one) and *surveil*. A move pays -1. Surveil pays 200 on the right
v-location and 190 on one that stands in for it; both advance the progress, and after the last the episode ends.
Anywhere else it pays -10 and the infiltrators escape: the episode ends, unless ``escape_ends`` is false. Any
v-location of a group stands in for another, but in the complex domain two leaves do not: only hub for leaf and leaf
for hub.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pastmaster.errors import InvalidInputError
from pastmaster.generators import checked_rng
from pastmaster.tasks.tabular import TabularMDP
from pastmaster.tasks.tabular_env import TabularEnv, paint

SIZE = 48
N_CELLS = SIZE * SIZE
START = 24 * SIZE + 24
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))
SURVEIL = 4
LEAVES = ((-2, -2), (-2, 2), (2, -2), (2, 2))
CAPTURE, STAND_IN, ESCAPE, STEP = 200.0, 190.0, -10.0, -1.0


def groups(complex: bool = False) -> npt.NDArray[np.int64]:
    """The v-location indices of each group, [16, 4], or [16, 5] with the hub first."""
    size = 5 if complex else 4
    return np.arange(16 * size).reshape(16, size)


def locations(complex: bool = False) -> npt.NDArray[np.int64]:
    """The grid cell (row * 48 + column) of each v-location, [64] or [80]."""
    offsets = ((0, 0), *LEAVES) if complex else LEAVES
    centres = itertools.product(range(6, SIZE, 12), repeat=2)
    return np.array([(row + up) * SIZE + column + left for row, column in centres for up, left in offsets])


def stand_ins(location: int, complex: bool = False) -> list[int]:
    """The other v-locations whose surveillance counts, at 190, where ``location`` is the right one."""
    (group,) = (g for g in groups(complex).tolist() if location in g)
    if complex and location != group[0]:
        return [group[0]]
    return [other for other in group if other != location]


def task(
    sequence: Sequence[int],
    complex: bool = False,
    *,
    gamma: float = 0.9,
    horizon: int | None = 200,
    escape_ends: bool = True,
) -> TabularMDP:
    """The task of surveilling ``sequence``, one to four v-location indices, in this order."""
    cells = locations(complex)
    sequence = _checked(sequence, len(cells))
    n_states = N_CELLS * len(sequence)
    next_state = np.empty((n_states, 5), np.int32)
    reward = np.full((n_states, 5), STEP)
    terminated = np.zeros((n_states, 5), np.bool_)
    for progress, location in enumerate(sequence):
        base = progress * N_CELLS
        next_state[base : base + N_CELLS] = _MOVED + base
        reward[base : base + N_CELLS, SURVEIL] = ESCAPE
        terminated[base : base + N_CELLS, SURVEIL] = escape_ends
        last = progress == len(sequence) - 1
        for counts, pays in ((stand_ins(location, complex), STAND_IN), ([location], CAPTURE)):
            states = base + cells[counts]
            reward[states, SURVEIL] = pays
            terminated[states, SURVEIL] = last
            next_state[states, SURVEIL] = states if last else states + N_CELLS
    params = {"sequence": list(sequence), "complex": complex, "escape_ends": escape_ends}
    name = ("complex surveillance " if complex else "surveillance ") + "-".join(map(str, sequence))
    return TabularMDP(
        next_state, reward, gamma=gamma, terminated=terminated, start=START, horizon=horizon, name=name, params=params
    )


def repository(
    n_tasks: int, n_targets: int, *, rng: np.random.Generator, n_sequences: int, complex: bool = False
) -> tuple[list[TabularMDP], npt.NDArray[np.int64]]:
    """Tasks that fall into ``n_sequences`` natural clusters, and each task's group sequence [n_tasks, n_targets].

    Draws ``n_sequences`` different sequences of different groups, then ``n_tasks`` different tasks whose v-locations
    lie in those groups in that order: one for each sequence, the rest at random among all there are.
    """
    checked_rng("repository", rng)
    for name, value in (("n_tasks", n_tasks), ("n_targets", n_targets), ("n_sequences", n_sequences)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise InvalidInputError(f"repository: {name} is {value!r}, must be a whole number")
    if not 1 <= n_targets <= 4:
        raise InvalidInputError(f"repository: n_targets is {n_targets}, must be in 1..4")
    orders = _orders(n_targets, n_sequences)
    per_sequence = groups(complex).shape[1] ** n_targets
    if not n_sequences <= n_tasks <= n_sequences * per_sequence:
        raise InvalidInputError(
            f"repository: n_tasks is {n_tasks}, must be in {n_sequences}..{n_sequences * per_sequence}: "
            f"at least one for each of {n_sequences} sequences, and no more than they have"
        )
    chosen = orders[rng.choice(len(orders), n_sequences, replace=False)]
    one_each = np.arange(n_sequences) * per_sequence + rng.integers(per_sequence, size=n_sequences)
    others = np.setdiff1d(np.arange(n_sequences * per_sequence), one_each)
    drawn = np.sort(np.concatenate([one_each, rng.choice(others, n_tasks - n_sequences, replace=False)]))
    found, group_sequences = _sequences(chosen, drawn, complex)
    return [task(sequence, complex) for sequence in found], group_sequences


def stream(n_tasks: int, n_targets: int, *, rng: np.random.Generator, n_sequences: int) -> list[TabularMDP]:
    """Tasks of ``n_sequences`` group sequences in random order: those of a longer stream begin with a shorter one's."""
    orders = _orders(n_targets, n_sequences)
    most = n_sequences * groups().shape[1] ** n_targets
    if n_tasks > most:
        raise InvalidInputError(f"stream: n_tasks is {n_tasks}, must be at most {most} of {n_sequences} sequences")
    chosen = orders[rng.choice(len(orders), n_sequences, replace=False)]
    return [task(sequence) for sequence in _sequences(chosen, rng.permutation(most)[:n_tasks], False)[0]]


def new_tasks(
    tasks: Sequence[TabularMDP],
    sequences: npt.NDArray[np.int64],
    count: int,
    *,
    rng: np.random.Generator,
    complex: bool = False,
) -> list[TabularMDP]:
    """``count`` different tasks of the group sequences that a ``repository`` was drawn from, in random order.

    They are none of its tasks, as long as there are others: where it holds all of a sequence, they come from it again.
    """
    checked_rng("new_tasks", rng)
    known, members = np.unique(sequences, axis=0), groups(complex)
    per_sequence = members.shape[1] ** known.shape[1]
    if not 1 <= count <= len(known) * per_sequence:
        raise InvalidInputError(f"new_tasks: count is {count}, must be in 1..{len(known) * per_sequence}")
    old = {tuple(task.params["sequence"]) for task in tasks}
    shuffled, _ = _sequences(known, rng.permutation(len(known) * per_sequence), complex)
    shuffled.sort(key=lambda sequence: tuple(sequence) in old)
    return [task(sequence, complex) for sequence in shuffled[:count]]


def _orders(n_targets: int, n_sequences: int) -> npt.NDArray[np.int64]:
    """All sequences of different groups, of which so many are to be drawn."""
    orders = np.array(list(itertools.permutations(range(16), n_targets)))
    if not 1 <= n_sequences <= len(orders):
        raise InvalidInputError(f"repository: n_sequences is {n_sequences}, must be in 1..{len(orders)}")
    return orders


def _sequences(
    chosen: npt.NDArray[np.int64], drawn: npt.NDArray[np.int64], complex: bool
) -> tuple[list[list[int]], npt.NDArray[np.int64]]:
    """The v-locations of these numbers among all that the chosen sequences have, with their group sequences."""
    members, n_targets = groups(complex), chosen.shape[1]
    of_sequence, within = np.divmod(drawn, members.shape[1] ** n_targets)
    picks = np.stack(np.unravel_index(within, (members.shape[1],) * n_targets), axis=1)
    group_sequences = chosen[of_sequence]
    return [members[g, m].tolist() for g, m in zip(group_sequences, picks, strict=True)], group_sequences


def _checked(sequence: Sequence[int], n_locations: int) -> list[int]:
    if not isinstance(sequence, Sequence | np.ndarray) or np.ndim(sequence) != 1:
        raise InvalidInputError(f"surveillance.task: sequence is {sequence!r}, must be 1 to 4 v-locations")
    sequence = list(sequence)
    if not 1 <= len(sequence) <= 4:
        raise InvalidInputError(f"surveillance.task: sequence has {len(sequence)} v-locations, must have 1 to 4")
    for i, location in enumerate(sequence):
        if isinstance(location, bool) or not isinstance(location, int | np.integer) or not 0 <= location < n_locations:
            raise InvalidInputError(
                f"surveillance.task: sequence[{i}] is {location!r}, must be a v-location in 0..{n_locations - 1}"
            )
    return [int(location) for location in sequence]


def _moved() -> npt.NDArray[np.int64]:
    """The cell each action leads to, [2304, 5]; surveil stays."""
    row, column = np.divmod(np.arange(N_CELLS), SIZE)
    ahead = [np.clip(row + down, 0, SIZE - 1) * SIZE + np.clip(column + right, 0, SIZE - 1) for down, right in MOVES]
    return np.stack([*ahead, np.arange(N_CELLS)], axis=1)


_MOVED = _moved()


class SurveillanceEnv(TabularEnv):
    """``gymnasium.make("pastmaster/Surveillance-v0", sequence=(5, 40))``: one task of the domain."""

    def __init__(
        self, sequence: Sequence[int] = (0,), complex: bool = False, render_mode: str | None = None, **settings: Any
    ) -> None:
        mdp = task(sequence, complex, **settings)
        super().__init__(mdp, render_mode, SurveillancePicture(mdp))


class SurveillancePicture:
    """The grid: v-locations blue, the next target red, what stands in for it orange, later targets violet."""

    def __init__(self, mdp: TabularMDP) -> None:
        self.sequence, self.complex = mdp.params["sequence"], mdp.params["complex"]

    def ansi(self, state: int) -> str:
        progress, cell = divmod(state, N_CELLS)
        text = np.full(N_CELLS, ".")
        text[locations(self.complex)] = "o"
        for mark, (cells, _) in self._special(progress).items():
            text[cells] = mark
        text[cell] = "A"
        rows = "\n".join(" ".join(row) for row in text.reshape(SIZE, SIZE))
        return (
            rows
            + f"\nprogress {progress} of {len(self.sequence)}: agent A, v-locations o, next X, stand-ins x, later +\n"
        )

    def rgb(self, state: int) -> npt.NDArray[np.uint8]:
        progress, cell = divmod(state, N_CELLS)
        image = np.full((N_CELLS, 3), 240)
        image[locations(self.complex)] = (110, 150, 210)
        for cells, colour in self._special(progress).values():
            image[cells] = colour
        return paint(image.reshape(SIZE, SIZE, 3), divmod(cell, SIZE))

    def _special(self, progress: int) -> dict[str, tuple[npt.NDArray[np.int64], tuple[int, int, int]]]:
        """The mark, cells and colour of what this task makes of some v-locations."""
        cells, target = locations(self.complex), self.sequence[progress]
        return {
            "+": (cells[self.sequence[progress + 1 :]], (150, 90, 190)),
            "x": (cells[stand_ins(target, self.complex)], (240, 160, 60)),
            "X": (cells[[target]], (205, 40, 40)),
        }
