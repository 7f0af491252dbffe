"""``convfs context``: what a model should be sent, here and through a daemon."""

import json

from tests.fusefs.cli.user import User, serving

LONG = "".join(f"def function_{number}(): ...\n" for number in range(20))


def conversation(user: User) -> str:
    """Bring in a talk in which a file is read twice, and return its name."""
    path = user.session("shop", "a", "Look")
    lines = []
    for number in range(2):
        call, result = f"toolu_{number}", [{"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": {}}]
        file = {"filePath": "/shop/a.py", "content": LONG, "startLine": 1, "numLines": 20, "totalLines": 20}
        lines += [
            {"type": "assistant", "message": {"role": "assistant", "content": result}},
            {
                "type": "user",
                "message": {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": call, "content": LONG}],
                },
                "toolUseResult": {"type": "text", "file": file},
            },
        ]
    with path.open("a") as file_of_lines:
        for number, line in enumerate(lines):
            about = {"parentUuid": None, "sessionId": "a", "uuid": f"l{number}", "cwd": "/home/ada/shop"}
            stamp = f"2026-03-05T19:32:{number:02}.000Z"
            file_of_lines.write(json.dumps({**about, "timestamp": stamp, **line}) + "\n")
    user.session("shop", "a", "And now?")
    user.run("import")
    (found,) = user.list()
    return f"shop/{found['name']}"


def test_the_messages_go_out_and_what_was_saved_is_told_beside_them(user: User) -> None:
    name = conversation(user)
    done = user.convfs("context", name)
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert [message["role"] for message in told["messages"]] == ["user", "assistant", "user", "assistant", "user"]
    assert done.stdout.count("Unchanged: as in event") == 1
    assert done.stderr.startswith("1 content that was sent before is only referred to: ")
    assert done.stderr.count("\n") == 1
    document = json.loads(user.run("context", name, "--json"))
    assert document["messages"] == told["messages"]
    saved = document["saved"]
    assert f"{saved['bytes']} bytes, about {saved['tokens']} tokens, saved" in done.stderr
    assert saved["references"] == 1


def test_forms_and_the_last_exchanges(user: User) -> None:
    name = conversation(user)
    lines = user.convfs("context", name, "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line)["role"] for line in lines] == ["user", "assistant", "tool", "assistant", "tool", "user"]
    assert json.loads(user.run("context", name, "--format", "openai", "--last", 1)) == {
        "messages": [{"role": "user", "content": "And now?"}]
    }
    assert "is not in the range x>=1" in user.fails("context", name, "--last", 0, code=2)
    assert "'xml' is not one of" in user.fails("context", name, "--format", "xml", code=2)
    assert "no conversation is called nothing" in user.fails("context", "nothing")


def test_a_daemon_answers_the_same(user: User) -> None:
    name = conversation(user)
    here = user.convfs("context", name).stdout, user.run("context", name, "--json")
    with serving(user):
        assert (user.convfs("context", name).stdout, user.run("context", name, "--json")) == here


def test_settings_hold_and_wrong_ones_are_told(user: User) -> None:
    name = conversation(user)
    settings = user.store / "convfs.toml"
    settings.write_text("[tools.Read]\ndeduplicate = false\n")
    assert user.run("context", name).count("Unchanged: as in event") == 0
    settings.write_text("[conversation.deduplication]\nmin_bytes = 9999\nmin_byte = 1\n")
    done = user.convfs("context", name)
    assert "unknown setting 'conversation.deduplication.min_byte' is ignored" in done.stderr
    assert "Unchanged: as in event" not in done.stdout
    settings.write_text("[conversation]\ndeduplication = false\n")
    assert "conversation.deduplication must be a section of its own" in user.fails("context", name)
