"""Contents that ``events.json`` names by hashes: addresses that mean the same in every conversation."""

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.editing.json_changes import JsonChanges, Rewrite
from fusefs.text.events_json import document
from fusefs.text.parse import ParseError
from fusefs.text.render import FileRenderer
from fusefs.tree.view import draw_elements
from store.conversations.contexts import Append
from store.events.event import Event
from store.formats.registry import lens_for
from store.ids import Hash, hash_bytes
from store.paths import SETTINGS
from store.store import Store
from tests.fusefs.tree.mounting import add, stamp, user
from tests.store.editing.records import TYPE, returned
from tests.store.formats.earlier import Earlier

PNG = b"\x89PNG\r\n\x1a\n\x00\x00picture"
LARGE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><text>Drawn as text</text></svg>'
BASE64_TEXT = base64.b64encode(bytes(range(90))).decode()


def image(data: bytes, mime: str = "image/png") -> dict[str, object]:
    return {"type": "image", "source": {"type": "base64", "media_type": mime, "data": base64.b64encode(data).decode()}}


def message(*parts: object) -> str:
    return json.dumps({"type": "user", "message": {"role": "user", "content": list(parts)}})


LINES = [
    user("Short\nand said once", 1),
    message(image(PNG), {"type": "text", "text": "Look"}),
    message(image(LARGE)),
    message(image(SVG, "image/svg+xml")),
    user(BASE64_TEXT, 5),
    returned("x = 1\n" * 400, "c1").decode(),
    returned(json.dumps({"report": "Two\nlines"}), "c2").decode(),
]
OTHERS = [user("Something else", 1), message(image(b"\x89PNG other"), {"type": "text", "text": "There"})]


@pytest.fixture(params=[0, 1024, 1 << 20])
def store(memory_path: Path, request: pytest.FixtureRequest) -> Iterator[Store]:
    root = memory_path / "store"
    root.mkdir()
    (root / SETTINGS).write_text(f"inline_limit_bytes = {request.param}\n")
    with Store.open(root, renderer=FileRenderer()) as store:
        assert (add(store, LINES, name="one"), add(store, OTHERS, name="other")) == (1, 2)
        yield store


def whole(store: Store, context: int) -> bytes:
    rows = store.records.rows(store.writer.head(context).tip)
    return b"".join(document(element for *_, element in draw_elements(store, rows)))


def elements(store: Store, context: int) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(whole(store, context))
    return found


def worked_out(store: Store, context: int, value: object) -> Rewrite | None:
    data = value if isinstance(value, bytes) else json.dumps(value, indent=2).encode()
    head = store.writer.head(context)
    return JsonChanges(store, context, head.tip, head.depth + 1).work_out(data)


def refused(store: Store, context: int, value: object) -> ParseError:
    with pytest.raises(ParseError) as raised:
        worked_out(store, context, value)
    return raised.value


def references(value: object) -> Iterator[dict[str, object]]:
    if isinstance(value, dict):
        if "$blob" in value:
            yield value
        value = list(value.values())
    for item in value if isinstance(value, list) else ():
        yield from references(item)


def shown(payload: object) -> Event:
    assert isinstance(payload, bytes)
    return lens_for(TYPE).view(payload, Earlier())


def file_all(store: Store) -> None:
    while store.search.step():
        pass


@pytest.mark.parametrize("filed", [True, False])
def test_every_reference_resolves_in_the_whole_store(store: Store, filed: bool) -> None:
    if filed:
        file_all(store)
    named = [one for element in elements(store, 1) for one in references(element)]
    assert len(named) >= len(LINES)
    for one in named:
        digest = bytes.fromhex(str(one["$blob"]))
        content = store.addresses.content("", digest)
        assert content is not None
        assert (hash_bytes(content), len(content)) == (digest, one["size"])
        foreign = hashlib.sha256(content).digest()
        assert store.addresses.content("sha256", foreign) == store.addresses.content("", foreign) == content
        reader = store.addresses.reader("", foreign)
        assert reader is not None
        assert reader.read(1, 4) == content[1:5]
    assert store.addresses.content("", bytes(32)) is None
    assert store.search.holders.shown(Hash(bytes(32))) is None


