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
  const relaxed = options.relaxed ?? found.relaxed;
  return [[relaxed && "relaxed", threads > 1 && "threads"].filter(Boolean).join("-"), threads];
}

const host = (memory) => (memory ? { env: { memory, now: () => performance.now() } } : {});

function sharedMemory(initial) {
  for (let maximum = PAGES; maximum > initial; maximum /= 2) {
    try {
      return new WebAssembly.Memory({ initial, maximum, shared: true });
    } catch (error) {
      if (maximum / 2 <= initial) throw error; // else: this machine reserves less
    }
  }
}

async function request(url, { signal }) {
  if (NODE && url.protocol === "file:") {
    const { readFile } = await import("node:fs/promises");
    return new Response(
      await readFile(url).catch((error) => {
        throw new CuvilError(`cannot read ${url}: ${error.code}`, "DATA");
      }),
    );
  }
  const response = await fetch(url, { signal });
  if (!response.ok)
    throw new CuvilError(`cannot load ${url}: the server said ${response.status}`, "DATA");
  return response;
}

async function compile(url, options) {
  const response = await request(url, options);
  const typed = response.headers.get("content-type")?.startsWith("application/wasm");
  if (typed && WebAssembly.compileStreaming) return WebAssembly.compileStreaming(response);
  return WebAssembly.compile(await response.arrayBuffer());
}

// The weights' bytes as they come, from the browser's cache where they were loaded before.
async function openWeights(url, options) {
  const { hash } = MODEL.weights,
    prefix = `${url}?cuvil=`,
    key = prefix + hash;
  const wanted = options.cache !== false && url.protocol !== "file:" && globalThis.caches;
  const store = wanted ? await caches.open("cuvil").catch(() => null) : null; // none in private windows
  let response = await store?.match(key);
  if (!response) {
    response = await request(url, options);
    store
      ?.put(key, response.clone())
      .then(() => forget(store, prefix, key))
      .catch(() => {}); // no room
  }
  const fault = (what) => {
    store?.delete(key);
    return new CuvilError(
      `the file ${url} ${what}; save the model again, and copy all of its files`,
      "WEIGHTS",
    );
  };
  return { chunks: chunksOf(response.body), fault };
}

async function forget(store, prefix, key) {
  for (const { url } of await store.keys()) {
    if (url.startsWith(prefix) && url !== key) await store.delete(url);
  }
}

async function* chunksOf(body) {
  for (const reader = body.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}
