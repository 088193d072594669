"""Reports: one HTML page that needs nothing but a browser.

``repository`` makes a ``page`` of what a repository holds; ``render`` turns any page into HTML.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from pastmaster.checks import called_as
from pastmaster.errors import InvalidInputError
from pastmaster.files import write_whole
from pastmaster.report.charts import Chart, Curves, Distances, Indices, Line, Shares, TaskMap, Tasks
from pastmaster.report.page import Gallery, Markup, Page, Part, Picture, Prose, Section, Table
from pastmaster.report.payload import thinned
from pastmaster.report.render import plotly_script, render
from pastmaster.report.repository import repository_page
from pastmaster.repository import Repository

__all__ = [
    "Chart",
    "Curves",
    "Distances",
    "Gallery",
    "Indices",
    "Line",
    "Markup",
    "Page",
    "Part",
    "Picture",
    "Prose",
    "Section",
    "Shares",
    "Table",
    "TaskMap",
    "Tasks",
    "read_page",
    "thinned",
    "write_page",
    "write_report",
]


def write_report(place: str | Path, out: str | Path = "pastmaster-report.html") -> Path:
    """Write a report of a repository as one HTML page, which needs no network.

    Parameters
    ----------
    place : path or URL
        A repository.
    out : path
        The page, a file that ends in .html. It is written whole or not at all.

    Returns
    -------
    Path
        Where the page is.

    Raises
    ------
    RepositoryError
        If ``place`` is no repository.
    InvalidInputError
        If ``out`` cannot be written, or plotly is not installed.
    DamagedError
        If the repository is damaged.

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
    _check_out("write_report", Path(out))  # before any work
    with called_as("write_report"):
        return write_page(read_page(place), out)


def write_page(page: Page, out: str | Path) -> Path:
    """Write a page of one's own as one HTML file, which needs no network.

    Parameters
    ----------
    page : Page
        What it says.
    out : path
        A file that ends in .html. It is written whole or not at all.

    Returns
    -------
    Path
        Where the page is.

    Raises
    ------
    InvalidInputError
        If ``out`` cannot be written, or plotly is not installed.

    Examples
    --------
    >>> import tempfile
    >>> from pastmaster.report import Page, Prose, Section, write_page
    >>> page = Page("Winter", "How it went.", [("Runs", "3")], [Section("Ice", [Prose("It was slippery.")])])
    >>> folder = tempfile.TemporaryDirectory()
    >>> write_page(page, f"{folder.name}/winter.html").name
    'winter.html'
    >>> folder.cleanup()
    """
    path = Path(out)
    _check_out("write_page", path)
    with called_as("write_page"):
        write_whole(path, render(page).encode("utf-8", "replace"))
    return path


def _check_out(caller: str, path: Path) -> None:
    if path.is_dir():
        raise InvalidInputError(f"{caller}: {path} is a folder, must be a file")
    if path.suffix not in (".html", ".htm"):
        raise InvalidInputError(f"{caller}: {path} is no page, must end in .html")
    plotly_script()


def read_page(place: str | Path) -> Page:
    """What a report of this repository says, as data.

    Parameters
    ----------
    place : path or URL
        A repository.

    Returns
    -------
    Page
        Title, facts and sections.

    Raises
    ------
    RepositoryError
        If ``place`` is no repository.
    DamagedError
        If the repository is damaged.

    Examples
    --------
    >>> from pastmaster import Repository
    >>> from pastmaster.report import read_page
    >>> Repository("tasks.db").close()
    >>> read_page("tasks.db").title
    'Repository report'
    """
    with Repository(place, create=False) as opened:
        page = repository_page(opened)
    now = datetime.now(UTC)
    return replace(page, made=f"{now.day} {now:%B %Y, %H:%M} UTC, pastmaster {version('pastmaster')}")
