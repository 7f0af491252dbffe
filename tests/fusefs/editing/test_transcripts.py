"""Transcripts, saved by programs as they save any file: what is changed in them changes in the events."""

import errno
import json
import os
import shutil
from pathlib import Path

import pytest

from tests.fusefs.editing.talk import NAME, Talk
from tests.fusefs.tree.mounting import assistant, bookkeeping, errno_of, until, user


def called(tool: str, given: object, second: int) -> str:
    """Return a line of a session in which the model calls a tool."""
    line = json.loads(assistant("", second))
    line["message"]["content"] = [{"type": "tool_use", "id": f"c{second}", "name": tool, "input": given}]
    return json.dumps(line)


def returned(text: str, call: int, second: int) -> str:
    """Return a line of a session with the result of a call."""
    line = json.loads(user("", second))
    line["message"]["content"] = [{"type": "tool_result", "tool_use_id": f"c{call}", "content": text}]
    return json.dumps(line)


def hook(text: str, second: int) -> str:
    """Return a line of a session with what a hook tells the model at its beginning."""
    line = json.loads(user("", second)) | {"type": "attachment"}
    del line["message"]
    told = {"type": "hook_success", "hookName": "SessionStart:startup", "hookEvent": "SessionStart", "content": text}
    return json.dumps(line | {"attachment": told})


LINES = [
    hook("You are in a garden", 0),
    user("Hello there", 1),
    assistant("# Greetings\nin two lines\n\n<details>\n", 2),
    bookkeeping(),
    called("Bash", {"command": "ls -l", "description": "List"}, 3),
    returned("total 0\n## no heading", 3, 4),
    called("Edit", {"file_path": "/a.py", "old_string": "one", "new_string": "two"}, 5),
    returned("done", 5, 6),
    called("TodoWrite", {"todos": [{"content": "Weed", "status": "pending"}]}, 7),
    user("The last", 8),
]


@pytest.fixture
def lines() -> list[str]:
    return LINES


@pytest.fixture
def file(talk: Talk) -> Path:
    return talk.mount.root / "transcripts" / "project" / f"{NAME}.md"


def records(talk: Talk) -> dict[str, bytes]:
    """Return the bytes of all records."""
    folder = talk.root / ".records"
    return {name: (folder / name).read_bytes() for name in sorted(os.listdir(folder))}


def changed(talk: Talk, before: dict[str, bytes]) -> list[int]:
    """Return the numbers of the records that have other bytes than before, or are new or gone."""
    now = records(talk)
    return sorted({int(name[:5]) for name in before.keys() | now.keys() if before.get(name) != now.get(name)})


def section(text: str, number: int) -> str:
    """Return a section, with the blank line before it."""
    start = text.index(f"\n## {number} ")
    end = text.find("\n## ", start + 1)
    return text[start:] if end < 0 else text[start:end]


