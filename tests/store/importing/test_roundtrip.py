"""Imports that are exported again are the same, byte for byte."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from store.formats.registry import FORMATS, is_described
from store.importing.walk import walk
from store.store import Store
from tests.store.importing.sessions import (
    NO_SAMPLES,
    SAMPLES,
    bring,
    by_source,
    claude_source,
    event,
    exported,
    fresh_name,
    imported,
    jp_source,
    line,
    native,
    payloads,
)

needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason=NO_SAMPLES)
together = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


@needs_samples
@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_every_sample_that_is_lines(store: Store, name: str) -> None:
    lying = sorted((SAMPLES / name).rglob("*.jsonl"))
    # of a session there must be something
    files = [path for path in lying if path.stat().st_size]
    report = imported(store, SAMPLES / name)
    assert (report.imported, report.grown, report.unchanged) == (len(files), 0, 0)
    assert report.skipped >= len(lying) - len(files)
    for path in files:
        assert native(store, path) == path.read_bytes(), path
    again = imported(store, SAMPLES / name)
    assert (again.imported, again.grown, again.unchanged) == (0, 0, len(files))


@needs_samples
def test_every_sample_of_jp(store: Store) -> None:
    folders = [path.parent for path in sorted((SAMPLES / "jp").rglob("events.json"))]
    report = imported(store, SAMPLES / "jp")
    assert (report.imported, report.skipped) == (len(folders), 0)
    for folder in folders:
        with exported(store, by_source(store, folder)) as files:
            expected = {f"{folder.name}/{path.name}": path.read_bytes() for path in folder.iterdir()}
            assert files == expected


@needs_samples
def test_what_was_imported_is_listed_with_exact_sums(store: Store) -> None:
    imported(store, SAMPLES / "claude-code", SAMPLES / "jp")
    for conversation in store.library.conversations():
        rows = store.records.rows(conversation.head)
        assert len(rows) == conversation.records
        assert conversation.transcript_size == sum(row.section_size for row in rows)
        assert conversation.json_size == sum(row.json_size for row in rows)
        assert conversation.project


good = st.builds(line, st.text(max_size=40), st.integers(0, 9))
bad = st.one_of(
    st.binary(max_size=60).map(lambda data: data.replace(b"\n", b"")),
    st.sampled_from(
        [
            b"",
            b" ",
            b"\r",
            b"\0" * 40,
            b"\xef\xbb\xbf{}",
            b"{}{}",
            b'{"cut',
            b'{"a":"\\ud800"}',
            b"\xff\xfe",
            b"[" * 3000,
            b'"' * 7,
            b'{"a":' + b"1" * 400 + b"}",
        ]
    ),
    good.map(lambda data: data + b"\r"),
    good.map(lambda data: data[: len(data) // 2]),
    st.tuples(good, good).map(b"".join),
)
jsonl = st.tuples(
    st.sampled_from([b"", b"", b"\n", b"\xef\xbb\xbf", b"\n\n\n"]),
    st.lists(st.one_of(good, good, bad), max_size=12),
    st.lists(st.sampled_from([b"\n", b"\n", b"\n", b"\n\n", b"\r\n"]), min_size=12, max_size=12),
    st.sampled_from([b"\n", b"\n", b"", b"\n\n", b"\r\n\n", b"\0\0"]),
).map(lambda parts: parts[0] + b"".join(b"".join(pair) for pair in zip(parts[1], parts[2], strict=False)) + parts[3])


@together
@given(st.one_of(jsonl, st.binary(max_size=200)))
@example(b"")
@example(b"\n")
@example(b"\n" * 200_000)
@example(b"{}\n" + b"\n" * 200_000 + b"{}" + b"\n" * 70_000)
@example(b"{}" + b"\n" * 66_000)
@example(b'{"a":' * 100_000)
@example(b"[" * 100_000 + b"]" * 100_000 + b"\n")
@example(b"\r\n\r\n")
def test_any_bytes_as_lines(shared: Store, tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = shared.root.parent / f"{fresh_name()}.jsonl"
    path.write_bytes(content)
    bring(shared, claude_source(path))
    assert native(shared, path) == content
    if len(content) < 60_000:
        assert payloads(shared, path) == [piece for piece in content.split(b"\n") if piece]


element = st.one_of(
    st.builds(event, text=st.text(max_size=30)).map(lambda value: json.dumps(value).encode()),
    st.builds(event, text=st.text(max_size=30)).map(lambda value: json.dumps(value, indent=2).encode()),
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
    ).map(lambda value: json.dumps(value).encode()),
    st.sampled_from([b"", b'{"a":', b"}{", b"\0\0", b'"lost quote', b"<<<<<<< HEAD", b"]", b"[[[["]),
)
separator = st.sampled_from([b",\n  ", b",\n  ", b",\n  ", b",", b" , ", b",,", b"\n", b"", b",\r\n\t"])
arrays = st.tuples(
    st.sampled_from([b"[\n  ", b"[\n  ", b"[", b"", b"\xef\xbb\xbf[\n", b"  [ "]),
    st.lists(element, max_size=8),
    st.lists(separator, min_size=8, max_size=8),
    st.sampled_from([b"\n]", b"\n]\n", b"]", b"", b"\n] trailing", b"]]"]),
).map(lambda parts: parts[0] + b"".join(b"".join(pair) for pair in zip(parts[1], parts[2], strict=False)) + parts[3])


@together
@given(st.one_of(arrays, st.binary(max_size=120)), st.one_of(st.none(), st.binary(max_size=50)))
@example(b"[" * 100_000, None)
@example(b'[{"a":' * 100_000, b"{}")
@example(b"[]", b"")
@example(b"[" + b" " * 100_000 + b"1," + b"\n" * 100_000 + b"2]", None)
def test_any_bytes_as_an_array(shared: Store, content: bytes, config: bytes | None) -> None:
    folder = shared.root.parent / fresh_name()
    folder.mkdir()
    (folder / "events.json").write_bytes(content)
    if config is not None:
        (folder / "base_config.json").write_bytes(config)
    bring(shared, jp_source(folder))
    assert native(shared, folder) == content
    with exported(shared, by_source(shared, folder)) as files:
        assert files.get(f"{folder.name}/base_config.json") == config


@pytest.mark.parametrize("count", [1, 3000])
def test_a_separator_that_is_odd_once_costs_nothing(store: Store, tmp_path: Path, count: int) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{}\n\n" + b'{"a":1}\n' * count)
    bring(store, claude_source(path))
    assert native(store, path) == path.read_bytes()
    assert len(str(by_source(store, path).metadata["envelope"])) < 100


def test_separators_that_are_odd_everywhere_leave_the_metadata_small(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{}\n\n{}\n" * 5000)
    bring(store, claude_source(path))
    assert native(store, path) == path.read_bytes()
    assert len(str(by_source(store, path).metadata)) < 2000
    with path.open("ab") as file:
        file.write(b"\n\n{}")
    bring(store, claude_source(path))
    assert native(store, path) == path.read_bytes()


def test_walk_claims_what_the_samples_are() -> None:
    if not SAMPLES.is_dir():
        pytest.skip(NO_SAMPLES)
    own = {format_.name for format_ in FORMATS if not is_described(format_)}
    names = own - {"codex-json", "codex-zst", "cursor-store", "kilo", "messages-jsonl", "mistral-vibe-store", "pi-zst"}
    assert {found.format for found in walk(SAMPLES) if hasattr(found, "format")} == names
