// Convolution: finds where each output pixel's inputs lie and hands pointers to the contraction loops.
#include "conv.hpp"

#include "contract.hpp"

namespace cuvil {
namespace {

// Below this many channels a tap is too short a run: whole kernel rows are gathered at the borders.
constexpr int64_t SHORT_RUN = 16;
constexpr int64_t SET_PERIOD_BYTES = 4096;  // see core_gemm.cpp

// The inputs of a tile of output pixels: window i begins at (y[i], x[i]), element `offset[i]` of the
// input, of which only in-range positions may be read.
struct Windows {
  int64_t count;
  int64_t y[MR], x[MR], offset[MR];
  bool inside;  // no window touches the padding
};

struct PixelRows {
  const ConvArgs& a;
  int64_t cg, taps, thread_bytes;
  bool runs;      // the kw * c inputs of a kernel row are contiguous
  bool same_set;  // neighbouring pixels' inputs would fight for one cache set
  float* zeros;
  char* parts;

  explicit PixelRows(const ConvArgs& args) : a(args) {
    cg = a.c / a.groups;
    taps = int64_t(a.kh) * a.kw;
    thread_bytes = conv_thread_bytes(taps, cg);
    runs = a.groups == 1 && (a.dw == 1 || a.kw == 1);
    same_set = a.sw * a.c * int64_t(sizeof(float)) % SET_PERIOD_BYTES == 0 && cg > 64;
    zeros = static_cast<float*>(a.scratch);
    parts = static_cast<char*>(a.scratch) + round_up(cg, 16) * int64_t(sizeof(float));
    fill_floats(zeros, 0, cg);
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
    if (win.inside && !(same_set && taps == 1)) {
      const bool whole_rows = runs;
      return inside_rows(win, group, table(want.thread), whole_rows);
    }
    if (runs && (cg < SHORT_RUN || taps == 1))
      return gathered_rows(win, want.table, gathered(want.thread));
    return border_rows(win, group, table(want.thread));
  }

  // Every tap of every window exists; with whole_rows the taps of a kernel row are one run.
  TileOperands inside_rows(const Windows& win, const float* group, const float** entry,
                           bool whole_rows) const {
    const float** const first = entry;
    const int64_t columns = whole_rows ? 1 : a.kw;
    for (int64_t r = 0; r < a.kh; ++r)
      for (int64_t j = 0; j < columns; ++j, entry += MR) {
        const float* tap = group + (r * a.dh * a.w + j * a.dw) * a.c;
        for (int64_t i = 0; i < win.count; ++i) entry[i] = tap + win.offset[i];
      }
    return {first, a.kh * columns, whole_rows ? a.kw * cg : cg};
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

  TileOperands gathered_rows(const Windows& win, const float** entry, float* rows) const {
    const int64_t stride = gemm_scratch_stride(taps * cg), run = a.kw * cg;
    for (int64_t i = 0; i < win.count; ++i) {
      float* dst = rows + i * stride;
      entry[i] = dst;
      const int64_t left = max64(0, min64(-win.x[i], a.kw)) * cg;
      const int64_t right = max64(0, min64(a.w - win.x[i], a.kw)) * cg;
      for (int64_t r = 0; r < a.kh; ++r, dst += run) {
        if (uint64_t(win.y[i] + r * a.dh) >= uint64_t(a.h) || left >= right) {
          fill_floats(dst, 0, run);
          continue;
        }
        if (left) fill_floats(dst, 0, left);
        copy_floats(dst + left, a.x + (win.offset[i] + r * a.dh * a.w * a.c + left), right - left);
        if (right < run) fill_floats(dst + right, 0, run - right);
      }
    }
    return {entry, 1, taps * cg};
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
  const Contraction p = {a.groups, pixels, og,   k,    a.w_packed, packed_b_size(k, og), a.y,
                         og,       a.oc,   true, a.epilogue, a.pool};
  contract(p, PixelRows(a));
}

}  // namespace cuvil
