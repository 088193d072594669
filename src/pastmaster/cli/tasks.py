"""Tasks and policies named on the command line: files, Gymnasium environments, or a family of the paper's domains."""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pastmaster.cli.options import repository_argument, whole_option
from pastmaster.errors import InvalidInputError

if TYPE_CHECKING:
    from pastmaster.tasks import GymTask, TabularMDP

DOMAINS = ("surveillance", "windy-corridor", "coloured-grid")
TASK_ARRAYS = ("next_state", "reward", "probability", "terminated", "start", "gamma", "horizon", "name")
NEEDED = {"next_state", "reward", "gamma"}
DEFAULT_GAMMA = 0.99


@dataclass(frozen=True)
class NamedTasks:
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

    def read(self) -> list[TabularMDP | GymTask]:
        """The tasks, at least one."""
        for module in self.modules:
            try:
                importlib.import_module(module)
            except ImportError as error:
                raise InvalidInputError(f"--import {module}: {error}") from None
        found: list[TabularMDP | GymTask] = [read_task(path) for path in self.files]
        if self.gym_id is not None:
            found.append(environment_task(self.gym_id, self.kwargs, self.gamma, self.horizon))
        if self.domain is not None:
            found.extend(self._family())
        if not found:
            raise InvalidInputError("no task is named: give .npz files, --gym ID, or --domain NAME")
        return found

    def _family(self) -> list[TabularMDP]:
        """``count`` tasks of a domain, in an order that depends on the seed alone: more tasks begin with fewer."""
        import numpy as np

        from pastmaster.domains import coloured_grid, surveillance, windy_corridor

        rng = np.random.default_rng(self.family_seed)
        if self.domain == "coloured-grid":
            return coloured_grid.family(rng.random((self.count, 2)))
        if self.domain == "surveillance":
            return surveillance.stream(self.count, self.targets, rng=rng, n_sequences=self.sequences)
        tasks = windy_corridor.family()
        if self.count > len(tasks):
            raise InvalidInputError(f"--count is {self.count}, must be at most {len(tasks)} for {self.domain}")
        return [tasks[i] for i in rng.permutation(len(tasks))[: self.count]]


OPTIONS = (
    repository_argument,
    click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[TASK.npz]..."),
    click.option("--gym", "gym_id", metavar="ID", help="A Gymnasium environment; one with a table P is taken exactly."),
    click.option("--import", "modules", multiple=True, metavar="MODULE", help="Import it first: it registers ID."),
    click.option("--kwargs", default="{}", metavar="JSON", help="Its arguments, as a JSON object."),
    click.option("--gamma", type=float, help="Its discount.  [default: the environment's own, or 0.99]"),
    click.option("--horizon", type=int, help="Step limit of an episode.  [default: the environment's own]"),
    click.option("--domain", type=click.Choice(DOMAINS), help="Tasks of one of the paper's domains."),
    whole_option("--count", 60, "How many of them."),
    whole_option("--targets", 2, "Surveillance: targets.", at_most=4),
    whole_option("--sequences", 6, "Surveillance: group sequences."),
    whole_option("--family-seed", 0, "Which tasks.", at_least=0),
)


def task_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A repository, and options that name tasks; the command is called with ``place`` and ``named``."""

    @functools.wraps(command)
    def called(*arguments: Any, **options: Any) -> Any:
        named = NamedTasks(**{field.name: options.pop(field.name) for field in fields(NamedTasks)})
        return command(*arguments, named=named, **options)

    decorated: Callable[..., Any] = called
    for add in reversed(OPTIONS):
        decorated = add(decorated)
    return decorated


def environment_task(gym_id: str, kwargs: str, gamma: float | None, horizon: int | None) -> TabularMDP | GymTask:
    """The exact task behind an environment that carries its table, else the environment as a black box."""
    import gymnasium as gym

    from pastmaster.tasks import GymTask, TabularEnv, TabularMDP
    from pastmaster.tasks.gym_task import environment_name

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
    discount = DEFAULT_GAMMA if gamma is None else gamma
    try:
        inner = env.unwrapped
        if isinstance(inner, TabularEnv) and gamma in (None, inner.mdp.gamma) and horizon in (None, inner.mdp.horizon):
            return inner.mdp
        if hasattr(inner, "P"):
            name = environment_name(gym_id, arguments)  # maps are told apart by their arguments
            return TabularMDP.from_gymnasium(env, discount, horizon="env" if horizon is None else horizon, name=name)
    finally:
        env.close()
    return GymTask(gym_id, arguments, discount, horizon)


def read_task(path: Path) -> TabularMDP:
    """A task from an .npz file whose arrays are named as the arguments of ``TabularMDP``."""
    from pastmaster.files import read_npz
    from pastmaster.tasks import TabularMDP

    found = read_npz(path)
    unknown, missing = set(found) - set(TASK_ARRAYS), NEEDED - set(found)
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


def read_policy(path: Path) -> Any:
    """A policy from an .npy file, actions [S] or probabilities [S, A], or from a Stable-Baselines3 .zip file."""
    from pastmaster.files import read_npy
    from pastmaster.policies import load_sb3

    if path.suffix == ".zip":
        return load_sb3(path)
    return read_npy(path, "actions [S] or probabilities [S, A]")
