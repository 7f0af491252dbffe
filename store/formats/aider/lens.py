"""A passage of aider's history as an event."""

from store.errors import UsageError
from store.events.event import Kind
from store.events.usage import Running, Usage
from store.formats.aider import usage
from store.formats.aider.passages import ASKED, LINE_BREAK, PRINTED, STARTED
from store.formats.composing import check_said
from store.formats.markdown_lens import MarkdownLens, Passage
from store.formats.times import milliseconds


class AiderLens(MarkdownLens):
    """Sees requests, answers, and what aider printed."""

    type_name = "aider.passage.v1"
    telling = usage.MAY_TELL
    counts_on = True

    def passage(self, text: str) -> Passage:
        """Return what a passage holds; the first line says which kind it is."""
        if text.startswith(STARTED):
            return Passage(Kind.NOTE, text, time_ms=milliseconds(text.removeprefix(STARTED).strip()))
        if text.startswith(ASKED):
            return Passage(Kind.USER, text, mark=ASKED, ending=LINE_BREAK)
        if text.startswith(PRINTED) or text.rstrip("\r") == PRINTED.strip():
            return Passage(Kind.NOTE, text, mark=PRINTED, ending=LINE_BREAK)
        return Passage(Kind.ASSISTANT, text)

    def usage(self, payload: bytes, running: Running) -> tuple[Usage | None, Running]:
        """Return what the answer before a passage took, where aider printed it."""
        return usage.usage(payload.decode("utf-8", "replace"), running)

    def compose(self, kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
        """Return a request or an answer."""
        check_said(text.strip(), kind, (Kind.USER, Kind.ASSISTANT))
        passage = Passage(kind, "", mark=ASKED, ending=LINE_BREAK) if kind is Kind.USER else Passage(kind, "")
        written = "\n".join(f"{passage.mark}{line}{passage.ending}" for line in text.split("\n"))
        if self.passage(written).kind is not kind:
            raise UsageError("the text begins as another part of the file does: write it otherwise")
        return written.encode()
