import re
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from fusefs.text import prose
from fusefs.text.transcript import growing, head, parts, section, section_size, unhashed_target
from store.events.conversation import Conversation
from store.events.event import Block, Event, Kind
from store.formats.core.blocks import argument_blocks
from store.formats.core.look import Look
from store.formats.registry import FORMATS, lens_for
from tests.fusefs.text import strategies
from tests.store.content.samples import directory
from tests.store.formats.earlier import Earlier

MARKDOWN = MarkdownIt("commonmark")


def conversation(title: str = "Fix the login bug", source: str = "/home/me/s.jsonl") -> Conversation:
    return Conversation(
        id=1,
        project="webshop",
        name="2026-03-05-fix-the-login-bug",
        title=title,
        format="claude-code",
        source=source,
        head=9,
        records=9,
        events=7,
        created_ms=1_772_739_114_356,
        updated_ms=1_772_739_200_000,
        transcript_size=0,
        json_size=0,
        metadata={},
    )


def content(event: Event) -> str:
    """Return what stands in a section below its heading."""
    return section(7, event).decode().split("\n", 3)[3]


def test_the_head_tells_what_the_conversation_is() -> None:
    assert head(conversation()).decode() == (
        "---\n"
        "title: Fix the login bug\n"
        "project: webshop\n"
        "name: 2026-03-05-fix-the-login-bug\n"
        "format: claude-code\n"
        "source: /home/me/s.jsonl\n"
        "created: 2026-03-05T19:31:54.356Z\n"
        "\n"
        "---\n"
        "\n"
        "# Fix the login bug\n"
    )


@given(st.text(strategies.characters), st.text(strategies.characters))
def test_no_title_breaks_out_of_its_line(title: str, source: str) -> None:
    lines = head(conversation(title, source)).decode().split("\n")
    closing = lines.index("---", 1)
    assert lines[closing + 1] == ""
    assert lines[closing + 2].startswith("# ")
    assert lines[closing + 3 :] == [""]


def test_a_head_and_its_title_are_no_html_and_no_heading_of_level_2() -> None:
    drawn = head(conversation("Fix <details> in the `title` <T>")).decode()
    assert '\ntitle: "Fix \\u003cdetails> in the `title` \\u003cT>"\n' in drawn
    assert drawn.endswith("\n# Fix \\<details> in the `title` <T>\n")
    assert [token.tag for token in MARKDOWN.parse(drawn) if token.type == "heading_open"] == ["h1"]


def test_a_section_is_a_heading_and_the_content() -> None:
    event = Event(
        Kind.TOOL_RESULT, tool="fs_read_file", blocks=(Block("text", text="Found."),), time_ms=1_772_739_114_356
    )
    assert section(7, event).decode() == ("\n## 7 · result fs_read_file · 2026-03-05 19:31\n\n```\nFound.\n```\n")


def test_an_event_without_content_is_a_heading() -> None:
    assert section(7, Event(Kind.NOTE)).decode() == "\n## 7 · note\n"


def test_bookkeeping_has_no_section() -> None:
    event = Event(Kind.RECORD, blocks=(Block("text", text="x"),))
    assert section(7, event) == b""
    assert section_size(7, event) == 0


def test_images_are_links_to_their_blobs() -> None:
    event = Event(Kind.USER, blocks=(Block("image", data=b"", uri="file:///a.png", mime="image/png"),))
    empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"  # BLAKE3 of nothing
    assert section(1, event).decode().splitlines()[-1] == (
        f'![{empty}](../../.convfs/blobs/{empty} "block image file:///a.png image/png")'
    )


def test_what_a_model_is_told_at_the_beginning_is_a_line_that_says_where_it_is() -> None:
    text = (Block("text", text="## You are an agent"),)
    assert section(1, Event(Kind.SYSTEM, blocks=text)) == "\n*1 · system · events/00001-system.md*\n".encode()
    assert section(2, Event(Kind.CONFIG, blocks=text)) == "\n*2 · config · events/00002-config.md*\n".encode()
    hook = Event(Kind.NOTE, header={"hook": "SessionStart:startup"}, blocks=text)
    assert section(3, hook) == "\n*3 · note · events/00003-note.md*\n".encode()


@pytest.mark.parametrize("kind", [Kind.USER, Kind.ASSISTANT, Kind.REASONING, Kind.QUESTION, Kind.ANSWER, Kind.SUMMARY])
def test_what_people_and_models_write_is_prose(kind: Kind) -> None:
    event = Event(kind, blocks=(Block("text", text="## Plan\n\n*Go.*"),))
    assert content(event) == "#### Plan\n\n*Go.*\n"


def test_texts_of_one_event_are_told_apart() -> None:
    """Or the second would be a part of the list that the first ends with."""
    event = Event(
        Kind.ASSISTANT,
        blocks=(
            Block("text", text="Let me see.", name="thinking"),
            Block("text", text="- one\n  ```"),
            Block("text", text="  - two"),
        ),
    )
    assert content(event) == "*thinking*\n\nLet me see.\n\n***\n\n- one\n  ```\n\n***\n\n  - two\n"


