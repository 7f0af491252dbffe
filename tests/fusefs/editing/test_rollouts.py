"""Rollouts, edited in the mount: a text that is there twice, and one that stands in a document in a string."""

from pathlib import Path

from tests.fusefs.tree.mounting import mounted, new_store
from tests.store.formats.rollouts import call, event, message, meta, written
from tests.store.importing.sessions import exported, imported


def test_an_event_that_repeats_an_item_is_edited_with_it(store_path: Path, tmp_path: Path) -> None:
    rollout = written(meta(), message("user", "Fix it"), event("user_message", message="Fix it"))
    (tmp_path / "rollout.jsonl").write_bytes(rollout)
    with new_store(store_path) as store:
        imported(store, tmp_path / "rollout.jsonl")
    with mounted(store_path) as mount:
        [file] = mount.root.glob("conversations/*/*/events/*-user.md")
        mount.shell(f"sed -i 's/Fix it/Fix all/' '{file}'")
        assert len(list(file.parent.glob("*-user.md"))) == 1
        assert "Fix all" in file.read_text()
        versions = file.parent.parent / ".versions"
        assert len(list(versions.iterdir())) == 2
    with new_store(store_path) as store:
        [conversation] = store.library.conversations()
        with exported(store, conversation) as files:
            assert files["rollout.jsonl"] == rollout.replace(b"Fix it", b"Fix all")


def test_an_argument_is_a_text_of_lines_to_be_edited(store_path: Path, tmp_path: Path) -> None:
    rollout = written(meta(), call("exec_command", cmd="cd shop\nls -l", timeout=1.50))
    (tmp_path / "rollout.jsonl").write_bytes(rollout)
    with new_store(store_path) as store:
        imported(store, tmp_path / "rollout.jsonl")
    with mounted(store_path) as mount:
        [file] = mount.root.glob("conversations/*/*/events/*-call-exec_command.md")
        assert "cd shop\nls -l\n" in file.read_text()
        mount.shell(f"sed -i 's/^ls -l$/ls -la/; s/1.5/2.50/' '{file}'")
        assert "cd shop\nls -la\n" in file.read_text()
    with new_store(store_path) as store:
        [conversation] = store.library.conversations()
        with exported(store, conversation) as files:
            assert files["rollout.jsonl"] == rollout.replace(b"ls -l", b"ls -la").replace(b"1.5", b"2.50")
