"""What a conversation item says of its conversation; by convention, the first one does."""

from store.formats.json_view import JsonObject, as_list, as_object, as_text
from store.formats.titles import first_line


def describe(native: object) -> JsonObject:
    """Return the metadata that an item gives its conversation: title, project and labels, those that it has.

    ``native`` is as in its event; anything that is no such item gives nothing.
    """
    said = as_object(as_object(native).get("context_metadata"))
    labels = [label for label in as_list(said.get("labels")) if isinstance(label, str) and label]
    found: JsonObject = {
        "title": first_line(as_text(said.get("title"))),
        "project": as_text(said.get("client_tag")),
        "labels": labels,
    }
    return {key: value for key, value in found.items() if value}
