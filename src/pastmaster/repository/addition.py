"""A task or a policy on its way into a repository: valued before the writer's lock is taken, completed under it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import sqlalchemy as sa

from pastmaster.arrays import Array
from pastmaster.checks import whole
from pastmaster.errors import DamagedError, InvalidInputError, RepositoryError
from pastmaster.repository import records, rows
from pastmaster.repository.arrays import pack
from pastmaster.repository.database import Database, Work
from pastmaster.repository.memory import Memory, evaluation_seed
from pastmaster.repository.records import Stored, Task
from pastmaster.repository.schema import runs as runs_table, tasks as tasks_table
from pastmaster.repository.worth import (
    Valued,
    Vector,
    Worth,
    beats,
    best,
    read_matrix,
    value_column,
    value_row,
    vector_arrays,
)
from pastmaster.solving import solve
from pastmaster.tasks.tabular import TabularMDP
from pastmaster.values.bounds import task_bounds

OWN = 0  # stands for the policy's id until it has one
DEFAULT_EPISODES = 30


class Addition:
    """One task with the policy it brings."""

    def __init__(
        self,
        tasks: Memory[Valued],
        policies: Memory[Stored],
        task: Task,
        policy: Any = None,
        provenance: str | None = None,
        evaluation_episodes: int | None = None,
    ) -> None:
        self.tasks, self.policies, self.task = tasks, policies, task
        episodes = _episodes(task, evaluation_episodes)
        if policy is None:
            policy, provenance = _solved(task, episodes), "solved"
        self.policy_row, self.policy_arrays, self.policy = records.policy_row(policy, task, provenance or "imported")
        self.task_row, self.task_arrays = records.task_row(task)
        self.task_row["settings"]["evaluation_episodes"] = episodes
        self.valued = Valued(task, episodes, evaluation_seed(self.task_row["digest"]))
        with_model = isinstance(task, TabularMDP) and episodes is not None  # that is not to be used
        self.bounds = None if with_model else task_bounds(task)
        self.row, self.column = Vector(), Vector()
        value_row(self.row, self.valued, [OWN], [self.policy])
        self.packed = {name: pack(array) for name, array in self.task_arrays.items()}
        self.numbers: dict[str, int] = {}  # what was stored, by table; true once it is committed

    @property
    def episodes_spent(self) -> int:
        """Episodes run to value policies."""
        return self.row.episodes + self.column.episodes

    def prepare(self, database: Database, *, known: bool = False) -> None:
        """Value what is there now, batch by batch and outside any transaction: little is left to do under the lock.

        Of a task that is there already only the policy's column is needed, and only if it is better in it.
        """
        try:
            stored = database.read(self._known)
            if stored and not known:
                database.read(lambda connection: self._value_in(connection, int(stored[0]["id"])))
                if not self._is_better(stored[0]):
                    return
            self._value(database.read, row=not stored)
        except DamagedError:
            raise
        except RepositoryError:
            return  # another process has removed something meanwhile: what is left is valued under the lock

    def _value(self, ask: Callable[[Work[Any]], Any], *, row: bool) -> None:
        """Compute what is missing of the column, and of the row if asked; ``ask`` gives a question a connection."""
        tasks, policies = ask(lambda connection: self._missing(connection, row))
        for batch in rows.batches(tasks):
            value_column(self.column, batch, ask(partial(self.tasks.get, wanted=batch)), self.policy)
        for batch in rows.batches(policies):
            value_row(self.row, self.valued, batch, ask(partial(self.policies.get, wanted=batch)))

    def _value_in(self, connection: sa.Connection, number: int) -> None:
        """The policy's value in one stored task, by that task's own way of valuing."""
        if number not in self.column.worths:
            value_column(self.column, [number], self.tasks.get(connection, [number]), self.policy)

    def _is_better(self, stored: rows.Row) -> bool:
        """Whether the policy is better in a stored task than what it has."""
        return beats(self.column.worths[int(stored["id"])], Worth(stored["value"], stored["value_error"]))

    def _missing(self, connection: sa.Connection, row: bool) -> tuple[list[int], list[int]]:
        """The ids of tasks and policies that have no value yet."""
        check_family(connection, self.task)
        tasks = [number for number in rows.numbers(connection, "tasks") if number not in self.column.worths]
        policies = [number for number in rows.numbers(connection, "policies") if number not in self.row.worths]
        return tasks, policies if row else []

    def _known(self, connection: sa.Connection) -> list[rows.Row]:
        """The task's own record, if it is there already."""
        return rows.fetch_where(connection, "tasks", tasks_table.c.digest == self.task_row["digest"])

    def value(self, connection: sa.Connection, *, row: bool = True) -> tuple[list[int], list[int]]:
        """Compute what is missing, on an open connection; returns the ids of all tasks and policies."""
        self._value(lambda question: question(connection), row=row)
        return rows.numbers(connection, "tasks"), rows.numbers(connection, "policies")

    def insert(self, connection: sa.Connection, run: rows.Row | None = None) -> int:
        """Store task, policy, row, column and run, all under the writer's lock; returns the task's id.

        A task that is there already stays as it is, unless the policy it came with now is better than its own.
        """
        self.numbers.clear()
        if run is not None and (done := self._stored_run(connection, run)) is not None:
            return done
        if known := self._known(connection):
            number = int(known[0]["id"])
            self._value_in(connection, number)
            if self._is_better(known[0]):
                self.install(connection, known[0])
        else:
            number = self._insert_new(connection)
        if run is not None:
            value = connection.execute(sa.select(tasks_table.c.value).where(tasks_table.c.id == number)).scalar()
            settings = run["settings"] | {
                "task_digest": self.task_row["digest"],
                "name": self.task_row["name"],
                "evaluation_episodes": self.episodes_spent,
                "value": value,
            }
            rows.insert(connection, "runs", run | {"task_id": number, "settings": settings}, run["arrays"])
        return number

    def _stored_run(self, connection: sa.Connection, run: rows.Row) -> int | None:
        """The task of a stream's run that is stored already, which must be this one."""
        if run["stream_id"] is None:
            return None
        here = [runs_table.c[name] == run[name] for name in ("stream_id", "position")]
        found = rows.fetch_where(connection, "runs", *here)
        if not found:
            return None
        if found[0]["settings"]["task_digest"] != self.task_row["digest"] or found[0]["task_id"] is None:
            raise RepositoryError(
                f"another agent is at work on stream {run['stream_id']}: it has met task {run['position']}"
            )
        return int(found[0]["task_id"])

    def _insert_new(self, connection: sa.Connection) -> int:
        task_ids, policy_ids = self.value(connection)
        own = self._insert_policy(connection, task_ids)
        worths = {number: self.row.worths[number] for number in policy_ids} | {own: self.row.worths[OWN]}
        record = best(worths, own)
        bounds = {} if self.bounds is None else self.bounds._asdict()
        columns = {"own_policy": own, "policy_of_record": record, **_worth_columns(worths[record])}
        its_arrays = self.packed | vector_arrays("row", worths)
        self.numbers["tasks"] = rows.insert(connection, "tasks", self.task_row | columns | bounds, its_arrays)
        self._improve(connection, own)
        return self.numbers["tasks"]

    def _insert_policy(self, connection: sa.Connection, task_ids: Sequence[int]) -> int:
        vector = vector_arrays("column", {number: self.column.worths[number] for number in task_ids})
        number = rows.insert(connection, "policies", self.policy_row, self.policy_arrays | vector)
        self.numbers["policies"] = number
        return number

    def remember(self) -> None:
        """Keep what was stored in memory, once it is committed."""
        if "policies" in self.numbers:
            self.policies.put(self.numbers["policies"], self.policy, self.policy_arrays)
        if "tasks" in self.numbers:
            stored = self.task
            if isinstance(stored, TabularMDP):
                stored = records.task_of(self.task_row | {"id": self.numbers["tasks"]}, self.task_arrays)
            elif callable(stored.env_id):
                return  # as it is stored it is another, which is made when it is asked for
            self.tasks.put(self.numbers["tasks"], self.valued._replace(task=stored), self.task_arrays)

    def _improve(self, connection: sa.Connection, policy: int) -> None:
        """The policy becomes that of record wherever it is better than what was."""
        columns = tasks_table.c
        better = []
        for number, *now in connection.execute(sa.select(columns.id, columns.value, columns.value_error)):
            worth = self.column.worths.get(number)
            if worth is not None and beats(worth, Worth(*now)):
                better.append(number)
        found = rows.fetch(connection, "tasks", better)
        for row in found:
            worth = self.column.worths[row["id"]]
            rows.update(connection, "tasks", row, policy_of_record=policy, **_worth_columns(worth))
        drop_unused(connection, self.policies, *(row["policy_of_record"] for row in found))

    def install(self, connection: sa.Connection, task: rows.Row) -> None:
        """Put the policy in the place of a stored task's own."""
        self.numbers.clear()
        task_ids, policy_ids = self.value(connection, row=False)
        new, old = self._insert_policy(connection, task_ids), task["own_policy"]
        rows.update(connection, "tasks", task, own_policy=new)
        self._improve(connection, new)
        others = [number for number in policy_ids if number != old or _used(connection, old, but_not=task["id"])]
        there = [number for number in others if number in set(rows.numbers(connection, "policies"))]
        values, errors = (read_matrix(connection, [task["id"]], there, what)[0] for what in ("values", "errors"))
        worths = {number: Worth(*pair) for number, *pair in zip(there, values, errors, strict=True)}
        worths[new] = self.column.worths[task["id"]]
        record = best(worths, new)
        now = rows.fetch(connection, "tasks", [task["id"]])[0]
        rows.update(connection, "tasks", now, policy_of_record=record, **_worth_columns(worths[record]))
        drop_unused(connection, self.policies, old, now["policy_of_record"])


