// Recurrent layers: one matrix product for the inputs of all steps, then the steps.
#include "recurrent_layer.hpp"

namespace cuvil {
namespace {

void multiply_inputs(const RecurrentArgs& a, float* gates, int64_t columns) {
  GemmArgs g = {};
  g.batch = 1;
  g.m = a.steps * a.batch;
  g.n = columns;
  g.k = a.size;
  g.a = a.x;
  g.a_row = a.size;
  g.a_col = 1;
  g.b = a.w;
  g.c = gates;
  g.c_row = columns;
  g.finish.bias = a.bias;
  g.pool = a.pool;
  gemm_f32(g);
}

// Where gate g of rnn.hpp stands in ONNX's order.
int64_t source_gate(int32_t kind, int64_t g) {
  constexpr int64_t lstm[4] = {0, 2, 3, 1};
  return kind == kLstm ? lstm[g] : g;
}

bool scales_new_bias(const RecurrentArgs& a) { return a.kind == kGru && a.linear_before_reset; }

// Gates [g0, g1) of one direction, [gates * hidden][hidden], as RnnArgs::r_packed has them.
float* pack_gates(float* dst, const float* r, const RecurrentArgs& a, int64_t g0, int64_t g1) {
  for (int64_t u0 = 0; u0 < a.hidden; u0 += LANES) {
    for (int64_t k = 0; k < a.hidden; ++k) {
      for (int64_t g = g0; g < g1; ++g) {
        const float* rows = r + source_gate(a.kind, g) * a.hidden * a.hidden;
        for (int64_t u = u0; u < u0 + LANES; ++u)
          *dst++ = u < a.hidden ? rows[u * a.hidden + k] : 0.0f;
      }
    }
  }
  return dst;
}

}  // namespace

void recurrent_f32(const RecurrentArgs& a) {
  recurrent_layer(a, a.hidden, multiply_inputs, rnn_f32);
}

void pack_recurrent_w(float* dst, float* rows, const float* w, const RecurrentArgs& a) {
  const int64_t gates = rnn_gates(a.kind), gate = a.hidden * a.size;
  for (int64_t d = 0; d < a.directions; ++d)
    for (int64_t g = 0; g < gates; ++g)
      copy_floats(rows + (d * gates + g) * gate,
                  w + (d * gates + source_gate(a.kind, g)) * gate, gate);
  pack_b_f32(dst, rows, a.size, recurrent_rows(a), 1, a.size);
}

void pack_recurrent_r(float* dst, const float* r, const RecurrentArgs& a) {
  const int64_t gates = rnn_gates(a.kind);
  const bool split = a.kind == kGru && !a.linear_before_reset;
  for (int64_t d = 0; d < a.directions; ++d, r += gates * a.hidden * a.hidden) {
    dst = pack_gates(dst, r, a, 0, split ? 2 : gates);
    if (split) dst = pack_gates(dst, r, a, 2, 3);
  }
}

void pack_recurrent_bias(float* bias, float* bias_h, const float* b, const RecurrentArgs& a) {
  const int64_t gates = rnn_gates(a.kind), n = a.hidden;
  for (int64_t d = 0; d < a.directions; ++d, b += 2 * gates * n, bias += gates * n) {
    for (int64_t g = 0; g < gates; ++g) {
      const float* input = b + source_gate(a.kind, g) * n;
      const float* state = input + gates * n;
      const bool apart = scales_new_bias(a) && g == 2;
      for (int64_t u = 0; u < n; ++u) {
        bias[g * n + u] = apart ? input[u] : input[u] + state[u];
        if (apart) bias_h[d * n + u] = state[u];
      }
    }
  }
}

void pack_recurrent_peepholes(float* dst, const float* p, const RecurrentArgs& a) {
  constexpr int64_t order[3] = {0, 2, 1};  // ONNX has i, o, f
  const int64_t n = a.hidden;
  for (int64_t d = 0; d < a.directions; ++d)
    for (int64_t g = 0; g < 3; ++g)
      copy_floats(dst + (d * 3 + g) * n, p + (d * 3 + order[g]) * n, n);
}

}  // namespace cuvil
