"""``events.json`` saved whole: what becomes of the records."""

import copy
import json
from collections.abc import Callable, Sequence

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fusefs.editing.bursts import Bursts
from fusefs.editing.programs import Programs
from fusefs.editing.records import EventCommits
from fusefs.editing.targets import JsonTarget
from fusefs.text.parse import ParseError
from fusefs.text.render import FileRenderer
from fusefs.tree.tree import Tree
from store.conversations.contexts import Append
from store.editing.editor import DELETED, Editor
from store.errors import Conflict
from store.ids import hash_bytes
from store.store import Store
from store.upkeep.fsck import fsck
from tests.conftest import scratch_file
from tests.store.editing.records import called, history, said, shown
from tests.store.importing.sessions import NO_SAMPLES, SAMPLES, exported, imported

CLAUDE, JP = "claude-code.line.v1", "jp.event.v1"

Json = dict[str, object]


class Whole:
    """A conversation, and its ``events.json``."""

    def __init__(self, store: Store, payloads: Sequence[bytes], type_name: str = CLAUDE) -> None:
        self.store = store
        self.context = store.contexts.create(
            metadata={
                "project": "p",
                "name": f"talk-{len(store.catalogue.page())}",
                "format": type_name.split(".", maxsplit=1)[0],
            }
        ).context
        if payloads:
            store.contexts.append_many(self.context, [Append(payload, type_name) for payload in payloads])
        self.target = target(store, self.context)

    @property
    def text(self) -> bytes:
        return self.target.drawn()

    @property
    def elements(self) -> list[Json]:
        found: list[Json] = json.loads(self.text)
        return found

    @property
    def payloads(self) -> list[bytes | None]:
        return shown(self.store, self.context)

    def save(self, data: bytes | Sequence[object]) -> int:
        """Save the file and return how many versions that makes."""
        before = len(history(self.store, self.context))
        text = data if isinstance(data, bytes) else json.dumps(data, indent=2, ensure_ascii=False).encode()
        prepared = self.target.prepare(self.target.state(), text)
        if prepared is not None:
            prepared.commit(0)
        return len(history(self.store, self.context)) - before

    def change(self, edit: Callable[[list[Json]], object]) -> int:
        elements = self.elements
        edit(elements)
        return self.save(elements)

    def refused(self, edit: Callable[[list[Json]], object]) -> str:
        before = self.payloads
        with pytest.raises(ParseError) as raised:
            self.change(edit)
        assert str(raised.value).isprintable()
        assert self.payloads == before
        return str(raised.value)


def target(store: Store, context: int) -> JsonTarget:
    tree = Tree(store)
    return JsonTarget(EventCommits(tree, Bursts(Programs(), 0)), tree.view_id(context))


def place(element: Json, *path: str | int) -> tuple[object, str | int]:
    value: object = element
    for step in path[:-1]:
        value = value[step]  # type: ignore[index]
    return value, path[-1]


def put(element: Json, path: Sequence[str | int], new: object) -> None:
    holder, key = place(element, *path)
    holder[key] = new  # type: ignore[index]


RESULT = ("message", "content", 0, "content")
TALK = [
    said("Hello", "u1"),
    called("Bash", "c1", "a2", "u1"),
    # spelled as no library would
    (
        b'{"type":"user", "n": 1.50e+3,"twice":1,"twice":2 ,"message":{"role":"user","content":[{"tool_use_id":"c1",'
        b'"type":"tool_result","content":"no \\u0066ile","is_error":true}]},"e":"\\u00e9","uuid":"u3"}'
    ),
    said("Thanks", "u4", "u3"),
]


@pytest.fixture(params=["branch", "overlay"])
def edits(request: pytest.FixtureRequest) -> str:
    """Return how edits are kept: whichever way, the same must come of it."""
    return str(request.param)


@pytest.fixture
def talk(store: Store) -> Whole:
    return Whole(store, TALK)


