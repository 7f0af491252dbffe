"""Documents that are kept as lines of changes: what these lead to, and an edit of that."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from store.events.event import BlockEdit, EventEdit, Kind
from store.formats.core.format import Format
from store.formats.core.lens import Nothing
from store.formats.core.look import Look
from store.formats.declared.deltas import replay
from store.formats.registry import format_named
from store.importing.importer import Importer
from store.store import Store
from tests.store.importing.sessions import native

FIRST = {"version": 3, "sessionId": "s1", "creationDate": 1_772_739_114_000, "requests": [], "customTitle": "Login"}
ASKED = {"requestId": "r1", "message": {"text": "Why?", "parts": [{"text": "Why?"}]}, "response": [{"value": "Beca"}]}
LINES: list[dict[str, object]] = [
    {"kind": 0, "v": FIRST},
    {"kind": 2, "k": ["requests"], "v": [ASKED]},
    {"kind": 1, "k": ["requests", 0, "response", 0, "value"], "v": "Because."},
    {
        "kind": 2,
        "k": ["requests", 0, "response"],
        "v": [{"kind": "thinking", "value": "Hm."}, {"value": "Done."}],
        "i": 1,
    },
]


def written(path: Path, lines: list[dict[str, object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    return path


def session(folder: Path) -> Path:
    path = written(folder / "workspaceStorage" / "h" / "chatSessions" / "s1.jsonl", LINES)
    (path.parents[1] / "workspace.json").write_text('{"folder": "file:///home/ada/my%20shop"}')
    return path


def led_to(lines: list[dict[str, object]]) -> object:
    """Return what lines lead to; they are read anew, and so stay as they are."""
    return replay(json.loads(json.dumps(lines)))


def test_changes_lead_to_a_document() -> None:
    found = led_to(
        [
            *LINES,
            {"kind": 3, "k": ["customTitle"]},
            {"kind": 1, "k": ["nowhere", 1], "v": 2},
            {"kind": 1, "k": ["requests", -9, "a"]},
            {},
        ]
    )
    assert isinstance(found, dict)
    assert "customTitle" not in found
    [request] = found["requests"]
    assert [part["value"] for part in request["response"]] == ["Because.", "Hm.", "Done."]
    # a question that was edited cuts off what came after it
    again = led_to([*LINES, {"kind": 2, "k": ["requests"], "v": [{"requestId": "r2"}], "i": 0}])
    assert isinstance(again, dict)
    assert again["requests"] == [{"requestId": "r2"}]


STEPS = st.one_of(st.integers(-2, 3), st.sampled_from(["requests", "a", "v"]), st.none())
VALUES = st.none() | st.lists(st.integers(), max_size=2) | st.just({"a": [1]})


@given(st.lists(st.fixed_dictionaries({"kind": st.integers(0, 4), "k": st.lists(STEPS), "v": VALUES, "i": STEPS})))
def test_any_changes_lead_somewhere(changes: list[dict[str, object]]) -> None:
    json.dumps(led_to(changes))


def test_a_chat_that_grows_stays_one(tmp_path: Path) -> None:
    path = session(tmp_path / "Code" / "User")
    with Store.open(tmp_path / "store") as store:
        assert Importer(store).run([path]).errors == []
        assert native(store, path) == path.read_bytes()
        known = store.catalogue.by_source(str(path))
        more = [{"kind": 2, "k": ["requests"], "v": [{"requestId": "r2", "message": {"text": "And?"}, "response": []}]}]
        written(path, [*LINES, *more])
        report = Importer(store).run([path])
        assert (report.errors, report.tools["vscode-chat"].imported) == ([], 0)
        now = store.catalogue.by_source(str(path))
        assert known is not None
        assert now is not None
        assert (now.id, known.imported, now.imported) == (known.id, 4, 5)
        assert native(store, path) == path.read_bytes()


def test_a_watched_chat_is_kept_as_its_lines(tmp_path: Path) -> None:
    path = session(tmp_path / "Code" / "User")
    with Store.open(tmp_path / "store") as store:
        for more in ([], [{"kind": 1, "k": ["customTitle"], "v": "Login again"}]):
            written(path, [*LINES, *more])
            assert Importer(store).run([path], by_hand=False).errors == []
            assert native(store, path) == path.read_bytes()


def test_a_chat_whose_lines_are_begun_anew(tmp_path: Path) -> None:
    path = session(tmp_path / "Code" / "User")
    with Store.open(tmp_path / "store") as store:
        Importer(store).run([path])
        written(path, [{"kind": 0, "v": led_to(LINES)}])
        report = Importer(store).run([path])
        assert report.errors == []
        assert native(store, path) == path.read_bytes()


def told(format_: Format, path: Path, scratch: Path) -> tuple[bytes, list[bytes]]:
    source = format_.claim(Look(path))
    assert source is not None
    scratch.mkdir()
    rendered = format_.rendition(source, scratch)
    assert rendered is not None
    data = rendered.read_bytes()
    records = [data[span.start : span.end] for span in format_.spans(memoryview(data), 0)]
    about = format_.about(source, records)
    assert (about.title, about.session_id, about.extra["cwd"]) == ("Login", "s1", "/home/ada/my shop")
    return data, records


def test_an_edit_makes_it_one_line(tmp_path: Path) -> None:
    format_ = format_named("vscode-chat")
    path = session(tmp_path / "Code" / "User")
    data, records = told(format_, path, tmp_path / "one")
    lens = format_.lenses[0]
    seen = [lens.view(record, Nothing()) for record in records]
    assert [event.kind for event in seen] == [Kind.USER, Kind.ASSISTANT, Kind.REASONING, Kind.ASSISTANT]
    edited = lens.edit(records[0], EventEdit((BlockEdit(seen[0].blocks[0].path, "Why not?"),)), Nothing())
    # the text and its copy
    assert edited == records[0].replace(b"Why?", b"Why not?")
    rendition = tmp_path / "edited.json"
    rendition.write_bytes(data.replace(records[0], edited))
    out = path.with_name("out.jsonl")
    format_.restore(path, rendition, out)
    assert out.read_bytes().count(b"\n") == 1
    assert json.loads(out.read_bytes())["v"] == json.loads(rendition.read_bytes())
    assert told(format_, out, tmp_path / "two")[1][0] == edited


def test_of_two_files_the_lines_are_the_newer(tmp_path: Path) -> None:
    path = session(tmp_path / "Code" / "User")
    older = path.with_suffix(".json")
    older.write_text(json.dumps(FIRST | {"requests": [ASKED], "responderUsername": "GitHub Copilot"}))
    format_ = format_named("vscode-chat")
    assert format_.claim(Look(older)) is None
    path.unlink()
    assert format_.claim(Look(older)) is not None
