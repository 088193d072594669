from __future__ import annotations

import shutil
import warnings
from dataclasses import replace
from functools import partial, wraps

import gymnasium as gym
import matplotlib.image
import numpy as np
import pytest
from repository_reference import (
    assert_whole,
    constant_policy,
    one_step_task,
    random_task,
    random_tasks,
    rank,
    same_bits,
    same_task,
)
from seams import clusterings, rows, stored_runs

from pastmaster import (
    RECOMMENDED,
    Bounds,
    ContinualRun,
    ContinualTransfer,
    Experience,
    FixedPolicy,
    GymTask,
    Informed,
    InvalidInputError,
    QLearning,
    Repository,
    TabularMDP,
    TaskError,
    TsallisINF,
    cross_values,
    greedy_clustering,
    plot_streams,
    policy_distance,
    return_bounds,
    return_spread,
    search_clusterings,
    solve,
    transfer,
)
from pastmaster.continual import Reclustered, TaskDone, agent
from pastmaster.domains import coloured_grid, surveillance, windy_corridor

QUICK = {"restarts": 2, "iterations": 2000}
TWO = QUICK | {"n_clusters": 2}
FINE = {"episodes": 60, "recluster_every": 3, "clustering": TWO}
CORNERS = ([1, 1], [1, 0.1], [0.1, 1], [0.5, 0.5], [0.9, 0.2], [0.2, 0.9], [0, 1], [1, 0])


def grids(n=7):
    """Tasks on one small grid: deterministic, one start."""
    return coloured_grid.family(CORNERS[:n], size=4)


def lake(*holes, slippery=False):
    """FrozenLake with holes where they are wanted, as a black box."""
    squares = np.full((4, 4), "F")
    squares[0, 0], squares[3, 3] = "S", "G"
    for hole in holes:
        squares[hole] = "H"
    return GymTask("FrozenLake-v1", {"desc": ["".join(row) for row in squares], "is_slippery": slippery}, horizon=30)


LAKES = [lake((1, 1)), lake((1, 0), (1, 1)), lake((0, 1), slippery=True), lake((2, 2), (3, 0))]
BLACK_BOX = {"episodes": 40, "bounds": (0, 1), "evaluation_episodes": 4, "clustering": QUICK | {"n_clusters": 1}}


def lifelong(repository, seed=7, hooks=(), **changes):
    return ContinualTransfer(repository, rng=np.random.default_rng(seed), hooks=hooks, **(FINE | changes))


# What is stored, in a form that can be compared


def array_bits(repository, record):
    return {name: same.tobytes() for name, same in repository.database.read(record.arrays).items()}


def story(repository):
    """All that a stream leaves behind: its runs and clusterings bit for bit, and the tasks' records."""
    ids = [row["id"] for row in repository.database.read(lambda connection: rows.fetch(connection, "streams"))]
    runs = [
        (run.position, run.name, run.task_id, run.value, run.n_sources, run.evaluation_episodes,
         run.returns.tobytes(), run.arms.tobytes())
        for number in ids
        for run in stored_runs(repository.database, number)
    ]  # fmt: skip
    clusterings = [
        (record.stream, dict(record.settings) | {"n_jobs": 1}, record.result, array_bits(repository, record))
        for record in repository.clusterings()
    ]
    return ids, runs, clusterings, repository.records(), [policy.tobytes() for policy in repository.policies()]


def uninterrupted(folder, tasks, **changes):
    """The story and the run of an agent that nobody stops."""
    with Repository(folder / "uninterrupted.db") as repository:
        run = lifelong(repository, **changes).run(tasks)
        return story(repository), run


# Algorithm 4, from public functions alone


class Algorithm4:
    """The lifelong agent in memory, without a repository."""

    def __init__(self, rng, *, episodes, recluster_every, clustering, stored=(), **options):
        self.entropy = rng.integers(2**63, size=2)
        self.episodes, self.every, self.clustering = episodes, recluster_every, clustering
        self.which, self.bounds = options.pop("sources", "clusters"), options.pop("bounds", None)
        self.model, self.options = options.pop("model", True), {"on_violation": "widen"} | options
        self.known, self.policies, self.kept, self.found, self.runs, self.n_sources = [], [], [], {}, [], []
        for task in stored:
            self.add(task, solve(task).policy)

    def meet(self, tasks):
        if self.known and self.which == "clusters":
            self.cluster(0)
        for position, task in enumerate(tasks):
            sources = self.sources()
            self.n_sources.append(len(sources))
            bounds = self.bounds or (return_bounds(self.known) if sources else return_bounds(task, kind="paper"))
            generator = np.random.default_rng([*self.entropy, position, 0])
            how = self.options | self.experience(sources)
            run = transfer(task, sources, episodes=self.episodes, bounds=bounds, rng=generator, **how)
            self.runs.append(run)
            self.add(task, solve(task).policy if self.model else run.policy)
            if self.which == "clusters" and (position + 1) % self.every == 0:
                self.cluster(position + 1)
        return self

    def experience(self, sources):
        """What the sources were worth in the tasks so far, for the selector that asks for it."""
        if not sources or self.options.get("selector", "informed") != "informed":
            return {}
        U = cross_values(self.known, self.policies)
        best = [U[task, policy] for task, policy in enumerate(self.of_record())]
        values, spread = cross_values(self.known, sources), return_spread(self.known, sources)
        return {"experience": Experience(values, spread=spread, best=best)}

    def add(self, task, policy):
        if not any(same_task(task, other) for other in self.known):
            self.known.append(task)
            self.policies.append(policy)

    def of_record(self):
        """For each task the policy that is best in it: the own of equals."""
        U = cross_values(self.known, self.policies)
        return [rank(dict(enumerate(row.tolist())), own)[0] for own, row in enumerate(U)]

    def sources(self):
        if self.which == "none" or not self.known:
            return []
        record = self.of_record()
        chosen = range(len(self.known)) if self.which == "all" else self.kept
        return [self.policies[j] for j in dict.fromkeys(record[task] for task in chosen)]

    def cluster(self, met):
        U = cross_values(self.known, [self.policies[j] for j in self.of_record()])
        span = (return_bounds(self.known) if self.bounds is None else Bounds(*self.bounds)).span
        options = dict(self.clustering)
        search = {"search": search_clusterings, "greedy": greedy_clustering}[options.pop("method", "search")]
        generator = np.random.default_rng([*self.entropy, met, 1])
        directed = options.get("directed", False)
        distance = policy_distance(U, directed=directed, paired=True)
        self.found[met] = search(distance, episodes=self.episodes, span=span, rng=generator, **options)
        self.kept = self.found[met].representatives.tolist()


