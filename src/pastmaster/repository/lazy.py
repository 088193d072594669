"""Sequences that read from the database only what is looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, overload

from pastmaster.repository import rows

Thing = TypeVar("Thing")


class Lazy(Sequence[Thing]):
    """A sequence whose items are read when they are looked at; walked through, some at a time."""

    def __init__(self, ids: list[int], read: Callable[[list[int]], list[Thing]]) -> None:
        self.ids, self._read = ids, read

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Thing: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Thing]: ...

    def __getitem__(self, index: int | slice) -> Thing | Sequence[Thing]:
        return Lazy(self.ids[index], self._read) if isinstance(index, slice) else self._read([self.ids[index]])[0]

    def __iter__(self) -> Iterator[Thing]:
        for batch in rows.batches(self.ids):
            yield from self._read(list(batch))

    def __repr__(self) -> str:
        return f"<{len(self)} records, read when looked at>"
