// How a convolution is cut into segments of output lines (conv_amx.hpp), where these read, and
// which of them make an item. Internal to the core.
#pragma once
#include "contract_amx.hpp"
#include "conv.hpp"

#if CUVIL_AMX
namespace cuvil {

// Output pixels of a segment: the first `skipped` rows belong to the segment before it.
struct Segment {
  AmxSegment from;
  int64_t m;
  int32_t skipped, count;
};

constexpr int64_t ELEMENT = 4;  // bytes of a pair

inline int64_t segments_bytes(int64_t count) {
  return round_up(count * int64_t(sizeof(Segment)), 64);
}

inline int64_t step_pairs(int64_t run) {
  int64_t pairs = min64(run, AMX_STEP_PAIRS);
  while (run % pairs) --pairs;
  return pairs;
}

// Rows this far apart, and steps of whole lines: few sets of the first-level cache hold all rows.
constexpr int64_t SHARED_SETS = 512;

// How the image is read. Where rows would share sets of the cache all segments are copied, with
// pixels an odd number of cache lines apart.
struct Reading {
  bool copied;
  int64_t pitch;  // elements from pixel to pixel

  explicit Reading(const ConvArgs& a) {
    const bool whole = a.c % AMX_STEP_PAIRS == 0;
    copied = whole && a.sw * a.c * ELEMENT % SHARED_SETS == 0;
    pitch = copied ? (a.c / AMX_STEP_PAIRS | 1) * AMX_STEP_PAIRS : a.c;
  }
};

// Bytes of a pixel from which on lines of an image are too long for the first-level cache.
constexpr int64_t LONG_PIXEL = 1024;

// The steps of a window. They follow the panel, but where pixels are long the taps of a line are
// innermost, as they read the same lines of the cache.
inline AmxWindow window_steps(const ConvArgs& a, const Reading& how) {
  const int64_t pixel = how.pitch * ELEMENT, tap = a.c * NR * ELEMENT, taps = a.kw;
  AmxWindow win = {};
  win.planes = a.kd, win.lines = a.kh, win.row_bytes = a.sw * pixel;
  win.line_panel = taps * tap;
  if (a.c % AMX_STEP_PAIRS == 0 && pixel >= LONG_PIXEL) {
    win.pairs = AMX_STEP_PAIRS;
    win.outer = {a.c / win.pairs, win.pairs * ELEMENT, win.pairs * NR * ELEMENT};
    win.inner = {taps, a.dw * pixel, tap};
    return win;
  }
  const bool contiguous = (a.dw == 1 && how.pitch == a.c) || taps == 1;
  const int64_t run = contiguous ? taps * a.c : a.c;
  win.pairs = step_pairs(run);
  win.outer = {contiguous ? 1 : taps, a.dw * pixel, tap};
  win.inner = {run / win.pairs, win.pairs * ELEMENT, win.pairs * NR * ELEMENT};
  return win;
}

constexpr int64_t FEW_PIXELS = 7;
// Steps of the unit that take as long as to copy one line of a window of several pixels.
constexpr int64_t COPIED_LINE = 16;

struct SegmentCut {
  int64_t line_segments, rows;  // of an output line; pixels of one
  int64_t plane_segments, planes;
  int64_t width;                // pixels of an input line that a segment reads
  int64_t crossing, outside;    // see below
  int64_t group, groups;        // segments of one; groups of a plane
  int64_t panels, block, blocks;
};

struct SegmentedConv {
  const ConvArgs& a;
  Reading how;
  AmxWindow window;
  SegmentCut cut;

  explicit SegmentedConv(const ConvArgs& args)
      : a(args), how(args), window(window_steps(args, how)) {
    cut.line_segments = ceil_div(a.ow, 16);
    cut.rows = ceil_div(a.ow, cut.line_segments);
    cut.plane_segments = a.oh * cut.line_segments;
    cut.planes = a.n * a.od;
    cut.width = (cut.rows - 1) * a.sw + (a.kw - 1) * a.dw + 1;
    cut.panels = ceil_div(a.oc, NR);
    cut.crossing = crossing();
    cut.outside = outside();
  }

