"""Nodes taken out of a conversation's tree so that what is left is one."""

from collections.abc import Iterator, Mapping, Sequence, Set

from store.events.event import Path
from store.formats import tree_removal
from store.formats.json_view import JsonObject, as_list, as_object, as_text
from store.formats.new_literals import spell
from store.formats.splices import put
from store.formats.tree_removal import WHOLE, Shape, object_of

_PARENT_ID: Path = ("message", "metadata", "parent_id")


def without(records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
    """Return ``records`` without those at positions ``deleted``. See :func:`store.formats.tree_removal.without`.

    What follows a node is named in it too: there, what followed a node that is gone takes its place, and what a person
    has added after it comes last.
    """
    nodes = [object_of(record) for record in records]
    kept = tree_removal.without(records, deleted, _shape(nodes))
    present = {as_text(nodes[at].get("id")) for at in kept}
    gone = {key: node for node in nodes if (key := as_text(node.get("id"))) and key not in present}
    following: dict[str, list[str]] = {}
    for at in kept:
        following.setdefault(as_text(nodes[at].get("parent")), []).append(as_text(nodes[at].get("id")))
    return [_linked(record, nodes[at], gone, following) for at, record in kept.items()]


def _linked(
    record: bytes, node: JsonObject, gone: Mapping[str, JsonObject], following: Mapping[str, list[str]]
) -> bytes:
    children = node.get("children")
    if isinstance(children, list):
        left = list(_left(children, gone))
        left += (child for child in following.get(as_text(node.get("id")), ()) if child and child not in left)
        if left != children:
            record = put(record, ("children",), b"[%b]" % b", ".join(spell(as_text(child), record) for child in left))
    told = as_text(as_object(as_object(node.get("message")).get("metadata")).get("parent_id"))
    if told in gone:
        parent = as_text(object_of(record).get("parent"))
        record = put(record, _PARENT_ID, spell(parent, record) if parent else b"null")
    return record


def _left(children: Sequence[object], gone: Mapping[str, JsonObject]) -> Iterator[object]:
    """Yield ``children``, and in place of those that are gone what followed them."""
    pending = list(reversed(children))
    seen: set[str] = set()
    while pending:
        child = pending.pop()
        if not isinstance(child, str) or child not in gone:
            yield child
        elif child not in seen:
            seen.add(child)
            pending += reversed(as_list(gone[child].get("children")))


def _shape(nodes: Sequence[JsonObject]) -> Shape:
    """Return how nodes are linked; a result is that of the call which it follows, past other results."""
    by_id = {as_text(node.get("id")): node for node in nodes}
    called: dict[str, str] = {}
    for identifier, node in by_id.items():
        follows, seen = node, {identifier}
        while _role(follows) == "tool" and (above := as_text(follows.get("parent"))) in by_id and above not in seen:
            seen.add(above)
            follows = by_id[above]
        if _role(node) == "tool" and _is_call(follows):
            called[identifier] = as_text(follows.get("id"))

    def calls(node: JsonObject) -> Iterator[tuple[int, str, bool]]:
        identifier = as_text(node.get("id"))
        if call := called.get(identifier):
            yield WHOLE, call, False
        elif identifier and _is_call(node):
            yield WHOLE, identifier, True

    return Shape("id", "parent", ("parent",), (), calls)


def _role(node: JsonObject) -> str:
    return as_text(as_object(as_object(node.get("message")).get("author")).get("role"))


def _is_call(node: JsonObject) -> bool:
    return _role(node) == "assistant" and as_text(as_object(node.get("message")).get("recipient")) not in ("", "all")
