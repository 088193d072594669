"""A mistake in an argument ends in one sentence: the function, the argument, what was got, and what would be right.

The table is in the modules ``of_*`` beside this one: of every public function its right call, and the mistakes that
people make in it. Nothing is half-done: a repository is left as it was.
"""

from __future__ import annotations

import importlib
import inspect
import re
import types
from collections.abc import Iterator
from importlib.util import find_spec

import of_domains
import of_jax
import of_policies
import of_repository
import of_reuse
import of_selectors
import of_service
import of_tables
import of_tasks
import of_values
import pytest
import right
from right import Mistake

import pastmaster as pm

ROOMS = (
    of_tables,
    of_tasks,
    of_jax,
    of_values,
    of_reuse,
    of_selectors,
    of_policies,
    of_repository,
    of_service,
    of_domains,
)
CALLS = {
    name: call for room in ROOMS if find_spec(getattr(room, "NEEDS", "numpy")) for name, call in room.CALLS.items()
}
STORING = {*of_repository.CALLS, *of_service.CALLS}
REMEDY = re.compile(r"\b(must|pass|call|leave it out|pip install)\b")

PACKAGES = (
    "clustering",
    "continual",
    "estimation",
    "policies",
    "repository",
    "reuse",
    "service",
    "solving",
    "tasks",
    "testing",
    "values",
)
EXCEPTIONS = {
    "errors": "ContractError DamagedError InvalidInputError PastmasterError RepositoryError ServiceError TaskError",
    "what calls return": "Bounds ContinualRun Episode KeepCurve LowerBound RegretGuarantee "
    "clustering.Covered clustering.Doubt clustering.OverAll clustering.Stability continual.Reclustered "
    "continual.TaskDone estimation.EpisodeRange estimation.Estimate repository.Checked repository.ClusteringRecord "
    "repository.Damage repository.PolicyRecord repository.Records repository.StoredRun repository.Stream "
    "repository.TaskRecord reuse.Advice service.Asked",
    "protocols": "policies.Policy reuse.Learner reuse.LearnerSettings reuse.SelectorProtocol",
    "readers of files and models, whose tests are in tests/policies": "policies.OnnxPolicy policies.TorchPolicy "
    "policies.PredictPolicy policies.from_sb3 policies.normalisation_of",
    "a repository is its one argument": "service.list_tokens service.serve",
}
"""Why a public name is not in the table."""


@pytest.mark.parametrize("name", CALLS)
def test_a_mistake_is_told_with_function_argument_value_and_remedy(name: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = [told for told in (complaint(name, mistake) for mistake in CALLS[name].mistakes) if told]
    assert wrong == [], "\n".join(wrong)


def complaint(name: str, mistake: Mistake) -> str:
    """What is wrong with what is said of a mistake; nothing if nothing is."""
    call, (arguments, sentence, *more) = CALLS[name], mistake
    kind = more[0] if more else pm.InvalidInputError
    try:
        call.function(**(dict(call.right()) | dict(arguments)))
    except Exception as error:
        caught = error
    else:
        return f"{arguments}: no error, should be: {sentence}"
    head, _, told = str(caught).partition(": ")
    as_it_should = {
        "kind": type(caught) is kind and (isinstance(caught, ValueError) or kind is pm.RepositoryError),
        "function": head in {call.says, *names_of(name)},
        "sentence": re.match(".*".join(map(re.escape, sentence.split("..."))), told),
        "argument": any(argument.removesuffix("s") in told for argument in arguments),
        "remedy": REMEDY.search(told),
        "length": len(told) < 500,
        "nothing half-done": name not in STORING or is_as_it_was(right.repository()),
    }
    missing = [what for what, holds in as_it_should.items() if not holds]
    return f"{arguments}: {', '.join(missing)}: {type(caught).__name__}: {caught}" if missing else ""


def is_as_it_was(repository: pm.Repository) -> bool:
    return len(repository) == 1 and repository.runs() == repository.clusterings() == []


def names_of(name: str) -> set[str]:
    """What errors may call a function: its path, or the end of it."""
    parts = name.split(",")[0].split(".")
    return {".".join(parts[i:]) for i in range(len(parts))}


@pytest.mark.parametrize("name", [name for name, call in CALLS.items() if call.runs])
def test_the_right_call_is_right(name: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    CALLS[name].function(**CALLS[name].right())
    right.repository.cache_clear()


def public_names() -> Iterator[str]:
    """Every public function and class, by its shortest path."""
    seen: set[int] = set()
    for package in ("", *PACKAGES):
        module = importlib.import_module(f"pastmaster.{package}".rstrip("."))
        for name in module.__all__:
            thing = getattr(module, name)
            if id(thing) in seen or isinstance(thing, types.GenericAlias):
                continue
            if inspect.isclass(thing) or inspect.isfunction(thing):
                seen.add(id(thing))
                yield f"{package}.{name}".lstrip(".")


def test_every_public_name_has_a_mistake_or_a_reason_to_have_none() -> None:
    called = {name.split(",")[0] for room in ROOMS for name in room.CALLS}
    known = called | {name.rpartition(".")[0] for name in called}  # a class, by a method
    exempt = {name for names in EXCEPTIONS.values() for name in names.split()}
    assert sorted(set(public_names()) - known - exempt) == []
    assert sorted(exempt - set(public_names())) == []
    assert [name for name, call in CALLS.items() if not call.mistakes] == []
