"""``pastmaster continual``: the lifelong agent on a stream of tasks."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pastmaster.cli import options, printing
from pastmaster.cli.printing import Output
from pastmaster.cli.tasks import NamedTasks, task_options

if TYPE_CHECKING:
    from pastmaster.continual import ContinualRun


@click.command()
@task_options
@options.episodes_option
@click.option(
    "--sources", type=click.Choice(["clusters", "all", "none"]), default="clusters", show_default=True,
    help="Reuse the kept policies, all of them, or none.",
)  # fmt: skip
@options.whole_option("--recluster-every", 20, "Tasks between two clusterings.")
@options.arm_options
@options.bounds_option
@click.option("--no-model", is_flag=True, help="Use no model: keep what was learned (needs --bounds).")
@click.option("--evaluation-episodes", type=int, help="Episodes to value a policy where there is no model.")
@click.option("--restarts", type=int, help="Choose by the paper's cost, with so many walks of the search.")
@click.option("-k", "k", type=int, metavar="NUMBER", help="Keep exactly so many policies, whenever it chooses.")
@options.pin_options
@click.option("--name", default="continual", show_default=True, help="Tells the streams of a repository apart.")
@options.path_option("--log", "A line of JSON for each event, into this file.")
@options.path_option("--tensorboard", "Scalars for TensorBoard, into this folder.")
@options.seed_option("Random seed of the run.")
@options.jobs_option
@options.workers_option
@options.output_options("No bar.")
def continual(
    place: str,
    named: NamedTasks,
    selector: str | None,
    learner: str | None,
    no_model: bool,
    restarts: int | None,
    k: int | None,
    must_keep: tuple[str, ...],
    never_keep: tuple[str, ...],
    log: Path | None,
    tensorboard: Path | None,
    seed: int,
    jobs: int,
    workers: str | None,
    output: Output,
    **settings: Any,
) -> None:
    """Meet task after task, reusing what is kept and keeping what is learned.

    Killed at any moment and started again with the same words, it goes on where it was and ends with the same bits.
    The repository is made if there is none.

    \b
    pastmaster continual agent.db --domain surveillance --picture run.png
    pastmaster continual agent.db --domain surveillance -k 3 --must-keep ppo.zip
    """
    from pastmaster.continual import ContinualTransfer, Hook, JsonLines, Progress, TensorBoard

    tasks = named.read()
    told = {"k": k, "must_keep": list(must_keep), "never_keep": list(never_keep), "restarts": restarts}
    clustering = {name: value for name, value in told.items() if value not in (None, [])}
    if restarts is not None and len(clustering) > 1:
        raise click.UsageError("--restarts asks for the paper's cost, must not be given with -k or pins")
    with ExitStack() as stack:
        repository = stack.enter_context(options.opened(place, create=True))
        hooks: list[Hook] = []
        if log is not None:
            hooks.append(stack.enter_context(JsonLines(log)))
        if tensorboard is not None:
            hooks.append(stack.enter_context(TensorBoard(tensorboard)))
        if output.bars:
            hooks.append(stack.enter_context(Progress(len(tasks))))
        agent = ContinualTransfer(
            repository,
            rng=seed,
            model=not no_model,
            hooks=hooks,
            clustering=clustering or None,
            **stack.enter_context(options.workers(jobs, workers)),
            **settings,
            **options.arm_settings(selector, learner, tasks[0]),
        )
        try:
            run = agent.run(tasks)
        except KeyboardInterrupt:
            raise options.Interrupted(f"{len(repository)} tasks are kept, the same command goes on") from None
    output.give(_as_json(run), lambda: printing.say(f"{run}, seed {seed}"), run.plot)


def _as_json(run: ContinualRun) -> dict[str, Any]:
    return {
        "seed": run.seed,
        "total": run.total,
        "tasks": run.names,
        "mean_returns": run.mean_returns.tolist(),
        "values": run.values.tolist(),
        "n_sources": run.n_sources.tolist(),
        "evaluation_episodes": run.evaluation_episodes.tolist(),
    }
