// Which code this CPU runs. Compiled for the least CPU of the target.
#pragma once
#include <stdint.h>

#include "abi.hpp"
#include "abi_text.hpp"
#include "os.hpp"

namespace cuvil {

#if defined(__x86_64__)
inline void cpuid(uint32_t leaf, uint32_t subleaf, uint32_t out[4]) {
  __asm__("cpuid"
          : "=a"(out[0]), "=b"(out[1]), "=c"(out[2]), "=d"(out[3])
          : "a"(leaf), "c"(subleaf));
}

// Whether the system saves the vector registers that the feature needs (XCR0: 0x6 ymm, 0xe0 zmm,
// 0x60000 tiles).
inline bool system_saves(const char* name) {
  uint32_t regs[4];
  cpuid(1, 0, regs);
  if (!(regs[2] >> 27 & 1)) return false;
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  const uint32_t needed = starts_with(name, "amx")      ? 0x60000
                          : starts_with(name, "avx512") ? 0xe6
                                                       : 0x6;
  return (low & needed) == needed;
}

inline bool has_bit(const CpuBit& need) {
  uint32_t regs[4];
  cpuid(need.leaf & 0x80000000u, 0, regs);
  if (regs[0] < need.leaf) return false;
  cpuid(need.leaf, need.subleaf, regs);
  if (!(regs[need.reg] >> need.bit & 1)) return false;
  const bool wide = starts_with(need.name, "avx") || starts_with(need.name, "amx");
  return !wide || system_saves(need.name);
}
inline int32_t vector_bits() { return 0; }
#elif defined(__aarch64__) && CUVIL_HAS_THREADS
// An entry of the auxiliary vector; without one what every CPU of this kind has: fp, asimd.
inline uint64_t auxiliary(uint64_t type) {
  uint64_t entries[2 * 64];
  const int64_t bytes = os::read_start("/proc/self/auxv", entries, sizeof entries);
  for (int64_t i = 0; (i + 2) * 8 <= bytes && entries[i]; i += 2)
    if (entries[i] == type) return entries[i + 1];
  return bytes <= 0 && type == 16 ? 3 : 0;
}
inline bool has_bit(const CpuBit& need) { return auxiliary(need.leaf) >> need.bit & 1; }
// Asked only where there is SVE.
inline int32_t vector_bits() { return os::sve_bytes() * 8; }
#else
// Elsewhere the system's loader of the package has checked it: there is nobody to ask.
inline bool has_bit(const CpuBit&) { return true; }
inline int32_t vector_bits() { return 0; }
#endif

// The first feature that a variant misses, null if none is.
inline const char* missing_feature(const VariantTable& code) {
  for (int32_t i = 0; i < code.cpu_bit_count; ++i)
    if (!has_bit(code.cpu_bits[i])) return code.cpu_bits[i].name;
  if (code.vector_bits && vector_bits() != code.vector_bits) return "vectors of its length";
  return nullptr;
}

// The best variant that this CPU runs, of that name if one is given; null if none is, and then
// `missing` is what the least of them lacks.
inline const VariantTable* choose_variant(const ModelTables& tables, const char* name,
                                          const char** missing) {
  *missing = nullptr;
  for (int32_t i = 0; i < tables.variant_count; ++i) {
    const VariantTable& code = tables.variants[i];
    if (name && !same_text(name, code.name)) continue;
    *missing = missing_feature(code);
    if (!*missing) return &code;
  }
  return nullptr;
}

}  // namespace cuvil
