"""The calls that a client of the service has in common with the store's facade, for tasks of trio."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import trio

from store.commit.open_texts import OpenText
from store.commit.request import ContextHead
from store.disk.turn_format import Encoding, Turn
from store.events.conversation import Conversation, Version
from store.events.deletion import Content
from store.ids import Hash
from store.service import asks
from store.service.asks import Ask
from store.upkeep.stats import Stats

T = TypeVar("T")


class AsyncFacade:
    """The calls of :class:`store.store.Store`, each to be awaited, on a store that another process holds."""

    async def ask(self, ask: Ask[T]) -> T:
        """Have something done, and return what came of it."""
        raise TypeError("whoever reaches a service says how")

    async def create_context(self, base_turn: int = 0, *, metadata: dict[str, object] | None = None) -> ContextHead:
        """Create a context whose branch is empty, or ends in ``base_turn``; durable when it returns."""
        return await self.ask(asks.create_context(base_turn, metadata=metadata))

    async def fork(self, context_id: int, at: int = 0, *, metadata: dict[str, object] | None = None) -> ContextHead:
        """Create a context that branches off another at turn ``at`` (0: its head)."""
        return await self.ask(asks.fork(context_id, at, metadata=metadata))

    async def head(self, context_id: int) -> ContextHead:
        """Return the head of a context."""
        return await self.ask(asks.head(context_id))

    async def append(
        self,
        context_id: int,
        payload: bytes,
        type_name: str,
        *,
        encoding: int = Encoding.JSON,
        type_version: int = 0,
        parent: int = 0,
        expected_head: int | None = None,
        idempotency_key: bytes = b"",
        fs_root: bytes | None = None,
    ) -> Turn:
        """Append one turn and return it once it is durable; it is appended once, however often it must be sent."""
        return await self.ask(
            asks.append(
                context_id,
                payload,
                type_name,
                encoding=encoding,
                type_version=type_version,
                parent=parent,
                expected_head=expected_head,
                idempotency_key=idempotency_key,
                fs_root=fs_root,
            )
        )

    async def last(self, context_id: int, count: int, *, latest: bool = False, as_of: int | None = None) -> list[Turn]:
        """Return the last ``count`` turns of a context, oldest first.

        As they were appended; ``latest``: as they now are; ``as_of``: as they were at a seq of the head log.
        """
        return await self.ask(asks.last(context_id, count, latest=latest, as_of=as_of))

    async def before(
        self, context_id: int, turn_id: int, count: int, *, latest: bool = False, as_of: int | None = None
    ) -> list[Turn]:
        """Return the ``count`` turns before ``turn_id``, oldest first, without it."""
        return await self.ask(asks.before(context_id, turn_id, count, latest=latest, as_of=as_of))

    async def range_by_depth(
        self, context_id: int, start: int, count: int, *, latest: bool = False, as_of: int | None = None
    ) -> list[Turn]:
        """Return up to ``count`` turns from depth ``start`` on, oldest first."""
        return await self.ask(asks.range_by_depth(context_id, start, count, latest=latest, as_of=as_of))

    async def turn(self, turn_id: int) -> Turn:
        """Return a turn."""
        return await self.ask(asks.turn(turn_id))

    async def path_to_root(self, turn_id: int) -> list[Turn]:
        """Return every turn from the root to ``turn_id``."""
        return await self.ask(asks.path_to_root(turn_id))

    async def payload(self, turn_id: int) -> bytes:
        """Return the payload of a turn."""
        return await self.blob((await self.turn(turn_id)).payload_hash)

    async def blob(self, digest: Hash) -> bytes:
        """Return a blob."""
        return await self.ask(asks.blob(digest))

    async def blob_size(self, digest: Hash) -> int:
        """Return the size of a blob in bytes."""
        return await self.ask(asks.blob_size(digest))

    async def put_blob(self, data: bytes) -> Hash:
        """Store ``data`` and return its name once it is durable."""
        return await self.ask(asks.put_blob(data))

    async def attach_fs(self, turn_id: int, root: bytes) -> None:
        """Note that the files that a turn was made with are those of the tree ``root``."""
        await self.ask(asks.attach_fs(turn_id, root))

    async def fs_root(self, turn_id: int) -> Hash | None:
        """Return the root of the tree of files that was attached to a turn, None if none was."""
        return await self.ask(asks.fs_root(turn_id))

    async def register_type(self, name: str, version: int = 0) -> int:
        """Note that there are payloads of this version of a type; return the type's tag."""
        return await self.ask(asks.register_type(name, version))

    async def types(self) -> list[tuple[int, int, str]]:
        """Return (tag, version, name) of all types that are known, by name and version."""
        return await self.ask(asks.types())

    async def tip(self, context_id: int, seq: int | None = None) -> int:
        """Return the tip of a context, now or as of the frame ``seq`` of the head log."""
        return await self.ask(asks.tip(context_id, seq))

    async def set_metadata(self, context_id: int, changes: dict[str, object]) -> None:
        """Change metadata of a context: keys replace, None removes."""
        await self.ask(asks.set_metadata(context_id, changes))

    async def patch(
        self, context_id: int, changes: Mapping[int, Content], *, expected_head: int | None = None
    ) -> ContextHead:
        """Give turns of a context other payloads, or delete them (DELETED), by one patch; return the head."""
        return await self.ask(asks.patch(context_id, changes, expected_head=expected_head))

    async def versions(self, context_id: int) -> list[Version]:
        """Return what a context has been, oldest first."""
        return await self.ask(asks.versions(context_id))

    async def open_turn(
        self, context_id: int, type_name: str, *, encoding: int = Encoding.RAW_BYTES, type_version: int = 0
    ) -> AsyncRemoteTurn:
        """Begin a turn of a context whose payload is added piece by piece."""
        number = await self.ask(asks.open_turn(context_id, type_name, encoding=encoding, type_version=type_version))
        return AsyncRemoteTurn(self, context_id, number, 0)

    async def resume_turn(self, context_id: int, number: int) -> AsyncRemoteTurn:
        """Return an open turn by its number, or one that was sealed within a day; else NotFound."""
        return AsyncRemoteTurn(self, context_id, number, await self.ask(asks.resume_turn(context_id, number)))

    async def open_turns(self, context_id: int = 0) -> list[OpenText]:
        """Return the open turns of a context, or of all (0), with their texts so far; those opened first come first."""
        return await self.ask(asks.open_turns(context_id))

    async def projects(self) -> list[str]:
        """Return all projects."""
        return await self.ask(asks.projects())

    async def conversations(
        self, project: str | None = None, *, after: str = "", limit: int | None = None
    ) -> list[Conversation]:
        """Return the conversations of a project, or of all, by name; within a project from beyond name ``after``."""
        return await self.ask(asks.conversations(project, after=after, limit=limit))

    async def conversation(self, context_id: int) -> Conversation:
        """Return a conversation by its id."""
        return await self.ask(asks.conversation(context_id))

    async def find(self, project: str, name: str) -> Conversation | None:
        """Return the conversation ``project/name``."""
        return await self.ask(asks.find(project, name))

    async def stats(self) -> Stats:
        """Return what the store holds and what it takes on disk."""
        return await self.ask(asks.stats())


class AsyncRemoteTurn:
    """A turn that is being written, by this client alone: a piece that must be sent again is added once."""

    def __init__(self, facade: AsyncFacade, context_id: int, number: int, size: int) -> None:
        self.context_id = context_id
        self.number = number
        """What it is known by, also to other clients."""
        self._facade = facade
        self._size = size
        self._lock = trio.Lock()

    async def add(self, text: bytes) -> int:
        """Go on with ``text``; return how many bytes there are once it is durable."""
        async with self._lock:
            self._size = await self._facade.ask(asks.add_text(self.number, text, self._size))
            return self._size

    async def seal(self, *, expected_head: int | None = None, fs_root: bytes | None = None) -> Turn:
        """Append all of it to its context as one turn, and return that."""
        ask = asks.seal_turn(self.context_id, self.number, expected_head=expected_head, fs_root=fs_root)
        return await self._facade.ask(ask)

    async def abort(self) -> None:
        """Drop it."""
        await self._facade.ask(asks.drop_turn(self.context_id, self.number))
