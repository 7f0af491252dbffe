"""Every text of every real sample session can be edited, and only it changes."""

import re
from collections import Counter
from collections.abc import Iterator

import pytest

from store.errors import UsageError
from store.events.event import Event, EventEdit, FieldEdit, Kind, ValuePath
from store.formats.core.format import Format
from store.formats.core.json_spans import locate
from store.formats.core.json_view import as_object
from store.formats.registry import format_named, lens_for
from tests.store.formats.earlier import Earlier
from tests.store.formats.edited import changed_paths, check_text_edit, edit_of, leaves
from tests.store.formats.test_samples import SAMPLES, reassembled, sources

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no sample sessions at {SAMPLES} (CONVFS_SAMPLES)")

NEW = 'Edited → "quoted" \\ back\nline <b>&amp; \u2028 é😀\t\x01 end'
UNNAMED = frozenset(("image_generation", "local_shell", "tool_search", "web_search"))
"""Tools of Codex that are told by the type of the call."""
WHAT_IT_IS = ("attachment", "encrypted", "item", "kept", "record", "subtype")
FORMATS = pytest.mark.parametrize("name", ["claude-code", "codex", "jp", "pi"])


def seen(format_: Format) -> Iterator[tuple[bytes, Event, Earlier]]:
    lens = lens_for(format_.main_type)
    for source in sources(format_, SAMPLES / format_.name):
        earlier = Earlier()
        for record in reassembled(format_, source.main.read_bytes())[1]:
            event = lens.view(record, earlier)
            yield record, event, earlier
            earlier.add(event)


@FORMATS
def test_every_text_can_be_edited_and_the_rest_stays(name: str) -> None:
    format_ = format_named(name)
    lens = lens_for(format_.main_type)
    edited = 0
    for record, event, earlier in seen(format_):
        for at, block in enumerate(event.blocks):
            if block.text is None:
                continue
            assert lens.edit(record, edit_of(block, block.text), earlier) == record
            if block.type == "json":
                continue
            if not block.path:
                assert event.native is None
                assert lens.edit(record, edit_of(block, "{}"), earlier) == b"{}"
                continue
            if event.lossy and "\ufffd" in block.text:
                with pytest.raises(UsageError, match="Unicode"):
                    lens.edit(record, edit_of(block, NEW), earlier)
                continue
            changed = check_text_edit(lens, record, earlier, event, at, NEW)
            others = {path for path in changed if path != block.path[: len(path)]}
            assert all(
                path[0] in ("toolUseResult", "attachment") or path[:2] == ("message", "details") for path in others
            )
            edited += 1
    assert edited > 500


@FORMATS
def test_every_json_document_can_be_edited(name: str) -> None:
    """A member that is added to it is added to the record, and the others keep their bytes."""
    format_ = format_named(name)
    lens = lens_for(format_.main_type)
    edited = 0
    for record, event, earlier in seen(format_):
        for block in event.blocks:
            if block.type != "json" or not (block.text or "").startswith("{\n"):
                continue
            new = (block.text or "").replace("{", '{"added by hand": "é",', 1)
            changed = lens.edit(record, edit_of(block, new), earlier)
            now = lens.view(changed, earlier)
            documents = {other.path: other.text for other in now.blocks if other.type == "json"}
            assert documents[block.path] == (block.text or "").replace("{", '{\n  "added by hand": "é",', 1)
            assert len(record) < len(changed) < len(record) + 64
            edited += 1
    assert edited > 50


def results(line: dict[str, object]) -> list[tuple[ValuePath, str]]:
    """Return every text in the program's own copy of a tool's result."""
    found: list[tuple[ValuePath, str]] = []
    pending: list[tuple[ValuePath, object]] = [(("toolUseResult",), line.get("toolUseResult"))]
    while pending:
        path, value = pending.pop()
        if isinstance(value, str):
            found.append((path, value))
        elif isinstance(value, dict):
            pending += [((*path, key), item) for key, item in value.items()]
        elif isinstance(value, list):
            pending += [((*path, at), item) for at, item in enumerate(value)]
    return found


