"""``pastmaster continual``: the lifelong agent on a stream of tasks."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from pastmaster.cli import speech
from pastmaster.cli.offered import Offer, task_options
from pastmaster.cli.transfer import bounds_option, episodes_option, selection, selector_option


@click.command()
@speech.repository_argument
@task_options
@episodes_option
@click.option(
    "--recluster-every",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Tasks between two clusterings.",
)
@click.option(
    "--sources", type=click.Choice(["clusters", "all", "none"]), default="clusters", show_default=True,
    help="Reuse the kept policies, all of them, or none.",
)  # fmt: skip
@selector_option
@bounds_option
@click.option("--no-model", is_flag=True, help="Use no model: keep what was learned (needs --bounds).")
@click.option("--evaluation-episodes", type=int, help="Episodes to value a policy where there is no model.")
@click.option("--restarts", type=click.IntRange(min=1), default=20, show_default=True, help="Walks of a clustering.")
@click.option("--name", default="continual", show_default=True, help="Tells the streams of a repository apart.")
@click.option("--log", type=click.Path(path_type=Path), help="A line of JSON to each event, into this file.")
@click.option("--tensorboard", type=click.Path(path_type=Path), help="Scalars for TensorBoard, into this folder.")
@speech.seed_option("Another run.")
@speech.jobs_option
@speech.json_option
@speech.picture_option
@speech.quiet_option("No bar.")
@speech.in_one_sentence
def continual(
    place: str,
    offer: Offer,
    selector: str,
    bounds: tuple[float, float] | None,
    no_model: bool,
    restarts: int,
    log: Path | None,
    tensorboard: Path | None,
    seed: int,
    jobs: int,
    as_json: bool,
    picture: Path | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Meet task after task, reusing what is kept and keeping what is learned.

    Killed at any moment and started again with the same words, it goes on where it was and ends with the same bits.
    The repository is made if need be.

    \b
    pastmaster continual agent.db --domain surveillance --count 40 --picture run.png
    """
    import numpy as np

    from pastmaster.continual import ContinualTransfer, Hook, JsonLines, Progress, TensorBoard
    from pastmaster.repository import Repository

    tasks = offer.tasks()
    with ExitStack() as stack:
        repository = stack.enter_context(Repository(place))
        hooks: list[Hook] = []
        if log is not None:
            hooks.append(stack.enter_context(JsonLines(log)))
        if tensorboard is not None:
            hooks.append(stack.enter_context(TensorBoard(tensorboard)))
        if speech.watched(quiet):
            hooks.append(stack.enter_context(Progress(len(tasks))))
        agent = ContinualTransfer(
            repository, rng=np.random.default_rng(seed), bounds=bounds, model=not no_model, hooks=hooks, n_jobs=jobs,
            clustering={"restarts": restarts}, **options, **selection(selector),
        )  # fmt: skip
        try:
            run = agent.run(tasks)
        except KeyboardInterrupt:
            click.echo(f"interrupted: {len(repository)} tasks are kept, the same command goes on", err=True)
            raise SystemExit(130) from None
    if as_json:
        speech.say_json(
            {
                "total": run.total,
                "mean_returns": run.mean_returns.tolist(),
                "values": [None if np.isnan(value) else value for value in run.values.tolist()],
                "n_sources": run.n_sources.tolist(),
                "evaluation_episodes": run.evaluation_episodes.tolist(),
            }
        )
    else:
        click.echo(str(run))
    if picture is not None:
        speech.save_picture(run.plot(), picture)
