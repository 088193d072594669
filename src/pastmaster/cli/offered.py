"""Tasks named on the command line: files of arrays, Gymnasium environments, or a family of the paper's domains."""

from __future__ import annotations

import importlib
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click
import gymnasium as gym
import numpy as np

from pastmaster.arrays import Array
from pastmaster.domains import coloured_grid, surveillance, windy_corridor
from pastmaster.errors import DamagedError, InvalidInputError
from pastmaster.files import BROKEN_ZIP, LONGEST_HEADER, from_npy, read_header
from pastmaster.policies import load_sb3
from pastmaster.repository.records import Task
from pastmaster.tasks import GymTask
from pastmaster.tasks.gym_task import environment_name
from pastmaster.tasks.tabular import TabularMDP

DOMAINS = ("surveillance", "windy-corridor", "coloured-grid")


@dataclass(frozen=True)
class Offer:
    """The options that name tasks."""

    files: tuple[Path, ...]
    gym_id: str | None
    kwargs: str
    gamma: float | None
    horizon: int | None
    domain: str | None
    count: int
    targets: int
    sequences: int
    family_seed: int
    modules: tuple[str, ...]

    def tasks(self) -> list[Task]:
        """The tasks, at least one."""
        for module in self.modules:
            try:
                importlib.import_module(module)
            except ImportError as error:
                raise InvalidInputError(f"--import {module}: {error}") from None
        found: list[Task] = [read_task(path) for path in self.files]
        if self.gym_id is not None:
            found.append(environment_task(self.gym_id, self.kwargs, self.gamma, self.horizon))
        if self.domain is not None:
            found.extend(self.family())
        if not found:
            raise InvalidInputError("no task is named: give .npz files, --gym ID, or --domain NAME")
        return found

    def family(self) -> list[TabularMDP]:
        """``count`` tasks of a domain, in an order that depends on the seed alone: more tasks begin with fewer."""
        rng = np.random.default_rng(self.family_seed)
        if self.domain == "coloured-grid":
            return coloured_grid.family(rng.random((self.count, 2)))
        if self.domain == "surveillance":
            return surveillance.stream(self.count, self.targets, rng=rng, n_sequences=self.sequences)
        tasks = windy_corridor.family()
        if self.count > len(tasks):
            raise InvalidInputError(f"--count is {self.count}, must be at most {len(tasks)} for {self.domain}")
        return [tasks[i] for i in rng.permutation(len(tasks))[: self.count]]


def task_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that name tasks; the command is called with ``offer``."""

    def called(*arguments: Any, **options: Any) -> Any:
        offer = Offer(**{field.name: options.pop(field.name) for field in fields(Offer)})
        return command(*arguments, offer=offer, **options)

    called.__doc__, called.__name__ = command.__doc__, command.__name__
    called.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for add in reversed(OPTIONS):
        called = add(called)
    return called


OPTIONS = (
    click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[TASK.npz]..."),
    click.option("--gym", "gym_id", metavar="ID", help="A Gymnasium environment; one with a table P is taken exactly."),
    click.option("--import", "modules", multiple=True, metavar="MODULE", help="Import it first: it registers the id."),
    click.option("--kwargs", default="{}", metavar="JSON", help="Its arguments, as a JSON object."),
    click.option("--gamma", type=float, help="Its discount.  [default: the environment's own, or 0.99]"),
    click.option("--horizon", type=int, help="Its most steps.  [default: the environment's own]"),
    click.option("--domain", type=click.Choice(DOMAINS), help="Tasks of one of the paper's domains."),
    click.option("--count", type=click.IntRange(min=1), default=60, show_default=True, help="How many of them."),
    click.option("--targets", type=click.IntRange(1, 4), default=2, show_default=True, help="Surveillance: targets."),
    click.option(
        "--sequences", type=click.IntRange(min=1), default=6, show_default=True, help="Surveillance: group sequences."
    ),
    click.option("--family-seed", type=click.IntRange(min=0), default=0, show_default=True, help="Which tasks."),
)


def environment_task(gym_id: str, kwargs: str, gamma: float | None, horizon: int | None) -> Task:
    """The exact task behind an environment that carries its table, else the environment as a black box."""
    try:
        arguments = json.loads(kwargs)
    except ValueError as error:
        raise InvalidInputError(f"--kwargs is not JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise InvalidInputError(f"--kwargs is {kwargs}, must be a JSON object like '{{\"size\": 4}}'")
    try:
        env = gym.make(gym_id, **arguments)
    except Exception as error:  # an environment's constructor may raise anything
        raise InvalidInputError(f"--gym {gym_id} cannot be made: {error}") from None
    try:
        model = getattr(env.unwrapped, "mdp", None)
        if isinstance(model, TabularMDP) and gamma in (None, model.gamma) and horizon in (None, model.horizon):
            return model
        if hasattr(env.unwrapped, "P"):
            exact = TabularMDP.from_gymnasium(
                env, 0.99 if gamma is None else gamma, horizon="env" if horizon is None else horizon
            )
            exact.__setstate__({"name": environment_name(gym_id, arguments)})  # maps are told apart by their arguments
            return exact
    finally:
        env.close()
    return GymTask(gym_id, arguments, 0.99 if gamma is None else gamma, horizon)


def read_task(path: Path) -> TabularMDP:
    """A task from an .npz file whose arrays are named as the arguments of ``TabularMDP``."""
    found = read_npz(path)
    allowed = {"next_state", "reward", "probability", "terminated", "start", "gamma", "horizon", "name"}
    unknown, missing = set(found) - allowed, {"next_state", "reward", "gamma"} - set(found)
    if unknown or missing:
        what = repr(min(unknown)) if unknown else f"no {min(missing)!r}"
        raise InvalidInputError(
            f"{path} holds {what}, must hold next_state, reward and gamma, and may hold probability, terminated, "
            "start, horizon and name"
        )
    scalars = {name: array.item() for name, array in found.items() if array.ndim == 0}
    try:
        return TabularMDP(**{"name": path.stem, **found, **scalars})
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {error}") from None


def read_npz(path: Path) -> dict[str, Array]:
    """The arrays of an .npz file; nothing is unpickled, and headers are checked before memory is taken."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {
                info.filename.removesuffix(".npy"): _member(archive, info, f"{path}: {info.filename}")
                for info in archive.infolist()
            }
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror or error}") from None
    except BROKEN_ZIP as error:
        raise InvalidInputError(f"{path} is not an .npz file: {error}") from None


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, place: str) -> Array:
    with archive.open(info) as file:
        head = file.read(LONGEST_HEADER)
        header = read_header(head, info.file_size, place)
        return from_npy(head + file.read(info.file_size - len(head)), header)


def read_policy(path: Path) -> Any:
    """A policy from an .npy file, actions [S] or probabilities [S, A], or from a Stable-Baselines3 .zip file."""
    if path.suffix == ".zip":
        return load_sb3(path)
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            header = read_header(file.read(LONGEST_HEADER), size, str(path))
            file.seek(0)
            return from_npy(file.read(), header)
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror or error}") from None
    except DamagedError as error:
        raise InvalidInputError(f"{error}: must be a .npy file of actions [S] or probabilities [S, A]") from None
