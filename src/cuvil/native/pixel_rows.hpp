// Where each output pixel's inputs lie: a convolution's rows for the contraction loops. Internal to
// the core. An element is 4 bytes that are only moved here: a float, or a pair of bf16.
#pragma once
#include "contract.hpp"
#include "conv.hpp"

namespace cuvil {

// The inputs of a tile of output pixels: window i begins at (z[i], y[i], x[i]), element `offset[i]`
// of the input, of which only in-range positions may be read. Windows past `count` repeat the last
// one, so that loops over a table's MR entries have a fixed length.
struct Windows {
  int64_t count;
  int64_t z[MR], y[MR], x[MR], offset[MR];
  bool inside;  // no window touches the padding
};

// One past the last position where a window of `taps` still ends within `size`.
inline int64_t inside_end(int64_t size, int64_t taps, int64_t dilation) {
  return size - (taps - 1) * dilation;
}

struct PixelRows {
  const ConvArgs& a;
  int64_t cg, taps, thread_bytes;
  bool runs;  // the kw * c inputs of a kernel row are contiguous
  float* zeros;
  char* parts;

  explicit PixelRows(const ConvArgs& args) : a(args) {
    cg = a.c / a.groups;
    taps = int64_t(a.kd) * a.kh * a.kw;
    thread_bytes = conv_thread_bytes(taps, cg);
    runs = a.groups == 1 && (a.dw == 1 || a.kw == 1);
    zeros = static_cast<float*>(a.scratch);
    parts = static_cast<char*>(a.scratch) + round_up(conv_zero_row(a.kw, cg), 16) * 4;
    fill_floats(zeros, 0, conv_zero_row(a.kw, cg));
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
    const int64_t line = m0 / a.ow, plane = line / a.oh;
    const bool flat = a.od == 1;  // spares a division
    int64_t image = flat ? plane : plane / a.od;
    int64_t ox = m0 % a.ow, oy = line % a.oh, oz = flat ? 0 : plane % a.od;
    const int64_t x_end = inside_end(a.w, a.kw, a.dw);
    for (int64_t i = 0; i < MR;) {
      const int64_t z = oz * a.sd - a.pd, y = oy * a.sh - a.ph, first_x = ox * a.sw - a.pw;
      const int64_t row = ((image * a.d + z) * a.h + y) * a.w;
      win.inside &= z >= 0 && z < inside_end(a.d, a.kd, a.dd) && y >= 0 &&
                    y < inside_end(a.h, a.kh, a.dh) && first_x >= 0;
      const int64_t end = i + min64(mr - i, a.ow - ox), last = end == mr ? MR : end;
      int64_t x = first_x;
      for (; i < last; ++i) {
        win.z[i] = z;
        win.y[i] = y;
        win.x[i] = x;
        win.offset[i] = (row + x) * a.c;
        if (i + 1 < end) x += a.sw;
      }
      win.inside &= x < x_end;
      ox = 0;
      if (++oy < a.oh) continue;
      oy = 0;
      if (++oz == a.od) oz = 0, ++image;
    }
    return win;
  }

  // Whether tap row (q, r) of window i lies in an input row.
  bool in_row(const Windows& win, int64_t i, int64_t q, int64_t r) const {
    return uint64_t(win.z[i] + q * a.dd) < uint64_t(a.d) &&
           uint64_t(win.y[i] + r * a.dh) < uint64_t(a.h);
  }
  // Elements from a window's first tap to tap row (q, r).
  int64_t row_offset(int64_t q, int64_t r) const { return (q * a.dd * a.h + r * a.dh) * a.w * a.c; }

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
    for (int64_t q = 0; q < a.kd; ++q)
      for (int64_t r = 0; r < a.kh; ++r)
        for (int64_t j = 0; j < columns; ++j, entry += MR) {
          const float* tap = group + (row_offset(q, r) + j * a.dw * a.c);
          for (int64_t i = 0; i < MR; ++i) entry[i] = tap + win.offset[i];
        }
    return {first, int64_t(a.kd) * a.kh * columns, runs ? a.kw * cg : cg};
  }

  TileOperands border_rows(const Windows& win, const float* group, const float** entry) const {
    const float** const first = entry;
    const float* const outside = zeros;
    int64_t width[MR];  // of the input row; 0 where there is none
    for (int64_t q = 0; q < a.kd; ++q)
      for (int64_t r = 0; r < a.kh; ++r) {
        for (int64_t i = 0; i < MR; ++i) width[i] = in_row(win, i, q, r) ? a.w : 0;
        for (int64_t j = 0; j < a.kw; ++j, entry += MR) {
          const int64_t dx = j * a.dw, tap = row_offset(q, r) + dx * a.c;
          for (int64_t i = 0; i < MR; ++i) {
            const bool exists = uint64_t(win.x[i] + dx) < uint64_t(width[i]);
            entry[i] = exists ? group + (win.offset[i] + tap) : outside;
          }
        }
      }
    return {first, taps, cg};
  }

  // Kernel rows as runs also at the borders: those that the input doesn't hold whole are copied.
  TileOperands patched_rows(const Windows& win, const float** entry, float* copies) const {
    const float** const first = entry;
    const float* const outside = zeros;
    int64_t cut[MR], cuts = 0;  // windows that cross the left or the right border
    for (int64_t i = 0; i < win.count; ++i)
      if (win.x[i] < 0 || win.x[i] + a.kw > a.w) cut[cuts++] = i;
    for (int64_t q = 0; q < a.kd; ++q)
      for (int64_t r = 0; r < a.kh; ++r, entry += MR) {
        const float* row = a.x + row_offset(q, r);
        for (int64_t i = 0; i < MR; ++i)
          entry[i] = in_row(win, i, q, r) ? row + win.offset[i] : outside;
        for (int64_t n = 0; n < cuts; ++n)
          if (entry[cut[n]] != outside) {
            entry[cut[n]] = patched(win.x[cut[n]], entry[cut[n]], copies);
            copies += a.kw * cg;
          }
      }
    return {first, int64_t(a.kd) * a.kh, a.kw * cg};
  }

  // The kernel row that begins at column x, address src, with zeros outside the input; in dst.
  const float* patched(int64_t x, const float* src, float* dst) const {
    const int64_t left = max64(0, min64(-x, a.kw)) * cg;
    const int64_t right = max64(left, max64(0, min64(a.w - x, a.kw)) * cg);
    fill_floats(dst, 0, left);
    copy_floats(dst + left, src + left, right - left);
    fill_floats(dst + right, 0, a.kw * cg - right);
    return dst;
  }
};

inline bool is_matrix_product(const ConvArgs& a) {
  const bool pointwise = a.kd == 1 && a.kh == 1 && a.kw == 1 && a.groups == 1;
  return pointwise && a.sd == 1 && a.sh == 1 && a.sw == 1 && a.pd == 0 && a.ph == 0 && a.pw == 0 &&
         a.od == a.d && a.oh == a.h && a.ow == a.w;
}

// One matrix product a group: pixels by output channels.
inline Contraction pixel_contraction(const ConvArgs& a) {
  const int64_t pixels = a.n * a.od * a.oh * a.ow, og = a.oc / a.groups, cg = a.c / a.groups;
  const int64_t k = int64_t(a.kd) * a.kh * a.kw * cg;
  const int64_t row_limit = tile_rows_at(a.sw * a.c, cg);
  return {a.groups, pixels, og,   k,         a.w_packed, packed_b_size(k, og), a.y,
          og,       a.oc,   true, row_limit, 1,          a.epilogue,           a.pool, a.finish,
          {},       true};
}

}  // namespace cuvil
