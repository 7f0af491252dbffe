"""New records at the end of every real sample session: each is an event of its kind, and a result finds its call."""

import json

import pytest

from store.events.event import Kind
from store.formats.core.composing import Particulars
from store.formats.registry import format_named, lens_for
from tests.store.formats.earlier import Earlier
from tests.store.formats.test_samples import SAMPLES, reassembled, sources

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no sample sessions at {SAMPLES} (CONVFS_SAMPLES)")
JSON = {Kind.TOOL_CALL: {"path": "a.py"}, Kind.CONFIG: {"style": "brief"}}


@pytest.mark.parametrize("name", ["claude-code", "codex", "gemini-cli", "jp", "pi", "openhands", "swe-agent"])
def test_every_kind_is_composed_at_the_end_of_a_session(name: str) -> None:
    format_ = format_named(name)
    lens = lens_for(format_.main_type)
    seen = 0
    for source in sources(format_, SAMPLES / name):
        records = reassembled(format_, source.main.read_bytes())[1]
        earlier, last, first = Earlier(), b"", records[0] if records else b""
        for record in records:
            event = earlier.add(lens.view(record, earlier))
            last = record if event.defines or not last else last
        if not last or b'"model_patch"' in first or (name == "codex" and b'"payload"' not in last):
            continue
        asked: bytes | None = None
        for kind in sorted(lens.writes):
            about = {"from_turn": 0, "to_turn": 0}
            call = Particulars("look", "call_1", JSON.get(kind), head=about, first=first, last=last, asked=asked)
            if name == "pi" and kind is Kind.NOTE and not json.loads(last).get("id"):
                # a note is a label of an entry with an id
                continue
            text = "" if kind in JSON else "So be it."
            if kind is Kind.TOOL_RESULT and name == "gemini-cli":
                assert asked
                assert b"So be it." in (lens.answered(asked, text, 1_772_739_114_356, call) or b"")
                continue
            composed = lens.compose(kind, text, last, 1_772_739_114_356, call)
            asked = composed if kind is Kind.TOOL_CALL else asked
            assert json.loads(composed)
            assert not lens.one_line or b"\n" not in composed
            event = earlier.add(lens.view(composed, earlier))
            assert event.kind is kind, (source, kind, composed)
            assert event.tool == ("look" if kind in (Kind.TOOL_CALL, Kind.TOOL_RESULT) else event.tool)
            seen += 1
    assert seen > 6
