"""Sessions of the first Codex, which was written in TypeScript: ``rollout-<date>-<id>.json``, one document each.

``{"session": {"timestamp", "id", "instructions"}, "items": [...]}``, with items as on the lines of later ones.
"""

import re
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

from store.events.event import Path as Place
from store.formats.codex import removal
from store.formats.codex.about import describe
from store.formats.codex.lens import CodexLens
from store.formats.format import About, Format, Part, Source, Span
from store.formats.json_cuts import LITERAL, Choice, cut_spans
from store.formats.look import Look

_beginning = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*+\{\s*+"session"\s*+:\s*+\{(?:[^{}"]++|' + LITERAL + rb')*+\}\s*+,\s*+"items"\s*+:\s*+\['
).match
_DESCRIBING = 200


class CodexItemLens(CodexLens):
    """Sees the items of a document."""

    type_name = "codex.item.v1"
    one_line = False


class CodexDocument(Format):
    """OpenAI's Codex, as it was until summer 2025."""

    name = "codex-json"
    lenses = (CodexItemLens(),)
    main_type = CodexItemLens.type_name
    joints = (b'{\n  "items": [\n    ', b",\n    ", b"\n  ]\n}\n")

    def homes(self, home: Path, cwd: Path) -> Iterator[Path]:
        """Yield nothing: they lie among those of later versions."""
        return iter(())

    def claim(self, look: Look) -> Source | None:
        """Claim a file that begins as such a document does."""
        if look.is_folder or not _beginning(look.head):
            return None
        return Source(self.name, look.path, look.path)

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        """Yield what introduces the session, and the items."""
        return cut_spans(data, start, _choose)

    def parts(self, source: Source, data: memoryview, spans: Sequence[Span]) -> Sequence[Part] | None:
        """Say that all are one conversation: what stands between its first two records is no separator."""
        about = self.about(source, [bytes(data[span.start : span.end]) for span in spans[:_DESCRIBING]])
        return [Part(about.session_id, range(len(spans)), about)]

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Describe a session as those on lines are."""
        return describe(source.path, records)

    def without(self, records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
        """Return the other items; calls and their outputs go together."""
        return removal.without(records, deleted)


def _choose(path: Place) -> Choice:
    match path:
        case () | ("items",):
            return Choice.ENTER
        case ("session",) | ("items", int()):
            return Choice.TAKE
    return Choice.PASS
