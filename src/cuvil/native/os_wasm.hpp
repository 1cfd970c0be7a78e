// What os.hpp offers, in a WebAssembly module whose memory several threads share.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "wasm.hpp"

extern "C" {
// Milliseconds of a clock that never goes back, given by the host.
__attribute__((import_module("env"), import_name("now"))) double cuvil_now(void);
}

namespace cuvil {
namespace os {

inline uint64_t ticks() { return uint64_t(cuvil_now() * 1e6); }
inline void relax() {}
// A page's main thread may not: the host would refuse the instruction.
constexpr bool kCallersSleep = false;

// Zeroed memory, or null.
inline void* map_pages(size_t bytes) {
  void* found = cuvil_memory_take(uint32_t(bytes));
  if (found) __builtin_memset(found, 0, bytes);
  return found;
}
inline void unmap_pages(void* p, size_t) { cuvil_memory_give(p); }
inline bool wipe_on_fork(void*, size_t) { return false; }
inline int32_t process_id() { return 0; }
inline void futex_wait(uint32_t* word, uint32_t value) {
  __builtin_wasm_memory_atomic_wait32(reinterpret_cast<int*>(word), int(value), -1);
}
inline void futex_wake(uint32_t* word, int32_t count) {
  __builtin_wasm_memory_atomic_notify(reinterpret_cast<int*>(word), uint32_t(count));
}
inline uint64_t block_signals(uint64_t) { return 0; }

}  // namespace os
}  // namespace cuvil
