"""The numbered fields of ``cxdb.ConversationItem`` version 3, and of what it holds.

As in the types of CXDB's clients (https://github.com/strongdm/cxdb, ``clients/``). Its clients in Go and Rust spell the
numbers as texts (``"10"``), others as integers; fields that are not set are missing, or null, or empty.
"""

from store.formats.msgpack_view import Field, Schema


def _named(**names: int) -> Schema:
    return {number: Field(name) for name, number in names.items()}


_USER_INPUT = _named(text=1, files=2, synthetic=3)
_TOOL_CALL_RESULT = _named(content=1, content_truncated=2, success=3, exit_code=4)
_TOOL_CALL_ERROR = _named(code=1, message=2, exit_code=3)
_TOOL_CALL_ITEM = {
    **_named(
        id=1,
        name=2,
        args=3,
        status=4,
        description=5,
        streaming_output=6,
        streaming_output_truncated=7,
        duration_ms=10,
    ),
    8: Field("result", _TOOL_CALL_RESULT),
    9: Field("error", _TOOL_CALL_ERROR),
}
_TURN_METRICS = _named(
    input_tokens=1,
    output_tokens=2,
    total_tokens=3,
    cached_tokens=4,
    reasoning_tokens=5,
    duration_ms=6,
    model=7,
    usage_status=8,
)
_ASSISTANT_TURN = {
    **_named(text=1, reasoning=3, agent=5, turn_number=6, max_turns=7, finish_reason=8),
    2: Field("tool_calls", _TOOL_CALL_ITEM),
    4: Field("metrics", _TURN_METRICS),
}
_SYSTEM_MESSAGE = _named(kind=1, title=2, content=3)
_HANDOFF_INFO = _named(from_agent=1, to_agent=2, tool_name=3, input=4, reason=5)
_ASSISTANT = _named(text=1, reasoning=2, model=3, input_tokens=4, output_tokens=5, stop_reason=6)
_TOOL_CALL = _named(call_id=1, name=2, args=3, description=4)
_TOOL_RESULT = _named(
    call_id=1, content=2, is_error=3, exit_code=4, streaming_output=5, output_truncated=6, duration_ms=7
)
_PROVENANCE = _named(
    parent_context_id=1,
    spawn_reason=2,
    root_context_id=3,
    trace_id=10,
    span_id=11,
    correlation_id=12,
    on_behalf_of=20,
    on_behalf_of_source=21,
    on_behalf_of_email=22,
    writer_method=30,
    writer_subject=31,
    writer_issuer=32,
    service_name=40,
    service_version=41,
    service_instance_id=42,
    process_pid=43,
    process_owner=44,
    host_name=45,
    host_arch=46,
    client_address=50,
    client_port=51,
    env_vars=60,
    sdk_name=70,
    sdk_version=71,
    captured_at=80,
)
_CONTEXT_METADATA = {
    **_named(client_tag=1, title=2, labels=3, custom=4, tenant=5),
    10: Field("provenance", _PROVENANCE),
}

CONVERSATION_ITEM: Schema = {
    **_named(item_type=1, status=2, timestamp=3, id=4),
    10: Field("user_input", _USER_INPUT),
    11: Field("turn", _ASSISTANT_TURN),
    12: Field("system", _SYSTEM_MESSAGE),
    13: Field("handoff", _HANDOFF_INFO),
    20: Field("assistant", _ASSISTANT),
    21: Field("tool_call", _TOOL_CALL),
    22: Field("tool_result", _TOOL_RESULT),
    30: Field("context_metadata", _CONTEXT_METADATA),
}
