"""Tasks and policies as records: what is stored of each, and how it is made again."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from pastmaster.arrays import Array, as_array, sealed
from pastmaster.checks import chosen
from pastmaster.errors import DamagedError, InvalidInputError, PastmasterError, RepositoryError, TaskError
from pastmaster.estimation.means import fitting_policy
from pastmaster.policies import FunctionPolicy, NetworkPolicy, OnnxPolicy, TablePolicy
from pastmaster.policies.onnx_graph import check_onnx
from pastmaster.policies.policy import checked_policy
from pastmaster.repository.arrays import Packed, pack
from pastmaster.repository.rows import NONSENSE, Row
from pastmaster.tables import one_line, shown
from pastmaster.tasks import GymTask, Task
from pastmaster.tasks.tabular import model_arrays, task_from_arrays
from pastmaster.values import Bounds

Stored = Any
"""A policy as a repository returns it: an array, a ``NetworkPolicy`` or an ``OnnxPolicy``."""
KINDS = ("network", "onnx")
"""Policies that are more than an array, by what their settings call them: their settings are part of the digest."""
CALLED = ("name", "source")
"""What a policy's settings may say besides what it is: its name, and the file it came from."""
LONGEST_NAME = 1000
PROVENANCES = ("solved", "learned", "imported")
MOVES = "moves"  # what is stored in the place of next_state: next_state[s] - s, of a grid a few numbers again and again


@dataclass(frozen=True, repr=False)
class PolicyRecord:
    """What a repository stores of a policy besides the policy itself.

    Attributes
    ----------
    id, name, source
        The policy's id, what it is called, and the file it came from, None where none was told. A policy that was
        stored without a name is called like the task it came with.
    provenance : {"solved", "learned", "imported"}
    digest : str
        The SHA-256 of what it is.
    """

    id: int
    name: str
    source: str | None
    provenance: str
    digest: str

    @classmethod
    def of(cls, row: Row, task_name: str) -> PolicyRecord:
        """From a row of the table, and the name of the task it came with."""
        name, source = (row["settings"].get(key) for key in CALLED)
        same = {key: row[key] for key in ("id", "provenance", "digest")}
        return cls(name=name or task_name or f"policy {row['id']}", source=source, **same)

    def __repr__(self) -> str:
        source = "" if self.source is None else f" from {self.source}"
        return one_line(f"PolicyRecord({self.id}: {self.name}, {self.provenance}{source})")


@dataclass(frozen=True, repr=False)
class TaskRecord:
    """What a repository stores of a task besides the task itself.

    Attributes
    ----------
    id, name, kind, digest
        The task's id, its name, "tabular" or "gymnasium", and the SHA-256 of what it is.
    own_policy, policy_of_record : int
        The ids of the policy it came with, and of the stored policy that is best in it.
    policy_name, policy_source : str, str or None
        What the policy of record is called, and the file it came from.
    value, value_error : float
        The value of the policy of record from the task's start, and its standard error, 0 where it is exact.
    best_value : float
        The best that is known for the task: ``value``, or that of the policy it came with, where that is more; such a
        policy is not stored if the loss is at most the repository's ``max_loss``.
    bounds : Bounds or None
        The least and the greatest return of an episode, where they are known.
    horizon : int or None
        The step limit of an episode.
    """

    id: int
    name: str
    kind: str
    own_policy: int
    policy_of_record: int
    policy_name: str
    policy_source: str | None
    value: float
    value_error: float
    bounds: Bounds | None
    digest: str
    horizon: int | None = None
    best_value: float = math.nan

    @classmethod
    def of(cls, row: Row, policy: PolicyRecord) -> TaskRecord:
        """From a row of the table, and its policy of record."""
        bounds = None if row["lower"] is None else Bounds(row["lower"], row["upper"])
        same = ("id", "name", "own_policy", "policy_of_record", "value", "value_error", "digest")
        return cls(
            kind=row["settings"]["kind"], bounds=bounds, policy_name=policy.name, policy_source=policy.source,
            horizon=row["settings"].get("horizon"), best_value=best_value(row), **{name: row[name] for name in same},
        )  # fmt: skip

    def __repr__(self) -> str:
        name, policy = one_line(self.name or "unnamed", 40), one_line(self.policy_name, 25)
        return one_line(f"TaskRecord({self.id}: {name}, worth {self.value:.4g} under {policy})")


def best_value(row: Row) -> float:
    """The best that is known for a task: its policy of record, or its own policy, though that was forgotten."""
    return float(max(row["value"], row["settings"].get("forgotten", row["value"])))


