// Whole recurrent layers in f32, both directions: the inputs' product for all steps at once, then
// the steps (rnn.hpp). Gates are in the order of rnn.hpp; directions follow one another in every
// array that has them.
#pragma once
#include "gemm.hpp"
#include "rnn.hpp"

namespace cuvil {

struct RecurrentArgs {
  int32_t kind;  // an RnnKind
  int32_t directions;
  bool reverse;  // the first direction; a second one is always reversed
  int64_t steps, batch, size, hidden;
  const float* x;         // [steps][batch][size]
  const float* w;         // packed (gemm.hpp) from [size][directions * gates * hidden]
  const float* r;         // [directions] of RnnArgs::r_packed
  const float* bias;      // [directions][gates * hidden], or null
  const float* bias_h;    // [directions][hidden], or null
  const float* peepholes; // [directions][3][hidden], or null
  const float* h0;        // [directions][batch][hidden], or null
  const float* c0;
  const int64_t* lengths; // [batch], or null; a sequence of length 0 gives zero states
  bool linear_before_reset, input_forget;
  float clip;
  RnnFunction functions[2][3];
  float* y;  // [steps][directions][batch][hidden]
  float* h;  // [directions][batch][hidden]
  float* c;  // the same, null but for an LSTM
  void* scratch;
  Pool* pool;
};

constexpr int64_t recurrent_gate_floats(const RecurrentArgs& a) {
  return (a.steps * a.batch * a.directions * rnn_gates(a.kind) * a.hidden + 15) / 16 * 16;
}
constexpr int64_t recurrent_scratch_bytes(const RecurrentArgs& a) {
  return recurrent_gate_floats(a) * 4 + rnn_scratch_bytes(a.kind, a.batch, a.hidden, a.directions);
}
void recurrent_f32(const RecurrentArgs& args);

// From ONNX's layout and gate order (LSTM i, o, f, c; GRU z, r, h) to the arrays above, for
// parameters that are not constant. `a` gives kind, directions, size, hidden and
// linear_before_reset.
constexpr int64_t recurrent_rows(const RecurrentArgs& a) {
  return a.directions * rnn_gates(a.kind) * a.hidden;
}
// rows: scratch of recurrent_rows * size floats.
void pack_recurrent_w(float* dst, float* rows, const float* w, const RecurrentArgs& a);
void pack_recurrent_r(float* dst, const float* r, const RecurrentArgs& a);
// bias_h is written for a GRU with linear_before_reset only.
void pack_recurrent_bias(float* bias, float* bias_h, const float* b, const RecurrentArgs& a);
void pack_recurrent_peepholes(float* dst, const float* p, const RecurrentArgs& a);

// Lengths of any integer type as rnn.hpp takes them.
template <class T>
inline const int64_t* recurrent_lengths(int64_t* dst, const T* src, int64_t batch) {
  for (int64_t i = 0; i < batch; ++i) dst[i] = int64_t(src[i]);
  return dst;
}

}  // namespace cuvil
