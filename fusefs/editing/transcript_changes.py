"""The changes that an edited transcript makes to the events of a conversation, and to its title."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from fusefs.editing.records import composed, edited_payload
from fusefs.editing.rewrites import Rewrite, following, rewrite
from fusefs.text import transcript, transcript_edit
from fusefs.text.parse import ParseError
from fusefs.text.transcript_edit import Section, bare
from store.conversations.contexts import Append
from store.editing.editor import Editor
from store.errors import ConvfsError, UsageError
from store.events.conversation import Conversation, EventRow
from store.events.event import DELETED, Kind, Replacement
from store.ids import now_ms
from store.store import Store


class TranscriptChanges:
    """Compares a file with the transcript of a conversation as it was drawn of ``rows``.

    ``growing`` is the end of what is drawn now, of a turn that is still being written.
    """

    def __init__(self, store: Store, conversation: Conversation, rows: Sequence[EventRow], growing: bytes) -> None:
        self._store = store
        self._conversation = conversation
        self._growing = growing
        self._rows = rows

    def work_out(self, data: bytes) -> Rewrite | None:
        """Return the changes that ``data`` makes, None if there are none. Raises ParseError for impossible ones."""
        drawn: dict[int, str] = {}
        kinds: dict[int, Kind] = {}
        folded: dict[int, str] = {}
        for row, event in self._store.viewer.events([row for row in self._rows if row.kind is not Kind.RECORD]):
            if isinstance(event, ConvfsError):
                raise event
            text = drawn[row.number] = bare(transcript.section(row.number, event))
            if transcript.is_folded(event):
                folded[row.number] = text
            else:
                kinds[row.number] = event.kind
        saved = transcript_edit.read(data, folded)
        sections = [section for section in saved.sections if not self._is_later(section)]
        numbers = transcript_edit.numbered(sections, kinds)
        changed = [
            (number, section)
            for number, section in zip(numbers, sections, strict=True)
            if number and section.whole != drawn.get(number)
        ]
        gone = drawn.keys() - set(numbers)
        missing = {number: folded[number] for number in gone & folded.keys()}
        transcript_edit.check_missing(missing, saved.head, 1)
        for _number, section in changed:
            transcript_edit.check_missing(missing, section.text.split("\n"), section.text_line)
        title = self._title(saved.head)
        changes: dict[int, Replacement] = dict.fromkeys(gone, DELETED)
        changes |= self._changed(changed)
        order = self._order(numbers, sections, changes)
        found = rewrite(self._store, self._rows, order, changes)
        if not title:
            return found
        return Rewrite({}, title=title) if found is None else replace(found, title=title)

    def _title(self, head: Sequence[str]) -> str:
        title, line = transcript_edit.new_title(head, self._conversation)
        try:
            if title:
                Editor(self._store).described(self._conversation.id, {"title": title})
        except UsageError as error:
            raise ParseError(line, str(error)) from None
        return title

    def _is_later(self, section: Section) -> bool:
        """Return whether a section is of a turn that was still being written when it was read; it says no more."""
        if section.number <= len(self._rows):
            return False
        rows = self._store.records.rows(self._store.writer.head(self._conversation.id).tip)
        now = bare(self._growing) if section.number == len(rows) + 1 else ""
        for row, event in self._store.viewer.events(rows[section.number - 1 : section.number]):
            if isinstance(event, ConvfsError):
                raise event
            now = bare(transcript.section(row.number, event))
        if now.startswith(section.whole):
            return True
        reason = "was not complete when this was opened: open it again" if now else "is not there: write ## user"
        raise ParseError(section.line, f"event {section.number} {reason}")

    def _changed(self, sections: Sequence[tuple[int, Section]]) -> dict[int, Replacement]:
        """Return the payloads of events whose sections are not as they were drawn; a deleted one comes back."""
        rows = [self._rows[number - 1] for number, _section in sections]
        changes: dict[int, Replacement] = {}
        for (number, section), (row, event) in zip(sections, self._store.viewer.events(rows), strict=True):
            if isinstance(event, ConvfsError):
                raise event
            if event.kind is Kind.RECORD:
                raise ParseError(section.line, f"event {number} is no event that can be shown: take this section out")
            edit = transcript_edit.edit_of(number, event, section)
            try:
                payload = edited_payload(self._store, row, edit)
            except UsageError as error:
                raise ParseError(section.line, f"event {number}: {error}") from None
            if payload is not None:
                changes[number] = payload
        return changes

    def _order(
        self, numbers: Sequence[int], sections: Sequence[Section], changes: Mapping[int, Replacement]
    ) -> list[int | Append]:
        """Return all records that are shown, and the new ones among them."""
        order: list[int | Append] = []
        rows: Sequence[EventRow] = ()
        present = set(numbers)
        for number, section in zip(numbers, sections, strict=True):
            if number:
                order.append(number)
                continue
            before = order[-1] if order else 0
            if isinstance(before, int):
                behind = self._rows[: following(len(self._rows), present, before) - 1]
                rows = [row for row in behind if changes.get(row.number) is not DELETED]
            text, after = transcript_edit.new_text(section), before if isinstance(before, Append) else None
            try:
                new = composed(self._store, self._conversation, rows, section.kind, text, now_ms(), after=after)
            except UsageError as error:
                raise ParseError(section.line, str(error)) from None
            order.append(new)
        return order
