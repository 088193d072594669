"""Parameter trees of Flax, Haiku and other JAX libraries as layers: nested dicts of arrays; jax is not imported."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice, pairwise, permutations
from typing import Any

import numpy as np

from pastmaster.arrays import Array, as_array
from pastmaster.checks import listed, mapping
from pastmaster.errors import InvalidInputError
from pastmaster.tables import shown

KERNELS = ("kernel", "w")  # Flax's and Haiku's names
BIASES = ("bias", "b")
DEEPEST = 20
MOST_UNNUMBERED = 8  # layers whose order is looked for
EXPORT = "export the policy to ONNX for load_onnx"
Layer = tuple[Array, Array]


def layers_of(tree: Any, order: Any, caller: str) -> list[Layer]:
    """The layers of a tree as weights [out, in] and biases [out], in the order told, or the only one there can be."""
    found = _found(tree, f"{caller}: tree", ())
    if not found:
        raise InvalidInputError(f"{caller}: tree has no layers, must have a kernel and a bias to each")
    if order is not None:
        names = listed(order, f"{caller}: layers", "the names of layers, in their order")
        if sorted(map(str, names)) != sorted(found):
            raise InvalidInputError(f"{caller}: layers is {shown(names)}, must name each of {shown(sorted(found))}")
        return [found[str(name)] for name in names]
    return [found[name] for name in _order(found, caller)]


def _found(tree: Any, place: str, path: tuple[str, ...]) -> dict[str, Layer]:
    """The layers below a branch, by their path."""
    branch = mapping(tree, place, "a mapping of layers")
    if len(path) > DEEPEST:
        raise InvalidInputError(f"{place} is nested more than {DEEPEST} deep, must be layers by name")
    leaves = {str(key) for key, value in branch.items() if not isinstance(value, Mapping)}
    if leaves & {*KERNELS, *BIASES}:
        name = "/".join(path[1:] if path[:1] == ("params",) else path)
        return {name: _layer({str(key): value for key, value in branch.items()}, place)}
    found: dict[str, Layer] = {}
    for key, inner in branch.items():
        if not isinstance(inner, Mapping):
            raise InvalidInputError(
                f"{place} holds {shown(str(key))}, must hold layers of a kernel and a bias alone: {EXPORT}"
            )
        found |= _found(inner, f"{place}[{key!r}]", (*path, str(key)))
    return found


def _layer(branch: Mapping[str, Any], place: str) -> Layer:
    """Flax's kernel [in, out] and bias [out], as torch keeps them; without a bias it is 0."""
    kernels = [branch[key] for key in KERNELS if key in branch]
    if len(kernels) != 1 or not set(branch) <= {*KERNELS, *BIASES}:
        raise InvalidInputError(f"{place} holds {shown(sorted(branch))}, must hold a kernel and a bias alone: {EXPORT}")
    weights = as_array(kernels[0], f"{place}: kernel", None)
    if weights.ndim != 2:
        raise InvalidInputError(f"{place}: kernel has shape {weights.shape}, must be [in, out]: {EXPORT}")
    biases = next((branch[key] for key in BIASES if key in branch), None)
    return weights.T, np.zeros(weights.shape[1]) if biases is None else as_array(biases, f"{place}: bias", None)


def _order(found: Mapping[str, Layer], caller: str) -> list[str]:
    """The order of layers: by number where they are numbered alike, otherwise the only one in which sizes fit."""
    numbered = [re.fullmatch(r"(.*?)(\d+)", name) for name in found]
    stems = {match[1] for match in numbered if match}
    if all(numbered) and len(stems) == 1:
        return sorted(found, key=lambda name: int(re.findall(r"\d+", name)[-1]))
    orders: list[Any] = []
    if len(found) <= MOST_UNNUMBERED:
        orders = list(islice(filter(lambda order: _fits(found, order), permutations(found)), 2))
    if len(orders) != 1:
        ways = "in no order" if not orders else "in several orders"
        raise InvalidInputError(
            f"{caller}: tree has the layers {shown(sorted(found))}, whose sizes fit {ways}, must be one network: pass "
            "its part of the tree alone, or layers=[...], their names in order"
        )
    return list(orders[0])


def _fits(found: Mapping[str, Layer], order: Sequence[str]) -> bool:
    """Whether each layer takes what the one before it gives."""
    return all(len(found[one][1]) == found[then][0].shape[1] for one, then in pairwise(order))
