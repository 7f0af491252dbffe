"""Keeping conversations in order: making and forking them, their names, titles and labels, the trash."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath

import msgspec

from store.commit.request import ContextHead, Request
from store.conversations import branch
from store.conversations.names import MOST_NAMES, free_name, slug, stem
from store.disk.head_format import AMENDS
from store.errors import Conflict, NotFound, UsageError
from store.events.conversation import CALLED, MOVED_FROM, NAMING, OWN_PLACE, called_before, labels_of, outputs_of
from store.filenames import unique
from store.ids import now_ms, patch_of, tip_of, turn_of
from store.index.catalogue import ContextEntry
from store.settings import OVERRIDING, Rules, overridden
from store.store import Store

_AT_ONCE = 64
"""The most conversations whose descriptions are changed by one commit while others wait to change theirs."""
_LONGEST_NAME = 255
_LONGEST_TITLE = 1000
_MOST_LABELS = 1000
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_FORKED = (
    "title",
    "labels",
    "format",
    "cwd",
    "roots",
    "main",
    "envelope",
    "envelope_blob",
    "first",
    "sidecars",
    "copied",
    "file",
    "part",
    *OVERRIDING,
)
"""The metadata that a fork has from its parent: its subject, its settings, and the data for exporting it."""


class Keeper:
    """Changes what conversations are called and where they are found. Safe to use from any thread.

    Names of projects and conversations are such as directories may have, else UsageError; Conflict where a name is
    taken. Calls raise NotFound for a context that is not there.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(self, project: str, name: str, *, title: str = "", format: str = "") -> ContextHead:
        """Make an empty conversation."""
        metadata = {"project": project, "name": name, "title": title, "format": format}
        if title:
            _check_title(title)
        return self._make(project, name, {key: value for key, value in metadata.items() if value}, 0, "create")

    def fork(self, context: int, name: str, *, at: int = 0, project: str = "") -> ContextHead:
        """Make a conversation, in ``project`` ("": the same), that branches off behind record ``at`` (0: the last)."""
        store = self._store
        parent = self._entry(context)
        head = store.writer.head(context)
        turn = head.turn
        if at:
            turn = branch.position(store.records.runs(turn), at)
            if not turn:
                raise NotFound(f"{parent.name} has no record {at} to fork at: fork at the number of one of its events")
        project = project or str(parent.metadata.get("project", ""))
        metadata = _as_fork(parent, turn, name) | {"project": project, "name": name}
        return self._make(project, name, metadata, tip_of(turn, head.patch), "fork")

    def copy(self, context: int, tip: int, to: int) -> ContextHead:
        """Make a conversation, ``to``, a fork of another, as that was at ``tip``; Conflict where it is not empty."""
        parent, own = self._entry(context), self._entry(to)
        kept = {key: parent.metadata[key] for key in ("pinned", "archived", "own_title") if key in parent.metadata}
        changes = msgspec.json.encode(_as_fork(parent, turn_of(tip), own.name) | kept)
        request = Request(to, parent=turn_of(tip), patch=patch_of(tip), changes=changes, action=AMENDS + "fork")
        request.expect(0)
        return self._store.writer.submit(request).head

    def rename(self, context: int, project: str, name: str, *, own_place: bool | None = None) -> None:
        """Give a conversation another name, or move it to another project.

        ``own_place`` takes a subagent's out of the one that started it, or puts it back there (False).
        """
        entry = self._entry(context)
        if "trashed_ms" in entry.metadata:
            raise UsageError(f"{name} cannot be the name of what is in the trash: bring it back first")
        _check_name(project)
        _check_name(name)
        changes: dict[str, object] = {"project": project, "name": name, **_placed(entry.metadata, own_place)}
        if entry.project != project and MOVED_FROM in entry.metadata:
            # it does not tell any more where the others of its project are
            changes[MOVED_FROM] = None
        if NAMING in entry.metadata or any(entry.metadata.get(key) != value for key, value in changes.items()):
            self._set(context, changes | {NAMING: None}, (project, name))

    def move_project(self, project: str, to: str) -> None:
        """Give a project another name, or all its conversations to another one; later sessions of it go there, too."""
        _check_name(to)
        catalogue = self._store.catalogue
        requests, entries = [], catalogue.page(project)
        own = {name for entry in entries for before, name in called_before(entry.metadata) if before == to}
        taken = catalogue.names_like(to, "") - own
        for entry in entries:
            name = unique(entry.name, taken)
            taken.add(name)
            before = entry.metadata.get(MOVED_FROM)
            moved = [
                *(one for one in (before if isinstance(before, list) else ()) if one not in (project, to)),
                project,
            ]
            called = [one for one in called_before(entry.metadata) if one != (to, name)][-MOST_NAMES:]
            changes = {"project": to, "name": name, MOVED_FROM: moved, CALLED: [*called, (project, entry.name)]}
            requests.append(Request(entry.id, changes=msgspec.json.encode(changes), name=(to, name)))
        self._submit(requests)

    def forget_name(self, context: int, project: str, name: str) -> None:
        """Remove a former name of a conversation, so that it is no longer found by it."""
        called = called_before(self._entry(context).metadata)
        self._set(context, {CALLED: [one for one in called if one != (project, name)] or None})

    def describe(self, context: int, changes: Mapping[str, object]) -> None:
        """Change the description of a conversation: ``title``, ``labels``, ``pinned``, ``archived``, and its own values
        for settings (``store.settings``); None removes.

        A title that was given here stays, whatever the tool later calls its session, and the name follows it if it was
        made of a title. UsageError for any other key,
        and for values that do not fit.
        """
        with self._store.contexts.labelling:
            self._describe(context, changes)

    def described(self, context: int, changes: Mapping[str, object]) -> dict[str, object]:
        """Return the changes that :meth:`describe` would make to the metadata. Raises the same errors."""
        known = self._entry(context).metadata
        for key, value in changes.items():
            check = _CHECKS.get(key)
            if check is None:
                raise UsageError(f"{key} cannot be set: only {', '.join(_CHECKS)}")
            if value is not None and value != known.get(key):
                check(value)
        for label in labels_of(changes):
            # what an import brought may stay
            if label not in labels_of(known):
                _check_name(label)
        # no labels, and neither pinned nor archived, is how every conversation begins
        wanted = {key: value or None for key, value in changes.items()}
        changed = {key: value for key, value in wanted.items() if (known.get(key) or None) != value}
        if "title" in changed:
            changed["own_title"] = None if changed["title"] is None else True
            changed[NAMING] = None
        return changed

    def relabel(self, context: int, *, add: Collection[str] = (), remove: Collection[str] = ()) -> None:
        """Give a conversation labels, and take others from it."""
        # several programs, and machines, may do so at once, and none is to undo what another did
        with self._store.contexts.labelling:
            while (request := self._relabelling(context, add, remove)) is not None:
                with suppress(Conflict):
                    self._store.writer.submit(request)
                    return

    def relabel_all(self, contexts: Sequence[int], *, add: Collection[str] = (), remove: Collection[str] = ()) -> None:
        """Do so with many conversations, some at a time; those that are gone are left out."""
        for start in range(0, len(contexts), _AT_ONCE):
            with self._store.contexts.labelling:
                left = list(contexts[start : start + _AT_ONCE])
                while left:
                    requests = []
                    for context in left:
                        with suppress(NotFound):
                            if (request := self._relabelling(context, add, remove)) is not None:
                                requests.append(request)
                    self._store.writer.submit_all(requests)
                    left = [one.context for one in requests if isinstance(one.error, Conflict) and one.context]
                    for error in (one.error for one in requests if one.error is not None):
                        if not isinstance(error, Conflict):
                            raise error

    def _relabelling(self, context: int, add: Collection[str], remove: Collection[str]) -> Request | None:
        """Return the request that changes the labels, as long as nobody else does; None if nothing is to be done."""
        known = self._entry(context).metadata
        kept = [label for label in labels_of(known) if label not in remove]
        changes = self.described(context, {"labels": [*kept, *(label for label in add if label not in kept)]})
        if not changes:
            return None
        expected = {"labels": known.get("labels")}
        return Request(context, changes=msgspec.json.encode(changes), expected_metadata=expected)

    def remove(self, context: int) -> None:
        """Move a conversation to the trash: it disappears from listings, and its name is free."""
        if "trashed_ms" not in self._entry(context).metadata:
            self._set_all([*self._inside(context), context], {"trashed_ms": now_ms()})

    def bring_back(self, context: int, *, project: str = "", name: str = "", own_place: bool | None = None) -> None:
        """Restore a conversation from the trash, exactly as it was, or under another name if one is given.

        Subagents' that are in it there come along; ``own_place`` is as of :meth:`rename`.
        """
        metadata = self._entry(context).metadata
        if "trashed_ms" not in metadata:
            return
        inside = self._inside(context)
        changes: dict[str, object] = {"trashed_ms": None, **_placed(metadata, own_place)}
        for key, value in (("project", project), ("name", name)):
            if value:
                _check_name(value)
                changes |= {key: value, NAMING: None}
        whole = {**metadata, **changes}
        self._set(context, changes, (str(whole.get("project", "")), str(whole.get("name", ""))))
        self._set_all(inside, {"trashed_ms": None})

    def _inside(self, context: int) -> list[int]:
        """Return the conversations of subagents in one, and of those in these, innermost first."""
        found = [entry.id for entry in self._store.catalogue.subagents(context)]
        return [*(inner for one in found for inner in self._inside(one)), *found]

    def _set_all(self, contexts: Sequence[int], changes: dict[str, object]) -> None:
        self._submit([Request(context, changes=msgspec.json.encode(changes)) for context in contexts])

    def _submit(self, requests: Sequence[Request]) -> None:
        self._store.writer.submit_all(requests)
        for error in (request.error for request in requests if request.error is not None):
            raise error

    def _entry(self, context: int) -> ContextEntry:
        return self._store.catalogue.entry(context)

    def _make(self, project: str, name: str, metadata: dict[str, object], tip: int, action: str) -> ContextHead:
        _check_name(project)
        _check_name(name)
        changes = msgspec.json.encode(metadata)
        request = Request(None, parent=tip, changes=changes, action=action, name=(project, name))
        return self._store.writer.submit(request).head

    def _describe(self, context: int, changes: Mapping[str, object]) -> None:
        changed = self.described(context, changes)
        while changed:
            renamed = self._renamed(context, changed)
            try:
                self._set(
                    context, changed | renamed, (str(renamed["project"]), str(renamed["name"])) if renamed else None
                )
            except Conflict:
                # another conversation has just taken that name
                continue
            break

    def _renamed(self, context: int, changed: Mapping[str, object]) -> dict[str, object]:
        """Return the change of name that goes with a new title, unless the name was not made of the old one."""
        entry = self._entry(context)
        words, named_after = slug(str(changed.get("title") or "")), stem(entry.created_ms, slug(entry.title))
        made = NAMING in entry.metadata or re.fullmatch(rf"{re.escape(named_after)}(-\d+)?", entry.name)
        if not words or not entry.name or not made:
            return {}
        is_so_called = re.compile(rf"{re.escape(stem(entry.created_ms, words))}(-\d+)?").fullmatch
        if is_so_called(entry.name):
            return {}
        before = called_before(entry.metadata)
        own = [name for project, name in before if project == entry.project and is_so_called(name)]
        name = own[0] if own else free_name(self._store.catalogue, entry.project, entry.created_ms, words)
        called = [*(one for one in before if one != (entry.project, name)), (entry.project, entry.name)]
        return {"project": entry.project, "name": name, CALLED: called[-MOST_NAMES:]}

    def _set(self, context: int, changes: dict[str, object], name: tuple[str, str] | None = None) -> None:
        self._store.writer.submit(Request(context, changes=msgspec.json.encode(changes), name=name))


