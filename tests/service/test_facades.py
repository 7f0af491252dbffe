"""The store's facade and that of the two clients: the same names, which take the same."""

import inspect
from inspect import Parameter, Signature

import pytest

from store.conversations.streaming import OpenTurn
from store.service.async_client import AsyncClient
from store.service.async_facade import AsyncFacade, AsyncRemoteTurn
from store.service.client import Client
from store.service.facade import Facade, RemoteTurn
from store.store import Store

OTHER_RESULTS = {"open_turn", "resume_turn"}
"""What these return, there is one of for each of the three."""

ONLY_HERE = {("append", "created_ms"), ("add", "at")}
"""What only who has the store open can say: when a turn was made; how much there was (clients always say so)."""


def methods(kind: type) -> dict[str, Signature]:
    functions = inspect.getmembers(kind, inspect.isfunction)
    return {name: inspect.signature(function) for name, function in functions if not name.startswith("_")}


def parameters(name: str, signature: Signature) -> list[Parameter]:
    return [one for one in signature.parameters.values() if (name, one.name) not in ONLY_HERE]


@pytest.mark.parametrize(
    ("store", "client", "waiting"), [(Store, Facade, AsyncFacade), (OpenTurn, RemoteTurn, AsyncRemoteTurn)]
)
def test_the_three_take_and_return_the_same(store: type, client: type, waiting: type) -> None:
    there, blocking, awaited = methods(store), methods(client), methods(waiting)
    assert set(blocking) == set(awaited)
    names = set(blocking) - {"ask"}
    assert names <= set(there)
    assert len(names) >= 3
    for name in names:
        assert parameters(name, there[name]) == parameters(name, blocking[name]) == parameters(name, awaited[name])
        assert inspect.iscoroutinefunction(getattr(waiting, name))
        if name not in OTHER_RESULTS:
            results = {signature[name].return_annotation for signature in (there, blocking, awaited)}
            assert len(results) == 1, (name, results)


def test_what_the_clients_are_asked_for_beside_that_is_the_same() -> None:
    assert issubclass(Client, Facade)
    assert issubclass(AsyncClient, AsyncFacade)
    watch, awaited = inspect.signature(Client.watch), inspect.signature(AsyncClient.watch)
    assert list(watch.parameters.values()) == list(awaited.parameters.values())
