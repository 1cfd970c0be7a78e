// Runs a saved model once, for Cuvil itself: node run.mjs FOLDER
// The folder holds m.mjs with its files, and request.json: { load: options, inputs: [{ name, file,
// shape }] }. Outputs are written as 0.out, 1.out, ..., and said on the standard output, in JSON.
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { setFlagsFromString } from "node:v8";

const KINDS = {
  f64: Float64Array,
  f32: Float32Array,
  f16: Uint16Array,
  bf16: Uint16Array,
  i64: BigInt64Array,
  i32: Int32Array,
  i16: Int16Array,
  i8: Int8Array,
  u64: BigUint64Array,
  u32: Uint32Array,
  u16: Uint16Array,
};

async function main(folder) {
  const { load: options, inputs } = JSON.parse(await readFile(join(folder, "request.json")));
  const { load, features, inputs: specs } = await import(pathToFileURL(join(folder, "m.mjs")));
  // Node 20 hides it.
  if (!features().relaxed) setFlagsFromString("--experimental-wasm-relaxed-simd");
  if (options.relaxed && !features().relaxed) return { missing: "relaxed" };
  const model = await load(options);
  const given = {};
  for (const [i, { name, file, shape }] of inputs.entries()) {
    const bytes = new Uint8Array(await readFile(join(folder, file)));
    const kind = KINDS[specs[i].dtype] ?? Uint8Array;
    given[name] = { data: new kind(bytes.buffer), shape };
  }
  const found = Object.entries(model.runSync(given));
  for (const [i, [, { data }]] of found.entries()) await writeFile(join(folder, `${i}.out`), data);
  model.dispose();
  return { outputs: found.map(([name, { shape }]) => ({ name, shape })) };
}

try {
  console.log(JSON.stringify(await main(process.argv[2])));
} catch (error) {
  if (!error.code || error.name !== "CuvilError") throw error;
  console.log(JSON.stringify({ error: { code: error.code, message: error.message } }));
}
process.exit(0);