def _as_fork(parent: ContextEntry, turn: int, name: str) -> dict[str, object]:
    """Return the metadata that a fork of a conversation behind ``turn`` has from that, called ``name``."""
    metadata = {key: parent.metadata[key] for key in _FORKED if key in parent.metadata}
    metadata |= outputs_of(parent.metadata) | {"forked_from": {"context": parent.id, "turn": turn}}
    if not metadata.keys().isdisjoint(("envelope", "envelope_blob", "file")):
        tool_name = str(parent.metadata.get("exported_as") or PurePosixPath(parent.source).name)
        metadata["exported_as"] = name + ("" if "main" in metadata else PurePosixPath(tool_name).suffix)
        metadata["imported_head"] = turn
    return metadata


def _placed(metadata: Mapping[str, object], own_place: bool | None) -> dict[str, object]:
    """Return the change to the metadata of a subagent's conversation that a person puts somewhere; None: nowhere."""
    return {} if own_place is None or "parent_session" not in metadata else {OWN_PLACE: own_place or None}


def _check_name(name: str) -> None:
    if name in ("", ".", "..") or "/" in name or _UNFIT.search(name):
        raise UsageError(f"{name!r} cannot be a name: no slashes, no control characters, not . or ..")
    if len(name.encode()) > _LONGEST_NAME:
        raise UsageError(f"a name of {len(name.encode())} bytes is too long: {_LONGEST_NAME} at most")


def _check_title(title: object) -> None:
    if not isinstance(title, str) or not title.strip() or _UNFIT.search(title):
        raise UsageError("a title must be one line of text")
    if len(title) > _LONGEST_TITLE:
        raise UsageError(f"a title of {len(title)} characters is too long: {_LONGEST_TITLE} at most")


def _check_labels(labels: object) -> None:
    if not isinstance(labels, list) or len(labels) > _MOST_LABELS or not all(isinstance(name, str) for name in labels):
        raise UsageError(f"labels must be a list of up to {_MOST_LABELS} words")
    if len(set(labels)) < len(labels) or "" in labels:
        raise UsageError("labels must differ from each other, and none may be empty")


def _check_flag(value: object) -> None:
    if not isinstance(value, bool):
        raise UsageError("pinned and archived are true or false")


def _check_section(key: str, value: object) -> None:
    overridden(Rules(), {key: value})


_CHECKS: dict[str, Callable[[object], None]] = {
    "title": _check_title,
    "labels": _check_labels,
    "pinned": _check_flag,
    "archived": _check_flag,
    **{key: partial(_check_section, key) for key in OVERRIDING},
}
