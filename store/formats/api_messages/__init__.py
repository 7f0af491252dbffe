"""Message arrays of the model vendors' APIs: bare, in requests, in recorded HTTP, in lines for fine-tuning."""

from store.formats.api_messages.session import ApiMessages

__all__ = ["ApiMessages"]
