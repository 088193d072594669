"""Live Stable-Baselines3 models as policies."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from pastmaster.arrays import Array
from pastmaster.errors import InvalidInputError
from pastmaster.policies.batch import by_part
from pastmaster.policies.network import NetworkPolicy
from pastmaster.policies.normalisation import (
    HOW_TO_GIVE,
    Normalise,
    given_normalisation,
    normalisation_of,
    normalised_batch,
)
from pastmaster.policies.sb3_network import Family, acting_layers, network
from pastmaster.policies.sb3_zip import space_of
from pastmaster.policies.torch_module import known_activations

TRIED = 64  # observations on which a network is compared with the model


def is_model(thing: Any) -> bool:
    """Whether this is a live model of Stable-Baselines3, or acts like one."""
    has = all(getattr(thing, name, None) is not None for name in ("policy", "action_space"))
    return has and callable(getattr(thing, "predict", None))


class PredictPolicy:
    """A live model that acts by its own ``predict``, deterministically; it is code, and cannot be stored.

    Parameters
    ----------
    model : object with ``predict(observations, deterministic=True)``
        A model of Stable-Baselines3.
    normalise : dict, optional
        "mean", "var", "epsilon" and "clip" of the observations, as ``normalisation_of`` gives them.

    Examples
    --------
    >>> import numpy as np
    >>> from pastmaster.policies import PredictPolicy
    >>> class Stub:  # in place of a trained model
    ...     def predict(self, observations, deterministic):
    ...         return (observations[:, 0] > 0).astype(int), None
    >>> PredictPolicy(Stub()).act(np.array([[1.0], [-1.0]])).tolist()
    [1, 0]
    """

    random = False
    name = ""  # what prints and pictures call it

    def __init__(self, model: Any, normalise: dict[str, Any] | None = None) -> None:
        self.model = model
        self.normalise = normalise

    def act(self, observations: Any) -> Array:
        """The model's actions."""
        x = by_part(observations)
        if self.normalise is not None:
            x = normalised_batch(x, self.normalise).astype(np.float32)
        actions: Array = self.model.predict(x, deterministic=True)[0]
        return actions

    def __repr__(self) -> str:
        return f"PredictPolicy({type(self.model).__name__}{', normalised' if self.normalise else ''})"


def from_sb3(model: Any, *, normalise: Normalise = None) -> NetworkPolicy:
    """The network by which a live Stable-Baselines3 model acts; its weights are copied.

    The network is compared with the model's ``predict`` before it is returned.

    Parameters
    ----------
    model : stable_baselines3 model
        PPO, A2C, DQN, SAC, TD3 or DDPG with a plain network.
    normalise : dict, path, False, optional
        How observations are normalised, as in ``load_sb3``. None takes it from the model's environment, if it has one.

    Returns
    -------
    NetworkPolicy
        The policy, as data.

    Raises
    ------
    InvalidInputError
        The model is no plain network, or it is not known whether observations are normalised.

    Examples
    --------
    >>> from stable_baselines3 import PPO  # doctest: +SKIP
    >>> from_sb3(PPO("MlpPolicy", "CartPole-v1").learn(1000))  # doctest: +SKIP
    NetworkPolicy(4 - 64 - 64 - 2, tanh, argmax)
    """
    caller = "from_sb3"
    if not is_model(model):
        raise InvalidInputError(f"{caller}: model is {model!r}, must be a live model of Stable-Baselines3")
    return network_of(model, _statistics(model, normalise, caller), caller)


def live_policy(
    model: Any, normalise: Normalise = None, caller: str = "as_policy", *, trust: bool = False
) -> NetworkPolicy | PredictPolicy:
    """A live model as its network, or, where it is none, as itself."""
    statistics = _statistics(model, normalise, caller, trust=trust)
    try:
        return network_of(model, statistics, caller)
    except InvalidInputError:
        return PredictPolicy(model, statistics)


