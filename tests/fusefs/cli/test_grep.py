"""``convfs grep`` against the real one, byte by byte, over the contents of the same event files."""

import contextlib
import io
import os
import pickle
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from fusefs.cli.main import main
from fusefs.text.late import late_renderer
from fusefs.text.render import FileRenderer
from fusefs.tree.paths import Paths
from store.events.event import Event, Kind
from store.search.terms import Text
from store.store import Store
from tests.fusefs.cli.user import ROOT, User

TEXTS = (
    "Why does the Daemon hang?\nIt holds a lock.\n\nA lock, a Lock and a clock: lock(a)\n\nalock locks\n",
    "The lock is stale.\nlock lock\nlocklock\n\n\nno more",
    "aab\nabab\n\tbaaa ab-ab\nÄrger über Straße\nx.y xzy\n\none\ntwo\nthree\nfour\nlock\nfive",
    "nothing here",
    "\n\n",
)
PATTERNS = ("lock", "Lock", "l.ck", "^The", "lock$", "(ab|a)+", "a", "ab", "aa", "ba", "[a-c]+", "x*", "ä", "x.y", "^$")
FIXED = ("lock", "lock(a)", "x.y", "ab", "aba", "b", "Ü", "lock lock", "nowhere")
FLAGS = ("-n", "-v", "-o", "-i", "-w", "-c", "-l", "-E")


class Talks(NamedTuple):
    """The contents of event files below a directory, and the number of lines before each, by its path."""

    directory: Path
    heads: dict[str, int]


@pytest.fixture
def talks(user: User, monkeypatch: pytest.MonkeyPatch) -> Talks:
    user.session("shop", "a", *TEXTS)
    user.session("mill", "b", *TEXTS[::-1])
    user.run("import")
    directory, heads = user.home / "contents", {}
    with Store.open(user.store, renderer=FileRenderer(), create=False) as store:
        paths, renderer = Paths(store), FileRenderer()
        for entry in store.catalogue.page():
            for row, event in store.viewer.events(store.records.rows(entry.head)):
                assert isinstance(event, Event)
                if row.kind is not Kind.RECORD:
                    path = f"{paths.conversation(entry)}/events/{row.number:05}-{row.kind.name.lower()}.md"
                    (directory / path).parent.mkdir(parents=True, exist_ok=True)
                    (directory / path).write_text("".join(f"{line}\n" for line in Text(renderer.content(event)).lines))
                    heads[path] = renderer.first_line(row.number, event) - 1
    for name, value in user.environment.items():
        monkeypatch.setenv(name, value)
    return Talks(directory, heads)


