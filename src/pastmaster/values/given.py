"""Tasks and policies as people give them: one, or several in a list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium as gym

from pastmaster.errors import InvalidInputError
from pastmaster.policies import Policy
from pastmaster.policies.sb3_live import is_model
from pastmaster.tables import one_line
from pastmaster.tasks import Task


def several_tasks(place: str, tasks: Any) -> Iterable[Any]:
    """Tasks to loop over; a task alone is a list of one. What it holds is not looked at."""
    if isinstance(tasks, Task):
        return [tasks]
    _check_several(place, tasks, "a task or a list of tasks")
    several: Iterable[Any] = tasks
    return several


def listed_policies(place: str, policies: Any) -> list[Any]:
    """Policies as a list; what it holds is not looked at."""
    single = isinstance(policies, Policy) or is_model(policies) or callable(policies)
    if single and not isinstance(policies, type):
        raise InvalidInputError(f"{place} is {one_line(repr(policies))}, must be a list of policies: pass [policy]")
    _check_several(place, policies, "a list of policies")
    return list(policies)


def not_a_task(place: str, task: Any) -> InvalidInputError:
    """The error for what is no task where one must be."""
    remedy = ""
    if isinstance(task, gym.Env):
        name = repr(task.spec.id) if task.spec is not None else "a function that makes it"
        remedy = f": pass GymTask({name})"
    elif isinstance(task, str):
        remedy = f": pass GymTask({task!r})"
    return InvalidInputError(f"{place} is a {type(task).__name__}, must be a TabularMDP or a GymTask{remedy}")


def _check_several(place: str, things: Any, wanted: str) -> None:
    if isinstance(things, gym.Env):
        raise not_a_task(place, things)
    if isinstance(things, Mapping):
        name = place.rpartition(" ")[2]
        raise InvalidInputError(f"{place} is a {type(things).__name__}, must be {wanted}: pass list({name}.values())")
    if not isinstance(things, Iterable) or isinstance(things, str):
        raise InvalidInputError(f"{place} is {one_line(repr(things))}, must be {wanted}")
