"""``pastmaster transfer``: meet a new task with the policies a repository keeps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pastmaster.cli import options, printing
from pastmaster.cli.tasks import NamedTasks, task_options
from pastmaster.errors import InvalidInputError, RepositoryError

if TYPE_CHECKING:
    from pastmaster.reuse import TransferRun


@click.command()
@task_options
@options.episodes_option
@options.whole_option("--trials", 1, "How often to run it all.")
@options.selector_option
@options.bounds_option
@options.seed_option("Random seed of the run.")
@options.jobs_option
@options.json_option
@options.picture_option
@click.option("--add", is_flag=True, help="Add the task to the repository, with its policy and this run.")
@options.quiet_option("No bars.")
def transfer(
    place: str, named: NamedTasks, selector: str, bounds: tuple[float, float] | None, seed: int, jobs: int,
    as_json: bool, picture: Path | None, add: bool, quiet: bool, **amounts: Any,
) -> None:  # fmt: skip
    """Run episodes on a new task: which kept policy fits it, or is learning better?

    \b
    pastmaster transfer tasks.db --domain surveillance --count 1
    pastmaster transfer db --gym FrozenLake-v1 --kwargs '{"map_name": "4x4"}'
    """
    import numpy as np

    from pastmaster.reuse import transfer as run_transfer
    from pastmaster.tasks import TabularMDP

    tasks = named.read()
    if len(tasks) > 1:
        raise InvalidInputError(f"transfer meets one task, got {len(tasks)} (with --domain, give --count 1)")
    task = tasks[0]
    with options.opened(place) as repository:
        repository.check_family(task)
        ids, sources = repository.source_ids(), repository.sources()
        if not sources:
            raise RepositoryError(f"{repository.place} keeps no policies yet: `pastmaster repo cluster` chooses them")
        declared = bounds or repository.return_bounds()
    run = run_transfer(
        task, sources, bounds=declared, rng=np.random.default_rng(seed), on_violation="widen", n_jobs=jobs,
        progress=printing.bars_wanted(quiet), **amounts, **options.selector_settings(selector),
    )  # fmt: skip
    added, modelled = None, isinstance(task, TabularMDP)
    if add:
        with options.opened(place) as repository:
            policy, provenance = (None, "solved") if modelled else (run.policy, "learned")
            added = repository.add(task, policy, provenance=provenance, run=run)
    optimum, best = _values(task, sources) if modelled else (None, None)
    if as_json:
        printing.print_json(_as_json(run, ids))
    else:
        click.echo(str(run))
        if optimum is not None:
            click.echo(f"an optimal policy earns {optimum:.4g}, the best source {best:.4g}")
        if (arm := int(run.recommended[run.best_trial])) < len(sources):
            click.echo(f"source {arm} is policy {ids[arm]} of the repository")
        if added is not None:
            click.echo(f"added as task {added}")
    if picture is not None:
        printing.save_picture(run.plot(optimum), picture)


def _values(task: Any, sources: list[Any]) -> tuple[float, float]:
    """What an optimal policy and the best source are worth."""
    from pastmaster.solving import solve
    from pastmaster.values import cross_values

    values = cross_values([task], [solve(task), *sources])[0]
    return float(values.max()), float(values[1:].max())


def _as_json(run: TransferRun, ids: list[int]) -> dict[str, Any]:
    arm = int(run.recommended[run.best_trial])
    return {
        "mean_return": float(run.returns.mean()),
        "totals": run.total.tolist(),
        "source_policies": ids,
        "shares": run.shares(run.returns.shape[1])[0].tolist(),
        "recommended": "learner" if arm == len(ids) else ids[arm],
    }
