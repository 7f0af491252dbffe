import pytest

from store.events.event import Kind
from store.formats.registry import lens_for
from store.formats.unknown import as_it_is
from tests.formats.earlier import Earlier


@pytest.mark.parametrize(
    ("payload", "kind", "text"),
    [
        (b'{"a":["x"]}', "json", '{\n  "a": [\n    "x"\n  ]\n}'),
        ("grüße\n".encode(), "text", "grüße\n"),
        (b"\x00\x01\xff\x80\x10", "text", "0001 ff80 10"),
        (b"\xff\xfe", "text", "fffe"),
    ],
)
def test_payloads_of_unknown_types_are_shown(payload: bytes, kind: str, text: str) -> None:
    event = lens_for("somebody.else.v7").view(payload, Earlier())
    assert event.kind is Kind.NOTE
    (block,) = event.blocks
    assert block.type == kind
    assert (block.text or "").replace(" ", "") == text.replace(" ", "")


def test_damaged_text_is_shown_as_it_is() -> None:
    event = as_it_is(b'{"cut": "o\xff')
    assert (event.kind, event.lossy, event.blocks[0].text) == (Kind.NOTE, True, '{"cut": "o\ufffd')
    assert not as_it_is("\ufffd is a character too".encode()).lossy
    assert as_it_is(b" \r").kind is Kind.RECORD
