"""The loader in JavaScript: what it accepts and refuses, workers, threads, files, memory."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.web.models import EXPECTED, save_widened
from tests.web.node import in_node, needs_node

pytestmark = needs_node


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a saved model m."""
    folder = tmp_path_factory.mktemp("saved")
    save_widened(folder)
    return folder


X = "{ data: new Float32Array([1, 2, 3, 4, 5, 6, 7, 8]), shape: [2, 4] }"
SHOWN = "const show = ([a, b]) => [[...a.data], a.shape, a.dtype, [...b.data].map(Number)];"


@pytest.mark.parametrize(
    "options",
    ["{}", "{ threads: 2 }", "{ worker: true }", "{ worker: true, threads: 2 }",
     "{ relaxed: true, threads: 1 }", "{ relaxed: true, threads: 2 }"],
)  # fmt: skip
def test_every_way_to_load_gives_the_same(saved: Path, options: str) -> None:
    found = in_node(saved, f"""{SHOWN}
        if (({options}).relaxed && !m.features().relaxed) return "lacks relaxed SIMD";
        let seen = 0;
        const onProgress = (p) => (seen = p.loaded / p.total);
        const model = await m.load({{ ...{options}, onProgress }});
        const out = await model.run({{ x: {X}, n: [5n, 6n] }});
        return [show(Object.values(out)), seen, model.threads];""")
    if found == "lacks relaxed SIMD":
        pytest.skip("this Node has no relaxed SIMD")
    (values, shape, dtype, counted), seen, threads = found
    np.testing.assert_allclose(values, EXPECTED, rtol=1e-4, atol=1e-5)
    assert (shape, dtype, counted, seen) == ([2, 4], "f32", [6, 7], 1)
    assert threads == (2 if "threads: 2" in options else 1)


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (f"{{ x: {X} }}", "input 'n' is missing; the inputs are 'x', 'n'"),
        (f"{{ x: {X}, n: [1n], y: 1 }}", "there is no input 'y'; the inputs are 'x', 'n'"),
        (f"{{ x: {X}, n: new Int32Array(3) }}",
         "input 'n' is Int32Array; a BigInt64Array holds i64"),
        ("{ x: { data: new Float32Array(7), shape: [2, 4] }, n: [1n] }",
         "input 'x' has 7 elements, which are not of shape [2,4]"),
        ("{ x: new Float32Array(6), n: [1n] }",
         "input 'x' has 6 elements, which are not of any shape [rows, 4]"),
        ("{ x: { data: new Float32Array(6), shape: [2, 3] }, n: [1n] }",
         "input 'x', axis 1 is 3; expected 4"),
        ("{ x: { data: new Float32Array(8), shape: [8] }, n: [1n] }",
         "input 'x' has rank 1; expected 2"),
        ("{ x: new Float32Array(4004), n: [1n] }",
         "input 'x', axis 0 (rows) is 1001; allowed is 0 <= rows <= 1000"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_words(saved: Path, inputs: str, said: str) -> None:
    text, again = in_node(saved, f"""
        const model = await m.load(), text = await model.run({inputs}).catch((e) => e.message);
        const found = await model.run({{ x: {X}, n: [1n] }});
        return [text, [...found[m.outputs[0].name].data]];""")
    assert text.startswith(said)
    np.testing.assert_allclose(again, EXPECTED, rtol=1e-4, atol=1e-5)


def test_damaged_and_missing_weights_are_errors(saved: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(saved, folder)
    weights = folder / "m.weights"
    data = bytearray(weights.read_bytes())
    data[1000] ^= 1
    tried = "return m.load().then(() => 'loaded', (e) => [e.code, e.message])"
    weights.write_bytes(data)
    assert "was altered or damaged" in in_node(folder, tried)[1]
    weights.write_bytes(data[:-5])
    assert f"has {len(data) - 5} bytes of {len(data)}" in in_node(folder, tried)[1]
    weights.write_bytes(data + b"more")
    assert "is longer than it should be" in in_node(folder, tried)[1]
    weights.unlink()
    code, message = in_node(folder, tried)
    assert code == "DATA" and "cannot load file:" in message and "ENOENT" in message


def test_memory_is_reused_over_calls_of_all_sizes(saved: Path) -> None:
    pages = in_node(saved, """
        const model = await m.load(), pages = [];
        for (let round = 0; round < 3; ++round) {
          for (const rows of [1, 900, 3, 1000, 17, 500]) {
            await model.run({ x: new Float32Array(4 * rows), n: [1n] });
          }
          pages.push(model._memory.buffer.byteLength);
        }
        return pages;""")
    assert pages[0] == pages[1] == pages[2]


def test_blocks_of_memory_never_overlap(saved: Path) -> None:
    """Against a list of intervals, over random requests."""
    fault = in_node(saved, """
        const { _api: api } = await m.load(), live = [];
        let seed = 7;
        const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
        for (let step = 0; step < 4000; ++step) {
          if (live.length && random(2)) {
            api.cuvil_memory_give(live.splice(random(live.length), 1)[0][0]);
            continue;
          }
          const bytes = random(3) ? random(300) : random(90000);
          const at = api.cuvil_memory_take(bytes) >>> 0;
          if (!at || at % 64) return `step ${step}: ${at}`;
          const hit = live.find(([a, n]) => at < a + n && a < at + bytes);
          if (hit) return `step ${step}: ${at} + ${bytes} meets ${hit}`;
          live.push([at, bytes]);
        }
        if (api.cuvil_memory_take(0xf8000000) !== 0) return "gave more than there is";
        return null;""")
    assert fault is None


def test_sizes_whose_product_overflows_are_refused(saved: Path) -> None:
    """WebAssembly has no product of 128 bits: the check for overflow is in software."""
    found = in_node(saved, f"""
        const model = await m.load();
        await model.run({{ x: {X}, n: [1n] }});
        const api = model._api, [list, to] = [model._pointers, model._work.at];
        const view = () => new DataView(model._memory.buffer);
        const dims = view().getUint32(model._tensors + 40 + 20, true); // of input n
        const tried = [];
        for (const size of [3n, 2n ** 31n - 1n, 2n ** 31n, 2n ** 62n, -1n]) {{
          view().setBigInt64(dims, size, true);
          tried.push(api.cuvil_workspace_size(model._model, list, 2, to, 0));
        }}
        return tried;""")
    assert found == [0, 0, 5, 5, 5]


def test_plain_numbers_and_one_open_dimension_will_do(saved: Path) -> None:
    found = in_node(saved, """
        const model = await m.load(), x = Float32Array.from([1, 2, 3, 4, 5, 6, 7, 8]);
        const first = await model.run({ x, n: [1, 2n, true] }), [a, b] = model.outputs;
        const plain = await model.run({ x: { data: [...x], shape: [2, 4] }, n: 7 });
        return [[...first[a.name].data], [...first[b.name].data].map(Number),
          Number(plain[b.name].data[0])];""")
    np.testing.assert_allclose(found[0], EXPECTED, rtol=1e-4, atol=1e-5)
    assert found[1:] == [[2, 3, 2], 8]


@pytest.mark.parametrize("options", ["{ threads: 2 }", "{ worker: true }"])
def test_dispose_ends_the_model(saved: Path, options: str) -> None:
    text = in_node(saved, f"""
        const model = await m.load({options});
        model.dispose();
        return model.run({{ x: {X}, n: [1n] }}).catch((e) => e.message);""")
    assert text == "the model was disposed of; load it again"


def test_calls_of_a_worker_are_all_answered(saved: Path) -> None:
    found = in_node(saved, f"""
        const model = await m.load({{ worker: true }}), asked = [1n, 2n, 3n];
        const outputs = await Promise.all(asked.map((n) => model.run({{ x: {X}, n }})));
        return outputs.map((output) => Number(output[model.outputs[1].name].data[0]));""")
    assert found == [2, 3, 4]


def test_what_fails_in_a_worker_fails_outside(saved: Path, tmp_path: Path) -> None:
    code, message = in_node(saved, f"""
        const baseUrl = new URL("file://{tmp_path}/");
        return m.load({{ worker: true, baseUrl }}).catch((e) => [e.code, e.message]);""")
    assert code == "DATA" and "ENOENT" in message


def test_it_describes_itself(saved: Path) -> None:
    described = in_node(saved, "return (await m.load()).describe()")
    assert [s["name"] for s in described["symbols"]] == ["rows", "count"]
