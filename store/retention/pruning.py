"""Pruning: deleting what a plan says, as far as it still is what the plan saw."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from store.errors import Conflict, NotFound
from store.importing.imported import read_file
from store.index.catalogue import Entry
from store.retention.plan import Doomed
from store.retention.removal import delete, prune_versions
from store.store import Store


class PruneReport(Struct):
    """How many conversations, versions and artifacts were deleted for good; ``skipped`` has a line for what was not."""

    conversations: int = 0
    versions: int = 0
    artifacts: int = 0
    skipped: list[str] = []


def prune(store: Store, doomed: Iterable[Doomed]) -> PruneReport:
    """Delete for good what a plan found; what has changed since then stays, and is told of.

    Where nothing is left of a file of many conversations, what was kept of the file itself goes with the last of them.
    """
    report = PruneReport()
    files: set[int] = set()
    for one in doomed:
        who = f"{one.project}/{one.name}"
        try:
            entry = store.entry(one.id)
            if one.what == "versions":
                report.versions += _prune_versions(store, one)
            elif one.what == "artifacts":
                report.artifacts += _remove_outputs(store, one, entry)
            elif (entry.metadata.get("trashed_ms") or 0) != one.trashed_ms:
                report.skipped.append(f"{who}: it was put into the trash, or taken out, meanwhile")
            else:
                delete(store, one.id, one.tip)
                report.conversations += 1
                if isinstance(file := entry.metadata.get("file"), int):
                    files.add(file)
        except Conflict:
            report.skipped.append(f"{who}: it has changed meanwhile")
        except NotFound:
            report.skipped.append(f"{who}: it is gone already")
    for file in files:
        _delete_file(store, file)
    return report


def _prune_versions(store: Store, one: Doomed) -> int:
    before = len(store.versions(one.id))
    prune_versions(store, one.id, one.last)
    return before - len(store.versions(one.id))


def _remove_outputs(store: Store, one: Doomed, entry: Entry) -> int:
    there = [key for key in one.keys if key in entry.metadata]
    store.set_metadata(one.id, dict.fromkeys(there))
    return len(there)


def _delete_file(store: Store, context: int) -> None:
    """Delete the context that stands for a file if none of its conversations is there any more."""
    try:
        file = store.entry(context)
    except NotFound:
        return
    imported = read_file(file.metadata)
    if imported is None:
        return
    if not any(store.has_context(place.context) for place in imported.read_layout(store).places):
        delete(store, context, file.head)
