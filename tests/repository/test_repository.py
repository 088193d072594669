from __future__ import annotations

import numpy as np
import pytest
import reference
import sqlalchemy as sa
from repository_reference import (
    N_ACTIONS,
    N_STATES,
    assert_whole,
    constant_policy,
    from_scratch,
    one_step_task,
    random_task,
    random_tasks,
    same_bits,
    same_task,
    stored_policies,
    worst_policy,
)
from seams import memory, rows, worth

import pastmaster
from pastmaster import (
    GymTask,
    InvalidInputError,
    Repository,
    RepositoryError,
    TabularMDP,
    cross_values,
    solve,
)
from pastmaster.estimation import estimate_values

ALWAYS = [constant_policy(action) for action in range(N_ACTIONS)]
FAR = 10**9


@pytest.fixture
def repository(path):
    """In a file: what is tested on both kinds of database takes a ``place``."""
    with Repository(path) as opened:
        yield opened


# What goes in comes out


def test_an_empty_repository_holds_nothing(repository):
    assert len(repository) == 0
    assert repository.records() == repository.clusterings() == repository.sources() == repository.check() == []
    assert list(repository.tasks()) == list(repository.policies()) == []
    assert repository.cross_values().shape == (0, 0)
    assert repository.clustering() is None
    assert repr(repository).startswith("Repository(")
    assert repr(repository).endswith(f"{repository.place[-20:]}: 0 tasks, 0 policies)")
    assert len(repr(repository)) <= 100
    with pytest.raises(RepositoryError, match="holds no tasks yet"):
        repository.return_bounds()


def test_tasks_and_policies_come_back_bit_for_bit(place, rng):
    tasks = [*random_tasks(rng, 4), random_task(rng, 2, ending=0.5)]
    policies = [reference.random_policy(rng, task, mixed=bool(i % 2)) for i, task in enumerate(tasks)]
    policies[3] = np.asfortranarray(policies[3])
    with Repository(place) as repository:
        ids = [repository.add(task, policy) for task, policy in zip(tasks, policies, strict=True)]
        assert ids == [1, 2, 3, 4, 5]
    with Repository(place, create=False) as reopened:
        assert len(reopened) == 5
        for number, task, stored in zip(ids, tasks, reopened.tasks(), strict=True):
            assert same_task(task, stored)
            assert same_task(task, reopened.task(number))
        for record, task, policy in zip(reopened.records(), tasks, policies, strict=True):
            own = reopened.policy(record.own_policy)
            np.testing.assert_allclose(own, policy, rtol=1e-15)  # probabilities are divided by their sum
            assert own.dtype == (np.int32 if policy.ndim == 1 else np.float64)
            assert record.bounds == pastmaster.return_bounds(task)
            assert (record.kind, record.name) == ("tabular", task.name)
        assert reopened.return_bounds() == pastmaster.return_bounds(tasks)
        assert_whole(reopened)


def test_name_and_params_come_back(path, rng):
    task = TabularMDP(
        **reference.random_arrays(rng, 4, 2, None),
        gamma=0.5,
        name="a 'name' with \"quotes\", ünïcode and \N{SNOWMAN}",
        params={"row": [1, 2.5, None, True], "of": {"grid": "text"}, "at": np.int64(3), "w": np.array([0.1, 0.2])},
    )
    with Repository(path) as repository:
        repository.add(task)
    with Repository(path) as reopened:
        stored = reopened.task(1)
        assert stored.name == reopened.records()[0].name == task.name
        assert stored.params == {"row": [1, 2.5, None, True], "of": {"grid": "text"}, "at": 3, "w": [0.1, 0.2]}


def test_probabilities_that_sum_to_one_but_for_rounding_come_back_as_they_were(path, rng):
    arrays = reference.random_arrays(rng, N_STATES, N_ACTIONS, 7)
    start = rng.random(N_STATES)
    task = TabularMDP(**arrays, gamma=0.9, start=start / start.sum())
    with Repository(path) as repository:
        repository.add(task)
    with Repository(path) as reopened:
        assert same_task(task, reopened.task(1))
        assert reopened.add(task) == 1


def test_without_a_policy_the_task_is_solved(repository, rng):
    task = random_task(rng, 3)
    repository.add(task)
    assert np.array_equal(repository.policies()[0], solve(task).policy)
    assert repository.records()[0].value == cross_values([task])[0, 0]


def test_a_solution_is_taken_as_its_policy(repository, rng):
    task = random_task(rng, 3)
    repository.add(task, solve(task))
    assert same_bits(repository.policies()[0], solve(task).policy)
    assert_whole(repository)


