"""Names made from titles: ``2026-03-05-fix-the-login-bug``."""

import re
import unicodedata
from collections.abc import Set

from store.index.catalogue import Catalogue
from store.index.frames import day_of
from store.visible import UNSEEN

MOST_NAMES = 16
"""The most former names that a conversation keeps."""

_LONGEST_SLUG = 60
_LONGEST_SLUG_BYTES = 180
_LONGEST_PROJECT_BYTES = 100
_apostrophe = re.compile(r"(?<=[^\W\d])['\u2019](?=[^\W\d])").sub
_UNFIT = re.compile(rf"[/{UNSEEN}\ud800-\udfff]+")
"""Characters that no name may hold: separators of paths and lines, controls, marks that turn the direction of text."""


def slug(title: str) -> str:
    """Return a title as lower-case words joined by hyphens, letters of any script kept; "" if it has none."""
    spelled = _apostrophe("", unicodedata.normalize("NFC", title.lower()).replace("_", " "))
    words = re.findall(r"\w+", spelled)
    short = ""
    for word in words:
        if len(short) + 1 + len(word) > _LONGEST_SLUG:
            break
        short = f"{short}-{word}" if short else word
    return _cut(short or "".join(words)[:_LONGEST_SLUG], _LONGEST_SLUG_BYTES).rstrip("-")


def project_name(name: str) -> str:
    """Return a project's name made safe as the name of a directory."""
    return _cut(_UNFIT.sub("-", name).strip(" ."), _LONGEST_PROJECT_BYTES) or "unnamed"


def free_name(
    catalogue: Catalogue, project: str, started_ms: int, words: str, waiting: Set[tuple[str, str]] = frozenset()
) -> str:
    """Return a name within ``project`` that no conversation has: ``2026-03-05-WORDS``, or that with a number."""
    first = stem(started_ms, words)
    taken = catalogue.names_like(project, first)
    name, count = first, 1
    while name in taken or (project, name) in waiting:
        count += 1
        name = f"{first}-{count}"
    return name


def stem(started_ms: int, words: str) -> str:
    """Return the name of a conversation that began at a time, by the words of its title."""
    return f"{day_of(started_ms) or 'undated'}-{words}"


def _cut(text: str, size: int) -> str:
    return text.encode()[:size].decode("utf-8", "ignore")
