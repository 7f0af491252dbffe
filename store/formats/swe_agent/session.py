"""SWE-agent's trajectories: where they lie, how they are told from others, how they are cut.

One JSON object: ``trajectory`` (a step each: action, observation, what the model said), ``history`` (the messages that
the model was sent, which say the same), ``info`` (how it ended), ``replay_config``. mini-SWE-agent has ``messages``.
"""

import os
import re
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

from store.events.event import Path as Place
from store.formats import chat_removal
from store.formats.chat_messages import first_request
from store.formats.format import About, Format, Source, Span
from store.formats.json_cuts import Choice, cut_spans
from store.formats.json_view import as_list, as_object, as_text, is_object
from store.formats.look import Look
from store.formats.swe_agent.lens import SweAgentLens
from store.formats.titles import first_line

_MINI = "mini-swe-agent"
_STEP = frozenset(("action", "observation", "response", "thought"))
_BESIDE = frozenset(("info", "replay_config"))
_may_be = re.compile(rb'"(?:history|trajectory|trajectory_format)"').search
_has_history = re.compile(rb'(?<!\\)"history"\s*+:\s*+\[\s*+\{').search
_issue = re.compile(r"^ISSUE:\s*(.*)", re.MULTILINE | re.DOTALL).search
_SUFFIXES = (".json", ".traj")


class SweAgent(Format):
    """SWE-agent of Princeton and Stanford, and its mini version."""

    name = "swe-agent"
    lenses = (SweAgentLens(),)
    main_type = SweAgentLens.type_name
    joints = (b'{"history": [', b", ", b"]}")

    def homes(self, home: Path, cwd: Path) -> Iterator[Path]:
        """Yield ``trajectories`` in ``cwd``, and where mini-SWE-agent keeps its last run."""
        settings = home / ".config"
        if (moved := os.environ.get("XDG_CONFIG_HOME", "")).startswith("/") and home == Path.home():
            settings = Path(moved)
        yield from (folder for folder in (cwd / "trajectories", settings / _MINI) if folder.is_dir())

    def claim(self, look: Look) -> Source | None:
        """Claim a file that begins with a trajectory's steps, or that says which format it is."""
        document = look.document if _may_be(look.head) else None
        if not is_object(document):
            return None
        steps = as_list(document.get("trajectory"))
        step = as_object(steps[0]) if steps else {}
        ours = len(step.keys() & _STEP) > 1 or as_text(document.get("trajectory_format")).startswith(_MINI)
        if not ours and not _is_history(document.get("history")):
            return None
        return Source(self.name, look.path, look.path)

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        """Yield the messages of the history, else the steps; and what stands beside them."""
        return cut_spans(data, start, _with_history if _has_history(data) else _with_steps)

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Describe a run by the issue that it was given."""
        request = first_request(records)
        issue = _issue(request)
        stem = source.path.name
        for suffix in _SUFFIXES:
            stem = stem.removesuffix(suffix)
        return About(title=first_line(issue[1] if issue else request) or stem, session_id=stem)

    def without(self, records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
        """Return the other messages; a call and its result go together."""
        return chat_removal.without(records, deleted)


def _is_history(value: object) -> bool:
    listed = as_list(value)
    message = as_object(listed[0]) if listed else {}
    return "role" in message and ("agent" in message or "message_type" in message)


def _with_history(path: Place) -> Choice:
    if path == ("trajectory",):
        return Choice.TAKE
    return _with_steps(path)


def _with_steps(path: Place) -> Choice:
    match path:
        case () | ("trajectory" | "history" | "messages",):
            return Choice.ENTER
        case (str(key),) if key in _BESIDE:
            return Choice.TAKE
        case (_, int()):
            return Choice.TAKE
    return Choice.PASS
