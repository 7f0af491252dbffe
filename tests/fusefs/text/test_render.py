import re
from urllib.parse import unquote

from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from fusefs.text.events_json import element
from fusefs.text.parse import parse_event
from fusefs.text.render import FileRenderer, render_event
from fusefs.text.resource_names import resolve_numbered
from fusefs.text.transcript import section
from store.events.conversation import Renderer, ResourceRow, Sizes
from store.events.event import Block, Event, Kind, Resource
from tests.fusefs.text import strategies


def test_an_event_is_a_head_and_its_text() -> None:
    event = Event(Kind.USER, header={"id": "u1"}, blocks=(Block("text", text="Grüße"),), time_ms=1_772_739_114_356)
    assert render_event(1, event).decode() == (
        "---\nevent: 1\ntype: user\nid: u1\ntimestamp: 2026-03-05T19:31:54.356Z\n---\nGrüße\n"
    )


@given(strategies.events(), st.integers(1, 10**7), st.sampled_from(["jp", "claude-code", ""]), st.binary(max_size=20))
def test_sizes_are_those_of_what_is_drawn(event: Event, number: int, format: str, payload: bytes) -> None:
    renderer: Renderer = FileRenderer()
    digest = blake3(payload).digest()
    drawn = Sizes(
        len(render_event(number, event)),
        len(section(number, event)),
        len(element(number, event, format, digest, len(payload))),
    )
    if event.kind is Kind.RECORD:
        drawn = Sizes(0, 0, drawn.json)
    assert renderer.measure(number, event, format, len(payload)) == drawn


@given(strategies.events(), st.integers(1, 10**7))
def test_every_link_leads_to_its_resource(event: Event, number: int) -> None:
    rows = [
        ResourceRow(number, number, seq, resource.uri, resource.mime, len(resource.content), 0, bytes([seq]) * 32)
        for seq, resource in enumerate(event.resources)
    ]
    uris = {resource.uri for resource in event.resources if resource.uri}
    for block, seen in zip(event.blocks, parse_event(render_event(number, event)).blocks, strict=True):
        if block.data is None:
            continue
        if block.uri in uris:
            assert seen.link.startswith("../resources/")
            row = resolve_numbered(unquote(seen.link.removeprefix("../resources/")), rows)
            assert row is not None
        else:
            assert re.fullmatch(r"\.\./\.\./\.\./\.\./\.convfs/blobs/[0-9a-f]{64}", seen.link)


def test_an_image_is_a_link_that_markdown_shows() -> None:
    block = Block("image", data=b"\x89PNG", uri="file:///tmp/shots/a (1).png", mime="image/png")
    event = Event(Kind.USER, blocks=(block,), resources=(Resource(block.uri, block.mime, b"\x89PNG"),))
    assert render_event(12, event).decode().splitlines()[-1] == (
        "![a%20%281%29@00012.png](../resources/tmp/shots/a%20%281%29@00012.png"
        ' "block image \\"file:///tmp/shots/a (1).png\\" image/png")'
    )
