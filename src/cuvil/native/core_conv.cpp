// Convolution: finds where each output pixel's inputs lie and hands pointers to the contraction
// loops.
#include "conv.hpp"

#include "contract.hpp"

namespace cuvil {
namespace {

// The inputs of a tile of output pixels: window i begins at (y[i], x[i]), element `offset[i]` of
// the input, of which only in-range positions may be read.
struct Windows {
  int64_t count;
  int64_t y[MR], x[MR], offset[MR];
  bool inside;  // no window touches the padding
};

struct PixelRows {
  const ConvArgs& a;
  int64_t cg, taps, thread_bytes;
  bool runs;  // the kw * c inputs of a kernel row are contiguous
  float* zeros;
  char* parts;

  explicit PixelRows(const ConvArgs& args) : a(args) {
    cg = a.c / a.groups;
    taps = int64_t(a.kh) * a.kw;
    thread_bytes = conv_thread_bytes(taps, cg);
    runs = a.groups == 1 && (a.dw == 1 || a.kw == 1);
    zeros = static_cast<float*>(a.scratch);
    parts = static_cast<char*>(a.scratch) + round_up(conv_zero_row(taps, cg), 16) * 4;
    fill_floats(zeros, 0, conv_zero_row(taps, cg));
  }

  const float** table(int32_t thread) const {
    return reinterpret_cast<const float**>(parts + thread * thread_bytes);
  }
  float* gathered(int32_t thread) const {
    return reinterpret_cast<float*>(parts + thread * thread_bytes + round_up(8 * MR * taps, 64));
  }

  Windows locate(int64_t m0, int64_t mr) const {
    Windows win;
    win.count = mr;
    win.inside = true;
    int64_t ox = m0 % a.ow, oy = m0 / a.ow % a.oh, image = m0 / (a.ow * a.oh);
    const int64_t y_end = a.h - int64_t(a.kh - 1) * a.dh, x_end = a.w - int64_t(a.kw - 1) * a.dw;
    for (int64_t i = 0; i < mr; ++i) {
      const int64_t y = oy * a.sh - a.ph, x = ox * a.sw - a.pw;
      win.y[i] = y;
      win.x[i] = x;
      win.offset[i] = ((image * a.h + y) * a.w + x) * a.c;
      win.inside &= y >= 0 && y < y_end && x >= 0 && x < x_end;
      if (++ox == a.ow) {
        ox = 0;
        if (++oy == a.oh) oy = 0, ++image;
      }
    }
    return win;
  }

  TileOperands prepare(const TileRequest& want) const {
    const Windows win = locate(want.m0, want.mr);
    const float* group = a.x + want.batch * cg;
    if (win.inside) return inside_rows(win, group, table(want.thread));
    if (runs && cg < CONV_SHORT_RUN)
      return patched_rows(win, table(want.thread), gathered(want.thread));
    return border_rows(win, group, table(want.thread));
  }

  // Every tap of every window exists, and the taps of a kernel row may be one run.
  TileOperands inside_rows(const Windows& win, const float* group, const float** entry) const {
    const float** const first = entry;
    const int64_t columns = runs ? 1 : a.kw;
    for (int64_t r = 0; r < a.kh; ++r)
      for (int64_t j = 0; j < columns; ++j, entry += MR) {
        const float* tap = group + (r * a.dh * a.w + j * a.dw) * a.c;
        for (int64_t i = 0; i < win.count; ++i) entry[i] = tap + win.offset[i];
      }
    return {first, a.kh * columns, runs ? a.kw * cg : cg};
  }

  TileOperands border_rows(const Windows& win, const float* group, const float** entry) const {
    const float** const first = entry;
    for (int64_t r = 0; r < a.kh; ++r)
      for (int64_t j = 0; j < a.kw; ++j, entry += MR) {
        const int64_t dy = r * a.dh, dx = j * a.dw, tap = (dy * a.w + dx) * a.c;
        for (int64_t i = 0; i < win.count; ++i) {
          const bool exists = uint64_t(win.y[i] + dy) < uint64_t(a.h) &&
                              uint64_t(win.x[i] + dx) < uint64_t(a.w);
          entry[i] = exists ? group + (win.offset[i] + tap) : zeros;
        }
      }
    return {first, taps, cg};
  }

  // Kernel rows as runs also at the borders: those that the input doesn't hold whole are copied.
  TileOperands patched_rows(const Windows& win, const float** entry, float* copies) const {
    const float** const first = entry;
    const int64_t run = a.kw * cg;
    for (int64_t r = 0; r < a.kh; ++r, entry += MR)
      for (int64_t i = 0; i < win.count; ++i) {
        const int64_t left = max64(0, min64(-win.x[i], a.kw)) * cg;
        const int64_t right = max64(0, min64(a.w - win.x[i], a.kw)) * cg;
        const float* src = a.x + (win.offset[i] + r * a.dh * a.w * a.c);
        if (uint64_t(win.y[i] + r * a.dh) >= uint64_t(a.h) || left >= right) {
          entry[i] = zeros;
        } else if (right - left == run) {
          entry[i] = src;
        } else {
          fill_floats(copies, 0, left);
          copy_floats(copies + left, src + left, right - left);
          fill_floats(copies + right, 0, run - right);
          entry[i] = copies;
          copies += run;
        }
      }
    return {first, a.kh, run};
  }
};

bool is_matrix_product(const ConvArgs& a) {
  return a.kh == 1 && a.kw == 1 && a.sh == 1 && a.sw == 1 && a.ph == 0 && a.pw == 0 &&
         a.groups == 1 && a.oh == a.h && a.ow == a.w;
}

}  // namespace

void conv2d_f32(const ConvArgs& a) {
  const int64_t pixels = a.n * a.oh * a.ow, og = a.oc / a.groups, cg = a.c / a.groups;
  if (pixels <= 0 || og <= 0) return;
  if (is_matrix_product(a)) {
    gemm_f32({1, pixels, og, cg, a.x, 0, cg, 1, a.w_packed, 0, a.y, 0, og, a.epilogue, a.scratch,
              a.pool});
    return;
  }
  const int64_t k = int64_t(a.kh) * a.kw * cg;
  const int64_t row_limit = tile_rows_at(a.sw * a.c, cg);
  const int64_t group_size = packed_b_size(k, og);
  const Contraction p = {a.groups, pixels, og,   k,         a.w_packed, group_size, a.y,
                         og,       a.oc,   true, row_limit, 1,          a.epilogue, a.pool};
  contract(p, PixelRows(a));
}

}  // namespace cuvil
