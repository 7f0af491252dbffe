import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import Conflict, ConvfsError, DamageError, NotFound, TooLarge, UsageError
from store.service import frames
from store.service.frames import BadFrame, Decoder, Frame

FRAMES = st.builds(
    Frame,
    msg_type=st.integers(0, 0xFFFF),
    req_id=st.integers(0, 2**64 - 1),
    payload=st.binary(max_size=200),
    flags=st.integers(0, 0xFFFF),
)


def test_a_frame_is_laid_out_as_documented() -> None:
    frame = Frame(260, 7, b"{}", frames.MORE)
    assert frames.encode(frame).hex(" ") == "02 00 00 00 04 01 01 00 07 00 00 00 00 00 00 00 7b 7d"


@given(st.lists(FRAMES, max_size=8), st.integers(1, 50))
def test_frames_come_back_however_the_stream_is_cut(sent: list[Frame], step: int) -> None:
    stream = b"".join(map(frames.encode, sent))
    decoder = Decoder()
    received = [frame for start in range(0, len(stream), step) for frame in decoder.feed(stream[start : start + step])]
    assert received == sent
    assert decoder.idle


@given(st.binary(max_size=300))
def test_any_bytes_give_frames_or_one_error(stream: bytes) -> None:
    decoder = Decoder()
    try:
        received = list(decoder.feed(stream))
    except BadFrame:
        return
    assert stream.startswith(b"".join(map(frames.encode, received)))


def test_a_frame_that_says_it_is_too_large_is_refused_at_its_header() -> None:
    decoder = Decoder()
    with pytest.raises(BadFrame) as caught:
        list(decoder.feed(struct.pack("<IHHQ", frames.MAX_PAYLOAD + 1, 258, 0, 99)))
    assert caught.value.req_id == 99


def test_frames_before_a_bad_one_are_still_given() -> None:
    good = Frame(258, 1, b"{}")
    received = Decoder().feed(frames.encode(good) + b"\xff" * 16)
    assert next(received) == good
    with pytest.raises(BadFrame):
        next(received)


def test_a_payload_over_the_limit_is_not_sent() -> None:
    with pytest.raises(UsageError):
        frames.encode(Frame(258, 1, bytes(frames.MAX_PAYLOAD + 1)))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotFound("no"), "94 01 00 00"),
        (Conflict("no"), "99 01 00 00"),
        (TooLarge("no"), "9d 01 00 00"),
        (UsageError("no"), "a6 01 00 00"),
        (ConvfsError("no"), "f4 01 00 00"),
        (DamageError("no"), "f4 01 00 00"),
        (KeyError("no"), "f4 01 00 00"),
    ],
)
def test_an_error_is_laid_out_as_documented(error: Exception, code: str) -> None:
    frame = frames.error_frame(3, frames.error_code(error), "no")
    assert frames.encode(frame).hex(" ") == f"0a 00 00 00 ff 00 00 00 03 00 00 00 00 00 00 00 {code} 02 00 00 00 6e 6f"


@pytest.mark.parametrize("error", [NotFound("x"), Conflict("y"), UsageError("z"), ConvfsError("w")])
def test_errors_travel_as_what_they_are(error: ConvfsError) -> None:
    arrived = frames.error_of(frames.error_frame(1, frames.error_code(error), str(error)))
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)


@given(st.binary(max_size=40))
def test_any_error_payload_is_an_error(payload: bytes) -> None:
    assert isinstance(frames.error_of(Frame(frames.ERROR, 1, payload)), ConvfsError)
