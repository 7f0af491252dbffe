"""Edits of records that hold what no tool wrote: each is made, and shows as it was written, or refused in one line."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import UsageError
from store.events.event import EventEdit, FieldEdit
from store.formats.codex.lens import CodexLens
from store.formats.core.editing import Lens
from store.formats.gemini_cli.lens import GeminiCliLens
from tests.store.formats import test_codex_lens, test_gemini_cli
from tests.store.formats.earlier import Earlier
from tests.store.formats.edited import edit_of, made_or_refused
from tests.store.formats.mutations import mutated
from tests.store.formats.rollouts import call, item, spelled

URL = "data:image/png;base64," + base64.b64encode(b"an image").decode()
CODEX = [
    *(record for record, _, _ in test_codex_lens.RECORDS),
    call("x", cmd="a\nb", deep=[{"one": "c\nd"}, 1.5, None]),
    item("message", role="user", content=[{"type": "input_image", "image_url": URL}]),
]
GEMINI = [record for record, _, _ in test_gemini_cli.RECORDS]
CASES = st.one_of(st.tuples(st.just(CodexLens()), mutated(CODEX)), st.tuples(st.just(GeminiCliLens()), mutated(GEMINI)))
ANY = st.text(st.characters(), max_size=8)


@given(CASES, ANY, ANY)
def test_an_edit_is_made_or_refused(case: tuple[Lens, bytes], text: str, value: str) -> None:
    lens, payload = case
    event = lens.view(payload, Earlier())
    for block in event.blocks:
        if block.text is None:
            continue
        edited = made_or_refused(lambda block=block: lens.edit(payload, edit_of(block, text), Earlier()))
        if isinstance(edited, bytes) and block.type != "json" and block.path and text != block.text:
            now = lens.view(edited, Earlier())
            shown = {one.path: one.text for one in now.blocks if one.type != "json"}
            assert shown.get(block.path, text) == text
    for key in ("tool", "id", "is_error", "exit_code", "status_2", "timestamp", *event.header):
        for new in (value, True, 1.5):
            change = EventEdit(fields=(FieldEdit(key, new),))
            made_or_refused(lambda change=change: lens.edit(payload, change, Earlier()))
    content = text.encode("utf-8", "replace")
    for index, resource in enumerate(event.resources):
        edited = made_or_refused(lambda index=index: lens.edit_resource(payload, index, content, Earlier()))
        if isinstance(edited, bytes):
            assert lens.view(edited, Earlier()).resources[index].data == content or resource.data == content


@pytest.mark.parametrize(("lens", "records"), [(CodexLens(), CODEX), (GeminiCliLens(), GEMINI)])
def test_half_a_character_is_refused(lens: Lens, records: list[dict[str, object]]) -> None:
    for record in records:
        payload = spelled(record)
        for block in lens.view(payload, Earlier()).blocks:
            if block.type == "text":
                with pytest.raises(UsageError, match="Unicode"):
                    lens.edit(payload, edit_of(block, "\ud800"), Earlier())