def assert_same_as_algorithm_4(repository, run, expected):
    assert run.n_sources.tolist() == expected.n_sources
    assert run.names == [task_run.name for task_run in stored_runs(repository.database, 1)]
    assert same_bits(run.returns, np.array([one.returns[0] for one in expected.runs]))
    for stored, one in zip(stored_runs(repository.database, 1), expected.runs, strict=True):
        assert same_bits(stored.returns, one.returns[0])
        assert same_bits(stored.arms, one.arms[0])
    assert run.reclustered == [record.stream[1] for record in repository.clusterings()] == list(expected.found)
    for record, found in zip(repository.clusterings(), expected.found.values(), strict=True):
        arrays = repository.database.read(record.arrays)
        for name in ("labels", "representatives", "radii"):
            assert same_bits(arrays[name], getattr(found, name))
        if found.traces is not None:  # where the walks went depends on every draw
            assert same_bits(arrays["traces"], found.traces)
        assert (record.result["cost"], record.result["n_clusters"]) == (found.cost, found.n_clusters)
        assert record.result["mean_radius"] == found.mean_radius
    assert len(repository) == len(expected.known)
    assert run.values.tolist() == [stored.value_now for stored in stored_runs(repository.database, 1)]


@pytest.mark.parametrize(
    "changes",
    [
        {"clustering": QUICK},
        {},
        {"sources": "all"},
        {"sources": "none"},
        {"recluster_every": 1, "clustering": QUICK},
        {"recluster_every": 4, "clustering": TWO | {"directed": True}, "episodes": 20},
        {"clustering": {"method": "greedy"}},
        {"bounds": (-5, 90), "selector": TsallisINF, "learner": QLearning(epsilon=0.3), "share": True},
        {"on_violation": "clip", "selector": "ppr", "n_jobs": 2},
        RECOMMENDED,
    ],
    ids=str,
)
def test_the_agent_is_algorithm_4(repository, changes):
    run = lifelong(repository, **changes).run(grids())
    changes = {name: value for name, value in changes.items() if name != "n_jobs"}
    expected = Algorithm4(np.random.default_rng(7), **(FINE | changes)).meet(grids())
    assert_same_as_algorithm_4(repository, run, expected)
    assert_whole(repository, strict_ties=False)


def test_the_agent_is_algorithm_4_on_random_tasks(repository, rng, seed):
    tasks = random_tasks(rng, 7)
    run = lifelong(repository, seed).run(tasks)
    assert_same_as_algorithm_4(repository, run, Algorithm4(np.random.default_rng(seed), **FINE).meet(tasks))


def test_returns_outside_the_bounds_of_what_is_stored_widen_them(repository):
    stream = coloured_grid.family([[0.1, 0.1], [0.1, 0], [0, 0.1], [1, 1], [1, 0.5]], size=4)
    run = lifelong(repository).run(stream)
    assert_same_as_algorithm_4(repository, run, Algorithm4(np.random.default_rng(7), **FINE).meet(stream))
    found = repository.database.read(lambda connection: rows.fetch(connection, "runs"))
    assert [row["settings"]["widened"] > 0 for row in found] == [False, False, False, True, False]


def test_it_begins_with_what_the_repository_holds(repository):
    held, stream = grids(3), grids()[3:]
    for task in held:
        repository.add(task)
    run = lifelong(repository).run(stream)
    assert run.reclustered == [0, 3]
    assert run.n_sources.tolist() == [2] * 4
    expected = Algorithm4(np.random.default_rng(7), stored=held, **FINE).meet(stream)
    assert_same_as_algorithm_4(repository, run, expected)


def test_it_begins_with_the_clustering_there_is(repository):
    for task in grids(3):
        repository.add(task)
    repository.cluster(rng=np.random.default_rng(0), n_clusters=3, restarts=1, iterations=100)
    run = lifelong(repository).run(grids(5)[3:])
    assert run.reclustered == []
    assert run.n_sources.tolist() == [3, 3]


def stocked(repository):
    """Three tasks, whose policies have names; a person has settled on two of them."""
    for name, task in zip(("north", "south", "east"), grids(3), strict=True):
        repository.add(task, name=name)
    return repository


@pytest.mark.parametrize("pins", [{"k": 2}, {"k": 9}, {}, {"price": 1000.0}, {"max_loss": 0.0}], ids=str)
def test_what_a_person_pins_outlives_every_choice(repository, pins):
    stocked(repository)
    options = {"recluster_every": 2, "clustering": {**pins, "must_keep": "south", "never_keep": ["north"]}}
    lifelong(repository, **options).run(grids(7)[3:])
    assert [record.stream[1] for record in repository.clusterings()] == [0, 2, 4]
    for record in repository.clusterings():
        kept = record.result["kept"]
        assert "south" in kept
        assert "north" not in kept
        assert record.settings["method"] == "keep"
        sizes = {"k": min(pins.get("k", 0), record.result["n_tasks"] - 1), "price": 1}
        assert not pins or "max_loss" in pins or len(kept) == sizes[next(iter(pins))]


def test_without_pins_a_choice_of_a_person_lasts_until_the_next_one(repository):
    """What the guide says of it."""
    stocked(repository).keep(k=1, must_keep="south")
    run = lifelong(repository, recluster_every=2, clustering=None).run(grids(6)[3:])
    assert run.n_sources.tolist()[:2] == [1, 2]  # what was met since is a source too
    assert repository.clusterings()[-1].stream == (1, 2)
    assert repository.clusterings()[-1].settings["measured"] == 60


def test_policies_of_tasks_met_since_the_last_choice_are_sources(tmp_path):
    """Each of these tasks has a policy of its own; where a person settles what is kept, that alone is reused."""
    tasks = surveillance.family(9, 2, rng=3, n_sequences=3)
    sources, kept = {}, {}
    for name, options in (("measured", {}), ("settled", {"clustering": {"k": 2}})):
        with Repository(tmp_path / f"{name}.db") as repository:
            run = ContinualTransfer(repository, episodes=30, recluster_every=4, rng=0, **options).run(tasks)
            sources[name] = run.n_sources.tolist()
            kept[name] = {record.stream[1]: record.result["n_clusters"] for record in repository.clusterings()}
            last = repository.runs()[7].source_names
            assert set(last[-3:]) == {task.name for task in tasks[4:7]} or name == "settled"
    since = [n % 4 + kept["measured"].get(n - n % 4, 0) for n in range(9)]
    assert sources == {"measured": since, "settled": [0, 0, 0, 0, 2, 2, 2, 2, 2]}


