"""The report in a browser: drawn, readable on a phone and on paper, silent on the network."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_up import HOSTILE, page_of_charts

from pastmaster import ContinualTransfer, Repository, domains, solve, transfer
from pastmaster.report import write_page, write_report

pytestmark = pytest.mark.long(10)
KINDS = ("curves", "map", "distance", "shares")
DRAWN = ".plot .main-svg"
NAME = f"{HOSTILE}<b>x</b>"  # plotly would set the x in bold


@pytest.fixture(scope="module")
def page_file(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("report")
    return write_page(page_of_charts(n_tasks=14, name=NAME), place / "report.html")


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


def plot(page, kind: str):
    """The plot of a kind, drawn."""
    found = page.locator(f"figure.{kind}")
    found.scroll_into_view_if_needed()
    found.locator(DRAWN).first.wait_for()
    return found


def overflow(page) -> int:
    """By how much the content is wider than the screen, whatever scale the phone would choose for it."""
    return page.evaluate("document.documentElement.scrollWidth") - page.viewport_size["width"]


def test_figures_are_drawn_without_being_scrolled_to(opened):
    page = opened()
    page.locator(f"figure.shares {DRAWN}").first.wait_for()
    assert page.evaluate("scrollY") == 0
    assert page.locator("figure.shares").bounding_box()["y"] > 900  # far below
    curves = plot(page, "curves")
    assert curves.locator(".scatterlayer .js-line").count() == 5
    assert curves.locator(".legend button").all_text_contents()[-1] == "optimal policy"
    assert plot(page, "map").locator(".scatterlayer .trace").nth(1).locator("path.point").count() == 14
    assert plot(page, "distance").locator(".heatmaplayer image").count() == 1
    assert plot(page, "shares").locator(".scatterlayer .js-fill").count() == 7
    assert page.locator("img").count() == 0


def test_a_point_of_the_map_tells_its_task_cell_and_representative(opened):
    drawn = plot(opened(), "map")
    points = drawn.locator(".scatterlayer .trace").nth(1).locator("path.point")
    told = set()
    for i in range(points.count()):
        points.nth(i).hover(force=True)
        drawn.locator(".hoverlayer .hovertext").wait_for()
        told.add(" ".join(drawn.locator(".hoverlayer .hovertext tspan").all_text_contents()))
    assert all(re.search(r"task \d+, cell \d+ representative: ", text) for text in told), told
    assert any(re.search(r"representative: .*\(task \d+\)", text) for text in told)
    assert all(text.startswith(f"{NAME} ") for text in told)  # as it is written


@pytest.fixture(scope="module")
def repository_file(tmp_path_factory) -> Path:
    """The page of a repository whose tasks came with each other's policies; a run of 12 episodes, and one of 1."""
    place = tmp_path_factory.mktemp("repository")
    tasks = domains.coloured_grid.family([[1, 1], [1, 0.1], [0.1, 1], [0.5, 0.5], [0.3, 0.3]], size=4)
    with Repository(place / "tasks.db") as repository:
        for i, task in enumerate(tasks[:3]):
            repository.add(task, solve(tasks[(i + 1) % 3]).policy, name=f"{NAME}{i}")
        for task, episodes in zip(tasks[3:], (1, 12), strict=True):
            sources = repository.policies()
            run = transfer(task, list(sources), episodes=episodes, rng=0, selector="exp3-transfer")
            repository.add(task, run.policy, run=run)
        repository.cluster(n_clusters=2, rng=0, restarts=2, iterations=500)
    return write_report(place / "tasks.db", place / "report.html")


def test_kept_policies_are_stars_amid_their_tasks_and_marks_over_their_columns(opened, repository_file):
    page = opened(repository_file)
    drawn = plot(page, "map")
    stars = drawn.locator(".scatterlayer .trace").nth(2)
    assert stars.locator("path.point").count() == 2
    assert all(text.startswith(NAME[:20]) for text in stars.locator("text").all_text_contents())
    drawn.locator(".scatterlayer .trace").nth(1).locator("path.point").first.hover(force=True)
    drawn.locator(".hoverlayer .hovertext").wait_for()
    told = " ".join(drawn.locator(".hoverlayer .hovertext tspan").all_text_contents())
    assert re.search(r"task \d+, cell \d+ served by ", told), told
    losses = plot(page, "distance")
    assert losses.locator(".annotation", has_text="\u25bc").count() == 2
    assert losses.locator(".xtitle").text_content() == "policy (\u25bc kept)"
    assert losses.locator(".xtick text").count() == 2  # only kept policies are named
    assert losses.locator(".ytick text").count() == 5
    assert losses.locator(".shapelayer path").count() == 1  # between the two cells, across


def lightness(page, selector: str, name: str) -> float:
    """How light a colour of an element is, 0 to 255."""
    colour = page.locator(selector).first.evaluate(f"(node) => getComputedStyle(node).{name}")
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3


