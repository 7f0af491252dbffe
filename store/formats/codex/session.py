"""Codex's rollouts: where they lie, how they are told from others, how they are cut.

``$CODEX_HOME/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl``, one a session, subagents' too; what a user archives is in
``archived_sessions``. A fork is a file that begins with a line of its own, then has the lines of the session that it
was made from, with new times, and goes on.
"""

import os
import re
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

from store.formats.codex import removal
from store.formats.codex.about import describe, is_rollout_name, may_title
from store.formats.codex.lens import CodexLens
from store.formats.codex.records import is_line
from store.formats.format import About, Format, Source, Span
from store.formats.lines import line_spans
from store.formats.look import Look

_LOOKED_AT = 20
_FOLDERS = ("sessions", "archived_sessions")
_cut_off_line = re.compile(
    rb'\s*\{\s*"timestamp"\s*:\s*"[^"]*"\s*,\s*"type"\s*:\s*"'
    rb'(?:session_meta|response_item|event_msg|turn_context|compacted|world_state)"'
).match


class Codex(Format):
    """OpenAI's Codex."""

    name = "codex"
    lenses = (CodexLens(),)
    main_type = CodexLens.type_name
    volatile = frozenset(("timestamp",))

    def homes(self, home: Path, cwd: Path) -> Iterator[Path]:
        """Yield ``sessions`` and ``archived_sessions`` of ``~/.codex`` and of ``$CODEX_HOME``."""
        candidates = [home / ".codex"]
        if (moved := os.environ.get("CODEX_HOME")) and home == Path.home():
            candidates.insert(0, Path(moved))
        for candidate in dict.fromkeys(candidates):
            yield from (folder for name in _FOLDERS if (folder := candidate / name).is_dir())

    def native_home(self, home: Path) -> Path | None:
        """Return ``sessions`` of ``~/.codex``, or of ``$CODEX_HOME``."""
        moved = os.environ.get("CODEX_HOME") if home == Path.home() else None
        return Path(moved or home / ".codex") / "sessions"

    def claim(self, look: Look) -> Source | None:
        """Claim a ``.jsonl`` file by its first lines; one that is empty or damaged by its name and place."""
        path = look.path
        if path.suffix != ".jsonl" or look.is_folder:
            return None
        if objects := look.objects(_LOOKED_AT):
            ours = 2 * sum(map(is_line, objects)) > len(objects)
        else:
            ours = any(map(_cut_off_line, look.lines(_LOOKED_AT))) or _lies_like_one(path)
        if not ours:
            return None
        return Source(self.name, path, path)

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        """Yield the lines that are not empty."""
        return line_spans(data, start)

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Describe a session: its name or else its first request; the project by its working directory."""
        return describe(source.path, records)

    def titles(self, record: bytes) -> bool:
        """Say whether a line names the session."""
        return may_title(record)

    def without(self, records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
        """Return the other lines; calls and their outputs go together, and so do items and their events."""
        return removal.without(records, deleted)


def _lies_like_one(path: Path) -> bool:
    return is_rollout_name(path.name) and any(above.name in _FOLDERS for above in path.parents)
