"""Secrets in all their spellings: found, and taken out so that what is around them stays what it was."""

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import UsageError
from store.redaction.secrets import MARK, Secrets

SECRET = 'hunter2 "Schwert\u00fcsch" \u2192\n\t\\end/'
PLAIN = "sk-live-0123456789abcdef"


def secrets(*texts: str) -> Secrets:
    return Secrets(text.encode() for text in texts)


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
@pytest.mark.parametrize("text", [SECRET, PLAIN])
def test_json_in_json_is_found_and_stays_json(text: str, depth: int, ascii_only: bool) -> None:
    value: object = {"before": "a\\b", "text": f"say {text}!", "after": [1, "x"]}
    for _ in range(depth):
        value = {"arguments": json.dumps(value, ensure_ascii=ascii_only)}
    data = json.dumps(value, ensure_ascii=ascii_only).encode()
    known = secrets(text)
    assert known.hold(data)
    removed = json.loads(known.removed(data))
    for _ in range(depth):
        removed = json.loads(removed["arguments"])
    assert removed == {"before": "a\\b", "text": f"say {MARK.decode()}!", "after": [1, "x"]}
    blanked = known.blanked(data)
    assert len(blanked) == len(data)
    assert not known.hold(blanked)
    json.loads(blanked)


def test_letters_as_escapes_are_found() -> None:
    data = b'{"key": "' + b"".join(b"\\u%04X" % ord(letter) for letter in PLAIN) + b'"}'
    assert json.loads(secrets(PLAIN).removed(data)) == {"key": MARK.decode()}


def test_what_only_looks_like_it_behind_a_backslash_stays_json() -> None:
    data = json.dumps({"text": "\nfoot", "more": "\u00e9abc1"}).encode()
    assert b"nfoot" in data
    json.loads(secrets("nfoot", "9abc1").removed(data))


def test_a_backslash_at_the_end_takes_no_quote_along() -> None:
    data = json.dumps({"text": 'C:\\temp\\"', "x": "C:\\temp\\"}).encode()
    assert json.loads(secrets("C:\\temp\\").removed(data)) == {"text": f'{MARK.decode()}"', "x": MARK.decode()}


@pytest.mark.parametrize("before", range(7))
@pytest.mark.parametrize("urlsafe", [False, True])
def test_base64_is_found_at_every_alignment(before: int, urlsafe: bool) -> None:
    encode = base64.urlsafe_b64encode if urlsafe else base64.b64encode
    decode = base64.urlsafe_b64decode if urlsafe else base64.b64decode
    secret = "k\u00ff\u00fe?>k\u00ff~~~secret"
    original = b"\xff" * before + secret.encode() + b"and more"
    data = b'{"data":"' + encode(original) + b'"}'
    known = secrets(secret)
    removed = known.removed(data)
    assert len(removed) == len(data)
    content = decode(json.loads(removed)["data"])
    assert content.startswith(b"\xff" * before + MARK)
    assert content.endswith(b"and more")
    assert len(content) == len(original)
    assert not known.hold(removed)


@pytest.mark.parametrize("line", ["\n", "\r\n", "\\n", "\\r\\n"])
def test_base64_in_lines_is_found(line: str) -> None:
    encoded = base64.b64encode(b"x" * 50 + PLAIN.encode() + b"y" * 90).decode()
    lines = line.join(encoded[at : at + 64] for at in range(0, len(encoded), 64))
    data = f"begin{line}{lines}{line}end".encode()
    known = secrets(PLAIN)
    assert known.hold(data)
    removed = known.removed(data)
    assert len(removed) == len(data)
    assert removed.count(line.encode()) == data.count(line.encode())
    assert not known.hold(removed)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_found(encoding: str) -> None:
    data = f"password: {PLAIN}.".encode(encoding)
    removed = secrets(PLAIN).removed(data)
    assert removed.decode(encoding) == f"password: {'*' * len(PLAIN)}."


