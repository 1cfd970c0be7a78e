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

// Sums of SEGMENTS by COLUMNS tiles of 16 columns, four at most.
template <int SEGMENTS, int COLUMNS>
void multiply_segments(const AmxWindow& win, const AmxSegment* const (&from)[4], const char* b,
                       float* out, const Ahead& ahead) {
  __builtin_ia32_tilezero(0);
  __builtin_ia32_tilezero(1);
  __builtin_ia32_tilezero(2);
  __builtin_ia32_tilezero(3);
  AheadWalk next(ahead, b);
  const int64_t row = win.row_bytes;
  for (int64_t q = 0; q < win.planes; ++q)
    for (int64_t r = 0; r < win.lines; ++r, b += win.line_panel) {
      const char* line[SEGMENTS];
#pragma unroll
      for (int i = 0; i < SEGMENTS; ++i)
        line[i] = from[i]->first + q * from[i]->plane + r * from[i]->line;
      for (int64_t o = 0; o < win.outer.count; ++o) {
        int64_t left = o * win.outer.left;
        const char* panel = b + o * win.outer.panel;
        for (int64_t i = 0; i < win.inner.count; ++i) {
          next.steps();
          __builtin_ia32_tileloadd64(6, panel, PANEL_STEP);
          if constexpr (COLUMNS > 1) __builtin_ia32_tileloadd64(7, panel + 64, PANEL_STEP);
          __builtin_ia32_tileloadd64(4, line[0] + left, row);
          __builtin_ia32_tdpbf16ps(0, 4, 6);
          if constexpr (COLUMNS > 1) __builtin_ia32_tdpbf16ps(2, 4, 7);
          __builtin_ia32_tileloadd64(5, line[1] + left, row);
          __builtin_ia32_tdpbf16ps(1, 5, 6);
          if constexpr (COLUMNS > 1) __builtin_ia32_tdpbf16ps(3, 5, 7);
          if constexpr (SEGMENTS > 2) {
            __builtin_ia32_tileloadd64(4, line[2] + left, row);
            __builtin_ia32_tdpbf16ps(2, 4, 6);
            __builtin_ia32_tileloadd64(5, line[3] + left, row);
            __builtin_ia32_tdpbf16ps(3, 5, 6);
          }
          left += win.inner.left;
          panel += win.inner.panel;
        }
      }
    }
  constexpr int64_t ld = NR * 4;
  __builtin_ia32_tilestored64(0, out, ld);
  __builtin_ia32_tilestored64(1, out + 16 * NR, ld);
  if constexpr (COLUMNS > 1) {
    __builtin_ia32_tilestored64(2, out + 16, ld);
    __builtin_ia32_tilestored64(3, out + 16 * NR + 16, ld);
  } else if constexpr (SEGMENTS > 2) {
    __builtin_ia32_tilestored64(2, out + 32 * NR, ld);
    __builtin_ia32_tilestored64(3, out + 48 * NR, ld);
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
  while (i + 8 <= rows) next(Count<8>());
  if (i + 4 <= rows) next(Count<4>());
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

void amx_begin(int64_t rows, int64_t pairs) {
  TileConfig config;
  for (int i = 0; i < 6; ++i) config.rows[i] = uint8_t(rows);
  config.row_bytes[4] = config.row_bytes[5] = uint16_t(pairs * 4);
  config.rows[6] = config.rows[7] = uint8_t(pairs);
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

void amx_multiply(const AmxWindow& window, const AmxSegment* segments, int64_t apart,
                  int64_t count, const char* panel, int64_t columns, float* out,
                  const Ahead& ahead) {
  const AmxSegment* from[4];  // the last one stands for those that are missing
  for (int i = 0; i < 4; ++i)
    from[i] = reinterpret_cast<const AmxSegment*>(reinterpret_cast<const char*>(segments) +
                                                  min64(i, count - 1) * apart);
  if (count <= 2) {
    if (columns > 16) multiply_segments<2, 2>(window, from, panel, out, ahead);
    else multiply_segments<2, 1>(window, from, panel, out, ahead);
    return;
  }
  multiply_segments<4, 1>(window, from, panel, out, ahead);
  if (columns <= 16) return;
  const char* const rest = static_cast<const char*>(ahead.first) + window.steps() * ahead.stride;
  multiply_segments<4, 1>(window, from, panel + 64, out + 16, {ahead.first ? rest : nullptr,
                          ahead.stride});
}

void amx_store(const float* tile, int64_t rows, int64_t columns, float* c, int64_t ld,
               const Finish* finish) {
  if (columns > VL) store_all<2>(tile, rows, columns - VL, c, ld, finish);
  else store_all<1>(tile, rows, columns, c, ld, finish);
}

}  // namespace cuvil
#endif
