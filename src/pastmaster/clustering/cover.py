"""The fewest cells whose radii stay within a limit: a minimum dominating set, solved by HiGHS."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray
from pastmaster.errors import InvalidInputError


def fewest_labels(
    distance: FloatArray, max_radius: float, directed: bool, seconds: float
) -> tuple[npt.NDArray[np.int32], int]:
    """Labels of a clustering with the fewest cells of radius at most ``max_radius``, and a bound on how few can do.

    The two agree when HiGHS finishes within ``seconds``. Each task joins the kept policy it loses least by, a kept task
    itself in the symmetric case.
    """
    from scipy import optimize, sparse

    covers = distance <= max_radius
    if not covers.any(axis=1).all():
        i = int(np.flatnonzero(~covers.any(axis=1))[0])
        raise InvalidInputError(
            f"search_clusterings: max_radius is {max_radius:g}, but task {i} loses at least {distance[i].min():g} "
            "under every policy"
        )
    n_centres = distance.shape[1]
    result = optimize.milp(
        np.ones(n_centres),
        constraints=optimize.LinearConstraint(sparse.csr_array(covers.astype(float)), 1.0, np.inf),
        integrality=np.ones(n_centres),
        bounds=optimize.Bounds(0.0, 1.0),
        options={"time_limit": max(seconds, 0.1)},
    )
    kept = _greedy_cover(covers) if result.x is None else np.flatnonzero(result.x > 0.5)
    if not covers[:, kept].any(axis=1).all():  # HiGHS ran out of time on the way
        kept = _greedy_cover(covers)
    bound = 1 if result.mip_dual_bound is None else int(np.ceil(result.mip_dual_bound - 1e-6))
    labels = distance[:, kept].argmin(axis=1).astype(np.int32)
    if not directed:
        labels[kept] = np.arange(len(kept))  # a kept task leads its own cell, even where it has a twin
    return labels, min(bound, len(kept))


def _greedy_cover(covers: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Policies taken one by one, each the one that covers most of what is left."""
    left, kept = np.ones(len(covers), np.bool_), []
    while left.any():
        kept.append(int(covers[left].sum(axis=0).argmax()))
        left &= ~covers[:, kept[-1]]
    return np.array(kept)
