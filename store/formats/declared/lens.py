"""The lens of a described format: what the views of its description make of a record."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar, Literal

from msgspec import structs

from store.events.event import Block, Kind, Resource, ValuePath
from store.events.usage import MOST, MOST_DOLLARS, Tokens, Usage, combined
from store.formats.core.blocks import argument_blocks, document_blocks, numbered
from store.formats.core.chat_messages import (
    MEMBERS,
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
from store.formats.core.composing import Particulars, filled, recorded
from store.formats.core.documents import new_record
from store.formats.core.editing import OTHER, JsonLens, Twins
from store.formats.core.json_view import (
    SEVERAL,
    JsonObject,
    as_list,
    as_object,
    as_text,
    every,
    first_texts,
    has_sentence,
    is_object,
    object_in,
    place,
    sentence_in,
    value_at,
)
from store.formats.core.lens import BOOKKEEPING, Before, CallLink, FieldPlace, Gathered, Shown, Value, nth
from store.formats.core.media import as_data_url, from_base64
from store.formats.core.removal import links_of_message
from store.formats.core.token_counts import amount, counted
from store.formats.core.twins import copies
from store.formats.declared.description import (
    KINDS,
    Call,
    Description,
    Fits,
    Image,
    Read,
    Result,
    Spent,
    Test,
    View,
    listed,
    places,
    reader,
)

_SPEAKERS = {
    **ROLES,
    **dict.fromkeys(("agent", "bot", "chatgpt", "gpt"), Kind.ASSISTANT),
    "environment": Kind.SYSTEM,
    "summary": Kind.SUMMARY,
}
_KEY = "*"
_FAILED = frozenset(("cancelled", "canceled", "error", "errored", "failed", "failure", "rejected", "rejected-by-user"))
"""The statuses of calls that brought nothing, in the words of several tools."""


Adder = Callable[[object, ValuePath, Gathered], Kind | None]
"""Adds what a value, which stands at a path, shows; returns its kind where it says one."""


class _View:
    """A view, made into what it adds once for all records."""

    def __init__(self, said: View) -> None:
        self.when = Fits(said.when)
        self.fits = self.when.holds
        self.kind = KINDS.get(said.kind)
        self.message = place(said.message) if said.message else None
        self.contents = places(said.content)
        self.lists = places(said.each)
        self.parts = _Views(said.parts)
        self.spent = said.usage
        self.new = said.new
        self.same = places(said.same)
        self.thinks = bool(said.reasoning)
        self.call, self.result = said.call, said.result
        self._then = [_View(one) for one in said.then]
        self._adders = [*self._adders_of(said), *map(_further, self._then)]
        self._otherwise = _View(said.otherwise) if said.otherwise is not None else None

    def _adders_of(self, said: View) -> Iterator[Adder]:
        if said.role:
            yield _role(reader(place(said.role)))
        if said.result is not None:
            yield _result(said.result)
        is_call = said.call is not None
        yield from (_texts(at, "thinking") for at in places(said.reasoning))
        yield from (_texts(at, "") for at in places(said.text))
        yield from (_texts(place(at), name, said.without, is_call=is_call) for name, at in said.named.items())
        yield from map(_contents, self.contents)
        if self.message is not None:
            yield _message(self.message)
        yield from (_values(at, said.without, is_call=is_call) for at in places(said.json))
        if said.image is not None:
            yield _image(said.image)
        yield from (_listed(at, self.parts) for at in self.lists)
        if said.call is not None:
            yield _call(said.call, said.without)
        if said.head:
            yield _head(said.head)
        yield from (_field(name, place(where)) for name, where in said.fields.items())

    def add(self, value: object, path: ValuePath, into: Gathered) -> Kind | None:
        """Add what ``value``, which stands at ``path``, shows; return its kind where it says one."""
        kind, before = self.kind, len(into.blocks)
        for adder in self._adders:
            told = adder(value, path, into)
            if kind is None:
                kind = told
        if self._otherwise is not None and len(into.blocks) == before:
            self._otherwise.add(value, path, into)
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
        for one in self._then:
            if one.fits(value):
                yield from one.links(value)
        if self.message is not None:
            yield from links_of_message(as_object(value_at(value, self.message)), self.message)
        for at in self.contents:
            for link in links_of_message({"content": value_at(value, at)}):
                yield link._replace(path=at)


class _Known:
    """The members that a page knows of a value, by the places that lead to them; of their own ones only if ``deep``."""

    def __init__(self, paths: Iterable[ValuePath], *, deep: bool) -> None:
        self.names: set[object] = set()
        further: dict[str, list[ValuePath]] = {}
        whole: set[str] = set()
        for path in paths:
            first, others = path[0], path[1:]
            key = str(first).removesuffix("[]").removesuffix("{}")
            self.names.add(key)
            further.setdefault(key, []).append(others)
            if not others or key != first:
                whole.add(key)
        self._within = [(one, _Known(some, deep=deep)) for one, some in further.items() if deep and one not in whole]

    def add_others(self, value: object, path: ValuePath, into: Gathered) -> None:
        """Add the members of a value that are not known, if a sentence in them is not shown yet."""
        if not is_object(value):
            return
        if not value.keys() <= self.names:
            for key, held in value.items():
                # most are ids and numbers
                if key in self.names or not (" " in held if isinstance(held, str) else isinstance(held, (dict, list))):
                    continue
                if any(sentence_in(text) and not _is_shown(text, into) for text in first_texts(held)):
                    into.blocks += argument_blocks(held, (*path, key), numbered(f"{OTHER}{key}", (*path, key)))
        for key, within in self._within:
            if key in value:
                within.add_others(value[key], (*path, key), into)


def _structure(said: Description) -> Iterator[str]:
    """Yield the places in which the lines of a database say what they are made of, and how messages follow another."""
    if said.database is not None:
        yield from ("table", "key", "begins", "about")
    for kept in said.database if isinstance(said.database, list) else [said.database]:
        if kept is not None and kept.follows:
            yield from (f"json.{kept.document}.{member}" for member in ("id", kept.follows, kept.followed))


def _is_shown(text: str, into: Gathered) -> bool:
    return any(text in block.text for block in into.blocks if block.text)


def _places_in(view: View) -> Iterator[str]:
    """Yield the places that a view names."""
    for condition in view.when if isinstance(view.when, list) else [view.when]:
        yield from condition
    for several in (view.role, view.text, view.reasoning, view.content, view.json, view.same, view.each):
        yield from listed(several)
    yield from (*view.named.values(), *view.fields.values(), *view.without)
    if view.message:
        # in a message, other members are known than around it
        yield from (f"{view.message}.{member}" if view.message != "." else member for member in MEMBERS)
    for held in (view.image, view.call, view.result, view.usage):
        told = structs.asdict(held) if held is not None else {}
        told.pop("label", None)
        yield from (one for where in told.values() if isinstance(where, (str, list)) for one in listed(where))
    for further in (*view.then, *([view.otherwise] if view.otherwise else [])):
        yield from _places_in(further)


class _Views:
    """Views, of which the first that fits a value shows it."""

    def __init__(self, said: Sequence[View]) -> None:
        self.all = [_View(one) for one in said]
        named = [place(where) for one in said for where in _places_in(one)]
        # where a view is of all of a value, nothing in that is unknown
        self.known = _Known(named, deep=False) if all(named) else None
        asked = [found for view in self.all for found in view.when.words]
        # what most of them ask for tells at once which may fit: in many formats, the type of the record
        (telling, _times), *_ = Counter(path for path, _words in asked).most_common(1) or [((), 0)]
        words = {word for path, some in asked if path == telling for word in some}
        self._telling = reader(telling)
        self._every = [(one, one.fits) for one in self.all]
        self._by_word: dict[str | None, list[tuple[_View, Test]]] = {
            word: [(one, left) for one in self.all if (left := one.when.given(telling, word)) is not None]
            for word in (*words, None)
        }

    def of(self, value: object) -> _View | None:
        """Return the view of a value, None where none fits."""
        word = self._telling(value)
        told = self._by_word.get(word, self._every) if word is None or isinstance(word, str) else self._every
        for view, fits in told:
            if fits(value):
                return view
        return None


def _links(view: _View, value: object, path: ValuePath, at: int) -> Iterator[CallLink]:
    if view.call is not None and (call := as_text(value_at(value, place(view.call.id)))):
        yield CallLink(path, at, call, True)
    if view.result is not None and (call := as_text(value_at(value, place(view.result.id)))):
        yield CallLink(path, at, call, False)


def _role(read: Read) -> Adder:
    return lambda value, path, into: _SPEAKERS.get(as_text(read(value)).lower())


def _beside_others(name: str, into: Gathered, *, is_call: bool) -> str:
    """Return a name for what a call brought, which stands beside what others did."""
    return f"call{into.calls + 1}.{name}" if is_call and into.calls else name


def _texts(at: ValuePath, name: str, without: Sequence[str] = (), *, is_call: bool = False) -> Adder:
    """Return the adder of a text, or a list of them; anything else is shown as JSON."""
    read = reader(at)

    def add(value: object, path: ValuePath, into: Gathered) -> None:
        found, own = read(value), _beside_others(name, into, is_call=is_call)
        if isinstance(found, str):
            into.text(found, path + at, own)
        elif isinstance(found, list) and all(isinstance(one, str) for one in found):
            for number, one in enumerate(found):
                into.text(one, (*path, *at, number), own)
        elif found is not None:
            into.blocks += argument_blocks(_without(found, without), path + at, own or "content")

    return add


def _contents(at: ValuePath) -> Adder:
    read = reader(at)
    return lambda value, path, into: gather(read(value), path + at, "", into)


def _message(at: ValuePath) -> Adder:
    read = reader(at)

    def add(value: object, path: ValuePath, into: Gathered) -> Kind | None:
        return gather_message(found, path + at, into) if is_object(found := read(value)) else None

    return add


def _without(found: object, names: Sequence[str]) -> object:
    """Return a value without some of its members."""
    return {key: one for key, one in found.items() if key not in names} if names and is_object(found) else found


def _values(at: ValuePath, without: Sequence[str], *, is_call: bool) -> Adder:
    read, name = reader(at), str(at[-1]) if at else "content"

    def add(value: object, path: ValuePath, into: Gathered) -> None:
        if (found := _without(read(value), without)) not in (None, "", [], {}):
            # two parts of one record may hold the same member
            own = _beside_others(name, into, is_call=True) if is_call else numbered(name, path)
            into.blocks += argument_blocks(found, path + at, own)

    return add


def _listed(at: ValuePath, parts: _Views) -> Adder:
    read = reader(at)

    def add(value: object, path: ValuePath, into: Gathered) -> None:
        found = read(value)
        if isinstance(found, str):
            # a single text needs no list for many tools
            into.text(found, path + at)
        for number, element in found.items() if is_object(found) else enumerate(as_list(found)):
            where = (*path, *at, number)
            if (fitting := parts.of(element)) is not None:
                fitting.add(element, where, into)
                if into.blocks and parts.known is not None:
                    parts.known.add_others(element, where, into)
            elif element not in (None, "", [], {}):
                into.blocks += argument_blocks(element, where, numbered("content", where))

    return add


def _further(view: _View) -> Adder:
    def add(value: object, path: ValuePath, into: Gathered) -> None:
        if view.fits(value):
            view.add(value, path, into)

    return add


def _field(name: str, at: ValuePath) -> Adder:
    read = reader(at)

    def add(value: object, path: ValuePath, into: Gathered) -> None:
        if (found := read(value)) is not None:
            into.field(name, found, *path, *at)

    return add


def _head(said: Mapping[str, Value]) -> Adder:
    return lambda _value, _path, into: into.header.update(said)


def _call(said: Call, without: Sequence[str]) -> Adder:
    names, identifier, given = places(said.name), place(said.id), place(said.arguments)
    read_id, read_given = map(reader, (identifier, given))
    is_keyed = said.name == _KEY

    def add(value: object, path: ValuePath, into: Gathered) -> None:
        name = next((at for at in names if value_at(value, at)), names[0])
        tool = str(path[-1]) if is_keyed and path else value_at(value, name)
        label = into.call({"name": tool, "id": read_id(value)}, (), "name", "id")
        tool_key, id_key = nth("tool", into.calls), nth("id", into.calls)
        into.places[tool_key] = path + name
        if is_keyed:
            del into.places[tool_key]
        if id_key in into.places:
            into.places[id_key] = path + identifier
        if given and (found := _without(read_given(value), without)) is not None:
            arguments(found, path + given, label, into)

    return add


def _result(said: Result) -> Adder:
    identifier, told, contents = place(said.id), place(said.failed or said.worked), places(said.content)
    read_id, read_told, read_tool = map(reader, (identifier, told, place(said.tool)))
    reads = [(at, None if any(str(step).endswith(SEVERAL) for step in at) else reader(at)) for at in contents]
    is_failing, is_keyed = bool(said.failed), said.id == _KEY

    def write_flag(value: Value) -> Value:
        return value is is_failing if isinstance(value, bool) else value

    def add(value: object, path: ValuePath, into: Gathered) -> None:
        call = str(path[-1]) if is_keyed and path else as_text(read_id(value))
        if of := _call_named(call, into):
            # beside its call, it is named as what that brought
            label = "output" if of == 1 else f"call{of}.output"
        else:
            # the ids beside calls are theirs
            label = into.result({"id": "" if into.calls else call}, (), "id")
            of = into.results
        id_key, failed_key = nth("id", of), nth("is_error", of)
        if not into.calls and into.places.pop(id_key, None) is not None and not is_keyed:
            into.places[id_key] = path + identifier
        if told:
            found = read_told(value)
            is_status = isinstance(found, str)
            into.header[failed_key] = as_text(found).lower() in _FAILED if is_status else found is is_failing
            if not is_status:
                into.places[failed_key] = FieldPlace(path + told, write=write_flag)
        if said.tool and (tool := as_text(read_tool(value))):
            into.tool = into.tool or tool
        for at, read in reads:
            for where, content in every(value, at) if read is None else ((at, read(value)),):
                if not isinstance(content, str):
                    gather(content, path + where, label, into)
                elif label:
                    into.blocks += document_blocks(content, path + where, label)
                else:
                    into.text(content, path + where)

    return add


def _call_named(call: str, into: Gathered) -> int:
    """Return the number of the call of a record that has an id, 0 if it has none."""
    ids = (into.header.get(nth("id", number)) for number in range(1, into.calls + 1))
    return next((number for number, one in enumerate(ids, 1) if call and one == call), 0)


def _image(said: Image) -> Adder:
    at = place(said.data)
    read, read_mime, read_name, read_id = map(reader, (at, *map(place, (said.mime, said.name, said.id))))

    def add(value: object, path: ValuePath, into: Gathered) -> None:
        found, mime = as_text(read(value)), as_text(read_mime(value))
        url = as_data_url(found)
        data = url.data if url is not None else from_base64(found) if found else None
        mime = mime or (url.mime if url is not None else "image/png")
        encoding: Literal["json", "base64"] = "json" if url is not None else "base64"
        if not said.name:
            if data is not None:
                attach(data, url.mime if url is not None else mime, path + at, "image", "", into, encoded=url is None)
        elif data is None:
            into.text(found, path + at, said.label or "file")
        else:
            uri = f"attachment:{as_text(read_id(value)) or 'part'}/{as_text(read_name(value)) or 'file'}"
            into.attach(data, uri, mime, path + at, name=said.label, encoding=encoding)

    return add


def usage_of(spent: Spent, values: Callable[[str], Iterable[object]], answer: str = "") -> Usage | None:
    """Return the usage that is told of, where several values stand at a place their sum; None: there is none."""

    def summed(spelled: str | list[str], most: int = MOST) -> float | None:
        for where in listed(spelled):
            if numbers := [one for one in (amount(held, most) for held in values(where)) if one is not None]:
                return min(sum(numbers), most)
        return None

    told = (spent.input, spent.output, spent.cache_read, spent.cache_write, spent.reasoning)
    sent, output, read, written, reasoning = (int(summed(spelled) or 0) for spelled in told)
    sent = max(0, sent - read - written) if spent.within else sent
    tokens = Tokens(sent, output, read, written, reasoning=reasoning)
    held = ([counted(one) for one in values(where) if is_object(one)] for where in listed(spent.at))
    for one in next(filter(None, held), ()):
        tokens = combined(tokens, one)
    cost = summed(spent.cost, MOST_DOLLARS)
    credit = summed(spent.credits, MOST_DOLLARS)
    models = (as_text(one) for where in listed(spent.model) for one in values(where))
    model = next(filter(None, models), "")
    return Usage(answer, model, tokens, cost, credits=credit) if tokens.total or cost or credit else None


def _last_key(spelled: str) -> bytes:
    return b'"%b"' % spelled.rpartition(".")[2].encode()


class DeclaredLens(JsonLens):
    """Sees the records of a described format."""

    at: ClassVar[ValuePath] = ()
    time_key = ""

    def __init__(self, said: Description, type_name: str = "") -> None:
        self.type_name = type_name or f"{said.name}.record.v1"
        self.one_line = said.container != "document"
        if said.new:
            self.writes = tuple(KINDS[word] for word in said.new)  # type: ignore[misc]  # a lens of its own for each page
        self.key, self.follows = said.record.id, said.record.after
        self.times = places(said.record.time)
        self._agent = place(said.record.agent)
        self._whole = said.record.whole
        self._new = {KINDS[word]: template for word, template in said.new.items()}
        self._said = said
        spent = [view.usage for view in said.records if view.usage is not None]
        self.telling = tuple(
            {_last_key(where) for one in spent for where in listed(one.at or one.output or one.input or one.cost)}
        )

    @cached_property
    def _views(self) -> _Views:
        # most formats that are asked whether a file is theirs see nothing of it
        return _Views(self._said.records)

    @cached_property
    def _known(self) -> _Known:
        said = self._said
        told = structs.asdict(said.session).values()
        own = (one for where in told if isinstance(where, (str, list)) for one in listed(where) if "#" not in one)
        shared = (*listed(said.record.time), said.record.id, said.record.after, said.record.agent, *said.record.repeats)
        shown = (where for one in said.records for where in _places_in(one))
        return _Known(filter(None, map(place, (*shown, *own, *shared, *_structure(said)))), deep=True)

    def held(self, record: JsonObject) -> JsonObject:
        """Return the part of a record, which stands at ``at``, that the views are of."""
        return record

    def shown(self, record: JsonObject, before: Before) -> Shown:
        """View a record as the first view that fits it says; one that none fits is a note that shows it as JSON."""
        said = self.held(record)
        view = self._views.of(said)
        into = Gathered()
        if view is None:
            into.blocks += argument_blocks(record, (), "record")
            return into.shown_if_any(Kind.NOTE)
        if view.kind is Kind.RECORD:
            return BOOKKEEPING
        kind = view.add(said, self.at, into)
        if into.blocks:
            self._known.add_others(said, self.at, into)
        if not (into.blocks or into.calls) and (self._whole or (not into.results and has_sentence(said))):
            # a later version of the tool may have written it
            into.blocks += argument_blocks(record, (), "record")
            kind = kind if self._whole else Kind.NOTE
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
        answer = value_at(record, place(spent.id)) if spent.id else None
        name = str(answer) if isinstance(answer, (str, int)) else ""
        return usage_of(spent, lambda where: (one for _at, one in every(record, place(where))), name)

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
                    return filled(one.new, {"text": text})
        return None

    def room(self, record: JsonObject) -> ValuePath | None:
        view = self._views.of(record)
        if view is None or view.message is None:
            return None
        found = room(as_object(value_at(record, view.message)))
        return (*view.message, *found) if found is not None else None

    def new(self, kind: Kind, text: str, previous: bytes | None, now_ms: int, more: Particulars) -> bytes:
        said = self.made(kind, text, now_ms, more, last=object_in(previous))
        if not self.one_line:
            return new_record(said, previous)
        return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()

    def made(self, kind: Kind, text: str, now_ms: int, more: Particulars, **other: object) -> JsonObject:
        """Return the record that an event becomes, by its template; ``other`` are further values for that."""
        return recorded(self._new[kind], kind, text, now_ms, more, **other)


def with_files(shown: Shown, file_of: Callable[[Block, int], Block | None]) -> Shown:
    """Return what is shown with files for texts that stand for them; ``file_of`` returns the one of a block, if any.

    It is told the number of the next file, from 1 on.
    """
    blocks, resources = list(shown.blocks), list(shown.resources)
    for at, block in enumerate(blocks):
        if block.name and block.type == "text" and (file := file_of(block, len(resources) + 1)) is not None:
            blocks[at] = file
            content = file.data if file.data is not None else file.text or ""
            resources.append(Resource(file.uri, file.mime, content, file.path, file.encoding))
    if len(resources) == len(shown.resources):
        return shown
    return structs.replace(shown, blocks=tuple(blocks), resources=tuple(resources))


def titles_in(blocks: Sequence[Block]) -> str:
    """Return the first text among blocks that is no thought."""
    return next((block.text for block in blocks if block.text and block.name != "thinking"), "")
