"""Codex, as it writes its rollouts in ``.convfs/native/``."""

from pathlib import Path

from tests.fusefs.tree.mounting import mounted, new_store, until
from tests.store.formats.rollouts import SESSION, event, message, meta, written

NAME = f"codex/sessions/2026/04/13/rollout-2026-04-13T08-18-20-{SESSION}.jsonl"
SHOWN = ["00001-config.md", "00002-user.md", "00005-assistant.md"]
ROLLOUT = [
    meta(),
    message("user", "Fix it"),
    event("user_message", message="Fix it"),
    event("agent_message", message="Done"),
    message("assistant", "Done"),
]


def test_a_rollout_that_is_written_line_by_line_is_a_conversation(store_path: Path) -> None:
    with new_store(store_path):
        pass
    with mounted(store_path) as mount:
        path = mount.root / ".convfs" / "native" / NAME
        path.parent.mkdir(parents=True)
        for record in ROLLOUT:
            with path.open("ab") as file:
                file.write(written(record))
        assert path.read_bytes() == written(*ROLLOUT)
        until(lambda: sorted(one.name for one in mount.root.glob("conversations/*/*/events/*")) == SHOWN)
        assert path.read_bytes() == written(*ROLLOUT)