def test_policies_that_were_just_learned_are_no_sources_before_the_next_choice(tmp_path):
    """What a first task's learner found, nothing maybe, would keep the learners of the next ones waiting."""
    tasks = surveillance.family(6, 2, rng=3, n_sequences=3)
    options = {"model": False, "bounds": (-10.0, 90.0), "evaluation_episodes": 2}
    with Repository(tmp_path / "learned.db") as repository:
        run = ContinualTransfer(repository, episodes=30, recluster_every=4, rng=0, **options).run(tasks)
    assert run.n_sources.tolist()[:4] == [0, 0, 0, 0]


def test_no_later_policy_takes_the_place_of_a_pinned_one(repository):
    """Of two policies "x" the first is pinned as "x (1)"; then another is stored under that very name."""
    tasks = grids(7)
    for task in tasks[:2]:
        repository.add(task, name="x")
    options = {"recluster_every": 2, "clustering": {"k": 1, "must_keep": "x (1)", "never_keep": []}}
    lifelong(repository, **options).run(tasks[2:4])
    repository.add(tasks[6], name="x (1)")
    lifelong(repository, **options).run(tasks[2:6])
    assert {tuple(record.result["must_keep"]) for record in repository.clusterings()} == {(0,)}


def test_pins_are_stored_with_the_stream_and_a_name_means_the_first_of_that_name(path):
    options = {"recluster_every": 2, "clustering": {"k": 1, "must_keep": ["south"]}}
    with Repository(path) as repository:
        pinned = stocked(repository).policy_records()[1].id
        lifelong(repository, **options).run(grids(5)[3:])
        repository.add(grids(8)[7], name="south")  # another policy of that name
        with pytest.raises(InvalidInputError, match=r"must_keep is not given, must be .*south.* as when the stream"):
            lifelong(repository, **(options | {"clustering": {"k": 1}})).run(grids(7)[3:])
        run = lifelong(repository, **(options | {"clustering": {"must_keep": "south", "k": 1}})).run(grids(7)[3:])
        assert run.reclustered == [0, 2, 4]
        assert repository.source_ids() == [pinned]


def test_a_pin_that_is_not_stored_is_refused_before_any_task_is_met(repository):
    agent = lifelong(stocked(repository), clustering={"must_keep": "sotuh"})
    sentence = (
        r"^ContinualTransfer: clustering's must_keep holds 'sotuh', must be the name of a stored policy \(did you "
    )
    with pytest.raises(InvalidInputError, match=sentence):
        agent.run(grids(5)[3:])
    assert len(repository) == 3
    assert repository.clusterings() == []


def test_a_task_met_again_is_one_record_and_two_runs(repository):
    one, two, three, *_ = grids()
    stream = [one, two, one, three, one, two]
    run = lifelong(repository).run(stream)
    assert len(repository) == 3
    assert [stored.task_id for stored in stored_runs(repository.database, 1)] == [1, 2, 1, 3, 1, 2]
    assert not same_bits(run.returns[0], run.returns[2])  # another generator, and later sources
    expected = Algorithm4(np.random.default_rng(7), **(FINE | {"clustering": TWO})).meet(stream)
    assert_same_as_algorithm_4(repository, run, expected)


def test_the_first_tasks_have_no_sources_and_clusters_change_only_every_j_tasks(repository):
    seen = []

    def look(event):
        if isinstance(event, TaskDone):
            seen.append((event.n_sources, repository.source_ids()))

    run = lifelong(repository, hooks=[look]).run(grids())
    assert run.n_sources.tolist() == [0, 0, 0, 2, 2, 2, 2]
    assert run.reclustered == [3, 6]
    during = [ids for _, ids in seen]
    assert during[0] == during[1] == during[2] == []
    assert during[3] == during[4] == during[5] == repository.database.read(repository.clusterings()[0].kept_policies)
    assert during[6] == repository.source_ids()


@pytest.mark.parametrize(("sources", "expected"), [("all", [0, 1, 2, 3]), ("none", [0, 0, 0, 0])])
def test_all_sources_or_none_need_no_clustering(repository, sources, expected):
    run = lifelong(repository, sources=sources, recluster_every=1).run(grids(4))
    assert run.n_sources.tolist() == expected
    assert run.reclustered == []
    assert repository.clusterings() == []


def test_a_first_task_whose_episodes_all_return_the_same_is_met(repository):
    same = TabularMDP(np.zeros((2, 2), int), np.ones((2, 2)), gamma=0.5, horizon=2)
    assert lifelong(repository).run([same]).returns.tolist() == [[1.5] * 60]


def test_an_empty_stream_is_an_empty_run(repository):
    run = lifelong(repository).run([])
    assert run.returns.shape == (0, 60)
    assert repr(run) == str(run) == "ContinualRun(0 tasks x 60 episodes)"
    with pytest.raises(InvalidInputError, match="plot_streams: runs must hold"):
        run.plot()


def test_streams_of_one_repository_are_told_apart_by_name(repository):
    first = lifelong(repository, sources="none").run(grids(2))
    second = lifelong(repository, sources="none", name="another", episodes=20).run(grids(3)[1:])
    assert (first.returns.shape, second.returns.shape) == ((2, 60), (2, 20))
    assert [run.task_id for run in stored_runs(repository.database, 2)] == [2, 3]
    again = lifelong(repository, sources="none").run(grids(2))
    assert same_bits(first.returns, again.returns)


# Without a model


def test_without_a_model_learned_policies_are_kept(repository):
    """In a deterministic task from one start an estimate is exact, so the reference can tell what must come out."""
    options = {"model": False, "bounds": (0, 100), "episodes": 30, "clustering": TWO}
    run = lifelong(repository, **options).run(grids())
    assert_same_as_algorithm_4(repository, run, Algorithm4(np.random.default_rng(7), **(FINE | options)).meet(grids()))
    assert run.evaluation_episodes.tolist() == [30 * (2 * before + 1) for before in range(7)]  # 30 by default
    assert {record.bounds for record in repository.records()} == {None}


def provenances(repository):
    return {row["provenance"] for row in repository.database.read(lambda c: rows.fetch(c, "policies"))}


