// An integrity hash: fast, seeded, not cryptographic. package/hash64.py computes the same in NumPy.
#pragma once
#include <stdint.h>

namespace cuvil {

// Words are little-endian and 64 bits wide, the last one padded with zeros. Word i becomes
//   v = w + mix(seed) + (i + 1) * K1;  v ^= v >> 32;  v *= K2;  v ^= v >> 29
// and the hash is mix(sum of all v + n * K3), sums modulo 2^64. For a fixed i, v is a bijection of
// w: damage within one word is always seen.
uint64_t hash64(const void* data, uint64_t n, uint64_t seed);

}  // namespace cuvil
