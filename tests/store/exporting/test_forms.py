"""Forms to be read, by people and by programs; and where files go."""

import errno
import json
import os
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.disk import durable
from store.editing.editor import Editor
from store.errors import Conflict, UsageError
from store.events.event import DELETED
from store.exporting.dialogue import DAMAGED
from store.exporting.export import Exported, export, forms, names
from store.exporting.html.frame import PAGE_STYLE, policy
from store.exporting.html.text import html_of
from store.store import Store
from tests.store.exporting.talks import Talk, document, lines_of, lost, shop
from tests.store.importing.sessions import SAMPLES, by_source, event, imported, jp

HOSTILE = (
    "</pre></div></article><script>alert(1)</script><img src=http://evil.test/a.png onerror=alert(2)>"
    '"><style>@import "http://evil.test/b.css";</style> &lt;b&gt; \0 \u202e [x](javascript:alert(3)) '
    "![y](http://evil.test/c.png) <http://ok.test/>"
)


def test_json_holds_every_event_resolved(store: Store, tmp_path: Path) -> None:
    conversation = shop(tmp_path).bring(store)
    found = document(store, conversation, tmp_path / "out", "json")
    assert (found["project"], found["name"], found["format"]) == (
        conversation.project,
        conversation.name,
        "claude-code",
    )
    assert [one["event"] for one in found["events"]] == list(range(1, 11))
    assert found["events"][4]["blocks"] == [{"type": "text", "text": '     1→def login():\n     2→    return "x"\n'}]
    lines = lines_of(export(store, conversation, tmp_path / "out", "jsonl"))
    assert lines == found["events"]


def test_markdown_has_its_images_beside_it(store: Store, tmp_path: Path) -> None:
    conversation = shop(tmp_path).bring(store)
    done = export(store, conversation, tmp_path / "out", "markdown")
    (image,) = [path for path in done.files if path.suffix == ".png"]
    assert done.files[-1] == tmp_path / f"out/{conversation.name}.md"
    text = done.files[-1].read_text()
    assert image.read_bytes().startswith(b"\x89PNG")
    assert text.count(f"]({image.parent.name}/{image.name} ") == 2
    assert "Fix the **login** bug" in text
    assert text.startswith("---\ntitle: ")


