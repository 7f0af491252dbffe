"""The matrix's gestures on a tool's own file, as a program makes them that writes it anew.

They never are refused: the file is the program's. What it then says, it must say to the byte.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from store.events.event import Block
from store.formats.core.times import in_iso
from store.formats.registry import format_named
from store.importing.native import NativeFile, is_one_file, write_anew
from tests.fusefs.editing.matrix import Case, Gesture, Save, at_path, list_of

NEW = "Said by a program"


class Place:
    """A record in the file of its conversation: ``before``, ``record`` and ``after`` are all of its bytes."""

    def __init__(self, case: Case) -> None:
        store = case.store
        context = case.records.context(case.view)
        self._store = store
        self._file = NativeFile(store, store.catalogue.entry(context))
        data = self._file.read(0, self._file.size)
        self.record = case.payload
        at = data.find(self.record)
        assert at >= 0, f"the file of {context} does not have the record of event {case.row.number}"
        self.before, self.after = data[:at], data[at + len(self.record) :]

    def write(self, data: bytes) -> object:
        """Write the file anew, and return its conversation. Fails unless that is what the file is then."""
        entry = self._file.entry
        made = write_anew(self._store, format_named(entry.format), self._file, self._file.name, data, 1)
        now = NativeFile(self._store, made)
        assert now.read(0, now.size) == data, "the file is not what was written"
        return made if made.head != entry.head else None

    def with_record(self, record: bytes) -> bytes:
        return self.before + record + self.after

    def without(self) -> bytes:
        """Return the file without the record, and without what separates it from another."""
        before, after = self.before, self.after
        if after.lstrip()[:1] == b",":
            return before + after.lstrip()[1:].lstrip()
        if before.rstrip()[-1:] == b",":
            return before.rstrip()[:-1] + after
        return before + (after[1:] if after[:1] == b"\n" else after)

    def twice(self) -> bytes:
        """Return the file with the record once more behind it."""
        neighbours = (self.before.rstrip()[-1:], self.after.lstrip()[:1])
        is_listed = neighbours[0] in (b"[", b",") and neighbours[1] in (b"]", b",")
        separator = b"," if is_listed else b"\n" if self.record[:1] == b"{" else b"\n\n"
        return self.with_record(self.record + separator + self.record)


def _document(record: bytes) -> object:
    with suppress(ValueError):
        return json.loads(record)
    return None


def _spelled(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _written(case: Case, data: Callable[[Place], bytes]) -> Callable[[], object]:
    def write() -> object:
        place = Place(case)
        return place.write(data(place))

    return write


def _changed(case: Case, change: Callable[[object], object]) -> Callable[[], object]:
    """Return what writes the file with a record changed that is JSON."""

    def data(place: Place) -> bytes:
        value = _document(place.record)
        change(value)
        return place.with_record(_spelled(value))

    return _written(case, data)


def _native(saves: Callable[[Case], Iterator[Save]]) -> Callable[[Case], Iterator[Save]]:
    def of_a_file(case: Case) -> Iterator[Save]:
        if is_one_file(case.store.catalogue.entry(case.records.context(case.view))):
            yield from saves(case)

    return of_a_file


def _holds(document: object, block: Block) -> bool:
    try:
        return isinstance(document, dict) and bool(block.path) and isinstance(at_path(document, block.path), str)
    except (KeyError, IndexError, TypeError):
        # it stands in a document that is a string itself
        return False


def _edit(case: Case) -> Iterator[Save]:
    document = _document(case.payload)
    held = next((one for one in case.event.blocks if one.type == "text" and one.text and _holds(document, one)), None)
    if held is not None:
        yield Save("", _changed(case, partial(_edited, path=held.path)))
    elif document is None:
        lines = ((block.text or "").strip().partition("\n")[0].encode() for block in case.event.blocks)
        if line := next((one for one in lines if one and one in case.payload), b""):
            yield Save("", _written(case, lambda place: place.with_record(_replaced(place.record, line))))


def _edited(document: object, path: Sequence[str | int]) -> None:
    at_path(document, path[:-1])[path[-1]] = f"{NEW}: {at_path(document, path)}"  # type: ignore[index]


def _replaced(record: bytes, line: bytes) -> bytes:
    before, _, after = record.rpartition(line)
    return before + NEW.encode() + b" " + line + after


def _is_member(case: Case) -> bool:
    """Return whether a record is the member of an object: without it, or with two, the file is no document any more."""
    return Place(case).before.rstrip()[-1:] == b":"


def _delete(case: Case) -> Iterator[Save]:
    if not _is_member(case):
        yield Save("", _written(case, Place.without))


def _add(case: Case) -> Iterator[Save]:
    if not _is_member(case):
        yield Save("", _written(case, Place.twice))


def _listed(change: Callable[[list[object], int], object], least: int) -> Callable[[Case], Iterator[Save]]:
    def saves(case: Case) -> Iterator[Save]:
        found = list_of(case)
        document = _document(case.payload)
        if found is None or not isinstance(document, dict):
            return
        path, place = found
        try:
            held = at_path(document, path)
        except (KeyError, IndexError, TypeError):
            return
        if isinstance(held, list) and len(held) >= least and (least < 2 or held != held[::-1]):
            yield Save("", _changed(case, lambda value: change(at_path(value, path), place)))  # type: ignore[arg-type]

    return saves


def _fields(case: Case) -> Iterator[Save]:
    document = _document(case.payload)
    for key, value in case.event.header.items():
        holder = _holder(document, key, value)
        if holder is None or value is None:
            continue
        new: object = f"{value}-2"
        if isinstance(value, bool):
            new = not value
        elif isinstance(value, int | float):
            new = value + 1
        elif key == "timestamp":
            new = in_iso(case.event.time_ms + 1)

        def change(whole: object, key: str = key, value: object = value, new: object = new) -> None:
            found = _holder(whole, key, value)
            assert found is not None
            found[key] = new

        yield Save(key, _changed(case, change))


def _holder(value: object, key: str, wanted: object) -> dict[str, object] | None:
    """Return the first object in a document in which a key has a value."""
    if isinstance(value, dict):
        if value.get(key) == wanted and type(value.get(key)) is type(wanted):
            return value
        below = list(value.values())
    else:
        below = value if isinstance(value, list) else []
    return next((found for one in below if (found := _holder(one, key, wanted)) is not None), None)


NATIVE: tuple[Gesture, ...] = tuple(
    Gesture(name, "native/", _native(saves))
    for name, saves in (
        ("edit", _edit),
        ("delete", _delete),
        ("add", _add),
        ("add a block", _listed(lambda parts, at: parts.append(parts[at]), 1)),
        ("remove a block", _listed(lambda parts, at: parts.pop(at), 2)),
        ("reorder blocks", _listed(lambda parts, _at: parts.reverse(), 2)),
        ("head field", _fields),
    )
)
"""The gestures, in the order of the matrix's columns."""
