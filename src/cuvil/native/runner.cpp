// A program that runs a library of its own architecture on given inputs, with no libc and no
// dynamic loader, so that an emulator of the CPU alone is enough:
//   runner LIBRARY WEIGHTS CALL RESULT [VARIANT]
// CALL is: inputs, outputs (their numbers, int64); for each input its type (code, bits), rank,
// dims, bytes and the data, for each output its type and rank; all int64, data padded to 64 bytes,
// the first at a multiple of 64. RESULT: status, the variant's name (64 bytes), the message (240),
// and for each output rank, dims, bytes, data padded to 8.
#include "abi.h"
#include "elf.hpp"
#include "os.hpp"

namespace {

using namespace cuvil;

#if defined(__x86_64__)
enum : long { kOpen = 257, kRead = 0, kWrite = 1, kClose = 3, kSeek = 8, kExit = 231 };
enum : uint32_t { kRelative = 8, kAbsolute = 1, kData = 6, kJump = 7 };
#else
enum : long { kOpen = 56, kRead = 63, kWrite = 64, kClose = 57, kSeek = 62, kExit = 94 };
enum : uint32_t { kRelative = 1027, kAbsolute = 257, kData = 1025, kJump = 1026 };
#endif

template <class T>
long word(T x) {
  if constexpr (sizeof(T) == sizeof(void*) && !__is_integral(T)) return reinterpret_cast<long>(x);
  else return long(x);
}

[[noreturn]] void leave(const char* why, int32_t code) {
  size_t size = 0;
  while (why[size]) ++size;
  os::call6(kWrite, 2, word(why), long(size), 0, 0, 0);
  os::call6(kWrite, 2, word("\n"), 1, 0, 0, 0);
  for (;;) os::call6(kExit, code, 0, 0, 0, 0, 0);
}

long open_file(const char* path, long flags) {
  const long file = os::call6(kOpen, -100, word(path), flags, 0600, 0, 0);
  if (file < 0) leave(path, 3);
  return file;
}

struct File {
  char* data;
  int64_t bytes;
};

File map_file(const char* path) {
  const long file = open_file(path, 0);
  const long bytes = os::call6(kSeek, file, 0, 2, 0, 0, 0);
  const long at = os::call6(os::kMmap, 0, bytes > 0 ? bytes : 1, 3, 2 /* private */, file, 0);
  os::call6(kClose, file, 0, 0, 0, 0, 0);
  return {bytes > 0 ? reinterpret_cast<char*>(at) : nullptr, bytes};
}

// What a library may ask of its process.
void* allocate(size_t bytes) {
  size_t* block = static_cast<size_t*>(os::map_pages(bytes + 64));
  if (!block) return nullptr;
  block[0] = bytes + 64;
  return block + 8;
}
void release(void* block) {
  if (!block) return;
  size_t* start = static_cast<size_t*>(block) - 8;
  os::unmap_pages(start, start[0]);
}

bool same(const char* a, const char* b) {
  while (*a && *a == *b) ++a, ++b;
  return *a == *b;
}

// A shared library without dependencies.
struct Library {
  char* base = nullptr;
  const Elf64_Dyn* dynamic = nullptr;

  explicit Library(const char* path) {
    const File image = map_file(path);
    const Elf64_Ehdr& head = *reinterpret_cast<const Elf64_Ehdr*>(image.data);
    if (image.bytes < 64 || head.e_ident[1] != 'E' || head.e_type != ET_DYN)
      leave("the library is no shared library", 3);
    const Elf64_Phdr* parts = reinterpret_cast<const Elf64_Phdr*>(image.data + head.e_phoff);
    uint64_t end = 0;
    for (int i = 0; i < head.e_phnum; ++i)
      if (parts[i].p_type == PT_LOAD && parts[i].p_vaddr + parts[i].p_memsz > end)
        end = parts[i].p_vaddr + parts[i].p_memsz;
    constexpr uint64_t page = 65536;  // segments begin in pages of this size
    char* room = static_cast<char*>(os::map_pages(end + 2 * page));
    if (!room) leave("no memory for the library", 3);
    base = reinterpret_cast<char*>((reinterpret_cast<uint64_t>(room) + page - 1) / page * page);
    const long file = open_file(path, 0);
    for (int i = 0; i < head.e_phnum; ++i) {
      if (parts[i].p_type == PT_LOAD) load(file, parts[i]);
      if (parts[i].p_type == PT_DYNAMIC)
        dynamic = reinterpret_cast<const Elf64_Dyn*>(base + parts[i].p_vaddr);
    }
    os::call6(kClose, file, 0, 0, 0, 0, 0);
    relocate(DT_RELA, DT_RELASZ);
    relocate(DT_JMPREL, DT_PLTRELSZ);
  }

