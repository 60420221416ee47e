# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A Chromium without a window, driven through a pipe by its DevTools protocol."""

import base64
import json
import os
import select
import shutil
import subprocess
import time

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
TIMEOUT = 60


def find():
    """The path of a Chromium, or None."""
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


class Browser:
    """One page. `errors` has what its scripts have thrown and what it could not load."""

    def __init__(self, folder):
        to_browser, self._to = os.pipe()
        self._from, from_browser = os.pipe()
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--no-first-run",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--remote-debugging-pipe",
            f"--user-data-dir={folder}",
            "about:blank",
        ]
        command = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["bash", "-c", command, find(), *options],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._bytes = b""
        self._number = 0
        self.errors = []
        self._session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    def close(self):
        try:
            self._session = None
            self.call("Browser.close")
            self._process.wait(TIMEOUT)
        except (OSError, RuntimeError, TimeoutError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def call(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def _read(self):
        deadline = time.monotonic() + TIMEOUT
        while b"\0" not in self._bytes:
            if not select.select([self._from], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            piece = os.read(self._from, 1 << 20)
            if not piece:
                raise RuntimeError("the browser has ended")
            self._bytes += piece
        line, self._bytes = self._bytes.split(b"\0", 1)
        message = json.loads(line)
        parameters = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(parameters["exceptionDetails"])[:2000])
        elif message.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"]["text"] + " " + parameters["entry"].get("url", ""))
        return message

    def open(self, url, width=1200, height=800, dark=False):
        self.resize(width, height)
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        self.call("Page.navigate", url=url)

    def resize(self, width, height):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def run(self, expression):
        """The value of a JavaScript expression, which may be a promise."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"])[:2000])
        return result["result"].get("value")

    def wait(self, expression):
        """Until the expression is true; its value."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            value = self.run(expression)
            if value:
                return value
            if time.monotonic() > deadline:
                raise TimeoutError(f"never true: {expression}\n{self.errors}")
            time.sleep(0.05)

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot")["data"]))