def test_a_stream_of_environments(repository):
    run = lifelong(repository, **BLACK_BOX).run(LAKES)
    assert provenances(repository) == {"learned"}
    assert run.evaluation_episodes.tolist() == [4 * (2 * before + 1) for before in range(4)]
    assert run.n_sources.tolist() == [0, 0, 0, 1]
    assert list(repository.tasks()) == LAKES
    assert f"{4 * 16} more episodes to value policies" in str(run)
    assert repository.check() == []


def test_solved_policies_are_kept_where_there_is_a_model(repository):
    run = lifelong(repository).run(grids(3))
    assert provenances(repository) == {"solved"}
    assert run.values.tolist() == pytest.approx([solve(task).start_value for task in grids(3)])
    assert run.evaluation_episodes.tolist() == [0, 0, 0]


def test_models_and_black_boxes_can_share_a_stream(repository):
    lakes = [LAKES[0], LAKES[1]]

    known = TabularMDP.from_gymnasium(gym.make("FrozenLake-v1", is_slippery=False), 0.99, horizon=30)
    run = lifelong(repository, **BLACK_BOX).run([known, *lakes])
    # policies after + tasks before, of which the one with a model costs nothing
    assert run.evaluation_episodes.tolist() == [0, 4 * 2, 4 * 4]
    assert [record.kind for record in repository.records()] == ["tabular", "gymnasium", "gymnasium"]


def test_a_better_policy_becomes_the_policy_of_record(repository):
    """Two agents that learn nothing: one always takes action 0, the other action 2, which is better in both tasks."""
    first, second = one_step_task(0, 0, 1), one_step_task(0, 0.5, 1)
    options = {"model": False, "bounds": (0, 1), "sources": "none", "episodes": 3}
    worse = lifelong(repository, name="a", learner=FixedPolicy(constant_policy(0)), **options).run([first])
    assert worse.values.tolist() == [0]
    better = lifelong(repository, name="b", learner=FixedPolicy(constant_policy(2)), **options).run([second])
    assert better.values.tolist() == [1]
    one, two = repository.records()
    assert (one.own_policy, one.policy_of_record, one.value) == (1, 2, 1.0)
    assert (two.own_policy, two.policy_of_record, two.value) == (2, 2, 1.0)
    again = lifelong(repository, name="a", learner=FixedPolicy(constant_policy(0)), **options).run([first])
    assert again.values.tolist() == [1]  # what it is worth now
    assert stored_runs(repository.database, 1)[0].value == 0  # what it was worth then


def test_a_better_policy_for_a_known_task_takes_the_place_of_its_own(repository):
    task = one_step_task(0, 0, 1)
    options = {"model": False, "bounds": (0, 1), "sources": "none", "episodes": 3}
    for name, action in (("a", 1), ("b", 2), ("c", 0)):
        lifelong(repository, name=name, learner=FixedPolicy(constant_policy(action)), **options).run([task])
    (record,) = repository.records()
    assert repository.policy(record.policy_of_record).tolist() == constant_policy(2).tolist()
    assert [stored_runs(repository.database, number)[0].value for number in (1, 2, 3)] == [0, 1, 1]


def test_a_removed_task_leaves_its_run(repository):
    lifelong(repository, sources="none").run(grids(3))
    repository.remove(2)
    run = lifelong(repository, sources="none").run(grids(3))
    assert np.isnan(run.values).tolist() == [False, True, False]
    assert np.isfinite(run.returns).all()
    assert "nan" not in repr(run)
    lowest = min(run.values[[0, 2]])
    (dotted,) = (line for line in run.plot().axes[0].lines if line.get_label() == "best stored policies")
    assert np.nanmin(dotted.get_ydata()) >= lowest  # a task that is gone is not worth 0


# Resuming


class Stopped(Exception):  # noqa: N818  not an error of the agent
    """Someone pulls the plug."""


@pytest.mark.parametrize("how", ["shorter stream", "killed after the commit", "killed after the clustering"])
def test_stopped_after_every_task_it_ends_with_the_same_bits(path, tmp_path, how):
    """A hook is called between the commit of a task and the clustering that is due then."""
    expected, whole_run = uninterrupted(tmp_path, grids())

    def stop(event):
        kind = Reclustered if how == "killed after the clustering" else TaskDone
        if isinstance(event, kind) and not event.replayed:
            raise Stopped

    for k in range(len(grids()) + 1):
        with Repository(path) as repository:
            if how == "shorter stream":
                run = lifelong(repository).run(grids()[:k])
            else:
                try:
                    run = lifelong(repository, hooks=[stop]).run(grids())
                except Stopped:
                    continue
            if how == "shorter stream":
                assert same_bits(run.returns, whole_run.returns[:k])
    with Repository(path) as repository:
        assert story(repository) == expected
        again = lifelong(repository).run(grids())
        assert same_bits(again.returns, whole_run.returns)
        assert again.reclustered == whole_run.reclustered
        assert same_bits(again.values, whole_run.values)
        assert story(repository) == expected


def test_a_stop_between_commit_and_clustering_is_made_good_without_another_task(path, tmp_path):
    expected, _ = uninterrupted(tmp_path, grids(3))

    def stop(event):
        if event.position == 2:
            raise Stopped

    with Repository(path) as repository:
        with pytest.raises(Stopped):
            lifelong(repository, hooks=[stop]).run(grids(3))
        assert repository.clusterings() == []
        assert lifelong(repository).run(grids(3)).reclustered == [3]
        assert story(repository) == expected


def test_environments_are_gone_on_with_too(path, tmp_path):
    expected, _ = uninterrupted(tmp_path, LAKES, **BLACK_BOX)
    for k in (2, 3, 4):
        with Repository(path) as repository:
            lifelong(repository, **BLACK_BOX).run(LAKES[:k])
    with Repository(path) as repository:
        assert story(repository) == expected


def test_a_stream_may_grow_and_its_tasks_come_from_anywhere(path, tmp_path):
    expected, _ = uninterrupted(tmp_path, grids())
    with Repository(path) as repository:
        lifelong(repository).run(task for task in grids(4))
        lifelong(repository).run(iter(grids()))
        assert story(repository) == expected


