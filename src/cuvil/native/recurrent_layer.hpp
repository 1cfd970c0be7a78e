// What recurrent layers do whatever their weights are. Internal to the core.
#pragma once
#include "recurrent.hpp"

namespace cuvil {

// The layer: `multiply` makes the gates' part that the inputs decide, `run` the steps (rnn.hpp),
// with that many words of weights for each unit and gate.
template <class Multiply, class Run>
void recurrent_layer(const RecurrentArgs& a, int64_t words, const Multiply& multiply,
                     const Run& run) {
  const int64_t gates = rnn_gates(a.kind), columns = recurrent_rows(a);
  const int64_t states = a.batch * a.hidden;
  float* x_gates = static_cast<float*>(a.scratch);
  multiply(a, x_gates, columns);
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
    r.r_packed = a.r + d * gates * rnn_padded(a.hidden) * words;
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
  run(one, a.directions, x_gates + recurrent_gate_floats(a), a.pool);
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

}  // namespace cuvil
