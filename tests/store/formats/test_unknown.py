import pytest

from store.errors import UsageError
from store.events.event import Kind
from store.formats.core.unknown import MOST_IN_HEX, as_it_is
from store.formats.registry import lens_for
from tests.store.formats.earlier import Earlier
from tests.store.formats.edited import edit_of


@pytest.mark.parametrize(
    ("payload", "kind", "text"),
    [
        (b'{"a":["x"]}', "json", '{\n  "a": [\n    "x"\n  ]\n}'),
        ("grüße\n".encode(), "text", "grüße\n"),
        (b"\x00A\xff\x80\x10", "text", "00000000 00 41 ff 80 10 |.A...|"),
        (b"\xff\xfe", "text", "00000000 ff fe |..|"),
    ],
)
def test_payloads_of_unknown_types_are_shown(payload: bytes, kind: str, text: str) -> None:
    event = lens_for("somebody.else.v7").view(payload, Earlier())
    assert event.kind is Kind.NOTE
    (block,) = event.blocks
    assert block.type == kind
    assert (block.text or "").replace(" ", "") == text.replace(" ", "")


def test_bytes_are_shown_with_their_offsets() -> None:
    event = lens_for("somebody.else.v7").view(bytes(range(256)) * 300, Earlier())
    lines = (event.blocks[0].text or "").split("\n")
    assert len(lines) == MOST_IN_HEX // 16
    assert lines[4] == "00000040  40 41 42 43 44 45 46 47 48 49 4a 4b 4c 4d 4e 4f  |@ABCDEFGHIJKLMNO|"
    assert event.header == {"shown_as": "hex", "bytes": 76_800, "shown": MOST_IN_HEX}


def test_damaged_text_is_shown_as_it_is() -> None:
    event = as_it_is(b'{"cut": "o\xff')
    assert (event.kind, event.lossy, event.blocks[0].text) == (Kind.NOTE, True, '{"cut": "o\ufffd')
    assert not as_it_is("\ufffd is a character too".encode()).lossy
    assert as_it_is(b" \r").kind is Kind.RECORD


@pytest.mark.parametrize(
    ("payload", "new", "expected"),
    [
        (b'{"a" :["x", 1.50]}\n', '{"a": ["y", 1.5]}', b'{"a" :["y", 1.50]}\n'),
        (b"[1,2]", "[2]", b"[2]"),
        (b"5", "6", b"6"),
        ("grüße\n".encode(), "Grüße\nan alle", "Grüße\nan alle".encode()),
    ],
)
def test_payloads_of_unknown_types_are_edited(payload: bytes, new: str, expected: bytes) -> None:
    lens = lens_for("somebody.else.v7")
    assert lens.edit(payload, edit_of(lens.view(payload, Earlier()).blocks[0], new), Earlier()) == expected


def test_what_of_unknown_types_cannot_be_written() -> None:
    lens = lens_for("somebody.else.v7")
    for payload in (b"\x00\x01\xff", b"\xff\xfe"):
        with pytest.raises(UsageError, match="no valid text"):
            lens.edit(payload, edit_of(lens.view(payload, Earlier()).blocks[0], "00"), Earlier())
    with pytest.raises(UsageError, match="no resource"):
        lens.edit_resource(b"{}", 0, b"x", Earlier())
    with pytest.raises(UsageError, match="by hand"):
        lens.compose(Kind.USER, "x", None, 0)
