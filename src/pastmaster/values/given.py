"""Tasks and policies as people give them: one, or several in a list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium as gym

from pastmaster.checks import as_name, each, listed, mapping
from pastmaster.errors import InvalidInputError
from pastmaster.policies.policy import is_policy
from pastmaster.policies.sb3_live import is_model
from pastmaster.tables import shown
from pastmaster.tasks import Task

TASKS = "a task or a list of tasks"


def several_tasks(place: str, tasks: Any) -> Iterator[Any]:
    """Tasks to loop over; a task alone is a list of one. What it holds is not looked at."""
    if isinstance(tasks, Task):
        return iter([tasks])
    _check_several(place, tasks, TASKS)
    return each(tasks, place, TASKS)


def listed_tasks(place: str, tasks: Any) -> list[Any]:
    """Tasks as a list; a task alone is a list of one. What it holds is not looked at."""
    return list(several_tasks(place, tasks))


def listed_policies(place: str, policies: Any) -> list[Any]:
    """Policies as a list; what it holds is not looked at."""
    single = is_policy(policies) or is_model(policies) or callable(policies)
    if single and not isinstance(policies, type):
        raise InvalidInputError(f"{place} is {shown(policies)}, must be a list of policies: pass [policy]")
    _check_several(place, policies, "a list of policies")
    return listed(policies, place, "a list of policies")


def with_names(place: str, given: Any) -> tuple[list[str], Any]:
    """The names in a dict of names to things, and the things; of anything else no names, and the same."""
    if not isinstance(given, Mapping):
        return [], given
    found = mapping(given, place)
    names = [as_name(name, place) for name in found]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInputError(f"{place} has {shown(twice)} twice, must have each name once")
    return names, list(found.values())


def not_a_task(place: str, task: Any) -> InvalidInputError:
    """The error for what is no task where one must be."""
    remedy = ""
    if isinstance(task, gym.Env):
        spec = getattr(task, "spec", None)
        name = repr(spec.id) if spec is not None else "a function that makes it"
        remedy = f": pass GymTask({name})"
    elif isinstance(task, str):
        remedy = f": pass GymTask({shown(task)})"
    return InvalidInputError(f"{place} is a {type(task).__name__}, must be a TabularMDP or a GymTask{remedy}")


def _check_several(place: str, things: Any, wanted: str) -> None:
    if isinstance(things, gym.Env):
        raise not_a_task(place, things)
    if isinstance(things, Mapping):
        name = place.rpartition(" ")[2]
        raise InvalidInputError(f"{place} is a {type(things).__name__}, must be {wanted}: pass list({name}.values())")
