// Recurrent layers: a step multiplies the rows' states with the packed recurrent weights, block by
// block of LANES units, and then runs the gates over the block's units. Internal to the core; a
// State (rnn_product.hpp) says what weights are and how a state meets them.
#pragma once
#include "math_act.hpp"
#include "rnn_product.hpp"

namespace cuvil {
namespace {

// Multiplications below which a step's share is not worth handing to another thread (some 5 us).
constexpr int64_t kWorthAThread = 100000;

__attribute__((noinline)) void activate(const RnnFunction& f, float* x, int64_t n) {
  const float a = float(f.alpha), b = float(f.beta);
  switch (f.kind) {
    case kSigmoid:
      for (int64_t i = 0; i < n; ++i) x[i] = sigmoid(x[i]);
      break;
    case kTanh:
      for (int64_t i = 0; i < n; ++i) x[i] = tanh(x[i]);
      break;
    case kRelu:
      for (int64_t i = 0; i < n; ++i) x[i] = relu(x[i]);
      break;
    case kLeakyRelu:
      for (int64_t i = 0; i < n; ++i) x[i] = leaky_relu(x[i], a);
      break;
    case kThresholdedRelu:
      for (int64_t i = 0; i < n; ++i) x[i] = x[i] <= a ? 0.0f : x[i];
      break;
    case kScaledTanh:
      for (int64_t i = 0; i < n; ++i) x[i] = a * tanh(b * x[i]);
      break;
    case kHardSigmoid:
      for (int64_t i = 0; i < n; ++i) x[i] = hard_sigmoid(x[i], a, b);
      break;
    case kElu:
      for (int64_t i = 0; i < n; ++i) x[i] = elu(x[i], a);
      break;
    case kSoftsign:
      for (int64_t i = 0; i < n; ++i) x[i] = softsign(x[i]);
      break;
    case kSoftplus:
      for (int64_t i = 0; i < n; ++i) x[i] = softplus(x[i]);
      break;
    default:  // kAffine
      for (int64_t i = 0; i < n; ++i) x[i] = a * x[i] + b;
  }
}

// A gate's argument: the recurrent product plus the input's part, clipped. Reads x[0..n) only.
__attribute__((noinline)) void add_input(float* pre, const float* x, int64_t n, float clip) {
  const bool cut = clip > 0.0f;
  for (int64_t i = 0; i < n; i += VL) {
    vf v = load(pre + i) + (i + VL <= n ? load(x + i) : load_n(x + i, n - i));
    if (cut) {  // NaN fails both comparisons and stays
      v = v < splat(-clip) ? splat(-clip) : v;
      v = v > splat(clip) ? splat(clip) : v;
    }
    store(pre + i, v);
  }
}

// The units of one row that a call of a gate function handles; pointers are to the first of them.
// Scratch rows are padded, so elementwise loops there run over whole vectors; the lanes past n hold
// anything and are never multiplied.
struct Units {
  float* pre;
  int64_t gate;    // from gate to gate in pre
  const float* x;  // the input's gates, x_gate apart
  int64_t x_gate;
  const float* h;  // the previous state
  float* h_new;
  float* c;
  float* reset;  // r * h
  int64_t u0, n;

