from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest

from pastmaster import InvalidInputError, figures


def drawn():
    figure, axes = figures.new_figure(3, 2)
    figures.matrix(axes, np.eye(3), title="One", rows="task", columns="policy", scale="value")
    return figure


@pytest.mark.parametrize(("suffix", "opening"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_a_figure_is_written_as_its_suffix_says_into_a_new_folder(tmp_path, suffix, opening):
    path = tmp_path / "new" / "folder" / f"figure{suffix}"
    assert figures.save(drawn(), path) == path
    assert path.read_bytes().startswith(opening)


def test_without_a_suffix_it_is_a_png_and_its_path_is_returned(tmp_path):
    path = figures.save(drawn(), str(tmp_path / "figure"))
    assert path.name == "figure.png"
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["figure.xyz", "folder"])
def test_a_picture_that_cannot_be_is_refused_and_nothing_is_written(tmp_path, name):
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidInputError, match=name):
        figures.save(drawn(), tmp_path / name)
    assert [path.name for path in tmp_path.rglob("*")] == ["folder"]


def test_a_heat_map_has_its_title_labels_and_scale():
    axes, scale = drawn().axes
    assert (axes.get_title(), axes.get_ylabel(), axes.get_xlabel()) == ("One", "task", "policy")
    assert scale.get_ylabel() == "value"
    assert np.array_equal(axes.images[0].get_array(), np.eye(3))


def test_drawing_needs_no_screen_and_no_pyplot():
    script = (
        "import sys; from pastmaster import figures; figures.new_figure(); "
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_letters_that_the_font_lacks_are_no_warning_and_other_warnings_stay(tmp_path):
    figure = drawn()
    figure.axes[0].set_title("課題 🚀")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figures.save(figure, tmp_path / "figure.png")
    figure.savefig = lambda *_, **__: warnings.warn("something else", UserWarning, stacklevel=1)
    with pytest.warns(UserWarning, match="something else"):
        figures.save(figure, tmp_path / "figure.png")
