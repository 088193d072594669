from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import seams
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from onnx_models import counter, dense, flat_model, mlp, model, node, tensor, value, written

from pastmaster import (
    FixedPolicy,
    GymTask,
    InvalidInputError,
    Repository,
    TabularMDP,
    estimate_cross_values,
    evaluate,
    load_onnx,
    transfer,
)
from pastmaster.errors import MissingPackageError
from pastmaster.estimation import EpisodeRange, episode_returns, estimate_values
from pastmaster.policies import FunctionPolicy, OnnxPolicy, as_policy
from pastmaster.testing import check_policy

pytest.importorskip("onnxruntime")


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    """Files are tried out here: what the process with limits refuses is tested in ``test_onnx_files``."""
    seams.try_onnx_here(monkeypatch)


BOX = Box(-1, 1, (4,))
CART = (Box(-np.inf, np.inf, (4,)), Discrete(2))
IMAGE = Box(0, 255, (6, 5, 3), np.uint8)


# the same numbers as the framework that made the network


def exported(module: Any, arguments: tuple[Any, ...], path: Any, inputs: list[str], outputs: list[str]) -> Any:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module.eval(), arguments, path, input_names=inputs, output_names=outputs, external_data=False, verbose=False
        )
    return path


def close(ours: Any, theirs: Any) -> bool:
    """Equal up to what the order of sums in float32 can make."""
    scale = np.abs(theirs).max()
    return bool(np.abs(ours - theirs).max() <= 1e-5 * max(1.0, scale))


@pytest.mark.long(15)
def test_networks_of_torch_give_what_torch_gives(tmp_path, rng):
    torch = pytest.importorskip("torch")
    nn = torch.nn
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 2))
    path = exported(plain, (torch.zeros(1, 4),), tmp_path / "plain.onnx", ["obs"], ["logits"])
    seen = rng.normal(size=(50, 4)).astype(np.float32)
    with torch.no_grad():
        expected = plain(torch.tensor(seen)).numpy()
    policy = load_onnx(path, CART)
    assert close(policy.outputs(seen), expected)
    assert (policy.act(seen) == expected.argmax(axis=1)).all()

    images = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8 * 2 * 2, 5), nn.Tanh()
    )
    path = exported(images, (torch.zeros(1, 3, 6, 5),), tmp_path / "images.onnx", ["obs"], ["mean"])
    pixels = rng.integers(0, 256, (20, 6, 5, 3), dtype=np.uint8)
    with torch.no_grad():
        expected = images(torch.tensor(pixels.transpose(0, 3, 1, 2)).float()).numpy()
    policy = load_onnx(path, (IMAGE, Box(-0.5, 0.5, (5,))))
    assert policy.inputs[""].form == "channels_first"
    assert close(policy.outputs(pixels), expected)
    assert close(policy.act(pixels), expected.clip(-0.5, 0.5))


