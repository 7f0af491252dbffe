"""The lens of a described format: what the views of its description make of a record."""

import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from store.errors import UsageError
from store.events.event import Block, Kind, ValuePath
from store.events.usage import Tokens, Usage
from store.formats.core.blocks import argument_blocks, document_blocks, numbered
from store.formats.core.chat_messages import (
    ROLES,
    arguments,
    attach,
    gather,
    gather_message,
    kind_of,
    part,
    room,
    shown,
)
from store.formats.core.composing import Particulars
from store.formats.core.editing import JsonLens, Twins, as_spelled
from store.formats.core.json_view import JsonObject, as_list, as_object, as_text, is_object, object_in, value_at
from store.formats.core.lens import BOOKKEEPING, Before, CallLink, FieldPlace, Gathered, Shown, Value
from store.formats.core.media import as_data_url, from_base64
from store.formats.core.removal import links_of_message
from store.formats.core.times import in_iso, milliseconds, of_seconds
from store.formats.core.token_counts import count, counted, dollars
from store.formats.core.twins import copies
from store.formats.declared.description import KINDS, Call, Description, Fits, Image, Result, Spent, View, place, places

_SPEAKERS = ROLES | dict.fromkeys(("agent", "bot", "chatgpt", "gpt"), Kind.ASSISTANT)
_KEY = "*"
_FAILED = frozenset(("cancelled", "canceled", "error", "errored", "failed", "failure", "rejected", "rejected-by-user"))
"""The statuses of calls that brought nothing, in the words of several tools."""
_FIRST_MILLISECONDS = 100_000_000_000
"""A number from here up is a time in milliseconds: in seconds it would be after the year 5000."""


def time_of(stamp: object) -> int:
    """Return a time in Unix milliseconds: told in ISO 8601, in seconds or in milliseconds; 0 if it is none."""
    if isinstance(stamp, (int, float)) and not isinstance(stamp, bool):
        return int(stamp) if stamp >= _FIRST_MILLISECONDS else of_seconds(stamp)
    return milliseconds(stamp)


def _respelled(present: object) -> Callable[[Value], Value]:
    """Return how a time is written where ``present`` stands now."""
    if isinstance(present, (int, float)) and not isinstance(present, bool):
        scale = 1 if present >= _FIRST_MILLISECONDS else 1000
        whole = isinstance(present, int)

        def number(value: Value) -> Value:
            ms = milliseconds(value)
            return ms // scale if whole else ms / scale

        return number
    return lambda value: as_spelled(value, as_text(present))


