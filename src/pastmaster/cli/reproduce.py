"""``pastmaster reproduce``: the paper's experiments, sentence by sentence."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pastmaster.cli import options, printing

if TYPE_CHECKING:
    from pastmaster.experiments import Reproduction
    from pastmaster.experiments.folder import Told
    from pastmaster.experiments.sentences import Case, Judged

WIDTH, SHOWN = 96, 4
FIRST_SEED = 5000  # as in experiments.readings, which is not imported for --help


@click.command()
@click.argument("names", nargs=-1, metavar="[EXPERIMENT]...")
@click.option("--list", "listed", is_flag=True, help="Only name the experiments.")
@click.option("--quick", is_flag=True, help="A look at every experiment in about a minute: few runs, no verdicts.")
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="So many draws of tasks; sentences are judged on 20.",
)
@click.option(
    "--reading",
    "readings",
    multiple=True,
    metavar="NAME|FILE",
    help="How the paper is read: printed, undiscounted, or a TOML file with a reading of yours; may be given "
    "several times.  [default: printed and undiscounted]",
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="The folder for tables, figures and sentences.json; what an "
    "earlier reproduction left there is removed.  [default: reproduction, or quick-reproduction]",
)  # fmt: skip
@click.option("--jobs", type=int, default=-1, show_default=True, help="Workers; -1: one for each core.")
@options.workers_option
@options.whole_option("--seed", FIRST_SEED, "The first seed.", at_least=0)
@options.json_option
@options.quiet_option("No bar.")
def reproduce(
    names: tuple[str, ...],
    listed: bool,
    quick: bool,
    seeds: int,
    readings: tuple[str, ...],
    out: Path | None,
    jobs: int,
    workers: str | None,
    seed: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run the paper's experiments, all or those named, and say which of its sentences hold.

    If it is interrupted, the same command continues from the settings that are done. `pastmaster report OUT` makes a
    page of it.

    \b
    pastmaster reproduce --quick
    pastmaster reproduce windy-clusters windy-incremental
    pastmaster reproduce --seeds 20 --out twenty
    pastmaster reproduce --reading mine.toml
    """
    from pastmaster import experiments

    if listed:
        lines = [
            [one.name, one.title, "if named" if one.wants_name else ""] for one in experiments.EXPERIMENTS.values()
        ]
        printing.print_table(["experiment", "what", "run"], lines)
        return
    out = out or Path("quick-reproduction" if quick else "reproduction")
    bars = printing.bars_wanted(quiet)
    try:
        with options.workers(jobs, workers) as where:
            found = experiments.reproduce(
                names, out=out, seeds=range(seed, seed + seeds), readings=readings or tuple(experiments.READINGS),
                quick=quick, progress=bars, **where,
            )  # fmt: skip
    except KeyboardInterrupt:
        done = len(list((out / "units").glob("*.npz")))
        kept = f"{done} settings are done and kept in {out / 'units'}"
        printing.say(f"interrupted: {kept}; the same command continues", err=True)
        raise SystemExit(130) from None
    except OSError as error:
        raise click.ClickException(f"cannot write {out}: {error.strerror or error}") from None
    if found.replaced:
        kept = f"what it had run is kept in {out / 'units'}"
        printing.say(f"the tables and figures of an earlier reproduction in {out} were removed; {kept}", err=True)
    if as_json:
        _print_json(found)
    else:
        _print_sentences(found)


def _print_json(found: Reproduction) -> None:
    """All verdicts and figures, and where the files are."""
    content = {"out": str(found.out), "mode": found.mode, "seeds": list(found.seeds), "readings": list(found.readings)}
    told, judged = [vars(one) for one in found.sentences], [one.table() for one in found.judged]
    printing.print_json(content | {"sentences": told, "judged": judged})


def _print_sentences(found: Reproduction) -> None:
    """Each sentence under each reading, then how many hold and where the files are."""
    for told in found.sentences:
        _print_sentence(told, [one for one in found.judged if one.id == told.id])
    printing.say(f"quick: {found.verdict}" if found.mode == "quick" else found.verdict)
    if found.caveat:
        printing.say(f"{found.caveat} (--seeds 20)")
    printing.say(f"tables and figures: {found.out}; a page of them: pastmaster report {found.out}")


def _print_sentence(told: Told, judged: list[Judged]) -> None:
    """What it says, and the verdict and figures under each reading."""
    _print_paragraph(f"{told.id}. {told.words} (line {told.lines})", "")
    for one in judged:
        cases = one.judged()
        figures = [f"{case.name} {_figure(case.figure.mean)}" + _interval(case) for case in cases[:SHOWN]]
        more = [f"and {len(cases) - SHOWN} more"] if len(cases) > SHOWN else []
        held = one.held()
        which = f" ({len(held)} of {len(cases)} cases)" if one.verdict == "in part" else ""
        reading = f"{one.reading}: " if one.reading else ""
        wanted = f"; wanted {cases[0].wanted}" if cases else ""
        _print_paragraph(f"{reading}{one.verdict}{which}; {', '.join([*figures, *more])}{wanted}", "    ")


def _interval(case: Case) -> str:
    low, high = case.figure.low, case.figure.high
    return "" if low is None or high is None else f" ({_figure(low)} .. {_figure(high)})"


def _print_paragraph(text: str, indent: str) -> None:
    printing.say(*textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent + "    "))


def _figure(value: float) -> str:
    return f"{value:.3g}"
