// Recurrent layers in any float type, one plain loop after the other, over ONNX's own layout and
// gate order: for types that have no packed kernel.
#pragma once
#include "math.hpp"
#include "recurrent.hpp"

namespace cuvil {

template <class T>
struct PlainRecurrentArgs {
  int32_t kind;  // an RnnKind
  int32_t directions;
  bool reverse;  // the first direction; a second one is always reversed
  int64_t steps, batch, size, hidden;
  const T* x;         // [steps][batch][size]
  const T* w;         // [directions][gates * hidden][size]
  const T* r;         // [directions][gates * hidden][hidden]
  const T* bias;      // [directions][2][gates * hidden], or null
  const T* peephole;  // [directions][3][hidden], or null
  const T* h0;        // [directions][batch][hidden], or null
  const T* c0;
  const int64_t* lengths;  // [batch], or null
  bool linear_before_reset, input_forget;
  T clip;
  RnnFunction functions[2][3];
  T* y;  // [steps][directions][batch][hidden]
  T* h;
  T* c;        // null but for an LSTM
  T* scratch;  // hidden * (4 + gates)
};

template <class T>
T plain_activation(const RnnFunction& f, T x) {
  const T a = T(f.alpha), b = T(f.beta);
  switch (f.kind) {
    case kSigmoid: return sigmoid(x);
    case kTanh: return tanh(x);
    case kRelu: return relu(x);
    case kLeakyRelu: return leaky_relu(x, a);
    case kThresholdedRelu: return x <= a ? T(0) : x;
    case kScaledTanh: return a * tanh(b * x);
    case kHardSigmoid: return hard_sigmoid(x, a, b);
    case kElu: return elu(x, a);
    case kSoftsign: return softsign(x);
    case kSoftplus: return softplus(x);
    default: return a * x + b;  // kAffine
  }
}

// One row of the batch in one direction.
template <class T>
struct PlainSequence {
  const PlainRecurrentArgs<T>& a;
  int64_t d, row, gates, n;
  const T *w, *r, *bias, *peep;
  const RnnFunction* f;
  T *state, *cell, *reset, *next, *input;

  PlainSequence(const PlainRecurrentArgs<T>& args, int64_t direction, int64_t at)
      : a(args), d(direction), row(at), gates(rnn_gates(args.kind)), n(args.hidden) {
    w = a.w + d * gates * n * a.size;
    r = a.r + d * gates * n * n;
    bias = a.bias ? a.bias + d * 2 * gates * n : nullptr;
    peep = a.peephole ? a.peephole + d * 3 * n : nullptr;
    f = a.functions[d];
    state = a.scratch;
    cell = state + n;
    reset = cell + n;
    next = reset + n;
    input = next + n;
    for (int64_t u = 0; u < n; ++u) {
      const int64_t from = (d * a.batch + row) * n + u;
      state[u] = a.h0 ? a.h0[from] : T(0);
      cell[u] = a.c0 ? a.c0[from] : T(0);
    }
  }

  T cut(T x) const {
    const T bound = a.clip;
    if (!(bound > T(0))) return x;
    return x < -bound ? -bound : x > bound ? bound : x;
  }
  T product(const T* v, const T* matrix, int64_t line, int64_t count, T seed) const {
    for (int64_t k = 0; k < count; ++k) seed += v[k] * matrix[line * count + k];
    return seed;
  }
  T back_bias(int64_t line) const { return bias ? bias[gates * n + line] : T(0); }
  T from_state(int64_t line) const { return product(state, r, line, n, back_bias(line)); }

  void lstm() {
    for (int64_t u = 0; u < n; ++u) {
      T i = input[u] + from_state(u), o = input[n + u] + from_state(n + u);
      T keep = input[2 * n + u] + from_state(2 * n + u);
      const T candidate = input[3 * n + u] + from_state(3 * n + u);
      if (peep) {
        i += peep[u] * cell[u];
        keep += peep[2 * n + u] * cell[u];
      }
      i = plain_activation(f[0], cut(i));
      keep = a.input_forget ? T(1) - i : plain_activation(f[0], cut(keep));
      cell[u] = keep * cell[u] + i * plain_activation(f[1], cut(candidate));
      if (peep) o += peep[n + u] * cell[u];
      next[u] = plain_activation(f[0], cut(o)) * plain_activation(f[2], cell[u]);
    }
  }

  void gru() {
    for (int64_t u = 0; u < n; ++u) {
      const T gate = plain_activation(f[0], cut(input[n + u] + from_state(n + u)));
      // Before the product the gate scales the state; after it, the product and its bias.
      reset[u] = a.linear_before_reset ? gate * from_state(2 * n + u) : gate * state[u];
    }
    for (int64_t u = 0; u < n; ++u) {
      const T update = plain_activation(f[0], cut(input[u] + from_state(u)));
      const T add = a.linear_before_reset
                        ? reset[u]
                        : product(reset, r, 2 * n + u, n, back_bias(2 * n + u));
      const T candidate = plain_activation(f[1], cut(input[2 * n + u] + add));
      next[u] = (T(1) - update) * candidate + update * state[u];
    }
  }

  void step(int64_t t) {
    const T* x = a.x + (t * a.batch + row) * a.size;
    for (int64_t line = 0; line < gates * n; ++line)
      input[line] = product(x, w, line, a.size, bias ? bias[line] : T(0));
    if (a.kind == kLstm) {
      lstm();
    } else if (a.kind == kGru) {
      gru();
    } else {
      for (int64_t u = 0; u < n; ++u)
        next[u] = plain_activation(f[0], cut(input[u] + from_state(u)));
    }
    for (int64_t u = 0; u < n; ++u) state[u] = next[u];
  }

  void run() {
    const int64_t length = a.lengths ? max64(0, min64(a.steps, a.lengths[row])) : a.steps;
    const bool backward = d ? true : a.reverse;
    for (int64_t s = 0; s < a.steps; ++s) {
      const int64_t t = backward ? a.steps - 1 - s : s;
      if (t < length) step(t);
      T* y = a.y + ((t * a.directions + d) * a.batch + row) * n;
      for (int64_t u = 0; u < n; ++u) y[u] = t < length ? state[u] : T(0);
    }
    const bool none = a.steps > 0 && length == 0;
    for (int64_t u = 0; u < n; ++u) {
      const int64_t to = (d * a.batch + row) * n + u;
      a.h[to] = none ? T(0) : state[u];
      if (a.c) a.c[to] = none ? T(0) : cell[u];
    }
  }
};

template <class T>
void recurrent_plain(const PlainRecurrentArgs<T>& a) {
  for (int64_t d = 0; d < a.directions; ++d)
    for (int64_t row = 0; row < a.batch; ++row) PlainSequence<T>(a, d, row).run();
}

}  // namespace cuvil
