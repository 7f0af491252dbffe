"""The session files of pi and oh-my-pi: where they lie, how they are told from others, how they are cut.

``sessions/<working directory>/<time>_<id>.jsonl``, one a session. A folder of the same name without ``.jsonl`` holds
what the tools' outputs were too long for (``<n>.<tool>.log``), what subagents answered (``<id>.md``), and the
subagents' own sessions (``<id>.jsonl``). Images lie in ``blobs/`` beside ``sessions/``.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path

from store.formats.files import companions
from store.formats.format import About, ExternalBlob, Format, Source, Span
from store.formats.json_view import JsonObject, as_object, decode
from store.formats.lines import line_spans
from store.formats.look import Look
from store.formats.pi import removal
from store.formats.pi.about import describe, may_title
from store.formats.pi.blobs import referenced_blobs
from store.formats.pi.entries import BOOKKEEPING_TYPES, VIEWS
from store.formats.pi.lens import PiLens
from store.formats.pi.outside import moved_outside
from store.formats.pi.title_slot import is_slot

_is_session_name = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:-\d+)?Z_.+").fullmatch
_ROLES = frozenset(("assistant", "bashExecution", "custom", "hookMessage", "toolResult", "user"))
_cut_off_line = re.compile(rb'\s*+\{"type":"(?:session|message|compaction)",.{0,200}?"(?:parentId|cwd|message)":').match


class Pi(Format):
    """pi, and oh-my-pi, which began as a copy of it."""

    name = "pi"
    lenses = (PiLens(),)
    main_type = PiLens.type_name
    outputs_beside = True

    def homes(self, home: Path, cwd: Path) -> Iterator[Path]:
        """Yield the folders of sessions in ``~/.pi`` and ``~/.omp``, and where the environment moves them to."""
        moved = os.environ if home == Path.home() else {}
        candidates = [Path(folder) for folder in (moved.get("PI_CODING_AGENT_SESSION_DIR"),) if folder]
        if folder := moved.get("PI_CODING_AGENT_DIR"):
            candidates.append(Path(folder, "sessions"))
        for name in (".pi", moved.get("PI_CONFIG_DIR") or ".omp"):
            candidates.append(home / name / "agent" / "sessions")
            candidates += sorted((home / name / "profiles").glob("*/agent/sessions"))
        candidates.append(Path(moved.get("XDG_DATA_HOME") or home / ".local" / "share", "omp", "sessions"))
        yield from (folder for folder in dict.fromkeys(candidates) if folder.is_dir())

    def native_home(self, home: Path) -> Path | None:
        """Return the folder of pi's sessions, or where the environment moves it to."""
        moved = os.environ if home == Path.home() else {}
        folder = moved.get("PI_CODING_AGENT_DIR") or home / ".pi" / "agent"
        return Path(moved.get("PI_CODING_AGENT_SESSION_DIR") or Path(folder, "sessions"))

    def claim(self, look: Look) -> Source | None:
        """Claim a ``.jsonl`` file by its first lines; one that is empty or damaged by its name and place."""
        path = look.path
        if path.suffix != ".jsonl" or look.is_folder:
            return None
        objects = look.objects()
        if not any(map(_is_ours, objects)) and (objects or not _is_damaged_one(look)):
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

    def blobs(self, source: Source, payload: bytes) -> Iterator[ExternalBlob]:
        """Yield the images that ``payload`` refers to."""
        return referenced_blobs(source.path, payload)

    def moved_outside(self, record: bytes, beginning: bytes) -> tuple[bytes, Mapping[str, bytes]]:
        """Return a line with references to its images, and the images, for ``blobs/``; of oh-my-pi's sessions alone.

        pi knows no references.
        """
        return (
            moved_outside(record)
            if is_slot(as_object(decoded.value) if (decoded := decode(beginning)) else {})
            else (record, {})
        )

    def without(self, records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
        """Return the other lines, linked past those that are gone; tool calls and their results go together."""
        return removal.without(records, deleted)


def _is_ours(line: JsonObject) -> bool:
    match line:
        case {"type": "session", "id": str(), "timestamp": str()}:
            return "cwd" in line or "version" in line
        case {"type": str(what), "id": str(), "parentId": _, "timestamp": str()}:
            return what in VIEWS or what in BOOKKEEPING_TYPES
        case {"type": "message", "timestamp": str(), "message": {"role": str(role)}}:
            return role in _ROLES and "uuid" not in line
    return is_slot(line)


def _is_damaged_one(look: Look) -> bool:
    if any(map(_cut_off_line, look.lines())):
        return True
    path = look.path
    return _is_session_name(path.stem) is not None and path.parent.parent.name == "sessions"
