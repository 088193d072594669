"""Compiled loops over partitions: a partition that knows its radii, and what a move does to them.

A ``State`` holds one partition of the N tasks into cells, each cell a row of members in ``pool``:

    label[i]      the row of task i's cell               slot[i]     i's place in that row
    first[r]      where row r begins in ``pool``         size[r]     its members; room[r]: how many it has room for
    rows          active rows first, then free ones      where[r]    the place of row r in ``rows``
    radius[r]     min over centres, largest distance     spread[r]   what the cell adds to the cost, times N
    far_value, far_member   what keeps moves cheap (below)
    counts        the number of cells, c; where the free end of ``pool`` begins

A row that grows beyond its room moves to the free end, with twice the room. Where that is too short, all are moved
together first: 4 N places are always enough.

Symmetric distances: the centres are the members; far_value[0, i] is member i's largest distance to its cell
(its eccentricity), far_member[0, i] a task at that distance. Directed distances: the centres are all M columns;
far_value[r, j] is the largest D[i, j] over the members i of cell r, far_member[r, j] a task that attains it.
A move of k tasks between two cells then costs O(k * cell): only where a witness leaves is a maximum taken again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pastmaster.compiled import inlined, kernel

AVERAGE, WORST, MAX_DIAMETER = 0, 1, 2


class State(NamedTuple):
    """A partition with its radii; see the module's head."""

    label: Any
    slot: Any
    pool: Any
    first: Any
    room: Any
    size: Any
    rows: Any
    where: Any
    radius: Any
    spread: Any
    counts: Any
    far_value: Any
    far_member: Any


class Move(NamedTuple):
    """Where a move is worked out before it is made: the new far values of the cell left and of the cell joined."""

    left_value: Any
    left_member: Any
    joined_value: Any
    joined_member: Any
    open: Any  # columns whose maximum is taken again
    result: Any  # radius and spread of the cell left, radius and spread of the cell joined


def new_state(n_tasks: int, n_columns: int, directed: bool) -> State:
    """Room for a partition; ``fill`` makes it one."""
    rows = n_tasks if directed else 1
    columns = n_columns if directed else n_tasks
    integers = (np.empty(n_tasks, np.int32) for _ in range(5))
    label, slot, size, order, where = integers
    return State(
        label, slot, np.empty(4 * n_tasks, np.int32), np.empty(n_tasks, np.int64), np.empty(n_tasks, np.int64), size,
        order, where, np.zeros(n_tasks), np.zeros(n_tasks), np.zeros(2, np.int64),
        np.empty((rows, columns)), np.empty((rows, columns), np.int32),
    )  # fmt: skip


def new_move(n_tasks: int, n_columns: int) -> Move:
    """Room to work out a move."""
    width = max(n_tasks, n_columns)
    values, members = (np.empty((2, width), kind) for kind in (np.float64, np.int32))
    return Move(values[0], members[0], values[1], members[1], np.empty(width, np.int32), np.empty(4))


@kernel
def overwrite(target, source):
    """target[:] = source; the loop compiles fifty times as fast as that line."""
    for i in range(len(target)):
        target[i] = source[i]


@kernel
def fill(state, labels, distance, directed, kind):
    """Make ``state`` the partition given by ``labels`` (0 .. c - 1)."""
    n_tasks = len(labels)
    for r in range(n_tasks):
        state.size[r], state.rows[r], state.where[r], state.radius[r], state.spread[r] = 0, r, r, 0.0, 0.0
        state.room[r] = 0
    c = 0
    for i in range(n_tasks):
        state.room[labels[i]] += 1
        c = max(c, labels[i] + 1)
    place = 0
    for r in range(n_tasks):
        state.first[r] = place
        place += state.room[r]
    for i in range(n_tasks):
        r = labels[i]
        state.label[i], state.slot[i], state.pool[state.first[r] + state.size[r]] = r, state.size[r], i
        state.size[r] += 1
    state.counts[0], state.counts[1] = c, n_tasks
    for r in range(c):
        measure(state, r, distance, directed, kind)


@inlined
def members_of(state, r):
    """The members of cell r."""
    return state.pool[state.first[r] : state.first[r] + state.size[r]]


