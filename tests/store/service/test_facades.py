"""The parts of a store, and the two clients: the same calls, which take the same."""

import inspect
import re
from inspect import Parameter, Signature
from pathlib import Path

import msgspec
import pytest

from store.conversations.open_turns import OpenTurn
from store.service.async_client import AsyncClient, AsyncRemoteTurn
from store.service.call import _BOUND
from store.service.calls import CALLS
from store.service.client import Client, RemoteTurn
from store.service.operations import OPERATIONS
from store.store import Store
from tests.store.service.parts import Calls

OWN = {"ask", "call", "close", "aclose", "connected", "watch"}
"""Methods that only a client has: how it asks, and its connection."""

OTHER_RESULTS = {"open_turn", "resume_turn"}
"""Results of which there is one for each of the three."""

ONLY_HERE = {("append", "created_ms"), ("add", "at"), ("open_turns", "most")}
"""Parameters that only the store itself takes: when a turn was made; how much there was."""


def methods(kind: type) -> dict[str, Signature]:
    functions = inspect.getmembers(kind, inspect.isfunction)
    return {name: inspect.signature(function) for name, function in functions if not name.startswith("_")}


def methods_of(calls: Calls, names: set[str]) -> dict[str, Signature]:
    return {name: inspect.signature(getattr(calls, name)) for name in names - {"ask"}}


def spelled(annotation: object) -> str:
    """Return a type as it is written, whether its module puts annotations off or not."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"\bNoneType\b", "None", text)
    return re.sub(r"\b(?:[a-z_]+\.)+", "", text)


def parameters(name: str, signature: Signature) -> list[Parameter]:
    own = [one for one in signature.parameters.values() if (name, one.name) not in ONLY_HERE]
    return [one.replace(annotation=spelled(one.annotation)) for one in own if one.name != "self"]


@pytest.mark.parametrize(
    ("store", "client", "waiting"), [(Store, Client, AsyncClient), (OpenTurn, RemoteTurn, AsyncRemoteTurn)]
)
def test_the_three_take_and_return_the_same(store: type, client: type, waiting: type, tmp_path: Path) -> None:
    blocking, awaited = methods(client), methods(waiting)
    if store is Store:
        with Store.open(tmp_path / "store") as opened:
            there = methods_of(Calls(opened), set(blocking) - OWN)
    else:
        there = methods(store)
    names = set(blocking) - OWN
    assert names == set(awaited) - OWN
    assert names <= set(there)
    assert len(names) >= 3
    for name in names:
        assert parameters(name, there[name]) == parameters(name, blocking[name]) == parameters(name, awaited[name])
        assert inspect.iscoroutinefunction(getattr(waiting, name))
        if name not in OTHER_RESULTS:
            results = {spelled(signature[name].return_annotation) for signature in (there, blocking, awaited)}
            assert len(results) == 1, (name, results)


def test_each_says_what_it_does() -> None:
    for kind in (Client, AsyncClient):
        for name in set(methods(kind)) - OWN:
            assert getattr(kind, name).__doc__


def test_what_the_clients_are_asked_for_beside_that_is_the_same() -> None:
    watch, awaited = inspect.signature(Client.watch), inspect.signature(AsyncClient.watch)
    assert list(watch.parameters.values()) == list(awaited.parameters.values())


def test_a_request_has_what_its_function_takes() -> None:
    for call in (*CALLS, *OPERATIONS):
        taken = [one for one in inspect.signature(call.function).parameters.values() if one.name not in _BOUND]
        fields = msgspec.structs.fields(call.params)
        assert [one.name for one in fields] == [one.name for one in taken]
        assert [one.required for one in fields] == [one.default is Parameter.empty for one in taken]
