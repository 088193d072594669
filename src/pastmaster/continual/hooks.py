"""Hooks that come with the library: a bar on the terminal, a log of JSON lines, TensorBoard."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from pastmaster.checks import file_path, optional_whole
from pastmaster.continual.events import Event, Reclustered, TaskDone
from pastmaster.errors import InvalidInputError
from pastmaster.tables import cut, one_line


class _Closing(AbstractContextManager[Any]):
    """A hook that is closed after use."""

    def close(self) -> None:
        """Close what is open."""

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def _writing(hook: str, path: str | Path) -> Iterator[None]:
    """Errors of writing, in one sentence."""
    try:
        yield
    except OSError as error:
        raise InvalidInputError(f"{hook}: {one_line(str(path))} cannot be written: {error.strerror or error}") from None


class Progress(_Closing):
    """A bar on the terminal, with the mean return in the last task and the number of its sources.

    Parameters
    ----------
    total : int, optional
        How many tasks the stream has.
    """

    def __init__(self, total: int | None = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress as Bar, TextColumn, TimeRemainingColumn

        total = optional_whole("Progress", "total", total)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("tasks", total=total)
        self._bar.start()

    def __call__(self, event: Event) -> None:
        if isinstance(event, TaskDone):
            text = f"{cut(event.name or 'tasks', 30)} (mean return {event.mean_return:.3g}, {event.n_sources} sources)"
            self._bar.update(self._task, advance=1, description=text)

    def close(self) -> None:
        self._bar.stop()


class JsonLines(_Closing):
    """A log with one JSON object per line and event. A resumed agent writes it anew, with all events.

    Parameters
    ----------
    path : str or Path
        The file; ``InvalidInputError`` if it cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from pastmaster.continual import JsonLines, Reclustered
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with JsonLines(f"{folder}/log.jsonl") as log:
    ...         log(Reclustered(position=4, n_tasks=4, n_clusters=2, cost=1.5, mean_radius=0.5, replayed=False))
    ...     print(Path(folder, "log.jsonl").read_text()[:38])
    {"event": "reclustered", "position": 4
    """

    def __init__(self, path: str | Path) -> None:
        self._path = file_path("JsonLines", "path", path)
        self._file: TextIO | None = None
        with _writing("JsonLines", path):  # fails now if it must; the old file stays until there is an event
            self._path.open("a").close()

    def __call__(self, event: Event) -> None:
        kind = {TaskDone: "task", Reclustered: "reclustered"}[type(event)]
        with _writing("JsonLines", self._path):
            if self._file is None:
                self._file = self._path.open("w", encoding="utf-8")
            self._file.write(json.dumps({"event": kind, **asdict(event)}) + "\n")
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # a failed write has raised its error already
                self._file.close()


class TensorBoard(_Closing):
    """Scalars by position in the stream, for TensorBoard. The file that this hook wrote before is replaced.

    Beside them, under "Text": the name of each task and who ran its episodes, and the names of the policies kept.

    Parameters
    ----------
    folder : str or Path
        Where TensorBoard looks; ``InvalidInputError`` if it cannot be written, or tensorboard is not installed.
    """

    SUFFIX = ".pastmaster"

    def __init__(self, folder: str | Path) -> None:
        try:
            from tensorboard.compat.proto.event_pb2 import Event as Proto
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.plugins.text.summary_v2 import text_pb
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError as error:
            raise InvalidInputError(f"TensorBoard: tensorboard is missing ({error}): pip install tensorboard") from None
        self._proto, self._summary, self._text = Proto, Summary, text_pb
        folder = file_path("TensorBoard", "folder", folder)
        self._replaced = list(folder.glob(f"events.out.tfevents.*{self.SUFFIX}"))
        with _writing("TensorBoard", folder):
            Path(folder).mkdir(parents=True, exist_ok=True)  # or, where tensorflow is installed, it raises its errors
            self._writer = EventFileWriter(str(folder), filename_suffix=self.SUFFIX)

    def __call__(self, event: Event) -> None:
        while self._replaced:  # only now: where no event comes, the old file stays
            self._replaced.pop().unlink(missing_ok=True)
        scalars = {name: float(value) for name, value in asdict(event).items() if isinstance(value, int | float)}
        if isinstance(event, TaskDone):
            scalars |= {"mean_return": event.mean_return}
        group = {TaskDone: "task", Reclustered: "clustering"}[type(event)]
        values = [
            self._summary.Value(tag=f"{group}/{name}", simple_value=value)
            for name, value in scalars.items()
            if name not in ("position", "replayed", "task_id")
        ]
        values += self._text(*_named(event)).value
        self._writer.add_event(
            self._proto(wall_time=time.time(), step=event.position, summary=self._summary(value=values))
        )

    def close(self) -> None:
        self._writer.close()


def _named(event: Event) -> tuple[str, str]:
    """The tag and the text that tell an event by names."""
    if isinstance(event, Reclustered):
        return "clustering/kept", ", ".join(map(cut, event.kept))
    shares = ", ".join(f"{cut(name)} {share:.0%}" for name, share in event.shares.items())
    return "task/name", f"{cut(event.name or 'unnamed')}: {shares}"
