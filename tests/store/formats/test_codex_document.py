import json
from pathlib import Path

import pytest

from store.events.event import Kind
from store.formats.codex.session import CodexDocument, CodexItemLens
from store.formats.core.format import Source
from store.formats.core.look import Look
from tests.store.formats.earlier import Earlier
from tests.store.formats.edited import edit_of
from tests.store.formats.rollouts import SESSION, call, message, output

CODEX = CodexDocument()
LENS = CodexItemLens()
ITEMS = [
    record["payload"] for record in (message("user", "Fix the login"), call("shell", command=["ls"]), output("a\nb"))
]
WHO = {"timestamp": "2025-04-20T10:00:00.000Z", "id": SESSION, "instructions": 'Be {"brief"}'}
NAME = f"rollout-2025-04-20-{SESSION}.json"


def document(**more: object) -> bytes:
    return json.dumps({"session": WHO, "items": ITEMS} | more, indent=2).encode()


def test_documents_are_claimed_by_what_they_begin_with(tmp_path: Path) -> None:
    path = tmp_path / NAME
    for content in (
        document(),
        document(items=[]),
        b"\xef\xbb\xbf" + document()[:-60],
        json.dumps({"session": WHO, "items": []}).encode(),
    ):
        path.write_bytes(content)
        assert CODEX.claim(Look(path)) == Source("codex-json", path, path)
    for content in (b"", b'{"session": 1, "items": []}', b'{"items": []}', json.dumps(ITEMS).encode()):
        path.write_bytes(content)
        assert CODEX.claim(Look(path)) is None
    assert CODEX.claim(Look(tmp_path)) is None


def test_what_introduces_a_session_and_each_item_is_a_record(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(document())
    data = memoryview(document())
    spans = list(CODEX.spans(data, 0))
    records = [bytes(data[span.start : span.end]) for span in spans]
    assert [json.loads(record) for record in records] == [WHO, *ITEMS]
    [part] = CODEX.parts(Source("codex-json", path, path), data, spans) or []
    assert (part.key, list(part.records), part.about.title) == (SESSION, [0, 1, 2, 3], "Fix the login")
    assert part.about.started_ms == 1745143200000
    earlier = Earlier()
    seen = [earlier.add(LENS.view(record, earlier)) for record in records]
    assert [event.kind for event in seen] == [Kind.CONFIG, Kind.USER, Kind.TOOL_CALL, Kind.TOOL_RESULT]
    assert seen[0].blocks[0].text == 'Be {"brief"}'
    assert seen[3].tool == "shell"
    assert CODEX.without(records, {2}) == records[:2]


@pytest.mark.parametrize("kind", [Kind.USER, Kind.ASSISTANT])
def test_what_is_added_and_edited_is_laid_out_as_the_rest(kind: Kind) -> None:
    before = json.dumps(ITEMS[0], indent=2).replace("\n", "\n    ").encode()
    said = LENS.compose(kind, "Gut → so", before, 0)
    assert said.startswith(b'{\n      "type": "message",\n')
    seen = LENS.view(said, Earlier())
    assert (seen.kind, seen.blocks[0].text) == (kind, "Gut → so")
    damaged = LENS.view(b"{\n", Earlier())
    assert LENS.edit(b"{\n", edit_of(damaged.blocks[0], "{\n}"), Earlier()) == b"{\n}"
