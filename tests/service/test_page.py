"""The live page in a browser: under load, on a phone, in the dark, with hostile names, and silent on other hosts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from made_up import HOSTILE
from service_world import PATIENCE

from pastmaster import Repository
from pastmaster.client import Client
from pastmaster.service import add_token, make_task, started
from pastmaster.service.schema import prepare

pytestmark = pytest.mark.long(15)
NAME = "<img src=x onerror=alert(1)><script>alert(2)<"
ARMS = [f"{NAME}b", "'\"&quot;<td>", "javascript:alert(3)", "a" * 100]


@pytest.fixture
def repository(tmp_path) -> Iterator[Repository]:
    with Repository(tmp_path / "tasks.db") as opened:
        prepare(opened.database)
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
    repository.database.write(lambda c: c.exec_driver_sql("UPDATE service_episodes SET arm = (arm + 1) % 5"))
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


def test_the_page_asks_for_a_token_and_comes_back_after_a_restart(repository, opened):
    secret = add_token(repository, "screen", "read")
    with started(repository) as url:
        page = opened(url, allowed=("401", "ERR_", "Failed to load"))
        page.locator("#token").wait_for(state="visible")
        assert page.locator("section").count() == 0
        page.locator("#token").fill("wrong")
        page.locator("button").click()
        page.get_by_text("this token is not good for reading").wait_for()
        page.locator("#token").fill(secret)
        page.locator("button").click()
        page.locator("section").nth(1).wait_for()
        assert page.locator("#login").is_hidden()
        port = int(url.rsplit(":", 1)[1])
    page.get_by_text("no answer, trying again").wait_for()
    with started(repository, port=port):
        page.get_by_text("live, ").wait_for()
