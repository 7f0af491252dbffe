import base64
import json
import re
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.content import cuts
from store.content.cuts import Cut, cut, join
from store.disk import skeleton_format
from store.errors import DamageError
from store.ids import hash_bytes
from tests.store.content import samples
from tests.store.content.documents import STYLES, damaged, documents, spell, strings

_LITERAL = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
LIMITS = st.sampled_from([0, 1, 10, 48, 64, 100])
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def put_together(taken: Cut) -> bytes:
    return join(skeleton_format.decode(taken.body), dict(taken.contents))


def contents_of(payload: bytes, limit: int = 1024) -> list[bytes]:
    taken = cut(payload, limit)
    if taken is None:
        return []
    assert put_together(taken) == payload
    return [content for _, content in taken.contents]


def check_round_trip(payload: bytes, limit: int) -> None:
    taken = cut(payload, limit)
    if taken is None:
        return
    assert put_together(taken) == payload
    assert all(hash_bytes(content) == digest for digest, content in taken.contents)
    references = skeleton_format.references(taken.body)
    assert list(dict.fromkeys(references)) == [digest for digest, _ in taken.contents]


@given(st.binary(max_size=500), LIMITS)
def test_any_bytes_come_back(payload: bytes, limit: int) -> None:
    check_round_trip(payload, limit)


@given(st.text('{}[]":,\\ abu0/=', max_size=300).map(lambda text: b"{" + text.encode()), LIMITS)
def test_anything_like_json_comes_back(payload: bytes, limit: int) -> None:
    check_round_trip(payload, limit)


@given(documents, LIMITS)
def test_any_document_comes_back(payload: bytes, limit: int) -> None:
    check_round_trip(payload, limit)


@given(damaged(), LIMITS)
def test_any_damaged_document_comes_back(payload: bytes, limit: int) -> None:
    check_round_trip(payload, limit)


@given(st.lists(documents, min_size=2, max_size=3), st.sampled_from([b"", b" ", b"\r\n", b"\0" * 5]), LIMITS)
def test_several_documents_in_one_payload_come_back(payloads: list[bytes], between: bytes, limit: int) -> None:
    check_round_trip(between.join(payloads), limit)


@settings(max_examples=20)
@given(strings, strings, st.sampled_from(STYLES))
def test_long_strings_come_back(first: bytes, second: bytes, style: str) -> None:
    middle = spell("a line with <é> \u2028 and \U0001f600 in it\n" * 60, style)
    check_round_trip(b'{"a":' + first + b',"b":' + middle + b',"c":' + second + b',"d":' + middle + b"}", 1024)


@pytest.mark.parametrize("limit", [0, 64, 1024])
def test_every_sample_comes_back(limit: int) -> None:
    for payload in samples.payloads():
        check_round_trip(payload, limit)


def test_no_long_string_stays_in_a_sample() -> None:
    for payload in samples.payloads():
        taken = cut(payload, 1024)
        try:
            json.loads(payload)
        except ValueError:
            continue
        rest = bytes(skeleton_format.decode(taken.body).rest) if taken else payload
        for literal in _LITERAL.findall(rest):
            assert len(json.loads(literal, strict=False).encode(errors="replace")) < 1024


@pytest.mark.parametrize("style", ["js", "python", "go"])
def test_the_limit_is_the_length_in_utf_8(style: str) -> None:
    for text in ("é<\n\U0001f600" * 100, '"' * 800):
        size = len(text.encode())
        payload = b'{"text":' + spell(text, style) + b"}"
        assert contents_of(payload, size) == [text.encode()]
        assert contents_of(payload, size + 1) == []


def test_a_string_that_no_spelling_gives_back_leaves_as_it_is_written() -> None:
    assert contents_of(b'{"text":"' + b"a\\/b" * 300 + b'"}') == [b"a\\/b" * 300]


def test_a_limit_of_zero_takes_every_string_that_is_not_empty() -> None:
    payload = b'{"key":"value","list":["a","",{"b" : "c"}],"n":1,"same":"value"}'
    assert contents_of(payload, 0) == [b"value", b"a", b"c"]


def test_keys_stay() -> None:
    assert contents_of(b'{"' + b"k" * 2000 + b'" : "' + b"v" * 2000 + b'"}') == [b"v" * 2000]
    assert contents_of(b'{"a\\\\":"b","' + b"k" * 2000 + b'":1}') == []


def test_long_stretches_outside_strings_stay() -> None:
    numbers = b"[" + b"1, " * 1000 + b"1]"
    assert contents_of(b'{"a":' + numbers + b',"b":"c"}') == []
    assert contents_of(b'{"a":"C:\\\\","b":' + numbers + b',"c":"d"}') == []


