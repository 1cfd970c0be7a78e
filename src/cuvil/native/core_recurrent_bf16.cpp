// Recurrent layers of bf16: the inputs' product on pairs, then the steps.
#include "recurrent_bf16.hpp"

#include "gemm_bf16.hpp"
#include "recurrent_layer.hpp"
#include "rnn_bf16.hpp"

namespace cuvil {
namespace {

void multiply_pairs(const RecurrentArgs& a, float* gates, int64_t columns) {
  GemmBf16Args g = {};
  g.batch = 1;
  g.m = a.steps * a.batch;
  g.n = columns;
  g.k = a.size;
  g.a = reinterpret_cast<const uint16_t*>(a.x);
  g.a_row = a.size;
  g.b = reinterpret_cast<const uint16_t*>(a.w);
  g.c = gates;
  g.c_row = columns;
  g.finish.bias = a.bias;
  g.pool = a.pool;
  gemm_bf16(g);
}

}  // namespace

void recurrent_bf16(const RecurrentArgs& a) {
  recurrent_layer(a, (a.hidden + 1) / 2, multiply_pairs, rnn_bf16);
}

}  // namespace cuvil
