"""A Stable-Baselines3 .zip as data: its JSON without the pickles in it, its weights as plain arrays.

Such a file holds ``data`` (JSON; what JSON cannot say is a pickle in base64, beside a readable description) and
``policy.pth`` (a torch archive of tensors). The pickles are never looked at; torch reads with ``weights_only=True``,
which makes nothing but tensors. Sizes are checked before memory is taken.
"""

from __future__ import annotations

import io
import math
import re
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from pastmaster.arrays import Array
from pastmaster.errors import InvalidInputError
from pastmaster.files import from_json
from pastmaster.npy import read_zip
from pastmaster.tables import one_line

SAVED = "a .zip file that a model of Stable-Baselines3 saved"
LIMITS = {"data": 2**26, "policy.pth": 2**30}  # bytes of the JSON and of the weights


def read_model(path: Path, place: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """The JSON of a Stable-Baselines3 .zip and its policy's state by name; errors begin with ``place``."""
    members = read_zip(path, place, LIMITS, kind=SAVED)
    for name in LIMITS:
        if name not in members:
            raise InvalidInputError(f"{place} is a zip file without {name!r}, which every model has, must be {SAVED}")
    data = from_json(members["data"], f"{place}: data")
    if not isinstance(data, dict):
        raise InvalidInputError(f"{place}: data is a {type(data).__name__}, must be a dict")
    return data, _tensors(members["policy.pth"], place)


def _tensors(raw: bytes, place: str) -> dict[str, Array]:
    """The tensors of a torch archive as float32 arrays."""
    try:
        import torch
    except ImportError:
        raise InvalidInputError(f"{place}: reading weights needs torch: pip install torch") from None
    what = f"{place}: policy.pth is not an archive of tensors alone"
    if not raw.startswith(b"PK\x03\x04"):  # torch looks at the beginning, zipfile at the end
        raise InvalidInputError(what)
    read_zip(raw, f"{place}: policy.pth", {}, stored=True, kind="an archive of tensors alone")  # as torch writes it
    try:
        state = torch.load(io.BytesIO(raw), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises anything on a file that is not its own
        raise InvalidInputError(f"{what}: {one_line(str(error), 200)}") from None
    room = len(raw)  # a tensor may be a small one seen many times, by a stride of 0
    arrays = {}
    for name, tensor in state.items() if isinstance(state, dict) else [("", state)]:
        dense = isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided and tensor.device.type == "cpu"
        if not dense or not tensor.is_floating_point() or 2 * tensor.numel() > room:
            kind = getattr(tensor, "dtype", type(tensor).__name__)
            raise InvalidInputError(
                f"{place}: policy.pth[{str(name)[:80]!r}] is {kind}, must be a dense tensor of floats that the file "
                "has room for"
            )
        room -= 2 * tensor.numel()
        arrays[str(name)] = np.array(tensor.detach().to(torch.float32).numpy())
    return arrays


class Space(NamedTuple):
    """As much of a space as a policy depends on. ``low`` and ``high`` are of a Box; None where they are not known."""

    kind: str
    shape: tuple[int, ...] = ()
    n: int = 0
    nvec: tuple[int, ...] = ()
    low: Array | None = None
    high: Array | None = None
    dtype: str = ""

    @property
    def is_image(self) -> bool:
        """Whether Stable-Baselines3 may take it for an image, which it divides by 255 and transposes."""
        return self.kind == "Box" and len(self.shape) == 3 and self.dtype == "uint8"


def space_of(space: gym.Space[Any], place: str) -> Space:
    """A live space."""
    start = np.asarray(getattr(space, "start", 0))
    if isinstance(space, gym.spaces.Box):
        return Space("Box", space.shape, low=space.low, high=space.high, dtype=str(space.dtype))
    if isinstance(space, gym.spaces.Discrete) and not start.any():
        return Space("Discrete", n=int(space.n))
    if isinstance(space, gym.spaces.MultiDiscrete) and not start.any() and space.nvec.ndim == 1:
        return Space("MultiDiscrete", nvec=tuple(space.nvec.tolist()))
    raise InvalidInputError(f"{place} is {space}, must be a Box, or Discrete or MultiDiscrete from 0")


def space_in(data: dict[str, Any], key: str, place: str) -> Space:
    """A space as the readable part of ``data`` describes it."""
    described: Any = data.get(key)
    type_name = described.get(":type:") if isinstance(described, dict) else None
    kind = re.fullmatch(r"<class 'gym(?:nasium)?\.spaces\.\w+\.(\w+)'>", str(type_name))
    try:
        if kind and kind[1] == "Box":
            key_of_shape = "_shape" if "_shape" in described else "shape"  # the second is of older versions of gym
            shape = tuple(int(n) for n in described[key_of_shape])
            low, high = (_printed(described[side], shape) for side in ("low", "high"))
            return Space("Box", shape, low=low, high=high, dtype=str(described["dtype"]))
        if kind and kind[1] == "Discrete" and int(described.get("start", 0)) == 0:
            return Space("Discrete", n=int(described["n"]))
        if kind and kind[1] == "MultiDiscrete" and not re.search("[1-9]", str(described.get("start", 0))):
            return Space(
                "MultiDiscrete",
                nvec=tuple(int(n) for n in str(described["nvec"]).strip("[]").split()),
            )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        pass
    found = f"a {kind[1]}" if kind else "not described"
    raise InvalidInputError(
        f"{place}: {key} is {found}, must be a readable Box, or Discrete or MultiDiscrete from 0: pass {key}=..."
    )


def _printed(text: Any, shape: tuple[int, ...]) -> Array | None:
    """The numbers of a printed array; None where they may not be all, or may have been rounded.

    NumPy prints 8 decimals, unless the program that saved the file asked for fewer. So whole numbers are taken as they
    are, and so are numbers among which one has 6 decimals or more; with 1 to 5 decimals there is no telling.
    """
    words = str(text).replace("[", " ").replace("]", " ").split()
    if len(words) != math.prod(shape) or "..." in words:
        return None
    decimals = max((len(word.partition("e")[0].partition(".")[2]) for word in words), default=0)
    if 1 <= decimals <= 5:
        return None
    numbers = np.array([float(word) for word in words])
    return None if np.isnan(numbers).any() else numbers.reshape(shape)
