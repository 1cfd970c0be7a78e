// Types of the loader beside this file.

export interface Tensor<A> {
  data: A;
  shape: number[];
  dtype: string;
}

/**
 * Elements with their shape; or an array alone, where at most one dimension is open. Floats of 16
 * bits are their bits, a bool is a byte of 0 or 1.
 */
export type Input<A> = A | { data: A | Elements; shape: readonly number[] } | Elements;
export type Element = number | bigint | boolean;
export type Elements = Element | readonly Element[];

export interface Inputs {
  // @INPUTS@
}

export interface Outputs {
  // @OUTPUTS@
}

export interface Spec {
  name: string;
  dtype: string;
  shape: (number | string)[];
}

export interface LoadOptions {
  /** Run in a Web Worker, so that the page stays responsive. Default: false. */
  worker?: boolean;
  /**
   * Threads, the caller's among them. More than 1 need a page that is cross-origin isolated.
   * Default: up to 4 where it is, else 1; in Node 1.
   */
  threads?: number;
  /** Use the module with relaxed SIMD. Default: where the browser has it. */
  relaxed?: boolean;
  /** Keep the weights in the browser's cache. Default: true. */
  cache?: boolean;
  /** The folder of the model's files, with a slash at its end. Default: beside the loader. */
  baseUrl?: string | URL;
  /** Ends the loading: load rejects with the signal's reason. */
  signal?: AbortSignal;
  /** Told of the weights' bytes as they come. */
  onProgress?: (progress: { loaded: number; total: number }) => void;
}

export interface Features {
  simd: boolean;
  relaxed: boolean;
  threads: boolean;
}

/** `code` names the kind as abi.h does (SHAPE, DTYPE, CONSTRAINT, ...), `tensor` the one at fault. */
export class CuvilError extends Error {
  code: string;
  tensor: string | null;
  axis: number | null;
}

export interface RemoteModel {
  readonly name: string;
  readonly inputs: Spec[];
  readonly outputs: Spec[];
  /** The module in use: "simd", "relaxed", "threads" or "relaxed-threads". */
  readonly variant: string;
  readonly threads: number;
  /** Runs on inputs by name. Rejects with a CuvilError for what the model does not accept. */
  run(inputs: Inputs): Promise<Outputs>;
  /** Frees the memory, ends workers and threads. */
  dispose(): void;
}

export interface Model extends RemoteModel {
  /** The same as run, before it returns. */
  runSync(inputs: Inputs): Outputs;
  /** What the model says of itself: symbols and constraints too. */
  describe(): Record<string, unknown>;
}

export const name: string;
export const inputs: Spec[];
export const outputs: Spec[];
export function features(): Features;
export function load(options: LoadOptions & { worker: true }): Promise<RemoteModel>;
export function load(options?: LoadOptions & { worker?: false }): Promise<Model>;
