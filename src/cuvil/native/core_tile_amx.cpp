// Tiles of sums on a matrix unit, and their way into memory.
#include "tile_amx.hpp"

#include "os.hpp"
#include "pair_output.hpp"

#if CUVIL_AMX
namespace cuvil {
namespace {

// Palette 1: eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, unused[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

constexpr int64_t PANEL_STEP = NR * 4;  // bytes from one pair of steps to the next
constexpr int64_t BLOCK_BYTES = AMX_STEP_PAIRS * PANEL_STEP;

// One step of 32 elements: tiles 4 and 5 hold rows, 6 and 7 columns, 0 to 3 sums.
template <bool LOWER, bool RIGHT>
CUVIL_INLINE void step(const char* a, int64_t a_row, const char* b) {
  __builtin_ia32_tileloadd64(6, b, PANEL_STEP);
  if constexpr (RIGHT) __builtin_ia32_tileloadd64(7, b + 64, PANEL_STEP);
  __builtin_ia32_tileloadd64(4, a, a_row);
  __builtin_ia32_tdpbf16ps(0, 4, 6);
  if constexpr (RIGHT) __builtin_ia32_tdpbf16ps(1, 4, 7);
  if constexpr (LOWER) {
    __builtin_ia32_tileloadd64(5, a + 16 * a_row, a_row);
    __builtin_ia32_tdpbf16ps(2, 5, 6);
    if constexpr (RIGHT) __builtin_ia32_tdpbf16ps(3, 5, 7);
  }
}

template <bool LOWER, bool RIGHT>
void multiply(const AmxRows& rows, const char* b, const char* rest, int64_t pairs, float* out,
              int64_t ld, const Ahead& ahead) {
  __builtin_ia32_tilezero(0);
  __builtin_ia32_tilezero(1);
  __builtin_ia32_tilezero(2);
  __builtin_ia32_tilezero(3);
  const char* a = rows.first;
  AheadWalk next(ahead, b);
  for (int64_t k = 0; k + AMX_STEP_PAIRS <= pairs; k += AMX_STEP_PAIRS) {
    next.steps();
    step<LOWER, RIGHT>(a, rows.row_bytes, b);
    a += AMX_STEP_BYTES;
    b += BLOCK_BYTES;
  }
  if (pairs % AMX_STEP_PAIRS) step<LOWER, RIGHT>(a, rows.row_bytes, rest);
  __builtin_ia32_tilestored64(0, out, ld * 4);
  if constexpr (RIGHT) __builtin_ia32_tilestored64(1, out + 16, ld * 4);
  if constexpr (LOWER) {
    __builtin_ia32_tilestored64(2, out + 16 * ld, ld * 4);
    if constexpr (RIGHT) __builtin_ia32_tilestored64(3, out + 16 * ld + 16, ld * 4);
  }
}

template <int N>
struct Count {
  static constexpr int value = N;
};

template <int R, int V>
CUVIL_INLINE void store_rows(const float* tile, const TileOutput& o) {
  vf acc[R][V];
#pragma unroll
  for (int i = 0; i < R; ++i)
#pragma unroll
    for (int v = 0; v < V; ++v) acc[i][v] = load(tile + i * NR + v * VL);
  store_sums<R, V>(acc, o);
}

template <int V>
void store_all(const float* tile, int64_t rows, int64_t tail, float* c, int64_t ld,
               const Finish* finish) {
  int64_t i = 0;
  const auto next = [&](auto count) __attribute__((always_inline)) {
    constexpr int R = decltype(count)::value;
    const Finish here = finish ? finish->at(0, i * ld) : Finish{};
    store_rows<R, V>(tile + i * NR, {c + i * ld, ld, tail, finish ? &here : nullptr});
    i += R;
  };
  while (i + 4 <= rows) next(Count<4>());
  while (i < rows) next(Count<1>());
}

}  // namespace

bool amx_ready() {
  static uint32_t state;  // 0 not asked yet, 1 yes, 2 no
  uint32_t known = __atomic_load_n(&state, __ATOMIC_RELAXED);
  if (!known) {
    // arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA)
    known = os::call6(158, 0x1023, 18, 0, 0, 0, 0) == 0 ? 1 : 2;
    __atomic_store_n(&state, known, __ATOMIC_RELAXED);
  }
  return known == 1;
}

void amx_begin() {
  const TileConfig config;
  __builtin_ia32_tile_loadconfig(&config);
}
void amx_end() { __builtin_ia32_tilerelease(); }

void amx_multiply(const AmxRows& a, int64_t rows, const char* panel, const char* rest,
                  int64_t pairs, int64_t columns, float* out, int64_t ld, const Ahead& ahead) {
  if (rows > 16) {
    if (columns > 16) multiply<true, true>(a, panel, rest, pairs, out, ld, ahead);
    else multiply<true, false>(a, panel, rest, pairs, out, ld, ahead);
  } else {
    if (columns > 16) multiply<false, true>(a, panel, rest, pairs, out, ld, ahead);
    else multiply<false, false>(a, panel, rest, pairs, out, ld, ahead);
  }
}

void amx_store(const float* tile, int64_t rows, int64_t columns, float* c, int64_t ld,
               const Finish* finish) {
  if (columns > VL) store_all<2>(tile, rows, columns - VL, c, ld, finish);
  else store_all<1>(tile, rows, columns, c, ld, finish);
}

}  // namespace cuvil
#endif
