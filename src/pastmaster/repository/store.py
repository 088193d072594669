"""``Repository``: the tasks an agent has met, their policies, the value of each policy in each task, which to keep.

A repository is a file (SQLite) or a database on a server (PostgreSQL). Every change is one transaction, which is on the
disk before the call returns: after a process is killed, the repository opens with the last change that was
acknowledged. Opening reads no records; tasks, policies and values are read when they are asked for.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import sqlalchemy as sa

from pastmaster.checks import each, file_path, flag, listed, whole, within
from pastmaster.clustering import Clustering
from pastmaster.errors import InvalidInputError, RepositoryError
from pastmaster.generators import Rng, checked_rng
from pastmaster.repository import admission, archive, clusterings, known, location, names, rows
from pastmaster.repository.addition import Addition, check_like, commit
from pastmaster.repository.backup import back_up
from pastmaster.repository.check import examine, examine_service
from pastmaster.repository.clusterings import ClusteringRecord
from pastmaster.repository.database import Database
from pastmaster.repository.forgetting import forget_task
from pastmaster.repository.listing import Records
from pastmaster.repository.memory import Contents, Lazy, on
from pastmaster.repository.records import PolicyRecord, Stored, TaskRecord, joined_bounds
from pastmaster.repository.schema import RECORDS
from pastmaster.repository.spot_check import Checked, check_values
from pastmaster.repository.sqlite import File
from pastmaster.repository.streams import StoredRun, Stream, run_row, stored_runs
from pastmaster.repository.worth import matrix_of_record
from pastmaster.reuse import Experience, TransferRun
from pastmaster.tables import WIDEST, one_line, shown
from pastmaster.tasks import Task
from pastmaster.tasks.tabular import TabularMDP
from pastmaster.values import Bounds, CrossValues
from pastmaster.values.given import not_a_task

if TYPE_CHECKING:
    import pandas as pd


class Repository:
    """Tasks and policies that last: a SQLite file, or a PostgreSQL database.

    The tasks of a repository share states, actions and gamma. Each task has a policy of its own, and a policy of
    record: the stored policy that is worth most in it. Several processes may use one repository at a time.

    Parameters
    ----------
    url_or_path : str or Path
        The path of a file, or a URL like ``postgresql://user@host/name``.
    create : bool
        Whether to make the database if there is none.
    max_loss : float, optional
        For a repository without tasks: a policy is stored only if its task would otherwise lose more than this. So a
        repository grows with what it keeps (docs/scale.md). By default every policy is stored, and valued in every
        task, which is for up to some 2,000 tasks.

    Attributes
    ----------
    place : str
        The path, or the URL without a password.

    Raises
    ------
    RepositoryError
        If the place cannot be opened, holds no repository, or one that a newer version has written.

    Examples
    --------
    >>> import tempfile
    >>> from pastmaster import Repository
    >>> from pastmaster.domains import windy_corridor
    >>> with tempfile.TemporaryDirectory() as folder, Repository(f"{folder}/tasks.db") as repository:
    ...     ids = [repository.add(task) for task in windy_corridor.family()[:4]]
    ...     kept = repository.keep(k=1)
    ...     print(ids, repository.cross_values().shape, repository.cells(), len(repository.sources()))
    [1, 2, 3, 4] (4, 4) {1: 0, 2: 0, 3: 0, 4: 0} 1
    """

    def __init__(self, url_or_path: str | Path, *, create: bool = True, max_loss: float | None = None) -> None:
        if max_loss is not None:
            max_loss = within("Repository", "max_loss", max_loss, 0.0, math.inf)
        self.database = Database(url_or_path, create=flag("Repository", "create", create))
        self.place = self.database.place
        self._contents = Contents(self.database)
        if max_loss is not None and self.max_loss != max_loss:
            try:
                self.database.write(lambda connection: admission.settle(connection, max_loss, self.place))
            except InvalidInputError:
                self.close()
                raise

    @property
    def max_loss(self) -> float | None:
        """The most that a task may lose before its own policy is stored; None: every policy is stored."""
        rule = self.database.read(self._contents.rule)
        return None if rule is None else rule.max_loss

    def add(
        self,
        task: Task,
        policy: Any = None,
        *,
        name: str | None = None,
        source: str | os.PathLike[str] | None = None,
        provenance: str | None = None,
        evaluation_episodes: int | None = None,
        run: TransferRun | None = None,
    ) -> int:
        """Store a task with its policy; value the policy in every stored task, and every stored policy in the task.

        A policy that is better in other tasks than what they have becomes their policy of record.

        A task that is stored already keeps its id, and the given policy is compared with its policy of record. If it is
        better (where values are estimates: its value is higher, and higher than that of the task's own policy by two
        standard errors), it becomes the task's own policy. If not, it is not stored; ``record(id).own_policy`` is then
        the same as before. ``replace_policy`` stores a policy, better or not.

        Parameters
        ----------
        task : TabularMDP or GymTask
        policy : array, Solution, TablePolicy, NetworkPolicy, OnnxPolicy or Stable-Baselines3 model, optional
            By default the task is solved. Functions cannot be stored.
        name, source : str, path, optional
            What the policy is called in tables, pages and legends, and the file it came from. By default it is called
            like the file, or else like the task. Given again with the same policy, they replace what was stored.
        provenance : {"solved", "learned", "imported"}, optional
            Where the policy comes from: "imported" where one is given.
        evaluation_episodes : int, optional
            How many episodes value a policy in the task. By default values are exact where the task has a model, and
            means of 30 episodes where it has none.
        run : TransferRun, optional
            What ``transfer`` did on the task: returns and arms of its best trial are stored with it.

        Returns
        -------
        int
            The task's id. Ids are never used twice.

        Raises
        ------
        InvalidInputError
            If the task is of another family, or the policy does not fit the task or cannot be stored.
        """
        if not isinstance(run, TransferRun | None):
            raise InvalidInputError(f"Repository.add: run is {shown(run)}, must be what transfer returned")
        addition = Addition(task, policy, provenance, evaluation_episodes, name=name, source=source)
        return commit(self._contents, [addition], None if run is None else run_row(run))[0]

    def add_many(self, tasks: Iterable[Task], *, batch: int = 100) -> list[int]:
        """Solve and store many tasks, ``batch`` of them in a transaction; returns their ids.

        The same as ``add`` for each, but for the time that commits take. Tasks are taken as they are needed, so they
        may come from a generator. If the process is killed, the batches before are stored, and of the last one nothing.

        Parameters
        ----------
        tasks : iterable of TabularMDP
        batch : int
            How many tasks are committed together.

        Returns
        -------
        list of int
            The id of each task.

        Raises
        ------
        InvalidInputError
            As ``add``; the batches before are stored.

        Examples
        --------
        >>> import tempfile
        >>> from pastmaster import Repository
        >>> from pastmaster.domains import windy_corridor
        >>> with tempfile.TemporaryDirectory() as folder, Repository(f"{folder}/tasks.db", max_loss=2.0) as repository:
        ...     ids = repository.add_many(windy_corridor.family())
        ...     print(len(ids), len(repository.policy_records()) < 20)
        100 True
        """
        caller, found = "Repository.add_many", list[int]()
        size = whole(caller, "batch", batch, at_least=1)
        given = enumerate(each(tasks, f"{caller}: tasks", "tasks"))
        while group := list(islice(given, size)):
            for index, task in group:
                if not isinstance(task, Task):
                    raise not_a_task(f"{caller}: tasks[{index}]", task)
                if not isinstance(task, TabularMDP):
                    raise InvalidInputError(
                        f"{caller}: tasks[{index}] is {task}, which has no model to solve, must be a TabularMDP: "
                        "add(task, policy) stores other tasks, one by one"
                    )
            found += commit(self._contents, [Addition(task, caller=caller) for _, task in group])
        return found

    def replace_policy(
        self,
        number: int,
        policy: Any,
        *,
        name: str | None = None,
        source: str | os.PathLike[str] | None = None,
        provenance: str = "imported",
    ) -> None:
        """Give the task of this id another policy of its own, better or not; the arguments are those of ``add``."""
        caller = "Repository.replace_policy"
        number = _id(caller, number)
        if policy is None:
            raise InvalidInputError(f"{caller}: policy is None, must be given")
        with rows.asked_by(caller):
            valued = self._contents.read(self._contents.tasks, [number])[0]
            one = Addition(
                valued.task,
                policy,
                provenance,
                valued.episodes,
                name=name,
                source=source,
                caller=caller,
                replaces=number,
            )
            commit(self._contents, [one])

    def remove(self, *numbers: int) -> None:
        """Remove the tasks of these ids, and their policies unless other tasks use them. Their runs stay."""
        gone = list(dict.fromkeys(_id("Repository.remove", number) for number in numbers))

        def forget(connection: sa.Connection) -> None:
            for number in gone:
                forget_task(connection, self._contents, number)

        with rows.asked_by("Repository.remove"):
            self.database.write(forget)

    def check(self, *, values: bool = False, rng: Rng = None) -> Checked:
        """Read every record and verify every checksum, look at the file of the service too; returns the damage.

        That finds what changed after it was written, and not what was wrong when it was written: a value that is not
        its policy's, stored with a right checksum, is found only by computing it again (``values=True``).

        Parameters
        ----------
        values : bool
            Whether to compute values again: of up to 1,000 tasks that of the policy of record, and up to 1,000 drawn
            from all others. Values by a model must agree up to rounding, and means of episodes, which are run again
            from their seeds, too: where an environment does not give the same episodes for the same seed, or libraries
            or hardware are others than those that stored the value, a difference may be due to that. It takes as long
            as it took to compute those values first. Values of policies that were forgotten are not looked at.
        rng : int, Generator or None
            Draws the values that are computed again.

        Returns
        -------
        Checked
            A list with a ``Damage`` for each problem, empty where there is none. ``valued`` tells how many values were
            computed again, of ``values``; ``skipped`` names tasks in which that was not possible.

        Examples
        --------
        >>> import tempfile
        >>> from pastmaster import Repository
        >>> from pastmaster.domains import windy_corridor
        >>> with tempfile.TemporaryDirectory() as folder, Repository(f"{folder}/tasks.db") as repository:
        ...     ids = repository.add_many(windy_corridor.family()[:4])
        ...     found = repository.check(values=True)
        ...     print(found, found.valued, found.values)
        [] 16 16
        """
        caller = "Repository.check"
        generator = checked_rng(caller, rng) if flag(caller, "values", values) else None
        with self.database.snapshot() as still:
            examiner = examine(still)
            found = Checked(examiner.damage)
            if isinstance(self.database.backend, File):
                found += examine_service(self.database.backend.path, str(location.beside(Path(self.place))))
            if generator is not None:
                check_values(still, found, examiner, generator)
            return found

    def check_family(self, task: Task) -> None:
        """Refuse a task that does not share states, actions and gamma with those stored."""
        if not isinstance(task, Task):
            raise not_a_task("Repository.check_family: task", task)
        first = self.database.read(self._contents.look)[0]
        check_like(first, task, "Repository.check_family")

    def __len__(self) -> int:
        return self._count("tasks")

    def records(self) -> Records[TaskRecord]:
        """What is stored of every task, in order of id, without the tasks themselves."""
        return self.database.read(names.task_records)

    def record(self, number: int) -> TaskRecord:
        """What is stored of the task of this id."""
        wanted = [_id("Repository.record", number)]
        with rows.asked_by("Repository.record"):
            return self.database.read(lambda connection: names.task_records(connection, wanted))[0]

    def policy_records(self, numbers: Sequence[int] | None = None) -> Records[PolicyRecord]:
        """What is stored of the policies of these ids, or of all: what each is called, and the file it came from."""
        caller = "Repository.policy_records"
        wanted = None if numbers is None else [_id(caller, n) for n in listed(numbers, f"{caller}: numbers")]
        with rows.asked_by(caller):
            return self.database.read(lambda connection: names.policy_records(connection, wanted))

    def task(self, number: int) -> Task:
        """The task of this id."""
        with rows.asked_by("Repository.task"):
            return self._read_tasks([_id("Repository.task", number)])[0]

    def policy(self, number: int) -> Stored:
        """The policy of this id: an array, a ``NetworkPolicy`` or an ``OnnxPolicy``."""
        with rows.asked_by("Repository.policy"):
            return self._read_policies([_id("Repository.policy", number)])[0]

    def tasks(self) -> Lazy[Task]:
        """All tasks in order of id, each read when it is looked at."""
        ids = self.database.read(lambda connection: rows.numbers(connection, "tasks"))
        return Lazy("Repository.tasks", ids, self._read_tasks)

    def policies(self) -> Lazy[Stored]:
        """The policy of record of each task, in the order of ``tasks()``, each read when it is looked at."""
        ids = [record.policy_of_record for record in self.records()]
        return Lazy("Repository.policies", ids, self._read_policies)

    def cross_values(self) -> CrossValues:
        """U [N, N]: the value of the policy of record of task j in task i, in the order of ``tasks()``.

        ``RepositoryError`` where ``max_loss`` is set: most of U is then neither computed nor stored.
        """
        if self.max_loss is not None:
            raise RepositoryError(
                f"Repository.cross_values: {self.place} has a max_loss, so most of U is not computed, must be asked by "
                "keep() or experience()"
            )
        return CrossValues(self.database.read(matrix_of_record), paired=True)

    def experience(self, policies: Sequence[int] | None = None) -> Experience:
        """What the kept policies were worth in every task, as ``transfer`` takes it beside ``named_sources()``.

        Where the repository has a ``max_loss``, in some 2,048 landmarks, at least one in every cell, in proportion to
        its tasks. An experience has no weights: each landmark counts the same, so small cells count more than their
        share.

        Parameters
        ----------
        policies : sequence of int, optional
            The ids of other stored policies, in the order of the sources; by default those of ``source_ids()``.

        Returns
        -------
        Experience
            Over the tasks, or landmarks, in the order of ``tasks()``: values, with their standard errors where they
            are estimates, the best value known for each task, and the spread of one return, by the model or as
            estimated.

        Raises
        ------
        RepositoryError
            If there are no tasks, or no policies are kept yet, or an id is none.

        Examples
        --------
        >>> import tempfile
        >>> from pastmaster import Repository, transfer
        >>> from pastmaster.domains import windy_corridor
        >>> *old, new = windy_corridor.family()[::15]
        >>> with tempfile.TemporaryDirectory() as folder, Repository(f"{folder}/tasks.db") as repository:
        ...     ids = [repository.add(task) for task in old]
        ...     kept = repository.keep(k=3)
        ...     known = repository.experience()
        ...     run = transfer(new, repository.named_sources(), experience=known, episodes=30, rng=0)
        >>> known, run.selectors[0].name
        (Experience(6 tasks, 3 sources), 'informed')
        """
        caller = "Repository.experience"
        wanted = None if policies is None else [_id(caller, n) for n in listed(policies, f"{caller}: policies")]
        with rows.asked_by(caller):
            return known.experience(self._contents, wanted)

    def return_bounds(self) -> Bounds:
        """Bounds on the discounted return of any episode; ``RepositoryError`` if they are not known of all tasks."""
        return joined_bounds(self.records(), self.place)

    def keep(
        self,
        *,
        k: int | None = None,
        max_loss: float | None = None,
        price: float | Literal["measured"] | None = None,
        episodes: float | None = None,
        span: float | None = None,
        weights: Any = None,
        must_keep: Any = None,
        never_keep: Any = None,
        certify: bool = True,
        time_limit: float = 30.0,
        rng: Rng = None,
    ) -> Clustering:
        """Which few of the stored policies to keep, and what each task loses by it; the answer is stored.

        A task's loss is what the best stored policy is worth in it, less what the best kept one is. Any stored policy
        may be kept: column j is the own policy of task j, and policies whose task was removed come last.

        Where the repository has a ``max_loss``, the question is asked of landmarks: 10,000 tasks that stand for all by
        their weights, or all if there are fewer. The columns are then the stored policies in order of id, and the best
        of a task includes the policy it came with, though that was forgotten. ``over_all`` of the answer tells the mean
        loss over all tasks, with an interval, and a lower bound. Asked for ``max_loss``, no landmark loses more; of the
        other tasks it tells how many may.

        Parameters
        ----------
        k, max_loss, price, episodes, span, certify, time_limit, rng
            One question, as for ``pastmaster.keep``: exactly ``k`` policies with the least mean loss; or the fewest
            such that no task loses more than ``max_loss``; or the least ``price`` for each + mean loss; or the paper's
            cost for so many ``episodes``, with the ``span`` of ``return_bounds()`` by default. With ``episodes``,
            ``price="measured"`` is the one at which stored tasks, left out with their policies, earn most.
        weights : array_like or mapping, optional
            How much each task counts in the mean, in the order of ``tasks()``, or by name; not for landmarks.
        must_keep, never_keep : optional
            Policies that are kept in any case, or in none: their names, or column numbers.

        Returns
        -------
        Clustering
            Over the tasks in the order of ``tasks()``, or of landmarks (``cells()`` names them), with names. From now
            on ``sources()`` returns the policies it keeps, and ``clustering()`` returns it again.

        Raises
        ------
        InvalidInputError
            As ``pastmaster.keep``; nothing is stored then.
        RepositoryError
            If there are no tasks.

        Examples
        --------
        >>> import tempfile
        >>> from pastmaster import Repository
        >>> from pastmaster.domains import windy_corridor
        >>> with tempfile.TemporaryDirectory() as folder, Repository(f"{folder}/tasks.db") as repository:
        ...     ids = [repository.add(task) for task in windy_corridor.family()[::15]]
        ...     kept = repository.keep(k=3)
        ...     sources = repository.named_sources()
        >>> list(sources) == kept.policies
        True
        >>> kept
        3 of 7 policies kept, mean loss 1.743, largest 3.487, proven optimal
        """
        return clusterings.keep(
            self._contents, k=k, max_loss=max_loss, price=price, episodes=episodes, span=span, weights=weights,
            must_keep=must_keep, never_keep=never_keep, certify=certify, time_limit=time_limit, rng=rng,
        )  # fmt: skip

    def cluster(
        self,
        *,
        episodes: int | None = None,
        span: float | None = None,
        directed: bool = True,
        method: str = "search",
        rng: Rng = None,
        **options: Any,
    ) -> Clustering:
        """Cluster the tasks as the paper does, by radius, with all settings of its search; the answer is stored.

        ``keep`` asks what tasks lose, and is what most people want.

        Parameters
        ----------
        rng, episodes, **options
            As for ``search_clusterings``; without ``episodes``, ``n_clusters`` or ``max_radius`` is needed.
        directed : bool
            True counts what each task loses with a policy, and any stored policy may be kept. Column j is then the own
            policy of task j; policies whose task was removed come last. Of landmarks the columns are the stored
            policies in order of id. False is the paper's symmetric distance between tasks, each with its policy of
            record.
        span : float, optional
            The width of the bounds on returns; by default that of ``return_bounds()``.
        method : {"search", "greedy"}
            ``search_clusterings`` or ``greedy_clustering``.

        Returns
        -------
        Clustering
            Over the tasks in the order of ``tasks()``. From now on ``sources()`` returns the policies it keeps, and
            ``clusterings()[-1].seed`` is the seed of the search.
        """
        return clusterings.cluster(
            self._contents, rng=rng, episodes=episodes, span=span, directed=directed, method=method, **options
        )

    def clusterings(self) -> Records[ClusteringRecord]:
        """Every clustering found so far, the latest last."""
        return Records(map(ClusteringRecord.of, self.database.read(lambda c: rows.fetch(c, "clusterings"))))

    def clustering(self) -> Clustering | None:
        """The latest clustering, over the tasks there were then; None if there is none."""
        return self.database.read(lambda c: None if (found := clusterings.latest(c)) is None else found.read(c))

    def cells(self) -> dict[int, int]:
        """The cell of each task in the latest clustering, by the task's id.

        Tasks added since are missing, and, where the repository has a ``max_loss``, all that are no landmarks.
        """
        return self.database.read(lambda c: {} if (found := clusterings.latest(c)) is None else found.cells(c))

    def sources(self) -> list[Stored]:
        """The policies that the latest clustering keeps: those of record in its representatives now, each once."""
        return self.database.read(lambda c: self._contents.policies.get(on(c), clusterings.source_ids(c)))

    def named_sources(self) -> dict[str, Stored]:
        """The policies of ``sources()`` by name, as ``transfer`` takes them."""

        def read(connection: sa.Connection) -> dict[str, Stored]:
            ids = clusterings.source_ids(connection)
            called = names.distinct_names(names.policy_records(connection, ids))
            return dict(zip(called, self._contents.policies.get(on(connection), ids), strict=True))

        return self.database.read(read)

    def source_ids(self) -> list[int]:
        """The ids of the policies of ``sources()``."""
        return self.database.read(clusterings.source_ids)

    def cell_policies(self) -> list[int]:
        """The id of the policy that serves each cell of the latest clustering; -1 where it was removed since."""
        return self.database.read(
            lambda c: [] if (found := clusterings.latest(c)) is None else found.kept_policies(c)
        )  # fmt: skip

    def runs(self) -> Records[StoredRun]:
        """Every run that was stored with a task, in order."""
        return Records(stored_runs(self.database))

    def stream(self, name: str, settings: Mapping[str, Any], fresh: Mapping[str, Any] | None = None) -> Stream:
        """The stream of this name, begun if there is none, then with the ``fresh`` settings too.

        ``InvalidInputError`` if it has other ``settings``.
        """
        return Stream(self._contents, name, settings, fresh)

    def export(self, folder: str | Path) -> Path:
        """Write everything into a folder that is new or empty, and that appears only when it is complete.

        Examples
        --------
        >>> import tempfile
        >>> from pastmaster import Repository
        >>> with tempfile.TemporaryDirectory() as folder, Repository(f"{folder}/tasks.db") as repository:
        ...     sorted(path.name for path in repository.export(f"{folder}/exported").iterdir())
        ['arrays', 'manifest.json']
        """
        return archive.export(self.database, file_path("Repository.export", "folder", folder, "the path of a folder"))

    def backup(self, path: str | Path) -> Path:
        """Copy the repository as it is at one moment into a new file, beside whoever writes; every record is checked.

        The file appears only when it is whole and on the disk. It is a repository of its own: to restore it, put it
        where the old one was while nobody has that open. If there is a file of the service, ``tasks.service.db``, it is
        copied as it is at the same moment, beside the new file. Not for PostgreSQL, which has pg_dump.

        Examples
        --------
        >>> import tempfile
        >>> from pastmaster import Repository
        >>> with tempfile.TemporaryDirectory() as folder, Repository(f"{folder}/tasks.db") as repository:
        ...     with Repository(repository.backup(f"{folder}/monday.db"), create=False) as copy:
        ...         len(copy)
        0
        """
        return back_up(self.database, file_path("Repository.backup", "path", path, "the path of a new file"))

    def import_(self, folder: str | Path) -> int:
        """Read an exported folder into this repository, which must be new; returns the number of tasks.

        ``DamagedError`` if a checksum does not match; then nothing is stored.
        """
        return archive.import_(self.database, file_path("Repository.import_", "folder", folder, "the path of a folder"))

    def close(self) -> None:
        """Close the connections to the database."""
        self.database.close()

    def __enter__(self) -> Repository:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise InvalidInputError(
            f"a Repository cannot be pickled or copied: open {self.place} in each process, as Repository(path)"
        )

    def __repr__(self) -> str:
        limit = self.max_loss
        rule = "" if limit is None else f", max_loss {limit:g}"
        held = f": {self._count('tasks')} tasks, {self._count('policies')} policies{rule})"
        return f"Repository({one_line(self.place, WIDEST - len(held) - len('Repository('))}{held}"

    def to_frame(self) -> pd.DataFrame:
        """The tasks as a pandas DataFrame, a row to each, with the policy of record and its value."""
        return self.records().to_frame()

    def _count(self, table: str) -> int:
        query = sa.select(sa.func.count()).select_from(RECORDS[table])
        return int(self.database.read(lambda connection: connection.execute(query).scalar() or 0))

    def _read_tasks(self, numbers: list[int]) -> list[Task]:
        return [valued.task for valued in self._contents.read(self._contents.tasks, numbers)]

    def _read_policies(self, numbers: list[int]) -> list[Stored]:
        return self._contents.read(self._contents.policies, numbers)


def _id(caller: str, number: Any) -> int:
    """A number that a record may have."""
    return whole(caller, "number", number, at_least=1)
