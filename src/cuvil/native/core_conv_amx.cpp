// Convolution on a matrix unit: which segments read where, and which thread takes them.
#include "conv_amx.hpp"

#include "conv_segments.hpp"

#if CUVIL_AMX
namespace cuvil {
namespace {

// The segments of a group, and the lines they read where these are copies.
struct Group {
  const SegmentedConv& d;
  int64_t plane, first, last;
  Segment* segments;
  char* free;

  Group(const SegmentedConv& conv, int64_t which, char* room)
      : d(conv), plane(which / d.cut.groups),
        first(which % d.cut.groups * d.cut.group),
        last(min64(d.cut.plane_segments, first + d.cut.group)),
        segments(reinterpret_cast<Segment*>(room)),
        free(room + segments_bytes(last - first)) {}

  int64_t z() const { return plane % d.a.od * d.a.sd - d.a.pd; }
  int64_t y(int64_t line) const { return line * d.a.sh - d.a.ph; }
  // The element at a position of this image, which may lie outside.
  const float* at(int64_t z, int64_t y, int64_t x) const {
    const ConvArgs& a = d.a;
    return a.x + (((plane / a.od * a.d + z) * a.h + y) * a.w + x) * a.c;
  }
  bool inside(int64_t y) const {
    const ConvArgs& a = d.a;
    return z() >= 0 && z() + (a.kd - 1) * a.dd < a.d && y >= 0 && y + (a.kh - 1) * a.dh < a.h;
  }

  // The pixels from left to right, with zeros on both sides.
  void copy_line(float* to, const float* from, int64_t left, int64_t right) const {
    const int64_t c = d.a.c, pitch = d.how.pitch;
    fill_floats(to, 0, left * pitch);
    if (c == pitch) {
      copy_floats(to + left * c, from + left * c, (right - left) * c);
    } else {
      for (int64_t i = left; i < right; ++i) copy_floats(to + i * pitch, from + i * c, c);
    }
    fill_floats(to + right * pitch, 0, (d.cut.width - right) * pitch);
  }

  // `lines` lines of each plane of a window, `step` apart, as far as a segment reads them.
  const char* copy(int64_t y, int64_t x, int64_t lines, int64_t step) {
    const ConvArgs& a = d.a;
    const int64_t width = d.cut.width;
    const int64_t left = min64(width, max64(0, -x)), right = max64(left, min64(width, a.w - x));
    float* to = reinterpret_cast<float*>(free);
    for (int64_t q = 0; q < a.kd; ++q)
      for (int64_t i = 0; i < lines; ++i, to += d.line_floats()) {
        const int64_t from_z = z() + q * a.dd, from_y = y + i * step;
        const bool exists = uint64_t(from_z) < uint64_t(a.d) && uint64_t(from_y) < uint64_t(a.h);
        if (exists) copy_line(to, at(from_z, from_y, x), left, right);
        else fill_floats(to, 0, d.line_floats());
      }
    const char* const found = free;
    free = reinterpret_cast<char*>(to);
    return found;
  }

  AmxSegment lying(int64_t y, int64_t x) const {
    const ConvArgs& a = d.a;
    const int64_t line = a.w * a.c * ELEMENT;
    return {reinterpret_cast<const char*>(at(z(), y, x)), a.dh * line, a.dd * a.h * line};
  }

  void prepare() {
    const int64_t each = d.cut.line_segments, end = min64(last, first + each);
    for (int64_t index = first; index < end; ++index)
      prepare(index % each, index / each, ceil_div(last - index, each));
  }

  // Segment j of some lines: those that cross the left or the right border share their copies.
  void prepare(int64_t j, int64_t line0, int64_t lines) {
    const SegmentCut& cut = d.cut;
    const int64_t x = d.window_x(j), skipped = j * cut.rows - d.segment_x(j);
    const int64_t covered = d.covered(lines);
    const int64_t line_bytes = d.line_floats() * ELEMENT;
    const char* const shared = d.crosses(j) ? copy(y(line0), x, covered, 1) : nullptr;
    for (int64_t line = line0; line < line0 + lines; ++line) {
      AmxSegment from = lying(y(line), x);
      if (shared)
        from = {shared + (line - line0) * d.a.sh * line_bytes, d.a.dh * line_bytes,
                covered * line_bytes};
      else if (!inside(y(line)))
        from = {copy(y(line), x, d.a.kh, d.a.dh), line_bytes, d.a.kh * line_bytes};
      const int64_t m = (plane * d.a.oh + line) * d.a.ow + j * cut.rows;
      segments[line * cut.line_segments + j - first] = {from, m, int32_t(skipped),
                                                        int32_t(cut.rows - skipped)};
    }
  }

