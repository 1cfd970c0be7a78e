// memcpy, memmove, memset and memcmp, which the compiler may call and no libc provides here, and
// the integrity hash. Hidden, so that an artifact never interposes on its host's own.
#include <stddef.h>
#include <stdint.h>

#include "hash.hpp"

#ifndef CUVIL_VEC_BYTES
#define CUVIL_VEC_BYTES 16
#endif

// Without no_builtin clang may turn a copying loop into a call of the function it stands in.
#define CUVIL_LIBC extern "C" __attribute__((visibility("hidden"), no_builtin, used))

namespace {

// N bytes at any address. A struct, because a template argument drops a typedef's alignment.
template <int N>
struct __attribute__((packed, may_alias)) Bytes {
  uint8_t v __attribute__((vector_size(N)));
};
using Block = Bytes<CUVIL_VEC_BYTES>;
typedef uint64_t Word __attribute__((aligned(1), may_alias));
constexpr size_t kBlock = sizeof(Block);
#if defined(__x86_64__)
constexpr size_t kLarge = 1 << 20;  // from here on the processor's string copy is as fast or faster
#endif

template <int N>
__attribute__((always_inline)) inline void move_ends(char* d, const char* s, size_t n) {
  // Both loads come first, so overlapping ranges of N to 2 N bytes are moved correctly.
  const auto first = reinterpret_cast<const Bytes<N>*>(s)->v;
  const auto last = reinterpret_cast<const Bytes<N>*>(s + n - N)->v;
  reinterpret_cast<Bytes<N>*>(d)->v = first;
  reinterpret_cast<Bytes<N>*>(d + n - N)->v = last;
}

// Any overlap, n <= 2 * kBlock.
__attribute__((always_inline)) inline void move_small(char* d, const char* s, size_t n) {
  if (n >= kBlock) return move_ends<kBlock>(d, s, n);
  if (n >= 32) return move_ends<32>(d, s, n);
  if (n >= 16) return move_ends<16>(d, s, n);
  if (n >= 8) return move_ends<8>(d, s, n);
  if (n >= 4) return move_ends<4>(d, s, n);
  if (n >= 2) return move_ends<2>(d, s, n);
  if (n) *d = *s;
}

// n > 2 * kBlock. Right when d lies before s or the ranges are apart.
__attribute__((always_inline)) inline void move_forward(char* d, const char* s, size_t n) {
  const Block last = *reinterpret_cast<const Block*>(s + n - kBlock);
  char* const end = d + n - kBlock;
  size_t i = 0;
  for (; i + 4 * kBlock <= n - kBlock; i += 4 * kBlock) {
    const Block a = *reinterpret_cast<const Block*>(s + i);
    const Block b = *reinterpret_cast<const Block*>(s + i + kBlock);
    const Block c = *reinterpret_cast<const Block*>(s + i + 2 * kBlock);
    const Block e = *reinterpret_cast<const Block*>(s + i + 3 * kBlock);
    *reinterpret_cast<Block*>(d + i) = a;
    *reinterpret_cast<Block*>(d + i + kBlock) = b;
    *reinterpret_cast<Block*>(d + i + 2 * kBlock) = c;
    *reinterpret_cast<Block*>(d + i + 3 * kBlock) = e;
  }
  for (; i < n - kBlock; i += kBlock) {
    *reinterpret_cast<Block*>(d + i) = *reinterpret_cast<const Block*>(s + i);
  }
  *reinterpret_cast<Block*>(end) = last;
}

__attribute__((always_inline)) inline void move_backward(char* d, const char* s, size_t n) {
  const Block first = *reinterpret_cast<const Block*>(s);
  size_t i = n;
  for (; i > kBlock; i -= kBlock) {
    *reinterpret_cast<Block*>(d + i - kBlock) = *reinterpret_cast<const Block*>(s + i - kBlock);
  }
  *reinterpret_cast<Block*>(d) = first;
}

__attribute__((always_inline)) inline uint64_t mix(uint64_t h) {
  h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdull;
  h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53ull;
  return h ^ (h >> 33);
}

}  // namespace