def joined_bounds(tasks: Iterable[TaskRecord], place: str) -> Bounds:
    """Bounds on the return of an episode in any of the tasks of a repository."""
    bounds = []
    for task in tasks:
        if task.bounds is None:
            raise RepositoryError(
                f"task {task.id} is valued without a model: declare bounds on its returns (--bounds), "
                "or its reward_range"
            )
        bounds.append(task.bounds)
    if not bounds:
        raise RepositoryError(f"{place} holds no tasks yet, so their returns have no bounds")
    return Bounds.joined(bounds)


def task_row(task: Task) -> tuple[Row, dict[str, Array]]:
    """The columns and arrays that hold a task."""
    family = family_of(task) | {"horizon": task.horizon}
    name = plain(task.name, "Repository.add: task.name")
    if isinstance(task, GymTask):
        try:
            identity = plain(task.identity, "Repository.add: task")
        except InvalidInputError as error:
            raise InvalidInputError(f"Repository.add: {name} can be used but not stored: {error}") from None
        declared = {"reward_range": task.reward_range, "time_limit": task.time_limit}
        settings = family | {"kind": "gymnasium"} | identity | plain(declared, "Repository.add: task")
        return {"name": name, "digest": _environment_digest(settings), "settings": settings}, {}
    arrays = model_arrays(task)
    settings = family | {"kind": "tabular", "params": plain(task.params, "Repository.add: task.params")}
    return {"name": name, "digest": _digest(family | {"kind": "tabular"}, arrays), "settings": settings}, arrays


def packed_task(arrays: Mapping[str, Array]) -> dict[str, Packed]:
    """The arrays of a task as they are stored."""
    stored = dict(arrays)
    if "next_state" in stored:
        next_state = stored.pop("next_state")
        stored[MOVES] = next_state - _own_states(next_state)
    return {name: pack(array) for name, array in stored.items()}


def _with_next_state(arrays: Mapping[str, Array]) -> Mapping[str, Array]:
    """The arrays of a task, of those that are stored, or as ``task_row`` gives them."""
    if MOVES not in arrays:
        return arrays
    moves = arrays[MOVES]
    return {name: array for name, array in arrays.items() if name != MOVES} | {"next_state": moves + _own_states(moves)}


def _own_states(array: Array) -> Array:
    """Each state's own number, in the shape of an array [S, ...]."""
    return np.arange(len(array), dtype=np.int32).reshape(-1, *(1,) * (array.ndim - 1))


def family_of(task: Task) -> dict[str, Any]:
    """What the tasks of a repository share."""
    if isinstance(task, GymTask):
        return task.family
    return {"n_states": task.n_states, "n_actions": task.n_actions, "gamma": task.gamma}


def _environment_digest(settings: Mapping[str, Any]) -> str:
    identity = ("kind", "env_id", "kwargs", "gamma", "horizon", "wrappers")
    return _digest({key: settings[key] for key in identity if key in settings}, {})


def task_of(row: Row, arrays: Mapping[str, Array]) -> Task:
    """The task a record holds, checked like any other and equal to the one stored, bit for bit.

    Checksums tell whether it was changed by accident; what someone forged is believed if it makes a task.
    """
    place, settings = f"tasks {row['id']}", row["settings"]
    if settings["kind"] == "gymnasium":
        return _environment_of(row, place)
    try:
        return task_from_arrays(
            _with_next_state(arrays),
            gamma=settings["gamma"],
            horizon=settings["horizon"],
            name=row["name"],
            params=settings["params"],
        )
    except KeyError as error:
        raise DamagedError(f"{place}: {error} is missing") from None
    except (PastmasterError, *NONSENSE) as error:
        raise DamagedError(f"{place}: is no task: {error}") from None


def _environment_of(row: Row, place: str) -> GymTask:
    """The environment a record names, which must be registered in this process."""
    settings = row["settings"]
    env_id = settings["env_id"]
    if not isinstance(env_id, str) or ":" in env_id:
        raise DamagedError(f"{place}: {env_id!r} is no id of an environment")
    if env_id not in gym.registry:
        raise RepositoryError(
            f"{place}: {env_id} is not registered here: import the module that registers it first (--import MODULE)"
        )
    more = {key: settings[key] for key in ("reward_range", "time_limit", "wrappers") if key in settings}
    try:
        return GymTask(env_id, settings["kwargs"], settings["gamma"], settings["horizon"], name=row["name"], **more)
    except (InvalidInputError, TaskError) as error:
        raise RepositoryError(f"{place}: its environment cannot be made here: {error}") from None


