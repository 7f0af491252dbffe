"""The routes of CXDB's server that read, as an ASGI application over one store.

Answers are those of the server (https://github.com/strongdm/cxdb): ids are decimal strings, depths and times numbers,
an error is ``{"error": {"code", "message"}}``. Writing, but for bundles of types, is not there, and of sessions nothing
is told: which connection made a context is not kept.

Whoever reaches the port could read every conversation: so a peer must have the token, as ``Authorization: Bearer``, or
once as ``?token=`` in a browser, which then keeps it as a cookie; and the host that it asks for must be this machine,
or any page on the web could lead a browser here by a name of its own.
"""

from __future__ import annotations

import base64
import hmac
import mimetypes
import platform
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, get_args, get_type_hints

import msgspec
import trio
from msgspec import UNSET
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from store.content import trees
from store.content.trees import EntryKind, TreeEntry
from store.disk.turn_format import Encoding, Turn
from store.errors import Conflict, ConvfsError, NotFound, UsageError
from store.events.conversation import Change
from store.formats.core.json_view import as_object
from store.formats.core.lens import Nothing
from store.ids import HASH_SIZE, Hash, hash_bytes, turn_of
from store.index.catalogue import ContextEntry
from store.store import Store
from store.web import cql
from store.web.registry import Registry, Rendering

_LOCAL_NAMES = frozenset(("127.0.0.1", "[::1]", "localhost"))
_port = re.compile(r":[0-9]+$")
_COOKIE = "convfs_token"
_HEARTBEAT_SECONDS = 20.0
_MOST_CONTEXTS = 10_000
_MOST_TURNS = 4096
_SAID_OF_ORIGIN = {
    "user": "on_behalf_of",
    "service": "service_name",
    "host": "host_name",
    "parent": "parent_context_id",
    "root": "root_context_id",
    "trace_id": "trace_id",
}
"""The fields of a query that the provenance of a context answers, each with its name there."""
_SYMBOLS = {EntryKind.FILE: "file", EntryKind.DIRECTORY: "dir", EntryKind.LINK: "symlink"}

Handler = Callable[[Request], Response]


class _Untyped(ConvfsError):
    """A payload whose type nobody has registered."""


class _Json(Response):
    media_type = "application/json"

    def render(self, content: object) -> bytes:
        return msgspec.json.encode(content)


