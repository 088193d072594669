"""The command ``oldhand``. Heavy modules are imported by the command that needs them."""

from __future__ import annotations

import click

from oldhand.cli.continual import continual
from oldhand.cli.demo import demo
from oldhand.cli.repo import repo
from oldhand.cli.report import report
from oldhand.cli.reproduce import reproduce
from oldhand.cli.transfer import transfer


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="oldhand")
def main() -> None:
    """Lifelong policy reuse: which policies are worth keeping, and which one fits a new task."""


for command in (demo, repo, transfer, continual, report, reproduce):
    main.add_command(command)