  int64_t sum_pairs() const { return int64_t(a.kd) * a.kh * a.kw * a.c; }
  int64_t line_floats() const { return cut.width * how.pitch; }
  int64_t segment_x(int64_t j) const { return min64(j * cut.rows, a.ow - cut.rows); }
  int64_t window_x(int64_t j) const { return segment_x(j) * a.sw - a.pw; }
  // Whether segments j of lines read copies.
  bool crosses(int64_t j) const {
    return how.copied || window_x(j) < 0 || window_x(j) + cut.width > a.w;
  }
  // Input lines that windows of `lines` output lines cover.
  int64_t covered(int64_t lines) const { return (lines - 1) * a.sh + (a.kh - 1) * a.dh + 1; }

  // An upper bound of what a group keeps: where its segments read, and their copies.
  int64_t group_bytes(int64_t segments) const {
    const int64_t lines = covered(ceil_div(segments, cut.line_segments));
    const int64_t shared = min64(cut.crossing, segments) * lines;
    const int64_t copied = a.kd * (shared + min64(cut.outside, segments) * a.kh);
    return segments_bytes(segments) + copied * line_floats() * ELEMENT;
  }
  // Segments of a line that cross its ends: the first and the last ones.
  int64_t crossing() const {
    if (how.copied) return cut.line_segments;
    int64_t first = 0, last = cut.line_segments;
    while (first < last && crosses(first)) ++first;
    while (first < last && crosses(last - 1)) --last;
    return cut.line_segments - (last - first);
  }
  // At most so many segments of a plane have lines above, below, before or behind the image.
  int64_t outside() const {
    if (a.kd > 1 || a.pd > 0 || a.od > a.d) return cut.plane_segments;
    const int64_t above = min64(a.oh, ceil_div(a.ph, a.sh));
    const int64_t end = max64(0, a.h - (a.kh - 1) * a.dh + a.ph);
    return (above + a.oh - min64(a.oh, ceil_div(end, a.sh))) * cut.line_segments;
  }
  int64_t image_bytes(int64_t segments) const {
    const int64_t lines = covered(ceil_div(segments, cut.line_segments));
    return a.kd * min64(lines, a.h) * min64(a.w, a.ow * a.sw) * a.c * ELEMENT;
  }

  // Whether it saves more than steps of few pairs and segments of few pixels, which wait for each
  // other, cost: in steps of the unit for 16 columns. Copied pixels are to be read by several
  // windows.
  bool worthwhile() const {
    const int64_t lines = int64_t(a.kd) * a.kh, halves = ceil_div(a.oc, 16);
    if (how.copied && (a.sw > 1 || lines * a.kw == 1)) return false;
    const int64_t each = cut.rows < FEW_PIXELS ? ceil_div(FEW_PIXELS, cut.rows) : 1;
    const int64_t copying = lines * a.kw > 1 ? COPIED_LINE * lines : 0;
    const int64_t windows = ceil_div(sum_pairs(), AMX_STEP_PAIRS) * halves + copying;
    return window.steps() * each * halves <= windows;
  }

  // Into groups whose copies fit, and whose image stays in L2, and enough items for all threads.
  bool divide() {
    const int64_t room = amx_scratch_bytes(sum_pairs(), 1), threads = pool_threads(a.pool);
    int64_t groups = 0;
    const auto more = [&](int64_t by) {
      groups = round_up(groups + 1, by);
      cut.group = round_up(ceil_div(cut.plane_segments, groups), 4);
      return cut.group > 4;
    };
    while (more(1) && (group_bytes(cut.group) > room || image_bytes(cut.group) > AMX_GROUP_BYTES)) {
    }
    if (group_bytes(cut.group) > room) return false;
    if (groups > 1 && groups % threads) more(threads);
    while (cut.planes * groups * cut.panels < 2 * threads && more(1)) {
    }
    cut.groups = ceil_div(cut.plane_segments, cut.group);
    const int64_t wanted = threads > 1 ? ceil_div(2 * threads, cut.planes * cut.groups) : 1;
    cut.block = ceil_div(cut.panels, min64(cut.panels, wanted));
    cut.blocks = ceil_div(cut.panels, cut.block);
    return true;
  }
};

}  // namespace cuvil
#endif