@pytest.mark.parametrize("where", ["transfer", "clustering", "interrupted clustering"])
def test_ctrl_c_leaves_a_stream_that_ends_with_the_same_bits(path, tmp_path, monkeypatch, where):
    expected, _ = uninterrupted(tmp_path, grids(4))

    @wraps(search_clusterings)
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    @wraps(search_clusterings)
    def half_done(*arguments, **options):
        return replace(search_clusterings(*arguments, **(options | {"iterations": 1})), interrupted=True)

    with Repository(path) as repository, monkeypatch.context() as patched:
        if where == "transfer":
            lifelong(repository).run(grids(2))
        agent_ = lifelong(repository)
        if where == "transfer":
            patched.setattr(agent, "transfer", interrupt)
        else:
            patched.setitem(clusterings.METHODS, "search", interrupt if where == "clustering" else half_done)
        with pytest.raises(KeyboardInterrupt):
            agent_.run(grids(4))
        assert len(repository) == (2 if where == "transfer" else 3)
        assert repository.clusterings() == []
        assert repository.check() == []
    with Repository(path) as repository:
        lifelong(repository).run(grids(4))
        assert story(repository) == expected


def test_results_do_not_depend_on_the_number_of_workers(path, tmp_path):
    expected, _ = uninterrupted(tmp_path, grids(4), clustering=TWO | {"restarts": 4})
    with Repository(path) as repository:
        lifelong(repository, n_jobs=2, clustering=TWO | {"restarts": 4}).run(grids(3))
        lifelong(repository, clustering=TWO | {"restarts": 4, "n_jobs": 2}).run(grids(4))  # nor does resuming
        assert story(repository) == expected


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A file with a stream of two tasks."""
    path = tmp_path_factory.mktemp("begun") / "agent.db"
    with Repository(path) as repository:
        lifelong(repository, bounds=(0, 90)).run(grids(2))
    return path


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"seed": 8},
            r"ContinualTransfer: rng \(--seed\) is another, must be the same as when the stream 'continual' was begun;",
        ),
        ({"episodes": 61}, "ContinualTransfer: episodes is 61, must be 60 as when the stream 'continual' was begun"),
        ({"recluster_every": 2}, "recluster_every is 2, must be 3 as when"),
        ({"sources": "all"}, "sources is all, must be clusters as when"),
        ({"bounds": (0, 91)}, r"bounds is \[0.0, 91.0\], must be \[0.0, 90.0\] as when"),
        ({"bounds": None}, r"bounds is None, must be \[0.0, 90.0\] as when"),
        ({"model": False}, "model is False, must be True as when"),
        ({"evaluation_episodes": 9}, "evaluation_episodes is 9, must be None as when"),
        ({"clustering": QUICK}, "n_clusters is not given, must be 2 as when"),
        ({"selector": "ppr"}, "selector is 'ppr', must be left out, as when the stream 'continual' was begun"),
        ({"on_violation": "clip"}, "on_violation is 'clip', must be 'widen' as when"),
        (
            {"tasks": grids()[1:]},
            "task 0 of the stream is 'coloured grid.*1.000 0.100', must be '.*1.000 1.000' as when",
        ),
        (
            {"tasks": [grids()[0], grids()[2]]},
            "ContinualTransfer.run: task 1 of the stream is '.*0.100 1.000', must be",
        ),
        ({"tasks": grids(1)}, "ContinualTransfer.run: task 1 of the stream is not there, must be 'coloured grid"),
        ({"tasks": []}, "task 0 of the stream is not there"),
        ({"tasks": grids(6)[4:]}, "was begun: pass the earlier tasks too, new ones at the end, or another name"),
    ],
)
def test_another_stream_under_the_same_name_is_refused_and_nothing_changes(begun, tmp_path, changes, sentence):
    shutil.copy(begun, tmp_path / "copy.db")
    settings = {"bounds": (0, 90)} | changes
    tasks = settings.pop("tasks", grids(4))
    with Repository(tmp_path / "copy.db") as repository:
        before = story(repository)
        with pytest.raises(InvalidInputError, match=sentence):
            lifelong(repository, **settings).run(tasks)
        assert story(repository) == before
        assert lifelong(repository, bounds=(0, 90)).run(grids(3)).returns.shape == (3, 60)


@pytest.mark.parametrize(
    ("refused", "settings"),
    [
        ([None], {}),
        ([random_task(np.random.default_rng(0))], {}),
        (grids(1), {"selector": "nonsense"}),
        (grids(1), {"on_violation": "nonsense"}),
    ],
)
def test_a_stream_that_was_refused_at_its_first_task_may_begin_otherwise(path, tmp_path, refused, settings):
    """Also where the repository held tasks, which are clustered before the first one is met."""

    def begin(place):
        repository = Repository(place)
        for task in grids(3):
            repository.add(task)
        return repository

    with begin(path) as repository, begin(tmp_path / "clean.db") as clean:
        with pytest.raises(InvalidInputError):
            lifelong(repository, **settings).run(refused)
        again, first = (lifelong(held, seed=8, selector="tsallis-inf").run(grids(2)) for held in (repository, clean))
        assert same_bits(again.returns, first.returns)
        assert [made.stream for made in repository.clusterings()] == [made.stream for made in clean.clusterings()]


def test_the_generator_is_drawn_from_once(repository):
    """So the streams of two agents that share a generator differ, and a caller knows what is left of it."""
    rng, same = np.random.default_rng(3), np.random.default_rng(3)
    first = ContinualTransfer(repository, rng=rng, name="a", sources="none", **FINE).run(grids(1))
    second = ContinualTransfer(repository, rng=rng, name="b", sources="none", **FINE).run(grids(1))
    same.integers(2**63, size=2)
    same.integers(2**63, size=2)
    assert rng.bit_generator.state == same.bit_generator.state
    assert not same_bits(first.returns, second.returns)


# Refusals


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"episodes": 0}, "ContinualTransfer: episodes is 0, must be a whole number, at least 1"),
        ({"episodes": 2.5}, r"ContinualTransfer: episodes is 2\.5"),
        ({"recluster_every": 0}, "ContinualTransfer: recluster_every is 0, must be a whole number, at least 1"),
        ({"recluster_every": True}, "ContinualTransfer: recluster_every is True"),
        ({"rng": -1}, r"ContinualTransfer: rng is -1, must be a seed \(a whole number, at least 0\), a numpy"),
        ({"rng": 2.0}, r"ContinualTransfer: rng is 2.0, must be a seed"),
        ({"sources": "best"}, "ContinualTransfer: sources is 'best', must be one of 'clusters', 'all', 'none'"),
        ({"bounds": (1, 0)}, r"ContinualTransfer: bounds is \(1, 0\)"),
        ({"bounds": 3}, "ContinualTransfer: bounds is 3"),
        ({"evaluation_episodes": 1}, "ContinualTransfer: evaluation_episodes is 1, must be a whole number, at least 2"),
        ({"evaluation_episodes": "9"}, "ContinualTransfer: evaluation_episodes is '9'"),
        ({"name": ""}, "ContinualTransfer: name is '', must be a text of 1 to 200 letters"),
        ({"name": "x" * 201}, "ContinualTransfer: name is"),
        ({"name": 3}, "ContinualTransfer: name is 3"),
        ({"trials": 3}, "ContinualTransfer: trials is no option"),
        ({"gamma": 0.9}, "ContinualTransfer: gamma is no option"),
        ({"hooks": [print, 3]}, "ContinualTransfer: hooks holds 3, must hold functions"),
        ({"hooks": 3}, "ContinualTransfer: hooks is 3, must be a list"),
        ({"model": "yes"}, "ContinualTransfer: model is 'yes', must be True or False"),
        ({"seed": 3}, r"ContinualTransfer: seed is no option here \(did you mean rng\?\), must be one of"),
        (
            {"selecter": "ppr"},
            r"ContinualTransfer: selecter is no option here \(did you mean selector or executor\?\), must",
        ),
        ({"clustering": {"k": 2, "restarts": 3}}, "ContinualTransfer: clustering holds 'restarts', must hold some of"),
        (
            {"clustering": {"k": 2, "price": 3}},
            "ContinualTransfer: clustering holds k and price, must hold one of them",
        ),
        ({"clustering": {"k": 0}}, "ContinualTransfer: clustering's k is 0, must be a whole number"),
        ({"clustering": {"k": 1, "must_keep": ["a", "b"]}}, "ContinualTransfer: clustering's k is 1, must be a whole"),
        ({"clustering": {"price": "low"}}, "ContinualTransfer: clustering's price is 'low', must be a number or 'meas"),
        ({"clustering": {"price": -1}}, "ContinualTransfer: clustering's price is -1, must be"),
        ({"clustering": {"max_loss": "a"}}, "ContinualTransfer: clustering's max_loss is 'a', must be"),
        ({"clustering": {"must_keep": 0}}, "ContinualTransfer: clustering's must_keep is 0, must be a list of names"),
        ({"clustering": {"must_keep": [0]}}, "ContinualTransfer: clustering's must_keep holds 0, must hold names of"),
        (
            {"clustering": {"must_keep": "a", "never_keep": ["a"]}},
            "ContinualTransfer: clustering's must_keep and never_keep both hold 'a', must not",
        ),
        (
            {"clustering": {"k": 2, "method": "greedy"}},
            "ContinualTransfer: clustering's method is 'greedy', must be 'keep' beside k",
        ),
        ({"clustering": 20}, "ContinualTransfer: clustering is 20, must be a mapping"),
        (
            {"clustering": {"restart": 2}},
            "ContinualTransfer: clustering holds 'restart' .*, must hold some of .*rest",
        ),
        ({"clustering": {"episodes": 2}}, "ContinualTransfer: clustering holds 'episodes'"),
        (
            {"clustering": {"method": "best"}},
            "ContinualTransfer: clustering's method is 'best', must be one of 'search'",
        ),
        ({"clustering": {"method": "greedy", "restarts": 2}}, "ContinualTransfer: clustering holds 'restarts'"),
    ],
)
def test_bad_arguments_are_refused_by_name(repository, changes, sentence):
    settings = FINE | {"rng": np.random.default_rng(0)} | changes
    with pytest.raises(InvalidInputError, match=sentence):
        ContinualTransfer(repository, **settings)
    assert story(repository) == ([], [], [], [], [])


def test_what_is_no_task_is_refused_by_its_place(repository):
    agent_ = lifelong(repository)
    with pytest.raises(
        InvalidInputError, match=r"ContinualTransfer\.run: task 1 is a str, must be a TabularMDP or a G"
    ):
        agent_.run([grids()[0], "FrozenLake-v1"])
    assert agent_.run(grids(2)).returns.shape == (2, 60)


def test_a_task_of_another_family_is_refused_and_the_stream_goes_on(repository):
    with pytest.raises(InvalidInputError, match=r"task\.n_states is 6, must be 16 as in task 1"):
        lifelong(repository).run([*grids(3), random_task(np.random.default_rng(0))])
    assert len(repository) == 3
    assert lifelong(repository).run(grids(4)).n_sources.tolist() == [0, 0, 0, 2]


def untold(**kwargs):
    """A black box that does not tell the range of its rewards."""
    return GymTask("Cursed-v0", kwargs)


@pytest.mark.parametrize("changes", [{}, {"sources": "none"}])
def test_bounds_must_be_given_where_nothing_tells_them(repository, cursed, changes):
    with pytest.raises(
        InvalidInputError, match="ContinualTransfer: bounds is None, must be given: task 0 of the strea"
    ):
        lifelong(repository, **changes).run([untold()])
    assert len(repository) == 0


def test_bounds_must_be_given_where_a_model_is_not_to_be_used(repository):
    with pytest.raises(
        InvalidInputError, match="ContinualTransfer: bounds is None, must be given: task 0 of the strea"
    ):
        lifelong(repository, model=False).run(grids(1))
    assert len(repository) == 0


def test_bounds_must_be_given_where_a_stored_task_does_not_tell_them(repository, cursed):
    repository.add(untold(), np.ones(3, int), evaluation_episodes=2)
    repository.cluster(rng=np.random.default_rng(0), n_clusters=1, restarts=1, iterations=10)
    with pytest.raises(
        InvalidInputError,
        match=r"ContinualTransfer: bounds is None, must be given: task 1 is valued without.*\(--bounds\).*reward_range",
    ):
        lifelong(repository).run([untold(pays=2.0)])


def test_an_environment_that_tells_its_rewards_needs_no_bounds(repository, cursed):
    options = BLACK_BOX | {"bounds": None}
    run = lifelong(repository, **options).run(LAKES[:3])
    assert run.returns.shape == (3, 40)
    declared = [GymTask("Cursed-v0", {"pays": pays}, reward_range=(0, 3)) for pays in (1.0, 3.0)]
    with Repository(repository.place.replace(".db", "-2.db")) as other:
        assert lifelong(other, **options).run(declared).returns.max() == 3.0


def test_tasks_without_a_discount_need_no_bounds(repository):
    tasks = [TabularMDP([[0, 1], [1, 0]], [[a, 0.0], [0.5, b]], horizon=5, gamma=1.0) for a, b in np.eye(3)[:, :2]]
    run = lifelong(repository).run(tasks)
    assert run.returns.shape == (3, FINE["episodes"])
    assert (
        repository.return_bounds().lower <= run.returns.min() <= run.returns.max() <= repository.return_bounds().upper
    )


def test_a_learner_without_an_array_cannot_be_stored(repository):
    learner = FixedPolicy(lambda observation: 0)
    with pytest.raises(InvalidInputError, match="the learner's policy is a function, must be an array"):
        lifelong(repository, model=False, bounds=(0, 90), learner=learner).run(grids(1))
    assert len(repository) == 0


# Environments that fail


class Cursed(gym.Env):
    """One state, one step; raises an error as long as it is cursed."""

    observation_space, action_space = gym.spaces.Discrete(3), gym.spaces.Discrete(2)
    horizon, cursed, steps = 4, False, 0

    def __init__(self, pays=1.0):
        self.pays = pays

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        Cursed.steps += 1
        if Cursed.cursed and self.pays == 2.0 and Cursed.steps > 20:
            raise RuntimeError("the robot fell over")
        return 0, self.pays * action, True, False, {}


@pytest.fixture
def cursed():
    gym.register("Cursed-v0", Cursed)
    yield Cursed
    del gym.registry["Cursed-v0"]
    Cursed.cursed = False


def test_an_environment_that_raises_stops_the_stream_which_goes_on_afterwards(path, tmp_path, cursed):
    tasks = [GymTask("Cursed-v0", {"pays": pays}) for pays in (1.0, 2.0, 3.0)]
    options = {"episodes": 40, "bounds": (0, 3), "evaluation_episodes": 2}
    expected, _ = uninterrupted(tmp_path, tasks, **options)
    with Repository(path) as repository:
        cursed.cursed, cursed.steps = True, 0
        with pytest.raises(
            TaskError, match=r"Cursed-v0\(pays=2.0\): step raised RuntimeError\('the robot fell over'\)"
        ):
            lifelong(repository, **options).run(tasks)
        assert len(repository) == 1
        assert repository.check() == []
        cursed.cursed = False
        lifelong(repository, **options).run(tasks)
        assert story(repository) == expected


# What is told and drawn


def a_run(tasks=30, evaluated=0, level=1.0):
    rng = np.random.default_rng(0)
    return ContinualRun(
        [f"task {k}" for k in range(tasks)], level * rng.random((tasks, 10)), np.full(tasks, level),
        np.arange(tasks), np.full(tasks, evaluated), list(range(10, tasks + 1, 10)),
    )  # fmt: skip


def test_a_seed_is_told_and_gives_the_same_run_again(tmp_path):
    stream = windy_corridor.family()[:3]
    runs = {}
    for name, rng in (("seed", 5), ("again", 5), ("generator", np.random.default_rng(5)), ("fresh", None)):
        with Repository(tmp_path / f"{name}.db") as repository:
            runs[name] = ContinualTransfer(repository, episodes=20, recluster_every=2, rng=rng).run(stream)
    assert runs["seed"].seed == runs["again"].seed == 5
    assert runs["generator"].seed is None
    for name in ("again", "generator"):
        assert same_bits(runs[name].returns, runs["seed"].returns)
    with Repository(tmp_path / "from its seed.db") as repository:
        again = ContinualTransfer(repository, episodes=20, recluster_every=2, rng=runs["fresh"].seed).run(stream)
    assert same_bits(again.returns, runs["fresh"].returns)


def test_a_stream_that_was_begun_without_a_seed_goes_on_without_one(tmp_path):
    stream = windy_corridor.family()[:4]
    with Repository(tmp_path / "agent.db") as repository:
        first = ContinualTransfer(repository, episodes=20, recluster_every=2).run(stream[:2])
    with Repository(tmp_path / "agent.db") as repository:
        rest = ContinualTransfer(repository, episodes=20, recluster_every=2).run(stream)
        assert rest.seed == first.seed
        with pytest.raises(InvalidInputError, match=r"rng \(--seed\) is another"):
            ContinualTransfer(repository, episodes=20, recluster_every=2, rng=first.seed + 1).run(stream)
    with Repository(tmp_path / "whole.db") as repository:
        whole = ContinualTransfer(repository, episodes=20, recluster_every=2, rng=first.seed).run(stream)
    assert same_bits(rest.returns, whole.returns)


# What is known of the tasks before


@pytest.mark.parametrize("how", [{}, {"selector": "informed"}, {"selector": Informed}], ids=str)
def test_sources_are_chosen_by_what_they_were_worth_in_the_tasks_before(repository, how, monkeypatch):
    given = []

    @wraps(transfer)
    def noted(*arguments, **settings):
        given.append((arguments, settings))
        return transfer(*arguments, **settings)

    monkeypatch.setattr(agent, "transfer", noted)
    lifelong(repository, **how).run(grids())
    stored = repository.database.read(lambda connection: rows.fetch(connection, "runs"))
    assert [row["settings"]["selector"] for row in stored] == 3 * ["RegretBalancing"] + 4 * ["Informed"]
    for position, ((_, sources), settings) in enumerate(given):
        known = settings.get("experience")
        assert (known is None) == (not sources)
        if known is not None:
            assert (len(known.values), list(known.sources)) == (position, list(sources))
            assert same_bits(known.values, cross_values(grids()[:position], list(sources.values())))
            assert not known.spread.any()  # all of it is deterministic
            assert known.errors is None


@pytest.mark.parametrize("selector", ["exp3-transfer", "regret-balancing", TsallisINF, partial(TsallisINF, clip=True)])
def test_a_selector_that_is_asked_for_and_knows_nothing_is_told_nothing(repository, selector):
    run = lifelong(repository, selector=selector).run(grids(4))
    assert run.n_sources.tolist() == [0, 0, 0, 2]
    stored = repository.database.read(lambda connection: rows.fetch(connection, "runs"))
    assert "Informed" not in [row["settings"]["selector"] for row in stored]


def test_an_agent_takes_no_experience_of_another(repository):
    with pytest.raises(InvalidInputError, match="ContinualTransfer: experience is no option here"):
        lifelong(repository, experience=[[1.0, 2.0]])


def test_without_models_experience_is_what_the_episodes_told(repository):
    lifelong(repository, **BLACK_BOX, learner=QLearning()).run(LAKES)
    known = repository.experience()
    assert known.values.shape == known.errors.shape == known.spread.shape == (4, 1)
    stored = repository.database.read(lambda connection: rows.fetch(connection, "runs"))
    assert stored[-1]["settings"]["selector"] == "Informed"


def test_from_the_first_episodes_on_it_earns_more_than_one_that_knows_nothing(tmp_path):
    stream = windy_corridor.family()[::4]
    earned = {}
    for selector in ("informed", "exp3-transfer"):
        with Repository(tmp_path / f"{selector}.db") as repository:
            options = {"episodes": 30, "recluster_every": 5, "rng": 0, "clustering": QUICK, "selector": selector}
            earned[selector] = ContinualTransfer(repository, **options).run(stream).mean_returns[10:].mean()
    assert earned["informed"] > 1.5 * earned["exp3-transfer"]


def test_what_is_kept_is_settled_by_a_measured_price_unless_told_otherwise(tmp_path):
    """With a selector that knows no old tasks, or with arguments of a clustering, it is the paper's cost."""
    ways = (
        ({}, "keep", True),
        ({"clustering": {"method": "search"}}, "search", False),
        ({"clustering": {"directed": True}}, "search", True),
        ({"selector": "exp3-transfer"}, "search", False),
    )
    for number, (options, method, directed) in enumerate(ways):
        with Repository(tmp_path / f"{number}.db") as repository:
            lifelong = ContinualTransfer(repository, episodes=20, recluster_every=2, rng=0, **options)
            lifelong.run(windy_corridor.family()[:3])
            asked = repository.clusterings()[-1].settings
            assert (asked["method"], asked["directed"]) == (method, directed)
            assert ("measured" in asked) == (method == "keep")


