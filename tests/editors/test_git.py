"""Git, in a directory of scratch files and in the directory of events itself."""

import shutil

import pytest

from tests.editors.place import MountedPlace, Place
from tests.editors.sessions import ANSWER

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

CONFIGURATION = """
git config --global user.name Ada
git config --global user.email ada@example.com
git config --global init.defaultBranch main
git config --global gc.auto 0
"""
WORK = """
git init -q repository
cd repository
for i in 1 2 3 4 5; do
    mkdir -p src/$i
    for j in 1 2 3 4; do seq $((i * j)) $((i * j * 300)) > src/$i/$j.txt; done
    git add .
    git commit -q -m "Commit $i"
done
git mv src/1/1.txt src/1/moved.txt
git rm -q src/2/2.txt
chmod +x src/3/3.txt
ln -s src/3/3.txt link
echo more >> src/4/4.txt
git add -A
git commit -q -m 'All sorts of changes'
git checkout -q -b side HEAD~2
echo side > side.txt
git add side.txt
git commit -q -m Side
git checkout -q main
git merge -q --no-edit side
echo unfinished >> src/4/4.txt
git stash -q
test -z "$(git status --porcelain)"
git stash pop -q
git commit -q -a -m 'From the stash'
git gc -q --prune=now
git clone -q . ../clone
git -C ../clone fsck --strict --no-progress 2>&1
"""
CHECK = """
cd repository
git fsck --strict --no-progress 2>&1
git status --porcelain
git -C ../clone status --porcelain
git log --oneline | wc -l
git ls-files -s | sha256sum
"""


def test_a_repository_of_scratch_files(here: Place) -> None:
    here.shell(CONFIGURATION)
    versions = here.versions()
    assert here.shell(WORK) == b""
    said = here.shell(CHECK)
    assert said.splitlines()[0] == b"9"
    assert here.files() == here.drawn
    if isinstance(here, MountedPlace):
        here.remount()
        assert here.shell(CHECK) == said
        assert here.versions() == versions
        here.shell("rm -r repository clone")
        here.remount()
        assert sorted(path.name for path in here.directory.iterdir()) == sorted(here.drawn)


def test_a_repository_of_events(here: Place) -> None:
    """``git checkout`` of an event that was edited is an edit back: one more version."""
    here.shell(CONFIGURATION)
    versions = here.versions()
    here.shell("git init -q; git add 0*; git commit -q -m Before; sed -i s/alpha/ALEPH/ $1", ANSWER)
    assert here.shell("git diff --stat | tail -n 1").strip() == b"1 file changed, 1 insertion(+), 1 deletion(-)"
    here.shell("git commit -q -a -m Edited")
    assert here.shell("git status --porcelain") == b""
    assert (here.directory / ANSWER).read_bytes() == here.drawn[ANSWER].replace(b"alpha", b"ALEPH")
    here.shell("git checkout -q HEAD~1")
    assert here.files() == here.drawn
    if isinstance(here, MountedPlace):
        assert versions is not None
        assert here.versions() == versions + 2
        here.remount()
        assert here.shell("git status --porcelain") == b""
        assert here.files() == here.drawn
        assert here.versions() == versions + 2


def test_a_project_is_a_repository(mount: MountedPlace) -> None:
    """Files that follow from events are left out: they have times of their own."""
    mount.shell(CONFIGURATION)
    versions = mount.versions()
    mount.shell(
        "cd ../..; printf 'events.json\\nmetadata.json\\nresources/\\n' > .gitignore; git init -q; git add -A;"
        'git commit -q -m Before; sed -i s/alpha/ALEPH/ "$OLDPWD/$1";'
        "git commit -q -a -m Edited; git checkout -q HEAD~1",
        ANSWER,
    )
    assert mount.files() == mount.drawn
    assert mount.shell("cd ../..; git status --porcelain") == b""
    mount.shell('cd ../..; git checkout -q -; git clone -q . "$1"', str(mount.outside / "clone"))
    mount.shell(
        'cd "$1"; sed -i s/ALEPH/first/ */events/$2; git commit -q -a -m There;'
        'cd "$OLDPWD/../.."; git pull -q "$1" main',
        str(mount.outside / "clone"),
        ANSWER,
    )
    assert (mount.directory / ANSWER).read_bytes() == mount.drawn[ANSWER].replace(b"alpha", b"first")
    assert mount.shell("cd ../..; git status --porcelain") == b""
    assert mount.versions() == versions + 4
    mount.remount()
    assert mount.shell("cd ../..; git status --porcelain; git fsck --strict --no-progress 2>&1") == b""
