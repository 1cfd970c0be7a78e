// Tiles of 32 x 32 sums on a matrix unit: Intel SDM vol. 1, chapter 18 (AMX), TDPBF16PS. A panel of
// pairs (gemm_bf16.hpp) is what the unit reads: 16 steps of it are two tiles side by side.
// Products and sums are those of tile_bf16.hpp: exact products, f32 sums, denormals count as 0.
#pragma once
#include "ahead.hpp"
#include "epilogue.hpp"

#if defined(__AMX_BF16__) && CUVIL_VEC_BYTES == 64 && CUVIL_NR == 32
#define CUVIL_AMX 1
#else
#define CUVIL_AMX 0
#endif

namespace cuvil {

constexpr int64_t AMX_ROWS = 32;        // rows of a tile of sums
constexpr int64_t AMX_STEP_BYTES = 64;  // of a row in one step: 32 elements
constexpr int64_t AMX_STEP_PAIRS = 16;

// Bytes of a copied row: an odd number of lines, which spreads rows over all sets of a cache.
constexpr int64_t amx_row_bytes(int64_t pairs) { return ((pairs + 15) / 16 | 1) * 64; }

}  // namespace cuvil

#if CUVIL_AMX
namespace cuvil {

// Whether this process may use the unit; asks the system once.
bool amx_ready();

// The unit's registers belong to a thread from begin to end. While they are in use the system saves
// 8 KB more at each change of threads.
void amx_begin();
void amx_end();
// For left operands of fewer rows than 16, and steps of fewer pairs.
void amx_begin(int64_t rows, int64_t pairs);

// Rows of the left operand, whole steps of them.
struct AmxRows {
  const char* first;
  int64_t row_bytes;  // from one row to the next
};

// out[i, j] = sum over k < 2 pairs of rows[i][k] * panel[k][j], i < rows, j < columns. Rows up to
// the next multiple of 16 are read; out [32][ld] gets whole tiles of 16 x 16. `rest` holds the
// steps of the panel past the last whole 16, filled up with zeros; unused where there are none.
void amx_multiply(const AmxRows& a, int64_t rows, const char* panel, const char* rest,
                  int64_t pairs, int64_t columns, float* out, int64_t ld, const Ahead& ahead = {});

// Pixels of an image next to each other: where the first one's window begins, and the bytes from
// one of the window's lines and planes to the next.
struct AmxSegment {
  const char* first;
  int64_t line, plane;
};

struct AmxLoop {
  int64_t count, left, panel;  // bytes from one step to the next
};

// The steps of a window, in order: of each line `outer` times `inner`.
struct AmxWindow {
  int64_t planes, lines;
  AmxLoop outer, inner;
  int64_t pairs;       // of a step
  int64_t row_bytes;   // from one pixel to the next
  int64_t line_panel;  // bytes of a panel for one line

  int64_t steps() const { return planes * lines * outer.count * inner.count; }
};

// Sums of up to four segments of the rows that amx_begin set, `apart` bytes from one to the next:
// segment i has rows 16 i.. of out [][NR].
void amx_multiply(const AmxWindow& window, const AmxSegment* segments, int64_t apart,
                  int64_t count, const char* panel, int64_t columns, float* out,
                  const Ahead& ahead);

// A finished tile to c, with what `finish` asks for where it is given.
void amx_store(const float* tile, int64_t rows, int64_t columns, float* c, int64_t ld,
               const Finish* finish);

}  // namespace cuvil
#endif
