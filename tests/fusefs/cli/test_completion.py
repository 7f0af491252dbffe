"""Completion in a real shell: the script that ``convfs completion`` prints, asked as the shell asks it."""

import subprocess
import sys

import pytest

from tests.fusefs.cli.user import ROOT, User

NAME = "2026-03-05-fix-the-login-bug"
ASK = """
eval "$(convfs completion bash)"
COMP_WORDS=(convfs "$@")
COMP_CWORD=$#
_convfs_completion convfs
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def shop(user: User) -> User:
    user.session("shop", "a", "Fix the login bug")
    user.run("import")
    command = user.home / "bin/convfs"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m fusefs.cli "$@"\n')
    command.chmod(0o755)
    return user


def complete(user: User, *words: str) -> list[str]:
    """Return what bash makes of the last of some words behind ``convfs``."""
    environment = user.environment | {"PATH": f"{user.home}/bin:/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "-c", ASK, "bash", *words], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_commands_and_options_and_conversations(shop: User) -> None:
    assert complete(shop, "exp") == ["export"]
    assert complete(shop, "export", "--for") == ["--format"]
    assert complete(shop, "show", "sh") == [f"shop/{NAME}"]
    assert complete(shop, "log", "shop/20") == [f"shop/{NAME}"]
    assert complete(shop, "export", "2026") == [NAME]
    assert complete(shop, "fork", "nothing") == []
    assert complete(shop, "--store", str(shop.home / "nowhere"), "show", "") == []


@pytest.mark.parametrize(("shell", "word"), [("zsh", "compdef"), ("fish", "complete --no-files")])
def test_other_shells_have_scripts_of_their_own(user: User, shell: str, word: str) -> None:
    assert word in user.run("completion", shell)


def test_another_shell_is_told(user: User) -> None:
    assert "'bash', 'zsh', 'fish'" in user.fails("completion", "tcsh", code=2)
