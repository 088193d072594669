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
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pastmaster.checks import called_as, flag, listed, whole
from pastmaster.domains.grid import moved, text
from pastmaster.errors import InvalidInputError
from pastmaster.generators import Rng, checked_rng
from pastmaster.tasks.tabular import TabularMDP, check_alike
from pastmaster.tasks.tabular_env import TabularEnv, paint

SIZE = 48
N_CELLS = SIZE * SIZE
START = 24 * SIZE + 24
SURVEIL = 4
LEAVES = ((-2, -2), (-2, 2), (2, -2), (2, 2))
CAPTURE = 200.0
STAND_IN = 190.0
ESCAPE = -10.0
STEP = -1.0
MOVED = np.column_stack([moved(SIZE, SIZE), np.arange(N_CELLS)])  # the cell each action leads to; surveil stays


def groups(complex: bool = False) -> npt.NDArray[np.int64]:
    """The v-location indices of each group, [16, 4], or [16, 5] with the hub first."""
    size = 5 if flag("surveillance.groups", "complex", complex) else 4
    return np.arange(16 * size).reshape(16, size)


def locations(complex: bool = False) -> npt.NDArray[np.int64]:
    """The grid cell (row * 48 + column) of each v-location, [64] or [80]."""
    offsets = ((0, 0), *LEAVES) if flag("surveillance.locations", "complex", complex) else LEAVES
    centres = itertools.product(range(6, SIZE, 12), repeat=2)
    return np.array([(row + up) * SIZE + column + left for row, column in centres for up, left in offsets])


def stand_ins(location: int, complex: bool = False) -> list[int]:
    """The other v-locations whose surveillance counts, at 190, where ``location`` is the right one."""
    members = groups(complex)
    place = whole("surveillance.stand_ins", "location", location, at_least=0, at_most=members.size - 1)
    group = members[place // members.shape[1]].tolist()
    if complex and location != group[0]:
        return [group[0]]
    return [other for other in group if other != location]


@called_as("surveillance.task")
def task(
    sequence: Sequence[int],
    complex: bool = False,
    *,
    gamma: float = 0.9,
    horizon: int | None = 200,
    escape_ends: bool = True,
) -> TabularMDP:
    """One task of the domain.

    Parameters
    ----------
    sequence, complex
        One to four v-locations to surveil, in this order, and whether groups have a hub.
    gamma, horizon, escape_ends
        The discount, the step cap of an episode (None: no cap), and whether surveilling a wrong place ends it.

    Examples
    --------
    >>> task([5, 40]).n_states
    4608
    """
    escape_ends = flag("surveillance.task", "escape_ends", escape_ends)
    complex = flag("surveillance.task", "complex", complex)
    cells = locations(complex)
    sequence = _checked(sequence, len(cells))
    n_states = N_CELLS * len(sequence)
    next_state = np.empty((n_states, 5), np.int32)
    reward = np.full((n_states, 5), STEP)
    terminated = np.zeros((n_states, 5), np.bool_)
    for progress, location in enumerate(sequence):
        base = progress * N_CELLS
        next_state[base : base + N_CELLS] = MOVED + base
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
        next_state,
        reward,
        gamma=gamma,
        terminated=terminated,
        start=START,
        horizon=horizon,
        name=name,
        params=params,
    )


@called_as("surveillance.family")
def family(
    n_tasks: int,
    n_targets: int,
    *,
    n_sequences: int,
    rng: Rng = None,
    complex: bool = False,
    **settings: Any,
) -> list[TabularMDP]:
    """``n_tasks`` different tasks in natural clusters, which ``group_sequences`` tells.

    Draws ``n_sequences`` different sequences of ``n_targets`` different groups, then tasks whose v-locations lie in
    those groups in that order: one for each sequence, the rest at random among all there are. The settings are those
    of ``task``.

    Examples
    --------
    >>> tasks = family(3, 2, rng=np.random.default_rng(0), n_sequences=2)
    >>> [task.params["sequence"] for task in tasks], group_sequences(tasks).tolist()
    ([[52, 33], [53, 32], [41, 8]], [[13, 8], [13, 8], [10, 2]])
    """
    caller = "surveillance.family"
    rng = checked_rng(caller, rng)
    chosen, most = _drawn(caller, n_tasks, n_targets, rng, n_sequences, complex, n_sequences)
    per_sequence = most // n_sequences
    one_each = np.arange(n_sequences) * per_sequence + rng.integers(per_sequence, size=n_sequences)
    others = np.setdiff1d(np.arange(most), one_each)
    numbers = np.sort(np.concatenate([one_each, rng.choice(others, n_tasks - n_sequences, replace=False)]))
    return [task(sequence, complex, **settings) for sequence in _members(chosen, numbers, complex)]


@called_as("surveillance.stream")
def stream(
    n_tasks: int,
    n_targets: int,
    *,
    n_sequences: int,
    rng: Rng = None,
    complex: bool = False,
    **settings: Any,
) -> list[TabularMDP]:
    """Tasks as of ``family``, in random order: a longer stream of the same generator begins with a shorter one."""
    caller = "surveillance.stream"
    rng = checked_rng(caller, rng)
    chosen, most = _drawn(caller, n_tasks, n_targets, rng, n_sequences, complex, 1)
    return [task(s, complex, **settings) for s in _members(chosen, rng.permutation(most)[:n_tasks], complex)]


