"""How tasks and their policies come into a repository: valued, compared, placed, written.

What is stored already is read in one transaction, and valued outside of it. A second transaction, the only writer's,
looks again, values what others have stored meanwhile, and writes. So little is left to do under the writer's lock.
"""

from __future__ import annotations

import copy
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from pastmaster.arrays import Array
from pastmaster.checks import whole
from pastmaster.errors import InvalidInputError, RepositoryError
from pastmaster.repository import records, rows
from pastmaster.repository.admission import EXACT_UP_TO, Admission
from pastmaster.repository.forgetting import drop_unused, is_used
from pastmaster.repository.memory import Ask, Contents, evaluation_seed, on
from pastmaster.repository.schema import runs as runs_table, tasks as tasks_table
from pastmaster.repository.worth import Valued, Vector, Worth, best, read_pairs, read_worths, vector_arrays
from pastmaster.solving import solve
from pastmaster.tasks import Task
from pastmaster.tasks.tabular import TabularMDP
from pastmaster.values import task_bounds
from pastmaster.values.given import not_a_task

OWN = 0  # stands for the policy's id until it has one
DEFAULT_EPISODES = 30


class Stored(NamedTuple):
    """What an addition needs to know of what is stored."""

    first: rows.Row | None  # the task that was stored first: all are of its family
    rule: Admission | None
    policies: list[int]
    tasks: dict[int, Mapping[Any, Any]]  # their own policies, and those of record; not read under a rule
    same: dict[str, rows.Row]  # the records of given tasks that are stored already, by digest
    own: dict[int, Worth]  # what their own policies are worth in these, by id

    @classmethod
    def read(cls, connection: sa.Connection, contents: Contents, digests: Sequence[str]) -> Stored:
        columns = tasks_table.c
        first, rule, policies = contents.look(connection)
        tasks: dict[int, Mapping[Any, Any]] = {}
        if rule is None:
            wanted = (columns.id, columns.value, columns.value_error, columns.own_policy, columns.policy_of_record)
            found = connection.execute(sa.select(*wanted).order_by(columns.id)).mappings()
            tasks = {task["id"]: task for task in found}
        same = []
        for batch in rows.batches(digests):
            same += rows.fetch_where(connection, "tasks", columns.digest.in_(batch))
        own = _worths_of_own(connection, same) if rule is None else {}
        return cls(first, rule, [*policies], tasks, {task["digest"]: task for task in same}, own)


class Addition:
    """One task with the policy it brings, as they are stored, and the values that are known of both."""

    def __init__(
        self,
        task: Task,
        policy: Any = None,
        provenance: str | None = None,
        evaluation_episodes: int | None = None,
        *,
        name: str | None = None,
        source: str | os.PathLike[str] | None = None,
        caller: str = "Repository.add",
        replaces: int | None = None,
    ) -> None:
        self.task, self.caller = task, caller
        self.replaces = replaces  # the id of a stored task whose own policy goes, better or not
        episodes = _episodes(caller, task, evaluation_episodes)
        self.names = records.called(caller, name, source)
        if policy is None:
            policy, provenance = _solved(caller, task, episodes), "solved"
        self.policy_row, self.policy_arrays, self.policy = records.policy_row(
            caller, policy, task, "imported" if provenance is None else provenance, self.names
        )
        self.task_row, self.task_arrays = records.task_row(task)
        self.task_row["settings"]["evaluation_episodes"] = episodes
        self.digest: str = self.task_row["digest"]
        bounds = None if isinstance(task, TabularMDP) and episodes is not None else task_bounds(task)
        if bounds is not None:
            self.task_row |= bounds._asdict()
        self.packed = records.packed_task(self.task_arrays)
        self.valued = Valued(task, episodes, evaluation_seed(self.digest))
        self.row, self.column = Vector(), Vector()
        self.row.value_policies(self.valued, [OWN], [self.policy])
        self.ids: dict[str, int] = {}  # of what was stored, by table; true once it is committed

    def value(self, stored: Stored, contents: Contents, ask: Ask) -> None:
        """Compute what is missing: the policy's column, and the task's row if it is new.

        Of a task that is stored only the column is needed, and only if the policy takes the place of its own.
        """
        check_like(stored.first, self.task, self.caller)
        same = stored.same.get(self.digest)
        if same is not None:
            self._value_tasks([same["id"]], contents, ask)
            if not self.is_better(stored, same):
                return
        self._value_tasks([*stored.tasks], contents, ask)
        if same is None:
            missing = [number for number in stored.policies if number not in self.row.worths]
            contents.value_policies(ask, self.row, self.valued, missing, stacked=stored.rule is not None)

    def _value_tasks(self, tasks: Sequence[int], contents: Contents, ask: Ask) -> None:
        for batch in rows.batches([number for number in tasks if number not in self.column.worths]):
            self.column.value_tasks(batch, contents.tasks.get(ask, batch), self.policy)

    def is_better(self, stored: Stored, task: rows.Row) -> bool:
        """Whether the policy is to take the place of the own one of a stored task in which it was valued."""
        if self.replaces is not None:
            return True
        mine = self.column.worths[task["id"]]
        if stored.rule is not None:
            return not stored.rule.covers(mine.value, task["value"])
        return mine.succeeds(_worth_of_record(task), stored.own[task["id"]])

    def remember(self, contents: Contents, *, task: bool) -> None:
        """Keep in memory what was stored, once it is committed."""
        if "policies" in self.ids:
            contents.policies.put(self.ids["policies"], self.policy, self.policy_arrays)
        if "tasks" not in self.ids or not task:
            return
        made = self.task
        if isinstance(made, TabularMDP):
            made = copy.copy(made)
            vars(made)["params"] = self.task_row["settings"]["params"]  # plain values, as they are read
        elif callable(made.env_id):
            return  # it is stored by its id: the task that comes out is another object
        contents.tasks.put(self.ids["tasks"], self.valued._replace(task=made), self.task_arrays)


