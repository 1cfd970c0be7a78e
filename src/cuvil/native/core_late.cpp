// Late memory (late.hpp). Blocks of a model that are not in use wait in its cache; a call takes the
// smallest that fits, and grows the largest where none does. So there are never more blocks than
// were in use at once, and calls of sizes that were seen before allocate nothing.
#include "late.hpp"

#include "abi.h"
#include "os.hpp"

namespace cuvil {

namespace {

constexpr int64_t kMost = (int64_t(1) << 47) - 1;

LateBlock* block_of(void* memory) { return static_cast<LateBlock*>(memory) - 1; }

void lock(LateCache* cache) {
  while (__atomic_exchange_n(&cache->lock, 1u, __ATOMIC_ACQUIRE)) {
#if CUVIL_HAS_THREADS
    os::relax();
#endif
  }
}

void unlock(LateCache* cache) { __atomic_store_n(&cache->lock, 0u, __ATOMIC_RELEASE); }

// Out of the cache: the smallest block of at least `bytes`, else the largest, or null.
LateBlock* pick(LateCache* cache, int64_t bytes) {
  LateBlock** best = nullptr;
  for (LateBlock** at = &cache->first; *at; at = &(*at)->next) {
    const int64_t have = (*at)->bytes;
    if (!best) {
      best = at;
      continue;
    }
    const int64_t kept = (*best)->bytes;
    const bool closer = kept >= bytes ? have < kept : true;
    if (have >= bytes ? closer : (kept < bytes && have > kept)) best = at;
  }
  LateBlock* found = best ? *best : nullptr;
  if (found) *best = found->next;
  return found;
}

LateBlock* make(int64_t bytes) {
  void* raw = memory_of(size_t(bytes) + 2 * sizeof(LateBlock));
  if (!raw) return nullptr;
  const uintptr_t start = (reinterpret_cast<uintptr_t>(raw) + 63) & ~uintptr_t(63);
  LateBlock* block = reinterpret_cast<LateBlock*>(start);
  *block = {nullptr, bytes, raw};
  return block;
}

// Sizes that differ little get blocks of one size.
int64_t rounded(int64_t bytes) {
  int64_t step = 64;
  while (step < bytes / 8) step *= 2;
  return (bytes + step - 1) / step * step;
}

}  // namespace

void LateCall::fail(int32_t code, int64_t index, int64_t size) {
  if (failed()) return;
  rc_.fault->index = index, rc_.fault->size = size, rc_.fault->code = code;
}

bool LateCall::fits(Checked bytes) {
  if (bytes.ok && bytes.value >= 0 && bytes.value <= kMost) return true;
  fail(CUVIL_E_MEMORY, 0, -1);
  return false;
}

int64_t LateCall::bind(int32_t number, int64_t value, int64_t low, int64_t high) {
  rc_.symbols[number] = value;
  if (value < low || value > high) fail(CUVIL_E_SHAPE, number, value);
  return value;
}

void LateCall::require(int32_t number, bool holds) {
  if (!holds) fail(CUVIL_E_CONSTRAINT, number, 0);
}

int64_t LateCall::take(Checked bytes) {
  if (failed() || !fits(bytes)) return 0;
  const int64_t wanted = rounded(bytes.value);
  lock(rc_.late);
  LateBlock* block = pick(rc_.late, wanted);
  unlock(rc_.late);
  if (block && block->bytes < wanted) {
    release_memory(block->raw);
    block = nullptr;
  }
  if (!block) block = make(wanted);
  if (!block) return fail(CUVIL_E_MEMORY, 0, bytes.value), 0;
  block->next = taken_;
  taken_ = block;
  return int64_t(reinterpret_cast<uintptr_t>(block + 1) -
                 reinterpret_cast<uintptr_t>(rc_.workspace));
}

void LateCall::keep(LateBlock*& block, const void* from, Checked bytes) {
  if (failed() || !fits(bytes)) return;
  if (block && block->bytes < bytes.value) {
    give(block);
    block = nullptr;
  }
  if (!block) {
    const int64_t room = bytes.value + (bytes.value < kMost / 2 ? bytes.value / 2 : 0);
    const int64_t offset = take(Checked(room));
    if (failed()) return;
    block = block_of(rc_.workspace + offset);
  }
  __builtin_memcpy(block + 1, from, size_t(bytes.value));
}

void LateCall::adopt(LateBlock*& block, int64_t offset) {
  if (failed()) return;
  if (block) give(block);
  block = block_of(rc_.workspace + offset);
}

char* LateCall::kept(LateBlock* block, Checked bytes) {
  if (failed() || !fits(bytes)) return nullptr;
  if (!block || block->bytes < bytes.value) return fail(CUVIL_E_MEMORY, 0, bytes.value), nullptr;
  return reinterpret_cast<char*>(block + 1);
}

void LateCall::give(int64_t offset) {
  give(block_of(reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(rc_.workspace) +
                                        uintptr_t(offset))));
}

void LateCall::give(LateBlock* block) {
  LateBlock** at = &taken_;
  while (*at != block) at = &(*at)->next;
  *at = block->next;
  lock(rc_.late);
  block->next = rc_.late->first;
  rc_.late->first = block;
  unlock(rc_.late);
}

LateCall::~LateCall() {
  while (taken_) give(taken_);
}

void LateCall::output(int32_t number, Checked bytes) {
  if (failed() || !fits(bytes)) return;
  LateBlock* block = make(bytes.value);
  if (!block) return fail(CUVIL_E_MEMORY, 0, bytes.value);
  rc_.outputs[number] = block + 1;
}

}  // namespace cuvil
