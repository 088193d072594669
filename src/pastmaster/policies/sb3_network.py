"""Which network a Stable-Baselines3 policy acts by: found by the names of its weights."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from pastmaster.arrays import Array
from pastmaster.errors import InvalidInputError
from pastmaster.policies.network import NetworkPolicy
from pastmaster.policies.sb3_zip import Space

Layers = list[tuple[Array, Array]]
TRUST = "pass trust=True to have Stable-Baselines3 load it, code and all"


class Family(NamedTuple):
    """Algorithms whose weights have the same names.

    The acting network is the linear layers ``hidden``.0, .2, .4, ... and then ``last``. ``idle`` matches the names of
    weights that do not act. ``known_by`` is a name that only this family has.
    """

    name: str
    known_by: str
    hidden: str
    last: str | None
    idle: str
    activation: str
    box_head: str


FAMILIES = (
    Family(
        "PPO or A2C", "action_net.weight", "mlp_extractor.policy_net", "action_net",
        r"log_std|value_net\..+|mlp_extractor\.value_net\..+", "tanh", "clip",
    ),
    Family("DQN", "q_net.q_net.0.weight", "q_net.q_net", None, r"q_net_target\..+", "relu", ""),
    Family(
        "SAC", "actor.mu.weight", "actor.latent_pi", "actor.mu",
        r"(critic|critic_target)\..+|actor\.log_std\.(weight|bias)", "relu", "tanh",
    ),
    Family(
        "TD3 or DDPG", "actor.mu.0.weight", "actor.mu", None,
        r"(critic|critic_target|actor_target)\..+", "relu", "tanh",
    ),
)  # fmt: skip


def acting_layers(state: Mapping[str, Array], place: str) -> tuple[Family, Layers]:
    """The family and the linear layers that act, in order; errors name the weights that are not known."""
    family = next((family for family in FAMILIES if family.known_by in state), None)
    if family is None:
        raise InvalidInputError(
            f"{place}: its weights ({', '.join(sorted(state)[:3])}, ...) are not of PPO, A2C, DQN, SAC, TD3 or DDPG, "
            f"must be: {TRUST}"
        )
    names = re.compile(re.escape(family.hidden) + r"\.(\d+)\.(?:weight|bias)")
    indices = sorted({int(found[1]) for name in state if (found := names.fullmatch(name))})
    layers = [f"{family.hidden}.{index}" for index in indices] + ([family.last] if family.last else [])
    acting = {f"{layer}.{part}" for layer in layers for part in ("weight", "bias")}
    unknown = [name for name in state if name not in acting and not re.fullmatch(family.idle, name)]
    if unknown or not acting <= set(state):
        what = f"holds {unknown[0]}" if unknown else f"has no {min(acting - set(state))}"
        raise InvalidInputError(
            f"{place}: looks like {family.name} but {what}, must be linear layers and one activation: {TRUST}"
        )
    if indices != list(range(0, 2 * len(indices), 2)) or any(state[f"{layer}.weight"].ndim != 2 for layer in layers):
        raise InvalidInputError(
            f"{place}: {family.hidden} has weights at {indices}, must have linear layers at 0, 2, 4, ... and one "
            f"activation between two: {TRUST}"
        )
    return family, [(state[f"{layer}.weight"], state[f"{layer}.bias"]) for layer in layers]


def network(
    family: Family, layers: Layers, observations: Space, actions: Space, squashed: bool, place: str, **settings: Any
) -> NetworkPolicy:
    """The policy of these layers between these spaces; ``settings`` are the activation and the normalisation."""
    if observations.kind not in ("Box", "Discrete") or observations.is_image:
        raise InvalidInputError(
            f"{place}: observations are a {observations.kind} of shape {observations.shape} and dtype "
            f"{observations.dtype or 'int'}, must be Discrete or a Box that is no image"
        )
    wanted = observations.n if observations.kind == "Discrete" else math.prod(observations.shape)
    if layers[0][0].shape[1] != wanted:
        raise InvalidInputError(
            f"{place}: the first layer takes {layers[0][0].shape[1]} numbers, must take {wanted}, as observations have"
        )
    head = _head(family, layers[-1][0].shape[0], actions, squashed, place)
    return NetworkPolicy(layers, one_hot=observations.kind == "Discrete", **head, **settings)


def _head(family: Family, outputs: int, actions: Space, squashed: bool, place: str) -> dict[str, Any]:
    """The settings of a NetworkPolicy that make actions of outputs."""
    head: dict[str, Any]
    if actions.kind == "Discrete":
        wanted, head = actions.n, {"head": "argmax"}
    elif actions.kind == "MultiDiscrete":
        wanted, head = sum(actions.nvec), {"head": "argmaxes", "nvec": actions.nvec}
    else:
        if actions.low is None or actions.high is None:
            raise InvalidInputError(
                f"{place}: the limits of its action_space cannot be read exactly, must be given: "
                "pass action_space=env.action_space"
            )
        wanted = actions.low.size
        head = {"head": "tanh" if squashed else family.box_head, "low": actions.low, "high": actions.high}
    if (actions.kind == "Box" and not family.box_head) or (actions.kind != "Box" and family.box_head == "tanh"):
        raise InvalidInputError(f"{place}: {family.name} has a {actions.kind} action_space, which it cannot act in")
    if outputs != wanted:
        raise InvalidInputError(
            f"{place}: the last layer gives {outputs} numbers, must give {wanted}, as actions ask for"
        )
    return head
