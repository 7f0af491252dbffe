"""Sessions of the tools that a page of text describes, as its section ``[write]`` says.

Each step becomes a record, by the template for its kind. What a model says in one go is one message to most tools: then
the records add up, at the places that the page names, and so do the results of several calls.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import count
from pathlib import Path, PurePath
from urllib.parse import quote
from uuid import uuid5

from msgspec import structs

from store.errors import UsageError
from store.events.conversation import Conversation
from store.events.event import Kind, ValuePath, utf8
from store.exporting.dialogue import arguments_object, lost_kind, pieces_of, said, tool_name
from store.exporting.event_json import encoded
from store.exporting.sessions import NewSession, SessionTarget, seen_from, started, worked_in
from store.exporting.steps import OF_THE_MODEL, Step
from store.exporting.target import ExportJob
from store.formats.claude_code.session import folder_name
from store.formats.core.composing import NO_PARTICULARS, Particulars, Template, recorded
from store.formats.core.format import Format
from store.formats.core.homes import first
from store.formats.core.json_view import JsonObject, as_list, is_object, value_at
from store.formats.core.times import milliseconds
from store.formats.declared.description import KINDS, Write, places
from store.formats.declared.format import DeclaredFormat
from store.importing.exporter import identity

_SAID = (Kind.USER, Kind.SUMMARY, Kind.SYSTEM, Kind.ASSISTANT, Kind.REASONING, Kind.TOOL_CALL)
_unfit = re.compile(r"[^a-z0-9._-]+").sub
_LONGEST_NAME = 40
_SAYS_FAILURE = ("$failed", "$worked", "$error")


class Described(SessionTarget):
    """A tool that a page describes: one that says how its sessions are written."""

    def __init__(self, format_: DeclaredFormat, write: Write) -> None:
        self.name = format_.name
        self.write_as = write
        self.joins = places(write.joins)
        self.templates = {KINDS[word]: template for word, template in (format_.said.new | write.records).items()}
        call, result = (self.templates.get(kind, {}) for kind in (Kind.TOOL_CALL, Kind.TOOL_RESULT))
        self.holds_results = not result and "$result" in json.dumps(call)
        answering = call if self.holds_results else result
        self.says_failure = any(word in json.dumps(answering) for word in _SAYS_FAILURE)
        self._joints = format_.joints
        self._homes = format_.kept

    def path(self, conversation: Conversation, session: str) -> PurePath:
        return PurePath(self.write_as.file.format(**_names(conversation, session)))

    def session_id(self, session: NewSession) -> str:
        return self.write_as.id.format(**_names(session.conversation, str(session.id)))

    def is_own(self, job: ExportJob) -> bool:
        if not super().is_own(job):
            return False
        # a session that the tool keeps otherwise, as older versions did, is written anew
        own = identity(job.store, job.conversation)
        return self.path(job.conversation, own.session).name == own.path.name

    def folder(self, path: PurePath, name: PurePath) -> PurePath:
        # imported, it lies beside the session
        above = (one for one in self.write_as.beside if one.startswith("../") and PurePath(one).name == str(name))
        return next((seen_from(path, one).parent for one in above), path.parent)

    def lines(self, session: NewSession) -> Iterator[JsonObject]:
        """Yield the records of a session."""
        return iter(_Records(self, session))

    def written(self, session: NewSession) -> Iterator[bytes]:
        """Yield the bytes of a session's file; those of the files beside it are in the session afterwards."""
        records = _Records(self, session)
        opening, between, closing = self._joints
        if self.write_as.document:
            opening = utf8(encoded(records.about(self.write_as.document))[:-1]) + b", " + opening[1:]
        yield opening
        number = 0
        for number, record in enumerate(self.lines(session), 1):
            yield (between if number > 1 else b"") + utf8(encoded(record))
        yield closing
        names = _names(session.conversation, self.session_id(session))
        path = first(self._homes, Path.home()) / self.path(session.conversation, self.session_id(session))
        for name, template in self.write_as.beside.items():
            document = records.about(template, count=number, path=str(path))
            is_yaml = name.endswith((".yaml", ".yml"))
            lines = [f"{key}: {encoded(one)}" for key, one in document.items()] if is_yaml else [encoded(document)]
            session.beside[name.format(**names)] = utf8("\n".join(lines) + "\n")


