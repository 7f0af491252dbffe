"""``html/`` in the mount: a list of all conversations, and a page of each."""

import errno
import os
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from fusefs.tree.drawings import Drawings
from fusefs.tree.tree import Tree
from store.errors import NotFound
from tests.fusefs.tree.mounting import TALK, Mounted, answered, new_store, user
from tests.store.exporting.browser import browser, program

PAGE = "html/project/2026-03-05-talk.html"


class Links(HTMLParser):
    """Collects where a page leads."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a" and (to := dict(attrs).get("href")):
            self.links.append(unquote(to))


def pages(mount: Mounted) -> list[Path]:
    """Return the pages that the list leads to."""
    links = Links((mount.root / "html/index.html").read_text()).links
    return [mount.root / "html" / link for link in links if not link.startswith("#")]


def test_the_list_leads_to_every_page_and_back(mount: Mounted) -> None:
    (mount.root / TALK / "forks" / "50 % & <one> #1?").mkdir()
    found = pages(mount)
    assert {path.stem for path in found} == set(os.listdir(mount.root / "conversations/project"))
    assert len(found) == 2
    for path in found:
        text = path.read_text()
        assert text.endswith("</html>\n")
        assert path.stat().st_size == len(path.read_bytes())
        assert (path.parent / Links(text).links[1]).samefile(mount.root / "html/index.html")


@pytest.mark.skipif(program() is None, reason="no Chromium is installed")
def test_a_browser_goes_from_the_list_to_a_page_and_back(mount: Mounted, tmp_path: Path) -> None:
    (mount.root / TALK / "forks" / "50 % & <one> #1?").mkdir()
    with browser(tmp_path) as page:
        page.open(mount.root / "html/index.html")
        page.type("TALK project")
        page.click("main li:not([hidden]) a[href*='%3F']")
        page.until(
            "location.pathname.endsWith('%231%3F.html') && document.querySelector('h2')?.textContent === 'Requests'"
        )
        page.click("nav a.home")
        page.until("document.title === 'Conversations'")
        assert page.complaints == []


def test_listings_draw_no_page(mount: Mounted) -> None:
    assert os.listdir(mount.root / "html") == ["index.html"]
    assert os.listdir(mount.root / "html/project") == []
    # the list itself is drawn when somebody asks how large it is
    assert mount.shell("wc -c < html/index.html").strip() == str((mount.root / "html/index.html").stat().st_size)


def test_a_page_shows_what_is_saved_and_nothing_else_draws_it_anew(mount: Mounted) -> None:
    page = mount.root / PAGE
    before = page.stat()
    assert "One more" not in page.read_text()
    # another conversation changes
    (mount.root / TALK / "forks" / "other").mkdir()
    (mount.root / "conversations/project/other/events/user.md").write_text("Elsewhere\n")
    assert "Elsewhere" in (mount.root / "html/project/other.html").read_text()
    assert page.stat().st_mtime_ns == before.st_mtime_ns
    (mount.root / TALK / "events/user.md").write_text("One more\n")
    assert "One more" in page.read_text()
    assert page.stat().st_size == len(page.read_bytes())


def test_other_names(mount: Mounted) -> None:
    folder = mount.root / "conversations/project"
    (folder / "2026-03-05-talk").rename(folder / "renamed")
    assert [path.name for path in pages(mount)] == ["renamed.html"]
    assert (mount.root / "html/project/renamed.html").is_file()
    for name in ("html/project/2026-03-05-talk.html", "html/project/renamed", "html/nosuch", "html/project/x.html"):
        assert not (mount.root / name).exists()
    with pytest.raises(PermissionError) as refused:
        (mount.root / "html/project/mine.html").write_text("x")
    assert refused.value.errno == errno.EPERM


def test_hostile_titles_stay_text(mount: Mounted) -> None:
    mount.tell(metadata=[1, {"title": '</a><script>alert(1)</script><b onclick=x> " \x1b[2J'}])
    for path in (mount.root / "html/index.html", mount.root / PAGE):
        text = path.read_text()
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert(1)" in text


def test_a_conversation_too_large_for_a_page_says_how_to_get_one(mount: Mounted) -> None:
    mount.tell(append=[1, [user("x" * (1 << 20), number) for number in range(65)]])
    text = (mount.root / PAGE).read_text()
    assert "convfs export" in text
    assert len(text) < 100_000


def asked(drawings: Drawings, ino: int, state: object, draw: Callable[[], bytes]) -> bytes:
    """Ask for a drawing as a handler does."""
    return answered(lambda: drawings.of(ino, state, draw).work.result())


def test_drawings_are_kept_while_they_are_few_and_small(store_path: Path) -> None:
    drawn: list[int] = []

    def draw(ino: int, size: int) -> bytes:
        drawn.append(ino)
        return b"x" * size

    with new_store(store_path) as store:
        drawings = Drawings(Tree(store))
        for ino in (1, 2, 1, 2):
            asked(drawings, ino, "as it is", lambda ino=ino: draw(ino, 8 << 20))  # type: ignore[misc]  # of this turn
        assert drawn == [1, 2]
        asked(drawings, 3, "as it is", lambda: draw(3, 32 << 20))
        for ino in (3, 2, 1):
            asked(drawings, ino, "as it is", lambda ino=ino: draw(ino, 1))  # type: ignore[misc]  # of this turn
        assert drawn == [1, 2, 3, 2, 1]
        asked(drawings, 1, "changed", lambda: draw(1, 1))
        assert drawn == [1, 2, 3, 2, 1, 1]


def test_a_drawing_that_failed_is_made_again(store_path: Path) -> None:
    def fail() -> bytes:
        raise NotFound("it was gone just then")

    with new_store(store_path) as store:
        drawings = Drawings(Tree(store))
        with pytest.raises(NotFound):
            asked(drawings, 1, 0, fail)
        assert asked(drawings, 1, 0, lambda: b"here") == b"here"
