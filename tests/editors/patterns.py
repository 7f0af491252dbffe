"""Save patterns: what each program does to change a file, driven by the program itself.

Each is a function that changes the file NAME of a place. What it leaves the file with, and what it leaves beside the
file, stands in the table with it.
"""

import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from tests.editors.place import Place
from tests.editors.saver import HOW
from tests.editors.terminal import Terminal

SAVER = Path(__file__).with_name("saver.py")
ADDED = b"One more line.\n"
COMPLAINTS = r"WARNING|Warning|ATTENTION|\b[EW][0-9]+:|[Ee]rror|[Cc]annot|[Cc]hanged on disk|since (?:reading|editing)"
"""Messages of editors when a file is not as they left it."""


Change = Callable[[bytes], bytes]
"""Makes what a file is to hold of what it holds."""


@dataclass(frozen=True)
class Pattern:
    """One way to save.

    ``saved`` makes what the file holds afterwards of what it held before; ``redrawn`` what it is drawn as once nobody
    remembers how it was saved. ``left`` tells what is left beside the file, as a template of the name (``{}~``), and
    whether that is the file as it was. ``versions`` is how many there are more afterwards. ``rewrite`` saves the file
    in the same way with any content.
    """

    name: str
    save: Callable[[Place, str], None]
    saved: Change
    needs: tuple[str, ...] = ()
    left: Mapping[str, bool] = field(default_factory=dict)
    redrawn: Change | None = None
    versions: int = 1
    rewrite: Callable[[Place, str, Change], None] | None = None

    def check_needs(self) -> None:
        """Skip the test that runs where a program is missing."""
        for program in self.needs:
            if shutil.which(program) is None:
                pytest.skip(f"{program} is not installed")


def appended(old: bytes) -> bytes:
    """Return the file with a line more."""
    return old + ADDED


def replaced(old: bytes) -> bytes:
    """Return the file with another word in it."""
    assert b"alpha" in old
    return old.replace(b"alpha", b"ALEPH, the first letter", 1)


def same(old: bytes) -> bytes:
    """Return the file as it is."""
    return old


# -- editors in a terminal ---------------------------------------------------------------------------------------------


def vim(place: Place, name: str, *, options: str = "", change: str = "GoOne more line.", write: str = ":w") -> None:
    arguments = ["--cmd", f"set {options}"] if options else []
    with place.terminal("vim", *arguments, name) as terminal:
        terminal.wait_for("alpha")
        if change:
            terminal.type(change)
            terminal.press("Escape")
        terminal.type(write)
        terminal.press("Enter")
        if "q" not in write and "x" not in write:
            terminal.wait_for(r"\d+L, \d+B written")
            terminal.type(":q")
            terminal.press("Enter")
        terminal.wait_end()
        quiet(terminal)


def vim_twice(place: Place, name: str) -> None:
    """Save twice in one session: the second time, vim compares the file's time with what it left."""
    lines = (place.directory / name).read_bytes().count(b"\n")
    with place.terminal("vim", name) as terminal:
        terminal.wait_for("alpha")
        terminal.type("GoOne more line.")
        terminal.press("Escape")
        terminal.type(":w")
        terminal.press("Enter")
        terminal.wait_for(r"\d+L, \d+B written")
        terminal.type("oAnd another.")
        terminal.press("Escape")
        terminal.type(":w")
        terminal.press("Enter")
        terminal.wait_for(rf" {lines + 2}L, \d+B written")
        terminal.type(":q")
        terminal.press("Enter")
        terminal.wait_end()
        quiet(terminal)


def nano(place: Place, name: str, *options: str, times: int = 1) -> None:
    with place.terminal("nano", *options, name) as terminal:
        terminal.wait_for("alpha")
        for time in range(times):
            terminal.press("M-/")
            terminal.type("One more line." if time == 0 else "And another.")
            terminal.press("C-o")
            terminal.wait_for("File Name to Write")
            terminal.press("Enter")
            terminal.wait_for(r"\[ Wrote \d+ lines \]")
        terminal.press("C-x")
        terminal.wait_end()
        quiet(terminal)


def emacs(place: Place, name: str, *, lisp: str = "", times: int = 1) -> None:
    arguments = ["--eval", lisp] if lisp else []
    with place.terminal("emacs", "-nw", "-Q", *arguments, name) as terminal:
        terminal.wait_for("alpha")
        terminal.wait_for(rf"----F1 +{name}")
        terminal.press("M->")
        for time in range(times):
            terminal.type("One more line." if time == 0 else "And another.")
            terminal.press("Enter")
            terminal.wait_for(rf"-\*\*-F1 +{name}|:\*\*-")
            terminal.press("C-x", "C-s")
            terminal.wait_for(r"Wrote /")
            terminal.wait_for(rf"----F1 +{name}")
        terminal.press("C-x", "C-c")
        terminal.wait_end()
        quiet(terminal)


def mcedit(place: Place, name: str, *, mode: int = 0) -> None:
    """``mode`` is mcedit's setting: 0 writes in place, 1 beside it and renames, 2 keeps the old one with a tilde."""
    settings = place.home / ".config/mc/ini"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"[Midnight-Commander]\neditor_option_save_mode={mode}\n")
    with place.terminal("mcedit", name) as terminal:
        terminal.wait_for("alpha")
        terminal.press("C-End")
        terminal.type("One more line.")
        terminal.press("Enter", "F2")
        terminal.wait_for(r"\[ Save \]")
        terminal.press("Enter")
        terminal.wait_for(r"\[-?-?-?-?\]")
        terminal.press("F10")
        terminal.wait_end()
        quiet(terminal)


def quiet(terminal: Terminal) -> None:
    """Fail if the program complained of anything, ever so briefly."""
    said = terminal.said()
    found = re.search(COMPLAINTS, said)
    assert found is None, said[max(0, found.start() - 200) : found.end() + 200]


# -- programs that change a file without asking ------------------------------------------------------------------------


def program(name: str) -> tuple[str, ...]:
    word = name.split(maxsplit=1)[0]
    return (word,) if word.isalpha() else ()


def run(place: Place, name: str, *, command: str) -> None:
    """Run a script whose ``$1`` is the file."""
    place.shell(command, name)


def shell(name: str, command: str, saved: Change, **more: object) -> Pattern:
    """Return the pattern of a script; if its name begins with that of a program, it needs that."""
    return Pattern(name, partial(run, command=command), saved, program(name), **more)  # type: ignore[arg-type]


def with_copy(place: Place, name: str, change: Change, *, command: str) -> None:
    """Run a script whose ``$1`` is the file and ``$2`` a changed copy of it elsewhere, of the same mode."""
    path = place.directory / name
    copy = place.outside / name
    copy.write_bytes(change(path.read_bytes()))
    copy.chmod(path.stat().st_mode & 0o777)
    place.shell(command, name, str(copy))


def copying(name: str, command: str) -> Pattern:
    """Return the pattern of a script for :func:`with_copy`."""
    return rewriting(name, partial(with_copy, command=command), program(name))


def saver(place: Place, name: str, change: Change, *, how: str) -> None:
    """Have a process of its own save the file with the calls that a program makes."""
    place.run(sys.executable, str(SAVER), how, name, text=change((place.directory / name).read_bytes()))


def rewriting(name: str, rewrite: Callable[[Place, str, Change], None], needs: tuple[str, ...] = ()) -> Pattern:
    """Return a pattern that can save whatever there is to be saved."""
    return Pattern(name, lambda place, file: rewrite(place, file, replaced), replaced, needs, rewrite=rewrite)


def listed_between(place: Place, name: str) -> None:
    """Append in two parts, with a look at the file between them."""
    size = (place.directory / name).stat().st_size
    listed = place.shell("{ printf one; stat -c %s $1 >&2; printf two; } 2>&1 >> $1", name)
    assert int(listed) == size + len("one")


def head(old: bytes) -> bytes:
    """Return the head of an event's file."""
    return old[: old.index(b"\n---\n") + len(b"\n---\n")]


