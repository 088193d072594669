"""Options that several commands share, and errors as one sentence."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from pastmaster.errors import PastmasterError

Command = Callable[..., Any]


class LazyChoice(click.Choice[str]):
    """A choice among names that are looked up when they are needed: the modules that hold them are slow to load."""

    def __init__(self, names: Callable[[], Sequence[str]]) -> None:
        self._names, self.case_sensitive = names, True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]  # click has an attribute
        return tuple(self._names())


def errors_in_one_sentence(command: Command) -> Command:
    """The library's errors become one sentence and an exit code that is not 0, without a traceback."""

    @functools.wraps(command)
    def guarded(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except PastmasterError as error:
            raise click.ClickException(" ".join(str(error).split("\n"))) from None

    return guarded


repository_argument = click.argument("place", metavar="REPOSITORY")


def seed_option(what: str) -> Callable[[Command], Command]:
    """``--seed``."""
    return click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help=what)


def quiet_option(what: str) -> Callable[[Command], Command]:
    """``--quiet``."""
    return click.option("--quiet", is_flag=True, help=what)


def out_option(default: str, what: str) -> Callable[[Command], Command]:
    """``--out``."""
    return click.option("--out", type=click.Path(path_type=Path), default=Path(default), show_default=True, help=what)


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for scripts.")
jobs_option = click.option("--jobs", type=int, default=1, show_default=True, help="Workers; -1: one to a core.")


def _backends() -> Sequence[str]:
    from pastmaster.parallel.workers import BACKENDS

    return list(BACKENDS)


backend_option = click.option("--backend", type=LazyChoice(_backends), help="Where the workers are.")


def _drawable(_: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Refuse a picture that cannot be drawn before any work is done."""
    from pastmaster import figures

    try:
        return None if path is None else figures.writable(path)
    except PastmasterError as error:
        raise click.BadParameter(str(error), param=option) from None


picture_option = click.option(
    "--picture",
    type=click.Path(path_type=Path),
    callback=_drawable,
    help="Draw it into this file (.png, .svg or .pdf).",
)
episodes_option = click.option(
    "--episodes", type=click.IntRange(min=1), default=1000, show_default=True, help="Episodes of each task."
)
bounds_option = click.option(
    "--bounds", type=float, nargs=2, help="Least and greatest return.  [default: those of the stored tasks]"
)


def _selectors() -> Sequence[str]:
    from pastmaster.reuse import SELECTORS

    return ["recommended", *SELECTORS]


selector_option = click.option(
    "--selector", type=LazyChoice(_selectors), default="recommended", show_default=True, help="How arms are chosen."
)


def selector_settings(name: str) -> dict[str, Any]:
    """The options of ``transfer`` that a selector's name stands for."""
    from pastmaster.reuse import RECOMMENDED

    return dict(RECOMMENDED) if name == "recommended" else {"selector": name}