@kernel
def make_room(state, r, needed):
    """Let row r have room for so many members."""
    if needed <= state.room[r]:
        return
    if state.counts[1] + 2 * needed > len(state.pool):
        old = np.empty(len(state.pool), state.pool.dtype)
        overwrite(old, state.pool)
        place = 0
        for at in range(len(state.rows)):
            row = state.rows[at]
            for member in range(state.size[row]):
                state.pool[place + member] = old[state.first[row] + member]
            state.first[row], state.room[row] = place, state.size[row]
            place += state.size[row]
        state.counts[1] = place
    place = state.counts[1]
    for member in range(state.size[r]):
        state.pool[place + member] = state.pool[state.first[r] + member]
    state.first[r], state.room[r] = place, 2 * needed
    state.counts[1] = place + 2 * needed


@kernel
def measure(state, r, distance, directed, kind):
    """Work out the far values, radius and spread of cell ``r`` from its members."""
    members = members_of(state, r)
    smallest, total = np.inf, 0.0
    if directed:
        value, member = state.far_value[r], state.far_member[r]
        for j in range(distance.shape[1]):
            value[j], member[j] = -1.0, -1
        for i in members:
            take_in(value, member, distance[i], i)
        for j in range(distance.shape[1]):
            smallest = min(smallest, value[j])
            total += value[j]
    else:
        for j in members:
            farthest, witness = -1.0, -1
            for i in members:
                if distance[j, i] > farthest:
                    farthest, witness = distance[j, i], i
            state.far_value[0, j], state.far_member[0, j] = farthest, witness
            smallest = min(smallest, farthest)
            total += farthest
    state.radius[r] = smallest
    state.spread[r] = spread_of(smallest, total, len(members), kind)


@inlined
def take_in(value, member, row, i):
    """Raise column maxima to a task's row of distances: rows lie together in memory, columns do not."""
    for j in range(len(row)):
        if row[j] > value[j]:
            value[j], member[j] = row[j], i


@inlined
def spread_of(radius, total, size, kind):
    """A cell's share of the cost: size * radius, its radius, or the sum of its members' eccentricities."""
    return size * radius if kind == AVERAGE else radius if kind == WORST else total


@kernel
def cost_of(state, size_cost, kind):
    """g(c) plus the mean of the spreads (average, max_diameter) or their maximum (worst)."""
    c = state.counts[0]
    total = 0.0
    for place in range(c):
        spread = state.spread[state.rows[place]]
        total = max(total, spread) if kind == WORST else total + spread
    return size_cost[c] + (total if kind == WORST else total / len(state.label))


@inlined
def bring_forward(state, r, i, place):
    """Swap member ``i`` to ``place`` in its row."""
    first, slot = state.first[r], state.slot[i]
    other = state.pool[first + place]
    state.pool[first + place], state.pool[first + slot] = i, other
    state.slot[i], state.slot[other] = place, slot


@inlined
def try_move(state, move, source, target, k, distance, directed, kind):
    """Work out moving the first k members of ``source`` to ``target`` (-1: a new cell), into ``move``."""
    n_left = state.size[source] - k
    n_joined = k if target < 0 else state.size[target] + k
    if directed:
        leave_directed(state, move, source, k, distance)
        join_directed(state, move, source, target, k, distance)
        n_values = distance.shape[1]
        summarise(move.left_value[:n_values], n_left, kind, move.result[:2])
        summarise(move.joined_value[:n_values], n_joined, kind, move.result[2:])
    else:
        leave(state, move, source, k, distance)
        join(state, move, source, target, k, distance)
        summarise(move.left_value[:n_left], n_left, kind, move.result[:2])
        summarise(move.joined_value[:n_joined], n_joined, kind, move.result[2:])


@inlined
def summarise(values, n_members, kind, result):
    """Radius and spread of a cell from its far values."""
    if n_members == 0:
        result[0], result[1] = 0.0, 0.0
        return
    smallest, total = np.inf, 0.0
    for value in values:
        smallest = min(smallest, value)
        total += value
    result[0], result[1] = smallest, spread_of(smallest, total, n_members, kind)