def test_sequences_are_read_when_looked_at(path, rng, monkeypatch):
    tasks = random_tasks(rng, 5)
    with Repository(path) as repository:
        for task in tasks:
            repository.add(task)
    read = []
    make = memory.valued_of
    monkeypatch.setattr(memory, "valued_of", lambda row, arrays: read.append(row["id"]) or make(row, arrays))
    monkeypatch.setattr(rows, "BATCH", 2)
    with Repository(path) as reopened:
        lazy = reopened.tasks()
        assert len(lazy) == 5
        assert lazy.ids == [1, 2, 3, 4, 5]
        assert "5 records" in repr(lazy)
        assert read == []
        assert same_task(lazy[-1], tasks[-1])
        assert read == [5]
        assert [same_task(*pair) for pair in zip(lazy[1:3], tasks[1:3], strict=True)] == [True, True]
        assert read == [5, 2, 3]
        walk = iter(lazy)
        next(walk)
        assert read == [5, 2, 3, 1]
        assert len(list(walk)) == 4
        assert sorted(read) == [1, 2, 3, 4, 5]


def test_a_closed_repository_and_the_context_manager_let_go(place, rng):
    with Repository(place) as repository:
        repository.add(random_task(rng))
        pool = repository.database.backend.engine.pool
        assert pool.checkedin() == 1
    assert repository.database.backend.engine.pool.checkedin() == 0
    repository.close()


# Values


def one_random_change(repository, rng, drawn_tasks):
    """Add, remove or replace at random; returns the id that was given out, if one was."""
    there = [record.id for record in repository.records()]
    kind = rng.choice(["solve", "import", "mixed", "again", "remove", "replace"], p=[0.25, 0.25, 0.1, 0.1, 0.1, 0.2])
    if not there and kind in ("again", "remove", "replace"):
        kind = "solve"
    task = random_task(rng, int(rng.integers(2, 4)) if rng.random() < 0.5 else None)
    if kind == "again":
        task = drawn_tasks[rng.integers(len(drawn_tasks))]
    policy = None if kind == "solve" else reference.random_policy(rng, task, mixed=kind == "mixed")
    if kind == "remove":
        repository.remove(int(rng.choice(there)))
    elif kind == "replace":
        repository.replace_policy(int(rng.choice(there)), policy)
    else:
        drawn_tasks.append(task)
        return repository.add(task, policy)
    return None


@pytest.mark.parametrize("sequence", range(2))
def test_values_are_those_computed_from_scratch_after_any_changes(place, seed, sequence):
    rng = np.random.default_rng([seed, sequence])
    seen, drawn = set(), []
    with Repository(place) as one, Repository(place) as two:
        for _ in range(8):
            changed, other = (one, two) if rng.random() < 0.5 else (two, one)
            before = {record.id for record in changed.records()}
            number = one_random_change(changed, rng, drawn)
            if number is not None and number not in before:
                assert number not in seen, "an id was used twice"
                seen.add(number)
            assert_whole(changed, strict_ties=False)
            assert same_bits(other.cross_values(), changed.cross_values())
        with Repository(place) as reopened:
            assert_whole(reopened, strict_ties=False)


def test_the_own_policy_is_of_record_among_equals_then_the_earliest(repository):
    first = repository.add(one_step_task(0, 1, 1), ALWAYS[1])
    second = repository.add(one_step_task(0, 2, 2), ALWAYS[2])  # equally good in both
    third = repository.add(one_step_task(0, 3, 3), ALWAYS[0])  # its own is worst, the others tie
    by_id = {record.id: record for record in repository.records()}
    assert by_id[first].policy_of_record == by_id[first].own_policy
    assert by_id[second].policy_of_record == by_id[second].own_policy
    assert by_id[third].policy_of_record == by_id[first].own_policy
    assert_whole(repository)


def test_a_difference_within_rounding_is_a_tie(repository):
    rounding, real = 1 + 1e-10, 1 + 1e-8
    repository.add(one_step_task(0, 1, rounding), ALWAYS[1])
    repository.add(one_step_task(0, 1, real), ALWAYS[1])
    repository.add(one_step_task(5, 0, 7), ALWAYS[2])
    records = repository.records()
    assert records[0].policy_of_record == records[0].own_policy
    assert records[1].policy_of_record == records[2].own_policy


def test_a_better_policy_that_comes_later_becomes_that_of_record(repository, rng):
    bad = random_task(rng, 3)
    repository.add(bad, worst_policy(bad))
    assert repository.records()[0].policy_of_record == repository.records()[0].own_policy
    other = random_task(rng)
    repository.add(other, solve(bad).policy)
    record, donor = repository.records()
    assert record.own_policy != record.policy_of_record == donor.own_policy
    assert record.value == cross_values([bad])[0, 0]
    assert same_bits(repository.policies()[0], repository.policies()[1])
    assert_whole(repository)


