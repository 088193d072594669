"""Modules of PyTorch as policies: plain stacks of layers as arrays, all others live; torch is imported when used."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from pastmaster.arrays import Array
from pastmaster.checks import listed, whole
from pastmaster.errors import InvalidInputError
from pastmaster.policies.activations import OF_TORCH
from pastmaster.policies.head import checked_head
from pastmaster.policies.stack import Shape, actions_of
from pastmaster.tables import one_line


class TorchPolicy:
    """A live module of PyTorch as a policy; it is code, and cannot be stored: export it with ``torch.onnx.export``.

    ``NetworkPolicy.from_torch`` makes it of modules that are no plain stacks. The module is copied, and acts as in
    ``module.eval()``.

    Attributes
    ----------
    module : torch.nn.Module
        Takes observations [n, ...] and returns outputs [n, ...].

    Examples
    --------
    >>> import numpy as np
    >>> import torch  # doctest: +SKIP
    >>> from pastmaster.policies import NetworkPolicy
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2))  # doctest: +SKIP
    >>> NetworkPolicy.from_torch(net)  # doctest: +SKIP
    TorchPolicy(Sequential, live: torch.onnx.export and load_onnx make a policy that can be stored)
    """

    random = False
    name = ""  # what prints and pictures call it

    def __init__(self, module: Any, shape: Shape, limits: list[Array] | None) -> None:
        self.module = module
        self.shape = shape
        self.limits = limits

    def act(self, observations: Any) -> Array:
        """Actions [n, ...] for observations [n, ...]; those of a Dict are a list of dicts, or a dict of arrays."""
        outputs = self.outputs(observations)
        wanted = sum(self.shape.nvec) or (0 if self.limits is None else self.limits[0].size)
        if outputs.ndim < 2 or not outputs.shape[1] or (wanted and outputs[0].size != wanted):
            size = f"{wanted} numbers" if wanted else "a number to each action"
            raise InvalidInputError(
                f"act: {self.shown} gives outputs of shape {outputs.shape}, must give [n, ...] with {size} each"
            )
        actions: Array = actions_of(outputs.reshape(1, len(outputs), -1), self.shape, self.limits)[0]
        return actions

    def outputs(self, observations: Any) -> Array:
        """What the module gives [n, ...]."""
        import torch

        parts = observations
        if isinstance(observations, list) and observations and isinstance(observations[0], Mapping):
            parts = {key: [one[key] for one in observations] for key in observations[0]}
        given: Any
        if isinstance(parts, Mapping):
            given = {key: torch.as_tensor(_plain(part)) for key, part in parts.items()}
        else:
            given = torch.as_tensor(_plain(parts))
        with torch.no_grad():
            found = self.module(given)
        if not isinstance(found, torch.Tensor):
            raise InvalidInputError(
                f"act: {self.shown} gives a {type(found).__name__}, must give a tensor: wrap it in a module that does"
            )
        outputs: Array = found.to("cpu", torch.float32).numpy()
        return outputs

    @property
    def shown(self) -> str:
        return one_line(type(self.module).__name__, 60)

    def __repr__(self) -> str:
        return f"TorchPolicy({self.shown}, live: torch.onnx.export and load_onnx make a policy that can be stored)"


def live_module(module: Any, caller: str, **settings: Any) -> TorchPolicy:
    """A module that is no plain stack as a policy."""
    for name in ("one_hot", "normalise"):
        if settings.pop(name, None):
            raise InvalidInputError(
                f"{caller}: {name} is given, must be left out: the module is no plain stack, and takes observations as "
                "they are"
            )
    given: dict[str, Any] = {
        "head": "argmax",
        "start": 0,
        "nvec": (),
        "low": None,
        "high": None,
    } | settings
    nvec = [whole(caller, "nvec", n, at_least=1) for n in listed(given["nvec"], f"{caller}: nvec")]
    outputs = np.size(given["low"]) if given["head"] in ("clip", "tanh") else sum(nvec)
    limits = checked_head(caller, given["head"], outputs, given["start"], nvec, given["low"], given["high"])
    box = () if limits is None else limits[0].shape
    shape = Shape((), "", given["head"], False, int(given["start"]), tuple(nvec), box)
    return TorchPolicy(module, shape, None if limits is None else [limit[None, None] for limit in limits])


def _plain(part: Any) -> Array:
    """Observations as torch takes them: floats as float32."""
    array = np.ascontiguousarray(part)
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def is_module(value: Any) -> bool:
    """Whether this is a module of torch; torch is not imported for that."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def copied(module: Any, caller: str) -> Any:
    """A copy of a module on the CPU that does not learn."""
    if not is_module(module):
        raise InvalidInputError(f"{caller}: module is {one_line(repr(module), 80)}, must be a torch.nn.Module")
    return copy.deepcopy(module).to("cpu").eval()


def known_activations() -> dict[str, str]:
    """Our names of activations by how torch prints them with its default constants."""
    import torch

    return {repr(getattr(torch.nn, name)()): ours for name, ours in OF_TORCH.items()}


def stack_of(module: Any) -> tuple[list[tuple[Array, Array]], list[str]] | None:
    """The linear layers of a plain stack and the activation after each; None of a module that is something else."""
    import torch

    parts = _leaves(module)
    known = known_activations()
    if parts is None:
        return None
    layers: list[tuple[Array, Array]] = []
    after: list[str] = []
    for part in parts:
        if type(part) is torch.nn.Linear:
            bias = torch.zeros(part.out_features) if part.bias is None else part.bias
            layers.append((_numbers(part.weight), _numbers(bias)))
            after.append("identity")
        elif type(part) is torch.nn.Flatten and not layers:
            if (part.start_dim, part.end_dim) != (1, -1):
                return None
        elif layers and after[-1] == "identity" and repr(part) in known:
            after[-1] = known[repr(part)]
        elif type(part) is not torch.nn.Dropout:  # which does nothing in eval()
            return None
    return (layers, after) if layers else None


def _numbers(tensor: Any) -> Array:
    array: Array = tensor.detach().float().numpy().copy()
    return array


def _leaves(module: Any) -> list[Any] | None:
    """The modules of a stack, also of stacks in it, in their order; None where one has hooks or code of its own."""
    import torch

    hooks = ("_forward_hooks", "_forward_pre_hooks")
    if not type(module).__module__.startswith("torch.nn.modules.") or any(getattr(module, hook) for hook in hooks):
        return None
    if type(module) is not torch.nn.Sequential:
        return [module]
    inner = [_leaves(part) for part in module]
    return None if any(part is None for part in inner) else [leaf for part in inner for leaf in part or ()]
