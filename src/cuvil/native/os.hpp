// The few things asked of the operating system, by raw system calls: artifacts link no libc.
// CUVIL_HAS_THREADS is 1 where all of them exist: Linux on x86-64 and on AArch64, and WebAssembly
// with atomics, which asks its host instead.
#pragma once
#include <stddef.h>
#include <stdint.h>

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__)) && !defined(__ILP32__)
#define CUVIL_HAS_THREADS 1
#elif defined(__wasm_atomics__)
#define CUVIL_HAS_THREADS 1
#include "os_wasm.hpp"
#else
#define CUVIL_HAS_THREADS 0
#endif

#if CUVIL_HAS_THREADS && !defined(__wasm__)
namespace cuvil {
namespace os {

#if defined(__x86_64__)
enum : long { kMmap = 9, kMunmap = 11, kSigmask = 14, kMadvise = 28, kGetpid = 39, kFutex = 202 };
inline long call6(long n, long a, long b, long c, long d, long e, long f) {
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}
// A counter that runs at a constant rate.
inline uint64_t ticks() { return __builtin_readcyclecounter(); }
inline void relax() { __builtin_ia32_pause(); }
constexpr bool kCallersSleep = true;
#else
enum : long {
  kMmap = 222, kMunmap = 215, kSigmask = 135, kMadvise = 233, kGetpid = 172, kFutex = 98
};
inline long call6(long n, long a, long b, long c, long d, long e, long f) {
  register long x8 __asm__("x8") = n;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc 0"
                   : "+r"(x0)
                   : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                   : "memory");
  return x0;
}
inline uint64_t ticks() {
  uint64_t t;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
  return t;
}
inline void relax() { __asm__ volatile("yield"); }
constexpr bool kCallersSleep = true;
#endif

#if defined(__aarch64__)
// The first bytes of a file; returns how many, 0 or less where it can't be read.
inline int64_t read_start(const char* path, void* to, size_t bytes) {
  const long file = call6(56 /* openat */, -100 /* at the working folder */,
                          reinterpret_cast<long>(path), 0 /* read only */, 0, 0, 0);
  if (file < 0) return file;
  const long got = call6(63 /* read */, file, reinterpret_cast<long>(to), long(bytes), 0, 0, 0);
  call6(57 /* close */, file, 0, 0, 0, 0, 0);
  return got;
}
// Bytes of an SVE register of this thread; 0 without SVE.
inline int32_t sve_bytes() {
  const long got = call6(167 /* prctl */, 51 /* PR_SVE_GET_VL */, 0, 0, 0, 0, 0);
  return got < 0 ? 0 : int32_t(got & 0xffff);
}
#endif

// Zeroed pages, or null.
inline void* map_pages(size_t bytes) {
  const long r = call6(kMmap, 0, long(bytes), 3 /* read, write */, 0x22 /* private, anonymous */,
                       -1, 0);
  return r < 0 && r > -4096 ? nullptr : reinterpret_cast<void*>(r);
}
inline void unmap_pages(void* p, size_t bytes) {
  call6(kMunmap, reinterpret_cast<long>(p), long(bytes), 0, 0, 0, 0);
}
// Asks that a forked child finds these pages zeroed (Linux 4.14); false where that is not known.
inline bool wipe_on_fork(void* p, size_t bytes) {
  return call6(kMadvise, reinterpret_cast<long>(p), long(bytes), 18, 0, 0, 0) == 0;
}
inline int32_t process_id() { return int32_t(call6(kGetpid, 0, 0, 0, 0, 0, 0)); }
// Sleeps while *word == value; may return early.
inline void futex_wait(uint32_t* word, uint32_t value) {
  call6(kFutex, reinterpret_cast<long>(word), 128 /* wait, private */, long(value), 0, 0, 0);
}
inline void futex_wake(uint32_t* word, int32_t count) {
  call6(kFutex, reinterpret_cast<long>(word), 129 /* wake, private */, count, 0, 0, 0);
}
// Replaces this thread's mask of blocked signals and returns the old one.
inline uint64_t block_signals(uint64_t mask) {
  uint64_t old = 0;
  call6(kSigmask, 2 /* set */, reinterpret_cast<long>(&mask), reinterpret_cast<long>(&old),
        sizeof old, 0, 0);
  return old;
}

}  // namespace os
}  // namespace cuvil
#endif
