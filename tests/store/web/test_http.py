"""CXDB's HTTP interface over a store: what its own programs read."""

import http.client
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgpack
import pytest

from fusefs.text.render import FileRenderer
from store.disk.turn_format import Encoding
from store.editing.keeper import Keeper
from store.ids import hash_bytes
from store.store import Store
from store.web.server import serving

TOKEN = "secret"
BUNDLE = {
    "registry_version": 1,
    "bundle_id": "demo#1",
    "types": {
        "demo.Note": {
            "versions": {
                "1": {
                    "fields": {
                        "1": {"name": "text", "type": "string"},
                        "2": {"name": "at", "type": "unix_ms", "optional": True},
                        "3": {"name": "mood", "type": "u8", "enum": "demo.Mood"},
                        "4": {"name": "count", "type": "u64"},
                        "5": {"name": "inner", "type": "ref", "ref": "demo.Note"},
                        "6": {"name": "data", "type": "bytes"},
                        "7": {"name": "list", "type": "array", "items": {"type": "ref", "ref": "demo.Note"}},
                    },
                    "renderer": {"esm_url": "builtin:Note"},
                }
            }
        }
    },
    "enums": {"demo.Mood": {"1": "happy"}},
}
NOTE = {1: "hello", "2": 1_700_000_000_000, 3: 1, 4: 7, 5: {1: "within"}, 6: b"\0\1", 7: [{3: 2}], 9: "new"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store", renderer=FileRenderer()) as opened:
        yield opened


class Web:
    def __init__(self, place: str) -> None:
        self.place = place
        self.opened = ExitStack()

    def connect(self, method: str, path: str, body: bytes | None = None, **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self.place, timeout=60)
        self.opened.callback(connection.close)
        connection.request(method, path, body, {"Authorization": f"Bearer {TOKEN}"} | headers)
        return self.opened.enter_context(connection.getresponse())

    def get(self, path: str, status: int = 200) -> Any:  # noqa: ANN401 - JSON
        answer = self.connect("GET", path)
        text = answer.read()
        assert answer.status == status, text
        return json.loads(text)

    def put(self, bundle: object) -> tuple[int, bytes]:
        answer = self.connect("PUT", "/v1/registry/bundles/any", json.dumps(bundle).encode())
        return answer.status, answer.read()


@pytest.fixture
def web(store: Store) -> Iterator[Web]:
    with serving(store, "127.0.0.1", 0, TOKEN) as place:
        web = Web(place)
        with web.opened:
            yield web


def test_turns_are_shown_by_their_registered_types(store: Store, web: Web) -> None:
    context = store.contexts.create(metadata={"project": "demo"}).context
    turn = store.contexts.append(context, msgpack.packb(NOTE), "demo.Note", encoding=Encoding.MSGPACK, type_version=1)
    path = f"/v1/contexts/{context}/turns"
    assert web.get(path, 424)["error"]["code"] == 424
    assert web.put(BUNDLE) == (201, b'{"bundle_id":"demo#1"}')
    assert web.put(BUNDLE) == (204, b"")
    whole = web.get(path + "?include_unknown=1&view=both")
    assert whole["meta"] == {
        "context_id": str(context),
        "head_turn_id": str(turn.turn_id),
        "head_depth": 0,
        "registry_bundle_id": "demo#1",
    }
    [shown] = whole["turns"]
    assert shown["data"] == {
        "text": "hello",
        "at": "2023-11-14T22:13:20+00:00",
        "mood": "happy",
        "count": "7",
        "inner": {"text": "within"},
        "data": "AAE=",
        "list": [{"mood": 2}],
    }
    assert shown["unknown"] == {"9": "new"}
    assert (shown["turn_id"], shown["parent_turn_id"], shown["depth"]) == (str(turn.turn_id), "0", 0)
    assert shown["content_hash_b3"] == turn.payload_hash.hex()
    asked = "?bytes_render=len_only&u64_format=number&enum_render=both&time_render=unix_ms"
    [shown] = web.get(path + asked)["turns"]
    assert shown["data"]["data"] == 2
    assert shown["data"]["count"] == 7
    assert shown["data"]["mood"] == {"label": "happy", "value": 1}
    assert shown["data"]["at"] == 1_700_000_000_000
    [raw] = web.get(path + "?view=raw&bytes_render=hex")["turns"]
    assert bytes.fromhex(raw["bytes_hex"]) == msgpack.packb(NOTE)
    assert "data" not in raw


def test_pages_go_back_to_the_first_turn(store: Store, web: Web) -> None:
    context = store.contexts.create().context
    for number in range(5):
        store.contexts.append(context, b'{"number":%d}' % number, "demo.v1")
    path, before, found = f"/v1/contexts/{context}/turns?limit=2", "", []
    while turns := (page := web.get(path + before))["turns"]:
        found = [turn["data"]["number"] for turn in turns] + found
        before = f"&before_turn_id={page['next_before_turn_id']}"
    assert found == [0, 1, 2, 3, 4]
    web.get("/v1/contexts/99/turns", 404)
    web.get("/v1/contexts/x/turns", 422)
    assert web.get("/v1/contexts", 200)["contexts"][0]["head_depth"] == 4
    assert web.get("/v1/nothing", 404) == {"error": {"code": 404, "message": "route"}}


def test_bundles_are_kept_and_must_agree(store: Store, web: Web) -> None:
    web.put(BUNDLE)
    other = json.loads(json.dumps(BUNDLE))
    other["types"]["demo.Note"]["versions"]["1"]["fields"]["1"]["type"] = "bytes"
    assert web.put(other)[0] == 422
    other["bundle_id"] = "demo#2"
    assert web.put(other)[0] == 422
    other["types"]["demo.Note"]["versions"] = {"2": other["types"]["demo.Note"]["versions"]["1"]}
    assert web.put(other)[0] == 422
    assert web.put({"bundle_id": "x"})[0] == 422
    assert web.get("/v1/registry/types/demo.Note/versions/1")["fields"]["2"]["optional"] is True
    web.get("/v1/registry/types/demo.Note/versions/2", 404)
    with serving(store, "127.0.0.1", 0, TOKEN) as place:
        again = Web(place)
        assert again.get("/v1/registry/renderers") == {"renderers": {"demo.Note": {"esm_url": "builtin:Note"}}}
        answer = again.connect("GET", "/v1/registry/bundles/demo%231")
        assert answer.read() == json.dumps(BUNDLE).encode()
        tag = answer.headers["ETag"]
        assert again.connect("GET", "/v1/registry/bundles/demo%231", **{"If-None-Match": tag}).status == 304
        again.opened.close()


def test_files_of_a_turn(store: Store, web: Web) -> None:
    def tree(*entries: tuple[str, int, bytes]) -> bytes:
        rows = [{"1": name, "2": kind, "3": 0o644, "4": 3, "5": digest} for name, kind, digest in entries]
        return store.intake.put(msgpack.packb(rows))

    page = store.intake.put(b"<script>")
    root = tree(("a.html", 0, page), ("link", 2, store.intake.put(b"a.html")), ("src", 1, tree(("b c.py", 0, page))))
    context = store.contexts.create().context
    with_files = store.contexts.append(context, b"{}", "demo.v1", fs_root=root)
    after = store.contexts.append(context, b"{}", "demo.v1").turn_id
    listed = web.get(f"/v1/turns/{after}/fs")
    assert listed["fs_root_hash"] == root.hex()
    assert [(one["name"], one["kind"], one["mode"]) for one in listed["entries"]] == [
        ("a.html", "file", "644"),
        ("link", "symlink", "644"),
        ("src", "dir", "644"),
    ]
    assert web.get(f"/v1/turns/{after}/fs?path=src")["entries"][0]["hash"] == page.hex()
    assert web.get(f"/v1/turns/{after}/fs/src")["entries"][0]["name"] == "b c.py"
    answer = web.connect("GET", f"/v1/turns/{with_files.turn_id}/fs/src/b%20c.py")
    assert (answer.read(), answer.headers["X-Fs-Mode"], answer.headers["X-Fs-Hash"]) == (b"<script>", "644", page.hex())
    # nothing that an agent wrote runs in the browser with the rights of this service
    assert web.connect("GET", f"/v1/turns/{after}/fs/a.html").headers["Content-Security-Policy"] == "sandbox"
    assert web.get(f"/v1/turns/{after}/fs/link?format=json")["content_base64"] == "YS5odG1s"
    assert "not found: none" in web.get(f"/v1/turns/{after}/fs/none", 404)["error"]["message"]
    web.get(f"/v1/turns/{after}/fs?path=a.html", 422)
    assert web.get("/v1/turns/99/fs", 404)["error"]["message"] == "no fs snapshot for turn"
    assert web.connect("GET", f"/v1/blobs/{page.hex()}").read() == b"<script>"
    web.get(f"/v1/blobs/{hash_bytes(b'other').hex()}", 404)


def test_events_come_as_they_happen(store: Store, web: Web) -> None:
    stream = web.connect("GET", "/v1/events")

    def chunked() -> Iterator[tuple[str, dict[str, object]]]:
        lines: list[str] = []
        while True:
            line = stream.readline().decode().strip()
            if line and not line.startswith(":"):
                lines.append(line)
            elif lines:
                yield lines[0].removeprefix("event: "), json.loads(lines[1].removeprefix("data: "))
                lines = []

    events = chunked()
    assert next(events) == ("connected", {})
    context = store.contexts.create(metadata={"project": "demo"}).context
    name, said = next(events)
    assert (name, said["context_id"], said["client_tag"]) == ("context_created", str(context), "demo")
    assert next(events)[0] == "context_metadata_updated"
    turn = store.contexts.append(context, b"{}", "demo.v1", type_version=2)
    assert next(events) == (
        "turn_appended",
        {
            "context_id": str(context),
            "turn_id": str(turn.turn_id),
            "parent_turn_id": "0",
            "depth": 0,
            "declared_type_id": "demo.v1",
            "declared_type_version": 2,
        },
    )
    store.contexts.set_metadata(context, {"labels": ["bug"]})
    assert next(events)[1]["labels"] == ["bug"]
    stream.close()


def test_only_those_with_the_token_are_answered(web: Web) -> None:
    for headers in ({"Authorization": ""}, {"Authorization": "Bearer wrong"}, {"Cookie": "convfs_token=wrong"}):
        answer = web.connect("GET", "/v1/contexts", **({"Authorization": ""} | headers))
        assert answer.status == 401
        assert "token" in json.loads(answer.read())["error"]["message"]
    asked = web.connect("GET", f"/v1/contexts?token={TOKEN}", Authorization="")
    assert asked.status == 200
    cookie = asked.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert web.connect("GET", "/v1/contexts", Authorization="", Cookie=cookie.split(";")[0]).status == 200
    assert web.connect("GET", "/healthz", Host="attacker.example").status == 403
    assert web.connect("GET", "/healthz", Host="[::1]:80").read() == b"ok"
    assert web.connect("POST", "/v1/contexts").status == 404


def test_provenance_is_that_of_the_first_turn(store: Store, web: Web) -> None:
    item = {1: "user_input", 10: {1: "Hello"}, 30: {1: "tag", 2: "Title", 10: {1: 7, 40: "service"}}}
    context = store.contexts.create().context
    store.contexts.append(context, msgpack.packb(item), "cxdb.ConversationItem", encoding=1, type_version=3)
    said = web.get(f"/v1/contexts/{context}/provenance")["provenance"]
    assert said["service_name"] == "service"
    assert web.get("/v1/contexts/99/provenance") == {"context_id": "99", "provenance": None}


def test_any_content_has_an_address(store: Store, web: Web) -> None:
    context = store.contexts.create().context
    turn = store.contexts.append(context, b'{"small":1}', "demo.v1")
    assert web.connect("GET", f"/v1/blobs/{turn.payload_hash.hex()}").read() == b'{"small":1}'
    web.get("/v1/blobs/12", 422)


def test_the_last_changed_are_listed_wherever_they_are(store: Store, web: Web) -> None:
    made = [store.contexts.create(metadata={"project": "demo", "title": "x"} if at % 2 else None) for at in range(6)]
    for one in made:
        store.contexts.append(one.context, b"{}", "demo.v1")
    store.contexts.append(made[2].context, b"{}", "demo.v1")
    store.contexts.set_metadata(made[3].context, {"project": "demo", "name": "thrown away"})
    Keeper(store).remove(made[3].context)
    wanted = sorted(
        (store.catalogue.entry(one.context) for one in made), key=lambda one: (one.updated_ms, one.id), reverse=True
    )
    for limit in (1, 3, 20):
        listed = web.get(f"/v1/contexts?limit={limit}")["contexts"]
        assert [int(one["context_id"]) for one in listed] == [one.id for one in wanted[:limit]]


def asked(web: Web, query: str, more: str = "", status: int = 200) -> dict[str, Any]:
    return web.get(f"/v1/contexts/search?q={quote(query)}{more}", status)


@pytest.fixture
def known(store: Store) -> list[int]:
    """Three contexts: of a project with labels, of a client that says where it comes from, and a fork of that."""
    first = store.contexts.create(metadata={"project": "Shop", "title": "Fix it", "labels": ["bug", "todo"]}).context
    for _ in range(3):
        store.contexts.append(first, b"{}", "demo.v1")
    said = {1: 7, 3: 8, 10: "trace", 20: "ada", 40: "Service", 45: "Host"}
    item = {1: "user_input", 10: {1: "Hello"}, 30: {1: "tag", 2: "Title", 10: said}}
    second = store.contexts.create().context
    turn = store.contexts.append(second, msgpack.packb(item), "cxdb.ConversationItem", encoding=1, type_version=3)
    third = store.contexts.fork_at(turn.turn_id).context
    store.contexts.create()
    return [first, second, third]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ('tag = "Shop"', [0]),
        ("tag ~= 'shop' and not title = \"other\"", [0]),
        ('title ^= "Fix" OR id = 2', [0, 1]),
        ('title ^~= "fIX"', [0]),
        ('label IN ("todo", "later")', [0]),
        ('label != "bug" AND created > "-1h"', [1, 2]),
        ("created < 5", []),
        ('created >= "2020-01-01" AND depth = 2', [0]),
        ("depth < 2", [1, 2]),
        ('service ~= "SERVICE" AND host = "Host" AND user = "ada"', [1, 2]),
        ('host ~= "host"', []),
        ('parent = "7" AND root IN (8) AND trace_id = "trace"', [1, 2]),
        ("is_live = true", []),
        ('NOT (tag = "Shop" OR depth > 9) AND is_live = false', [1, 2]),
        ('tag = "Shop" OR tag = "x" AND depth > 99', [0]),
        (r'title = "Fi\x \"it"', []),
    ],
)
def test_contexts_are_found_by_what_is_known_of_them(web: Web, known: list[int], query: str, found: list[int]) -> None:
    answer = asked(web, query)
    assert [int(one["context_id"]) for one in answer["contexts"]] == [known[at] for at in reversed(found)]
    assert (answer["total_count"], answer["query"]) == (len(found), query)
    if len(found) > 1:
        limited = asked(web, query, "&limit=1")
        assert (len(limited["contexts"]), limited["total_count"]) == (1, len(found))


@pytest.mark.parametrize(
    ("query", "kind", "field", "offset"),
    [
        ("", "SyntaxError", None, 0),
        ('tag "x"', "SyntaxError", None, 4),
        ('tag = "x" title = "y"', "SyntaxError", None, 10),
        ('(tag = "x"', "SyntaxError", None, 10),
        ("NOT NOT depth = 1", "SyntaxError", None, 4),
        ('tag = "x', "SyntaxError", None, 6),
        ("(" * 5000, "SyntaxError", None, 101),
        ("size = 1", "UnknownField", "size", 0),
        ("depth ^= 1", "InvalidOperator", "depth", 6),
        ('depth =\n "x"', "InvalidValue", "depth", 9),
        ('created > "soon"', "InvalidValue", "created", 10),
    ],
)
def test_what_is_no_query_is_refused_where_it_ends(
    web: Web, known: list[int], query: str, kind: str, field: str | None, offset: int
) -> None:
    answer = asked(web, query, status=400)
    assert (answer["error_type"], answer["field"], answer["position"]["offset"]) == (kind, field, offset)
    assert answer["position"]["line"] == query[:offset].count("\n") + 1
    assert web.get("/v1/contexts/search", 400).keys() == {"error"}
    assert known
