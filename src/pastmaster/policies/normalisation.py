"""Observation normalisation as Stable-Baselines3's VecNormalize does it, as plain numbers."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pastmaster.arrays import Array, sealed
from pastmaster.checks import within
from pastmaster.errors import InvalidInputError
from pastmaster.files import checked_file, read_whole
from pastmaster.npy import read_npz
from pastmaster.policies.head import numbers_of

Normalise = Mapping[str, Any] | str | os.PathLike[str] | Literal[False] | None

HOW_TO_GIVE = (
    "pass normalise=False (--no-normalise), or its mean and var: "
    "normalise=pastmaster.policies.normalisation_of(vec_normalize) "
    "(--normalise FILE)"
)
KNOWN = ("mean", "var", "epsilon", "clip")
LARGEST_PICKLE = 2**30


def normalisation_of(vec_normalize: Any) -> dict[str, Any]:
    """How a live ``VecNormalize`` normalises observations, as plain numbers.

    ``np.savez(path, **normalisation_of(wrapper))`` keeps them in a file that ``load_sb3(normalise=path)`` reads
    without unpickling anything.

    Parameters
    ----------
    vec_normalize : stable_baselines3.common.vec_env.VecNormalize
        The wrapper; it must normalise observations.

    Returns
    -------
    dict
        "mean" and "var" (arrays), "epsilon" and "clip" (numbers).

    Examples
    --------
    >>> import numpy as np
    >>> from types import SimpleNamespace as Stub  # in place of a trained VecNormalize
    >>> from pastmaster.policies import normalisation_of
    >>> statistics = Stub(mean=np.zeros(2), var=np.ones(2))
    >>> normalisation_of(Stub(obs_rms=statistics, norm_obs=True, epsilon=1e-8, clip_obs=10.0))["clip"]
    10.0
    """
    statistics: Any = getattr(vec_normalize, "obs_rms", None)
    if not getattr(vec_normalize, "norm_obs", False) or not hasattr(statistics, "mean"):
        raise InvalidInputError(
            f"normalisation_of: vec_normalize is {vec_normalize!r}, must be a VecNormalize that normalises "
            "observations of a Box"
        )
    return {
        "mean": statistics.mean.copy(),
        "var": statistics.var.copy(),
        "epsilon": float(vec_normalize.epsilon),
        "clip": float(vec_normalize.clip_obs),
    }


def given_normalisation(normalise: Any, size: int, caller: str, *, trust: bool = False) -> dict[str, Any] | None:
    """The argument ``normalise``, checked: a dict of numbers, or None for none."""
    if normalise is None or normalise is False:
        return None
    if isinstance(normalise, str | os.PathLike):
        path = Path(normalise)
        checked_file(
            f"{caller}: normalise",
            path,
            "an .npz file of mean and var, or a saved VecNormalize (.pkl)",
        )
        if path.suffix == ".pkl" and not trust:
            raise InvalidInputError(
                f"{caller}: normalise is {path.name!r}, a pickle, which may run code, must be an .npz: "
                "np.savez(path, **normalisation_of(vec_normalize)), or pass trust=True (--trust)"
            )
        if path.suffix == ".pkl":
            normalise = _pickled(path, caller)
        else:
            normalise = _read(path, f"{caller}: normalise {path.name}", size)
    return checked_normalisation(caller, normalise, size)


def _read(path: Path, place: str, size: int) -> dict[str, Any]:
    """The numbers of an .npz file of statistics."""
    arrays = read_npz(path, place)
    for name, array in arrays.items():
        if name not in KNOWN or array.size not in (1, size):
            raise InvalidInputError(
                f"{place} holds {name!r} of shape {array.shape}, must hold mean and var of {size} numbers each, "
                "and perhaps epsilon and clip"
            )
    return {key: array if array.ndim else array.item() for key, array in arrays.items()}


def _pickled(path: Path, caller: str) -> dict[str, Any]:
    """The numbers of a saved VecNormalize; only for a file that is trusted, since unpickling runs code in it."""
    import pickle

    try:
        found = pickle.loads(read_whole(path, LARGEST_PICKLE, f"{caller}: normalise {path.name}"))
    except InvalidInputError:
        raise
    except Exception as error:  # what a pickle runs may raise anything
        raise InvalidInputError(f"{caller}: normalise {path.name} cannot be unpickled: {error!r}") from None
    return normalisation_of(found)


def checked_normalisation(caller: str, normalise: Any, size: int) -> dict[str, Any]:
    """mean, var [size], epsilon and clip; the last two have VecNormalize's defaults."""
    if not isinstance(normalise, Mapping) or not {"mean", "var"} <= set(normalise) <= set(KNOWN):
        raise InvalidInputError(f"{caller}: normalise must be a dict of mean and var, and perhaps epsilon and clip")
    mean, var = (
        sealed(numbers_of(caller, f"normalise[{key!r}]", normalise[key], size).astype(np.float64).ravel())
        for key in ("mean", "var")
    )
    if not (np.isfinite(mean).all() and np.isfinite(var).all() and (var >= 0).all()):
        raise InvalidInputError(f"{caller}: normalise must have finite numbers, those of var not below 0")
    epsilon = within(caller, "normalise['epsilon']", normalise.get("epsilon", 1e-8), 0.0, math.inf)
    clip = within(caller, "normalise['clip']", normalise.get("clip", 10.0), 0.0, math.inf)
    if epsilon == 0 and not var.all():
        raise InvalidInputError(f"{caller}: normalise has var 0 and epsilon 0, must not divide by 0")
    return {"mean": mean, "var": var, "epsilon": epsilon, "clip": clip}


def plain_normalisation(normalise: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A checked normalisation as plain JSON values."""
    if normalise is None:
        return None
    return {key: np.asarray(value).tolist() for key, value in normalise.items()}


def constants(normalise: Mapping[str, Any]) -> tuple[Array, Array, float]:
    """Mean, deviation and clip of a checked normalisation."""
    return normalise["mean"], np.sqrt(normalise["var"] + normalise["epsilon"]), normalise["clip"]


def normalised(observations: Array, mean: Array, deviation: Array, clip: Any) -> Array:
    """Flat observations [..., in] as VecNormalize gives them to a network, in float64."""
    values: Array = np.clip((observations - mean) / deviation, -clip, clip)
    return values


def normalised_batch(observations: Array, normalise: Mapping[str, Any] | None) -> Array:
    """Observations [n, ...] of any shape, normalised where ``normalise`` is given."""
    if normalise is None:
        return observations
    flat = observations.reshape(len(observations), -1)
    return normalised(flat, *constants(normalise)).reshape(observations.shape)
