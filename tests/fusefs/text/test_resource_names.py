from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusefs.text.resource_names import lines_of, numbered_path, resolve_numbered, resource_path, resource_paths
from store.events.conversation import ResourceRow
from tests.fusefs.text import strategies
from tests.fusefs.text.test_names import valid


def row(uri: str, number: int = 1, content: bytes = b"x", seq: int = 0, mime: str = "") -> ResourceRow:
    return ResourceRow(number, number, seq, uri, mime, 1, 0, content)


@pytest.mark.parametrize(
    ("uri", "mime", "path"),
    [
        ("file:///a/b.rs", "", "a/b.rs"),
        ("file:///a%20b/%C3%BC.rs", "", "a b/ü.rs"),
        ("file://localhost/a", "", "a"),
        ("file://server/share/a", "", "file/server/share/a"),
        ("file:///C:/Users/me/a.txt", "", "C:/Users/me/a.txt"),
        ("C:\\Users\\me\\a.txt", "", "C:/Users/me/a.txt"),
        ("/home/me/a.rs", "", "home/me/a.rs"),
        ("src/./x/../a.rs", "", "src/a.rs"),
        ("file:///a/../../../etc/passwd", "", "etc/passwd"),
        ("file:///a/%2e%2e/%2e%2e/b", "", "b"),
        ("https://Example.com:8080/docs/page.html", "", "https/example.com:8080/docs/page.html"),
        ("https://me:secret@example.com/x", "", "https/example.com/x"),
        ("https://example.com/", "text/html; charset=utf-8", "https/example.com/index.html"),
        ("https://example.com/list.php?page=2&q=a/b#top", "", "https/example.com/list_page=2&q=a_b.php"),
        ("jp+https://x.y/z", "", "jp+https/x.y/z"),
        ("urn:isbn:123", "", "urn/isbn:123"),
        ("mcp://server/tool", "", "mcp/server/tool"),
        ("http://[", "", "http/["),
        ("", "text/plain", "unnamed.txt"),
        ("file:///", "", "index"),
        ("file:///a/x@00012.rs", "", "a/x_00012.rs"),
        ("data:image/png;base64,AAAA", "image/png", "data/2d184db947f70783.png"),
    ],
)
def test_paths_of_uris(uri: str, mime: str, path: str) -> None:
    assert resource_path(uri, mime) == path


def test_long_parts_stay_apart_and_keep_their_extension() -> None:
    one, two = (resource_path(f"file:///{'x' * 300}{end}.rs") for end in "ab")
    assert one != two
    assert one.endswith(".rs")
    assert len(one) <= 230


def test_a_very_deep_path_is_folded() -> None:
    folded = resource_path("file://" + "/d" * 3000 + "/leaf.rs")
    assert folded.startswith("long/")
    assert folded.endswith("/leaf.rs")


def test_the_latest_content_has_the_plain_path() -> None:
    first, second, third = row("file:///a.rs", 3, b"1"), row("file:///a.rs", 5, b"2"), row("file:///a.rs", 9, b"3")
    assert resource_paths([third, first, second]) == {"a.rs": third, "a@00005.rs": second, "a@00003.rs": first}


def test_the_same_content_is_there_once() -> None:
    rows = [row("file:///a.rs", number, content) for number, content in [(1, b"A"), (2, b"B"), (3, b"B"), (4, b"A")]]
    assert resource_paths(rows) == {"a.rs": rows[3], "a@00003.rs": rows[2]}


def test_a_part_of_a_file_is_never_taken_for_the_file() -> None:
    one, two = row("file:///a.rs#L1-20", 3, b"1"), row("file:///a.rs#L195-209", 5, b"2")
    assert resource_paths([one, two]) == {"a@00003.L1-20.rs": one, "a@00005.L195-209.rs": two}
    whole, again = row("file:///a.rs", 4, b"3"), row("file:///a.rs#L1-20", 6, b"1")
    listed = {"a.rs": whole, "a@00006.L1-20.rs": again, "a@00005.L195-209.rs": two}
    assert resource_paths([one, two, whole, again]) == listed
    assert resolve_numbered("a@00003.L1-20.rs", [one, two, whole]) == one
    assert resolve_numbered("a@00003.rs", [one, two, whole]) is None
    assert resolve_numbered("a@00004.rs", [one, two, whole]) == whole
    assert resource_path("file:///a/x@00012.L1-2.rs") == "a/x_00012.L1-2.rs"


