"""Every Python example in the README and the docs runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
]


@pytest.mark.parametrize("source", EXAMPLES)
def test_an_example_runs(source, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if '"drawer"' in source:
        fill_drawer(tmp_path / "drawer")
    exec(compile(source, "example", "exec"), {})
    for shown in re.findall(r"print\(.*\)\s+# (\[.*\])$", source, re.MULTILINE):
        assert shown in capsys.readouterr().out


def fill_drawer(folder: Path) -> None:
    """Some policies that have seen a few steps."""
    from stable_baselines3 import PPO

    folder.mkdir()
    for seed in range(4):
        model = PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, n_epochs=1, seed=seed, device="cpu")
        model.learn(8).save(folder / f"cart-{seed}.zip")


def test_the_readme_has_examples():
    assert sum(parameter.id.startswith("README") for parameter in EXAMPLES) >= 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_links_only_to_what_is_there(page):
    text = page.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []
