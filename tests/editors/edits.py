"""Edits an event some times, each time with another program: ``python edits.py DIRECTORY EVENT NUMBER COUNT``.

Which programs come in which order depends on NUMBER. After each edit the file must hold what it should.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import saver

WAYS = ["sed", "perl", "append", "cp", "ed", *saver.HOW]


def by_program(command: str) -> Callable[[str, bytes, bytes], None]:
    """Return an edit by a script, whose ``$1`` is the file, ``$2`` the old word and ``$3`` the new one."""

    def edit(name: str, old: bytes, new: bytes) -> None:
        words = [old.split()[-1].decode(), new.split()[-1].decode()]
        done = subprocess.run(["bash", "-euc", command, "bash", name, *words], capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b""), done

    return edit


PROGRAMS = {
    "sed": by_program('sed -i "s/$2/$3/" $1'),
    "perl": by_program('perl -pi -e "s/$2/$3/" $1'),
    "ed": by_program("printf '%%s/%s/%s/\\nw\\nq\\n' $2 $3 | ed -s -- $1"),
    "append": by_program('text=$(cat $1); printf "%s\\n" "${text/$2/$3}" > $1'),
    "cp": by_program('sed "s/$2/$3/" $1 > $1.new; cp $1.new $1; rm $1.new'),
}


def main(directory: str, name: str, number: int, count: int) -> None:
    os.chdir(directory)
    saver.tolerant = True
    data = Path(name).read_bytes()
    for edit in range(count):
        way = WAYS[(number + edit) % len(WAYS)]
        new = data.replace(data.split()[-1], b"edit-%d-of-%d" % (edit, number))
        assert new != data
        if way in PROGRAMS:
            PROGRAMS[way](name, data, new)
        else:
            saver.HOW[way](name, new)
        data = new
        assert Path(name).read_bytes() == data, f"after {way}"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
