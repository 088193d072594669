"""Modules of PyTorch as policies: plain stacks as data, all others live."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

from pastmaster import GymTask, InvalidInputError, estimate_cross_values
from pastmaster.policies import NetworkPolicy, TorchPolicy, as_policy
from pastmaster.testing import check_policy

torch = pytest.importorskip("torch")
nn = torch.nn
SPACES = (Box(-1, 1, (4,)), Discrete(3))


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def agree(module, policy, seen):
    with torch.no_grad():
        expected = module.eval()(torch.tensor(seen)).numpy()
    return np.abs(policy.outputs(seen) - expected).max() < 1e-5


ACTIVATIONS = ["Tanh", "ReLU", "LeakyReLU", "ELU", "SELU", "Sigmoid", "SiLU", "GELU", "Softplus", "Mish", "Identity"]
STACKS = {
    "one layer": lambda: nn.Linear(4, 3),
    "plain": lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)),
    "nested": lambda: nn.Sequential(
        nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Sequential(nn.Sequential(nn.Linear(8, 8), nn.ReLU())),
        nn.Linear(8, 3),
    ),
    "activations of several kinds": lambda: nn.Sequential(
        nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 3)
    ),
    "an activation at the end": lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3), nn.Tanh()),
    "layers without activations": lambda: nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3)),
    "without bias": lambda: nn.Sequential(nn.Linear(4, 8, bias=False), nn.ELU(), nn.Linear(8, 3)),
    "flatten and dropout": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 3)
    ),
    "doubles": lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).double(),
    **{
        name: lambda name=name: nn.Sequential(nn.Linear(4, 8), getattr(nn, name)(), nn.Linear(8, 3))
        for name in ACTIVATIONS
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", STACKS)
def test_a_plain_stack_is_data(kind, rng):
    module = STACKS[kind]()
    policy = NetworkPolicy.from_torch(module)
    assert isinstance(policy, NetworkPolicy)
    seen = rng.normal(size=(30, 4)).astype(np.float64 if kind == "doubles" else np.float32)
    assert agree(module, policy, seen)
    again = NetworkPolicy.from_data(json.loads(json.dumps(policy.settings)), policy.weights)
    assert (again.outputs(seen) == policy.outputs(seen)).all()
    check_policy(policy, SPACES)


def test_a_stack_like_any_other_is_stored_like_any_other():
    module = STACKS["plain"]()
    layers = [(part.weight.detach().numpy(), part.bias.detach().numpy()) for part in (module[0], module[2])]
    assert NetworkPolicy.from_torch(module).settings == NetworkPolicy(layers).settings
    assert NetworkPolicy.from_torch(STACKS["an activation at the end"]()).settings["activation"] == ["relu", "tanh"]


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.last(x + torch.tanh(self.first(x)))


class Twice(nn.Sequential):
    def forward(self, x):
        return 2 * super().forward(x)


def hooked():
    module = STACKS["plain"]()
    module[0].register_forward_hook(lambda module, given, output: output + 1)
    return module


LIVE = {
    "code of its own": Residual,
    "a subclass": lambda: Twice(nn.Linear(4, 3)),
    "hooks": hooked,
    "layer norm": lambda: nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 3)),
    "other constants": lambda: nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.3), nn.Linear(8, 3)),
    "an activation first": lambda: nn.Sequential(nn.Tanh(), nn.Linear(4, 3)),
    "weights by a rule": lambda: torch.nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)),
}


@pytest.mark.parametrize("kind", LIVE)
def test_any_other_module_is_live(kind, rng):
    module = LIVE[kind]()
    policy = NetworkPolicy.from_torch(module)
    assert isinstance(policy, TorchPolicy)
    assert "torch.onnx.export and load_onnx make a policy that can be stored" in repr(policy)
    assert agree(module, policy, rng.normal(size=(30, 4)).astype(np.float32))
    if kind != "weights by a rule":
        check_policy(policy, SPACES)


def test_a_live_policy_runs_episodes_and_does_not_learn(rng):
    module = Residual()
    module.last = nn.Linear(4, 2)
    policy = NetworkPolicy.from_torch(module)
    seen = rng.normal(size=(5, 4)).astype(np.float32)
    before = policy.outputs(seen)
    with torch.no_grad():
        module.last.weight += 1.0
    assert (policy.outputs(seen) == before).all()
    task = GymTask("pastmaster/CartPole-v0", {"length": 0.7}, gamma=0.9, horizon=5)
    assert np.isfinite(estimate_cross_values([task], [policy], budget=10, rng=0).mean).all()
    assert (pickle.loads(pickle.dumps(policy)).outputs(seen) == before).all()
    with pytest.raises(InvalidInputError, match=r"save is given with policies\[0\] = TorchPolicy"):
        estimate_cross_values([task], [policy], budget=10, rng=0, save="/nonexistent")


def test_heads_fit_the_space(rng):
    seen = rng.normal(size=(9, 4)).astype(np.float32)
    for module in (STACKS["plain"](), Residual()):
        with torch.no_grad():
            mean = module(torch.tensor(seen)).numpy()
        limits = {"low": [-0.1, -0.2, -0.3], "high": [0.1, 0.2, 0.3]}
        acted = NetworkPolicy.from_torch(module, head="clip", **limits).act(seen)
        assert np.allclose(acted, mean.clip(limits["low"], limits["high"]), atol=1e-6)
        many = NetworkPolicy.from_torch(module, head="argmaxes", nvec=[1, 2]).act(seen)
        assert (many == np.stack([0 * mean[:, 0], mean[:, 1:].argmax(1)], 1)).all()
        assert (NetworkPolicy.from_torch(module, start=5).act(seen) == mean.argmax(1) + 5).all()


def test_parts_of_a_dict_go_in_as_tensors(rng):
    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(6, 3)

        def forward(self, seen):
            return self.last(torch.cat([seen["place"], seen["speed"]], dim=1))

    space = Dict({"place": Box(-1, 1, (4,)), "speed": Box(-1, 1, (2,))})
    check_policy(NetworkPolicy.from_torch(Parts()), (space, Discrete(3)))


def test_what_does_not_fit_is_refused_by_name():
    plain, live = STACKS["plain"](), Residual()
    for module, how, match in (
        (3, {}, r"NetworkPolicy.from_torch: module is 3, must be a torch.nn.Module"),
        (plain, {"heads": "clip"}, r"NetworkPolicy.from_torch: heads is no option here .did you mean head"),
        (plain, {"head": "clip"}, r"NetworkPolicy.from_torch: low must hold 3 numbers"),
        (plain, {"nvec": [3]}, r"NetworkPolicy.from_torch: nvec is \[3\], must be empty"),
        (live, {"head": "argmaxes", "nvec": [0]}, r"NetworkPolicy.from_torch: nvec is 0, must be"),
        (live, {"head": "best"}, r"NetworkPolicy.from_torch: head is 'best', must be one of"),
        (live, {"one_hot": True}, r"NetworkPolicy.from_torch: one_hot is given, must be left out"),
        (live, {"normalise": {"mean": [0] * 4, "var": [1] * 4}}, r"normalise is given, must be left out"),
    ):
        with pytest.raises(InvalidInputError, match=match):
            NetworkPolicy.from_torch(module, **how)
    with pytest.raises(
        InvalidInputError, match=r"Residual gives outputs of shape \(1, 3\), must give .* 2 numbers each"
    ):
        NetworkPolicy.from_torch(live, head="argmaxes", nvec=[1, 1]).act(np.zeros((1, 4), np.float32))
    with pytest.raises(InvalidInputError, match=r"LSTM gives a tuple, must give a tensor"):
        NetworkPolicy.from_torch(nn.LSTM(4, 3)).act(np.zeros((1, 4), np.float32))
    with pytest.raises(
        InvalidInputError, match=r"policy is a torch module, 'Residual', must be a policy: pass Network"
    ):
        as_policy(live, "policy")
