"""Claude Code's session files: where they lie, how they are told from others, how they are cut.

``<project>/<session>.jsonl``, one a session; subagents are files of their own, ``agent-<id>.jsonl`` beside it or under
``<session>/subagents/``. ``<session>/tool-results/`` holds output that was too long for a line.
"""

import os
import re
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

from store.formats.claude_code import removal
from store.formats.claude_code.about import describe, is_line, is_session_name, may_title
from store.formats.claude_code.lens import ClaudeCodeLens
from store.formats.files import companions
from store.formats.format import About, Format, Source, Span
from store.formats.json_view import decode, is_object
from store.formats.lines import line_spans
from store.formats.look import Look

_agent_name = re.compile(r"agent-[\w-]+").fullmatch
_cut_off_line = re.compile(rb'\s*\{.*?(?<!\\)"(?:parentUuid|leafUuid|isSidechain|sessionId)"\s*:', re.DOTALL).match


class ClaudeCode(Format):
    """Anthropic's Claude Code."""

    name = "claude-code"
    lenses = (ClaudeCodeLens(),)
    main_type = ClaudeCodeLens.type_name
    volatile = frozenset(("sessionId", "forkedFrom"))

    def homes(self, home: Path, cwd: Path) -> Iterator[Path]:
        """Yield ``~/.claude/projects``, that of ``$CLAUDE_CONFIG_DIR``, and ``~/.config/claude/projects``."""
        candidates = [home / ".claude", home / ".config" / "claude"]
        if (moved := os.environ.get("CLAUDE_CONFIG_DIR")) and home == Path.home():
            candidates.insert(0, Path(moved))
        for candidate in dict.fromkeys(candidates):
            if (projects := candidate / "projects").is_dir():
                yield projects

    def native_home(self, home: Path) -> Path | None:
        """Return ``~/.claude/projects``, or that of ``$CLAUDE_CONFIG_DIR``."""
        moved = os.environ.get("CLAUDE_CONFIG_DIR") if home == Path.home() else None
        return Path(moved or home / ".claude") / "projects"

    def claim(self, look: Look) -> Source | None:
        """Claim a ``.jsonl`` file by its first lines; one that is empty or damaged by its name and place."""
        path = look.path
        if path.suffix != ".jsonl" or look.is_folder:
            return None
        foreign = False
        for line in look.lines():
            if ours := _is_ours(line):
                break
            foreign = foreign or ours is False
        else:
            if foreign or not _lies_like_one(path):
                return None
        return Source(self.name, path, path, sidecars=tuple(companions(path)))

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        """Yield the lines that are not empty."""
        return line_spans(data, start)

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Describe a session: its title or else its first request; the project by its working directory."""
        return describe(source.path, records)

    def titles(self, record: bytes) -> bool:
        """Say whether a line is of a type that carries a title."""
        return may_title(record)

    def without(self, records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
        """Return the other lines, linked past those that are gone; tool calls and their results go together."""
        return removal.without(records, deleted)


def _is_ours(line: bytes) -> bool | None:
    """Say whose a line is; None where damage leaves that open."""
    decoded = decode(line)
    if decoded is not None:
        return is_object(decoded.value) and is_line(decoded.value)
    return True if _cut_off_line(line) else None


def _lies_like_one(path: Path) -> bool:
    folder = path.parent
    by_place = folder.name.startswith("-") or folder.name == "subagents" or folder.parent.name == "projects"
    return by_place and (is_session_name(path.stem) or _agent_name(path.stem)) is not None