def test_a_better_policy_that_was_there_is_of_record_at_once(repository, rng):
    bad = random_task(rng, 3)
    repository.add(random_task(rng), solve(bad).policy)
    repository.add(bad, worst_policy(bad))
    donor, record = repository.records()
    assert record.own_policy != record.policy_of_record == donor.own_policy
    assert record.value == cross_values([bad])[0, 0]
    assert_whole(repository)


def test_policies_that_are_nobodys_are_forgotten(repository):
    first = repository.add(one_step_task(0, 1, 2), ALWAYS[0])
    second = repository.add(one_step_task(3, 1, 0), ALWAYS[1])  # its policy is the better one in the first
    repository.remove(second)
    assert [record.policy_of_record for record in repository.records()] == [2]  # the first task needs it
    repository.add(one_step_task(0, 0, 1), ALWAYS[2])  # now a better one is of record
    assert repository.records()[0].policy_of_record == 3
    assert "2 tasks, 2 policies" in repr(repository)
    repository.remove(first)
    assert "1 tasks, 1 policies" in repr(repository)


def count_pairs(monkeypatch):
    """The pairs of task and policy valued from now on, as the repository's valuers are asked for them."""
    pairs = []

    def counted(tasks, policies):
        pairs.append((len(tasks), len(policies)))
        return cross_values(tasks, policies)

    monkeypatch.setattr(worth, "cross_values", counted)
    return pairs


def test_adding_computes_one_row_and_one_column(repository, rng, monkeypatch):
    for task in random_tasks(rng, 6):
        repository.add(task)
    pairs = count_pairs(monkeypatch)
    repository.add(random_task(rng, 3))
    assert sorted(pairs) == [(1, 1), (1, 6), (6, 1)]
    pairs.clear()
    repository.cross_values()
    repository.policies()[0]
    list(repository.tasks())
    assert pairs == []


@pytest.mark.parametrize("max_loss", [None, 0.5])
def test_an_add_is_two_transactions_of_few_statements(path, rng, max_loss):
    """What is in memory is not read again."""
    statements = []
    with Repository(path, max_loss=max_loss) as repository:
        for task in random_tasks(rng, 6):
            repository.add(task)
        engine = repository.database.backend.engine
        sa.event.listen(
            engine, "before_cursor_execute", lambda c, cursor, statement, *more: statements.append(statement)
        )
        repository.add(random_task(rng, 3))
    assert sum(statement.startswith("BEGIN") for statement in statements) == 2
    own = ("BEGIN", "COMMIT", "SELECT 1 FROM sqlite_master")
    assert sum(not statement.startswith(own) for statement in statements) <= 12


def test_replacing_computes_one_column_and_removing_nothing(repository, rng, monkeypatch):
    tasks = random_tasks(rng, 5)
    for task in tasks:
        repository.add(task)
    pairs = count_pairs(monkeypatch)
    repository.remove(2)
    assert pairs == []
    repository.replace_policy(1, worst_policy(tasks[0]))
    assert sum(n * m for n, m in pairs) <= 1 + 4
    assert_whole(repository)


def test_values_written_once_are_not_written_again(repository, rng):
    def stored_bytes():
        rows_of = "SELECT owner, owner_id, name, sha256 FROM arrays ORDER BY owner, owner_id, name"
        return repository.database.read(lambda c: {tuple(row) for row in c.exec_driver_sql(rows_of)})

    for task in random_tasks(rng, 4):
        repository.add(task)
    before = stored_bytes()
    repository.add(random_task(rng))
    assert before < stored_bytes()


def test_tasks_that_share_their_dynamics_are_valued_the_same_to_rounding(repository, rng):
    arrays = reference.random_arrays(rng, N_STATES, N_ACTIONS, 3)
    for _ in range(4):
        arrays["reward"] = rng.normal(size=arrays["reward"].shape)
        repository.add(TabularMDP(**arrays, gamma=0.9, horizon=20))
    np.testing.assert_allclose(repository.cross_values(), from_scratch(repository), rtol=1e-13, atol=1e-13)
    assert repository.check() == []


# Adding again, replacing, removing


def test_adding_a_task_again_gives_the_same_id_and_changes_nothing(repository, rng):
    task = random_task(rng, 3)
    number = repository.add(task)
    before = repository.records()
    assert repository.add(task) == number
    assert repository.add(task, worst_policy(task)) == number
    assert repository.add(task, solve(task).policy) == number
    assert repository.records() == before
    assert "1 tasks, 1 policies" in repr(repository)
    assert_whole(repository)


def test_a_task_with_a_poor_policy_is_solved_when_it_is_added_again_without_one(repository, rng):
    task = random_task(rng, 3)
    repository.add(task, worst_policy(task))
    assert repository.add(task) == 1
    np.testing.assert_array_equal(repository.policy(repository.records()[0].own_policy), solve(task).policy)
    assert "1 tasks, 1 policies" in repr(repository)
    assert_whole(repository)


