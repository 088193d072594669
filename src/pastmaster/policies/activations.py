"""Activations of hidden layers, by torch's names in small letters and with torch's default constants."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pastmaster.arrays import Array


def relu(x: Array) -> Array:
    """max(x, 0)."""
    return np.maximum(x, np.float32(0))


def leaky_relu(x: Array) -> Array:
    """x, below 0 a hundredth of it."""
    return np.where(x >= 0, x, x * np.float32(0.01))


def elu(x: Array) -> Array:
    """x, below 0 exp(x) - 1."""
    return np.where(x > 0, x, np.expm1(np.minimum(x, np.float32(0))))


def selu(x: Array) -> Array:
    """elu with the two constants of self-normalising networks."""
    scale = np.float32(1.0507009873554805)
    alpha = np.float32(1.0507009873554805 * 1.6732632423543772)
    return np.where(x > 0, scale * x, alpha * np.expm1(np.minimum(x, np.float32(0))))


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    from scipy.special import expit  # slow to load

    values: Array = expit(x)
    return values


def silu(x: Array) -> Array:
    """x sigmoid(x)."""
    return x * sigmoid(x)


def gelu(x: Array) -> Array:
    """x times the normal distribution function at x."""
    from scipy.special import erf  # slow to load

    chances: Array = np.float32(0.5) * (1 + erf(x * np.float32(np.sqrt(0.5))))
    return x * chances


def softplus(x: Array) -> Array:
    """log(1 + exp(x))."""
    values: Array = np.logaddexp(x, np.float32(0))
    return values


def mish(x: Array) -> Array:
    """x tanh(softplus(x))."""
    return x * np.tanh(softplus(x))


def identity(x: Array) -> Array:
    """x."""
    return x


_KINDS: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "Tanh": ("tanh", np.tanh),
    "ReLU": ("relu", relu),
    "LeakyReLU": ("leaky_relu", leaky_relu),
    "ELU": ("elu", elu),
    "SELU": ("selu", selu),
    "Sigmoid": ("sigmoid", sigmoid),
    "SiLU": ("silu", silu),
    "GELU": ("gelu", gelu),
    "Softplus": ("softplus", softplus),
    "Mish": ("mish", mish),
    "Identity": ("identity", identity),
}

ACTIVATIONS: dict[str, Callable[[Array], Array]] = dict(_KINDS.values())
OF_TORCH = {kind: name for kind, (name, _) in _KINDS.items()}
"""The classes of torch.nn that these are."""
