"""Paths in a mount, relative to its root, as listings would lead to them; and the names that these are made of.

Almost always conversations, projects and labels are shown under their own names. But a client of the store's socket may
call a conversation anything, and one name that no file can have would make its whole directory unreadable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from fusefs.text.event_names import event_name, number_width
from store.conversations.places import ASIDE, SUBAGENTS, Places, subagents_in
from store.events.conversation import Conversation, EventRow, Version
from store.events.event import Kind
from store.filenames import Named, safe_name, unique

if TYPE_CHECKING:
    from store.backlinks import Holding
    from store.search.search import Hit
    from store.store import Store


_NUMBERED = re.compile(r"~([1-9][0-9]{0,17})\Z")


def numbered(name: str) -> int | None:
    """Return the id that a name ends in, None if it does not end in one."""
    found = _NUMBERED.search(name)
    return int(found[1]) if found else None


def shown_distinct(names: Iterable[str]) -> dict[str, str]:
    """Return projects or labels by the names of their directories, which differ from each other."""
    shown: dict[str, str] = {}
    unsafe: list[str] = []
    for name in names:
        if safe_name(name) == name:
            shown[name] = name
        else:
            unsafe.append(name)
    for name in unsafe:
        shown[unique(safe_name(name), shown)] = name
    return shown


CONVERSATIONS = "conversations"
TRANSCRIPTS = "transcripts"
HTML = "html"
IMPORT = "import"
BY_DATE = "by-date"
BY_BRANCH = "by-branch"
BY_LABEL = "by-label"
BY_MODEL = "by-model"
BY_TOOL = "by-tool"
BY_RESOURCE = "by-resource"
RECENT = "recent"
SEARCH = "search"
README = "README.md"
IGNORE = ".ignore"
"""Tells ripgrep and others which hidden directories to search."""
CONTROL = ".convfs"
TOP = (
    README,
    BY_BRANCH,
    BY_DATE,
    BY_LABEL,
    BY_MODEL,
    BY_TOOL,
    CONVERSATIONS,
    HTML,
    IMPORT,
    RECENT,
    SEARCH,
    TRANSCRIPTS,
)
"""The names in the root, as they are listed; all but the first are of directories."""
BLOBS = "blobs"
ERRORS = "errors"
NATIVE = "native"
TRASH = "trash"

CHANGES = "changes"
IN_CHANGES = "/changes"
"""Leads the paths of what is below ``changes/``; the view is next. No name has a slash."""

SNAPSHOTS = "fs"
IN_SNAPSHOTS = "/fs"
"""Leads the paths of what is below ``fs/``, as :data:`IN_CHANGES` does."""

MARKDOWN = ".md"
"""Ends the names of transcripts."""

PAGE = ".html"
"""Ends the names of pages."""
INDEX = "index.html"

_ACTION_MAX = 100


class Paths:
    """The paths of many things at one moment: each is looked up only once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._found: dict[int, str] = {}
        self._places = Places(store.catalogue, self._folder)

    def conversation(self, conversation: Named, version: Version | None = None) -> str:
        """Return the path of a conversation's directory, or of that of an earlier version.

        "" for a context that is shown nowhere, since it has no name.
        """
        path = self._found.get(conversation.id)
        if path is None:
            in_project = conversation.name != ""
            path = self._in_projects(conversation) if in_project else self._trash.get(conversation.id, "")
            self._found[conversation.id] = path
        return path if version is None or not path else f"{path}/.versions/{version_name(version)}"

    def _in_projects(self, conversation: Named) -> str:
        return "/".join((CONVERSATIONS, *self._places.of(conversation)))

    def _folder(self, project: str) -> str:
        return project if safe_name(project) == project else self._projects[project]

    @cached_property
    def _projects(self) -> dict[str, str]:
        return {project: shown for shown, project in shown_distinct(self._store.catalogue.projects()).items()}

    @cached_property
    def _trash(self) -> dict[int, str]:
        within: dict[int, str] = {}

        def add(named: Mapping[str, Named], folder: str) -> None:
            for name, trashed in named.items():
                within[trashed.id] = f"{folder}/{name}"
                inside = subagents_in(self._store.catalogue, trashed.id)
                add(inside, f"{within[trashed.id]}/{SUBAGENTS}")

        add(trash_names(self._store), f"{CONTROL}/{TRASH}")
        return within

    def hit(self, hit: Hit) -> str:
        """Return the path of the file in which a search found something."""
        path = self.conversation(hit.conversation)
        return event_path(path, hit.row, hit.conversation.records) if hit.row else f"{path}/metadata.json"

    def holding(self, holding: Holding) -> str:
        """Return the path of the event or the output that holds something, or else of what its conversation tells.

        A record that has no file in ``events/`` is in ``.records/``; "" if there is nothing of it in a mount.
        """
        found, row = holding.conversation, holding.row
        path = self.conversation(found, holding.version)
        if not path:
            return ""
        if row is None:
            return f"{path}/{holding.name}" if holding.relation == "output" else f"{path}/metadata.json"
        records = found.records if holding.version is None else holding.version.records
        if row.kind is Kind.RECORD:
            return f"{path}/.records/{record_name(row.number, records)}"
        return event_path(path, row, records)


def transcript_path(conversation: str) -> str:
    """Return the path of a conversation's transcript, by that of its directory: subagents' are beside the parent's."""
    _top, *parts = conversation.split("/")
    named = 3 if parts[1] == ASIDE else 2
    return "/".join((TRANSCRIPTS, *parts[:named], *parts[named + 1 :: 2])) + MARKDOWN


def event_path(conversation: str, row: EventRow, records: int) -> str:
    """Return the path of an event's file in a conversation with a known path and number of records."""
    return f"{conversation}/events/{event_name(row, records)}"


def version_name(version: Version) -> str:
    """Return the name of a version's directory: ``0002-2026-03-05T19.31.54-edit-00007``."""
    # imported here, as few paths are of versions
    from fusefs.text.grammar import timestamp

    time = timestamp(version.time_ms)[:19].replace(":", ".")
    return f"{version.number:04}-{time}-{safe_name(version.action.replace(' ', '-'), limit=_ACTION_MAX)}"


def record_name(number: int, records: int) -> str:
    """Return the name of a record's file in ``.records/`` of a conversation of ``records`` records."""
    return f"{number:0{number_width(records)}}.json"


def trash_names(store: Store) -> dict[str, Conversation]:
    """Return the contents of the trash by the names of its directories; subagents' may be in others."""
    names: dict[str, Conversation] = {}
    for trashed in store.library.trash():
        if store.catalogue.place(trashed.id)[0]:
            continue
        names[unique(safe_name(trashed.name), names)] = trashed
    return names
