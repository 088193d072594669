"""A task and its policy on the way into a repository: valued before the writer's lock is taken, completed under it."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import sqlalchemy as sa

from pastmaster.arrays import Array
from pastmaster.checks import whole
from pastmaster.errors import DamagedError, InvalidInputError, RepositoryError
from pastmaster.repository import records, rows
from pastmaster.repository.admission import EXACT_UP_TO, Admission
from pastmaster.repository.arrays import Packed
from pastmaster.repository.database import Work
from pastmaster.repository.forgetting import drop_unused, is_used
from pastmaster.repository.memory import Contents, evaluation_seed
from pastmaster.repository.schema import runs as runs_table, tasks as tasks_table
from pastmaster.repository.worth import Valued, Vector, Worth, best, read_known, read_matrix, read_pairs, vector_arrays
from pastmaster.solving import solve
from pastmaster.tasks import Task
from pastmaster.tasks.tabular import TabularMDP
from pastmaster.values import task_bounds
from pastmaster.values.given import not_a_task

Arrays = dict[str, Array | Packed]
Ask = Callable[[Work[Any]], Any]
"""Gives a function a connection."""
OWN = 0  # stands for the policy's id until it has one
DEFAULT_EPISODES = 30


class Addition:
    """One task with the policy it brings: ``commit`` stores them, ``replace_own`` stores the policy alone."""

    def __init__(
        self,
        contents: Contents,
        task: Task,
        policy: Any = None,
        provenance: str | None = None,
        evaluation_episodes: int | None = None,
        *,
        name: str | None = None,
        source: str | os.PathLike[str] | None = None,
        caller: str = "Repository.add",
    ) -> None:
        self.contents, self.task, self.caller = contents, task, caller
        episodes = _episodes(caller, task, evaluation_episodes)
        self.names = records.called(caller, name, source)
        if policy is None:
            policy, provenance = solved(caller, task, episodes), "solved"
        self.policy_row, self.policy_arrays, self.policy = records.policy_row(
            caller, policy, task, "imported" if provenance is None else provenance, self.names
        )
        self.task_row, self.task_arrays = records.task_row(task)
        self.task_row["settings"]["evaluation_episodes"] = episodes
        self.valued = Valued(task, episodes, evaluation_seed(self.task_row["digest"]))
        model_unused = isinstance(task, TabularMDP) and episodes is not None
        self.bounds = None if model_unused else task_bounds(task)
        self.row, self.column = Vector(), Vector()
        self.row.value_policies(self.valued, [OWN], [self.policy])
        self.packed = records.packed_task(self.task_arrays)
        self.rule: Admission | None = None  # as of the last look
        self.numbers: dict[str, int] = {}  # the ids of what was stored, by table; true once it is committed

    def commit(self, run: rows.Row | None = None) -> int:
        """Store task and policy, with the run that led to them, in one transaction; returns the task's id."""
        self.prepare(self.contents.database.read)
        number = self.contents.database.write(lambda connection: self.insert(connection, run))
        self.remember()
        return number

    def replace_own(self, number: int) -> None:
        """Put the policy in the place of the own policy of the task, which is stored under this id."""
        self.prepare(self.contents.database.read, replacing=True)

        def replace(connection: sa.Connection) -> None:
            self.numbers.clear()
            task = rows.fetch(connection, "tasks", [number])[0]
            own = rows.fetch(connection, "policies", [task["own_policy"]])[0]
            if own["digest"] != self.policy_row["digest"]:
                self._install(connection, task)

        self.contents.database.write(replace)
        self.remember()

    def prepare(self, read: Ask, *, replacing: bool = False) -> None:
        """Value what is stored now, batch by batch and outside the writer's lock: little is left to do under it.

        Of a task that is stored already only the policy's column is needed, and only if the policy is better in it.
        """
        try:
            stored = read(self._stored)
            if stored and not replacing and not read(lambda connection: self._is_better(connection, stored[0])):
                return
            self._value(read, row=not stored)
        except DamagedError:
            raise
        except RepositoryError:
            return  # another process has removed a record since: the rest is valued under the lock

    def _value(self, ask: Ask, *, row: bool) -> None:
        """Compute what is missing of the column, and of the row if asked; ``ask`` gives a function a connection."""
        self.rule, tasks, policies = ask(self._missing)
        for batch in rows.batches(tasks):
            self.column.value_tasks(batch, ask(partial(self.contents.tasks.get, wanted=batch)), self.policy)
        if row:
            self.contents.value_policies(ask, self.row, self.valued, policies, stacked=self.rule is not None)

    def _missing(self, connection: sa.Connection) -> tuple[Admission | None, list[int], list[int]]:
        """The rule, and the ids of tasks and policies that have no value yet: under a rule, old tasks need none."""
        check_family(connection, self.task, self.caller)
        rule = self.contents.rule(connection)
        tasks = rows.numbers(connection, "tasks") if rule is None else []
        policies = [number for number in self.contents.policy_ids(connection) if number not in self.row.worths]
        return rule, [number for number in tasks if number not in self.column.worths], policies

    def _is_better(self, connection: sa.Connection, stored: rows.Row) -> bool:
        """Whether the policy is better in a stored task, by that task's own way of valuing, than what it has."""
        number = int(stored["id"])
        if number not in self.column.worths:
            self.column.value_tasks([number], self.contents.tasks.get(connection, [number]), self.policy)
        rule = self.contents.rule(connection)
        if rule is not None:
            return not rule.covers(self.column.worths[number].value, stored["value"])
        return bool(self._succeeds(connection, [stored]))

    def _succeeds(self, connection: sa.Connection, tasks: Iterable[Mapping[Any, Any]]) -> list[int]:
        """The ids of those tasks in which the policy becomes that of record; their own policies' values are read."""
        above = [task for task in tasks if self.column.worths[task["id"]].is_above(_worth_of_record(task))]
        other = [task for task in above if task["own_policy"] != task["policy_of_record"]]
        ids, owns = [task["id"] for task in other], [task["own_policy"] for task in other]
        own = {task["id"]: _worth_of_record(task) for task in above}
        own |= zip(ids, read_pairs(connection, ids, owns), strict=True)
        worths = self.column.worths
        return [task["id"] for task in above if worths[task["id"]].succeeds(_worth_of_record(task), own[task["id"]])]

    def _stored(self, connection: sa.Connection) -> list[rows.Row]:
        """The task's own record, if it is stored already."""
        return rows.fetch_where(connection, "tasks", tasks_table.c.digest == self.task_row["digest"])

    def insert(self, connection: sa.Connection, run: rows.Row | None) -> int:
        """Store task, policy, row, column and run under the writer's lock; returns the task's id.

        A task that is stored already stays as it is, unless the policy it comes with now is better than its own.
        """
        self.numbers.clear()
        if run is not None and (done := self._stored_run(connection, run)) is not None:
            return done
        stored = self._stored(connection)
        number = int(stored[0]["id"]) if stored else self._insert_new(connection)
        if stored and self._is_better(connection, stored[0]):
            if not self._moved(connection, stored[0]):
                self._install(connection, stored[0])
        elif stored:
            self._rename(connection, stored[0])
        if run is not None:
            value = connection.execute(sa.select(tasks_table.c.value).where(tasks_table.c.id == number)).scalar()
            settings = run["settings"] | {
                "task_digest": self.task_row["digest"],
                "name": self.task_row["name"],
                "evaluation_episodes": self.row.episodes + self.column.episodes,
                "value": value,
            }
            rows.insert(connection, "runs", run | {"task_id": number, "settings": settings}, run["arrays"])
        return number

    def _rename(self, connection: sa.Connection, task: rows.Row) -> None:
        """Give a stored task's own policy the name and source it comes with now, if it is the same policy."""
        own = rows.fetch(connection, "policies", [task["own_policy"]])[0]
        settings = own["settings"] | self.names
        if own["digest"] == self.policy_row["digest"] and settings != own["settings"]:
            rows.update(connection, "policies", own, settings=settings)

    def _stored_run(self, connection: sa.Connection, run: rows.Row) -> int | None:
        """The task of a stream's run that is stored already, which must be this one."""
        here = [runs_table.c[name] == run[name] for name in ("stream_id", "position")]
        found = [] if run["stream_id"] is None else rows.fetch_where(connection, "runs", *here)
        if not found:
            return None
        if found[0]["settings"]["task_digest"] != self.task_row["digest"] or found[0]["task_id"] is None:
            raise RepositoryError(
                f"another agent is at work on stream {run['stream_id']}: it has met task {run['position']}"
            )
        return int(found[0]["task_id"])

    def _insert_new(self, connection: sa.Connection) -> int:
        self._value(lambda work: work(connection), row=True)
        policies = self.contents.policy_ids(connection)
        own, row, arrays = self.placed(connection, policies)
        number = rows.insert(connection, "tasks", row, arrays)
        self.numbers["tasks"] = number
        if self.rule is None:
            self._improve(connection, own)
        return number

    def placed(self, connection: sa.Connection, policies: Sequence[int]) -> tuple[int, rows.Row, Arrays]:
        """The task's own policy, by the rule, and the columns and arrays of its record.

        Its row has the values of all these policies. The policy it brings is stored here, unless the rule forgets it.
        """
        worths, mine = {number: self.row.worths[number] for number in policies}, self.row.worths[OWN]
        bounds = {} if self.bounds is None else self.bounds._asdict()
        own = max(worths, key=lambda number: worths[number].value, default=OWN)
        if self.rule is not None and worths and self.rule.covers(mine.value, worths[own].value):
            settings = self.task_row["settings"] | self._forgotten(mine)
            record = of_record({own: worths[own]}, own) | {"settings": settings}
        else:
            own = self._insert_policy(connection)
            worths[own] = mine
            record = of_record(worths, own)
        row = self.task_row | bounds | {"own_policy": own} | record
        return own, row, {**self.packed, **vector_arrays("row", worths)}

    def _forgotten(self, worth: Worth) -> dict[str, Any]:
        """What is stored of a policy that is not."""
        return {"forgotten": worth._asdict() | what_it_is(self.policy_row)}

    def _insert_policy(self, connection: sa.Connection) -> int:
        """Store the policy with its column: its values in the tasks there are, or in those it was valued in."""
        tasks = rows.numbers(connection, "tasks") if self.rule is None else [*self.column.worths]
        vector = vector_arrays("column", {number: self.column.worths[number] for number in tasks})
        number = rows.insert(connection, "policies", self.policy_row, self.policy_arrays | vector)
        self.numbers["policies"] = number
        return number

    def remember(self, *, task: bool = True) -> None:
        """Keep in memory what was stored, once it is committed."""
        if "policies" in self.numbers:
            self.contents.policies.put(self.numbers["policies"], self.policy, self.policy_arrays)
        if len(self.column.worths) == EXACT_UP_TO and "tasks" in self.numbers:
            warnings.warn(
                f"{self.caller}: {EXACT_UP_TO:,} tasks are stored, and an add values each of them: "
                "set_max_loss(...) lets a repository grow with what it keeps",
                stacklevel=4,
            )
        if task and "tasks" in self.numbers:
            stored = self.task
            if isinstance(stored, TabularMDP):
                stored = records.task_of(self.task_row | {"id": self.numbers["tasks"]}, self.task_arrays)
            elif callable(stored.env_id):
                return  # it is stored by its id: the task that comes out is another object
            self.contents.tasks.put(self.numbers["tasks"], self.valued._replace(task=stored), self.task_arrays)

    def _improve(self, connection: sa.Connection, policy: int) -> None:
        """Make the policy that of record wherever it is better than the present one."""
        columns, worths = tasks_table.c, self.column.worths
        wanted = (columns.id, columns.value, columns.value_error, columns.own_policy, columns.policy_of_record)
        present = [task for task in connection.execute(sa.select(*wanted)).mappings() if task["id"] in worths]
        found = rows.fetch(connection, "tasks", self._succeeds(connection, present))
        for row in found:
            rows.update(connection, "tasks", row, **of_record({policy: worths[row["id"]]}, policy))
        drop_unused(connection, self.contents, *(row["policy_of_record"] for row in found))

    def _moved(self, connection: sa.Connection, task: rows.Row) -> bool:
        """By the rule: give a stored task the best of all candidates, some of them newer than it, if that covers it."""
        rule, number, contents = self.contents.rule(connection), task["id"], self.contents
        if rule is None:
            return False
        policies, row = contents.policy_ids(connection), Vector()
        values, errors = (read_known(connection, [number], policies, what)[0].tolist() for what in ("values", "errors"))
        known = zip(policies, map(Worth, values, errors), strict=True)
        row.worths |= {policy: worth for policy, worth in known if not math.isnan(worth.value)}
        missing = [policy for policy in policies if policy not in row.worths]
        valued = contents.tasks.get(connection, [number])[0]
        contents.value_policies(lambda work: work(connection), row, valued, missing, stacked=True)
        own, mine = max(policies, key=lambda policy: row.worths[policy].value), self.column.worths[number]
        if not rule.covers(mine.value, row.worths[own].value):
            return False
        settings = task["settings"] | self._forgotten(mine)
        rows.replace_arrays(connection, "tasks", number, vector_arrays("row", row.worths))
        changed = of_record({own: row.worths[own]}, own) | {"own_policy": own, "settings": settings}
        rows.update(connection, "tasks", task, **changed)
        drop_unused(connection, contents, task["own_policy"], task["policy_of_record"])
        return True

    def _install(self, connection: sa.Connection, task: rows.Row) -> None:
        """Put the policy in the place of a stored task's own."""
        number, old = task["id"], task["own_policy"]
        self._value(lambda work: work(connection), row=False)
        rule, policies = self.rule, rows.numbers(connection, "policies")
        if number not in self.column.worths:
            self.column.value_tasks([number], self.contents.tasks.get(connection, [number]), self.policy)
        new = self._insert_policy(connection)
        settings = {key: value for key, value in task["settings"].items() if key != "forgotten"}
        rows.update(connection, "tasks", task, own_policy=new, settings=settings)
        if rule is None:
            self._improve(connection, new)
        left = set(rows.numbers(connection, "policies"))
        others = [p for p in policies if p in left and (p != old or is_used(connection, old, besides=number))]
        reader = read_matrix if rule is None else read_known
        values, errors = (reader(connection, [number], others, what)[0].tolist() for what in ("values", "errors"))
        known = {p: Worth(v, e) for p, v, e in zip(others, values, errors, strict=True) if not math.isnan(v)}
        now = rows.fetch(connection, "tasks", [number])[0]
        worths = known | {new: self.column.worths[number]}
        rows.update(connection, "tasks", now, **of_record(worths, new))
        drop_unused(connection, self.contents, old, now["policy_of_record"])


