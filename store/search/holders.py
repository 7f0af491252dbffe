"""Who holds what: from content to the turns that have it, from turns to the conversations that they are in.

Each is a few look-ups however much is stored: a content, or a URI, to the documents that hold it; a document to the
turns that show it; a turn to the contexts whose present branch has it. Turns that have no document yet are looked at
one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from store.disk.turn_format import Turn
from store.events.conversation import ResourceRow
from store.ids import Hash, hash_key, patch_of, turn_of
from store.search import lines
from store.search.following import Following

_LAST = "\U0010ffff"


class Place(Struct, frozen=True):
    """Where a turn is: in the present branch of the context ``context``, as record ``number``.

    ``turn`` is its id as it is seen there (``store.ids``). A context need not be a conversation that has a name.
    """

    context: int
    number: int
    turn: int


class Holders:
    """Looks up who holds what, as of the last commit. Safe to call from any thread."""

    def __init__(self, following: Following) -> None:
        self._following = following

    def turns_of(self, payload: Hash) -> list[int]:
        """Return the turns whose payload is a blob, by id; also those that no present branch has any more."""
        found = self._filed("SELECT id FROM documents WHERE payload = ?", hash_key(payload))
        found.update(turn.turn_id for turn, _held, _own in self._unfiled() if turn.payload_hash == payload)
        return sorted(found)

    def turns_with(self, content: Hash) -> list[int]:
        """Return the turns whose payload a content was cut out of, or has it as a resource; as :meth:`turns_of`."""
        found = self._filed("SELECT document FROM contents WHERE content = ?", hash_key(content))
        found.update(turn.turn_id for turn, held, _own in self._unfiled() if content in held)
        return sorted(found)

    def turns_with_uri(self, uri: str) -> list[int]:
        """Return the turns that have a resource of exactly this URI; as :meth:`turns_of`."""
        found = self._filed("SELECT document FROM resources WHERE uri = ?", uri)
        found.update(turn.turn_id for turn, _held, own in self._unfiled() if any(one.uri == uri for one in own))
        return sorted(found)

    def uris(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[str]:
        """Return up to ``limit`` URIs of resources that begin with ``prefix``, in order, from beyond ``after`` on."""
        self._following.follow()
        unfiled = {
            one.uri
            for _turn, _held, own in self._unfiled()
            for one in own
            if one.uri.startswith(prefix) and one.uri > after
        }
        filed = self._following.db.query(
            "SELECT DISTINCT uri FROM resources WHERE uri >= ? AND uri > ? AND uri < ? ORDER BY uri LIMIT ?",
            (prefix, after, prefix + _LAST, limit),
        )
        return sorted(unfiled.union(uri for (uri,) in filed))[:limit]

    def contexts(self, turn: int) -> list[int]:
        """Return the contexts in whose present branch a turn is, seen as its id says, by id."""
        return [place.context for place in self.places([turn])]

    def places(self, turns: Iterable[int]) -> Iterator[Place]:
        """Yield where turns are, those of each by context; of a turn that is nowhere any more, nothing."""
        self._following.follow()
        db = self._following.db
        for turn in turns:
            own = turn_of(turn)
            depth: int | None = None
            for context, tip in lines.holding(db, own):
                # one that was patched there is there under another id
                if (patch_of(tip) or patch_of(turn)) and self._following.store.turns.shown(tip, own) != turn:
                    continue
                if depth is None:
                    depth = lines.depth_of(db, own) or 0
                yield Place(context, depth + 1, turn)

    def _filed(self, where: str, value: int | str) -> set[int]:
        self._following.follow()
        query = f"SELECT turn FROM turns WHERE document IN ({where})"
        return {turn for (turn,) in self._following.db.query(query, (value,))}

    def _unfiled(self) -> Iterator[tuple[Turn, set[Hash], list[ResourceRow]]]:
        return self._following.unfiled_contents()