def test_the_same_is_no_version(talk: Whole) -> None:
    assert talk.save(talk.text) == 0
    assert talk.save(talk.elements) == 0
    assert talk.save(json.dumps(talk.elements, separators=(",", ":")).encode()) == 0
    assert talk.save(b"\xef\xbb\xbf" + talk.text.replace(b"\n", b"\r\n")) == 0


def test_a_failed_call_becomes_a_success(talk: Whole) -> None:
    def edit(elements: list[Json]) -> None:
        put(elements[2], RESULT, {"text": "a.txt\nb.txt"})
        put(elements[2], (*RESULT[:-1], "is_error"), False)

    assert talk.change(edit) == 1
    # and not a byte more
    assert talk.payloads[2] == TALK[2].replace(b'"no \\u0066ile"', b'"a.txt\\nb.txt"').replace(b"true", b"false")
    assert talk.payloads[:2] == TALK[:2]
    assert talk.payloads[3:] == TALK[3:]
    reference = {"$blob": hash_bytes(b"a.txt\nb.txt").hex(), "size": 11}
    holder, key = place(talk.elements[2], *RESULT)
    assert holder[key] == reference  # type: ignore[index]


@pytest.mark.parametrize(
    "form",
    [
        {"text": "Grüße"},
        {"blob": "R3LDvMOfZQ=="},
        "Grüße",
        {"$blob": hash_bytes("Grüße".encode()).hex(), "size": 7},
        {"$blob": hash_bytes("Grüße".encode()).hex().upper()},
        {"$blob": "blake3:" + hash_bytes("Grüße".encode()).hex()},
        {"text": "Grüße", "size": 99},
    ],
)
def test_what_may_stand_for_content(talk: Whole, form: object) -> None:
    talk.store.intake.put("Grüße".encode())
    assert talk.change(lambda elements: put(elements[2], RESULT, form)) == 1
    assert talk.payloads[2] == TALK[2].replace(b'"no \\u0066ile"', b'"Gr\\u00fc\\u00dfe"')


def test_a_reference_to_what_another_record_says(talk: Whole) -> None:
    reference = talk.elements[0]["message"]["content"]  # type: ignore[index]
    assert talk.change(lambda elements: put(elements[2], RESULT, reference)) == 1
    assert b'"content":"Hello"' in (talk.payloads[2] or b"")


def test_a_reference_to_what_the_conversation_said_earlier(talk: Whole, editor: Editor) -> None:
    reference = talk.elements[0]["message"]["content"]  # type: ignore[index]
    editor.edit(talk.context, {1: said("Goodbye", "u1")})
    editor.edit(talk.context, {4: DELETED})
    assert talk.change(lambda elements: put(elements[2], RESULT, reference)) == 1
    assert b'"content":"Hello"' in (talk.payloads[2] or b"")


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"$blob": "0" * 64, "size": 3}, r"record 3: neither .* 000000000000…: write \{\"text\": …|\{"),
        ({"$blob": hash_bytes(b"Hello").hex(), "size": 6}, "has 5 bytes and not 6"),
        ({"$blob": hash_bytes(b"Hello").hex(), "size": "5"}, "has 5 bytes"),
        ({"$blob": hash_bytes(b"Hello").hex(), "text": "x"}, "keep one"),
        ({"text": "x", "blob": "eA=="}, "keep one"),
        ({"blob": "%%"}, "no base64"),
        ({"blob": "/w=="}, "no text"),
        ({"$blob": "abc"}, "no hash"),
        ({"$blob": 5}, "string"),
        ({"text": 5}, "string"),
        ({"$blob": hash_bytes(b"Hello").hex(), "sise": 6}, "remove .*sise"),
        ({"text": "\ud800"}, "surrogate"),
    ],
)
def test_what_may_not(talk: Whole, form: object, told: str) -> None:
    elements = talk.elements
    put(elements[2], RESULT, form)
    data = json.dumps(elements, indent=2).encode()
    with pytest.raises(ParseError, match=told) as raised:
        talk.save(data)
    assert "record 3" in str(raised.value)
    line = raised.value.line
    assert data.split(b"\n")[line - 1].strip().startswith((b'"$blob"', b'"text"', b'"blob"', b'"content": {')), line


