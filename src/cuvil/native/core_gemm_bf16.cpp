// Products of bf16: the loops of contract.hpp around tiles of pairs.
#include "gemm_bf16.hpp"

#include "contract.hpp"
#include "tile_bf16.hpp"

namespace cuvil {
namespace {

struct PairRows {
  const GemmBf16Args& args;

  TileOperands prepare(const TileRequest& want) const {
    const uint16_t* first = args.a + want.batch * args.a_batch + want.m0 * args.a_row;
    for (int64_t i = 0; i < want.mr; ++i)
      want.table[i] = reinterpret_cast<const float*>(first + i * args.a_row);
    return {want.table, 1, args.k / 2};
  }
};

}  // namespace

void gemm_bf16(const GemmBf16Args& a) {
  const int64_t pairs = a.k / 2, row_limit = tile_rows_at(a.a_row / 2, pairs);
  const Contraction p = {a.batch, a.m, a.n, pairs, reinterpret_cast<const float*>(a.b), a.b_batch,
                         a.c, a.c_batch, a.c_row, false, row_limit, 1, a.epilogue, a.pool,
                         a.finish};
  contract(p, PairRows{a}, PairTile{});
}

}  // namespace cuvil
