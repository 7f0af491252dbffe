"""Sessions of opencode and Kilo, in the form that their ``export`` writes and ``import`` takes in: one document.

A message of the model is everything that it says in one go, its calls with their results. Ids begin with the time, as
opencode makes them, so that later ones come after them.
"""

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import NamedTuple

from store.events.conversation import Conversation
from store.events.event import Kind
from store.exporting.dialogue import Piece, arguments_object, lost_kind, pieces_of, said, tool_name
from store.exporting.event_json import encoded
from store.exporting.sessions import NewSession, SessionTarget
from store.exporting.steps import OF_THE_MODEL, Step
from store.formats.core.json_view import JsonObject

_VERSION = "1.0.0"
"""Of the program that wrote documents as these are."""
_UNKNOWN: JsonObject = {"providerID": "convfs", "modelID": "unknown"}
_AGENT = "build"
_FREE: JsonObject = {"cost": 0, "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}}


class Opencode(SessionTarget):
    """A session for ``opencode import``."""

    name = "opencode"

    @property
    def own(self) -> str:
        """None: the sessions that are its own are rows of a database."""
        return ""

    def path(self, conversation: Conversation, session: str) -> PurePath:
        return PurePath("convfs", f"{session}.json")

    def session_id(self, session: NewSession) -> str:
        return f"ses_{session.id.hex[:26]}"

    def written(self, session: NewSession) -> Iterator[bytes]:
        yield encoded(next(self.lines(session))).encode() + b"\n"

    def lines(self, session: NewSession) -> Iterator[JsonObject]:
        """Yield the document."""
        steps = list(session.dialogue.steps())
        times = [step.time_ms for step in steps if step.time_ms] or [0]
        info: JsonObject = {
            "id": self.session_id(session),
            "slug": "convfs",
            "projectID": "global",
            "directory": session.folder,
            "title": session.title or "convfs",
            "version": _VERSION,
            "time": {"created": times[0], "updated": times[-1]},
        }
        yield {"info": info, "messages": _Messages(session, info["id"]).of(steps)}


class Kilo(Opencode):
    """A session for ``kilo import``."""

    name = "kilo"


class _Message(NamedTuple):
    id: str
    parts: list[JsonObject]


class _Messages:
    """The messages of a session, as they come."""

    def __init__(self, session: NewSession, session_id: object) -> None:
        self._session = session
        self._session_id = session_id
        self._count = 0
        self._time = 0
        self._asked = ""
        self._model: JsonObject = _UNKNOWN
        self._made: list[JsonObject] = []
        self._states: dict[str, JsonObject] = {}
        """The states of the calls, by their ids."""
        self._answer: _Message | None = None

    def of(self, steps: Sequence[Step]) -> list[JsonObject]:
        if model := next((model for step in steps if (model := _model(step))), None):
            self._model = model
        else:
            self._session.losses.add("a model that the tool knows: it goes on with the one that is chosen there")
        for step in steps:
            self._time = max(step.time_ms, self._time)
            if step.kind is Kind.TOOL_RESULT:
                self._returned(step)
            elif step.kind in OF_THE_MODEL:
                self._say(step)
            elif step.kind in (Kind.USER, Kind.SUMMARY):
                self._ask(step)
            else:
                self._session.losses.add(lost_kind(step), step.number)
        return self._made

    def _id(self, kind: str, step: Step) -> str:
        self._count += 1
        unique = self._session.id_of(step, self._count).replace("-", "")[:14]
        return f"{kind}_{(self._time << 12 | self._count & 0xFFF) & (1 << 48) - 1:012x}{unique}"

    def _message(self, step: Step, info: JsonObject) -> _Message:
        made = _Message(self._id("msg", step), [])
        about: JsonObject = {"id": made.id, "sessionID": self._session_id, "agent": _AGENT}
        self._made.append({"info": about | info, "parts": made.parts})
        return made

    def _add(self, message: _Message, step: Step, part: JsonObject) -> None:
        about: JsonObject = {"id": self._id("prt", step), "sessionID": self._session_id, "messageID": message.id}
        message.parts.append(about | part)

    def _ask(self, step: Step) -> None:
        self._answer = None
        if pieces := pieces_of(step, self._session.losses):
            message = self._message(step, {"role": "user", "time": {"created": self._time}, "model": self._model})
            self._asked = message.id
            for piece in pieces:
                self._add(message, step, _part(piece))

    def _say(self, step: Step) -> None:
        self._model = _model(step) or self._model
        if self._answer is None:
            told: JsonObject = {"role": "assistant", "parentID": self._asked, "mode": _AGENT, "finish": "stop"}
            where = {"cwd": self._session.folder, "root": "/"}
            time = {"created": self._time, "completed": self._time}
            self._answer = self._message(step, told | _FREE | self._model | {"path": where, "time": time})
        time = {"start": self._time, "end": self._time}
        if step.kind is Kind.TOOL_CALL:
            state: JsonObject = {
                "status": "error",
                "input": arguments_object(step.arguments),
                "error": "",
                "time": time,
            }
            self._states[step.id] = state
            tool = tool_name(step, self._session.losses)
            self._add(self._answer, step, {"type": "tool", "tool": tool, "callID": step.id, "state": state})
        elif text := said(step, self._session.losses):
            what = "reasoning" if step.kind is Kind.REASONING else "text"
            self._add(self._answer, step, {"type": what, "text": text, "time": time})

    def _returned(self, step: Step) -> None:
        state = self._states[step.id]
        state["error"] = text = said(step, self._session.losses)
        if not step.failed:
            del state["error"]
            state |= {"status": "completed", "output": text, "title": "", "metadata": {}}
        # what the model says next, it says knowing this
        self._answer = None


def _model(step: Step) -> JsonObject | None:
    """Return the model of a step as opencode names it, None if it does not."""
    provider, slash, model = step.model.partition("/")
    return {"providerID": provider, "modelID": model} if slash else None


def _part(piece: Piece) -> JsonObject:
    return (
        {"type": "file", "mime": piece.mime, "url": piece.url} if piece.data else {"type": "text", "text": piece.text}
    )
