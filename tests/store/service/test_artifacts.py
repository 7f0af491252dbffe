"""Outputs of tools and agents over the socket of a service."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.artifacts.sink import OutputSink
from store.errors import Conflict, NotFound, UsageError
from store.events.conversation import AGENTS, ARTIFACTS
from store.service.client import Client, RemoteArtifacts
from store.service.server import Service, serving
from store.store import Store

LINE = b"a line of what a build says\n"


@pytest.fixture
def store(tmp_path: Path, runtime_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store", renderer=FileRenderer()) as opened:
        yield opened


@pytest.fixture
def client(store: Store) -> Iterator[Client]:
    with serving(Service(store, ())) as place, Client(place.socket) as made:
        yield made


@pytest.fixture
def context(client: Client) -> int:
    return client.create_context(metadata={"project": "project", "name": "talk"}).context


@pytest.mark.logs("there is no conversation with id 99")
def test_a_tools_output_spills_over_the_socket(client: Client, store: Store, context: int) -> None:
    remote = RemoteArtifacts(client)
    with OutputSink(remote, context, "make") as sink:
        for _ in range(6000):
            sink.write(b"\x1b[32m" + LINE)
    summary = sink.close()
    assert (summary.artifact_id, summary.total_bytes, summary.output_bytes) == ("0", 168_000, 51_200)
    assert remote.read("artifact://0") == LINE * 6000
    assert remote.read("artifact://0", "project/talk", offset=5999, limit=1) == LINE
    assert remote.listed(context, ARTIFACTS) == store.artifacts.listed(context, ARTIFACTS)
    with OutputSink(remote, 99, "make") as sink:
        sink.write(LINE * 6000)
    assert sink.close().artifact_id == ""


def test_calls_do_what_those_of_the_store_do(client: Client, context: int) -> None:
    remote = RemoteArtifacts(client)
    assert remote.begin(context, AGENTS, "Explore") == "0-Explore.md"
    assert remote.begin(context, AGENTS, "Child", parent="0-Explore") == "0-Explore.0-Child.md"
    assert remote.add(context, AGENTS, "0-Explore.md", b'{"found": ', 0) == 10
    assert remote.add(context, AGENTS, "0-Explore.md", b'{"found": [1, 2]}', 0) == 17
    with pytest.raises(Conflict, match="has 17 bytes, not 20"):
        remote.add(context, AGENTS, "0-Explore.md", b"x", 20)
    kept = remote.end(context, AGENTS, "0-Explore.md")
    assert remote.end(context, AGENTS, "0-Explore.md") == kept
    remote.drop(context, AGENTS, "0-Explore.0-Child.md")
    assert remote.listed(context, AGENTS) == {"0-Explore.md": kept}
    assert remote.read("agent://0-Explore?q=found[1]") == b"2\n"
    with pytest.raises(NotFound, match="there is 0-Explore"):
        remote.read("agent://1-Explore", "talk")
    with pytest.raises(NotFound, match="not found in any conversation"):
        remote.read("artifact://0")


def test_a_url_needs_a_conversation_where_several_have_it(client: Client, context: int) -> None:
    remote = RemoteArtifacts(client)
    other = client.create_context(metadata={"project": "project", "name": "other"}).context
    for one in (context, other):
        name = remote.begin(one, ARTIFACTS, "make")
        remote.add(one, ARTIFACTS, name, b"of %d" % one, 0)
    with pytest.raises(UsageError, match=r"in several conversations: say which \(project/talk, project/other\)"):
        remote.read("artifact://0")
    assert remote.read("artifact://0", "other") == b"of %d" % other
    digest = client.put_blob(b"content")
    assert remote.read(f"blob:blake3:{digest.hex()}") == b"content"