def test_what_is_removed_is_a_tombstone(talk: Whole) -> None:
    assert talk.change(lambda elements: elements.pop(1)) == 1
    assert talk.payloads == [TALK[0], None, *TALK[2:]]
    assert [element["$event"] for element in talk.elements] == [1, 3, 4]
    # and comes back with its number
    first = talk.target.state()
    elements = talk.elements
    elements.insert(1, {"$event": 2, **json.loads(TALK[1])})
    assert talk.save(elements) == 1
    assert talk.payloads == TALK
    assert talk.target.state() != first


def test_what_is_changed_and_removed_is_one_version(talk: Whole) -> None:
    def edit(elements: list[Json]) -> None:
        put(elements[3], ("message", "content"), "Bye")
        elements[0]["new"] = [1, {"a": None}]
        del elements[3]["parentUuid"]
        del elements[2]

    assert talk.change(edit) == 1
    first = TALK[0].replace(b'"uuid": "u1"}', b'"uuid": "u1", "new": [1, {"a": null}]}')
    last = TALK[3].replace(b"Thanks", b"Bye").replace(b', "parentUuid": "u3"', b"")
    assert talk.payloads == [first, TALK[1], None, last]


def test_one_that_is_added_at_the_end(talk: Whole) -> None:
    new = {"type": "user", "message": {"role": "user", "content": "More"}}
    assert talk.change(lambda elements: elements.append(dict(new))) == 1
    assert talk.payloads == [*TALK, json.dumps(new).encode()]
    assert history(talk.store, talk.context)[-1] == "add 00005"


def test_one_that_is_put_in(talk: Whole) -> None:
    new: Json = {"type": "user", "message": {"role": "user", "content": {"text": "Grüße"}}}
    assert talk.change(lambda elements: elements.insert(1, new)) == 1
    written = json.dumps({**new, "message": {"role": "user", "content": "Grüße"}}, ensure_ascii=False).encode()
    assert talk.payloads == [TALK[0], written, *TALK[1:]]
    assert [element["$event"] for element in talk.elements] == [1, 2, 3, 4, 5]
    turns = talk.store.turns.path_to_root(talk.store.writer.head(talk.context).turn)
    assert {talk.store.contents.type_name(turn.type_tag) for turn in turns} == {CLAUDE}


def test_a_copy_of_one_needs_no_number(talk: Whole) -> None:
    copied = copy.deepcopy(talk.elements[0])
    assert "leave" in talk.refused(lambda elements: elements.insert(1, copied))
    del copied["$event"]
    assert talk.change(lambda elements: elements.insert(1, copied)) == 1
    assert talk.payloads == [TALK[0], TALK[0], *TALK[1:]]


def test_arguments_that_look_like_content_stay(talk: Whole) -> None:
    call = json.loads(called("say", "c9"))
    call["message"]["content"][0]["input"] = {"text": "hi"}
    assert talk.change(lambda elements: elements.append(copy.deepcopy(call))) == 1
    assert json.loads(talk.payloads[-1] or b"") == call
    # and where such a thing was, it is changed as what it is
    put(call, ("message", "content", 0, "input"), {"text": "ho"})
    assert talk.change(lambda elements: elements[-1].update(copy.deepcopy(call))) == 1
    assert json.loads(talk.payloads[-1] or b"") == call


def test_the_order_may_change(talk: Whole) -> None:
    assert talk.change(lambda elements: elements.reverse()) == 1
    assert talk.payloads == TALK[::-1]
    assert [element["$event"] for element in talk.elements] == [1, 2, 3, 4]


