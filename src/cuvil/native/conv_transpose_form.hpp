// Transposed convolution: one register-tiled product a phase, interleaved into rows of the output.
// Internal to the core. An element of the input is 4 bytes that are only moved here: a float, or a
// pair of bf16; a Multiply computes one register tile (contract.hpp).
#pragma once
#include "contract.hpp"
#include "conv_transpose.hpp"

namespace cuvil {

// One axis: which taps meet outputs of phase r, those with i * dilation mod stride = r. They are
// `step` apart, and from one to the next the input lies `shift` further back.
struct Axis {
  int64_t taps, stride, dilation, step, shift;

  Axis(int64_t taps, int64_t stride, int64_t dilation)
      : taps(taps), stride(stride), dilation(dilation) {
    int64_t a = stride, b = dilation;
    while (b) {
      const int64_t rest = a % b;
      a = b;
      b = rest;
    }
    step = stride / a;
    shift = dilation / a;
  }

  // The first such tap; taps or more where there is none.
  int64_t first(int64_t phase) const {
    if (dilation == 1) return phase;
    for (int64_t i = 0; i < step; ++i)
      if (i * dilation % stride == phase) return i;
    return taps;
  }

  // What a phase's first tap takes off the quotient of a place by the stride.
  int64_t lag(int64_t first) const { return dilation == 1 ? 0 : first * dilation / stride; }

  int64_t count(int64_t phase) const {
    int64_t found = 0;
#pragma clang loop vectorize(disable) unroll(disable)
    for (int64_t i = first(phase); i < taps; i += step) ++found;
    return found;
  }
};

struct RowChunk {
  int64_t group, image, oy, x0, x1;   // output pixels [x0, x1) of one row
  int64_t ry, qy;                     // oy + ph by the stride: rest and quotient
  int64_t row_taps, taps_before;      // taps_before: of the phases packed before (ry, 0)
};

struct Phase {
  int64_t count, ix, j0;  // pixels; input column of the first of them under tap j0, the first tap
};

template <class Multiply>
struct Transposed {
  const ConvTransposeArgs& a;
  Axis down, across;
  int64_t cg, og, panels, block_panels, blocks, chunk, chunks, group_panels, rows, items, grain;
  float* zeros;
  char* tables;

  explicit Transposed(const ConvTransposeArgs& args)
      : a(args), down(args.kh, args.sh, args.dh), across(args.kw, args.sw, args.dw) {
    cg = a.c / a.groups;
    og = a.oc / a.groups;
    panels = ceil_div(og, NR);
    const int64_t phase_bytes = max64(1, cg * a.kh * a.kw * NR * 4 / a.sh);
    block_panels = max64(1, min64(panels, L2_PANEL_BYTES / phase_bytes));
    blocks = ceil_div(panels, block_panels);
    chunks = ceil_div(a.ow, MR * min64(a.sw, EPILOGUE_PANELS));
    chunk = ceil_div(a.ow, chunks);
    group_panels = max64(1, EPILOGUE_PANELS * MR / chunk);
    if (group_panels > EPILOGUE_PANELS) group_panels = EPILOGUE_PANELS;
    rows = a.n * a.oh;
    items = a.groups * blocks * rows * chunks;
    const double flops = 2.0 * double(a.n * a.h * a.w * a.c) * double(og * a.kh * a.kw);
    const double ns = flops / (1.8 * CUVIL_VEC_BYTES) / double(items) + 50;
    grain = ns >= MIN_RANGE_NS ? 1 : int64_t(MIN_RANGE_NS / ns) + 1;
    zeros = static_cast<float*>(a.scratch);
    tables = static_cast<char*>(a.scratch) + round_up(cg, 16) * 4;
    fill_floats(zeros, 0, cg);
  }

  const float** table(int32_t thread) const {
    return reinterpret_cast<const float**>(tables + thread * round_up(8 * MR * a.kh * a.kw, 64));
  }

  // Rows of one vertical phase follow each other, so that their part of the weights stays in cache.
  RowChunk locate(int64_t item) const {
    RowChunk at = {};
    at.x0 = item % chunks * chunk;
    at.x1 = min64(a.ow, at.x0 + chunk);
    int64_t row = item / chunks % rows;
    at.group = min64(item / (chunks * rows * blocks), a.groups - 1);  // also past the last item
    for (at.ry = 0;; ++at.ry) {
      at.row_taps = down.count(at.ry);
      const int64_t first = ((at.ry - a.ph) % a.sh + a.sh) % a.sh;
      const int64_t count = first < a.oh ? ceil_div(a.oh - first, a.sh) : 0;
      if (row < a.n * count) {
        at.image = row / count;
        at.oy = first + row % count * a.sh;
        at.qy = (at.oy + a.ph) / a.sh;
        return at;
      }
      row -= a.n * count;
      at.taps_before += at.row_taps * a.kw;
    }
  }

