"""A conversation as an agent appends it, event by event, and what of it a model is sent."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from blake3 import blake3

from store.delivery.context import Context
from store.events.conversation import Conversation
from store.settings import Rules, rules_of
from store.store import Store

LIBRARY = "file:///shop/library.py"
LONG = "".join(f"def function_{number}(): ...\n" for number in range(20))
"""Content that is long enough to be referred to."""
OTHER = LONG.replace("function", "procedure")

_REFERENCE = re.compile(
    r"(?:Unchanged: as in event (?P<event>\d+)|As in event (?P<other>\d+) again)"
    r" \(turn (?P<turn>\d+), blake3 (?P<hash>[0-9a-f]{8})\)\."
)


class Reference(NamedTuple):
    """The text of a reference message."""

    event: int
    turn: int
    again: bool = False


def resource(uri: str = LIBRARY, content: str = LONG) -> dict[str, object]:
    return {"uri": uri, "mimeType": "text/x-python", "text": content}


class Talk:
    """A conversation of JP's events."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.context = store.contexts.create(metadata={"project": "shop", "name": "talk"}).context
        self._calls = 0

    @property
    def conversation(self) -> Conversation:
        return self.store.library.conversation(self.context)

    def event(self, what: str, **fields: object) -> None:
        stored = {"timestamp": "2026-03-05 19:00:00.0", "type": what, **fields}
        self.store.contexts.append(self.context, json.dumps(stored).encode(), "jp.event.v1")

    def asks(self, text: str = "Go on", *attached: dict[str, object]) -> None:
        """Begin an exchange."""
        self.event("chat_request", content=text, **({"resources": list(attached)} if attached else {}))

    def says(self, text: str = "Well") -> None:
        self.event("chat_response", message=text)

    def thinks(self, text: str) -> None:
        self.event("chat_response", reasoning=text)

    def calls(self, tool: str = "fs_read_file") -> str:
        self._calls += 1
        call = f"call_{self._calls}"
        self.event("tool_call_request", id=call, name=tool, arguments={"path": "x"})
        return call

    def returns(self, call: str, *parts: dict[str, object] | str) -> None:
        content = [
            {"type": "text", "text": part} if isinstance(part, str) else {"type": "resource", "resource": part}
            for part in parts
        ]
        self.event("tool_call_response", id=call, content=content, is_error=False)

    def reads(self, *parts: dict[str, object] | str, tool: str = "fs_read_file") -> str:
        """Call a tool and have it return something."""
        call = self.calls(tool)
        self.returns(call, *parts)
        return call

    def compacts(self, first: int, last: int, **policies: object) -> None:
        self.event("compaction", from_turn=first, to_turn=last, **policies)

    def sets(self, **metadata: object) -> None:
        self.store.contexts.set_metadata(self.context, metadata)

    @property
    def rules(self) -> Rules:
        return rules_of(self.store.settings, self.conversation.metadata)

    # -- what is sent ----------------------------------------------------------------------------------------------

    def document(self, form: str = "jsonl", last: int | None = None) -> dict[str, Any]:
        """Return what is sent, with what was saved and lost."""
        return document(self.store, self.conversation, form, last)

    def messages(self, form: str = "jsonl", last: int | None = None) -> list[dict[str, Any]]:
        found = self.document(form, last)["messages"]
        assert isinstance(found, list)
        return found

    def results(self, last: int | None = None) -> list[list[object]]:
        """Return for each result that is sent what its blocks are: a text, or a reference."""
        lines = self.messages("jsonl", last)
        return [[read(block["text"]) for block in line["content"]] for line in lines if line["role"] == "tool"]


def document(store: Store, conversation: Conversation, form: str = "jsonl", last: int | None = None) -> dict[str, Any]:
    """Return what is sent of a conversation, with what was saved and lost."""
    found = json.loads(b"".join(Context(store.library, store.settings, conversation, form, last).document()))
    assert isinstance(found, dict)
    return found


def told(talk: Talk, last: int | None = None) -> list[str]:
    """Return what is said, without what came of calls."""
    return [line["content"][0]["text"] for line in talk.messages(last=last) if line["role"] != "tool"]


def result(line: dict[str, Any]) -> object:
    """Return what a result of one block is: a text, or a reference."""
    [block] = line["content"]
    return read(block["text"])


def read(text: str, content: str = "") -> object:
    """Return a text, or what it says if it is a reference; the checksum must be that of one of our contents."""
    found = _REFERENCE.fullmatch(text)
    if found is None:
        return text
    assert len(text) <= 120
    assert found["hash"] in {blake3(known.encode()).hexdigest()[:8] for known in (content, LONG, OTHER)}
    return Reference(int(found["event"] or found["other"]), int(found["turn"]), again=found["event"] is None)


def numbered(text: str, first: int = 1) -> str:
    """Return a text with its lines numbered, as tools do for models."""
    return "\n".join(f"{number:>6}→{line}" for number, line in enumerate(text.removesuffix("\n").split("\n"), first))


def texts(messages: list[dict[str, Any]]) -> Iterator[str]:
    """Yield all texts of messages, wherever they stand."""
    pending: list[object] = [messages]
    while pending:
        match pending.pop(0):
            case {"type": "text", "text": str(text)}:
                yield text
            case dict() as found:
                pending[:0] = found.values()
            case list() as listed:
                pending[:0] = listed
            case _:
                pass
