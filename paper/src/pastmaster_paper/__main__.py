"""``python -m pastmaster_paper``: the paper's experiments, sentence by sentence, and a page of them."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pastmaster.cli import Commands, print_table, say, workers as connected, workers_option

if TYPE_CHECKING:
    from pastmaster_paper.experiments import Reproduction
    from pastmaster_paper.experiments.folder import Told
    from pastmaster_paper.experiments.sentences import Case, Judged

WIDTH, SHOWN = 96, 4
FIRST_SEED = 5000  # as in experiments.readings, which is not imported for --help


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pastmaster-paper")
def main() -> None:
    """What the paper behind pastmaster measured, and whether it holds."""


@main.command()
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
    "--out",
    type=click.Path(path_type=Path),
    help="The folder for tables, figures and sentences.json; what an earlier reproduction left there is removed.  "
    "[default: reproduction, or quick-reproduction]",
)
@click.option("--jobs", type=int, default=-1, show_default=True, help="Workers; -1: one for each core.")
@workers_option
@click.option("--seed", type=click.IntRange(0), default=FIRST_SEED, show_default=True, help="The first seed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for scripts.")
@click.option("--quiet", is_flag=True, help="No bar.")
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

    If it is interrupted, the same command continues from the settings that are done. `report OUT` makes a page of it.

    \b
    python -m pastmaster_paper reproduce --quick
    python -m pastmaster_paper reproduce windy-clusters windy-incremental
    python -m pastmaster_paper reproduce --seeds 20 --out twenty
    python -m pastmaster_paper reproduce --reading mine.toml
    """
    from pastmaster_paper import experiments

    if listed:
        lines = [
            [one.name, one.title, "if named" if one.wants_name else ""] for one in experiments.EXPERIMENTS.values()
        ]
        print_table(["experiment", "what", "run"], lines)
        return
    out = out or Path("quick-reproduction" if quick else "reproduction")
    bars = not quiet and sys.stderr.isatty()
    try:
        with connected(jobs, workers) as where:
            found = experiments.reproduce(
                names,
                out=out,
                seeds=range(seed, seed + seeds),
                readings=readings or tuple(experiments.READINGS),
                quick=quick,
                progress=bars,
                **where,
            )
    except KeyboardInterrupt:
        done = len(list((out / "units").glob("*.npz")))
        kept = f"{done} settings are done and kept in {out / 'units'}"
        say(f"interrupted: {kept}; the same command continues", err=True)
        raise SystemExit(130) from None
    except OSError as error:
        raise click.ClickException(f"cannot write {out}: {error.strerror or error}") from None
    if found.replaced:
        kept = f"what it had run is kept in {out / 'units'}"
        say(f"the tables and figures of an earlier reproduction in {out} were removed; {kept}", err=True)
    if as_json:
        _print_json(found)
    else:
        _print_sentences(found)


@main.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="FOLDER")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("pastmaster-report.html"),
    show_default=True,
    help="Where the page goes.",
)
@click.option("--quiet", is_flag=True, help="Print nothing.")
def report(folder: Path, out: Path, quiet: bool) -> None:
    """Write one HTML page that needs nothing but a browser, and no network.

    FOLDER is what `reproduce` wrote.
    """
    from pastmaster_paper.report import write_report

    written = write_report(folder, out)
    if not quiet:
        say(f"report: {written} ({written.stat().st_size / 1e3:,.0f} kB)")


def _print_json(found: Reproduction) -> None:
    """All verdicts and figures, and where the files are."""
    content = {"out": str(found.out), "mode": found.mode, "seeds": list(found.seeds), "readings": list(found.readings)}
    told, judged = [vars(one) for one in found.sentences], [one.table() for one in found.judged]
    click.echo(json.dumps(content | {"sentences": told, "judged": judged}, indent=1))


def _print_sentences(found: Reproduction) -> None:
    """Each sentence under each reading, then how many hold and where the files are."""
    for told in found.sentences:
        _print_sentence(told, [one for one in found.judged if one.id == told.id])
    say(f"quick: {found.verdict}" if found.mode == "quick" else found.verdict)
    if found.caveat:
        say(f"{found.caveat} (--seeds 20)")
    say(f"tables and figures: {found.out}; a page of them: python -m pastmaster_paper report {found.out}")


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
    say(*textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent + "    "))


def _figure(value: float) -> str:
    return f"{value:.3g}"


if __name__ == "__main__":
    main(prog_name="python -m pastmaster_paper")
