"""ChatGPT's export: trees of messages, many in a file, and the images and files that they name beside it."""

from store.formats.chatgpt.session import ChatGpt

__all__ = ["ChatGpt"]