@pytest.mark.parametrize("filed", [True, False])
@pytest.mark.parametrize("algorithm", ["", "sha256:"])
def test_elements_mean_the_same_in_another_conversation(store: Store, filed: bool, algorithm: str) -> None:
    """Text stays text, and bytes stay bytes."""
    if filed:
        file_all(store)
    pasted = elements(store, 1)
    for element in pasted:
        del element["$event"]
        for one in references(element):
            content = store.addresses.content("", bytes.fromhex(str(one["$blob"])))
            if algorithm and content is not None:
                one["$blob"] = algorithm + hashlib.sha256(content).hexdigest()
    made = worked_out(store, 2, [*elements(store, 2), *pasted])
    assert made is not None
    payloads = [item.payload for item in made.added]
    assert [json.loads(payload) for payload in payloads] == [json.loads(line) for line in LINES]
    assert [shown(payload).blocks for payload in payloads] == [shown(line.encode()).blocks for line in LINES]


def test_content_is_put_as_its_place_holds_it(store: Store) -> None:
    """Whoever pastes a picture gets a picture, a drawing that is text gets base64 where drawings are base64."""
    found = elements(store, 2)
    for data in (PNG, LARGE, SVG):
        found[1]["message"]["content"][0]["source"]["data"] = {"$blob": hash_bytes(data).hex()}  # type: ignore[index]
        made = worked_out(store, 2, found)
        assert made is not None
        assert shown(made.changes[2]).blocks[0].data == data
    new = json.loads(message(image(PNG), {"type": "text", "text": ""}))
    new["message"]["content"][0]["source"]["data"] = {"$blob": hash_bytes(SVG).hex()}
    new["message"]["content"][1]["text"] = {"$blob": hash_bytes(SVG).hex()}
    made = worked_out(store, 2, [*elements(store, 2), new])
    assert made is not None
    blocks = shown(made.added[0].payload).blocks
    assert (blocks[0].data, blocks[1].text) == (SVG, SVG.decode())


@pytest.mark.parametrize("data", [PNG, LARGE])
def test_bytes_in_the_place_of_text_are_refused_with_their_line(store: Store, data: bytes) -> None:
    for place in (0, 2):
        found = elements(store, 2)
        if place == 2:
            found.append(json.loads(message({"type": "text", "text": "A new one"})))
        content = found[place]["message"]["content"]  # type: ignore[index]
        stand_in = {"$blob": hash_bytes(data).hex()}
        if place == 2:
            content[0]["text"] = stand_in
        else:
            found[place]["message"]["content"] = stand_in  # type: ignore[index]
        text = json.dumps(found, indent=2)
        error = refused(store, 2, text.encode())
        assert error.line == text[: text.index(hash_bytes(data).hex())].count("\n")
        assert "this content is no text" in error.reason


@pytest.mark.parametrize(
    ("stand_in", "told"),
    [
        ({"text": "a", "blob": "YQ=="}, '"text" and "blob" both say what the content is'),
        ({"$blob": "0" * 64, "text": "a"}, '"$blob" and "text" both say what the content is'),
        ({"blob": "no base64!"}, "this is no base64"),
        ({"blob": "YQ="}, "this is no base64"),
        ({"$blob": "0" * 64}, "the store does not have the content 000000000000…"),
        ({"$blob": "0"}, "is no hash"),
    ],
)
@pytest.mark.parametrize("is_new", [True, False])
def test_what_says_nothing_clear_is_refused_with_its_line(
    store: Store, stand_in: dict[str, object], told: str, is_new: bool
) -> None:
    found = elements(store, 2)
    if is_new:
        found.append(json.loads(message({"type": "text", "text": "A new one"}, {"type": "text", "text": "MARK"})))
        found[-1]["message"]["content"][1]["text"] = stand_in  # type: ignore[index]
    else:
        found[1]["message"]["content"][1]["text"] = stand_in  # type: ignore[index]
    text = json.dumps(found, indent=2)
    error = refused(store, 2, text.encode())
    assert told in error.reason
    first = json.dumps(stand_in, indent=2).split("\n")[1].strip()
    assert text.split("\n")[error.line - 1].strip() == first


