"""``family.svg``: the forks and versions of a conversation as a graph. Not listed: it costs looking at all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fusefs.text.family_svg import family_svg
from fusefs.tree.drawings import DrawnFile
from fusefs.tree.paths import conversation_path
from store.errors import NotFound
from store.insight.family import family

if TYPE_CHECKING:
    from fusefs.tree.tree import Tree
    from store.store import Store

_TO_THE_ROOT = "../../../"
"""From where the file is: in the directory of a conversation, which is in one of a project, or in the trash."""


def family_drawing(tree: Tree, ino: int, view_id: int) -> DrawnFile:
    """Return the node of a conversation's ``family.svg``."""
    context = tree.view(view_id).conversation.id
    return DrawnFile(tree, ino, lambda: _drawing(tree.store, context))


def _drawing(store: Store, context: int) -> bytes:
    found = family(store, context)
    versions = {version.number: version for version in store.versions(context)}
    paths: dict[tuple[int, int], str] = {}
    for line in found.lines:
        version = versions.get(line.version)
        try:
            path = conversation_path(store, store.entry(line.context), version)
        except NotFound:
            # it was removed just now
            continue
        if path and (version is not None or not line.version):
            paths[line.context, line.version] = f"{_TO_THE_ROOT}{path}/"
    return family_svg(found, paths)