class Reader(HTMLParser):
    """Collects the elements of a page and the texts in them."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    return reader


def test_a_page_says_everything_and_folds_up_what_tools_did(store: Store, tmp_path: Path) -> None:
    conversation = shop(tmp_path).bring(store)
    (path,) = export(store, conversation, tmp_path / "out", "html").files
    found = read(path.read_text())
    tags = [tag for tag, _attributes in found.elements]
    # each of the two calls is one with its result
    assert tags.count("article") == 8
    # a thought, two calls
    assert tags.count("details") == 3
    assert not any("open" in attributes for tag, attributes in found.elements if tag == "details")
    assert "script" not in tags
    assert "strong" in tags
    for text in ("echo 'a'\nfalse", "exit code 1", 'say "x"', "The address may be the cause."):
        assert text in found.text
    (told,) = [one["content"] for tag, one in found.elements if one.get("http-equiv") == "Content-Security-Policy"]
    assert told == policy(PAGE_STYLE)
    assert "script-src" not in told
    sources = [one["src"] or "" for tag, one in found.elements if tag == "img"]
    assert [source[:22] for source in sources] == ["data:image/png;base64,"] * 2
    assert ["bad" in (one["class"] or "").split() for tag, one in found.elements if tag == "article"].count(True) == 1


@pytest.mark.parametrize(
    "place", ["user", "answer", "thought", "call", "result", "tool", "title", "name", "attachment"]
)
def test_hostile_content_stays_text(store: Store, tmp_path: Path, place: str) -> None:
    if place in ("title", "attachment", "name"):
        attached = {"uri": f"file:///{HOSTILE}", "mimeType": HOSTILE, "content": {"blob": "/////w=="}}
        talk = [event(text="Fix it") | {"resources": [attached] if place == "attachment" else []}]
        if place == "name":
            talk.append({"type": "chat_response", "data": {HOSTILE: "two\nlines"}})
        folder = jp(tmp_path, talk)
        (folder / "metadata.json").write_text(json.dumps({"title": HOSTILE if place == "title" else "T"}))
        imported(store, folder)
        conversation = by_source(store, folder)
    else:
        talk_ = Talk(tmp_path)
        talk_.user(HOSTILE if place == "user" else "Go")
        talk_.says(HOSTILE if place == "answer" else "Gone")
        talk_.thinks(HOSTILE if place == "thought" else "Hm")
        talk_.calls("a", HOSTILE if place == "tool" else "Bash", {"x": HOSTILE + "\n"} if place == "call" else {})
        talk_.returns("a", HOSTILE if place == "result" else "r")
        conversation = talk_.bring(store)
    (path,) = export(store, conversation, tmp_path / "out", "html").files
    text = path.read_text()
    found = read(text)
    tags = [tag for tag, _attributes in found.elements]
    assert "script" not in tags
    assert tags.count("style") == 1
    assert not any("onerror" in attributes for _tag, attributes in found.elements)
    for tag, attributes in found.elements:
        link = attributes.get("href") or ""
        assert tag != "img" or (attributes["src"] or "").startswith("data:")
        assert link.startswith(("#", "http", "data:application/octet-stream")) or tag != "a"
        assert tag != "a" or not link.startswith("http") or attributes.get("rel") == "noopener noreferrer"
    assert "\0" not in text
    # names of blocks hold nothing that a name must not
    assert ("alert(1)" in found.text) is (place != "name")


def test_long_text_and_much_that_looks_like_links_is_not_parsed() -> None:
    assert html_of("*a* " * 100_000).startswith("<pre")
    assert html_of("[" * 10_000) == f'<pre dir="auto">{"[" * 10_000}</pre>'
    assert html_of("*a*") == "<p><em>a</em></p>\n"


def said(done: Exported) -> Path:
    """Return the file that says what was said."""
    return next(path for path in done.files if b"login" in path.read_bytes())


@pytest.mark.parametrize("form", forms()[1:])
def test_nothing_is_overwritten(store: Store, tmp_path: Path, form: str) -> None:
    conversation = shop(tmp_path).bring(store)
    out = tmp_path / "out"
    first = export(store, conversation, out, form)
    assert [path.relative_to(out) for path in first.files] == names(store, conversation, form)
    said(first).write_bytes(b"of somebody else")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    second = export(store, conversation, out, form)
    own = out / conversation.project / conversation.name
    assert [path.relative_to(own) for path in second.files] == names(store, conversation, form)
    said(second).write_bytes(b"of somebody else, too")
    with pytest.raises(Conflict, match="exists already"):
        export(store, conversation, out, form)
    assert {path: path.read_bytes() for path in before} == before
    assert {path for path in out.rglob("*") if path.is_file()} == before.keys() | set(second.files)


@pytest.mark.parametrize("form", ["markdown", "jp", "codex"])
def test_an_error_leaves_nothing(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    conversation = shop(tmp_path).bring(store)
    left = len(names(store, conversation, form))

    def fdatasync(fd: int) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(durable, "fdatasync", fdatasync)
        with pytest.raises(UsageError, match="No space left"):
            export(store, conversation, tmp_path / "out", form)
    assert os.listdir(tmp_path / "out") == []


def test_what_is_damaged_is_told_and_the_rest_is_there(tmp_path: Path) -> None:
    root = tmp_path / "store"
    talk = Talk(tmp_path)
    for number in range(200):
        talk.user(f"{number} " + f"word{number} " * 200)
    with Store.open(root, renderer=FileRenderer()) as store:
        talk.bring(store)
    pack = root / "blobs" / "00000001.pack"
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 0xFF
    pack.write_bytes(data)
    with Store.open(root, renderer=FileRenderer()) as store:
        (conversation,) = store.library.conversations()
        for form in ("json", "markdown", "html", "codex", "jp"):
            done = export(store, conversation, tmp_path / form, form)
            damaged = lost(done)[DAMAGED]
            assert 0 < len(damaged) < 200
            text = done.files[-1].read_text()
            readable = set(range(1, 201)) - set(damaged)
            assert all(f"{number - 1} word{number - 1} " in text for number in readable)


def test_a_form_that_there_is_not(store: Store, tmp_path: Path) -> None:
    conversation = shop(tmp_path).bring(store)
    with pytest.raises(UsageError, match="no format pdf"):
        export(store, conversation, tmp_path / "out", "pdf")


def test_an_edited_conversation_is_exported_as_it_is_now(store: Store, tmp_path: Path) -> None:
    conversation = shop(tmp_path).bring(store)
    Editor(store).edit(conversation.id, {3: DELETED})
    now = store.library.conversation(conversation.id)
    for form in forms()[1:]:
        done = export(store, now, tmp_path / form, form)
        assert all(b"I look at it." not in path.read_bytes() for path in done.files)


def test_every_sample_in_every_form(store: Store, tmp_path: Path) -> None:
    """Whatever real sessions hold: an export is valid JSON where it is JSON, and calls and results go in pairs."""
    if not SAMPLES.is_dir():
        pytest.skip(f"no sample sessions at {SAMPLES} (CONVFS_SAMPLES)")
    imported(store, *(SAMPLES / "claude-code" / name for name in ("derived_damaged", "fixtures_synthetic")))
    imported(store, *(SAMPLES / "codex").glob("agent-sessions*"), SAMPLES / "codex/derived_damaged")
    conversations = store.library.conversations()
    assert len(conversations) > 20
    for conversation in conversations:
        out = tmp_path / str(conversation.id)
        for form in forms()[1:]:
            done = export(store, conversation, out / form, form)
            data = done.files[-1].read_bytes()
            if form == "json":
                json.loads(data)
            elif form == "html":
                assert data.endswith(b"</html>\n")
            elif form == "openai":
                check_openai(json.loads(data)["messages"])
            elif form == "anthropic":
                check_anthropic(json.loads(data)["messages"])
            elif form != conversation.format and form in ("jsonl", "claude-code", "codex", "pi"):
                assert all(isinstance(json.loads(line), dict) for line in data.splitlines())


def check_openai(messages: list[dict[str, object]]) -> None:
    """Check that every call is answered before anything else is said."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
        else:
            assert not waiting
        calls = message.get("tool_calls", [])
        assert isinstance(calls, list)
        waiting += [call["id"] for call in calls]
    assert not waiting


def check_anthropic(messages: list[dict[str, object]]) -> None:
    """Check that the speakers take turns, and that calls are answered first in the turn after theirs."""
    calls: list[str] = []
    for number, message in enumerate(messages):
        assert message["role"] == ("assistant" if number % 2 else "user")
        content = message["content"]
        assert isinstance(content, list)
        assert content
        results = [part["tool_use_id"] for part in content if part["type"] == "tool_result"]
        assert results == calls
        assert [part["type"] for part in content[: len(results)]] == ["tool_result"] * len(results)
        calls = [part["id"] for part in content if part["type"] == "tool_use"]
    assert not calls
