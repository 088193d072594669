"""``pastmaster repo``: a repository of tasks and policies, from the command line."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pastmaster.cli import options, printing
from pastmaster.cli.tasks import NamedTasks, read_policy, task_options
from pastmaster.errors import InvalidInputError

if TYPE_CHECKING:
    from pastmaster.repository import Repository
    from pastmaster.repository.records import TaskRecord


@click.group()
def repo() -> None:
    """A repository: the tasks solved so far, their policies, and what each is worth to the others.

    REPOSITORY is the path of a file, or a URL like postgresql://user@host/name.
    """


@repo.command()
@options.repository_argument
def init(place: str) -> None:
    """Make an empty repository (one that is there already is left as it is)."""
    with options.opened(place, create=True) as repository:
        click.echo(f"{repository.place}: {len(repository)} tasks")


@repo.command()
@task_options
@options.path_option("--policy", "Its policy (.npy, or Stable-Baselines3's .zip); without it a task is solved.")
@click.option("--evaluation-episodes", type=int, help="Value policies by so many episodes, not by the model.")
@options.quiet_option("Print only the ids.")
def add(place: str, named: NamedTasks, policy: Path | None, evaluation_episodes: int | None, quiet: bool) -> None:
    """Add tasks with their policies: files of arrays, an environment, or a domain's family.

    \b
    pastmaster repo add tasks.db --domain surveillance --count 60
    pastmaster repo add lakes.db --gym FrozenLake-v1 --policy lake.npy
    """
    from pastmaster import parallel

    tasks = named.read()
    given = None if policy is None else read_policy(policy)
    if given is not None and len(tasks) > 1:
        raise InvalidInputError(f"--policy goes with one task, got {len(tasks)}")
    with options.opened(place) as repository:
        before = len(repository)
        for task in parallel.tracked(tasks, len(tasks), printing.bars_wanted(quiet), "adding"):
            number = repository.add(task, given, evaluation_episodes=evaluation_episodes)
            if quiet:
                click.echo(number)
            elif len(tasks) == 1:
                click.echo(_added_line(repository, number))
        if not quiet:
            now = len(repository)
            added = now - before
            click.echo(f"{repository.place}: {added} task{'' if added == 1 else 's'} added, {now} in all")


@repo.command()
@options.repository_argument
@click.argument("numbers", nargs=-1, type=int, required=True, metavar="ID...")
def remove(place: str, numbers: tuple[int, ...]) -> None:
    """Forget tasks, and their policies unless others go by them."""
    with options.opened(place) as repository:
        repository.remove(*numbers)
        click.echo(f"{repository.place}: {len(set(numbers))} tasks removed, {len(repository)} left")


@repo.command("list")
@options.repository_argument
@options.json_option
def list_(place: str, as_json: bool) -> None:
    """All tasks: what their policy of record is worth, and the cell they are in."""
    with options.opened(place) as repository:
        found, cells = repository.records(), repository.cells()
    if as_json:
        printing.print_json([_plain(record) | {"cell": cells.get(record.id)} for record in found])
        return
    if not found:
        click.echo("no tasks yet: pastmaster repo add --help")
        return
    lines = [
        (r.id, r.name or "unnamed", r.kind, r.policy_of_record, f"{r.value:.4g}", str(cells.get(r.id, "-")))
        for r in found
    ]
    printing.print_table(("id", "task", "kind", "policy", "value", "cell"), lines)


@repo.command()
@options.repository_argument
@click.argument("number", required=False, type=int, metavar="[ID]")
@options.json_option
@options.picture_option
def show(place: str, number: int | None, as_json: bool, picture: Path | None) -> None:
    """The repository in a few lines, or one task; --picture draws the latest clustering."""
    with options.opened(place) as repository:
        facts = _task_facts(repository, number) if number is not None else _facts(repository)
        clustering = repository.clustering() if picture is not None else None
    if picture is not None and clustering is None:
        raise click.ClickException("there is no clustering to draw yet: pastmaster repo cluster")
    if as_json:
        printing.print_json(facts)
    else:
        for name, value in facts.items():
            text = f"{value[0]:.6g} .. {value[1]:.6g}" if name == "return_bounds" else value
            if value is not None:
                click.echo(f"{name.replace('_', ' '):<20}{text}")
    if picture is not None and clustering is not None:
        printing.save_picture(clustering.plot(), picture)


@repo.command()
@options.repository_argument
@click.option("--episodes", type=int, help="Episodes that a new task will get.")
@options.bounds_option
@click.option("--n-clusters", type=int, help="Instead: exactly so many policies.")
@click.option("--max-radius", type=float, help="Instead: the fewest policies such that no task loses more.")
@click.option("--directed", is_flag=True, help="Count what the tasks lose, not what swapped policies would cost.")
@click.option("--certify", is_flag=True, help="Prove how close to the optimum it is.")
@click.option("--restarts", type=int, default=20, show_default=True, help="Walks of the search.")
@options.seed_option("Random seed of the search.")
@options.jobs_option
@options.backend_option
@options.json_option
@options.picture_option
@options.quiet_option("No bars.")
def cluster(
    place: str, bounds: tuple[float, float] | None, seed: int, jobs: int, as_json: bool, picture: Path | None,
    quiet: bool, **question: Any,
) -> None:  # fmt: skip
    """Find the few policies that stand for all, and keep the answer.

    Ctrl-C ends the search early and keeps the best so far; the exit code is then 130.

    \b
    pastmaster repo cluster tasks.db --episodes 10000 --certify --picture kept.png
    """
    import numpy as np

    from pastmaster.values.bounds import checked_bounds

    asked = {name: value for name, value in question.items() if value is not None}
    if bounds is not None:
        asked["span"] = checked_bounds("--bounds", bounds).span
    if not {"episodes", "n_clusters", "max_radius"} & set(asked):
        raise click.UsageError("one of --episodes, --n-clusters and --max-radius is needed")
    with options.opened(place) as repository:
        records = repository.records()
        rng = np.random.default_rng(seed)
        found = repository.cluster(rng=rng, n_jobs=jobs, progress=printing.bars_wanted(quiet), **asked)
    cells = zip(found.representatives.tolist(), np.bincount(found.labels).tolist(), found.radii.tolist(), strict=True)
    kept = [
        {"task": records[task].id, "name": records[task].name or "unnamed", "size": size, "radius": radius}
        for task, size, radius in cells
    ]
    if as_json:
        head = {"cost": found.cost, "lower_bound": found.lower_bound, "mean_radius": found.mean_radius}
        printing.print_json(head | {"kept": kept})
    else:
        lines = [(cell["task"], cell["name"], cell["size"], f"{cell['radius']:.4g}") for cell in kept]
        printing.print_table(("task", "name", "stands for", "most lost"), lines)
        click.echo(str(found))
    if picture is not None:
        printing.save_picture(found.plot(), picture)
    if found.interrupted:
        raise SystemExit(130)


@repo.command()
@options.repository_argument
@click.option("--remove", "removing", is_flag=True, help="Remove what is damaged, and what cannot be without it.")
@options.json_option
def check(place: str, removing: bool, as_json: bool) -> None:
    """Verify every checksum; name what is damaged, and then exit with 1."""
    with options.opened(place) as repository:
        damage = repository.remove_damaged() if removing else repository.check()
        tasks = len(repository) if not damage else None
    if as_json:
        printing.print_json([item._asdict() for item in damage])
    else:
        for item in damage:
            click.echo(str(item))
        done = "were damaged, and removed" if removing else "are damaged"
        click.echo(f"{len(damage)} things {done}" if damage else f"all is well: {tasks} tasks")
    if damage and not removing:
        raise SystemExit(1)


@repo.command()
@options.repository_argument
@click.argument("folder", type=click.Path(path_type=Path))
def export(place: str, folder: Path) -> None:
    """Write everything into a new FOLDER: .npy files and manifest.json."""
    with options.opened(place) as repository:
        click.echo(f"{len(repository)} tasks written: {repository.export(folder)}")


@repo.command("import")
@click.argument("folder", type=click.Path(path_type=Path))
@options.repository_argument
def import_(folder: Path, place: str) -> None:
    """Read an exported FOLDER into a new or empty REPOSITORY, on this or another database."""
    from pastmaster.repository.archive import read_manifest

    read_manifest(folder)  # before a repository is made for nothing
    with options.opened(place, create=True) as repository:
        click.echo(f"{repository.import_(folder)} tasks read into {repository.place}")


def _added_line(repository: Repository, number: int) -> str:
    """A task that was added, and whether it goes by its own policy."""
    record = repository.record(number)
    own = record.policy_of_record == record.own_policy
    which = f"its own policy {record.own_policy}" if own else f"policy {record.policy_of_record}, better than its own"
    return f"task {number}: {record.name or 'unnamed'}, worth {record.value:.4g} under {which}"


def _plain(record: TaskRecord) -> dict[str, Any]:
    return asdict(record) | {"bounds": None if record.bounds is None else list(record.bounds)}


def _facts(repository: Repository) -> dict[str, Any]:
    """A repository in a few lines."""
    found, clusterings = repository.records(), repository.clusterings()
    facts: dict[str, Any] = {"repository": repository.place, "tasks": len(found)}
    if found:
        facts["policies_of_record"] = len({record.policy_of_record for record in found})
        facts["kinds"] = ", ".join(sorted({record.kind for record in found}))
        first = repository.task(found[0].id)
        facts["states"], facts["actions"] = first.n_states, first.n_actions
        if all(record.bounds is not None for record in found):
            facts["return_bounds"] = list(repository.return_bounds())
    if clusterings:
        result = clusterings[-1].result
        facts["kept"] = f"{result['n_clusters']} of {result['n_tasks']} when last clustered, cost {result['cost']:.4g}"
        facts["source_policies"] = repository.source_ids()
    return facts


def _task_facts(repository: Repository, number: int) -> dict[str, Any]:
    """A task in a few lines."""
    about = {"task": repr(repository.task(number)), "cell": repository.cells().get(number)}
    return _plain(repository.record(number)) | about
