"""Events of every shape for property tests, rich in what a grammar could trip over."""

from hypothesis import strategies as st

from store.events.event import Block, Event, Kind, Resource

characters = st.characters(exclude_categories=())
lines = st.one_of(
    st.text(characters, max_size=20),
    st.text("` \t~", max_size=9),
    st.sampled_from(
        [
            "---",
            "````",
            "````block",
            "````block text",
            "  ````block json arguments",
            "`````block resource file:///a text/plain",
            "```",
            "````block\rtext",
            '![a](b "block image x y")',
            '[a](b "block resource")',
            "event: 7",
            "## 7 · user",
            "",
        ]
    ),
)
texts = st.lists(lines, max_size=6).map("\n".join)
words = st.one_of(
    st.text(characters, max_size=12),
    st.sampled_from(["arguments", "arguments.command", "name=x", "uri=", "mime=text/plain", "file:///a b/ü.rs"]),
    st.sampled_from(["a b", '"', "a`b", "\\", "text/plain", "https://h/p?q=(1)"]),
)
strings = st.one_of(
    st.text(characters, max_size=20),
    st.sampled_from(["true", "No", "~", "null", "12", "-1.5e3", "1_000", "0x1f", "1e5", "12:30:00", ".inf", "1234e-5"]),
    st.sampled_from(
        ["a: b", "x #y", "- a", "[a]", "{a", "'", '"', "a:", ":a", "a::b", " a", "a ", "", "---", "...", "="]
    ),
    st.sampled_from(["\u2028", "\x85", "2026-03-05", "toolu_01DV2np", "b5692723-2180-49c5-bc25-6536e06855a5"]),
)
values = st.one_of(strings, st.integers(), st.booleans(), st.floats())
keys = st.one_of(
    st.sampled_from(["id", "is_error", "model", "timestamp", "event", "type", "tool", "parent", "$x", "a b", "", "a:"]),
    st.text(characters, max_size=8),
)
text_blocks = st.builds(
    Block,
    type=st.sampled_from(["text", "json", "resource", "artifact"]),
    text=texts,
    name=words,
    uri=words,
    mime=words,
)
plain_blocks = st.builds(Block, type=st.just("text"), text=texts)
data_blocks = st.builds(
    Block,
    type=st.sampled_from(["image", "resource", "artifact"]),
    data=st.binary(max_size=8),
    name=words,
    uri=words,
    mime=words,
)
times = st.one_of(st.just(0), st.integers(1, 4_000_000_000_000), st.integers(-(10**18), 10**18))


@st.composite
def events(draw: st.DrawFn) -> Event:
    """Draw an event; some of its binary blocks are among its resources."""
    blocks = tuple(draw(st.lists(st.one_of(plain_blocks, text_blocks, data_blocks), max_size=4)))
    resources = tuple(
        Resource(block.uri, block.mime, block.data or b"")
        for block in blocks
        if block.data is not None and draw(st.booleans())
    )
    return Event(
        kind=draw(st.sampled_from(Kind)),
        tool=draw(st.one_of(st.just(""), st.just("fs_read_file"), words)),
        header=draw(st.dictionaries(keys, values, max_size=6)),
        blocks=blocks,
        time_ms=draw(times),
        parent=draw(st.integers(-1, 100)),
        resources=resources,
    )