is_numbered = re.compile(r" *\d+[→\t]").match


def test_every_exact_twin_is_edited_too() -> None:
    format_ = format_named("claude-code")
    lens = lens_for(format_.main_type)
    places: Counter[str] = Counter()
    for record, event, earlier in seen(format_):
        if event.kind is not Kind.TOOL_RESULT or event.lossy:
            continue
        for block in event.blocks:
            exact = {path for path, text in results(as_object(event.native)) if text == block.text}
            if block.type != "text" or not exact or not block.text:
                continue
            changed = changed_paths(record, lens.edit(record, edit_of(block, NEW), earlier))
            assert changed == {block.path, *exact}
            places.update(str(path[1]) for path in exact)
    assert places["stdout"] > 200
    assert places["content"] > 80
    assert places["filenames"] > 10
    assert places["result"]


def test_twins_that_the_tool_transformed_are_edited_where_it_is_plain_how() -> None:
    """A search and replace in the text of a file that was read, of outputs, of an error."""
    format_ = format_named("claude-code")
    lens = lens_for(format_.main_type)
    kinds: Counter[str] = Counter()
    for record, event, earlier in seen(format_):
        line = as_object(event.native)
        result = line.get("toolUseResult")
        if event.kind is not Kind.TOOL_RESULT or event.lossy:
            continue
        for block in event.blocks:
            if block.type != "text" or not block.text:
                continue
            new = block.text.replace("e", "3").replace("tool_us3_3rror>", "tool_use_error>")
            if new == block.text:
                continue
            now = as_object(lens.view(lens.edit(record, edit_of(block, new), earlier), earlier).native)
            changed = now.get("toolUseResult")
            match result, changed:
                case str(was), str(said) if was.startswith("Error: "):
                    core = new.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>")
                    assert said == "Error: " + core.removeprefix("Error: ")
                    kinds["error"] += 1
                case {"file": {"content": str(was)}}, {"file": {"content": str(said)}}:
                    if is_numbered(block.text):
                        assert said == was.replace("e", "3")
                        kinds["file"] += 1
                case {"stdout": str(out), "stderr": str(error)}, {"stdout": str(out_now), "stderr": str(error_now)}:
                    if out and error and block.text == f"{out}\n{error}":
                        assert new == f"{out_now}\n{error_now}"
                        kinds["two"] += 1
    assert kinds["error"] > 40
    assert kinds["file"] > 200
    assert kinds["two"]


def test_a_file_that_was_read_is_edited_with_its_numbered_twin() -> None:
    format_ = format_named("claude-code")
    lens = lens_for(format_.main_type)
    edited = 0
    for record, event, earlier in seen(format_):
        for index, resource in enumerate(event.resources):
            if not isinstance(resource.content, str) or event.lossy:
                continue
            assert lens.edit_resource(record, index, resource.content.encode(), earlier) == record
            new = resource.content.replace("e", "3") + "\nmore <é>"
            changed = lens.edit_resource(record, index, new.encode(), earlier)
            now = lens.view(changed, earlier)
            assert now.resources[index].content == new
            assert now.resources[index].uri == resource.uri
            paths = changed_paths(record, changed)
            assert resource.path in paths
            if resource.path[0] == "toolUseResult" and is_numbered(event.blocks[0].text or ""):
                assert paths == {resource.path, event.blocks[0].path}
                # editing the text instead says the same
                told = now.blocks[0].text or ""
                assert lens.edit(record, edit_of(event.blocks[0], told), earlier) == changed
                edited += 1
    assert edited > 200


