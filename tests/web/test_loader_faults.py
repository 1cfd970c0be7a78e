"""What the loader is given wrongly, and files that are not what was saved: errors in words."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.web.models import EXPECTED, save_widened
from tests.web.node import in_node, needs_node
from tools.browser import serving

pytestmark = needs_node
X = "{ data: new Float32Array([1, 2, 3, 4, 5, 6, 7, 8]), shape: [2, 4] }"
# An async function's outcome as [kind of error, message].
TOLD = "const told = (f) => f().then(() => 'no error', (e) => [e.name, e.message, e.code]);"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a saved model m."""
    folder = tmp_path_factory.mktemp("saved")
    save_widened(folder)
    return folder


@pytest.fixture
def copied(saved: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    shutil.copytree(saved, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def address(copied: Path) -> Iterator[str]:
    """Where ``copied`` is served."""
    with serving(copied) as (address, _):
        yield address


OPTIONS = {
    "5": "load takes an object of options, not Number",
    "null": "load takes an object of options, not null",
    "{ thread: 2 }": "there is no option 'thread'; the options are worker, relaxed, cache, threads",
    "{ threads: 0 }": "option 'threads' is 0; it has to be a whole number from 1 to 256",
    "{ threads: -1 }": "option 'threads' is -1; it has to be a whole number",
    "{ threads: 'x' }": "option 'threads' is \"x\"; it has to be a whole number",
    "{ threads: 257 }": "option 'threads' is 257; it has to be a whole number",
    "{ worker: 1 }": "option 'worker' is 1; it has to be true or false",
    "{ onProgress: 'x' }": "option 'onProgress' is \"x\"; it has to be a function",
    "{ signal: {} }": "option 'signal' is Object; it has to be an AbortSignal",
    "{ baseUrl: 5 }": "option 'baseUrl' is 5; it has to be a text or a URL",
    "{ baseUrl: 'http://' }": "option 'baseUrl' is \"http://\", which is no address; give the",
    "{ baseUrl: '/no/such/' }": "cannot load file:///no/such/m.",
}


def test_wrong_options_are_refused_in_words(saved: Path) -> None:
    calls = ", ".join(f"() => m.load({options})" for options in OPTIONS)
    found = in_node(saved, f"""{TOLD}
        const found = [];
        for (const call of [{calls}]) found.push(await told(call));
        return found;""")
    for (options, said), (kind, message, _) in zip(OPTIONS.items(), found):
        assert kind == "CuvilError" and message.startswith(said), options


def test_options_that_are_not_given_may_be_null(saved: Path) -> None:
    threads = in_node(saved, """
        const none = { threads: null, signal: undefined, onProgress: null, baseUrl: null };
        return (await m.load(none)).threads;""")
    assert threads == 1


INPUTS = {
    "": "run takes an object of inputs by name, not undefined; the inputs are 'x', 'n'",
    "null": "run takes an object of inputs by name, not null",
    "5": "run takes an object of inputs by name, not Number",
    "new Float32Array(8)": "run takes an object of inputs by name, not Float32Array",
    "[1, 2]": "run takes an object of inputs by name, not Array",
    "{ x: null, n: 1 }": "input 'x' is null; a Float32Array holds f32",
    "{ x: 'a', n: 1 }": "input 'x' is String; a Float32Array holds f32",
    "{ x: new Float64Array(8), n: 1 }":
        "input 'x' is Float64Array; a Float32Array holds f32: give Float32Array.from(array)",
    "{ x: new BigInt64Array(8), n: 1 }":
        "input 'x' is BigInt64Array; a Float32Array holds f32: give Float32Array.from(array, Num",
    f"{{ x: {X}, n: new Int32Array(3) }}":
        "input 'n' is Int32Array; a BigInt64Array holds i64: give BigInt64Array.from(array, BigI",
    "{ x: new ArrayBuffer(32), n: 1 }": "input 'x' is ArrayBuffer; a Float32Array holds f32",
    "{ x: [[1, 2, 3, 4]], n: 1 }":
        "input 'x' holds Array at 0, where a number has to be; give { data, shape }",
    "{ x: [1, 2, 'a', 4], n: 1 }": "input 'x' holds String at 2, where a number has to be",
    "{ x: [1, 2, , 4], n: 1 }": "input 'x' holds undefined at 2, where a number has to be",
    f"{{ x: {X}, n: [1.5] }}": "input 'n' holds 1.5 at 0, which is no i64",
    f"{{ x: {X}, n: [1n, 2n ** 63n] }}":
        "input 'n' holds 9223372036854775808 at 1, which is no i64",
    "{ x: { data: new Float32Array(8), shape: 8 }, n: 1 }":
        "input 'x' has rank 1; expected 2",
    "{ x: { data: new Float32Array(8), shape: ['2', '4'] }, n: 1 }":
        "input 'x' has 8 elements, which are not of shape [2,4]",
    "{ x: { data: new Float32Array(8), shape: [-2, -4] }, n: 1 }":
        "input 'x' has 8 elements, which are not of shape [-2,-4]",
}  # fmt: skip


@pytest.mark.parametrize("options", ["{}", "{ worker: true }"])
def test_wrong_inputs_are_refused_in_words(saved: Path, options: str) -> None:
    calls = ", ".join(f"() => model.run({inputs})" for inputs in INPUTS)
    found, values = in_node(saved, f"""{TOLD}
        const model = await m.load({options}), found = [];
        for (const call of [{calls}]) found.push(await told(call));
        const out = await model.run({{ x: {X}, n: [1n] }});
        return [found, [...out[m.outputs[0].name].data]];""")
    for (inputs, said), (kind, message, _) in zip(INPUTS.items(), found):
        assert kind == "CuvilError" and message.startswith(said), inputs
    np.testing.assert_allclose(values, EXPECTED, rtol=1e-4, atol=1e-5)


def test_arrays_of_other_realms_views_and_shapes_of_bigints(saved: Path) -> None:
    found = in_node(saved, """
        const { runInNewContext } = await import("node:vm"), found = [];
        const other = runInNewContext("new Float32Array([1, 2, 3, 4, 5, 6, 7, 8])");
        const part = new Float32Array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]).subarray(1, 9);
        for (const options of [{}, { worker: true }]) {
          const model = await m.load(options);
          for (const x of [other, part, { data: part }, { data: part, shape: [2n, 4n] }]) {
            const out = await model.run({ x, n: { data: [1n], shape: [1] } });
            found.push([...out[m.outputs[0].name].data]);
          }
        }
        return found;""")
    assert len(found) == 8
    for values in found:
        np.testing.assert_allclose(values, EXPECTED, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("worker", ["false", "true"])
def test_an_abort_ends_the_loading_with_its_reason(saved: Path, worker: str) -> None:
    before, during, after = in_node(saved, f"""{TOLD}
        const worker = {worker}, signal = AbortSignal.abort();
        const before = await told(() => m.load({{ worker, signal }}));
        const control = new AbortController(), onProgress = () => control.abort();
        const during = await told(() => m.load({{ worker, signal: control.signal, onProgress }}));
        const late = new AbortController();
        const model = await m.load({{ worker, signal: late.signal }});
        late.abort();
        return [before, during, await told(() => model.run({{ x: {X}, n: [1n] }}))];""")
    assert before[0] == during[0] == "AbortError"
    assert after == "no error"


def damaged(data: bytes) -> dict[str, bytes]:
    """Bytes that differ from a file's, by what a message says of them."""
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    assert zlib.crc32(flipped) != zlib.crc32(data)
    size = len(data)
    return {
        "was altered or damaged": flipped,
        f"has {size - 9} bytes of {size}": data[:-9],
        f"has 0 bytes of {size}": b"",
    }


def test_damaged_modules_are_refused_before_they_run(copied: Path, address: str) -> None:
    path = copied / "m.wasm"
    data = path.read_bytes()
    tried = f"""{TOLD}
        return [await told(() => m.load({{ relaxed: false }})),
                await told(() => m.load({{ relaxed: false, worker: true }})),
                await told(() => m.load({{ relaxed: false, baseUrl: "{address}/" }}))];"""
    for said, wrong in damaged(data).items():
        path.write_bytes(wrong)
        for kind, message, code in in_node(copied, tried):
            assert (kind, code) == ("CuvilError", "DATA")
            assert said in message and "m.wasm" in message and "save the model again" in message
    path.write_bytes(data)
    assert in_node(copied, tried) == ["no error"] * 3


def test_what_a_server_says_is_passed_on(copied: Path, address: str) -> None:
    ask = f'{TOLD} return told(() => m.load({{ relaxed: false, baseUrl: "{address}/" }}));'
    (copied / "m.weights").unlink()
    _, message, code = in_node(copied, ask)
    assert code == "DATA" and "m.weights: the server said 404" in message
    (copied / "m.wasm").unlink()
    _, message, code = in_node(copied, ask)
    assert code == "DATA" and "m.wasm: the server said 404" in message
    gone: Any = in_node(copied, ask.replace(address, "http://127.0.0.1:9"))
    assert gone[2] == "DATA" and gone[1].startswith("cannot load http://127.0.0.1:9/m.")


def test_a_page_in_place_of_a_file_is_seen(saved: Path) -> None:
    """Servers of one-page programs answer with the page where there is no file."""
    _, message, code = in_node(saved, f"""{TOLD}
        const {{ createServer }} = await import("node:http");
        const page = (_, answer) => answer.setHeader("content-type", "text/html").end("<html>");
        const server = createServer(page);
        await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
        const baseUrl = `http://127.0.0.1:${{server.address().port}}/`;
        return told(() => m.load({{ baseUrl }}));""")
    assert code == "DATA" and "the server sent a page (text/html) in its place" in message


def test_a_disposed_model_says_so(saved: Path) -> None:
    found = in_node(saved, f"""{TOLD}
        const model = await m.load();
        model.dispose();
        model.dispose();
        return told(async () => model.describe());""")
    assert found[1] == "the model was disposed of; load it again"
