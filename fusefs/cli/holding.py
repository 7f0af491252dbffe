"""The operation that says who holds a content or a resource, by the paths at which a mount shows that."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from fusefs.text.names import kind_word
from fusefs.tree.paths import Paths
from store.artifacts.urls import parse_url
from store.backlinks.backlinks import Backlinks, Holding, Relation
from store.errors import NotFound
from store.ids import Hash
from store.service.operation import Holder, Operation
from store.store import Store

_PAGE = 200


class WhereParams(Struct, frozen=True, forbid_unknown_fields=True):
    """``blob`` is ``blob:blake3:HEX`` or ``blob:sha256:HEX``, "" for none; ``uris`` are those of resources."""

    blob: str = ""
    uris: tuple[str, ...] = ()


class HoldingLine(Struct, frozen=True):
    """One place that holds something: ``event`` is a number, or None where ``name`` says what else holds it.

    ``path`` is relative to the root of a mount, "" where the context ``id`` has no name. ``version`` is 0 for a
    conversation as it is now.
    """

    path: str
    id: int
    version: int
    event: int | None
    kind: str
    tool: str
    held_as: Relation
    name: str
    uris: tuple[str, ...]


class Known(Struct, frozen=True):
    """``stored``: whether the store has a content of this hash, held by somebody or not."""

    stored: bool


def _where(holder: Holder, params: WhereParams, emit: Callable[[list[HoldingLine]], None]) -> Known:
    store = holder.store
    backlinks = Backlinks(store)
    digest = _digest(store, params.blob) if params.blob else None
    paths = Paths(store)
    lines: dict[HoldingLine, None] = {}
    for holdings in (backlinks.of_content(digest) if digest else (), backlinks.of_uris(params.uris)):
        for holding in holdings:
            lines[_line(paths, holding)] = None
    told = list(lines)
    for start in range(0, len(told), _PAGE):
        emit(told[start : start + _PAGE])
    return Known(digest is not None and _is_stored(store, digest))


def _is_stored(store: Store, digest: Hash) -> bool:
    try:
        store.blob_size(digest)
    except NotFound:
        return False
    return True


def _digest(store: Store, blob: str) -> Hash | None:
    address = parse_url(blob)
    return Hash(address.digest) if address.algorithm == "blake3" else store.alias(address.algorithm, address.digest)


def _line(paths: Paths, holding: Holding) -> HoldingLine:
    row, version = holding.row, holding.version
    return HoldingLine(
        paths.holding(holding),
        holding.conversation.id,
        version.number if version else 0,
        row.number if row else None,
        kind_word(row.kind) if row else "",
        row.tool if row else "",
        holding.relation,
        holding.name,
        holding.uris,
    )


WHERE = Operation(431, WhereParams, list[HoldingLine], Known, _where)
