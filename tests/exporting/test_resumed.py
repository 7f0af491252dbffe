"""The tools themselves go on with what was exported for them.

Needs them: CONVFS_TOOLS names the directory with their programs, ``node_modules/.bin`` after ``npm install
@anthropic-ai/claude-code @google/gemini-cli @mariozechner/pi-coding-agent @openai/codex``. They run in homes of their
own, and talk to a model that is in this process.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from store.exporting.export import export
from store.store import Store
from tests.exporting.model import ANSWER, Model, model
from tests.exporting.talks import Talk, shop
from tests.exporting.test_sessions import TALK
from tests.importing.sessions import by_source, imported, jp

TOOLS = Path(os.environ.get("CONVFS_TOOLS") or "/nowhere")
SECONDS = 120
QUESTION = "And what now?"


def tool(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not (TOOLS / name).exists(), reason=f"no {name} in CONVFS_TOOLS")


def ask(home: Path, folder: Path, *words: object, **environment: str) -> None:
    """Run a tool that asks the model one question more, and prints the answer."""
    done = subprocess.run(
        [str(TOOLS / str(words[0])), *map(str, words[1:])],
        env={"HOME": str(home), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **environment},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ANSWER in done.stdout, done


def in_order(told: str, *texts: str) -> None:
    """Check that a request holds texts, in this order."""
    place = 0
    for text in texts:
        place = told.find(json.dumps(text, ensure_ascii=False)[1:-1], place) + 1
        assert place, (text, told)


SAID = (
    "Fix the **login** bug",
    "I look at it.",
    "/home/ada/shop/login.py",
    'return "x"',
    "exit code 1",
    "That, too.",
)


def here(talk: Talk, folder: Path) -> Talk:
    """Return a talk that was held in ``folder``."""
    folder.mkdir()
    for line in talk.lines:
        line["cwd"] = str(folder)
    return talk


def answers(server: Model, end: str) -> None:
    in_order(server.told(end), *SAID, QUESTION)


@tool("codex")
def test_codex(store: Store, tmp_path: Path) -> None:
    folder, home = tmp_path / "work", tmp_path / "home"
    (path,) = export(store, here(shop(tmp_path), folder).bring(store), home / ".codex", "codex").files
    with model() as server:
        (home / ".codex/config.toml").write_text(
            'model = "m"\nmodel_provider = "mine"\n[model_providers.mine]\nname = "mine"\n'
            f'base_url = "{server.address}/v1"\nwire_api = "responses"\nenv_key = "KEY"\n'
        )
        session = re.sub(r"^rollout-.{19}-", "", path.stem)
        ask(home, folder, "codex", "exec", "--skip-git-repo-check", "resume", session, QUESTION, KEY="x")
        answers(server, "/responses")


@tool("pi")
def test_pi(store: Store, tmp_path: Path) -> None:
    folder, home = tmp_path / "work", tmp_path / "home"
    agent = home / ".pi/agent"
    (path,) = export(store, here(shop(tmp_path), folder).bring(store), agent, "pi").files
    with model() as server:
        own = {"id": "m", "name": "m", "input": ["text"], "contextWindow": 99999, "maxTokens": 999}
        provider = {"baseUrl": f"{server.address}/v1", "apiKey": "x", "api": "openai-completions", "models": [own]}
        (agent / "models.json").write_text(json.dumps({"providers": {"mine": provider}}))
        words = ["--provider", "mine", "--model", "m", "--session", path, "-p", QUESTION]
        ask(home, folder, "pi", *words, PI_OFFLINE="1")
        answers(server, "/chat/completions")


@tool("gemini")
def test_gemini_cli(store: Store, tmp_path: Path) -> None:
    folder, home = tmp_path / "work", tmp_path / "home"
    export(store, here(shop(tmp_path), folder).bring(store), home / ".gemini", "gemini-cli")
    (home / ".gemini/settings.json").write_text('{"security": {"auth": {"selectedType": "gemini-api-key"}}}')
    with model() as server:
        keys = {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": server.address, "GEMINI_CLI_TRUST_WORKSPACE": "true"}
        ask(home, folder, "gemini", "-m", "gemini-2.5-pro", "--resume", "latest", "-p", QUESTION, **keys)
        answers(server, "enerateContent")


@tool("claude")
def test_claude_code(store: Store, tmp_path: Path) -> None:
    folder, home = tmp_path / "work", tmp_path / "home"
    folder.mkdir()
    talk = jp(tmp_path, TALK)
    imported(store, talk)
    conversation = by_source(store, talk)
    store.set_metadata(conversation.id, {"cwd": str(folder)})
    (path,) = export(store, store.conversation(conversation.id), home / ".claude", "claude-code").files
    with model() as server:
        keys = {"ANTHROPIC_BASE_URL": server.address, "ANTHROPIC_API_KEY": "sk-ant-x"}
        quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1"}
        ask(home, folder, "claude", "--resume", path.stem, "-p", QUESTION, **keys, **quiet)
        in_order(server.told("/messages"), "Fix it", "fn a() {}", "fs_read", "fn a() {}\n", "Done.", QUESTION)
