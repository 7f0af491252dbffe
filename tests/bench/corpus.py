"""A synthetic corpus of Claude Code sessions: JSONL files in the layout of ``~/.claude/projects``.

Records have the fields, nesting, and proportions of real ones: user requests, thinking with signatures, answers,
tool calls and their results (most results stand twice in their line, as in real files), usage, a little bookkeeping.
The same seed gives the same bytes.
"""

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.bench import words

NEEDLE = "quixotic-heliotrope"
"""A string that stands in every 25th tool result, for grep to find."""


class Project:
    """The common part of the sessions of one project: a directory and its source files."""

    def __init__(self, seed: int, vocabulary: words.Vocabulary, files: int = 24) -> None:
        made = random.Random(f"project {seed}")
        self.cwd = f"/home/dev/code/{vocabulary.rare(made)}-{seed}"
        self.files = [
            (
                f"{self.cwd}/src/{vocabulary.rare(made)}/{vocabulary.rare(made)}.py",
                words.source_file(made, vocabulary, made.randint(60, 500)),
            )
            for _ in range(files)
        ]

    @property
    def directory(self) -> str:
        """The directory's name under ``projects/``: the path with dashes, as Claude Code writes it."""
        return self.cwd.replace("/", "-")


class Session:
    """Makes the records of one session, in order."""

    def __init__(self, number: int, project: Project, vocabulary: words.Vocabulary, scale: float = 1.0) -> None:
        self.random = random.Random(f"session {number}")
        self.vocabulary = vocabulary
        self.project = project
        self.cwd = project.cwd
        self.scale = scale
        self.path = project.files[0][0]
        self.id = words.uuid(self.random)
        self._lines: list[str] = []
        self._parent: str | None = None
        self._time = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=37 * number)
        self._written = number

    def records(self, events: int) -> Iterator[bytes]:
        """Yield the lines of a session with exactly ``events`` records that tell of something, and some that do not.

        Each line ends in a newline.
        """
        left = events
        while left > 0:
            yield from self._bookkeeping()
            for record in self._exchange():
                if left == 0:
                    break
                left -= 1
                yield self._line(record)

    def _exchange(self) -> Iterator[dict[str, object]]:
        """Yield a request and what the model and its tools do about it."""
        yield self._user(self._prose(220, 40, 4000))
        for _ in range(self.random.randint(3, 14)):
            if self.random.random() < 0.4:
                thinking: dict[str, object] = {
                    "type": "thinking",
                    "thinking": self._prose(420, 60, 5000),
                    "signature": words.token(self.random, 344),
                }
                yield self._assistant(thinking)
            if self.random.random() < 0.25:
                yield self._assistant({"type": "text", "text": self._prose(300, 30, 3000)})
            call = f"toolu_01{words.token(self.random, 22)}".replace("+", "A").replace("/", "B")
            yield from self._tool(call)
        yield self._assistant({"type": "text", "text": self._prose(900, 80, 8000)})

    def _tool(self, call: str) -> Iterator[dict[str, object]]:
        tool = self.random.choices(words.TOOLS, (30, 20, 28, 12, 4, 6))[0]
        self.path, lines = self.random.choice(self.project.files)
        size = words.lognormal_size(self.random, int(92 * self.scale), 2, 260)
        first = self.random.randrange(max(1, len(lines) - size))
        part = lines[first : first + size]
        arguments: dict[str, object]
        detail: object
        if tool == "Read":
            arguments = {"file_path": self.path, "offset": first + 1, "limit": size}
            shown = words.numbered(part, first + 1)
            file = {"filePath": self.path, "content": "\n".join(part), "numLines": len(part), "startLine": first + 1}
            detail = {"type": "text", "file": file | {"totalLines": len(lines)}}
        elif tool == "Edit":
            old = "\n".join(part[: max(2, size // 8)])
            new = old.replace("self", "store").replace("None", "False") + "\n    # " + self._prose(60, 20, 200)
            arguments = {"file_path": self.path, "old_string": old, "new_string": new}
            shown = f"The file {self.path} has been updated.\n" + words.numbered(part[:24], first + 1)
            detail = {"filePath": self.path, "oldString": old, "newString": new, "userModified": False}
        elif tool == "Write":
            arguments = {"file_path": self.path, "content": "\n".join(part)}
            shown = f"File created successfully at: {self.path}"
            detail = {"type": "create", "filePath": self.path, "content": "\n".join(part), "structuredPatch": []}
        elif tool == "Bash":
            what = f"python -m pytest -q tests/test_{self.vocabulary.rare(self.random)}.py"
            arguments = {"command": what, "description": self._prose(40, 20, 80)}
            shown = words.listing(self.random, self.vocabulary, max(2, size // 2))
            detail = {"stdout": shown, "stderr": "", "interrupted": False, "isImage": False}
        else:
            arguments = {"pattern": self.vocabulary.rare(self.random), "path": self.cwd}
            shown = "\n".join(path for path, _ in self.random.sample(self.project.files, min(10, size)))
            detail = {"mode": "files_with_matches", "filenames": shown.split("\n"), "numFiles": shown.count("\n") + 1}
        yield self._assistant({"type": "tool_use", "id": call, "name": tool, "input": arguments})
        result = {"tool_use_id": call, "type": "tool_result", "content": self._with_needle(shown)}
        yield self._user([result]) | {"toolUseResult": detail}

    def _prose(self, median: int, smallest: int, largest: int) -> str:
        size = words.lognormal_size(self.random, int(median * self.scale), smallest, largest)
        return words.prose(self.random, self.vocabulary, size)

    def _with_needle(self, text: str) -> str:
        self._written += 1
        return f"{text}\n{NEEDLE}" if self._written % 25 == 0 else text

    def _bookkeeping(self) -> Iterator[bytes]:
        message = words.uuid(self.random)
        snapshot = {"messageId": message, "trackedFileBackups": {}, "timestamp": self._stamp()}
        yield _dump(
            {"type": "file-history-snapshot", "messageId": message, "snapshot": snapshot, "isSnapshotUpdate": False}
        )

    def _stamp(self) -> str:
        return self._time.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _line(self, record: dict[str, object]) -> bytes:
        self._time += timedelta(milliseconds=self.random.randint(200, 20_000))
        me = words.uuid(self.random)
        head = {
            "parentUuid": self._parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": self.cwd,
            "sessionId": self.id,
            "version": "2.0.76",
            "gitBranch": "main",
        }
        self._parent = me
        return _dump(head | record | {"uuid": me, "timestamp": self._stamp()})

    def _user(self, content: object) -> dict[str, object]:
        return {"type": "user", "message": {"role": "user", "content": content}}

    def _assistant(self, block: dict[str, object]) -> dict[str, object]:
        usage = {
            "input_tokens": self.random.randint(3, 20),
            "cache_creation_input_tokens": self.random.randint(100, 9000),
            "cache_read_input_tokens": self.random.randint(9000, 90_000),
            "output_tokens": self.random.randint(2, 900),
            "service_tier": "standard",
        }
        message = {
            "model": "claude-opus-4-5-20251101",
            "id": f"msg_01{self.random.getrandbits(128):032x}",
            "type": "message",
            "role": "assistant",
            "content": [block],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        request = f"req_011{self.random.getrandbits(96):024x}"
        return {"message": message, "requestId": request, "type": "assistant"}


def write_corpus(
    directory: Path,
    *,
    sessions: int,
    events: int,
    projects: int = 10,
    scale: float = 1.0,
    different_words: int = words.WORDS,
) -> int:
    """Write ``sessions`` files of ``events`` events each under ``directory``; return the bytes written.

    ``scale`` multiplies the sizes of texts; 1 gives events of some 2 KB as files. A corpus that stands there already
    with the same parameters is left alone.
    """
    stamp = directory / "corpus.json"
    wanted = {"version": 1, "sessions": sessions, "events": events, "projects": projects, "scale": scale}
    if different_words != words.WORDS:
        wanted["words"] = different_words
    if stamp.exists() and (known := json.loads(stamp.read_text())).items() >= wanted.items():
        return int(known["bytes"])
    vocabulary = words.Vocabulary(size=different_words)
    made = [Project(number, vocabulary) for number in range(projects)]
    size = 0
    for number in range(sessions):
        session = Session(number, made[number % projects], vocabulary, scale)
        folder = directory / "projects" / session.project.directory
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / f"{session.id}.jsonl", "wb") as file:
            size += sum(file.write(line) for line in session.records(events))
    stamp.write_text(json.dumps(wanted | {"bytes": size}))
    return size


def payloads(count: int, size: int, *, seed: int = 0) -> list[bytes]:
    """Return ``count`` different tool-result records of exactly ``size`` bytes, without a final newline."""
    vocabulary = words.Vocabulary()
    session = Session(-1 - seed, Project(1000 + seed, vocabulary), vocabulary)
    result = []
    for _ in range(count):
        empty = session._line(session._user([_result(session, "")]))
        room = size - len(empty) + 1
        shown = words.prose(session.random, vocabulary, 2 * room)[:room].replace("\n", " ")
        result.append(empty[:-1].replace(b'"content":""', b'"content":"' + shown.encode() + b'"', 1))
    return result


def _result(session: Session, text: str) -> dict[str, object]:
    call = f"toolu_01{session.random.getrandbits(88):022x}"
    return {"tool_use_id": call, "type": "tool_result", "content": text}


def _dump(record: dict[str, object]) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
