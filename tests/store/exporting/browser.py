"""A headless Chromium, told what to do over a pipe in its DevTools protocol."""

import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 30
GONE = -32000
"""The code of the error where a page was left, or its scripts were ended, before they had answered."""


def program() -> str | None:
    """Return a browser of this machine, None if it has none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Page:
    """A browser's page, and all that it did since the page was opened.

    ``requests`` are the addresses that it asked for, ``complaints`` what it said on its console, ``dialogs`` the
    texts of dialogs that scripts opened.
    """

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing
        self._rest = b""
        self._number = 0
        self._session = ""
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.dialogs: list[str] = []
        self._loaded = False
        (target,) = [one for one in self.do("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        attached = self.do("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.do(f"{domain}.enable")

    def do(self, method: str, **parameters: object) -> dict[str, Any]:
        """Have the browser do something, and return its answer."""
        answer = self._answer(method, parameters)
        assert "error" not in answer, answer
        return answer["result"]

    def _answer(self, method: str, parameters: dict[str, object]) -> dict[str, Any]:
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writing, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                return answer

    def open(self, path: Path, width: int = 1000, height: int = 800, scheme: str = "light") -> None:
        """Show a page on a screen of that size, or a phone's, for somebody who likes it light, or dark."""
        phone = width < 600
        self.do("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.do("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.requests, self.complaints, self.dialogs = [], [], []
        self._loaded = False
        self.do("Page.navigate", url=path.as_uri())
        while not self._loaded:
            self._next()
        # what a page does right after it has been loaded
        self.value("new Promise(done => setTimeout(done, 100))")

    def value(self, expression: str) -> Any:  # noqa: ANN401  (as JavaScript has it)
        """Return what an expression of JavaScript is; the page itself may be forbidden to run any."""
        told = self.do("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def click(self, selector: str) -> None:
        """Click on the middle of the first element that ``selector`` finds."""
        place = self.value(
            f"(element => {{ element.scrollIntoView({{block: 'center'}}); const box = element.getBoundingClientRect();"
            f" return [box.x + box.width / 2, box.y + box.height / 2]; }})(document.querySelector({selector!r}))"
        )
        for what in ("mousePressed", "mouseReleased"):
            self.do("Input.dispatchMouseEvent", type=what, x=place[0], y=place[1], button="left", clickCount=1)

    def press(self, key: str) -> None:
        """Press a key."""
        code, text = {"Tab": (9, ""), "Enter": (13, "\r")}[key]
        self.do("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=code, text=text)
        self.do("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def type(self, text: str) -> None:
        """Type a text where the focus is."""
        self.do("Input.insertText", text=text)

    def until(self, condition: str) -> None:
        """Wait until a condition, in JavaScript, holds, also on a page that is opened meanwhile."""
        end = time.monotonic() + SECONDS
        while True:
            told = self._answer("Runtime.evaluate", {"expression": condition, "returnByValue": True})
            # who is asked while another page is opened may be gone before the answer
            assert told.get("error", {}).get("code") in (None, GONE), told
            if "result" in told and told["result"]["result"].get("value") is True:
                return
            assert time.monotonic() < end, condition
            time.sleep(0.05)

    def is_seen(self, selector: str) -> bool:
        """Say whether the first element that ``selector`` finds is to be seen, once scrolled to."""
        return self.value(f"document.querySelector({selector!r}).checkVisibility({{contentVisibilityAuto: false}})")

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            assert select.select([self._reading], [], [], SECONDS)[0], "the browser says nothing"
            data = os.read(self._reading, 1 << 16)
            assert data, "the browser has ended"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        told = message.get("params", {})
        match message.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Page.javascriptDialogOpening":
                self.dialogs.append(told["message"])
                reply = {"id": 0, "method": "Page.handleJavaScriptDialog", "sessionId": self._session}
                os.write(self._writing, json.dumps(reply | {"params": {"accept": True}}).encode() + b"\0")
            case "Network.requestWillBeSent":
                self.requests.append(told["request"]["url"])
            case "Log.entryAdded":
                self.complaints.append(told["entry"]["text"])
            case "Runtime.exceptionThrown":
                self.complaints.append(told["exceptionDetails"]["text"])
        return message


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """Run a browser whose profile lies in ``folder``."""
    (their_reading, writing), (reading, their_writing) = os.pipe(), os.pipe()
    options = ["--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    # without it none runs as root, nor in most containers
    options += ["--no-sandbox", "--disable-dev-shm-usage", f"--user-data-dir={folder}", "--remote-debugging-pipe"]
    # it reads from 3 and writes to 4
    script = f'exec "$@" 3<&{their_reading} 4>&{their_writing}'
    with subprocess.Popen(
        ["bash", "-c", script, "bash", program() or "", *options, "about:blank"],
        pass_fds=(their_reading, their_writing),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        os.close(their_reading)
        os.close(their_writing)
        try:
            page = Page(reading, writing)
            yield page
            page._session = ""
            page.do("Browser.close")
            process.wait(SECONDS)
        finally:
            os.close(reading)
            os.close(writing)
            # what it has begun, too
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
