from __future__ import annotations

import functools
import io
import sys
import zipfile

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("stable_baselines3")

import sb3_models as models
import torch
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from pastmaster import FixedPolicy, GymTask, InvalidInputError, transfer
from pastmaster.policies import NetworkPolicy, PredictPolicy, as_policy, from_sb3, load_sb3, normalisation_of

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning:stable_baselines3")


def drawn(space: gym.Space, rng: np.random.Generator, n: int = 1000) -> np.ndarray:
    return (
        rng.integers(space.n, size=n) if isinstance(space, gym.spaces.Discrete) else rng.normal(size=(n, *space.shape))
    )


def assert_same_actions(policy: NetworkPolicy, predict, seen: np.ndarray) -> None:
    """Equal to the model's, but where the two best outputs are within 1e-5 of each other."""
    wanted, got = predict(seen), policy.act(seen)
    if got.dtype.kind == "f":
        assert np.allclose(got, wanted, rtol=1e-5, atol=1e-6 * max(10, np.abs(policy.outputs(seen)).max()))
        assert np.std(wanted) > 0.01
        return
    outputs, nvec = policy.outputs(seen), policy.stack.shape.nvec or (policy.stack.shape.sizes[-1],)
    parts = np.split(outputs, np.cumsum(nvec)[:-1], axis=1)
    sure = np.all([np.diff(np.sort(part, axis=1)[:, -2:], axis=1)[:, 0] > 1e-5 for part in parts], axis=0)
    assert sure.mean() > 0.9
    assert np.array_equal(wanted[sure], got[sure])
    assert len(np.unique(wanted, axis=0)) > 1


def by(model):
    return lambda seen: model.predict(seen.astype(model.observation_space.dtype), deterministic=True)[0]


# exactness


@pytest.mark.parametrize(("algorithm", "env_id"), models.CASES)
def test_a_network_acts_as_its_model_does(algorithm, env_id, tmp_path, rng):
    model = models.model(algorithm, env_id, steps=20)
    seen = drawn(model.observation_space, rng)
    loaded = load_sb3(models.saved(model, tmp_path), normalise=False)
    assert type(loaded) is NetworkPolicy
    assert_same_actions(loaded, by(model), seen)
    live = from_sb3(model)
    assert np.array_equal(live.weights, loaded.weights)
    assert live.settings == loaded.settings
    assert as_policy(model, "here").settings == loaded.settings


def test_a_test_of_exactness_that_can_fail(tmp_path, rng):
    model = models.model("PPO", steps=20)
    loaded = load_sb3(models.saved(model, tmp_path))
    wrong = NetworkPolicy.from_data(loaded.settings | {"activation": "relu"}, loaded.weights)
    with pytest.raises(AssertionError):
        assert_same_actions(wrong, by(model), drawn(model.observation_space, rng))


@pytest.mark.parametrize("net_arch", [[], [5], {"pi": [7, 3], "vf": [4]}])
def test_layers_are_found_whatever_their_number(net_arch, tmp_path, rng):
    model = models.model("PPO", "Pendulum-v1", steps=16, policy_kwargs={"net_arch": net_arch})
    assert_same_actions(load_sb3(models.saved(model, tmp_path)), by(model), drawn(model.observation_space, rng))


# activations


@pytest.mark.parametrize(
    ("algorithm", "kind"), [("PPO", "ReLU"), ("DQN", "Tanh"), ("A2C", "ELU"), ("DQN", "LeakyReLU")]
)
def test_an_activation_that_the_file_names_is_taken(algorithm, kind, tmp_path, rng):
    kwargs = {"net_arch": [16, 16], "activation_fn": getattr(torch.nn, kind)}
    model = models.model(algorithm, steps=16, policy_kwargs=kwargs)
    loaded = load_sb3(models.saved(model, tmp_path), normalise=False)
    assert_same_actions(loaded, by(model), drawn(model.observation_space, rng))
    assert from_sb3(model).settings == loaded.settings


