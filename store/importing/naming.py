"""What an imported conversation is called: ``PROJECT/2026-03-05-fix-the-login-bug``."""

import re
import unicodedata

from store.formats.format import About, Source
from store.index.index import day_of
from store.store import Store

_LONGEST_SLUG = 60
_LONGEST_PROJECT = 100
_CONTROL = re.compile(r"[\x00-\x1f\x7f/]+")


def slug(title: str) -> str:
    """Return a title as lower-case words joined by hyphens, letters of any script kept; "" if it has none."""
    words = re.findall(r"\w+", unicodedata.normalize("NFC", title).lower().replace("_", " "))
    short = ""
    for word in words:
        if len(short) + 1 + len(word) > _LONGEST_SLUG:
            break
        short = f"{short}-{word}" if short else word
    return short or "".join(words)[:_LONGEST_SLUG]


def project_name(name: str) -> str:
    """Return a project's name made safe as the name of a directory."""
    safe = _CONTROL.sub("-", name).strip(" .") or "unnamed"
    return safe.encode("utf-8", "replace")[:_LONGEST_PROJECT].decode("utf-8", "ignore")


def name_conversation(store: Store, about: About, source: Source, started_ms: int) -> tuple[str, str]:
    """Return a project and a name for a new conversation that no other one has."""
    project = project_name(about.project or source.path.parent.name)
    words = slug(about.title) or slug(about.session_id) or slug(source.path.stem) or "conversation"
    stem = f"{day_of(started_ms) or 'undated'}-{words}"
    taken = store.names_like(project, stem)
    name, count = stem, 1
    while name in taken:
        count += 1
        name = f"{stem}-{count}"
    return project, name
