// The little of ELF that loading a 64-bit library takes (System V gABI, chapters 4 and 5).
#pragma once
#include <stdint.h>

namespace cuvil {

struct Elf64_Ehdr {
  unsigned char e_ident[16];
  uint16_t e_type, e_machine;
  uint32_t e_version;
  uint64_t e_entry, e_phoff, e_shoff;
  uint32_t e_flags;
  uint16_t e_ehsize, e_phentsize, e_phnum, e_shentsize, e_shnum, e_shstrndx;
};

struct Elf64_Phdr {
  uint32_t p_type, p_flags;
  uint64_t p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align;
};

struct Elf64_Sym {
  uint32_t st_name;
  uint8_t st_info, st_other;
  uint16_t st_shndx;
  uint64_t st_value, st_size;
};

struct Elf64_Rela {
  uint64_t r_offset, r_info;
  int64_t r_addend;
};

struct Elf64_Dyn {
  int64_t d_tag;
  uint64_t d_val;
};

enum : uint32_t { ET_DYN = 3, PT_LOAD = 1, PT_DYNAMIC = 2, PF_X = 1, PF_W = 2, PF_R = 4 };
enum : int64_t {
  DT_NULL = 0, DT_PLTRELSZ = 2, DT_STRTAB = 5, DT_SYMTAB = 6, DT_RELA = 7, DT_RELASZ = 8,
  DT_JMPREL = 23, DT_GNU_HASH = 0x6ffffef5
};

}  // namespace cuvil
