import os
import time
from pathlib import Path

from store.formats.core.format import Source
from store.importing.snapshot import Cursor, path_text, stamp, stamps_beside, stamps_of_first, unchanged


def settle() -> None:
    time.sleep(0.03)


def source(folder: Path) -> Source:
    for name in ("events.json", "base_config.json", "metadata.json"):
        (folder / name).write_text("{}")
    settle()
    return Source(
        "jp",
        folder,
        folder / "events.json",
        first=(str(folder / "base_config.json"),),
        sidecars=(("metadata.json", folder / "metadata.json"),),
    )


def test_a_stamp_tells_that_something_was_written(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("one")
    settle()
    before = stamp(path)
    assert stamp(path) == before
    path.write_text("two")
    settle()
    assert stamp(path) != before


def test_a_stamp_of_this_moment_equals_no_other(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("one")
    assert stamp(path) != stamp(path)


def test_a_clock_that_went_backwards_is_not_believed(tmp_path: Path, monkeypatch: object) -> None:
    path = tmp_path / "a"
    path.write_text("one")
    ahead = time.time_ns() + 10**12
    os.utime(path, ns=(ahead, ahead))
    settle()
    assert stamp(path) == stamp(path)


def test_whatever_belongs_to_a_session_is_watched(tmp_path: Path) -> None:
    session = source(tmp_path)
    cursor = Cursor(0, "", 0, stamp(session.main))
    beside = stamps_of_first(session) | stamps_beside(session)
    assert set(beside) == {path_text(tmp_path / name) for name in ("", "base_config.json", "metadata.json")}
    assert unchanged(session.main, cursor, beside)
    for change in (
        lambda: session.main.write_text("[]"),
        lambda: (tmp_path / "base_config.json").write_text("{}"),
        lambda: (tmp_path / "metadata.json").unlink(),
        lambda: (tmp_path / "new").write_text(""),
        lambda: session.main.unlink(),
    ):
        change()
        settle()
        assert not unchanged(session.main, cursor, beside)
        if session.main.exists():
            cursor = Cursor(0, "", 0, stamp(session.main))
            beside = stamps_of_first(session) | stamps_beside(session)
            assert unchanged(session.main, cursor, beside)


def test_a_file_that_has_gone_has_no_stamp(tmp_path: Path) -> None:
    session = source(tmp_path)
    (tmp_path / "metadata.json").unlink()
    assert path_text(tmp_path / "metadata.json") not in stamps_beside(session)
