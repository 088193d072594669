"""Tables of scores as people have them: arrays, lists, DataFrames, files; errors name the row and the column."""

from __future__ import annotations

import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from seams import read_scores

from pastmaster import InvalidInputError, keep, keep_curve

NAN = math.nan
SCORES = [[9.0, 4.0, 1.0], [8.0, 5.0, 2.0], [1.0, NAN, 7.0]]
TASKS, POLICIES = ("north", "south", "a, b"), ("ppo", 'say "hi"', "dqn;2")


def read(scores, **names):
    return read_scores("keep", scores, **names)


def same(found, values=SCORES, tasks=TASKS, policies=POLICIES):
    assert np.array_equal(found.values, values, equal_nan=True)
    assert (found.tasks, found.policies) == (tuple(tasks), tuple(policies))
    return found


@pytest.fixture
def csv_file(tmp_path):
    def write(text, encoding="utf-8"):
        path = tmp_path / "scores.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
        return path

    return write


def wide_text(separator=",", end="\n", missing=""):
    def quoted(cell):
        return '"' + cell.replace('"', '""') + '"' if set(cell) & set(',;"\t') else cell

    rows = [("task", *POLICIES)]
    rows += [
        (task, *(missing if score != score else f"{score:g}" for score in row))
        for task, row in zip(TASKS, SCORES, strict=True)
    ]
    return end.join(separator.join(map(quoted, row)) for row in rows) + end


# what is taken


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("missing", ["", "nan", "NA", "-"])
def test_a_wide_file_is_read_with_its_names(csv_file, separator, end, encoding, missing):
    path = csv_file(wide_text(separator, end, missing), encoding)
    same(read(path))
    same(read(str(path)))
    assert keep(path, k=2, rng=0).policies == ["ppo", "dqn;2"]


def test_a_file_may_have_no_header_no_names_empty_lines_and_a_decimal_comma(csv_file):
    same(read(csv_file("9,4,1\n8,5,2\n\n1,,7\n\n")), tasks=(), policies=())
    same(read(csv_file("a,b,c\n9,4,1\n8,5,2\n1,,7")), tasks=(), policies="abc")
    same(read(csv_file("task;a;b\nx;1,5;-2\ny;3;4e1\n")), [[1.5, -2.0], [3.0, 40.0]], "xy", "ab")
    same(read(csv_file(",a\n1,5\n2,6\n")), [[5.0], [6.0]], "12", "a")
    same(read(csv_file("\n\nid,a\n1, 5 \n")), [[5.0]], "1", "a")


LONG = [("x", "a", 1.0), ("x", "a", 3.0), ("y", "b", 5.0), ("x", "b", 2.0), ("x", "a", 5.0), ("y", "b", NAN)]


def check_long(found):
    same(found, [[3.0, 2.0], [NAN, 5.0]], "xy", "ab")
    expected = [[2.0 / math.sqrt(3), NAN], [NAN, NAN]]
    assert found.standard_errors == pytest.approx(np.array(expected), nan_ok=True)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_long_file_is_averaged(csv_file, separator):
    rows = [("seed", "Task", "score", "policy"), *((i, t, "" if s != s else s, p) for i, (t, p, s) in enumerate(LONG))]
    check_long(read(csv_file("\n".join(separator.join(map(str, row)) for row in rows))))


def test_a_long_frame_is_averaged():
    table = pd.DataFrame(LONG, columns=["task", "policy", "score"])
    check_long(read(table))
    check_long(read(table.set_index(np.array([5, 5, 2, 9, -1, 0]))))
    check_long(read(table.astype({"score": "Float64"})))
    once = read(table.iloc[[1, 2, 3]])
    assert once.standard_errors is None


@pytest.mark.parametrize(
    ("index", "names"),
    [
        (["b", "a", "b"], ("b", "a", "b")),
        ([7, 7, 7], ("7", "7", "7")),
        ([3, 1, 2], ("3", "1", "2")),
        ([0.5, None, "x"], ("0.5", "None", "x")),
        (pd.MultiIndex.from_tuples([("m", 1), ("m", 2), ("n", 1)]), ("('m', 1)", "('m', 2)", "('n', 1)")),
        (pd.to_datetime(["2020-01-02", "2020-01-03", "2020-01-04"]), None),
        (pd.CategoricalIndex(["u", "v", "u"]), ("u", "v", "u")),
    ],
)
def test_a_frame_may_have_an_odd_index(index, names):
    table = pd.DataFrame(SCORES, index=index, columns=list("abc"))
    found = read(table)
    assert np.array_equal(found.values, SCORES, equal_nan=True)
    assert found.policies == ("a", "b", "c")
    assert names is None or [name.replace("nan", "None") for name in found.tasks] == list(names)
    kept = keep(table, k=2, rng=0)
    assert kept.policies == ["a", "c"]
    assert [row.task for row in kept.table()] == list(found.tasks)


