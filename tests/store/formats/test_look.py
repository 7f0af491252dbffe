import json
import os
from pathlib import Path

import pytest

from store.formats.core import look as looking
from store.formats.core.look import HEAD_SIZE, Look


def test_a_file_is_read_once_and_not_beyond_its_head(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"[1]\n\n" + b'{"a": 1}\n' * 20_000)
    look = Look(file)
    assert not look.is_folder
    assert len(look.head) == 65_536
    file.unlink()
    assert look.lines(2) == [b"[1]", b'{"a": 1}']
    assert len(look.lines()) == 50
    # the first line is no object
    assert look.objects(2) == [{"a": 1}]
    assert len(look.objects()) == len(look.objects(50)) == 49
    assert look.objects(1) == []
    assert len(look.objects(10)) == 9


def test_a_line_that_is_cut_off_is_no_object(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b'{"a": "' + b"x" * 70_000 + b'"}\n')
    assert len(Look(file).lines()) == 1
    assert Look(file).objects() == []


def test_what_is_no_file_has_nothing_to_look_at(tmp_path: Path) -> None:
    assert Look(tmp_path).is_folder
    assert Look(tmp_path).head == b""
    assert Look(tmp_path).objects() == []
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "none"):
        with pytest.raises(OSError, match=r"pipe|none"):
            _ = Look(tmp_path / name).head


SHORT = {"role": "user", "content": "Why?"}
LONG = {"messages": [SHORT, {"role": "user", "content": "x" * HEAD_SIZE}], "model": "m"}


@pytest.mark.parametrize(
    ("content", "document"),
    [
        (b'{"a": 1}', {"a": 1}),
        (b'\xef\xbb\xbf [1, {"a": 2}]\n', [1, {"a": 2}]),
        (b'{"a": 1}\n{"b": 2}\n', {"a": 1}),
        (json.dumps(LONG).encode(), {"messages": [SHORT, {"role": "user", "content": ""}]}),
        (b'{"a": [1, 2, {"b": "cut o', {"a": [1, 2, {"b": ""}]}),
        (b'{"a": "' + b"x" * 40 + b'", "b": [1, 2, 3]}}}} junk', {"a": ""}),
        (b"", None),
        (b"text", None),
        (b"\0\0", None),
        (b"{", None),
    ],
)
def test_the_first_document_is_there_as_far_as_it_makes_sense(tmp_path: Path, content: bytes, document: object) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    assert Look(path).document == document


def test_the_first_lines_are_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_text('{"a": 1}\nno JSON\n\n{"b": 2}\n[3]\n')
    look, asked = Look(path), []
    decode = looking.decode
    monkeypatch.setattr(looking, "decode", lambda line: asked.append(line) or decode(line))
    assert next(look.decoded()) == (b'{"a": 1}', {"a": 1})
    for limit in (1, 2, 1, 3, 20, 20, 4, 50, 20):
        assert look.objects(limit) == [{"a": 1}, {"b": 2}][: 1 if limit < 3 else 2]
    assert asked == [b'{"a": 1}', b"no JSON", b'{"b": 2}', b"[3]"]