def drop_unused(connection: sa.Connection, memory: Memory[Stored], *numbers: int) -> None:
    """Forget policies that are neither some task's own nor of record."""
    for number in set(numbers):
        if not _used(connection, number):
            rows.remove(connection, "policies", number)
            memory.forget(number)


def _used(connection: sa.Connection, policy: int, but_not: int | None = None) -> bool:
    """Whether a policy is some (other) task's own, or of record."""
    columns = tasks_table.c
    here = sa.or_(columns.own_policy == policy, columns.policy_of_record == policy)
    if but_not is not None:
        here = here & (columns.id != but_not)
    return connection.execute(sa.select(columns.id).where(here).limit(1)).first() is not None


def check_family(connection: sa.Connection, task: Task) -> None:
    """Refuse a task that does not share states, actions and gamma with those there."""
    first = connection.execute(sa.select(tasks_table).order_by(tasks_table.c.id).limit(1)).mappings().first()
    if first is None:
        return
    settings = rows.verified("tasks", first)["settings"]
    for name, got in records.family_of(task).items():
        if got != settings.get(name):
            raise InvalidInputError(
                f"Repository.add: task.{name} is {got}, must be {settings.get(name)} as in task {first['id']}: "
                "the tasks of a repository share states, actions and gamma"
            )


def _worth_columns(worth: Worth) -> dict[str, float]:
    return {"value": float(worth.value), "value_error": float(worth.error)}


def _episodes(task: Any, episodes: int | None) -> int | None:
    """How many episodes value a policy in a task; None: its model does."""
    if not isinstance(task, Task):
        raise InvalidInputError(f"Repository.add: task is a {type(task).__name__}, must be a TabularMDP or a GymTask")
    if episodes is None:
        return None if isinstance(task, TabularMDP) else DEFAULT_EPISODES
    return whole("Repository.add", "evaluation_episodes", episodes, at_least=2)


def _solved(task: Task, episodes: int | None) -> Array:
    """The canonical optimal policy of a task with a model."""
    if episodes is not None or not isinstance(task, TabularMDP):
        raise InvalidInputError(f"Repository.add: policy is None, must be given: {task} has no model to solve")
    solution = solve(task)
    if not solution.converged:
        warnings.warn(f"Repository.add: the policy of {task} is certified only to {solution}", stacklevel=4)
    return np.asarray(solution.policy)
