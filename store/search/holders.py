"""The holders of content: from content to the turns that have it, from turns to the conversations that have them.

Each is a few look-ups however much is stored: a content, or a URI, to the documents that hold it; a document to the
turns that show it; a turn to the contexts whose present branch has it. Turns that have no document yet are looked at
one by one.
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from store.disk.turn_format import Turn
from store.events.conversation import ResourceRow
from store.ids import Hash, hash_key, patch_of, turn_of
from store.index.database import asked_again
from store.search import documents, follower
from store.search.follower import Follower, batched

_AT_ONCE = 16
_LAST = "\U0010ffff"


class TurnPlace(Struct, frozen=True):
    """The place of a turn: in the present branch of the context ``context``, as record ``number``.

    ``turn`` is its id as it is seen there (``store.ids``). A context need not be a conversation that has a name.
    """

    context: int
    number: int
    turn: int


class Holders:
    """Looks up holders, as of the last commit. Safe to call from any thread."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    @property
    def is_whole(self) -> bool:
        """Whether each turn has its document. Those that lack one and cannot be read now are not found."""
        return not self._follower.lacks_some

    def turns_of(self, payload: Hash) -> list[int]:
        """Return the turns whose payload is a blob, by id, including those that are no longer in any present branch."""
        query = "SELECT id FROM documents WHERE payload = ?"
        return self._turns(query, hash_key(payload), lambda turn, _held, _own: turn.payload_hash == payload)

    def turns_with(self, content: Hash) -> list[int]:
        """Return the turns whose payload has a content cut out of it, shows it, or has it as a resource.

        Those that show it are known by its SHA-256 as well. As :meth:`turns_of`.
        """
        query = "SELECT document FROM contents WHERE content = ?"
        return self._turns(query, hash_key(content), lambda _turn, held, _own: content in held, shown=True)

    def shown(self, digest: Hash) -> bytes | None:
        """Return a content that a record shows, by its BLAKE3 or SHA-256; None if none does that can be read."""
        for turns in batched(self.turns_with(digest), _AT_ONCE):
            for _turn, contents in self._follower.contents(turns):
                for content in contents:
                    if digest in documents.digests((content,)):
                        return content
        return None

    def turns_with_uri(self, uri: str) -> list[int]:
        """Return the turns that have a resource of exactly this URI; as :meth:`turns_of`."""
        query = "SELECT document FROM resources WHERE uri = ?"
        return self._turns(query, uri, lambda _turn, _held, own: any(one.uri == uri for one in own))

    @asked_again
    def uris(self, limit: int, prefix: str = "") -> list[str]:
        """Return the first ``limit`` URIs of resources that begin with ``prefix``, in order."""
        db = self._follower.follow()
        unfiled = {one.uri for _turn, _held, own in self._follower.unfiled_contents() for one in own}
        filed = db.query(
            "SELECT DISTINCT uri FROM resources WHERE uri >= ? AND uri < ? ORDER BY uri LIMIT ?",
            (prefix, prefix + _LAST, limit),
        )
        begin = (uri for uri in unfiled if uri.startswith(prefix))
        return sorted({*begin, *(uri for (uri,) in filed)})[:limit]

    def places(self, turns: Sequence[int]) -> Iterator[TurnPlace]:
        """Yield the places of turns, those of each by context; nothing for a turn that is nowhere any more."""
        for some in batched(turns, _AT_ONCE):
            yield from self._places(some)

    @asked_again
    def _places(self, turns: Sequence[int]) -> list[TurnPlace]:
        db = self._follower.follow()
        found: list[TurnPlace] = []
        for turn in turns:
            own = turn_of(turn)
            depth: int | None = None
            for context, tip in follower.holding(db, own):
                # a turn that was patched there is there under another id
                if (patch_of(tip) or patch_of(turn)) and self._follower.library.turns.shown(tip, own) != turn:
                    continue
                if depth is None:
                    depth = follower.depth_of(db, own) or 0
                found.append(TurnPlace(context, depth + 1, turn))
        return found

    @asked_again
    def _turns(
        self,
        query: str,
        value: int | str,
        holds: Callable[[Turn, set[Hash], list[ResourceRow]], bool],
        *,
        shown: bool = False,
    ) -> list[int]:
        """Return the turns of the documents that a query finds by ``value``, and the unfiled ones that hold it."""
        turns = self._follower.follow().query(f"SELECT turn FROM turns WHERE document IN ({query})", (value,))
        found = {turn for (turn,) in turns}
        found.update(late[0].turn_id for late in self._follower.unfiled_contents(shown=shown) if holds(*late))
        return sorted(found)
