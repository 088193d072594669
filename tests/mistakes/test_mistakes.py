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
MISTAKES = [(name, mistake) for name, call in CALLS.items() for mistake in call.mistakes]
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


def title(case: tuple[str, Mistake]) -> str:
    """The call, as a test is called."""
    name, (arguments, *_) = case
    given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    return f"{name}({re.sub(' at 0x[0-9a-fA-F]+', '', given)})"[:80]  # the same in every process


@pytest.mark.parametrize(("name", "mistake"), MISTAKES, ids=map(title, MISTAKES))
def test_a_mistake_is_told_with_function_argument_value_and_remedy(
    name: str, mistake: Mistake, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call, (arguments, sentence, *more) = CALLS[name], mistake
    kind = more[0] if more else pm.InvalidInputError
    with pytest.raises(kind) as caught:
        call.function(**(dict(call.right()) | dict(arguments)))
    head, _, told = str(caught.value).partition(": ")
    assert type(caught.value) is kind
    assert isinstance(caught.value, ValueError) or kind is pm.RepositoryError
    assert head in {call.says, *names_of(name)}
    assert re.match(".*".join(map(re.escape, sentence.split("..."))), told), told
    assert any(argument.removesuffix("s") in told for argument in arguments)
    assert REMEDY.search(told)
    assert len(told) < 500
    if name in STORING:
        assert len(right.repository()) == 1
        assert right.repository().runs() == right.repository().clusterings() == []


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
