"""Options that several commands share, and errors as one sentence."""

from __future__ import annotations

import functools
import importlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from pastmaster.cli.printing import Output, say
from pastmaster.errors import PastmasterError
from pastmaster.tables import one_line
from pastmaster.texts import printable

if TYPE_CHECKING:
    from pastmaster.repository import Repository

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


COMMAND = "pastmaster.command"  # the one that runs, in click's context
MEASURED = "measured"  # of a price: the one at which tasks left out earn most
INTERRUPTED, CLOSED_PIPE = 130, 141  # exit codes as shells have them: 128 and the number of the signal
ARGUMENT = re.compile(r"[A-Za-z_][\w.]*: (\w+)(?=: | (?:is|are|has|holds|leaves|of) )")
ALIASES = {  # arguments of functions, where options have other names
    "n_tasks": ("count",),
    "n_sequences": ("sequences",),
    "n_targets": ("targets",),
    "n_jobs": ("jobs",),
    "executor": ("workers",),
    "number": ("numbers",),
    "most": ("k",),
    "span": ("bounds",),
    "n_clusters": ("k",),
    "max_radius": ("max_loss",),
}


class Interrupted(click.ClickException):
    """Ctrl-C ended a command; the message says what was done before."""

    exit_code = INTERRUPTED

    def __init__(self, message: str = "") -> None:
        super().__init__(message)

    def show(self, file: Any = None) -> None:
        say(f"interrupted{': ' if self.message else ''}{self.message}", err=True)


class LazyChoice(click.Choice[str]):
    """A choice among names that are looked up when they are needed: the modules that hold them are slow to load."""

    def __init__(self, names: Callable[[], Sequence[str]]) -> None:
        self._names, self.case_sensitive = names, True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]  # click has an attribute
        return tuple(self._names())


class _Price(click.ParamType):  # type: ignore[type-arg]  # the oldest click knows no other form
    """A number, or the word that has it measured."""

    name = "price"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return value if value == MEASURED else float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number, nor {MEASURED}", param, ctx)


class Commands(click.Group):
    """Commands in which the library's errors become one sentence and an exit code that is not 0, no traceback."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        found = super().resolve_command(ctx, args)
        ctx.meta[COMMAND] = found[1]
        return found

    def make_context(self, *arguments: Any, **more: Any) -> click.Context:
        with _one_sentence():
            return super().make_context(*arguments, **more)

    def invoke(self, ctx: click.Context) -> Any:
        with _one_sentence():
            return super().invoke(ctx)


@contextmanager
def _one_sentence() -> Iterator[None]:
    """Errors as one sentence, in which nothing that came from outside can do anything to a terminal."""
    try:
        yield
    except PastmasterError as error:
        raise click.ClickException(printable(sentence(error))) from None
    except KeyboardInterrupt:
        raise Interrupted from None
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the end of Python would try to write the rest
        raise SystemExit(CLOSED_PIPE) from None
    except click.ClickException as error:
        vars(error)["message"] = printable(error.message, keep="\n")  # click declares it final
        raise


def sentence(error: PastmasterError) -> str:
    """An error on one line, which calls an argument of a function by the option that was typed for it."""
    text = " ".join(str(error).split("\n"))
    context = click.get_current_context(silent=True)
    command = None if context is None else context.meta.get(COMMAND)
    found = ARGUMENT.match(text)
    if found is None or command is None:
        return text
    typed = {option.name: _typed(option) for option in command.params}
    name = next((name for name in (found[1], *ALIASES.get(found[1], ())) if name in typed), None)
    return text if name is None else f"{typed[name]}{text[found.end(1) :]}"


@contextmanager
def usage() -> Iterator[None]:
    """Errors within are a wrong command line: the exit code is 2."""
    try:
        yield
    except PastmasterError as error:
        raise click.UsageError(sentence(error)) from None


def _typed(option: click.Parameter) -> str:
    """An option as it is typed, an argument as the help calls it."""
    return option.opts[0] if isinstance(option, click.Option) else (option.metavar or "").strip("[].")


repository_argument = click.argument("place", metavar="REPOSITORY")


def opened(place: str, *, create: bool = False, max_loss: float | None = None) -> Repository:
    """The repository at a place."""
    from pastmaster.repository import Repository

    return Repository(place, create=create, max_loss=max_loss)


@contextmanager
def opened_or_made(place: str) -> Iterator[Repository]:
    """The repository at a place, made if there is none; if nothing gets into a file made here, it is removed again."""
    there = "://" in place or Path(place).exists()
    empty = True
    try:
        with opened(place, create=True) as repository:
            try:
                yield repository
            finally:
                empty = not len(repository)
    finally:
        if empty and not there:
            Path(place).unlink(missing_ok=True)


def applied(command: Callable[..., Any], options: Sequence[Decorator]) -> Callable[..., Any]:
    """A command with options, which its help shows in this order."""
    for add in reversed(options):
        command = add(command)
    return command


def grouped(kind: type[Any], name: str, options: Sequence[Decorator]) -> Decorator:
    """Options that fill fields of a dataclass; the command is called with one of it as ``name``."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def called(*arguments: Any, **given: Any) -> Any:
            values = {field.name: given.pop(field.name) for field in fields(kind) if field.name in given}
            return command(*arguments, **{name: kind(**values)}, **given)

        return applied(called, options)

    return decorate


def whole_option(name: str, default: int, what: str, at_least: int = 1, at_most: int | None = None) -> Decorator:
    """An option that takes a whole number."""
    numbers = click.IntRange(at_least, at_most)
    return click.option(name, type=numbers, default=default, show_default=True, help=what)


