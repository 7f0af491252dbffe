import os
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from store.importing.snapshot import path_text, text_path

names = st.binary(min_size=1, max_size=40).filter(lambda name: b"\0" not in name)


@given(names)
@example(b"/home/ada/\xff.jsonl")
@example(b"file:x")
@example(b"file:///a%20b")
@example("/home/ada/ünï.jsonl".encode())
def test_any_name_of_a_file_survives(name: bytes) -> None:
    text = path_text(os.fsdecode(name))
    assert text.encode().decode() == text
    assert text_path(text) == Path(os.fsdecode(name))


@given(names, names)
def test_different_names_stay_different(one: bytes, other: bytes) -> None:
    assert (path_text(os.fsdecode(one)) == path_text(os.fsdecode(other))) == (one == other)


def test_text_stays_as_it_is() -> None:
    assert path_text(Path("/home/ada/shop/a b%20.jsonl")) == "/home/ada/shop/a b%20.jsonl"
