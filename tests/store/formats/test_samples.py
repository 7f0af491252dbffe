"""Every record of every real sample session is seen as an event, and spans give the file back byte for byte."""

import os
from collections import Counter
from pathlib import Path

import pytest

from store.events.event import Kind
from store.formats.core.format import Format, Source
from store.formats.core.look import Look
from store.formats.registry import FORMATS, format_named, lens_for
from tests.store.formats.earlier import Earlier
from tests.store.formats.places import check

SAMPLES = Path(os.environ.get("CONVFS_SAMPLES") or Path(__file__).parents[4] / "shared" / "samples")

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no sample sessions at {SAMPLES} (CONVFS_SAMPLES)")


FORMAT_OF = {
    "logs.json": "llm-json",
    "api-cassettes": "api-messages",
    "chatgpt-export": "chatgpt",
    "claude-ai-export": "claude-ai",
    "specstory-md": "specstory",
}
"""Formats of samples whose folder, or file, is called otherwise."""


def sources(format_: Format, root: Path) -> list[Source]:
    claimed = (format_.claim(Look(path)) for path in sorted(root.rglob("*")))
    return list({source.path: source for source in claimed if source}.values())


def reassembled(format_: Format, data: bytes) -> tuple[bytes, list[bytes]]:
    pieces, records, position = [], [], 0
    for span in format_.spans(memoryview(data), 0):
        assert position <= span.start < span.end <= len(data)
        pieces += [data[position : span.start], data[span.start : span.end]]
        records.append(data[span.start : span.end])
        position = span.end
    return b"".join([*pieces, data[position:]]), records


@pytest.mark.parametrize(
    ("name", "folder"), [("claude-code", "claude-code"), ("codex", "codex"), ("jp", "jp"), ("pi", "pi")]
)
def test_every_record_is_an_event_and_every_byte_is_kept(name: str, folder: str) -> None:
    format_ = format_named(name)
    kinds: Counter[Kind] = Counter()
    lens = lens_for(format_.main_type)
    found = sources(format_, SAMPLES / folder)
    assert found
    for source in found:
        data = source.main.read_bytes()
        whole, records = reassembled(format_, data)
        assert whole == data
        between = len(data) - sum(map(len, records))
        assert between <= len(records) * 4 + 8, source.path
        earlier = Earlier()
        for record in records:
            event = earlier.add(lens.view(record, earlier))
            kinds[event.kind] += 1
            check(event)
            if event.kind is Kind.TOOL_RESULT and event.tool == "":
                assert event.header["id"] not in earlier.known
        for first in source.first:
            event = lens_for(format_.first_type).view(Path(first).read_bytes(), Earlier())
            check(event)
            assert event.kind is Kind.CONFIG
        about = format_.about(source, records[:200])
        assert about.project or not any(b'"cwd"' in record for record in records)
        assert about.session_id
    assert kinds[Kind.USER]
    assert kinds[Kind.TOOL_CALL]
    assert kinds[Kind.TOOL_RESULT]
    assert kinds[Kind.REASONING]
    assert kinds[Kind.NOTE] < sum(kinds.values()) / 20


def test_whole_records_are_valid_where_the_file_is() -> None:
    jp = format_named("jp")
    for source in sources(jp, SAMPLES / "jp"):
        _, records = reassembled(jp, source.main.read_bytes())
        events = [lens_for(jp.main_type).view(record, Earlier()) for record in records]
        assert all(isinstance(event.native, dict) for event in events)


def test_no_format_claims_what_another_tool_wrote() -> None:
    for path in SAMPLES.rglob("*"):
        claims = [format_.name for format_ in FORMATS if format_.claim(Look(path))]
        tool = path.relative_to(SAMPLES).parts[0]
        assert claims in ([], [FORMAT_OF.get(path.name, FORMAT_OF.get(tool, tool))]), path


def test_every_session_file_is_claimed() -> None:
    for name, pattern in (
        ("claude-code", "claude-code/**/*.jsonl"),
        ("codex", "codex/**/*.jsonl"),
        ("jp", "jp/**/events.json"),
        ("pi", "pi/*.jsonl"),
        ("aider", "aider/*.md"),
        ("api-messages", "api-cassettes/*.json"),
        ("chatgpt", "chatgpt-export/*.json"),
        ("claude-ai", "claude-ai-export/*.json"),
        ("openhands", "openhands/*.json"),
        ("specstory", "specstory-md/*.md"),
        ("swe-agent", "swe-agent/*.traj"),
    ):
        for path in SAMPLES.glob(pattern):
            assert format_named(name).claim(Look(path)), path
