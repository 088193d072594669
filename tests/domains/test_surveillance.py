from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import reference

from pastmaster import InvalidInputError, TabularMDP, evaluate, solve
from pastmaster.domains import surveillance

NORTH, EAST, SOUTH, WEST, SURVEIL = range(5)
GAMMA = 0.9
START = (24, 24)


def place(location: int, complex: bool = False) -> tuple[int, int]:
    """Row and column of a v-location, from the layout in words: group by group, hub first, leaves row by row."""
    offsets = ([(0, 0)] if complex else []) + [(-2, -2), (-2, 2), (2, -2), (2, 2)]
    group, member = divmod(location, len(offsets))
    return 6 + 12 * (group // 4) + offsets[member][0], 6 + 12 * (group % 4) + offsets[member][1]


def cell(row: int, column: int) -> int:
    return row * 48 + column


def distance(one: tuple[int, int], other: tuple[int, int]) -> int:
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def best_from(here: tuple[int, int], sequence: list[int]) -> float:
    """The value of the best plan by hand: walk to one of the group, surveil, go on; or never succeed, for -10."""
    if not sequence:
        return 0.0
    group = sequence[0] // 4
    plans = [-10.0]
    for member in range(4 * group, 4 * group + 4):
        steps = distance(here, place(member))
        pays = 200.0 if member == sequence[0] else 190.0
        after = best_from(place(member), sequence[1:])
        plans.append(-(1 - GAMMA**steps) / (1 - GAMMA) + GAMMA**steps * (pays + GAMMA * after))
    return max(plans)


# Layout


def test_groups_are_rows_of_consecutive_locations():
    assert surveillance.groups().tolist() == np.arange(64).reshape(16, 4).tolist()
    assert surveillance.groups(complex=True).tolist() == np.arange(80).reshape(16, 5).tolist()


@pytest.mark.parametrize("complex", [False, True])
def test_locations_are_different_cells_round_the_centres(complex):
    cells = surveillance.locations(complex)
    assert len(set(cells.tolist())) == len(cells) == (80 if complex else 64)
    assert ((cells >= 0) & (cells < 48 * 48)).all()
    assert cells.tolist() == [cell(*place(location, complex)) for location in range(len(cells))]


def test_the_hub_comes_first_on_the_centre_of_its_group():
    hubs = surveillance.locations(complex=True)[surveillance.groups(complex=True)[:, 0]]
    assert hubs.tolist() == [cell(6 + 12 * i, 6 + 12 * j) for i in range(4) for j in range(4)]


@pytest.mark.parametrize("n_targets", [1, 2, 3, 4])
def test_the_state_is_the_cell_and_the_progress(n_targets):
    task = surveillance.task([5, 40, 63, 0][:n_targets])
    assert (task.n_states, task.n_actions) == (48 * 48 * n_targets, 5)
    assert (task.gamma, task.horizon, task.start) == (0.9, 200, cell(*START))
    assert task.is_deterministic


def test_moves_are_stopped_by_the_border_keep_the_progress_and_cost_one():
    task = surveillance.task([5, 40])
    for progress in (0, 1):
        base = 2304 * progress
        for row in range(48):
            for column in range(48):
                expected = [
                    base + cell(max(row - 1, 0), column),
                    base + cell(row, min(column + 1, 47)),
                    base + cell(min(row + 1, 47), column),
                    base + cell(row, max(column - 1, 0)),
                ]
                assert task.next_state[base + cell(row, column), :4].tolist() == expected
    assert (task.reward[:, :4] == -1).all()
    assert not task.terminated[:, :4].any()


# What surveil pays


@pytest.mark.parametrize("sequence", [[5], [5, 40], [63, 0, 21, 20], [7, 7]])
def test_surveil_pays_200_on_the_spot_190_on_its_group_and_minus_10_elsewhere(sequence):
    task = surveillance.task(sequence)
    for progress, target in enumerate(sequence):
        expected = np.full(2304, -10.0)
        for member in range(4 * (target // 4), 4 * (target // 4) + 4):
            expected[cell(*place(member))] = 190.0
        expected[cell(*place(target))] = 200.0
        assert np.array_equal(task.reward[2304 * progress : 2304 * (progress + 1), SURVEIL], expected)


def test_in_the_complex_domain_only_hub_and_leaf_stand_in_for_each_other():
    hub, leaf = 10, 13  # both of group 2
    for target, counts in ((hub, [11, 12, 13, 14]), (leaf, [hub])):
        task = surveillance.task([target], complex=True)
        expected = np.full(2304, -10.0)
        for member in counts:
            expected[cell(*place(member, complex=True))] = 190.0
        expected[cell(*place(target, complex=True))] = 200.0
        assert np.array_equal(task.reward[:, SURVEIL], expected)
        assert sorted(surveillance.stand_ins(target, complex=True)) == counts
    two = surveillance.task([leaf, 40], complex=True)
    assert not two.terminated[cell(*place(hub, complex=True)), SURVEIL]
    assert two.terminated[cell(*place(14, complex=True)), SURVEIL]


def test_a_capture_advances_the_progress_and_the_last_one_ends_the_episode():
    task = surveillance.task([5, 40])
    for member in (4, 5, 6, 7):
        s = cell(*place(member))
        assert task.next_state[s, SURVEIL] == 2304 + s
        assert not task.terminated[s, SURVEIL]
    for member in (40, 41, 42, 43):
        assert task.terminated[2304 + cell(*place(member)), SURVEIL]


def test_an_escape_ends_the_episode_unless_it_is_told_not_to():
    ending, going_on = (surveillance.task([5, 40], escape_ends=flag) for flag in (True, False))
    escapes = np.flatnonzero(ending.reward[:, SURVEIL] == -10)
    assert len(escapes) == 2 * (2304 - 4)
    assert ending.terminated[escapes, SURVEIL].all()
    assert not going_on.terminated[escapes, SURVEIL].any()
    assert np.array_equal(going_on.next_state[escapes, SURVEIL], escapes)
    assert np.array_equal(going_on.reward, ending.reward)
    assert going_on.terminated.sum() == 4


# Values by hand


def test_a_target_is_worth_the_walk_to_it():
    """From (24, 24) to v-location 23 at (20, 20): 8 steps of -1, then 200."""
    assert place(23) == (20, 20)
    task = surveillance.task([23])
    assert solve(task).start_value == pytest.approx(-(1 - 0.9**8) / 0.1 + 0.9**8 * 200, abs=1e-9)


def test_every_single_target_has_the_value_of_the_best_walk():
    far = 0
    for target in range(64):
        solution = solve(surveillance.task([target]))
        assert solution.start_value == pytest.approx(best_from(START, [target]), abs=1e-9)
        far += distance(START, place(target)) > min(distance(START, place(4 * (target // 4) + m)) for m in range(4))
    assert far == 48  # where one of the group is nearer and may be the better choice


@pytest.mark.parametrize("sequence", [[5, 40], [23, 24], [0, 63], [21, 22, 41], [23, 23]])
def test_a_sequence_has_the_value_of_the_best_plan(sequence):
    task = surveillance.task(sequence)
    solution = solve(task)
    assert solution.start_value == pytest.approx(best_from(START, sequence), abs=1e-9)
    assert solution.converged


def test_the_optimal_episode_fits_into_the_horizon():
    task = surveillance.task([23, 24])
    policy = solve(task).policy
    value = evaluate(task, policy)[task.start]
    assert value == pytest.approx(best_from(START, [23, 24]), abs=1e-9)
    assert value == pytest.approx(reference.stepped_return(task, policy, task.start, 200), abs=1e-9)


def test_the_complex_domain_may_send_the_agent_to_the_hub():
    """Leaf 26 at (16, 16): 16 steps for 200, or 12 to the hub at (18, 18) for 190, which is better."""
    assert place(26, complex=True) == (16, 16)
    near = -(1 - 0.9**12) / 0.1 + 0.9**12 * 190
    assert near > -(1 - 0.9**16) / 0.1 + 0.9**16 * 200
    assert solve(surveillance.task([26], complex=True)).start_value == pytest.approx(near, abs=1e-9)


# The family


@pytest.mark.parametrize("complex", [False, True])
@pytest.mark.parametrize(("n_tasks", "n_targets", "n_sequences"), [(20, 1, 8), (40, 2, 6), (10, 3, 5), (3, 4, 2)])
def test_tasks_follow_their_group_sequences(rng, complex, n_tasks, n_targets, n_sequences):
    tasks = surveillance.family(n_tasks, n_targets, rng=rng, n_sequences=n_sequences, complex=complex)
    group_sequences = surveillance.group_sequences(tasks)
    assert len(tasks) == n_tasks
    assert group_sequences.shape == (n_tasks, n_targets)
    assert len(np.unique(group_sequences, axis=0)) <= n_sequences
    per_group = 5 if complex else 4
    for task, groups in zip(tasks, group_sequences, strict=True):
        assert [v // per_group for v in task.params["sequence"]] == groups.tolist()
        assert len(set(groups.tolist())) == n_targets
        assert task.params["complex"] is complex
        assert task.n_states == 2304 * n_targets
    assert len({tuple(task.params["sequence"]) for task in tasks}) == n_tasks


@pytest.mark.parametrize(
    ("n_tasks", "n_targets", "n_sequences", "complex"), [(64, 1, 16, False), (96, 2, 6, False), (50, 2, 2, True)]
)
def test_all_members_are_taken_where_as_many_are_asked_for(rng, n_tasks, n_targets, n_sequences, complex):
    tasks = surveillance.family(n_tasks, n_targets, rng=rng, n_sequences=n_sequences, complex=complex)
    group_sequences = surveillance.group_sequences(tasks)
    chosen, counts = np.unique(group_sequences, axis=0, return_counts=True)
    assert len(chosen) == n_sequences
    assert (counts == (5 if complex else 4) ** n_targets).all()
    assert len({tuple(task.params["sequence"]) for task in tasks}) == n_tasks


def test_the_same_seed_gives_the_same_family_and_another_seed_another(seed):
    def sequences(of_seed: int) -> list[list[int]]:
        tasks = surveillance.family(12, 2, rng=np.random.default_rng(of_seed), n_sequences=4)
        return [task.params["sequence"] for task in tasks] + surveillance.group_sequences(tasks).tolist()

    assert sequences(seed) == sequences(seed)
    assert sequences(seed) != sequences(seed + 1)


# The environment


def test_an_episode_walks_captures_and_ends():
    env = gym.make("pastmaster/Surveillance-v0", sequence=(23, 22)).unwrapped
    state, _ = env.reset()
    assert state == cell(24, 24)
    steps = [env.step(a) for a in [NORTH] * 4 + [WEST] * 4 + [SURVEIL] + [WEST] * 4 + [SURVEIL]]
    assert [reward for _, reward, *_ in steps] == [-1] * 8 + [200] + [-1] * 4 + [200]
    assert [terminated for _, _, terminated, *_ in steps] == [False] * 13 + [True]
    assert [state // 2304 for state, *_ in steps] == [0] * 8 + [1] * 6


def test_surveil_in_the_wrong_place_ends_the_episode():
    env = gym.make("pastmaster/Surveillance-v0", sequence=(23,)).unwrapped
    env.reset()
    assert env.step(SURVEIL)[:3] == (cell(24, 24), -10.0, True)


def test_the_settings_of_the_environment_are_those_of_the_task():
    env = gym.make("pastmaster/Surveillance-v0", sequence=(3, 9), complex=True, gamma=0.5, horizon=9, escape_ends=False)
    task = env.unwrapped.mdp
    expected = surveillance.task((3, 9), True, gamma=0.5, horizon=9, escape_ends=False)
    assert np.array_equal(task.reward, expected.reward)
    assert np.array_equal(task.terminated, expected.terminated)
    assert (task.gamma, task.horizon, task.params) == (0.5, 9, expected.params)


def test_the_text_picture_shows_agent_targets_and_stand_ins():
    env = gym.make("pastmaster/Surveillance-v0", sequence=(23, 40), render_mode="ansi").unwrapped
    env.reset()
    rows = [line.split(" ") for line in env.render().splitlines()[:48]]
    assert rows[24][24] == "A"
    assert rows[20][20] == "X"
    assert [rows[r][c] for r, c in map(place, (20, 21, 22))] == ["x"] * 3
    assert rows[place(40)[0]][place(40)[1]] == "+"
    assert sum(row.count("o") for row in rows) == 64 - 5


# Refusals


def test_numpy_integers_are_locations():
    assert surveillance.task(np.array([5, 40])).params["sequence"] == [5, 40]
    assert surveillance.task([79], complex=True).n_states == 2304


@pytest.mark.parametrize("complex", [False, True])
def test_new_tasks_are_of_the_same_sequences_and_none_of_the_old_where_there_are_others(rng, complex):
    tasks = surveillance.family(30, 2, rng=rng, n_sequences=3, complex=complex)
    found = surveillance.new_tasks(tasks, 12, rng=rng)
    size = 5 if complex else 4
    known = {tuple(row) for row in surveillance.group_sequences(tasks).tolist()}
    old = {tuple(task.params["sequence"]) for task in tasks}
    drawn = [tuple(task.params["sequence"]) for task in found]
    assert len(set(drawn)) == 12
    assert {tuple(place // size for place in sequence) for sequence in drawn} <= known
    assert not old & set(drawn)
    assert all(task.params["complex"] is complex for task in found)


def test_where_all_tasks_are_known_new_ones_come_from_them(rng):
    tasks = surveillance.family(32, 2, rng=rng, n_sequences=2)
    found = surveillance.new_tasks(tasks, 10, rng=rng)
    assert {tuple(t.params["sequence"]) for t in found} <= {tuple(t.params["sequence"]) for t in tasks}
    with pytest.raises(InvalidInputError, match=r"new_tasks: n_tasks is 33, must be a whole number, in 1\.\.32"):
        surveillance.new_tasks(tasks, 33, rng=rng)


def test_the_settings_of_a_family_are_those_of_its_tasks_and_of_new_ones(rng):
    settings = {"gamma": 0.8, "horizon": 50, "escape_ends": False}
    tasks = surveillance.family(6, 2, rng=rng, n_sequences=2, complex=True, **settings)
    streamed = surveillance.stream(6, 2, rng=rng, n_sequences=2, complex=True, **settings)
    for one in [*tasks, *streamed, *surveillance.new_tasks(tasks, 6, rng=rng)]:
        expected = surveillance.task(one.params["sequence"], True, **settings)
        assert (one.gamma, one.horizon, one.params) == (0.8, 50, expected.params)
        assert np.array_equal(one.terminated, expected.terminated)


def test_a_longer_stream_begins_with_a_shorter_one(seed):
    short, long = (
        [task.name for task in surveillance.stream(n, 2, rng=np.random.default_rng(seed), n_sequences=3)]
        for n in (5, 20)
    )
    assert long[:5] == short
    assert len(set(long)) == 20


def test_tasks_of_another_domain_have_no_group_sequences():
    other = TabularMDP([[0]], [[0.0]], gamma=0.9, name="mine")
    for call in (surveillance.group_sequences, lambda tasks: surveillance.new_tasks(tasks, 1)):
        with pytest.raises(InvalidInputError, match=r"s: tasks\[0\] is .*mine.*, must be a task of this"):
            call([other])
