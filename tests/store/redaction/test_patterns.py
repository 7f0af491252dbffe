"""Texts that look like a secret, and those that a pattern of one's own finds."""

import json
import random
import string

import pytest

from store.errors import UsageError
from store.redaction.wanted import KINDS, built_in, by_pattern, own, texts_of

_MADE_UP = random.Random(7)


def made_up(count: int, letters: str = string.ascii_letters + string.digits) -> str:
    # put together here, so that no scanner takes this file for one that holds secrets
    return "".join(_MADE_UP.choices(letters, k=count))


HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits
EXAMPLES = {
    "anthropic": "sk-ant-" + "api03-" + made_up(40),
    "openai": "sk-" + "proj-" + made_up(48),
    "stripe": "sk_" + "live_" + made_up(24),
    "github": "ghp_" + made_up(36),
    "gitlab": "glpat-" + made_up(20),
    "aws": "AKIA" + made_up(16, UPPER),
    "google": "AIza" + made_up(35),
    "slack": "xox" + "b-" + made_up(24),
    "npm": "npm_" + made_up(36),
    "pypi": "pypi-" + "AgE" + made_up(60),
    "hugging-face": "hf_" + made_up(34),
    "digitalocean": "dop_v1_" + made_up(64, HEX),
    "sendgrid": "SG." + made_up(22) + "." + made_up(43),
    "jwt": f"eyJ{made_up(20)}.eyJ{made_up(40)}.{made_up(43)}",
    "private-key": f"-----BEGIN RSA PRIVATE KEY-----\n{made_up(64)}\n{made_up(30)}==\n-----END RSA PRIVATE KEY-----",
    "password-in-url": "pa55-" + made_up(8),
    "user-and-password": "admin:pw",
    "assigned": made_up(18) + "7a",
}


def test_every_kind_has_an_example() -> None:
    assert {name for name, *_rest in KINDS} | {"assigned"} == EXAMPLES.keys()


@pytest.mark.parametrize("nested", [0, 1, 2])
@pytest.mark.parametrize("kind", EXAMPLES)
def test_kinds_are_found_in_records(kind: str, nested: int) -> None:
    secret = EXAMPLES[kind]
    around = {
        "password-in-url": "see postgres://me:{}@host/db",
        "user-and-password": "curl -s -u {} https://host",
        "assigned": 'export API_KEY="{}" # mine',
    }
    text = around.get(kind, "it is {}, keep it").format(secret)
    for _ in range(nested):
        text = json.dumps({"text": text})
    data = json.dumps({"message": text}).encode()
    assert (kind, secret.encode()) in list(built_in(data))


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("DB_PASSWORD=hunter2hunter2", "hunter2hunter2"),
        ("export PGPASSWORD='hunter2'", "hunter2"),
        ("db_pass: hunter2hunter2", "hunter2hunter2"),
        ("mysql://root:hunter2hunter2@db", "hunter2hunter2"),
        ("curl --user=admin:pw https://host", "admin:pw"),
        ("curl -X POST \\\n  -u 'admin:pw' https://host", "admin:pw"),
        ("curl -uadmin:hunter2hunter2 https://host", "hunter2hunter2"),
        ('["curl", "-u", "admin:pw"]', "admin:pw"),
    ],
)
def test_passwords_that_people_choose(text: str, secret: str) -> None:
    for data in (text, json.dumps({"command": text})):
        assert {found for _kind, found in built_in(data.encode())} == {secret.encode()}


@pytest.mark.parametrize(
    "text",
    [
        '{"sessionId":"0d3f0000-0000-4000-8000-000000000001","token_count":123456789012}',
        "task-management-of-everything and risk-assessment-for-all-of-us",
        '"apiKeySource":"ANTHROPIC_API_KEY_FROM_THE_ENVIRONMENT"',
        "https://example.com/a:b@c and git@github.com:me/project.git",
        'password: "$DATABASE_PASSWORD"',
        "token = self.tokens.next_token()",
        "password = get_password2(user)",
        "password1 = forms.CharField()",
        "password: str",
        "curl -u $USER:$PASSWORD https://host",
        "curl --user-agent some:thing --url http://host:80",
        "docker run -u 1000:1000 image",
        "eyJust a word. eyJ",
    ],
)
def test_words_paths_and_ids_are_no_secrets(text: str) -> None:
    assert list(built_in(text.encode())) == []


def test_a_pattern_sees_texts_as_they_are_shown() -> None:
    inner = json.dumps({"note": 'the "code" is\nxyzzy-42\tnow'})
    data = json.dumps({"a": inner, "password": "code plugh-17"}).encode()
    assert set(by_pattern(own(r"(?:xyzzy|plugh)-\d+"), data)) == {b"xyzzy-42", b"plugh-17"}
    # a line of what is shown, not of the record
    assert set(by_pattern(own("is\nxyzzy.*"), data)) == {b"is\nxyzzy-42\tnow"}
    assert list(by_pattern(own("password"), b"the password")) == [b"password"]
    assert list(by_pattern(own("[a-z]{2}"), data)) == []


def test_texts_of_what_is_no_json_are_the_whole() -> None:
    assert list(texts_of(b'say "yes"')) == [b'say "yes"']
    assert list(texts_of(b"\xff\x00")) == [b"\xff\x00"]


def test_patterns_that_cannot_be_meant_are_refused() -> None:
    with pytest.raises(UsageError, match="is no pattern"):
        own("(")
    with pytest.raises(UsageError, match="would match everywhere"):
        own("x*")
