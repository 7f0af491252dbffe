"""Edits that arguments tell: replacements of texts, and patches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from store.formats.core.json_view import as_object, is_object
from store.worktree.actions import Delete, Edit, Move, Write
from store.worktree.arguments import EDITS, LISTED, NEW, OLD, PATH, absolute, number_in, path_in, text_in, unwrapped
from store.worktree.patches import Change, parse_patch

_INEXACT = ("replace_using_regex", "use_regex", "ignore_case")
_FLAGGED = (True, "true")
_conflicts = re.compile(
    r"^(?:<{5,}|-{5,}) ?SEARCH>?[^\n]*\n(?::start_line:[^\n]*\n)?(?::end_line:[^\n]*\n)?(?:-{5,}\n)?(.*?)\n?"
    r"^={5,}\n(.*?)\n?^(?:>{5,}|\+{5,}) ?REPLACE",
    re.DOTALL | re.MULTILINE,
).finditer
"""Edits of Cline, Roo and Vibe: texts to look for, and those that take their place."""


def edits_of(given: Mapping[str, object], cwd: str) -> Iterator[Write | Edit]:
    """Yield the replacements of texts by others: one, or a list of them that may name a file each."""
    files = given.get(LISTED[1])
    if isinstance(files, list) and len(files) > 1:
        for file in files:
            yield from edits_of({**as_object(file), LISTED[1]: None}, cwd)
        return
    whole = path_in(given, cwd)
    changes: dict[str, list[Change]] = {}
    listed = next((given[name] for name in EDITS if name in given), None)
    if isinstance(listed, str):
        listed = unwrapped(listed)
    if isinstance(given.get("diff"), list):
        listed = given["diff"]
    blocks = text_in(given, ("diff", "content")) if listed is None and text_in(given, OLD) is None else None
    if blocks is not None:
        listed = [{"old": found[1], "new": found[2]} for found in _conflicts(blocks)]
    for one in listed if isinstance(listed, list) else [listed if is_object(listed) else given]:
        if not is_object(one) or any(held.get(name) in _FLAGGED for held in (given, one) for name in _INEXACT):
            return
        old, new = text_in(one, OLD), text_in(one, NEW)
        if old is None or new is None:
            return
        every = one.get("replace_all", one.get("replaceAll", one.get("allow_multiple"))) is True
        every = every or number_in(one, "expected_replacements") > 1
        named = one.get("paths", [own] if (own := text_in(one, PATH)) else None)
        paths = [absolute(path, cwd) for path in named if isinstance(path, str)] if isinstance(named, list) else [whole]
        for path in filter(None, paths):
            changes.setdefault(path, []).append(Change(old, new, every))
    for path, made in changes.items():
        if not made[0].old and blocks is None:
            # in the place of nothing, it is a new file
            yield Write(path, made.pop(0).new)
        if made:
            yield Edit(path, tuple(made))


def patched(patch: str, cwd: str) -> Iterator[Write | Edit | Move | Delete]:
    """Yield what a patch in the form of ``apply_patch`` does."""
    for one in parse_patch(patch):
        path = absolute(one.path, cwd)
        if one.text is not None:
            yield Write(path, one.text)
        elif one.deleted:
            yield Delete(path)
        else:
            if one.changes:
                yield Edit(path, one.changes)
            if one.to:
                yield Move(path, absolute(one.to, cwd))
