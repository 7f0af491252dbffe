"""The table of record types: which of the samples' records are shown, and which are left as bookkeeping.

Everything in the samples that reads like prose must be in an event of its conversation, or stand in one of the places
listed here, each with its reason; and what people and models said must be found by searching.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from fusefs.text.render import FileRenderer
from store.events.conversation import Conversation
from store.events.event import Event, Kind
from store.formats.core.format import Source
from store.formats.core.json_view import as_object, as_text
from store.importing.walk import walk
from store.store import Store
from tests.store.formats.test_recognition import NO_OTHERS, OTHERS
from tests.store.importing.sessions import SAMPLES, imported
from tests.store.importing.test_every_sample import check_export, some

pytestmark = pytest.mark.skipif(not OTHERS.is_dir(), reason=NO_OTHERS)

_words = re.compile(r"[^\W\d_]{2,}(?:[,;:]? [^\W\d_]{1,20}){3}").search
_plain = re.compile(r"\W+")
_INNER = ("payload", "item", "message", "event", "data", "cells")
_SEARCHED = 100
"""The most events of a format that are searched for."""

REPEATED = "says again, for the tool's screen or in another spelling, what an event says or a call did"
OWN = "is the tool's own: its settings, hooks, tools, counts"
APART = "has a file, or a place in a list, of its own"
UNTOLD = "was written for nobody: a fixture says so"
ELSEWHERE = (
    ("claude-ai", r"text", "a message's content counts, and the two differ in synthetic samples alone"),
    ("claude-code", r"attachment\.(command|stdout)|hookInfos.*|data\.command", OWN),
    ("claude-code", r"data\.(message|normalizedMessages)\b.*", APART),
    ("claude-code", r"content|lastPrompt", "waits to be sent, and comes again as a request when it is"),
    ("claude-code", r"summary", APART),
    ("claude-code", r"toolUseResult.*", REPEATED),
    ("codex", r"payload\.(aggregated_output|arguments|changes|output)\b.*", REPEATED),
    ("copilot-cli", r"data\.(error\.message|input\..*|output\.additionalContext)", OWN),
    ("copilot-cli", r"data\.(result\.detailedContent|toolRequests.*|transformedContent)", REPEATED),
    ("crush", r"json\.parts\[\]\.data\.(input|metadata)", REPEATED),
    ("cursor-ide", r"json\.value\.(initText|richText)", REPEATED),
    ("gemini-cli", r"content\[\]\.text|toolCalls\[\]\.description", OWN),
    ("kimi-code", r"action|contextSummary|event\.description", REPEATED),
    ("kimi-code", r"sessionApprovalRule|tools\[\].*", OWN),
    ("opencode-export", r"info\.summary\.diffs.*|parts\[\]\.state\.metadata\..*", REPEATED),
    ("openhands", r"extras\..*|message|observation\.metadata\.suffix|summary|tool_call\.arguments", REPEATED),
    ("openhands", r"tools\[\].*", OWN),
    ("pi", r"message\.details\.diff", REPEATED),
    ("qwen-code", r"systemPayload\.summary", UNTOLD),
    ("swe-agent", r"(\[\]\.)?(messages\[\]\.)?(action|tool_calls\[\]\.function\.arguments)", REPEATED),
)
"""Prose that is in no event: its format, its places and why."""
UNKNOWN = {
    ("codex", "error"): UNTOLD,
    ("codex", "user"): "a line of Claude Code, damaged",
    ("kiro", "FutureRecord"): UNTOLD,
}
"""Records with texts of types that nobody knows, which are shown as the JSON that they are."""


def type_of(native: object) -> str:
    """Return what a record says of its own kind."""
    record = as_object(native)
    words = [as_text(record.get("table"))]
    for holder in (record, *(as_object(record.get(name)) for name in _INNER)):
        words += [as_text(holder.get(name)) for name in ("type", "kind", "role", "event")]
    return " ".join(dict.fromkeys(word for word in words if word and len(word) < 40)) or "-"


def texts_in(value: object, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield all texts in a record, with their places."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for key, held in value.items():
            yield from texts_in(held, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list):
        for held in value:
            yield from texts_in(held, f"{place}[]")


def flat(text: str) -> str:
    """Return the letters and digits of a text, however it is escaped, wrapped or quoted."""
    return _plain.sub("", text.replace("\\n", "\n").replace("\\t", "\t").replace("\\u", "\\"))


def events_of(store: Store, conversation: Conversation) -> list[Event]:
    rows = store.records.rows(conversation.head) if conversation.head else []
    return [event for _row, event in store.viewer.events(rows) if isinstance(event, Event)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.open(tmp_path_factory.mktemp("table") / "store", renderer=FileRenderer()) as opened:
        for folder in sorted((*SAMPLES.iterdir(), *OTHERS.iterdir())):
            if folder.is_dir():
                imported(opened, folder)
        yield opened


def told_of(store: Store) -> Iterator[tuple[Conversation, list[Event]]]:
    for conversation in store.library.conversations():
        yield conversation, events_of(store, conversation)


def is_unknown(event: Event) -> bool:
    return event.kind is Kind.NOTE and any(block.name.startswith("record") for block in event.blocks)


def shown_in(events: list[Event]) -> str:
    return flat(" ".join(block.text for event in events for block in event.blocks if block.text))


def test_every_type_of_record_is_shown_or_says_nothing(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    table: dict[tuple[str, str], Counter[str]] = {}
    files: dict[str, set[str]] = {}
    unknown: set[tuple[str, str]] = set()
    for conversation, events in told_of(store):
        files.setdefault(conversation.format, set()).add(conversation.source)
        for event in events:
            of = table.setdefault((conversation.format, type_of(event.native)), Counter())
            of["kept" if event.kind is Kind.RECORD else "unknown" if is_unknown(event) else "shown"] += 1
            if is_unknown(event) and any(_words(text) for _place, text in texts_in(event.native)):
                unknown.add((conversation.format, type_of(event.native)))
    with capsys.disabled():
        print(f"\n{'format':16} {'record type':44} {'shown':>7} {'kept':>7} {'unknown':>7}")
        before = ""
        for (name, kind), counts in sorted(table.items()):
            who = "" if name == before else f"{name}, {len(files[name])} files"
            before = name
            numbers = " ".join(f"{counts[what] or '':>7}" for what in ("shown", "kept", "unknown"))
            print(f"{who:28} {kind[:32]:32} {numbers}")
    assert len(files) > 35
    assert unknown <= UNKNOWN.keys()


def test_prose_is_in_an_event_or_known_to_be_elsewhere(store: Store) -> None:
    hidden: Counter[tuple[str, str]] = Counter()
    used: set[tuple[str, str]] = set()
    for conversation, events in told_of(store):
        shown = shown_in(events) + flat(conversation.title or "")
        for event in events:
            for place, text in texts_in(event.native):
                if " " not in text or not _words(text) or flat(text) in shown:
                    continue
                known = [one for one in ELSEWHERE if one[0] == conversation.format and re.fullmatch(one[1], place)]
                used.update(one[:2] for one in known)
                hidden[conversation.format, place] += not known
    assert [place for place, count in hidden.items() if count] == []
    assert {one[:2] for one in ELSEWHERE} - used == set()


def test_what_people_and_models_said_is_found(store: Store) -> None:
    """By four words of it, among all that the samples hold."""
    while store.search.step():
        pass
    searched: Counter[str] = Counter()
    missing = []
    for conversation, events in told_of(store):
        said = [one for one in events if one.kind in (Kind.USER, Kind.ASSISTANT, Kind.QUESTION, Kind.ANSWER)]
        for event in some(said, 5):
            text = next((block.text for block in event.blocks if block.text and _words(block.text)), None)
            found = _words(text) if text else None
            if found is None or searched[conversation.format] >= _SEARCHED:
                continue
            searched[conversation.format] += 1
            hits = store.search.run(f'"{found[0]}" project:{json.dumps(conversation.project)}')
            if not any(hit.conversation.id == conversation.id for hit in hits):
                missing.append((conversation.format, conversation.name, found[0]))
    assert missing == []
    assert sum(searched.values()) > 300


def test_the_samples_come_out_as_they_went_in(store: Store) -> None:
    sources = {str(one.path): one for root in (SAMPLES, OTHERS) for one in walk(root) if isinstance(one, Source)}
    exported = 0
    for conversation in store.library.conversations():
        if (source := sources.get(conversation.source)) is not None:
            check_export(store, conversation, source)
            exported += 1
    assert exported > 150
