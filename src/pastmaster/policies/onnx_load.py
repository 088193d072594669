"""ONNX files, read as data, as the policies of a task."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pastmaster.checks import chosen, mapping, text
from pastmaster.errors import InvalidInputError
from pastmaster.files import checked_file, read_whole
from pastmaster.policies.normalisation import Normalise, given_normalisation
from pastmaster.policies.onnx_graph import Graph, read_graph
from pastmaster.policies.onnx_policy import (
    KIND,
    LARGEST_FILE,
    OnnxPolicy,
    listed_tensors,
    normalised_length,
)
from pastmaster.policies.onnx_run import try_reading
from pastmaster.policies.onnx_spaces import LAYOUTS, WHOLE, Part, actions_of, parts_of
from pastmaster.policies.policy import spaces_of
from pastmaster.tables import shown


def load_onnx(
    path: str | os.PathLike[str],
    task: Any,
    *,
    output: str | None = None,
    state: Mapping[str, str] | None = None,
    inputs: Mapping[str, str] | None = None,
    layout: str | None = None,
    normalise: Normalise = None,
) -> OnnxPolicy:
    """The policy of an ONNX file, as any framework exports it; nothing in the file reaches outside of it.

    The file is read by the ``onnx`` package and looked at before ``onnxruntime`` runs it. Refused by name are operators
    that are not of the ONNX standard, weights in other files, and operators that draw at random or may never end. Then
    it acts once on an observation of zeros, in a process of its own; there a file of more than 4 MiB is first read,
    too. One that takes more than 1 GiB or 60 s for it is refused.

    Parameters
    ----------
    path : str or path
        The .onnx file, of at most 256 MiB.
    task : GymTask, TabularMDP, gymnasium.Env or a pair of spaces
        Where the policy acts. Its observations decide what goes into the graph: a Box, MultiDiscrete or MultiBinary as
        it is or flat, an image also with its channels moved to where the graph has them, a Discrete as a number or
        one-hot, and a Dict by the names of its keys. Numbers are not scaled: a division by 255 must be in the graph.
        Its actions decide what the output means: for Discrete and MultiDiscrete, floats are logits or values, of which
        the largest decides, and whole numbers are actions; for a Box they are the mean, clipped to its limits.
    output : str, optional
        The name of the output that tells the action, where the graph has several.
    state : mapping of str to str, optional
        For a recurrent policy, from each input that takes state to the output that gives the next one:
        ``{"h_in": "h_out"}``. It is zero at the start of an episode.
    inputs : mapping of str to str, optional
        From each key of a Dict observation to the input that takes it, where they have other names.
    layout : "as_is", "channels_first" or "channels_last", optional
        How images go into the graph, where shapes leave it open.
    normalise : dict or path, optional
        How observations are normalised before they go in, as in ``load_sb3``.

    Returns
    -------
    OnnxPolicy
        A policy as data, which a repository stores; its ``name`` is that of the file.

    Raises
    ------
    InvalidInputError
        The file is damaged, holds what is refused, takes too much, gives nan for zeros, or does not fit the task; the
        message says what to pass.

    Examples
    --------
    >>> import pastmaster
    >>> task = pastmaster.GymTask("CartPole-v1", gamma=0.99)
    >>> pastmaster.load_onnx("cartpole.onnx", task)  # doctest: +SKIP
    OnnxPolicy(obs float32 [1, 4] to Discrete(2))
    """
    found = checked_file("load_onnx: path", path, KIND)
    place = f"load_onnx: {found.name}"
    observing, acting = spaces_of(task, "load_onnx: task")
    content = read_whole(found, LARGEST_FILE, place)
    try_reading(content, place)
    graph = read_graph(content, place)
    parts = parts_of(observing, "load_onnx: the observation space of task")
    states = {} if state is None else _names("state", state)
    given = None
    if normalise is not None and normalise is not False:
        given = given_normalisation(normalise, normalised_length(parts), "load_onnx")
    settings = {
        "observations": {key: [list(part.shape), part.dtype, part.n] for key, part in parts.items()},
        "actions": actions_of(acting, "load_onnx: the action space of task").settings,
        "inputs": _chosen_inputs(graph, parts, states, place) if inputs is None else _names("inputs", inputs),
        "output": _chosen_output(graph, states, place) if output is None else text("load_onnx", "output", output),
        "state": states,
        "layout": None if layout is None else chosen("load_onnx", "layout", layout, LAYOUTS),
        "normalise": given,
    }
    policy = OnnxPolicy(content, settings, place=place)
    policy.try_out()
    policy.name = found.name
    return policy


def _names(argument: str, given: Any) -> dict[str, str]:
    pairs = mapping(given, f"load_onnx: {argument}", "a mapping from names to names")
    return {text("load_onnx", argument, key): text("load_onnx", argument, name) for key, name in pairs.items()}


def _chosen_inputs(graph: Graph, parts: Mapping[str, Part], state: Mapping[str, str], place: str) -> dict[str, str]:
    """The input to each part of an observation: the only one there is, or the one with the key's name."""
    free = [name for name in graph.inputs if name not in state]
    if list(parts) == [WHOLE] and len(free) == 1:
        return {WHOLE: free[0]}
    if set(parts) != set(free):
        keys = "one observation" if WHOLE in parts else f"the keys {shown(list(parts))}"
        raise InvalidInputError(
            f"{place} has the inputs {listed_tensors(graph.inputs)}, must have one for {keys}: pass "
            "state={input: output} for those that are recurrent state, inputs={key: input} for those with other names"
        )
    return {key: key for key in parts}


def _chosen_output(graph: Graph, state: Mapping[str, str], place: str) -> str:
    """The only output that is no state."""
    free = [name for name in graph.outputs if name not in state.values()]
    if len(free) != 1:
        raise InvalidInputError(
            f"{place} has the outputs {listed_tensors(graph.outputs)}, output must be the one that acts"
        )
    return free[0]
