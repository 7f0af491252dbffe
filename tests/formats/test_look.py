import os
from pathlib import Path

import pytest

from store.formats.look import Look


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
