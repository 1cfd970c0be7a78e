const BOOLEAN = [(value) => typeof value === "boolean", "true or false"];
const OPTIONS = {
  worker: BOOLEAN,
  relaxed: BOOLEAN,
  cache: BOOLEAN,
  threads: [
    (value) => Number.isInteger(value) && value >= 1 && value <= MAX_THREADS,
    `a whole number from 1 to ${MAX_THREADS}`,
  ],
  baseUrl: [(value) => typeof value === "string" || value instanceof URL, "a text or a URL"],
  signal: [(value) => typeof value.throwIfAborted === "function", "an AbortSignal"],
  onProgress: [(value) => typeof value === "function", "a function"],
};

function checkOptions(options) {
  if (options === null || typeof options !== "object")
    throw new CuvilError(
      `load takes an object of options, not ${kindOf(options)}: load({ threads: 2 })`,
    );
  for (const [key, value] of Object.entries(options)) {
    const known = Object.keys(OPTIONS);
    if (!known.includes(key))
      throw new CuvilError(`there is no option '${key}'; the options are ${known.join(", ")}`);
    const [fits, wanted] = OPTIONS[key];
    if (value === undefined || value === null || fits(value)) continue;
    const found = typeof value === "object" ? kindOf(value) : JSON.stringify(value);
    throw new CuvilError(`option '${key}' is ${found}; it has to be ${wanted}`);
  }
}

// Where the files are. A relative baseUrl is read as a page reads addresses, and Node paths.
async function placeOf({ baseUrl }) {
  if (baseUrl === undefined || baseUrl === null) return new URL(import.meta.url);
  const { document, location } = globalThis;
  const from = location
    ? (document?.baseURI ?? location.href)
    : (await fromNode("url")).pathToFileURL(`${process.cwd()}/`);
  try {
    return new URL(baseUrl, from);
  } catch {
    throw new CuvilError(
      `option 'baseUrl' is "${baseUrl}", which is no address; give the folder of the model's ` +
        'files, with a slash at its end: "/models/"',
    );
  }
}

// The file that workers run: this one, or if a bundle took it in, the one in baseUrl.
function scriptOf({ baseUrl }, place) {
  const { pathname, protocol } = new URL(import.meta.url); // webpack has the source's path for it
  const own = pathname.endsWith(`/${MODEL.loader}`) && (NODE || protocol !== "file:");
  return own || !baseUrl ? import.meta.url : new URL(MODEL.loader, place).href;
}
