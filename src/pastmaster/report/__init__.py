"""Reports: a reproduction or a repository as one HTML page that needs nothing but a browser.

``reproduction`` and ``repository`` read and make a ``page``; ``render`` writes it.
"""

from __future__ import annotations

from pathlib import Path

from pastmaster.errors import InvalidInputError
from pastmaster.files import write_whole
from pastmaster.report.page import Page
from pastmaster.report.render import check_plotly, render
from pastmaster.report.reproduction import CLAIMS, reproduction_page

__all__ = ["read_page", "write_report"]


def write_report(place: str | Path, out: str | Path = "pastmaster-report.html") -> Path:
    """Write the report of a reproduction folder or of a repository (a path or URL) to ``out``, all or nothing."""
    path = Path(out)
    if path.is_dir():
        raise InvalidInputError(f"write_report: {path} is a folder, must be a file")
    if path.suffix not in (".html", ".htm"):
        raise InvalidInputError(f"write_report: {path} is no page, must end in .html")
    check_plotly()
    content = render(read_page(place)).encode("utf-8", "replace")
    try:
        write_whole(path, content)
    except OSError as error:
        raise InvalidInputError(f"write_report: {path} cannot be written: {error.strerror or error}") from None
    return path


def read_page(place: str | Path) -> Page:
    """What a report of this place says."""
    folder = Path(place)
    if "://" not in str(place) and folder.is_dir():
        if not (folder / CLAIMS).is_file():
            raise InvalidInputError(
                f"{folder} is a folder without {CLAIMS}: give what `pastmaster reproduce` wrote, or a repository"
            )
        return reproduction_page(folder)
    if "://" not in str(place) and not folder.exists():
        raise InvalidInputError(f"there is neither a reproduction folder nor a repository at {place}")
    from pastmaster.report.repository import repository_page
    from pastmaster.repository import Repository

    with Repository(place, create=False) as opened:
        return repository_page(opened)