@pytest.fixture(scope="module")
def stream_file(tmp_path_factory) -> Path:
    """The page of a repository in which an agent has met five tasks."""
    place = tmp_path_factory.mktemp("stream")
    tasks = domains.coloured_grid.family([[1, 1], [1, 0.1], [0.1, 1], [0.5, 0.5], [0.3, 0.3]], size=4)
    with Repository(place / "tasks.db") as repository:
        ContinualTransfer(repository, episodes=20, recluster_every=9, rng=0).run(tasks)
        repository.keep(k=1)
    return write_report(place / "tasks.db", place / "report.html")


def test_the_first_screen_holds_the_answer_and_its_figures_without_a_script_too(opened, stream_file):
    page = opened(stream_file, viewport={"width": 1280, "height": 800}, java_script_enabled=False)
    for selector in ("h1", ".made", ".lead", ".facts", ".bars", ".trend svg", ".trend figcaption"):
        box = page.locator(selector).first.bounding_box()
        assert box["height"] > 0
        assert box["y"] + box["height"] <= 800, selector
    bars = [box["width"] for box in (bar.bounding_box() for bar in page.locator(".bar span").all())]
    assert bars == sorted(bars, reverse=True)
    assert bars[0] > 50
    left, right = (page.locator(".panel").nth(i).bounding_box() for i in (0, 1))
    assert left["x"] + left["width"] <= right["x"]
    phone = opened(stream_file, viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    assert overflow(phone) == 0


def test_dark_mode_is_dark_all_over_and_paper_is_white(opened, stream_file):
    page = opened(stream_file, color_scheme="dark")
    plot(page, "curves")
    assert lightness(page, "body", "backgroundColor") < 60
    assert lightness(page, "body", "color") > 180
    assert lightness(page, ".plot .bg", "fill") < 60
    assert lightness(page, ".plot .xtick text", "fill") > 150
    assert lightness(page, ".trend .tick", "fill") > 120
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert lightness(page, "body", "backgroundColor") == 255
    assert lightness(page, ".plot .bg", "fill") == 255
    page.emulate_media(media="screen", color_scheme="light")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert lightness(page, ".plot .bg", "fill") == 255
    page.emulate_media(media="screen", color_scheme="dark")  # while it is open
    page.wait_for_timeout(500)
    assert lightness(page, ".plot .bg", "fill") < 60


def test_shares_of_few_episodes_are_steps_and_one_episode_is_a_bar(opened, repository_file):
    page = opened(repository_file)
    shares = plot(page, "shares")
    paths = [path.get_attribute("d") for path in shares.locator(".scatterlayer .js-line").all()]
    assert paths
    assert all(re.search("[HV]", path) and "L" not in path for path in paths), paths
    page.get_by_label("Show one of 2").last.select_option(index=1)
    shares.locator(".barlayer path").first.wait_for(state="attached")


def test_the_select_and_the_legend_change_the_figure(opened):
    page = opened()
    curves = plot(page, "curves")
    line = curves.locator(".scatterlayer .js-line").first
    before = line.get_attribute("d")
    page.get_by_label("Show one of 2").first.select_option("Goal 1")
    assert line.get_attribute("d") != before
    assert curves.locator("figcaption strong").text_content() == "Goal 1"
    assert page.locator("#choice-3").input_value() == "1"  # the shares of the same title follow
    button = curves.locator(".legend button").first
    button.click()
    assert curves.locator(".scatterlayer .js-line").count() == 4
    assert curves.locator(".legend button").first.get_attribute("aria-pressed") == "false"
    curves.locator(".legend button").first.click()
    assert curves.locator(".scatterlayer .js-line").count() == 5


def test_a_phone_shows_all_without_scrolling_sideways(opened):
    page = opened(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    for kind in KINDS:
        box = plot(page, kind).locator(DRAWN).first.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360
    assert overflow(page) == 0
    page.evaluate("document.querySelector('h1').style.width = '500px'")
    assert overflow(page) > 0  # the measure can fail


def test_words_without_end_do_not_widen_the_page(opened, tmp_path):
    long = "w" * 300
    file = write_page(page_of_charts(n_tasks=14, name=long, label=long, goal=long), tmp_path / "report.html")
    page = opened(file, viewport={"width": 360, "height": 740})
    for kind in KINDS:
        plot(page, kind)
    assert overflow(page) == 0


def test_paper_holds_every_figure(opened):
    page = opened()
    pdf = page.pdf(format="A4", print_background=True)
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) in range(2, 6)
    assert page.locator("figure", has=page.locator(DRAWN)).count() == 4
    assert b"/Subtype /Image" in pdf  # the distances
    strokes = sum(drawing.count(b"\nS\n") + drawing.count(b" S\n") for drawing in streams(pdf))
    assert strokes > 20  # curves and axes
    page.locator("figure.curves").scroll_into_view_if_needed()
    assert page.locator("figure.curves " + DRAWN).first.bounding_box()["width"] > 700  # back to the screen's width


def streams(pdf: bytes) -> list[bytes]:
    """What a PDF holds in compressed streams."""
    found = []
    for packed in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL):
        try:
            found.append(zlib.decompress(packed))
        except zlib.error:
            continue
    return found


def test_without_scripts_the_page_says_what_is_missing(opened):
    page = opened(java_script_enabled=False)
    assert page.locator("noscript p").is_visible()