def test_at_the_measured_price_more_is_earned_than_at_the_papers(tmp_path):
    """What tasks lose by one of few policies is more than what a selector that knows old tasks loses by many."""
    rng = np.random.default_rng(5)
    drawn = surveillance.family(60, 2, rng=rng, n_sequences=6)
    tasks, totals = [drawn[i] for i in rng.permutation(60)], {}
    for name, options in (
        ("measured", {}),
        ("paper", {"clustering": {"method": "search", "restarts": 2, "iterations": 1000}}),
    ):
        with Repository(tmp_path / f"{name}.db") as repository:
            lifelong = ContinualTransfer(repository, episodes=100, recluster_every=10, rng=0, **options)
            totals[name] = lifelong.run(tasks).total
    assert totals["measured"] > 1.1 * totals["paper"]


@pytest.mark.parametrize(
    ("stream", "sentence"),
    [
        (None, "stream is None, must be a task or a list of tasks"),
        ([None], "task 0 is a NoneType"),
        ("tasks", "stream is 'tasks'"),
    ],
)
def test_a_stream_that_is_none_is_refused(repository, stream, sentence):
    with pytest.raises(InvalidInputError, match=rf"^ContinualTransfer.run: {sentence}"):
        ContinualTransfer(repository, episodes=20, recluster_every=2, rng=0).run(stream)