def described(format_: Format) -> Described | None:
    """Return a format as a target, None if no page says how its sessions are written."""
    if not isinstance(format_, DeclaredFormat) or format_.said.write is None:
        return None
    return Described(format_, format_.said.write)


def _names(conversation: Conversation, session: str) -> dict[str, object]:
    """Return the names that stand in the path of a session."""
    directory = worked_in(conversation)
    return {
        "session": session,
        "slug": folder_name(directory),
        "quoted": quote(directory, safe=""),
        "name": _unfit("-", PurePath(directory).name.lower()).strip("-")[:_LONGEST_NAME],
        "md5": hashlib.md5(utf8(directory), usedforsecurity=False).hexdigest(),
        "sha256": hashlib.sha256(utf8(directory)).hexdigest(),
        "started": datetime.fromisoformat(started(conversation)),
    }


class _Records:
    """The records of a new session, in order."""

    def __init__(self, target: Described, session: NewSession) -> None:
        self._target = target
        self._session = session
        self._id = target.session_id(session)
        self._ms = milliseconds(session.started)
        self._last: JsonObject = {}

    def about(self, template: Template, **more: object) -> JsonObject:
        """Return what a template says of the whole session."""
        return self._made(template, Kind.RECORD, "", "about", NO_PARTICULARS, **more)

    def __iter__(self) -> Iterator[JsonObject]:
        for at, template in enumerate(self._target.write_as.head):
            self._last = self._made(template, Kind.RECORD, "", f"head.{at}", NO_PARTICULARS)
            yield self._last
        for steps, results in _exchanges(self._session.dialogue.steps()):
            yield from self._joined((self._said(step, results.get(step.id)) for step in steps), self._target.joins)
            if not self._target.holds_results:
                joins = self._target.joins if self._target.write_as.join_results else ()
                yield from self._joined(map(self._result, results.values()), joins)

    def _made(
        self,
        template: Template,
        kind: Kind,
        text: str,
        unique: str,
        more: Particulars,
        **other: object,
    ) -> JsonObject:
        session, numbers = self._session, count()
        about = {
            "session": self._id,
            "title": session.title,
            "directory": session.folder,
            "started": session.started,
            "last": self._last,
            "uuid": lambda: uuid5(session.id, f"{unique}.{next(numbers)}"),
        }
        return recorded(template, kind, text, self._ms, more, **about | other)

    def _of_step(
        self, step: Step, kind: Kind, text: str, more: Particulars = NO_PARTICULARS, **other: object
    ) -> JsonObject:
        self._ms = step.time_ms or self._ms
        unique = f"{step.number}.{step.kind.name}.{step.index}"
        return self._made(self._target.templates[kind], kind, text, unique, more, **other)

    def _said(self, step: Step, result: Step | None) -> JsonObject | None:
        """Return the record of a step other than a result; ``result`` is that of a call."""
        losses, known = self._session.losses, self._target.templates
        kind = Kind.USER if step.kind is Kind.SUMMARY and step.kind not in known else step.kind
        if kind not in _SAID or kind not in known:
            losses.add("a thought" if kind is Kind.REASONING else lost_kind(step), step.number)
        elif kind is Kind.TOOL_CALL:
            return self._call(step, result)
        elif kind is Kind.REASONING:
            return self._of_step(step, kind, step.text, signature=step.signature)
        elif kind is not Kind.USER or not self._target.write_as.image:
            text = said(step, losses)
            return self._of_step(step, kind, text) if text else None
        else:
            return self._request(step)
        return None

    def _request(self, step: Step) -> JsonObject | None:
        pieces = pieces_of(step, self._session.losses)
        if not pieces:
            return None
        text = "\n\n".join(piece.text for piece in pieces if piece.text)
        record = self._of_step(step, Kind.USER, text)
        if not text:
            for at in self._target.joins:
                # an empty text that no model takes
                as_list(value_at(record, at)).clear()
        for piece in pieces:
            if piece.data:
                about = {"mime": piece.mime, "data": piece.data, "url": piece.url}
                self._add(record, self.about(self._target.write_as.image, **about))
        return record

    def _call(self, step: Step, result: Step | None) -> JsonObject:
        losses = self._session.losses
        tool, arguments = tool_name(step, losses), arguments_object(step.arguments)
        more = Particulars(tool=tool, id=step.id, document=arguments)
        if not self._target.holds_results or result is None:
            return self._of_step(step, step.kind, "", more)
        text = self._returned(result)
        told = {"output": "", "error": text} if result.failed else {"output": text, "error": ""}
        more = structs.replace(more, failed=result.failed)
        return self._of_step(step, step.kind, "", more, result=text, **told)

    def _result(self, step: Step) -> JsonObject | None:
        if step.kind not in self._target.templates:
            self._session.losses.add("the result of a call", step.number)
            return None
        text = self._returned(step)
        more = Particulars(tool=tool_name(step, self._session.losses), id=step.id, failed=step.failed)
        return self._of_step(step, step.kind, text, more)

    def _returned(self, step: Step) -> str:
        if step.failed and not self._target.says_failure:
            self._session.losses.add("that a call failed, but for what its result says", step.number)
        return said(step, self._session.losses)

    def _joined(self, records: Iterable[JsonObject | None], joins: Sequence[ValuePath]) -> Iterator[JsonObject]:
        """Yield records; those that follow each other are one if both hold something at one of the places ``joins``."""
        held: JsonObject | None = None
        for record in filter(None, records):
            if held is not None and all(any(value_at(one, at) is not None for at in joins) for one in (held, record)):
                self._add(held, record)
                continue
            if held is not None:
                yield held
            held = self._last = record
        if held is not None:
            yield held

    def _add(self, record: JsonObject, other: JsonObject) -> None:
        """Add to a record what another one holds at the places where they add up."""
        # two of them may lie in an object that the record has not: that comes along once, as a whole
        found: dict[tuple[int, str], tuple[JsonObject, object]] = {}
        for place in self._target.joins:
            into, more = record, other
            for key in map(str, place):
                held, added = into.get(key), more.get(key)
                if not (is_object(held) and is_object(added)):
                    found[id(into), key] = into, added
                    break
                into, more = held, added
        for (_into, key), (into, added) in found.items():
            held = into.get(key)
            if not added:
                continue
            if not held:
                into[key] = added
            elif isinstance(held, list) and isinstance(added, list):
                held += added
            elif isinstance(held, str) and isinstance(added, str):
                into[key] = f"{held}\n\n{added}"
            else:
                raise UsageError(f"the description of {self._target.name} joins a list and a text: {key}")


def _exchanges(steps: Iterable[Step]) -> Iterator[tuple[list[Step], dict[str, Step]]]:
    """Yield all that a model says in one go with the results of its calls, by their ids, and each other step alone."""
    told: list[Step] = []
    results: dict[str, Step] = {}
    for step in steps:
        if step.kind is Kind.TOOL_RESULT:
            results[step.id] = step
            continue
        if step.kind not in _SAID:
            # a note between a call and its result ends nothing
            yield [step], {}
            continue
        if told and (results or step.kind not in OF_THE_MODEL or told[-1].kind not in OF_THE_MODEL):
            yield told, results
            told, results = [], {}
        told.append(step)
    if told:
        yield told, results
