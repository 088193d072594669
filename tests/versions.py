"""The tests on one Python, with the newest or with the least versions that pyproject.toml allows.

    python3.13 tests/versions.py minimum --without sb3,ray tests/values -n 2

The Python that runs this gets a virtual environment with the package, its extras and what the tests need, and runs
the tests there. An extra that cannot be had for that Python is left out by name, and its tests are skipped. What this
script does not know goes to pytest.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAPER = ROOT / "paper"
PAPER_EXTRAS = {"games"}
NO_TESTS = {"docs", "bench", "dev"}  # extras that the package's own tests have no use for
TOOLS = ("pytest", "pytest-xdist", "pytest-timeout", "hypothesis", "pandas", "playwright", "onnx", "onnxscript")
BESIDE_OLD = ["pyparsing<3.3"]  # a later one warns of how the oldest matplotlib uses it
TORCH = "torch==2.13.0"  # its CPU build, which pip takes if it is asked for first, on its own


def declared() -> tuple[list[str], dict[str, list[str]], list[str]]:
    """The requirements of the package and the paper's, of each extra that is tested, and of the tests."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    paper = tomllib.loads((PAPER / "pyproject.toml").read_text())["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"] | paper["optional-dependencies"]
    of_paper = [line for line in paper["dependencies"] if not line.startswith("pastmaster")]
    tools = [line for line in extras["dev"] if re.split(r"[^\w-]", line)[0] in TOOLS]
    return [*project["dependencies"], *of_paper], {name: extras[name] for name in extras if name not in NO_TESTS}, tools


def minimum(requirements: Iterable[str]) -> list[str]:
    """Constraints that hold each requirement at the least version it allows; markers stay, extras go."""
    return [re.sub(r"\[.*?\]", "", line.partition(";")[0]).replace(">=", "==") + _marker(line) for line in requirements]


def _marker(line: str) -> str:
    _, semicolon, marker = line.partition(";")
    return semicolon + marker


def with_extras(package: Path, extras: Iterable[str]) -> str:
    """A package as pip is asked for it."""
    names = ",".join(sorted(extras))
    return f"{package}[{names}]" if names else str(package)


def make(folder: Path, versions: str, without: set[str]) -> Path:
    """A virtual environment with the package as it is now; returns its Python."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    base, extras, tools = declared()
    wanted = {name: lines for name, lines in extras.items() if name not in without}
    if unknown := without - set(extras):
        sys.exit(f"--without {min(unknown)}: there is no such extra, must be one of {', '.join(extras)}")
    constraints = folder / "constraints.txt"
    used = [line for line in tools if line.startswith("pandas")]  # the others test, and may be the newest
    held = [*base, *(line for lines in wanted.values() for line in lines), *used]
    constraints.write_text("\n".join([*minimum(held), *BESIDE_OLD]) if versions == "minimum" else "")
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if "sb3" in wanted:
        subprocess.run([*install, TORCH], check=True)
    packages = [with_extras(ROOT, set(wanted) - PAPER_EXTRAS), with_extras(PAPER, set(wanted) & PAPER_EXTRAS)]
    subprocess.run([*install, "--upgrade", "-c", str(constraints), *packages, *tools], check=True)
    subprocess.run([*install, "--force-reinstall", "--no-deps", str(ROOT), str(PAPER)], check=True)
    if "postgres" in wanted:  # the server's programs, of which nothing is imported: any Python's wheel will do
        programs = ["--python-version", "3.12", "--only-binary", ":all:", "--no-deps", "--upgrade", "--target"]
        site = next(folder.glob("lib/python*/site-packages"))
        subprocess.run([*install, *programs, str(site), "pgserver>=0.1.4"], check=True)
        subprocess.run([*install, "psutil"], check=True)
    return python


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", choices=["newest", "minimum"])
    parser.add_argument("--without", default="", metavar="EXTRAS", help="extras to leave out, with commas")
    parser.add_argument("--folder", type=Path, help="keep the environment here, for the next time")
    given, for_pytest = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as scratch:
        python = make(given.folder or Path(scratch), given.versions, set(filter(None, given.without.split(","))))
        subprocess.run([str(python), "-m", "pip", "freeze"], check=True)
        # least versions are years old: what they use of others is deprecated since
        old = ["-W", "ignore::DeprecationWarning"] if given.versions == "minimum" else []
        return subprocess.run([str(python), "-m", "pytest", *old, *for_pytest], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