def what_it_is(policy: rows.Row) -> dict[str, Any]:
    """What is stored of a forgotten policy besides its worth: where it came from, and what it was called."""
    called = {name: policy["settings"][name] for name in records.CALLED if name in policy["settings"]}
    return {"provenance": policy["provenance"]} | called


def check_family(connection: sa.Connection, task: Task, caller: str = "Repository.check_family") -> None:
    """Refuse a task that does not share states, actions and gamma with those stored."""
    check_like(first_task(connection), task, caller)


def first_task(connection: sa.Connection) -> rows.Row | None:
    """The record of the task that was stored first, if there is one."""
    first = connection.execute(sa.select(tasks_table).order_by(tasks_table.c.id).limit(1)).mappings().first()
    return None if first is None else rows.verified("tasks", first)


def check_like(first: rows.Row | None, task: Task, caller: str) -> None:
    """Refuse a task that does not share states, actions and gamma with the first one."""
    if first is None:
        return
    settings = first["settings"]
    for name, got in records.family_of(task).items():
        if got != settings.get(name):
            raise InvalidInputError(
                f"{caller}: task.{name} is {got}, must be {settings.get(name)} as in task {first['id']}: "
                "the tasks of a repository share states, actions and gamma"
            )


def _worth_of_record(task: Mapping[Any, Any]) -> Worth:
    """What a stored task's policy of record is worth in it."""
    return Worth(task["value"], task["value_error"])


def of_record(worths: dict[int, Worth], own: int) -> dict[str, Any]:
    """The columns of a task for its policy of record, the best of these policies, and its value."""
    record = best(worths, own)
    return {"policy_of_record": record, "value": worths[record].value, "value_error": worths[record].error}


def _episodes(caller: str, task: Any, episodes: int | None) -> int | None:
    """How many episodes value a policy in a task; None: its model does."""
    if not isinstance(task, Task):
        raise not_a_task(f"{caller}: task", task)
    if episodes is None:
        return None if isinstance(task, TabularMDP) else DEFAULT_EPISODES
    return whole(caller, "evaluation_episodes", episodes, at_least=2)


def solved(caller: str, task: Task, episodes: int | None) -> Array:
    """The canonical optimal policy of a task with a model."""
    if episodes is not None or not isinstance(task, TabularMDP):
        raise InvalidInputError(f"{caller}: policy is None, must be given: {task} has no model to solve")
    solution = solve(task)
    if not solution.converged:
        warnings.warn(f"{caller}: the policy of {task} is certified only to {solution}", stacklevel=4)
    return np.asarray(solution.policy)
