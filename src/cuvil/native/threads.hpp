// The thread pool: one parallel loop at a time, the caller takes part, and nobody ever waits for
// another caller.
#pragma once
#include <stdint.h>

#include "shared.hpp"

namespace cuvil {

// Called over disjoint ranges that cover [0, n); `thread` lies in [0, pool_threads(pool)).
using RangeFn = void (*)(void* ctx, int64_t begin, int64_t end, int32_t thread);

// Runs the tasks [0, count) on a host's threads; see cuvil_pool_from in abi.h.
using HostLoopFn = void (*)(void* context, int64_t count, RangeFn task, void* task_context);

// What every pool begins with.
struct Pool {
  HostLoopFn host;  // null: the workers of core_threads.cpp
  void* context;
  int32_t threads;
};

// Starts `threads - 1` workers (the caller is thread 0). Null when threads <= 1, when the process
// has no pthread_create, or when the target has no futex; every function below takes null.
Pool* pool_create(int32_t threads) CUVIL_SHARED(pool_create);

// A pool whose loops the host runs. Null if threads < 1, for a null function or without malloc.
Pool* pool_from(HostLoopFn host, void* context, int32_t threads) CUVIL_SHARED(pool_from);

// Stops and joins the workers, where they are its own; no parallel_for may be running. In a fork it
// only unmaps.
void pool_destroy(Pool* pool) CUVIL_SHARED(pool_destroy);

// 1 for null, which means: run inline on the caller
inline int32_t pool_threads(const Pool* pool) { return pool ? pool->threads : 1; }

// Runs fn over [0, n). Every chunk begins at a multiple of `grain` and holds at least `grain`
// items (unless n does not). Each thread starts on its own share, the same from call to call, and
// then helps with the others'. Runs inline, as one range with thread 0, when pool is null,
// n < 2 * grain, the pool is in use (by another caller or by an enclosing parallel_for), or the
// process is a fork of the one that made the pool. A host's pool decides all that itself, from
// 2 * grain items on. What fn wrote is visible on return.
void parallel_for(Pool* pool, int64_t n, int64_t grain, RangeFn fn, void* ctx)
    CUVIL_SHARED(parallel_for);

// The same for a callable body(begin, end, thread).
template <class Body>
inline void parallel_for(Pool* pool, int64_t n, int64_t grain, const Body& body) {
  parallel_for(
      pool, n, grain,
      [](void* ctx, int64_t begin, int64_t end, int32_t thread) {
        (*static_cast<const Body*>(ctx))(begin, end, thread);
      },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace cuvil
