"""What a conversation is called that nobody named: ``PROJECT/2026-03-05-fix-the-login-bug``."""

import re
import unicodedata
from collections.abc import Set

from store.formats.format import About, Source
from store.index.filing import day_of
from store.store import Store

_LONGEST_SLUG = 60
_LONGEST_SLUG_BYTES = 180
_LONGEST_PROJECT_BYTES = 100
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f/\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]+")
"""What no name may hold: separators of paths and lines, controls, marks that turn the direction of text."""


def slug(title: str) -> str:
    """Return a title as lower-case words joined by hyphens, letters of any script kept; "" if it has none."""
    words = re.findall(r"\w+", unicodedata.normalize("NFC", title.lower()).replace("_", " "))
    short = ""
    for word in words:
        if len(short) + 1 + len(word) > _LONGEST_SLUG:
            break
        short = f"{short}-{word}" if short else word
    return _cut(short or "".join(words)[:_LONGEST_SLUG], _LONGEST_SLUG_BYTES).rstrip("-")


def project_name(name: str) -> str:
    """Return a project's name made safe as the name of a directory."""
    return _cut(_UNFIT.sub("-", name).strip(" ."), _LONGEST_PROJECT_BYTES) or "unnamed"


def name_conversation(
    store: Store, about: About, source: Source, started_ms: int, waiting: Set[tuple[str, str]]
) -> tuple[str, str]:
    """Return a project and a name for a new conversation that no other one has, nor any of those ``waiting``."""
    project = project_name(about.project or source.path.parent.name)
    words = slug(about.title) or slug(about.session_id) or slug(source.path.stem) or "conversation"
    return project, free_name(store, project, started_ms, words, waiting)


def free_name(
    store: Store, project: str, started_ms: int, words: str, waiting: Set[tuple[str, str]] = frozenset()
) -> str:
    """Return a name within ``project`` that no conversation has: ``2026-03-05-WORDS``, or that with a number."""
    stem = f"{day_of(started_ms) or 'undated'}-{words}"
    taken = store.names_like(project, stem)
    name, count = stem, 1
    while name in taken or (project, name) in waiting:
        count += 1
        name = f"{stem}-{count}"
    return name


def _cut(text: str, size: int) -> str:
    """Return as much of ``text`` as fits ``size`` bytes of UTF-8."""
    return text.encode()[:size].decode("utf-8", "ignore")