def test_a_removal_whose_acknowledgement_was_lost_is_not_made_twice(postgres_url, rng, monkeypatch):
    with Repository(postgres_url) as repository:
        repository.add(random_task(rng))
        repository.add(random_task(rng))
        once, lost = type(repository.database)._once, []

        def forgetful(database, writes, work, sent=None):
            result = once(database, writes, work, sent)
            if writes and not lost:
                lost.append(sent)
                raise sa.exc.OperationalError("COMMIT", {}, Exception("server closed the connection unexpectedly"))
            return result

        monkeypatch.setattr(type(repository.database), "_once", forgetful)
        repository.remove(1)
        assert lost
        assert [record.id for record in repository.records()] == [2]
        lost.clear()
        repository.cluster(episodes=100, rng=rng, restarts=1, iterations=100)
        assert len(repository.clusterings()) == 1


def test_a_run_is_stored_with_its_task(place, rng):
    task = random_task(rng)
    run = pastmaster.transfer(task, [], episodes=20, bounds=pastmaster.return_bounds(task), rng=rng, trials=2)
    with Repository(place) as repository:
        number = repository.add(task, run=run)
        (stored,) = repository.runs()
        assert (stored.task_id, stored.stream_id, stored.n_sources) == (number, None, 0)
        np.testing.assert_array_equal(stored.returns, run.returns[run.best_trial])
        np.testing.assert_array_equal(stored.arms, run.arms[run.best_trial])
        assert repository.check() == []


def test_adding_a_task_again_with_a_better_policy_replaces_it(repository, rng):
    task, other = random_task(rng, 3), random_task(rng)
    repository.add(other)
    number = repository.add(task, worst_policy(task))
    worse = repository.records()[-1]
    assert repository.add(task, solve(task).policy) == number
    better = repository.records()[-1]
    assert better.id == worse.id
    assert better.own_policy not in (worse.own_policy, worse.policy_of_record)
    assert better.value == cross_values([task])[0, 0] > worse.value
    with pytest.raises(RepositoryError, match=f"number is {worse.own_policy}, must be the id of a stored policy"):
        repository.policy(worse.own_policy)
    assert_whole(repository)


def test_name_and_params_do_not_make_another_task(repository, rng):
    arrays = reference.random_arrays(rng, N_STATES, N_ACTIONS, None)
    number = repository.add(TabularMDP(**arrays, gamma=0.9, name="one"))
    assert repository.add(TabularMDP(**arrays, gamma=0.9, name="two", params={"a": 1})) == number
    assert repository.add(TabularMDP(**arrays, gamma=0.9, horizon=7)) != number
    assert repository.add(TabularMDP(**arrays, gamma=0.9, start=1)) != number
    assert repository.records()[0].name == "one"


def test_a_worse_policy_replaces_the_own_but_is_not_of_record_where_another_is_better(repository, rng):
    task, donor = random_task(rng, 3), random_task(rng)
    repository.add(task)
    repository.add(donor, solve(task).policy)
    repository.replace_policy(1, worst_policy(task))
    record = repository.records()[0]
    assert record.policy_of_record == repository.records()[1].own_policy
    assert np.array_equal(repository.policy(record.own_policy), worst_policy(task))
    assert_whole(repository)


def test_a_policy_replaced_but_kept_for_another_task_still_counts(repository):
    first = repository.add(one_step_task(0, 0, 2), ALWAYS[2])
    repository.add(one_step_task(0, 0, 3), ALWAYS[0])  # the first task's policy is of record here
    repository.replace_policy(first, ALWAYS[0])
    assert [record.policy_of_record for record in repository.records()] == [1, 1]
    assert_whole(repository)


def test_replacing_a_policy_by_itself_changes_nothing(repository, rng):
    repository.add(random_task(rng))
    before = repository.records()
    repository.replace_policy(1, repository.policies()[0])
    assert repository.records() == before


def test_what_is_removed_is_gone_and_its_id_is_not_used_again(repository, rng):
    for task in random_tasks(rng, 3):
        repository.add(task)
    repository.remove(3)
    assert [record.id for record in repository.records()] == [1, 2]
    for forgotten in (repository.task, repository.remove, lambda n: repository.replace_policy(n, ALWAYS[0])):
        with pytest.raises(RepositoryError, match="number is 3, must be the id of a stored task"):
            forgotten(3)
    assert repository.add(random_task(rng)) == 4
    assert_whole(repository)