  void load(long file, const Elf64_Phdr& part) {
    const uint64_t skew = part.p_vaddr % 4096;
    const long rights = (part.p_flags & PF_R ? 1 : 0) | (part.p_flags & PF_W ? 2 : 0) |
                        (part.p_flags & PF_X ? 4 : 0);
    char* at = base + part.p_vaddr - skew;
    const long got = os::call6(os::kMmap, word(at), long(part.p_filesz + skew), rights,
                               0x12 /* private, fixed */, file, long(part.p_offset - skew));
    if (got != word(at)) leave("the library can't be mapped", 3);
    if (part.p_memsz == part.p_filesz) return;
    char* from = base + part.p_vaddr + part.p_filesz;
    char* to = base + part.p_vaddr + part.p_memsz;
    // The rest of the last page is the file's; pages after it are zero already.
    for (; from < to && word(from) % 4096; ++from) *from = 0;
  }

  uint64_t entry(int64_t tag) const {
    for (const Elf64_Dyn* d = dynamic; d->d_tag != DT_NULL; ++d)
      if (d->d_tag == tag) return d->d_val;
    return 0;
  }
  const Elf64_Sym* symbols() const {
    return reinterpret_cast<const Elf64_Sym*>(base + entry(DT_SYMTAB));
  }
  const char* name(const Elf64_Sym& s) const { return base + entry(DT_STRTAB) + s.st_name; }

  uint64_t address(const Elf64_Sym& s) const {
    if (s.st_shndx) return reinterpret_cast<uint64_t>(base) + s.st_value;
    if (same(name(s), "malloc")) return reinterpret_cast<uint64_t>(&allocate);
    if (same(name(s), "free")) return reinterpret_cast<uint64_t>(&release);
    return 0;  // weak
  }

  void relocate(int64_t table, int64_t size) const {
    const Elf64_Rela* all = reinterpret_cast<const Elf64_Rela*>(base + entry(table));
    for (uint64_t i = 0; i < entry(size) / sizeof *all; ++i) {
      const Elf64_Rela& r = all[i];
      const uint32_t type = uint32_t(r.r_info);
      uint64_t value = uint64_t(r.r_addend);
      if (type == kRelative) value += reinterpret_cast<uint64_t>(base);
      else if (type == kAbsolute || type == kData || type == kJump)
        value += address(symbols()[r.r_info >> 32]);
      else leave("the library has an unknown relocation", 3);
      *reinterpret_cast<uint64_t*>(base + r.r_offset) = value;
    }
  }

