"""A policy that is an ONNX file: a graph that any framework exported, run by onnxruntime, all of it data."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from pastmaster.arrays import Array
from pastmaster.checks import mapping
from pastmaster.errors import InvalidInputError
from pastmaster.policies.batch import by_part
from pastmaster.policies.normalisation import (
    checked_normalisation,
    normalised_batch,
    plain_normalisation,
)
from pastmaster.policies.onnx_graph import Tensor, read_graph
from pastmaster.policies.onnx_run import Session, tried_out
from pastmaster.policies.onnx_spaces import (
    WHOLE,
    Actions,
    Input,
    Part,
    actions_of,
    matched,
    parts_of,
)
from pastmaster.tables import one_line, shown

LARGEST_FILE = 2**28  # bytes: a repository stores it whole
MOST_STATE = 2**24  # numbers of recurrent state
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
        self.model = model
        self.place = place
        self.graph = read_graph(model, place)
        self.parts = {key: Part(tuple(shape), dtype, n) for key, (shape, dtype, n) in given["observations"].items()}
        self.actions = Actions.from_settings(given["actions"])
        self.state = dict(given["state"])
        self.output = given["output"]
        self.layout = given["layout"]
        self.recurrent = bool(self.state)
        self.inputs = self._matched(given["inputs"])
        self.normalise: dict[str, Any] | None = None
        if given["normalise"] is not None:
            self.normalise = checked_normalisation(place, given["normalise"], normalised_length(self.parts))
        self.begin = {name: self._zeros(name, self.graph.inputs[name]) for name in self.state}
        self._session: Session | None = None

    def _matched(self, names: Mapping[str, str]) -> dict[str, Input]:
        """How the parts of an observation go into the graph's inputs of these names."""
        graph = self.graph
        place = self.place
        if set(names) != set(self.parts):
            raise InvalidInputError(f"{place}: inputs is {shown(names)}, must have the keys {shown(list(self.parts))}")
        into = [*names.values(), *self.state]
        if sorted(into) != sorted(graph.inputs):
            raise InvalidInputError(
                f"{place}: inputs and state name {shown(into)}, must name each of the graph's inputs once: "
                f"{listed_tensors(graph.inputs)}"
            )
        for name in (self.output, *self.state.values()):
            if name not in graph.outputs:
                raise InvalidInputError(
                    f"{place}: the output is {shown(name)}, must be one of the graph's: {listed_tensors(graph.outputs)}"
                )
        return {
            key: matched(name, graph.inputs[name], self.parts[key], self.layout, self.recurrent, place)
            for key, name in names.items()
        }

    def _zeros(self, name: str, tensor: Tensor) -> Array:
        """A state at the start of an episode; axes that are free have size 1."""
        shape = tuple(1 if size is None else size for size in tensor.shape or ())
        if tensor.shape is None or math.prod(shape) > MOST_STATE:
            raise InvalidInputError(
                f"{self.place}: its state {shown(name)} takes {tensor}, must have at most {MOST_STATE:,} numbers"
            )
        if name not in self.graph.taken:
            raise InvalidInputError(
                f"{self.place}: its state {shown(name)} goes into no operator, must be used: an exporter that is given "
                "one tensor for two inputs drops one of them"
            )
        return np.zeros(shape, tensor.dtype)

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "observations": {key: [list(part.shape), part.dtype, part.n] for key, part in self.parts.items()},
            "actions": self.actions.settings,
            "inputs": {key: given.name for key, given in self.inputs.items()},
            "output": self.output,
            "state": dict(self.state),
            "layout": self.layout,
            "normalise": plain_normalisation(self.normalise),
        }

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
        return self._actions([self._step(row, self.begin)[0] for row in self._rows(observations)])

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
        (action, nan), *after = tried_out(self.model, names, into | begin, self.place)
        self.actions.check_output(self.output, action, math.prod(size or 0 for size in action.shape or ()), self.place)
        if nan:
            raise InvalidInputError(
                f"{self.place}: its output {shown(self.output)} is nan for an observation of zeros, must be numbers"
            )
        for (name, out), (state, _) in zip(self.state.items(), after, strict=True):
            if state != begin[name]:
                raise InvalidInputError(
                    f"{self.place}: its output {shown(out)} is {state}, must be as its input {shown(name)}, "
                    f"{begin[name]}"
                )

    def misfit(self, observations: gym.Space[Any], actions: gym.Space[Any]) -> bool:
        """Whether it takes other observations, or gives other actions, than these spaces have."""
        try:
            parts = parts_of(observations, "")
            other = actions_of(actions, "")
        except InvalidInputError:
            return True
        same, mine = ({key: (part.shape, part.n) for key, part in some.items()} for some in (parts, self.parts))
        kinds = ("kind", "shape", "start", "choices")
        return same != mine or any(getattr(other, kind) != getattr(self.actions, kind) for kind in kinds)

    def _rows(self, observations: Any) -> list[State]:
        """What goes into the graph for each observation."""
        found = observations if isinstance(observations, Mapping) else by_part(observations)
        given = found if isinstance(found, Mapping) else {WHOLE: found}
        if set(given) != set(self.parts):
            raise InvalidInputError(
                f"act: observations have the parts {shown(list(given))}, must have {shown(list(self.parts))}"
            )
        encoded = {}
        for key, into in self.inputs.items():
            values = self.parts[key].checked(given[key], f"act: observations{f'[{key!r}]' if key else ''}")
            encoded[into.name] = into.encoded(normalised_batch(values, self.normalise), len(values))
        lengths = {len(rows) for rows in encoded.values()}
        if len(lengths) > 1:
            raise InvalidInputError(f"act: observations have parts of {shown(lengths)} rows, must be of one number")
        return [{name: rows[i] for name, rows in encoded.items()} for i in range(lengths.pop())]

    def _step(self, row: State, state: State) -> tuple[Array, State]:
        """The output for one observation, and the state after it."""
        output, *after = self.session.run([self.output, *self.state.values()], row | state)
        return output.reshape(-1), dict(zip(self.state, after, strict=True))

    def _actions(self, outputs: list[Array]) -> Array:
        if not outputs:
            return self.actions.of_outputs(np.zeros((0, self.actions.size), self.actions.dtype), "act")
        given = np.stack(outputs)
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
        self.policy = policy
        self.state = policy.begin

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


def normalised_length(parts: Mapping[str, Part]) -> int:
    """How many numbers an observation has that is normalised."""
    part = parts.get(WHOLE)
    if part is None or part.n:
        raise InvalidInputError("load_onnx: normalise is given, must be None for a Dict or Discrete observation")
    return math.prod(part.shape)
