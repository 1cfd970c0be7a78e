"""Runs a page in headless Chromium: what the page posts to /result comes back."""

from __future__ import annotations

import contextlib
import http.server
import json
import queue
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from cuvil.integrations.demo.server import ISOLATED, Pages

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--no-default-browser-check",
    "--disable-extensions", "--mute-audio", "--window-size=1000,1000",
)  # fmt: skip



def find_browser() -> str | None:
    """The program, or None where there is none."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class _Handler(Pages):
    """Pages; /result is where they post to."""

    def __init__(self, *args: Any, results: queue.Queue[Any], **more: Any) -> None:
        self.results = results
        super().__init__(*args, **more)

    def do_POST(self) -> None:
        """Takes the page's result."""
        length = int(self.headers["content-length"])
        self.results.put(json.loads(self.rfile.read(length)))
        self.send_response(204)
        self.end_headers()


@contextlib.contextmanager
def serving(folder: Path, isolated: bool = True) -> Iterator[tuple[str, queue.Queue[Any]]]:
    """The address of a server of ``folder``, and the queue of what pages post."""
    results: queue.Queue[Any] = queue.Queue()
    headers = ISOLATED if isolated else {}
    handler = partial(_Handler, directory=str(folder), results=results, headers_to_send=headers)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", results
    finally:
        server.shutdown()
        server.server_close()


def home_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for a browser's data; what its last processes still write stays behind."""
    return tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)


def run_page(folder: Path, page: str, seconds: float = 60, isolated: bool = True) -> Any:
    """What ``page`` of ``folder`` posts to /result in a fresh browser.

    Raises RuntimeError if it posts nothing within ``seconds``, or {"failure": text}.
    """
    program = find_browser()
    if program is None:
        raise RuntimeError("Chromium is not installed")
    with serving(folder, isolated) as (address, results), home_folder() as home:
        command = [program, *_FLAGS, f"--user-data-dir={home}", f"{address}/{page}"]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            found = results.get(timeout=seconds)
        except queue.Empty:
            raise RuntimeError(f"{page} said nothing within {seconds} seconds") from None
        finally:
            browser.terminate()
            browser.wait()
    if isinstance(found, dict) and "failure" in found:
        raise RuntimeError(f"{page}: {found['failure']}")
    return found
