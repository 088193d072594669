"""A change of ``max_loss``: the rule of ``admission`` applied to all that is stored, in one transaction.

With a number, the fewest policies are found that serve every task within it, the others are forgotten, and tasks that
no stored policy serves are solved again. With None, every task gets a policy of its own again, and U is completed.
Solving is canonical, so a task that was solved has the same policy as before, bit for bit.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import sqlalchemy as sa

from pastmaster.arrays import BoolArray, FloatArray
from pastmaster.clustering.losses import Losses
from pastmaster.errors import InvalidInputError
from pastmaster.repository import admission, records, rows
from pastmaster.repository.addition import of_record, solved, what_it_is
from pastmaster.repository.clusterings import source_ids
from pastmaster.repository.memory import Contents
from pastmaster.repository.records import CALLED, best_value
from pastmaster.repository.worth import BETTER, Valued, Vector, Worth, read_known, vector_arrays
from pastmaster.tables import counted
from pastmaster.tasks.tabular import TabularMDP

MOST_EXACT = 10_000  # tasks whose U can be completed
SECONDS = 30.0  # to look for the fewest policies


class Stored(NamedTuple):
    """All tasks, all policies by id, and what is known of U and of its standard errors, else nan."""

    tasks: list[rows.Row]
    policies: list[int]
    values: FloatArray
    errors: FloatArray

    @classmethod
    def read(cls, connection: sa.Connection) -> Stored:
        tasks, policies = rows.fetch(connection, "tasks"), rows.numbers(connection, "policies")
        ids = [task["id"] for task in tasks]
        values, errors = (read_known(connection, ids, policies, what) for what in ("values", "errors"))
        return cls(tasks, policies, values, errors)

    def served(self, max_loss: float) -> BoolArray:
        """Which policies serve which tasks within a loss [N, M]."""
        best = np.array([best_value(task) for task in self.tasks])[:, None]
        with np.errstate(invalid="ignore"):
            room = max_loss + BETTER * np.maximum(np.abs(best), np.abs(self.values))
            served: BoolArray = best - self.values <= room
        return served

    def worths(self, i: int, columns: Iterable[int]) -> dict[int, Worth]:
        """What is known of task i under the policies of these columns, by id."""
        known = [j for j in columns if not np.isnan(self.values[i, j])]
        return {self.policies[j]: Worth(float(self.values[i, j]), float(self.errors[i, j])) for j in known}


def settle(contents: Contents, caller: str, max_loss: float | None) -> None:
    """Put a rule in force, and make what is stored obey it."""

    def change(connection: sa.Connection) -> tuple[Contents, list[rows.Row]]:
        inside = contents.apart()  # ids that are not committed may be given to other records
        before = inside.rule(connection)
        admission.settle(connection, max_loss)
        if max_loss is None:
            return inside, _exact(connection, inside, caller)
        _found_anew(connection, inside, caller, max_loss)
        _forget(connection, inside, max_loss, was_exact=before is None)
        return inside, []

    inside, lost = contents.database.write(change)
    contents.take(inside)
    _warn_of_lost(caller, lost)


def _found_anew(connection: sa.Connection, contents: Contents, caller: str, max_loss: float) -> None:
    """Solve tasks that no stored policy serves; each serves those after it, so few are needed."""
    stored = Stored.read(connection)
    left = [task for task, served in zip(stored.tasks, stored.served(max_loss), strict=True) if not served.any()]
    founded, place = list[int](), {task["id"]: i for i, task in enumerate(stored.tasks)}
    for task in left:
        valued, best = contents.tasks.get(connection, [task["id"]])[0], best_value(task)
        row = Vector()
        if founded:
            contents.value_policies(lambda work: work(connection), row, valued, founded, stacked=True)
        worths = row.worths
        if all(best - worth.value > max_loss for worth in worths.values()):
            if not _is_solvable(task):
                raise InvalidInputError(
                    f"{caller}: max_loss is {max_loss:g}, but task {task['id']} loses more, and the policy it came "
                    f"with is forgotten, must be at least {best - task['value']:g}: replace_policy gives it one"
                )
            founded.append(_own_policy(connection, contents, caller, task, valued))
            continue
        served = max(worths, key=lambda number: worths[number].value)
        _write_row(connection, task["id"], stored.worths(place[task["id"]], range(len(stored.policies))) | worths)
        rows.update(connection, "tasks", task, own_policy=served, **of_record(worths, served))


def _forget(connection: sa.Connection, contents: Contents, max_loss: float, *, was_exact: bool) -> None:
    """Keep the fewest policies that serve all tasks, as far as they can be found in time.

    Policies that the latest clustering keeps are among them: someone works with these, and those that were given cannot
    be made again.
    """
    stored = Stored.read(connection)
    if not stored.tasks:
        return
    served, in_use = stored.served(max_loss), {*source_ids(connection)}
    must = tuple(j for j, number in enumerate(stored.policies) if number in in_use)
    table = np.where(served, 0.0, np.inf)
    deadline = time.perf_counter() + SECONDS
    kept = sorted(Losses(table, must).cover(served, np.random.default_rng(0), deadline).columns.tolist())
    policies = {row["id"]: row for row in rows.fetch(connection, "policies")}
    for i, task in enumerate(stored.tasks):
        worths = stored.worths(i, kept)
        if was_exact:
            _write_row(connection, task["id"], worths)
        own, settings = task["own_policy"], task["settings"]
        if own not in worths:
            if "forgotten" not in settings:
                worth = {"value": best_value(task), "error": task["value_error"]}
                settings = settings | {"forgotten": worth | what_it_is(policies[own])}
            own = max(worths, key=lambda number: worths[number].value)
        changed = of_record(worths, own) | {"own_policy": own, "settings": settings}
        if any(task[name] != value for name, value in changed.items()):
            rows.update(connection, "tasks", task, **changed)
    keep = {stored.policies[j] for j in kept}
    for number in stored.policies:
        if number not in keep:
            rows.remove(connection, "policies", number)
            contents.policies.forget(number)
        elif was_exact:
            rows.replace_arrays(connection, "policies", number, vector_arrays("column", {}))


def _exact(connection: sa.Connection, contents: Contents, caller: str) -> list[rows.Row]:
    """Give every task its own policy again, and value each policy in every task; returns tasks that have none."""
    tasks = rows.fetch(connection, "tasks")
    if len(tasks) > MOST_EXACT:
        raise InvalidInputError(
            f"{caller}: max_loss is None, must be a number: {len(tasks):,} tasks are stored, and U can be completed of "
            f"{MOST_EXACT:,} at most"
        )
    for task in tasks:
        if "forgotten" in task["settings"] and _is_solvable(task):
            valued = contents.tasks.get(connection, [task["id"]])[0]
            _own_policy(connection, contents, caller, task, valued)
    policies = rows.numbers(connection, "policies")
    for number in policies:
        rows.replace_arrays(connection, "policies", number, vector_arrays("column", {}))
    for task in rows.fetch(connection, "tasks"):
        row = Vector()
        valued = contents.tasks.get(connection, [task["id"]])[0]
        contents.value_policies(lambda work: work(connection), row, valued, policies, stacked=True)
        _write_row(connection, task["id"], row.worths)
        rows.update(connection, "tasks", task, **of_record(row.worths, task["own_policy"]))
    return [task for task in rows.fetch(connection, "tasks") if "forgotten" in task["settings"]]


def _warn_of_lost(caller: str, lost: list[rows.Row]) -> None:
    """Say which tasks have no policy of their own again."""
    if lost:
        most = max(lost, key=lambda task: best_value(task) - task["value"])
        warnings.warn(
            f"{caller}: the policies that {counted(len(lost), 'task')} came with were given and are forgotten, so U is "
            f"without them: task {most['id']} loses most, {best_value(most) - most['value']:g}; replace_policy gives a "
            "task one",
            stacklevel=4,
        )


def _is_solvable(task: rows.Row) -> bool:
    """Whether a task's own policy can be made again: it was solved, and not given."""
    settings = task["settings"]
    return bool(settings["kind"] == "tabular" and settings.get("forgotten", {}).get("provenance") == "solved")


def _own_policy(connection: sa.Connection, contents: Contents, caller: str, task: rows.Row, valued: Valued) -> int:
    """Solve a task again and store its policy as its own; returns the policy's id."""
    assert isinstance(valued.task, TabularMDP)
    policy = solved(caller, valued.task, valued.episodes)
    called = {name: task["settings"]["forgotten"][name] for name in CALLED if name in task["settings"]["forgotten"]}
    row, arrays, made = records.policy_row(caller, policy, valued.task, "solved", called)
    vector = Vector()
    vector.value_policies(valued, [0], [made])
    worth = vector.worths[0]
    number = rows.insert(connection, "policies", row, arrays | vector_arrays("column", {task["id"]: worth}))
    settings = {key: value for key, value in task["settings"].items() if key != "forgotten"}
    record = {"own_policy": number, "settings": settings, "policy_of_record": number}
    rows.update(connection, "tasks", task, **record, value=worth.value, value_error=worth.error)
    return number


def _write_row(connection: sa.Connection, number: int, worths: dict[int, Worth]) -> None:
    """Put a row of U into the place of a task's present one."""
    rows.replace_arrays(connection, "tasks", number, vector_arrays("row", worths))