def test_unknown_ids_are_refused(repository, rng):
    repository.add(random_task(rng))
    for unknown in (2, FAR):
        with pytest.raises(RepositoryError, match=f"number is {unknown}, must be the id of a stored task"):
            repository.task(unknown)
        with pytest.raises(RepositoryError, match=f"number is {unknown}, must be the id of a stored policy"):
            repository.policy(unknown)


def test_what_is_no_id_is_refused_in_a_sentence(repository, rng):
    repository.add(random_task(rng))
    for wrong in ("x", None, 1.5, 0, -1, 2**70, [1]):
        for call in (repository.task, repository.policy, repository.remove):
            with pytest.raises(pastmaster.PastmasterError):
                call(wrong)
    assert len(repository) == 1


def test_numpys_integers_are_ids_too(path, rng):
    with Repository(path) as repository:
        repository.add(random_task(rng))
    with Repository(path) as reopened:
        for number in np.arange(1, 2):
            assert same_task(reopened.task(number), reopened.task(1))
            assert same_bits(reopened.policy(number), reopened.policy(1))
        reopened.remove(np.int64(1))
        assert len(reopened) == 0


# Clustering


@pytest.mark.parametrize("directed", [True, False])
def test_a_clustering_is_kept_with_what_was_asked_and_proven(place, rng, seed, directed):
    tasks = random_tasks(rng, 6)
    with Repository(place) as repository:
        for task in tasks:
            repository.add(task)
        options = {"episodes": 500, "certify": True, "restarts": 2, "iterations": 2000, "directed": directed}
        found = repository.cluster(rng=seed, **options)
        U, span = repository.cross_values(), pastmaster.return_bounds(tasks).span
    expected = pastmaster.search_clusterings(
        pastmaster.policy_distance(U, directed=directed), span=span, rng=np.random.default_rng(seed), **options
    )
    with Repository(place) as reopened:
        kept, (record,) = reopened.clustering(), reopened.clusterings()
        for name in ("labels", "representatives", "radii", "distance"):
            assert same_bits(getattr(kept, name), getattr(found, name))
            assert same_bits(getattr(found, name), getattr(expected, name))
        for name in ("cost", "size_cost", "kind", "directed", "lower_bound", "possible_c", "interrupted", "n_clusters"):
            assert getattr(kept, name) == getattr(found, name) == getattr(expected, name)
        assert kept.lower_bound is not None
        assert record.settings == options | {"span": span, "method": "search", "seed": seed}
        assert record.seed == seed
        assert record.result["cost"] == found.cost
        assert record.stream is None
        policies = reopened.policies()
        assert len(reopened.sources()) == found.n_clusters
        for source, i in zip(reopened.sources(), found.representatives, strict=True):
            assert same_bits(source, policies[int(i)])
        assert reopened.check() == []


def test_sources_are_policies_of_record_now_and_none_twice(repository):
    one = repository.add(one_step_task(9, 0, 0), ALWAYS[0])
    two = repository.add(one_step_task(0, 9, 0), ALWAYS[1])
    three = repository.add(one_step_task(0, 1, 2), ALWAYS[0])
    repository.cluster(rng=0, n_clusters=3, directed=False, restarts=2, iterations=1000)
    assert len(repository.sources()) == 2  # two and three have the same policy of record
    assert len(set(repository.source_ids())) == 2
    repository.replace_policy(three, ALWAYS[2])
    assert {tuple(source) for source in repository.sources()} == {tuple(policy) for policy in ALWAYS}
    repository.remove(one)
    assert {tuple(source) for source in repository.sources()} == {tuple(policy) for policy in ALWAYS[1:]}
    repository.remove(two)
    repository.remove(three)
    assert repository.sources() == []


def test_the_latest_clustering_counts_and_one_about_removed_tasks_is_refused(repository, rng):
    for task in random_tasks(rng, 4):
        repository.add(task)
    repository.cluster(rng=rng, n_clusters=1, restarts=1, iterations=500)
    latest = repository.cluster(rng=rng, n_clusters=3, restarts=1, iterations=500, directed=True)
    assert [record.result["n_clusters"] for record in repository.clusterings()] == [1, 3]
    assert repository.clustering().n_clusters == latest.n_clusters == 3
    assert repository.clustering().directed
    repository.remove(2)
    with pytest.raises(RepositoryError, match="since removed: cluster the repository anew"):
        repository.clustering()
    assert repository.check() == []


def test_settings_of_the_chain_are_stored_as_plain_values(repository, rng):
    for task in random_tasks(rng, 4):
        repository.add(task)
    chain = pastmaster.Chain(ladder=[1.0, 4.0], theta=0.5)
    repository.cluster(rng=rng, n_clusters=2, restarts=1, iterations=100, chain=chain)
    stored = repository.clusterings()[0].settings["chain"]
    assert stored == {"ladder": [1.0, 4.0], "alpha": 0.1, "beta": 0.8, "up": 0.5, "theta": 0.5}