  int64_t whole() const { return (n + VL - 1) / VL * VL; }
};

__attribute__((noinline)) void lstm_plain(const Units& t) {
  for (int64_t g = 0; g < 4; ++g) add_input(t.pre + g * t.gate, t.x + g * t.x_gate, t.n, 0.0f);
  const float *__restrict in = t.pre, *__restrict keep = in + t.gate;
  const float *__restrict cand = keep + t.gate, *__restrict out = cand + t.gate;
  float *__restrict c = t.c, *__restrict h = t.h_new;
  for (int64_t i = 0; i < t.whole(); ++i) {
    const float cell = sigmoid(keep[i]) * c[i] + sigmoid(in[i]) * tanh(cand[i]);
    c[i] = cell;
    h[i] = sigmoid(out[i]) * tanh(cell);
  }
}

__attribute__((noinline)) void lstm_general(const RnnArgs& a, const Units& t) {
  const int64_t whole = t.whole();
  float *in = t.pre, *keep = in + t.gate, *cand = keep + t.gate, *out = cand + t.gate;
  const float* peep = a.peepholes ? a.peepholes + t.u0 : nullptr;
  if (peep) {
    for (int64_t i = 0; i < t.n; ++i) in[i] += peep[i] * t.c[i];
    for (int64_t i = 0; i < t.n; ++i) keep[i] += peep[a.hidden + i] * t.c[i];
  }
  add_input(in, t.x, t.n, a.clip);
  add_input(keep, t.x + t.x_gate, t.n, a.clip);
  add_input(cand, t.x + 2 * t.x_gate, t.n, a.clip);
  activate(a.functions[0], in, whole);
  activate(a.functions[1], cand, whole);
  if (a.input_forget) {
    for (int64_t i = 0; i < whole; ++i) keep[i] = 1.0f - in[i];
  } else {
    activate(a.functions[0], keep, whole);
  }
  for (int64_t i = 0; i < whole; ++i) t.c[i] = keep[i] * t.c[i] + in[i] * cand[i];
  if (peep) {
    for (int64_t i = 0; i < t.n; ++i) out[i] += peep[2 * a.hidden + i] * t.c[i];
  }
  add_input(out, t.x + 3 * t.x_gate, t.n, a.clip);
  activate(a.functions[0], out, whole);
  for (int64_t i = 0; i < whole; ++i) cand[i] = t.c[i];
  activate(a.functions[2], cand, whole);
  for (int64_t i = 0; i < whole; ++i) t.h_new[i] = out[i] * cand[i];
}

// z and r of a GRU; leaves r * h in `reset`.
__attribute__((noinline)) void gru_gates(const RnnArgs& a, const Units& t) {
  const int64_t whole = t.whole();
  float *z = t.pre, *r = z + t.gate;
  add_input(z, t.x, t.n, a.clip);
  add_input(r, t.x + t.x_gate, t.n, a.clip);
  activate(a.functions[0], z, whole);
  activate(a.functions[0], r, whole);
  for (int64_t i = 0; i < whole; ++i) t.reset[i] = r[i] * t.h[i];
}

__attribute__((noinline)) void gru_state(const RnnArgs& a, const Units& t) {
  const int64_t whole = t.whole();
  float *z = t.pre, *r = z + t.gate, *cand = r + t.gate;
  if (a.linear_before_reset) {
    const float* bias = a.bias_h ? a.bias_h + t.u0 : nullptr;
    for (int64_t i = 0; i < t.n; ++i) cand[i] = r[i] * (bias ? cand[i] + bias[i] : cand[i]);
  }
  add_input(cand, t.x + 2 * t.x_gate, t.n, a.clip);
  activate(a.functions[1], cand, whole);
  for (int64_t i = 0; i < whole; ++i) t.h_new[i] = (1.0f - z[i]) * cand[i] + z[i] * t.h[i];
}

bool is_plain_lstm(const RnnArgs& a) {
  return !a.peepholes && !a.input_forget && !(a.clip > 0.0f) && a.functions[0].kind == kSigmoid &&
         a.functions[1].kind == kTanh && a.functions[2].kind == kTanh;
}

// Rows [row0, row1) of one direction, from the first step to the last.
template <class State>
struct Sequence {
  typedef typename State::Weight Weight;
  const RnnArgs& a;
  int64_t row0, row1, padded, blocks, gates;
  bool plain;
  float* h[2];  // of the previous and of the next step, all rows of the batch
  float* c;
  float* reset;
  float* parts;  // of the states that are multiplied, as State has them
  float* pre;
  int64_t step = 0;

  // `memory`: this direction's, for all rows of the batch.
  Sequence(const RnnArgs& args, float* memory, int64_t from, int64_t to)
      : a(args), row0(from), row1(to) {
    padded = rnn_padded(a.hidden);
    blocks = padded / LANES;
    gates = rnn_gates(a.kind);
    plain = is_plain_lstm(a);
    const int64_t part = a.batch * padded;
    h[0] = memory;
    h[1] = h[0] + part;
    c = h[1] + part;
    reset = c + part;
    parts = reset + part;
    pre = parts + part;
    for (int64_t r = row0; r < row1; ++r) {
      load_state(h[0] + r * padded, a.h0, r);
      load_state(c + r * padded, a.c0, r);
    }
  }

  void load_state(float* dst, const float* src, int64_t r) const {
    if (src) {
      copy_floats(dst, src + r * a.hidden, a.hidden);
    } else {
      fill_floats(dst, 0.0f, a.hidden);
    }
    end_row(dst);
  }

  // What stands behind the last of an odd number of units is multiplied with a weight of 0.
  void end_row(float* row) const {
    if (a.hidden % 2) row[a.hidden] = 0.0f;
  }

  int64_t length(int64_t r) const {
    return a.lengths ? max64(0, min64(a.steps, a.lengths[r])) : a.steps;
  }
  int64_t time(int64_t r) const { return a.reverse ? length(r) - 1 - step : step; }

  Units units(int64_t r, int64_t b0, int64_t b1) const {
    const int64_t u0 = b0 * LANES, n = min64(b1 * LANES, a.hidden) - u0, at = r * padded + u0;
    const float* x = a.gates_x + time(r) * a.x_step + r * a.x_batch + u0;
    return {pre + r * gates * padded + u0, padded, x, a.hidden, h[0] + at, h[1] + at,
            c + at, reset + at, u0, n};
  }

  const Weight* weights() const { return reinterpret_cast<const Weight*>(a.r_packed); }

