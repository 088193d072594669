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

from pastmaster.checks import chosen, flag
from pastmaster.errors import InvalidInputError
from pastmaster.files import checked_file
from pastmaster.policies.activations import ACTIVATIONS, OF_TORCH
from pastmaster.policies.network import NetworkPolicy
from pastmaster.policies.normalisation import HOW_TO_GIVE, Normalise, given_normalisation
from pastmaster.policies.sb3_live import PredictPolicy, live_policy
from pastmaster.policies.sb3_network import TRUST, Family, acting_layers, network
from pastmaster.policies.sb3_zip import SAVED, Space, read_model, space_in, space_of

OWN_POLICIES = r"stable_baselines3\.(common|dqn|sac|td3|ppo|a2c|ddpg)\.policies"
HARMLESS = {
    "net_arch",
    "activation_fn",
    "optimizer_class",
    "optimizer_kwargs",
    "n_critics",
    "log_std_init",
    "ortho_init",
    "full_std",
    "use_expln",
    "clip_mean",
    "share_features_extractor",
    "normalize_images",
}
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

    Parameters
    ----------
    path : str or path
        The .zip file of PPO, A2C, DQN, SAC, TD3 or DDPG.
    trust : bool
        True has Stable-Baselines3 load the file, which runs any code in it: for policies that are no plain networks,
        and only for files of your own.
    activation : str, optional
        The activation between layers, where the file does not name a known one.
    normalise : False, dict or path, optional
        False where observations were not normalised; otherwise a dict of mean, var, epsilon and clip, as
        ``normalisation_of`` gives it, or the path of an .npz file of these. With ``trust=True`` also the path of a
        saved VecNormalize (.pkl). None is enough where the file shows that nothing was normalised.
    observation_space, action_space : gymnasium.Space, optional
        The spaces, in place of those that the file describes: it may have rounded the limits of actions.
    algorithm : str, optional
        The class that loads the file, with ``trust=True`` and where the file does not show it.

    Returns
    -------
    NetworkPolicy or PredictPolicy
        The network as data, or, only with ``trust=True``, the live model; its ``name`` is that of the file.

    Raises
    ------
    InvalidInputError
        The file is damaged, or does not determine the policy; the message says what to pass.

    Examples
    --------
    >>> from pastmaster import load_sb3
    >>> load_sb3("ppo_cartpole.zip")  # doctest: +SKIP
    NetworkPolicy(4 - 64 - 64 - 2, tanh, argmax)
    """
    trust = flag("load_sb3", "trust", trust)
    if activation is not None:
        chosen("load_sb3", "activation", activation, ACTIVATIONS)
    if algorithm is not None and not trust:
        raise InvalidInputError(f"load_sb3: algorithm is {algorithm!r}, must be left out without trust=True")
    found = checked_file("load_sb3: path", path, SAVED)
    policy: NetworkPolicy | PredictPolicy
    if trust:
        given = {
            "activation": activation,
            "observation_space": observation_space,
            "action_space": action_space,
        }
        policy = _trusted(found, algorithm, normalise, given)
    else:
        policy = _read(found, activation, normalise, observation_space, action_space)
    policy.name = found.name
    return policy


def _read(
    path: Path,
    activation: str | None,
    normalise: Normalise,
    observation_space: gym.Space[Any] | None,
    action_space: gym.Space[Any] | None,
) -> NetworkPolicy:
    """The network of a file, read as data."""
    place = f"load_sb3: {path.name}"
    data, state = read_model(path, place)
    family, layers = acting_layers(state, place)
    kwargs = _plain_kwargs(data, place)
    observations = _space(data, "observation_space", observation_space, place)
    actions = _space(data, "action_space", action_space, place)
    statistics = given_normalisation(normalise, layers[0][0].shape[1], "load_sb3")
    if normalise is None and observations.kind != "Discrete":
        _check_unnormalised(data, family, place)
    chosen_activation = _activation(kwargs, family, activation, place)
    return network(
        family,
        layers,
        observations,
        actions,
        False,
        place,
        activation=chosen_activation,
        normalise=statistics,
    )


def _plain_kwargs(data: dict[str, Any], place: str) -> dict[str, Any]:
    """The readable part of policy_kwargs; an error where weights and readable settings do not determine the policy."""
    made_by = data.get("policy_class")
    module = made_by.get("__module__") if isinstance(made_by, dict) else None
    if not re.fullmatch(OWN_POLICIES, str(module)):
        raise InvalidInputError(
            f"{place}: its policy class is of module {module!r}, must be Stable-Baselines3's own: {TRUST}"
        )
    if data.get("use_sde") is not False:
        raise InvalidInputError(f"{place}: use_sde is {data.get('use_sde')!r}, must be False: {TRUST}")
    kwargs = data.get("policy_kwargs")
    if not isinstance(kwargs, dict) or kwargs.pop(":type:", "<class 'dict'>") != "<class 'dict'>":
        raise InvalidInputError(f"{place}: its policy_kwargs cannot be read, must be a dict: {TRUST}")
    kwargs.pop(":serialized:", None)
    for key, value in kwargs.items():
        flat = key == "features_extractor_class" and str(value).endswith("torch_layers.FlattenExtractor'>")
        if not (key in HARMLESS or value in PLAIN.get(key, ()) or flat):
            raise InvalidInputError(f"{place}: policy_kwargs has {key}={str(value)[:80]}, must not have it: {TRUST}")
    return kwargs


def _activation(kwargs: dict[str, Any], family: Family, given: str | None, place: str) -> str:
    """The activation that the file names or the caller gives."""
    named = str(kwargs.get("activation_fn"))
    known = family.activation
    if "activation_fn" in kwargs:
        found = re.fullmatch(r"<class 'torch\.nn\.modules\.\w+\.(\w+)'>", named)
        known = OF_TORCH.get(found[1], "") if found else ""
    if not known and given is None:
        raise InvalidInputError(
            f"{place}: its activation is {named[:80]}, which is not known here, must be given: "
            f"pass activation='...', one of {', '.join(ACTIVATIONS)}, or trust=True"
        )
    if known and given is not None and given != known:
        raise InvalidInputError(f"{place}: activation is {given!r}, must be {known!r}, as the file says")
    return known or str(given)


def _space(data: dict[str, Any], key: str, given: gym.Space[Any] | None, place: str) -> Space:
    """The space that is given, else the one that the file describes."""
    return space_in(data, key, place) if given is None else space_of(given, f"{place}: {key}")


def _check_unnormalised(data: dict[str, Any], family: Family, place: str) -> None:
    """An error where the file does not prove that observations reach the policy as they are."""
    if family.name != "PPO or A2C":
        why = f"files of {family.name} do not tell whether observations were normalised (VecNormalize)"
    elif data.get("_last_original_obs", "") is not None:
        why = "trained under VecNormalize (which may have normalised rewards only)"
    elif not isinstance(data.get("num_timesteps"), int) or data["num_timesteps"] < 1:
        why = "saved before any training, so it does not tell whether observations are normalised"
    else:
        return
    raise InvalidInputError(f"{place}: {why}, normalise must be given: {HOW_TO_GIVE}")


def _trusted(
    path: Path, algorithm: str | None, normalise: Normalise, given: dict[str, Any]
) -> NetworkPolicy | PredictPolicy:
    """The policy as Stable-Baselines3 loads it; nothing that it loads may be ``given``."""
    caller = "load_sb3"
    for name, value in given.items():
        if value is not None:
            raise InvalidInputError(f"{caller}: {name} is {value!r}, must be None with trust=True: it is loaded")
    try:
        import stable_baselines3
    except ImportError:
        raise InvalidInputError(f"{caller}: this needs Stable-Baselines3: pip install stable-baselines3") from None
    name = _algorithm(path) if algorithm is None else algorithm
    kind = getattr(stable_baselines3, chosen(caller, "algorithm", name, (*ALGORITHMS, "DDPG")))
    return live_policy(kind.load(path, device="cpu"), normalise, caller, trust=True)


ALGORITHMS = {
    "PPO": "clip_range",
    "A2C": "gae_lambda",
    "DQN": "exploration_fraction",
    "SAC": "ent_coef",
    "TD3": "policy_delay",
}
"""What only the files of an algorithm, or of one above it, hold; DDPG is a TD3 of one critic."""


def _algorithm(path: Path) -> str:
    """The algorithm by which a file was saved, as its ``data`` shows."""
    place = f"load_sb3: {path.name}"
    data, _ = read_model(path, place)
    name = next((name for name, key in ALGORITHMS.items() if key in data), None)
    if name is None:
        raise InvalidInputError(f"{place} does not tell its algorithm, must be given: algorithm='PPO', say")
    kwargs = data.get("policy_kwargs")
    one_critic = isinstance(kwargs, dict) and kwargs.get("n_critics") == 1
    return "DDPG" if name == "TD3" and one_critic else name
