// What a model's generated code offers to the C interface, and the tables that describe it.
#pragma once
#include <stdint.h>

namespace cuvil {

struct Pool;

// What went wrong first during a call. Code 0: an index found outside its dimension, unless `size`
// is 0; the kernels go on with a safe index, and the call then fails. Other codes are late.hpp's.
struct Fault {
  int64_t index, size;
  int32_t code;
};

constexpr int32_t kBrokenConstraint = 6;  // CUVIL_E_CONSTRAINT, of number `index`

struct LateCache;  // memory.hpp

// One call. Tensors are row major and follow the order of the model's inputs and outputs;
// `symbols` has one value a symbol; `workspace` has workspace_bytes() bytes, aligned to 64. The
// call writes late symbols and the places of late outputs.
struct RunContext {
  const char* weights;
  const void* const* inputs;
  void** outputs;
  int64_t* symbols;
  char* workspace;
  Pool* pool;
  int32_t threads;
  Fault* fault;
  LateCache* late;
};

namespace model {
int64_t workspace_bytes(const int64_t* symbols, int32_t threads);
void run(const RunContext& rc);
}  // namespace model

// Division rounded down, as Python has it; 0 for a divisor of 0, so that nothing traps.
inline int64_t floordiv(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return int64_t(0 - uint64_t(a));
  const int64_t quotient = a / b;
  return quotient - int64_t(a % b != 0 && (a < 0) != (b < 0));
}
// a - b * floordiv(a, b)
inline int64_t mod(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
inline int64_t maximum(int64_t a, int64_t b) { return a > b ? a : b; }
inline int64_t minimum(int64_t a, int64_t b) { return a < b ? a : b; }

// An integer that remembers that some step overflowed or divided by zero. The same expression
// text works on it and on int64_t.
struct Checked {
  int64_t value;
  bool ok;
  Checked(int64_t v, bool fine = true) : value(v), ok(fine) {}
};
inline Checked operator+(Checked a, Checked b) {
  Checked r(0);
  r.ok = !__builtin_add_overflow(a.value, b.value, &r.value) && a.ok && b.ok;
  return r;
}
inline Checked operator-(Checked a, Checked b) {
  Checked r(0);
  r.ok = !__builtin_sub_overflow(a.value, b.value, &r.value) && a.ok && b.ok;
  return r;
}
inline Checked operator-(Checked a) { return Checked(0) - a; }
inline Checked operator*(Checked a, Checked b) {
  Checked r(0);
  r.ok = !__builtin_mul_overflow(a.value, b.value, &r.value) && a.ok && b.ok;
  return r;
}
inline Checked floordiv(Checked a, Checked b) {
  return Checked(floordiv(a.value, b.value), a.ok && b.ok && b.value != 0);
}
inline Checked mod(Checked a, Checked b) {
  return Checked(mod(a.value, b.value), a.ok && b.ok && b.value != 0);
}
inline Checked maximum(Checked a, Checked b) {
  return Checked(maximum(a.value, b.value), a.ok && b.ok);
}
inline Checked minimum(Checked a, Checked b) {
  return Checked(minimum(a.value, b.value), a.ok && b.ok);
}
// A relation over values that are not known holds never.
inline bool operator==(Checked a, Checked b) { return a.ok && b.ok && a.value == b.value; }
inline bool operator!=(Checked a, Checked b) { return a.ok && b.ok && a.value != b.value; }
inline bool operator<=(Checked a, Checked b) { return a.ok && b.ok && a.value <= b.value; }
inline bool operator<(Checked a, Checked b) { return a.ok && b.ok && a.value < b.value; }
inline bool operator>=(Checked a, Checked b) { return b <= a; }
inline bool operator>(Checked a, Checked b) { return b < a; }

// Writes a dim, -1 where it is not known or below zero.
inline void put_dim(int64_t* dim, Checked value) {
  *dim = value.ok && value.value >= 0 ? value.value : -1;
}

struct TensorTable {
  const char* name;
  const char* dtype;
  uint8_t code;  // DLPack's type code
  uint8_t bits;
  int32_t rank;
  const char* const* dims;                            // the text of each dim
  void (*shape)(const int64_t* symbols, int64_t* out);  // -1 for a dim that can't be
  bool late;
};

// The symbol is read off an input: dim == slope * symbol + offset. A late one has input -1, and in
// `source` what it is.
struct SymbolTable {
  const char* name;
  int64_t min, max;
  int32_t input, axis;
  int64_t slope, offset;
  const char* source;
};

struct ConstraintTable {
  const char* text;
  const char* origin;
};

// One bit of CPUID that the code relies on; register: 0 eax, 1 ebx, 2 ecx, 3 edx. On AArch64 one of
// the auxiliary vector's entry of type `leaf`.
struct CpuBit {
  const char* name;
  uint32_t leaf, subleaf;
  uint8_t reg, bit;
};

using RunFn = void (*)(const RunContext& rc);

// The model's code for CPUs with these bits and, unless that is 0, vectors of that many bits.
struct VariantTable {
  const char* name;
  int32_t cpu_bit_count;
  const CpuBit* cpu_bits;
  int32_t vector_bits;
  RunFn run;
  int64_t (*workspace_bytes)(const int64_t* symbols, int32_t threads);
};

struct ModelTables {
  int32_t input_count, output_count, symbol_count, constraint_count, variant_count;
  const TensorTable* inputs;
  const TensorTable* outputs;
  const SymbolTable* symbols;
  const ConstraintTable* constraints;  // and behind them the checks of parts of the program
  const VariantTable* variants;  // the best first
  // Its index, -1 if all hold; those over late symbols are left to the model's code.
  int32_t (*broken_constraint)(const int64_t* symbols);
  uint64_t weights_bytes;
  const char* description;
};

extern const ModelTables model_tables;  // defined by the generated table unit

}  // namespace cuvil