class Reading:
    """Handlers over one store; they block, and run in threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._registry = Registry(store.root)
        self._began = time.monotonic()

    def routes(self) -> list[Route]:
        """Return the routes."""
        gets: dict[str, Handler] = {
            "/healthz": lambda _request: Response("ok", media_type="text/plain"),
            "/v1/contexts": self.contexts,
            "/v1/contexts/search": self.search,
            "/v1/contexts/{context:str}/provenance": self.provenance,
            "/v1/contexts/{context:str}/turns": self.turns,
            "/v1/turns/{turn:str}/fs": self.listing,
            "/v1/turns/{turn:str}/fs/{path:path}": self.file,
            "/v1/blobs/{hash:str}": self.blob,
            "/v1/registry/bundles/{bundle:path}": self.bundle,
            "/v1/registry/renderers": self.renderers,
            "/v1/registry/types/{type:path}/versions/{version:str}": self.type_version,
            "/v1/metrics": self.metrics,
        }
        return [
            Route("/v1/registry/bundles/{bundle:path}", self.put_bundle, methods=["PUT"]),
            *(Route(path, partial(_in_thread, handler), methods=["GET"]) for path, handler in gets.items()),
            Route("/v1/events", self.events, methods=["GET"]),
        ]

    # -- contexts and turns ----------------------------------------------------------------------------------------

    def contexts(self, request: Request) -> Response:
        """List contexts, those changed last first; ``tag`` chooses among the first ``limit``."""
        entries = self._store.catalogue.latest(_number(request, "limit", 20, _MOST_CONTEXTS))
        tag = request.query_params.get("tag")
        whole = request.query_params.get("include_provenance") == "1"
        shown = [self._context(entry, whole=whole) for entry in entries if tag in (None, _tag(entry))]
        return _Json(
            {
                "contexts": shown,
                "count": len(shown),
                "active_sessions": [],
                "active_tags": sorted({str(one["client_tag"]) for one in shown if "client_tag" in one}),
            }
        )

    def _context(self, entry: ContextEntry, *, whole: bool) -> dict[str, object]:
        head = self._store.writer.head(entry.id)
        found: dict[str, object] = {
            "context_id": str(entry.id),
            "head_turn_id": str(head.turn),
            "head_depth": head.depth,
            "created_at_unix_ms": entry.updated_ms or entry.created_ms,
            "is_live": False,
        }
        if tag := _tag(entry):
            found["client_tag"] = tag
        if entry.title:
            found["title"] = entry.title
        if whole and (provenance := self.provenance_of(entry.id)):
            found["provenance"] = provenance
        return found

    def search(self, request: Request) -> Response:
        """Return the contexts that fit a query in CQL, the newest first."""
        query = request.query_params.get("q")
        if query is None:
            return _Json({"error": "q is needed: a query"}, status_code=400)
        began = time.monotonic()
        try:
            fits = cql.parse(query)
        except cql.QueryError as error:
            place = {"line": error.line, "column": error.column, "offset": error.offset}
            said = {"error": str(error), "error_type": error.kind, "field": error.field, "position": place}
            return _Json(said, status_code=400)
        catalogue = self._store.catalogue
        entries = [entry for entry in catalogue.latest(-1) if entry.head and fits(_Facts(self, entry))]
        entries.sort(key=lambda entry: entry.id, reverse=True)
        shown = entries[: _number(request, "limit", len(entries), len(entries))]
        return _Json(
            {
                "contexts": [self._context(one, whole=False) | {"created_at_unix_ms": one.created_ms} for one in shown],
                "total_count": len(entries),
                "elapsed_ms": int((time.monotonic() - began) * 1000),
                "query": query,
            }
        )

    def depth(self, context: int) -> int:
        """Return the depth of a context's last turn."""
        return self._store.writer.head(context).depth

    def provenance(self, request: Request) -> Response:
        """Return what the first turn of a context says of its origin, null if it says nothing."""
        context = _id(request, "context")
        return _Json({"context_id": str(context), "provenance": self.provenance_of(context)})

    def provenance_of(self, context: int) -> object:
        """Return what the first turn of a context says of its origin, None if it says nothing."""
        try:
            first = self._store.contexts.range_by_depth(context, 0, 1)
        except NotFound:
            return None
        for turn in first:
            payload = self._store.blobs.blob(turn.payload_hash)
            native = as_object(self._store.viewer.lens(turn).view(payload, Nothing()).native)
            return as_object(native.get("context_metadata")).get("provenance")
        return None

    def turns(self, request: Request) -> Response:
        """Return turns of a context, oldest first, with their payloads as asked."""
        context = _id(request, "context")
        limit, before = _number(request, "limit", 64, _MOST_TURNS), _number(request, "before_turn_id", 0, 1 << 63)
        head = self._store.writer.head(context)
        contexts = self._store.contexts
        found = contexts.before(context, before, limit) if before else contexts.last(context, limit)
        view = request.query_params.get("view", "typed")
        shown = [self._turn(turn, view, request) for turn in found if not turn.deleted]
        meta = {
            "context_id": str(context),
            "head_turn_id": str(head.turn),
            "head_depth": head.depth,
            "registry_bundle_id": self._registry.last,
        }
        cursor = str(turn_of(found[0].turn_id)) if found else None
        return _Json({"meta": meta, "turns": shown, "next_before_turn_id": cursor})

    def _turn(self, turn: Turn, view: str, request: Request) -> dict[str, object]:
        name = self._store.contents.type_name(turn.type_tag)
        found: dict[str, object] = {
            "turn_id": str(turn_of(turn.turn_id)),
            "parent_turn_id": str(turn_of(turn.parent)),
            "depth": turn.depth,
            "declared_type": {"type_id": name, "type_version": turn.type_version},
        }
        payload = self._store.blobs.blob(turn.payload_hash)
        how = _rendering(request)
        if view in ("typed", "both"):
            found |= self._typed(payload, name, turn, how, request)
        if view in ("raw", "both"):
            spelled = {"hex": ("bytes_hex", payload.hex()), "len_only": ("bytes_len", len(payload))}
            key, content = spelled.get(how.bytes_render, ("bytes_b64", base64.b64encode(payload).decode()))
            found |= {
                "content_hash_b3": turn.payload_hash.hex(),
                "encoding": turn.encoding,
                "compression": 0,
                "uncompressed_len": len(payload),
                key: content,
            }
        return found

    def _typed(self, payload: bytes, name: str, turn: Turn, how: Rendering, request: Request) -> dict[str, object]:
        if turn.encoding == Encoding.JSON:
            # its fields have their names already
            decoded = {"type_id": name, "type_version": turn.type_version}
            return {"decoded_as": decoded, "data": _json_of(payload)}
        asked = request.query_params
        mode = asked.get("type_hint_mode", "inherit")
        version: int | None = turn.type_version
        if mode == "explicit":
            name = asked.get("as_type_id", "")
            version = _number(request, "as_type_version", 0, 1 << 32)
            if not name or not version:
                raise UsageError("as_type_id and as_type_version are needed with type_hint_mode=explicit")
        elif mode == "latest":
            version = self._registry.latest(name)
        spec = self._registry.version(name, version) if version is not None else None
        if spec is None:
            raise _Untyped(f"type descriptor of {name} version {version} is not registered")
        try:
            value = msgspec.msgpack.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UsageError(f"turn {turn_of(turn.turn_id)} is no MessagePack: {error}") from None
        if not isinstance(value, dict):
            raise UsageError(f"the payload of turn {turn_of(turn.turn_id)} is no map")
        data, unknown = self._registry.project(value, spec, how)
        found: dict[str, object] = {"decoded_as": {"type_id": name, "type_version": version}, "data": data}
        return found | ({"unknown": unknown} if asked.get("include_unknown") == "1" else {})

    # -- files and blobs -------------------------------------------------------------------------------------------

    def listing(self, request: Request) -> Response:
        """List a directory of the files that a turn was made with."""
        turn, path = _id(request, "turn"), request.query_params.get("path", "")
        root, entry = self._entry(turn, path)
        if entry.kind is not EntryKind.DIRECTORY:
            raise UsageError(f"{path} is no directory")
        entries = [
            {
                "name": one.name,
                "kind": _SYMBOLS[one.kind],
                "mode": f"{one.mode:o}",
                "size": one.size,
                "hash": one.hash.hex(),
            }
            for one in trees.entries(self._store.blobs.blob(entry.hash))
        ]
        return _Json({"turn_id": str(turn), "path": path, "fs_root_hash": root.hex(), "entries": entries})

    def file(self, request: Request) -> Response:
        """Return a file that a turn was made with: its bytes, or with ``format=json`` what is known of it."""
        turn, path = _id(request, "turn"), request.path_params["path"]
        if not path:
            raise UsageError("name a path below fs/")
        _root, entry = self._entry(turn, path)
        if entry.kind is EntryKind.DIRECTORY:
            request.scope["query_string"] = b"path=" + path.encode()
            return self.listing(Request(request.scope))
        content = self._store.blobs.blob(entry.hash)
        mode = f"{entry.mode:o}"
        if request.query_params.get("format") == "json":
            found = {"turn_id": str(turn), "path": path, "name": entry.name, "kind": _SYMBOLS[entry.kind], "mode": mode}
            found |= {"hash": entry.hash.hex(), "content_base64": base64.b64encode(content).decode()}
            return _Json(found | {"size": entry.size})
        kind = mimetypes.guess_type(entry.name)[0] or "application/octet-stream"
        headers = {"X-Fs-Hash": entry.hash.hex(), "X-Fs-Mode": mode, "X-Content-Type-Options": "nosniff"}
        return Response(content, media_type=kind, headers=headers | {"Content-Security-Policy": "sandbox"})

    def _entry(self, turn: int, path: str) -> tuple[Hash, TreeEntry]:
        """Return the root of a turn's tree, its own or the nearest ancestor's, and the entry at a path of it."""
        at = turn
        while at:
            try:
                root = self._store.contexts.fs_root(at)
                parent = self._store.turns.get(at).parent
            except NotFound:
                break
            if root is not None:
                return root, trees.find(self._store.blobs.blob, root, path)
            at = turn_of(parent)
        raise NotFound("no fs snapshot for turn")

    def blob(self, request: Request) -> Response:
        """Return the content of a hash: a blob, or one that only records have, by BLAKE3 or by SHA-256."""
        name = request.path_params["hash"]
        try:
            digest = bytes.fromhex(name)
        except ValueError:
            digest = b""
        if len(digest) != HASH_SIZE:
            raise UsageError(f"{name} is no hash")
        content = self._store.addresses.content("", digest)
        if content is None:
            raise NotFound("blob")
        headers = {"X-Content-Type-Options": "nosniff"}
        return Response(content, media_type="application/octet-stream", headers=headers)

    # -- types -----------------------------------------------------------------------------------------------------

    async def put_bundle(self, request: Request) -> Response:
        """Register a bundle of types."""
        body = await request.body()
        try:
            name = await run_in_threadpool(self._registry.put, body)
        except ConvfsError as error:
            return _failed(error)
        return Response(status_code=204) if name is None else _Json({"bundle_id": name}, status_code=201)

    def bundle(self, request: Request) -> Response:
        """Return a bundle as it came."""
        data = self._registry.bundle(request.path_params["bundle"])
        if data is None:
            raise NotFound("bundle")
        tag = f'"{hash_bytes(data).hex()}"'
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={"ETag": tag})
        return Response(data, media_type="application/json", headers={"ETag": tag})

    def type_version(self, request: Request) -> Response:
        """Return the fields of a version of a type."""
        spec = self._registry.version(request.path_params["type"], _id(request, "version"))
        if spec is None:
            raise NotFound("type version")
        found: dict[str, object] = {"fields": {str(tag): field for tag, field in spec.fields.items()}}
        return _Json(found | ({} if spec.renderer is UNSET else {"renderer": spec.renderer}))

    def renderers(self, _request: Request) -> Response:
        """Return the renderers of types."""
        return _Json({"renderers": self._registry.renderers()})

    def metrics(self, _request: Request) -> Response:
        """Return some counts."""
        stats = self._store.stats()
        return _Json(
            {
                "ts": time.time_ns() // 1_000_000,
                "uptime_seconds": int(time.monotonic() - self._began),
                "host": platform.node(),
                "objects": msgspec.to_builtins(stats),
            }
        )

    # -- events ----------------------------------------------------------------------------------------------------

    async def events(self, _request: Request) -> Response:
        """Tell of changes as they are durable, for as long as the peer listens."""
        return StreamingResponse(self._told(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    async def _told(self) -> AsyncIterator[bytes]:
        changes: deque[Change] = deque()
        something = trio.Event()
        token = trio.lowlevel.current_trio_token()

        def wake() -> None:
            something.set()

        def changed(change: Change) -> None:
            changes.append(change)
            token.run_sync_soon(wake, idempotent=True)

        heads: dict[int, int] = {}
        self._store.observers.add(changed)
        try:
            yield _event("connected", {})
            while True:
                with trio.move_on_after(_HEARTBEAT_SECONDS):
                    await something.wait()
                something = trio.Event()
                if not changes:
                    yield b":heartbeat\n\n"
                while changes:
                    for event in await run_in_threadpool(self._of, changes.popleft(), heads):
                        yield event
        finally:
            self._store.observers.remove(changed)

    def _of(self, change: Change, heads: dict[int, int]) -> list[bytes]:
        """Return the events of a change; ``heads`` has the last turn told of each context."""
        context = str(change.context_id)
        found: list[bytes] = []
        try:
            entry = self._store.catalogue.entry(change.context_id)
            if change.created:
                created = {"session_id": "0", "client_tag": _tag(entry), "created_at": entry.created_ms}
                found.append(_event("context_created", {"context_id": context, **created}))
            if change.moved and change.tip:
                for turn in self._new(change, heads):
                    kind = self._store.contents.type_name(turn.type_tag)
                    said = {"turn_id": str(turn_of(turn.turn_id)), "parent_turn_id": str(turn_of(turn.parent))}
                    declared = {"declared_type_id": kind, "declared_type_version": turn.type_version}
                    found.append(
                        _event("turn_appended", {"context_id": context, **said, "depth": turn.depth, **declared})
                    )
            if change.described:
                described: dict[str, object] = {"has_provenance": self.provenance_of(change.context_id) is not None}
                said = {"client_tag": _tag(entry), "title": entry.title}
                described |= {key: value for key, value in said.items() if value}
                if entry.labels:
                    described["labels"] = entry.labels
                found.append(_event("context_metadata_updated", {"context_id": context, **described}))
        except ConvfsError:
            # it is gone again
            return found
        return found

    def _new(self, change: Change, heads: dict[int, int]) -> list[Turn]:
        tip = turn_of(change.tip)
        told = heads.get(change.context_id, 0 if change.created else tip - 1)
        heads[change.context_id] = tip
        return [turn for turn in self._store.turns.back(tip, _MOST_TURNS) if turn_of(turn.turn_id) > told]


class _Facts:
    """A context as a query asks about it; its first turn is read only for what that says."""

    def __init__(self, reading: Reading, entry: ContextEntry) -> None:
        self._reading = reading
        self._entry = entry

    def values(self, field: str) -> Sequence[object]:
        entry = self._entry
        if field in _SAID_OF_ORIGIN:
            said = self._origin.get(_SAID_OF_ORIGIN[field])
            return [str(said)] if said else []
        if field == "label":
            return entry.labels
        if field == "depth":
            return [self._reading.depth(entry.id)]
        told = {
            "tag": _tag(entry),
            "title": entry.title,
            "id": str(entry.id),
            "created": entry.created_ms,
            "is_live": False,
        }
        return [told[field]]

    @cached_property
    def _origin(self) -> Mapping[str, object]:
        return as_object(self._reading.provenance_of(self._entry.id))


class _Guard:
    """Lets in only peers of this machine, who have the token if there is one."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        if _port.sub("", request.headers.get("host", "")) not in _LOCAL_NAMES:
            await _error(403, "this service answers to 127.0.0.1, [::1] and localhost alone")(scope, receive, send)
            return
        asked = request.query_params.get("token")
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        given = asked or bearer or request.cookies.get(_COOKIE, "")
        if self._token and not hmac.compare_digest(given.encode(), self._token.encode()):
            text = "a token is needed, once as ?token=… or as Authorization: Bearer …; it is in the store's directory"
            await _error(401, text)(scope, receive, send)
            return

        async def sending(message: Any) -> None:  # noqa: ANN401 - ASGI's messages have no type
            if message["type"] == "http.response.start" and asked and self._token:
                cookie = f"{_COOKIE}={asked}; HttpOnly; SameSite=Strict; Path=/"
                message["headers"] = [*message.get("headers", ()), (b"set-cookie", cookie.encode("latin-1"))]
            await send(message)

        await self._app(scope, receive, sending)


def application(store: Store, token: str) -> ASGIApp:
    """Return the application over a store; ``token`` is what a peer must have, "" for nothing."""
    app = Starlette(routes=Reading(store).routes(), exception_handlers={HTTPException: _refused})
    return _Guard(app, token)


async def _in_thread(handler: Handler, request: Request) -> Response:
    try:
        return await run_in_threadpool(handler, request)
    except ConvfsError as error:
        return _failed(error)


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(404, "route")


def _failed(error: ConvfsError) -> Response:
    kinds: tuple[tuple[type[ConvfsError], int], ...] = (
        (NotFound, 404),
        (_Untyped, 424),
        (Conflict, 422),
        (UsageError, 422),
    )
    return _error(next((code for kind, code in kinds if isinstance(error, kind)), 500), str(error))


def _error(code: int, message: str) -> Response:
    return _Json({"error": {"code": code, "message": message}}, status_code=code)


def _event(name: str, data: Mapping[str, object]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(data))


def _tag(entry: ContextEntry) -> str:
    return str(entry.metadata.get("project") or "")


def _id(request: Request, name: str) -> int:
    """Return a number of the path. UsageError if it is none."""
    text = request.path_params[name]
    if not text.isascii() or not text.isdigit() or len(text) > len(str(1 << 63)):
        raise UsageError(f"{name} {text!r} is no number")
    return int(text)


def _number(request: Request, name: str, default: int, most: int) -> int:
    """Return a number of the query, the default where it is none; ``most`` at most."""
    text = request.query_params.get(name, "")
    return min(int(text), most) if text.isascii() and text.isdigit() and len(text) < 20 else default


def _rendering(request: Request) -> Rendering:
    hints = get_type_hints(Rendering)
    asked = {name: request.query_params.get(name) for name in hints}
    return Rendering(**{name: value for name, value in asked.items() if value in get_args(hints[name])})  # type: ignore[arg-type]  # one of the literals


def _json_of(payload: bytes) -> object:
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return payload.decode(errors="replace")