def replaced(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


def test_the_same_bytes_are_no_version(talk: Talk, file: Path) -> None:
    text = file.read_text()
    assert "*1 · note · events/00001-note.md*" in text
    file.write_text(text)
    file.write_text(text.removesuffix("\n"))
    file.write_text(text + "\n\n")
    talk.mount.shell(f"cd {file.parent}; cp {file.name} copy; mv copy {file.name}; sed -i s/absent/absent/ {file.name}")
    assert talk.new_versions == 0
    assert file.read_text() == text


def test_texts_of_several_events_are_one_version(talk: Talk, file: Path) -> None:
    before, text = records(talk), file.read_text()
    for old, new in (
        ("Hello there", "### Goodbye\n\nthere"),
        ("### Greetings", "#### Greetings"),
        ("\\<details>", "\\<summary>"),
        ("total 0", "total 1\n```\n ## still none"),
        ("ls -l\n", 'ls -l "a b"\n'),
        ("done", "all done"),
    ):
        text = replaced(text, old, new)
    file.write_text(text)
    assert talk.new_versions == 1
    assert changed(talk, before) == [2, 3, 5, 6, 8]
    now = records(talk)
    assert json.loads(now["00002.json"])["message"]["content"] == "# Goodbye\n\nthere"
    assert json.loads(now["00003.json"])["message"]["content"][0]["text"] == "## Greetings\nin two lines\n\n<summary>\n"
    given = json.loads(now["00005.json"])["message"]["content"][0]["input"]
    assert given == {"command": 'ls -l "a b"', "description": "List"}
    result = json.loads(now["00006.json"])["message"]["content"][0]["content"]
    assert result == "total 1\n```\n## still none\n## no heading"
    # a fence that is longer than the run of backticks in it
    text = text.replace("```\ntotal 1", "````\ntotal 1")
    assert file.read_text() == text.replace("no heading\n```", "no heading\n````")
    assert file.stat().st_size == len(file.read_bytes())


def test_what_was_drawn_as_it_was_saved_stays_as_it_was_saved(talk: Talk, file: Path) -> None:
    text = replaced(file.read_text(), "Hello", "Goodbye")
    file.write_text(text)
    before = file.stat()
    assert file.read_text() == text
    assert file.stat().st_mtime_ns == before.st_mtime_ns


def test_a_section_that_is_taken_out_is_an_event_deleted(talk: Talk, file: Path) -> None:
    before, text = records(talk), file.read_text()
    file.write_text(text.replace(section(text, 8), ""))
    assert talk.new_versions == 1
    assert changed(talk, before) == []
    assert not [name for name in talk.listed if name.startswith("00008")]
    # and one that is put back brings it back
    file.write_text(text)
    assert talk.new_versions == 2
    assert file.read_text() == text
    assert [name for name in talk.listed if name.startswith("00008")]


def test_a_new_section_is_a_new_event(talk: Talk, file: Path) -> None:
    before, text = records(talk), file.read_text()
    file.write_text(f"{text}\n## user\n\n### One more\n\nthing\n")
    assert talk.new_versions == 1
    assert changed(talk, before) == [11]
    new = json.loads(records(talk)["00011.json"])
    assert new["message"] == {"role": "user", "content": "# One more\n\nthing"}
    assert new["parentUuid"] == "u8"
    assert "\n### One more\n\nthing\n" in section(file.read_text(), 11)


def test_new_sections_between_others(talk: Talk, file: Path) -> None:
    before, text = records(talk), file.read_text()
    start = text.index("\n## 3 ")
    behind = replaced(text[start:], "The last", "The end")
    file.write_text(f"{text[:start]}\n## user\nFirst\n\n## user\n\nSecond\n{behind}")
    assert talk.new_versions == 1
    now = list(records(talk).values())
    was = list(before.values())
    assert now[:2] == was[:2]
    assert now[4:11] == was[2:9]
    said = [json.loads(one)["message"]["content"] for one in (now[2], now[3], now[11])]
    assert said == ["First", "Second", "The end"]
    assert json.loads(now[3])["parentUuid"] == json.loads(now[2])["uuid"]


def test_an_editor_that_saves_again_makes_no_second_event(talk: Talk, file: Path) -> None:
    """Its text has the new section still without a number."""
    text = file.read_text()
    file.write_text(f"{text}\n## user\n\nOne more\n")
    first = records(talk)
    file.write_text(f"{text}\n## user\n\nOne more thing\n")
    assert changed(talk, first) == [11]
    assert talk.new_versions == 2
    file.write_text(f"{text}\n## user\n\nOne more thing\n")
    assert talk.new_versions == 2
    file.write_text(f"{text}\n## user\n\nOne more thing\n\n## user\n\nAnd another\n")
    assert [name[:5] for name in talk.listed][-2:] == ["00011", "00012"]


def test_the_tool_of_a_heading(talk: Talk, file: Path) -> None:
    before, text = records(talk), file.read_text()
    file.write_text(replaced(text, "## 7 · call Edit ·", "## 7 · call Multi<b>Edit ·"))
    assert talk.new_versions == 1
    assert changed(talk, before) == [7]
    assert json.loads(records(talk)["00007.json"])["message"]["content"][0]["name"] == "Multi<b>Edit"


def test_the_title(talk: Talk, file: Path) -> None:
    text = replaced(file.read_text(), "\n# A talk\n", "\n# In the *garden* \\<summary>\n")
    file.write_text(text.replace("Hello", "Goodbye"))
    assert json.loads((talk.root / "metadata.json").read_text())["title"] == "In the *garden* <summary>"
    assert talk.new_versions == 1
    assert talk.transcript.startswith('---\ntitle: "In the *garden* \\u003csummary>"\n')
    assert "Goodbye" in talk.transcript
    file.write_text(file.read_text().replace("<summary>", "<b>"))
    assert talk.new_versions == 1
    assert "\n# In the *garden* \\<b>\n" not in talk.transcript
    assert json.loads((talk.root / "metadata.json").read_text())["title"] == "In the *garden* <b>"


@pytest.mark.parametrize(
    ("old", "new", "line", "told"),
    [
        ("-one\n", "-three\n", "-three", 'write back "-one"'),
        ("- [ ] Weed", "- [x] Weed", "- [x] Weed", "write back"),
        ("*1 · note ·", "*1 · system ·", "*1 · system", "the text of event 1 is in its own file"),
        ("events/00001-note.md*\n", "events/00001-note.md*\n\nMore\n", "*1 · note", "nothing but empty lines"),
        ("`description: List`", "`description: Table`", "`description: Table`", "write back"),
        ("+two\n", "+two\n+three\n", "+three", "take this out"),
        ("## 8 · result", "## 8 · call", "## 8 · call", "only the tool can be changed"),
        ("## 8 · result Edit · 2026", "## 8 · result Edit · 2027", "## 8 · result", "only the tool"),
        ("## 2 · user", "## 2 · user Bash", "## 2 · user Bash", "an event with a tool has one"),
        ("## 8 · result", "## 7 · result", "## 7 · result", "event 7 stands on line"),
        ("## 8 · result", "## 4 · result", "## 4 · result", "event 4 is no event that can be shown"),
        ("## 8 · result", "## 99 · result", "## 99 · result", "event 99 is not there"),
        ("Hello there", "## Hello\n", "## Hello", "is the heading of no event"),
        ("Hello there", "Hello\n\n## config\n\nthere", "## config", "config"),
        ("Hello there", "Hello\n\n## user\n", "## user", "a new event has a text"),
        ("format: claude-code", "format: codex", "format: codex", "write back format: claude-code"),
        ("title: A talk", "title: Another", "title: Another", "write back title: A talk"),
        ("# A talk\n", "# A talk\n\nFoo\n", "Foo", "this belongs to no event"),
        ("# A talk\n", "# \n", "# ", "write back # A talk"),
    ],
)  # fmt: skip
def test_what_is_only_drawn_is_refused_with_its_line(
    talk: Talk, file: Path, old: str, new: str, line: str, told: str
) -> None:
    text = file.read_text()
    wrong = replaced(text, old, new).replace("total 0", "total 7")
    assert errno_of(lambda: file.write_text(wrong)) == errno.EINVAL
    draft = file.with_name(f"{file.name}.draft")
    assert draft.read_text() == wrong
    number = next(number for number, one in enumerate(wrong.split("\n"), 1) if one.startswith(line) and line in one)
    assert f"{file.name}: line {number}: " in talk.errors
    assert told in talk.errors
    draft.unlink()
    until(lambda: file.read_text() == text)
    assert talk.new_versions == 0


CHANGING = {
    "vim": "vim -es -u NONE -c '%s/Hello/Goodbye/' -c wq {0}",
    "vim backupcopy=yes": "vim -es -u NONE -c 'set backupcopy=yes' -c '%s/Hello/Goodbye/' -c wq {0}",
    "vim backupcopy=no": "vim -es -u NONE -c 'set backupcopy=no writebackup' -c '%s/Hello/Goodbye/' -c wq {0}",
    "vim with a swap file": "vim -es -u NONE -c 'set swapfile directory=.' -c '%s/Hello/Goodbye/' -c wq {0}",
    "sed -i": "sed -i s/Hello/Goodbye/ {0}",
    "perl -pi": "perl -pi -e s/Hello/Goodbye/ {0}",
    "in place, truncated": "cp {0} /dev/shm/$$; sed s/Hello/Goodbye/ /dev/shm/$$ > {0}; rm /dev/shm/$$",
    "beside it, and renamed": "sed s/Hello/Goodbye/ {0} > x; mv x {0}",
    "removed before": "sed s/Hello/Goodbye/ {0} > x; rm {0}; cp x {0}; rm x",
    "moved away before": "sed s/Hello/Goodbye/ {0} > x; mv {0} {0}~; cp x {0}; rm x {0}~",
    "linked": "sed s/Hello/Goodbye/ {0} > x; cp --remove-destination x {0}; rm x",
    "a byte in place": "printf J | dd of={0} bs=1 conv=notrunc seek=$(grep -b -o Hello {0} | head -n 1 | cut -d: -f1)",
}


@pytest.mark.parametrize("how", CHANGING)
def test_however_it_is_saved_it_is_one_version(talk: Talk, file: Path, how: str) -> None:
    if not shutil.which(program := how.split(maxsplit=1)[0]) and program in ("vim", "perl"):
        pytest.skip(f"{program} is not installed")
    before, text = records(talk), file.read_text()
    talk.mount.shell(f"cd {file.parent}; set -e; {CHANGING[how].format(file.name)}")
    saved = text.replace("Hello", "Jello" if how == "a byte in place" else "Goodbye")
    until(lambda: file.read_text() == saved)
    assert talk.new_versions == 1
    assert changed(talk, before) == [2]
    assert os.listdir(file.parent) == [file.name]


def test_as_vs_code_saves(talk: Talk, file: Path) -> None:
    """It opens the file anew for all of it, or writes all of it and cuts off the rest."""
    data = file.read_bytes()
    for old, new, flags in ((b"Hello", b"Goodbye", os.O_TRUNC), (b"Goodbye there", b"Hi", 0)):
        data = data.replace(old, new)
        descriptor = os.open(file, os.O_WRONLY | flags)
        half = len(data) // 2
        os.write(descriptor, data[:half])
        os.write(descriptor, data[half:])
        os.ftruncate(descriptor, len(data))
        os.fsync(descriptor)
        os.close(descriptor)
        assert file.read_bytes() == data
    assert talk.new_versions == 2


def test_who_has_the_old_one_open_keeps_it(talk: Talk, file: Path) -> None:
    old = file.read_text()
    (file.parent / "new").write_text(old.replace("Hello", "Goodbye"))
    with file.open() as reader:
        os.rename(file.parent / "new", file)
        assert reader.read() == old
    assert file.read_text() == old.replace("Hello", "Goodbye")


def test_what_is_appended_meanwhile_stays(talk: Talk, file: Path) -> None:
    """Also where it came before the save began: the program has never seen it."""
    text = file.read_text()
    talk.mount.tell(append=[1, [user("From elsewhere", 20)]])
    until(lambda: len(talk.listed) == 10)
    saved = text.replace("Hello", "Goodbye") + "\n## user\n\nFrom here\n"
    file.write_text(saved)
    assert said(talk) == ["From here", "From elsewhere"]
    # the program has not read the file since
    file.write_text(saved.replace("From here", "From there"))
    assert said(talk) == ["From there", "From elsewhere"]
    shown = file.read_text()
    file.write_text(shown.replace(section(shown, 12), ""))
    assert said(talk) == ["The last", "From there"]


def said(talk: Talk) -> list[str]:
    """Return the last lines of the last two events."""
    return [(talk.events / name).read_text().splitlines()[-1] for name in talk.listed[-2:]]


def test_what_is_appended_while_it_is_written_stays(talk: Talk, file: Path) -> None:
    text = file.read_text()
    with file.open("w") as writer:
        writer.write(text.replace("Hello", "Goodbye"))
        writer.flush()
        talk.mount.tell(append=[1, [user("From elsewhere", 20)]])
    until(lambda: "From elsewhere" in file.read_text())
    assert "Goodbye" in file.read_text()


def test_a_removed_transcript_is_there_again(talk: Talk, file: Path) -> None:
    text = file.read_text()
    file.unlink()
    assert not file.exists()
    until(file.exists)
    assert file.read_text() == text
    assert talk.new_versions == 0
