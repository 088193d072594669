"""Policies trained with Stable-Baselines3: read from its .zip files without running anything in them, or taken live.

What the weights alone do not tell:

* The activation. ``data`` describes ``policy_kwargs`` readably: where it has no ``activation_fn`` the default holds
  (tanh for PPO and A2C, ReLU for the others), where it names a class of torch.nn that is taken.
* Whether ``VecNormalize`` stood between environment and policy, and its statistics, which are in another file. Looked
  at in files of all six algorithms, saved with and without: PPO and A2C write ``_last_original_obs``, an array after
  training under VecNormalize and null after training without. DQN, SAC, TD3 and DDPG write an array either way, and
  nothing else differs. Discrete observations are never normalised. So PPO and A2C load in one line where it was not
  used, and the others ask for ``normalise=False``. Normalisation by a wrapper of the environment itself leaves no
  trace anywhere: pass its statistics as ``normalise``.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import gymnasium as gym

from pastmaster.errors import InvalidInputError
from pastmaster.policies.activations import ACTIVATIONS, OF_TORCH
from pastmaster.policies.network import NetworkPolicy
from pastmaster.policies.normalisation import Normalise, given_normalisation
from pastmaster.policies.sb3_live import PredictPolicy, live_policy, missing
from pastmaster.policies.sb3_network import Family, acting_layers, network
from pastmaster.policies.sb3_zip import Space, read_model, space_in, space_of

OWN_POLICIES = r"stable_baselines3\.(common|dqn|sac|td3|ppo|a2c|ddpg)\.policies"
HARMLESS = {
    "net_arch", "activation_fn", "optimizer_class", "optimizer_kwargs", "n_critics", "log_std_init", "ortho_init",
    "full_std", "use_expln", "clip_mean", "share_features_extractor", "normalize_images",
}  # fmt: skip
"""Settings of a policy that change no action of a network without images and without gSDE, or are read."""
PLAIN: dict[str, tuple[Any, ...]] = {
    "use_sde": (False,),
    "squash_output": (False,),
    "features_extractor_kwargs": ({}, None),
}
"""Settings that change none at these values."""


def load_sb3(
    path: str | os.PathLike[str],
    *,
    trust: bool = False,
    activation: str | None = None,
    normalise: Normalise = None,
    observation_space: gym.Space[Any] | None = None,
    action_space: gym.Space[Any] | None = None,
    algorithm: str | None = None,
) -> NetworkPolicy | PredictPolicy:
    """The deterministic policy of a model that Stable-Baselines3 saved; nothing in the file is unpickled or run.

    ``normalise`` is False (observations were not normalised), a dict of mean, var, epsilon and clip, as
    ``normalisation_of`` a VecNormalize gives it, or the path of an .npz of these; None is enough where the file tells.
    ``activation`` and the spaces are asked for where the file does not tell them, and refused where it says otherwise.

    ``trust=True`` has Stable-Baselines3 load the file, which runs whatever code is in it: for policies that are no
    plain networks, and only for files of your own. ``algorithm`` then names its class if the file does not tell; a
    ``normalise`` ending in .pkl is a saved VecNormalize.
    """
    caller = "load_sb3"
    if trust and (observation_space is not None or action_space is not None):
        raise InvalidInputError(f"{caller}: spaces are given, must be left out with trust=True: they are loaded")
    if algorithm is not None and not trust:
        raise InvalidInputError(f"{caller}: algorithm is {algorithm!r}, must be left out without trust=True")
    if trust:
        return _trusted(Path(path), algorithm, activation, normalise)
    data, state = read_model(path, caller)
    place = f"{caller}: {Path(path).name}"
    family, layers = acting_layers(state, place)
    _check_plain(data, place)
    observations = _agreed(data, "observation_space", observation_space, place)
    actions = _agreed(data, "action_space", action_space, place)
    statistics = given_normalisation(normalise, layers[0][0].shape[1], caller)
    if normalise is None:
        _check_unnormalised(data, family, observations, place)
    chosen = _activation(data, family, activation, place)
    return network(family, layers, observations, actions, False, place, activation=chosen, normalise=statistics)


def _kwargs(data: dict[str, Any], place: str) -> dict[str, Any]:
    """What ``data`` says of policy_kwargs, readably."""
    said = data.get("policy_kwargs")
    if not isinstance(said, dict) or said.get(":type:", "<class 'dict'>") != "<class 'dict'>":
        raise InvalidInputError(f"{place}: its policy_kwargs cannot be read, must be a dict: pass trust=True")
    return {key: value for key, value in said.items() if key not in (":type:", ":serialized:")}


def _check_plain(data: dict[str, Any], place: str) -> None:
    """Refuse a policy that its weights and the readable settings do not determine."""
    told = "pass trust=True to have Stable-Baselines3 load it, code and all"
    made_by = data.get("policy_class")
    module = made_by.get("__module__") if isinstance(made_by, dict) else None
    if not isinstance(module, str) or not re.fullmatch(OWN_POLICIES, module):
        raise InvalidInputError(
            f"{place}: its policy class is of module {module!r}, must be Stable-Baselines3's own: {told}"
        )
    if data.get("use_sde") is not False:
        raise InvalidInputError(f"{place}: use_sde is {data.get('use_sde')!r}, must be False: {told}")
    for key, value in _kwargs(data, place).items():
        flat = key == "features_extractor_class" and str(value).endswith("torch_layers.FlattenExtractor'>")
        if not (key in HARMLESS or value in PLAIN.get(key, ()) or flat):
            raise InvalidInputError(f"{place}: policy_kwargs has {key}={str(value)[:80]}, must not have it: {told}")


def _activation(data: dict[str, Any], family: Family, given: str | None, place: str) -> str:
    """The activation that the file tells or the caller gives."""
    if given is not None and given not in ACTIVATIONS:
        raise InvalidInputError(f"{place}: activation is {given!r}, must be one of {', '.join(ACTIVATIONS)}")
    kwargs = _kwargs(data, place)
    said = kwargs.get("activation_fn")
    known = family.activation
    if "activation_fn" in kwargs:
        found = re.fullmatch(r"<class 'torch\.nn\.modules\.\w+\.(\w+)'>", str(said))
        known = OF_TORCH.get(found[1], "") if found else ""
    if not known and given is None:
        raise InvalidInputError(
            f"{place}: its activation is {str(said)[:80]}, which is not known here, must be given: "
            f"pass activation='...', one of {', '.join(ACTIVATIONS)}, or trust=True"
        )
    if known and given is not None and given != known:
        raise InvalidInputError(f"{place}: activation is {given!r}, must be {known!r}, as the file says")
    return known or str(given)


def _agreed(data: dict[str, Any], key: str, given: gym.Space[Any] | None, place: str) -> Space:
    """The space that the file describes or the caller gives; both must agree on its kind and sizes."""
    if given is None:
        return space_in(data, key, place)
    space = space_of(given, f"{place}: {key}")
    try:
        read = space_in(data, key, place)
    except InvalidInputError:
        return space
    if (read.kind, read.shape, read.n, read.nvec) != (space.kind, space.shape, space.n, space.nvec):
        raise InvalidInputError(f"{place}: {key} is {given}, must be of the sizes that the file says: {read}")
    return space


def _check_unnormalised(data: dict[str, Any], family: Family, observations: Space, place: str) -> None:
    """Refuse where the file does not prove that observations reach the policy as they are."""
    if observations.kind == "Discrete":
        return
    told = "pass normalise=False, or its mean and var: normalise=normalisation_of(vec_normalize)"
    if family.name != "PPO or A2C":
        raise InvalidInputError(
            f"{place}: files of {family.name} do not tell whether observations were normalised (VecNormalize), "
            f"normalise must be given: {told}"
        )
    if data.get("_last_original_obs", "") is not None:
        raise InvalidInputError(
            f"{place}: trained under VecNormalize, normalise must be given: {told} "
            "(False if it normalised rewards only)"
        )
    if not isinstance(data.get("num_timesteps"), int) or data["num_timesteps"] < 1:
        raise InvalidInputError(
            f"{place}: saved before any training, so it does not tell whether observations are normalised, "
            f"normalise must be given: {told}"
        )


def _trusted(
    path: Path, algorithm: str | None, activation: str | None, normalise: Normalise
) -> NetworkPolicy | PredictPolicy:
    """The policy as Stable-Baselines3 loads it."""
    caller = "load_sb3"
    if activation is not None:
        raise InvalidInputError(f"{caller}: activation is {activation!r}, must be None with trust=True: it is loaded")
    try:
        import stable_baselines3
    except ImportError:
        raise missing(caller) from None
    name = _algorithm(path, caller) if algorithm is None else algorithm
    kind = getattr(stable_baselines3, name, None) if name in ALGORITHMS else None
    if kind is None:
        raise InvalidInputError(f"{caller}: algorithm is {name!r}, must be one of {', '.join(ALGORITHMS)}")
    return live_policy(kind.load(path, device="cpu"), normalise, caller, trust=True)


ALGORITHMS = ("PPO", "A2C", "DQN", "SAC", "TD3", "DDPG")


def _algorithm(path: Path, caller: str) -> str:
    """The algorithm by which a file was saved, as its ``data`` tells."""
    data = read_model(path, caller).data
    kwargs = data.get("policy_kwargs")
    if "clip_range" in data:
        return "PPO"
    if "gae_lambda" in data:
        return "A2C"
    if "exploration_fraction" in data:
        return "DQN"
    if "ent_coef" in data:
        return "SAC"
    if "policy_delay" in data:
        return "DDPG" if isinstance(kwargs, dict) and kwargs.get("n_critics") == 1 else "TD3"
    raise InvalidInputError(f"{caller}: {path.name} does not tell its algorithm, must be given: algorithm='PPO', say")
