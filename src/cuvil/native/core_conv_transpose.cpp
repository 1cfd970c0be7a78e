// Transposed convolution: one register-tiled product a phase, interleaved into rows of the output.
#include "conv_transpose.hpp"

#include "contract.hpp"

namespace cuvil {
namespace {

// Taps of one axis that meet outputs of phase r: those with i * dilation mod stride = r.
int64_t phase_taps(int64_t taps, int64_t stride, int64_t dilation, int64_t phase) {
  int64_t count = 0;
  for (int64_t i = 0; i < taps; ++i) count += i * dilation % stride == phase;
  return count;
}

struct RowChunk {
  int64_t group, image, oy, x0, x1;  // output pixels [x0, x1) of one row
  int64_t ry, row_taps, taps_before; // taps_before: of the phases packed before (ry, 0)
};

struct Transposed {
  const ConvTransposeArgs& a;
  int64_t cg, og, panels, block_panels, blocks, chunk, chunks, group_panels, rows, items, grain;
  float* zeros;
  char* tables;

  explicit Transposed(const ConvTransposeArgs& args) : a(args) {
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
    at.group = item / (chunks * rows * blocks);
    for (at.ry = 0;; ++at.ry) {
      at.row_taps = phase_taps(a.kh, a.sh, a.dh, at.ry);
      const int64_t first = ((at.ry - a.ph) % a.sh + a.sh) % a.sh;
      const int64_t count = first < a.oh ? ceil_div(a.oh - first, a.sh) : 0;
      if (row < a.n * count) {
        at.image = row / count;
        at.oy = first + row % count * a.sh;
        return at;
      }
      row -= a.n * count;
      at.taps_before += at.row_taps * a.kw;
    }
  }

  // Inputs of the pixels ox0, ox0 + sw, ... (count of them) for the phase rx; returns the number of
  // taps.
  int64_t fill_table(const RowChunk& at, int64_t ox0, int64_t count, int64_t rx,
                     const float** entry) const {
    int64_t taps = 0;
    const float* group = a.x + at.image * a.h * a.w * a.c + at.group * cg;
    for (int64_t i = 0; i < a.kh; ++i) {
      if (i * a.dh % a.sh != at.ry) continue;
      const int64_t iy = (at.oy + a.ph - i * a.dh) / a.sh;
      const bool row_exists = at.oy + a.ph >= i * a.dh && iy < a.h;
      for (int64_t j = 0; j < a.kw; ++j) {
        if (j * a.dw % a.sw != rx) continue;
        const int64_t ix0 = (ox0 + a.pw - j * a.dw) / a.sw;  // exact, also below zero
        for (int64_t p = 0; p < count; ++p) {
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

  // Panels [panel0, panel1) of the chunk into out: pixel x0's row first, rows ld apart.
  void multiply_phases(const RowChunk& at, int64_t panel0, int64_t panel1, float* out, int64_t ld,
                       int32_t thread) const {
    const float* group = a.w_packed + at.group * panels * a.kh * a.kw * cg * NR;
    const float** const pointers = table(thread);
    int64_t taps_before = at.taps_before;
    for (int64_t rx = 0; rx < a.sw; ++rx) {
      const int64_t ox0 = at.x0 + ((rx - a.pw - at.x0) % a.sw + a.sw) % a.sw;
      const int64_t phase = at.row_taps * phase_taps(a.kw, a.sw, a.dw, rx);
      const float* weights = group + taps_before * panels * cg * NR;
      taps_before += phase;
      if (ox0 >= at.x1) continue;
      const int64_t count = ceil_div(at.x1 - ox0, a.sw);
      const TileOperands tile = {pointers, fill_table(at, ox0, count, rx, pointers), cg};
      for (int64_t panel = panel0; panel < panel1; ++panel)
        multiply_tile(tile, count, weights + panel * phase * cg * NR,
                      out + (ox0 - at.x0) * ld + (panel - panel0) * NR, ld * a.sw,
                      min64(NR, og - panel * NR), a.epilogue.fn != nullptr);
    }
  }

  void run(int64_t item, int32_t thread) const {
    alignas(64) float buffer[EPILOGUE_PANELS * MR * NR];
    const RowChunk at = locate(item);
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

}  // namespace

void conv_transpose2d_f32(const ConvTransposeArgs& a) {
  if (a.n <= 0 || a.oh <= 0 || a.ow <= 0 || a.oc <= 0) return;
  const Transposed work(a);
  parallel_for(a.pool, work.items, work.grain, [&](int64_t begin, int64_t end, int32_t thread) {
    for (int64_t item = begin; item < end; ++item) work.run(item, thread);
  });
}

}  // namespace cuvil
