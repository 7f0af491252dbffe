"""A call of the service, defined once: for clients, for the service, and for a command that works by itself.

A :class:`Call` is a row of a :class:`Table`: a number and a function. The function's parameters are the fields of the
request, its result is the answer. Over the socket both travel as JSON, within a process as they are.

A client needs only the types of a call. So the tables of the command's calls for conversations import these, and their
functions what they work with.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    AnyStr,
    Concatenate,
    Generic,
    Never,
    ParamSpec,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Struct, json, structs

from store.errors import UsageError
from store.service.wire import Buffer

if TYPE_CHECKING:
    from pathlib import Path
    from types import FunctionType

    from store.store import Store

P = ParamSpec("P")
T = TypeVar("T")
Item = TypeVar("Item")
Part = TypeVar("Part")
C = TypeVar("C", bound="Call[Any, Any, Any]")
Page = TypeVar("Page", bound="list[Any] | bytes | str")
Emit = Callable[[Item], None]
"""Takes an item of an answer."""

_SPELLED = {
    "context_id": "context",
    "conversation_id": "id",
    "digest": "hash",
    "format_name": "format",
    "turn_id": "turn",
}
"""Parameters whose fields have another name in a request."""
_BOUND = ("self", "holder", "emit")
"""Parameters that are no fields."""
_CHUNK = 64 << 10


class Holder(Struct, frozen=True):
    """The process that holds a store: a daemon, or a command that opened the store for itself.

    ``mountpoint`` is where this process mounts the store and ``socket`` where it answers, "" for nowhere; ``stop``
    has a daemon unmount and end, and returns at once; None where there is nothing to end.
    """

    store: Store
    mountpoint: str = ""
    socket: str = ""
    stop: Callable[[], None] | None = None

    def call(self, invocation: Invocation[Item, T], on_item: Emit[Item] | None = None) -> T:
        """Run a call in this process and return its result; each item goes to ``on_item``."""
        return invocation.call.here(self, invocation.params, on_item)

    def keep_out(self, paths: Iterable[Path]) -> None:
        """Raise UsageError for paths in the mount of this process, which would wait for itself, perhaps for ever."""
        for path in paths:
            if self.mountpoint and path.is_relative_to(self.mountpoint):
                raise UsageError(f"{path} lies in the mount of this very store: name a place outside {self.mountpoint}")


class Form(Struct, Generic[T], frozen=True):
    """The spelling of a type's values as a payload."""

    encode: Callable[[T], bytes]
    decode: Callable[[Buffer], T]


NOTHING: Form[None] = Form(lambda _nothing: b"{}", lambda _payload: None)


def form_of(kind: Any) -> Form[Any]:  # noqa: ANN401 - a union is no type
    """Return the form in which values of a type travel."""
    return NOTHING if kind is type(None) else Form(json.encode, json.Decoder(kind).decode)


class Ask(Struct, Generic[T], frozen=True):
    """A request: a frame's number, flags and payload, and ``read``, which takes the payloads that answer it.

    One that ``repeats`` may be sent again where nobody knows whether it was done.
    """

    number: int
    flags: int
    payload: bytes
    read: Callable[[Sequence[Buffer]], T]
    repeats: bool = True


class Invocation(Ask[T], Generic[Item, T], frozen=True, kw_only=True):
    """A call with its parameters: asked of a service, or of a :class:`Holder` in this process."""

    call: Call[Any, Item, T]
    params: Struct


class Call(Generic[P, Item, T]):
    """A row of a table. Called with parameters it returns its :class:`Invocation`."""

    def __init__(
        self,
        number: int,
        function: Callable[..., Any],
        bound: Callable[..., Any],
        *,
        form: Form[Any] | None = None,
        brief: bool = False,
        progress: bool = False,
        repeats: bool = True,
    ) -> None:
        """``bound`` is the function, given a holder and a receiver of items before its parameters.

        ``form`` is that of the result, or of the pages. A ``brief`` call waits for the disk at most, and not for long
        calls. Where ``progress`` is set, items only report progress, and any of them may be dropped.
        """
        self.number = number
        self.function = function
        self.brief = brief
        self.progress = progress
        self._bound = bound
        self._form = form
        self._repeats = repeats

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Invocation[Item, T]:
        params = self.params(*args, **kwargs)
        return Invocation(self.number, 0, json.encode(params), self.read, self._repeats, call=self, params=params)

    def loaded(self) -> Call[P, Item, T]:
        """Return itself, as :meth:`Late.loaded` does."""
        return self

    @functools.cached_property
    def params(self) -> type[Struct]:
        """The type of its requests."""
        # to load `inspect`, which says this of more than functions, takes a twentieth of a command that calls once
        function = cast("FunctionType", self.function)
        code = function.__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        behind = function.__defaults__ or ()
        defaults = dict(zip(names[code.co_argcount - len(behind) :], behind, strict=False))
        defaults |= function.__kwdefaults__ or {}
        fields = [
            (name, self._hints[name], defaults[name]) if name in defaults else (name, self._hints[name])
            for name in names
            if name not in _BOUND
        ]
        return msgspec.defstruct(function.__name__, fields, frozen=True, forbid_unknown_fields=True, rename=_SPELLED)

    @functools.cached_property
    def item(self) -> Form[Any]:
        """The form of its items."""
        emit = self._hints.get("emit")
        return NOTHING if emit is None else form_of(get_args(emit)[0][0])

    @functools.cached_property
    def result(self) -> Form[Any]:
        """The form of its result."""
        return self._form or form_of(self._hints["return"])

    def read(self, answers: Sequence[Buffer]) -> T:
        """Return the result that the payloads of the answer hold."""
        found: T = self.result.decode(answers[-1])
        return found

    def run(self, holder: Holder, params: Struct, emit: Emit[Any]) -> object:
        """Do it, and return the result. Raises a ConvfsError where it cannot be done."""
        return self._bound(holder, emit, **structs.asdict(params))

    def here(self, holder: Holder, params: Struct, on_item: Emit[Item] | None) -> T:
        """Do it, as :meth:`Holder.call` does."""
        found: Any = self.run(holder, params, on_item or (lambda _item: None))
        return cast("T", found)

    @functools.cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self.function)


