"""The live page in a browser: what it draws and says, on a phone, in the dark, with hostile names, after an outage."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from made_up import HOSTILE
from service_world import PATIENCE, alter, often

from pastmaster import Client, Repository
from pastmaster.service import add_token, live, make_task, revoke_token, started

pytestmark = [pytest.mark.long(15), pytest.mark.usefixtures(often.__name__)]
NAME = "<img src=x onerror=alert(1)><script>alert(2)<"
ARMS = [f"{NAME}b", "'\"&quot;<td>", "javascript:alert(3)", "a" * 100]


@pytest.fixture
def repository(tmp_path) -> Iterator[Repository]:
    with Repository(tmp_path / "tasks.db") as opened:
        make_task(opened, NAME, sources=ARMS, bounds=(0.0, 1.0), seed=7, selector="tsallis-inf", lease=100.0)
        make_task(opened, "empty", sources=["a"], bounds=(0.0, 1.0))
        yield opened


@pytest.fixture
def opened(browser) -> Iterator:
    """A function that opens a page; nothing may go wrong on it until the end, and no other host is asked."""
    contexts, complaints = [], []

    def open_page(url, allowed=(), **settings):
        context = browser.new_context(**({"viewport": {"width": 1200, "height": 900}} | settings))
        context.set_default_timeout(PATIENCE * 1000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: any(a in m.text for a in allowed) or complaints.append(f"{m.type}: {m.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.on("request", lambda r: r.url.startswith((url, "data:")) or complaints.append(r.url[:80]))
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def shop(tmp_path) -> Iterator[Repository]:
    """Three tasks: what expires is forgotten, counts as a return, or has not come up yet."""
    with Repository(tmp_path / "shop.db") as opened:
        same = {"sources": ["red", "blue"], "learner": "green", "selector": "tsallis-inf", "lease": 100.0}
        make_task(opened, "forgotten", bounds=(0.0, 1.0), seed=7, **same)
        make_task(opened, "counted", bounds=(0.0, 1.0), seed=7, expired_return=0.0, **same)
        make_task(opened, "new", bounds=(0.0, 1.0), seed=7, **same)
        yield opened


def section(page, name):
    return page.locator("section", has=page.get_by_role("heading", name=name, exact=True))


def sell(client: Client, task: str, episodes: int) -> None:
    """Many returns at once."""
    asked = client.ask_many(task, episodes)
    client.tell_many(task, {one.number: 0.4 + 0.2 * (one.number % 2) for one in asked})


def lose(client: Client, tasks: tuple[str, ...], episodes: int) -> None:
    """Many episodes whose lease ends without a return."""
    for task in tasks:
        client.ask_many(task, episodes, lease=0.001)
    deadline = time.monotonic() + PATIENCE
    while any(client.state(task)["expired"] < episodes for task in tasks):
        assert time.monotonic() < deadline, "they do not expire"
        time.sleep(0.05)


def hold(page) -> None:
    """From now on the page is not drawn anew each second: what is measured stays where it is."""
    page.evaluate("() => { show = () => {}; }")


def numbers(box) -> dict[float, float]:
    """The numbers of an axis, and where the middle of each is, in pixels."""
    vertical = "y" in box.get_attribute("class").split()
    found = {}
    for label in box.locator("span").all():
        place = label.bounding_box()
        middle = place["y"] + place["height"] / 2 if vertical else place["x"] + place["width"] / 2
        found[float(label.inner_text().replace(",", ""))] = middle
    return found


def told(page) -> int:
    return int(page.locator("section .counts b").nth(1).inner_text().replace(",", ""))


def load(client: Client, episodes: int) -> None:
    for k in range(episodes):
        with client.episode(NAME) as episode:
            episode.value = [0.1, 0.9, 0.2, 0.4, 0.3][episode.arm] * (0.5 + (k % 7) / 14)


def test_the_page_lives_with_hostile_names(repository, opened, tmp_path):
    assert "<script>" in HOSTILE or HOSTILE
    with started(repository) as url, Client(url) as client:
        load(client, 30)
        client.ask_many(NAME, 3)
        page = opened(url)
        page.locator("section").nth(1).wait_for()
        section = page.locator("section").first
        assert section.locator("h2").inner_text() == NAME
        assert {cell.inner_text() for cell in section.locator("tbody td:first-child").all()} >= {ARMS[1], "learner"}
        assert "Best so far" in section.inner_text()
        assert "3 open" in section.locator(".counts").inner_text()
        assert "Next to expire" in section.inner_text()
        assert section.locator("path.all").get_attribute("d").startswith("M")
        before = told(page)
        load(client, 20)  # while it is watched
        page.wait_for_function(
            "n => Number(document.querySelectorAll('.counts b')[1].textContent) >= n", arg=before + 20
        )
        assert page.locator("img").count() == 0
        assert page.locator("main script").count() == 0
        page.screenshot(path=str(tmp_path / "page.png"))
        page.close()


def test_the_page_shows_which_task_is_damaged_and_how_many_are_late(repository, opened):
    with started(repository) as url, Client(url) as client:
        client.ask_many(NAME, 3)
    alter(repository.place, "UPDATE service_episodes SET arm = (arm + 1) % 5")
    with started(repository) as url:
        page = opened(url)
        page.locator("section").nth(1).wait_for()
        bad, good = (page.locator("section", has=page.get_by_text(name)) for name in (NAME, "empty"))
        assert "but the selector chooses" in bad.inner_text()
        assert "0 asked" in good.inner_text()
        with Client(url) as client:
            state = client.state("empty")
        state |= {
            "open": 30,
            "next_to_expire": [{"number": k, "name": "a", "lease": 0, "late": True} for k in range(20)],
        }
        assert "20+ late" in page.evaluate("task => head(task).textContent", state)  # of those that are listed
        assert "20 late" in page.evaluate("task => head(task).textContent", state | {"open": 20})
        page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_phone_in_both_schemes(repository, opened, scheme, tmp_path):
    with started(repository) as url, Client(url) as client:
        load(client, 20)
        page = opened(url, viewport={"width": 360, "height": 740}, color_scheme=scheme)
        page.locator("section").nth(1).wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        ink, paper = page.evaluate("(s => [s.color, s.backgroundColor])(getComputedStyle(document.body))")
        brightness = [sum(int(part) for part in colour[4:-1].split(",")[:3]) for colour in (ink, paper)]
        assert (brightness[0] < brightness[1]) == (scheme == "light")
        page.screenshot(path=str(tmp_path / f"{scheme}.png"))
        page.close()


def test_the_axes_have_numbers_where_their_values_are(shop, opened):
    with started(shop) as url, Client(url) as client:
        sell(client, "forgotten", 40)
        state = client.state("forgotten")
        page = opened(url)
        chart = section(page, "forgotten").locator(".chart")
        chart.wait_for()
        hold(page)
        frame = chart.locator("rect.frame").bounding_box()
        upright, along = (numbers(chart.locator(f".ticks.{kind}").first) for kind in "yx")
        assert len(upright) >= 3
        assert min(upright) <= 0.4
        assert max(upright) >= 0.6
        low, high = min(upright), max(upright)
        source = max(arm["mean"] for arm in state["arms"][:-1] if arm["mean"] is not None)
        expected = upright[low] + (source - low) / (high - low) * (upright[high] - upright[low])
        drawn = chart.locator("line.source").bounding_box()
        assert drawn["y"] + drawn["height"] / 2 == pytest.approx(expected, abs=2.0)
        assert {0, 40} <= set(along)
        assert along[0] == pytest.approx(frame["x"], abs=2.0)
        assert along[40] == pytest.approx(frame["x"] + frame["width"], abs=2.0)
        lower, upper = (float(text) for text in section(page, "forgotten").locator("tfoot span").all_inner_texts())
        known = [arm for arm in state["arms"] if arm["mean"] is not None]
        assert lower <= min(arm["lower"] for arm in known)
        assert upper >= max(arm["upper"] for arm in known)
        page.close()


def test_any_range_of_returns_has_an_axis(shop, opened):
    equal = [(0.0, 0.0), (-3.0, -3.0), (5e-324, 5e-324), (1e16, 1e16 + 4)]
    ranges = [*equal, (0.0, 1e-9), (-1e100, 1e100), (-0.3, 0.7), (99.0, 1e5)]
    with started(shop) as url:
        page = opened(url)
        for low, high in ranges:
            axis = page.evaluate("([low, high]) => range(low, high, 4)", [low, high])
            marks = page.evaluate("axis => ticks(axis.low, axis.high, 4)", axis)
            texts = page.evaluate("m => m.values.map((value) => tickText(value, m.step))", marks)
            assert axis["low"] <= low <= high <= axis["high"]
            assert axis["low"] < axis["high"]
            assert 2 <= len(marks["values"]) <= 6
            assert "-0" not in texts
            assert len(set(texts)) == len(texts)
            assert max(map(len, texts)) <= 12
        page.close()


def test_there_is_no_line_where_the_learner_has_no_return(shop, opened):
    with started(shop) as url, Client(url) as client:
        sell(client, "forgotten", 8)
        state = client.state("forgotten")
        page = opened(url)
        learner = [0.5, 0.6, None, 0.7, None, None, 0.2, 0.3]
        state["returns"] = {"width": 1, "all": [0.5] * 8, "learner": learner, "expired": [0] * 8}
        draw = "task => [...chart(task).querySelectorAll('path.learner')].map((path) => path.getAttribute('d'))"
        line, dots = page.evaluate(draw, state)
        assert [part.count("L") for part in line.split("M")[1:]] == [1, 0, 1]  # three parts, of 2, 1 and 2 values
        assert dots.count("M") == 1  # the one without neighbours can be seen
        page.close()


def test_told_and_expired_are_the_same_for_every_task_and_say_what_they_count(shop, opened):
    with started(shop) as url, Client(url) as client:
        for task in ("forgotten", "counted"):
            sell(client, task, 20)
        lose(client, ("forgotten", "counted"), 6)
        page = opened(url)
        section(page, "counted").locator(".chart").wait_for()
        said = {task: section(page, task).locator(".counts").inner_text() for task in ("forgotten", "counted", "new")}
        page.close()
    for task, meaning in (("forgotten", "not counted"), ("counted", "each counts as 0")):
        words = " ".join(said[task].split())
        assert words == f"26 asked 20 told 0 open 6 expired ({meaning}) 0 cancelled"
    assert " ".join(said["new"].split()) == "0 asked 0 told 0 open 0 expired 0 cancelled"


def test_a_batch_of_expired_leases_is_marked_as_such(shop, opened):
    with started(shop) as url, Client(url) as client:
        for task in ("forgotten", "counted"):
            sell(client, task, 60)
        lose(client, ("forgotten", "counted"), 30)
        for task in ("forgotten", "counted"):
            sell(client, task, 40)
        page = opened(url)
        for task in ("forgotten", "counted"):
            chart = section(page, task).locator(".chart")
            chart.wait_for()
            hold(page)
            assert chart.locator(".batch").all_inner_texts() == ["30 expired"]
            assert "expired" in chart.locator(".key").inner_text()
            assert page.locator(".bad:visible").count() == 0  # nothing is wrong with the service
            bands = [band.bounding_box() for band in chart.locator(".band").all()]
            left, right = min(b["x"] for b in bands), max(b["x"] + b["width"] for b in bands)
            along = numbers(chart.locator(".ticks.x"))
            first, last = min(along), max(along)
            scale = (along[last] - along[first]) / (last - first)
            assert left == pytest.approx(along[first] + 60 * scale, abs=2 * scale + 4.0)
            assert right == pytest.approx(along[first] + (90 if task == "counted" else 60) * scale, abs=2 * scale + 4.0)
        page.close()


def test_where_most_episodes_expire_none_of_them_is_a_batch(shop, opened):
    with started(shop) as url, Client(url) as client:
        sell(client, "counted", 10)
        lose(client, ("counted",), 40)
        page = opened(url)
        section(page, "counted").locator(".strip").wait_for()
        assert page.locator(".batch").count() == 0
        page.close()


def test_the_learner_is_called_as_its_task_calls_it(shop, opened):
    with started(shop) as url, Client(url) as client:
        sell(client, "forgotten", 20)
        page = opened(url)
        key = section(page, "forgotten").locator(".key")
        assert key.locator(".k-learner").inner_text() == "green"
        assert "learner" not in page.locator("body").inner_text()
        page.close()


def test_a_task_takes_no_more_room_than_it_needs(shop, opened):
    with started(shop) as url, Client(url) as client:
        sell(client, "forgotten", 20)
        page = opened(url)
        section(page, "forgotten").wait_for()
        hold(page)
        assert section(page, "new").bounding_box()["height"] < 100  # nothing has happened there
        place = section(page, "forgotten").bounding_box()
        assert place["height"] < 320
        frame = section(page, "forgotten").locator("rect.frame").first.bounding_box()
        assert frame["height"] > 0.25 * place["height"]  # the chart takes what the head leaves
        assert frame["width"] > 0.4 * place["width"]
        page.close()


def test_the_page_asks_for_a_token_outlives_a_restart_and_shows_nothing_once_the_token_is_revoked(shop, opened):
    secret = add_token(shop, "screen", "read")
    with started(shop) as url:
        page = opened(url, allowed=("401", "ERR_", "Failed to load"))
        field = page.get_by_label("Token with the role read")
        field.wait_for()
        assert page.evaluate("document.activeElement.id") == "token"
        form = page.locator("#login").bounding_box()
        assert form["x"] + form["width"] / 2 == pytest.approx(600, abs=20)
        assert page.locator("#refused").is_hidden()
        assert page.locator("section").count() == 0
        field.fill("wrong")
        page.keyboard.press("Enter")
        page.locator("#login").get_by_text("This token is not good for reading").wait_for()
        assert field.get_attribute("aria-invalid") == "true"
        assert page.get_by_role("button", name="Watch").is_enabled()
        field.fill(secret)
        page.keyboard.press("Enter")
        section(page, "new").wait_for()
        assert page.locator("#login").is_hidden()
    page.get_by_text("no answer, trying again").wait_for()
    with started(shop, port=int(url.rsplit(":", 1)[1])):
        page.get_by_text("live, ").wait_for()
        revoke_token(shop, "screen")
        page.locator("#login").wait_for()
        assert page.locator("section").count() == 0
        page.close()


def test_a_service_that_falls_silent_is_called_away_and_what_is_shown_is_dated(shop, opened, monkeypatch):
    async def never(_):
        await asyncio.Event().wait()

    with started(shop) as url:
        page = opened(url)
        page.clock.install()
        page.get_by_text("live, ").wait_for()
        before = page.locator("#status").inner_text()
        page.wait_for_function("before => document.getElementById('status').textContent !== before", arg=before)
        monkeypatch.setattr(live.Live, "event", never)  # the connection stays, and nothing comes
        page.clock.fast_forward(11_000)
        page.get_by_text("no answer, trying again: what is shown is of ").wait_for()
        assert page.locator("main.stale section").count() == 3
        monkeypatch.undo()
        page.clock.fast_forward(11_000)
        page.get_by_text("live, ").wait_for()
        assert page.locator("main.stale").count() == 0
        page.close()


def test_the_page_says_why_the_service_refuses_it(shop, opened, monkeypatch):
    monkeypatch.setattr(live, "MOST_WATCHERS", 0)
    with started(shop) as url:
        page = opened(url, allowed=("429", "Failed to load"))
        page.get_by_text("0 are watching, try again later").wait_for()
        page.close()
