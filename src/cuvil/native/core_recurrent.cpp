// Recurrent layers: one matrix product for the inputs of all steps, then the steps.
#include "recurrent.hpp"

namespace cuvil {
namespace {

struct Gates {
  float* out;
  const float* bias;
  int64_t columns;
};

void add_bias(const void* context, const float* tile, int64_t ld, int64_t, int64_t m0, int64_t mr,
              int64_t n0, int64_t nr) {
  const Gates& g = *static_cast<const Gates*>(context);
  for (int64_t i = 0; i < mr; ++i) {
    const float* from = tile + i * ld;
    const float* bias = g.bias + n0;
    float* to = g.out + (m0 + i) * g.columns + n0;
    for (int64_t j = 0; j < nr; ++j) to[j] = from[j] + bias[j];
  }
}

void multiply_inputs(const RecurrentArgs& a, float* gates, int64_t columns) {
  const Gates context = {gates, a.bias, columns};
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
  if (a.bias) g.epilogue = {add_bias, &context};
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
  for (int64_t u0 = 0; u0 < a.hidden; u0 += VL) {
    for (int64_t k = 0; k < a.hidden; ++k) {
      for (int64_t g = g0; g < g1; ++g) {
        const float* rows = r + source_gate(a.kind, g) * a.hidden * a.hidden;
        for (int64_t u = u0; u < u0 + VL; ++u)
          *dst++ = u < a.hidden ? rows[u * a.hidden + k] : 0.0f;
      }
    }
  }
  return dst;
}

}  // namespace

void recurrent_f32(const RecurrentArgs& a) {
  const int64_t gates = rnn_gates(a.kind), columns = recurrent_rows(a);
  const int64_t states = a.batch * a.hidden;
  float* x_gates = static_cast<float*>(a.scratch);
  multiply_inputs(a, x_gates, columns);
  RnnArgs one[2] = {};
  for (int64_t d = 0; d < a.directions; ++d) {
    RnnArgs& r = one[d];
    r.kind = a.kind;
    r.steps = a.steps;
    r.batch = a.batch;
    r.hidden = a.hidden;
    r.gates_x = x_gates + d * gates * a.hidden;
    r.x_step = a.batch * columns;
    r.x_batch = columns;
    r.r_packed = a.r + d * gates * rnn_padded(a.hidden) * a.hidden;
    r.bias_h = a.bias_h ? a.bias_h + d * a.hidden : nullptr;
    r.peepholes = a.peepholes ? a.peepholes + d * 3 * a.hidden : nullptr;
    r.h0 = a.h0 ? a.h0 + d * states : nullptr;
    r.c0 = a.c0 ? a.c0 + d * states : nullptr;
    r.lengths = a.lengths;
    r.reverse = d ? true : a.reverse;
    r.linear_before_reset = a.linear_before_reset;
    r.input_forget = a.input_forget;
    r.clip = a.clip;
    for (int i = 0; i < 3; ++i) r.functions[i] = a.functions[d][i];
    r.y = a.y + d * states;
    r.y_step = a.directions * states;
    r.y_batch = a.hidden;
    r.h_last = a.h + d * states;
    r.c_last = a.c ? a.c + d * states : nullptr;
  }
  rnn_f32(one, a.directions, x_gates + recurrent_gate_floats(a), a.pool);
  if (!a.lengths || a.steps == 0) return;
  for (int64_t d = 0; d < a.directions; ++d) {
    for (int64_t b = 0; b < a.batch; ++b) {
      if (a.lengths[b] > 0) continue;
      const int64_t at = d * states + b * a.hidden;
      fill_floats(a.h + at, 0.0f, a.hidden);
      if (a.c) fill_floats(a.c + at, 0.0f, a.hidden);
    }
  }
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
