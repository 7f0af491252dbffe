import pytest
from hypothesis import given

from fusefs.text.parse import Field, ParsedBlock, ParsedEvent, ParseError, parse_event
from fusefs.text.render import render_event
from store.events.event import Event
from tests.fusefs.text import strategies


def parse(text: str) -> ParsedEvent:
    return parse_event(text.encode())


def test_a_file_is_a_head_and_a_text() -> None:
    assert parse("---\nevent: 7\ntype: tool_result\nis_error: false\n---\nFound one file.\n") == ParsedEvent(
        {"event": Field(7, 2), "type": Field("tool_result", 3)},
        {"is_error": Field(False, 4)},
        (ParsedBlock("text", "Found one file.", 6),),
    )


def test_a_quoted_key_is_not_the_heads_own() -> None:
    file = parse('---\n"type": function\ntype: user\n"a: b": 1.5\n---\n')
    assert file == ParsedEvent({"type": Field("user", 3)}, {"type": Field("function", 2), "a: b": Field(1.5, 4)}, ())


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("\n", ""),
        ("a", "a"),
        ("a\n", "a"),
        ("a\n\n", "a\n"),
        ("\na\n", "\na"),
        ("a\r\n", "a\r"),
        ("a \n---\n", "a \n---"),
    ],
)
def test_a_text_stands_as_it_is_but_for_one_newline(content: str, text: str) -> None:
    assert [block.text for block in parse("---\ntype: user\n---\n" + content).blocks] == [text]
    assert [block.text for block in parse(content).blocks] == [text]


@pytest.mark.parametrize("data", ["", "\ufeff", "---\n---\n", "---\n---", "---\r\ntype: user\r\n---"])
def test_no_content_is_no_block(data: str) -> None:
    assert parse(data).blocks == ()


def test_without_a_head_all_is_content() -> None:
    assert parse("Fix the bug.\n---\nNow.\n") == ParsedEvent(
        {}, {}, (ParsedBlock("text", "Fix the bug.\n---\nNow.", 1),)
    )


def test_blocks_have_the_lines_of_their_fences() -> None:
    file = parse(
        "---\ntype: user\n---\n"
        "`````block resource file:///a.md text/markdown name=draft\n# A\n````\n`````\n\n"
        "````block text mime=text/html\n\n````\n\n"
        '![a](../resources/a.png "block image \\"file:///a b.png\\" image/png")\n\n'
        "````block json arguments\n````\n"
    )
    assert file.blocks == (
        ParsedBlock(
            "resource",
            "# A\n````",
            4,
            "draft",
            "file:///a.md",
            "text/markdown",
            opening="`````block resource file:///a.md text/markdown name=draft",
        ),
        ParsedBlock("text", "", 9, mime="text/html", opening="````block text mime=text/html"),
        ParsedBlock(
            "image",
            None,
            13,
            uri="file:///a b.png",
            mime="image/png",
            link="../resources/a.png",
            opening='![a](../resources/a.png "block image \\"file:///a b.png\\" image/png")',
        ),
        ParsedBlock("json", "", 15, "arguments", opening="````block json arguments"),
    )


def test_carelessness_does_no_harm() -> None:
    neat = parse("---\ntype: user\nid: x\n---\n````block text\n a \n````\n\n````block json b\n{}\n````\n")
    careless = parse(
        '\ufeff--- \r\ntype:  user\t\r\n\r\nid: "x"\r\n---\t\r\n'
        "\n \n````block  text \r\n a \n````\r\n````block json b\n{}\n````  \n\n\n"
    )
    assert [(block.type, block.name, block.text) for block in careless.blocks] == [
        (block.type, block.name, block.text) for block in neat.blocks
    ]
    assert {key: field.value for key, field in careless.header.items()} == {"id": "x"}
    assert careless.head["type"].value == "user"


ERRORS = [
    ("---\nevent: 7\n", 1, "has no end: write a line ---"),
    ("---\nevent: 7\n\nHello.\n---\n", 4, "or a line --- before it if the text begins here"),
    ("---\nhttp://x\n---\n", 2, "write it as key: value"),
    ("---\nevent: 7\nevent: 7\n---\n", 3, "stands on line 2 already"),
    ("---\nevent: seven\n---\n", 2, "the number of the event"),
    ("---\nevent: 0\n---\n", 2, "the number of the event"),
    ("---\ntype: usr\n---\n", 2, "write one of answer, assistant, config"),
    ("---\ntool: 5\n---\n", 2, 'write "5", in double quotes'),
    ("---\nid:\n---\n", 2, '"id" has no value'),
    ("---\nid: yes\n---\n", 2, 'if it is a text, write "yes"'),
    ("---\nid: 007\n---\n", 2, 'if it is a text, write "007"'),
    ("---\nid: a # b\n---\n", 2, 'if it is a text, write "a # b"'),
    ('---\nid: "a" b\n---\n', 2, "no string as JSON spells it"),
    ('---\nid: "\\x"\n---\n', 2, "no string as JSON spells it"),
    ('---\n"id: x\n---\n', 2, "does not begin with a key"),
    ("---\nid: " + 5000 * "1" + "\n---\n", 2, "too many digits"),
    ("---\nid: x\n---\n````block text\na\n", 4, "has no end: write a line ````"),
    ("````block text\na\n`````\n", 1, "has no end: write a line ````"),
    ("````block text\na\n````\nb\n", 4, '"b" stands outside of the blocks'),
    ("````block text\na\n````\n\n ````block text\nb\n````\n", 5, "from the beginning of the line"),
    ("\n  ````block text\nb\n````\n", 2, "from the beginning of the line"),
    ("````block\na\n````\n", 1, "no type does not say what the block is"),
    ("````block txt\na\n````\n", 1, '"txt" does not say what the block is'),
    ("````block text a b\na\n````\n", 1, '"b" cannot be read here'),
    ("````block text a name=b\na\n````\n", 1, '"name=b" cannot be read here'),
    ('````block text "a\na\n````\n', 1, "cannot be read here"),
    ('````block text "\\x"\na\n````\n', 1, "no string as JSON spells it"),
    ('[a](b "block resource x" y)\n', 1, "is no link to a block"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "reason"), ERRORS)
def test_an_error_says_where_and_what_to_do(text: str, line: int, reason: str) -> None:
    with pytest.raises(ParseError) as raised:
        parse(text)
    assert raised.value.line == line
    assert reason in raised.value.reason
    assert str(raised.value) == f"line {line}: {raised.value.reason}"
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 250


def test_what_is_not_utf_8_is_named() -> None:
    with pytest.raises(ParseError, match="line 3: the byte 0xfc is not UTF-8: save the file as UTF-8"):
        parse_event("---\ntype: user\nid: ü\n---\n".encode("latin-1"))


@given(strategies.events())
def test_what_is_drawn_is_read_with_its_lines(event: Event) -> None:
    data = render_event(7, event)
    lines = data.decode().split("\n")
    file = parse_event(data)
    assert lines[file.head["event"].line - 1] == "event: 7"
    for block in file.blocks:
        assert lines[block.line - 1] == block.opening or not block.opening
        if block.text is not None:
            assert lines[block.line - (not block.opening)] == block.text.partition("\n")[0]
