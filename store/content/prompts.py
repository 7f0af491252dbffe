"""System prompts in JSON: the strings that tell a model what to be, whatever the role or the key is called.

A prompt stands under a key of its own (``system_prompt``, Anthropic's ``system``), or in a message whose role is the
system's; there as a string, or in blocks. The role may come before the content or after it, so the document is read
token by token; :data:`MARK` tells cheaply which documents are worth that. Nothing is parsed: of damaged JSON, ranges
are found that make as little sense as it does.
"""

import re

_ROLES = frozenset((b"developer", b"supervisor", b"system"))
_TEXTS = frozenset((b"content", b"parts", b"text"))
"""The keys under which messages and blocks have their text."""
_AUTHOR = b"author"

_SHARED = frozenset((b"instructions", b"system"))
"""Keys that mean other things, too: there, a prompt is a text of several words."""
_KEYS = _SHARED | {
    b"base_instructions",
    b"developer_instructions",
    b"systemInstruction",
    b"systemInstructions",
    b"systemPrompt",
    b"system_instruction",
    b"system_instructions",
    b"system_prompt",
    b"user_instructions",
}

MARK = re.compile(rb'"(?:role"\s*:\s*"(?:%s)"|(?:%s)"\s*:)' % (b"|".join(sorted(_ROLES)), b"|".join(sorted(_KEYS))))
"""Matches what every document with a system prompt has."""

_TOKEN = re.compile(rb'"(?P<inner>[^"\\]*+(?:\\.[^"\\]*+)*+)"(?P<colon>\s*+:)?|[\[{\]}]', re.DOTALL)
_DEEPEST = 1000
_OPENING = frozenset(b"[{")
_QUOTE = ord('"')

_Range = tuple[int, int]


class _Level:
    """An open object or array. The ``key`` of an array is the one that it stands under itself."""

    __slots__ = ("is_system", "key", "prompt", "texts")

    def __init__(self, key: bytes = b"", prompt: bytes = b"") -> None:
        self.key = key
        self.prompt = prompt
        """The key of the prompt that it is a part of, "" for none."""
        self.is_system = False
        self.texts: list[_Range] = []
        """The texts in it that are a prompt if its role says so."""


def find_prompts(payload: bytes) -> list[_Range]:
    """Return the ranges between the quotes of the strings that are, or are part of, system prompts; they rise."""
    found: set[_Range] = set()
    levels = [_Level()]
    for match in _TOKEN.finditer(payload):
        level = levels[-1]
        first = payload[match.start()]
        if first == _QUOTE:
            inner = match.span("inner")
            if match["colon"]:
                level.key = match["inner"]
            elif level.key == b"role":
                level.is_system = level.is_system or match["inner"] in _ROLES
            elif level.key in _KEYS or (level.prompt and level.key in _TEXTS):
                if _is_prompt(match["inner"], level.key if level.key in _KEYS else level.prompt):
                    found.add(inner)
            elif level.key in _TEXTS and match["inner"]:
                level.texts.append(inner)
        elif first in _OPENING:
            if len(levels) > _DEEPEST:
                break
            prompt = level.key if level.key in _KEYS else level.prompt if level.key in _TEXTS else b""
            levels.append(_Level(level.key if payload[match.start()] == ord("[") else b"", prompt))
        elif len(levels) > 1:
            found.update(_closed(levels))
    while len(levels) > 1:
        found.update(_closed(levels))
    return sorted(found)


def _is_prompt(text: bytes, key: bytes) -> bool:
    return bool(text) and (key not in _SHARED or b" " in text)


def _closed(levels: list[_Level]) -> list[_Range]:
    """Close the innermost level; return the texts that have turned out to be a prompt."""
    level, outer = levels.pop(), levels[-1]
    if level.is_system and level.texts:
        return level.texts
    if level.is_system and outer.key == _AUTHOR:
        # and the content is beside the author
        outer.is_system = True
    if outer.key in _TEXTS:
        outer.texts += level.texts
    return []
