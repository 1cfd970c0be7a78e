// Times of kernels and of the machine, in libraries that are built to be profiled; no other has
// any of this. Slices go where the process says; one call at a time may be recorded.
#pragma once
#include <stdint.h>

extern "C" {
#define CUVIL_PROFILE_API __attribute__((visibility("default")))

// Ticks from `begin` to `end` in which `thread` (0: the caller) ran kernel number `kernel`; -1 is
// the call as a whole.
typedef struct {
  uint64_t begin, end;
  int32_t kernel, thread;
} cuvil_profile_slice;

// Slices go to `slices` from now on, as many as `capacity`; null ends that.
CUVIL_PROFILE_API void cuvil_profile_into(cuvil_profile_slice* slices, int64_t capacity);
// How many there were since then, those that found no room too.
CUVIL_PROFILE_API int64_t cuvil_profile_count(void);
CUVIL_PROFILE_API uint64_t cuvil_profile_ticks(void);

// Multiplies and adds at the rate that this machine can; returns the number of operations.
CUVIL_PROFILE_API int64_t cuvil_profile_multiply(int64_t rounds);
// The same with bf16 that are added up in f32, where the machine has instructions for it.
CUVIL_PROFILE_API int64_t cuvil_profile_multiply_pairs(int64_t rounds);
// Reads `bytes` (whole multiples of 1 KB) that many times; the result is of no interest.
CUVIL_PROFILE_API int64_t cuvil_profile_read(const int32_t* data, int64_t bytes, int64_t rounds);
}

namespace cuvil {

uint64_t profile_enter(int32_t kernel);
void profile_record(int32_t kernel, int32_t thread, uint64_t begin);

// What runs while it lives is a kernel's, also where the entry returns early.
class ProfileSlice {
 public:
  explicit ProfileSlice(int32_t kernel) : kernel_(kernel), begin_(profile_enter(kernel)) {}
  ~ProfileSlice() { profile_record(kernel_, 0, begin_); }
  ProfileSlice(const ProfileSlice&) = delete;
  ProfileSlice& operator=(const ProfileSlice&) = delete;

 private:
  int32_t kernel_;
  uint64_t begin_;
};

}  // namespace cuvil
