"""A described document that its tool may keep as a file of changes to it, a line each.

A line is ``{"kind":…,"k":[…],"v":…}``, ``k`` being a path: 0 is the whole document, 1 sets a value, 2 appends the items
of ``v`` to a list, which is cut to the length ``i`` first if there is one, 3 deletes. After some thousand lines the
file is replaced by one of a single line. Source: VS Code's ``objectMutationLog.ts``.
"""

from collections.abc import Iterable
from pathlib import Path
from tempfile import NamedTemporaryFile

import msgspec

from store.errors import UsageError
from store.formats.core import documents
from store.formats.core.format import Source
from store.formats.core.json_view import MOST_OF_ALL, JsonObject, as_list, is_object, object_in, value_at
from store.formats.core.look import Look, read_document
from store.formats.declared.description import Description, Fits
from store.formats.declared.format import DeclaredFormat

_WHOLE, _SET, _APPEND, _DELETE = range(4)
_FIRST_LINE = 1
_HELD_BYTES = 4 << 20


class DeclaredDeltas(DeclaredFormat):
    """The tool that a description describes, whose documents may be files of changes."""

    keeps_file = True

    def __init__(self, said: Description) -> None:
        super().__init__(said)
        self._begins = [Fits(one).holds for one in said.deltas]
        self._replayed: tuple[Source, object] | None = None
        """The replay that was asked for last, for who asks about it next, unless it is large."""

    def claim(self, look: Look) -> Source | None:
        return self.source(look.path) if self._is_deltas(look) else super().claim(look)

    def _is_deltas(self, look: Look) -> bool:
        return any(fits(first) for first in look.objects(_FIRST_LINE) for fits in self._begins)

    def document(self, source: Source, *, whole: bool = False) -> object:
        try:
            replayed = self._replayed
            # whoever sums up its usage asks for the whole of it, too
            self._replayed = replayed if self.sums_up and not whole else None
            if replayed is not None and replayed[0] is source:
                return replayed[1]
            if self._is_deltas(Look(source.main)):
                return _replayed(source.main)
            return super().document(source, whole=whole)
        except (OSError, UsageError):
            return None

    def rendition(self, source: Source, scratch: Path) -> Path | None:
        """Write the document that the changes lead to."""
        if not self._is_deltas(Look(source.main)):
            return None
        found = _replayed(source.main)
        document = msgspec.json.encode(found)
        self._replayed = (source, found) if len(document) <= _HELD_BYTES else None
        with NamedTemporaryFile(prefix="rendition-", suffix=".json", dir=scratch, delete=False) as file:
            file.write(document)
        return Path(file.name)

    def restore(self, original: Path, rendition: Path, target: Path) -> None:
        """Write a file of one line, the document: changes before it would tell what was edited."""
        document = documents.on_one_line(documents.parse(rendition.read_text(encoding="utf-8")), b"{}")
        target.write_bytes(b'{"kind":0,"v":' + document + b"}\n")


def _replayed(path: Path) -> JsonObject:
    """Return the document that a file of changes leads to. Raises UsageError where it leads to none."""
    lines = filter(None, read_document(path).split(b"\n"))
    found = replay(object_in(line, MOST_OF_ALL) for line in lines)
    if not is_object(found):
        raise UsageError(f"{path} tells changes of no document: it cannot be read")
    return found


def replay(changes: Iterable[JsonObject]) -> object:
    """Return what changes lead to; those that lead nowhere (a line may be half written) are passed over."""
    document: object = None
    for change in changes:
        kind, path, value = change.get("kind"), as_list(change.get("k")), change.get("v")
        if kind == _WHOLE:
            document = value
        elif path:
            *way, last = path
            steps = tuple(step for step in way if isinstance(step, str) or (isinstance(step, int) and step >= 0))
            holder = value_at(document, steps) if len(steps) == len(way) else None
            if kind == _APPEND:
                _append(holder, last, as_list(value), change.get("i"))
            elif kind in (_SET, _DELETE):
                _set(holder, last, value, delete=kind == _DELETE)
    return document


def _append(holder: object, last: object, items: list[object], length: object) -> None:
    if isinstance(holder, dict) and isinstance(last, str):
        held = holder.setdefault(last, [])
    elif isinstance(holder, list) and isinstance(last, int) and 0 <= last < len(holder):
        held = holder[last]
    else:
        return
    if isinstance(held, list):
        if isinstance(length, int) and length >= 0:
            del held[length:]
        held += items


def _set(holder: object, last: object, value: object, *, delete: bool) -> None:
    if isinstance(holder, dict) and isinstance(last, str):
        if delete:
            holder.pop(last, None)
        else:
            holder[last] = value
    elif isinstance(holder, list) and isinstance(last, int) and 0 <= last <= len(holder):
        # that of a list is emptied, not taken out: indices after it stay
        holder[last : last + 1] = [None if delete else value]
