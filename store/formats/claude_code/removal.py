"""Lines taken out of a session so that the program can go on with the rest."""

from collections.abc import Iterator, Sequence, Set

from store.formats import tree_removal
from store.formats.claude_code.messages import CALLS
from store.formats.json_view import JsonObject, as_list, as_object, as_text
from store.formats.tree_removal import Shape


def without(records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
    """Return ``records`` without those at positions ``deleted``. See :func:`store.formats.tree_removal.without`."""
    return list(tree_removal.without(records, deleted, _SHAPE).values())


def _calls(line: JsonObject) -> Iterator[tuple[int, str, bool]]:
    for at, part in enumerate(as_list(as_object(line.get("message")).get("content"))):
        if isinstance(part, dict):
            is_call = as_text(part.get("type")) in CALLS
            call = part.get("id" if is_call else "tool_use_id")
            if isinstance(call, str) and call:
                yield at, call, is_call


_SHAPE = Shape("uuid", "parentUuid", ("parentUuid", "logicalParentUuid", "leafUuid"), ("message", "content"), _calls)
