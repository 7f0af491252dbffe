"""A model that says what a test has written down for it, in the protocols of those who make models.

It speaks Messages (Anthropic), Responses and Chat Completions (OpenAI) and generateContent (Google), streamed and not,
over HTTP on this machine alone. What it answers follows from the request and from nothing else, so that a request may
come again, or beside another: it looks for the last question that it knows, and counts the results of tools after it.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

ASIDE = "A short title"
"""The answer to what no question of the test is in: titles, topics, and the like."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A tool that the model asks for; ``namespace`` is where Codex has the tools of a server."""

    name: str
    arguments: Json
    namespace: str = ""


@dataclass(frozen=True)
class Held:
    """A text of which only the first half is sent before :meth:`Model.release`."""

    text: str


Step = str | Call | Held
"""One answer: a text, or a call."""


@dataclass(frozen=True)
class Part:
    """A part of a request: ``id`` is that of a call, and of the call that a result belongs to."""

    kind: Literal["system", "user", "assistant", "call", "result"]
    text: str
    id: str = ""


@dataclass(frozen=True)
class Request:
    """Requests that a model was sent, in any protocol."""

    path: str
    body: Json
    parts: Sequence[Part]

    @property
    def has_tools(self) -> bool:
        """Say whether the model may call something: of side questions, as for a title, it may not."""
        return bool(self.body.get("tools"))

    def text(self, *kinds: str) -> str:
        """Return all that is said, or what is said by these kinds, in order."""
        return "\n".join(part.text for part in self.parts if not kinds or part.kind in kinds)

    def check_calls(self, *, again: bool = False) -> list[str]:
        """Return the ids of the calls, each of which must be there once, before its one result.

        ``again``: a result may come again later.
        """
        called = [part.id for part in self.parts if part.kind == "call"]
        results = [part.id for part in self.parts if part.kind == "result"]
        results = list(dict.fromkeys(results)) if again else results
        assert len(set(called)) == len(called), called
        assert sorted(results) == sorted(called), (called, results)
        order = [(part.kind, part.id) for part in self.parts if part.kind in ("call", "result")]
        assert all(order.index(("call", one)) < order.index(("result", one)) for one in called), order
        return called


@dataclass
class Model:
    """``asked`` are the requests so far; ``plain`` is for programs that offer no tools even when they ask."""

    address: str
    plain: bool = False
    asked: list[Request] = field(default_factory=list)
    _script: dict[str, Sequence[Step]] = field(default_factory=dict)
    _held: threading.Event = field(default_factory=threading.Event)
    _released: threading.Event = field(default_factory=threading.Event)

    def answers(self, question: str, *steps: Step) -> None:
        """From now on, answer ``question``: each step is sent when the one before it was followed by its result."""
        assert steps
        self._script[question] = steps

    def last_answer(self, question: str) -> str:
        """Return the text that the answer to a question ends with."""
        return _text(self._script[question][-1])

    def last(self, question: str) -> Request:
        """Return the last request in which a question was asked, titles and the like left out."""
        asked = [one for one in self.asked if (self.plain or one.has_tools) and question in one.text("user")]
        assert asked, [(one.path, one.text("user")[-300:]) for one in self.asked]
        return asked[-1]

    def wait_until_held(self, seconds: float) -> None:
        """Wait until half of a :class:`Held` has been sent."""
        assert self._held.wait(seconds), [one.path for one in self.asked]

    def release(self) -> None:
        """Send what is held back, if anybody still listens."""
        self._released.set()

    def hold(self) -> None:
        """Wait for :meth:`release`."""
        self._held.set()
        self._released.wait()

    def step(self, request: Request) -> tuple[Step, str]:
        """Return what is said to a request, and an id that is this answer's own."""
        if not (self.plain or request.has_tools):
            return ASIDE, "aside"
        for at in reversed(range(len(request.parts))):
            part = request.parts[at]
            for number, (question, steps) in enumerate(self._script.items()):
                if part.kind == "user" and question in part.text:
                    done = sum(later.kind == "result" for later in request.parts[at:])
                    return steps[min(done, len(steps) - 1)], f"{number}_{done}"
        return ASIDE, "aside"


