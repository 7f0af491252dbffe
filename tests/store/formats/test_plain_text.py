import pytest

from store.errors import UsageError
from store.events.event import Kind
from store.formats.core.unknown import KINDS, TextLens
from store.formats.registry import lens_for
from tests.store.formats.earlier import Earlier
from tests.store.formats.edited import edit_of


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_is_an_event_of_its_kind(kind: Kind) -> None:
    lens = lens_for(f"text.{kind.name.lower()}.v1")
    assert isinstance(lens, TextLens)
    event = lens.view("Grüße\n".encode(), Earlier())
    assert (event.kind, event.header, event.time_ms) == (kind, {}, 0)
    [block] = event.blocks
    assert block.text == "Grüße\n"
    assert lens.edit("Grüße\n".encode(), edit_of(block, "Na dann"), Earlier()) == b"Na dann"
    assert lens.compose(kind, "Grüße", None, 0) == "Grüße".encode()


def test_what_is_blank_or_damaged() -> None:
    lens = lens_for("text.user.v1")
    assert lens.view(b" \n", Earlier()).kind is Kind.RECORD
    damaged = lens.view(b"a\xffb", Earlier())
    assert (damaged.kind, damaged.lossy, damaged.blocks[0].text) == (Kind.USER, True, "a\ufffdb")


def test_what_cannot_be_written() -> None:
    with pytest.raises(UsageError, match="is no assistant"):
        lens_for("text.user.v1").compose(Kind.ASSISTANT, "x", None, 0)
    with pytest.raises(UsageError, match="can be written"):
        TextLens(Kind.TOOL_CALL).compose(Kind.TOOL_CALL, "x", None, 0)
    with pytest.raises(UsageError, match="nothing to say"):
        lens_for("text.user.v1").compose(Kind.USER, " \n", None, 0)
