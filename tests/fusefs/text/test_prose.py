import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from fusefs.text import prose
from tests.fusefs.text import strategies

pieces = st.sampled_from(
    (
        *("#", "##", "## x", "# x", "##### y", "---", "===", "-", "- ", "* ", "1. ", "2) ", "> ", ">", "***", "* * *"),
        *(" ", "  ", "    ", "\t", "\n", "\n", "\n\n", "\r\n", "\r", "a b", "x", "|", "[a]: b", "\\"),
        *("```", "````", "~~~", "`", "``", "```py", "```text as written\n", "\\---", "\\<p>"),
        *("<div>", "</div>", "<details>", "<!--", "-->", "<T>", "<h2>", "<script>", "<https://a.example>", "<?", "<!A"),
    )
)
texts = st.one_of(st.lists(pieces, max_size=25).map("".join), strategies.texts)
markdown = MarkdownIt("commonmark")


def check(text: str) -> None:
    drawn = prose.draw(text)
    assert prose.read(drawn) == text
    assert not re.search(r"^## ", drawn, re.MULTILINE)
    tokens = markdown.parse(f"{drawn}\n\n## next\n")
    assert [token.markup for token in tokens if token.tag in ("h1", "h2")] == ["##", "##"]
    assert tokens[-2].content == "next"
    shown = markdown.render(drawn)
    assert not re.search(r"<(h[12]|div|details|script|!--)", shown)


@given(texts)
def test_what_was_written_is_read_back_and_stays_in_its_place(text: str) -> None:
    check(text)


@given(texts, st.integers(0, 80))
def test_a_text_that_grows_is_drawn_in_the_same_way_as_far_as_it_is_settled(text: str, size: int) -> None:
    """Only where a program may still take the whole for something else is more held back, or drawn again."""
    settled = prose.settled(text[:size])
    assert text.startswith(settled)
    if not re.search(r"[\r\ud800-\udfff>`~<]|^[ \t]|^([-+*]|[0-9]+[.)])[ \t]", text, re.MULTILINE):
        assert prose.draw(text, ends=False).startswith(prose.draw(settled, ends=False))


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("Just words, # and - and <T>.", "Just words, # and - and <T>."),
        ("# Plan\n\n## Steps\ntext", "### Plan\n\n#### Steps\ntext"),
        ("- ## In a list\n> # Quoted", "- #### In a list\n> ### Quoted"),
        ("#hashtag and #!/bin/sh", "#hashtag and #!/bin/sh"),
        ("Title\n---\ntext\n\n---\n\nmore\n===", "Title\n\\---\ntext\n\n---\n\nmore\n\\==="),
        ("Title\n\\---", "Title\n\\\\---"),
        ("<details>\n\n# x", "\\<details>\n\n### x"),
        ("<!-- never closed", "\\<!-- never closed"),
        ("Use <details> or `<details>`, Vec<T>.", "Use \\<details> or `<details>`, Vec<T>."),
        ("<https://example.com> is an address", "<https://example.com> is an address"),
        ("```sh\n# comment\n<b>\n---\n```\n# Plan", "```sh\n# comment\n<b>\n---\n```\n### Plan"),
        ("```md\n## Notes\n # x\n```", "```md\n ## Notes\n # x\n```"),
        ("1. Run\n   ```sh\n   # comment\n   ```\n\n## Then", "1. Run\n   ```sh\n   # comment\n   ```\n\n#### Then"),
        ("Code:\n\n    # indented", "Code:\n\n    # indented"),
        ("b `c\n    ```\n    ```\n` <details> `", "b `c\n    ```\n    ```\n` \\<details> `"),
        ("Look:\n```\n# open", "Look:\n```\n# open\n````"),
        ("Look:\n~~~~\n# open\n", "Look:\n~~~~\n# open\n\n~~~~~"),
        ("```\ntoo many\n````", "```\ntoo many\n`````"),
        ("a\r## b", "```text as written\na\r## b\n```"),
        ("```text as written\na\n```", "````text as written\n```text as written\na\n```\n````"),
    ],
)
def test_examples(text: str, drawn: str) -> None:
    assert prose.draw(text) == drawn
    check(text)


@pytest.mark.parametrize(
    "text",
    [
        "<div><li>x</li></div>" * 40_000,
        "x <li><a>y</a>\n" * 40_000,
        "\\" * 1_000_000 + "<",
        "- # a [ [ [ <b\n" * 40_000,
        "> " * 100_000 + "\n# x",
        "```\n" + "# x\n" * 1_000_000,
    ],
)
def test_long_texts_are_drawn_too(text: str) -> None:
    assert prose.read(prose.draw(text)) == text


def test_declarations_and_instructions_hide_nothing_of_a_line() -> None:
    for text in ("#<!A<h2>", "see <!DOCTYPE html> and <?php echo 1 ?> there", "a <![CDATA[ b ]]> c"):
        check(text)
        assert "\\<" in prose.draw(text)