def test_greedy_clustering_and_refused_ones(repository, rng):
    with pytest.raises(RepositoryError, match="nothing to keep"):
        repository.cluster(rng=rng, episodes=10)
    for task in random_tasks(rng, 4):
        repository.add(task)
    assert repository.cluster(rng=rng, episodes=100, method="greedy").n_clusters >= 1
    with pytest.raises(
        InvalidInputError, match=r"Repository.cluster: method is 'best', must be one of 'search', 'greedy'"
    ):
        repository.cluster(rng=rng, episodes=100, method="best")
    assert len(repository.clusterings()) == 1


# Refused


GOOD = one_step_task(0, 1, 2)
MIXED = np.full((N_STATES, N_ACTIONS), 1 / N_ACTIONS)
OTHER_SHAPE = TabularMDP(np.zeros((4, N_ACTIONS), int), np.zeros((4, N_ACTIONS)), gamma=0.9)
OTHER_ACTIONS = TabularMDP(np.zeros((N_STATES, 2), int), np.zeros((N_STATES, 2)), gamma=0.9)
OTHER_GAMMA = TabularMDP(GOOD.next_state, GOOD.reward, gamma=0.8)


def described(**settings) -> TabularMDP:
    return TabularMDP(GOOD.next_state, GOOD.reward, gamma=0.9, horizon=3, **settings)


REFUSED = {
    "states": (OTHER_SHAPE, {}, r"task\.n_states is 4, must be 6 as in task 1"),
    "actions": (OTHER_ACTIONS, {}, r"task\.n_actions is 2, must be 3 as in task 1"),
    "gamma": (OTHER_GAMMA, {}, r"task\.gamma is 0\.8, must be 0\.9 as in task 1"),
    "type": ("task", {}, "task is a str, must be a TabularMDP or a GymTask"),
    "none": (None, {}, "task is a NoneType"),
    "function": (GOOD, {"policy": lambda state: 0}, "policy is a function, must be an array"),
    "class": (GOOD, {"policy": dict}, "policy is <class .dict.>, must be an array"),
    "shape": (GOOD, {"policy": [0, 1]}, r"policy has shape \(2,\)"),
    "action": (GOOD, {"policy": [0, 1, 2, 3, 0, 0]}, r"policy\[3\] is action 3, must be in 0\.\.2"),
    "negative action": (GOOD, {"policy": [0, 1, 2, -1, 0, 0]}, r"policy\[3\] is action -1"),
    "chances": (GOOD, {"policy": MIXED * 2}, r"policy\[0\] is .*, must be probabilities that sum to 1"),
    "nan": (GOOD, {"policy": MIXED * np.nan}, r"policy\[0\] is .*, must be probabilities"),
    "text": (GOOD, {"policy": ["a"] * N_STATES}, "policy has shape .* and dtype <U1"),
    "objects": (GOOD, {"policy": np.array([None] * N_STATES)}, "policy has shape .* and dtype object"),
    "provenance": (GOOD, {"policy": ALWAYS[0], "provenance": "found"}, "provenance is 'found', must be one of"),
    "episodes": (GOOD, {"policy": ALWAYS[0], "evaluation_episodes": 1}, "evaluation_episodes is 1, must be"),
    "episodes' type": (GOOD, {"policy": ALWAYS[0], "evaluation_episodes": 2.5}, "evaluation_episodes is 2.5, must be"),
    "no model": (GOOD, {"evaluation_episodes": 5}, "policy is None, must be given"),
    "params": (described(params={"at": [1, len]}), {}, r"task.params\['at'\]\[1\] is .*, must be a plain number"),
    "params' set": (described(params={"at": {1, 2}}), {}, r"task.params\['at'\] is \{1, 2\}, must be a plain number"),
    "params' complex": (
        described(params={"at": np.complex128(1)}),
        {},
        r"task.params\['at'\] is \(1\+0j\), must be a plain",
    ),
}


def test_wrong_input_is_refused_with_its_name_and_nothing_is_stored(repository):
    repository.add(one_step_task(3, 2, 1), ALWAYS[0])
    for case, (task, arguments, sentence) in REFUSED.items():
        with pytest.raises(InvalidInputError, match=f"^Repository.add: {sentence}"):
            repository.add(task, **arguments)
        assert "1 tasks, 1 policies" in repr(repository), case
    assert repository.check() == []


def test_a_name_that_no_database_can_hold_is_refused(repository):
    for name in ("half a \ud800 pair", "a zero \0 within"):
        with pytest.raises(InvalidInputError, match=r"^TabularMDP: name is .*, must be a text"):
            described(name=name)
        with pytest.raises(InvalidInputError, match=r"^Repository.add: .*name"):
            repository.add(described(), name=name)
    assert len(repository) == 0


