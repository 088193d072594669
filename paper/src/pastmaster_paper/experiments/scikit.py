"""What is taken from scikit-learn: the Dirichlet-process mixture and the adjusted Rand index."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from pastmaster import InvalidInputError
from pastmaster_paper.arrays import FloatArray

MOST_COMPONENTS, LOCAL_WIDTH = 20, 0.1
SQUARE_VARIANCE = 1 / 12  # of a uniform coordinate
SETTINGS = (MOST_COMPONENTS, LOCAL_WIDTH)


def check() -> None:
    """Raise if scikit-learn is missing."""
    _module("mixture")


def _module(name: str) -> Any:
    try:
        return import_module(f"sklearn.{name}")
    except ImportError as error:
        raise InvalidInputError(
            f"reproduce: the mixture and the Rand index need scikit-learn ({error}): pip install scikit-learn"
        ) from None


def fit_mixture(weights: FloatArray, rng: np.random.Generator, *, local: bool) -> Any:
    """A Dirichlet-process Gaussian mixture fitted to points of the unit square [n, 2].

    The local prior has concentration 1, components LOCAL_WIDTH wide, and means spread as a uniform point is.
    """
    mixture = _module("mixture").BayesianGaussianMixture(
        n_components=MOST_COMPONENTS,
        weight_concentration_prior_type="dirichlet_process",
        weight_concentration_prior=1.0 if local else None,
        covariance_prior=LOCAL_WIDTH**2 * np.eye(2) if local else None,
        mean_precision_prior=LOCAL_WIDTH**2 / SQUARE_VARIANCE if local else None,
        max_iter=20_000,
        n_init=3,
        random_state=int(rng.integers(2**31)),
    )
    return mixture.fit(weights)


def adjusted_rand(labels: npt.ArrayLike, others: npt.ArrayLike) -> float:
    """How far two partitions agree: 1 if they are the same, about 0 if by chance."""
    return float(_module("metrics").adjusted_rand_score(labels, others))