def test_deleted_records_keep_their_place_where_numbers_change(talk: Whole, editor: Editor) -> None:
    editor.edit(talk.context, {2: DELETED})
    new: Json = {"type": "user", "message": {"role": "user", "content": "More"}}
    assert talk.change(lambda elements: elements.insert(2, new)) == 1
    assert talk.payloads == [TALK[0], None, TALK[2], json.dumps(new).encode(), TALK[3]]
    assert talk.change(lambda elements: elements.__delitem__(slice(0, 3))) == 1
    assert talk.payloads == [None, None, None, None, TALK[3]]
    assert talk.save(b"[]") == 1
    assert talk.payloads == [None] * 5


def test_an_earlier_state_written_back(talk: Whole) -> None:
    before = talk.text
    talk.change(lambda elements: elements.pop(1))
    talk.change(lambda elements: elements.append({"type": "user", "message": {"role": "user", "content": "More"}}))
    talk.change(lambda elements: put(elements[0], ("message", "content"), "Bye"))
    assert talk.save(before) == 1
    assert talk.payloads == [*TALK, None]
    assert talk.save(before) == 0


def test_what_was_appended_meanwhile_stays(talk: Whole) -> None:
    for edit in (
        lambda elements: put(elements[0], ("message", "content"), "Bye"),
        lambda elements: elements.insert(0, {"type": "x"}),
        lambda elements: elements.append({"type": "y"}),
    ):
        before = len(talk.payloads)
        state, elements = talk.target.state(), talk.elements
        edit(elements)
        talk.store.contexts.append(talk.context, said("meanwhile"), CLAUDE)
        prepared = talk.target.prepare(state, json.dumps(elements).encode())
        talk.store.contexts.append(talk.context, said("and then"), CLAUDE)
        assert prepared is not None
        prepared.commit(0)
        assert talk.payloads[-2:] == [said("meanwhile"), said("and then")]
        assert len(talk.payloads) == before + 2 + (len(elements) - before)


def test_what_somebody_else_changed_is_not_overwritten(talk: Whole, editor: Editor) -> None:
    state, elements = talk.target.state(), talk.elements
    put(elements[0], ("message", "content"), "Bye")
    data = json.dumps(elements).encode()
    prepared = talk.target.prepare(state, data)
    editor.edit(talk.context, {1: DELETED})
    assert prepared is not None
    with pytest.raises(Conflict):
        prepared.commit(0)
    with pytest.raises(Conflict):
        talk.target.prepare(state, data)


def test_what_somebody_else_changed_of_other_records_stays(talk: Whole, editor: Editor) -> None:
    state, elements = talk.target.state(), talk.elements
    put(elements[0], ("message", "content"), "Bye")
    prepared = talk.target.prepare(state, json.dumps(elements).encode())
    editor.edit(talk.context, {4: DELETED})
    gone = [number for number, payload in enumerate(talk.payloads) if payload is None]
    assert prepared is not None
    prepared.commit(0)
    assert [number for number, payload in enumerate(talk.payloads) if payload is None] == gone
    assert len(talk.elements) == len(elements) - 1
    [first, *_rest] = talk.payloads
    assert first is not None
    assert json.loads(first)["message"]["content"] == "Bye"


def test_an_empty_conversation_gets_records(store: Store) -> None:
    empty = Whole(store, [])
    assert empty.text == b"[]\n"
    new = {"type": "user", "message": {"role": "user", "content": {"text": "First"}}}
    assert empty.save([new]) == 1
    assert empty.payloads == [b'{"type":"user","message":{"role":"user","content":"First"}}']


# -- records that are no objects ---------------------------------------------------------------------------------------