def test_one_event_may_hold_a_resource_twice() -> None:
    rows = [row("file:///a.rs", 1, b"A", 0), row("file:///a.rs", 1, b"B", 1), row("file:///a.rs", 2, b"C")]
    assert resource_paths(rows) == {"a.rs": rows[2], "a@00001.rs": rows[1], "a@00001-0.rs": rows[0]}
    assert resolve_numbered("a@00001.rs", rows) == rows[1]
    assert resolve_numbered("a@00001-0.rs", rows) == rows[0]


def test_a_file_gives_way_to_a_directory() -> None:
    page, below = row("https://x.y/docs", 4), row("https://x.y/docs/intro", 2)
    assert resource_paths([page, below]) == {"https/x.y/docs@00004": page, "https/x.y/docs/intro": below}


def test_a_path_with_a_number_resolves_for_every_event() -> None:
    rows = [row("file:///s/a.rs", number) for number in (3, 5)]
    assert resource_paths(rows) == {"s/a.rs": rows[1]}
    assert resolve_numbered("s/a@00003.rs", rows) == rows[0]
    assert resolve_numbered("s/a@00004.rs", rows) is None
    assert resolve_numbered("s/a.rs", rows) is None


@pytest.mark.parametrize(
    ("path", "numbered"),
    [("a/b.rs", "a/b@00007.rs"), (".bashrc", ".bashrc@00007"), ("a.tar.gz", "a.tar@00007.gz"), ("Make", "Make@00007")],
)
def test_the_number_stands_before_the_extension(path: str, numbered: str) -> None:
    assert numbered_path(path, 7) == numbered


uris = st.one_of(
    st.text(strategies.characters, max_size=30),
    st.builds(
        "{}{}".format,
        st.sampled_from(["file:///", "https://h/", "data:", "urn:", "/", "a/b", "a", "C:\\", "http://[", "file://h"]),
        st.text("/.ab@0123456789-?#%:é\n", max_size=40),
    ),
    st.sampled_from(
        [
            "file:///a",
            "file:///a/b",
            "file:///a/b/c",
            "file:///a@00001",
            "file:///a@00001-1",
            "file:///",
            "file:///a#L1-2",
            "file:///a@00001.L1-2",
        ]
    ),
)
contents = st.sampled_from([b"A", b"B", b"C"])
rows_of_resources = st.lists(
    st.tuples(uris, st.integers(1, 4), contents, st.sampled_from(["", "text/html"])), max_size=12
).map(lambda drawn: [row(uri, number, hash_, seq, mime) for seq, (uri, number, hash_, mime) in enumerate(drawn)])


@given(uris)
def test_every_part_of_a_path_is_valid(uri: str) -> None:
    path = resource_path(uri)
    assert all(valid(part, 231) for part in path.split("/"))
    assert len(path.encode()) <= 1300


@given(rows_of_resources, st.randoms())
def test_resources_lie_in_a_tree(rows: list[ResourceRow], random: Random) -> None:
    paths = resource_paths(rows)
    for path in paths:
        assert all(valid(part) for part in path.split("/"))
        assert not any(path.startswith(other + "/") for other in paths)
    # every content is there, under each of its paths
    assert {(resource_path(r.uri, r.mime), r.hash) for r in rows} == {
        (resource_path(r.uri, r.mime), r.hash) for r in paths.values()
    }
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert resource_paths(shuffled) == paths


@given(rows_of_resources)
def test_listed_numbers_resolve_to_what_is_listed(rows: list[ResourceRow]) -> None:
    for path, listed in resource_paths(rows).items():
        if path != resource_path(listed.uri, listed.mime):
            assert resolve_numbered(path, rows) == listed
    for one in rows:
        path = numbered_path(resource_path(one.uri, one.mime), one.number, one.seq, lines_of(one.uri))
        assert resolve_numbered(path, rows) == one
