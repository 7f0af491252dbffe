"""From inode numbers to nodes: the one place that knows all kinds of them, and the top of the tree."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter

from fusefs import inodes
from fusefs.inodes import Place, Space
from fusefs.text import readme
from fusefs.text.metadata import internals_text
from fusefs.tree import control, conversation, links, paths, projects, search
from fusefs.tree.diffs import Diffs
from fusefs.tree.documents import ChangesFile, ContextFile, EventsJson, MetadataFile, Transcript
from fusefs.tree.drawings import (
    Drawings,
    HtmlDirectory,
    PagesDirectory,
    family_drawing,
    index_drawing,
    page_drawing,
    stats_drawing,
    stats_file,
)
from fusefs.tree.events import EventFile, EventsDirectory, GrowingFile
from fusefs.tree.native.files import NativeDirectory, SessionFile, SidecarFile
from fusefs.tree.native.paths import SIDECARS
from fusefs.tree.node import FIRST_POSITION, Bytes, DerivedFile, Directory, DirEntry, Entries, Listing, Node
from fusefs.tree.outputs import OutputFile, OutputsDirectory
from fusefs.tree.resources import ResourceDirectory, resource_file
from fusefs.tree.snapshots import Snapshots
from fusefs.tree.tree import FixedPath, Tree
from fusefs.tree.view import Folder
from fusefs.tree.view_node import ViewNode
from store.conversations.places import ASIDE
from store.errors import NotFound
from store.filenames import shown_name
from store.paths import SETTINGS

_TEXTS = {paths.README: readme.README.encode(), paths.IGNORE: f"!{ASIDE}/\n".encode()}
"""The files in the root that always say the same."""

HELD_BY, ALL = "held_by", "all"
"""The extended attribute that lists the other holders of a file's contents. It is not listed: it costs work."""

INTERNALS = "internals"
"""That which has the metadata of a conversation that ``metadata.json`` leaves out. It is not listed, either."""

_FIXED: Mapping[tuple[str, int], Callable[[Tree, int, FixedPath], Node]] = {
    (paths.IMPORT, 0): control.ImportDirectory,
    (paths.RECENT, 0): links.RecentDirectory,
    (paths.CONVERSATIONS, 0): projects.ProjectsDirectory,
    (paths.CONVERSATIONS, 1): projects.ProjectDirectory,
    (paths.CONVERSATIONS, 2): projects.AsideDirectory,
    (paths.TRANSCRIPTS, 0): projects.ProjectsDirectory,
    (paths.TRANSCRIPTS, 1): projects.TranscriptsDirectory,
    (paths.HTML, 0): HtmlDirectory,
    (paths.TRANSCRIPTS, 2): projects.AsideTranscripts,
    (paths.BY_LABEL, 0): links.LabelsDirectory,
    (paths.BY_LABEL, 1): links.LabelDirectory,
    (paths.BY_BRANCH, 0): links.WorkBranchesDirectory,
    (paths.BY_BRANCH, 1): links.BranchDirectory,
    (paths.BY_MODEL, 0): links.ModelsDirectory,
    (paths.BY_MODEL, 1): links.ModelDirectory,
    (paths.BY_TOOL, 0): links.ToolsDirectory,
    (paths.BY_TOOL, 1): links.ToolDirectory,
    (paths.BY_DATE, 0): links.DatesDirectory,
    (paths.BY_DATE, 1): links.DatesDirectory,
    (paths.BY_DATE, 2): links.DatesDirectory,
    (paths.BY_DATE, 3): links.DayDirectory,
    (paths.SEARCH, 0): search.SearchDirectory,
    (paths.CONTROL, 0): control.ControlDirectory,
}
"""Nodes at paths that belong to no conversation, by the first name and the count of names behind it."""

_CONTROL: Mapping[str, Callable[[Tree, int, FixedPath], Node]] = {
    paths.BLOBS: control.BlobsDirectory,
    paths.ERRORS: control.ErrorsDirectory,
    paths.TRASH: control.TrashDirectory,
}
"""The directories in ``.convfs/``."""

