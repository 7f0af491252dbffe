"""``convfs mcp``, asked over its standard input and output by the protocol's own client."""

import re
import sys
from collections.abc import Awaitable, Callable

import anyio
import pytest
from mcp import Client, StdioServerParameters

from fusefs.cli.main import COMMANDS
from tests.fusefs.cli.user import ROOT, User

NAME = "2026-03-05-fix-the-login-bug"


@pytest.fixture
def shop(user: User) -> User:
    user.session("shop", "a", "Fix the login bug", "It compares addresses by case.", "Thanks", "You are welcome.")
    user.session("garden", "b", "Water the roses", "Done.")
    user.run("import")
    return user


def served(user: User, *options: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "fusefs.cli", "mcp", *options],
        env=user.environment | {"PYTHONPATH": str(ROOT)},
        cwd=user.home,
    )


def ask(user: User, question: Callable[[Client], Awaitable[None]], *options: str) -> None:
    async def asking() -> None:
        async with Client(served(user, *options)) as client:
            await question(client)

    anyio.run(asking)


async def text_of(client: Client, tool: str, **arguments: object) -> str:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    return "".join(part.text for part in result.content if part.type == "text")


def test_an_agent_searches_lists_and_reads(shop: User) -> None:
    async def question(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"search", "list_conversations", "read_conversation", "where_is_file"}
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools.values())
        assert await text_of(client, "search", query="addresses case") == (
            f"shop/{NAME}, event 2 (assistant), 2026-03-05\n    It compares addresses by case."
        )
        assert await text_of(client, "search", query="nowhere") == "nothing was found"
        listed = (await text_of(client, "list_conversations")).splitlines()
        assert sorted(line.split("  ")[0] for line in listed) == ["garden/2026-03-05-water-the-roses", f"shop/{NAME}"]
        assert await text_of(client, "list_conversations", words="ROSES") in listed
        whole = await text_of(client, "read_conversation", conversation="login")
        assert [line[:4] for line in whole.splitlines() if line.startswith("## ")] == ["## 1", "## 2", "## 3", "## 4"]
        part = await text_of(client, "read_conversation", conversation=f"shop/{NAME}", first=2, last=3)
        assert [line[:4] for line in part.splitlines() if line.startswith("## ")] == ["## 2", "## 3"]
        assert await text_of(client, "where_is_file", path="/nowhere") == "nowhere"
        wrong = await client.call_tool("read_conversation", {"conversation": "nothing"})
        assert wrong.is_error
        assert "no conversation is called nothing" in str(wrong.content)

    ask(shop, question)


def test_a_long_conversation_is_read_in_parts(user: User) -> None:
    user.session("shop", "a", *("many words " * 500 for _ in range(20)))
    user.run("import")

    async def question(client: Client) -> None:
        seen: list[int] = []
        first = 1
        while first:
            text = await text_of(client, "read_conversation", conversation="1", first=first)
            assert len(text) < 60_000
            seen += [int(line.split()[1]) for line in text.splitlines() if line.startswith("## ")]
            first = int(text.partition("go on with first=")[2].rstrip("]") or 0)
        assert seen == list(range(1, 21))

    ask(user, question)


def test_only_with_write_anything_can_be_changed(shop: User) -> None:
    async def question(client: Client) -> None:
        made = await text_of(client, "fork_conversation", conversation="login", name="another way", at=2)
        assert made == "shop/another way"

    ask(shop, question, "--write")
    assert {line["name"] for line in shop.list()} >= {NAME, "another way"}


def test_the_skill_is_where_agents_look(user: User) -> None:
    paths = [user.home / folder / "skills/convfs/SKILL.md" for folder in (".claude", ".codex")]
    assert user.run("install-skill") == "".join(f"{path}\n" for path in paths)
    assert user.run("install-skill") == "".join(f"{path} is there already\n" for path in paths)
    text = paths[0].read_text()
    assert text.startswith("---\nname: convfs\ndescription: ")
    assert [word for word in re.findall(r"`convfs ([a-z-]+)", text) if word not in COMMANDS] == []
    paths[1].write_text("another skill")
    assert "move it away" in user.fails("install-skill")
    paths[1].write_text("---\nname: convfs\nof an earlier version")
    user.run("install-skill")
    assert paths[1].read_text() == text
    assert user.run("install-skill", "--remove") == "".join(f"removed {path}\n" for path in paths)
    assert not paths[0].parent.exists()
