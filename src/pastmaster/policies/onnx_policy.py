"""A policy that is an ONNX file: a graph that any framework exported, run by onnxruntime, all of it data."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from pastmaster.arrays import Array, as_array
from pastmaster.checks import chosen, mapping
from pastmaster.errors import InvalidInputError
from pastmaster.policies.batch import by_part
from pastmaster.policies.network import checked_normalisation
from pastmaster.policies.onnx_graph import Graph, Tensor, read_graph
from pastmaster.policies.onnx_run import Session, tried_out
from pastmaster.policies.onnx_spaces import (
    LAYOUTS,
    WHOLE,
    Actions,
    Part,
    actions_of,
    matched,
    parts_of,
    space_from,
)
from pastmaster.tables import one_line, shown

LARGEST_FILE = 2**28  # bytes: a repository stores it whole
MOST_STATE = 2**24  # numbers of recurrent state
MOST_PARTS = 1000  # of a Dict observation
KIND = "a file in the ONNX format"
KEYS = ("observations", "actions", "inputs", "output", "state", "layout", "normalise")
State = dict[str, Array]


class OnnxPolicy:
    """The policy of an ONNX file; ``load_onnx`` makes it.

    It acts on one observation at a time, on one thread, so that an action depends on its observation alone, bit for
    bit, in any batch. A recurrent one begins each episode from a state of zeros; ``act`` alone takes every observation
    for the first of an episode.

    Attributes
    ----------
    model : bytes
        The file.
    settings : dict
        All else, as plain JSON values: the parts of observations, the space of actions, and the names of the graph's
        inputs and outputs.
    recurrent : bool
        Whether it has state.
    name : str
        What prints and pictures call it: the name of its file.

    Examples
    --------
    >>> import pastmaster
    >>> policy = pastmaster.load_onnx("pong.onnx", pastmaster.GymTask("ALE/Pong-v5", gamma=0.99))  # doctest: +SKIP
    >>> policy.act(observations)  # doctest: +SKIP
    array([2, 2, 3])
    """

    random = False
    name = ""

    def __init__(self, model: bytes, settings: Mapping[str, Any], *, place: str = "OnnxPolicy") -> None:
        if not isinstance(model, bytes) or not 0 < len(model) <= LARGEST_FILE:
            got = f"{len(model):,} bytes" if isinstance(model, bytes) else shown(model)
            raise InvalidInputError(f"{place}: model is {got}, must be the bytes of {KIND}, at most {LARGEST_FILE:,}")
        given = mapping(settings, f"{place}: settings")
        if set(given) != set(KEYS):
            raise InvalidInputError(f"{place}: settings is not a dict of {', '.join(KEYS)}, must be")
        self.model, self.place = model, place
        self.graph = read_graph(model, place)
        self.parts, self.actions = _spaces(given, place)
        self.state, self.output = given["state"], given["output"]
        self.recurrent = bool(self.state)
        _check_names(self.graph, self.parts, given["inputs"], self.output, self.state, place)
        self.inputs = {
            key: matched(name, self.graph.inputs[name], self.parts[key], given["layout"], self.recurrent, place)
            for key, name in given["inputs"].items()
        }
        size = normalised_length(self.parts) if given["normalise"] is not None else 0
        self.normalise = None if not size else checked_normalisation(place, given["normalise"], size)
        self.layout = None if given["layout"] is None else chosen(place, "layout", given["layout"], LAYOUTS)
        self.begin = _zeros(self.graph, self.state, place)
        self._session: Session | None = None

    @property
    def settings(self) -> dict[str, Any]:
        normalise = self.normalise
        if normalise is not None:
            normalise = {key: np.asarray(value).tolist() for key, value in normalise.items()}
        return {
            "observations": {key: [list(part.shape), part.dtype, part.n] for key, part in self.parts.items()},
            "actions": self.actions.settings, "inputs": {key: name.name for key, name in self.inputs.items()},
            "output": self.output, "state": dict(self.state), "layout": self.layout, "normalise": normalise,
        }  # fmt: skip

    @property
    def sha256(self) -> str:
        """The SHA-256 of the file."""
        return hashlib.sha256(self.model).hexdigest()

    @property
    def session(self) -> Session:
        """The graph as onnxruntime runs it, loaded when it is first used in a process."""
        if self._session is None:
            self._session = Session(self.model, self.place)
        return self._session

    def act(self, observations: Any) -> Array:
        """Actions [n, ...] for observations [n, ...], of a Dict for a list of dicts or a dict of arrays."""
        rows = self._rows(observations)
        return self._actions([self._step(row, self.begin)[0] for row in rows])

    def begin_episode(self) -> OnnxEpisode:
        """The policy at the start of an episode: it is then given each observation of it, in order."""
        return OnnxEpisode(self)

    def outputs(self, observations: Any) -> Array:
        """What the graph gives [n, ...] before it becomes actions: logits, values or means."""
        return np.array([self._step(row, self.begin)[0] for row in self._rows(observations)])

    def try_out(self) -> None:
        """Run the graph once, on zeros, in a process of its own.

        An error where it takes too much time or memory, or its outputs are no actions, or its states no states.
        """
        into = {given.name: Tensor(given.dtype, given.shape) for given in self.inputs.values()}
        begin = {name: Tensor(state.dtype, state.shape) for name, state in self.begin.items()}
        names = [self.output, *self.state.values()]
        action, *after = tried_out(self.model, names, into | begin, self.place)
        size = math.prod(size or 0 for size in action.tensor.shape or ())
        self.actions.check_output(self.output, action.tensor, size, self.place)
        if action.nan:
            raise InvalidInputError(
                f"{self.place}: its output {shown(self.output)} is nan for an observation of zeros, must be numbers"
            )
        for (name, before), (out, state) in zip(
            begin.items(), zip(self.state.values(), after, strict=True), strict=True
        ):
            if state.tensor != before:
                raise InvalidInputError(
                    f"{self.place}: its output {shown(out)} is {state.tensor}, must be as its input {shown(name)}, "
                    f"{before}"
                )

    def misfit(self, observations: gym.Space[Any], actions: gym.Space[Any]) -> bool:
        """Whether it takes other observations, or gives other actions, than these spaces have."""
        try:
            parts, other = parts_of(observations, ""), actions_of(actions, "")
        except InvalidInputError:
            return True
        same, mine = ({key: (part.shape, part.n) for key, part in some.items()} for some in (parts, self.parts))
        kinds = ("kind", "shape", "start", "choices")
        return same != mine or any(getattr(other, kind) != getattr(self.actions, kind) for kind in kinds)

    def _rows(self, observations: Any) -> list[State]:
        """What goes into the graph for each observation."""
        found = by_part(observations) if not isinstance(observations, Mapping) else observations
        given = dict(found) if isinstance(found, Mapping) else {WHOLE: found}
        if set(given) != set(self.parts) or isinstance(found, tuple):
            keys = [key for key in given if key != WHOLE]
            raise InvalidInputError(f"act: observations have the parts {shown(keys)}, must have {shown([*self.parts])}")
        n, encoded = -1, {}
        for key, into in self.inputs.items():
            values = _checked(key, given[key], self.parts[key], n)
            n = len(values)
            encoded[into.name] = into.encoded(self._normalised(values), n)
        return [{name: rows[i] for name, rows in encoded.items()} for i in range(n)]

    def _normalised(self, values: Array) -> Array:
        if self.normalise is None:
            return values
        flat = values.reshape(len(values), -1)
        scale, clip = np.sqrt(self.normalise["var"] + self.normalise["epsilon"]), self.normalise["clip"]
        shifted: Array = np.clip((flat - self.normalise["mean"]) / scale, -clip, clip).reshape(values.shape)
        return shifted

    def _step(self, row: State, state: State) -> tuple[Array, State]:
        """The output for one observation, and the state after it."""
        output, *after = self.session.run([self.output, *self.state.values()], row | state)
        return output.reshape(-1), dict(zip(self.state, after, strict=True))

    def _actions(self, outputs: list[Array]) -> Array:
        given = np.stack(outputs) if outputs else np.zeros((0, self.actions.size), self.actions.dtype)
        if outputs:
            self.actions.check_output(self.output, Tensor(given.dtype, None), given.shape[1], self.place)
        return self.actions.of_outputs(given, f"act: {one_line(repr(self), 80)}")

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_session": None}  # it is made again, where the policy is sent

    def __repr__(self) -> str:
        into = ", ".join(f"{given.name} {given.dtype} {list(given.shape)}" for given in self.inputs.values())
        return one_line(f"OnnxPolicy({into} to {self.actions}{', recurrent' if self.recurrent else ''})", 200)


class OnnxEpisode:
    """An ``OnnxPolicy`` within an episode: it remembers the state."""

    random = False

    def __init__(self, policy: OnnxPolicy) -> None:
        self.policy, self.state = policy, policy.begin

    def act(self, observations: Any) -> Array:
        """The action [1, ...] for the next observation [1, ...]."""
        rows = self.policy._rows(observations)
        if len(rows) != 1:
            raise InvalidInputError(f"act: observations are {len(rows)}, must be 1: the next of the episode")
        output, self.state = self.policy._step(rows[0], self.state)
        return self.policy._actions([output])

    def __repr__(self) -> str:
        return repr(self.policy)


def listed_tensors(tensors: Mapping[str, Tensor]) -> str:
    """Tensors by name, with their types and shapes, as errors tell them."""
    return one_line(", ".join(f"{name} ({tensor})" for name, tensor in tensors.items()), 200) or "none"


def _check_names(graph: Graph, parts: Any, inputs: Any, output: Any, state: Any, place: str) -> None:
    """Refuse names that the graph does not have, and inputs that nothing goes into."""
    for name, pairs in (("inputs", inputs), ("state", state)):
        if not isinstance(pairs, dict) or not all(isinstance(word, str) for pair in pairs.items() for word in pair):
            raise InvalidInputError(f"{place}: {name} is {shown(pairs)}, must be a mapping from names to names")
    if set(inputs) != set(parts):
        raise InvalidInputError(f"{place}: inputs is {shown(inputs)}, must have the keys {shown(list(parts))}")
    into, out = [*inputs.values(), *state], [output, *state.values()]
    if sorted(into) != sorted(graph.inputs):
        raise InvalidInputError(
            f"{place}: inputs and state name {shown(into)}, must name each of the graph's inputs once: "
            f"{listed_tensors(graph.inputs)}"
        )
    if unknown := [name for name in out if name not in graph.outputs]:
        raise InvalidInputError(
            f"{place}: the output is {shown(unknown[0])}, must be one of the graph's: {listed_tensors(graph.outputs)}"
        )


def _spaces(settings: Mapping[str, Any], place: str) -> tuple[dict[str, Part], Actions]:
    """The parts of observations and the actions that settings describe, checked."""
    try:
        given = settings["observations"]
        parts = {str(key): Part(tuple(shape), str(np.dtype(dtype)), n) for key, (shape, dtype, n) in given.items()}
        for part in parts.values():
            if not all(type(size) is int and 0 <= size < 2**31 for size in (*part.shape, part.n)):
                raise ValueError(f"a part is {part}")
            if np.dtype(part.dtype).kind not in "biuf":
                raise ValueError(f"a part is {part}")
        if not 0 < len(parts) <= MOST_PARTS:
            raise ValueError(f"there are {len(parts)} parts")
        actions = actions_of(space_from(settings["actions"]), f"{place}: actions")
    except InvalidInputError:
        raise
    except Exception as error:  # what makes no sense raises whatever NumPy and Gymnasium do
        raise InvalidInputError(f"{place}: settings describe no spaces: {shown(error)}") from None
    return parts, actions


def _zeros(graph: Graph, state: Mapping[str, str], place: str) -> State:
    """The state at the start of an episode; axes that are free have size 1."""
    found = {}
    for name in state:
        tensor = graph.inputs[name]
        shape = tuple(1 if size is None else size for size in tensor.shape or ())
        if tensor.shape is None or math.prod(shape) > MOST_STATE:
            raise InvalidInputError(
                f"{place}: its state {shown(name)} takes {tensor}, must have at most {MOST_STATE:,} numbers"
            )
        if name not in graph.taken:
            raise InvalidInputError(
                f"{place}: its state {shown(name)} goes into no operator, must be used: an exporter that is given one "
                "tensor for two inputs drops one of them"
            )
        found[name] = np.zeros(shape, tensor.dtype)
    return found


def _checked(key: str, values: Any, part: Part, n: int) -> Array:
    """A part of a batch of observations, of the shape and type that goes in."""
    place = f"act: observations{f'[{key!r}]' if key else ''}"
    array = as_array(values, place, None)
    kinds = "iu" if part.n else "biuf" if np.dtype(part.dtype).kind == "f" else "biu"
    if part.n and array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape[1:] != part.shape or not array.ndim or array.dtype.kind not in kinds or n not in (-1, len(array)):
        raise InvalidInputError(
            f"{place} have shape {array.shape} and dtype {array.dtype}, must be "
            f"{part.dtype} [{'n' if n < 0 else n}{''.join(f', {size}' for size in part.shape)}]"
        )
    if part.n and array.size and not (array.min() >= 0 and array.max() < part.n):
        raise InvalidInputError(f"{place} reach {array.min()} .. {array.max()}, must be in 0..{part.n - 1}")
    return array


def normalised_length(parts: Mapping[str, Part]) -> int:
    """How many numbers an observation has that is normalised."""
    part = parts.get(WHOLE)
    if part is None or part.n:
        raise InvalidInputError("load_onnx: normalise is given, must be None for a Dict or Discrete observation")
    return math.prod(part.shape)
