"""Conversations in a file of many that name their last record: which one that is now."""

from __future__ import annotations

import re
from collections.abc import Iterable

from store.conversations import branch
from store.formats.format import Format
from store.formats.json_view import as_object, as_text, decode
from store.formats.new_literals import spell
from store.importing.layout import Place
from store.index.catalogue import Entry
from store.store import Store


class Leaves:
    """What is to be said of last records in the gaps of a file, between conversations."""

    def __init__(self, store: Store, format_: Format) -> None:
        self._store = store
        self._member, self._key = format_.leaf
        self._changes: dict[int, list[tuple[re.Pattern[bytes], bytes]]] = {}
        """What is replaced, and by what, in the gap before the record at a position."""

    def follow(self, place: Place, entry: Entry, left: Iterable[bytes], gaps: Iterable[int]) -> None:
        """Have a conversation name the last of its records that are in the file now, in one of the ``gaps``.

        ``place`` is what the file held of it, ``entry`` what it is, ``left`` are its records and those of its branches
        that are written, gaps are given by the positions of the records after them.
        """
        if not self._member:
            return
        names = {self._named(payload) for payload in left} - {""}
        was = self._named(self._store.payload(place.tip)) if place.tip else ""
        now = next((name for name in self._backwards(entry) if name in names), "")
        if was and now and was != now:
            said = re.compile(rb'("%b"\s*+:\s*+)%b' % (re.escape(self._member.encode()), re.escape(spell(was, b""))))
            for gap in gaps:
                self._changes.setdefault(gap, []).append((said, spell(now, b"")))

    def mended(self, position: int, gap: bytes) -> bytes:
        """Return the gap before the record at ``position`` as it is to be written."""
        for said, name in self._changes.get(position, ()):
            if found := said.search(gap):
                gap = gap[: found.end(1)] + name + gap[found.end() :]
        return gap

    def _backwards(self, entry: Entry) -> Iterable[str]:
        """Yield the names of a conversation's records, the last first."""
        runs = self._store.runs(entry.head)
        for number in range(branch.length(runs), 0, -1):
            turn = self._store.turn(branch.position(runs, number))
            if not turn.deleted:
                yield self._named(self._store.blob(turn.payload_hash))

    def _named(self, payload: bytes) -> str:
        decoded = decode(payload)
        return as_text(as_object(decoded.value).get(self._key)) if decoded else ""