@inlined
def leave(state, move, source, k, distance):
    """Eccentricities of the members that stay when the first k of ``source`` go."""
    size = state.size[source]
    members = members_of(state, source)
    for place in range(k, size):
        i = members[place]
        value, member = state.far_value[0, i], state.far_member[0, i]
        if state.slot[member] < k:  # the witness goes
            value, member = -1.0, -1
            row = distance[i]
            for other in range(k, size):
                gap = row[members[other]]
                if gap > value:
                    value, member = gap, members[other]
        move.left_value[place - k], move.left_member[place - k] = value, member


@inlined
def join(state, move, source, target, k, distance):
    """Eccentricities in ``target`` with the first k members of ``source``: the old members first, then the new."""
    size = 0 if target < 0 else state.size[target]
    joining, there = members_of(state, source)[:k], members_of(state, target)[:size]
    for place in range(size):
        i = there[place]
        move.joined_value[place], move.joined_member[place] = state.far_value[0, i], state.far_member[0, i]
    for new in range(k):
        s = joining[new]
        row = distance[s]
        value, member = 0.0, s
        for place in range(size):
            i = there[place]
            gap = row[i]
            if gap > move.joined_value[place]:
                move.joined_value[place], move.joined_member[place] = gap, s
            if gap > value:
                value, member = gap, i
        for other in range(k):
            gap = row[joining[other]]
            if gap > value:
                value, member = gap, joining[other]
        move.joined_value[size + new], move.joined_member[size + new] = value, member


@kernel
def leave_directed(state, move, source, k, distance):
    """Column maxima of ``source`` without its first k members."""
    size = state.size[source]
    members = members_of(state, source)
    value, member, n_open = move.left_value, move.left_member, 0
    for j in range(distance.shape[1]):
        value[j], member[j] = state.far_value[source, j], state.far_member[source, j]
        if state.slot[member[j]] < k:  # the witness goes
            value[j], member[j], move.open[n_open] = -1.0, -1, j
            n_open += 1
    if n_open > 0:
        for place in range(k, size):
            i = members[place]
            row = distance[i]
            for at in range(n_open):
                j = move.open[at]
                if row[j] > value[j]:
                    value[j], member[j] = row[j], i


@kernel
def join_directed(state, move, source, target, k, distance):
    """Column maxima of ``target`` with the first k members of ``source``."""
    for j in range(distance.shape[1]):
        move.joined_value[j] = -1.0 if target < 0 else state.far_value[target, j]
        move.joined_member[j] = -1 if target < 0 else state.far_member[target, j]
    for new in range(k):
        s = state.pool[state.first[source] + new]
        take_in(move.joined_value, move.joined_member, distance[s], s)


@kernel
def make_move(state, move, source, target, k, directed):
    """Make the ``move``."""
    if target < 0:
        target = state.rows[state.counts[0]]
        state.counts[0] += 1
        state.size[target] = 0
    size, n_left = state.size[target], state.size[source] - k
    make_room(state, target, size + k)
    here, there = state.first[source], state.first[target]
    for new in range(k):
        s = state.pool[here + new]
        state.label[s], state.slot[s], state.pool[there + size + new] = target, size + new, s
    for place in range(n_left):
        i = state.pool[here + place + k]
        state.pool[here + place], state.slot[i] = i, place
    state.size[target], state.size[source] = size + k, n_left
    if directed:
        overwrite(state.far_value[source], move.left_value)
        overwrite(state.far_member[source], move.left_member)
        overwrite(state.far_value[target], move.joined_value)
        overwrite(state.far_member[target], move.joined_member)
    else:
        for place in range(n_left):
            i = state.pool[here + place]
            state.far_value[0, i], state.far_member[0, i] = move.left_value[place], move.left_member[place]
        for place in range(size + k):
            i = state.pool[there + place]
            state.far_value[0, i], state.far_member[0, i] = move.joined_value[place], move.joined_member[place]
    state.radius[source], state.spread[source] = move.result[0], move.result[1]
    state.radius[target], state.spread[target] = move.result[2], move.result[3]
    if n_left == 0:
        state.counts[0] -= 1
        last, place = state.rows[state.counts[0]], state.where[source]
        state.rows[place], state.rows[state.counts[0]] = last, source
        state.where[last], state.where[source] = place, state.counts[0]
