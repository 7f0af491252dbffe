"""Agents go on with talks that hold a bit of everything, exported for them."""

from pathlib import Path

import pytest

from store.exporting.export import export
from store.store import Store
from tests.agents.conftest import NewHome
from tests.agents.test_gestures import EXPORTED
from tests.agents.tools import Home, Tool
from tests.store.exporting.conftest import store
from tests.store.exporting.talks import shop
from tests.store.exporting.test_sessions import TALK
from tests.store.importing.sessions import by_source, imported, jp

__all__ = ["store"]

QUESTION = "And what now?"
ANSWER = "Now it is taken up again."

OF_THE_SHOP = (
    "Fix the **login** bug",
    "I look at it.",
    "/home/ada/shop/login.py",
    'return "x"',
    "exit code 1",
    "It is fixed.",
    "And this?",
    "That, too.",
)
OF_JP = ("Fix it", "fn a() {}", "a.rs", "fn a() {}", "Done.")


def check_goes_on(home: Home, store: Store, conversation: int, calls: int, *said: str) -> None:
    """Have the agent resume a conversation, and check that its model was sent all of it, in order, in one piece."""
    store.contexts.set_metadata(conversation, {"cwd": str(home.work)})
    target = home.home / home.tool.exported
    with pytest.MonkeyPatch.context() as patch:
        # some sessions tell where they lie
        patch.setenv("HOME", str(home.home))
        done = export(store, store.library.conversation(conversation), target, home.tool.form)
    session = next(path for path in done.files if path in home.sessions)
    home.settle()
    home.model.answers(QUESTION, ANSWER)
    assert ANSWER in home.resume(QUESTION, session)
    request = home.model.last(QUESTION)
    assert len(request.check_calls(again=home.tool.rewrites)) == calls
    whole = request.text("user", "assistant", "call", "result")
    place = whole.find(said[0])
    for text in (*said, QUESTION):
        place = whole.find(text, place) + 1
        assert place, (text, whole)


@pytest.mark.parametrize("tool", EXPORTED, ids=str)
def test_a_talk_of_claude_code_goes_on(new_home: NewHome, store: Store, tmp_path: Path, tool: Tool) -> None:
    home = new_home(tool)
    talk = shop(tmp_path)
    for line in talk.lines:
        line["cwd"] = str(home.work)
    check_goes_on(home, store, talk.bring(store).id, 2, *OF_THE_SHOP)


@pytest.mark.parametrize("tool", EXPORTED, ids=str)
def test_a_talk_of_jp_goes_on(new_home: NewHome, store: Store, tmp_path: Path, tool: Tool) -> None:
    talk = jp(tmp_path, TALK)
    imported(store, talk)
    check_goes_on(new_home(tool), store, by_source(store, talk).id, 1, *OF_JP)
