"""``pastmaster report``: a repository as one HTML page."""

from __future__ import annotations

from pathlib import Path

import click

from pastmaster.cli import options, printing


@click.command()
@click.argument("place", metavar="PLACE")
@options.out_option("pastmaster-report.html", "Where the page goes.")
@options.quiet_option("Print nothing.")
def report(place: str, out: Path, quiet: bool) -> None:
    """Write one HTML page that needs nothing but a browser, and no network.

    PLACE is a repository: the path of a file, or a URL.

    \b
    pastmaster report tasks.db --out tasks.html
    """
    from pastmaster.report import write_report

    written = write_report(place, out)
    if not quiet:
        printing.say(f"report: {written} ({written.stat().st_size / 1e3:,.0f} kB)")
