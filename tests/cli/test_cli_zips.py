"""A drawer of Stable-Baselines3's files, done from the command line alone."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")

import sb3_models as models
from click.testing import CliRunner
from seams import arm_settings
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from pastmaster import Repository, load_sb3
from pastmaster.cli import main
from pastmaster.policies import normalisation_of

MODULE = """
import gymnasium as gym
from gymnasium.envs.classic_control import PendulumEnv

gym.register("{name}-v0", PendulumEnv, max_episode_steps=5)
"""


def run(*arguments: object):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def fine(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def told(*arguments: object):
    return json.loads(fine(*arguments, "--json"))


def refused(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("/nowhere")  # so that the path is as it was afterwards
    return tmp_path


@pytest.fixture
def arms(here, request):
    """A module that registers environments in the current folder, and a drawer of two files."""
    import gymnasium as gym

    name = f"Arms{abs(hash(request.node.nodeid)) % 10**9}"
    Path(f"{name}.py").write_text(MODULE.format(name=name))
    Path("drawer").mkdir()
    for kind in ("SAC", "TD3"):
        models.saved(models.model(kind, "Pendulum-v1", steps=10), here / "drawer", f"{kind.lower()}.zip")
    yield f"{name}-v0", "--import", name
    gym.registry.pop(f"{name}-v0", None)


def test_a_drawer_of_zips_from_an_empty_folder_to_a_new_task(arms):
    env, *module = arms
    Path("arms.json").write_text('[{"g": 9.0}, {"g": 3.0}]')
    add = ("repo", "add", "arms.db", "--gym", env, *module, "--kwargs-file", "arms.json", "--evaluation-episodes", 3)
    zips = ("--policy", "drawer/sac.zip", "drawer/td3.zip")
    assert "pass normalise=False (--no-normalise)" in refused(*add, *zips)
    assert not Path("arms.db").exists()
    lines = fine(*add, *zips, "--no-normalise").splitlines()
    assert [line.partition(",")[0] for line in lines[:2]] == [f"task 1: {env}(g=9.0)", f"task 2: {env}(g=3.0)"]
    assert lines[2] == "arms.db: 2 tasks added, 2 in all"
    again = fine(*add, *zips, "--no-normalise").splitlines()
    assert all(" was there already, worth " in line for line in again[:2])
    assert again[2] == "arms.db: 0 tasks added, 2 in all"
    with Repository("arms.db") as repository:
        assert [(p.name, p.source) for p in repository.policy_records()] == [
            ("sac.zip", "drawer/sac.zip"),
            ("td3.zip", "drawer/td3.zip"),
        ]
        assert np.array_equal(repository.policy(2).weights, load_sb3("drawer/td3.zip", normalise=False).weights)
    kept = told("repo", "keep", "arms.db", "-k", 1, "--restarts", 2)
    (policy,) = kept["kept"]
    assert policy["source"] == f"drawer/{policy['name']}"
    table = fine("repo", "keep", "arms.db", "-k", 1, "--restarts", 2).splitlines()
    assert table[0].split("  ")[0] == "policy"
    assert table[1].split()[:2] == [policy["name"], policy["source"]]
    assert policy["source"] in fine("repo", "show", "arms.db")
    assert "drawer/" in fine("repo", "list", "arms.db").splitlines()[1]
    new = ("transfer", "arms.db", "--gym", env, *module, "--kwargs", '{"g": 5.0}', "--episodes", 4)
    met = told(*new, "--learner", "sac", "--seed", 3)
    assert [arm["name"] for arm in met["arms"]] == [policy["name"], "learner"]
    assert met["arms"][0]["source"] == policy["source"]
    assert met["seed"] == 3
    assert met == told(*new, "--seed", 3)  # the learner that fits the actions


@pytest.mark.parametrize("learner", ["td3", "ddpg"])
def test_learners_that_explore_by_noise_have_some(here, learner):
    from pastmaster import GymTask

    settings = arm_settings(None, learner, GymTask("Pendulum-v1"))
    assert list(settings) == ["learner"]
    assert settings["learner"].algorithm == learner.upper()
    assert settings["learner"].settings["action_noise"]._sigma == pytest.approx([0.1])


def test_a_learner_that_does_not_fit_is_refused_with_those_that_do(arms):
    env, *module = arms
    fine("repo", "add", "a.db", "--gym", env, *module, "--policy", "drawer/sac.zip", "--no-normalise")
    fine("repo", "keep", "a.db", "-k", 1)
    new = ("transfer", "a.db", "--gym", env, *module, "--kwargs", '{"g": 5.0}', "--episodes", 2, "--learner")
    assert "'SAC' or 'TD3' or 'DDPG'" in refused(*new, "dqn")
    message = refused(*new, "q-learning")
    assert "SAC" in message
    assert "DQN" not in message


def test_an_agent_learns_a_stream_of_environments_by_a_named_learner(arms):
    env, *module = arms
    stream = ("continual", "s.db", "--gym", env, *module, "--kwargs", '{"g": 9.0}', "--kwargs", '{"g": 3.0}')
    settings = ("--episodes", 2, "--recluster-every", 2, "--bounds", -100, 0, "--evaluation-episodes", 2)
    found = told(*stream, *settings, "--learner", "sac", "--seed", 5)
    assert found["tasks"] == [f"{env}(g=9.0)", f"{env}(g=3.0)"]
    assert found["seed"] == 5


def test_statistics_of_observations_are_taken_as_load_sb3_takes_them(arms, here):
    env, *module = arms
    wrapped = VecNormalize(DummyVecEnv([lambda: models.environment("Pendulum-v1")]))
    models.saved(models.model("SAC", wrapped, steps=10), here, "normal.zip")
    np.savez("statistics.npz", **normalisation_of(wrapped))
    wrapped.save("statistics.pkl")
    add = ("repo", "add", "n.db", "--gym", env, *module, "--policy", "normal.zip", "--normalise")
    assert "pass trust=True (--trust)" in refused(*add, "statistics.pkl")
    assert "'none.npz', which does not exist" in refused(*add, "none.npz")
    assert "both given" in refused(*add, "statistics.npz", "--no-normalise")
    assert "names 2 files for 1 policies" in refused(*add, "statistics.npz", "--normalise", "statistics.npz")
    fine(*add, "statistics.npz")
    with Repository("n.db") as repository:
        assert np.allclose(repository.policy(1).normalise["mean"], wrapped.obs_rms.mean)
    fine("repo", "add", "t.db", *add[3:], "statistics.pkl", "--trust")
    with Repository("t.db") as one, Repository("n.db") as other:
        assert one.policy_records()[0].digest == other.policy_records()[0].digest


def test_of_several_files_for_one_task_the_best_is_stored_and_the_others_are_named(here):
    for seed in range(3):
        models.saved(models.model("PPO", steps=16, seed=seed), here, f"ppo{seed}.zip")
    zips = [f"ppo{seed}.zip" for seed in range(3)]
    lines = fine("repo", "add", "c.db", "--gym", "CartPole-v1", "--policy", *zips).splitlines()
    assert lines[0].startswith("task 1: CartPole-v1, worth ")
    for line, name in zip(lines[1:3], zips[1:], strict=True):
        better = "was there already; its new policy is better" in line and name in line
        assert better or line.endswith(f"; {name} is not better and was not stored")
    assert lines[3] == "c.db: 1 task added, 1 in all"
    assert "--policy names 3 files for 2 tasks" in refused(
        "repo", "add", "d.db", "--gym", "CartPole-v1", "--gym", "CartPole-v1", "--policy", *zips
    )
    assert not Path("d.db").exists()


def test_environments_and_arguments_are_paired(here):
    models.saved(models.model("PPO", steps=16), here, "ppo.zip")
    gyms = ("--gym", "CartPole-v1", "--gym", "CartPole-v1")
    kwargs = ("--kwargs", "{}", "--kwargs", '{"sutton_barto_reward": true}')
    fine("repo", "add", "c.db", *gyms, *kwargs, "--policy", "ppo.zip", "ppo.zip", "--evaluation-episodes", 2)
    names = [record["name"] for record in told("repo", "list", "c.db")]
    assert names == ["CartPole-v1", "CartPole-v1(sutton_barto_reward=True)"]


def test_limits_of_actions_that_a_file_tells_in_part_are_taken_from_the_environment(here):
    import gymnasium as gym
    from gymnasium.envs.classic_control import PendulumEnv

    class Weak(PendulumEnv):
        def __init__(self):
            super().__init__()
            self.action_space = gym.spaces.Box(-0.4, 0.4, (1,))

    gym.register("Weak-v0", Weak, max_episode_steps=5)
    try:
        models.saved(models.model("SAC", gym.make("Weak-v0"), steps=10), here, "weak.zip")
        fine("repo", "add", "w.db", "--gym", "Weak-v0", "--policy", "weak.zip", "--no-normalise")
    finally:
        del gym.registry["Weak-v0"]
    with Repository("w.db") as repository:
        assert repository.policy(1).settings["high"] == pytest.approx([0.4])


def plain_zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "no model")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda path: None, "'x.zip', which does not exist, must be a .zip .*; '.' has 'xx.zip'"),
        (lambda path: path.mkdir(), "'x.zip', a folder, must be a .zip file"),
        (lambda path: path.touch(), "'x.zip', an empty file, must be a .zip file"),
        (lambda path: path.write_text("text"), "x.zip is not a .zip file that a model of Stable-Baselines3 saved"),
        (plain_zip, "x.zip is a zip file without 'data', which every model has"),
        (
            lambda path: models.saved(models.model("SAC", "Pendulum-v1"), path.parent, path.name),
            "--policy x.zip is a network that takes 3 numbers and gives 1 numbers, must fit CartPole-v1, which has Box",
        ),
    ],
)
def test_each_wrong_file_has_its_own_sentence(here, make, sentence):
    Path("xx.zip").write_text("near")
    make(here / "x.zip")
    message = refused("repo", "add", "c.db", "--gym", "CartPole-v1", "--policy", "x.zip", "--no-normalise")
    assert re.search(sentence, message), message
    assert not Path("c.db").exists()


def test_an_environment_that_nobody_registered_is_refused_with_the_remedy(here):
    assert "pass --import MODULE" in refused("repo", "add", "c.db", "--gym", "Nowhere-v7", "--policy", "x.zip")