def test_what_is_edited_keeps_its_shape(store: Store) -> None:
    """A text that becomes a document, or one that stops being one, is a reference as before."""
    found = elements(store, 1)
    for at, text in ((5, json.dumps({"now": "a\ndocument"})), (6, "no document\n")):
        element = found[at]
        (part,) = element["message"]["content"]  # type: ignore[index]
        assert part["content"].keys() == {"$blob", "size"}
        part["content"] = {"text": text}
        made = worked_out(store, 1, found)
        assert made is not None
        store.contexts.create(metadata={"project": "p", "name": f"new{at}"})
        context = add(store, [bytes(made.changes[at + 1]).decode()], name=f"new{at}")  # type: ignore[arg-type]
        (drawn,) = elements(store, context)
        (part,) = drawn["message"]["content"]  # type: ignore[index]
        assert part["content"] == {"$blob": hash_bytes(text.encode()).hex(), "size": len(text)}
        found = elements(store, 1)


@pytest.mark.parametrize("stand_in", [{"text": "Edited\n"}, {"blob": "RWRpdGVkCg=="}, {"$blob": ""}, "Edited\n"])
def test_content_of_jp_is_a_reference_however_it_is_held(store: Store, stand_in: object) -> None:
    """JP names contents in the same form, so what was edited inline looks like what was not."""
    notes = b"# Notes\n"
    if stand_in == {"$blob": ""}:
        add(store, [user("Edited\n")], name="edited")
        stand_in = {"$blob": hash_bytes(b"Edited\n").hex()}
    for held in ({"text": notes.decode()}, {"blob": base64.b64encode(notes).decode()}):
        record = {"type": "tool_call_response", "id": "c", "content": held}
        context = store.contexts.create(metadata={"project": "p", "name": f"j{len(held)}", "format": "jp"}).context
        store.contexts.append_many(context, [Append(json.dumps(record).encode(), "jp.event.v1")])
        (found,) = elements(store, context)
        assert found["content"] == {"$blob": hash_bytes(notes).hex(), "size": len(notes)}
        assert worked_out(store, context, [found]) is None
        assert worked_out(store, context, [{**found, "id": "d"}]) is not None
        made = worked_out(store, context, [{**found, "content": stand_in}])
        assert made is not None
        assert isinstance(made.changes[1], bytes)
        lens = lens_for("jp.event.v1")
        assert [block.text for block in lens.view(made.changes[1], Earlier()).blocks] == ["Edited\n"]
        context = store.contexts.create(metadata={"project": "p", "name": f"k{len(held)}", "format": "jp"}).context
        store.contexts.append_many(context, [Append(made.changes[1], "jp.event.v1")])
        assert elements(store, context)[0]["content"] == {"$blob": hash_bytes(b"Edited\n").hex(), "size": 7}
        error = refused(store, context, [{**found, "content": {"blob": "no base64"}}])
        assert "this is no base64" in error.reason


def test_an_object_around_a_reference_is_the_records_own(store: Store) -> None:
    record = {"type": "gemini", "id": "g", "timestamp": stamp(1), "content": [{"text": "Said\nonce"}]}
    kind = "gemini-cli.record.v1"
    context = store.contexts.create(metadata={"project": "p", "name": "g", "format": "gemini-cli"}).context
    store.contexts.append_many(context, [Append(json.dumps(record).encode(), kind)])
    found = elements(store, context)
    assert found[0]["content"][0]["text"].keys() == {"$blob", "size"}  # type: ignore[index]
    made = worked_out(store, context, [*found, {key: value for key, value in found[0].items() if key != "$event"}])
    assert made is not None
    assert json.loads(made.added[0].payload) == record


def test_content_of_earlier_versions_is_found_too(store: Store) -> None:
    file_all(store)
    digest = hash_bytes(b"Short\nand said once")
    store.contexts.append_many(2, [])
    made = worked_out(store, 1, elements(store, 1)[1:])
    assert made is not None
    assert made.changes.keys() == {1}
    assert store.addresses.content("blake3", digest) == b"Short\nand said once"