_PLACES: Mapping[int, Callable[[Tree, int, int], Node]] = {
    Place.CONVERSATION: conversation.ConversationDirectory,
    Place.EVENTS: EventsDirectory,
    Place.EVENTS_JSON: EventsJson,
    Place.RESOURCES: ResourceDirectory,
    Place.METADATA: MetadataFile,
    Place.VERSIONS: conversation.VersionsDirectory,
    Place.RECORDS: conversation.RecordsDirectory,
    Place.TRANSCRIPT: Transcript,
    Place.FORKS: conversation.ForksDirectory,
    Place.ARTIFACTS: OutputsDirectory,
    Place.AGENTS: OutputsDirectory,
    Place.NATIVE: SessionFile,
    Place.CHANGES: ChangesFile,
    Place.CONTEXT: ContextFile,
    Place.SUBAGENTS: projects.SubagentsDirectory,
    Place.TRANSCRIPTS: projects.SubagentTranscripts,
}
"""Nodes that there are once in every view, but for links and drawings."""


class Router:
    """Makes the nodes of one mount, and answers what takes several of them. Used by one thread."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._searches = search.Searches(tree)
        self._drawings = Drawings(tree)
        self._resources = search.Resources(tree)
        self._diffs = Diffs(tree)
        self._snapshots = Snapshots(tree)

    # -- nodes -----------------------------------------------------------------------------------------------------

    def node(self, ino: int) -> Node:
        """Return the node with an inode number. Raises NotFound if what it was is gone."""
        tree = self.tree
        node = tree.bound(ino)
        if node is not None:
            return node
        space, view_id, number = inodes.split(ino)
        if space == Space.EVENT:
            growing = tree.streams.event(view_id, number)
            return GrowingFile(tree, ino, view_id, number) if growing else EventFile(tree, ino, view_id, number)
        if space == Space.PLACE:
            make = _PLACES.get(number)
            return self._placed(ino, view_id, number) if make is None else make(tree, ino, view_id)
        if space == Space.RECORD:
            return conversation.RecordFile(tree, ino, view_id)
        if space == Space.RESOURCE:
            found = tree.resources(view_id).by_number(number)
            if isinstance(found, Folder):
                return ResourceDirectory(tree, ino, view_id, found.path)
            return resource_file(tree, ino, view_id, number)
        if space == Space.OUTPUT:
            key = tree.outputs.numbers.key(number)
            if key is None or key.view_id != view_id:
                raise NotFound("this output is no longer there")
            return OutputFile(tree, ino, key)
        path = tree.path(ino)
        if path is None:
            raise NotFound(f"there is no inode {ino}")
        # there are few of most kinds, and some remember what they listed
        node = self._fixed(ino, path)
        tree.bind(ino, node)
        return node

    def fixed(self, *path: str) -> Node:
        """Return the node at a path that belongs to no conversation."""
        return self.node(self.tree.ino(path))

    def place(self, view_id: int, place: Place) -> Node:
        """Return a node that there is once in every view, under the number that it is known by."""
        return self.node(self.tree.place(view_id, place))

    def find(self, directory: Directory, name: str) -> Node | None:
        """Return the node of a name in a directory, listed or not; None if there is none."""
        ino = directory.lookup(name)
        return None if ino is None else self.node(ino)

    def entries(self, directory: Directory, after: int) -> Iterator[DirEntry]:
        """Yield the listed entries of a directory, by position, from the first beyond ``after``."""
        listed = directory.opened()
        if isinstance(listed, Listing):
            return self._listed(listed, after)
        assert isinstance(listed, Entries)
        return listed.entries(after)

    def _listed(self, directory: Listing, after: int) -> Iterator[DirEntry]:
        for name, (place, ino, at_hand) in sorted(directory.items().items(), key=itemgetter(1)):
            position = place + FIRST_POSITION - 1
            if position <= after:
                continue
            try:
                shown = at_hand or self.node(ino).listed()
            except NotFound:
                # it has gone meanwhile
                continue
            yield DirEntry(position, name.encode(errors="surrogateescape"), shown)

    def _placed(self, ino: int, view_id: int, place: int) -> Node:
        """Return the drawing, the link, ``changes/`` or ``fs/`` at a place of a view."""
        tree = self.tree
        if place == Place.FAMILY:
            return family_drawing(self._drawings, ino, view_id)
        if place == Place.PAGE:
            return page_drawing(self._drawings, ino, view_id)
        if place == Place.DIFFS:
            return self._diffs.node(ino, view_id)
        if place == Place.SNAPSHOTS:
            return self._snapshots.node(ino, view_id)
        entry = tree.store.catalogue.entry(tree.context_at_head(view_id))
        if place == Place.FORK_LINK:
            return conversation.fork_link(tree, entry)
        return links.make_link(tree, Place(place), entry)

    def _fixed(self, ino: int, path: FixedPath) -> Node:
        """Return the node at a path that belongs to no conversation. Raises NotFound where there is none."""
        tree = self.tree
        if not path:
            return control.RootDirectory(tree, ino, path)
        if (make := _FIXED.get((path[0], len(path) - 1))) is not None:
            return make(tree, ino, path)
        match path:
            case (top,) if (text := _TEXTS.get(top)) is not None:
                return DerivedFile(ino, lambda: (len(text), tree.mounted_ms), lambda: Bytes(text), direct=False)
            case (top, name) if top == paths.HTML:
                is_index = name == paths.INDEX
                return index_drawing(self._drawings, ino) if is_index else PagesDirectory(tree, ino, path)
            case (top, view, file) if top == paths.IN_CHANGES:
                return self._diffs.node(ino, int(view), file)
            case (top, view, file) if top == paths.IN_SNAPSHOTS:
                return self._snapshots.node(ino, int(view), file)
            case (top, *_) if top == paths.BY_RESOURCE:
                return search.ResourcesDirectory(tree, ino, path, self._resources)
            case (top, name, *below) if top == paths.SEARCH and (query := search.query_of(name)) is not None:
                if not below:
                    return search.QueryDirectory(tree, ino, path, self._searches)
                if below == [search.HITS]:
                    return self._searches.file(ino, query)
            case (top, *below) if top == paths.CONTROL:
                return self._control(ino, below)
        raise NotFound(f"there is no {'/'.join(path)}")

    def _control(self, ino: int, path: Sequence[str]) -> Node:
        """Return the node at ``path`` within ``.convfs/``, which is not that itself."""
        tree = self.tree
        match path:
            case (name,) if name == control.STATS:
                return stats_file(tree, ino)
            case (name,) if name == control.STATS_SVG:
                return stats_drawing(self._drawings, ino)
            case (name,) if name == control.SETTINGS:
                return control.DiskFile(ino, tree.store.root / SETTINGS)
            case (name,) if name == control.LOG:
                return control.DiskFile(ino, tree.store.root / control.LOG)
            case (name,) if name in _CONTROL:
                return _CONTROL[name](tree, ino, (paths.CONTROL, name))
            case (top, name) if top == paths.ERRORS:
                return control.error_file(tree, ino, name)
            case (top, name) if top == paths.BLOBS:
                return control.blob_file(tree, ino, name)
            case (top, *_) if top == paths.NATIVE:
                return NativeDirectory(tree, ino, (paths.CONTROL, *path))
            case (top, tool, *below) if top == SIDECARS:
                return SidecarFile(tree, ino, tool, tuple(below))
        raise NotFound(f"there is no {'/'.join(path)} in {paths.CONTROL}")

    # -- answers ---------------------------------------------------------------------------------------------------

    def xattr(self, node: Node, name: str) -> str | None:
        """Return an extended attribute of a node, without the ``user.convfs.`` before its name. May raise Later."""
        if name == INTERNALS and isinstance(node, conversation.ConversationDirectory):
            return internals_text(node.view.conversation)
        digest = node.content_hash() if name == HELD_BY else None
        held_by = self._resources.held_by(digest) if digest else ""
        if held_by:
            return held_by
        found = node.xattrs()
        return "".join(f"{key}: {value}\n" for key, value in found.items()) if name == ALL else found.get(name)

    def describe(self, ino: int) -> str:
        """Return the path of a file, as people would name it, for messages."""
        node = self.node(ino)
        if not isinstance(node, ViewNode):
            return "/".join(self.tree.path(ino) or (str(ino),))
        conversation = node.view.conversation
        return f"{conversation.project}/{shown_name(conversation)}/{node.label()}"

    def forget_all(self) -> None:
        """Forget all findings: stored contents have changed."""
        self._searches.forget()
        self._resources.forget()
        self.tree.shown_contents.forget()
        self._diffs.forget()
        self._snapshots.forget()