def test_a_gymnasium_task_needs_a_policy(repository):
    with pytest.raises(InvalidInputError, match=r"Repository.add: policy is None, must be given: .*FrozenLake"):
        repository.add(GymTask("FrozenLake-v1"))
    assert len(repository) == 0


def test_replacing_refuses_what_adding_does(repository):
    repository.add(GOOD)
    for policy, sentence in ((lambda s: 0, "policy is a function"), ([0], r"policy has shape \(1,\)")):
        with pytest.raises(InvalidInputError, match=sentence):
            repository.replace_policy(1, policy)
    assert_whole(repository)


# Without a model


def test_gymnasium_tasks_and_models_live_together(path):
    lake = GymTask("FrozenLake-v1", {"is_slippery": True}, gamma=0.9)
    model = TabularMDP.from_gymnasium("FrozenLake-v1", gamma=0.9)
    down, optimal = np.ones(16, int), solve(model).policy
    with Repository(path) as repository:
        repository.add(lake, down, evaluation_episodes=40)
        repository.add(model)
    with Repository(path) as reopened:
        blind, exact = reopened.records()
        assert reopened.task(1) == lake
        assert (blind.kind, exact.kind) == ("gymnasium", "tabular")
        assert blind.bounds == exact.bounds  # the lake tells its table
        U = reopened.cross_values()
        expected = estimate_values(lake, [optimal], episodes=40, seed=int(blind.digest[:15], 16))
        assert blind.policy_of_record == exact.own_policy
        assert (blind.value, blind.value_error) == (expected.mean[0], expected.error[0])
        assert U[0, 0] == U[0, 1] == expected.mean[0]
        assert U[1, 1] == cross_values([model])[0, 0]
        assert reopened.check() == []
        assert reopened.return_bounds() == exact.bounds
        assert reopened.cluster(rng=np.random.default_rng(0), episodes=10, span=1.0, restarts=1, iterations=100)


def test_estimates_do_not_depend_on_the_order_of_adding(tmp_path, rng):
    policies = [rng.integers(4, size=16) for _ in range(3)]
    tasks = [GymTask("FrozenLake-v1", {"is_slippery": slippery}) for slippery in (True, False)]
    values = []
    for order in ([0, 1], [1, 0]):
        with Repository(tmp_path / f"{order[0]}.db") as repository:
            for i in order:
                repository.add(tasks[i], policies[i], evaluation_episodes=12)
            values.append({record.name: (record.value, record.value_error) for record in repository.records()})
    assert values[0] == values[1]


def test_a_better_estimate_must_be_better_by_two_standard_errors(repository, rng):
    lake, model = GymTask("FrozenLake-v1", gamma=0.99), TabularMDP.from_gymnasium("FrozenLake-v1", gamma=0.99)
    optimal = solve(model).policy
    almost = optimal.copy()
    almost[14] = (almost[14] + 1) % 4
    repository.add(lake, almost, evaluation_episodes=30)
    before = repository.records()[0]
    repository.add(lake, optimal, evaluation_episodes=30)
    after = repository.records()[0]
    estimate = estimate_values(lake, [almost, optimal], episodes=30, seed=int(before.digest[:15], 16))
    clearly = estimate.mean[1] - estimate.mean[0] > 2 * np.hypot(*estimate.error)
    assert (after.own_policy != before.own_policy) == clearly


def noisy_task(bad: float, good: float, better: float) -> TabularMDP:
    """One step; action 0 pays exactly ``bad``, the others 10 more or less than their mean, by chance."""
    reward = np.zeros((6, 3, 2))
    reward[:, 0], reward[:, 1], reward[:, 2] = bad, [good - 10, good + 10], [better - 10, better + 10]
    shape = (6, 3, 2)
    return TabularMDP(
        np.zeros(shape, int), reward, probability=np.full(shape, 0.5), terminated=np.ones(shape, bool), gamma=0.9,
        horizon=20,
    )  # fmt: skip


@pytest.mark.parametrize("order", [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 1, 0]])
def test_of_estimated_policies_that_beat_the_own_the_best_mean_is_of_record(repository, order):
    # 1 beats a bad own policy; it must not then be protected from 2, whose mean is higher by less than the noise
    tasks = [noisy_task(-20.0, 2.0, 3.0), one_step_task(0, 1, 0), one_step_task(0, 0, 1)]
    ids, own = {}, {}
    for i in order:
        number = repository.add(tasks[i], ALWAYS[i], evaluation_episodes=30)
        ids[i], own[i] = number, repository.record(number).own_policy
    record = repository.record(ids[0])
    found = estimate_values(tasks[0], ALWAYS, episodes=30, seed=int(record.digest[:15], 16))
    better = 1 + int(found.mean[2] > found.mean[1])
    assert abs(found.mean[2] - found.mean[1]) < 2 * np.hypot(*found.error[1:])  # neither beats the other
    assert found.mean[1:].min() - found.mean[0] > 2 * found.error.sum()
    assert (record.policy_of_record, record.value) == (own[better], found.mean[better])
    assert repository.check() == []


