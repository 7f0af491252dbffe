"""A text that a rollout holds twice, edited in the mount."""

from pathlib import Path

from tests.formats.rollouts import event, message, meta, written
from tests.importing.sessions import exported, imported
from tests.mount.mounting import mounted, new_store


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
        [conversation] = store.conversations()
        with exported(store, conversation) as files:
            assert files["rollout.jsonl"] == rollout.replace(b"Fix it", b"Fix all")