def test_what_tools_write_is_fenced() -> None:
    event = Event(
        Kind.TOOL_RESULT, blocks=(Block("text", text="## Title\n````\n- x"), Block("json", text="{}", name="a"))
    )
    assert content(event) == "`````\n ## Title\n````\n- x\n`````\n\n`a`\n\n```json\n{}\n```\n"
    note = Event(Kind.NOTE, blocks=(Block("text", text="ls", name="command"), Block("text", text="")))
    assert content(note) == "`command`\n\n```\nls\n```\n"


def test_attached_text_is_fenced_in_its_language() -> None:
    event = Event(Kind.USER, blocks=(Block("resource", text="# x", uri="file:///a/b.py", mime="text/x-python"),))
    assert content(event) == "`file:///a/b.py`\n\n```py\n# x\n```\n"


def call(tool: str, arguments: Mapping[str, object], *before: Block) -> str:
    blocks = argument_blocks(arguments, ("input",), "arguments")
    return content(Event(Kind.TOOL_CALL, tool=tool, blocks=(*before, *blocks)))


DIFF = "```diff\n--- a/src/app.py\n+++ b/src/app.py\n@@ -0,0 +0,0 @@\n"


@pytest.mark.parametrize(
    ("tool", "arguments", "drawn"),
    [
        ("Bash", {"command": "ls *\nps"}, "```bash\nls *\nps\n```\n"),
        ("shell", {"command": ["bash", "-lc", "ls | wc"], "workdir": "/a"}, "```bash\nls | wc\n```\n\n`workdir: /a`\n"),
        ("local_shell", {"command": ["git", "show", "a b"]}, "```bash\ngit show 'a b'\n```\n"),
        ("exec_command", {"cmd": "ls", "tty": False, "n": 7}, "```bash\nls\n```\n\n`tty: false` · `n: 7`\n"),
        ("Read", {"file_path": "src/app.py"}, "`src/app.py`\n"),
        ("Read", {"file_path": "/app.py", "offset": 195, "limit": 15}, "`/app.py`, lines 195-209\n"),
        ("fs_read_file", {"path": "app.py", "start_line": 3, "end_line": 9}, "`app.py`, lines 3-9\n"),
        ("read", {"filePath": "/a`b.py", "offset": 20}, "``/a`b.py``, from line 20\n"),
        ("str_replace_editor", {"command": "view", "path": "/a.py", "view_range": [2, 4]}, "`/a.py`, lines 2-4\n"),
        ("Write", {"file_path": "a.md", "content": "## x\n```"}, "`a.md`\n\n````md\n ## x\n```\n````\n"),
        (
            "Edit",
            {"file_path": "src/app.py", "old_string": "one\ntwo", "new_string": "one\n## 2"},
            DIFF.replace("-0,0 +0,0", "-0,2 +0,2") + " one\n-two\n+## 2\n```\n",
        ),
        (
            "mcp__files__edit",
            {"path": "src/app.py", "edits": [{"oldText": "1", "newText": "2"}, {"oldText": "a", "newText": "b"}]},
            DIFF.replace("-0,0 +0,0", "-0 +0") + "-1\n+2\n@@ -0 +0 @@\n-a\n+b\n```\n",
        ),
        (
            "apply_patch",
            {
                "input": "*** Begin Patch\n*** Update File: src/app.py\n*** Move to: src/main.py\n@@\n-1\n+2\n"
                "*** Add File: b.txt\n+b\n*** Delete File: c.txt\n*** End Patch"
            },
            DIFF.replace("-0,0 +0,0", "-0 +0")
            + "-1\n+2\n```\n\n`src/app.py` is moved to `src/main.py`\n\n"
            + "`b.txt`\n\n```txt\nb\n```\n\n`c.txt` is deleted\n",
        ),
        (
            "TodoWrite",
            {
                "todos": [
                    {"content": "# one <details>", "status": "completed", "activeForm": "One"},
                    {"content": "two\nlines", "status": "in_progress"},
                    {"content": "three", "status": "pending"},
                ]
            },
            "- [x] # one \\<details>\n- [ ] two lines (in progress)\n- [ ] three\n",
        ),
        (
            "update_plan",
            {"plan": [{"step": "one", "status": "completed"}], "explanation": "Go"},
            "- [x] one\n\n`explanation: Go`\n",
        ),
        ("Grep", {"pattern": "def"}, '```json\n{\n  "pattern": "def"\n}\n```\n'),
        ("Task", {"prompt": "## Do\nit"}, "`prompt`\n\n```\n ## Do\nit\n```\n"),
        ("Edit", {"file_path": "a"}, '```json\n{\n  "file_path": "a"\n}\n```\n'),
        ("update_plan", {"plan": "none"}, '```json\n{\n  "plan": "none"\n}\n```\n'),
    ],
)
def test_a_call_is_drawn_as_what_it_asks_for(tool: str, arguments: dict[str, object], drawn: str) -> None:
    assert call(tool, arguments) == drawn
    assert call(tool, arguments, Block("text", text="I'll *do* it.")) == f"I'll *do* it.\n\n{drawn}"


