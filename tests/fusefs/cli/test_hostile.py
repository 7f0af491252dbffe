"""A conversation that is hostile in every field: nothing that is printed, logged or written obeys it."""

import json
import os
import re
import subprocess
import time
import xml.etree.ElementTree
from pathlib import Path

import pytest

from fusefs.text import charts
from fusefs.tree.tree import Errors
from store import visible
from store.filenames import safe_name
from store.service.client import Client
from tests.fusefs.cli.mounted import mounted_if
from tests.fusefs.cli.test_command import on_a_terminal
from tests.fusefs.cli.user import User

OBEYED = [
    *map(chr, range(0x20)),
    *map(chr, range(0x7F, 0xA0)),
    *"\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff",
    "\x1b[2J",
    "\x1b]52;c;Y3VybCBldmlsLnRlc3Q=\x07",
    "\x1b]0;title\x1b\\",
    "\x1b[?1049h",
    "\x9b31m",
    "\r\nconvfs: done\n",
    "\x1bP$q\x1b\\",
]
"""Each of C0 and C1, every mark of direction, sequences that clear, set the clipboard or the title, and lines."""

HARMFUL = re.compile("(?![\n\t])[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
EVIL = "".join(text for text in OBEYED if text != "\0") + "</script><script>x</script>\"'><img src=x> $(id) `id`"
TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
"""Sequences that progress and the terminal itself write."""


def harmless(shown: str, *, lines: bool = True) -> None:
    found = HARMFUL.search(shown) if lines else re.search(HARMFUL.pattern + "|[\n\t]", shown)
    assert found is None, ascii(shown[max(0, found.start() - 200) : found.end() + 100])


@pytest.mark.parametrize("evil", [*OBEYED, EVIL], ids=ascii)
def test_what_is_made_visible(evil: str) -> None:
    text = f"before{evil}after"
    harmless(visible.line(text), lines=False)
    harmless(visible.lines(text))
    for value in ({text: [text]}, text):
        harmless(visible.json_text(value, indent=2))
        assert json.loads(visible.json_text(value)) == value
    harmless(safe_name(text), lines=False)
    harmless(charts.shown(text), lines=False)
    harmless(charts.attribute(text), lines=False)
    errors = Errors()
    errors.add(text, text)
    (name,) = errors
    harmless(name, lines=False)
    told = errors.get(name)
    assert told is not None
    harmless(told[1].decode())
    assert told[1].count(b"\n") <= 1 + text.count("\n")


@pytest.mark.parametrize("evil", [one for one in (*OBEYED, EVIL, "; rm -rf ~", "$(id)", "-rf") if "\0" not in one])
@pytest.mark.parametrize("shell", ["bash"])
def test_a_command_that_is_pasted_is_these_words(evil: str, shell: str) -> None:
    words = ["printf", "%s|", evil, f"a'{evil}\\n"]
    line = visible.command(*words)
    harmless(line, lines=False)
    done = subprocess.run([shell, "-c", line], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
    assert done.stdout.decode() == "".join(f"{word}|" for word in words[2:])


def filled(user: User) -> dict[str, str]:
    """Import a conversation that is hostile wherever one can be, and have a client make another one."""
    folder = user.home / ".claude/projects" / "-home-ada-evil"
    folder.mkdir(parents=True)
    at = {
        "sessionId": EVIL,
        "cwd": f"/home/{EVIL}",
        "version": EVIL,
        "gitBranch": EVIL,
        "timestamp": "2026-03-05T19:31:00Z",
    }
    call = {"type": "tool_use", "id": EVIL, "name": EVIL, "input": {EVIL: EVIL, "file_path": f"/{EVIL}"}}
    result = {"type": "tool_result", "tool_use_id": EVIL, "content": "hello", "is_error": True}
    usage = {"input_tokens": 10, "output_tokens": 5}
    answer = {"role": "assistant", "id": "m", "model": EVIL, "content": [call], "usage": usage}
    records = [
        {"type": "user", "message": {"role": "user", "content": EVIL}},
        {"type": "assistant", "message": answer},
        {"type": "user", "message": {"role": "user", "content": [result]}},
        {"type": EVIL, "message": {"role": EVIL, "content": EVIL}},
        {"type": "custom-title", "customTitle": EVIL},
        {"type": "summary", "summary": EVIL, "leafUuid": EVIL},
    ]
    lines = [json.dumps(at | {"uuid": f"u{number}", "parentUuid": None} | one) for number, one in enumerate(records)]
    name = safe_name(EVIL).replace("_", "\x1b")[:60] + "\n\u202e.jsonl"
    (folder / name).write_text("\n".join([*lines, "{broken"]) + "\n")
    bad = user.home / ".claude/projects" / "bad\x1b[2J\u202e\n.zip"
    bad.write_bytes(b"PK\x03\x04" + b"x" * 100)
    return {"session": str(folder / name), "bad": str(bad)}


def with_a_client(user: User) -> None:
    with Client.of(user.store) as client:
        made = client.create_context(
            metadata={"project": EVIL, "name": EVIL, "title": EVIL, "labels": [EVIL], "source": EVIL, "format": EVIL}
        )
        client.append(made.context, json.dumps({"text": EVIL, EVIL: EVIL}).encode(), f"type.{EVIL}"[:200])


@pytest.mark.parametrize(
    "mounted",
    [
        pytest.param(False, id="not mounted"),
        pytest.param(True, id="mounted", marks=pytest.mark.logs("the text is kept as metadata.json.draft")),
    ],
)
def test_every_command(user: User, mounted: bool) -> None:
    paths = filled(user)
    outputs: list[str] = []

    def ran(*arguments: object) -> str:
        done = user.convfs(*arguments)
        outputs.append(done.stderr)
        harmless(done.stderr)
        assert "bug in convfs" not in done.stderr, done.stderr
        assert all(
            line.startswith(("convfs: ", "Error", "Usage", "Try", "Imp")) or ": " in line
            for line in done.stderr.splitlines()
        )
        return done.stdout

    harmless(ran("import", paths["session"]))
    ran("import", paths["bad"])
    with mounted_if(user, mounted):
        if mounted:
            with_a_client(user)
        ids = [one["id"] for one in json.loads(ran("ls", "--json"))]
        assert len(ids) == 1 + mounted
        plain: list[tuple[object, ...]] = [
            ("ls",),
            ("ls", "--json"),
            ("ls", EVIL.replace("\0", "")),
            ("stats",),
            *((("stats", "--by", by)) for by in ("project", "model", "day", "tool")),
            ("stats", "--json"),
            ("search", "--json", "hello"),
            ("grep", "--json", "hello"),
            ("grep", "-l", "."),
            ("grep", "-c", "."),
            ("where", paths["session"]),
            ("doctor",),
            ("gc", "--dry-run"),
            ("seal", "--dry-run"),
            ("prune", "--dry-run", "--before", "0"),
            ("cat", f"artifact://{EVIL}"),
            ("cat", "artifact://0"),
            ("show", f"nobody/{EVIL}"),
            ("redact", "--dry-run", "hello"),
        ]
        for one in ids:
            plain += [
                ("log", one),
                ("log", one, "--json"),
                ("show", one, "--json"),
                ("show", one, "--files"),
                ("context", one, "--json"),
                ("diff", f"{one}@1", f"{one}@9"),
                ("restore", one, "99"),
                ("export", one, "-o", user.home / "out" / str(one)),
                *(
                    ("export", one, "--format", form, "-o", user.home / f"{form}{one}")
                    for form in ("markdown", "html", "jp")
                ),
                ("export", one, "--json", "--format", "codex", "-o", user.home / f"json{one}"),
            ]
        for arguments in plain:
            harmless(ran(*arguments))
        for arguments in (
            ("ls",),
            ("show", ids[-1]),
            ("search", "hello"),
            ("grep", "."),
            ("diff", f"{ids[0]}@1", f"{ids[0]}@1"),
        ):
            try:
                shown = on_a_terminal(user, *arguments)
            except AssertionError as failed:
                shown = str(failed)
            harmless(TERMINAL.sub("", shown))
        exported = [path for path in user.home.rglob("*.html") if path.is_file()]
        assert len(exported) == len(ids)
        for path in exported:
            page = path.read_text()
            assert not re.search("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f]", page)
            assert "<script>x" not in page
            assert "<img src=x" not in page
            for line in re.findall(r"<title>.*?</title>|<h1.*?</h1>|<code>.*?</code>|<p class.*?</p>", page, re.DOTALL):
                harmless(line)
        if mounted:
            in_the_mount(user, Path(user.environment["MOUNTED"]))


LOOKING = """
import os, sys
from pathlib import Path
root = Path(sys.argv[1])
for folder in ("conversations", "by-label", "recent", ".convfs/errors", "transcripts"):
    for path in [root / folder, *sorted((root / folder).rglob("*"))]:
        print("NAME", ascii(path.name))
for drawing in (root / ".convfs/stats.svg", *(path / "family.svg" for path in root.glob("conversations/*/*"))):
    print("SVG", ascii(drawing.read_text()))
for text in root.glob("transcripts/*/*.md"):
    print("HEAD", ascii(text.read_bytes().split(b"\\n\\n## ")[0].decode(errors="replace")))
    for line in text.read_bytes().decode(errors="replace").split("\\n"):
        if line.startswith("## "):
            print("HEADING", ascii(line))
event = next(path for path in root.glob("conversations/*/*/metadata.json"))
try:
    event.write_text("{")
except OSError:
    pass
bad = root / "import" / "bad\\x1b[2J\\u202e.zip"
bad.write_bytes(b"PK\\3\\4" + b"x" * 100)
for error in sorted((root / ".convfs/errors").iterdir()):
    print("ERROR", ascii(error.read_text()))
"""


def in_the_mount(user: User, mountpoint: Path) -> None:
    looked = subprocess.run(
        ["python3", "-c", LOOKING, mountpoint], capture_output=True, text=True, timeout=120, check=True
    )
    kinds = set()
    for said in looked.stdout.splitlines():
        kind, _, text = said.partition(" ")
        kinds.add(kind)
        harmless(eval(text), lines=kind in ("SVG", "HEAD", "ERROR"))
        if kind == "SVG":
            drawing = xml.etree.ElementTree.fromstring(eval(text))
            for element in drawing.iter():
                assert not element.tag.endswith(("script", "image", "foreignObject", "use"))
                assert not any(name.startswith("on") for name in element.attrib)
                assert ":" not in element.attrib.get("href", "").split("/")[0]
    assert kinds >= {"NAME", "SVG", "HEAD", "HEADING"}
    report = user.store / "scratch"
    end = time.monotonic() + 30
    while not (found := [*report.rglob("*.report.txt")]) and time.monotonic() < end:
        time.sleep(0.1)
    assert found
    harmless(found[0].read_text())
    harmless((user.store / "log").read_text())


def test_a_path_that_is_hostile_is_told_harmlessly(user: User) -> None:
    for place in ("x\x1b[2J\u202e", "a\nb", "$(id);'"):
        told = user.fails("import", place)
        harmless(told)
    os.makedirs(user.home / "x\x1b[2J")
    harmless(user.convfs("umount", user.home / "x\x1b[2J").stderr)
