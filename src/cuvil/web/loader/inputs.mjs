const names = (specs) => specs.map((spec) => `'${spec.name}'`).join(", ");
const bytesOf = (array) => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);

const WIDE = [BigInt64Array, BigUint64Array];

function readInput(spec, given) {
  const label = `input '${spec.name}'`,
    kind = ARRAYS[spec.dtype] ?? Uint8Array;
  let data = given[spec.name];
  if (data === undefined)
    throw new CuvilError(`${label} is missing; the inputs are ${names(MODEL.inputs)}`);
  const shape = ArrayBuffer.isView(data) || Array.isArray(data) ? null : data?.shape;
  if (shape) ({ data } = data);
  if (["number", "bigint", "boolean"].includes(typeof data)) data = [data];
  if (Array.isArray(data)) data = kind.from(data, WIDE.includes(kind) ? BigInt : undefined);
  const half = spec.dtype === "f16" && globalThis.Float16Array && data instanceof Float16Array;
  if (!(
    data instanceof kind ||
    half ||
    (kind === Uint8Array && data instanceof Uint8ClampedArray)
  )) {
    const found = data?.constructor?.name ?? typeof data;
    throw new CuvilError(
      `${label} is ${found}; a ${kind.name} holds ${spec.dtype}`,
      "DTYPE",
      spec.name,
    );
  }
  const dims = shape ? Array.from(shape) : impliedShape(spec, data.length, label);
  const whole = dims.every((dim) => Number.isInteger(dim) && dim >= 0);
  if (!whole || dims.length > MAX_RANK || dims.reduce((a, b) => a * b, 1) !== data.length) {
    throw new CuvilError(
      `${label} has ${data.length} elements, which are not of shape [${dims}]`,
      "SHAPE",
      spec.name,
    );
  }
  return { data, shape: dims };
}

// The shape of an array that comes without one: at most one dim may be open.
function impliedShape(spec, length, label) {
  const open = spec.shape.filter((dim) => typeof dim !== "number");
  if (!open.length) return spec.shape;
  const known = spec.shape.reduce((a, b) => (typeof b === "number" ? a * b : a), 1);
  const text = `[${spec.shape.join(", ")}]`;
  if (open.length > 1 || !known) {
    throw new CuvilError(
      `${label} needs a shape: give { data, shape: ${text} }`,
      "SHAPE",
      spec.name,
    );
  }
  if (length % known) {
    const what = `${label} has ${length} elements, which are not of any shape ${text}`;
    throw new CuvilError(what, "SHAPE", spec.name);
  }
  return spec.shape.map((dim) => (typeof dim === "number" ? dim : length / known));
}
