// Recording of slices, and loops that run at the machine's limits, to measure these.
#include "profile.hpp"

#include "dot2.hpp"
#include "os.hpp"
#include "tile_amx.hpp"
#include "vec.hpp"
#if CUVIL_LANE_PRODUCTS
#include "lanes_arm.hpp"
#endif

namespace cuvil {
namespace {

#if CUVIL_LANE_PRODUCTS
constexpr bool kPairs = PairLanes::PASSES == 1;
template <class Word>
CUVIL_INLINE vf add_pairs(vf sum, Word a, Word b) {
  if constexpr (kPairs) return PairLanes().add<0>(sum, a, (vf)b);
  return sum;
}
#else
constexpr bool kPairs = CUVIL_PAIR_PRODUCTS;
CUVIL_INLINE vf add_pairs(vf sum, vi a, vi b) { return dot2(sum, a, b); }
#endif

// Enough chains for two units of latency 4 to 6, and few enough for 16 registers.
constexpr int64_t kChains = 12, kSteps = 8;

cuvil_profile_slice* slices = nullptr;
int64_t capacity = 0;
int64_t count = 0;
int32_t current = -1;

// Many steps in each of the chains; returns what keeps a compiler from leaving them out.
template <class Step>
CUVIL_INLINE float run_chains(int64_t rounds, const Step& step) {
  vf sum[kChains];
  for (int64_t i = 0; i < kChains; ++i) sum[i] = splat(1.0f + float(i));
  for (int64_t round = 0; round < rounds; ++round) {
    for (int64_t at = 0; at < kSteps; ++at)
      for (int64_t i = 0; i < kChains; ++i) sum[i] = step(sum[i]);
  }
  for (int64_t i = 1; i < kChains; ++i) sum[0] += sum[i];
  return sum[0][0];
}

uint64_t now() {
#if CUVIL_HAS_THREADS
  return os::ticks();
#else
  return 0;
#endif
}

}  // namespace

uint64_t profile_enter(int32_t kernel) {
  __atomic_store_n(&current, kernel, __ATOMIC_RELAXED);
  return now();
}

void profile_record(int32_t kernel, int32_t thread, uint64_t begin) {
  const uint64_t end = now();
  cuvil_profile_slice* to = __atomic_load_n(&slices, __ATOMIC_ACQUIRE);
  if (!to) return;
  const int64_t at = __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
  if (at < capacity) to[at] = {begin, end, kernel, thread};
}

// Called by a worker of the pool after its part of a loop.
void profile_share(int32_t thread, uint64_t begin) {
  profile_record(__atomic_load_n(&current, __ATOMIC_RELAXED), thread, begin);
}

}  // namespace cuvil

extern "C" {

void cuvil_profile_into(cuvil_profile_slice* to, int64_t room) {
  using namespace cuvil;
  __atomic_store_n(&slices, nullptr, __ATOMIC_SEQ_CST);
  capacity = room;
  __atomic_store_n(&count, 0, __ATOMIC_SEQ_CST);
  __atomic_store_n(&slices, to, __ATOMIC_SEQ_CST);
}

int64_t cuvil_profile_count(void) { return __atomic_load_n(&cuvil::count, __ATOMIC_SEQ_CST); }

uint64_t cuvil_profile_ticks(void) { return cuvil::now(); }

int64_t cuvil_profile_multiply(int64_t rounds) {
  using namespace cuvil;
  volatile float half = 0.5f;  // x / 2 + 1 / 2: stays near 1, and no compiler knows it
  const vf a = splat(half), b = splat(half);
  half = run_chains(rounds, [&](vf sum) __attribute__((always_inline)) { return sum * a + b; });
  return rounds * kSteps * kChains * VL * 2;
}

int64_t cuvil_profile_multiply_pairs(int64_t rounds) {
  using namespace cuvil;
#if CUVIL_AMX
  if (amx_ready()) {
    amx_begin();
    for (int64_t round = 0; round < rounds; ++round) {
      __builtin_ia32_tdpbf16ps(0, 4, 6);
      __builtin_ia32_tdpbf16ps(1, 4, 7);
      __builtin_ia32_tdpbf16ps(2, 5, 6);
      __builtin_ia32_tdpbf16ps(3, 5, 7);
    }
    amx_end();
    return rounds * 4 * (16 * 16 * 32 * 2);
  }
#endif
  if (!kPairs) return cuvil_profile_multiply(rounds);
  volatile int32_t ones = 0x3f803f80;  // two bf16
  const vi a = splat(int32_t(ones)), b = splat(int32_t(ones));
  ones = int32_t(run_chains(
      rounds, [&](vf sum) __attribute__((always_inline)) { return add_pairs(sum, a, b); }));
  return rounds * kSteps * kChains * VL * 4;
}

int64_t cuvil_profile_read(const int32_t* data, int64_t bytes, int64_t rounds) {
  using namespace cuvil;
  constexpr int64_t kStreams = 8;
  const int64_t elements = bytes / 4;
  vi sum[kStreams] = {};
  for (int64_t round = 0; round < rounds; ++round) {
    for (int64_t at = 0; at + kStreams * VL <= elements; at += kStreams * VL)
      for (int64_t i = 0; i < kStreams; ++i) sum[i] += load(data + at + i * VL);
    __asm__ volatile("" ::: "memory");  // each round reads anew
  }
  for (int64_t i = 1; i < kStreams; ++i) sum[0] += sum[i];
  int64_t total = 0;
  for (int i = 0; i < VL; ++i) total += sum[0][i];
  return total;
}
}
