"""``pastmaster repo``: a repository of tasks and policies, from the command line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pastmaster.cli import options, printing
from pastmaster.cli.policies import NamedPolicies, TakesPolicies, policy_options
from pastmaster.cli.printing import Output
from pastmaster.cli.repo_keep import keep
from pastmaster.cli.tasks import NamedTasks, renamed, task_options
from pastmaster.errors import PastmasterError, RepositoryError
from pastmaster.tables import counted, cut

if TYPE_CHECKING:
    from pastmaster.repository import Repository
    from pastmaster.repository.check import Damage
    from pastmaster.repository.records import TaskRecord

LONGEST_FACT = 300  # letters
ROUNDING = 1e-12  # of a value: a smaller error is none
LISTED = {
    "id": "id",
    "name": "task",
    "policy_name": "policy",
    "policy_source": "file",
    "value": "value",
    "served_by": "served by",
}


@click.group(cls=options.Commands)
def repo() -> None:
    """A repository: the tasks solved so far, their policies, and what each is worth to the others.

    REPOSITORY is the path of a file, or a URL like postgresql://user@host/name.
    """


@repo.command()
@options.repository_argument
@click.option(
    "--max-loss", type=float,
    help="Store a policy only if its task would otherwise lose more than this; of a repository without tasks.",
)  # fmt: skip
def init(place: str, max_loss: float | None) -> None:
    """Make an empty repository (one that is there already is left as it is, but for the --max-loss of an empty one)."""
    with options.opened(place, create=True, max_loss=max_loss) as repository:
        printing.say(f"{repository.place}: {counted(len(repository), 'task')}")


@repo.command(cls=TakesPolicies)
@task_options
@policy_options
@click.option(
    "--task-name", "task_names", multiple=True, metavar="NAME",
    help="What a task is called, once to each.  [default: as its file, or its environment and arguments]",
)  # fmt: skip
@click.option("--evaluation-episodes", type=int, help="Value policies by so many episodes, not by the model.")
@options.grouped(Output, "output", [options.quiet_option("Print only the ids.")])
def add(
    place: str,
    named: NamedTasks,
    given: NamedPolicies,
    task_names: tuple[str, ...],
    evaluation_episodes: int | None,
    output: Output,
) -> None:
    """Add tasks with their policies: files of arrays, environments, or a domain's family.

    A policy from a file is called by the file's name, unless --name tells another. The repository is made if there is
    none.

    \b
    pastmaster repo add tasks.db --domain surveillance --count 60
    pastmaster repo add lakes.db --gym FrozenLake-v1 --policy lake.npy
    pastmaster repo add carts.db --gym CartPole-v1 --policy ppo.zip --name fast
    pastmaster repo add arms.db --gym Arm-v0 --import arms --no-normalise \\
        --kwargs-file arms.json --policy drawer/*.zip
    """
    from pastmaster import parallel

    tasks = renamed(named.read(), task_names)
    pairs = given.read(tasks)
    with options.opened_or_made(place) as repository, _counting(repository, len(tasks)):
        before = {record.id: record.own_policy for record in repository.records()}
        n_before = len(before)
        for task, policy, source, name in parallel.tracked(pairs, len(pairs), output.bars, "adding"):
            number = repository.add(task, policy, name=name, source=source, evaluation_episodes=evaluation_episodes)
            own = repository.record(number).own_policy
            if output.quiet:
                printing.say(number)
            elif len(pairs) == 1 or source is not None or number in before:
                printing.say(_added_line(repository, number, before.get(number), source))
            before[number] = own
        if not output.quiet:
            now = len(repository)
            added = now - n_before
            printing.say(f"{repository.place}: {counted(added, 'task')} added, {now} in all")


@contextmanager
def _counting(repository: Repository, n_tasks: int) -> Iterator[None]:
    """Say how many of several tasks were added where something ends it early."""
    n_before = len(repository)
    try:
        yield
    except BaseException as error:
        added = ""
        if n_tasks > 1:
            with suppress(PastmasterError):  # it may be the repository that is gone
                added = f"{len(repository) - n_before} of {n_tasks} tasks were added"
        if isinstance(error, KeyboardInterrupt):
            raise options.Interrupted(added) from None
        if added and isinstance(error, PastmasterError):
            raise click.ClickException(f"{options.sentence(error)}; {added}") from None
        if added:
            with suppress(OSError):
                printing.say(added, err=True)
        raise


@repo.command()
@options.repository_argument
@click.argument("numbers", nargs=-1, type=int, required=True, metavar="ID...")
def remove(place: str, numbers: tuple[int, ...]) -> None:
    """Forget tasks, and their policies unless others go by them."""
    with options.opened(place) as repository:
        repository.remove(*numbers)
        printing.say(f"{repository.place}: {counted(len(set(numbers)), 'task')} removed, {len(repository)} left")


@repo.command("list")
@options.repository_argument
@options.grouped(Output, "output", [options.json_option])
def list_(place: str, output: Output) -> None:
    """All tasks: the best stored policy for each, its file, what it is worth, and the kept policy that serves it.

    It is the task's own policy, or the best of those that are better (estimates: by two standard errors).
    """
    with options.opened(place) as repository:
        records, cells = repository.records(), repository.cells()
        serving = _serving(repository)
    found = []
    for record in records:
        cell = cells.get(record.id)
        served_by = None if cell is None else serving[cell]
        found.append(_plain(record) | {"cell": cell, "served_by": served_by})

    def words() -> None:
        if not found:
            printing.say("no tasks yet: pastmaster repo add --help")
            return
        printing.print_records(LISTED, [task | {"name": task["name"] or "unnamed"} for task in found])

    output.give(found, words)


@repo.command()
@options.repository_argument
@click.argument("number", required=False, type=int, metavar="[ID]")
@options.modules_option
@options.grouped(Output, "output", [options.json_option, options.picture_option])
def show(place: str, number: int | None, modules: tuple[str, ...], output: Output) -> None:
    """The repository in a few lines, or one task; --picture draws the latest clustering."""
    options.imported(modules)
    with options.opened(place) as repository:
        facts = _facts(repository) if number is None else _task_facts(repository, number)
        clustering = None if output.picture is None else repository.clustering()
    if output.picture is not None and clustering is None:
        raise click.ClickException("there is no clustering to draw yet: pastmaster repo keep")

    def words() -> None:
        for name, value in facts.items():
            if value is not None:
                printing.say(f"{name.replace('_', ' '):<20}{_fact(name, facts)}")

    output.give(facts, words, None if clustering is None else clustering.plot)


repo.add_command(keep)


@repo.command()
@options.repository_argument
@click.option("--values", is_flag=True, help="Also compute up to 2,000 of the stored values again.")
@options.seed_option("Draws the values that are computed again.")
@options.grouped(Output, "output", [options.json_option])
def check(place: str, values: bool, seed: int, output: Output) -> None:
    """Verify every checksum; name what is damaged, and then exit with 1.

    A value that was wrong when it was stored has a right checksum: --values computes values again, by the task's model
    or by the same episodes. The remedy is a backup.
    """
    with options.opened(place) as repository:
        found = repository.check(values=True, rng=seed) if values else repository.check()

        def words() -> None:
            printing.say(*_damage_lines(found) if found else [f"all is well: {counted(len(repository), 'task')}"])

        output.give([item._asdict() for item in found], words)
        if values:
            again = f"{found.valued:,} of {counted(found.values, 'value')} computed again"
            printing.say(again, *map(str, found.skipped), err=output.as_json)
    if found:
        raise SystemExit(1)


def _damage_lines(damage: Sequence[Damage]) -> list[str]:
    """Each damaged place with the first problem there, and how many there are."""
    first = {item.place: item for item in reversed(damage)}
    return [*map(str, reversed(first.values())), f"{counted(len(first), 'place')} damaged"]


@repo.command()
@options.repository_argument
@click.argument("target", type=click.Path(path_type=Path))
def backup(place: str, target: Path) -> None:
    """Copy the repository as it is now into a new file TARGET, checked record by record; others may write meanwhile."""
    with options.opened(place) as repository:
        made = repository.backup(target)
    with options.opened(str(made)) as copied:
        printing.say(f"{counted(len(copied), 'task')} backed up and checked: {made}")


@repo.command()
@options.repository_argument
@click.argument("folder", type=click.Path(path_type=Path))
def export(place: str, folder: Path) -> None:
    """Write everything into a new FOLDER: .npy files and manifest.json."""
    with options.opened(place) as repository:
        printing.say(f"{counted(len(repository), 'task')} written: {repository.export(folder)}")


@repo.command("import")
@click.argument("folder", type=click.Path(path_type=Path))
@options.repository_argument
def import_(folder: Path, place: str) -> None:
    """Read an exported FOLDER into a new or empty REPOSITORY, on this or another database."""
    from pastmaster.repository.archive import read_manifest

    read_manifest(folder)  # before a repository is made for nothing
    with options.opened(place, create=True) as repository:
        printing.say(f"{counted(repository.import_(folder), 'task')} read into {repository.place}")


def _serving(repository: Repository) -> list[str | None]:
    """What the policy that serves each cell is called; None where it was removed since."""
    ids = repository.cell_policies()
    try:
        found = repository.policy_records([number for number in ids if number > 0])
    except RepositoryError:  # damaged, or removed: the list is there without it
        return [None] * len(ids)
    names = {policy.id: policy.name for policy in found}
    return [names.get(number) for number in ids]


def _called(policy: dict[str, Any]) -> str:
    """A policy in a few words."""
    name, source = cut(policy["name"]), policy["source"]
    return name if source in (None, policy["name"]) else f"{name} ({cut(source)})"


def _fact(name: str, facts: dict[str, Any]) -> str:
    """A fact as a person reads it: numbers are rounded, long texts cut."""
    value = facts[name]
    if name == "value_error" and value < ROUNDING * abs(facts["value"]):
        return "0"
    if name == "kept_policies":
        return ", ".join(map(_called, value))
    if name in ("bounds", "return_bounds"):
        return f"{value[0]:.6g} .. {value[1]:.6g}"
    return f"{value:.4g}" if isinstance(value, float) else cut(str(value), LONGEST_FACT)


def _added_line(repository: Repository, number: int, own_before: int | None, source: Path | None) -> str:
    """What became of a task and its policy; ``own_before``: the task's own policy if it was stored already."""
    record = repository.record(number)
    own = record.policy_of_record == record.own_policy
    policy = cut(record.policy_name)
    worth = f"worth {record.value:.4g} under {policy}{'' if own else ', better than its own'}"
    task = f"task {number}: {cut(record.name or 'unnamed')}"
    if own_before is None:
        return f"{task}, {worth}"
    if own_before != record.own_policy:
        return f"{task} was there already; its new policy is better: {worth}"
    own_source = repository.policy_records([record.own_policy])[0].source
    same = source is None or own_source == str(source)
    return f"{task} was there already, {worth}{'' if same else f'; {source} is not better and was not stored'}"


def _plain(record: TaskRecord) -> dict[str, Any]:
    return asdict(record) | {"bounds": None if record.bounds is None else list(record.bounds)}


def _facts(repository: Repository) -> dict[str, Any]:
    """A repository in a few lines."""
    found, clusterings = repository.records(), repository.clusterings()
    facts: dict[str, Any] = {"repository": repository.place, "tasks": len(found)}
    if (limit := repository.max_loss) is not None:
        facts["max_loss"] = limit
    if found:
        facts["policies_of_record"] = len({record.policy_of_record for record in found})
        facts["kinds"] = ", ".join(sorted({record.kind for record in found}))
        if found[0].kind == "tabular":
            first = repository.task(found[0].id)
            facts["states"], facts["actions"] = first.n_states, first.n_actions
        if all(record.bounds is not None for record in found):
            facts["return_bounds"] = list(repository.return_bounds())
    if clusterings:
        result = clusterings[-1].result
        lost = f"cost {result['cost']:.4g}"
        if "mean_loss" in result:
            lost = f"mean loss {result['mean_loss']:.4g}, largest {result['largest_loss']:.4g}"
        kept, tasks = counted(result["n_clusters"], "policy"), counted(result["n_tasks"], "task")
        facts["kept"] = f"{kept} for {tasks}, {lost}"
        sources = repository.policy_records(repository.source_ids())
        facts["kept_policies"] = [{"policy": p.id, "name": p.name, "source": p.source} for p in sources]
    return facts


def _task_facts(repository: Repository, number: int) -> dict[str, Any]:
    """A task in a few lines."""
    about: dict[str, Any] = {"task": repr(repository.task(number)), "cell": repository.cells().get(number)}
    if about["cell"] is not None:
        about["served_by"] = _serving(repository)[about["cell"]]
    return _plain(repository.record(number)) | about
