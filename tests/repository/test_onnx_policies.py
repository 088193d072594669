"""ONNX files in a repository: stored by content, opened by any machine, and believed in nothing."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from onnx_models import counter, mlp, onnx, written
from seams import records

from pastmaster import DamagedError, GymTask, InvalidInputError, Repository, load_onnx
from pastmaster.policies import FunctionPolicy, NetworkPolicy, OnnxPolicy

pytest.importorskip("onnxruntime")
TASK = GymTask("pastmaster/CartPole-v0", {"length": 0.7}, gamma=0.9, horizon=10)
OTHER = GymTask("pastmaster/CartPole-v0", {"length": 0.9}, gamma=0.9, horizon=10)


def test_a_file_is_stored_by_its_content(place, tmp_path):
    path = written(tmp_path, mlp())
    policy = load_onnx(path, TASK)
    with Repository(place) as repository:
        repository.add(TASK, policy, source=path)
        path.unlink()
        repository.add(OTHER, load_onnx(written(tmp_path, mlp(), "copy.onnx"), OTHER))
        assert len({record.digest for record in repository.policy_records()}) == 1  # the same file twice
        assert repository.policy_records()[0].name == "policy.onnx"
        stored = repository.policies()[0]
        assert isinstance(stored, OnnxPolicy)
        assert (stored.model, stored.settings) == (policy.model, policy.settings)
        assert repository.check() == []
        assert repository.cross_values().shape[0] == 2


def test_a_recurrent_policy_comes_back_as_one(place, tmp_path):
    policy = load_onnx(written(tmp_path, counter()), TASK, state={"count_in": "count_out"})
    with Repository(place) as repository:
        repository.add(TASK, policy, evaluation_episodes=5)
        stored = repository.policies()[0]
        episode = stored.begin_episode()
        assert stored.recurrent
        assert [int(episode.act(np.zeros((1, 4)))[0]) for _ in range(6)] == [0, 0, 1, 0, 0, 1]


def test_another_process_opens_it_and_an_export_holds_it(tmp_path):
    policy = load_onnx(written(tmp_path, mlp()), TASK)
    with Repository(tmp_path / "a.db") as repository:
        repository.add(TASK, policy)
        folder = repository.export(tmp_path / "exported")
    script = (
        "import pastmaster, sys\n"
        "with pastmaster.Repository(sys.argv[1]) as repository:\n"
        "    print(repository.policies()[0].act([[0.0, 0.1, 0.2, 0.3]]).tolist(), repository.check())\n"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "a.db"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{policy.act([[0.0, 0.1, 0.2, 0.3]]).tolist()} []"
    with Repository(tmp_path / "b.db") as other:
        other.import_(folder)
        assert other.policies()[0].model == policy.model


def test_a_repository_is_read_where_onnxruntime_is_missing(tmp_path):
    with Repository(tmp_path / "a.db") as repository:
        repository.add(TASK, load_onnx(written(tmp_path, mlp()), TASK))
    script = (
        "import sys\nsys.modules['onnxruntime'] = None\nimport pastmaster\n"
        "with pastmaster.Repository(sys.argv[1]) as repository:\n"
        "    policy = repository.policies()[0]\n"
        "    print(repository.check())\n"
        "    try:\n        policy.act([[0.0] * 4])\n"
        "    except pastmaster.errors.MissingPackageError as error:\n        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "a.db"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "policies 1 needs onnxruntime: pip install onnx onnxruntime"]


def test_where_onnx_is_missing_a_policy_is_not_called_damaged(tmp_path):
    with Repository(tmp_path / "a.db") as repository:
        repository.add(TASK, load_onnx(written(tmp_path, mlp()), TASK))
    script = (
        "import sys\nsys.modules['onnx'] = None\nimport pastmaster\n"
        "with pastmaster.Repository(sys.argv[1]) as repository:\n"
        "    print(len(repository.tasks()), repository.cross_values().shape)\n"
        "    for asked in (lambda: list(repository.policies()), repository.check):\n"
        "        try:\n            asked()\n"
        "        except pastmaster.errors.MissingPackageError as error:\n            print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "a.db"], capture_output=True, text=True, check=True)
    needed = "policies 1 needs onnx: pip install onnx onnxruntime"
    assert done.stdout.splitlines() == ["1 (1, 1)", needed, needed]


def test_what_is_forged_is_damage(tmp_path):
    row, arrays, _ = records.policy_row("test", load_onnx(written(tmp_path, mlp()), TASK), TASK, "imported")
    row |= {"id": 7}
    assert records.policy_of(row, arrays).model == mlp()
    content = arrays["policy"]
    flipped = content.copy()
    flipped[-20] ^= 1
    settings = row["settings"]
    for wrong, array in (
        ({}, flipped),
        ({}, content[:-1]),
        ({}, content.astype(np.float32)),
        ({}, content.reshape(1, -1)),
        ({"output": "other"}, content),
        ({"output": 7}, content),
        ({"inputs": {"": "obs", "x": "y"}}, content),
        ({"inputs": None}, content),
        ({"state": {"obs": "out"}}, content),
        ({"state": 3}, content),
        ({"layout": "sideways"}, content),
        ({"layout": []}, content),
        ({"normalise": {"mean": 1}}, content),
        ({"observations": {"": [[5], "float32", 0]}}, content),
        ({"observations": {"": [[4], "object", 0]}}, content),
        ({"observations": {"": [[4], "float32", 2**40]}}, content),
        ({"observations": {}}, content),
        ({"observations": 1}, content),
        ({"actions": settings["actions"] | {"choices": [10**30]}}, content),
        ({"actions": settings["actions"] | {"kind": "Box", "shape": [10**9, 10**9]}}, content),
        ({"actions": None}, content),
        ({"kind": "network"}, content),
    ):
        forged = row | {"settings": settings | wrong}
        with pytest.raises(DamagedError):
            records.policy_of(forged, {"policy": array})
    json.dumps(settings)


def test_a_right_digest_makes_no_policy_of_a_wrong_file(tmp_path):
    """Whoever writes the database may write right checksums too; what he stores is still only data."""
    row, _, _ = records.policy_row("test", load_onnx(written(tmp_path, mlp()), TASK), TASK, "imported")
    for content in (b"random bytes", mlp(functions=[onnx.FunctionProto()]), mlp()[:-1]):
        array = np.frombuffer(content, np.uint8)
        settings = {key: value for key, value in row["settings"].items() if key not in records.CALLED}
        digest = records._policy_digest(settings, array)
        with pytest.raises(DamagedError, match="policies 3: is no policy"):
            records.policy_of(row | {"id": 3, "digest": digest}, {"policy": array})


def test_code_cannot_be_stored_and_the_error_says_what_to_do(place):
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2))
    live = NetworkPolicy.from_torch(net)
    with Repository(place) as repository:
        for policy in (live, FunctionPolicy(lambda x: 0)):
            with pytest.raises(
                InvalidInputError, match=r"must be an array, a NetworkPolicy or an OnnxPolicy.*load_onnx"
            ):
                repository.add(TASK, policy)
        assert len(repository.tasks()) == 0
        with pytest.raises(
            InvalidInputError, match=r"policy is a torch module.*pass NetworkPolicy.from_torch\(module\)"
        ):
            repository.add(TASK, net)
