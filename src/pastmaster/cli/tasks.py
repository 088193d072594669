"""Tasks and policies named on the command line: files, Gymnasium environments, or a family of the paper's domains."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pastmaster.cli.options import grouped, imported, modules_option, repository_argument, whole_option
from pastmaster.errors import InvalidInputError
from pastmaster.tables import counted, one_line

if TYPE_CHECKING:
    from pastmaster.tasks import GymTask, TabularMDP

DOMAINS = ("surveillance", "windy-corridor", "coloured-grid")
TASK_ARRAYS = ("next_state", "reward", "probability", "terminated", "start", "gamma", "horizon", "name")
NEEDED = {"next_state", "reward", "gamma"}
DEFAULT_GAMMA = 0.99
POLICY_FILES = (".zip", ".npy", ".onnx")
LARGEST_JSON = 2**26


@dataclass(frozen=True)
class NamedTasks:
    """The options that name tasks."""

    files: tuple[Path, ...]
    gym_ids: tuple[str, ...]
    kwargs: tuple[str, ...]
    kwargs_file: Path | None
    gamma: float | None
    horizon: int | None
    domain: str | None
    count: int
    targets: int
    sequences: int
    family_seed: int
    modules: tuple[str, ...]

    def read(self, usual: int | None = None) -> list[TabularMDP | GymTask]:
        """The tasks, at least one; ``usual`` is the horizon of environments for which none is given."""
        imported(self.modules)
        found: list[TabularMDP | GymTask] = [read_task(path) for path in self.files]
        for gym_id, arguments in self._environments():
            found.append(environment_task(gym_id, arguments, self.gamma, self.horizon, usual))
        if self.domain is not None:
            found.extend(self._family())
        if not found:
            raise InvalidInputError("no task is named: give .npz files, --gym ID, or --domain NAME")
        return found

    def _environments(self) -> list[tuple[str, dict[str, Any]]]:
        """Each environment's id and arguments: one id goes with any number of arguments, several with one each."""
        if self.kwargs and self.kwargs_file is not None:
            raise InvalidInputError("--kwargs and --kwargs-file are both given, must be one of them")
        if self.kwargs_file is None:
            given = [_mapping(text, "--kwargs") for text in self.kwargs]
        else:
            given = _listed_kwargs(self.kwargs_file)
        n_ids = len(self.gym_ids)
        if not n_ids and given:
            raise InvalidInputError("--kwargs is given without --gym, must go with one: --gym ID --kwargs JSON")
        if not given:
            return [(gym_id, {}) for gym_id in self.gym_ids]
        ids = self.gym_ids * len(given) if n_ids == 1 else self.gym_ids
        if len(ids) != len(given):
            raise InvalidInputError(
                f"--kwargs is given {len(given)} times for {n_ids} environments, must be once to each --gym, or any "
                "number of times with one --gym"
            )
        return list(zip(ids, given, strict=True))

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
    click.option(
        "--gym",
        "gym_ids",
        multiple=True,
        metavar="ID",
        help="A Gymnasium environment; one with a table P is taken exactly. May be repeated.",
    ),
    modules_option,
    click.option(
        "--kwargs",
        multiple=True,
        metavar="JSON",
        help="Its arguments, as a JSON object: one to each --gym, or several to one.",
    ),
    click.option(
        "--kwargs-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A JSON list of such objects, one task each.",
    ),
    click.option("--gamma", type=float, help="Its discount.  [default: the environment's own, or 0.99]"),
    click.option("--horizon", type=int, help="Step limit of an episode.  [default: the environment's own]"),
    click.option("--domain", type=click.Choice(DOMAINS), help="Tasks of one of the paper's domains."),
    whole_option("--count", 60, "How many of them."),
    whole_option("--targets", 2, "Surveillance: targets.", at_most=4),
    whole_option("--sequences", 6, "Surveillance: group sequences."),
    whole_option("--family-seed", 0, "Which tasks.", at_least=0),
)


