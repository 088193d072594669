"""``pastmaster transfer``: meet a new task with the policies a repository keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from pastmaster.cli import options, printing
from pastmaster.cli.printing import Output
from pastmaster.cli.tasks import NamedTasks, task_options
from pastmaster.errors import InvalidInputError, RepositoryError

if TYPE_CHECKING:
    from pastmaster.repository import Repository
    from pastmaster.repository.records import PolicyRecord
    from pastmaster.reuse import TransferRun
    from pastmaster.values import Bounds


@click.command()
@task_options
@options.episodes_option
@options.whole_option("--trials", 1, "How often to run it all.")
@options.arm_options
@options.bounds_option
@options.seed_option("Random seed of the run.")
@options.jobs_option
@options.workers_option
@options.output_options("No bars.")
@click.option(
    "--add",
    is_flag=True,
    help="Add the task and this run to the repository, with the learner's policy (with a model: the solution).",
)
def transfer(
    place: str,
    named: NamedTasks,
    selector: str | None,
    learner: str | None,
    bounds: tuple[float, float] | None,
    seed: int,
    jobs: int,
    workers: str | None,
    add: bool,
    output: Output,
    **amounts: Any,
) -> None:
    """Run episodes on a new task: which kept policy fits it, or is learning better?

    What the kept policies were worth in every stored task tells, after a few episodes, which of them fits. Without
    --horizon, an environment gets the step limit that all stored tasks have, or its own where they differ.

    \b
    pastmaster transfer tasks.db --domain surveillance --count 1
    pastmaster transfer db --gym FrozenLake-v1 --kwargs '{"map_name": "4x4"}'
    pastmaster transfer arms.db --gym Arm-v0 --import arms --learner td3
    """
    from pastmaster.reuse import SELECTORS, transfer as run_transfer
    from pastmaster.tasks import TabularMDP

    with options.opened(place) as repository:
        tasks = named.read(_horizon(repository))
        if len(tasks) > 1:
            raise InvalidInputError(f"transfer meets one task, got {len(tasks)} (with --domain, give --count 1)")
        task = tasks[0]
        repository.check_family(task)
        sources, kept = repository.named_sources(), repository.policy_records(repository.source_ids())
        if not sources:
            raise RepositoryError(f"{repository.place} keeps no policies yet: `pastmaster repo keep` chooses them")
        declared = bounds or _bounds(repository)
        informed = selector is None or SELECTORS[selector].informed
        experience = repository.experience([policy.id for policy in kept]) if informed else None
    with options.workers(jobs, workers) as where:
        run = run_transfer(
            task,
            sources,
            bounds=declared,
            experience=experience,
            rng=seed,
            on_violation="widen",
            progress=output.bars,
            **where,
            **amounts,
            **options.arm_settings(selector, learner, task),
        )
    added, modelled = None, isinstance(task, TabularMDP)
    if add:
        with options.opened(place) as repository:
            policy, provenance = (None, "solved") if modelled else (run.policy, "learned")
            added = repository.add(task, policy, provenance=provenance, run=run)
    optimum, best = _values(task, list(sources.values())) if modelled else (None, None)
    arms = _arms(run, kept)

    def words() -> None:
        printing.say(f"{run}, seed {seed}")
        if optimum is not None:
            printing.say(f"an optimal policy earns {optimum:.4g}, the best source {best:.4g}")
        lines = [(arm["name"], arm["source"] or "-", f"{100 * arm['share']:.0f}") for arm in arms]
        printing.print_table(("who ran the episodes", "file", "% of them"), lines)
        if added is not None:
            printing.say(f"added as task {added}")

    output.give(_as_json(run, arms) | {"seed": seed, "added": added}, words, lambda: run.plot(optimum))


def _values(task: Any, sources: list[Any]) -> tuple[float, float]:
    """What an optimal policy and the best source are worth."""
    from pastmaster.solving import solve
    from pastmaster.values import cross_values

    values = cross_values([task], [solve(task), *sources])[0]
    return float(values.max()), float(values[1:].max())


def _horizon(repository: Repository) -> int | None:
    """The step limit that all stored tasks have; None where they differ."""
    found = {record.horizon for record in repository.records()}
    return found.pop() if len(found) == 1 else None


def _bounds(repository: Repository) -> Bounds | None:
    """The bounds of the stored tasks; None, where they are not known, leaves them to the new task."""
    return repository.return_bounds() if all(record.bounds for record in repository.records()) else None


def _arms(run: TransferRun, kept: Sequence[PolicyRecord]) -> list[dict[str, Any]]:
    """The kept policies and the learner, by name: policy id, file, and the share of the episodes that each ran."""
    shares = run.shares(run.returns.shape[1])[0].tolist()
    known = [(policy.id, policy.source) for policy in kept] + [(None, None)]
    return [
        {"name": name, "policy": number, "source": source, "share": share}
        for name, (number, source), share in zip(run.arm_names, known, shares, strict=True)
    ]


def _as_json(run: TransferRun, arms: list[dict[str, Any]]) -> dict[str, Any]:
    best = arms[int(run.recommended[run.best_trial])]
    return {
        "mean_return": float(run.returns.mean()),
        "totals": run.total.tolist(),
        "arms": arms,
        "recommended": {key: best[key] for key in ("name", "policy", "source")},
        "why": run.why,
    }