def seed_option(what: str) -> Decorator:
    """``--seed``."""
    return whole_option("--seed", 0, what, at_least=0)


def quiet_option(what: str) -> Decorator:
    """``--quiet``."""
    return click.option("--quiet", is_flag=True, help=what)


def price_option(what: str) -> Decorator:
    """``--price``."""
    more = f"{MEASURED}, with --episodes: the price at which tasks left out, and met as new ones, earn most."
    return click.option("--price", type=_Price(), metavar=f"NUMBER|{MEASURED}", help=f"{what} {more}")


def path_option(name: str, what: str, **more: Any) -> Decorator:
    """An option that takes a path."""
    return click.option(name, type=click.Path(path_type=Path), help=what, **more)


def out_option(default: str, what: str) -> Decorator:
    """``--out``."""
    return path_option("--out", what, default=Path(default), show_default=True)


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for scripts.")
jobs_option = click.option("--jobs", type=int, default=1, show_default=True, help="Workers; -1: one to a core.")


def pin_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--must-keep`` and ``--never-keep``."""
    must = click.option("--must-keep", multiple=True, metavar="POLICY", help="Keep it in any case; may be repeated.")
    never = click.option("--never-keep", multiple=True, metavar="POLICY", help="Do not keep it; may be repeated.")
    return must(never(command))


workers_option = click.option(
    "--workers", metavar="ADDRESS", help="Use the workers of the dask scheduler there, such as tcp://10.0.0.1:8786."
)


@contextmanager
def workers(jobs: int, address: str | None) -> Iterator[dict[str, Any]]:
    """``--jobs`` or ``--workers`` as arguments of a function; the connection to a scheduler lasts as long as this."""
    if address is None:
        yield {"n_jobs": jobs}
        return
    given = click.get_current_context().get_parameter_source("jobs")
    if given is not ParameterSource.DEFAULT:
        raise click.UsageError("--jobs and --workers are given, must be one of the two")
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise click.UsageError("--workers needs the package distributed: pip install 'pastmaster[dask]'") from None
    try:
        client = distributed.Client(address, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        reason = one_line(str(error))
        raise click.ClickException(f"--workers is {address!r}, where no dask scheduler answers ({reason})") from None
    with client:
        yield {"executor": client.get_executor()}


def _drawable(_: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Refuse a picture that cannot be drawn before any work is done."""
    from pastmaster import figures

    try:
        return None if path is None else figures.writable(path)
    except PastmasterError as error:
        raise click.BadParameter(str(error), param=option) from None


picture_option = path_option("--picture", "Draw it into this file (.png, .svg or .pdf).", callback=_drawable)


def output_options(quiet: str) -> Decorator:
    """``--json``, ``--picture`` and ``--quiet``; the command is called with an ``output``."""
    return grouped(Output, "output", (json_option, picture_option, quiet_option(quiet)))


episodes_option = whole_option("--episodes", 1000, "Episodes of each task.")
bounds_option = click.option(
    "--bounds", type=float, nargs=2, help="Least and greatest return.  [default: those of the stored tasks]"
)


def _selectors() -> Sequence[str]:
    from pastmaster.reuse import SELECTORS

    return list(SELECTORS)


LEARNERS = ("q-learning", "dqn", "sac", "td3", "ddpg")
_SELECTOR = click.option(
    "--selector",
    type=LazyChoice(_selectors),
    help="How arms are chosen.  [default: informed, by what they were worth in the stored tasks]",
)
_LEARNER = click.option(
    "--learner", type=click.Choice(LEARNERS), help="Who learns the task.  [default: the one that fits its actions]"
)


def arm_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--selector`` and ``--learner``."""
    return _SELECTOR(_LEARNER(command))


def arm_settings(selector: str | None, learner: str | None, task: Any) -> dict[str, Any]:
    """The arguments of ``transfer`` that these names stand for; a name that is not given leaves the choice to it."""
    from pastmaster.reuse import RECOMMENDED, SB3Learning

    settings: dict[str, Any] = {} if selector is None else {"selector": selector}
    if learner == "q-learning":
        settings["learner"] = RECOMMENDED["learner"]
    elif learner is not None:
        settings["learner"] = SB3Learning(learner.upper(), **_noise(learner, task))
    return settings


def _noise(learner: str, task: Any) -> dict[str, Any]:
    """Noise of standard deviation 0.1, on actions in -1 .. 1, for TD3 and DDPG, which do not explore without any."""
    import gymnasium as gym
    import numpy as np

    from pastmaster.tasks import GymTask

    if learner not in ("td3", "ddpg") or not isinstance(task, GymTask):
        return {}
    space = task.action_space
    try:
        from stable_baselines3.common.noise import NormalActionNoise
    except ImportError:  # whoever starts the learner says so
        return {}
    if not isinstance(space, gym.spaces.Box):
        return {}
    return {"action_noise": NormalActionNoise(np.zeros(space.shape), np.full(space.shape, 0.1))}


modules_option = click.option(
    "--import", "modules", multiple=True, metavar="MODULE", help="Import it first: it registers environments."
)


def imported(modules: Sequence[str]) -> None:
    """Import the modules that a person named; those in the current folder are found."""
    import sys

    here = str(Path.cwd())
    if modules and here not in sys.path:
        sys.path.insert(0, here)
    for module in modules:
        try:
            importlib.import_module(module.removesuffix(".py"))
        except Exception as error:  # a module may raise anything
            raise click.ClickException(f"--import {module}: {type(error).__name__}: {error}") from None
