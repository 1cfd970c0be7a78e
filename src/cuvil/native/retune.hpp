// Calls whose kernels have several ways that may be chosen while the process runs, and a record of
// how long calls took, by range of their sizes. Only libraries that are built for it have this.
#pragma once
#include <stdint.h>

#include "abi.hpp"
#include "os.hpp"

struct cuvil_model;

extern "C" {
#define CUVIL_RETUNE_API __attribute__((visibility("default")))

CUVIL_RETUNE_API uint64_t cuvil_retune_ticks(void);
// How many calls a range had, and the last kRetuneRing of them: ticks, then the symbols' values.
CUVIL_RETUNE_API int64_t cuvil_retune_taken(int32_t range);
CUVIL_RETUNE_API void cuvil_retune_read(int32_t range, int64_t* entries);
// The way of the kernel call number `call` in a range; a call that is running may see either.
CUVIL_RETUNE_API int32_t cuvil_retune_way(int32_t range, int32_t call);
CUVIL_RETUNE_API void cuvil_retune_set(int32_t range, int32_t call, int32_t way);
// Runs one kernel call alone by each of `count` ways in turn, for at most `rounds` rounds, and as
// long as the next round can be expected to end before `ticks` have passed. Returns how many
// rounds there were; `found` has the ticks of each run, round by round. Nothing is checked.
CUVIL_RETUNE_API int32_t cuvil_retune_measure(const cuvil_model* model, const void* const* inputs,
                                              void** outputs, int64_t* symbols, void* workspace,
                                              int32_t call, const int32_t* ways, int32_t count,
                                              uint64_t ticks, int32_t rounds, uint64_t* found);
}

namespace cuvil {

constexpr int64_t kRetuneRing = 128;

struct RetuneTables {
  int32_t ranges, calls, symbols;
  uint8_t* ways;   // [ranges][calls]
  int64_t* taken;  // [ranges]
  int64_t* ring;   // [ranges][kRetuneRing][1 + symbols]
  void (*run)(const RunContext& rc, int32_t call, int32_t way);
};

extern const RetuneTables retune_tables;  // of the model

// A call of the model, which is recorded when it ends.
class RetuneCall {
 public:
  RetuneCall(int32_t range, const int64_t* symbols)
      : range_(range), symbols_(symbols), begin_(os::ticks()) {}
  ~RetuneCall() {
    const RetuneTables& t = retune_tables;
    const int64_t taken = int64_t(os::ticks() - begin_);
    const int64_t at = __atomic_fetch_add(&t.taken[range_], 1, __ATOMIC_RELAXED) % kRetuneRing;
    int64_t* entry = t.ring + (range_ * kRetuneRing + at) * (1 + t.symbols);
    __atomic_store_n(entry, taken, __ATOMIC_RELAXED);
    for (int32_t i = 0; i < t.symbols; ++i)
      __atomic_store_n(entry + 1 + i, symbols_[i], __ATOMIC_RELAXED);
  }
  RetuneCall(const RetuneCall&) = delete;
  RetuneCall& operator=(const RetuneCall&) = delete;

  int32_t way(int32_t call) const {
    const RetuneTables& t = retune_tables;
    return __atomic_load_n(&t.ways[range_ * t.calls + call], __ATOMIC_RELAXED);
  }

 private:
  int32_t range_;
  const int64_t* symbols_;
  uint64_t begin_;
};

}  // namespace cuvil