def test_a_run_and_its_stream_as_frames_and_tables(tmp_path):
    with Repository(tmp_path / "agent.db") as repository:
        run = ContinualTransfer(repository, episodes=20, recluster_every=2, rng=0).run(windy_corridor.family()[:3])
        runs = repository.runs()
        stream = repository.stream("another", {})
        shown = [run, runs, runs[0], stream, stream.runs()]
        assert all(len(repr(item)) <= 100 and "\n" not in repr(item) for item in shown)
        assert runs[-1].source_names == [record.name for record in repository.policy_records(repository.source_ids())]
    frame = run.to_frame()
    assert frame["task"].tolist() == run.names
    assert frame["mean_return"].tolist() == run.mean_returns.tolist()
    assert len(runs.to_frame()) == 3


def test_a_run_in_one_line():
    run = ContinualRun(
        ["a", "b"], np.array([[1.0, 2.0], [3.0, 6.0]]), np.array([4.0, 6.0]), np.array([0, 1]), np.array([0, 0]), [2]
    )
    assert run.total == 12
    assert run.mean_returns.tolist() == [1.5, 4.5]
    assert repr(run) == "ContinualRun(2 tasks x 2 episodes: mean return 3)"
    assert str(run) == (
        "ContinualRun(2 tasks x 2 episodes: mean return 3 where the best stored policies earn 5; "
        "in the last tenth of the tasks 4.5 of 6)"
    )