CUVIL_LIBC void* memcpy(void* dst, const void* src, size_t n) {
  char* d = static_cast<char*>(dst);
  const char* s = static_cast<const char*>(src);
  if (n <= 2 * kBlock) {
    move_small(d, s, n);
    return dst;
  }
#if defined(__x86_64__)
  if (n >= kLarge) {
    __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) : : "memory");
    return dst;
  }
#endif
  move_forward(d, s, n);
  return dst;
}

CUVIL_LIBC void* memmove(void* dst, const void* src, size_t n) {
  char* d = static_cast<char*>(dst);
  const char* s = static_cast<const char*>(src);
  if (n <= 2 * kBlock) {
    move_small(d, s, n);
  } else if (reinterpret_cast<uintptr_t>(d) - reinterpret_cast<uintptr_t>(s) >= n) {
    move_forward(d, s, n);  // d < s wraps to a large difference
  } else {
    move_backward(d, s, n);
  }
  return dst;
}

CUVIL_LIBC void* memset(void* dst, int value, size_t n) {
  char* d = static_cast<char*>(dst);
  if (n < kBlock) {
    for (size_t i = 0; i < n; ++i) d[i] = char(value);
    return dst;
  }
#if defined(__x86_64__)
  if (n >= kLarge) {
    char* at = d;
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(value) : "memory");
    return dst;
  }
#endif
  Block v = {};
  v.v += uint8_t(value);
  for (size_t i = 0; i + kBlock <= n; i += kBlock) *reinterpret_cast<Block*>(d + i) = v;
  *reinterpret_cast<Block*>(d + n - kBlock) = v;
  return dst;
}

CUVIL_LIBC int memcmp(const void* a, const void* b, size_t n) {
  const uint8_t* x = static_cast<const uint8_t*>(a);
  const uint8_t* y = static_cast<const uint8_t*>(b);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    if (*reinterpret_cast<const Word*>(x + i) != *reinterpret_cast<const Word*>(y + i)) break;
  }
  for (; i < n; ++i) {
    if (x[i] != y[i]) return int(x[i]) - int(y[i]);
  }
  return 0;
}

namespace cuvil {

static constexpr uint64_t LINE_WORDS = 8;
static constexpr uintptr_t HASHED_AHEAD = 8192;  // in bytes

// What word `i` adds to the sum, see hash.hpp.
static inline uint64_t hashed(uint64_t word, uint64_t base, uint64_t i) {
  constexpr uint64_t k1 = 0x9e3779b97f4a7c15ull, k2 = 0xd6e8feb86659fd93ull;
  uint64_t v = word + (base + (i + 1) * k1);
  v = (v ^ (v >> 32)) * k2;
  return v ^ (v >> 29);
}

uint64_t hash64(const void* data, uint64_t n, uint64_t seed) {
  constexpr uint64_t k3 = 0xa0761d6478bd642full;
  const Word* words = static_cast<const Word*>(data);
  const uint64_t base = mix(seed), count = n / 8;
  uint64_t sum = 0, at = 0;
  // A core's own prefetching leaves a third of the memory's rate unused: lines are asked for ahead.
  for (; at + LINE_WORDS <= count; at += LINE_WORDS) {
    __builtin_prefetch(reinterpret_cast<const void*>(uintptr_t(words + at) + HASHED_AHEAD));
    for (uint64_t j = 0; j < LINE_WORDS; ++j) sum += hashed(words[at + j], base, at + j);
  }
  for (; at < count; ++at) sum += hashed(words[at], base, at);
  if (n % 8) {
    uint64_t w = 0;
    const uint8_t* tail = static_cast<const uint8_t*>(data) + count * 8;
    for (uint64_t j = 0; j < n % 8; ++j) w |= uint64_t(tail[j]) << (8 * j);
    sum += hashed(w, base, count);
  }
  return mix(sum + n * k3);
}

}  // namespace cuvil