@called_as("surveillance.new_tasks")
def new_tasks(tasks: Iterable[TabularMDP], n_tasks: int, *, rng: Rng = None) -> list[TabularMDP]:
    """``n_tasks`` other tasks of the family that ``tasks`` are of, in random order, with the same settings.

    Their group sequences are those of ``tasks``. Where there are not enough others, some of ``tasks`` come again.

    Examples
    --------
    >>> tasks = [task([0, 7]), task([1, 6])]
    >>> [task.params["sequence"] for task in new_tasks(tasks, 2, rng=np.random.default_rng(0))]
    [[0, 6], [2, 7]]
    """
    caller = "surveillance.new_tasks"
    old = listed(tasks, f"{caller}: tasks")
    known = np.unique(group_sequences(old), axis=0)
    settings = old[0].params
    complex = settings["complex"]
    most = len(known) * groups(complex).shape[1] ** known.shape[1]
    n_tasks = whole(caller, "n_tasks", n_tasks, at_least=1, at_most=most)
    found = _members(known, checked_rng(caller, rng).permutation(most), complex)
    met = {tuple(one.params["sequence"]) for one in old}
    found.sort(key=lambda sequence: tuple(sequence) in met)
    capped = {
        "gamma": old[0].gamma,
        "horizon": old[0].horizon,
        "escape_ends": settings["escape_ends"],
    }
    return [task(sequence, complex, **capped) for sequence in found[:n_tasks]]


def group_sequences(tasks: Iterable[TabularMDP]) -> npt.NDArray[np.int64]:
    """The groups in which the v-locations of each task lie, [N, n_targets]: tasks with equal rows are alike."""
    caller = "surveillance.group_sequences"
    found = listed(tasks, f"{caller}: tasks")
    check_alike(found, caller)
    for index, one in enumerate(found):
        if "sequence" not in one.params:
            raise InvalidInputError(f"{caller}: tasks[{index}] is {one}, must be a task of this domain")
    return np.array([np.array(one.params["sequence"]) // (5 if one.params["complex"] else 4) for one in found])


def _drawn(
    caller: str,
    n_tasks: int,
    n_targets: int,
    rng: np.random.Generator,
    n_sequences: int,
    complex: bool,
    fewest: int,
) -> tuple[npt.NDArray[np.int64], int]:
    """Different sequences of different groups [n_sequences, n_targets], and how many tasks they have."""
    n_targets = whole(caller, "n_targets", n_targets, at_least=1, at_most=4)
    orders = np.array(list(itertools.permutations(range(16), n_targets)))
    n_sequences = whole(caller, "n_sequences", n_sequences, at_least=1, at_most=len(orders))
    most = n_sequences * groups(complex).shape[1] ** n_targets
    whole(caller, "n_tasks", n_tasks, at_least=fewest, at_most=most)
    return orders[rng.choice(len(orders), n_sequences, replace=False)], most


def _members(chosen: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64], complex: bool) -> list[list[int]]:
    """The v-locations of the tasks with these numbers among all that the chosen group sequences have."""
    members = groups(complex)
    n_targets = chosen.shape[1]
    of_sequence, within = np.divmod(numbers, members.shape[1] ** n_targets)
    picks = np.stack(np.unravel_index(within, (members.shape[1],) * n_targets), axis=1)
    found: list[list[int]] = members[chosen[of_sequence], picks].tolist()
    return found


def _checked(sequence: Any, n_locations: int) -> list[int]:
    """One to four v-locations."""
    caller = "surveillance.task"
    given = listed(sequence, f"{caller}: sequence", "1 to 4 v-locations")
    if not 1 <= len(given) <= 4:
        raise InvalidInputError(f"{caller}: sequence has {len(given)} v-locations, must have 1 to 4")
    return [
        whole(caller, f"sequence[{i}]", location, at_least=0, at_most=n_locations - 1)
        for i, location in enumerate(given)
    ]


class SurveillanceEnv(TabularEnv):
    """``gymnasium.make("pastmaster/Surveillance-v0", sequence=(5, 40))``: one task of the domain."""

    def __init__(
        self,
        sequence: Sequence[int] = (0,),
        complex: bool = False,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        mdp = task(sequence, complex, **settings)
        super().__init__(mdp, render_mode, SurveillancePicture(mdp))


class SurveillancePicture:
    """The grid: v-locations blue, the next target red, what stands in for it orange, later targets violet."""

    def __init__(self, mdp: TabularMDP) -> None:
        self.sequence = mdp.params["sequence"]
        self.complex = mdp.params["complex"]

    def ansi(self, state: int) -> str:
        progress, cell = divmod(state, N_CELLS)
        letters = np.full(N_CELLS, ".")
        letters[locations(self.complex)] = "o"
        for mark, (cells, _) in self._special(progress).items():
            letters[cells] = mark
        letters[cell] = "A"
        legend = "agent A, v-locations o, next X, stand-ins x, later +"
        return text(letters.reshape(SIZE, SIZE), f"progress {progress} of {len(self.sequence)}: {legend}")

    def rgb(self, state: int) -> npt.NDArray[np.uint8]:
        progress, cell = divmod(state, N_CELLS)
        image = np.full((N_CELLS, 3), 240)
        image[locations(self.complex)] = (110, 150, 210)
        for cells, colour in self._special(progress).values():
            image[cells] = colour
        return paint(image.reshape(SIZE, SIZE, 3), divmod(cell, SIZE))

    def _special(self, progress: int) -> dict[str, tuple[npt.NDArray[np.int64], tuple[int, int, int]]]:
        """The mark, cells and colour of what this task makes of some v-locations."""
        cells = locations(self.complex)
        target = self.sequence[progress]
        return {
            "+": (cells[self.sequence[progress + 1 :]], (150, 90, 190)),
            "x": (cells[stand_ins(target, self.complex)], (240, 160, 60)),
            "X": (cells[[target]], (205, 40, 40)),
        }
