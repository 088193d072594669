"""Text from outside, such as names, paths and errors of others, made safe to show.

A terminal obeys some characters instead of showing them: they move the cursor, change colours and titles, reverse the
order of letters, or are not seen at all. ``printable`` shows them as escapes, as Python's ``repr`` does.
"""

from __future__ import annotations

import unicodedata

UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")  # letters and marks without a shape


def printable(text: str, keep: str = "") -> str:
    """The same text, with an escape like ``\\x1b`` in the place of every character that is not seen as itself.

    These are control characters, directions of writing, characters without width, ends of lines and paragraphs, halves
    of characters, and all that Unicode does not define. Spaces of other kinds become plain ones. Characters in ``keep``
    stay.
    """
    if text.isprintable() and (text.isascii() or UNSEEN.isdisjoint(text)):
        return text
    return "".join(character if character in keep else _shown(character) for character in text)


def _shown(character: str) -> str:
    if character.isprintable() and character not in UNSEEN:
        return character
    if unicodedata.category(character) == "Zs":
        return " "
    return character.encode("unicode_escape").decode()
