"""``by-tool/``, ``by-branch/`` and ``by-model/``: links to conversations by what their sessions say."""

import json
import os
from pathlib import Path

from store.importing.importer import Importer
from tests.fusefs.tree.mounting import mounted, new_store, until
from tests.store.formats.rollouts import message, meta, written
from tests.store.importing.sessions import line, session

ROLLOUT = "rollout-2026-03-05T12-00-00-0199a213-81c0-7800-8aa1-bbab2a035a53.jsonl"


def answer(model: str, number: int) -> bytes:
    said = json.loads(line("Yes", number, gitBranch="feature/x"))
    usage = {"input_tokens": 10, "output_tokens": 5}
    said["message"] |= {"id": f"msg_{number}", "model": model, "usage": usage}
    said["message"]["content"] = [{"type": "text", "text": "Yes"}]
    return json.dumps(said).encode() + b"\n"


def test_links_by_tool_branch_and_model(store_path: Path, tmp_path: Path) -> None:
    asked = line("Is it?", gitBranch="feature/x") + b"\n"
    one = session(tmp_path, asked + answer("model-a", 1) + answer("acme/model-b", 3), "one")
    two = session(tmp_path, line("Warmup", agentId="a", isSidechain=True, gitBranch="main") + b"\n", "agent-a")
    rollout = tmp_path / ROLLOUT
    rollout.write_bytes(written(meta(cwd="/gone/shop", git={"branch": "main"}), message("user", "Go on")))
    with new_store(store_path) as store:
        Importer(store).run([one, two, rollout])
        # as a daemon does when it is idle
        store.insight.count()
    with mounted(store_path) as mount:

        def listed(top: str) -> dict[str, list[str]]:
            folder = mount.root / top
            found = {name: sorted(os.listdir(folder / name)) for name in os.listdir(folder)}
            for name, links in found.items():
                for link in links:
                    assert (folder / name / link / "events").is_dir()
            return found

        first, second = "2026-03-05-is-it", "2026-04-13-go-on"
        assert listed("by-tool") == {"claude-code": [first], "codex": [second]}
        assert listed("by-branch") == {"feature_x": [first], "main": [second]}
        assert listed("by-model") == {"model-a": [first], "acme_model-b": [first]}
        assert not (mount.root / "by-model/none").exists()
        (mount.root / "import/two.jsonl").write_bytes(line("And this?", gitBranch="later") + b"\n")
        until(lambda: "later" in listed("by-branch"))
        assert mount.run("touch", "by-tool/x", "by-branch/x", "by-model/x", check=False).returncode == 1
