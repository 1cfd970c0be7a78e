// Loads and runs the model that MODEL describes: in a page, a Web Worker, or Node. No dependencies.
//
//   import { load } from "./model.mjs";
//   const model = await load({ onProgress: ({ loaded, total }) => ... });
//   const { output } = await model.run({ x: { data: new Float32Array(...), shape: [1, 3, 224, 224] } });
//   output.data, output.shape

const MODEL = null; // @MODEL@

const NODE = typeof process === "object" && Boolean(process.versions?.node);
// A name that bundlers for browsers can't see, as they would look for it.
const fromNode = (name) => import(/* webpackIgnore: true */ /* @vite-ignore */ `node:${name}`);
const ROLE = "cuvil"; // the name of Web Workers that run this file
const HEADER = [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 5, 1, 0x60, 0, 1, 0x7b, 3, 2, 1, 0, 10];
const ZERO = [0x41, 0, 0xfd, 0x0f]; // i32.const 0, i8x16.splat
const PROBES = {
  simd: [...HEADER, 8, 1, 6, 0, ...ZERO, 0x0b],
  relaxed: [...HEADER, 19, 1, 17, 0, ...ZERO, ...ZERO, ...ZERO, 0xfd, 0x85, 2, 0x0b], // f32x4.relaxed_madd
};
const ARRAYS = {
  f64: Float64Array,
  f32: Float32Array,
  f16: Uint16Array,
  bf16: Uint16Array, // 16-bit floats: bits
  i64: BigInt64Array,
  i32: Int32Array,
  i16: Int16Array,
  i8: Int8Array,
  u64: BigUint64Array,
  u32: Uint32Array,
  u16: Uint16Array,
  u8: Uint8Array,
};
const CODES = [
  "OK",
  "ARGUMENT",
  "DEVICE",
  "DTYPE",
  "RANK",
  "SHAPE",
  "CONSTRAINT",
  "LAYOUT",
  "DATA",
  "OVERLAP",
  "WORKSPACE",
  "WEIGHTS",
  "CPU",
  "MEMORY",
  "INDEX",
  "LATE",
]; // of abi.h
// Sizes of abi.h's structures where pointers have 32 bits.
const TENSOR = { bytes: 40, ndim: 12, code: 16, bits: 17, lanes: 18, shape: 20 };
const STATUS = { bytes: 256, index: 4, axis: 8, message: 16 };
const MAX_RANK = 16,
  MAX_THREADS = 256, // of core_threads.cpp
  STACK_BYTES = 262144,
  PAGES = 65536;

export const { name, inputs, outputs } = MODEL;

/** What went wrong, in words. `code` names its kind, as abi.h does: SHAPE, DTYPE, CONSTRAINT, ... */
export class CuvilError extends Error {
  constructor(message, code = "ARGUMENT", tensor = null, axis = null) {
    super(message);
    Object.assign(this, { name: "CuvilError", code, tensor, axis });
  }
}

/** What this browser (or Node) offers. */
export function features() {
  const has = (bytes) => WebAssembly.validate(new Uint8Array(bytes));
  const shared =
    typeof SharedArrayBuffer === "function" && (NODE || globalThis.crossOriginIsolated === true);
  return { simd: has(PROBES.simd), relaxed: has(PROBES.relaxed), threads: shared };
}

/** Loads the model; see LoadOptions in the types beside this file. */
export async function load(options = {}) {
  checkOptions(options);
  options.signal?.throwIfAborted();
  return options.worker ? RemoteModel.start(options) : Model.start(options);
}
