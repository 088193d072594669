"""``pastmaster reproduce``: the paper's experiments, claim by claim."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pastmaster.cli import options, printing

if TYPE_CHECKING:
    from pastmaster.experiments import Reproduction
    from pastmaster.experiments.claims import Claim

WIDTH, SHOWN = 96, 3


@click.command()
@click.argument("names", nargs=-1, metavar="[EXPERIMENT]...")
@click.option("--list", "listed", is_flag=True, help="Only name the experiments.")
@click.option("--quick", is_flag=True, help="A look at every experiment in about a minute: few runs, no verdicts.")
@click.option("--seeds", type=click.IntRange(1, 1000), default=1, show_default=True, help="Repeat on so many seeds.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="The folder for tables, figures and claims.json; what an earlier "
    "reproduction left there is removed.  [default: reproduction, or quick-reproduction]",
)  # fmt: skip
@click.option("--jobs", type=int, default=-1, show_default=True, help="Workers; -1: one for each core.")
@options.backend_option
@options.seed_option("The first seed.")
@options.json_option
@options.quiet_option("No bar.")
def reproduce(
    names: tuple[str, ...],
    listed: bool,
    quick: bool,
    seeds: int,
    out: Path | None,
    jobs: int,
    backend: str | None,
    seed: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run the paper's experiments, all or those named, and say which of its claims held.

    If it is interrupted, the same command continues from the settings that are done. `pastmaster report OUT` makes a
    page of it.

    \b
    pastmaster reproduce --quick
    pastmaster reproduce windy-clusters windy-incremental
    pastmaster reproduce --seeds 10 --out ten-seeds
    """
    from pastmaster import experiments

    if listed:
        printing.print_table(
            ["experiment", "what"], [[one.name, one.title] for one in experiments.EXPERIMENTS.values()]
        )
        return
    out = out or Path("quick-reproduction" if quick else "reproduction")
    bars = printing.bars_wanted(quiet)
    try:
        found = experiments.reproduce(
            names, out=out, seeds=range(seed, seed + seeds), quick=quick, n_jobs=jobs, backend=backend, progress=bars
        )
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
        printing.print_json(
            {
                "out": str(found.out),
                "mode": found.mode,
                "seeds": list(found.seeds),
                "claims": [asdict(claim) for claim in found.claims],
            }
        )
        return
    _print_claims(found)


def _print_claims(found: Reproduction) -> None:
    """Each claim, then how many held and where the files are."""
    from pastmaster.experiments import ENOUGH_SEEDS

    quick = found.mode == "quick"
    for claim in found.claims:
        _print_claim(claim, found.seeds[0], quick)
    if quick:
        printing.say(f"quick: {found.verdict}")
    elif len(found.seeds) < ENOUGH_SEEDS:
        printing.say(f"{found.verdict} (a claim counts as reproduced if it holds on 9 of 10 seeds: --seeds 10)")
    else:
        printing.say(f"{found.verdict} on {len(found.seeds)} seeds")
    printing.say(f"tables and figures: {found.out}; a page of them: pastmaster report {found.out}")


def _print_claim(claim: Claim, first_seed: int, quick: bool) -> None:
    """Verdict and sentence, then the checks that failed, or a few of those that held."""
    held, n = sum(claim.held), len(claim.held)
    verdict = "quick, not judged" if quick else "held" if claim.reproduced else "FAILED"
    count = f", held on {held} of {n} seeds; seed {first_seed}:" if n > 1 and not quick else ""
    printing.say(f"{claim.id}: {verdict}{count}")
    _print_paragraph(claim.sentence)
    failed = [check for check in claim.checks if check.held is False and not quick]
    shown = failed or claim.checks[:SHOWN]
    for check in shown:
        mark = "" if quick else {True: "yes", False: "NO", None: ""}[check.held]
        wanted = f", wanted {check.wanted}" if check.wanted else ""
        interval = "" if check.low is None else f" ({_figure(check.low)} .. {_figure(check.high)})"
        _print_paragraph(f"{mark:<4}{check.name}: {_figure(check.value)}{interval} {check.unit}{wanted}")
    if len(claim.checks) > len(shown):
        _print_paragraph(f"    and {len(claim.checks) - len(shown)} more in claims.json")
    if claim.reason:
        _print_paragraph(f"why, we think: {claim.reason}")
    printing.say("")


def _print_paragraph(text: str) -> None:
    """A paragraph below a claim."""
    printing.say(*textwrap.wrap(text, WIDTH, initial_indent="    ", subsequent_indent="        "))


def _figure(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.3g}"
