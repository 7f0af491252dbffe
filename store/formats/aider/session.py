"""Aider's history: where it lies, and how it is told from other Markdown."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from store.events.event import Kind
from store.formats.aider.lens import AiderLens
from store.formats.aider.passages import STARTED, passage_spans
from store.formats.format import About, Format, Source, Span
from store.formats.look import Look
from store.formats.titles import first_line

_HISTORY = ".aider.chat.history.md"
_begins = re.compile(rb"(?:\xef\xbb\xbf)?\s*+# aider chat started at \d{4}-\d\d-\d\d").match
_BEGINNING, _SHOWN = STARTED.encode(), len(STARTED)
_holds = re.compile(rb"^# aider chat started at \d{4}-\d\d-\d\d|^#### .", re.MULTILINE).search
_LINE_OF_COMMAND = ("/", "!")


class Aider(Format):
    """Aider, the pair programmer of Paul Gauthier."""

    name = "aider"
    lenses = (AiderLens(),)
    main_type = AiderLens.type_name
    joints = (b"\n", b"\n\n", b"\n")

    def homes(self, home: Path, cwd: Path) -> Iterator[Path]:
        """Yield the history of the repository around ``cwd``, that of ``home``, and the one that aider is told of."""
        candidates = [folder / _HISTORY for folder in (cwd, *cwd.parents, home)]
        if (moved := os.environ.get("AIDER_CHAT_HISTORY_FILE")) and home == Path.home():
            candidates.append(cwd / moved)
        yield from dict.fromkeys(path for path in candidates if path.is_file())

    def claim(self, look: Look) -> Source | None:
        """Claim a file that begins as a run of aider does, or one of its name that holds nothing else."""
        head = look.head.strip()
        own = (
            look.path.name == _HISTORY and not look.is_folder and (_holds(head) or _BEGINNING.startswith(head[:_SHOWN]))
        )
        return Source(self.name, look.path, look.path) if own or _begins(head) else None

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        """Yield the passages."""
        return passage_spans(data, start)

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Describe a history by the first request in words; it belongs to the repository that it lies in."""
        lens = AiderLens()
        passages = [lens.passage(record.decode("utf-8", "replace")) for record in records]
        asked = [passage.text for passage in passages if passage.kind is Kind.USER]
        words = [text for text in asked if not text.startswith(_LINE_OF_COMMAND)]
        folder = Path(os.path.abspath(source.path)).parent.name
        own = source.path.name == _HISTORY
        return About(
            title=first_line(next(iter([*words, *asked]), "")) or "aider",
            project=folder if own else "",
            started_ms=next((passage.time_ms for passage in passages if passage.time_ms), 0),
            session_id=folder if own else source.path.name.removesuffix(_HISTORY),
        )
