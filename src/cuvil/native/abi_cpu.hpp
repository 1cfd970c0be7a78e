// Whether this CPU has what the code was compiled for. Runs before that is known, so it is compiled
// for the least CPU of the target.
#pragma once
#include <stdint.h>

#include "abi.hpp"
#include "abi_text.hpp"

namespace cuvil {

#if defined(__x86_64__)
inline void cpuid(uint32_t leaf, uint32_t subleaf, uint32_t out[4]) {
  __asm__("cpuid"
          : "=a"(out[0]), "=b"(out[1]), "=c"(out[2]), "=d"(out[3])
          : "a"(leaf), "c"(subleaf));
}

// Whether the system saves the vector registers that the feature needs (XCR0: 0x6 ymm, 0xe0 zmm).
inline bool system_saves(const char* name) {
  uint32_t regs[4];
  cpuid(1, 0, regs);
  if (!(regs[2] >> 27 & 1)) return false;
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  const uint32_t needed = starts_with(name, "avx512") ? 0xe6 : 0x6;
  return (low & needed) == needed;
}

// The first feature that is missing, null if none is.
inline const char* missing_feature(const ModelTables& tables) {
  for (int32_t i = 0; i < tables.cpu_bit_count; ++i) {
    const CpuBit& need = tables.cpu_bits[i];
    uint32_t regs[4];
    cpuid(need.leaf & 0x80000000u, 0, regs);
    if (regs[0] < need.leaf) return need.name;
    cpuid(need.leaf, need.subleaf, regs);
    if (!(regs[need.reg] >> need.bit & 1)) return need.name;
    if (starts_with(need.name, "avx") && !system_saves(need.name)) return need.name;
  }
  return nullptr;
}
#else
// Elsewhere the system's loader of the package has checked it: there is no CPUID to ask.
inline const char* missing_feature(const ModelTables&) { return nullptr; }
#endif

}  // namespace cuvil
