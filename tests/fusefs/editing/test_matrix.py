"""No gesture is silent: it changes the record, or is refused with a reason that LAYOUT.md has in its table."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

import fusefs
from store.formats.core.format import Source
from store.importing.walk import walk
from store.store import Store
from tests.fusefs.editing.fixtures_of_tools import FILES, written
from tests.fusefs.editing.matrix import GESTURES, Outcome, cases, outcomes, table
from tests.fusefs.editing.native_door import NATIVE
from tests.fusefs.editing.sessions import SESSIONS, session
from tests.fusefs.editing.transcript_door import TRANSCRIPTS
from tests.fusefs.tree.mounting import new_store
from tests.store.importing.sessions import NO_SAMPLES, SAMPLES, imported

LAYOUT = Path(fusefs.__file__).with_name("LAYOUT.md")
_row = re.compile(r"^\| ([a-z ,]+) \| (.+?) \| (.+?) \|$", re.MULTILINE).findall
_quoted = re.compile(r"`([^`]+)`").findall
_MOST_AS_A_WHOLE = 400
_MOST_SESSIONS = 8 if os.environ.get("CONVFS_LARGE_TESTS") else 4
_MOST_OF_A_KIND = 2
_SAYS_SOMETHING = 20_000
"""The bytes of sessions that are more than a beginning."""
MORE_SAMPLES = SAMPLES.with_name("samples-2")
"""Those of other tools; some are sessions of a format that is read."""


def folders(samples: Path) -> list[str]:
    return sorted(path.name for path in samples.iterdir() if path.is_dir()) if samples.is_dir() else []


def told_reasons() -> dict[str, set[str]]:
    """Return the words of errors that LAYOUT.md's table has, each with the gestures that they refuse."""
    section = LAYOUT.read_text().partition("**What a record cannot hold**")[2].partition("\n\n**")[0]
    found: dict[str, set[str]] = {}
    for gestures, said, _why in _row(section):
        for words in _quoted(said):
            found.setdefault(words, set()).update(gestures.split(", "))
    return found


def check(found: Sequence[Outcome]) -> None:
    reasons = told_reasons()
    for one in found:
        if one.reason:
            fitting = [gestures for words, gestures in reasons.items() if words in one.reason]
            assert any(one.gesture in gestures for gestures in fitting), one


def matrix(store: Store, most: int, of_kind: int = 1000) -> list[Outcome]:
    found: list[Outcome] = []
    for case in cases(store, list(store.library.conversations()), most, of_kind):
        records = case.records.tree.view(case.view).records
        # that of a long conversation is not written anew so many times
        whole = (*GESTURES, *TRANSCRIPTS, *NATIVE)
        found += outcomes(case, [one for one in whole if one.door == "events/" or records <= _MOST_AS_A_WHOLE])
    return found


def test_the_matrix_of_short_sessions(tmp_path: Path) -> None:
    with new_store(tmp_path / "store") as store:
        for format_ in SESSIONS:
            session(store, format_)
        found = matrix(store, 100)
    print(table(found))
    assert {one.format for one in found} == set(SESSIONS)
    check(found)
    made = {(one.format, one.kind.name.lower(), one.gesture) for one in found if not one.reason}
    for format_ in ("claude-code", "pi", "api-messages", "gemini-cli"):
        for gesture in ("add a block", "remove a block", "reorder blocks"):
            assert any(one[0] == format_ and one[2] == gesture for one in made), (format_, gesture)
    assert {"claude-code", "codex", "pi", "gemini-cli", "claude-ai", "chatgpt", "api-messages"} <= {
        format_ for format_, _kind, gesture in made if gesture == "add a block"
    }
    # deleting takes no content: it is possible everywhere
    assert not [one for one in found if one.gesture in ("edit", "delete") and one.reason]
    # and so is a record that is there already, once more
    assert not [one for one in found if one.gesture == "add" and one.door != "transcripts/" and one.reason]


def test_the_matrix_of_short_files(tmp_path: Path) -> None:
    with new_store(tmp_path / "store") as store:
        imported(store, *(written(tmp_path / "sessions", name) for name in FILES))
        found = matrix(store, 100)
    print(table(found))
    check(found)
    by_format = {one.format for one in found if one.door == "native/"}
    assert by_format >= {"claude-code", "codex", "gemini-cli", "pi", "specstory"}
    # the file is the program's
    assert not [one for one in found if one.door == "native/" and one.reason]


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=NO_SAMPLES)
@pytest.mark.parametrize("folder", folders(SAMPLES))
def test_the_matrix_of_the_samples(tmp_path: Path, folder: str) -> None:
    check_samples(tmp_path, SAMPLES / folder)


@pytest.mark.skipif(not MORE_SAMPLES.is_dir(), reason=f"no sample sessions at {MORE_SAMPLES}")
@pytest.mark.parametrize("folder", folders(MORE_SAMPLES))
def test_the_matrix_of_samples_of_other_tools(tmp_path: Path, folder: str) -> None:
    check_samples(tmp_path, MORE_SAMPLES / folder)


def check_samples(tmp_path: Path, folder: Path) -> None:
    sizes = {source.path: source.main.stat().st_size for source in walk(folder) if isinstance(source, Source)}
    if not sizes:
        pytest.skip(f"no session in {folder.name} is of a format that is read")
    smallest = sorted(sizes, key=sizes.__getitem__)
    chosen = ([path for path in smallest if sizes[path] > _SAYS_SOMETHING] or smallest)[:_MOST_SESSIONS]
    with new_store(tmp_path / "store") as store:
        imported(store, *chosen)
        found = matrix(store, 1, _MOST_OF_A_KIND)
    print(table(found))
    assert found
    check(found)


def test_every_reason_in_the_table_is_one_that_a_program_gives() -> None:
    root = LAYOUT.parent.parent
    source = "".join(path.read_text() for part in ("store", "fusefs") for path in sorted((root / part).rglob("*.py")))
    for words in told_reasons():
        assert words in source, words