  // A function it exports, found through its GNU hash table.
  template <class Function>
  Function* find(const char* wanted) const {
    const uint32_t* table = reinterpret_cast<const uint32_t*>(base + entry(DT_GNU_HASH));
    const uint32_t* buckets = table + 4 + 2 * table[2];
    const uint32_t* chain = buckets + table[0];
    for (uint32_t b = 0; b < table[0]; ++b) {
      for (uint32_t i = buckets[b]; i >= table[1]; ++i) {
        const Elf64_Sym& s = symbols()[i];
        if (same(name(s), wanted)) return reinterpret_cast<Function*>(address(s));
        if (chain[i - table[1]] & 1) break;
      }
    }
    leave(wanted, 3);
  }
};

struct Reader {
  int64_t* at;
  int64_t next() { return *at++; }
};

struct Tensor {
  DLTensor header;
  int64_t shape[CUVIL_MAX_RANK];
};

void describe(Tensor& t, Reader& call) {
  t.header = {};
  t.header.device = {1, 0};
  t.header.dtype.code = uint8_t(call.next());
  t.header.dtype.bits = uint8_t(call.next());
  t.header.dtype.lanes = 1;
  t.header.ndim = int32_t(call.next());
  t.header.shape = t.shape;
}

int64_t data_bytes(const Tensor& t) {
  const int64_t bits = t.header.dtype.bits;
  int64_t bytes = bits < 8 ? 1 : bits / 8;
  for (int32_t i = 0; i < t.header.ndim; ++i) bytes *= t.shape[i];
  return bytes;
}

struct Writer {
  long file;
  void put(const void* data, int64_t bytes) const {
    const char* at = static_cast<const char*>(data);
    while (bytes > 0) {
      const long done = os::call6(kWrite, file, word(at), bytes, 0, 0, 0);
      if (done <= 0) leave("the result can't be written", 3);
      at += done, bytes -= done;
    }
  }
};

constexpr int64_t kMost = 256;
Tensor tensors[2 * kMost];
DLTensor* places[2 * kMost];

int32_t run(const Library& library, const char* weights_path, const char* variant, Reader call,
            cuvil_model** model, int64_t* input_count, int64_t* output_count,
            cuvil_status* status) {
  const int64_t n = *input_count = call.next(), m = *output_count = call.next();
  if (n > kMost || m > kMost) leave("too many tensors", 3);
  for (int64_t i = 0; i < n; ++i) {
    describe(tensors[i], call);
    for (int32_t d = 0; d < tensors[i].header.ndim; ++d) tensors[i].shape[d] = call.next();
    const int64_t bytes = call.next();
    char* data = reinterpret_cast<char*>((reinterpret_cast<uint64_t>(call.at) + 63) & ~63ull);
    tensors[i].header.data = data;
    places[i] = &tensors[i].header;
    call.at = reinterpret_cast<int64_t*>(data + (bytes + 63) / 64 * 64);
  }
  const File weights = map_file(weights_path);
  int32_t code = library.find<decltype(cuvil_create_variant)>("cuvil_create_variant")(
      variant, weights.data, uint64_t(weights.bytes), nullptr, model, status);
  if (code) return code;
  for (int64_t i = n; i < n + m; ++i) {
    describe(tensors[i], call);
    places[i] = &tensors[i].header;
    code = library.find<decltype(cuvil_output_shape)>("cuvil_output_shape")(
        *model, places, int32_t(n), int32_t(i - n), tensors[i].shape, status);
    if (code == CUVIL_E_LATE) continue;
    if (code) return code;
    const int64_t bytes = data_bytes(tensors[i]);
    tensors[i].header.data = allocate(size_t(bytes));
    if (!tensors[i].header.data) return CUVIL_E_MEMORY;
  }
  uint64_t room = 0;
  code = library.find<decltype(cuvil_workspace_size)>("cuvil_workspace_size")(
      *model, places, int32_t(n), &room, status);
  if (code) return code;
  void* workspace = allocate(room);
  if (!workspace) return CUVIL_E_MEMORY;
  return library.find<decltype(cuvil_run)>("cuvil_run")(
      *model, places, int32_t(n), places + n, int32_t(m), workspace, room, status);
}

}  // namespace

extern "C" [[noreturn]] __attribute__((used)) void runner_main(const int64_t* stack) {
  const int64_t count = stack[0];
  char* const* arguments = reinterpret_cast<char* const*>(stack + 1);
  if (count < 5) leave("runner LIBRARY WEIGHTS CALL RESULT [VARIANT]", 2);
  const Library library(arguments[1]);
  const File call = map_file(arguments[3]);
  cuvil_model* model = nullptr;
  cuvil_status status = {};
  int64_t n = 0, m = 0;
  const int64_t code = run(library, arguments[2], count > 5 ? arguments[5] : nullptr,
                           {reinterpret_cast<int64_t*>(call.data)}, &model, &n, &m, &status);
  const Writer out = {open_file(arguments[4], 0x241 /* write, create, truncate */)};
  char name[64] = {};
  if (model) {
    const char* from = library.find<decltype(cuvil_variant)>("cuvil_variant")(model);
    for (int i = 0; i < 63 && from[i]; ++i) name[i] = from[i];
  }
  out.put(&code, 8);
  out.put(name, sizeof name);
  out.put(status.message, sizeof status.message);
  for (int64_t i = n; i < n + m && code == CUVIL_OK; ++i) {
    const int64_t rank = tensors[i].header.ndim, bytes = data_bytes(tensors[i]), zero = 0;
    out.put(&rank, 8);
    out.put(tensors[i].shape, rank * 8);
    out.put(&bytes, 8);
    out.put(tensors[i].header.data, bytes);
    out.put(&zero, (8 - bytes % 8) % 8);
  }
  for (;;) os::call6(kExit, 0, 0, 0, 0, 0, 0);
}

#if defined(__x86_64__)
__asm__(".globl _start\n_start:\n  mov %rsp, %rdi\n  and $-64, %rsp\n  call runner_main\n");
#else
__asm__(".globl _start\n_start:\n  mov x0, sp\n  and sp, x0, #-64\n  b runner_main\n");
#endif
