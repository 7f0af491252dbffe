"""Exported pages as a browser shows them."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.events.conversation import Conversation
from store.exporting.export import export
from store.exporting.html.index import index
from store.store import Store
from tests.store.exporting.browser import Page, browser, program
from tests.store.exporting.talks import Talk, shop
from tests.store.exporting.test_forms import HOSTILE

pytestmark = pytest.mark.skipif(program() is None, reason="no Chromium is installed")

PHONE = (360, 740)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


def exported(store: Store, folder: Path, talk: Talk) -> Path:
    (path,) = export(store, talk.bring(store), folder / "out", "html").files
    return path


def check_quiet(page: Page, path: Path) -> None:
    """Check that a page asked for nothing but itself, ran nothing, and gave the browser nothing to complain of."""
    assert [url for url in page.requests if not url.startswith("data:image/")] == [path.as_uri()]
    assert page.complaints == []
    assert page.dialogs == []


def luminance(color: str) -> float:
    """Return how bright a colour, as ``rgb(1, 2, 3)``, is to the eye, from 0 to 1."""
    parts = [int(part) / 255 for part in color.removeprefix("rgb(").removesuffix(")").split(",")]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_a_page_that_does_something_is_noticed(page: Page, tmp_path: Path) -> None:
    """Faults that the other tests find nothing of would be found."""
    path = tmp_path / "bad.html"
    path.write_text('<img src="http://127.0.0.1:9/a.png"><script>alert("run")</script><script>nothing()</script>')
    page.open(path)
    assert "http://127.0.0.1:9/a.png" in page.requests
    assert page.dialogs == ["run"]
    assert any("Uncaught" in text for text in page.complaints)


def test_on_a_phone(page: Page, store: Store, tmp_path: Path) -> None:
    talk = shop(tmp_path)
    wide = "x" * 400
    table = "|a|b|\n|-|-|\n" + f"|{'cell ' * 40}|{wide}|\n"
    talk.says(f"# Heading\n\n{wide}\n\n```\n{wide}\n```\n\n{table}\n\n> quote\n\n1. one\n")
    talk.calls("wide", wide, {"command": f"{wide}\n{wide}"})
    talk.returns("wide", wide)
    path = exported(store, tmp_path, talk)
    page.open(path, *PHONE)
    check_quiet(page, path)
    page.value("document.querySelectorAll('details').forEach(details => details.open = true)")
    assert page.value("document.documentElement.clientWidth") == PHONE[0]
    # nothing leads beyond the side of the screen
    assert page.value("document.documentElement.scrollWidth") == PHONE[0]
    beyond = (
        "[...document.querySelectorAll('article, pre, h1, p, img')].filter(e => e.getBoundingClientRect().right > 360)"
    )
    assert page.value(f"{beyond}.filter(e => !e.closest('table')).length") == 0
    assert page.value("parseFloat(getComputedStyle(document.querySelector('.text')).fontSize)") >= 16


def test_what_tools_did_is_folded_up_until_it_is_asked_for(page: Page, store: Store, tmp_path: Path) -> None:
    path = exported(store, tmp_path, shop(tmp_path))
    page.open(path, *PHONE)
    assert page.is_seen("#e1 .text")
    for number in (2, 4, 6):
        assert page.is_seen(f"#e{number} summary")
        assert not page.is_seen(f"#e{number} details > :nth-child(2)")
    page.click("#e4 summary")
    assert page.is_seen("#e4 ol.code")
    assert "return" in page.value("document.querySelector('#e4').innerText")
    page.click("#e4 summary")
    assert not page.is_seen("#e4 ol.code")
    # images are there at once, those of tools too
    for number in (6, 9):
        assert page.is_seen(f"#e{number} img")
        assert page.value(f"document.querySelector('#e{number} img').naturalWidth") == 1
    check_quiet(page, path)


def worked(folder: Path) -> Talk:
    """Return a talk in which tools find, change, run and fail."""
    talk = Talk(folder)
    talk.user("Make it quicker, see [there](http://example.org/) and `code`.")
    talk.calls("a", "Grep", {"pattern": "def l", "path": "/home/ada/shop"})
    talk.returns("a", "login.py:1:def login():")
    talk.calls("b", "Read", {"file_path": "/home/ada/shop/login.py"})
    talk.returns("b", '     1→# slow\n     2→def login():\n     3→    return len("x") > 7')
    talk.calls(
        "c", "Edit", {"file_path": "/home/ada/shop/login.py", "old_string": "    return", "new_string": "    yield"}
    )
    talk.returns("c", "The file has been updated.")
    talk.calls("d", "Bash", {"command": "pytest -x", "description": "Run the tests"})
    talk.returns("d", "1 failed", failed=True)
    talk.says("It is quicker.\n\n```python\n@cache\nclass A:  # one\n    n = 1\n```\n\n> said\n\n```diff\n-a\n+b\n```")
    talk.user("And now?")
    talk.says("Nothing.")
    return talk


TEXTS = """(() => {
    document.querySelectorAll("details").forEach(details => details.open = true);
    const found = {};
    for (const e of document.querySelectorAll("body *")) {
        const text = [...e.childNodes].some(n => n.nodeType == 3 && n.textContent.trim());
        if (!text || !e.checkVisibility() || e.closest(".unseen, .skip, script")) continue;
        let b = e;
        while (b && getComputedStyle(b).backgroundColor === "rgba(0, 0, 0, 0)") b = b.parentElement;
        const colours = [getComputedStyle(e).color, getComputedStyle(b).backgroundColor];
        found[colours] = [...colours, e.outerHTML.slice(0, 80)];
    }
    return Object.values(found);
})()"""
"""The colours of every text on a page, each pair of ink and paper once."""


def brightness(page: Page) -> float:
    """Return how bright the page is; whatever stands on it can be read."""
    told = page.value(TEXTS)
    assert len(told) > 2
    for ink, paper, where in told:
        dim, bright = sorted((luminance(ink), luminance(paper)))
        assert (bright + 0.05) / (dim + 0.05) >= 4.5, (ink, paper, where)
    return luminance(page.value("getComputedStyle(document.body).backgroundColor"))


def test_light_and_dark(page: Page, store: Store, tmp_path: Path) -> None:
    path = exported(store, tmp_path, worked(tmp_path))
    page.open(path, scheme="light")
    assert brightness(page) > 0.8
    page.click("#dark")
    assert brightness(page) < 0.1
    page.open(path, scheme="dark")
    assert brightness(page) < 0.1
    page.click("#light")
    assert brightness(page) > 0.8
    page.click("#auto")
    assert brightness(page) < 0.1
    check_quiet(page, path)


def test_the_column_of_requests_and_the_switch(page: Page, store: Store, tmp_path: Path) -> None:
    path = exported(store, tmp_path, worked(tmp_path))
    for width in (1440, 900):
        page.open(path, width)
        assert page.value("[...document.querySelectorAll('nav li span')].map(e => e.textContent)") == [
            "Make it quicker, see [there](http://example.org/) and `code`.",
            "And now?",
        ]
        beside = "document.querySelector('nav').getBoundingClientRect().right"
        assert page.value(f"{beside} <= document.querySelector('main').getBoundingClientRect().left")
    page.click("nav li:last-child a")
    assert page.value("location.hash") == "#e11"
    assert page.value("document.querySelector('#e11 h2').textContent") == "Request 2"
    assert page.is_seen("#e4 summary")
    page.click("#talk")
    assert not page.is_seen("#e4")
    assert page.value("[...document.querySelectorAll('article')].filter(e => e.checkVisibility()).map(e => e.id)") == [
        "e1",
        "e10",
        "e11",
        "e12",
    ]
    # there is no room beside the text: the list is shown when it is asked for
    page.open(path, *PHONE)
    assert not page.is_seen("nav ol")
    page.click("#jump")
    assert page.is_seen("nav ol")
    check_quiet(page, path)


def test_a_page_can_be_read_by_ear_and_used_by_keys(page: Page, store: Store, tmp_path: Path) -> None:
    path = exported(store, tmp_path, worked(tmp_path))
    page.open(path)
    tags = page.value("[...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map(e => +e.tagName[1])")
    assert tags[0] == 1
    assert tags.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(tags))
    assert page.value("document.querySelectorAll('main').length") == 1
    assert (
        page.value(
            "[...document.querySelectorAll('nav, img, input, ol a')].filter(e => !e.ariaLabel && !e.alt &&"
            " !e.textContent && !e.labels?.length).length"
        )
        == 0
    )
    assert page.value("new Set([...document.querySelectorAll('[id]')].map(e => e.id)).size") == page.value(
        "document.querySelectorAll('[id]').length"
    )
    for key in ("Tab", "Enter"):
        page.press(key)
    assert page.value("location.hash") == "#main"
    page.value("document.querySelector('#e2 summary').focus()")
    page.press("Enter")
    assert page.value("document.querySelector('#e2 details').open")


def listed(folder: Path, count: int) -> Path:
    """Write the list of so many conversations, every tenth of them about lists, and a page that some lead to."""
    titles = (
        f"Talk {number}{' on lists' if number % 10 == 0 else ''} {HOSTILE if number == 7 else ''}"
        for number in range(count)
    )
    some = [
        Conversation(
            at,
            f"p{at % 3}",
            "n",
            title,
            "codex",
            "",
            0,
            0,
            2,
            0,
            1_700_000_000_000 + at * 86_400_000,
            0,
            0,
            {"labels": ["bug"]},
        )
        for at, title in enumerate(titles)
    ]
    (folder / "p").mkdir()
    (folder / "p/page.html").write_text("<title>there</title>")
    path = folder / "index.html"
    path.write_bytes(index(some, lambda one: "p/page.html"))
    return path


SEEN = "[...document.querySelectorAll('main li')].filter(e => e.checkVisibility()).length"


def test_the_list_is_filtered_as_one_types(page: Page, tmp_path: Path) -> None:
    path = listed(tmp_path, 3000)
    page.open(path)
    check_quiet(page, path)
    assert page.value(SEEN) == 3000
    # the field has the focus: words in any order, of the title, the project, the date
    page.type("LISTS p1")
    assert page.value(SEEN) == 100
    assert page.value("document.querySelector('output').textContent") == "100 of 3000 conversations"
    page.type(" nowhere")
    assert page.value(SEEN) == 0
    assert page.value("[...document.querySelectorAll('h2')].filter(e => e.checkVisibility()).length") == 0
    page.open(path)
    page.type("2023-11-14")
    assert page.value(SEEN) == 1
    page.click("main li:not([hidden]) a")
    page.until("document.title === 'there'")
    # and back, where the filter still is
    page.value("void setTimeout(() => history.back())")
    page.until(f"document.querySelector('input[type=search]')?.value === '2023-11-14' && {SEEN} === 1")


@pytest.mark.parametrize("width", [420, 900, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_leads_beyond_the_screen(page: Page, store: Store, tmp_path: Path, width: int, scheme: str) -> None:
    for path in (listed(tmp_path, 20), exported(store, tmp_path, worked(tmp_path))):
        page.open(path, width, 900, scheme)
        assert (brightness(page) > 0.8) is (scheme == "light")
        assert page.value("document.documentElement.scrollWidth") == page.value("document.documentElement.clientWidth")
        check_quiet(page, path)


def test_what_is_printed_is_the_conversation(page: Page, store: Store, tmp_path: Path) -> None:
    path = exported(store, tmp_path, worked(tmp_path))
    page.open(path)
    page.do("Emulation.setEmulatedMedia", media="print")
    assert not page.is_seen("nav")
    assert page.is_seen("#e12 .text")
    # what is folded up on a screen is open on paper
    assert page.value("document.querySelector('#e4 ol.code').checkVisibility({contentVisibilityAuto: false})")
    page.do("Emulation.setEmulatedMedia", media="")


def test_hostile_content_does_nothing(page: Page, store: Store, tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.user(HOSTILE)
    talk.thinks(HOSTILE)
    talk.says(HOSTILE)
    talk.says(f'```html\n{HOSTILE}\n```\n\n<svg onload=alert(4)>\n\n<http://x.test/"onmouseover=alert(5)>')
    talk.calls("a", HOSTILE, {"command": HOSTILE + "\n", HOSTILE: HOSTILE})
    talk.returns("a", HOSTILE)
    path = exported(store, tmp_path, talk)
    page.open(path)
    page.value("document.querySelectorAll('details').forEach(details => details.open = true)")
    page.value("document.querySelectorAll('a, b, img').forEach(e => e.dispatchEvent(new MouseEvent('mouseover')))")
    check_quiet(page, path)
    assert page.value("document.querySelectorAll('script, svg, iframe, article style').length") == 0
    assert page.value("document.querySelectorAll('article').length") == 5
    # in the head the name of the tool and the command; then that, another argument and its name, and the result
    assert page.value("document.querySelector('#e5').innerText").count("alert(1)") == 6


def test_the_policy_holds_even_where_something_got_in(page: Page, store: Store, tmp_path: Path) -> None:
    path = exported(store, tmp_path, shop(tmp_path))
    holes = '<script>alert(1)</script><img src="http://127.0.0.1:9/a.png" onerror="alert(2)"><style>p {}</style>'
    path.write_text(path.read_text().replace("</main>", f"{holes}</main>"))
    page.open(path)
    assert page.dialogs == []
    assert not any("127.0.0.1" in url for url in page.requests) or any(
        "Content Security" in one for one in page.complaints
    )
    assert len([text for text in page.complaints if "Content Security Policy" in text]) >= 3