def test_urls_are_found() -> None:
    secret = "p\u00e4ss word/1"
    known = secrets(secret)
    for safe in ("/", ""):
        data = f"https://x/?q={quote(secret, safe=safe)}&y=1".encode()
        assert known.removed(data) == b"https://x/?q=[redacted]&y=1"


def test_other_compositions_are_found() -> None:
    assert secrets("caf\u00e9 noir").removed("le cafe\u0301 noir".encode()) == b"le " + MARK


def test_of_overlapping_secrets_nothing_stays() -> None:
    assert secrets("abcdef", "defghi", "abcd").removed(b"xabcdefghix") == b"x" + MARK + b"x"
    assert secrets("secret", "secret-2").removed(b"secret-2 secret") == MARK + b" " + MARK


def test_bytes_that_are_no_text_are_found() -> None:
    assert Secrets([b"\xff\xfe\x00\x01"]).removed(b"a\xff\xfe\x00\x01b") == b"a" + MARK + b"b"


def test_many_are_found_at_once() -> None:
    many = [f"token-{number:05}-{number * 7919:08x}" for number in range(300)]
    known = secrets(*many)
    data = f"x {many[17]} y {many[299]}".encode()
    assert known.removed(data) == b"x [redacted] y [redacted]"
    assert known.removed(base64.b64encode(b"ab" + many[4].encode())) != base64.b64encode(b"ab" + many[4].encode())
    assert not known.hold(b"token-00000-xx token-")


def test_what_is_too_short_is_refused() -> None:
    with pytest.raises(UsageError, match="3 bytes are too few"):
        secrets("abc")


def test_nothing_is_found_by_no_secret() -> None:
    assert not Secrets([])
    assert not Secrets([]).hold(b'{"a":"\\u0041"}')


@given(st.text(min_size=4, max_size=12), st.text(max_size=20), st.text(max_size=20), st.booleans())
def test_any_text_goes_and_what_is_around_it_stays(secret: str, before: str, after: str, ascii_only: bool) -> None:
    try:
        known = Secrets([secret.encode()])
    except UnicodeEncodeError:
        return
    data = json.dumps([f"{before}{secret}{after}", 1], ensure_ascii=ascii_only).encode()
    assert known.hold(data)
    removed = known.removed(data)
    # a mark that makes the secret whole again, with what is around it, is the one thing that cannot be helped
    if secret.encode() not in MARK and not known.hold(removed):
        assert isinstance(json.loads(removed), list)
    blanked = known.blanked(data)
    assert len(blanked) == len(data)
    json.loads(blanked)


@given(st.binary(min_size=4, max_size=9), st.binary(max_size=40))
def test_bytes_of_any_kind_are_blanked(secret: bytes, data: bytes) -> None:
    known = Secrets([secret])
    blanked = known.blanked(data + secret + data)
    assert len(blanked) == 2 * len(data) + len(secret)


@pytest.mark.parametrize("fill", [b". ", b"\\n", b"AA"])
@pytest.mark.parametrize("edge", [1 << 15, 5 << 15])
def test_it_is_found_wherever_it_lies_in_much(edge: int, fill: bytes) -> None:
    known = secrets(SECRET)
    written = json.dumps({"arguments": json.dumps(SECRET)}).encode()
    lines = base64.encodebytes(b"long before it, and then " + SECRET.encode() * 3)
    for spelling in (SECRET.encode(), written, SECRET.encode("utf-16-le"), lines, b"\\" * 40 + written):
        for before in range(0, len(spelling) + 1, 17):
            data = fill * 200_000
            data = data[: edge - before] + spelling + data[edge:]
            assert known.hold(data)


def test_nothing_is_found_in_much_that_only_looks_like_it() -> None:
    assert not secrets(PLAIN).hold((PLAIN[:-1].encode() + b"\n") * 20_000 + base64.encodebytes(b"x" * 200_000))
