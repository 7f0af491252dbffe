"""Messages that a model is sent: asking what it was sent already, and all of them, of a talk in which files come again.

Beside it stands an agent that holds the whole talk in memory as parsed JSON and looks through it.

By itself: ``python -m tests.bench.delivery [--quick] [--rounds N] [--dir DIR]``.
"""

import json
import time
from pathlib import Path

from tests.bench.harness import fresh, note, options, parse, print_table, ratio, seconds

EXCHANGES = 3000
FILES = 50
CONTENT = "".join(f"def function_{number}(first, second): ...\n" for number in range(60))


def bench(directory: Path, *, quick: bool, rounds: int | None) -> None:
    """Run it and print the table."""
    from fusefs.text.render import FileRenderer
    from store.delivery.answers import Offered
    from store.delivery.context import Context
    from store.delivery.deliveries import Deliveries
    from store.store import Store

    exchanges, rounds = (EXCHANGES // 10, rounds or 2) if quick else (EXCHANGES, rounds or 5)
    talk = _talk(exchanges)
    with Store.open(fresh(directory / "delivery"), renderer=FileRenderer()) as store:
        context = store.contexts.create(metadata={"project": "p", "name": "talk"}).context
        for event in talk:
            store.contexts.append(context, json.dumps(event).encode(), "jp.event.v1")
        deliveries = Deliveries(store.library, store.settings)
        offered = [Offered("file:///0", text=CONTENT)]
        times: dict[str, list[float]] = {
            name: [] for name in ("asked first", "asked again", "all messages", "in memory")
        }
        for number in range(rounds):
            note(f"delivery: round {number + 1} of {rounds}")
            deliveries.forget()
            for name in ("asked first", "asked again"):
                store.contexts.append(context, b'{"type":"chat_response","message":"so"}', "jp.event.v1")
                before = time.process_time()
                [answer] = deliveries.check(context, offered)
                times[name].append(time.process_time() - before)
            before = time.process_time()
            sent = sum(
                map(
                    len,
                    Context(store.library, store.settings, store.library.conversation(context), "anthropic").messages(),
                )
            )
            times["all messages"].append(time.process_time() - before)
            before = time.process_time()
            found = _last(talk, "file:///0")
            times["in memory"].append(time.process_time() - before)
            assert bool(answer.message) == (found is not None)
        whole = sum(len(CONTENT) for event in talk if event["type"] == "tool_call_response")
    best = {name: min(found) for name, found in times.items()}
    rows = [[name, seconds(value), ratio(value, best["in memory"])] for name, value in best.items()]
    print_table(f"What a model is sent, {exchanges} exchanges, processor time", ["", "", "of looking in memory"], rows)
    print(f"sent {sent / 1e6:.1f} MB of a talk in which tools returned {whole / 1e6:.1f} MB", flush=True)


def _talk(exchanges: int) -> list[dict[str, object]]:
    stamp = {"timestamp": "2026-03-05 19:00:00.0"}
    talk: list[dict[str, object]] = []
    for number in range(exchanges):
        resource = {"uri": f"file:///{number % FILES}", "mimeType": "text/plain", "text": CONTENT}
        talk += [
            {**stamp, "type": "chat_request", "content": f"request {number}"},
            {**stamp, "type": "tool_call_request", "id": f"call_{number}", "name": "read", "arguments": {}},
            {
                **stamp,
                "type": "tool_call_response",
                "id": f"call_{number}",
                "content": [{"type": "resource", "resource": resource}],
            },
            {**stamp, "type": "chat_response", "message": f"answer {number}"},
        ]
    return talk


def _last(talk: list[dict[str, object]], uri: str) -> int | None:
    """Return how many requests ago a file was last returned, if that is not too long ago."""
    ago = 0
    for event in reversed(talk):
        match event:
            case {"type": "chat_request"}:
                ago += 1
            case {"content": [{"resource": {"uri": known, "text": text}}]} if known == uri and text == CONTENT:
                return ago if ago <= 30 else None
    return None


if __name__ == "__main__":
    arguments = parse(options(__doc__ or ""))
    bench(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)
