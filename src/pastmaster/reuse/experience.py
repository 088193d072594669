"""Experience: what the sources were worth in the tasks met before, and how alike those tasks are.

How alike is learned by leaving tasks out: each of some tasks is compared with the task whose row of values is nearest
to its own. Distances of up to a twentieth of the span are *deviations*: their mean square is the variance between tasks
that are alike. The share of larger ones is how often a source is worth something else in a task that is alike. The
share of tasks where most distances are large is how likely a new task is like none of the old. Of the sources that are
not odd, the mean squared distance of the logarithms of the variances of a return tells how alike the noise is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pastmaster.arrays import FloatArray, as_floats, sealed
from pastmaster.checks import called_as, listed
from pastmaster.errors import InvalidInputError
from pastmaster.estimation import CrossValueEstimate
from pastmaster.reuse import _model_kernels as kernels
from pastmaster.tables import shown

ODD_DISTANCE = 0.05  # payoffs
LEAST_DEVIATION = 1e-3  # payoffs
LEFT_OUT = 32  # tasks that are compared with the others


class Likeness(NamedTuple):
    """How alike tasks are, in payoffs: a variance, two shares, and the variance of logarithms (see the module)."""

    variance: float
    odd: float
    unlike: float
    noise: float


@dataclass(frozen=True, eq=False)
class Experience:
    """What c sources were worth in N tasks met before.

    Parameters
    ----------
    values : array_like [N, c]
        The mean discounted return of each source in each task: the columns of ``cross_values`` of the policies kept.
    errors : array_like [N, c], optional
        The standard errors of ``values``, where these are estimates.
    spread : array_like [N, c], optional
        The standard deviation of one return. Without it, it is learned from the new task's returns.
    best : array_like [N], optional
        The best return known in each task, by whatever policy; by default the best of the sources.
    sources : sequence of str, optional
        What the columns are called. ``transfer`` refuses columns that are not its sources.

    Examples
    --------
    >>> from pastmaster import Experience
    >>> Experience([[1.0, 0.0], [0.2, 0.9]])
    Experience(2 tasks, 2 sources)
    """

    values: FloatArray
    errors: FloatArray | None = None
    spread: FloatArray | None = None
    best: FloatArray | None = None
    sources: Sequence[str] | None = None

    def __post_init__(self) -> None:
        values = _finite(self.values, "values")
        if values.ndim != 2 or not len(values):
            raise InvalidInputError(
                f"Experience: values has shape {values.shape}, must be [tasks, sources] with one task at least"
            )
        object.__setattr__(self, "values", values)
        for name, shape in (("errors", values.shape), ("spread", values.shape), ("best", values.shape[:1])):
            given = getattr(self, name)
            if given is not None:
                array = _finite(given, name)
                if array.shape != shape or (name != "best" and (array < 0.0).any()):
                    least = "" if name == "best" else " from 0 on"
                    raise InvalidInputError(
                        f"Experience: {name} has shape {array.shape}, must be numbers{least}, {shape}"
                    )
                object.__setattr__(self, name, array)
        if self.sources is not None:
            names = [str(name) for name in listed(self.sources, "Experience: sources", "a list of names")]
            if len(names) != values.shape[1]:
                raise InvalidInputError(
                    f"Experience: sources has {len(names)} names, must have one to each of {values.shape[1]} columns"
                )
            object.__setattr__(self, "sources", tuple(names))

    def __repr__(self) -> str:
        return f"Experience({len(self.values)} tasks, {self.values.shape[1]} sources)"

    @property
    def best_known(self) -> FloatArray:
        """The best return known in each task [N]."""
        known = self.values if self.best is None else np.column_stack([self.values, self.best])
        return known.max(axis=1) if known.shape[1] else np.zeros(len(known))

    @property
    def arrays(self) -> list[FloatArray | None]:
        """All its numbers."""
        return [self.values, self.errors, self.spread, self.best]

    @property
    def largest(self) -> float:
        """The size of its largest number."""
        return max(float(np.abs(array).max(initial=0.0)) for array in self.arrays if array is not None)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        named = zip(("values", "errors", "spread", "best"), self.arrays, strict=True)
        told: dict[str, Any] = {key: array.tolist() for key, array in named if array is not None}
        return told if self.sources is None else told | {"sources": list(self.sources)}


def _finite(given: Any, name: str) -> FloatArray:
    array = as_floats(given, f"Experience: {name}")
    if not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InvalidInputError(
            f"Experience: {name}{list(place)} is {array[place]}, must be a finite number: leave out tasks in which a "
            "source was never tried"
        )
    return sealed(array.copy())


def as_experience(caller: str, given: Any, n_sources: int, names: Sequence[str] | None = None) -> Experience:
    """Experience from an array [N, c], a DataFrame, an estimate of cross values, or what ``to_dict`` returned.

    Its columns must be the sources: as many, and of these names where both have names. Of an estimate of more policies
    the sources' columns are taken, by name.
    """
    try:
        with called_as(f"{caller}: experience"):
            found = _made(given, names)
    except TypeError as error:
        raise InvalidInputError(f"{caller}: experience is {shown(given)}, must be numbers [tasks, sources]") from error
    if found.values.shape[1] != n_sources:
        raise InvalidInputError(
            f"{caller}: experience has {found.values.shape[1]} columns, must have one to each of {n_sources} sources: "
            "of an estimate of more policies, or of cross values, pass the columns of those kept, "
            "U[:, kept.columns] (estimate.mean[:, kept.columns])"
        )
    if names is not None and found.sources is not None and list(found.sources) != list(names):
        wrong = next(i for i, (a, b) in enumerate(zip(found.sources, names, strict=True)) if a != b)
        raise InvalidInputError(
            f"{caller}: column {wrong} of experience is {shown(found.sources[wrong])}, but source {wrong} is "
            f"{shown(names[wrong])}: must be the sources, in their order"
        )
    return found


def _made(given: Any, names: Sequence[str] | None) -> Experience:
    if isinstance(given, Experience):
        return given
    if isinstance(given, dict):
        return Experience(**given)
    if isinstance(given, CrossValueEstimate):
        return estimated(given, names)
    columns = getattr(given, "columns", None)
    labels = [] if columns is None or callable(columns) else [str(label) for label in columns]
    named = not all(label.isdigit() for label in labels)
    return Experience(given, sources=labels if named else None)


def estimated(estimate: CrossValueEstimate, names: Sequence[str] | None = None) -> Experience:
    """The means of estimated cross values, with their standard errors and the spread of single returns.

    Of the policies of these names alone, where all of them are there.
    """
    arrays = np.asarray(estimate.mean), estimate.standard_error, estimate.spread
    own = list(estimate.policies)
    if not all(own) or len(set(own)) != estimate.mean.shape[1]:
        return Experience(*arrays)
    if names is None or len(set(names)) != len(names) or not set(names) <= set(own):
        return Experience(*arrays, sources=own)
    columns = [own.index(name) for name in names]
    mean, error, spread = (array[:, columns] for array in arrays)
    return Experience(mean, error, spread, sources=names)


def likeness(payoffs: FloatArray, spreads: FloatArray | None = None) -> Likeness:
    """How alike the tasks with these values [N, c] and variances of one return [N, c] are."""
    n, c = payoffs.shape
    if n < 2 or c == 0:
        return Likeness(LEAST_DEVIATION**2, 0.5, 0.5, 1.0)
    rows = np.unique(np.linspace(0, n - 1, min(n, LEFT_OUT)).astype(np.int64))
    # A task that stands there twice is found again by itself: that says nothing of how likely a new one is to be known.
    first = np.unique(payoffs[rows], axis=0, return_index=True)[1]
    rows = rows[np.sort(first)]
    nearest, found = kernels.fit_tasks(np.ascontiguousarray(payoffs), rows, 2 * ODD_DISTANCE)
    odd = found > ODD_DISTANCE
    lone = odd.mean(axis=1) > 0.5
    unlike = float(lone.sum() + 1) / (len(rows) + 2)
    small = found[~lone][~odd[~lone]]
    variance = (float((small**2).sum()) + LEAST_DEVIATION**2) / (small.size + 1.0) + LEAST_DEVIATION**2
    noise = 1.0
    if spreads is not None:
        logs = np.log(spreads + kernels.UNSEEN_NOISE)
        off = (logs[rows] - logs[nearest])[~lone][~odd[~lone]]
        noise = (float((off**2).sum()) + 1.0) / (off.size + 1.0)
    return Likeness(variance, float(odd[~lone].sum() + 1) / (odd[~lone].size + 2), unlike, noise)
