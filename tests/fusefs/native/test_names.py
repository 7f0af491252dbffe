"""Names of conversations whose sessions are written bit by bit: they follow what the tool tells, old ones lead on."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from store.upkeep.fsck import fsck
from tests.fusefs.tree.mounting import Mounted, errno_of, mounted, new_store, until, user
from tests.store.formats.rollouts import SESSION, message, meta, written

ROLLOUT = f".convfs/native/codex/sessions/2026/11/22/rollout-2026-11-22T08-18-20-{SESSION}.jsonl"
CLAUDE = ".convfs/native/claude-code/-home-dev-project/0b1f8d5e-7a55-4d0e-9c3d-2f4e6a1b7c90.jsonl"
MODE = json.dumps({"type": "mode", "mode": "default", "sessionId": "0b1f8d5e-7a55-4d0e-9c3d-2f4e6a1b7c90"})
TITLE = json.dumps({"type": "ai-title", "aiTitle": "Shopping", "sessionId": "0b1f8d5e-7a55-4d0e-9c3d-2f4e6a1b7c90"})


def shown(mount: Mounted) -> list[str]:
    return sorted(str(path.relative_to(mount.root / "conversations")) for path in mount.root.glob("conversations/*/*"))


def test_a_session_that_is_written_line_by_line_is_called_after_its_first_question(mount: Mounted) -> None:
    file = mount.root / ROLLOUT
    file.parent.mkdir(parents=True)
    file.touch()
    assert shown(mount) == []
    first = written(meta())
    for piece in (first[:30], first[30:], written(message("user", "Fix it"))):
        with file.open("ab") as writing:
            writing.write(piece)
    until(lambda: shown(mount) == ["shop/2026-04-13-fix-it"])
    assert os.listdir(mount.root / "conversations") == ["shop"]


def test_an_old_name_leads_to_the_conversation_for_whoever_has_it(store_path: Path) -> None:
    with new_store(store_path):
        pass
    with mounted(store_path) as mount:
        file = mount.root / CLAUDE
        file.parent.mkdir()
        file.write_text(f"{MODE}\n")
        # nobody speaks in it yet
        assert shown(mount) == ["home-dev-project/.aside"]
        before = f"home-dev-project/{os.listdir(mount.root / 'conversations/home-dev-project/.aside')[0]}"
        old = mount.root / "conversations" / before
        transcript = mount.root / "transcripts" / f"{before}.md"
        assert transcript.exists()
        with subprocess.Popen(["bash"], cwd=old, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
            with transcript.open() as reading:
                for line, name in (
                    (user("Buy milk."), "buy-milk"),
                    (TITLE, "shopping"),
                    (user("Go on.", 3), "shopping"),
                ):
                    with file.open("a") as writing:
                        writing.write(f"{line}\n")
                    until(lambda name=name: shown(mount) == [f"project/2026-03-05-{name}"])  # type: ignore[misc]
                # while it grows, a read may end in the middle of a character, as of any file
                until(lambda: b"Go on." in (mount.root / "transcripts/project/2026-03-05-shopping.md").read_bytes())
                assert "Buy milk." in reading.read()
            out, _ = shell.communicate(
                "cat events/00002-user.md | tail -n 1; pwd -P >/dev/null && cd . && ls; echo x > y"
            )
        assert out.startswith("Buy milk.\nevents\n")
        assert "Buy milk." in transcript.read_text()
        assert (old / "y").read_text() == "x\n"
        assert os.listdir(mount.root / "transcripts") == ["project"]
        assert [path.name for path in mount.root.glob("by-date/*/*/*/*")] == ["2026-03-05-shopping"]
        assert [path.name for path in (mount.root / "recent").iterdir()] == ["2026-03-05-shopping"]
    with mounted(store_path) as mount:
        for name in (before, "project/2026-03-05-buy-milk"):
            assert (mount.root / "conversations" / name / "events/00002-user.md").read_text().endswith("Buy milk.\n")
            assert "Buy milk." in (mount.root / "transcripts" / f"{name}.md").read_text()
        assert shown(mount) == ["project/2026-03-05-shopping"]
        folder = mount.root / "conversations/project"
        assert errno_of((folder / "2026-03-05-buy-milk").mkdir) != 0
        # who removes the old name may give it to another one, and who renames the conversation names it for good
        (folder / "2026-03-05-buy-milk").unlink()
        (folder / "2026-03-05-shopping").rename(folder / "2026-03-05-buy-milk")
        with (mount.root / CLAUDE).open("a") as writing:
            writing.write('{"type":"custom-title","customTitle":"Other","sessionId":"x"}\n')
        until(lambda: "Other" in (folder / "2026-03-05-buy-milk/metadata.json").read_text())
        assert shown(mount) == ["project/2026-03-05-buy-milk"]
    with new_store(store_path) as store:
        assert fsck(store) == []


@pytest.mark.parametrize("by_title", [True, False])
def test_who_names_it_while_it_has_its_first_name_names_it_for_good(mount: Mounted, *, by_title: bool) -> None:
    file = mount.root / CLAUDE
    file.parent.mkdir()
    file.write_text(f"{MODE}\n")
    [before] = mount.root.glob("conversations/*/.aside/*")
    if by_title:
        mount.shell(f"""sed -i 's/"title": .*/"title": "Mine",/' '{before}/metadata.json'""")
    else:
        mount.shell(f"mkdir conversations/mine; mv {before} conversations/mine/own")
    with file.open("a") as writing:
        writing.write(f"{user('Buy milk.')}\n")
    until(lambda: len(list(mount.root.glob("conversations/*/*/events/*"))) == 1)
    [name] = shown(mount)
    assert name == f"home-dev-project/{before.name[:10]}-mine" if by_title else name == "mine/own"
