"""``pastmaster demo``: the whole story in one picture."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import click

from pastmaster.cli import options, printing


@click.command()
@options.out_option("pastmaster-demo.png", "The picture (.png, .svg or .pdf); its folder is made if there is none.")
@options.seed_option("Another family of tasks.")
@options.quiet_option("Print only where the picture is.")
def demo(out: Path, seed: int, quiet: bool) -> None:
    """The whole story: solved tasks, the policies worth keeping, and the first hundred episodes of new tasks."""
    from pastmaster.cli.story import TOLD, run

    try:
        story = run(out, nullcontext if quiet else _timed, seed)
    except OSError as error:
        raise click.ClickException(f"cannot write {out}: {error.strerror or error}") from None
    if not quiet:
        printing.say("", *story.heading.splitlines(), "")
        printing.say(f"{'score, %, in the first ... episodes':<55}" + "".join(f"{told:8}" for told in TOLD))
        for name, scores in story.table:
            printing.say(f"{name:<55}" + "".join(f"{score:8.1f}" for score in scores))
        printing.say("score: 100 (mean return - worst) / (optimal - worst)", "")
    printing.say(f"picture: {story.picture}")


@contextmanager
def _timed(label: str) -> Iterator[None]:
    """One line for a stage: what it did and how long it took."""
    begun = time.perf_counter()
    yield
    printing.say(f"{label:<62}{time.perf_counter() - begun:8.2f} s")
