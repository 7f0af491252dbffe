"""``store/PROTOCOL.md`` tells the truth: its examples are what is sent, and every message is listed."""

import re
from pathlib import Path

from blake3 import blake3

from fusefs.daemon.calls import ALL_OPERATIONS
from store.events.conversation import Change
from store.ids import Hash
from store.service import frames, wire
from store.service.call import NOTHING, Form, form_of
from store.service.calls import CALLS, watch
from store.service.frames import Decoder, Frame
from store.service.protocol import MESSAGES
from store.service.wire import (
    AttachFs,
    BeforeAnswer,
    BlobAnswer,
    GetBefore,
    GetBlob,
    GetLast,
    GetRange,
    PutAnswer,
    PutBlob,
    RangeAnswer,
    TurnItem,
    TurnsAnswer,
)

DOC = (Path(frames.__file__).parents[1] / "PROTOCOL.md").read_text(encoding="utf-8")
PAYLOAD = b"\x81\x01\x02"
HASH = Hash(blake3(PAYLOAD).digest())
TREE = Hash(blake3(b"a tree of files").digest())
ITEM = TurnItem(9, 8, 5, "demo.Note", 3, 1, wire.NONE, 3, HASH, PAYLOAD)
HELLO = wire.Hello(1, "demo", b'{"token":"secret"}')
APPEND = (1, 0, "demo.Note", 3, 1, 0, 3, HASH, PAYLOAD, b"k1")

VALUES = {
    "create": wire.CreateContext(0),
    "fork": wire.ForkContext(8),
    "get head": wire.GetHead(1),
    "head": wire.HeadAnswer(1, 9, 5),
    "append": wire.AppendTurn(*APPEND),
    "appended": wire.Appended(1, 9, 5, HASH),
    "get last": GetLast(1, 64, True),
    "turns": TurnsAnswer([ITEM]),
    "get before": GetBefore(1, 10, 64, True),
    "turns before": BeforeAnswer([ITEM], 9),
    "get range": GetRange(1, 5, 64, True),
    "turns of a range": RangeAnswer(6, [ITEM]),
    "get blob": GetBlob(HASH),
    "blob": BlobAnswer(PAYLOAD),
    "put blob": PutBlob(HASH, PAYLOAD),
    "blob put": PutAnswer(HASH, True),
    "attach fs": AttachFs(9, TREE),
}
FRAMES = {
    "hello": Frame(1, 1, HELLO.encode()),
    "hello answer": Frame(1, 1, wire.HelloAnswer(7, 1).encode()),
    "error": frames.error_frame(2, 404, "there is no context 99"),
    "ours": Frame(272, 3, b'{"turn":9}'),
}
WITH_TREE = wire.AppendTurn(*APPEND, fs_root=TREE)
EXAMPLES = (
    {name: value.encode() for name, value in VALUES.items()}
    | {name: frames.encode(frame) for name, frame in FRAMES.items()}
    | {"append with a tree": WITH_TREE.encode()}
)


def documented() -> dict[str, bytes]:
    """Return the bytes of each example; what follows two blanks on a line is a remark."""
    found = {}
    for name, block in re.findall(r"^```hex ([a-z ]+)\n(.*?)^```$", DOC, re.DOTALL | re.MULTILINE):
        assert name not in found
        found[name] = bytes.fromhex("".join(re.split(r"  +", line.strip())[0] for line in block.splitlines()))
    return found


def rows(header: str) -> list[list[str]]:
    [block] = re.findall(rf"^{re.escape(header)}\n\|[-|: ]+\|\n((?:\|.*\n)+)", DOC, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]


def test_every_example_is_what_the_code_sends() -> None:
    assert documented() == EXAMPLES


def test_the_examples_are_read_back() -> None:
    found = documented()
    for name, value in VALUES.items():
        assert type(value).decode(found[name]) == value
    for name, frame in FRAMES.items():
        assert list(Decoder().feed(found[name])) == [frame]
    assert wire.AppendTurn.decode(found["append with a tree"], wire.FS_ROOT) == WITH_TREE