def test_a_string_after_one_that_ends_in_a_backslash_leaves() -> None:
    long = b"x" * 3000
    for escaped in (b"C:\\\\", b"\\\\\\\\", b'\\"\\\\', b'a\\\\\\"b\\\\'):
        assert contents_of(b'{"a":"' + escaped + b'","b":"' + long + b'"}') == [long]
        assert contents_of(b'{"a":"' + long + escaped + b'","b":"c"}') == [
            json.loads(b'"' + long + escaped + b'"').encode()
        ]


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b'# A heading\n"' + b"x" * 3000 + b'"', id="Markdown"),
        pytest.param(b"\x89PNG\r\n" + b'"' + b"x" * 3000 + b'"', id="binary"),
        pytest.param(b'{"a":"' + b"x" * 3000, id="cut off in a string"),
    ],
)
def test_what_is_no_json_stays_whole(payload: bytes) -> None:
    assert cut(payload, 1024) is None


def test_blanks_and_a_byte_order_mark_may_lead() -> None:
    for lead in (b"\xef\xbb\xbf", b"\r\n\t ", b"\xef\xbb\xbf\n"):
        assert contents_of(lead + b'{"a":"' + b"x" * 3000 + b'"}') == [b"x" * 3000]


@pytest.mark.parametrize(
    "head",
    [
        b'{"system_prompt":',
        b'{"assistant": {"system_prompt" : ',
        b'{"systemPrompt": ',
        b'{"base_instructions":{"text":',
        b'{"base_instructions":',
        b'{"developer_instructions":',
        b'{"user_instructions": ',
        b'{"instructions":',
        b'{"system":',
        b'{"role":"system","content":',
        b'{"role": "system", "content": ',
    ],
)
@pytest.mark.parametrize("prompt", ["You are kind.", 'You are "kind".\n', "You are k\u00efnd." * 200])
def test_system_prompts_leave_at_any_size(head: bytes, prompt: str) -> None:
    for style in STYLES[:3]:
        assert contents_of(head + spell(prompt, style) + b',"x":{}}') == [prompt.encode()]


