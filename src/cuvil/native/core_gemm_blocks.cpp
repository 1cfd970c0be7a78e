// Products with weights of a few bits: unpacked on the way for few rows of A, else panel by panel.
#include "gemm_blocks.hpp"

#include "contract.hpp"

namespace cuvil {
namespace {

typedef uint8_t vu8 __attribute__((vector_size(VL)));
typedef uint8_t vu8_mem __attribute__((vector_size(VL), aligned(1), may_alias));

constexpr int PANEL = NR / VL;
// Rows of A for which weights are not worth unpacking to memory.
constexpr int FEW_ROWS = 4;

struct CodeBlock {
  const uint8_t* codes;
  int64_t count;  // steps of k in it
  vf scale[PANEL], zero[PANEL];
};

struct Panel {
  const GemmBlocksArgs& args;
  int64_t index;

  CUVIL_INLINE int64_t blocks() const { return ceil_div(args.k, args.size); }

  CUVIL_INLINE CodeBlock block(int64_t b) const {
    const int64_t at = index * blocks() + b;
    CodeBlock out;
    out.codes = args.codes + at * (args.size * args.bits / 8) * NR;
    out.count = min64(args.size, args.k - b * args.size);
    for (int v = 0; v < PANEL; ++v) {
      out.scale[v] = load(args.scales + at * NR + v * VL);
      out.zero[v] = args.zeros ? load(args.zeros + at * NR + v * VL) : splat(args.zero);
    }
    return out;
  }
};

// The codes of step k of a block, less their zero points, for VL columns.
template <int BITS>
CUVIL_INLINE vf step(const CodeBlock& b, int64_t k, int v) {
  constexpr int EACH = 8 / BITS;
  const vu8 bytes = *reinterpret_cast<const vu8_mem*>(b.codes + k / EACH * NR + v * VL);
  const vi wide = __builtin_convertvector(bytes, vi);
  const vi code = (wide >> splat(int32_t(k % EACH * BITS))) & splat((1 << BITS) - 1);
  return __builtin_convertvector(code, vf) - b.zero[v];
}

template <int BITS>
void unpack(const Panel& panel, float* dst) {
  for (int64_t b = 0; b < panel.blocks(); ++b) {
    const CodeBlock block = panel.block(b);
    for (int64_t k = 0; k < block.count; ++k, dst += NR)
      for (int v = 0; v < PANEL; ++v)
        store(dst + v * VL, step<BITS>(block, k, v) * block.scale[v]);
  }
}

// Rows m0 .. m0 + R against one panel. A block's sum is scaled once.
template <int BITS, int R>
__attribute__((noinline)) void few_rows(const Panel& panel, int64_t m0, float* out) {
  const GemmBlocksArgs& args = panel.args;
  constexpr int EACH = 8 / BITS;
  vf total[R][PANEL] = {};
  const float* row[R];
#pragma unroll
  for (int r = 0; r < R; ++r) row[r] = args.a + (m0 + r) * args.a_row;
  for (int64_t b = 0; b < panel.blocks(); ++b) {
    const CodeBlock block = panel.block(b);
    vf part[R][PANEL] = {};
    const int64_t whole = block.count / EACH * EACH;
    for (int64_t k = 0; k < whole; k += EACH)
#pragma unroll
      for (int e = 0; e < EACH; ++e)
#pragma unroll
        for (int v = 0; v < PANEL; ++v) {
          const vf w = step<BITS>(block, k + e, v);
#pragma unroll
          for (int r = 0; r < R; ++r) part[r][v] += splat(row[r][k + e]) * w;
        }
    for (int64_t k = whole; k < block.count; ++k)
#pragma unroll
      for (int v = 0; v < PANEL; ++v) {
        const vf w = step<BITS>(block, k, v);
#pragma unroll
        for (int r = 0; r < R; ++r) part[r][v] += splat(row[r][k]) * w;
      }
#pragma unroll
    for (int r = 0; r < R; ++r) {
      row[r] += block.count;
#pragma unroll
      for (int v = 0; v < PANEL; ++v) total[r][v] += part[r][v] * block.scale[v];
    }
  }
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int v = 0; v < PANEL; ++v) store(out + r * NR + v * VL, total[r][v]);
}

// Hands a finished tile over, or copies it to C.
void finish(const GemmBlocksArgs& args, const float* tile, int64_t m0, int64_t rows, int64_t n0) {
  const int64_t columns = min64(NR, args.n - n0);
  if (args.epilogue.fn) {
    args.epilogue.fn(args.epilogue.ctx, tile, NR, 0, m0, rows, n0, columns);
    return;
  }
  for (int64_t r = 0; r < rows; ++r)
    copy_floats(args.c + (m0 + r) * args.c_row + n0, tile + r * NR, columns);
}

template <int BITS>
void multiply_few(const Panel& panel, float* tile) {
  for (int64_t m0 = 0; m0 < panel.args.m; m0 += FEW_ROWS) {
    const int64_t rows = min64(FEW_ROWS, panel.args.m - m0);
    if (rows == 1) few_rows<BITS, 1>(panel, m0, tile);
    else if (rows == 2) few_rows<BITS, 2>(panel, m0, tile);
    else if (rows == 3) few_rows<BITS, 3>(panel, m0, tile);
    else few_rows<BITS, 4>(panel, m0, tile);
    finish(panel.args, tile, m0, rows, panel.index * NR);
  }
}

template <int BITS>
void multiply_panel(const GemmBlocksArgs& args, int64_t index, int32_t thread) {
  alignas(64) float tile[MR * NR];
  static_assert(MR >= FEW_ROWS, "a tile holds few rows");
  const Panel panel = {args, index};
  if (args.m <= FEW_ROWS) return multiply_few<BITS>(panel, tile);
  float* weights = static_cast<float*>(args.scratch) + thread * args.k * NR;
  unpack<BITS>(panel, weights);
  const int64_t columns = min64(NR, args.n - index * NR), step = tile_rows_at(args.a_row, args.k);
  const float* table[MR];
  for (int64_t m0 = 0; m0 < args.m; m0 += step) {
    const int64_t rows = min64(step, args.m - m0);
    for (int64_t r = 0; r < rows; ++r) table[r] = args.a + (m0 + r) * args.a_row;
    const bool direct = args.epilogue.fn == nullptr;
    float* out = direct ? args.c + m0 * args.c_row + index * NR : tile;
    multiply_tile({table, 1, args.k}, rows, weights, out, direct ? args.c_row : NR, columns,
                  !direct);
    if (!direct) finish(args, tile, m0, rows, index * NR);
  }
}

}  // namespace

void gemm_blocks(const GemmBlocksArgs& args) {
  if (args.m <= 0 || args.n <= 0) return;
  const int64_t panels = ceil_div(args.n, NR);
  const double ns = double(args.k) * NR * (0.06 + 0.02 * double(args.m));
  const int64_t grain = int64_t(MIN_RANGE_NS / ns) + 1;
  parallel_for(args.pool, panels, grain, [&](int64_t begin, int64_t end, int32_t thread) {
    for (int64_t i = begin; i < end; ++i) {
      if (args.bits == 4) multiply_panel<4>(args, i, thread);
      else if (args.bits == 8) multiply_panel<8>(args, i, thread);
      else multiply_panel<2>(args, i, thread);
    }
  });
}

}  // namespace cuvil
