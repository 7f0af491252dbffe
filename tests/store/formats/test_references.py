"""Contents that records name instead of holding them: edited as a resource, they are held, as after an edit of text."""

import hashlib
import json

import pytest

from store.errors import UsageError
from store.formats.core.lens import Before
from store.formats.registry import lens_for
from tests.store.formats.edited import edit_of

PNG = b"\x89PNG\r\n\x1a\n\x00\xff"
NOTES = b"# Notes\n"


def name(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Named(Before):
    """Contents by their SHA-256, or by that as an id."""

    def blob(self, algorithm: str, digest: bytes) -> bytes | None:
        wanted = digest.hex() if algorithm == "sha256" else digest.decode()
        return next((content for content in (PNG, NOTES) if name(content) == wanted), None)


def jp(uri: str, mime: str, content: bytes, *, inside: bool = True) -> dict[str, object]:
    reference = {"$blob": name(content), "size": len(content)}
    held = {"content": reference} if inside else reference
    return {"type": "chat_request", "content": "See", "resources": [{"uri": uri, "mimeType": mime, **held}]}


IMAGE = {"type": "image", "content_id": name(PNG)}
RECORDS = [
    ("jp.event.v1", jp("file:///a.png", "image/png", PNG)),
    ("jp.event.v1", jp("file:///a.png", "image/png", PNG, inside=False)),
    ("messages-jsonl.line.v1", {"role": "user", "content": [{"type": "text", "text": "See"}, IMAGE]}),
    ("messages-jsonl.line.v1", {"role": "user", "content": IMAGE}),
    ("messages-jsonl.line.v1", {"role": "user", "content": [{"type": "text", "content_id": name(NOTES)}, IMAGE]}),
    (
        "pi.entry.v1",
        {
            "type": "message",
            "message": {"role": "user", "content": [{"type": "image", "data": f"blob:sha256:{name(PNG)}"}]},
        },
    ),
]


@pytest.mark.parametrize(("type_name", "record"), RECORDS)
def test_bytes_are_edited_as_a_resource(type_name: str, record: object) -> None:
    lens, payload = lens_for(type_name), json.dumps(record).encode()
    event = lens.view(payload, Named())
    assert [resource.data for resource in event.resources] == [PNG]
    assert lens.edit_resource(payload, 0, PNG, Named()) == payload
    edited = lens.edit_resource(payload, 0, PNG + b"more", Named())
    assert name(PNG).encode() not in edited
    now = lens.view(edited, Named())
    assert [resource.data for resource in now.resources] == [PNG + b"more"]
    assert [block.text for block in now.blocks] == [block.text for block in event.blocks]
    assert [block.data for block in now.blocks] == [block.data and PNG + b"more" for block in event.blocks]
    # and again, from there
    assert lens.view(lens.edit_resource(edited, 0, PNG, Named()), Named()).resources[0].data == PNG


@pytest.mark.parametrize("inside", [True, False])
def test_text_is_edited_as_through_the_event(inside: bool) -> None:
    lens = lens_for("jp.event.v1")
    payload = json.dumps(jp("file:///a.md", "text/markdown", NOTES, inside=inside)).encode()
    event = lens.view(payload, Named())
    (block,) = (block for block in event.blocks if block.uri)
    assert lens.edit_resource(payload, 0, b"new\n", Named()) == lens.edit(payload, edit_of(block, "new\n"), Named())
    with pytest.raises(UsageError, match="no UTF-8"):
        lens.edit_resource(payload, 0, PNG, Named())
