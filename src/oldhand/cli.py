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
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Another family of tasks.")
@click.option("--quiet", is_flag=True, help="Print only where the picture is.")
def demo(out: Path, seed: int, quiet: bool) -> None:
    """The whole story: solved tasks, the policies worth keeping, a new task met with and without them."""
    from oldhand import demo as story
    from oldhand.errors import OldhandError

    stage = _silent if quiet else _timed
    try:
        told = story.run(out, stage, seed)
    except OSError as error:
        raise click.ClickException(f"cannot write {out}: {error.strerror or error}") from None
    except OldhandError as error:
        raise click.ClickException(str(error)) from None
    if not quiet:
        click.echo(f"\n{told.heading}\n\n{'':<55}{'mean return':>12}{'score, %':>10}")
        for name, mean, percent in told.table:
            click.echo(f"{name:<55}{mean:12.2f}{percent:10.1f}")
        click.echo("score: 100 (mean return - worst) / (optimal - worst)")
        click.echo("")
    click.echo(f"picture: {told.picture}")


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
