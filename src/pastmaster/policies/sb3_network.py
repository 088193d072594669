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
        "PPO or A2C",
        known_by="action_net.weight",
        hidden="mlp_extractor.policy_net",
        last="action_net",
        idle=r"log_std|value_net\..+|mlp_extractor\.value_net\..+",
        activation="tanh",
        box_head="clip",
    ),
    Family(
        "DQN",
        known_by="q_net.q_net.0.weight",
        hidden="q_net.q_net",
        last=None,
        idle=r"q_net_target\..+",
        activation="relu",
        box_head="",
    ),
    Family(
        "SAC",
        known_by="actor.mu.weight",
        hidden="actor.latent_pi",
        last="actor.mu",
        idle=r"(critic|critic_target)\..+|actor\.log_std\.(weight|bias)",
        activation="relu",
        box_head="tanh",
    ),
    Family(
        "TD3 or DDPG",
        known_by="actor.mu.0.weight",
        hidden="actor.mu",
        last=None,
        idle=r"(critic|critic_target|actor_target)\..+",
        activation="relu",
        box_head="tanh",
    ),
)


def acting_layers(state: Mapping[str, Array], place: str) -> tuple[Family, Layers]:
    """The family and the linear layers that act, in order; errors name the weights that are not known."""
    family = next((family for family in FAMILIES if family.known_by in state), None)
    if family is None:
        raise InvalidInputError(
            f"{place}: its weights ({', '.join(sorted(state)[:3])}, ...) are not of PPO, A2C, DQN, SAC, TD3 or DDPG, "
            f"must be: {TRUST}"
        )
    layers: list[str] = []
    while f"{family.hidden}.{2 * len(layers)}.weight" in state:
        layers.append(f"{family.hidden}.{2 * len(layers)}")
    if family.last is not None:
        layers.append(family.last)
    acting = {f"{layer}.{part}": ndim for layer in layers for part, ndim in (("weight", 2), ("bias", 1))}
    odd = [name for name in state if name not in acting and not re.fullmatch(family.idle, name)]
    odd += [name for name, ndim in acting.items() if name not in state or state[name].ndim != ndim]
    if odd:
        raise InvalidInputError(
            f"{place}: looks like {family.name} but for {odd[0]}, must be linear layers and one activation between "
            f"two: {TRUST}"
        )
    return family, [(state[f"{layer}.weight"], state[f"{layer}.bias"]) for layer in layers]


def network(
    family: Family,
    layers: Layers,
    observations: Space,
    actions: Space,
    squashed: bool,
    place: str,
    **settings: Any,
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
        wanted = actions.n
        head = {"head": "argmax"}
    elif actions.kind == "MultiDiscrete":
        wanted = sum(actions.nvec)
        head = {"head": "argmaxes", "nvec": actions.nvec}
    else:
        if actions.low is None or actions.high is None:
            raise InvalidInputError(
                f"{place}: the limits of its action_space cannot be read exactly, must be given: "
                "pass action_space=env.action_space"
            )
        wanted = actions.low.size
        head = {
            "head": "tanh" if squashed else family.box_head,
            "low": actions.low,
            "high": actions.high,
        }
    if (actions.kind == "Box" and not family.box_head) or (actions.kind != "Box" and family.box_head == "tanh"):
        raise InvalidInputError(f"{place}: {family.name} has a {actions.kind} action_space, which it cannot act in")
    if outputs != wanted:
        raise InvalidInputError(
            f"{place}: the last layer gives {outputs} numbers, must give {wanted}, as actions ask for"
        )
    return head