KIND = "You are kind."
BLOCKS = [{"type": "text", "text": KIND, "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "Be brief."}]


@pytest.mark.parametrize("role", ["system", "developer", "supervisor"])
@pytest.mark.parametrize(
    ("message", "prompts"),
    [
        ({"content": KIND}, [KIND]),
        ({"id": "m1", "content": KIND, "name": "it"}, [KIND]),
        ({"content": BLOCKS}, [KIND, "Be brief."]),
        ({"content": [KIND, {"type": "input_text", "text": "Or\nnot."}]}, [KIND, "Or\nnot."]),
        ({"content": {"type": "text", "text": KIND}}, [KIND]),
        ({"parts": [{"text": KIND}, {"inlineData": {"mimeType": "x"}}]}, [KIND]),
        ({"content": ""}, []),
        ({"content": None, "tool_calls": [{"function": {"name": "x", "arguments": "{}"}}]}, []),
    ],
)
def test_the_content_of_the_systems_message_leaves_whatever_its_role_is_called(
    role: str, message: dict[str, object], prompts: list[str]
) -> None:
    said = {"role": "user", "content": [{"type": "text", "text": "Hi"}]}
    expected = sorted(prompt.encode() for prompt in prompts)
    for whole in (
        {"role": role, **message},
        # as with keys in order
        {**message, "role": role},
        {"type": "message", "message": {**message, "role": role}, "text": "Hi"},
    ):
        for value in (whole, {"model": "m", "messages": [said, whole, said], "text": "Hi"}, [said, whole]):
            for ascii_only, indent in ((True, None), (False, 2)):
                payload = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
                assert sorted(contents_of(payload)) == expected
                # and where the end of it is missing
                assert sorted(contents_of(payload.rstrip(b" \n}]"))) in (expected, [])


@pytest.mark.parametrize(
    ("value", "prompts"),
    [
        ({"system": BLOCKS, "messages": []}, [KIND, "Be brief."]),
        ({"messages": [{"role": "user", "content": BLOCKS}], "system": [{"type": "text", "text": KIND}]}, [KIND]),
        ({"system": [KIND]}, [KIND]),
        ({"system_instruction": {"parts": [{"text": KIND}]}}, [KIND]),
        ({"systemInstruction": {"role": "user", "parts": [{"text": KIND}]}}, [KIND]),
        ({"author": {"role": "system"}, "content": {"content_type": "text", "parts": [KIND]}}, [KIND]),
        ({"content": {"content_type": "text", "parts": [KIND]}, "author": {"role": "system", "name": None}}, [KIND]),
        ({"system": {"os": "a big one", "text": "linux"}, "instructions": ["one"]}, []),
        ({"role": "user", "content": KIND}, []),
        ({"role": "system", "messages": [{"role": "user", "content": KIND}]}, []),
        ({"message": '"role": "system", "content": "You are kind."'}, []),
    ],
)
def test_prompts_in_blocks_and_by_authors(value: object, prompts: list[str]) -> None:
    payload = json.dumps(value).encode()
    assert contents_of(payload) == [prompt.encode() for prompt in prompts]


def test_a_prompt_beside_what_leaves_anyway() -> None:
    """Long strings, base64 and prompts, in any order."""
    image = base64.b64encode(PNG).decode()
    blocks = [
        {"text": "x" * 2000},
        {"text": KIND},
        {"type": "image", "source": {"data": image}},
        {"text": 'Say "hi".'},
        {"text": "\n" * 3000},
    ]
    for content in (blocks, blocks[::-1], blocks[1:-1]):
        payload = json.dumps({"role": "developer", "content": content}).encode()
        assert len(contents_of(payload)) == len(content)


def test_damaged_documents_with_prompts_come_back() -> None:
    payload = json.dumps([{"role": "system", "content": ['a "b" c', KIND, "\\" * 9 + '"' * 9]}] * 2).encode()
    for at in range(len(payload)):
        for rest in (payload[at:], payload[at + 1 :], b'"' + payload[at:]):
            contents_of(payload[:at] + rest, limit=20)
        contents_of(payload[:at], limit=20)
    contents_of(b'{"system":' * 100_000 + b'"x y"')


def test_names_that_others_use_too_mean_a_prompt_only_where_there_are_words() -> None:
    assert contents_of(b'{"system":"linux","instructions":""}') == []


@pytest.mark.parametrize("size", [len(PNG), 5000])
def test_base64_leaves_as_the_bytes_that_it_stands_for(size: int) -> None:
    image = PNG.ljust(size, b"\xfe")
    encoded = base64.b64encode(image)
    assert contents_of(b'{"source":{"type":"base64","data":"' + encoded + b'"}}') == [image]
    assert contents_of(b'{"image_url": "data:image/png;base64,' + encoded + b'"}') == [image]
    assert contents_of(b'{"blob": "' + encoded + b'"}') == [image]


def test_long_base64_leaves_decoded_wherever_it_stands() -> None:
    text = b"a line of text\n" * 200
    assert contents_of(b'{"content":"' + base64.b64encode(text) + b'"}') == [text]


def test_what_merely_looks_like_base64_stays() -> None:
    assert contents_of(b'{"data":"d41d8cd98f00b204e9800998ecf8427e"}') == []
    assert contents_of(b'{"data":"' + base64.b64encode(b"some short text, in UTF-8") + b'"}') == []
    assert contents_of(b'{"data":"c2hvcnQ="}') == []
    for text in (b"0123456789abcdef" * 200, b"x" * 2000, b"Loremipsum" * 200):
        assert contents_of(b'{"data":"' + text + b'"}') == [text]


def test_a_content_that_stands_twice_is_one_blob() -> None:
    text = b'say \\"hi\\"\\n' * 200
    taken = cut(b'{"a":"' + text + b'","b":"' + text + b'"}', 1024)
    assert taken is not None
    assert len(taken.contents) == 1
    assert len(skeleton_format.references(taken.body)) == 2


def test_a_large_payload_takes_no_more_than_a_few_times_its_size() -> None:
    payload = (
        b'{"text":"' + 'a line with a "quote" and \U0001f600 in it\\n'.replace('"', '\\"').encode() * 700_000 + b'"}'
    )
    tracemalloc.start()
    try:
        assert len(contents_of(payload)) == 1
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * len(payload)


def test_too_large_a_payload_is_opaque() -> None:
    assert cut(b'{"text":"' + b"x" * cuts.MAX_CUT_BYTES + b'"}', 1024) is None


def test_too_many_strings_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuts, "_MOST_CUTS", 100)
    assert cut(b"[" + b'"ab",' * 100 + b'"ab"]', 0) is None
    assert cut(b"[" + b'"ab",' * 99 + b'"ab"]', 0) is not None


def test_splicing_in_something_else_is_noticed() -> None:
    taken = cut(b'{"text":"' + b"x" * 3000 + b'"}', 1024)
    assert taken is not None
    with pytest.raises(DamageError):
        join(skeleton_format.decode(taken.body), {digest: b"x" * 2999 for digest, _ in taken.contents})