def renamed(tasks: list[TabularMDP | GymTask], names: Sequence[str]) -> list[TabularMDP | GymTask]:
    """The tasks by these names: one to each, or none at all."""
    from pastmaster.tasks import TabularMDP
    from pastmaster.tasks.tabular import called

    if len(names) not in (0, len(tasks)):
        raise InvalidInputError(
            f"--task-name is given {len(names)} times for {counted(len(tasks), 'task')}, must be once to each, in order"
        )
    if not names:
        return tasks
    return [
        called(task, name) if isinstance(task, TabularMDP) else replace(task, name=name)
        for task, name in zip(tasks, names, strict=True)
    ]


task_options = grouped(NamedTasks, "named", OPTIONS)
"""A repository, and options that name tasks; the command is called with ``place`` and ``named``."""


def _mapping(text: str, option: str) -> dict[str, Any]:
    """A JSON object."""
    from pastmaster.files import from_json

    found = from_json(text, option)
    if not isinstance(found, dict):
        raise InvalidInputError(f"{option} is {text}, must be a JSON object like '{{\"size\": 4}}'")
    return found


def _listed_kwargs(path: Path) -> list[dict[str, Any]]:
    """The arguments of environments in a file: a JSON list of objects."""
    from pastmaster.files import checked_file, from_json, read_whole

    place = f"--kwargs-file {path}"
    path = checked_file("--kwargs-file", path, "a JSON file")
    found = from_json(read_whole(path, LARGEST_JSON, place), place)
    if not isinstance(found, list) or not found:
        raise InvalidInputError(f"--kwargs-file {path} is no list, must be a JSON list of objects, one task each")
    for i, arguments in enumerate(found):
        if not isinstance(arguments, dict):
            raise InvalidInputError(f"--kwargs-file {path}: [{i}] is {json.dumps(arguments)}, must be a JSON object")
    return found


def environment_task(
    gym_id: str, arguments: dict[str, Any], gamma: float | None, horizon: int | None, usual: int | None = None
) -> TabularMDP | GymTask:
    """The exact task behind an environment that carries its table, else the environment as a black box.

    Without a ``horizon`` it is the ``usual`` one, or else the environment's own; a task of ours keeps its own.
    """
    from pastmaster.tasks import GymTask, TabularEnv, TabularMDP
    from pastmaster.tasks.gymnasium_table import environment_name
    from pastmaster.tasks.specs import made_by_id

    env = made_by_id("--gym", gym_id, arguments)
    discount = DEFAULT_GAMMA if gamma is None else gamma
    try:
        inner = env.unwrapped
        if isinstance(inner, TabularEnv) and gamma in (None, inner.mdp.gamma) and horizon in (None, inner.mdp.horizon):
            return inner.mdp
        horizon = usual if horizon is None else horizon
        if hasattr(inner, "P"):
            name = environment_name(gym_id, arguments)  # maps are told apart by their arguments
            return TabularMDP.from_gymnasium(env, discount, horizon="env" if horizon is None else horizon, name=name)
    finally:
        env.close()
    return GymTask(gym_id, arguments, discount, horizon)


def read_task(path: Path) -> TabularMDP:
    """A task from an .npz file whose arrays are named as the arguments of ``TabularMDP``."""
    from pastmaster.files import checked_file
    from pastmaster.npy import read_npz
    from pastmaster.tasks import TabularMDP

    if path.suffix in POLICY_FILES:
        raise InvalidInputError(f"{path} is given as a task, must follow --policy")
    path = checked_file("the task", path, "an .npz file of arrays")
    found = read_npz(path)
    unknown, missing = set(found) - set(TASK_ARRAYS), NEEDED - set(found)
    if unknown or missing:
        what = one_line(repr(min(unknown))) if unknown else f"no {min(missing)!r}"
        raise InvalidInputError(
            f"{path} holds {what}, must hold next_state, reward and gamma, and may hold probability, terminated, "
            "start, horizon and name"
        )
    scalars = {name: array.item() for name, array in found.items() if array.ndim == 0}
    try:
        return TabularMDP(**{"name": path.stem, **found, **scalars})
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {error}") from None
