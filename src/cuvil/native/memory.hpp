// Memory of the process that loads the library, and what a model keeps of it.
#pragma once
#include <stddef.h>
#include <stdint.h>

extern "C" {
// Weak, so that none is a dependency.
__attribute__((weak, visibility("default"))) void* malloc(size_t bytes);
__attribute__((weak, visibility("default"))) void free(void* block);
}

namespace cuvil {

inline void* memory_of(size_t bytes) { return malloc && free ? malloc(bytes) : nullptr; }
inline void release_memory(void* block) { free(block); }

// Stands in front of a block whose size was found during a call; as large as the alignment of what
// follows.
struct alignas(64) LateBlock {
  LateBlock* next;
  int64_t bytes;
  void* raw;  // what malloc gave
};

// The blocks of a model that no call is using.
struct LateCache {
  LateBlock* first;
  uint32_t lock;
};

}  // namespace cuvil