def called(caller: str, name: Any, source: Any) -> dict[str, str]:
    """What a person calls a policy, as it is stored: a file's policy goes by the file's name unless it has another."""
    source = str(source) if isinstance(source, os.PathLike) else source
    for key, value, wanted in (("name", name, "a text"), ("source", source, "a path")):
        if value is not None and not (isinstance(value, str) and 0 < len(value) <= LONGEST_NAME):
            raise InvalidInputError(
                f"{caller}: {key} is {shown(value)}, must be {wanted} of 1 to {LONGEST_NAME} letters"
            )
    given = {} if source is None else {"name": Path(source).name, "source": source}
    given |= {} if name is None else {"name": name}
    return {key: plain(text, f"{caller}: {key}") for key, text in given.items()}


def policy_row(
    caller: str, policy: Any, task: Task, provenance: str, names: Mapping[str, str] | None = None
) -> tuple[Row, dict[str, Array], Stored]:
    """The columns and arrays that hold a policy, and the policy as it will be returned; an ONNX file is its bytes."""
    chosen(caller, "provenance", provenance, PROVENANCES)
    made = fitting_policy(policy, task, f"{caller}: policy")
    if isinstance(made, NetworkPolicy):
        stored: Stored = made
        array, settings = made.weights, {"kind": "network"} | made.settings
    elif isinstance(made, OnnxPolicy):
        stored, array, settings = made, np.frombuffer(made.model, np.uint8), {"kind": "onnx"} | made.settings
    elif isinstance(made, TablePolicy):
        stored = array = sealed(made.table.copy())
        settings = {"n_states": task.n_states, "n_actions": task.n_actions}
    else:
        what = "a function" if isinstance(made, FunctionPolicy) else repr(made)
        raise InvalidInputError(
            f"{caller}: policy is {what}, must be an array, a NetworkPolicy or an OnnxPolicy: only data can be stored; "
            "a network of any framework can be exported to ONNX, for load_onnx(path, task)"
        )
    digest = _policy_digest(settings, array)
    row = {"digest": digest, "provenance": provenance, "settings": settings | dict(names or {})}
    return row, {"policy": array}, stored


def policy_of(row: Row, arrays: Mapping[str, Array]) -> Stored:
    """The policy a record holds: an array, a ``NetworkPolicy`` or an ``OnnxPolicy``."""
    place = f"policies {row['id']}"
    settings = {key: value for key, value in row["settings"].items() if key not in CALLED}
    rest = dict(settings)
    kind = rest.pop("kind", None)
    if kind == "onnx":
        check_onnx(place)  # what cannot be read here is not damaged
    try:
        array = arrays["policy"]
        if _policy_digest(settings, array) != row["digest"]:
            raise DamagedError(f"{place}: its array is not the one it was stored with")
        if kind == "network":
            return NetworkPolicy.from_data(rest, array)
        if kind == "onnx":
            return OnnxPolicy(array.tobytes(), rest, place=place)
        checked_policy(array, rest["n_states"], rest["n_actions"], place)
    except KeyError as error:
        raise DamagedError(f"{place}: {error} is missing") from None
    except NONSENSE as error:  # InvalidInputError is one
        raise DamagedError(f"{place}: is no policy: {error}") from None
    return array


def _policy_digest(settings: Mapping[str, Any], array: Array) -> str:
    """The digest of a policy: a table is its array alone."""
    return _digest(settings if settings.get("kind") in KINDS else {}, {"policy": array})


def verify_run(row: Row, arrays: Mapping[str, Array]) -> None:
    """``DamagedError`` unless a run has its returns and arms."""
    if missing := {"returns", "arms"} - set(arrays):
        raise DamagedError(f"runs {row['id']}: array {min(missing)!r} is missing")


def plain(value: Any, place: str) -> Any:
    """NumPy's numbers and arrays, tuples and mappings as plain JSON values; others are refused."""
    if isinstance(value, Mapping):
        return {plain(str(key), place): plain(inner, f"{place}[{key!r}]") for key, inner in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = as_array(value, place, None).tolist()
    if isinstance(value, list | tuple):
        return [plain(inner, f"{place}[{i}]") for i, inner in enumerate(value)]
    if isinstance(value, str) and (
        "\0" in value or (not value.isascii() and value.encode("utf-8", "ignore").decode() != value)
    ):
        raise InvalidInputError(f"{place} is {shown(value)}, must be text that every database can hold")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InvalidInputError(f"{place} is {shown(value)}, must be a plain number, text, list or mapping")


def _digest(settings: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    """SHA-256 of what makes a record what it is: the same task twice has the same digest."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
