"""HTTPS: a certificate that fits, one that is not trusted, one without its key."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from service_world import served, small_task

from pastmaster import Repository
from pastmaster.cli import main
from pastmaster.client import Client
from pastmaster.errors import InvalidInputError, ServiceError
from pastmaster.service import serve


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for this computer, signed by itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not on the PATH: no certificate can be made")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        key,
        "-out",
        certificate,
        "-days",
        "2",
    ]
    named = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*made, *named], check=True, capture_output=True)
    return certificate, key


def test_a_certificate_that_is_trusted_is_served_with(tmp_path, pair, monkeypatch) -> None:
    path, (certificate, key) = tmp_path / "site.db", pair
    small_task(path)
    with served(path, "--certificate", str(certificate), "--key", str(key)) as running:
        began = time.monotonic()
        with Client(running.url) as client, pytest.raises(ServiceError, match=r"is not trusted.*SSL_CERT_FILE"):
            client.tasks()
        assert time.monotonic() - began < 50  # nothing is sent again: that would last for the patience of a minute
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with Client(running.url) as client, client.episode("site") as episode:
            episode.value = 0.5


def test_a_certificate_without_its_key_is_refused_before_anything_is_served(tmp_path, pair) -> None:
    path, (certificate, _) = tmp_path / "site.db", pair
    small_task(path)
    done = CliRunner().invoke(main, ["serve", str(path), "--certificate", str(certificate)])
    assert done.exit_code != 0
    assert "key is not given, must be PEM files that belong together" in done.output


def test_a_certificate_whose_file_has_its_key_needs_no_other(tmp_path, pair) -> None:
    path, (certificate, key) = tmp_path / "site.db", pair
    small_task(path)
    certificate.write_text(certificate.read_text() + key.read_text())
    with served(path, "--certificate", str(certificate)) as running:
        assert running.url.startswith("https://")


def test_a_key_without_a_certificate_is_refused_as_nothing_would_be_encrypted(tmp_path, pair) -> None:
    path, (_, key) = tmp_path / "site.db", pair
    small_task(path)
    with Repository(path) as repository, pytest.raises(InvalidInputError, match="but certificate is not given"):
        serve(repository, key=key)
    done = CliRunner().invoke(main, ["serve", str(path), "--key", str(key)])
    assert done.exit_code != 0
    assert "certificate is not given, must be given too" in done.output
