// Products of bf16: the loops of contract.hpp around tiles of pairs.
#include "gemm_bf16.hpp"

#include "contract_amx.hpp"
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

#if CUVIL_AMX
  // Rows that share a few sets of the first-level cache would evict each other.
  AmxRows in_place(int64_t batch, int64_t m0) const {
    if (args.k % 32 || args.a_row * 2 % 4096 == 0) return {};
    const uint16_t* first = args.a + batch * args.a_batch + m0 * args.a_row;
    return {reinterpret_cast<const char*>(first), args.a_row * 2};
  }
#endif
};

}  // namespace

void gemm_bf16(const GemmBf16Args& a) {
  const int64_t pairs = a.k / 2, row_limit = tile_rows_at(a.a_row / 2, pairs);
  const Contraction p = {a.batch, a.m, a.n, pairs, reinterpret_cast<const float*>(a.b), a.b_batch,
                         a.c, a.c_batch, a.c_row, false, row_limit, 1, a.epilogue, a.pool,
                         a.finish, {}, true};
#if CUVIL_AMX
  if (a.copies && a.m >= AMX_LEAST_ROWS && amx_ready())
    return contract_amx(p, PairRows{a}, a.copies);
#endif
  contract(p, PairRows{a}, PairTile{});
}

}  // namespace cuvil
