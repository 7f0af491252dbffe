"""Files of API messages: how they are told from others, how they are cut.

Nobody's own format: whoever calls a model writes them, so they are claimed only where nothing else fits, and nobody
keeps them in a place of their own. Of several documents in a file (lines for fine-tuning) each is a conversation.
"""

import os
import re
from collections.abc import Iterator, Sequence, Set
from itertools import groupby
from pathlib import Path

from blake3 import blake3

from store.formats import chat_removal
from store.formats.api_messages.documents import choose, holds_messages
from store.formats.api_messages.lens import ApiMessageLens
from store.formats.chat_messages import first_request
from store.formats.format import About, Format, Part, Source, Span
from store.formats.json_cuts import Cut, cut_spans, cuts
from store.formats.look import Look
from store.formats.titles import first_line

_KEY_DIGITS = 32
_RECORDING = ("interactions",)
_may_be = re.compile(rb'"(?:parts|role)"').search


class ApiMessages(Format):
    """Message arrays of the APIs of Anthropic, OpenAI and Gemini."""

    name = "api-messages"
    lenses = (ApiMessageLens(),)
    main_type = ApiMessageLens.type_name
    joints = (b"[\n  ", b",\n  ", b"\n]")

    def homes(self, home: Path, cwd: Path) -> Iterator[Path]:
        """Yield nothing: they lie wherever somebody put them."""
        return iter(())

    def claim(self, look: Look) -> Source | None:
        """Claim a file whose first document holds messages and nothing that other tools keep beside them."""
        if not _may_be(look.head) or not holds_messages(look.document):
            return None
        return Source(self.name, look.path, look.path)

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        """Yield messages, answers and system prompts."""
        return cut_spans(data, start, choose)

    def parts(self, source: Source, data: memoryview, spans: Sequence[Span]) -> Sequence[Part] | None:
        """Say which line each record is of, if there are lines.

        What a later request of a recording says again belongs to none.
        """
        found = list(cuts(data, choose))
        if len(found) != len(spans):
            return None
        by_document = [list(group) for _, group in groupby(enumerate(found), lambda pair: pair[1].document)]
        own = [_said_first(data, group) for group in by_document]
        is_recording = any(cut.path[:1] == _RECORDING for cut in found)
        if len(own) < 2 and not is_recording and source.path.suffix != ".jsonl":
            return None
        keys: dict[str, int] = {}
        parts: list[Part] = []
        for positions in own:
            records = [bytes(data[found[at].start : found[at].end]) for at in positions]
            # a line is what it says; a recording may grow, and is the same as long as it lies where it does
            told = [os.fsencode(os.path.abspath(source.path))] if is_recording and len(own) == 1 else records
            key = blake3(b"\n".join(told)).hexdigest()[:_KEY_DIGITS]
            keys[key] = keys.get(key, 0) + 1
            key = f"{key}-{keys[key]}" if keys[key] > 1 else key
            parts.append(Part(key, positions, self.about(source, records)))
        return parts

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Describe messages by the first that a user sent."""
        return About(title=first_line(first_request(records)), session_id=source.path.stem)

    def without(self, records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
        """Return the other messages; a call and its result go together."""
        return chat_removal.without(records, deleted)


def _said_first(data: memoryview, group: list[tuple[int, Cut]]) -> list[int]:
    """Return the positions of those records of a document that no earlier request of it held."""
    seen: set[bytes] = set()
    kept: list[int] = []
    for _request, cuts_ in groupby(group, lambda pair: pair[1].path[:-1]):
        new: set[bytes] = set()
        for at, cut in cuts_:
            digest = blake3(data[cut.start : cut.end]).digest()
            if digest not in seen:
                kept.append(at)
            new.add(digest)
        seen |= new
    return kept
