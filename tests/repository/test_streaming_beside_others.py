"""A streaming repository that others write to: transactions that are run again, questions asked beside writers."""

from __future__ import annotations

import numpy as np
import pytest
import sqlalchemy as sa
from faults import small_task
from repository_reference import wrong_values
from seams import Database, asked, rows

from pastmaster import Repository, cross_values
from pastmaster.clustering import keeping

MAX_LOSS = 0.5


def lose_connection(monkeypatch, database, then):
    """Let a writer's first transaction fail once all its work is done; ``then`` happens before it is tried again."""
    work, once, lost = Database._work, Database._once, []

    def failing(self, connection, wanted, writes, sent):
        result = work(self, connection, wanted, writes, sent)
        if self is database and writes and not lost:
            lost.append(True)
            raise sa.exc.OperationalError("", {}, Exception("server closed the connection unexpectedly"))
        return result

    def followed(self, *given):
        try:
            return once(self, *given)
        except sa.exc.OperationalError:
            then()
            raise

    monkeypatch.setattr(Database, "_work", failing)
    monkeypatch.setattr(Database, "_once", followed)
    return lost


@pytest.mark.parametrize("max_loss", [MAX_LOSS, None])
def test_a_batch_that_is_stored_again_takes_nothing_from_the_first_try(postgres_url, monkeypatch, max_loss):
    """Ids of a transaction that was not committed are given to others: values under them are of other policies."""
    with Repository(postgres_url, max_loss=max_loss) as one, Repository(postgres_url) as two:
        one.add(small_task(0))
        two.add(small_task(1))
        lost = lose_connection(monkeypatch, one.database, lambda: [two.add(small_task(i)) for i in range(100, 106)])
        one.add_many([small_task(i) for i in range(10, 30)])
        assert lost
        assert len(one) == 28
        assert wrong_values(one) == 0
        assert one.check() == []
        one.keep(k=2, rng=0)
        assert wrong_values(one) == 0


@pytest.mark.parametrize("max_loss", [MAX_LOSS, None])
def test_one_task_that_is_stored_again_takes_nothing_from_the_first_try(postgres_url, monkeypatch, max_loss):
    with Repository(postgres_url, max_loss=max_loss) as one, Repository(postgres_url) as two:
        one.add(small_task(0))
        lost = lose_connection(monkeypatch, one.database, lambda: [two.add(small_task(i)) for i in range(100, 106)])
        one.add(small_task(10))
        assert lost
        one.add(small_task(11))
        assert wrong_values(one) == 0
        assert one.check() == []


@pytest.mark.parametrize("max_loss", [MAX_LOSS, None])
def test_what_a_batch_reads_before_it_is_committed_is_not_seen_by_other_threads(place, monkeypatch, max_loss):
    """If it fails, its ids are given to others at once: another thread must not find its policies under them."""
    add, seen = rows.Inserts.add, []
    with Repository(place, max_loss=max_loss) as repository:
        repository.add(small_task(0))
        known = {*repository._contents.policies.kept}, {*repository._contents.stack.places}

        def failing(inserts, table, row, arrays):
            if len(seen) == 20:
                raise KeyboardInterrupt
            seen.append(({*repository._contents.policies.kept}, {*repository._contents.stack.places}))
            return add(inserts, table, row, arrays)

        monkeypatch.setattr(rows.Inserts, "add", failing)
        with pytest.raises(KeyboardInterrupt):
            repository.add_many([small_task(i) for i in range(10, 50)])
        assert all(found[0] <= known[0] and found[1] <= known[1] | known[0] for found in seen)
        monkeypatch.undo()
        repository.add_many([small_task(i) for i in range(80, 90)])
        assert len(repository) == 11
        assert wrong_values(repository) == 0


def beside(monkeypatch, database, *changes):
    """Let one of these changes happen after each of the first reads of a database."""
    read, left = Database.read, [*changes]

    def disturbed(self, work):
        found = read(self, work)
        if self is database and left:
            left.pop(0)()
        return found

    monkeypatch.setattr(Database, "read", disturbed)
    return left


@pytest.mark.parametrize("max_loss", [MAX_LOSS, None])
@pytest.mark.parametrize("question", ["keep", "experience", "cluster"])
def test_a_question_beside_writers_is_answered(place, monkeypatch, max_loss, question):
    """New policies have no values in old tasks, and records may be gone, after each look at the repository."""
    with Repository(place, max_loss=max_loss) as one, Repository(place) as two:
        one.add_many([small_task(i) for i in range(20)])
        one.keep(k=2, rng=0)

        def founder(number):
            return lambda: two.add_many([small_task(10 * number + i) for i in range(5)])  # some of them are founders

        def lost_task(number):
            return lambda: two.remove(number)

        with Repository(place) as fresh:  # nothing is in its memory
            changes = [change for i in range(6) for change in (founder(100 + i), lost_task(2 + 2 * i))]
            left = beside(monkeypatch, fresh.database, *changes)
            if question == "keep":
                kept = fresh.keep(k=3, rng=0)
                assert len(fresh.sources()) == 3
                assert (kept.over_all is None) == (max_loss is None)
            elif question == "experience":
                assert np.isfinite(fresh.experience().values).all()
            else:
                fresh.cluster(n_clusters=3, rng=0, restarts=1, iterations=100)
            assert len(left) < 12
            monkeypatch.undo()
        assert one.check() == []
        assert wrong_values(one) == 0


def test_an_answer_whose_policy_is_removed_before_it_is_weighed_is_asked_again(place, monkeypatch):
    with Repository(place, max_loss=MAX_LOSS) as one, Repository(place) as two:
        one.add_many([small_task(i) for i in range(20)])
        found = keeping.keep
        removed = []

        def slow(*given, **options):
            if not removed:
                records = two.records()
                removed.append(records[0].own_policy)
                two.remove(*(record.id for record in records if record.own_policy == removed[0]))
            return found(*given, **options)

        monkeypatch.setattr(keeping, "keep", slow)
        kept = one.keep(k=3, rng=0)
        assert removed[0] not in one.source_ids()
        assert kept.over_all.n_tasks == len(one)


@pytest.mark.parametrize("most", [10_000, 8])
def test_the_best_of_a_task_is_the_same_for_landmarks_and_for_all(place, monkeypatch, most):
    """Poor policies come first: what a task loses is measured by policies that came after it, wherever it is asked."""
    tasks = [small_task(i) for i in range(24)]
    monkeypatch.setattr(asked, "LANDMARKS", most)
    with Repository(place, max_loss=MAX_LOSS) as repository:
        for task in tasks[:16]:
            repository.add(task, np.zeros(6, int))
        repository.add_many(tasks[16:])
        policies = [repository.policy(record.id) for record in repository.policy_records()]
        U = cross_values(tasks, policies)
        best = np.maximum(U.max(axis=1), [record.best_value for record in repository.records()])
        for k in (1, 2, 3):
            kept = repository.keep(k=k, rng=0)
            truth = (best - U[:, kept.columns].max(axis=1)).mean()
            assert kept.over_all.mean_loss == pytest.approx(truth, abs=1e-12)
            assert kept.over_all.lower_bound <= kept.over_all.mean_loss + 1e-12
            if most > len(tasks):
                assert kept.mean_loss == pytest.approx(kept.over_all.mean_loss, abs=1e-12)
                assert kept.over_all.lower_bound == pytest.approx(truth)
        assert wrong_values(repository) == 0
