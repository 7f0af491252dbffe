import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.artifacts.names import free_name, identity, is_name, listed_name, may_name
from store.errors import Conflict, UsageError
from store.events.conversation import AGENTS, ARTIFACTS, Outputs


@pytest.mark.parametrize(
    ("asked", "taken", "name"),
    [
        ("bash", [], "0.bash.log"),
        ("make.log", ["0.bash.log"], "1.make.log"),
        ("make", ["0.bash.log", "7.x.y.log", "3.z.log", "notes.txt"], "8.make.log"),
        ("out.txt", ["10.a.log", "9.b.log"], "11.out.txt.log"),
        ("5.bash.log", ["0.bash.log"], "5.bash.log"),
        ("mcp files/read", [], "0.mcp_files_read.log"),
    ],
)
def test_artifacts_are_numbered_on(asked: str, taken: list[str], name: str) -> None:
    assert listed_name(ARTIFACTS, asked, taken) == name
    assert is_name(ARTIFACTS, name)


@pytest.mark.parametrize(
    ("asked", "parent", "taken", "name"),
    [
        ("Explore", "", [], "0-Explore.md"),
        ("Explore.md", "", ["0-Plan.md", "0-Plan.4-Child.md"], "1-Explore.md"),
        ("Child", "0-Plan", ["0-Plan.md", "1-Other.md"], "0-Plan.0-Child.md"),
        ("Child", "0-Plan", ["0-Plan.md", "0-Plan.1-Child.md"], "0-Plan.2-Child.md"),
        ("0-Plan.Child", "", ["0-Plan.md"], "0-Plan.0-Child.md"),
        ("0-Plan.1-Child.md", "", ["0-Plan.md"], "0-Plan.1-Child.md"),
        ("a.b", "", [], "0-a.b.md"),
    ],
)
def test_agents_are_numbered_below_their_parents(asked: str, parent: str, taken: list[str], name: str) -> None:
    assert listed_name(AGENTS, asked, taken, parent=parent) == name
    assert is_name(AGENTS, name)


def test_a_number_that_is_taken_is_refused() -> None:
    with pytest.raises(Conflict, match="taken"):
        listed_name(ARTIFACTS, "0.other.log", ["0.bash.log"])
    with pytest.raises(Conflict, match="taken"):
        listed_name(AGENTS, "0-Plan.1-B.md", ["0-Plan.1-A.md"])


@pytest.mark.parametrize("asked", ["", " ", ".hidden", "x~", "#x#", "a" * 200])
def test_what_is_no_name_is_refused(asked: str) -> None:
    with pytest.raises(UsageError, match="is no name"):
        listed_name(ARTIFACTS, asked, [])


def test_files_of_editors_are_none() -> None:
    assert [name for name in (".0.make.log.swp", "0.make.log~", "#make#", ".#make") if may_name(name)] == []
    assert may_name("make")


def test_ids_are_what_urls_say() -> None:
    assert identity(ARTIFACTS, "12.bash.log") == "12"
    assert identity(AGENTS, "0-Parent.1-Child.md") == "0-Parent.1-Child"


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=12), max_size=8))
def test_every_new_name_has_a_number_of_its_own(words: list[str]) -> None:
    taken: list[str] = []
    for word in words:
        try:
            taken.append(listed_name(ARTIFACTS, word, taken))
        except UsageError:
            continue
    numbers = [identity(ARTIFACTS, name) for name in taken]
    assert len(set(numbers)) == len(numbers)
    assert all(re.fullmatch(r"[0-9]+\.[^/]+\.log", name, re.DOTALL) for name in taken)


@pytest.mark.parametrize(
    ("outputs", "name", "taken", "free"),
    [
        (ARTIFACTS, "0.make.log", set(), "0.make.log"),
        (ARTIFACTS, "0.make.log", {"1.make.log"}, "0.make.log"),
        (ARTIFACTS, "0.make.log", {"0.make.log", "4.test.log"}, "5.make.log"),
        (ARTIFACTS, "07.0.log", {"7.make.log"}, "8.0.log"),
        (AGENTS, "0-Plan.md", {"0-Explore.md", "0-Explore.0-Plan.md"}, "1-Plan.md"),
        (AGENTS, "0-Explore.0-Plan.md", {"0-Plan.md", "0-Explore.0-Look.md"}, "0-Explore.1-Plan.md"),
    ],
)
def test_a_name_whose_number_is_taken_gets_the_next(outputs: Outputs, name: str, taken: set[str], free: str) -> None:
    assert free_name(outputs, name, taken) == free