  // First half of a step for blocks [b0, b1); all of it except for a GRU without
  // linear_before_reset, whose second half needs r * h of every unit.
  void first_half(const int64_t* rows, int64_t count, int64_t b0, int64_t b1) const {
    const Step s = {h[0], parts, pre, padded, gates * padded, padded,
                    State::steps(a.hidden), step % 2 != 0};
    if (a.kind == kLstm) {
      multiply_blocks<State, 4>(s, rows, count, weights(), b0, b1);
    } else if (a.kind == kRnn) {
      multiply_blocks<State, 1>(s, rows, count, weights(), b0, b1);
    } else if (a.linear_before_reset) {
      multiply_blocks<State, 3>(s, rows, count, weights(), b0, b1);
    } else {
      multiply_blocks<State, 2>(s, rows, count, weights(), b0, b1);
    }
    for (int64_t i = 0; i < count; ++i) {
      const Units t = units(rows[i], b0, b1);
      if (a.kind == kLstm) {
        if (plain) {
          lstm_plain(t);
        } else {
          lstm_general(a, t);
        }
      } else if (a.kind == kGru) {
        gru_gates(a, t);
        if (a.linear_before_reset) gru_state(a, t);
      } else {
        add_input(t.pre, t.x, t.n, a.clip);
        activate(a.functions[0], t.pre, t.whole());
        copy_floats(t.h_new, t.pre, t.n);
      }
    }
  }

  void second_half(const int64_t* rows, int64_t count, int64_t b0, int64_t b1) const {
    const Step s = {reset, parts, pre + 2 * padded, padded, gates * padded, padded,
                    State::steps(a.hidden), step % 2 != 0};
    const Weight* candidate = weights() + padded * State::steps(a.hidden) * 2;
    multiply_blocks<State, 1>(s, rows, count, candidate, b0, b1);
    for (int64_t i = 0; i < count; ++i) gru_state(a, units(rows[i], b0, b1));
  }

  void write_outputs(int64_t r, bool active) const {
    if (!a.y) return;
    float* y = a.y + (active ? time(r) : step) * a.y_step + r * a.y_batch;
    if (active) {
      copy_floats(y, h[1] + r * padded, a.hidden);
    } else {
      fill_floats(y, 0.0f, a.hidden);
    }
  }

  // Brings states, ended, into the form that is multiplied.
  void prepare(float* states, const int64_t* rows, int64_t count) const {
    for (int64_t i = 0; i < count; ++i) {
      end_row(states + rows[i] * padded);
      State::split(states + rows[i] * padded, a.hidden, parts + rows[i] * padded);
    }
  }

  // One step for rows that still have input.
  void advance(const int64_t* rows, int64_t count, Pool* pool) {
    const int64_t per_block = count * gates * LANES * a.hidden;
    const int64_t grain = max64(1, kWorthAThread / max64(1, per_block));
    prepare(h[0], rows, count);
    parallel_for(pool, blocks, grain, [&](int64_t b0, int64_t b1, int32_t) {
      first_half(rows, count, b0, b1);
    });
    if (a.kind == kGru && !a.linear_before_reset) {
      prepare(reset, rows, count);
      parallel_for(pool, blocks, grain, [&](int64_t b0, int64_t b1, int32_t) {
        second_half(rows, count, b0, b1);
      });
    }
  }

  void run(Pool* pool) {
    constexpr int64_t group = 64;
    for (step = 0; step < a.steps; ++step) {
      int64_t rows[group], count = 0;
      for (int64_t r = row0; r < row1; ++r) {
        if (step < length(r)) {
          rows[count++] = r;
        } else {
          copy_floats(h[1] + r * padded, h[0] + r * padded, a.hidden);
        }
        if (count == group || (r + 1 == row1 && count)) {
          advance(rows, count, pool);
          count = 0;
        }
      }
      for (int64_t r = row0; r < row1; ++r) write_outputs(r, step < length(r));
      float* previous = h[0];
      h[0] = h[1];
      h[1] = previous;
    }
    for (int64_t r = row0; r < row1; ++r) {
      if (a.h_last) copy_floats(a.h_last + r * a.hidden, h[0] + r * padded, a.hidden);
      if (a.c_last) copy_floats(a.c_last + r * a.hidden, c + r * padded, a.hidden);
    }
  }
};

template <class State>
void run_directions(const RnnArgs* directions, int32_t count, void* scratch, Pool* pool) {
  const RnnArgs& a = directions[0];
  if (count <= 0 || a.batch <= 0 || a.hidden <= 0) return;
  const int64_t size = a.batch * rnn_row_floats(a.kind, a.hidden);
  float* memory = static_cast<float*>(scratch);
  if (count * a.batch == 1) {
    Sequence<State>(a, memory, 0, 1).run(pool);
    return;
  }
  // Rows of a direction stay together, for they share the weights' loads, unless a thread is idle.
  const int64_t parts = min64(a.batch, ceil_div(pool_threads(pool), count));
  const int64_t work = count * a.batch * a.steps * rnn_gates(a.kind) * a.hidden * a.hidden;
  pool = work >= 2 * kWorthAThread ? pool : nullptr;
  parallel_for(pool, count * parts, 1, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t d = i / parts, p = i % parts;
      const int64_t from = a.batch * p / parts, to = a.batch * (p + 1) / parts;
      Sequence<State>(directions[d], memory + d * size, from, to).run(nullptr);
    }
  });
}

}  // namespace
}  // namespace cuvil
