// Recurrent layers in f32: LSTM, GRU and the plain RNN, as ONNX defines them (operator set 14).
// The product of the inputs with their weights is a matrix product made beforehand; here is what
// must go step by step.
// Gate order: LSTM i, f, g, o (input, forget, candidate, output); GRU z, r, h; RNN one gate.
#pragma once
#include <stdint.h>

#include "threads.hpp"
#include "vec.hpp"

namespace cuvil {

enum RnnKind : int32_t { kRnn = 0, kLstm = 1, kGru = 2 };
enum RnnActivation : int32_t {
  kSigmoid, kTanh, kRelu, kLeakyRelu, kThresholdedRelu, kScaledTanh, kHardSigmoid, kElu, kSoftsign,
  kSoftplus, kAffine
};
struct RnnFunction {
  int32_t kind;  // an RnnActivation
  double alpha, beta;
};

// One direction. Arrays of states are [batch][hidden], contiguous; null initial states are zero,
// null outputs are not written.
struct RnnArgs {
  int32_t kind;  // an RnnKind
  int64_t steps, batch, hidden;
  const float* gates_x;  // [steps][batch][gates * hidden]: x W^T and the biases
  int64_t x_step, x_batch;
  const float* r_packed;   // by codegen/packing_rnn.py: [ceil(hidden / LANES)][hidden][gates]
                           // [LANES]; GRU with linear_before_reset false: that for z, r, then
                           // that for h
  const float* bias_h;     // GRU with linear_before_reset: the recurrent bias of h, or null
  const float* peepholes;  // LSTM: [3][hidden] for i, f, o, or null
  const float* h0;
  const float* c0;
  const int64_t* lengths;  // [batch], 0..steps, or null; later outputs are 0, states stay
  bool reverse;            // from each row's last step to its first
  bool linear_before_reset;
  bool input_forget;      // LSTM: f = 1 - i
  float clip;             // gates' arguments are cut to [-clip, clip]; 0 or less: not
  RnnFunction functions[3];  // LSTM f, g, h; GRU f, g; RNN f
  float* y;
  int64_t y_step, y_batch;
  float* h_last;
  float* c_last;
};

constexpr int64_t rnn_gates(int32_t kind) { return kind == kLstm ? 4 : kind == kGru ? 3 : 1; }
constexpr int64_t rnn_padded(int64_t hidden) { return (hidden + LANES - 1) / LANES * LANES; }
// Floats a row of a batch needs: two hidden states, a cell state, r * h, what of a state is
// multiplied, and the gates.
constexpr int64_t rnn_row_floats(int32_t kind, int64_t hidden) {
  return rnn_padded(hidden) * (5 + rnn_gates(kind));
}
constexpr int64_t rnn_scratch_bytes(int32_t kind, int64_t batch, int64_t hidden,
                                    int32_t directions) {
  return directions * batch * rnn_row_floats(kind, hidden) * int64_t(sizeof(float));
}

// Runs `count` directions (1 or 2) of the same kind, batch and hidden size.
// Threads share directions and rows; one row of one direction is shared by hidden units, step by
// step, once a step is long enough to pay for it. scratch: rnn_scratch_bytes, 64-byte aligned.
void rnn_f32(const RnnArgs* directions, int32_t count, void* scratch, Pool* pool);

}  // namespace cuvil
