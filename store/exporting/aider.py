"""aider's chat histories: Markdown files in the directory that is worked in, which aider reads as it is told to."""

from collections.abc import Iterator
from pathlib import PurePath

from store.errors import UsageError
from store.events.conversation import Conversation
from store.events.event import Kind
from store.exporting.dialogue import lost_kind, said
from store.exporting.sessions import NewSession, SessionTarget
from store.formats.aider import STARTED, AiderLens
from store.formats.core.json_view import JsonObject


class Aider(SessionTarget):
    """The texts of people and models; aider has no calls of tools."""

    name = "aider"

    def path(self, conversation: Conversation, session: str) -> PurePath:
        return PurePath(f".aider.chat.history-{session[:8]}.md")

    def written(self, session: NewSession) -> Iterator[bytes]:
        lens = AiderLens()
        yield f"\n{STARTED}{session.started[:19].replace('T', ' ')}\n\n".encode()
        for step in session.dialogue.steps():
            kind = Kind.USER if step.kind is Kind.SUMMARY else step.kind
            if kind not in (Kind.USER, Kind.ASSISTANT):
                session.losses.add(lost_kind(step), step.number)
            elif text := said(step, session.losses).strip():
                try:
                    yield lens.compose(kind, text, None, 0) + b"\n\n"
                except UsageError:
                    session.losses.add("a message that begins as another part of aider's file does", step.number)

    def lines(self, session: NewSession) -> Iterator[JsonObject]:
        """Yield none: the file is Markdown."""
        return iter(())
