"""The page of a reproduction in a browser: its sentences on a screen, on a phone and on paper."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_up_reproduction import HOSTILE, write_reproduction

from pastmaster_paper.report import write_report

pytestmark = pytest.mark.long(10)
NAME = f"{HOSTILE}<b>x</b>"


@pytest.fixture(scope="module")
def page_file(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("report")
    folder = write_reproduction(place / "out", experiments=("coloured-grid",), n_tasks=14, seeds=(0,), name=NAME)
    return write_report(folder, place / "report.html")


@pytest.fixture
def opened(browser, page_file) -> Iterator:
    """A function that opens the page with some settings of the browser; nothing may go wrong on it until the end."""
    contexts, complaints = [], []

    def open_page(file=page_file, **settings):
        context = browser.new_context(**({"viewport": {"width": 1100, "height": 900}} | settings))
        context.set_default_timeout(240_000)  # milliseconds: a busy machine takes its time
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.on("requestfailed", lambda request: complaints.append(f"failed: {request.url}"))
        page.on("request", lambda request: request.url == file.as_uri() or complaints.append(request.url[:80]))
        page.goto(file.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def overflow(page) -> int:
    """By how much the content is wider than the screen, whatever scale the phone would choose for it."""
    return page.evaluate("document.documentElement.scrollWidth") - page.viewport_size["width"]


def test_a_phone_shows_all_figures_of_a_sentence_without_scrolling_sideways(opened):
    page = opened(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    page.locator("summary").first.click()
    unit = page.locator("details td").nth(5)
    assert unit.text_content() == "reward an episode"
    assert unit.bounding_box()["height"] < 130  # words stay whole: the table scrolls in its box
    assert overflow(page) == 0


def test_words_without_end_do_not_widen_the_page(opened, tmp_path):
    long = "w" * 300
    folder = write_reproduction(tmp_path / "out", experiments=(long[:200],), n_tasks=14, seeds=(0,), name=long)
    content = json.loads((folder / "sentences.json").read_text())
    content["machine"] = content["sentences"][0]["words"] = content["judged"][0]["cases"][0]["name"] = long
    (folder / "sentences.json").write_text(json.dumps(content))
    file = write_report(folder, tmp_path / "report.html")
    for width in (360, 1000):
        page = opened(file, viewport={"width": width, "height": 740})
        page.locator("summary").first.click()
        assert overflow(page) == 0


def test_sentences_need_no_script(opened):
    page = opened(java_script_enabled=False)
    assert page.get_by_text("contrary").first.is_visible()
    assert page.locator("svg.small").first.is_visible()


def test_readings_stand_side_by_side_with_a_small_plot_each(opened):
    page = opened()
    assert page.locator(".sentences > thead th").all_text_contents() == [
        "what the paper says",
        "printed",
        "undiscounted",
    ]
    row = page.locator(".sentences > tbody").nth(2).locator("tr").first
    cells = row.locator("td")
    assert cells.count() == 2
    left, right = (cells.nth(i).bounding_box() for i in (0, 1))
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"] + 1
    point = cells.first.locator("svg.small circle")
    assert point.count() == 1  # a case that is only shown is not drawn
    line = cells.first.locator("svg.small .grid").bounding_box()
    assert point.bounding_box()["x"] < line["x"]  # contrary: on the other side of what is claimed
    colours = point.evaluate("e => [getComputedStyle(e).fill, getComputedStyle(document.body).color]")
    assert colours[0] != colours[1]
    common = page.locator(".sentences > tbody").first.locator("tr").first.locator("td")
    assert common.get_attribute("colspan") == "2"
    assert not page.locator(".sentences .reading").first.is_visible()
    narrow = opened(viewport={"width": 360, "height": 740})
    assert narrow.locator(".sentences .reading").first.is_visible()  # the head is not: each verdict names its reading
