"""The renderer of a process that may draw nothing: what draws is loaded when it is first asked for."""

from typing import TYPE_CHECKING, cast

from fusefs.text import RENDERER_VERSION

if TYPE_CHECKING:
    from store.events.conversation import Renderer


class _Late:
    version: int = RENDERER_VERSION

    def __getattr__(self, name: str) -> object:
        from fusefs.text.render import FileRenderer

        # from now on the attribute itself is found
        found = vars(self)[name] = getattr(FileRenderer(), name)
        return found

    def __reduce__(self) -> tuple[type, tuple[()]]:
        from fusefs.text.render import FileRenderer

        # processes that help with filing get it, which do draw
        return FileRenderer, ()


def late_renderer() -> "Renderer":
    """Return what draws as :class:`fusefs.text.render.FileRenderer` does."""
    return cast("Renderer", _Late())