class Writer:
    """One transaction that stores additions, in which nobody else writes."""

    def __init__(self, connection: sa.Connection, contents: Contents, digests: Sequence[str]) -> None:
        self.connection, self.contents, self.digests = connection, contents, digests
        self.waiting = rows.Inserts(connection)  # tasks that a candidate covers: nobody looks at them
        self.stored = Stored.read(connection, contents, digests)
        self.known = {*digests}  # which it still knows to be stored or not
        self.stale = False  # whether it is to be looked at again anyway

    def look(self, one: Addition) -> Stored:
        """What is stored now; under a rule it is asked of all given tasks at once, as few change anything."""
        if self.stale or one.digest not in self.known:
            self.waiting.write()
            digests = [one.digest] if self.stored.rule is None else self.digests
            self.stored = Stored.read(self.connection, self.contents, digests)
            self.known, self.stale = {*digests}, False
        return self.stored

    def add(self, one: Addition) -> int:
        """Store a task and its policy; returns the task's id.

        A task that is stored already stays as it is, unless the policy it comes with now is better than its own.
        """
        one.ids.clear()
        stored = self.look(one)
        one.value(stored, self.contents, on(self.connection))
        same = stored.same.get(one.digest)
        if same is None and one.replaces is not None:
            raise rows.NoRecordError(one.replaces, "task")
        if same is None:
            return self._insert(one)
        if one.replaces is not None:
            if not self._is_own(one, same):
                self._install(one, same)
        elif not one.is_better(stored, same):
            self._is_own(one, same)
        elif not self._move(one, same):
            self._install(one, same)
        return int(same["id"])

    def _insert(self, one: Addition) -> int:
        """A new task: its own policy is the candidate that covers it, or the policy it brings, which is then stored."""
        stored = self.stored
        worths, mine = {number: one.row.worths[number] for number in stored.policies}, one.row.worths[OWN]
        own = _covering(stored.rule, worths, mine)
        if own is not None:
            settings = one.task_row["settings"] | {"forgotten": mine.value}
            record = of_record({own: worths[own]}, own) | {"settings": settings}
        else:
            own = self._insert_policy(one)
            worths[own] = mine
            record = of_record(worths, own)
            stored.policies.append(own)
        row = one.task_row | {"own_policy": own} | record
        number = one.ids["tasks"] = self.waiting.add("tasks", row, {**one.packed, **vector_arrays("row", worths)})
        self.known.remove(one.digest)
        self.stale = stored.rule is None or stored.first is None
        if "policies" in one.ids:
            self.waiting.write()  # those after it are valued under it
        if stored.rule is None:
            self._improve(one, own, [*stored.tasks.values()])
        return number

    def _insert_policy(self, one: Addition) -> int:
        """The policy with its column: its values in the tasks there are, or in those it was valued in."""
        tasks = [*self.stored.tasks] if self.stored.rule is None else [*one.column.worths]
        column = vector_arrays("column", {number: one.column.worths[number] for number in tasks})
        number = self.waiting.add("policies", one.policy_row, one.policy_arrays | column)
        one.ids["policies"] = number
        return number

    def _improve(self, one: Addition, policy: int, tasks: Sequence[Mapping[Any, Any]]) -> None:
        """Make a new policy that of record in those of these tasks in which it is better than the present one."""
        worths = one.column.worths
        above = [task for task in tasks if worths[task["id"]].is_above(_worth_of_record(task))]
        own = _worths_of_own(self.connection, above)
        better = [t["id"] for t in above if worths[t["id"]].succeeds(_worth_of_record(t), own[t["id"]])]
        found = rows.fetch(self.connection, "tasks", better)
        for row in found:
            rows.update(self.connection, "tasks", row, **of_record({policy: worths[row["id"]]}, policy))
        drop_unused(self.connection, self.contents, *(row["policy_of_record"] for row in found))

    def _is_own(self, one: Addition, task: rows.Row) -> bool:
        """Whether it brings a stored task's own policy; this is then called as it comes now."""
        own = rows.fetch(self.connection, "policies", [task["own_policy"]])[0]
        settings = own["settings"] | one.names
        same: bool = own["digest"] == one.policy_row["digest"]
        if same and settings != own["settings"]:
            rows.update(self.connection, "policies", own, settings=settings)
        return same

    def _move(self, one: Addition, task: rows.Row) -> bool:
        """Under a rule: give a stored task the best of all candidates, some newer than it, if that covers it."""
        connection, contents, rule, number = self.connection, self.contents, self.stored.rule, task["id"]
        if rule is None:
            return False
        row, mine = Vector(), one.column.worths[number]
        row.worths = _known(connection, number, self.stored.policies)
        missing = [policy for policy in self.stored.policies if policy not in row.worths]
        (valued,) = contents.tasks.get(on(connection), [number])
        contents.value_policies(on(connection), row, valued, missing, stacked=True)
        own = _covering(rule, {policy: row.worths[policy] for policy in self.stored.policies}, mine)
        if own is None:
            return False
        rows.replace_arrays(connection, "tasks", number, vector_arrays("row", row.worths))
        self._settle(task, {own: row.worths[own]}, own, forgotten=mine.value)
        return True

    def _install(self, one: Addition, task: rows.Row) -> None:
        """Store the policy in the place of a stored task's own."""
        connection, stored, number, old = self.connection, self.stored, task["id"], task["own_policy"]
        new = self._insert_policy(one)
        self.waiting.write()
        self._improve(one, new, [other for other in stored.tasks.values() if other["id"] != number])
        others = rows.present(connection, "policies", stored.policies)
        if old in others and not is_used(connection, old, besides=number):
            others.remove(old)
        worths = _known(connection, number, others) | {new: one.column.worths[number]}
        self._settle(task, worths, new)

    def _settle(self, task: rows.Row, worths: dict[int, Worth], own: int, **forgotten: float) -> None:
        """Give a stored task another policy of its own; what it had goes, unless other tasks use it."""
        settings = {key: value for key, value in task["settings"].items() if key != "forgotten"} | forgotten
        rows.update(self.connection, "tasks", task, settings=settings, own_policy=own, **of_record(worths, own))
        drop_unused(self.connection, self.contents, task["own_policy"], task["policy_of_record"])
        self.stale = True

    def add_run(self, one: Addition, number: int, run: rows.Row) -> None:
        """Store the run that led to a task's policy."""
        self.waiting.write()
        value = self.connection.execute(sa.select(tasks_table.c.value).where(tasks_table.c.id == number)).scalar()
        settings = run["settings"] | {
            "task_digest": one.digest,
            "name": one.task_row["name"],
            "evaluation_episodes": one.row.episodes + one.column.episodes,
            "value": value,
        }
        self.waiting.add("runs", run | {"task_id": number, "settings": settings}, run["arrays"])


