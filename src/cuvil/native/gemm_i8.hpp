// C = A B with bytes in and i32 out, batched and exact (sums wrap): A is u8 or i8, B is i8.
// A has rows a_row bytes apart, columns contiguous.
// B is packed (packing.pack_gemm_i8): panels [ceil(n / NR)], each NR i32 that a sum starts from
// and then [ceil(k / 4)][NR][4] bytes, so that one lane holds four steps of k; past k or n is 0.
// The machine multiplies i8 by unsigned bytes, or by signed ones (SIGNED_BYTES). An A of the other
// kind is read with its top bit flipped, which adds 128 to it or takes 128 from it: its B starts
// from -128 or 128 times the sum of the column, else from 0.
// b_batch, 4-byte units between the batch entries' panel sets, may be 0.
// C: rows c_row apart, columns contiguous; unused when epilogue.fn is set: its tile then holds i32.
#pragma once
#include "epilogue.hpp"
#include "threads.hpp"

namespace cuvil {

constexpr bool SIGNED_BYTES = CUVIL_LANE_PRODUCTS;

struct GemmI8Args {
  int64_t batch, m, n, k;
  const void* a;
  bool a_signed;
  int64_t a_batch, a_row;
  const void* b;
  int64_t b_batch;
  int32_t* c;
  int64_t c_batch, c_row;
  Epilogue epilogue;
  Pool* pool;
};

void gemm_i8(const GemmI8Args& args);

}  // namespace cuvil
