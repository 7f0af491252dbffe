"""Metadata on its way to another store: a table of what becomes of each key, both where it leaves and where it arrives.

Ids of contexts and turns mean nothing elsewhere, and paths are those of another machine. Keys that are in no list here
go along as they are.
"""

import socket
from collections.abc import Iterable, Mapping

import msgspec

from store.events.conversation import BEGUN, CAME_FROM, is_output, labels_of
from store.ids import Hash
from store.importing.likeness import is_of
from store.transfer.states import BORN, DIVERGED
from store.upkeep.roots import named_in

STAYS = frozenset(
    {
        "beside",
        "begins",
        BEGUN,
        "cxdb",
        "exports",
        "incomplete",
        "machine",
        "marks",
        "missing",
        "native_gone",
        "own_place",
        "rewritten",
        "titled",
        "trashed_ms",
        "written_ns",
    }
)
"""The keys that are the matter of one machine alone: what its imports, exports and trash need to know."""

TRANSLATED = frozenset({"forked_from", "imported_head", "file", "layout", "source", "layout_of", BORN, CAME_FROM})
"""The keys that hold ids or paths: a parcel says in other words what they mean."""

_OF_PEOPLE = ("title", "own_title", "labels")
_KEPT = ("project", "name", "naming", "called", "moved_from", "pinned", "archived", "own_title", "labels")
"""The keys that a conversation which is there already keeps as they are there."""

_FILE = "file:"


def machine(named: str) -> str:
    """Return what this machine is called: as in its space, where it is ``named``, or its host name."""
    return named or socket.gethostname().partition(".")[0] or "elsewhere"


def told(metadata: Mapping[str, object]) -> dict[str, object]:
    """Return what an offer tells of metadata: what may change while the turns stay the same."""
    found = {key: value for key, value in metadata.items() if key in _OF_PEOPLE or is_output(key)}
    labels = [label for label in labels_of(metadata) if label != DIVERGED]
    return {key: value for key, value in found.items() if key != "labels"} | ({"labels": labels} if labels else {})


def leaving(metadata: Mapping[str, object], *, is_file: bool) -> dict[str, object]:
    """Return the metadata that goes along as it is; of a file of many conversations also how it was read."""
    stays = STAYS | TRANSLATED | (set() if is_file else {"cursor"})
    return {key: value for key, value in metadata.items() if key not in stays and key != "labels"} | told(metadata)


def path_there(path: object, where: str) -> str:
    """Return a path of another machine, such that no path of this one equals it: ``laptop:/home/ada/a.jsonl``."""
    text = str(path)
    if text.startswith(_FILE):
        return f"{_FILE}{where}%3A{text.removeprefix(_FILE)}"
    return f"{where}:{text}"


def blobs_of(metadata: Mapping[str, object]) -> list[Hash]:
    """Return what in metadata is spelled like the name of a blob, each once."""
    return list(dict.fromkeys(named_in(msgspec.json.encode(metadata).decode())))


def arriving(known: Mapping[str, object], came: Mapping[str, object]) -> dict[str, object]:
    """Return the changes to a conversation's metadata that is ``known`` here, and has gone on as ``came``.

    What people have chosen here stays; labels and outputs are those of both.
    """
    changes = {key: value for key, value in came.items() if key not in _KEPT and known.get(key) != value}
    if known.get("own_title"):
        changes.pop("title", None)
    if "exported_as" in known:
        # a fork that was made here is no session of its own
        changes = {key: value for key, value in changes.items() if key not in ("source", "session")}
    if CAME_FROM not in known and "source" in known:
        # its session lies on this machine: what an import knows of it is true here alone
        changes = {key: value for key, value in changes.items() if key == "title" or is_output(key)}
    return _without_what_is_gone(known, changes) | added_labels(known, came)


def described(known: Mapping[str, object], came: Mapping[str, object]) -> dict[str, object]:
    """Return the changes for a conversation whose turns stay: a title that people gave, labels, new outputs."""
    changes = {key: value for key, value in came.items() if is_output(key) and key not in known}
    if came.get("own_title") and not known.get("own_title") and known.get("title") != came.get("title"):
        changes |= {"title": came["title"], "own_title": True}
    return _without_what_is_gone(known, changes) | added_labels(known, came)


def _without_what_is_gone(known: Mapping[str, object], changes: dict[str, object]) -> dict[str, object]:
    """Return changes without those that differ only in what was redacted, here or there."""
    spelled = msgspec.json.encode
    both = [(key, spelled(known[key]), spelled(value)) for key, value in changes.items() if key in known]
    # nor does a text come that only lacks it there
    gone = {key for key, here, there in both if is_of(here, there) or is_of(there, here)}
    gone |= {"own_title"} if "title" in gone else set()
    return {key: value for key, value in changes.items() if key not in gone}


def added_labels(known: Mapping[str, object], came: Mapping[str, object]) -> dict[str, object]:
    """Return the change that gives a conversation the labels that it has elsewhere, too."""
    own = labels_of(known)
    more = [label for label in labels_of(came) if label not in own and label != DIVERGED]
    return {"labels": [*own, *more]} if more else {}


def renamed(metadata: Mapping[str, object], instead: Mapping[Hash, Hash]) -> dict[str, object]:
    """Return metadata that names other blobs in the places of some."""
    text = msgspec.json.encode(metadata).decode()
    for old, new in instead.items():
        text = text.replace(old.hex(), new.hex())
    found: dict[str, object] = msgspec.json.decode(text)
    return found


def with_labels(labels: Iterable[str], *more: str) -> list[str]:
    """Return labels with more of them, each once."""
    return list(dict.fromkeys((*labels, *more)))
