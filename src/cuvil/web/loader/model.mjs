const DISPOSED = "the model was disposed of; load it again";
const KEEP_AFTER_MS = 1000;

class Model {
  static async start(options) {
    const [variant, threads] = choose(options);
    const base = await placeOf(options);
    const chosen = MODEL.modules[variant];
    // Both files are asked for at once; the weights stream into memory once there is any.
    const weights = MODEL.weights.file && openWeights(new URL(MODEL.weights.file, base), options);
    weights?.catch(() => {});
    const module = await compile(new URL(chosen.file, base), options, chosen);
    const memory = threads > 1 ? sharedMemory(chosen.pages) : null;
    const instance = await WebAssembly.instantiate(module, host(memory));
    const model = new Model(instance.exports, memory ?? instance.exports.memory);
    model.variant = variant || "simd";
    try {
      await model._create(weights, options);
      if (threads > 1) await model._startThreads(module, threads, scriptOf(options, base));
      options.signal?.throwIfAborted();
      model._open();
      if (weights) model._keep((await weights).keep);
    } catch (error) {
      model.dispose();
      throw error;
    }
    return model;
  }

  constructor(exports, memory) {
    Object.assign(this, {
      name: MODEL.name,
      inputs: MODEL.inputs,
      outputs: MODEL.outputs,
      threads: 1,
    });
    this._api = exports;
    this._memory = memory;
    this._workers = [];
    this._pool = 0;
    this._status = this._take(STATUS.bytes);
  }

  /** Runs on inputs by name; gives outputs by name, each { data, shape, dtype }. */
  async run(given) {
    return this.runSync(given);
  }

  /** The same, before it returns. */
  runSync(given) {
    if (!this._model) throw new CuvilError(DISPOSED);
    const arrays = readInputs(given);
    const text = JSON.stringify(arrays.map((a) => a.shape));
    if (text !== this._shapes) this._resize(arrays, text);
    arrays.forEach(({ data }, i) =>
      this._bytes(this._data[i].at, data.byteLength).set(bytesOf(data)),
    );
    const { _api: api, _tensors: at, _pointers: list } = this,
      count = MODEL.inputs.length;
    const code = api.cuvil_run(
      this._model,
      list,
      count,
      list + 4 * count,
      MODEL.outputs.length,
      this._work.at,
      BigInt(this._work.bytes),
      this._status,
    );
    if (code) {
      this._shapes = null;
      this._fail(code);
    }
    const found = {};
    MODEL.outputs.forEach((spec, i) => {
      found[spec.name] = this._output(spec, at + (count + i) * TENSOR.bytes);
    });
    return found;
  }

  /** Frees the memory and ends the threads. */
  dispose() {
    if (this._pool) this._api.cuvil_pool_destroy(this._pool);
    for (const worker of this._workers) worker.terminate();
    Object.assign(this, { _model: 0, _pool: 0, _workers: [], _memory: null, _api: null });
  }

  /** What the model says of itself: symbols and constraints too. */
  describe() {
    if (!this._model) throw new CuvilError(DISPOSED);
    return JSON.parse(this._text(this._api.cuvil_describe()));
  }

  async _create(weights, { signal, onProgress }) {
    const { bytes, hash } = MODEL.weights;
    const inside = this._api.cuvil_weights_inside();
    const at = inside || !bytes ? inside : this._take(bytes);
    if (weights) {
      const opened = await weights;
      let loaded = 0;
      for await (const chunk of opened.chunks) {
        signal?.throwIfAborted();
        if (loaded + chunk.length > bytes) throw await opened.fault("is longer than it should be");
        this._bytes(at + loaded, chunk.length).set(chunk);
        loaded += chunk.length;
        onProgress?.({ loaded, total: bytes });
      }
      if (loaded < bytes) throw await opened.fault(`has ${loaded} bytes of ${bytes}`);
      const found = BigInt.asUintN(64, this._api.cuvil_hash64(at, BigInt(bytes), 0n));
      if (found.toString(16).padStart(16, "0") !== hash)
        throw await opened.fault("was altered or damaged");
    }
    this._weights = at;
  }

  // Puts the weights into the browser's cache, for which nobody waits: it takes as long as loading.
  _keep(keep) {
    const { bytes } = MODEL.weights;
    let done = 0;
    const pull = (controller) => {
      if (!this._memory) return controller.error(new CuvilError(DISPOSED));
      const end = Math.min(bytes, done + LEAST);
      controller.enqueue(this._bytes(this._weights + done, end - done).slice());
      done = end;
      if (done === bytes) controller.close();
    };
    if (keep) setTimeout(() => this._memory && keep(new ReadableStream({ pull })), KEEP_AFTER_MS);
  }

  async _startThreads(module, threads, script) {
    this._pool = this._api.cuvil_pool_create(threads);
    if (!this._pool) return;
    this.threads = threads;
    for (let index = 1; index < threads; ++index) {
      const stack = this._take(STACK_BYTES) + STACK_BYTES;
      const worker = await startWorker(script);
      // Work is shared among those that come; one that can't is no error, but to be seen.
      worker.listen(
        () => {},
        (reason) => {
          this.threads -= 1;
          console.warn(`${MODEL.name}: a thread could not be started: ${reason}`);
        },
      );
      this._workers.push(worker);
      worker.post({ kind: "thread", module, memory: this._memory, pool: this._pool, index, stack });
    }
  }