PATTERNS = [
    Pattern("vim", vim, appended, ("vim", "tmux")),
    Pattern("vim backupcopy=yes", partial(vim, options="backupcopy=yes"), appended, ("vim", "tmux")),
    Pattern("vim backupcopy=no", partial(vim, options="backupcopy=no"), appended, ("vim", "tmux")),
    Pattern("vim backupcopy=auto", partial(vim, options="backupcopy=auto"), appended, ("vim", "tmux")),
    Pattern("vim backup", partial(vim, options="backup"), appended, ("vim", "tmux"), {"{}~": True}),
    Pattern(
        "vim backup backupcopy=yes",
        partial(vim, options="backup backupcopy=yes"),
        appended,
        ("vim", "tmux"),
        {"{}~": True},
    ),
    Pattern("vim undofile", partial(vim, options="undofile"), appended, ("vim", "tmux"), {".{}.un~": False}),
    Pattern("vim nowritebackup", partial(vim, options="nowritebackup"), appended, ("vim", "tmux")),
    Pattern("vim noswapfile", partial(vim, options="noswapfile"), appended, ("vim", "tmux")),
    Pattern("vim wq", partial(vim, write=":wq"), appended, ("vim", "tmux")),
    Pattern("vim twice", vim_twice, lambda old: appended(old) + b"And another.\n", ("vim", "tmux"), versions=2),
    Pattern("vim unchanged", partial(vim, change=""), same, ("vim", "tmux"), versions=0),
    Pattern("nano", nano, appended, ("nano", "tmux")),
    Pattern("nano -B", lambda place, name: nano(place, name, "-B"), appended, ("nano", "tmux"), {"{}~": True}),
    Pattern("nano -G", lambda place, name: nano(place, name, "-G"), appended, ("nano", "tmux")),
    Pattern(
        "nano twice",
        partial(nano, times=2),
        lambda old: appended(old) + b"And another.\n",
        ("nano", "tmux"),
        versions=2,
    ),
    Pattern("emacs", emacs, appended, ("emacs", "tmux"), {"{}~": True}),
    Pattern(
        "emacs precious", partial(emacs, lisp="(setq file-precious-flag t)"), appended, ("emacs", "tmux"), {"{}~": True}
    ),
    Pattern(
        "emacs by copying",
        partial(emacs, lisp="(setq backup-by-copying t)"),
        appended,
        ("emacs", "tmux"),
        {"{}~": True},
    ),
    Pattern(
        "emacs twice",
        partial(emacs, times=2),
        lambda old: appended(old) + b"And another.\n",
        ("emacs", "tmux"),
        {"{}~": True},
        versions=2,
    ),
    Pattern("mcedit", mcedit, appended, ("mcedit", "tmux")),
    Pattern("mcedit safe", partial(mcedit, mode=1), appended, ("mcedit", "tmux")),
    Pattern("mcedit backup", partial(mcedit, mode=2), appended, ("mcedit", "tmux"), {"{}~": True}),
    shell("ed", r"printf '$a\nOne more line.\n.\nw\nq\n' | ed -s -- $1", appended),
    shell("sed -i", 's=sed; sed -i "s/alpha/ALEPH, the first letter/" $1', replaced),
    shell("sed -i.bak", 'sed -i.bak "s/alpha/ALEPH, the first letter/" $1', replaced, left={"{}.bak": True}),
    shell("sed -i unchanged", 'sed -i "s/this is not there/neither is this/" $1', same, versions=0),
    shell("perl -pi", 'perl -pi -e "s/alpha/ALEPH, the first letter/" $1', replaced),
    shell("perl -pi.bak", 'perl -pi.bak -e "s/alpha/ALEPH, the first letter/" $1', replaced, left={"{}.bak": True}),
    copying("rsync", "rsync $2 $1"),
    copying("rsync -a", "rsync -a $2 $1"),
    copying("rsync --inplace", "rsync -a --inplace $2 $1"),
    copying("cp", "cp $2 $1"),
    copying("cp -a", "cp -a $2 $1"),
    copying("cp --remove-destination", "cp --remove-destination -p $2 $1"),
    copying("cp within", "cp -a $2 changed.tmp && cp -a changed.tmp $1 && rm changed.tmp"),
    copying("mv", "mv $2 $1"),
    copying("mv within", "cp -a $2 changed.tmp && mv changed.tmp $1"),
    copying("install", "install -m $(stat -c %a $1) $2 $1"),
    copying("tar", 'tar -C "${2%/*}" -cf $2.tar "${2##*/}" && tar -xf $2.tar'),
    copying("tar --overwrite", 'tar -C "${2%/*}" -cf $2.tar "${2##*/}" && tar --overwrite -xf $2.tar'),
    copying("cat to it", "cat $2 > $1"),
    copying("cat with clobber", "set -o noclobber; cat $2 >| $1"),
    copying("tee", "tee $1 < $2 > /dev/null"),
    copying("dd", "dd of=$1 bs=97 status=none < $2"),
    copying("rm and create", "rm $1 && (umask 077 && cat $2 > $1)"),
    copying("mv away and create", "mv $1 $1.old && (umask 077 && cat $2 > $1) && rm $1.old"),
    shell(">>", "printf 'One more line.\\n' >> $1", appended),
    shell("tee -a", "printf 'One more line.\\n' | tee -a $1 > /dev/null", appended),
    Pattern(">> with ls between", listed_between, lambda old: old + b"onetwo", redrawn=lambda old: old + b"onetwo\n"),
    shell("dup'd >>", "exec 3>>$1; (printf 'One more ' >&3); printf 'line.\\n' >&3; exec 3>&-", appended),
    shell(
        "echo > again",
        "echo All is new. > $1",
        lambda old: b"All is new.\n",
        redrawn=lambda old: head(old) + b"All is new.\n",
    ),
    *(rewriting(how.replace("_", " "), partial(saver, how=how)) for how in HOW),
]
