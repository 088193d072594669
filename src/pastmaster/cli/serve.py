"""``pastmaster serve``: decide over HTTP; ``pastmaster token``: who may ask."""

from __future__ import annotations

import click

from pastmaster.cli import options, printing
from pastmaster.cli.printing import Output


@click.command()
@options.repository_argument
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Where to listen; others than this computer need tokens."
)
@options.whole_option("--port", 8000, "The port to listen on; 0: any that is free.", at_least=0, at_most=65535)
@click.option(
    "--rate", type=click.FloatRange(1.0), default=10_000.0, show_default=True, help="Most requests a second of a token."
)
@click.option("--task", metavar="NAME", help="Make this task of the kept policies, unless it is there.")
@click.option(
    "--lease",
    type=click.FloatRange(0.001),
    default=3600.0,
    show_default=True,
    help="Seconds of an episode of that task.",
)
@options.bounds_option
@click.option("--log-requests", is_flag=True, help="A line of the log for each request.")
def serve(
    place: str, host: str, port: int, rate: float, task: str | None, lease: float, bounds: tuple[float, float] | None,
    log_requests: bool,
) -> None:  # fmt: skip
    """Decide over HTTP which policy runs each episode.

    An answer is on the disk before it is sent: killed at any moment and started again, it goes on where it was.
    Several processes may serve one PostgreSQL database. The log is JSON, on standard error.

    \b
    pastmaster serve tasks.db --task site
    curl -X POST localhost:8000/v1/tasks/site/episodes
    """
    from pastmaster import service
    from pastmaster.service.schema import opened as tables
    from pastmaster.service.store import task_names

    with options.opened(place) as repository:
        if task is not None:
            with tables(repository) as database:
                there = database.read(task_names)
            if task not in there:
                service.make_task(repository, task, lease=lease, bounds=bounds)
        service.serve(repository, host=host, port=port, rate=rate, log_requests=log_requests)


@click.group()
def token() -> None:
    """Tokens for `pastmaster serve`: who may read, decide or administer."""


@token.command("add")
@options.repository_argument
@click.argument("name", metavar="NAME")
@click.option(
    "--role",
    type=click.Choice(["read", "decide", "admin"]),
    required=True,
    help="Each may do what those before it may.",
)
def add(place: str, name: str, role: str) -> None:
    """Make a token and print it: this once, it is stored nowhere."""
    from pastmaster import service

    with options.opened(place) as repository:
        printing.say(service.add_token(repository, name, role))


@token.command("list")
@options.repository_argument
@options.grouped(Output, "output", [options.json_option])
def list_(place: str, output: Output) -> None:
    """Which tokens there are."""
    from pastmaster import service

    with options.opened(place) as repository:
        found = service.list_tokens(repository)

    def words() -> None:
        for one in found:
            printing.say(f"{one.name}: {one.role}{', revoked' if one.revoked else ''}")

    output.give([{"name": one.name, "role": one.role, "revoked": one.revoked} for one in found], words)


@token.command("revoke")
@options.repository_argument
@click.argument("name", metavar="NAME")
def revoke(place: str, name: str) -> None:
    """Refuse a token from now on."""
    from pastmaster import service

    with options.opened(place) as repository:
        service.revoke_token(repository, name)
    printing.say(f"revoked: {name}")