def test_a_plain_frame_has_no_names_of_tasks_unless_a_column_has_them():
    same(read(pd.DataFrame(SCORES)), tasks=(), policies="012")
    same(read(pd.DataFrame({"where": TASKS} | dict(zip("abc", np.array(SCORES).T, strict=True)))), policies="abc")


def test_arrays_and_lists_of_any_kind_are_taken():
    same(read(np.array(SCORES, np.float32)), tasks=(), policies=())
    same(read(tuple(map(tuple, SCORES))), tasks=(), policies=())
    same(read([[9, 4, 1], [8, 5, 2], [1, None, 7]]), tasks=(), policies=())
    same(read(np.ma.masked_invalid(SCORES)), tasks=(), policies=())
    same(read([[Fraction(1, 2).numerator, True + 0]]), [[1.0, 1.0]], (), ())
    same(read(np.array(SCORES, object), tasks=TASKS, policies=POLICIES))
    same(read(pd.DataFrame(SCORES, dtype="Float32"), tasks=TASKS, policies=POLICIES))


def test_what_is_given_is_not_changed():
    scores = np.array(SCORES)
    keep(scores, k=2, lower_is_better=True, rng=0)
    assert np.array_equal(scores, SCORES, equal_nan=True)
    assert scores.flags.writeable


# what is refused


