// A model in a Web Worker: the page stays responsive while it runs.
class RemoteModel {
  static async start({ worker, signal, onProgress, ...options }) {
    const place = await placeOf(options);
    const model = new RemoteModel();
    Object.assign(model, { name: MODEL.name, inputs: MODEL.inputs, outputs: MODEL.outputs });
    model._worker = await startWorker(scriptOf(options, place));
    model._waiting = new Map();
    model._next = 0;
    model._worker.listen(
      (message) => model._receive(message, onProgress),
      (reason) => model._end(new CuvilError(`the worker failed: ${reason}`)),
    );
    const abort = () => model._end(signal.reason);
    signal?.addEventListener("abort", abort);
    const baseUrl = options.baseUrl && place.href; // relative to the page, not to the worker
    try {
      Object.assign(model, await model._ask({ kind: "load", options: { ...options, baseUrl } }));
    } catch (error) {
      model.dispose();
      throw error;
    } finally {
      signal?.removeEventListener("abort", abort);
    }
    return model;
  }

  /** Runs on inputs by name, as Model.run does. */
  async run(given) {
    const arrays = readInputs(given);
    const parts = MODEL.inputs.map(({ name }, i) => [name, ownPart(arrays[i])]);
    return this._ask({ kind: "run", given: Object.fromEntries(parts) });
  }

  /** Ends the worker. */
  dispose() {
    this._end(new CuvilError(DISPOSED));
  }

  _end(reason) {
    this._worker.terminate();
    this._ended ??= reason;
    for (const { reject } of this._waiting.values()) reject(reason);
    this._waiting.clear();
  }

  async _ask(message) {
    if (this._ended) throw this._ended;
    const id = this._next++;
    this._worker.hold();
    return new Promise((resolve, reject) => {
      this._waiting.set(id, { resolve, reject });
      this._worker.post({ ...message, id });
    });
  }

  _receive({ id, value, error, progress }, onProgress) {
    if (progress) return onProgress?.(progress);
    const { resolve, reject } = this._waiting.get(id) ?? {};
    this._waiting.delete(id);
    if (!this._waiting.size) this._worker.rest();
    if (error)
      reject?.(
        error.code
          ? new CuvilError(error.message, error.code, error.tensor, error.axis)
          : new Error(error.message),
      );
    else resolve?.(value);
  }
}

// A message takes along all of the buffer behind an array, so a part of one goes as a copy.
const ownPart = ({ data, shape }) => ({
  data: data.byteLength < data.buffer.byteLength ? data.slice() : data,
  shape,
});

// A thread that runs this file: post to it, listen to it, end it; a process lives on while it is held.
async function startWorker(script) {
  if (NODE) {
    const { Worker } = await fromNode("worker_threads");
    const worker = new Worker(new URL(script), { workerData: ROLE });
    worker.unref(); // a process waits for answers, not for idle threads
    return {
      post: (message) => worker.postMessage(message),
      listen: (receive, fail) =>
        worker.on("message", receive).on("error", ({ message }) => fail(message)),
      hold: () => worker.ref(),
      rest: () => worker.unref(),
      terminate: () => worker.terminate(),
    };
  }
  const worker = new Worker(ownScript(script), { type: "module", name: ROLE });
  return {
    post: (message) => worker.postMessage(message),
    listen(receive, fail) {
      worker.onmessage = ({ data }) => receive(data);
      worker.onerror = ({ message }) => fail(message ?? "its script could not be loaded");
    },
    hold() {},
    rest() {},
    terminate: () => worker.terminate(),
  };
}

// A browser starts workers from scripts of the page's origin only; these may import others.
function ownScript(script) {
  if (new URL(script).origin === globalThis.location.origin) return script;
  const text = `import ${JSON.stringify(script)};`;
  return URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
}

async function serve(message, answer) {
  const { kind, id } = message;
  if (kind === "thread") {
    const { exports } = await WebAssembly.instantiate(message.module, host(message.memory));
    exports.__stack_pointer.value = message.stack;
    return exports.cuvil_pool_serve(message.pool, message.index);
  }
  try {
    if (kind === "load") {
      serve.model = await Model.start({
        ...message.options,
        onProgress: (progress) => answer({ progress }),
      });
      return answer({ id, value: { variant: serve.model.variant, threads: serve.model.threads } });
    }
    const value = await serve.model.run(message.given);
    answer(
      { id, value },
      Object.values(value).map(({ data }) => data.buffer),
    );
  } catch (error) {
    const { message: text, code, tensor, axis } = error;
    answer({ id, error: { message: text, code, tensor, axis } });
  }
}

if (NODE) {
  fromNode("worker_threads").then(({ parentPort, workerData }) => {
    if (workerData === ROLE)
      parentPort.on("message", (m) => serve(m, (a, t) => parentPort.postMessage(a, t)));
  });
} else if (globalThis.name === ROLE && typeof WorkerGlobalScope === "function") {
  globalThis.onmessage = ({ data }) => serve(data, (a, t = []) => postMessage(a, t));
}
