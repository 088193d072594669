"""Public names say what they take and give, with an example; every example in a docstring is run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import typing
from pathlib import Path
from typing import Any

import pytest

import pastmaster

SOURCE = Path(__file__).parent.parent / "src"
MODULES = sorted(
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in (SOURCE / "pastmaster").rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)
SECTION = re.compile(r"^ *(Parameters|Attributes|Returns|Raises|Examples)\n *-{3,}$", re.MULTILINE)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name, tmp_path, monkeypatch, capsys):
    """In a folder of their own; a warning is an error."""
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert tried > 0
    assert failed == 0, capsys.readouterr().out


def sections(thing: Any) -> set[str]:
    return set(SECTION.findall(inspect.getdoc(thing) or ""))


def is_protocol(public: type) -> bool:
    return typing.Protocol in public.__bases__


@pytest.mark.parametrize("module", ["pastmaster", "pastmaster.policies", "pastmaster.testing"])
def test_public_names_say_what_they_take_and_give(module):
    """A function, and a class that people make, with an example; a result, its attributes; a protocol, an example."""
    place, lacking = importlib.import_module(module), {}
    for name in place.__all__:
        public = getattr(place, name)
        if inspect.isfunction(public):
            found = sections(public)
            lacking[name] = {"Parameters", "Examples"} - found
            if inspect.signature(public).return_annotation not in (None, "None"):
                lacking[name] |= {"Returns"} - found
        elif inspect.isclass(public) and not issubclass(public, Exception) and "Attributes" not in sections(public):
            wanted = {"Examples"} if is_protocol(public) else {"Parameters", "Examples"}
            lacking[name] = wanted - sections(public)
    assert {name: missing for name, missing in lacking.items() if missing} == {}


@pytest.mark.parametrize("name", [name for name in pastmaster.__all__ if inspect.isclass(getattr(pastmaster, name))])
def test_public_methods_say_what_they_do(name):
    methods = inspect.getmembers(getattr(pastmaster, name), inspect.isroutine)
    assert [method for method, body in methods if method[0] != "_" and not inspect.getdoc(body)] == []
