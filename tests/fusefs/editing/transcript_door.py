"""The matrix's gestures on a transcript: a section's text, its heading's tool, a section taken out, and a new one."""

from collections.abc import Callable, Iterator

from fusefs.editing.targets import TranscriptTarget
from fusefs.text import transcript
from fusefs.text.transcript import Part
from store.events.event import Event, Kind
from tests.fusefs.editing.matrix import NEW, Case, Gesture, Save


def texts_of(number: int, event: Event) -> list[tuple[int, Part]]:
    """Return where in a section texts stand that can be changed, which are not JSON."""
    found, at = [], len(transcript.heading(number, event))
    for part in transcript.parts(number, event, transcript.blob_target):
        at += 1 + len(part.before)
        block = part.block
        if block is not None and block.type in ("text", "resource") and block.path and not event.lossy:
            found.append((at, part))
        at += len(part.text) + len(part.after)
    return found


def _shown(case: Case) -> Event:
    """Return the event as transcripts draw it."""
    event = case.store.records.event(case.row)
    assert isinstance(event, Event)
    return event


def _saved(case: Case, change: Callable[[str], str]) -> Callable[[], object]:
    """Return what saves the transcript with another section of the event."""

    def save() -> object:
        store, target = case.store, TranscriptTarget(case.records, case.view)
        conversation = case.records.tree.view(case.view).conversation
        saved = [transcript.head(conversation).decode()]
        for row, event in store.viewer.events(store.records.rows(conversation.head)):
            assert isinstance(event, Event)
            if row.deleted or event.kind is Kind.RECORD:
                continue
            section = transcript.section(row.number, event).decode()
            saved.append(change(section) if row.number == case.row.number else section)
        prepared = target.prepare(target.state(), "".join(saved).encode())
        return None if prepared is None else prepared.commit(0)

    return save


def _edit(case: Case) -> Iterator[Save]:
    texts = texts_of(case.row.number, _shown(case))
    if texts:
        at, _part = texts[0]
        yield Save("", _saved(case, lambda section: f"{section[:at]}{NEW}: {section[at:]}"))


def _delete(case: Case) -> Iterator[Save]:
    yield Save("", _saved(case, lambda _section: ""))


def _add(case: Case) -> Iterator[Save]:
    yield Save("", _saved(case, lambda section: f"{section}\n## user\n\n{NEW}\n"))


def _tool(case: Case) -> Iterator[Save]:
    event = _shown(case)
    if event.kind is Kind.TOOL_CALL and event.tool:
        heading, tool = transcript.heading(case.row.number, event), event.tool
        before, _, after = heading.rpartition(tool)
        yield Save("tool", _saved(case, lambda section: f"{before}{tool}2{after}{section[len(heading) :]}"))


TRANSCRIPTS: tuple[Gesture, ...] = (
    Gesture("edit", "transcripts/", _edit),
    Gesture("delete", "transcripts/", _delete),
    Gesture("add", "transcripts/", _add),
    Gesture("head field", "transcripts/", _tool),
)
"""The gestures, in the order of the matrix's columns."""
