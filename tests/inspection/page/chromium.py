"""Headless Chromium, driven by the DevTools protocol over its pipe: what pages do is asked of a browser."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--remote-debugging-pipe",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist",
    "--window-size=1600,1000",
)
_START = """
import fcntl, os, sys
commands, answers = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(commands, 3)
os.dup2(answers, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Starts a program that reads commands from file descriptor 3 and writes answers to 4."""
FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))"
"""When two more frames have been drawn."""


def program() -> str | None:
    """Where Chromium is; None where it is not installed."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Chromium:
    """A browser with one page, without network; `events` are what it said."""

    def __init__(self, path: str, *flags: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="hloom-chromium-", ignore_cleanup_errors=True)
        commands, self._out = os.pipe()
        self._in, answers = os.pipe()
        arguments = (path, *FLAGS, *flags, f"--user-data-dir={self._folder.name}", "about:blank")
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, str(commands), str(answers), *arguments],
            pass_fds=(commands, answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._waiting = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        try:
            self._attach()
        except (OSError, RuntimeError, TimeoutError):
            self._process.kill()
            self._release()
            raise

    def _attach(self) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=1600, height=1000, deviceScaleFactor=1, mobile=False)
        conditions = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        self.call("Network.emulateNetworkConditions", offline=True, **conditions)

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the browser that this started."""
        try:
            self._session = None
            self.call("Browser.close", seconds=5)
        except (OSError, TimeoutError):
            self._process.kill()
        self._release()

    def _release(self) -> None:
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        self._folder.cleanup()

    @property
    def process_id(self) -> int:
        """Of the browser; its renderers are children."""
        return self._process.pid

    def call(self, method: str, *, seconds: float = 120, **parameters: Any) -> dict[str, Any]:
        """Send one command and give its result; raises RuntimeError for one that fails, TimeoutError where none comes."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + seconds
        while True:
            answer = self._read(deadline)
            if answer.get("id") != self._number:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            else:
                return answer["result"]

    def _read(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._waiting:
            ready, _, _ = select.select([self._in], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser says nothing")
            received = os.read(self._in, 1 << 20)
            if not received:
                raise OSError("the browser is gone")
            self._waiting += received
        message, _, self._waiting = self._waiting.partition(b"\0")
        return json.loads(message)

    def open(self, path: Path) -> None:
        """Open a file."""
        self.call("Page.navigate", url=path.resolve().as_uri())

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited; raises RuntimeError where it throws."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"])[:2000])
        return result["result"].get("value")

    def wait(self, condition: str, seconds: float = 60) -> Any:
        """Evaluate an expression until it is true."""
        deadline = time.monotonic() + seconds
        while True:
            value = self.evaluate(condition)
            if value:
                return value
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {seconds} s: {condition}")
            time.sleep(0.03)

    def click(self, x: float, y: float, count: int = 1, modifiers: int = 0) -> None:
        """Click at a point; modifier 1 is Alt."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.evaluate(FRAMES)
        for number in range(1, count + 1):
            for kind_of_event in ("mousePressed", "mouseReleased"):
                self.call(
                    "Input.dispatchMouseEvent",
                    type=kind_of_event,
                    x=x,
                    y=y,
                    button="left",
                    clickCount=number,
                    modifiers=modifiers,
                )

    def click_element(self, expression: str, modifiers: int = 0) -> None:
        """Click in the middle of an element."""
        box = self.wait(
            f"(() => {{ const element = {expression}; if (!element) return null;"
            " element.scrollIntoView({ block: 'nearest' }); const box = element.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2] })()"
        )
        self.click(*box, modifiers=modifiers)

    def type(self, text: str) -> None:
        """Put a text into the element that has the focus."""
        self.call("Input.insertText", text=text)

    def screenshot(self) -> bytes:
        """The page as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def resident_megabytes(self) -> float:
        """What the largest of the browser's renderers has in memory."""
        sizes = [0.0]
        for folder in Path("/proc").iterdir():
            try:
                command = (folder / "cmdline").read_bytes() if folder.name.isdecimal() else b""
                if b"--type=renderer" in command and self._folder.name.encode() in command:
                    status = (folder / "status").read_text()
                    sizes.append(int(status.partition("VmRSS:")[2].split()[0]) / 1024)
            except (OSError, IndexError):
                continue  # it has ended
        return max(sizes)

    def requests(self) -> list[str]:
        """The URLs that the page asked for, without those of data that it holds itself."""
        asked = (
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        )
        return [url for url in asked if not url.startswith(("data:", "blob:", "about:"))]

    def problems(self) -> list[str]:
        """Uncaught errors, errors on the console, and what the browser refused."""
        said: list[str] = []
        for event in self.events:
            method, parameters = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                said.append(str(parameters["exceptionDetails"])[:500])
            elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
                said.append(" ".join(str(argument.get("value", argument)) for argument in parameters["args"])[:500])
            elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
                said.append(parameters["entry"]["text"][:500])
        return said


TABS = "[...document.getElementById('page').shadowRoot.querySelectorAll('header button')]"
PANEL = (
    "[...document.getElementById('page').shadowRoot.querySelectorAll('main > section')].find(panel => !panel.hidden)"
)


def open_tab(browser: Chromium, name: str) -> str:
    """Open a tab of a page, and give the text of its panel."""
    browser.evaluate(f"{TABS}.find(tab => tab.textContent === {json.dumps(name)}).click()")
    if name == "Instructions":
        browser.wait(f"Boolean({PANEL} && {PANEL}.querySelector('.rows .row'))")
    return browser.wait(f"{PANEL} && {PANEL}.innerText")


def wait_for_graph(browser: Chromium, seconds: float = 120) -> None:
    """Wait until the graph is drawn: the viewer has counted the nodes and says no more that it works."""
    text = "document.querySelector('app-root') && document.querySelector('app-root').innerText.toLowerCase()"
    browser.wait(f"(text => text && text.includes('op node count') && !text.includes('processing'))({text})", seconds)
    browser.evaluate(FRAMES)
