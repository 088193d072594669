"""A policy that is a multilayer perceptron, all of it data: settings as plain JSON values, weights as a flat array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import Array, as_array, sealed
from pastmaster.checks import called_as, chosen, flag, known_options, listed, whole
from pastmaster.errors import InvalidInputError
from pastmaster.policies.activations import ACTIVATIONS
from pastmaster.policies.head import checked_head, limit_from_plain, plain_limit
from pastmaster.policies.normalisation import checked_normalisation, constants, plain_normalisation
from pastmaster.policies.parameter_tree import layers_of
from pastmaster.policies.stack import NetworkStack, Shape
from pastmaster.policies.torch_module import TorchPolicy, copied, live_module, stack_of
from pastmaster.tables import shown

KEYS = ("sizes", "activation", "head", "start", "nvec", "low", "high", "one_hot", "normalise")
SETTINGS = ("head", "start", "nvec", "low", "high", "one_hot", "normalise")


class NetworkPolicy:
    """A multilayer perceptron as a policy, evaluated with NumPy.

    Parameters
    ----------
    layers : sequence of pairs of arrays
        Weights [out, in] and biases [out] of each linear layer, as torch keeps them.
    activation : str or sequence of str
        What stands between layers: "tanh", "relu", "leaky_relu", "elu", "selu", "sigmoid", "silu", "gelu",
        "softplus", "mish" or "identity". A sequence has one to each layer, after it, also after the last.
    head : "argmax", "argmaxes", "clip" or "tanh"
        How outputs become actions: the largest (Discrete), the largest of each part (MultiDiscrete), clipped to
        ``low`` .. ``high``, or squashed into it by tanh (Box).
    start : int
        The first action of a Discrete space.
    nvec : sequence of int
        The sizes of a MultiDiscrete space.
    low, high : array, optional
        The limits of a Box of actions.
    one_hot : bool
        Whether observations are Discrete, and encoded one-hot.
    normalise : mapping, optional
        "mean", "var", and perhaps "epsilon" (1e-8) and "clip" (10): the network then sees
        clip((observation - mean) / sqrt(var + epsilon), -clip, clip).

    Raises
    ------
    InvalidInputError
        The parts do not fit together.

    Examples
    --------
    >>> from pastmaster.policies import NetworkPolicy
    >>> policy = NetworkPolicy([([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0])])
    >>> policy.act([[0.2, 0.7], [0.9, 0.1]]).tolist()
    [1, 0]
    """

    random = False
    name = ""  # what prints and pictures call it: of one that was loaded, the name of its file

    def __init__(
        self,
        layers: Sequence[tuple[npt.ArrayLike, npt.ArrayLike]],
        *,
        activation: str | Sequence[str] = "tanh",
        head: str = "argmax",
        start: int = 0,
        nvec: Sequence[int] = (),
        low: npt.ArrayLike | None = None,
        high: npt.ArrayLike | None = None,
        one_hot: bool = False,
        normalise: Mapping[str, Any] | None = None,
    ) -> None:
        caller = "NetworkPolicy"
        arrays = _checked_layers(caller, layers)
        sizes = (arrays[0][0].shape[1], *(len(biases) for _, biases in arrays))
        between = _checked_activation(caller, activation, len(arrays))
        limits = checked_head(caller, head, sizes[-1], start, nvec, low, high)
        if flag(caller, "one_hot", one_hot) and normalise is not None:
            raise InvalidInputError(f"{caller}: one_hot is True, must be False with normalise")
        box = () if limits is None else limits[0].shape
        self.normalise = None if normalise is None else checked_normalisation(caller, normalise, sizes[0])
        normal = None
        if self.normalise is not None:
            mean, deviation, clip = constants(self.normalise)
            normal = [mean[None, None], deviation[None, None], np.full((1, 1, 1), clip)]
        self.stack = NetworkStack(
            Shape(sizes, between, head, bool(one_hot), int(start), tuple(map(int, nvec)), box),
            [sealed(weights.T)[None] for weights, _ in arrays],
            [biases[None] for _, biases in arrays],
            None if limits is None else [limit[None, None] for limit in limits],
            normal,
        )

    def act(self, observations: Any) -> Array:
        """Actions [n, ...] for observations [n, ...]."""
        actions: Array = self.stack.act(as_array(observations, "act: observations", None)[None])[0]
        return actions

    def outputs(self, observations: Any) -> Array:
        """What the last layer gives [n, out], before the head: the logits or values of actions, or their mean."""
        outputs: Array = self.stack.outputs(as_array(observations, "outputs: observations", None)[None])[0]
        return outputs

    def __repr__(self) -> str:
        return f"NetworkPolicy({self.stack.shape}{', normalised' if self.normalise else ''})"

    @cached_property
    def weights(self) -> npt.NDArray[np.float32]:
        """All weights and biases in one flat array: of each layer the weights [out, in], then the biases."""
        parts = zip(self.stack.weights, self.stack.biases, strict=True)
        return sealed(np.concatenate([part for w, b in parts for part in (w[0].T.ravel(), b[0])]))

    @property
    def settings(self) -> dict[str, Any]:
        """All else, as plain JSON values; a limit that is infinite is None."""
        shape = self.stack.shape
        limits = self.stack.limits
        low, high = (None, None) if limits is None else (plain_limit(limit[0, 0]) for limit in limits)
        return {
            "sizes": list(shape.sizes),
            "head": shape.head,
            "start": shape.start,
            "nvec": list(shape.nvec),
            "low": low,
            "activation": shape.activation if isinstance(shape.activation, str) else list(shape.activation),
            "high": high,
            "one_hot": shape.one_hot,
            "normalise": plain_normalisation(self.normalise),
        }

    @classmethod
    def from_torch(cls, module: Any, **settings: Any) -> NetworkPolicy | TorchPolicy:
        """The policy of a module of PyTorch: as data where it is a plain stack, otherwise live.

        A plain stack is ``Linear`` layers and activations with torch's default constants in ``Sequential``, nested or
        not. Its weights are copied. Other modules are copied whole; a live policy acts
        everywhere, but cannot be stored: ``torch.onnx.export`` and ``load_onnx`` make one that can.

        Parameters
        ----------
        module : torch.nn.Module
            Takes observations [n, ...] and gives outputs [n, out].
        **settings
            ``head``, ``start``, ``nvec``, ``low`` and ``high``, as for ``NetworkPolicy``; of a plain stack also
            ``one_hot`` and ``normalise``.

        Returns
        -------
        NetworkPolicy or TorchPolicy

        Examples
        --------
        >>> from torch import nn  # doctest: +SKIP
        >>> NetworkPolicy.from_torch(nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2)))  # doctest: +SKIP
        NetworkPolicy(4 - 64 - 2, tanh, argmax)
        """
        caller = "NetworkPolicy.from_torch"
        known_options(caller, settings, SETTINGS)
        own = copied(module, caller)
        stack = stack_of(own)
        if stack is None:
            return live_module(own, caller, **settings)
        with called_as(caller):
            return cls(stack[0], activation=stack[1], **settings)

    @classmethod
    def from_params(cls, tree: Any, *, layers: Sequence[str] | None = None, **settings: Any) -> NetworkPolicy:
        """The policy of a tree of parameters, as Flax and Haiku keep them; jax is not needed.

        Parameters
        ----------
        tree : nested mapping
            Layers by name, each with a ``kernel`` [in, out] and perhaps a ``bias`` [out] (Flax), or ``w`` and ``b``
            (Haiku): the network that acts, without a critic beside it.
        layers : sequence of str, optional
            The names of the layers in their order ("encoder/Dense_0"), where they are not numbered alike and their
            sizes fit in several orders.
        **settings
            ``activation`` ("tanh" by default), ``head``, ``start``, ``nvec``, ``low``, ``high``, ``one_hot`` and
            ``normalise``, as for ``NetworkPolicy``.

        Examples
        --------
        >>> import numpy as np
        >>> from pastmaster.policies import NetworkPolicy
        >>> tree = {"params": {"Dense_0": {"kernel": np.eye(2), "bias": np.zeros(2)}, "Dense_1": {"kernel": np.eye(2)}}}
        >>> NetworkPolicy.from_params(tree, activation="relu")
        NetworkPolicy(2 - 2 - 2, relu, argmax)
        """
        caller = "NetworkPolicy.from_params"
        known_options(caller, settings, ("activation", *SETTINGS))
        with called_as(caller):
            return cls(layers_of(tree, layers, caller), **settings)

    @classmethod
    def from_data(cls, settings: Mapping[str, Any], weights: npt.ArrayLike) -> NetworkPolicy:
        """The policy whose properties ``settings`` and ``weights`` gave these."""
        caller = "NetworkPolicy.from_data"
        if not isinstance(settings, Mapping) or set(settings) != set(KEYS):
            raise InvalidInputError(f"{caller}: settings is not a dict of {', '.join(KEYS)}, must be")
        try:
            return cls._of_data(dict(settings), as_array(weights, f"{caller}: weights", None))
        except InvalidInputError:
            raise
        except (LookupError, TypeError, ValueError) as error:  # of settings that no network has
            raise InvalidInputError(f"{caller}: settings must be those of a network: {shown(error)}") from None

    @classmethod
    def _of_data(cls, settings: dict[str, Any], flat: Array) -> NetworkPolicy:
        caller = "NetworkPolicy.from_data"
        sizes = [whole(caller, "sizes", size, at_least=1) for size in settings.pop("sizes")]
        ends = np.cumsum([(m + 1) * d for m, d in pairwise(sizes)])
        if flat.dtype != np.float32 or flat.shape != (ends[-1],):
            raise InvalidInputError(
                f"{caller}: weights have shape {flat.shape} and dtype {flat.dtype}, "
                f"must be [{ends[-1]}] float32 for layers of {sizes}"
            )
        parts = zip(np.split(flat, ends[:-1]), sizes[1:], strict=True)
        settings["low"] = limit_from_plain(settings["low"], -np.inf)
        settings["high"] = limit_from_plain(settings["high"], np.inf)
        return cls([(part[:-d].reshape(d, -1), part[-d:]) for part, d in parts], **settings)


def _checked_activation(caller: str, activation: Any, n: int) -> str | tuple[str, ...]:
    """One activation between all layers, or one after each of n; those that come to the same are the same."""
    if isinstance(activation, str):
        return chosen(caller, "activation", activation, ACTIVATIONS)
    names = [chosen(caller, "activation", name, ACTIVATIONS) for name in listed(activation, f"{caller}: activation")]
    if len(names) != n:
        raise InvalidInputError(f"{caller}: activation is {shown(names)}, must be one name, or {n}: one to each layer")
    if names[-1] == "identity" and len(set(names[:-1])) <= 1:
        return names[0] if n > 1 else "tanh"
    return tuple(names)


def _checked_layers(caller: str, layers: Any) -> list[tuple[Array, Array]]:
    """Weights [out, in] and biases [out] of each layer; each takes what the one before it gives."""
    found: list[tuple[Array, Array]] = []
    for k, layer in enumerate(listed(layers, f"{caller}: layers")):
        place = f"{caller}: layers[{k}]"
        parts = listed(layer, place, "weights [out, in] and biases [out]")
        if len(parts) != 2:
            raise InvalidInputError(f"{place} must be weights [out, in] and biases [out]")
        with np.errstate(over="ignore"):
            weights, biases = (np.ascontiguousarray(as_array(part, place, "iuf"), np.float32) for part in parts)
        if weights.ndim != 2 or 0 in weights.shape or biases.shape != weights.shape[:1]:
            raise InvalidInputError(
                f"{place} has shapes {weights.shape} and {biases.shape}, must be [out, in] and [out]"
            )
        if not (np.isfinite(weights).all() and np.isfinite(biases).all()):
            raise InvalidInputError(f"{place} has numbers that are not finite, all must be")
        if found and weights.shape[1] != len(found[-1][1]):
            raise InvalidInputError(f"{place} takes {weights.shape[1]} numbers, must take {len(found[-1][1])}")
        found.append((sealed(weights), sealed(biases.copy())))
    if not found:
        raise InvalidInputError(f"{caller}: layers is empty, must have at least one")
    return found
