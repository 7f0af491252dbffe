from hypothesis import given
from hypothesis import strategies as st

from fusefs.text.transcript import head, section, section_size
from store.events.conversation import Conversation
from store.events.event import Block, Event, Kind
from tests.fusefs.text import strategies


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


def test_the_head_tells_what_the_conversation_is() -> None:
    assert head(conversation()).decode() == (
        "---\n"
        "title: Fix the login bug\n"
        "project: webshop\n"
        "name: 2026-03-05-fix-the-login-bug\n"
        "format: claude-code\n"
        "source: /home/me/s.jsonl\n"
        "created: 2026-03-05T19:31:54.356Z\n"
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


def test_a_section_is_a_heading_and_the_content() -> None:
    event = Event(
        Kind.TOOL_RESULT, tool="fs_read_file", blocks=(Block("text", text="Found."),), time_ms=1_772_739_114_356
    )
    assert section(7, event).decode() == "\n## 7 · result fs_read_file · 2026-03-05 19:31\n\nFound.\n"


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


@given(strategies.events(), st.integers(1, 10**7))
def test_a_heading_is_one_line(event: Event, number: int) -> None:
    data = section(number, event)
    assert len(data) == section_size(number, event)
    if event.kind is not Kind.RECORD:
        blank, heading, *_ = data.decode().split("\n")
        assert blank == ""
        assert heading.startswith(f"## {number} · ")
