"""What a tool's result says outside the message: ``toolUseResult``, the program's own copy.

It repeats what the message shows, so it is not shown again; but a file that was read is there without line numbers,
under its path, and that is a resource. What else a reader would look for is named: the subagent that ran, the file
that holds output too long for a line.
"""

from store.events.event import Path, Resource
from store.formats.json_view import JsonObject, as_object, scalar
from store.formats.media import file_uri, mime_of
from store.formats.shown import Header

READ_FILE: Path = ("toolUseResult", "file", "content")
"""Where the content of a file that was read stands, without line numbers."""


def read_resources(line: JsonObject) -> tuple[Resource, ...]:
    """Return the file that a Read returned; a part of one has its lines as a fragment (``#L10-20``)."""
    result = line.get("toolUseResult")
    if not isinstance(result, dict) or not isinstance(file := result.get("file"), dict):
        return ()
    path, content = file.get("filePath"), file.get("content")
    if not isinstance(path, str) or not isinstance(content, str) or not path:
        return ()
    return (Resource(file_uri(path) + _fragment(file), mime_of(path), content, READ_FILE),)


def pointers(line: JsonObject) -> Header:
    """Return where more of a result is: ``subagent`` (the id in its file's name), ``full_output`` (a path)."""
    result = as_object(line.get("toolUseResult"))
    header: Header = {}
    for key, name in (("agentId", "subagent"), ("persistedOutputPath", "full_output")):
        if (value := scalar(result.get(key))) is not None:
            header[name] = value
    return header


def _fragment(file: JsonObject) -> str:
    first, count, total = file.get("startLine"), file.get("numLines"), file.get("totalLines")
    if not (isinstance(first, int) and isinstance(count, int) and isinstance(total, int)):
        return ""
    return f"#L{first}-{first + count - 1}" if first > 1 or count < total else ""
