"""The projects of sessions: repositories, whatever the directory in them that a tool ran in.

A worktree, a subdirectory and a clone under another path are one project, called as the repository is at its remote, or
as its directory. Git's own files tell, where they are on this machine; for a directory that is gone, the remote that
the session names, and the shape of its path. Settings decide otherwise, and so does who moves a project.
"""

import configparser
import os
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from store.events.event import utf8
from store.formats.core.format import About, last_part
from store.importing.walk import leads_into, own_mounts
from store.index.catalogue import Catalogue

_HIGHEST = 40
_LARGEST_CONFIG = 1 << 20
_WORKTREES = ("worktrees", ".worktrees")
_BY_ID = (".codex",)
"""Directories whose worktrees are in one for each id: ``.codex/worktrees/ID/REPOSITORY``."""
_BY_NAME = (".cursor",)
"""Directories with ``worktrees/REPOSITORY/ID``."""
_INSIDE = (".claude",)
"""Directories of a repository in which a tool makes worktrees of it."""
_remote_name = re.compile(r"([^/:\\]+?)(?:\.git)?/*").fullmatch


class Repositories:
    """The repositories of directories, each of which is looked for once. Used for one import."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Path | None, str]] = {}

    def of(self, directory: str) -> tuple[Path | None, str]:
        """Return the main directory of the repository that a directory is in, and its remote, as git's files tell."""
        if (known := self._known.get(directory)) is None:
            known = self._known[directory] = _on_disk(Path(directory)) if directory.startswith("/") else (None, "")
        return known


def repository_project(repositories: Repositories, about: About) -> str:
    """Return the name of the repository that a session ran in; "" if it does not say in which directory."""
    directory = about.extra.get("cwd", "")
    if not directory or not about.placed or about.project != last_part(directory):
        return about.project
    root, remote = repositories.of(directory)
    remote = remote or about.extra.get("repository", "")
    return _named_by(remote) or (root.name if root else last_part(_main_tree(directory)))


def project_for(
    catalogue: Catalogue, rules: Mapping[str, tuple[str, ...]], repositories: Repositories, about: About
) -> str:
    """Return the project of a session: as settings say, else that which its repository's project was moved to."""
    found = repository_project(repositories, about)
    directory, remote = about.extra.get("cwd", ""), about.extra.get("repository", "")
    for project, patterns in rules.items():
        if any(_fits(pattern, found, directory, remote) for pattern in patterns):
            return project
    seen = {found}
    while moved := _moved_to(catalogue, found):
        if moved in seen:
            break
        seen.add(found := moved)
    return found


def _moved_to(catalogue: Catalogue, project: str) -> str:
    """Return where a project was moved to, "" if it was not."""
    # a directory may have any bytes for a name
    filed = utf8(project).decode()
    return next((one.project for one in catalogue.by_origin("project", filed) if one.name), "")


def _fits(pattern: str, project: str, directory: str, remote: str) -> bool:
    """Return whether a rule means a session: by its directory or one above that, its remote, or its project."""
    if not pattern.startswith(("/", "~")):
        return fnmatchcase(project, pattern) or (bool(remote) and fnmatchcase(_plain(remote), _plain(pattern)))
    pattern = os.path.expanduser(pattern).rstrip("/")
    path = PurePosixPath(directory)
    return any(fnmatchcase(str(folder), pattern) for folder in (path, *path.parents))


def _plain(remote: str) -> str:
    """Return a remote without what differs between ways to it: ``github.com/acme/cli``."""
    plain = re.sub(r"^(?:[a-z+]+://)?(?:[^@/]*@)?", "", remote.strip())
    return re.sub(r"^([^/:]+):(?!/)", r"\1/", plain).removesuffix("/").removesuffix(".git").lower()


def _named_by(remote: str) -> str:
    found = _remote_name(_plain(remote).rpartition("/")[2])
    return found[1] if found else ""


def _main_tree(directory: str) -> str:
    """Return the directory of the repository of a worktree, going by the shape of its path; any other as it is."""
    parts = directory.replace("\\", "/").rstrip("/").split("/")
    for at, part in enumerate(parts):
        if part not in _WORKTREES or not 0 < at < len(parts) - 1:
            continue
        above = parts[at - 1]
        if above in _BY_ID:
            return "/".join(parts[: at + 3])
        if above in _BY_NAME:
            return "/".join(parts[: at + 2])
        return "/".join(parts[: at - 1] if above in _INSIDE else parts[:at]) or directory
    return directory


def _on_disk(directory: Path) -> tuple[Path | None, str]:
    try:
        if leads_into(directory, own_mounts()):
            return None, ""
        for folder in (directory, *directory.parents)[:_HIGHEST]:
            git = folder / ".git"
            if folder == Path.home() or not os.path.lexists(git):
                continue
            common = _common(git)
            return (common.parent if common.name == ".git" else folder), _remote_of(common)
    except (OSError, ValueError):
        pass
    return None, ""


def _common(git: Path) -> Path:
    """Return git's directory of a repository by the ``.git`` of it, or of a worktree."""
    if git.is_dir():
        return git
    kept = Path(os.path.normpath(git.parent / git.read_text().strip().removeprefix("gitdir:").strip()))
    if (told := kept / "commondir").is_file():
        return Path(os.path.normpath(kept / told.read_text().strip()))
    return kept


def _remote_of(common: Path) -> str:
    path = common / "config"
    if not path.is_file() or path.stat().st_size > _LARGEST_CONFIG:
        return ""
    config = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        config.read_string("\n".join(line.strip() for line in path.read_text(errors="replace").splitlines()))
    except configparser.Error:
        return ""
    remotes = {section: url for section in config.sections() if (url := config.get(section, "url", fallback=""))}
    remotes = {section: url for section, url in remotes.items() if section.startswith("remote ")}
    return remotes.get('remote "origin"') or next(iter(remotes.values()), "")