  // Everything that calls need and shapes don't change.
  _open() {
    const place = this._take(8),
      specs = [...MODEL.inputs, ...MODEL.outputs],
      { bytes } = MODEL.weights;
    const code = this._api.cuvil_create(
      this._weights,
      BigInt(bytes),
      this._pool,
      place,
      this._status,
    );
    if (code) this._fail(code);
    this._pointers = this._take(4 * specs.length);
    this._tensors = this._take(specs.length * (TENSOR.bytes + 8 * MAX_RANK));
    this._data = specs.map(() => ({ at: 0, bytes: 0 }));
    this._work = { at: 0, bytes: 0 };
    const view = this._view();
    this._model = view.getUint32(place, true);
    specs.forEach((spec, i) => {
      const at = this._tensors + i * TENSOR.bytes;
      this._bytes(at, TENSOR.bytes).fill(0);
      view.setUint32(this._pointers + 4 * i, at, true);
      view.setInt32(at + 4, 1, true); // CPU memory
      view.setInt32(at + TENSOR.ndim, spec.shape.length, true);
      view.setUint8(at + TENSOR.code, spec.code);
      view.setUint8(at + TENSOR.bits, spec.bits);
      view.setUint16(at + TENSOR.lanes, 1, true);
      view.setUint32(
        at + TENSOR.shape,
        this._tensors + specs.length * TENSOR.bytes + i * 8 * MAX_RANK,
        true,
      );
    });
  }

  // Shapes that the last call didn't have: sizes of outputs and workspace, and room for all of it.
  _resize(arrays, text) {
    const { _api: api, _pointers: list } = this,
      count = MODEL.inputs.length;
    this._shapes = null;
    arrays.forEach(({ shape }, i) => {
      const view = this._view(),
        at = this._tensors + i * TENSOR.bytes;
      view.setInt32(at + TENSOR.ndim, shape.length, true);
      const dims = view.getUint32(at + TENSOR.shape, true);
      shape.forEach((dim, axis) => view.setBigInt64(dims + 8 * axis, BigInt(dim), true));
    });
    const place = this._take(8);
    let code = api.cuvil_workspace_size(this._model, list, count, place, this._status);
    const bytes = Number(this._view().getBigUint64(place, true));
    api.cuvil_memory_give(place);
    if (code) this._fail(code);
    const sizes = arrays.map((a) => a.data.byteLength);
    MODEL.outputs.forEach((spec, i) => {
      const at = this._tensors + (count + i) * TENSOR.bytes;
      if (spec.late) return sizes.push(0);
      code = api.cuvil_output_shape(
        this._model,
        list,
        count,
        i,
        this._view().getUint32(at + TENSOR.shape, true),
        this._status,
      );
      if (code) this._fail(code);
      sizes.push(
        this._shapeAt(at).reduce((a, b) => a * b, ARRAYS[spec.dtype]?.BYTES_PER_ELEMENT ?? 1),
      );
    });
    this._data.forEach((place, i) => this._fit(place, sizes[i]));
    this._fit(this._work, bytes);
    const view = this._view();
    this._data.forEach(({ at }, i) => view.setUint32(this._tensors + i * TENSOR.bytes, at, true));
    this._shapes = text;
  }

  _output(spec, tensor) {
    const shape = this._shapeAt(tensor),
      at = this._view().getUint32(tensor, true);
    const kind = ARRAYS[spec.dtype] ?? Uint8Array,
      length = shape.reduce((a, b) => a * b, 1);
    const data = new kind(length);
    bytesOf(data).set(this._bytes(at, data.byteLength));
    if (spec.late) this._api.cuvil_free(at);
    return { data, shape, dtype: spec.dtype };
  }

  _shapeAt(tensor) {
    const view = this._view(),
      dims = view.getUint32(tensor + TENSOR.shape, true);
    const rank = view.getInt32(tensor + TENSOR.ndim, true);
    return Array.from({ length: rank }, (_, axis) =>
      Number(view.getBigInt64(dims + 8 * axis, true)),
    );
  }

  _fit(place, bytes) {
    if (place.at && place.bytes >= bytes) return;
    this._api.cuvil_memory_give(place.at);
    Object.assign(place, { at: 0, bytes: 0 });
    Object.assign(place, { at: this._take(bytes), bytes });
  }

  _take(bytes) {
    const at = bytes < 2 ** 32 ? this._api.cuvil_memory_take(bytes) >>> 0 : 0;
    if (!at)
      throw new CuvilError(`no memory for ${bytes} bytes: a module has at most 4 GB`, "MEMORY");
    return at;
  }

  // Memory that grows gets a new buffer, so none is kept.
  _view() {
    return new DataView(this._memory.buffer);
  }

  _bytes(at, length) {
    return new Uint8Array(this._memory.buffer, at, length);
  }

  _text(at) {
    const all = new Uint8Array(this._memory.buffer);
    return new TextDecoder().decode(all.slice(at, all.indexOf(0, at)));
  }

  _fail(code) {
    const view = this._view(),
      index = view.getInt32(this._status + STATUS.index, true);
    const axis = view.getInt32(this._status + STATUS.axis, true);
    const spec = [...MODEL.inputs, ...MODEL.outputs][index];
    const text = this._text(this._status + STATUS.message);
    throw new CuvilError(
      text,
      CODES[code] ?? String(code),
      spec?.name ?? null,
      axis < 0 ? null : axis,
    );
  }
}