TABLES = {
    "strings": ([["fast", 1.0]], r"scores\[0, 0\] is 'fast', must be a number, or nan where a policy was not tried"),
    "a string after a number": ([[1.0, "fast"], [2, 3]], r"scores\[0, 1\] is 'fast', must be a number"),
    "numbers as strings": ([["1", "2"]], r"scores\[0, 0\] is '1', must be a number"),
    "a list in a cell": (np.array([[[1], None]], object).reshape(1, 2), r"scores\[0, 0\] is \[1\], must be a number"),
    "a flag in a cell": ([[None, True]], r"scores\[0, 1\] is True, must be a number"),
    "infinity": ([[1.0, math.inf]], r"scores\[0, 1\] is inf, must be finite \(below 1e300\)"),
    "too large": ([[1.0, -1e300]], r"scores\[0, 1\] is -1e\+300, must be finite"),
    "a nan row": ([[1.0, 2.0], [NAN, NAN]], "scores has none for task 1, must have one at least: leave it out"),
    "one axis": ([1.0, 2.0], r"scores has shape \(2,\), must be \[N tasks, M policies\], none empty"),
    "no rows": (np.empty((0, 3)), r"scores has shape \(0, 3\), must be"),
    "ragged": ([[1.0], [1.0, 2.0]], "scores is ragged"),
    "None": (None, "scores is None, must be an array"),
    "a frame with text": (
        pd.DataFrame({"ppo": [1.0, 2.0], "dqn": [1.0, "slow"]}, index=["x", "y"]),
        r"scores\[task 'y', policy 'dqn'\] is 'slow', must be a number",
    ),
    "a frame with infinity": (
        pd.DataFrame({"ppo": [1.0, -math.inf]}, index=["x", "y"]), r"scores\[task 'y', policy 'ppo'\] is -inf, must"
    ),
    "a frame with a nan row": (
        pd.DataFrame({"ppo": [1.0, NAN], "dqn": [1.0, None]}, index=["x", "y"]), "scores has none for task 'y', must"
    ),
    "an empty frame": (pd.DataFrame(), r"scores has shape \(0, 0\), must be"),
    "a long frame with text": (
        pd.DataFrame({"task": ["x"], "policy": ["a"], "score": ["slow"]}), "scores: score of row 0 is 'slow', must"
    ),
    "a long frame without rows": (
        pd.DataFrame({"task": [], "policy": [], "score": []}), "scores has a header only, must have a row to each trial"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", TABLES)
def test_an_odd_table_is_refused_by_row_and_column(what):
    table, sentence = TABLES[what]
    for call in (lambda: keep(table, k=1), lambda: keep_curve(table)):
        with pytest.raises(InvalidInputError, match=f"^keep(_curve)?: {sentence}"):
            call()


FILES = {
    "text in a cell": (
        "task,a,b\nx,1,2\ny,3,fast\n",
        "line 3, column 'b' is 'fast', must be a number, or empty where",
    ),
    "an underscore": ("task,a\nx,1_000\n", "line 2, column 'a' is '1_000', must be a number"),
    "a short line": ("task,a,b\nx,1,2\ny,3\n", "line 3 has 2 cells, must have 3 as the first line"),
    "a line after a quoted end of line": ('task,a\n"x\ny",1\nz,oops\n', "line 4, column 'a' is 'oops', must be a n"),
    "an open quote": ('task,a\n"x,1\n', "line 2 is not CSV: unexpected end of data"),
    "bytes": (b"task,a\nx,\xff\n", "line 2 is not text in UTF-8, must be: save as CSV UTF-8"),
    "Latin-1": ("task;a\nMüller;1\n".encode("latin-1"), "line 2 is not text in UTF-8, must be: save as CSV UTF-8"),
    "UTF-16 without its mark": (
        "task,a\nx,1\n".encode("utf-16-le"),
        "line 1 is not text in UTF-8, but seems to be UTF-16, must be: save as CSV UTF-8",
    ),
    "half of UTF-16": (
        "task,a\nx,1\n".encode("utf-16")[:-1],
        r"line \d is not text in UTF-8, must be: save as CSV UTF-8",
    ),
    "text in a long table": ("task,policy,score\nx,a,1\nx,b,oops\n", "line 3, column 'score' is 'oops', must be a nu"),
}


@pytest.mark.parametrize("what", FILES)
def test_an_odd_file_is_refused_by_line_and_column(csv_file, what):
    text, sentence = FILES[what]
    with pytest.raises(InvalidInputError, match=f"^keep: scores: {sentence}"):
        keep(csv_file(text), k=1)


def test_a_file_without_a_table_is_refused(csv_file, tmp_path):
    for text, sentence in (
        ("task,a\n", "scores has a header only, must have a row to each task"),
        ("task,policy,score\n", "scores has a header only, must have a row to each trial"),
        ("task\nx\n", "scores has no column of scores, must have one to each policy"),
        ("\n\n", "scores is '.*', which has no lines, must have a header and a row to a task"),
        ("", "scores is '.*', an empty file, must be a .csv file"),
        ("task,a\nx,inf\n", r"scores\[task 'x', policy 'a'\] is inf, must be finite"),
        ("task,a\nx,\n", "scores has none for task 'x', must have one at least"),
    ):
        with pytest.raises(InvalidInputError, match=f"^keep: {sentence}"):
            keep(csv_file(text), k=1)
    with pytest.raises(InvalidInputError, match=r"^keep: scores is '.*scorse.csv', which does not exist, .*scores.csv"):
        keep(tmp_path / "scorse.csv", k=1)
    with pytest.raises(InvalidInputError, match=r"^keep: scores is '.*', a folder, must be a .csv file"):
        keep(tmp_path, k=1)


def test_lines_may_end_as_on_any_machine(csv_file):
    for end in ("\n", "\r\n", "\r"):
        same(read(csv_file(end.join(("task,a,b", "x,1,2", "y,3,", "")))), [[1.0, 2.0], [3.0, NAN]], "xy", "ab")
        with pytest.raises(InvalidInputError, match=r"^keep: scores: line 3, column 'b' is 'oops'"):
            read(csv_file(end.join(("task,a,b", "x,1,2", "y,3,oops"))))


@pytest.mark.parametrize("kind", ["wide", "long"])
def test_a_large_file_takes_a_few_times_its_size(csv_file, kind):
    scores = np.random.default_rng(0).normal(size=(600, 60))
    if kind == "wide":
        rows = [f"task {i}," + ",".join(f"{score:.4f}" for score in row) for i, row in enumerate(scores)]
        path = csv_file("\n".join(["task," + ",".join(f"p{j}" for j in range(60)), *rows]))
    else:
        rows = [f"task {i},p{j},{score:.4f}" for i, row in enumerate(scores) for j, score in enumerate(row)]
        path = csv_file("\n".join(["task,policy,score", *rows]))
    read(path)
    tracemalloc.start()
    try:
        found = read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.values.shape == scores.shape
    assert peak < 9 * path.stat().st_size


def test_a_file_that_pandas_wrote_keeps_its_header(tmp_path):
    table = pd.DataFrame([[5, 6, 7], [3, 9, 2], [8, 1, 0]])
    for index in (True, False):
        table.to_csv(tmp_path / "table.csv", index=index)
        found = keep(tmp_path / "table.csv", k=1)
        assert found.distance.shape == (3, 3)
        assert found.policies == ["0"]


def test_numbers_that_may_be_names_are_refused(tmp_path):
    (tmp_path / "years.csv").write_text("2018,2019,2020\n1,1,2\n")
    with pytest.raises(InvalidInputError, match="line 1 is '2018,2019,2020', which may be names or scores, must"):
        keep(tmp_path / "years.csv", k=1)


@pytest.mark.parametrize("head", ["task", "customer", "ID", "robot_id", "Map"])
def test_numbers_that_name_tasks_are_no_scores(tmp_path, head):
    (tmp_path / "table.csv").write_text(f"{head},a,b\n1001,5,6\n1002,7,8\n")
    frame = pd.DataFrame({head: [1001, 1002], "a": [5, 7], "b": [6, 8]})
    for given in (tmp_path / "table.csv", frame):
        found = keep(given, k=1)
        assert found.policies == ["b"]
        assert [row.task for row in found.table()] == ["1001", "1002"]
    assert keep(frame[["a", "b"]].reset_index(), k=1).policies == ["b"]


def test_a_text_too_long_to_be_a_path_is_cut_in_the_error():
    sentence = r"^keep: scores is 'x.*, which cannot be read: File name too long"
    with pytest.raises(InvalidInputError, match=sentence) as told:
        keep("x" * 2000, k=1)
    assert len(str(told.value)) < 300