def test_an_estimated_policy_that_is_given_again_is_compared_by_the_same_rule(repository):
    task = noisy_task(-20.0, 2.0, 3.0)
    number = repository.add(task, ALWAYS[0], evaluation_episodes=30)
    found = estimate_values(task, ALWAYS, episodes=30, seed=int(repository.record(number).digest[:15], 16))
    better = 1 + int(found.mean[2] > found.mean[1])
    repository.add(one_step_task(*np.eye(3)[3 - better]), ALWAYS[3 - better])
    assert repository.record(number).value == found.mean[3 - better]
    repository.add(task, ALWAYS[better], evaluation_episodes=30)
    record = repository.record(number)
    assert (record.policy_of_record, record.value) == (record.own_policy, found.mean[better])
    repository.add(task, ALWAYS[3 - better], evaluation_episodes=30)  # not better: the own policy stays
    assert repository.record(number) == record


# Two at one place


def test_two_open_repositories_see_each_others_changes(place, rng):
    tasks = random_tasks(rng, 5)
    with Repository(place) as one, Repository(place) as two:
        one.add(tasks[0])
        assert len(two) == 1
        two.add(tasks[1], worst_policy(tasks[1]))
        assert same_bits(one.cross_values(), two.cross_values())
        one.add(tasks[2])
        assert two.records() == one.records()
        two.replace_policy(1, ALWAYS[0])
        one.add(tasks[3])
        for repository in (one, two):
            assert_whole(repository, strict_ties=False)
            assert np.array_equal(stored_policies(repository)[one.records()[0].own_policy], ALWAYS[0])


def test_what_another_removed_is_not_read_from_memory(place, rng):
    tasks = random_tasks(rng, 3)
    with Repository(place) as one, Repository(place) as two:
        for task in tasks:
            one.add(task)
        ids = [record.own_policy for record in one.records()]
        assert [same_task(*pair) for pair in zip(two.tasks(), tasks, strict=True)] == [True] * 3
        for number in ids:
            two.policy(number)
        one.remove(1)
        for opened in (one, two):
            with pytest.raises(RepositoryError, match="number is 1, must be the id of a stored task"):
                opened.task(1)
            with pytest.raises(RepositoryError, match=f"number is {ids[0]}, must be the id of a stored policy"):
                opened.policy(ids[0])
            with pytest.raises(RepositoryError, match="number is 1, must be the id of a stored task"):
                opened.replace_policy(1, ALWAYS[0])
        two.add(random_task(rng))
        assert_whole(one)
        assert_whole(two)


def test_a_policy_changed_by_the_caller_afterwards_is_not_changed_here(repository, rng):
    mine = np.zeros(N_STATES, np.int32)
    repository.add(random_task(rng), mine)
    mine[:] = 2
    assert np.array_equal(repository.policy(1), np.zeros(N_STATES))
    repository.add(random_task(rng))
    assert_whole(repository)


def test_what_is_read_cannot_be_written(repository, rng):
    repository.add(random_task(rng, 3))
    for array in (repository.policies()[0], repository.task(1).reward, repository.task(1).probability):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_a_task_added_and_a_task_read_are_alike(path, rng):
    task = described(params={1: (2, 3), "w": np.array([1.0])})
    with Repository(path) as repository, Repository(path) as other:
        repository.add(task)
        assert repository.task(1).params == other.task(1).params == {"1": [2, 3], "w": [1.0]}


def test_values_hold_when_nothing_fits_into_memory(path, rng, monkeypatch):
    monkeypatch.setattr(memory, "MOST_BYTES", 0)
    with Repository(path) as repository:
        for task in random_tasks(rng, 4):
            repository.add(task)
        assert repository._contents.tasks.kept == {}
        assert_whole(repository)


def test_lists_have_places_and_loops_end_where_they_do(repository):
    repository.add(one_step_task(2.0, 1.0, 0.0), ALWAYS[0])
    with pytest.raises(IndexError):
        repository.tasks()[1]
    assert len(list(repository.tasks())) == len(list(reversed(repository.tasks()))) == 1
    for listed, name in ((repository.tasks(), "tasks"), (repository.policies(), "policies")):
        for wrong in (99, -2, "a"):
            with pytest.raises(InvalidInputError, match=f"^Repository.{name}: index is {wrong!r}, must be in"):
                listed[wrong]
