"""The paper's package uses what anyone can use: public names of the library, and nothing that begins with ``_``.

Public is what ``pastmaster`` and its packages name in ``__all__``, and what a domain defines.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import pastmaster
import pastmaster_paper

SOURCES = sorted(Path(pastmaster_paper.__file__).parent.rglob("*.py"))
ROOMS = ("cli", "clustering", "domains", "estimation", "figures", "parallel", "report", "reuse", "testing")
"""Packages and modules whose ``__all__`` says what of them is public."""


def public(module: ModuleType) -> set[str]:
    """The public names of a module of the library."""
    if module is pastmaster:
        return {*pastmaster.__all__, *ROOMS}
    if hasattr(module, "__all__"):
        return set(module.__all__)
    is_domain = module.__name__.startswith("pastmaster.domains.")
    return {name for name in vars(module) if name[0] != "_"} if is_domain else set()


def foreign(source: str) -> list[str]:
    """What a source uses of the library that is not public, and what it uses of any object that begins with _."""
    tree = ast.parse(source)
    modules: dict[str, ModuleType] = {}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("pastmaster.")]
            found += names  # modules come by name from the package that owns them
            modules |= {alias.asname or alias.name: pastmaster for alias in node.names if alias.name == "pastmaster"}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "pastmaster":
            owner = importlib.import_module(node.module)
            for alias in node.names:
                if alias.name not in public(owner):
                    found.append(f"{node.module}.{alias.name}")
                elif inspect.ismodule(getattr(owner, alias.name)):
                    modules[alias.asname or alias.name] = getattr(owner, alias.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = modules.get(node.value.id)
            if owner is not None and node.attr not in public(owner):
                found.append(f"{owner.__name__}.{node.attr}")
        if isinstance(node, ast.Attribute) and node.attr[0] == "_" and not node.attr.startswith("__"):
            own = node.attr == "_replace" or (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
            found += [] if own else [ast.unparse(node)]
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_a_module_uses_public_names_only(path: Path) -> None:
    assert foreign(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("from pastmaster.reuse._layout import COUNT", ["pastmaster.reuse._layout.COUNT"]),
        ("from pastmaster.checks import whole", ["pastmaster.checks.whole"]),
        ("from pastmaster.reuse import selector", ["pastmaster.reuse.selector"]),
        ("from pastmaster.reuse.windows import windows", ["pastmaster.reuse.windows.windows"]),
        ("import pastmaster.arrays", ["pastmaster.arrays"]),
        ("from pastmaster import arrays", ["pastmaster.arrays"]),
        ("from pastmaster import parallel\nparallel.interrupts", ["pastmaster.parallel.interrupts"]),
        ("import pastmaster\npastmaster.npy", ["pastmaster.npy"]),
        ("from pastmaster.domains import cart_pole\ncart_pole._x", ["pastmaster.domains.cart_pole._x", "cart_pole._x"]),
        ("selector._arms[0]", ["selector._arms"]),
        ("from pastmaster import solve, parallel\nparallel.run(self._x)", []),
    ],
)  # fmt: skip
def test_the_rule_sees_what_is_not_public(source: str, wanted: list[str]) -> None:
    assert foreign(source) == wanted


def test_the_library_does_without_it() -> None:
    library = Path(pastmaster.__file__).parent
    assert [path for path in library.rglob("*.py") if "pastmaster_paper" in path.read_text(encoding="utf-8")] == []


def test_help_loads_nothing_heavy() -> None:
    heavy = ("matplotlib", "numba", "pandas", "plotly", "scipy", "sklearn", "sqlalchemy")
    code = (
        "import sys; from pastmaster_paper.__main__ import main\n"
        "main(['reproduce', '--help'], standalone_mode=False)\n"
        f"assert not (loaded := [name for name in {heavy} if name in sys.modules]), loaded"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