def commit(contents: Contents, additions: Sequence[Addition], run: rows.Row | None = None) -> list[int]:
    """Store tasks and policies in one transaction, and the run that led to one; returns the tasks' ids.

    Each try of many begins with what was known before the transaction: ids of records that were not committed are given
    to other records, and what was read or valued under them would then be taken for theirs.
    """
    digests = [one.digest for one in additions]
    rule = _value(contents, additions)
    known = [(one.row.worths, one.column.worths) for one in additions]

    def write(connection: sa.Connection) -> tuple[Contents, list[int]]:
        if run is not None and (met := _met(connection, run, additions[0])) is not None:
            return contents, [met]
        inside = contents if len(additions) == 1 else contents.apart()
        for one, (row, column) in zip(additions, known, strict=True):
            one.row.worths, one.column.worths = dict(row), dict(column)
        writer = Writer(connection, inside, digests)
        numbers = [writer.add(one) for one in additions]
        if run is not None:
            writer.add_run(additions[0], numbers[0], run)
        writer.waiting.write()
        return inside, numbers

    inside, numbers = contents.database.write(write)
    if inside is not contents:
        contents.take(inside)
    for one in additions:
        one.remember(contents, task=rule is None or len(additions) == 1)
        if len(one.column.worths) == EXACT_UP_TO and "tasks" in one.ids:
            warnings.warn(
                f"{one.caller}: {EXACT_UP_TO:,} tasks are stored, and an add values each of them: "
                "a repository that is made with max_loss= grows with what it keeps",
                stacklevel=3,
            )
    return numbers