@FORMATS
def test_fields_are_edited_where_the_record_holds_them(name: str) -> None:
    format_ = format_named(name)
    lens = lens_for(format_.main_type)
    edited: Counter[str] = Counter()
    for record, event, earlier in seen(format_):
        if event.kind is Kind.RECORD or not isinstance(event.native, dict):
            continue
        held = {"tool": event.tool, **event.header} if event.tool else event.header
        for key, value in held.items():
            assert lens.edit(record, EventEdit(fields=(FieldEdit(key, value),)), earlier) == record
            if key == "tool" and (event.kind in (Kind.TOOL_RESULT, Kind.ANSWER) or event.tool in UNNAMED):
                with pytest.raises(UsageError, match="'tool'"):
                    lens.edit(record, EventEdit(fields=(FieldEdit(key, "other"),)), earlier)
                continue
            if key in WHAT_IT_IS or (key == "is_error" and name == "codex"):
                with pytest.raises(UsageError, match="record"):
                    lens.edit(record, EventEdit(fields=(FieldEdit(key, "other"),)), earlier)
                continue
            new: str | int | float | bool
            new = not value if isinstance(value, bool) else value + 1 if isinstance(value, (int, float)) else "other"
            if key == "timestamp":
                new = "2031-01-02T03:04:05.5Z"
            changed = lens.edit(record, EventEdit(fields=(FieldEdit(key, new),)), earlier)
            now = lens.view(changed, earlier)
            shown = now.tool if key == "tool" else now.header.get(key, False)
            assert shown == new or key == "timestamp"
            assert [block.text for block in now.blocks] == [block.text for block in event.blocks]
            if leaves(record).keys() == leaves(changed).keys():
                assert len(changed_paths(record, changed)) == 1
            else:
                assert re.sub(rb', ?"is_error": ?true', b"", changed, count=1) == record
            edited[key] += 1
            if not isinstance(value, bool):
                with pytest.raises(UsageError):
                    lens.edit(record, EventEdit(fields=(FieldEdit(key, not value),)), earlier)
    assert {"tool", "id"} <= edited.keys()
    assert edited["is_error"] or name == "codex"


@FORMATS
def test_nothing_of_a_session_is_lost_when_nothing_is_deleted(name: str) -> None:
    format_ = format_named(name)
    for source in sources(format_, SAMPLES / name):
        records = reassembled(format_, source.main.read_bytes())[1]
        assert format_.without(records, frozenset()) == records


def test_every_line_has_a_parent_whatever_is_deleted() -> None:
    """Each third record deleted: what is left is one chain as before, and calls have their results."""
    format_ = format_named("claude-code")
    lens = lens_for(format_.main_type)
    for source in sources(format_, SAMPLES / "claude-code"):
        records = reassembled(format_, source.main.read_bytes())[1]
        whole = [as_object(lens.view(record, Earlier()).native) for record in records]
        known = {line.get("uuid") for line in whole}
        left = format_.without(records, frozenset(range(1, len(records), 3)))
        lines = [as_object(lens.view(record, Earlier()).native) for record in left]
        uuids = {line.get("uuid") for line in lines}
        for line in lines:
            parent = line.get("parentUuid")
            assert parent is None or parent in uuids or parent not in known
        assert torn(lines) <= torn(whole)
        for record, line in zip(left, lines, strict=True):
            assert record in records or line.get("uuid") in known or line.get("leafUuid")


def torn(lines: list[dict[str, object]]) -> set[object]:
    """Return the ids of calls without a result, and of results without a call."""
    calls, answered = set(), set()
    for line in lines:
        content = as_object(line.get("message")).get("content")
        for part in content if isinstance(content, list) else []:
            if isinstance(part, dict) and part.get("type") == "tool_use":
                calls.add(part["id"])
            elif isinstance(part, dict) and part.get("type") == "tool_result":
                answered.add(part["tool_use_id"])
    return calls ^ answered


def test_literals_keep_the_style_of_their_file() -> None:
    """JP's texts outside ASCII stay as they are, and base64 stays base64."""
    format_ = format_named("jp")
    lens = lens_for(format_.main_type)
    for record, event, earlier in seen(format_):
        for block in event.blocks:
            if block.type == "text" and block.path:
                changed = lens.edit(record, edit_of(block, "é→" + (block.text or "")), earlier)
                literal = changed[slice(*locate(changed, block.path))]
                assert literal.isascii() == (block.encoding == "base64")
