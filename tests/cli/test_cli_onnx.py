"""ONNX files on the command line."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from onnx_models import mlp, written

from pastmaster import Repository
from pastmaster.cli import main

pytest.importorskip("onnxruntime")


def test_an_onnx_file_is_added_like_any_policy(tmp_path):
    path = written(tmp_path, mlp())
    words = ["repo", "add", str(tmp_path / "a.db"), "--gym", "pastmaster/CartPole-v0", "--horizon", "10"]
    done = CliRunner().invoke(main, [*words, "--policy", str(path), "--evaluation-episodes", "5"])
    assert done.exit_code == 0, done.output
    with Repository(tmp_path / "a.db") as repository:
        assert repository.policies()[0].model == mlp()
        assert repository.policy_records()[0].name == "policy.onnx"
    written(tmp_path, mlp(5))
    done = CliRunner().invoke(main, [*words, "--policy", str(path)])
    assert done.exit_code != 0
    assert "policy.onnx: its input 'obs' takes float32 [n, 5], must be [n, ...]" in " ".join(done.output.split())