class _View:
    """A view with its places as paths."""

    def __init__(self, said: View) -> None:
        self.fits = Fits(said.when)
        self.kind = KINDS.get(said.kind)
        self.role = place(said.role) if said.role else None
        self.message = None if said.message == "" else place(said.message.removeprefix("."))
        self.contents = places(said.content)
        self.lists = places(said.each)
        self.parts = _Views(said.parts)
        self.spent = said.usage
        self.new = said.new
        self.same = places(said.same)
        self.thinks = bool(said.reasoning)
        self._thoughts = places(said.reasoning)
        self._texts = [(path, "") for path in places(said.text)]
        self._texts += [(place(where), name) for name, where in said.named.items()]
        self._values = places(said.json)
        self._fields = [(name, place(where)) for name, where in said.fields.items()]
        self.image, self.call, self.result = said.image, said.call, said.result

    def add(self, value: object, path: ValuePath, into: Gathered) -> Kind | None:
        """Add what ``value``, which stands at ``path``, shows; return its kind where it says one."""
        kind = self.kind
        if self.role is not None:
            kind = kind or _SPEAKERS.get(as_text(value_at(value, self.role)).lower())
        if self.result is not None:
            _add_result(self.result, value, path, into)
        for at in self._thoughts:
            _add_texts(value_at(value, at), (*path, *at), "thinking", into)
        # the results of a call stand beside those of others
        label = f"call{into.calls + 1}." if self.call is not None and into.calls else ""
        for at, name in self._texts:
            _add_texts(value_at(value, at), (*path, *at), label + name if name else "", into)
        for at in self.contents:
            gather(value_at(value, at), (*path, *at), "", into)
        if self.message is not None and is_object(message := value_at(value, self.message)):
            told = gather_message(message, (*path, *self.message), into)
            kind = kind if kind is not None else told
        for at in self._values:
            if (held := value_at(value, at)) not in (None, "", [], {}):
                name = label + str(at[-1]) if at else "content"
                # two parts of one record may hold the same member
                name = name if self.call is not None else numbered(name, path)
                into.blocks += argument_blocks(held, (*path, *at), name)
        if self.image is not None:
            _add_image(self.image, value, path, into)
        for at in self.lists:
            listed = value_at(value, at)
            if isinstance(listed, str):
                # a single text needs no list for many tools
                into.text(listed, (*path, *at))
            for number, element in _elements(listed):
                where = (*path, *at, number)
                fitting = self.parts.of(element)
                if fitting is not None:
                    fitting.add(element, where, into)
                elif element not in (None, "", [], {}):
                    into.blocks += argument_blocks(element, where, numbered("content", where))
        if self.call is not None:
            _add_call(self.call, value, path, into)
        for name, at in self._fields:
            if value_at(value, at) is not None:
                into.field(name, value_at(value, at), *path, *at)
        return kind

    def links(self, value: object) -> Iterator[CallLink]:
        """Yield the calls and results in a record."""
        yield from _links(self, value, (), 0)
        for at in self.lists:
            # what stands in an object is no list to take elements from
            for number, element in enumerate(as_list(value_at(value, at))):
                fitting = self.parts.of(element)
                if fitting is not None:
                    yield from _links(fitting, element, at, number)
        if self.message is not None:
            for link in links_of_message(as_object(value_at(value, self.message))):
                yield link._replace(path=(*self.message, *link.path) if link.path else ())
        for at in self.contents:
            for link in links_of_message({"content": value_at(value, at)}):
                yield link._replace(path=at)


def _elements(listed: object) -> Iterator[tuple[str | int, object]]:
    """Yield the elements of a list, or the members of an object, with their positions or keys."""
    yield from listed.items() if is_object(listed) else enumerate(as_list(listed))


class _Views:
    """Views, of which the first that fits a value shows it."""

    def __init__(self, said: Sequence[View]) -> None:
        self.all = [_View(one) for one in said]
        asked = [found for view in self.all for found in view.fits.words]
        # what most of them ask for tells at once which may fit: in many formats, the type of the record
        (self._telling, _times), *_ = Counter(path for path, _words in asked).most_common(1) or [((), 0)]
        words = {word for path, some in asked if path == self._telling for word in some}
        self._by_word = {word: [one for one in self.all if one.fits.may_hold(self._telling, word)] for word in words}

    def of(self, value: object) -> _View | None:
        """Return the view of a value, None where none fits."""
        word = value_at(value, self._telling)
        for view in self._by_word.get(word, self.all) if isinstance(word, str) else self.all:
            if view.fits(value):
                return view
        return None


def _links(view: _View, value: object, path: ValuePath, at: int) -> Iterator[CallLink]:
    if view.call is not None and (call := as_text(value_at(value, place(view.call.id)))):
        yield CallLink(path, at, call, True)
    if view.result is not None and (call := as_text(value_at(value, place(view.result.id)))):
        yield CallLink(path, at, call, False)


def _add_texts(value: object, path: ValuePath, name: str, into: Gathered) -> None:
    """Add a text, or a list of them; anything else is shown as JSON."""
    if isinstance(value, str):
        into.text(value, path, name)
    elif isinstance(value, list) and all(isinstance(one, str) for one in value):
        for at, one in enumerate(value):
            into.text(as_text(one), (*path, at), name)
    elif value is not None:
        into.blocks += argument_blocks(value, path, name or "content")


def _add_call(call: Call, value: object, path: ValuePath, into: Gathered) -> None:
    name, identifier = place(call.name), place(call.id)
    keyed = call.name == _KEY
    tool = str(path[-1]) if keyed and path else value_at(value, name)
    label = into.call({"name": tool, "id": value_at(value, identifier)}, (), "name", "id")
    number = f"_{into.calls}" if into.calls > 1 else ""
    if keyed:
        into.places.pop(f"tool{number}", None)
    else:
        into.places[f"tool{number}"] = (*path, *name)
    if f"id{number}" in into.places:
        into.places[f"id{number}"] = (*path, *identifier)
    if call.arguments and (given := value_at(value, place(call.arguments))) is not None:
        arguments(given, (*path, *place(call.arguments)), label, into)