def test_records_that_are_no_json(store: Store) -> None:
    damaged = Whole(store, [b"cut off {", b"\xff\x00"])
    other = Whole(store, [b"[1, 2.0]", b'"text"', b"\xff\x00"], "other.v1")
    assert damaged.save(damaged.elements) == other.save(other.elements) == 0

    def edit(elements: list[Json]) -> None:
        elements[0]["$raw"] = {"text": "whole"}
        elements[1] = {"$event": 2, "type": "user"}

    assert damaged.change(edit) == 1
    assert damaged.payloads == [b"whole", b'{"type":"user"}']

    def edit_other(elements: list[Json]) -> None:
        elements[0]["$value"] = [1, 2, 3]
        elements[1]["$value"] = "text\n"
        elements[2]["$raw"] = {"text": "a\nb"}

    assert other.change(edit_other) == 1
    assert other.payloads == [b"[1, 2, 3]", b'"text\\n"', b"a\nb"]
    assert "one line" in damaged.refused(lambda elements: elements[0].update({"$raw": {"text": "a\nb"}}))
    reference = {"$raw": {"$blob": hash_bytes(b"\xff\x00").hex(), "size": 2}}
    # the bytes of a record that was are content too
    assert damaged.change(lambda elements: elements.append(reference)) == 1
    assert damaged.payloads[-1] == b"\xff\x00"


# -- elements without numbers ------------------------------------------------------------------------------------------


def event(what: str, second: int, **more: object) -> bytes:
    stored = {"timestamp": f"2026-03-05 12:00:{second:02}.0", "type": what, **more}
    return json.dumps(stored, indent=2, ensure_ascii=False).replace("\n", "\n  ").encode()


JP_TALK = [
    event("turn_start", 0),
    event("chat_request", 1, content="Hello"),
    event("tool_call_request", 2, id="c1", name="ls", arguments={"path": "/nowhere\n"}),
    event("tool_call_response", 3, id="c1", content="bm8gc3VjaCBmaWxl", is_error=True),
    event("chat_response", 4, message="It is not there."),
]


@pytest.fixture
def jp(store: Store) -> Whole:
    return Whole(store, JP_TALK, JP)


def test_a_failed_call_of_jp_becomes_a_success(jp: Whole) -> None:
    assert jp.save(jp.text) == 0
    assert "$event" not in jp.elements[0]

    def edit(elements: list[Json]) -> None:
        elements[3]["content"] = {"text": "a.txt"}
        elements[3]["is_error"] = False

    assert jp.change(edit) == 1
    # what was in base64 stays so
    assert jp.payloads[3] == JP_TALK[3].replace(b"bm8gc3VjaCBmaWxl", b"YS50eHQ=").replace(b"true", b"false")
    assert [*jp.payloads[:3], jp.payloads[4]] == [*JP_TALK[:3], JP_TALK[4]]


@pytest.mark.parametrize(("said", "held"), [("b.txt", b"Yi50eHQ="), ("Yi50eHQ=", b"Yi50eHQ=")])
def test_a_bare_string_where_base64_was(jp: Whole, said: str, held: bytes) -> None:
    assert jp.change(lambda elements: elements[3].update(content=said)) == 1
    assert jp.payloads[3] == JP_TALK[3].replace(b"bm8gc3VjaCBmaWxl", held)


def test_elements_of_jp_come_go_and_move(jp: Whole) -> None:
    new: Json = {"timestamp": "2026-03-05 12:00:09.0", "type": "chat_request", "content": "More"}
    assert jp.change(lambda elements: elements.insert(2, dict(new))) == 1
    layout = json.dumps(new, indent=2).replace("\n", "\n  ").encode()
    assert jp.payloads == [*JP_TALK[:2], layout, *JP_TALK[2:]]
    assert jp.change(lambda elements: elements.pop(2)) == 1
    assert jp.payloads == [*JP_TALK[:2], None, *JP_TALK[2:]]
    assert jp.change(lambda elements: elements.append(elements.pop(0))) == 1
    assert jp.payloads == [JP_TALK[1], None, *JP_TALK[2:], JP_TALK[0]]


# -- whatever is done --------------------------------------------------------------------------------------------------

