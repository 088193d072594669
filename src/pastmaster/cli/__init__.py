"""The command ``pastmaster``. Heavy modules are imported by the command that needs them.

Commands of others can have our errors in one sentence, our ``--workers`` and our tables.
"""

from __future__ import annotations

import click

from pastmaster.cli.continual import continual
from pastmaster.cli.demo import demo
from pastmaster.cli.keep import keep
from pastmaster.cli.options import Commands, workers, workers_option
from pastmaster.cli.printing import print_table, say
from pastmaster.cli.repo import repo
from pastmaster.cli.report import report
from pastmaster.cli.serve import serve, token
from pastmaster.cli.transfer import transfer

__all__ = ["Commands", "main", "print_table", "say", "workers", "workers_option"]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pastmaster")
def main() -> None:
    """Lifelong policy reuse: which policies are worth keeping, and which one fits a new task."""


for command in (demo, keep, repo, transfer, continual, serve, token, report):
    main.add_command(command)