def ours(*arguments: str) -> tuple[object, str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as ended:
        main(["grep", *arguments])
    return ended.value.code, out.getvalue()


def theirs(talks: Talks, paths: list[str], *arguments: str) -> str:
    """Return what grep prints about files, with the numbers that lines have below the heads."""
    done = subprocess.run(
        ["grep", "-H", "-n", *arguments, "--", *paths],
        cwd=talks.directory,
        capture_output=True,
        env=os.environ,
        text=True,
    )
    assert (done.stderr, done.returncode in (0, 1)) == ("", True)

    def moved(found: re.Match[str]) -> str:
        return f"{found[1]}{found[2]}{int(found[3]) + talks.heads[found[1]]}{found[2]}"

    if {"-c", "-l"} & {*arguments}:
        return done.stdout
    return re.sub(r"^(conversations/.*?\.md)([:-])(\d+)\2", moved, done.stdout, flags=re.MULTILINE)


def chosen(chance: random.Random) -> list[str]:
    """Return some options of grep, and patterns."""
    options = chance.sample(FLAGS, chance.randrange(4))
    if {"-c", "-l"} <= {*options}:
        options.remove("-c")
    fixed = chance.random() < 0.3
    if fixed:
        options = [*(option for option in options if option != "-E"), "-F"]
    for option in chance.sample(["-A", "-B", "-C"], chance.choice([0, 0, 1, 2])):
        options += [option, str(chance.randrange(4))]
    if chance.random() < 0.2:
        options += ["--include", chance.choice(["*-user.md", "0000[12]*", "*[!t].md"])]
    for pattern in chance.sample(FIXED if fixed else PATTERNS, chance.choice([1, 1, 2, 3])):
        options += ["-e", pattern]
    return options


@pytest.mark.parametrize("seed", range(4))
def test_every_option_is_that_of_grep(talks: Talks, seed: int) -> None:
    chance = random.Random(seed)
    printed = 0
    for _ in range(60):
        options = chosen(chance)
        listing = [option for option in options if option not in ("-c", "-l")]
        code, listed = ours("-l", *listing)
        paths = listed.splitlines()
        alike = [] if {"-F", "-E"} & {*options} else ["-E"]
        assert sorted(paths) == sorted(theirs(talks, [*talks.heads], "-l", *alike, *listing).splitlines()), options
        assert code == (0 if paths else 1)
        code, said = ours(*options)
        if paths:
            assert said == theirs(talks, paths, *alike, *options), options
        printed += len(said)
    assert printed


@pytest.mark.parametrize(
    "flag", ["-n", "-v", "-o", "-i", "-w", "-c", "-l", "-A1", "-B1", "-C1", "-C0", "-vnC1", "-onA2"]
)
def test_an_option_by_itself(talks: Talks, flag: str) -> None:
    _code, listed = ours("-l", *(["-v"] if "v" in flag else []), "-e", "lock")
    assert (0, theirs(talks, listed.splitlines(), flag, "-e", "lock")) == ours(flag, "lock")


def test_a_slow_expression_tells_what_it_matches(talks: Talks) -> None:
    _code, said = ours("-o", "(l+o+)+ck", "project:mill")
    assert {line.rpartition(":")[2] for line in said.splitlines()} == {"lock"}


def test_what_grep_cannot_do(user: User) -> None:
    user.session("shop", "a", *TEXTS)
    user.run("import")
    assert "name a PATTERN" in user.fails("grep", code=2)
    assert "exclude each other" in user.fails("grep", "-o", "--json", "lock", code=2)
    assert user.convfs("grep", "-e", "lock", "project:nowhere").returncode == 1
    assert "filters alone" in user.fails("grep", "lock", "project:shop OR lock")
    assert user.run("grep", "--json", "-A1", "stale").count('"context": true') == 1


def test_what_is_kept_is_found_without_what_draws_packs_collects_or_shares(user: User) -> None:
    user.session("shop", "a", *TEXTS)
    user.run("import")
    with Store.open(user.store, renderer=FileRenderer()) as store:
        # as a daemon does when it is idle
        while store.texts.step():
            pass
    program = (
        "import sys; from fusefs.cli.main import main\ntry: main(['grep', 'l.ck'])\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=user.environment, capture_output=True, text=True, check=True
    )
    assert "It holds a lock." in done.stdout
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "store.search.search" in loaded
    heavy = {"fusefs.text.grammar", "multiprocessing", "pyfastcdc", "_hashlib", "store.shared.replica"}
    heavy |= {"inspect", "subprocess", "tempfile", "shutil", "store.formats.registry", "store.formats.core.editing"}
    heavy |= {"store.service.caller", "socket", "urllib.parse"}
    heavy |= {"trio", "pyfuse3", "psycopg", "obstore", "cryptography", "rich"}
    assert loaded & {*heavy, "store.upkeep.gc", "store.upkeep.sealer"} == set()


def test_a_renderer_that_is_loaded_late_draws_the_same() -> None:
    event = Event(Kind.NOTE, header={"note": "tea"})
    late, drawn = late_renderer(), FileRenderer()
    assert late.version == drawn.version
    for _ in range(2):
        assert late.drawn(3, event) == drawn.drawn(3, event)
        assert late.described("one", "two") == drawn.described("one", "two")
    # as processes that help with an import get it
    assert isinstance(pickle.loads(pickle.dumps(late)), FileRenderer)
    with pytest.raises(AttributeError):
        _ = late.nothing  # type: ignore[attr-defined]  # on purpose
