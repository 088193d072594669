"""The command ``oldhand``. Heavy modules are imported by the command that needs them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="oldhand")
def main() -> None:
    """Lifelong policy reuse: which policies are worth keeping, and which one fits a new task."""


@main.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("oldhand-demo.png"),
    show_default=True,
    help="The picture (.png, .svg or .pdf); its folder is made if need be.",
)
@click.option("--quiet", is_flag=True, help="Print only where the picture is.")
def demo(out: Path, quiet: bool) -> None:
    """Solve and compare 100 windy corridors; draw how they differ."""
    from oldhand import demo as story
    from oldhand.errors import OldhandError

    stage = _silent if quiet else _timed
    try:
        written = story.run(out, stage)
    except OSError as error:
        raise click.ClickException(f"cannot write {out}: {error.strerror or error}") from None
    except OldhandError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"picture: {written}")


@contextmanager
def _timed(label: str) -> Iterator[None]:
    """One line for a stage: what it did and how long it took."""
    begun = time.perf_counter()
    yield
    click.echo(f"{label:<62}{time.perf_counter() - begun:8.2f} s")


@contextmanager
def _silent(label: str) -> Iterator[None]:
    yield


if __name__ == "__main__":
    main()
