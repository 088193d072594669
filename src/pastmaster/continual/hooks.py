"""Hooks that come with the library: a bar on the terminal, a log of JSON lines, TensorBoard."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO, cast

from pastmaster.continual.events import Event, Reclustered, TaskDone
from pastmaster.errors import InvalidInputError


class _Closing:
    """Hooks that hold something open are context managers."""

    def close(self) -> None:
        """Let go of it."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class Progress(_Closing):
    """A bar over ``total`` tasks, with the mean return of the last one and the number of sources."""

    def __init__(self, total: int | None = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress as Bar, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("tasks", total=total)
        self._bar.start()

    def __call__(self, event: Event) -> None:
        if isinstance(event, TaskDone):
            text = f"tasks (mean return {event.mean_return:.3g}, {event.n_sources} sources)"
            self._bar.update(self._task, advance=1, description=text)

    def close(self) -> None:
        self._bar.stop()


class JsonLines(_Closing):
    """One JSON object to a line and event, written anew from the start of the stream."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._open("a").close()  # refused now if it must be; what an earlier run wrote stays until there is an event
        self._file: TextIO | None = None

    def __call__(self, event: Event) -> None:
        kind = {TaskDone: "task", Reclustered: "reclustered"}[type(event)]
        if self._file is None:
            self._file = self._open("w")
        try:
            self._file.write(json.dumps({"event": kind, **asdict(event)}) + "\n")
            self._file.flush()
        except OSError as error:
            raise self._refusal(error) from None

    def close(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # what could not be written has been told
                self._file.close()

    def _open(self, mode: str) -> TextIO:
        try:
            return cast(TextIO, self._path.open(mode, encoding="utf-8"))
        except OSError as error:
            raise self._refusal(error) from None

    def _refusal(self, error: OSError) -> InvalidInputError:
        return InvalidInputError(f"JsonLines: {self._path} cannot be written: {error.strerror or error}")


class TensorBoard(_Closing):
    """Scalars by position in the stream, in a folder for TensorBoard; what an earlier run of this left is replaced."""

    SUFFIX = ".pastmaster"

    def __init__(self, folder: str | Path) -> None:
        try:
            from tensorboard.compat.proto.event_pb2 import Event as Proto
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError as error:
            raise InvalidInputError(f"TensorBoard: tensorboard is missing ({error}): pip install tensorboard") from None
        self._proto, self._summary = Proto, Summary
        self._replaced = list(Path(folder).glob(f"events.out.tfevents.*{self.SUFFIX}"))
        try:
            self._writer = EventFileWriter(str(folder), filename_suffix=self.SUFFIX)
        except OSError as error:
            raise InvalidInputError(f"TensorBoard: {folder} cannot be written: {error.strerror or error}") from None

    def __call__(self, event: Event) -> None:
        while self._replaced:  # only now: a run that is refused leaves what was there
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
        self._writer.add_event(
            self._proto(wall_time=time.time(), step=event.position, summary=self._summary(value=values))
        )

    def close(self) -> None:
        self._writer.close()
