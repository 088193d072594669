"""``pastmaster transfer``: meet a new task with the policies a repository keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pastmaster.cli import speech
from pastmaster.cli.offered import Offer, task_options
from pastmaster.reuse import SELECTORS

selector_option = click.option(
    "--selector",
    type=click.Choice(["recommended", *SELECTORS]),
    default="recommended",
    show_default=True,
    help="Who chooses.",
)
episodes_option = click.option(
    "--episodes", type=click.IntRange(min=1), default=1000, show_default=True, help="Episodes to a task."
)
bounds_option = click.option(
    "--bounds", type=float, nargs=2, help="Least and greatest return.  [default: those of the stored tasks]"
)


@click.command()
@speech.repository_argument
@task_options
@episodes_option
@click.option("--trials", type=click.IntRange(min=1), default=1, show_default=True, help="How often to run it all.")
@selector_option
@bounds_option
@speech.seed_option("Another run.")
@speech.jobs_option
@speech.json_option
@speech.picture_option
@click.option("--add", is_flag=True, help="Add the task to the repository, with its policy and this run.")
@speech.quiet_option("No bars.")
@speech.in_one_sentence
def transfer(
    place: str,
    offer: Offer,
    episodes: int,
    trials: int,
    selector: str,
    bounds: tuple[float, float] | None,
    seed: int,
    jobs: int,
    as_json: bool,
    picture: Path | None,
    add: bool,
    quiet: bool,
) -> None:
    """Run episodes on a new task: which kept policy fits it, or is learning better?

    \b
    pastmaster transfer tasks.db --domain surveillance --count 1
    pastmaster transfer lakes.db --gym FrozenLake-v1 --kwargs '{"map_name": "4x4"}'
    """
    import numpy as np

    from pastmaster.errors import InvalidInputError, RepositoryError
    from pastmaster.repository import Repository
    from pastmaster.reuse import transfer as run_transfer
    from pastmaster.solving import solve
    from pastmaster.tasks.tabular import TabularMDP
    from pastmaster.values import cross_values

    tasks = offer.tasks()
    if len(tasks) > 1:
        raise InvalidInputError(f"transfer meets one task, got {len(tasks)} (with --domain, give --count 1)")
    task = tasks[0]
    with Repository(place, create=False) as repository:
        repository.check_family(task)
        ids, sources = repository.numbered_sources()
        if not sources:
            raise RepositoryError(f"{repository.place} keeps no policies yet: `pastmaster repo cluster` chooses them")
        declared = bounds or repository.return_bounds()
    run = run_transfer(
        task, sources, episodes=episodes, trials=trials, bounds=declared, rng=np.random.default_rng(seed),
        on_violation="widen", n_jobs=jobs, progress=speech.watched(quiet),
        **selection(selector),
    )  # fmt: skip
    if add:
        with Repository(place, create=False) as repository:
            learned = None if isinstance(task, TabularMDP) else run.policy
            number = repository.add(task, learned, provenance="solved" if learned is None else "learned", run=run)
    optimum, best = (None, None)
    if isinstance(task, TabularMDP):
        values = cross_values([task], [solve(task).policy, *sources])[0]
        optimum, best = float(values.max()), float(values[1:].max())
    arm = int(run.recommended[run.best_trial])
    if as_json:
        speech.say_json(
            {
                "mean_return": float(run.returns.mean()),
                "totals": run.total.tolist(),
                "source_policies": ids,
                "shares": run.shares(episodes)[0].tolist(),
                "recommended": "learner" if arm == len(sources) else ids[arm],
            }
        )
    else:
        click.echo(str(run))
        if optimum is not None:
            click.echo(f"an optimal policy earns {optimum:.4g}, the best source {best:.4g}")
        if arm < len(sources):
            click.echo(f"source {arm} is policy {ids[arm]} of the repository")
        if add:
            click.echo(f"added as task {number}")
    if picture is not None:
        speech.save_picture(run.plot(optimum), picture)


def selection(name: str) -> dict[str, Any]:
    """The options of ``transfer`` that a selector's name stands for."""
    from pastmaster.reuse import RECOMMENDED

    return dict(RECOMMENDED) if name == "recommended" else {"selector": name}