  void store(const Segment& s, const float* tile, int64_t n0, int64_t columns) const {
    const ConvArgs& a = d.a;
    tile += s.skipped * NR;
    if (a.epilogue.fn)
      return a.epilogue.fn(a.epilogue.ctx, tile, NR, 0, s.m, s.count, n0, columns);
    const int64_t at = s.m * a.oc + n0;
    const Finish finish = a.finish.at(n0, at);
    amx_store(tile, s.count, columns, a.y + at, a.oc, a.finish.wanted() ? &finish : nullptr);
  }

  // What `count` segments fetch where there is no other panel: of the windows one line below, the
  // line that theirs don't have. The first segment may be a copy.
  Ahead line_below(int64_t s, int64_t count, int64_t steps) const {
    const AmxSegment& from = segments[s + min64(1, count - 1)].from;
    const int64_t bytes = count * d.cut.rows * d.a.sw * d.a.c * ELEMENT;
    return {from.first + d.a.kh * from.line, max64(AHEAD_LEAST_STRIDE, bytes / steps)};
  }

  void multiply(int64_t panel) const {
    alignas(64) float tile[4 * 16 * NR];
    const int64_t panel_floats = d.sum_pairs() * NR, count = last - first;
    const float* const b = d.a.w_packed + panel * panel_floats;
    const int64_t n0 = panel * NR, columns = min64(NR, d.a.oc - n0);
    const int64_t bytes = count > 4 ? panel_floats * int64_t(sizeof(float)) : 0;
    const Upcoming next = {b + panel_floats, bytes, ceil_div(count, 4)};
    const int64_t steps = d.window.steps() * (columns > 16 ? 2 : 1);
    for (int64_t s = 0; s < count; s += 4) {
      const int64_t here = min64(4, count - s);
      const Ahead ahead = d.cut.panels == 1 && d.a.kh > 1
                              ? line_below(s, here, steps)
                              : next.slice(s / 4, steps, AMX_FETCHED);
      amx_multiply(d.window, &segments[s].from, sizeof(Segment), here,
                   reinterpret_cast<const char*>(b), columns, tile, ahead);
      for (int64_t i = 0; i < here; ++i) store(segments[s + i], tile + i * 16 * NR, n0, columns);
    }
  }
};

}  // namespace

bool conv_amx(const ConvArgs& a) {
  if (!a.copies || a.groups != 1 || a.c <= 0 || !amx_ready()) return false;
  SegmentedConv d(a);
  if (!d.worthwhile() || !d.divide()) return false;
  const SegmentCut& cut = d.cut;
  const int64_t items = cut.planes * cut.groups * cut.blocks;
  const int64_t each = amx_scratch_bytes(d.sum_pairs(), 1);
  // As cut_amx has it.
  const double work = double(d.sum_pairs() + 16) * double(cut.panels * NR) * 4;
  const double pixels = double(cut.planes) * double(a.oh) * double(a.ow);
  const double per_item = work * (pixels / 2000 + 1.0 / 20) / double(items);
  const int64_t grain =
      per_item >= MIN_RANGE_NS ? 1 : int64_t(MIN_RANGE_NS / (per_item + 0.01)) + 1;
  parallel_for(a.pool, items, grain, [&](int64_t begin, int64_t end, int32_t thread) {
    amx_begin(cut.rows, d.window.pairs);
    for (int64_t item = begin; item < end; ++item) {
      const int64_t block = item % cut.blocks;
      Group group(d, item / cut.blocks, static_cast<char*>(a.copies) + thread * each);
      group.prepare();
      const int64_t end_panel = min64(cut.panels, (block + 1) * cut.block);
      for (int64_t panel = block * cut.block; panel < end_panel; ++panel) group.multiply(panel);
    }
    amx_end();
  });
  return true;
}

}  // namespace cuvil
#else
namespace cuvil {
bool conv_amx(const ConvArgs&) { return false; }
}  // namespace cuvil
#endif