ALPHABET = st.characters(exclude_categories=["Cs"])
contents = st.one_of(st.text(ALPHABET, max_size=12), st.sampled_from(["", "Hello", "a\nb", "\x00", '"\\', "x" * 1500]))
lines = st.builds(lambda text, n: {"type": "user", "message": {"content": text}, "n": n}, contents, st.integers())
gestures = st.lists(
    st.one_of(
        st.tuples(st.just("remove"), st.integers(0, 9)),
        st.tuples(st.just("insert"), st.integers(0, 9), lines),
        st.tuples(st.just("move"), st.integers(0, 9), st.integers(0, 9)),
        st.tuples(st.just("say"), st.integers(0, 9), contents),
        st.tuples(st.just("set"), st.integers(0, 9), st.integers()),
    ),
    max_size=5,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(CLAUDE, [{"type": "user", "message": {"content": ""}, "n": 0}] * 2, [[("move", 0, 1)]])
@given(st.sampled_from([CLAUDE, JP]), st.lists(lines, min_size=1, max_size=6), st.lists(gestures, max_size=3))
def test_whatever_is_edited_is_what_the_records_then_say(
    type_name: str, records: list[Json], saves: list[list[tuple[str, int, object]]]
) -> None:
    with scratch_file("store") as root, Store.open(root, renderer=FileRenderer()) as store:
        whole = Whole(store, [json.dumps(record, ensure_ascii=False).encode() for record in records], type_name)
        for edit in saves:
            elements, wanted = whole.elements, copy.deepcopy([json.loads(one) for one in whole.payloads if one])
            before = whole.payloads
            # which of several records an element without a number is can then be a guess, and references mean nothing
            moved = any(name in ("remove", "insert", "move") for name, *_ in edit)
            for name, at, *more in edit:
                at = at % (len(elements) + (name == "insert")) if elements or name == "insert" else -1
                if at < 0:
                    continue
                match name:
                    case "remove":
                        del elements[at], wanted[at]
                    case "insert":
                        assert isinstance(more[0], dict)
                        elements.insert(at, copy.deepcopy(more[0]))
                        wanted.insert(at, copy.deepcopy(more[0]))
                    case "move":
                        assert isinstance(more[0], int)
                        to = more[0] % len(elements)
                        elements.insert(to, elements.pop(at))
                        wanted.insert(to, wanted.pop(at))
                    case "say":
                        put(
                            elements[at],
                            ("message", "content"),
                            more[0] if moved or "$blob" not in str(elements[at]["message"]) else {"text": more[0]},
                        )
                        put(wanted[at], ("message", "content"), more[0])
                    case "set":
                        elements[at]["n"] = wanted[at]["n"] = more[0]
            versions = whole.save(elements)
            assert versions <= 1
            assert [json.loads(one) for one in whole.payloads if one] == wanted
            assert (versions == 0) == (whole.payloads == before)
            assert whole.save(whole.text) == 0
        assert fsck(store) == []


def drop_one(elements: list[Json]) -> list[Json]:
    return elements[: len(elements) // 2] + elements[len(elements) // 2 + 1 :]


def add_one(elements: list[Json]) -> list[Json]:
    return [*elements, {"type": "x"}]


def turn_round(elements: list[Json]) -> list[Json]:
    return elements[::-1]


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=NO_SAMPLES)
@pytest.mark.parametrize("tool", ["claude-code", "jp"])
def test_every_sample_written_back_and_edited(store: Store, tool: str, edits: str) -> None:
    imported(store, SAMPLES / tool)
    talks = [talk for talk in store.library.conversations() if talk.records]
    # how edits are kept changes little of it
    for talk in talks if edits == "branch" else talks[::4]:
        aimed = target(store, talk.id)
        text = aimed.drawn()
        assert aimed.prepare(aimed.state(), text) is None
        elements = json.loads(text)
        # with other blanks and other escapes, all of it is read in depth
        assert aimed.prepare(aimed.state(), json.dumps(elements).encode()) is None
        with exported(store, talk) as files:
            before = files
        for edit in (drop_one, add_one, turn_round):
            elements = edit(elements)
            prepared = aimed.prepare(aimed.state(), json.dumps(elements, ensure_ascii=False, indent=1).encode())
            if prepared is not None:
                prepared.commit(0)
            elements = json.loads(aimed.drawn())
        Editor(store).restore(talk.id, 1)
        with exported(store, store.library.conversation(talk.id)) as files:
            assert files == before
