const names = (specs) => specs.map((spec) => `'${spec.name}'`).join(", ");
const bytesOf = (array) => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
const kindOf = (value) => (value === null ? "null" : (value?.constructor?.name ?? typeof value));
const listed = () =>
  MODEL.inputs.length ? `the inputs are ${names(MODEL.inputs)}` : "the model has no inputs";

const WIDE = [BigInt64Array, BigUint64Array];
const SCALARS = ["number", "bigint", "boolean"];

// What run was given, in the order of the inputs, each { data, shape }.
function readInputs(given) {
  if (given === undefined && !MODEL.inputs.length) return [];
  if (given === null || typeof given !== "object" || isList(given)) {
    throw new CuvilError(
      `run takes an object of inputs by name, not ${kindOf(given)}; ${listed()}`,
    );
  }
  const arrays = MODEL.inputs.map((spec) => readInput(spec, given[spec.name]));
  for (const key of Object.keys(given)) {
    if (!MODEL.inputs.some((spec) => spec.name === key))
      throw new CuvilError(`there is no input '${key}'; ${listed()}`);
  }
  return arrays;
}

const isList = (value) => ArrayBuffer.isView(value) || Array.isArray(value);

function readInput(spec, value) {
  const label = `input '${spec.name}'`;
  if (value === undefined) throw new CuvilError(`${label} is missing; ${listed()}`);
  const described =
    value !== null && typeof value === "object" && !isList(value) && "data" in value;
  const data = readElements(spec, described ? value.data : value, label);
  const shape = (described && value.shape) ?? null;
  if (!described || shape === null) return { data, shape: impliedShape(spec, data.length, label) };
  const dims = Symbol.iterator in Object(shape) ? Array.from(shape) : [shape];
  const sizes = dims.map((dim) => (typeof dim === "bigint" ? Number(dim) : dim));
  const whole = sizes.every((dim) => Number.isInteger(dim) && dim >= 0);
  if (!whole || sizes.length > MAX_RANK || sizes.reduce((a, b) => a * b, 1) !== data.length) {
    throw new CuvilError(
      `${label} has ${data.length} elements, which are not of shape [${dims}]`,
      "SHAPE",
      spec.name,
    );
  }
  return { data, shape: sizes };
}

// A typed array of the input's type. Another frame has classes of its own, so names count.
function readElements(spec, data, label) {
  const kind = ARRAYS[spec.dtype] ?? Uint8Array,
    found = ArrayBuffer.isView(data) ? data[Symbol.toStringTag] : null;
  if (found === kind.name || (found === "Float16Array" && spec.dtype === "f16")) return data;
  if (found === "Uint8ClampedArray" && kind === Uint8Array) return data;
  if (SCALARS.includes(typeof data)) data = [data];
  if (Array.isArray(data)) return kind.from(data, (value, at) => element(spec, kind, value, at));
  const convert = WIDE.includes(kind) ? ", BigInt" : found?.startsWith("Big") ? ", Number" : "";
  throw new CuvilError(
    `${label} is ${kindOf(data)}; a ${kind.name} holds ${spec.dtype}` +
      (found && !isHalf(spec) ? `: give ${kind.name}.from(array${convert})` : ""),
    "DTYPE",
    spec.name,
  );
}

const isHalf = ({ dtype }) => dtype === "f16" || dtype === "bf16";

// An element of a plain array. Typed arrays would make NaN or a wrapped integer of what doesn't fit.
function element(spec, kind, value, at) {
  const refuse = (found, wanted, advice = "") => {
    const text = `input '${spec.name}' holds ${found} at ${at}, ${wanted}${advice}`;
    throw new CuvilError(text, "DTYPE", spec.name);
  };
  if (!SCALARS.includes(typeof value)) {
    const nested = isList(value) ? "; give { data, shape } with all numbers in one array" : "";
    refuse(kindOf(value), "where a number has to be", nested);
  }
  if (kind === Float32Array || kind === Float64Array) return Number(value);
  const cut = spec.dtype.startsWith("i") ? BigInt.asIntN : BigInt.asUintN;
  const whole = typeof value === "bigint" || Number.isInteger(Number(value));
  if (!whole || cut(8 * kind.BYTES_PER_ELEMENT, BigInt(value)) !== BigInt(value))
    refuse(
      value,
      `which is no ${isHalf(spec) ? "u16" : spec.dtype}`,
      isHalf(spec) ? "; floats of 16 bits are given as their bits" : "",
    );
  return WIDE.includes(kind) ? BigInt(value) : Number(value);
}

// The shape of an array that comes without one: at most one dim may be open.
function impliedShape(spec, length, label) {
  const open = spec.shape.filter((dim) => typeof dim !== "number");
  const known = spec.shape.reduce((a, b) => (typeof b === "number" ? a * b : a), 1);
  const text = `[${spec.shape.join(", ")}]`;
  if (open.length > 1 || (open.length && !known)) {
    throw new CuvilError(
      `${label} needs a shape: give { data, shape: ${text} }`,
      "SHAPE",
      spec.name,
    );
  }
  if (open.length ? length % known : length !== known) {
    const kind = open.length ? "any shape" : "shape";
    const what = `${label} has ${length} elements, which are not of ${kind} ${text}`;
    throw new CuvilError(what, "SHAPE", spec.name);
  }
  return spec.shape.map((dim) => (typeof dim === "number" ? dim : length / known));
}