def labels(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.parametrize("evaluated", [0, 30])
def test_the_curves_of_several_agents(tmp_path, evaluated):
    runs = {"clusters": a_run(evaluated=evaluated), "none": a_run(20, level=0.4)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = plot_streams(runs)
        figure.savefig(tmp_path / "streams.png")
    assert len(figure.axes) == (3 if evaluated else 2)
    assert labels(figure) == ["clusters", "none", "best stored policies"]
    for panel, name in zip(figure.axes, ["mean return of an episode", "reward so far", "episodes"], strict=False):
        assert panel.get_ylabel() == name
        assert panel.get_title()
        ticks = [tick.get_text() for tick in panel.get_yticklabels()]
        assert len(set(ticks)) == len(ticks)  # returns below 1 are told apart
    assert figure.axes[-1].get_xlabel() == "tasks met (grey lines: clustered anew)"
    curve, alone = figure.axes[1].lines[:2]
    assert curve.get_ydata()[-1] == pytest.approx(runs["clusters"].total)
    assert alone.get_ydata()[-1] == pytest.approx(runs["none"].total)
    first = figure.axes[0].lines[0].get_ydata()
    means = runs["clusters"].mean_returns
    assert first[:4].tolist() == pytest.approx([means[0], means[:2].mean(), means[:3].mean(), means[1:4].mean()])
    image = matplotlib.image.imread(tmp_path / "streams.png")
    assert len(np.unique(image.reshape(-1, image.shape[2]), axis=0)) > 20


def test_a_run_of_one_task_can_be_drawn(tmp_path):
    figure = a_run(1).plot()
    figure.savefig(tmp_path / "one.png")
    assert labels(figure) == ["this agent", "best stored policies"]
    assert figure.axes[-1].get_xlabel() == "tasks met"


@pytest.mark.parametrize("runs", [{}, {"empty": a_run(0)}, {"some": a_run(2), "empty": a_run(0)}])
def test_nothing_cannot_be_drawn(runs):
    with pytest.raises(InvalidInputError, match="plot_streams: runs must hold at least one ContinualRun"):
        plot_streams(runs)