def test_thoughts_before_a_call_are_named() -> None:
    before = Block("text", text="Hm.", name="thinking")
    assert call("Bash", {"command": "ls"}, before) == "*thinking*\n\nHm.\n\n```bash\nls\n```\n"


def test_a_call_that_a_tool_tells_in_its_own_words_is_fenced() -> None:
    event = Event(Kind.TOOL_CALL, tool="python", blocks=(Block("text", text="# sum\nx = 2 * 3 * 4"),))
    assert content(event) == "```\n# sum\nx = 2 * 3 * 4\n```\n"


def test_several_calls_are_named() -> None:
    blocks = (
        *argument_blocks({"command": "ls"}, ("a",), "arguments"),
        *argument_blocks({"command": "ps"}, ("b",), "call2.arguments"),
    )
    event = Event(Kind.TOOL_CALL, tool="Bash", header={"tool_2": "shell"}, blocks=blocks)
    assert content(event) == "`Bash`\n\n```bash\nls\n```\n\n`shell`\n\n```bash\nps\n```\n"


@given(strategies.events(), st.integers(1, 10**7))
def test_a_heading_is_one_line(event: Event, number: int) -> None:
    data = section(number, event)
    assert len(data) == section_size(number, event)
    if event.kind not in (Kind.RECORD, Kind.SYSTEM, Kind.CONFIG):
        blank, heading, *_ = data.decode().split("\n")
        assert blank == ""
        assert heading.startswith(f"## {number} · ")


@given(st.lists(strategies.events(), max_size=4), st.text(strategies.characters))
def test_every_heading_of_level_2_is_that_of_an_event(events: list[Event], title: str) -> None:
    check(events, title)


def check(events: Sequence[Event], title: str = "") -> None:
    drawn = head(conversation(title)) + b"".join(section(number, event) for number, event in enumerate(events, 1))
    folded = (Kind.RECORD, Kind.SYSTEM, Kind.CONFIG)
    shown = [number for number, event in enumerate(events, 1) if event.kind not in folded and not is_hook(event)]
    text = drawn.decode()
    found = re.findall(r"^## (\d+)", text, re.MULTILINE)
    assert len(re.findall(r"^## ", text, re.MULTILINE)) == len(found)
    assert list(map(int, found)) == shown
    tokens = MARKDOWN.parse(text)
    assert [token.level for token in tokens if token.tag == "h1"] == [0, 0]
    headings = [tokens[at + 1] for at, token in enumerate(tokens) if token.type == "heading_open" and token.tag == "h2"]
    assert [int(one.content.split()[0]) for one in headings] == shown
    assert not any(token.type == "html_block" for token in tokens)


def is_hook(event: Event) -> bool:
    return event.kind is Kind.NOTE and str(event.header.get("hook")).startswith("SessionStart")


def test_every_heading_of_level_2_is_that_of_an_event_in_every_sample() -> None:
    seen = 0
    for path in sorted(directory().rglob("*")):
        for format_ in FORMATS:
            source = format_.claim(Look(path))
            if source is None or source.main != path:
                continue
            data, lens, earlier = path.read_bytes(), lens_for(format_.main_type), Earlier()
            spans = format_.spans(memoryview(data), 0)
            events = [earlier.add(lens.view(data[span.start : span.end], earlier)) for span in spans]
            check(events, source.main.name)
            check_prose(events)
            seen += 1
    assert seen


def check_prose(events: Sequence[Event]) -> None:
    for event in events:
        for part in parts(1, event, unhashed_target):
            if part.block is not None:
                read = prose.read if part.is_prose else prose.read_code
                assert read(part.text) == part.block.text


@given(strategies.events())
def test_what_a_part_shows_of_a_block_can_be_read_back(event: Event) -> None:
    check_prose([event])


@pytest.mark.parametrize("kind", [Kind.ASSISTANT, Kind.TOOL_RESULT, Kind.SYSTEM])
def test_a_section_grows_with_its_text(kind: Kind) -> None:
    """A line is only held back while it might still come to be a heading, code, or HTML."""
    text = "Begin with *the* list:\n\n- one\n- two\n\n## Then\n\nTitle\n---\nAnd <b>more</b> of it.\nThe end."
    if kind is Kind.ASSISTANT:
        text += "\n```sh\n## x\n```\nThe very end."
    drawn = [growing(8, Event(kind, blocks=(Block("text", text=text[:size]),))) for size in range(1, len(text) + 1)]
    whole = section(8, Event(kind, blocks=(Block("text", text=text),)))
    assert all(whole.startswith(one) for one in drawn)
    assert whole == drawn[-1] + (b"\n```\n" if kind is Kind.TOOL_RESULT else b"\n")
    assert drawn[8].endswith(b"Begin wit") or kind is Kind.SYSTEM


def test_what_is_not_one_text_does_not_grow() -> None:
    assert growing(8, Event(Kind.ASSISTANT)) == b""
    assert growing(8, Event(Kind.ASSISTANT, blocks=(Block("text", text="a"), Block("text", text="b")))) == b""
    assert growing(8, Event(Kind.USER, blocks=(Block("image", data=b"x"),))) == b""