def test_an_activation_that_is_not_known_must_be_given(tmp_path, rng):
    slope = functools.partial(torch.nn.LeakyReLU, 0.2)
    model = models.model("PPO", steps=16, policy_kwargs={"net_arch": [16], "activation_fn": slope})
    path = models.saved(model, tmp_path)
    with pytest.raises(
        InvalidInputError, match=r"its activation is functools\.partial.*must be given: pass activation="
    ):
        load_sb3(path)
    assert load_sb3(path, activation="leaky_relu").settings["activation"] == "leaky_relu"
    live = as_policy(model, "here")  # its slope is not torch's default: it stays a model
    assert isinstance(live, PredictPolicy)
    seen = drawn(model.observation_space, rng, 50)
    assert np.array_equal(live.act(seen), by(model)(seen))
    with pytest.raises(InvalidInputError, match="between its layers are LeakyReLU"):
        from_sb3(model)


def test_an_activation_that_contradicts_the_file_is_refused(tmp_path):
    path = models.file(tmp_path, "PPO")
    with pytest.raises(InvalidInputError, match="activation is 'relu', must be 'tanh', as the file says"):
        load_sb3(path, activation="relu")
    with pytest.raises(InvalidInputError, match="activation is 'swish', must be one of"):
        load_sb3(path, activation="swish")
    assert load_sb3(path, activation="tanh").settings["activation"] == "tanh"


def test_an_activation_that_does_not_exist_is_refused_before_the_file_is_read(tmp_path):
    path = models.file(tmp_path, "DQN")  # which asks for normalise too
    with pytest.raises(InvalidInputError, match=r"^load_sb3: activation is 'foo', must be one of"):
        load_sb3(path, activation="foo")


def test_a_policy_that_was_loaded_is_called_as_its_file(tmp_path):
    path = models.file(tmp_path, "PPO", name="cart.zip")
    assert load_sb3(path).name == load_sb3(str(path), trust=True).name == "cart.zip"
    task = GymTask("CartPole-v1", horizon=3)
    run = transfer(task, [load_sb3(path), load_sb3(path, trust=True)], learner=FixedPolicy(lambda x: 0), episodes=2)
    assert run.arm_names == ["cart.zip (0)", "cart.zip (1)", "learner"]


@pytest.mark.parametrize("name", ["nope.pkl", "nope.npz"])
def test_statistics_that_are_not_there_are_said_to_be_missing(name, tmp_path):
    path = models.file(tmp_path, "DQN")
    with pytest.raises(InvalidInputError, match=rf"^load_sb3: normalise is '.*{name}'.*which does not exist"):
        load_sb3(path, normalise=tmp_path / name)


# normalisation


def normalised(algorithm, norm_obs=True):
    env = "Pendulum-v1" if algorithm in ("SAC", "TD3", "DDPG") else "CartPole-v1"
    wrapped = VecNormalize(DummyVecEnv([lambda: gym.make(env)]), norm_obs=norm_obs)
    return models.model(algorithm, wrapped, steps=40), wrapped


@pytest.mark.parametrize("algorithm", models.KINDS)
def test_normalisation_is_refused_until_it_is_given(algorithm, tmp_path, rng):
    model, wrapped = normalised(algorithm)
    path, seen = models.saved(model, tmp_path), 3 * drawn(model.observation_space, rng)
    with pytest.raises(InvalidInputError, match=r"pass normalise=False \(--no-normalise\), or its mean and var"):
        load_sb3(path)
    np.savez(tmp_path / "statistics.npz", **normalisation_of(wrapped))

    def wanted(seen):
        return by(model)(wrapped.normalize_obs(seen))

    for given in (normalisation_of(wrapped), tmp_path / "statistics.npz"):
        loaded = load_sb3(path, normalise=given)
        assert_same_actions(loaded, wanted, seen)
        assert "normalised" in repr(loaded)
    assert np.array_equal(from_sb3(model).act(seen), loaded.act(seen))


def test_a_file_that_proves_its_observations_raw_loads_in_one_line(tmp_path):
    for algorithm in models.ON_POLICY:
        assert load_sb3(models.file(tmp_path, algorithm)).normalise is None
    lake = models.model("DQN", "FrozenLake-v1", steps=16)
    assert load_sb3(models.saved(lake, tmp_path)).settings["one_hot"]


