"""Those who hold a content or a resource, as a daemon tells of them."""

from collections.abc import Sequence
from itertools import chain

from fusefs.daemon.answers import HoldingLine, Known
from fusefs.tree.paths import Paths
from store.artifacts.urls import parse_url
from store.backlinks import Backlinks, Holding
from store.ids import Hash
from store.store import Store


def holders(store: Store, blob: str, uris: Sequence[str]) -> tuple[list[HoldingLine], Known]:
    """Return who holds the content ``blob``, a URL or "", or resources; and whether the store has that content."""
    backlinks = Backlinks(store)
    digest = _digest(store, blob) if blob else None
    paths = Paths(store)
    holdings = chain(backlinks.of_content(digest) if digest else (), backlinks.of_uris(uris))
    told = list(dict.fromkeys(_line(paths, holding) for holding in holdings))
    return told, Known(bool(told) or (digest is not None and store.addresses.blob("blake3", digest) is not None))


def _digest(store: Store, blob: str) -> Hash:
    """Return the hash of a blob by any digest; of content that only records have, the digest itself."""
    address = parse_url(blob)
    return store.addresses.blob(address.algorithm, address.digest) or Hash(address.digest)


def _line(paths: Paths, holding: Holding) -> HoldingLine:
    row, version = holding.row, holding.version
    return HoldingLine(
        paths.holding(holding),
        holding.conversation.id,
        version.number if version else 0,
        row.number if row else None,
        row.kind.word if row else "",
        row.tool if row else "",
        holding.relation,
        holding.name,
        holding.uris,
    )
