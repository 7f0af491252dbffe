"""Every text of every sample export of a web service is where its event says, and only it changes when it is edited."""

import pytest

from store.errors import UsageError
from store.events.event import Kind
from store.formats.registry import format_named, lens_for
from tests.store.formats.earlier import Earlier
from tests.store.formats.edited import check_text_edit, edit_of
from tests.store.formats.places import check
from tests.store.formats.test_samples import FORMAT_OF, SAMPLES, reassembled, sources

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no sample sessions at {SAMPLES} (CONVFS_SAMPLES)")

NEW = 'Edited → "quoted" \\ back\nline <b>&amp; \u2028 é😀\t\x01 end'


@pytest.mark.parametrize(("folder", "least"), [("chatgpt-export", 40), ("claude-ai-export", 20)])
def test_every_text_can_be_edited_and_the_rest_stays(folder: str, least: int) -> None:
    format_ = format_named(FORMAT_OF[folder])
    lens = lens_for(format_.main_type)
    edited = 0
    for source in sources(format_, SAMPLES / folder):
        data = source.main.read_bytes()
        whole, records = reassembled(format_, data)
        assert whole == data
        spans = list(format_.spans(memoryview(data), 0))
        parts = format_.parts(source, memoryview(data), spans)
        assert parts
        assert sorted(at for part in parts for at in part.records) == list(range(len(spans)))
        earlier = Earlier(algorithm="chatgpt-file")
        for record in records:
            event = lens.view(record, earlier)
            check(event)
            for at, block in enumerate(event.blocks):
                if block.text is None:
                    continue
                assert lens.edit(record, edit_of(block, block.text), earlier) == record
                if block.type == "json":
                    continue
                if event.native is not None and (block.text or "").endswith("not in the export]"):
                    with pytest.raises(UsageError):
                        lens.edit(record, edit_of(block, NEW), earlier)
                elif not block.path:
                    assert lens.edit(record, edit_of(block, NEW), earlier) == NEW.encode()
                else:
                    check_text_edit(lens, record, earlier, event, at, NEW)
                    edited += 1
            earlier.add(event)
    assert edited > least


def test_code_that_was_run_and_what_came_of_it_belong_together() -> None:
    chatgpt = format_named("chatgpt")
    lens = lens_for(chatgpt.main_type)
    results = 0
    for source in sources(chatgpt, SAMPLES / "chatgpt-export"):
        earlier = Earlier(algorithm="chatgpt-file")
        for record in reassembled(chatgpt, source.main.read_bytes())[1]:
            event = earlier.add(lens.view(record, earlier))
            if event.kind is Kind.TOOL_RESULT:
                assert earlier.tool(str(event.header["id"])) == event.tool
                results += 1
    assert results > 5
