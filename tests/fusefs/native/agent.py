"""A program that behaves as coding agents do that keep a session a file, and that knows what it has written.

It appends line by line, opening the file anew each time or holding a stream open, in pieces that end anywhere; reads
back what it wrote, as a whole and at its end; writes the session anew, in place or beside it and renamed; makes new
sessions, of subagents too, and files beside them; and removes what is old.
"""

import json
import os
import random
import uuid
from collections.abc import Iterator
from pathlib import Path

from tests.fusefs.tree.mounting import stamp


class Agent:
    """Writes below ``root``, the directory of a tool; ``written`` is what each of its files must hold."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.chance = random.Random(seed)
        self.written: dict[Path, bytes] = {}
        self.removed: list[Path] = []
        self.streams: dict[Path, int] = {}
        self._said = 0
        self._seed = seed
        self._parents: dict[Path, str] = {}

    @classmethod
    def after(cls, earlier: "Agent | None", root: Path, seed: int) -> "Agent":
        """Go on where an earlier one ended, whose root may have been mounted elsewhere."""
        agent = cls(root, seed)
        if earlier is not None:
            agent.written = {root / path.relative_to(earlier.root): data for path, data in earlier.written.items()}
            agent.removed = [root / path.relative_to(earlier.root) for path in earlier.removed]
        return agent

    # -- what it says ----------------------------------------------------------------------------------------------

    def line(self, path: Path) -> bytes:
        """Return the next line of a session."""
        self._said += 1
        own = str(uuid.UUID(int=self.chance.getrandbits(128)))
        text = f"Step {self._said} of {self._seed}. " + "The quick brown fox. " * self.chance.choice([0, 1, 3, 60, 400])
        role = self.chance.choice(["user", "assistant"])
        content: object = text if role == "user" else [{"type": "text", "text": text}]
        line = {
            "parentUuid": self._parents.get(path),
            "isSidechain": path.parent.name == "subagents",
            "userType": "external",
            "cwd": "/home/dev/work",
            "sessionId": path.stem,
            "version": "2.0.1",
            "type": role,
            "message": {"role": role, "content": content},
            "uuid": own,
            "timestamp": stamp(self._said),
        }
        self._parents[path] = own
        return json.dumps(line, ensure_ascii=self.chance.random() < 0.5).encode() + b"\n"

    # -- what it does ----------------------------------------------------------------------------------------------

    def begin(self) -> Path:
        """Begin a session in one of some projects."""
        folder = self.root / f"-home-dev-{self.chance.choice(['work', 'shop', 'notes'])}"
        folder.mkdir(exist_ok=True)
        path = folder / f"{uuid.UUID(int=self.chance.getrandbits(128))}.jsonl"
        self.written[path] = b""
        self.append(path)
        return path

    def begin_subagent(self, path: Path) -> Path:
        """Begin the session of a subagent of the one at ``path``."""
        folder = path.with_suffix("") / "subagents"
        folder.mkdir(parents=True, exist_ok=True)
        agent = folder / f"agent-{self.chance.getrandbits(32):08x}.jsonl"
        self.written[agent] = b""
        self.append(agent)
        return agent

    def append(self, path: Path) -> None:
        """Append a line, opening the file for it."""
        self.finish(path)
        line = self.line(path)
        with path.open("ab") as file:
            file.write(line)
        self.written[path] += line

    def stream(self, path: Path) -> None:
        """Append to a stream that stays open, a piece that ends anywhere."""
        fd = self.streams.get(path)
        if fd is None:
            fd = self.streams[path] = os.open(path, os.O_WRONLY | os.O_APPEND)
        data = b"".join(self.line(path) for _ in range(self.chance.randint(1, 3)))
        cut = self.chance.randrange(len(data)) if self.chance.random() < 0.4 else 0
        for piece in (data[:cut], data[cut:]):
            if piece:
                assert os.write(fd, piece) == len(piece)
                self.written[path] += piece
                self.read(path)
        if self.chance.random() < 0.2:
            os.fsync(fd)

    def finish(self, path: Path) -> None:
        """Close the stream of a session."""
        fd = self.streams.pop(path, None)
        if fd is not None:
            os.close(fd)

    def rewrite(self, path: Path, *, in_place: bool) -> None:
        """Write a session anew with some of its lines changed, gone, or more: compacted, renamed, taken back."""
        self.finish(path)
        lines = self.written[path].splitlines(keepends=True)
        at = self.chance.randrange(len(lines))
        match self.chance.randrange(4):
            case 0:
                del lines[at + 1 :]
            case 1:
                lines[at] = self.line(path)
            case 2:
                lines.insert(at, self.line(path))
            case 3 if len(lines) > 1:
                del lines[at]
        data = b"".join(lines)
        if in_place:
            path.write_bytes(data)
        else:
            beside = path.with_name(f"{path.name}.tmp.{self._said}")
            with beside.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
            assert not beside.exists()
        self.written[path] = data

    def cut(self, path: Path) -> None:
        """Take the last lines back."""
        self.finish(path)
        lines = self.written[path].splitlines(keepends=True)
        data = b"".join(lines[: max(1, len(lines) - 2)])
        os.truncate(path, len(data))
        self.written[path] = data

    def keep_output(self, path: Path) -> None:
        """Write a long output beside a session."""
        folder = path.with_suffix("") / "tool-results"
        folder.mkdir(parents=True, exist_ok=True)
        output = folder / f"{self.chance.getrandbits(40):010x}.txt"
        data = self.chance.randbytes(self.chance.choice([10, 5000, 200_000]))
        output.write_bytes(data)
        self.written[output] = data

    def remove(self, path: Path) -> None:
        """Remove a session that is old."""
        self.finish(path)
        path.unlink()
        assert not path.exists()
        del self.written[path]
        self.removed.append(path)

    # -- what it sees ----------------------------------------------------------------------------------------------

    def read(self, path: Path) -> None:
        """Read a file back, as a whole, at its end, and somewhere."""
        expected = self.written[path]
        status = path.stat()
        assert status.st_size == len(expected), path
        with path.open("rb") as file:
            assert file.read() == expected, path
            file.seek(max(0, len(expected) - 4096))
            assert file.read() == expected[-4096:], path
            start = self.chance.randrange(len(expected) + 1)
            file.seek(start)
            assert file.read(1000) == expected[start : start + 1000], path

    def check(self) -> None:
        """Compare all that there is with all that was written."""
        found = {Path(folder, name) for folder, _, names in os.walk(self.root) for name in names}
        assert {path for path in found if self._is_ours(path)} == set(self.written)
        for path in self.written:
            self.read(path)

    def _is_ours(self, path: Path) -> bool:
        return path in self.written or path in self.removed

    def sessions(self) -> list[Path]:
        """Return the sessions that there are."""
        return [path for path in self.written if path.suffix == ".jsonl"]

    # -- all of it -------------------------------------------------------------------------------------------------

    def work(self, steps: int) -> Iterator[None]:
        """Do something that such a program does, as often, and check what it did after each step."""
        self.begin()
        for _ in range(steps):
            path = self.chance.choice(self.sessions())
            kind = self.chance.choices(
                ["append", "stream", "begin", "subagent", "beside", "in place", "cut", "output", "remove"],
                [40, 30, 5, 4, 4, 4, 3, 4, 2],
            )[0]
            match kind:
                case "append":
                    self.append(path)
                case "stream":
                    self.stream(path)
                case "begin":
                    path = self.begin()
                case "subagent":
                    path = self.begin_subagent(path)
                case "beside":
                    self.rewrite(path, in_place=False)
                case "in place":
                    self.rewrite(path, in_place=True)
                case "cut":
                    self.cut(path)
                case "output":
                    self.keep_output(path)
                case "remove" if len(self.sessions()) > 2:
                    self.remove(path)
            if path in self.written:
                self.read(path)
            yield
        for path in list(self.streams):
            self.finish(path)
