"""``stats.svg``, ``stats.json`` and ``family.svg`` in the mount."""

import json
import os
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

from tests.fusefs.tree.mounting import Mounted

SVG = "{http://www.w3.org/2000/svg}"


def drawn(path: Path) -> ElementTree.Element:
    """Return a drawing, of which ``stat`` says how large it is."""
    root = ElementTree.fromstring(path.read_bytes())
    assert path.stat().st_size == len(path.read_bytes())
    assert root.tag == f"{SVG}svg"
    assert {"title", "told"} == {element.get("id") for element in root if element.get("id")}
    return root


def words(root: ElementTree.Element) -> str:
    return " ".join("".join(element.itertext()) for element in root.iter(f"{SVG}text"))


def one(mount: Mounted) -> Path:
    """Return the directory of a conversation."""
    projects = mount.root / "conversations"
    return next(path for project in sorted(projects.iterdir()) for path in sorted(project.iterdir()))


def test_numbers_and_their_drawing(mount: Mounted) -> None:
    control = mount.root / ".convfs"
    numbers = json.loads((control / "stats.json").read_bytes())
    assert (numbers["complete"], numbers["conversations"]) == (True, 1)
    assert numbers["counted_turns"] == numbers["turns"]
    assert numbers["logical_bytes"] > 0
    assert "1 conversation," in words(drawn(control / "stats.svg"))
    assert (control / "stats.svg").read_bytes() == (control / "stats.svg").read_bytes()


def test_the_family_of_a_conversation(mount: Mounted) -> None:
    own = one(mount)
    family = own / "family.svg"
    assert "family.svg" not in os.listdir(own)
    assert "0 relatives" in words(drawn(family))
    (own / "forks" / "another & <way>").mkdir()
    root = drawn(family)
    assert "1 relative" in words(root)
    links = [unquote(link.get("href") or "") for link in root.iter(f"{SVG}a")]
    assert [(own / link).resolve().name for link in links] == ["another & <way>"]
    fork = own.parent / "another & <way>"
    assert (own / links[0]).is_dir()
    # it is of the same family, and leads back
    back = [unquote(link.get("href") or "") for link in drawn(fork / "family.svg").iter(f"{SVG}a")]
    assert [(fork / link).resolve() for link in back] == [own]
    # a copy that is read in one go is whole
    assert mount.shell(f"cat '{family}' | wc -c").strip() == str(family.stat().st_size)


def test_earlier_versions_are_in_it_and_have_none(mount: Mounted) -> None:
    own = one(mount)
    (own / "events" / "user.md").write_text("One more.\n")
    event = next(path for path in sorted((own / "events").iterdir()) if "user" in path.name)
    event.write_text(event.read_text().replace("\n---\n", "\n---\nWell, ", 1))
    root = drawn(own / "family.svg")
    # two saves of one program are one version
    assert "1 earlier version," in words(root)
    versions = [unquote(link.get("href") or "") for link in root.iter(f"{SVG}a")]
    assert all((own / link / "events").is_dir() for link in versions)
    assert len(versions) == 1
    assert not (own / versions[0] / "family.svg").exists()