def _statistics(model: Any, normalise: Normalise, caller: str, *, trust: bool = False) -> dict[str, Any] | None:
    """The normalisation between observations and the model; an error where it is not known."""
    space = model.observation_space
    if normalise is None and space.shape and space.dtype.kind in "iuf":
        wrapper = model.get_vec_normalize_env()
        off_policy = hasattr(model, "replay_buffer_class")
        if wrapper is not None and wrapper.norm_obs:
            normalise = normalisation_of(wrapper)
        elif model.get_env() is None and (
            off_policy or model._last_original_obs is not None or model.num_timesteps < 1
        ):
            raise InvalidInputError(
                f"{caller}: the {type(model).__name__} has no environment, so it does not tell whether observations "
                f"are normalised (VecNormalize), normalise must be given to load_sb3 or from_sb3: {HOW_TO_GIVE}"
            )
    return given_normalisation(normalise, int(np.prod(space.shape or (1,))), caller, trust=trust)


def network_of(model: Any, statistics: dict[str, Any] | None, caller: str) -> NetworkPolicy:
    """The network by which a live model acts; an error where it is not a plain one."""
    from stable_baselines3.common.torch_layers import FlattenExtractor

    place = f"{caller}: the {type(model).__name__}"
    state = {name: tensor.detach().cpu().numpy().copy() for name, tensor in model.policy.state_dict().items()}
    family, layers = acting_layers(state, place)
    extractors = {type(part) for name, part in model.policy.named_modules() if name.endswith("features_extractor")}
    if extractors != {FlattenExtractor}:
        names = ", ".join(sorted(kind.__name__ for kind in extractors))
        raise InvalidInputError(f"{place}: observations pass {names or 'nothing known'}, must pass FlattenExtractor")
    made = partial(
        network,
        family,
        layers,
        space_of(model.observation_space, f"{place}: observation_space"),
        space_of(model.action_space, f"{place}: action_space"),
        bool(getattr(model.policy, "squash_output", False)),
        place,
        activation=_activation(model, family, place) if len(layers) > 1 else family.activation,
    )
    plain = made()
    if not _acts_as(model, plain):
        raise InvalidInputError(f"{place}: acts otherwise than its layers, must be a plain network")
    return plain if statistics is None else made(normalise=statistics)


def _activation(model: Any, family: Family, place: str) -> str:
    """The activation between the linear layers, one and the same, with torch's default constants."""
    modules = list(model.policy.get_submodule(family.hidden))
    if family.name == "TD3 or DDPG":
        modules.pop()  # the head's tanh
    found = {repr(module) for module in modules[1::2]}
    known = known_activations()
    if len(found) != 1 or not found <= set(known):
        raise InvalidInputError(
            f"{place}: between its layers are {', '.join(sorted(found))}, must be one known activation"
        )
    return known[found.pop()]


def _acts_as(model: Any, made: NetworkPolicy) -> bool:
    """Whether a network acts as the model does on observations drawn here, but for what rounding decides."""
    drawn = _drawn(model.observation_space)
    shape = made.stack.shape
    expected = model.predict(drawn, deterministic=True)[0]
    if shape.head in ("clip", "tanh"):
        return bool(np.allclose(expected, made.act(drawn), rtol=1e-4, atol=1e-4))
    outputs = made.outputs(drawn)
    parts = np.split(outputs, np.cumsum(shape.nvec)[:-1], axis=1) if shape.nvec else [outputs]
    choices = expected.reshape(TRIED, -1).T
    chosen = [part[np.arange(TRIED), choice] for part, choice in zip(parts, choices, strict=True)]
    best = [part.max(axis=1) for part in parts]
    return bool((np.subtract(best, chosen) < 1e-4).all())


def _drawn(space: Any) -> Array:
    """Observations of a space, the same each time: between its limits where they are near, otherwise about 0."""
    rng = np.random.default_rng(0)
    if not space.shape:
        return rng.integers(int(space.n), size=TRIED)
    near = (np.abs(space.low) < 1e3) & (np.abs(space.high) < 1e3)
    low = np.where(near, space.low, -1.0)
    high = np.where(near, space.high, 1.0)
    drawn: Array = (low + (high - low) * rng.random((TRIED, *space.shape))).astype(space.dtype)
    return drawn
