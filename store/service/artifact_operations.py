"""The operations on outputs of tools and agents, and on the URLs that lead to them."""

from collections.abc import Callable

from msgspec import Struct

from store.artifacts.artifacts import Artifacts
from store.artifacts.kept import Output
from store.artifacts.urls import Address, Urls, parse_url
from store.errors import NotFound, UsageError
from store.events.outputs import SORTS, Outputs
from store.service.operation import Holder, Nothing, Operation
from store.service.operations import resolve
from store.store import Store

_MOST_NAMED = 5


class OutputsParams(Struct, frozen=True, forbid_unknown_fields=True):
    """``sort`` is ``artifact`` or ``agent``."""

    context: int
    sort: str


class BeginParams(Struct, frozen=True, forbid_unknown_fields=True):
    """As of :meth:`Artifacts.begin`."""

    context: int
    sort: str
    name: str
    parent: str = ""


class AddOutputParams(Struct, frozen=True, forbid_unknown_fields=True):
    """As of :meth:`Artifacts.add`."""

    context: int
    sort: str
    name: str
    data: bytes
    at: int | None = None


class OutputParams(Struct, frozen=True, forbid_unknown_fields=True):
    """One output, by its name."""

    context: int
    sort: str
    name: str


class ReadUrlParams(Struct, frozen=True, forbid_unknown_fields=True):
    """``conversation`` is the one in which the URL means something, as for ``find``; "" for the only one in which it
    does. ``offset`` and ``limit`` count lines, the first is 1; 0 for all.
    """

    url: str
    conversation: str = ""
    offset: int = 0
    limit: int = 0


def _sort(scheme: str) -> Outputs:
    for outputs in SORTS:
        if outputs.scheme == scheme:
            return outputs
    raise UsageError(f"{scheme!r} is no sort of output: artifact or agent")


def _list(holder: Holder, params: OutputsParams, emit: Callable[[list[Output]], None]) -> Nothing:
    emit(list(Artifacts(holder.store).listed(params.context, _sort(params.sort)).values()))
    return Nothing()


def _begin(holder: Holder, params: BeginParams, emit: Callable[[Nothing], None]) -> str:
    return Artifacts(holder.store).begin(params.context, _sort(params.sort), params.name, parent=params.parent)


def _add(holder: Holder, params: AddOutputParams, emit: Callable[[Nothing], None]) -> int:
    artifacts = Artifacts(holder.store)
    return artifacts.add(params.context, _sort(params.sort), params.name, params.data, params.at)


def _end(holder: Holder, params: OutputParams, emit: Callable[[Nothing], None]) -> Output:
    return Artifacts(holder.store).end(params.context, _sort(params.sort), params.name)


def _drop(holder: Holder, params: OutputParams, emit: Callable[[Nothing], None]) -> Nothing:
    Artifacts(holder.store).drop(params.context, _sort(params.sort), params.name)
    return Nothing()


def _read_url(holder: Holder, params: ReadUrlParams, emit: Callable[[bytes], None]) -> Nothing:
    address = parse_url(params.url)
    urls = Urls(holder.store)
    context = _conversation(holder.store, urls, address, params.conversation) if address.local else 0
    for piece in urls.read(address, context, offset=params.offset, limit=params.limit):
        emit(piece)
    return Nothing()


def _conversation(store: Store, urls: Urls, address: Address, name: str) -> int:
    """Return the conversation in which a URL is to be read."""
    if name:
        return resolve(store, name).id
    holders = urls.holders(address)
    if len(holders) == 1:
        return holders[0]
    if not holders:
        raise NotFound(f"{address.url} not found in any conversation: say in which one, to see what is there")
    entries = [store.entry(context) for context in holders[:_MOST_NAMED]]
    names = ", ".join(f"{entry.project}/{entry.name}" for entry in entries)
    more = f" and {len(holders) - _MOST_NAMED} more" if len(holders) > _MOST_NAMED else ""
    raise UsageError(f"{address.url} is in several conversations: say which ({names}{more})")


BEGIN_OUTPUT = Operation(300, BeginParams, Nothing, str, _begin, brief=True)
ADD_OUTPUT = Operation(301, AddOutputParams, Nothing, int, _add, brief=True)
END_OUTPUT = Operation(302, OutputParams, Nothing, Output, _end)
DROP_OUTPUT = Operation(303, OutputParams, Nothing, Nothing, _drop, brief=True)
OUTPUTS = Operation(304, OutputsParams, list[Output], Nothing, _list)
READ_URL = Operation(305, ReadUrlParams, bytes, Nothing, _read_url)

ARTIFACT_OPERATIONS = (BEGIN_OUTPUT, ADD_OUTPUT, END_OUTPUT, DROP_OUTPUT, OUTPUTS, READ_URL)
