"""The service behind nginx, as docs/service.md sets it up."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from service_world import PATIENCE, certificate, free_port, small_task

from pastmaster import Client, Repository, ServiceError
from pastmaster.service import add_token, started

DOCS = Path(__file__).parents[2] / "docs" / "service.md"


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    small_task(tmp_path / "tasks.db")
    with Repository(tmp_path / "tasks.db") as opened:
        yield opened


@pytest.fixture
def passed_on(repository: Repository, tmp_path: Path, monkeypatch) -> Iterator[str]:
    """The address of nginx before a service."""
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None or shutil.which("openssl") is None:
        pytest.skip("nginx or openssl is not on the PATH: apt-get install nginx openssl")
    pair, port = certificate(tmp_path), free_port()
    block = re.search(r"```nginx\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    with started(repository) as url:
        server = block[1].replace("http://localhost:8000", url).replace("443", f"127.0.0.1:{port}")
        server = server.replace("/etc/ssl/shop.pem", str(pair[0])).replace("/etc/ssl/shop.key", str(pair[1]))
        folders = "".join(
            f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        user = "user root;" if os.geteuid() == 0 else ""
        text = f"{user} daemon off; pid {tmp_path}/pid; error_log stderr; events {{}} http {{ access_log off; "
        (tmp_path / "nginx.conf").write_text(f"{text} {folders} {server} }}")
        running = subprocess.Popen([nginx, "-c", tmp_path / "nginx.conf", "-e", "stderr"], stderr=subprocess.PIPE)
        try:
            monkeypatch.setenv("SSL_CERT_FILE", str(pair[0]))
            wait_for(f"https://127.0.0.1:{port}/healthz", running)
            yield f"https://127.0.0.1:{port}"
        finally:
            running.terminate()
            running.communicate(timeout=PATIENCE)


def wait_for(url: str, running: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            urllib.request.urlopen(url, context=ssl.create_default_context()).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            assert running.poll() is None, running.communicate()[1]
            assert time.monotonic() < deadline, "nginx does not answer"
            time.sleep(0.02)
        else:
            return


def test_behind_nginx_a_token_opens_everything_and_nothing_goes_without(repository, passed_on):
    with Client(passed_on, patience=0) as client, pytest.raises(ServiceError, match="there are no tokens"):
        client.tasks()
    secret = add_token(repository, "shop", "decide")
    with Client(passed_on, secret) as client:
        deadline = time.monotonic() + PATIENCE
        while True:  # the token is known within a second
            with contextlib.suppress(ServiceError), client.episode("site") as episode:
                episode.value = 0.5
                break
            assert time.monotonic() < deadline, "the token is not known"
            time.sleep(0.05)
        assert client.state("site")["told"] == 1
        assert client.tell_many("site", {one.number: 0.5 for one in client.ask_many("site", 1000)}) == {}
    asked = urllib.request.Request(f"{passed_on}/v1/live", headers={"authorization": f"Bearer {secret}"})
    with urllib.request.urlopen(asked, context=ssl.create_default_context(), timeout=PATIENCE) as events:
        for _ in range(2):  # they come one by one
            assert json.loads(events.readline().removeprefix(b"data: "))["tasks"][0]["told"] == 1001
            events.readline()
    with Client(passed_on, patience=0) as client, pytest.raises(ServiceError, match="token is missing"):
        client.tasks()