def _add_result(result: Result, value: object, path: ValuePath, into: Gathered) -> None:
    identifier = place(result.id)
    label = into.result({"id": value_at(value, identifier)}, (), "id")
    number = f"_{into.results}" if into.results > 1 else ""
    if f"id{number}" in into.places:
        into.places[f"id{number}"] = (*path, *identifier)
    if result.failed or result.worked:
        told = place(result.failed or result.worked)
        found = value_at(value, told)
        if isinstance(found, str):
            into.header[f"is_error{number}"] = found.lower() in _FAILED
        else:
            into.header[f"is_error{number}"] = found is True if result.failed else found is False
            write = (lambda said: said) if result.failed else (lambda said: not said)
            into.places[f"is_error{number}"] = FieldPlace((*path, *told), write=write)
    if result.tool and (tool := as_text(value_at(value, place(result.tool)))):
        into.tool = into.tool or tool
    for at in places(result.content):
        content = value_at(value, at)
        if isinstance(content, str):
            into.blocks += document_blocks(content, (*path, *at), label) if label else ()
            if not label:
                into.text(content, (*path, *at))
        else:
            gather(content, (*path, *at), label, into)


def _add_image(image: Image, value: object, path: ValuePath, into: Gathered) -> None:
    at = place(image.data)
    said = as_text(value_at(value, at))
    if (held := as_data_url(said)) is not None:
        attach(held.data, held.mime, (*path, *at), "image", "", into, encoded=False)
    elif said and (data := from_base64(said)):
        mime = as_text(value_at(value, place(image.mime))) if image.mime else ""
        attach(data, mime or "image/png", (*path, *at), "image", "", into)


def _tokens(spent: Spent, record: JsonObject) -> Tokens:
    if spent.at:
        return counted(as_object(value_at(record, place(spent.at))))

    def of(spelled: str) -> int:
        return count({"it": value_at(record, place(spelled))}, "it") if spelled else 0

    return Tokens(
        of(spent.input), of(spent.output), of(spent.cache_read), of(spent.cache_write), reasoning=of(spent.reasoning)
    )


def _last_key(spelled: str) -> bytes:
    return b'"%b"' % spelled.rpartition(".")[2].encode()


