// Reading what calls took, choosing ways, and measuring kernels one by one.
#include "retune.hpp"

#include "model.hpp"

namespace cuvil {
namespace {

bool is_call(int32_t range, int32_t call) {
  const RetuneTables& t = retune_tables;
  return range >= 0 && range < t.ranges && call >= 0 && call < t.calls;
}

}  // namespace
}  // namespace cuvil

using namespace cuvil;

uint64_t cuvil_retune_ticks(void) { return os::ticks(); }

int64_t cuvil_retune_taken(int32_t range) {
  const bool known = range >= 0 && range < retune_tables.ranges;
  return known ? __atomic_load_n(&retune_tables.taken[range], __ATOMIC_ACQUIRE) : 0;
}

void cuvil_retune_read(int32_t range, int64_t* entries) {
  if (range < 0 || range >= retune_tables.ranges) return;
  const int64_t size = kRetuneRing * (1 + retune_tables.symbols);
  const int64_t* from = retune_tables.ring + range * size;
  for (int64_t i = 0; i < size; ++i) entries[i] = __atomic_load_n(from + i, __ATOMIC_RELAXED);
}

int32_t cuvil_retune_way(int32_t range, int32_t call) {
  if (!is_call(range, call)) return 0;
  const uint8_t* ways = retune_tables.ways + range * retune_tables.calls;
  return __atomic_load_n(ways + call, __ATOMIC_RELAXED);
}

void cuvil_retune_set(int32_t range, int32_t call, int32_t way) {
  if (!is_call(range, call)) return;
  uint8_t* ways = retune_tables.ways + range * retune_tables.calls;
  __atomic_store_n(ways + call, uint8_t(way), __ATOMIC_RELAXED);
}

int32_t cuvil_retune_measure(const cuvil_model* model, const void* const* inputs, void** outputs,
                             int64_t* symbols, void* workspace, int32_t call, const int32_t* ways,
                             int32_t count, uint64_t ticks, int32_t rounds, uint64_t* found) {
  Fault fault = {0, 0, 0};
  const RunContext rc = {model->weights, inputs,         outputs, symbols,
                         static_cast<char*>(workspace), model->pool, model->threads, &fault,
                         model->late};
  if (!is_call(0, call)) return 0;
  const uint64_t start = os::ticks();
  uint64_t longest = 0;
  for (int32_t round = 0; round < rounds; ++round) {
    const uint64_t begin = os::ticks();
    if (begin - start + longest > ticks) return round;
    for (int32_t i = 0; i < count; ++i) {
      const uint64_t before = os::ticks();
      if (before - start > ticks) return round;
      retune_tables.run(rc, call, ways[i]);
      found[round * count + i] = os::ticks() - before;
    }
    const uint64_t taken = os::ticks() - begin;
    longest = taken > longest ? taken : longest;
  }
  return rounds;
}
