"""A model that says one thing, for programs that talk to one: in the protocols of those who make them."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWER = "taken up again"


class Model:
    """What was asked of it: the bodies of the requests, by path."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def told(self, end: str) -> str:
        """Return the last request to a path with this end, as text."""
        found = [body for path, body in self.asked if path.endswith(end)]
        assert found, [path for path, _body in self.asked]
        return json.dumps(found[-1], ensure_ascii=False)


@contextmanager
def model() -> Iterator[Model]:
    """Answer requests until the block ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.model = Model(server.server_port)  # type: ignore[attr-defined]  (for its handlers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.model  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._send(b'{"data": [], "models": []}', "application/json")

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
        self.server.model.asked.append((path, body))  # type: ignore[attr-defined]
        said = [line for end, answer in _ANSWERS.items() if path.endswith(end) for line in answer]
        if path.endswith(":generateContent"):
            self._send(json.dumps(_GEMINI).encode(), "application/json")
        elif said:
            self._send(b"".join(map(_event, said)), "text/event-stream")
        else:
            self._send(b"{}", "application/json")

    def _send(self, data: bytes, what: str) -> None:
        self.send_response(200)
        self.send_header("content-type", what)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _event(said: dict[str, Any]) -> bytes:
    name = f"event: {said['type']}\n" if "type" in said else ""
    return f"{name}data: {json.dumps(said)}\n\n".encode()


_ITEM = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": ANSWER}]}
_NOTHING = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
_MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": _NOTHING}
_CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
_GEMINI = {
    "candidates": [
        {"content": {"role": "model", "parts": [{"text": ANSWER}]}, "finishReason": "STOP", "index": 0},
    ],
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
}
_ANSWERS: dict[str, list[dict[str, Any]]] = {
    "/responses": [
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.done", "output_index": 0, "item": _ITEM},
        {"type": "response.completed", "response": {"id": "r", "usage": _NOTHING, "output": [_ITEM]}},
    ],
    "/messages": [
        {"type": "message_start", "message": _MESSAGE},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ANSWER}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ],
    "/chat/completions": [
        _CHUNK | {"choices": [{"index": 0, "delta": {"content": ANSWER}, "finish_reason": None}]},
        _CHUNK | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ],
    ":streamGenerateContent": [_GEMINI],
}