def _value(contents: Contents, additions: Sequence[Addition]) -> Admission | None:
    """Value what is stored now, outside the writer's lock; returns the rule."""
    read, digests = contents.database.read, [one.digest for one in additions]
    stored = read(lambda connection: Stored.read(connection, contents, digests))
    with suppress(rows.NoRecordError):  # another process has removed a record: the rest is valued under the lock
        for one in additions:
            one.value(stored, contents, read)
    return stored.rule


def _met(connection: sa.Connection, run: rows.Row, one: Addition) -> int | None:
    """The task of a stream's run that is stored already, which must be this one."""
    if run["stream_id"] is None:
        return None
    here = [runs_table.c[name] == run[name] for name in ("stream_id", "position")]
    found = rows.fetch_where(connection, "runs", *here)
    if not found:
        return None
    if found[0]["settings"]["task_digest"] != one.digest or found[0]["task_id"] is None:
        raise RepositoryError(
            f"another agent is at work on stream {run['stream_id']}: it has met task {run['position']}"
        )
    return int(found[0]["task_id"])


def _covering(rule: Admission | None, worths: Mapping[int, Worth], mine: Worth) -> int | None:
    """The candidate that serves a task within the rule, the best of them; None: the policy it brings is stored."""
    if rule is None or not worths:
        return None
    found = max(worths, key=lambda number: worths[number].value)
    return found if rule.covers(mine.value, worths[found].value) else None


def _known(connection: sa.Connection, task: int, policies: Sequence[int]) -> dict[int, Worth]:
    """What is stored of the worth of these policies in a task."""
    worths = zip(policies, read_worths(connection, [task], policies)[0].tolist(), strict=True)
    return {policy: Worth(*worth) for policy, worth in worths if not math.isnan(worth[0])}


def _worths_of_own(connection: sa.Connection, tasks: Sequence[Mapping[Any, Any]]) -> dict[int, Worth]:
    """What the own policies of tasks are worth in them, by the tasks' ids."""
    other = [task for task in tasks if task["own_policy"] != task["policy_of_record"]]
    ids = [task["id"] for task in other]
    read = read_pairs(connection, ids, [task["own_policy"] for task in other])
    return {task["id"]: _worth_of_record(task) for task in tasks} | dict(zip(ids, read, strict=True))


def _worth_of_record(task: Mapping[Any, Any]) -> Worth:
    """What a stored task's policy of record is worth in it."""
    return Worth(task["value"], task["value_error"])


def of_record(worths: dict[int, Worth], own: int) -> dict[str, Any]:
    """The columns of a task for its policy of record, the best of these policies, and its value."""
    record = best(worths, own)
    return {"policy_of_record": record, "value": worths[record].value, "value_error": worths[record].error}


def check_like(first: rows.Row | None, task: Task, caller: str) -> None:
    """Refuse a task that does not share states, actions and gamma with the one that was stored first."""
    if first is None:
        return
    settings = first["settings"]
    for name, got in records.family_of(task).items():
        if got != settings.get(name):
            raise InvalidInputError(
                f"{caller}: task.{name} is {got}, must be {settings.get(name)} as in task {first['id']}: "
                "the tasks of a repository share states, actions and gamma"
            )


def _episodes(caller: str, task: Any, episodes: int | None) -> int | None:
    """How many episodes value a policy in a task; None: its model does."""
    if not isinstance(task, Task):
        raise not_a_task(f"{caller}: task", task)
    if episodes is None:
        return None if isinstance(task, TabularMDP) else DEFAULT_EPISODES
    return whole(caller, "evaluation_episodes", episodes, at_least=2)


def _solved(caller: str, task: Task, episodes: int | None) -> Array:
    """The canonical optimal policy of a task with a model."""
    if episodes is not None or not isinstance(task, TabularMDP):
        raise InvalidInputError(f"{caller}: policy is None, must be given: {task} has no model to solve")
    solution = solve(task)
    if not solution.converged:
        warnings.warn(f"{caller}: the policy of {task} is certified only to {solution}", stacklevel=4)
    return np.asarray(solution.policy)