  // The chunk of item + 1, mostly found without a division.
  RowChunk after(RowChunk at, int64_t item) const {
    at.x0 = at.x1;
    if (at.x0 >= a.ow) {
      at.x0 = 0, at.oy += a.sh, ++at.qy;
      if (at.oy >= a.oh) return locate(item + 1);
    }
    at.x1 = min64(a.ow, at.x0 + chunk);
    return at;
  }

  // Inputs of the pixels of one phase: `count` from ox0 on, sw apart, the first at input column ix
  // under the phase's first tap j0. Returns the number of taps.
  int64_t fill_table(const RowChunk& at, const Phase& phase, const float** entry) const {
    int64_t taps = 0;
    const float* group = a.x + at.image * a.h * a.w * a.c + at.group * cg;
    const int64_t i0 = down.first(at.ry);
    int64_t iy = at.qy - down.lag(i0);
    for (int64_t i = i0; i < a.kh; i += down.step, iy -= down.shift) {
      const bool row_exists = uint64_t(iy) < uint64_t(a.h);
      int64_t ix0 = phase.ix;
      for (int64_t j = phase.j0; j < a.kw; j += across.step, ix0 -= across.shift) {
#pragma clang loop vectorize(disable) unroll(disable)  // at most MR entries
        for (int64_t p = 0; p < phase.count; ++p) {
          const int64_t ix = ix0 + p;
          const bool exists = row_exists && uint64_t(ix) < uint64_t(a.w);
          entry[p] = exists ? group + (iy * a.w + ix) * a.c : zeros;
        }
        entry += MR;
        ++taps;
      }
    }
    return taps;
  }

  // Panels [panel0, panel1) of the chunk into out: pixel x0's row first, rows ld apart. Phases come
  // in the order of their first pixels, which costs no division.
  void multiply_phases(const RowChunk& at, int64_t panel0, int64_t panel1, float* out, int64_t ld,
                       int32_t thread) const {
    const float* group = a.w_packed + at.group * panels * a.kh * a.kw * cg * NR;
    const float** const pointers = table(thread);
    const int64_t width = at.x1 - at.x0, base = width / a.sw, longer = width - base * a.sw;
    int64_t qx = (at.x0 + a.pw) / a.sw, rx = at.x0 + a.pw - qx * a.sw;
    int64_t taps_before = at.taps_before;
    for (int64_t r = 0; r < rx; ++r) taps_before += at.row_taps * across.count(r);
    for (int64_t d = 0; d < min64(a.sw, width); ++d) {
      const int64_t size = at.row_taps * across.count(rx);
      const float* weights = group + taps_before * panels * cg * NR;
      const int64_t j0 = across.first(rx);
      const Phase phase = {base + (d < longer), qx - across.lag(j0), j0};
      const TileOperands tile = {pointers, fill_table(at, phase, pointers), cg};
      for (int64_t panel = panel0; panel < panel1; ++panel)
        Multiply()(tile, phase.count, weights + panel * size * cg * NR,
                   out + d * ld + (panel - panel0) * NR, ld * a.sw, min64(NR, og - panel * NR),
                   a.epilogue.fn != nullptr, nullptr);
      taps_before += size;
      if (++rx == a.sw) rx = 0, ++qx, taps_before = at.taps_before;
    }
  }

  void run(const RowChunk& at, int64_t item, int32_t thread) const {
    alignas(64) float buffer[EPILOGUE_PANELS * MR * NR];
    const int64_t block = item / (chunks * rows) % blocks;
    const int64_t last = min64(panels, (block + 1) * block_panels);
    const int64_t m0 = (at.image * a.oh + at.oy) * a.ow + at.x0;
    for (int64_t panel = block * block_panels; panel < last; panel += group_panels) {
      const int64_t end = min64(last, panel + group_panels);
      const int64_t n0 = at.group * og + panel * NR, n1 = at.group * og + min64(og, end * NR);
      if (!a.epilogue.fn) {
        multiply_phases(at, panel, end, a.y + m0 * a.oc + n0, a.oc, thread);
        continue;
      }
      const int64_t ld = (end - panel) * NR;
      multiply_phases(at, panel, end, buffer, ld, thread);
      a.epilogue.fn(a.epilogue.ctx, buffer, ld, 0, m0, at.x1 - at.x0, n0, n1 - n0);
    }
  }
};

template <class Multiply>
void conv_transpose2d(const ConvTransposeArgs& a) {
  if (a.n <= 0 || a.oh <= 0 || a.ow <= 0 || a.oc <= 0) return;
  const Transposed<Multiply> work(a);
  parallel_for(a.pool, work.items, work.grain, [&](int64_t begin, int64_t end, int32_t thread) {
    RowChunk at = work.locate(begin);
    for (int64_t item = begin; item < end; at = work.after(at, item++)) work.run(at, item, thread);
  });
}

}  // namespace cuvil
