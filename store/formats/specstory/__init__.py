"""SpecStory: Markdown that it writes of other tools' sessions, one file each."""

from store.formats.specstory.session import SpecStory

__all__ = ["SpecStory"]
