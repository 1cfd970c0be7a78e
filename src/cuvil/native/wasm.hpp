// What a WebAssembly module offers to the program that hosts it, besides abi.h: memory for tensors,
// weights and workspaces, and, in a module for threads, the way in for a thread.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "abi.h"

extern "C" {

// Memory aligned to CUVIL_ALIGNMENT; null where there is no more.
CUVIL_API void* cuvil_memory_take(uint32_t bytes);
// Gives it back; null is fine.
CUVIL_API void cuvil_memory_give(void* block);

// The weights, where these lie in the module's own data; else null, and the host brings them.
CUVIL_API const void* cuvil_weights_inside(void);

#if defined(__wasm_atomics__)
// Works for `pool` as its thread `index`, from 1 on, until the pool is destroyed. The host calls it
// in threads of its own, each with an instance whose stack it has set; a pool does what it does
// with as many as have come.
CUVIL_API void cuvil_pool_serve(cuvil_pool* pool, int32_t index);
#endif
}