def test_a_file_that_does_not_tell_asks(tmp_path):
    cases = {
        "files of DQN do not tell": models.model("DQN", steps=16),
        "files of SAC do not tell": models.model("SAC", "Pendulum-v1", steps=16),
        "saved before any training": models.model("PPO"),
        "trained under VecNormalize": normalised("PPO", norm_obs=False)[0],
    }
    for message, model in cases.items():
        path = models.saved(model, tmp_path)
        with pytest.raises(InvalidInputError, match=message):
            load_sb3(path)
        assert load_sb3(path, normalise=False).normalise is None


def test_a_live_model_without_its_environment_asks(tmp_path):
    path = models.file(tmp_path, "DQN")
    model = models.KINDS["DQN"].load(path)
    with pytest.raises(InvalidInputError, match=r"^sources\[1\]: the DQN has no environment.*normalise must be given"):
        as_policy(model, "sources[1]")
    assert from_sb3(model, normalise=False).normalise is None
    plain = models.KINDS["PPO"].load(models.file(tmp_path, "PPO"))
    assert as_policy(plain, "here").normalise is None


def test_statistics_that_do_not_fit_are_refused(tmp_path):
    path = models.file(tmp_path, "DQN")
    pickled, objects, text = tmp_path / "vec.pkl", tmp_path / "objects.npz", tmp_path / "text.npz"
    np.savez(objects, mean=np.array([object()] * 4), var=np.ones(4))
    text.write_text("no zip")
    pickled.write_bytes(b"of any kind")
    for given, message in (
        (pickled, "a pickle, which may run code, must be an .npz"),
        (objects, r"normalise objects.npz is not an .npz file of numbers: mean.npy: has dtype object"),
        (text, "normalise text.npz is not an .npz file of numbers"),
        (tmp_path / "none.npz", "none.npz', which does not exist, must be an .npz file of mean and var"),
        ({"mean": np.zeros(3), "var": np.ones(3)}, r"normalise\['mean'\] must hold 4 numbers"),
        ({"mean": np.zeros(4)}, "must be a dict of mean and var"),
        (True, "must be a dict of mean and var"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            load_sb3(path, normalise=given)
    with pytest.raises(InvalidInputError, match="must be a VecNormalize that normalises observations"):
        normalisation_of(normalised("PPO", norm_obs=False)[1])


# spaces


def boxed(low, high):
    class Env(gym.Env):
        observation_space = gym.spaces.Box(-1, 1, (2,))
        action_space = gym.spaces.Box(np.float32(low), np.float32(high))

        def reset(self, **_):
            return np.zeros(2, np.float32), {}

        def step(self, action):
            return np.zeros(2, np.float32), 0.0, False, True, {}

    return Env()


@pytest.mark.parametrize("limits", [([-2], [5]), ([[-1, -1], [0, -3]], [[1, 2], [3, 1]]), ([-0.41887903], [0.123456])])
def test_limits_that_are_printed_exactly_are_read(limits, tmp_path, rng):
    model = models.model("PPO", boxed(*limits), steps=16)
    loaded = load_sb3(models.saved(model, tmp_path))
    assert_same_actions(loaded, by(model), drawn(model.observation_space, rng))
    assert loaded.act(np.zeros((3, 2))).shape == (3, *model.action_space.shape)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_spaces_of_older_versions_of_gym_are_read(env_id, tmp_path, rng):
    def renamed(data):
        for key in ("observation_space", "action_space"):
            space = data[key]
            space[":type:"] = space[":type:"].replace("gymnasium", "gym")
            if "_shape" in space:
                space["shape"] = space.pop("_shape")

    model = models.model("PPO", env_id, steps=16)
    path = models.saved(model, tmp_path)
    models.with_data(path, renamed)
    assert_same_actions(load_sb3(path), by(model), drawn(model.observation_space, rng))


def test_limits_that_may_be_rounded_must_be_given(tmp_path, rng):
    cases = [
        boxed([-0.4189], [1]),
        boxed([-0.4], [0.5]),
        boxed([-1.25e-5], [1.5e-5]),
        boxed(-np.ones(1001), np.ones(1001)),
    ]
    for env in cases:
        model = models.model("PPO", env, steps=16)
        path = models.saved(model, tmp_path)
        with pytest.raises(InvalidInputError, match="cannot be read exactly, must be given: pass action_space="):
            load_sb3(path)
        loaded = load_sb3(path, action_space=env.action_space)
        seen = drawn(model.observation_space, rng)
        assert np.allclose(loaded.act(seen), by(model)(seen), rtol=1e-5, atol=1e-5 * env.action_space.high.max())


def test_what_would_not_be_looked_at_is_refused(tmp_path):
    path = models.file(tmp_path, "PPO")
    with pytest.raises(InvalidInputError, match="algorithm is 'PPO', must be left out without trust=True"):
        load_sb3(path, algorithm="PPO")
    with pytest.raises(InvalidInputError, match=r"action_space is .*, must be None with trust=True: it is loaded"):
        load_sb3(path, trust=True, action_space=gym.spaces.Discrete(2))


def test_spaces_that_contradict_the_file_are_refused(tmp_path):
    path = models.file(tmp_path, "PPO")
    with pytest.raises(InvalidInputError, match="the last layer gives 2 numbers, must give 3"):
        load_sb3(path, action_space=gym.spaces.Discrete(3))
    with pytest.raises(InvalidInputError, match="the first layer takes 4 numbers, must take 5"):
        load_sb3(path, observation_space=gym.spaces.Box(-1, 1, (5,)))
    with pytest.raises(InvalidInputError, match=r"action_space is Discrete.2, start=1., must be a Box"):
        load_sb3(path, action_space=gym.spaces.Discrete(2, start=1))


def test_a_space_that_is_not_described_must_be_given(tmp_path):
    path = models.file(tmp_path, "PPO")
    models.with_data(path, lambda data: data.update(action_space={":type:": "x"}))
    with pytest.raises(InvalidInputError, match=r"action_space is not described, must be .*: pass action_space="):
        load_sb3(path)
    assert load_sb3(path, action_space=gym.spaces.Discrete(2)).settings["head"] == "argmax"
    with pytest.raises(InvalidInputError, match="the last layer gives 2 numbers, must give 3"):
        load_sb3(path, action_space=gym.spaces.Discrete(3))


# what is no plain network


class Halved(BaseFeaturesExtractor):
    """An extractor without weights that changes what the network sees."""

    def __init__(self, space):
        super().__init__(space, space.shape[0])

    def forward(self, x):
        return x * 0.5


def test_a_custom_extractor_is_refused_and_trusted_as_itself(tmp_path, rng):
    kwargs = {"features_extractor_class": Halved, "net_arch": [8]}
    model = models.model("PPO", steps=16, policy_kwargs=kwargs)
    path, seen = models.saved(model, tmp_path), drawn(model.observation_space, rng)
    with pytest.raises(
        InvalidInputError, match=r"policy_kwargs has features_extractor_class=.*Halved.*pass trust=True"
    ):
        load_sb3(path)
    trusted = load_sb3(path, trust=True)
    assert isinstance(trusted, PredictPolicy)
    assert np.array_equal(trusted.act(seen), by(model)(seen))
    assert "PPO" in repr(trusted)


def test_gsde_and_images_are_refused(tmp_path):
    path = models.saved(models.model("PPO", "Pendulum-v1", steps=16, use_sde=True), tmp_path)
    with pytest.raises(InvalidInputError, match="use_sde is True, must be False: pass trust=True"):
        load_sb3(path)
    path = models.file(tmp_path, "PPO")
    image = {":type:": "<class 'gymnasium.spaces.box.Box'>", "_shape": [2, 2, 1], "dtype": "uint8"}
    models.with_data(path, lambda data: data["observation_space"].update(image))
    with pytest.raises(InvalidInputError, match="must be Discrete or a Box that is no image"):
        load_sb3(path)


WRONG_STATES = {
    "a norm between": (lambda s: s.update({"mlp_extractor.policy_net.1.weight": torch.ones(16)}), "like PPO or A2C"),
    "steps of 3": (
        lambda s: [
            s.update({f"mlp_extractor.policy_net.3.{p}": s.pop(f"mlp_extractor.policy_net.2.{p}")})
            for p in ("weight", "bias")
        ],
        "PPO or A2C but for mlp_extractor.policy_net.3.weight, must be linear layers",
    ),
    "an extractor": (lambda s: s.update({"features_extractor.cnn.0.weight": torch.ones(1)}), "but for features_"),
    "recurrent": (lambda s: s.update({"lstm_actor.weight_ih_l0": torch.ones(1)}), "but for lstm_actor"),
    "no bias": (lambda s: s.pop("action_net.bias"), "but for action_net.bias"),
    "another algorithm": (lambda s: s.pop("action_net.weight"), "are not of PPO, A2C, DQN, SAC, TD3 or DDPG"),
    "nan": (lambda s: s["action_net.weight"].fill_(torch.nan), r"layers\[2\] has numbers that are not finite"),
    "inputs": (
        lambda s: s.update({"mlp_extractor.policy_net.0.weight": torch.ones(16, 5)}),
        "the first layer takes 5 numbers, must take 4",
    ),
    "outputs": (
        lambda s: s.update({"action_net.weight": torch.ones(3, 16), "action_net.bias": torch.ones(3)}),
        "the last layer gives 3 numbers, must give 2",
    ),
    "shapes": (lambda s: s.update({"action_net.bias": torch.ones(3)}), r"layers\[2\] has shapes"),
    "one axis": (lambda s: s.update({"action_net.weight": torch.ones(3)}), "must be linear layers"),
    "integers": (
        lambda s: s.update({"action_net.weight": torch.ones(2, 16).long()}),
        "is torch.int64, must be a dense tensor of floats",
    ),
    "stride 0": (
        lambda s: s.update({"action_net.weight": torch.ones(1).expand(10**6, 10**6)}),
        "of floats that the file has room for",
    ),
    "sparse": (lambda s: s.update({"action_net.weight": torch.ones(2, 16).to_sparse()}), "must be a dense tensor"),
    "no tensor": (lambda s: s.update({"action_net.weight": "weights"}), "is str, must be a dense tensor"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_STATES)
def test_weights_that_are_no_plain_network_are_refused(case, tmp_path):
    change, message = WRONG_STATES[case]
    path = models.with_state(models.file(tmp_path, "PPO"), change)
    with pytest.raises(InvalidInputError, match=message):
        load_sb3(path)


WRONG_DATA = {
    "a class of its own": (lambda d: d["policy_class"].update(__module__="mine"), "policy class is of module 'mine'"),
    "no class": (lambda d: d.pop("policy_class"), "policy class is of module None"),
    "no kwargs": (lambda d: d.pop("policy_kwargs"), "its policy_kwargs cannot be read"),
    "kwargs of another type": (lambda d: d.update(policy_kwargs={":type:": "x"}), "its policy_kwargs cannot be read"),
    "an unknown setting": (lambda d: d["policy_kwargs"].update(depth=3), "policy_kwargs has depth=3, must not have it"),
    "squashed": (lambda d: d["policy_kwargs"].update(squash_output=True), "policy_kwargs has squash_output=True"),
    "no word on gSDE": (lambda d: d.pop("use_sde"), "use_sde is None"),
    "no word on normalisation": (lambda d: d.pop("_last_original_obs"), "normalise must be given"),
    "no number of actions": (lambda d: d["action_space"].update(n="no number"), "action_space is a Discrete, must"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_DATA)
def test_data_that_leaves_a_doubt_is_refused(case, tmp_path):
    change, message = WRONG_DATA[case]
    path = models.with_data(models.file(tmp_path, "PPO"), change)
    with pytest.raises(InvalidInputError, match=message):
        load_sb3(path)


# files that mean harm


@pytest.mark.parametrize("member", ["data", "policy.pth", "pytorch_variables.pth", "policy.optimizer.pth"])
def test_a_poisoned_file_runs_nothing(member, tmp_path):
    marker = tmp_path / "it ran"
    path = models.file(tmp_path, "PPO")
    models.poisoned(path, member, marker)
    if member == "policy.pth":
        with pytest.raises(InvalidInputError, match=r"policy\.pth is not an archive of tensors alone"):
            load_sb3(path)
    else:
        assert isinstance(load_sb3(path), NetworkPolicy)
    assert not marker.exists()


@pytest.mark.parametrize("trust", ["no", "False", 1, None, [False]])
def test_only_true_is_trust(trust, tmp_path):
    marker = tmp_path / "it ran"
    path = models.file(tmp_path, "PPO")
    models.poisoned(path, "data", marker)
    with pytest.raises(InvalidInputError, match=r"^load_sb3: trust is .*, must be True or False"):
        load_sb3(path, trust=trust)
    assert not marker.exists()


def test_the_poison_is_real(tmp_path):
    marker = tmp_path / "it ran"
    path = models.file(tmp_path, "PPO")
    models.poisoned(path, "data", marker)
    load_sb3(path, trust=True)
    assert marker.exists()


def test_a_poisoned_pickle_of_statistics_runs_nothing(tmp_path):
    import pickle

    marker = tmp_path / "it ran"
    statistics = tmp_path / "vec_normalize.pkl"
    statistics.write_bytes(pickle.dumps(models.Poison(marker)))
    path = models.file(tmp_path, "DQN")
    with pytest.raises(InvalidInputError, match="a pickle, which may run code"):
        load_sb3(path, normalise=statistics)
    assert not marker.exists()


def declares(path, name, size):
    """The file with the size that its directory declares for a member changed."""
    raw = bytearray(path.read_bytes())
    at = raw.rindex(name.encode()) - 46
    assert raw[at : at + 4] == b"PK\1\2"
    raw[at + 24 : at + 28] = size.to_bytes(4, "little")
    path.write_bytes(raw)


def bomb(parts, path):
    parts["data"] = b"[" + b" " * (2**26) + b"]"
    models.written(path, parts, zipfile.ZIP_DEFLATED)


def inner_bomb(parts, path):
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(parts["policy.pth"])) as old,
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name) if "/data/0" not in name else bytes(2**24))
    models.written(path, parts | {"policy.pth": buffer.getvalue()})


def many_views(parts, path):
    """One small storage under thousands of names: each would fit into memory, all of them not."""
    buffer = io.BytesIO()
    state = torch.load(io.BytesIO(parts["policy.pth"]), weights_only=True)
    one = torch.ones(1)
    torch.save(state | {f"value_net.{k}": one.expand(5_000) for k in range(2_000)}, buffer)
    models.written(path, parts | {"policy.pth": buffer.getvalue()})


def two_formats(parts, path):
    """Torch's old format, which is no archive, with an empty archive behind it."""
    buffer, empty = io.BytesIO(), io.BytesIO()
    state = torch.load(io.BytesIO(parts["policy.pth"]), weights_only=True)
    torch.save(state, buffer, _use_new_zipfile_serialization=False)
    zipfile.ZipFile(empty, "w").close()
    models.written(path, parts | {"policy.pth": buffer.getvalue() + empty.getvalue()})


def script(parts, path):
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), buffer)
    models.written(path, parts | {"policy.pth": buffer.getvalue()})