class Pages(Call[P, Page, Page]):
    """A call whose answer comes in pages. Its result is all of them together, except those handed out."""

    @functools.cached_property
    def item(self) -> Form[Any]:
        """The form of its pages."""
        return self._form or form_of(self._kind)

    @functools.cached_property
    def result(self) -> Form[Any]:
        """The form of the result that ends the pages."""
        return NOTHING

    def read(self, answers: Sequence[Buffer]) -> Page:
        """Return the pages that answer it as one."""
        return self._joined(map(self.item.decode, answers[:-1]))

    def run(self, holder: Holder, params: Struct, emit: Emit[Any]) -> object:
        """Do it; each page is handed out."""
        for page in self._bound(holder, emit, **structs.asdict(params)):
            emit(page)
        return None

    def here(self, holder: Holder, params: Struct, on_item: Emit[Page] | None) -> Page:
        """Do it, as :meth:`Holder.call` does."""
        pages: list[Any] = []
        self.run(holder, params, on_item or pages.append)
        return self._joined(pages)

    @property
    def _kind(self) -> Any:  # noqa: ANN401 - a generic alias is no type
        return get_args(self._hints["return"])[0]

    def _joined(self, pages: Iterable[Any]) -> Page:
        if self._kind in (bytes, str):
            return cast("Page", self._kind().join(pages))
        return cast("Page", [one for page in pages for one in page])


AnyCall = Call[Any, Any, Any]


class Table(list[AnyCall]):
    """Calls of one subject. ``how`` is ``brief``, ``progress`` or ``repeats``, as of :class:`Call`."""

    def method(
        self,
        number: int,
        part: Callable[[Store], Part],
        method: Callable[Concatenate[Part, P], T],
        *,
        form: Form[Any] | None = None,
        **how: bool,
    ) -> Call[P, Never, T]:
        """Add a method of a part of the store as it is."""
        return self._add(Call(number, method, _of(part, method), form=form, **how))

    def call(
        self, number: int, *, form: Form[Any] | None = None, **how: bool
    ) -> Callable[[Callable[Concatenate[Holder, P], T]], Call[P, Never, T]]:
        """Add a function that returns the whole answer."""
        return lambda function: self._add(Call(number, function, _silent(function), form=form, **how))

    def telling(
        self, number: int, **how: bool
    ) -> Callable[[Callable[Concatenate[Holder, Emit[Item], P], T]], Call[P, Item, T]]:
        """Add a function that hands out items, and then returns a result."""
        return lambda function: self._add(Call(number, function, function, form=None, **how))

    def pages(
        self, number: int, *, form: Form[Any] | None = None
    ) -> Callable[[Callable[Concatenate[Holder, P], Iterator[Page]]], Call[P, Page, Page]]:
        """Add a function that yields its answer in pages."""
        return lambda function: self._add(Pages(number, function, _silent(function), form=form))

    def _add(self, call: C) -> C:
        self.append(call)
        return call


class Late(Struct, frozen=True):
    """A call of a subject that takes long to load, and much memory: ``load`` does it, once the call is made."""

    number: int
    load: Callable[[], Table]

    def loaded(self) -> AnyCall:
        """Return the call itself."""
        return next(call for call in self.load() if call.number == self.number)


def _of(part: Callable[[Store], object], method: Callable[..., T]) -> Callable[..., T]:
    """Return a method of a part of the store as a function of its holder."""
    return lambda holder, _emit, **fields: method(part(holder.store), **fields)


def _silent(function: Callable[..., T]) -> Callable[..., T]:
    """Return a function that hands out nothing as one that could."""
    return lambda holder, _emit, **fields: function(holder, **fields)


def chunked(pieces: Iterable[AnyStr], empty: AnyStr) -> Iterator[AnyStr]:
    """Yield pieces in chunks that are worth a frame each; the last may be empty."""
    some: list[AnyStr] = []
    size = 0
    for piece in pieces:
        some.append(piece)
        size += len(piece)
        if size >= _CHUNK:
            yield empty.join(some)
            some, size = [], 0
    yield empty.join(some)


def dress(method: Callable[..., object], call: Callable[..., object]) -> None:
    """Give a client's method the name, the docstring and the signature of its call."""
    import inspect

    function = call.function if isinstance(call, Call) else call
    functools.update_wrapper(method, function)
    shown = inspect.signature(function)
    fields = [one for name, one in shown.parameters.items() if name not in _BOUND]
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    returned = shown.return_annotation
    if isinstance(returned, str):
        returned = re.sub(r"^(?:Ask|Iterator)\[(.*)\]$", r"\1", returned)
    elif get_origin(returned) in (Ask, Iterator):
        [returned] = get_args(returned)
    method.__signature__ = inspect.Signature([own, *fields], return_annotation=returned)  # type: ignore[attr-defined]
