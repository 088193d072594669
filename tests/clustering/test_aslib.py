"""Scenarios of ASlib: tables of solvers and instances, from files that may hold anything."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest

from pastmaster import InvalidInputError, Scores, keep, keep_curve, read_aslib

NAN = math.nan
ABOUT = "scenario_id: made-up\nperformance_measures: runtime\nmaximize: false\nperformance_type: runtime\n"
ABOUT += "algorithm_cutoff_time: 100\n"
LISTS = "performance_measures:\n    - runtime\nmaximize: \n- false\nperformance_type: [runtime]\n"
LISTS += "algorithm_cutoff_time: 100.0  # seconds\nfeature_steps:\n  maximize:\n    - true\n"
HEAD = """% made up
@RELATION runs

@ATTRIBUTE instance_id STRING
@ATTRIBUTE repetition NUMERIC
@ATTRIBUTE algorithm STRING
@ATTRIBUTE runtime NUMERIC
@ATTRIBUTE runstatus {ok, timeout, memout, not_applicable, crash, other}

@DATA
"""
RUNS = """x,1,fast,2.5,ok
x,1,strong,20,ok
y,1,fast,100,timeout
y,1,strong,30,ok
z,1,fast,?,memout
"""


@pytest.fixture
def scenario(tmp_path):
    def write(runs=RUNS, about=ABOUT, head=HEAD):
        for name, text in (("description.txt", about), ("algorithm_runs.arff", head + runs)):
            (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return tmp_path

    return write


def same(found, values, tasks, policies):
    assert isinstance(found, Scores)
    assert np.array_equal(found.values, values, equal_nan=True)
    assert (found.tasks, found.policies) == (tuple(tasks), tuple(policies))


# what is read


@pytest.mark.parametrize("about", [ABOUT, LISTS, ABOUT.replace("\n", "\r\n"), LISTS.replace("\n", "\r\n")])
def test_run_times_become_par10_scores(scenario, about):
    found = read_aslib(scenario(about=about))
    same(found, [[2.5, 20.0], [1000.0, 30.0], [1000.0, NAN]], "xyz", ("fast", "strong"))
    assert found.lower_is_better
    assert found.standard_errors is None
    assert read_aslib(str(scenario()), penalty=2).values[1, 0] == 200.0


def test_a_table_that_knows_that_lower_is_better_is_kept_by_it(scenario):
    times = read_aslib(scenario(RUNS + "z,1,strong,100,timeout\n"))
    kept = keep(times, k=1, rng=0)
    assert kept.policies == ["strong"]
    assert [row.task for row in kept.table()] == ["x", "y", "z"]
    assert kept.losses.tolist() == [17.5, 0.0, 0.0]
    assert keep(times, k=1, lower_is_better=True, rng=0).policies == ["strong"]
    assert keep_curve(times, rng=0).mean_loss.tolist() == pytest.approx([17.5 / 3, 0.0])


def test_a_run_over_the_limit_did_not_solve_its_instance(scenario):
    assert read_aslib(scenario("x,1,a,100,ok\nx,1,b,100.1,ok\n")).values.tolist() == [[100.0, 1000.0]]


@pytest.mark.parametrize("status", ["timeout", "memout", "not_applicable", "crash", "other", "TIMEOUT"])
def test_every_other_status_is_a_failure(scenario, status):
    assert read_aslib(scenario(f"x,1,a,1,{status}\n")).values.tolist() == [[1000.0]]


def test_repetitions_are_averaged(scenario):
    found = read_aslib(scenario("x,1,a,1,ok\nx,2,a,3,ok\nx,1,b,3.5,ok\n"))
    same(found, [[2.0, 3.5]], "x", "ab")
    assert np.array_equal(found.standard_errors, [[1.0, NAN]], equal_nan=True)
    assert keep(found, k=1, rng=0).doubts()[0].policy == "a"


@pytest.mark.parametrize(
    ("maximize", "best"),
    [(word, "b") for word in ("true", "yes", "On")] + [(word, "a") for word in ("false", "no", "OFF")],
)
def test_other_measures_are_taken_as_they_are(scenario, maximize, best):
    about = f"performance_measures:\n- accuracy\n- runtime\nmaximize:\n- {maximize}\n- false\n"
    about += "performance_type:\n- solution_quality\n- runtime\nalgorithm_cutoff_time: '?'\n"
    runs = "x,1,a,-0.5,ok\nx,1,b,0.8,crash\nx,1,c,?,timeout\n"
    found = read_aslib(scenario(runs, about, HEAD.replace("runtime", "accuracy")))
    same(found, [[-0.5, 0.8, NAN]], "x", "abc")
    assert found.lower_is_better == (best == "a")
    assert keep(found, k=1, rng=0).policies == [best]


def test_columns_may_come_in_any_order_with_quotes_comments_and_tabs(scenario):
    head = "@relation 'my runs'\n@attribute\t'RunStatus' {ok,timeout}\n@Attribute Algorithm string\n% more\n"
    head += "@ATTRIBUTE \"instance_id\" STRING\n@ATTRIBUTE runtime real\n@attribute 'an odd, name' {a,b}\n@data\n"
    runs = "ok,'a, b',\"say \\\"hi\\\"\", 3 ,?\n\n% a comment\n  ok , c ,'it\\'s', 4 ,'x,y'\nok,'?',plain,5,b"
    found = read_aslib(scenario(runs, head=head))
    same(found, [[3.0, NAN, NAN], [NAN, 4.0, NAN], [NAN, NAN, 5.0]], ('say "hi"', "it's", "plain"), ("a, b", "c", "?"))


def test_a_byte_order_mark_and_windows_lines_do_no_harm(scenario):
    text = "\ufeff" + (HEAD + RUNS).replace("\n", "\r\n")
    found = read_aslib(scenario("", head=text))
    assert found.values[0].tolist() == [2.5, 20.0]


def test_a_name_may_have_any_letters(scenario):
    found = read_aslib(scenario("x\u2028y\x0b,1,a,1,ok\n"))  # ends of lines to Python, not to an editor
    assert found.tasks == ("x\u2028y",)


# what is refused


RUNS_REFUSED = {
    "a short row": ("x,1,a,1,ok\nx,1,a,ok\n", "line 12 has 4 cells, must have 5, one to each attribute"),
    "a long row": ("x,1,a,1,ok,2\n", "line 11 has 6 cells, must have 5"),
    "a status": ("x,1,a,1,fine\n", "line 11, column 'runstatus' is 'fine', must be one of ok, timeout, memout, not_"),
    "no status": ("x,1,a,1,?\n", "line 11, column 'runstatus' is None, must be one of"),
    "no instance": ("?,1,a,1,ok\n", "line 11, column 'instance_id' is missing, must be a name"),
    "no algorithm": ("x,1,?,1,ok\n", "line 11, column 'algorithm' is missing, must be a name"),
    "no time": ("x,1,a,?,ok\n", "line 11, column 'runtime' is None, must be a number"),
    "words": ("x,1,a,fast,ok\n", "line 11, column 'runtime' is 'fast', must be a number"),
    "an underscore": ("x,1,a,1_0,ok\n", "line 11, column 'runtime' is '1_0', must be a number"),
    "infinity": ("x,1,a,inf,ok\n", "line 11, column 'runtime' is 'inf', must be a number"),
    "nan": ("x,1,a,nan,ok\n", "line 11, column 'runtime' is 'nan', must be a number"),
    "a time below 0": ("x,1,a,-1,ok\n", r"line 11, column 'runtime' is -1\.0, must be >= 0"),
    "a sparse row": ("{0 x, 2 a}\n", "line 11 is a sparse row, must have all its cells"),
    "an open quote": ("'x,1,a,1,ok\n", "line 11 has quotes that do not fit, must close each before a comma"),
    "a quote within": ("x'y',1,a,1,ok\n", "line 11 has quotes that do not fit"),
    "after a quote": ("'x'y,1,a,1,ok\n", "line 11 has quotes that do not fit"),
    "bytes": (b"x,1,a,1,ok\nx,\xff", "line 2 is not text in UTF-8, must be: save it as UTF-8"),
    "NUL": ("x\0,1,a,1,ok\n", r"task is 'x\\x00', must be a text without NUL"),
}  # fmt: skip


@pytest.mark.parametrize("what", RUNS_REFUSED)
def test_a_bad_run_is_refused_by_line_and_column(scenario, what):
    runs, sentence = RUNS_REFUSED[what]
    folder = scenario(runs) if isinstance(runs, str) else scenario(runs, head=b"")
    with pytest.raises(InvalidInputError, match=f"^read_aslib: algorithm_runs.arff: {sentence}"):
        read_aslib(folder)


@pytest.mark.parametrize(
    ("head", "sentence"),
    [
        (
            HEAD.replace("@DATA", ""),
            ": line 11 is 'x,1,fast,2.5,ok', must be @relation, @attribute NAME TYPE, or @data",
        ),
        (HEAD.replace("runtime NUMERIC", "time NUMERIC"), " has no attribute 'runtime', must have one"),
        (HEAD.replace("repetition", "Runtime"), " has more than one attribute 'runtime', must have one"),
        (
            HEAD.replace("@ATTRIBUTE algorithm STRING", "@ATTRIBUTE algorithm"),
            ": line 6 is '@ATTRIBUTE algorithm', must",
        ),
        ("@DATA\n", ": line 1 is '@DATA', must be @relation, @attribute NAME TYPE, or @data after the attributes"),
        ("<html>\n", ": line 1 is '<html>', must be @relation"),
    ],
)
def test_a_bad_header_is_refused(scenario, head, sentence):
    with pytest.raises(InvalidInputError) as refused:
        read_aslib(scenario(head=head))
    assert str(refused.value).startswith(f"read_aslib: algorithm_runs.arff{sentence}")


def test_a_file_without_rows_is_refused(scenario):
    with pytest.raises(InvalidInputError, match=r"^read_aslib: algorithm_runs.arff has a header only, must have a row"):
        read_aslib(scenario(""))
    with pytest.raises(InvalidInputError, match=r"^read_aslib: algorithm_runs.arff has no line @data, must have one"):
        read_aslib(scenario("", head="@relation x\n% nothing\n"))


@pytest.mark.parametrize(
    ("line", "instead", "sentence"),
    [
        ("maximize: false\n", "", " has no line 'maximize', must have one"),
        ("performance_measures: runtime\n", "", " has no line 'performance_measures', must have one"),
        ("maximize: false", "maximize: Never", ": maximize is 'Never', must be true or false"),
        ("maximize: false", "maximize: true", ": maximize is 'true', must be false for a performance_type of runtime"),
        ("maximize: false", "maximize: Yes", ": maximize is 'Yes', must be false for a performance_type of runtime"),
        ("performance_type: runtime", "performance_type: memory", ": performance_type is 'memory', must be runtime or"),
        ("cutoff_time: 100", 'cutoff_time: "?"', ": algorithm_cutoff_time is '?', must be a number"),
        ("cutoff_time: 100", "cutoff_time:", ": algorithm_cutoff_time is '', must be a number"),
        ("cutoff_time: 100", "cutoff_time: 0", ": algorithm_cutoff_time is 0, must be above 0 and below 1e12"),
        ("cutoff_time: 100", "cutoff_time: 1e20", ": algorithm_cutoff_time is 1e+20, must be above 0 and below 1e12"),
    ],
)
def test_a_bad_description_is_refused(scenario, line, instead, sentence):
    with pytest.raises(InvalidInputError) as refused:
        read_aslib(scenario(about=ABOUT.replace(line, instead)))
    assert str(refused.value).startswith(f"read_aslib: description.txt{sentence}")


def test_what_is_no_scenario_is_refused(scenario, tmp_path):
    folder = scenario()
    for wrong in (None, 5, "", "a\0b"):
        with pytest.raises(
            InvalidInputError, match=r"^read_aslib: folder is .*, must be the folder of an ASlib scenario"
        ):
            read_aslib(wrong)
    for wrong in (folder / "none", folder / "description.txt"):
        with pytest.raises(
            InvalidInputError, match=r"^read_aslib: folder is '.*', which is none, must be that of an AS"
        ):
            read_aslib(wrong)
    for wrong in (0.5, NAN, "10", 1e9):
        with pytest.raises(InvalidInputError, match=r"^read_aslib: penalty is .*, must be (a number, )?in 1 .. 1e"):
            read_aslib(folder, penalty=wrong)
    for name in ("algorithm_runs.arff", "description.txt"):
        content = (folder / name).read_bytes()
        (folder / name).unlink()
        with pytest.raises(InvalidInputError, match=f"^read_aslib: {name} is '.*', which does not exist, must be the"):
            read_aslib(folder)
        os.mkfifo(folder / name)
        with pytest.raises(InvalidInputError, match=f"^read_aslib: {name} is '.*', a named pipe, must be the {name}"):
            read_aslib(folder)
        (folder / name).unlink()
        (folder / name).write_bytes(b"")
        with pytest.raises(InvalidInputError, match=f"^read_aslib: {name} is '.*', an empty file, must be the {name}"):
            read_aslib(folder)
        (folder / name).write_bytes(content)
    assert read_aslib(folder).tasks == ("x", "y", "z")


@pytest.mark.parametrize("name", ["algorithm_runs.arff", "description.txt"])
def test_an_oversized_file_is_refused_before_it_is_read(scenario, name):
    folder = scenario()
    most = 2**27 if name == "algorithm_runs.arff" else 2**24
    os.truncate(folder / name, most + 1)  # sparse: takes no room
    with pytest.raises(
        InvalidInputError, match=f"^read_aslib: {name} has {most + 1:,} bytes, must have at most {most:,}"
    ):
        read_aslib(folder)


def test_a_table_with_too_many_pairs_is_refused_before_memory_is_taken(scenario, tmp_path):
    size = 20_000  # rows, each with an instance and a solver of its own: 3.2 GB as a table
    wanted = "has 20,000 tasks and 20,000 policies, must have at most 268,435,456 pairs"
    with pytest.raises(InvalidInputError, match=f"^read_aslib: algorithm_runs.arff {wanted}"):
        read_aslib(scenario("".join(f"i{i},1,s{i},1,ok\n" for i in range(size))))
    (tmp_path / "long.csv").write_text("task,policy,score\n" + "".join(f"i{i},s{i},1\n" for i in range(size)))
    with pytest.raises(InvalidInputError, match=f"^keep: scores {wanted}"):
        keep(tmp_path / "long.csv", k=1)


def test_the_reader_of_arff_is_quick_on_what_would_make_patterns_slow(scenario):
    with pytest.raises(InvalidInputError, match="quotes that do not fit"):
        read_aslib(scenario("'" + "\\'" * 50_000 + "\n"))
    with pytest.raises(InvalidInputError, match="must be @relation"):
        read_aslib(scenario(head="@attribute " + " " * 50_000 + "\n"))


# tables that were read, as arguments


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (Scores(None), "scores is None, must be an array"),
        (Scores([["a"]]), r"scores\[0, 0\] is 'a', must be a number"),
        (Scores([[1.0, 2.0]], ("x", "y")), "scores.tasks has 2 names, must have 1"),
        (Scores([[1.0, 2.0]], ("x",), "ab"), "scores.policies is 'ab', must be a list of 2 names"),
        (Scores([[1.0, 2.0]], standard_errors=[1.0]), r"scores.standard_errors has shape \(1,\), must be \(1, 2\)"),
        (Scores([[1.0, 2.0]], standard_errors=[[1.0, -2]]), "scores.standard_errors has one below 0 or not finite"),
        (Scores([[1.0, 2.0]], lower_is_better="yes"), "scores.lower_is_better is 'yes', must be True or False"),
        (Scores([[NAN, NAN]], ("x",)), "scores has none for task 'x', must have one at least"),
    ],
)
def test_a_table_that_somebody_made_is_looked_at(table, sentence):
    with pytest.raises(InvalidInputError, match=f"^keep: {sentence}"):
        keep(table, k=1)


def test_names_take_the_place_of_those_of_a_table():
    table = Scores([[1.0, 2.0], [3.0, 0.0]], ["x", "y"], np.array(["a", "b"]), lower_is_better=np.bool_(True))
    kept = keep(table, k=1, policies=["c", "d"], rng=0)
    assert kept.policies == ["d"]
    assert kept.task_names == ("x", "y")