@contextmanager
def model(*, plain: bool = False) -> Iterator[Model]:
    """Answer requests until the block ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    answering = Model(f"http://127.0.0.1:{server.server_port}", plain)
    server.model = answering  # type: ignore[attr-defined]  (for its handlers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield answering
    finally:
        answering.release()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._send(b'{"data": [], "models": []}')

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        body = json.loads(self._body() or b"{}")
        protocol = next((one for one in _PROTOCOLS if path.endswith(one.ends)), None)
        if protocol is None:
            self._send(b'{"input_tokens": 1, "totalTokens": 1}')
            return
        known: Model = self.server.model  # type: ignore[attr-defined]
        request = Request(path, body, tuple(protocol.parts(body)))
        known.asked.append(request)
        step, own = known.step(request)
        if not (body.get("stream") or path.endswith(":streamGenerateContent")):
            self._send(json.dumps(protocol.whole(step, own)).encode())
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for event in protocol.streamed(step, own):
                if event is None:
                    known.hold()
                    continue
                name = f"event: {event['type']}\n" if "type" in event else ""
                self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())
            if protocol is _CHAT:
                self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            # the program was killed
            return

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        found = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _send(self, data: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


# -- the protocols -----------------------------------------------------------------------------------------------------


def _texts(content: object) -> str:
    """Return what a content of any protocol says."""
    match content:
        case str():
            return content
        case list():
            return "\n".join(filter(None, map(_texts, content)))
        case {"text": str(text)}:
            return text
        case {"content": inner} | {"output": inner} | {"result": inner}:
            return _texts(inner)
        case {"type": "image" | "input_image" | "image_url"} | {"inlineData": _}:
            return "[image]"
    return ""


def _halves(step: Step) -> list[str | None]:
    """Return the pieces that a text is sent in; None: the rest is waited for."""
    match step:
        case Held(text):
            return [text[: len(text) // 2], None, text[len(text) // 2 :]]
        case str():
            return [step[:5], step[5:]]
    return []


def _text(step: Step) -> str:
    return step.text if isinstance(step, Held) else step if isinstance(step, str) else ""


class _Protocol(ABC):
    """``parts`` is what a request says; ``streamed`` and ``whole`` are an answer, None where more is waited for."""

    ends: tuple[str, ...]
    """The ends of the paths that it is spoken at."""

    @abstractmethod
    def parts(self, body: Json) -> Iterator[Part]: ...

    @abstractmethod
    def streamed(self, step: Step, own: str) -> Iterator[Json | None]: ...

    @abstractmethod
    def whole(self, step: Step, own: str) -> Json: ...


class _Messages(_Protocol):
    ends = ("/messages",)

    def parts(self, body: Json) -> Iterator[Part]:
        yield Part("system", _texts(body.get("system")))
        for message in body["messages"]:
            content = message["content"]
            for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
                match part["type"]:
                    case "tool_use":
                        yield Part("call", json.dumps(part["input"], ensure_ascii=False), part["id"])
                    case "tool_result":
                        yield Part("result", _texts(part.get("content")), part["tool_use_id"])
                    case _:
                        yield Part(message["role"], _texts(part))

    def streamed(self, step: Step, own: str) -> Iterator[Json | None]:
        whole = self.whole(step, own)
        yield {"type": "message_start", "message": whole | {"content": [], "stop_reason": None}}
        [block] = whole["content"]
        if isinstance(step, Call):
            yield {"type": "content_block_start", "index": 0, "content_block": block | {"input": {}}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(step.arguments)}
            yield {"type": "content_block_delta", "index": 0, "delta": delta}
        else:
            yield {"type": "content_block_start", "index": 0, "content_block": block | {"text": ""}}
        for piece in _halves(step):
            delta = {"type": "text_delta", "text": piece}
            yield None if piece is None else {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        yield {"type": "message_delta", "delta": {"stop_reason": whole["stop_reason"]}, "usage": {"output_tokens": 1}}
        yield {"type": "message_stop"}

    def whole(self, step: Step, own: str) -> Json:
        usage = {"input_tokens": 1, "output_tokens": 1}
        message: Json = {"id": f"msg_{own}", "type": "message", "role": "assistant", "model": "m", "usage": usage}
        if isinstance(step, Call):
            block = {"type": "tool_use", "id": f"toolu_{own}", "name": step.name, "input": step.arguments}
            return message | {"content": [block], "stop_reason": "tool_use"}
        return message | {"content": [{"type": "text", "text": _text(step)}], "stop_reason": "end_turn"}


class _Responses(_Protocol):
    ends = ("/responses",)

    def parts(self, body: Json) -> Iterator[Part]:
        yield Part("system", body.get("instructions") or "")
        items = body["input"]
        for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
            match item.get("type", "message"):
                case "message":
                    role = item["role"]
                    yield Part("system" if role == "developer" else role, _texts(item["content"]))
                case "function_call" | "custom_tool_call" | "local_shell_call":
                    said = item.get("arguments") or item.get("input") or json.dumps(item.get("action"))
                    yield Part("call", said, item["call_id"])
                case "function_call_output" | "custom_tool_call_output":
                    yield Part("result", _texts(item["output"]), item["call_id"])

    def _item(self, step: Step, own: str) -> Json:
        if isinstance(step, Call):
            said = {"name": step.name, "arguments": json.dumps(step.arguments)}
            if step.namespace:
                said["namespace"] = step.namespace
            return {"type": "function_call", "id": f"fc_{own}", "call_id": f"call_{own}", "status": "completed", **said}
        content = [{"type": "output_text", "text": _text(step), "annotations": []}]
        return {
            "type": "message",
            "id": f"msg_{own}",
            "role": "assistant",
            "status": "completed",
            "content": content,
        }

    def streamed(self, step: Step, own: str) -> Iterator[Json | None]:
        whole = self.whole(step, own)
        item = self._item(step, own)
        yield {"type": "response.created", "response": whole | {"status": "in_progress", "output": []}}
        if isinstance(step, Call):
            began: Json = item | {"arguments": "", "status": "in_progress"}
            yield {"type": "response.output_item.added", "output_index": 0, "item": began}
        else:
            began = item | {"content": [], "status": "in_progress"}
            yield {"type": "response.output_item.added", "output_index": 0, "item": began}
            place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
            empty = {"type": "output_text", "text": "", "annotations": []}
            yield {"type": "response.content_part.added", "part": empty, **place}
            for piece in _halves(step):
                said = {"type": "response.output_text.delta", "delta": piece, **place}
                yield None if piece is None else said
            yield {"type": "response.output_text.done", "text": _text(step), **place}
            yield {"type": "response.content_part.done", "part": item["content"][0], **place}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        yield {"type": "response.completed", "response": whole}

    def whole(self, step: Step, own: str) -> Json:
        details: Json = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, **details}
        about = {"id": f"resp_{own}", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
        return {**about, "usage": usage, "output": [self._item(step, own)]}


class _Chat(_Protocol):
    ends = ("/chat/completions",)

    def parts(self, body: Json) -> Iterator[Part]:
        for message in body["messages"]:
            role, content = message["role"], message.get("content")
            if role == "tool":
                yield Part("result", _texts(content), message["tool_call_id"])
                continue
            if content:
                yield Part("system" if role == "developer" else role, _texts(content))
            for call in message.get("tool_calls") or ():
                yield Part("call", call["function"]["arguments"], call["id"])

    def _message(self, step: Step, own: str) -> Json:
        if isinstance(step, Call):
            function = {"name": step.name, "arguments": json.dumps(step.arguments)}
            called = [{"index": 0, "id": f"call_{own}", "type": "function", "function": function}]
            return {"role": "assistant", "content": None, "tool_calls": called}
        return {"role": "assistant", "content": _text(step)}

    def streamed(self, step: Step, own: str) -> Iterator[Json | None]:
        chunk = {"id": f"c_{own}", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        message = self._message(step, own)
        if isinstance(step, Call):
            yield chunk | {"choices": [{"index": 0, "delta": message, "finish_reason": None}]}
        for piece in _halves(step):
            said = {"index": 0, "delta": {"role": "assistant", "content": piece}, "finish_reason": None}
            yield None if piece is None else chunk | {"choices": [said]}
        why = "tool_calls" if isinstance(step, Call) else "stop"
        yield chunk | {"choices": [{"index": 0, "delta": {}, "finish_reason": why}], "usage": _USAGE}

    def whole(self, step: Step, own: str) -> Json:
        why = "tool_calls" if isinstance(step, Call) else "stop"
        choice = {"index": 0, "message": self._message(step, own), "finish_reason": why}
        about = {"id": f"c_{own}", "object": "chat.completion", "created": 1, "model": "m"}
        return {**about, "choices": [choice], "usage": _USAGE}


_USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


class _Gemini(_Protocol):
    ends = (":generateContent", ":streamGenerateContent")

    def parts(self, body: Json) -> Iterator[Part]:
        yield Part("system", _texts((body.get("systemInstruction") or {}).get("parts")))
        # a result tells which call it is of by its id, or by coming next
        called = 0
        answered = 0
        for content in body["contents"]:
            for part in content["parts"]:
                match part:
                    case {"functionCall": call}:
                        yield Part("call", json.dumps(call["args"], ensure_ascii=False), call.get("id", f"n{called}"))
                        called += 1
                    case {"functionResponse": response}:
                        said = response["response"]
                        told = said.get("output") or said.get("error")
                        text = told if isinstance(told, str) else json.dumps(said, ensure_ascii=False)
                        yield Part("result", text, response.get("id", f"n{answered}"))
                        answered += 1
                    case _:
                        yield Part("user" if content.get("role", "user") == "user" else "assistant", _texts(part))

    def streamed(self, step: Step, own: str) -> Iterator[Json | None]:
        if isinstance(step, Call):
            yield self.whole(step, own)
            return
        first, *rest = _halves(step)
        assert first is not None
        yield {"candidates": [{"content": {"role": "model", "parts": [{"text": first}]}, "index": 0}]}
        for piece in rest:
            yield None if piece is None else self.whole(piece, own)

    def whole(self, step: Step, own: str) -> Json:
        part: Json = {"text": _text(step)}
        if isinstance(step, Call):
            part = {"functionCall": {"id": f"call_{own}", "name": step.name, "args": step.arguments}}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        used = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        return {"candidates": [candidate], "usageMetadata": used, "modelVersion": "m", "responseId": own}


_CHAT = _Chat()
_PROTOCOLS: tuple[_Protocol, ...] = (_Messages(), _Responses(), _CHAT, _Gemini())
