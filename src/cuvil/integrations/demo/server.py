"""Serves a folder to browsers as a page that is cross-origin isolated, so that it has threads."""

from __future__ import annotations

import contextlib
import http.server
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

_TYPES = {".mjs": "text/javascript", ".wasm": "application/wasm"}
ISOLATED: Mapping[str, str] = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
}


class Pages(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, with ``headers_to_send`` in every answer."""

    def __init__(
        self, *args: Any, headers_to_send: Mapping[str, str] = ISOLATED, **more: Any
    ) -> None:
        self.headers_to_send = headers_to_send
        self.extensions_map = {**self.extensions_map, **_TYPES}
        super().__init__(*args, **more)

    def handle(self) -> None:
        """As ever; a browser that has gone is no fault."""
        with contextlib.suppress(ConnectionError):
            super().handle()

    def end_headers(self) -> None:
        """Adds them."""
        for name, value in self.headers_to_send.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


def server_of(folder: Path, port: int = 0) -> http.server.ThreadingHTTPServer:
    """A server of ``folder`` for this machine alone; port 0 is any that is free. Raises OSError."""
    handler = partial(Pages, directory=str(folder))
    return http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
