"""Pages: calls with their results, requests, and the list of all conversations."""

import re
import time
from collections.abc import Iterable, Iterator
from html import escape, unescape
from pathlib import Path

import pytest
from msgspec import structs

from store.events.conversation import Conversation
from store.exporting.html import text
from store.exporting.html.index import index
from store.exporting.html.page import page
from store.exporting.html.text import Ink, html_of
from store.formats.core.times import local
from store.store import Store
from tests.store.exporting.talks import Talk
from tests.store.importing.sessions import SAMPLES, imported


def drawn(store: Store, conversation: Conversation) -> str:
    return b"".join(page(store, conversation, "")).decode()


def texts(html: str) -> str:
    return unescape(re.sub("<[^>]*>", "", html))


def heads(html: str) -> list[str]:
    """Return the heads of what is folded up."""
    return [" ".join(texts(head).split()) for head in re.findall(r"<summary>(.*?)</summary>", html, re.DOTALL)]


def articles(html: str) -> list[tuple[str, str]]:
    """Return the id and the content of each article."""
    return re.findall(r'<article id="(e\d+)"[^>]*>(.*?)</article>', html, re.DOTALL)


def test_a_call_and_its_result_are_one_card(store: Store, tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.user("Go")
    # several at once, answered in another order
    talk.calls("a", "Bash", {"command": "pytest -x"})
    talk.calls("b", "Grep", {"pattern": "def l"})
    talk.calls("c", "Bash", {"command": "never"})
    talk.returns("b", "found\nit")
    talk.returns("a", "1 failed", failed=True)
    talk.returns("z", "of no call")
    html = drawn(store, talk.bring(store))
    assert [number for number, _content in articles(html)] == ["e1", "e2", "e3", "e4", "e7"]
    assert heads(html) == [
        "Bash pytest -x failed",
        "Grep 'def l' 2 lines",
        "Bash never no result",
        "Result of no call",
    ]
    places = dict(articles(html))
    assert "1 failed" in texts(places["e2"])
    assert "found\nit" in texts(places["e3"])
    # the number of the result leads to the card, too
    assert 'id="e6"' in places["e2"]
    assert 'id="e5"' in places["e3"]


def test_a_result_that_comes_late_is_there(store: Store, tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.calls("a", "Bash", {"command": "sleep"})
    for number in range(100):
        talk.says(f"still {number}")
    talk.returns("a", "woken up")
    html = drawn(store, talk.bring(store))
    assert [number for number, _content in articles(html)] == [f"e{number}" for number in range(1, 103)]
    assert heads(html) == ["Bash sleep no result", "Result woken up"]


def test_an_edit_shows_its_diff_where_it_is_in_the_file(store: Store, tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.calls("a", "Read", {"file_path": "/home/ada/shop/app/login.py"})
    talk.returns("a", "".join(f"{number:6}→line {number}\n" for number in range(1, 40)))
    talk.calls(
        "b", "Edit", {"file_path": "/home/ada/shop/app/login.py", "old_string": "line 20", "new_string": "a\nb <i>"}
    )
    talk.returns("b", "The file has been updated.")
    talk.calls("c", "Edit", {"file_path": "/home/ada/shop/app/login.py", "old_string": "x", "new_string": "y"})
    talk.returns("c", "There is no x.", failed=True)
    html = drawn(store, talk.bring(store))
    assert heads(html) == [
        "Read login.py 39 lines",
        "Edit login.py +2 −1",
        "what the tool said",
        "Edit login.py failed",
    ]
    places = dict(articles(html))
    diff = texts(re.search('<pre class="diff">.*?</pre>', places["e3"], re.DOTALL)[0])  # type: ignore[index]  # there is one
    assert diff == "@@ -17,7 +17,8 @@ line 17\n line 18\n line 19\n-line 20+a+b <i> line 21\n line 22\n line 23"
    assert "\napp/login.py@@" in texts(places["e3"])
    # small ones are open, what failed is told as it was asked for
    assert "<details open>" in places["e3"]
    assert "<pre class" not in places["e5"]
    assert "There is no x." in places["e5"]
    # what was read has its numbers
    assert places["e1"].count("<li>") == 39


def test_requests_are_listed(store: Store, tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.user("# First\n\nmore of it")
    talk.says("Yes.")
    talk.user("Second & <last>")
    html = drawn(store, talk.bring(store))
    listed = re.findall(r'<li><a href="#(e\d+)"><b>(\d+)</b><span dir="auto">(.*?)</span>', html)
    assert listed == [("e1", "1", "First"), ("e3", "2", "Second &amp; &lt;last&gt;")]
    assert re.findall(r"<h2>(.*?)</h2>", html) == ["Requests", "Request 1", "Request 2"]


def test_headings_in_texts_are_below_those_of_the_page() -> None:
    assert html_of("# One\n\n#### Four") == "<h4>One</h4>\n<h6>Four</h6>\n"


@pytest.mark.parametrize("language", ["python", "js", "bash", "json", "yaml", "html", "rust", "nosuch", ""])
def test_code_in_colour_stays_the_same_text(language: str) -> None:
    code = '# <a> "b"\n\n"""one\n\ttwo"""\r\ndef f(x): return {\'k\': 0x1f} && `$(ls)` \\\n/* é\u2028 */ &amp; \n\n'
    coloured = Ink().code(code, language)
    assert texts(coloured) == code
    assert all("\n" not in piece for piece in re.findall(r"<i [^>]*>(.*?)</i>", coloured, re.DOTALL))


def test_code_is_coloured_up_to_an_amount() -> None:
    ink = Ink()
    code = "def f():\n" * 1000
    coloured = [ink.code(code, "py") for _ in range(100)]
    assert '<i class="k">def</i>' in coloured[0]
    assert coloured[-1] == code
    assert ink.code("x = 'a'\n" * 100_000, "py").count("<i") == 0
    assert "<i" not in Ink().code(f"x = '{'a' * 100_000}'", "py")


def test_code_that_takes_long_stays_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    ink = Ink()
    assert "<i" in ink.code("def f(): pass", "py")
    clock = iter(range(1000))
    monkeypatch.setattr(text, "thread_time", lambda: next(clock))
    code = "def f(): return 'a'\n"
    assert ink.code(code, "py") == escape(code)
    # so does all that comes after it
    assert ink.code("def f(): pass", "py") == "def f(): pass"


def listed(count: int) -> Iterable[Conversation]:
    return (
        Conversation(
            number,
            "shop",
            f"talk {number}",
            f"Title {number}",
            "codex",
            "",
            0,
            0,
            number,
            0,
            number * 86_400_000,
            0,
            0,
            {"labels": ["bug & <i>"] if number == 2 else []},
        )
        for number in range(1, count + 1)
    )


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Be two hours east of Greenwich in summer, and one in winter."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("berlin")
def test_times_are_those_of_the_clock_here(store: Store, tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.user("Late", timestamp="2026-07-05T22:30:00.000Z")
    html = drawn(store, talk.bring(store))
    assert '<time datetime="2026-07-05T22:30:00.000Z">2026-07-06 00:30</time>' in html
    assert local(1_772_712_000_000) == "2026-03-05 13:00"
    assert (local(0), local(1 << 62)) == ("", "")


@pytest.mark.usefixtures("berlin")
def test_the_list_has_all_the_latest_first() -> None:
    html = index(listed(40), lambda one: f"shop/{one.id}.html").decode()
    rows = re.findall(r'<li><a href="(.*?)">(.*?)</a>', html, re.DOTALL)
    assert [address for address, _row in rows] == [f"shop/{number}.html" for number in range(40, 0, -1)]
    assert texts(rows[-2][1]).split() == ["1970-01-03", "Title", "2", "bug", "&", "<i>", "shop", "codex", "2", "events"]
    assert re.findall("<h2>(.*?)</h2>", html) == ["February 1970", "January 1970"]
    assert "There are no conversations yet." in index([], lambda one: "").decode()


def test_heads_of_real_sessions_say_something(store: Store) -> None:
    """Whatever tool wrote them: nearly every call that has arguments has a subject, and edits have their lines."""
    if not SAMPLES.is_dir():
        pytest.skip(f"no sample sessions at {SAMPLES} (CONVFS_SAMPLES)")
    for tool in ("claude-code", "codex", "gemini-cli", "pi", "opencode"):
        imported(store, *sorted((SAMPLES / tool).iterdir())[:3])
    seen: dict[str, int] = {}
    for one in store.library.conversations():
        html = drawn(store, structs.replace(one))
        for head in heads(html):
            seen[head.split(" ")[0]] = seen.get(head.split(" ")[0], 0) + 1
            assert "\n" not in head
        assert re.search(r"Edit \S+( \+\d+| −\d+)", texts(html)) or "Edit" not in " ".join(heads(html))
    assert {"Read", "Edit", "Bash"} <= seen.keys()