HARM = {
    "not a zip": (lambda parts, path: path.write_bytes(b"PK nothing"), "is not a .zip file that a model"),
    "empty": (lambda parts, path: path.write_bytes(b""), "an empty file, must be a .zip file that a model"),
    "cut short": (
        lambda parts, path: path.write_bytes(path.read_bytes()[:-500]),
        "is not a .zip file that a model|without 'data'",
    ),
    "flipped": (
        lambda parts, path: path.write_bytes(path.read_bytes().replace(b'"verbose"', b'"verbosE"', 1)),
        "is not a .zip file that a model of Stable-Baselines3 saved: Bad CRC",
    ),
    "no data": (lambda parts, path: models.written(path, {"policy.pth": b""}), "without 'data', which every model has"),
    "no weights": (lambda parts, path: models.written(path, {"data": b"{}"}), "is a zip file without 'policy.pth'"),
    "only a path out": (
        lambda parts, path: models.written(path, {"../../data": parts["data"], "/policy.pth": b""}),
        "without 'data', which every model has",
    ),
    "a bomb": (bomb, "data has 67,108,866 bytes, must have at most 67,108,864"),
    "gigabytes declared": (lambda parts, path: declares(path, "policy.pth", 2**32 - 2), "must have at most"),
    "less declared": (lambda parts, path: declares(path, "policy.pth", 100), "is not a .zip file .* saved: Bad CRC"),
    "a bomb within": (inner_bomb, "policy.pth is not .*: it would unpack to 16,.* bytes, must not be compressed"),
    "a script": (script, "policy.pth is not an archive of tensors alone"),
    "many views of little": (many_views, "of floats that the file has room for"),
    "two formats": (two_formats, "policy.pth is not an archive of tensors alone"),
    "weights that are no archive": (lambda p, path: models.written(path, p | {"policy.pth": b"x"}), "not an archive"),
    "deep JSON": (lambda p, path: models.written(path, p | {"data": b"[" * 10**6}), "data is not JSON"),
    "no JSON": (lambda p, path: models.written(path, p | {"data": b"\xff\xfe{"}), "data is not JSON"),
    "a list": (lambda p, path: models.written(path, p | {"data": b"[]"}), "data is a list, must be a dict"),
    "a folder": (lambda parts, path: (path.unlink(), path.mkdir()), "a folder, must be a .zip file that a model"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*torch.jit")
@pytest.mark.parametrize("case", HARM)
def test_a_file_that_means_harm_is_refused(case, tmp_path):
    change, message = HARM[case]
    path = models.file(tmp_path, "PPO")
    change(models.members(path), path)
    with pytest.raises(InvalidInputError, match=message):
        load_sb3(path)
    assert {entry.name for entry in tmp_path.iterdir()} <= {"model.zip"}


def test_a_path_out_of_the_file_is_not_followed(tmp_path):
    path = models.file(tmp_path, "PPO")
    parts = models.members(path)
    models.written(path, {"../../escaped": b"x", "/tmp/escaped": b"x"} | parts)
    assert isinstance(load_sb3(path), NetworkPolicy)
    assert {entry.name for entry in tmp_path.iterdir()} == {"model.zip"}
    assert not (tmp_path.parent.parent / "escaped").exists()


# trusted files


@pytest.mark.parametrize(("algorithm", "env_id"), [(a, ids[0]) for a, ids in models.ENVIRONMENTS.items()])
def test_a_trusted_file_gives_the_same_network(algorithm, env_id, tmp_path):
    path = models.file(tmp_path, algorithm, env_id)
    trusted = load_sb3(path, trust=True, normalise=False)
    assert np.array_equal(trusted.weights, load_sb3(path, normalise=False).weights)


def test_trusted_statistics_may_be_a_pickle(tmp_path, rng):
    model, wrapped = normalised("DQN")
    wrapped.save(tmp_path / "vec.pkl")
    path, seen = models.saved(model, tmp_path), drawn(model.observation_space, rng)
    trusted = load_sb3(path, trust=True, normalise=tmp_path / "vec.pkl")
    assert np.array_equal(trusted.act(seen), load_sb3(path, normalise=normalisation_of(wrapped)).act(seen))


def test_trust_asks_what_it_cannot_tell(tmp_path):
    path = models.file(tmp_path, "DQN")
    with pytest.raises(InvalidInputError, match=r"has no environment.*normalise must be given"):
        load_sb3(path, trust=True)
    with pytest.raises(InvalidInputError, match="algorithm is 'system', must be one of 'PPO', 'A2C'"):
        load_sb3(path, trust=True, algorithm="system")
    with pytest.raises(InvalidInputError, match="activation is 'relu', must be None with trust=True"):
        load_sb3(path, trust=True, activation="relu")
    models.with_data(path, lambda data: data.pop("exploration_fraction"))
    with pytest.raises(InvalidInputError, match="does not tell its algorithm, must be given"):
        load_sb3(path, trust=True)


def test_a_model_that_normalises_and_is_no_network_still_acts(rng):
    wrapped = VecNormalize(DummyVecEnv([lambda: gym.make("CartPole-v1")]))
    kwargs = {"features_extractor_class": Halved, "net_arch": [8]}
    model = models.model("PPO", wrapped, steps=16, policy_kwargs=kwargs)
    policy, seen = as_policy(model, "here"), 3 * drawn(model.observation_space, rng)
    assert np.array_equal(policy.act(seen), by(model)(wrapped.normalize_obs(seen)))


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    path = models.file(tmp_path, "PPO")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InvalidInputError, match="needs torch: pip install torch"):
        load_sb3(path)
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(InvalidInputError, match="needs Stable-Baselines3: pip install stable-baselines3"):
        load_sb3(path, trust=True)
    with pytest.raises(InvalidInputError, match="model is 5, must be a live model"):
        from_sb3(5)
