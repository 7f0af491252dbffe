"""Records as other versions of a tool write them than most sessions have: all that was said is shown, and is edited."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from store.events.event import Block, Event
from store.formats.registry import lens_for
from store.importing.importer import Importer
from store.importing.trial import tried
from store.store import Store
from tests.store.formats.earlier import Earlier
from tests.store.formats.edited import check_text_edit
from tests.store.importing.sessions import by_source, exported, native

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(64))).decode()
URL = f"data:image/png;base64,{PNG}"
IMAGE = "an image"
FILE = "a file"

Shown = tuple[str, str]
"""The name of a block, and its text: of JSON, whether it is there."""
Case = tuple[str, object, str, Sequence[Shown]]
"""A format, a record, the kind and the tool of its event, and its blocks."""


def row(**data: object) -> dict[str, object]:
    return {"table": "messages", "key": {"id": "m1"}, **data}


def crush(*parts: object, role: str = "user") -> dict[str, object]:
    return row(cells={"role": role, "model": "m"}, json={"parts": parts})


def goose(*parts: object, role: str = "assistant") -> dict[str, object]:
    return row(cells={"role": role}, json={"content_json": parts})


def zed(**data: object) -> dict[str, object]:
    return {"table": "threads", "key": {"id": "a"}, "json": {"data": data}}


def ran(name: str, content: object, *, failed: bool = False) -> dict[str, object]:
    use = {"ToolUse": {"id": "t1", "name": name, "raw_input": "{}", "input": {"path": "login.py"}}}
    result = {"tool_use_id": "t1", "tool_name": name, "is_error": failed, "content": content, "output": None}
    return zed(Agent={"content": [use], "tool_results": {"t1": result}})


def opencode(what: str, **data: object) -> dict[str, object]:
    return {"table": "session_message", "key": {"id": "m1"}, "cells": {"type": what}, "json": {"data": data}}


def qwen(subtype: str, **payload: object) -> dict[str, object]:
    return {"type": "system", "uuid": "u", "sessionId": "s", "subtype": subtype, "systemPayload": payload}


def copilot(what: str, **data: object) -> dict[str, object]:
    return {"type": what, "data": data, "id": "e", "timestamp": "2026-03-05T19:31:54Z"}


def kimi(role: str, text: str, origin: object) -> dict[str, object]:
    message = {"role": role, "content": [{"type": "text", "text": text}], "toolCalls": [], "origin": origin}
    return {"type": "context.append_message", "message": message, "time": 1_772_739_114_000}


CALLED = {"id": "c1", "type": "function", "function": {"name": "grep", "arguments": '{"q": 1}'}}
CASES: dict[str, Case] = {
    "Zed's result as a list": (
        "zed",
        ran("read", [{"Text": "def login():"}, {"Image": {"source": PNG}}]),
        "call read",
        [
            ("arguments", ""),
            ("output", "def login():"),
            ("output", IMAGE),
        ],
    ),
    "Zed's result as a text": (
        "zed",
        ran("read", "def login():"),
        "call read",
        [
            ("arguments", ""),
            ("output", "def login():"),
        ],
    ),
    "a picture as Zed's result": (
        "zed",
        ran("look", {"Image": {"source": PNG}}, failed=True),
        "call look",
        [
            ("arguments", ""),
            ("output", IMAGE),
        ],
    ),
    "the files of a request to Zed before": (
        "zed",
        zed(role="user", segments=[{"type": "text", "text": "Why?"}], context="<file>login.py</file>"),
        "user",
        [("context", "<file>login.py</file>"), ("", "Why?")],
    ),
    "Zed's summary of a thread": (
        "zed",
        {
            "table": "threads",
            "key": {"id": "a"},
            "about": {"frame": "1"},
            "json": {"data": {"detailed_summary": "It failed."}},
        },
        "note",
        [("", "It failed.")],
    ),
    "files for Crush": (
        "crush",
        crush(
            {"type": "text", "data": {"text": "What is this?"}},
            {"type": "binary", "data": {"Path": "/home/ada/a.png", "MIMEType": "image/png", "Data": PNG}},
            {"type": "binary", "data": {"Path": "a.bin", "MIMEType": "application/x", "Data": PNG}},
            {"type": "image_url", "data": {"url": URL}},
            {"type": "image_url", "data": {"url": "https://example.org/a.png"}},
        ),
        "user",
        [("", "What is this?"), ("file", IMAGE), ("file", FILE), ("", IMAGE), ("", "https://example.org/a.png")],
    ),
    "a picture as Crush's result": (
        "crush",
        crush(
            {
                "type": "tool_result",
                "data": {"tool_call_id": "c", "content": "Seen.", "data": PNG, "mime_type": "image/png"},
            },
            role="tool",
        ),
        "result",
        [("", "Seen."), ("", IMAGE)],
    ),
    "a command of Crush's user": (
        "crush",
        crush({"type": "shell_command", "data": {"command": "git status", "output": "clean", "exit_code": 0}}),
        "user",
        [("command", "git status"), ("output", "clean")],
    ),
    "a call that Goose could not make": (
        "goose",
        goose(
            {"type": "redactedThinking", "data": "AAAA"},
            {"type": "toolRequest", "id": "r", "toolCall": {"status": "error", "error": "no such tool"}},
        ),
        "call",
        [("error", "no such tool")],
    ),
    "a result of it": (
        "goose",
        goose(
            {"type": "toolResponse", "id": "r", "toolResult": {"status": "error", "error": "no such tool"}}, role="user"
        ),
        "result",
        [("", "no such tool")],
    ),
    "a picture as Goose's result": (
        "goose",
        goose(
            {
                "type": "toolResponse",
                "id": "r",
                "toolResult": {
                    "status": "success",
                    "value": {
                        "content": [
                            {"type": "text", "text": "Seen."},
                            {"type": "image", "data": PNG, "mimeType": "image/png"},
                        ]
                    },
                },
            },
            role="user",
        ),
        "result",
        [("", "Seen."), ("", IMAGE)],
    ),
    "Goose's compaction before": (
        "goose-lines",
        {"role": "user", "created": 1, "content": [{"type": "conversationCompacted", "msg": "Compacted."}]},
        "user",
        [("", "Compacted.")],
    ),
    "Jan's thought and call": (
        "jan",
        {
            "object": "thread.message",
            "thread_id": "t",
            "role": "assistant",
            "created_at": 1_772_739_114_000,
            "content": [
                {"type": "reasoning", "text": {"value": "Which one?", "annotations": []}},
                {"type": "text", "text": {"value": "That one.", "annotations": []}},
            ],
            "metadata": {
                "tool_calls": [{"tool": CALLED, "response": {"content": [{"type": "text", "text": "found"}]}}]
            },
        },
        "call grep",
        [("thinking", "Which one?"), ("", "That one."), ("arguments", ""), ("output", "found")],
    ),
    "a file for Jan": (
        "jan",
        {
            "object": "thread.message",
            "thread_id": "t",
            "role": "user",
            "content": [{"type": "text", "text": {"value": "See."}}],
            "metadata": {"inline_file_contents": [{"name": "a.txt", "content": "a file's text"}]},
        },
        "user",
        [("", "See."), ("file", "a file's text")],
    ),
    "a request to Roo Code": (
        "cline-tasks",
        {
            "role": "user",
            "content": [{"type": "text", "text": "See."}, {"type": "image", "image": URL, "mediaType": "image/png"}],
        },
        "user",
        [("", "See."), ("", IMAGE)],
    ),
    "Roo Code's call": (
        "cline-tasks",
        {
            "role": "assistant",
            "content": [
                {"type": "reasoning", "text": "Which one?"},
                {"type": "text", "text": "That one."},
                {"type": "tool-call", "toolCallId": "c", "toolName": "read_file", "input": {"path": "a"}},
            ],
        },
        "call read_file",
        [("thinking", "Which one?"), ("", "That one."), ("arguments", "")],
    ),
    "Roo Code's result": (
        "cline-tasks",
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "c",
                    "toolName": "read_file",
                    "output": {"type": "text", "value": "def login():"},
                },
            ],
        },
        "result",
        [("", "def login():")],
    ),
    "LM Studio's call and result": (
        "lm-studio",
        {
            "versions": [
                {
                    "type": "multiStep",
                    "role": "assistant",
                    "senderInfo": {"senderName": "m"},
                    "steps": [
                        {
                            "type": "contentBlock",
                            "style": {"type": "thinking"},
                            "content": [{"type": "text", "text": "Which one?"}],
                        },
                        {
                            "type": "contentBlock",
                            "content": [
                                {"type": "text", "text": "I look."},
                                {
                                    "type": "toolCallRequest",
                                    "toolCallRequestId": "7",
                                    "name": "search",
                                    "parameters": {"q": "login"},
                                },
                            ],
                        },
                        {"type": "toolStatus", "callId": 7},
                        {
                            "type": "contentBlock",
                            "content": [{"type": "toolCallResult", "toolCallRequestId": "7", "content": "found"}],
                        },
                        {"type": "debugInfoBlock", "debugInfo": "named by its prompt"},
                    ],
                }
            ],
            "currentlySelected": 0,
        },
        "call search",
        [("thinking", "Which one?"), ("", "I look."), ("arguments", ""), ("output", "found")],
    ),
    "a thought of Continue": (
        "continue",
        {"message": {"role": "thinking", "content": "Which one?"}},
        "reasoning",
        [("", "Which one?")],
    ),
    "what Continue's call brought": (
        "continue",
        {
            "message": {"role": "assistant", "content": "", "toolCalls": [CALLED]},
            "toolCallStates": [
                {
                    "toolCallId": "c1",
                    "status": "errored",
                    "output": [{"name": f"n{at}", "content": f"line {at}"} for at in range(5)],
                }
            ],
        },
        "call grep",
        [("arguments", ""), *[("output", f"line {at}") for at in range(5)]],
    ),
    "Continue's summary": (
        "continue",
        {"message": {"role": "assistant", "content": "Done."}, "conversationSummary": "It failed."},
        "assistant",
        [("summary", "It failed."), ("", "Done.")],
    ),
    "a command of Qwen's user": (
        "qwen-code",
        qwen("slash_command", phase="invocation", rawCommand="/review"),
        "note",
        [("", "/review")],
    ),
    "Qwen's notes": ("qwen-code", qwen("session_notes", text="It failed."), "note", [("", "It failed.")]),
    "a file that Qwen did not find": (
        "qwen-code",
        qwen("at_command", status="error", userText="@a.py why?", message="no such file"),
        "note",
        [("", "@a.py why?"), ("", "no such file")],
    ),
    "a turn of Qwen's that failed": (
        "qwen-code",
        qwen("turn_result", error={"message": "not reachable"}),
        "note",
        [("", "not reachable")],
    ),
    "what Qwen is to reach": (
        "qwen-code",
        qwen("goal_state", v=2, cause="create", snapshot={"goal": {"objective": "All tests pass."}}),
        "note",
        [("", "All tests pass.")],
    ),
    "what Qwen has reached": (
        "qwen-code",
        qwen("goal_state", v=2, cause="complete", snapshot={"goal": {"objective": "All.", "lastReason": "They do."}}),
        "note",
        [("", "They do.")],
    ),
    "that Qwen goes on": (
        "qwen-code",
        qwen("goal_state", v=2, cause="resume", snapshot={"goal": {"objective": "All.", "lastReason": "They do."}}),
        "record",
        [],
    ),
    "a record of a later Qwen that says something": (
        "qwen-code",
        qwen("of_tomorrow", advice={"said": "Ask the other team first."}),
        "note",
        [("record", "")],
    ),
    "a record of a later Qwen that says nothing": ("qwen-code", qwen("of_tomorrow", count=3), "record", []),
    "what a fork of Qwen's knows": (
        "qwen-code",
        qwen("agent_bootstrap", history=[{"role": "user", "parts": [{"text": "Why?"}]}], systemInstruction="Be brief."),
        "system",
        [("", "Be brief."), ("history", "")],
    ),
    "files for opencode": (
        "opencode-v2",
        opencode(
            "user",
            text="See.",
            files=[
                {"uri": URL, "mime": "image/png", "name": "a.png"},
                {"uri": "file:///a.py", "mime": "text/plain", "name": "a.py"},
            ],
        ),
        "user",
        [("", "See."), ("file", IMAGE), ("file", "file:///a.py")],
    ),
    "a command of opencode's user": (
        "opencode-v2",
        opencode("shell", callID="c", command="ls", output="a.py"),
        "user",
        [("command", "ls"), ("output", "a.py")],
    ),
    "opencode's compaction": (
        "opencode-v2",
        opencode("compaction", reason="auto", summary="It failed.", recent="Why?"),
        "summary",
        [("", "It failed."), ("recent", "Why?")],
    ),
    "what opencode's call brought": (
        "opencode-v2",
        opencode(
            "assistant",
            error={"type": "unknown", "message": "overloaded"},
            content=[
                {
                    "type": "tool",
                    "id": "c",
                    "name": "read",
                    "state": {
                        "status": "completed",
                        "input": {"path": "a"},
                        "content": [
                            {"type": "text", "text": "def login():"},
                            {"type": "file", "uri": URL, "mime": "image/png"},
                        ],
                    },
                },
            ],
        ),
        "call read",
        [("error", "overloaded"), ("arguments", ""), ("output", "def login():"), ("output", IMAGE)],
    ),
    "what an export of opencode's says beside": (
        "opencode-export",
        {
            "info": {"role": "assistant", "error": {"name": "APIError", "data": {"message": "overloaded"}}},
            "parts": [
                {"type": "retry", "attempt": 1, "error": {"data": {"message": "too many requests"}}},
                {
                    "type": "tool",
                    "callID": "c",
                    "tool": "look",
                    "state": {
                        "input": {"path": "a"},
                        "output": "Seen.",
                        "attachments": [
                            {"id": "f", "mime": "image/png", "url": URL},
                        ],
                    },
                },
            ],
        },
        "call look",
        [
            ("error", "overloaded"),
            ("error", "too many requests"),
            ("arguments", ""),
            ("output", "Seen."),
            ("output", IMAGE),
        ],
    ),
    "a file in an export of opencode's": (
        "opencode-export",
        {
            "info": {"role": "user", "system": "Be brief."},
            "parts": [{"type": "file", "filename": "a.py", "url": "file:///a.py"}],
        },
        "user",
        [("system", "Be brief."), ("file", "file:///a.py")],
    ),
    "pictures for OpenHands": (
        "openhands.event.v1",
        {
            "kind": "MessageEvent",
            "source": "user",
            "llm_message": {
                "role": "user",
                "content": [
                    {"type": "text", "text": "See."},
                    {"type": "image", "image_urls": [URL, URL]},
                ],
            },
            "extended_content": [{"type": "text", "text": "A skill says so."}],
        },
        "user",
        [("", "See."), ("", IMAGE), ("", IMAGE), ("context", "A skill says so.")],
    ),
    "one elsewhere": (
        "openhands.event.v1",
        {
            "kind": "MessageEvent",
            "source": "user",
            "llm_message": {
                "role": "user",
                "content": [
                    {"type": "image", "image_urls": [URL, "https://example.org/a.png"]},
                ],
            },
        },
        "user",
        [("image", "")],
    ),
    "a picture for OpenHands before": (
        "openhands.event.v1",
        {"source": "user", "action": "message", "args": {"content": "See.", "image_urls": [URL]}},
        "user",
        [("", "See."), ("", IMAGE)],
    ),
    "OpenHands' thoughts as items": (
        "openhands.event.v1",
        {
            "kind": "ActionEvent",
            "tool_name": "terminal",
            "tool_call_id": "c",
            "action": {"kind": "X", "command": "ls"},
            "thought": [],
            "responses_reasoning_item": {"summary": ["Which one?"], "content": None},
            "thinking_blocks": [],
        },
        "call terminal",
        [("thinking", "Which one?"), ("arguments", "")],
    ),
    "OpenHands' thoughts as blocks": (
        "openhands.event.v1",
        {
            "kind": "ActionEvent",
            "tool_name": "terminal",
            "tool_call_id": "c",
            "action": {"kind": "X", "command": "ls"},
            "thought": [],
            "reasoning_content": None,
            "thinking_blocks": [{"type": "thinking", "thinking": "Which one?"}],
        },
        "call terminal",
        [("arguments", ""), ("thinking", "Which one?")],
    ),
    "what OpenHands is told of its surroundings": (
        "openhands.event.v1",
        {
            "kind": "SystemPromptEvent",
            "system_prompt": {"type": "text", "text": "Be brief."},
            "dynamic_context": {"type": "text", "text": "It is Thursday."},
        },
        "system",
        [("", "Be brief."), ("", "It is Thursday.")],
    ),
    "a call of another agent in OpenHands": (
        "openhands.event.v1",
        {
            "kind": "ACPToolCallEvent",
            "source": "agent",
            "tool_call_id": "c",
            "title": "Read a.py",
            "tool_kind": "read",
            "raw_input": {"path": "a.py"},
            "raw_output": "def login():",
            "is_error": False,
        },
        "call read",
        [("title", "Read a.py"), ("output", "def login():"), ("arguments", "")],
    ),
    "a thought of Amazon Q": (
        "kiro-db",
        row(
            json={
                "value": {
                    "assistant": {"Response": {"content": "So.", "thinking": {"ReasoningText": {"text": "Which one?"}}}}
                }
            }
        ),
        "assistant",
        [("thinking", ""), ("", "So.")],
    ),
    "a call in VS Code whose messages are texts": (
        "vscode-chat",
        {
            "kind": "toolInvocationSerialized",
            "toolCallId": "c",
            "toolId": "run",
            "invocationMessage": "Running it",
            "pastTenseMessage": {"value": "Ran it"},
        },
        "call run",
        [("past", "Ran it"), ("message", "Running it")],
    ),
    "a thought in VS Code": (
        "vscode-chat",
        {"kind": "thinking", "value": ["Which", "one?"], "generatedTitle": "Choosing"},
        "reasoning",
        [("", "Which"), ("", "one?"), ("subject", "Choosing")],
    ),
    "an answer in VS Code with weak spots": (
        "vscode-chat",
        {"kind": "markdownVuln", "content": {"value": "So."}, "vulnerabilities": [{"title": "t"}]},
        "assistant",
        [("", "So.")],
    ),
    "calls of VS Code as its model made them, with their results": (
        "vscode-chat",
        {
            "timings": {"totalElapsed": 100},
            "metadata": {
                "toolCallRounds": [
                    {
                        "response": "Let me look.",
                        "toolCalls": [
                            {"name": "read_file", "arguments": '{"filePath":"/shop/login.py"}', "id": "c1"},
                            {"name": "grep_search", "arguments": '{"query":"lower"}', "id": "c2"},
                        ],
                    }
                ],
                "toolCallResults": {
                    "c1": {"$mid": 20, "content": [{"$mid": 21, "value": "def login():"}]},
                    "c2": {"$mid": 20, "content": [{"$mid": 21, "value": "Nothing found"}]},
                },
            },
        },
        "call read_file",
        [
            ("arguments", ""),
            ("call2.arguments", ""),
            ("output", "def login():"),
            ("call2.output", "Nothing found"),
        ],
    ),
    "an answer of VS Code that failed": (
        "vscode-chat",
        {"timings": {"totalElapsed": 3}, "errorDetails": {"message": "There were too many requests."}},
        "note",
        [("", "There were too many requests.")],
    ),
    "a message of Droid without a frame": (
        "droid",
        {"role": "user", "timestamp": "2026-08-23T00:00:00Z", "content": [{"type": "text", "text": "Why?"}]},
        "user",
        [("", "Why?")],
    ),
    "Droid's summary": (
        "droid",
        {"type": "compaction_state", "id": "c", "summaryText": "It failed.", "summaryTokens": 3},
        "summary",
        [("", "It failed.")],
    ),
    "a request to Antigravity": (
        "antigravity",
        {"step_index": 0, "source": "USER", "type": "USER_MESSAGE", "content": "Why?"},
        "user",
        [("", "Why?")],
    ),
    "what Kimi Code is told between": (
        "kimi-code",
        kimi("user", "It is Thursday.", {"kind": "injection", "variant": "date"}),
        "system",
        [("", "It is Thursday.")],
    ),
    "Kimi Code's summary": (
        "kimi-code",
        kimi("user", "It failed.", {"kind": "compaction_summary"}),
        "summary",
        [("", "It failed.")],
    ),
    "a command of Kimi Code's user": (
        "kimi-code",
        kimi("user", "ls", {"kind": "shell_command", "phase": "input"}),
        "user",
        [("", "ls")],
    ),
    "a goal of Kimi Code's": (
        "kimi-code",
        {"type": "goal.create", "goalId": "g", "objective": "Fix the login.", "completionCriterion": "Tests pass."},
        "note",
        [("", "Fix the login."), ("", "Tests pass.")],
    ),
    "items that Open WebUI keeps": (
        "open-webui",
        {
            "table": "chat",
            "key": {"id": "a"},
            "json": {
                "chat": {
                    "role": "assistant",
                    "content": "",
                    "output": [
                        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Which one?"}]},
                        {"type": "function_call", "call_id": "c", "name": "search", "arguments": '{"q": 1}'},
                        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So."}]},
                    ],
                }
            },
        },
        "call search",
        [("thinking", "Which one?"), ("arguments", ""), ("", "So.")],
    ),
    "what Open WebUI says beside": (
        "open-webui",
        {
            "table": "chat",
            "key": {"id": "a"},
            "json": {
                "chat": {
                    "role": "assistant",
                    "content": "So.",
                    "output": [{"type": "message"}],
                    "error": {"content": "overloaded"},
                    "contextSummary": "It failed.",
                }
            },
        },
        "assistant",
        [("error", "overloaded"), ("summary", "It failed."), ("", "So.")],
    ),
    "what Grok is told between": (
        "grok-build",
        {
            "type": "user",
            "content": [{"type": "text", "text": "It is Thursday."}],
            "synthetic_reason": "system_reminder",
        },
        "system",
        [("", "It is Thursday.")],
    ),
    "what Grok is told meanwhile": (
        "grok-build",
        {"type": "user", "content": [{"type": "text", "text": "And the tests?"}], "synthetic_reason": "interjection"},
        "user",
        [("", "And the tests?")],
    ),
    "a picture as Grok's result": (
        "grok-build",
        {"type": "tool_result", "tool_call_id": "c", "content": "Seen.", "images": [{"type": "image", "url": URL}]},
        "result",
        [("", "Seen."), ("", IMAGE)],
    ),
    "a search of Grok's service": (
        "grok-build",
        {
            "type": "backend_tool_call",
            "kind": {"tool_type": "x_search", "id": "x", "name": "x_keyword_search", "input": '{"q": 1}'},
        },
        "call x_keyword_search",
        [("arguments", "")],
    ),
    "a program in Grok's service": (
        "grok-build",
        {
            "type": "backend_tool_call",
            "kind": {"tool_type": "code_interpreter", "id": "x", "code": "1 + 1", "outputs": [{"logs": "2"}]},
        },
        "call code_interpreter",
        [("outputs", ""), ("arguments", "1 + 1")],
    ),
    "a picture for OpenClaw": (
        "openclaw",
        row(
            json={
                "event_json": {
                    "type": "message",
                    "message": {
                        "role": "user",
                        "content": [
                            {"type": "image", "data": PNG, "mimeType": "image/png"},
                        ],
                    },
                }
            }
        ),
        "user",
        [("", IMAGE)],
    ),
    "a picture for Cline": (
        "cline",
        {"role": "user", "content": [{"type": "image", "data": PNG, "mediaType": "image/png"}]},
        "user",
        [("", IMAGE)],
    ),
    "a picture for Roo Code in base64": (
        "cline-tasks",
        {"role": "user", "content": [{"type": "image", "image": PNG, "mediaType": "image/png"}]},
        "user",
        [("", IMAGE)],
    ),
    "what Hermes is told first": (
        "hermes-db",
        {"table": "sessions", "key": {"id": "a"}, "cells": {"source": "cli", "system_prompt": "Be brief."}},
        "system",
        [("", "Be brief.")],
    ),
    "a picture for Copilot": (
        "copilot-cli",
        copilot(
            "user.message",
            content="See.",
            transformedContent="See.",
            attachments=[
                {"type": "blob", "data": PNG, "mimeType": "image/png"},
                {"type": "file", "path": "/a.py"},
            ],
        ),
        "user",
        [("", "See."), ("", IMAGE), ("content", "")],
    ),
    "a picture as Copilot's result": (
        "copilot-cli",
        copilot(
            "tool.execution_complete",
            toolCallId="c",
            success=True,
            result={
                "content": "Seen.",
                "contents": [
                    {"type": "text", "text": "Seen."},
                    {"type": "image", "data": PNG, "mimeType": "image/png"},
                ],
            },
        ),
        "result",
        [("", "Seen."), ("", IMAGE)],
    ),
    "Copilot's last word": ("copilot-cli", copilot("session.task_complete", summary="Done."), "note", [("", "Done.")]),
    "a call of Copilot's user": (
        "copilot-cli",
        copilot("tool.user_requested", toolCallId="c", toolName="bash", arguments={"command": "ls"}),
        "call bash",
        [("arguments", "")],
    ),
    "why Copilot may not": (
        "copilot-cli",
        copilot("permission.completed", requestId="r", result={"kind": "denied", "feedback": "Never."}),
        "answer",
        [("", "Never.")],
    ),
    "a film for kimi-cli": (
        "kimi-cli",
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "See."},
                {"type": "video_url", "video_url": {"url": f"data:video/mp4;base64,{PNG}"}},
            ],
        },
        "user",
        [("", "See."), ("", FILE)],
    ),
}


def said(block: Block) -> Shown:
    others = {"json": "", "image": IMAGE, "resource": FILE}
    name = block.name.partition("[")[0]
    return name, others.get(block.type, block.text or "")


def told(event: Event) -> str:
    return f"{event.kind.word} {event.tool}".strip()


@pytest.mark.parametrize("what", CASES)
def test_it_is_shown_and_edited(what: str) -> None:
    name, record, kind, blocks = CASES[what]
    lens = lens_for(name if "." in name else f"{name}.record.v1")
    payload = json.dumps(record).encode()
    event = lens.view(payload, Earlier())
    assert (told(event), [said(block) for block in event.blocks]) == (kind, list(blocks))
    for at, block in enumerate(event.blocks):
        if block.type == "text":
            check_text_edit(lens, payload, Earlier(), event, at, "Another text")


def test_the_time_of_a_message_of_jan() -> None:
    event = lens_for("jan.record.v1").view(json.dumps(CASES["Jan's thought and call"][1]).encode(), Earlier())
    assert event.time_ms == 1_772_739_114_000


def test_images_of_kimi_code_are_files_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "session_1" / "agents" / "main"
    (folder / "blobs").mkdir(parents=True)
    picture = folder / "blobs" / "0a1b"
    picture.write_text(PNG)
    said = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "blobref:image/png;0a1b"}}]}
    lines = (
        {"type": "metadata", "protocol_version": "1.5", "created_at": 1},
        {"type": "context.append_message", "message": said},
    )
    (folder / "wire.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    with Store.open(tmp_path / "store") as store:
        Importer(store).run([tmp_path / "session_1"])
        with exported(store, by_source(store, folder / "wire.jsonl")) as files:
            assert files["blobs/0a1b"] == picture.read_bytes()


def test_the_parent_of_an_agent_of_droid(tmp_path: Path) -> None:
    folder = tmp_path / ".factory" / "sessions" / "-shop"
    folder.mkdir(parents=True)
    starts = {"type": "session_start", "title": "Look", "cwd": "/shop"}
    for name, more in (("parent", {}), ("child", {"callingSessionId": "parent"})):
        said = {"type": "message", "message": {"role": "user", "content": "Look."}}
        (folder / f"{name}.jsonl").write_text(
            "".join(json.dumps(one) + "\n" for one in ({"id": name, **starts, **more}, said))
        )
    assert tried(folder / "child.jsonl").about.extra["parent_session"] == "parent"


def test_a_task_of_roo_code_in_its_second_version(tmp_path: Path) -> None:
    """It is an object with the messages; the file of the first versions is read where there is no other."""
    folder = tmp_path / "rooveterinaryinc.roo-cline" / "tasks" / "0197"
    folder.mkdir(parents=True)
    first = folder / "claude_messages.json"
    first.write_text(json.dumps([{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]))
    assert (tried(first).source.format, tried(first).about.session_id) == ("cline-tasks", "0197")
    messages = [CASES[f"{one} Roo Code"][1] for one in ("a request to",)]
    messages += [CASES[f"Roo Code's {one}"][1] for one in ("call", "result")]
    second = folder / "api_conversation_history.json"
    second.write_text(json.dumps({"version": 2, "messages": messages}, indent=2))
    assert tried(second).kinds == {"user": 1, "call": 1, "result": 1}
    with Store.open(tmp_path / "store") as store:
        report = Importer(store).run([folder])
        assert (report.errors, report.tools["cline-tasks"].imported) == ([], 1)
        assert native(store, second) == second.read_bytes()
        assert Importer(store).run([folder]).tools["cline-tasks"].imported == 0


@pytest.mark.parametrize(
    ("path", "records", "beside"),
    [
        (
            ".kimi/sessions/h/s1/context.jsonl",
            [{"role": "_checkpoint", "id": 0}, {"role": "user", "content": "Why?"}],
            {"wire.jsonl": [{"type": "metadata"}, {"timestamp": 1767225600.5, "message": {"type": "TurnBegin"}}]},
        ),
        (
            "saoudrizwan.claude-dev/tasks/17/api_conversation_history.json",
            [{"role": "user", "content": "Why?"}],
            {"ui_messages.json": [{"ts": 1767225600500, "type": "say", "say": "task", "text": "Why?"}]},
        ),
    ],
)
def test_a_session_begins_when_a_file_beside_it_says(
    tmp_path: Path, path: str, records: list[object], beside: dict[str, list[object]]
) -> None:
    main = tmp_path / path
    main.parent.mkdir(parents=True)
    for name, held in {main.name: records, **beside}.items():
        in_lines = name.endswith(".jsonl")
        said = "".join(json.dumps(line) + "\n" for line in held) if in_lines else json.dumps(held)
        (main.parent / name).write_text(said)
    assert tried(main).about.started_ms == 1767225600500
