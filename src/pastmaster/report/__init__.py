"""Reports: a reproduction or a repository as one HTML page that needs nothing but a browser.

``reproduction`` and ``repository`` make a ``page`` of what they read; ``render`` turns it into HTML.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from pastmaster.checks import called_as
from pastmaster.errors import InvalidInputError
from pastmaster.experiments.folder import JUDGED
from pastmaster.files import write_whole
from pastmaster.report.page import Page
from pastmaster.report.render import plotly_script, render
from pastmaster.report.repository import repository_page
from pastmaster.report.reproduction import reproduction_page
from pastmaster.repository import Repository

__all__ = ["read_page", "write_report"]


def write_report(place: str | Path, out: str | Path = "pastmaster-report.html") -> Path:
    """Write a report as one HTML page, which needs no network.

    Parameters
    ----------
    place : path or URL
        A folder that ``reproduce`` wrote, or a repository.
    out : path
        The page, a file that ends in .html. It is written whole or not at all.

    Returns
    -------
    Path
        Where the page is.

    Raises
    ------
    InvalidInputError
        If ``place`` is neither, ``out`` cannot be written, or plotly is not installed.
    DamagedError
        If a file in ``place`` is damaged; the message names it.

    Examples
    --------
    >>> import tempfile
    >>> from pastmaster import Repository
    >>> from pastmaster.report import write_report
    >>> folder = tempfile.TemporaryDirectory()
    >>> Repository(f"{folder.name}/tasks.db").close()
    >>> write_report(f"{folder.name}/tasks.db", f"{folder.name}/tasks.html").name
    'tasks.html'
    >>> folder.cleanup()
    """
    path = Path(out)
    if path.is_dir():
        raise InvalidInputError(f"write_report: {path} is a folder, must be a file")
    if path.suffix not in (".html", ".htm"):
        raise InvalidInputError(f"write_report: {path} is no page, must end in .html")
    plotly_script()  # before any work
    with called_as("write_report"):
        page = read_page(place)
    with called_as("write_report"):
        write_whole(path, render(page).encode("utf-8", "replace"))
    return path


def read_page(place: str | Path) -> Page:
    """What a report of this place says, as data.

    Parameters
    ----------
    place : path or URL
        A folder that ``reproduce`` wrote, or a repository.

    Returns
    -------
    Page
        Title, facts and sections.

    Raises
    ------
    InvalidInputError
        If ``place`` is neither.
    DamagedError
        If a file in ``place`` is damaged; the message names it.

    Examples
    --------
    >>> from pastmaster.report import read_page
    >>> read_page("nowhere.db")
    Traceback (most recent call last):
    ...
    pastmaster.errors.InvalidInputError: read_page: place is 'nowhere.db', which does not exist, must be a \
reproduction folder or a repository
    """
    folder = Path(place)
    if "://" not in str(place) and folder.is_dir():
        if not (folder / JUDGED).is_file():
            raise InvalidInputError(
                f"read_page: place is {str(folder)!r}, a folder without {JUDGED}, must be what `pastmaster reproduce` "
                "wrote, or a repository"
            )
        return _dated(reproduction_page(folder))
    if "://" not in str(place) and not folder.exists():
        raise InvalidInputError(
            f"read_page: place is {str(place)!r}, which does not exist, must be a reproduction folder or a repository"
        )
    with Repository(place, create=False) as opened:
        return _dated(repository_page(opened))


def _dated(page: Page) -> Page:
    """The page with the date and the version that made it."""
    now = datetime.now(UTC)
    return replace(page, made=f"{now.day} {now:%B %Y, %H:%M} UTC, pastmaster {version('pastmaster')}")
