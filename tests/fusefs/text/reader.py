"""A small reader of event files, written from the grammar's description alone; tests hold the renderer against it."""

import json
import re
from typing import NamedTuple

Value = str | int | float | bool


class Seen(NamedTuple):
    """A block as its file shows it; ``link`` is set for content that is not text."""

    type: str
    name: str
    uri: str
    mime: str
    text: str | None
    link: str = ""


class File(NamedTuple):
    """The parts of an event's file: the head in order, and the blocks."""

    head: list[tuple[str, Value]]
    blocks: list[Seen]


_OPENING = re.compile(r"(`{4,})(block(?: .*)?)")
_LINK = re.compile(r'!?\[[^\]]*\]\(([^)\s]*) "(block .*)"\)')
_WORD = re.compile(r'(?:(name|uri|mime)=)?("(?:[^"\\]|\\.)*"|[^\s"]+)(?: |$)')


def read_file(data: bytes) -> File:
    """Take the file of an event apart."""
    text = data.decode()
    assert text.startswith("---\n")
    end = text.index("\n---\n", 3)
    return File([_field(line) for line in text[4:end].split("\n")], _content(text[end + 5 :]))


def _field(line: str) -> tuple[str, Value]:
    if line.startswith('"'):
        key, at = json.JSONDecoder().raw_decode(line)
        assert line[at : at + 2] == ": "
        return key, _value(line[at + 2 :])
    key, _, value = line.partition(": ")
    return key, _value(value)


def _value(text: str) -> Value:
    if text.startswith('"'):
        return str(json.loads(text))
    if text in {"true", "false"}:
        return text == "true"
    special = {".inf": float("inf"), "-.inf": float("-inf"), ".nan": float("nan")}
    if text in special:
        return special[text]
    if re.fullmatch(r"-?[0-9]+", text):
        return int(text)
    if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?", text):
        return float(text)
    return text


def _content(text: str) -> list[Seen]:
    if not text:
        return []
    assert text.endswith("\n")
    lines = text[:-1].split("\n")
    if not _OPENING.fullmatch(lines[0]) and not _LINK.fullmatch(lines[0]):
        return [Seen("text", "", "", "", text[:-1])]
    blocks: list[Seen] = []
    at = 0
    while at < len(lines):
        if blocks:
            assert lines[at] == ""
            at += 1
        if found := _LINK.fullmatch(lines[at]):
            blocks.append(Seen(*_words(re.sub(r"\\(.)", r"\1", found[2])), None, found[1]))
        else:
            found = _OPENING.fullmatch(lines[at])
            assert found, f"neither a fence nor a link: {lines[at]!r}"
            start = at + 1
            at = lines.index(found[1], start)
            blocks.append(Seen(*_words(found[2]), "\n".join(lines[start:at])))
        at += 1
    return blocks


def _words(description: str) -> tuple[str, str, str, str]:
    block, kind, *_ = description.split(" ")
    assert block == "block"
    order = ["name"] if kind in {"text", "json"} else ["uri", "mime"]
    found = {"name": "", "uri": "", "mime": ""}
    rest = description[len(f"block {kind} ") :]
    while rest:
        word = _WORD.match(rest)
        assert word, rest
        found[word[1] or order.pop(0)] = str(json.loads(word[2])) if word[2].startswith('"') else word[2]
        rest = rest[word.end() :]
    return kind, found["name"], found["uri"], found["mime"]