@pytest.mark.long(15)
def test_a_recurrent_network_of_torch_remembers_as_torch_does(tmp_path, rng):
    torch = pytest.importorskip("torch")

    class Recurrent(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = torch.nn.LSTM(4, 8), torch.nn.Linear(8, 2)

        def forward(self, x: Any, h: Any, c: Any) -> Any:
            y, (h, c) = self.lstm(x, (h, c))
            return self.head(y), h, c

    torch.manual_seed(0)
    module, zero = Recurrent(), torch.zeros(1, 1, 8)
    names = ["obs", "h_in", "c_in"], ["logits", "h_out", "c_out"]
    path = exported(module, (torch.zeros(1, 1, 4), zero, zero.clone()), tmp_path / "lstm.onnx", *names)
    policy = load_onnx(path, CART, state={"h_in": "h_out", "c_in": "c_out"})
    assert policy.recurrent
    seen = rng.normal(size=(30, 4)).astype(np.float32)
    with torch.no_grad():
        expected = module(torch.tensor(seen)[:, None], zero, zero)[0][:, 0].numpy()
    for _ in range(2):  # the second episode begins from zero too
        episode = policy.begin_episode()
        state, outputs = policy.begin, []
        for row in policy._rows(seen):
            output, state = policy._step(row, state)
            outputs.append(output)
        assert close(np.array(outputs), expected)
        assert [episode.act(seen[i : i + 1])[0] for i in range(30)] == expected.argmax(axis=1).tolist()
    check_policy(policy, CART)


def test_networks_of_jax_give_what_jax_gives(tmp_path, rng):
    jax = pytest.importorskip("jax")
    kernel = rng.normal(size=(3, 3, 3, 4)).astype(np.float32)  # [H, W, in, out]
    weights, biases = rng.normal(size=(4 * 4 * 3, 6)).astype(np.float32), rng.normal(size=6).astype(np.float32)

    def forward(images: Any) -> Any:
        axes = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(images, kernel, (1, 1), "VALID", dimension_numbers=axes)
        return jax.nn.relu(x).reshape(len(images), -1) @ weights + biases

    nodes = [
        node("Transpose", ["obs"], ["channels_first"], perm=[0, 3, 1, 2]),
        node("Conv", ["channels_first", "kernel"], ["x"]),
        node("Relu", ["x"], ["y"]),
        node("Transpose", ["y"], ["channels_last"], perm=[0, 2, 3, 1]),
        node("Flatten", ["channels_last"], ["flat"]),
        node("Gemm", ["flat", "weights", "biases"], ["out"]),
    ]
    tensors = [
        tensor(np.ascontiguousarray(kernel.transpose(3, 2, 0, 1)), "kernel"),
        tensor(weights, "weights"),
        tensor(biases, "biases"),
    ]
    made = model(nodes, [value("obs", "float32", ["n", 6, 5, 3])], [value("out", "float32", ["n", 6])], tensors)
    policy = load_onnx(written(tmp_path, made), (IMAGE, Discrete(6)))
    pixels = rng.integers(0, 256, (20, 6, 5, 3), dtype=np.uint8)
    expected = np.asarray(jax.jit(forward)(pixels.astype(np.float32)))
    assert close(policy.outputs(pixels), expected)
    assert (policy.act(pixels) == expected.argmax(axis=1)).all()


# one contract for all spaces


OBSERVATIONS = {
    "box": (BOX, ["n", 4], 4, "float32"),
    "box of doubles": (Box(-1, 1, (4,), np.float64), [1, 4], 4, "float64"),
    "box, without a batch": (BOX, [4], 4, "float32"),
    "table, flat": (Box(-1, 1, (2, 3)), ["n", 6], 6, "float32"),
    "image": (IMAGE, ["n", 6, 5, 3], 90, "uint8"),
    "image, channels first": (IMAGE, ["n", 3, 6, 5], 90, "float32"),
    "image, channels last": (Box(0, 1, (3, 6, 5)), [1, 6, 5, 3], 90, "float32"),
    "image, flat": (IMAGE, [1, 90], 90, "float32"),
    "state": (Discrete(5), ["n"], 1, "int64"),
    "state, one-hot": (Discrete(5), ["n", 5], 5, "float32"),
    "choices": (MultiDiscrete([3, 4]), ["n", 2], 2, "int64"),
    "bits": (MultiBinary(3), ["n", 3], 3, "float32"),
}
ACTIONS = {
    "discrete": (Discrete(3), 3, ""),
    "discrete from 2": (Discrete(3, start=2), 3, ""),
    "index": (Discrete(3), 3, "index"),
    "box": (Box(-0.1, 0.2, (2, 2)), 4, ""),
    "unbounded": (Box(-np.inf, np.inf, (2,)), 2, ""),
    "multi-discrete": (MultiDiscrete([2, 3]), 5, ""),
}


class Anywhere(gym.Env):
    """An environment of any spaces, whose rewards depend on actions."""

    def __init__(self, seen: str, done: str) -> None:
        self.observation_space = copy.deepcopy(PARTS if seen == "dict" else OBSERVATIONS[seen][0])
        self.action_space, self.steps = ACTIONS[done][0], 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        self.steps += 1
        return self.observation_space.sample(), float(np.sum(action)), self.steps == 5, False, {}


PARTS = Dict({"camera": IMAGE, "place": Discrete(5), "speed": Box(-1, 1, (2,))})
gym.register("test/Anywhere-v0", entry_point=Anywhere)


def on_parts(outputs: int, then: str) -> bytes:
    """A graph with an input to each part of a Dict."""
    layers, weights = dense("x", [97, 8, outputs], np.random.default_rng(1), "scores" if then else "out")
    nodes = [
        node("Flatten", ["camera"], ["flat"]),
        node("Concat", ["flat", "place", "speed"], ["x"], axis=1),
        *layers,
    ]
    if then:
        nodes.append(node("ArgMax", ["scores"], ["out"], axis=1, keepdims=1))
    inputs = [
        value("speed", "float32", ["n", 2]), value("camera", "float32", ["n", 3, 6, 5]),
        value("place", "float32", ["n", 5]),
    ]  # fmt: skip
    return model(nodes, inputs, [value("out", "int64" if then else "float32", None)], weights)


@pytest.mark.parametrize(
    ("seen", "done"),
    [*((seen, "discrete") for seen in OBSERVATIONS), *(("box", done) for done in ACTIONS), ("dict", "box"),
     ("dict", "index"), ("dict", "multi-discrete"), ("image, channels first", "box")],
)  # fmt: skip
def test_every_space_keeps_the_contract(seen, done, tmp_path):
    _, outputs, then = ACTIONS[done]
    if seen == "dict":
        content = on_parts(outputs, then)
    else:
        _, shape, size, dtype = OBSERVATIONS[seen]
        content = flat_model(shape, size, outputs, dtype=dtype, then=then)
    task = GymTask("test/Anywhere-v0", {"seen": seen, "done": done}, gamma=0.9, horizon=5)
    policy = load_onnx(written(tmp_path, content), task)
    check_policy(policy, task)
    estimate = estimate_cross_values([task], [policy, policy], budget=20, rng=0, bounds=(-100, 100))
    assert np.isfinite(estimate.mean).all()
    assert estimate.policies == ("policy.onnx", "policy.onnx")
    mean = estimate_values(task, [policy, policy], episodes=4, seed=0).mean
    assert mean[0] == mean[1]
    run = transfer(task, [policy], episodes=3, learner=FixedPolicy(policy), bounds=(-100, 100), rng=0)
    assert run.returns.shape == (1, 3)
    with Repository(tmp_path / "policies.db") as repository:
        repository.add(task, policy, evaluation_episodes=3)
        stored = repository.policies()[0]
        assert repository.check() == []
    assert stored.model == content
    assert stored.settings == policy.settings
    task_observations = [task.observation_space.sample() for _ in range(4)]
    given = task_observations if seen == "dict" else np.array(task_observations)
    assert np.array_equal(stored.act(given), policy.act(given))


def test_an_action_depends_on_its_observation_alone(tmp_path, rng):
    nodes, weights = dense("obs", [64, 300, 300, 7], rng)
    made = model(nodes, [value("obs", "float32", ["n", 64])], [value("out", "float32", ["n", 7])], weights)
    policy = load_onnx(written(tmp_path, made), (Box(-1, 1, (64,)), Discrete(7)))
    seen = rng.normal(size=(40, 64)).astype(np.float32)
    together = policy.outputs(seen)
    for i in range(40):
        assert (policy.outputs(seen[i : i + 1])[0] == together[i]).all()
    assert policy.act(seen[:0]).shape == (0,)


def test_a_pickled_policy_is_made_again(tmp_path, rng):
    policy = load_onnx(written(tmp_path, mlp()), CART)
    seen = rng.normal(size=(5, 4))
    copied = pickle.loads(pickle.dumps(policy))
    assert copied._session is None
    assert (copied.act(seen) == policy.act(seen)).all()
    assert as_policy(policy, "policy") is policy
    assert policy.name == "policy.onnx"


def test_a_policy_of_states_is_evaluated_as_a_table(tmp_path):
    task = TabularMDP([[1, 0], [0, 1]], [[0.0, 1.0], [2.0, 0.0]], gamma=0.5, horizon=3)
    policy = load_onnx(written(tmp_path, flat_model(["n", 2], 2, 2)), task)
    table = policy.act([0, 1])
    assert (evaluate(task, policy) == evaluate(task, table)).all()


def test_observations_are_normalised_as_asked(tmp_path, rng):
    path, normalise = (
        written(tmp_path, mlp()),
        {"mean": [1.0, 2.0, 3.0, 4.0], "var": [1.0, 4.0, 9.0, 16.0], "clip": 1.5},
    )
    seen = 5 * rng.normal(size=(20, 4))
    normal = np.clip((seen - np.arange(1, 5)) / np.sqrt(np.arange(1, 5) ** 2 + 1e-8), -1.5, 1.5)
    policy = load_onnx(path, CART, normalise=normalise)
    assert (policy.outputs(seen) == load_onnx(path, CART).outputs(normal)).all()
    assert (OnnxPolicy(policy.model, policy.settings).outputs(seen) == policy.outputs(seen)).all()


# recurrent policies


def third_step(task: GymTask) -> Any:
    """What ``counter`` does, as a plain function that knows when an episode begins, by its number of steps."""
    steps = {"n": 0}

    def act(observation: Any) -> int:
        steps["n"] = steps["n"] + 1
        return int(steps["n"] % 3 == 0)

    return act, steps


@pytest.fixture
def counting(tmp_path):
    return load_onnx(written(tmp_path, counter()), CART, state={"count_in": "count_out"})


@pytest.mark.parametrize("env_id", ["CartPole-v1", "pastmaster/CartPole-v0"])  # one by one, and as one
def test_state_begins_at_zero_in_every_episode_and_lane(counting, env_id):
    task = GymTask(env_id, gamma=0.9, horizon=20)
    assert counting.act(np.zeros((4, 4))).tolist() == [0, 0, 0, 0]
    assert [counting.begin_episode().act(np.zeros((1, 4)))[0] for _ in range(4)] == [0, 0, 0, 0]
    act, steps = third_step(task)
    expected = []
    for k in range(6):
        steps["n"] = 0
        expected.append(episode_returns(task, [FunctionPolicy(act)], [EpisodeRange(0, k, 1)], seed=3)[0][0])
    found = episode_returns(task, [counting, counting], [EpisodeRange(0, 0, 6), EpisodeRange(1, 0, 6)], seed=3)
    assert found[0].tolist() == found[1].tolist() == expected


def test_state_begins_at_zero_in_every_episode_of_a_transfer(counting):
    seen: list[list[int]] = []

    class Watched(gym.Wrapper):
        def reset(self, **how: Any) -> Any:
            seen.append([])
            return self.env.reset(**how)

        def step(self, action: Any) -> Any:
            seen[-1].append(int(action))
            return self.env.step(action)

    def make() -> Any:
        return Watched(gym.make("CartPole-v1"))

    task = GymTask(make, gamma=0.9, horizon=12, reward_range=(0.0, 1.0))
    transfer(task, [counting], episodes=4, learner=FixedPolicy(counting), rng=0)
    episodes = [actions for actions in seen if actions]
    assert len(episodes) == 4
    for actions in episodes:
        assert actions == [int((i + 1) % 3 == 0) for i in range(len(actions))]


def test_a_recurrent_policy_is_refused_where_episodes_are_mixed(counting, tmp_path):
    task = TabularMDP([[1, 0], [0, 1]], [[0.0, 1.0], [2.0, 0.0]], gamma=0.5, horizon=3)
    content = flat_model(["n"], 1, 2, dtype="int64")
    plain = load_onnx(written(tmp_path, content, "plain.onnx"), task)
    plain.recurrent = True
    with pytest.raises(
        InvalidInputError, match=r"transfer: sources\[0\] is OnnxPolicy.*must not be recurrent with share"
    ):
        transfer(task, [plain], episodes=3, selector="tsallis-inf", share=True, bounds=(0, 4))
    with pytest.raises(InvalidInputError, match=r"transfer: sources has a recurrent policy, must have none"):
        transfer(task, [plain], episodes=3, selector="ppr")
    with pytest.raises(
        InvalidInputError, match=r"policy is OnnxPolicy.*which is recurrent, must act by the state alone"
    ):
        evaluate(task, plain)


# errors


def refused(tmp_path, content: bytes, task: Any, match: str, **how: Any) -> None:
    with pytest.raises(InvalidInputError, match=match) as raised:
        load_onnx(written(tmp_path, content), task, **how)
    assert "\n" not in str(raised.value)


def test_what_does_not_fit_is_refused_by_name_when_it_is_loaded(tmp_path):
    def two(shape: Any, dtype: str = "float32") -> bytes:
        return flat_model(shape, 4, 2, dtype=dtype)

    refused(
        tmp_path, mlp(5), CART, r"policy.onnx: its input 'obs' takes float32 \[n, 5\], must be \[n, ...\] for .*\[4\]"
    )
    refused(tmp_path, two([32, 4]), CART, r"takes float32 \[32, 4\], must be .* with n free or 1")
    refused(tmp_path, two(["n", 4], "int64"), CART, r"takes int64 \[n, 4\], must be")
    refused(tmp_path, two(None), CART, r"takes float32 \[\?\], must be")
    refused(
        tmp_path,
        mlp(4, 3),
        CART,
        r"its output 'out' gives 3 numbers of type float32 .* must be 2 floats, .* or 1 whole number, "
        r"the action, for Discrete\(2\)",
    )
    refused(
        tmp_path, mlp(), (BOX, Box(-1, 1, (3,))), r"gives 2 numbers of type float32 .* must be 3 floats, for Box \[3\]"
    )
    refused(tmp_path, mlp(), (BOX, MultiBinary(2)), r"must be 2 whole numbers 0 or 1, for MultiBinary \[2\]")
    refused(
        tmp_path,
        flat_model(["n", 4], 4, 2, then="index"),
        (BOX, Discrete(2, start=1)),
        r"gives 1 number of type int64 to an observation, must be 2 floats, of which the largest decides, for",
    )
    refused(
        tmp_path, mlp(), (BOX, gym.spaces.Text(3)), r"load_onnx: the action space of task is Text.*must be Discrete"
    )
    refused(tmp_path, mlp(), (gym.spaces.Text(3), Discrete(2)), r"the observation space of task is Text.*must be a Box")
    refused(
        tmp_path, mlp(), "CartPole-v1", r"load_onnx: task is 'CartPole-v1', must be a task, an environment or a pair"
    )
    refused(tmp_path, mlp(), CART, r"load_onnx: layout is 'NCHW', must be one of 'as_is'", layout="NCHW")
    refused(
        tmp_path, mlp(), CART, r"the output is 'q', must be one of the graph's: out \(float32 \[n, 2\]\)", output="q"
    )
    refused(
        tmp_path,
        mlp(),
        CART,
        r"inputs and state name .*'h'.*must name each of the graph's inputs once",
        state={"h": "out"},
        output="out",
    )
    refused(tmp_path, mlp(), PARTS_TASK, r"has the inputs obs \(float32 \[n, 4\]\), must have one for the keys")
    refused(tmp_path, counter(), CART, r"has the inputs obs .*count_in.*pass state=\{input: output\} .*", output="out")
    values = [value("out", "float32", ["n", 2]), value("h0", "float32", ["n", 8])]
    nodes, weights = dense("obs", [4, 8, 2], np.random.default_rng(0))
    several = model(nodes, [value("obs", "float32", ["n", 4])], values, weights)
    refused(tmp_path, several, CART, r"has the outputs out .*h0 \(float32 \[n, 8\]\), output must be the one that acts")
    assert load_onnx(written(tmp_path, several), CART, output="out").settings["output"] == "out"
    unused = model(nodes, [value("obs", "float32", ["n", 4]), value("h", "float32", ["n", 8])], values, weights)
    refused(tmp_path, unused, CART, r"its state 'h' goes into no operator, must be used", state={"h": "h0"})
    wrong = r"its output 'out' is float32 \[1, 2\], must be as its input 'count_in', int64 \[1, 1\]"
    refused(tmp_path, counter(), CART, wrong, state={"count_in": "out"}, output="out")
    refused(
        tmp_path,
        mlp(),
        (Discrete(4), Discrete(2)),
        r"normalise is given, must be None",
        normalise={"mean": 0, "var": 1},
    )


PARTS_TASK = (PARTS, Discrete(2))


def test_doubt_is_an_error_until_it_is_resolved(tmp_path):
    cube, free = Box(0, 255, (3, 3, 3), np.uint8), flat_model(["n", "a", "b", "c"], 90, 2)
    refused(
        tmp_path,
        flat_model(["n", 3, 3, 3], 27, 2),
        (cube, Discrete(2)),
        r"fits as as_is or channels_first or channels_last: layout must be",
    )
    refused(tmp_path, free, (IMAGE, Discrete(2)), r"layout must be given")
    for layout, shape in (("as_is", (1, 6, 5, 3)), ("channels_first", (1, 3, 6, 5)), ("channels_last", (1, 5, 3, 6))):
        policy = load_onnx(written(tmp_path, free), (IMAGE, Discrete(2)), layout=layout)
        assert policy.inputs[""].shape == shape
        assert policy.settings["layout"] == layout
    refused(tmp_path, flat_model(["n", "k"], 5, 2), (Discrete(5), Discrete(2)), r"fits as number or one_hot")


def test_inputs_may_have_other_names_than_keys(tmp_path):
    content = on_parts(2, "")
    space = Dict({"eye": IMAGE, "cell": Discrete(5), "speed": Box(-1, 1, (2,))})
    refused(tmp_path, content, (space, Discrete(2)), r"must have one for the keys \['cell', 'eye', 'speed'\]")
    names = {"eye": "camera", "cell": "place", "speed": "speed"}
    policy = load_onnx(written(tmp_path, content), (space, Discrete(2)), inputs=names)
    other = load_onnx(written(tmp_path, content), PARTS_TASK)
    seen = [space.sample() for _ in range(3)]
    same = [{"camera": one["eye"], "place": one["cell"], "speed": one["speed"]} for one in seen]
    assert (policy.outputs(seen) == other.outputs(same)).all()
    with pytest.raises(InvalidInputError, match=r"act: observations have the parts .*must have"):
        policy.act(same)


def test_observations_that_do_not_fit_are_refused(tmp_path):
    policy = load_onnx(written(tmp_path, mlp()), CART)
    for wrong in (np.zeros(4), np.zeros((2, 5)), [["a"] * 4], np.zeros((2, 4), complex)):
        with pytest.raises(InvalidInputError, match="act: observations"):
            policy.act(wrong)
    states = load_onnx(written(tmp_path, flat_model(["n", 5], 5, 2)), (Discrete(5), Discrete(2)))
    with pytest.raises(InvalidInputError, match=r"act: observations reach 0 .. 5, must be in 0..4"):
        states.act([0, 5])


def test_numbers_that_are_no_actions_are_refused(tmp_path):
    nan = model(
        [node("Mul", ["obs", "nan"], ["out"])], [value("obs", "float32", ["n", 2])], [value("out", "float32", None)],
        [tensor(np.float32([np.nan, 1.0]), "nan")],
    )  # fmt: skip
    task = (Box(-1, 1, (2,)), Discrete(2))
    refused(tmp_path, nan, task, r"policy.onnx: its output 'out' is nan for an observation of zeros, must be numbers")
    root = model([node("Sqrt", ["obs"], ["out"])], [value("obs", "float32", ["n", 2])], [value("out", "float32", None)])
    policy = load_onnx(written(tmp_path, root), task)
    assert policy.act([[0.0, 1.0]]).tolist() == [1]
    with pytest.raises(InvalidInputError, match=r"act: OnnxPolicy.* gave nan for an observation"):
        policy.act([[1.0, -1.0]])
    large = model(
        [node("Cast", ["obs"], ["out"], to=7)], [value("obs", "float32", ["n", 1])], [value("out", "int64", None)]
    )
    policy = load_onnx(written(tmp_path, large), (Box(-9, 9, (1,)), Discrete(3)))
    assert policy.act([[2.0]]).tolist() == [2]
    for wrong in (3.0, -1.0):
        with pytest.raises(InvalidInputError, match=r"gave the action .* must be of Discrete\(3\)"):
            policy.act([[wrong]])


def test_a_policy_that_does_not_fit_another_task_is_refused(tmp_path):
    policy = load_onnx(written(tmp_path, mlp()), CART)
    task = GymTask("MountainCar-v0", gamma=0.9, horizon=5)
    wanted = r"policy is OnnxPolicy.*must fit MountainCar-v0, which has Box \[2\]"
    with Repository(tmp_path / "r.db") as repository, pytest.raises(InvalidInputError, match=wanted):
        repository.add(task, policy)
    with pytest.raises(InvalidInputError, match="MountainCar"):
        estimate_cross_values([task], [policy], budget=20, rng=0)
    with pytest.raises(InvalidInputError, match=r"policies\[0\] is .*policy.onnx.*pass load_onnx\(path, task\)"):
        estimate_cross_values([task], [str(tmp_path / "policy.onnx")], budget=20, rng=0)


def test_without_onnxruntime_the_error_says_what_to_install(tmp_path, monkeypatch):
    path = written(tmp_path, mlp())
    wanted = r"load_onnx: policy.onnx needs onnxruntime: pip install onnx onnxruntime"
    with seams.without_onnxruntime(monkeypatch), pytest.raises(MissingPackageError, match=wanted):
        load_onnx(path, CART)
