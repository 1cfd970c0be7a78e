// Sizes found during a call, and memory as large as they say.
#pragma once
#include "abi.hpp"
#include "memory.hpp"

namespace cuvil {

// One call's late sizes. What it takes goes back to the model's cache, at the latest when the call
// ends. The first failure stays: after each step the caller asks failed() and returns.
class LateCall {
 public:
  explicit LateCall(const RunContext& rc) : rc_(rc) {}
  ~LateCall();
  LateCall(const LateCall&) = delete;

  bool failed() const { return rc_.fault->code != 0 || rc_.fault->size != 0; }
  // Gives symbol `number` its value, which must be inside the bounds.
  int64_t bind(int32_t number, int64_t value, int64_t low, int64_t high);
  // Constraint `number` of the model.
  void require(int32_t number, bool holds);
  // Memory aligned to 64, as an offset from the workspace; a failure if there is none.
  int64_t take(Checked bytes);
  void give(int64_t offset);
  // Puts a copy aside in `block`, which is replaced where it is too small; it may grow by trips.
  void keep(LateBlock*& block, const void* from, Checked bytes);
  // The same for what lies at the start of memory that was taken, which is not copied.
  void adopt(LateBlock*& block, int64_t offset);
  // Where it lies: as many bytes as were put there.
  char* kept(LateBlock* block, Checked bytes);
  // Memory for output `number`, which the caller of the model frees.
  void output(int32_t number, Checked bytes);

 private:
  void fail(int32_t code, int64_t index, int64_t size);
  bool fits(Checked bytes);
  void give(LateBlock* block);

  const RunContext& rc_;
  LateBlock* taken_ = nullptr;
};

}  // namespace cuvil