class DeclaredLens(JsonLens):
    """Sees the records of a described format."""

    def __init__(self, said: Description) -> None:
        self.type_name = f"{said.name}.record.v1"
        self.one_line = said.container == "lines"
        self.writes = tuple(KINDS[word] for word in said.new)  # type: ignore[misc]  # a lens of its own for each page
        self.key, self.follows = said.record.id, said.record.after
        self._times = places(said.record.time) if said.record.time else ()
        self._agent = place(said.record.agent)
        self._new = {KINDS[word]: template for word, template in said.new.items()}
        self._views = _Views(said.records)
        spent = [view.spent for view in self._views.all if view.spent is not None]
        self.telling = tuple({_last_key(one.at or one.output or one.input) for one in spent})

    def time_ms(self, record: JsonObject) -> int:
        return next(filter(None, (time_of(value_at(record, at)) for at in self._times)), 0)

    def shown(self, record: JsonObject, before: Before) -> Shown:
        """View a record as the first view that fits it says; one that none fits is a note that shows it as JSON."""
        view = self._views.of(record)
        into = Gathered()
        if view is None:
            into.blocks += argument_blocks(record, (), "record")
            return into.shown_if_any(Kind.NOTE)
        if view.kind is Kind.RECORD:
            return BOOKKEEPING
        kind = view.add(record, (), into)
        if self._agent and (agent := as_text(value_at(record, self._agent))):
            into.header = {"sidechain": True, "agent": agent, **into.header}
        return shown(kind_of(kind if kind is not None else Kind.NOTE, into), into, before)

    def shown_other(self, value: object, before: Before) -> Shown | None:
        """View a text of its own, which is a system prompt, and other values as notes."""
        into = Gathered()
        if isinstance(value, str):
            into.text(value, ())
            return into.shown_if_any(Kind.SYSTEM)
        gather(value, (), "", into)
        return into.shown_if_any(Kind.NOTE)

    def used(self, record: JsonObject) -> Usage | None:
        view = self._views.of(record)
        if view is None or (spent := view.spent) is None:
            return None
        tokens = _tokens(spent, record)
        answer = as_text(value_at(record, place(spent.id))) if spent.id else ""
        model = as_text(value_at(record, place(spent.model))) if spent.model else ""
        cost = dollars(value_at(record, place(spent.cost))) if spent.cost else None
        return Usage(answer, model, tokens, cost) if tokens.total else None

    def place(self, record: JsonObject, key: str) -> FieldPlace | None:
        if key != "timestamp":
            return super().place(record, key)
        if not self._times:
            return None
        at = next((at for at in self._times if value_at(record, at) is not None), self._times[0])
        return FieldPlace(at, write=_respelled(value_at(record, at)))

    def calls(self, record: JsonObject) -> Iterator[CallLink]:
        view = self._views.of(record)
        return view.links(record) if view is not None else iter(())

    def twins(self, record: JsonObject, path: ValuePath, old: str, new: str) -> Twins:
        view = self._views.of(record)
        for at in view.same if view is not None else ():
            yield from copies(as_text(value_at(record, at)), at, old, new, 0) if at != path else ()

    def part(self, record: JsonObject, path: ValuePath, name: str, text: str) -> object | None:
        view = self._views.of(record)
        if view is None:
            return None
        if view.message is not None and path[: len(view.message)] == view.message:
            return part(as_object(value_at(record, view.message)), path[len(view.message) :], name, text)
        if path in view.contents:
            return part(record, path, name, text)
        if path in view.lists:
            for one in view.parts.all:
                if one.new and one.thinks == (name == "thinking"):
                    return _filled(one.new, {"text": text}, {})
        return None

    def room(self, record: JsonObject) -> ValuePath | None:
        view = self._views.of(record)
        if view is None or view.message is None:
            return None
        found = room(as_object(value_at(record, view.message)))
        return (*view.message, *found) if found is not None else None

    def new(self, kind: Kind, text: str, previous: bytes | None, now_ms: int, more: Particulars) -> bytes:
        values: dict[str, object] = {
            "text": text,
            "tool": more.tool,
            "failed": more.failed,
            "worked": not more.failed,
            "time": in_iso(now_ms),
            "ms": now_ms,
            "seconds": now_ms // 1000,
            "session": more.session,
        }
        template = self._new[kind]
        asked = _asked(template)
        if "id" in asked:
            values["id"] = more.new_id("call_") if kind is Kind.TOOL_CALL else more.id
        if kind is Kind.TOOL_CALL:
            given = more.arguments(text)
            values |= {"arguments": given, "arguments_json": json.dumps(given, ensure_ascii=False)}
        if kind is Kind.CONFIG:
            values["configuration"] = more.configuration(text)
        if unknown := {name for name in asked if not name.startswith("last.")} - values.keys() - {"uuid"}:
            raise UsageError(f"the description of this format asks for ${min(unknown)}, which such an event has not")
        said = _filled(template, values, object_in(previous))
        return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()


def _asked(template: object) -> set[str]:
    """Return the names of what a template asks for."""
    if isinstance(template, str):
        return {template[1:]} if template.startswith("$") else set()
    if isinstance(template, dict):
        return set().union(*map(_asked, template.values()))
    return set().union(*map(_asked, template)) if isinstance(template, list) else set()


def _filled(template: object, values: Mapping[str, object], last: JsonObject) -> object:
    """Return a template with what it asks for."""
    if isinstance(template, str) and template.startswith("$"):
        name = template[1:]
        if name == "uuid":
            return str(uuid.uuid4())
        return value_at(last, place(name.removeprefix("last."))) if name.startswith("last.") else values[name]
    if isinstance(template, dict):
        return {key: _filled(item, values, last) for key, item in template.items()}
    return [_filled(item, values, last) for item in template] if isinstance(template, list) else template


def titles_in(blocks: Sequence[Block]) -> str:
    """Return the first text among blocks that is no thought."""
    return next((block.text for block in blocks if block.text and block.name != "thinking"), "")