def test_every_message_is_listed() -> None:
    listed = {int(number): name for number, name, *_ in rows("| number | name | flags | request | answer |")}
    known = {number: kind.name for number, kind in MESSAGES.items()}
    assert listed == known | {wire.Hello.number: wire.Hello.name, frames.ERROR: "ERROR"}


def test_every_flag_of_a_message_is_listed() -> None:
    known = {1: "1", 2: "2", 4: "4", 8: "8"}
    for number, _name, flags, *_ in rows("| number | name | flags | request | answer |"):
        kind = MESSAGES.get(int(number))
        if kind is None:
            continue
        payload = documented()[
            {2: "create", 3: "fork", 4: "get head", 5: "append", 6: "get last", 7: "get before", 8: "get range",
             9: "get blob", 10: "attach fs", 11: "put blob"}[int(number)]
        ]  # fmt: skip
        plain = kind.decode(payload)
        taken = [
            name
            for flag, name in known.items()
            if kind.decode(payload + (TREE if flag == wire.FS_ROOT else b""), flag) != plain
        ]
        assert ", ".join(taken) == flags
        assert kind.known == sum(map(int, taken))


OURS = {call.number: call for call in (*(one.loaded() for one in ALL_OPERATIONS), *CALLS)}


def test_every_message_of_ours_is_listed_with_its_parameters() -> None:
    listed = {
        int(number): set(re.findall(r"`(\w+)`", parameters))
        for number, _what, parameters, *_ in rows("| number | what it does | parameters | items | result |")
    }
    assert listed == {number: set(call.params.__struct_encode_fields__) for number, call in OURS.items()}
    assert all(f"`{field}`" in DOC for field in Change.__struct_fields__)


def exchanges() -> dict[int, list[tuple[str, Frame]]]:
    """Return the frames of our own messages as they are shown, by message, each with the way that it goes."""
    [block] = re.findall(r"^```frames\n(.*?)^```$", DOC, re.DOTALL | re.MULTILINE)
    found: dict[int, list[tuple[str, Frame]]] = {}
    for message in re.split(r"^# ", block, flags=re.MULTILINE)[1:]:
        number, lines = message.split("\n", 1)
        for line in lines.replace("\n  ", "").splitlines():
            way, header, payload = line[0], bytes.fromhex(line[2:49]), line[50:].encode()
            [frame] = Decoder().feed(header + payload)
            assert frames.encode(frame) == header + payload
            found.setdefault(int(number), []).append((way, frame))
    return found


def same(payload: bytes, form: Form) -> bool:
    """Whether a payload is of a form, and is what a value of it is sent as."""
    return form.encode(form.decode(payload)) == payload


def test_every_message_of_ours_is_shown_both_ways() -> None:
    shown = exchanges()
    assert set(shown) == set(OURS)
    for number, sent in shown.items():
        assert {frame.msg_type for _, frame in sent} == {number}
        assert [way for way, _ in sent] == [">"] + ["<"] * (len(sent) - 1)
        call, (_, request), answers = OURS[number], sent[0], [frame for _, frame in sent[1:]]
        assert request.flags == 0
        assert same(request.payload, form_of(call.params))
        # who watches is told of changes until the connection ends
        items = [answers.pop(0) for _ in range(len(answers) - (call is not watch))]
        assert bool(items) == (call.item is not NOTHING)
        for item in items:
            assert item.flags == frames.MORE
            assert same(item.payload, call.item)
        for result in answers:
            assert result.flags == 0
            assert same(result.payload, call.result)


def test_every_code_is_listed() -> None:
    codes = {int(code) for code, _meaning in rows("| code | meaning |")}
    assert codes == {frames.NOT_FOUND, frames.CONFLICT, frames.TOO_LARGE, frames.INVALID, frames.FAILED}
