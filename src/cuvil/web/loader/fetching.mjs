// The module to load and the number of threads.
function choose(options) {
  const found = features();
  if (!found.simd)
    throw new CuvilError("this browser has no WebAssembly SIMD; all current ones have it");
  const cores = NODE ? 1 : Math.min(4, (globalThis.navigator?.hardwareConcurrency ?? 2) >> 1);
  const threads = found.threads ? (options.threads ?? Math.max(1, cores)) : 1;
  if (!found.threads && options.threads > 1) {
    throw new CuvilError(
      "threads need a page that is cross-origin isolated: send it with " +
        "Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp",
    );
  }
  if (options.relaxed && !found.relaxed)
    throw new CuvilError("there is no relaxed SIMD here: leave the option 'relaxed' out");
  const relaxed = options.relaxed ?? found.relaxed;
  return [[relaxed && "relaxed", threads > 1 && "threads"].filter(Boolean).join("-"), threads];
}

const host = (memory) => (memory ? { env: { memory, now: () => performance.now() } } : {});

function sharedMemory(initial) {
  for (let maximum = PAGES; maximum > initial; maximum /= 2) {
    try {
      return new WebAssembly.Memory({ initial, maximum, shared: true });
    } catch (error) {
      if (maximum / 2 > initial) continue; // this machine reserves less
      const bytes = initial * 65536;
      const what = `no memory of ${bytes} bytes that threads share (${error.message})`;
      throw new CuvilError(`${what}: load with threads: 1`, "MEMORY");
    }
  }
}

const SAVE_AGAIN = "save the model again, and copy all of its files";

// A file of the model. Where it is said what is `expected`, it has that many bytes and that hash.
async function request(url, signal, expected = {}, cache = "default") {
  const fail = (why) => {
    signal?.throwIfAborted();
    const advice = "copy all of the model's files there, or say in baseUrl where they are";
    throw new CuvilError(`cannot load ${url}: ${why}; ${advice}`, "DATA");
  };
  signal?.throwIfAborted();
  if (NODE && url.protocol === "file:") {
    const { readFile } = await fromNode("fs/promises");
    const bytes = await readFile(url).catch((error) => fail(error.code));
    signal?.throwIfAborted();
    if (expected.hash && (await sha256(bytes)) !== expected.hash)
      throw damage(url, bytes, expected);
    return new Response(bytes);
  }
  const integrity = expected.hash && `sha256-${expected.hash}`;
  const checked = await fetch(url, { signal, integrity, cache }).catch((error) => {
    if (!integrity) fail(error.cause?.message ?? error.message);
  });
  // What was refused for its hash and what didn't come look alike: this one says why.
  const response = checked ?? (await fetch(url, { signal }).catch((error) => fail(error.message)));
  if (!response.ok) fail(`the server said ${response.status}`);
  if (response.headers.get("content-type")?.startsWith("text/html"))
    fail("the server sent a page (text/html) in its place");
  if (!checked) throw damage(url, await response.arrayBuffer(), expected);
  return response;
}

async function sha256(bytes) {
  const { createHash } = await fromNode("crypto");
  return createHash("sha256").update(bytes).digest("base64");
}

function damage(url, { byteLength }, { bytes }) {
  const what =
    byteLength === bytes ? "was altered or damaged" : `has ${byteLength} bytes of ${bytes}`;
  return new CuvilError(`the file ${url} ${what}; ${SAVE_AGAIN}`, "DATA");
}

async function compile(url, { signal }, expected) {
  const response = await request(url, signal, expected);
  const typed = response.headers.get("content-type")?.startsWith("application/wasm");
  const streams = typed && WebAssembly.compileStreaming;
  try {
    if (streams) return await WebAssembly.compileStreaming(response);
    return await WebAssembly.compile(await response.arrayBuffer());
  } catch (error) {
    signal?.throwIfAborted();
    throw new CuvilError(`${url} cannot be compiled here: ${error.message}`, "CPU");
  }
}

// The weights' bytes as they come, from the browser's cache where they were stored before. Where they
// weren't, `keep` stores what it is given.
async function openWeights(url, options) {
  const { hash } = MODEL.weights,
    prefix = `${url}?cuvil=`,
    key = prefix + hash;
  const wanted = options.cache !== false && url.protocol !== "file:" && globalThis.caches;
  const store = wanted ? await caches.open("cuvil").catch(() => null) : null; // none in private windows
  const stored = await store?.match(key);
  // What will be stored here needn't be in the browser's other cache too, which takes its time.
  const kind = store ? "no-store" : "default";
  const response = stored ?? (await request(url, options.signal, {}, kind));
  const fault = async (what) => {
    await store?.delete(key); // else it would be there again
    return new CuvilError(`the file ${url} ${what}; ${SAVE_AGAIN}`, "WEIGHTS");
  };
  const keep = (body) =>
    store
      .put(key, new Response(body))
      .then(() => forget(store, prefix, key))
      .catch(() => {}); // no room
  return { chunks: chunksOf(response.body), fault, keep: store && !stored ? keep : null };
}

async function forget(store, prefix, key) {
  for (const { url } of await store.keys()) {
    if (url.startsWith(prefix) && url !== key) await store.delete(url);
  }
}

// A megabyte or more at a time: as they come, parts are small, and each costs a turn of the loop.
const LEAST = 1 << 20;

async function* chunksOf(body) {
  let reader,
    view = NODE ? null : new Uint8Array(2 * LEAST); // Node's readers of this kind lose the view
  try {
    reader = body.getReader(view ? { mode: "byob" } : {});
  } catch {
    reader = body.getReader(); // this stream has no such reader
    view = null;
  }
  for (;;) {
    const { done, value } = await (view ? reader.read(view, { min: LEAST }) : reader.read());
    if (value?.length) yield value;
    if (done) return;
    if (view) view = new Uint8Array(value.buffer);
  }
}
