// What a WebAssembly module has of its own where others ask their process. Memory is what lies
// behind its data, and what the host lets it grow by. Free blocks are kept in order of address and
// joined with their neighbours; the first that fits is taken. One thread takes and gives: the
// others of a pool only use what it has taken.
#include "wasm.hpp"

#if defined(__wasm__)

extern "C" unsigned char __heap_base;  // defined by the linker

namespace {

constexpr size_t kAlign = CUVIL_ALIGNMENT, kPage = 65536;

struct alignas(kAlign) Block {  // stands in front of the memory that it describes
  size_t bytes;                 // without this header
  Block* next;                  // the free block behind it
};

Block* free_blocks = nullptr;
size_t heap_end = 0;

size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

char* end_of(Block* block) { return reinterpret_cast<char*>(block + 1) + block->bytes; }

void join_with_next(Block* block) {
  Block* next = block->next;
  if (!next || end_of(block) != reinterpret_cast<char*>(next)) return;
  block->bytes += sizeof(Block) + next->bytes;
  block->next = next->next;
}

void put(Block* block) {
  Block* before = nullptr;
  Block* after = free_blocks;
  while (after && after < block) before = after, after = after->next;
  block->next = after;
  join_with_next(block);
  if (!before) {
    free_blocks = block;
    return;
  }
  before->next = block;
  join_with_next(before);
}

// A free block of at least so many bytes at the heap's end; false where there is no more memory.
bool grow(size_t bytes) {
  const size_t base = rounded(reinterpret_cast<size_t>(&__heap_base), kAlign);
  if (heap_end == 0) heap_end = base;
  const size_t room = __builtin_wasm_memory_size(0) * kPage - heap_end;
  if (room < bytes + sizeof(Block)) {
    const size_t pages = (bytes + sizeof(Block) - room + kPage - 1) / kPage;
    if (__builtin_wasm_memory_grow(0, pages) == size_t(-1)) return false;
  }
  // Its last byte would be at 2^32 where all of the memory is taken, so a block ends before that.
  const uint64_t size = uint64_t(__builtin_wasm_memory_size(0)) * kPage;
  const size_t end = size > 0xffffffc0u ? 0xffffffc0u : size_t(size);
  Block* block = reinterpret_cast<Block*>(heap_end);
  block->bytes = end - heap_end - sizeof(Block);
  heap_end = end;
  put(block);
  return true;
}

void* take(size_t bytes) {
  for (Block** at = &free_blocks; *at; at = &(*at)->next) {
    Block* block = *at;
    if (block->bytes < bytes) continue;
    if (block->bytes - bytes > sizeof(Block)) {
      Block* rest = reinterpret_cast<Block*>(reinterpret_cast<char*>(block + 1) + bytes);
      rest->bytes = block->bytes - bytes - sizeof(Block);
      rest->next = block->next;
      block->bytes = bytes;
      *at = rest;
    } else {
      *at = block->next;
    }
    return block + 1;
  }
  return nullptr;
}

}  // namespace

void* cuvil_memory_take(uint32_t bytes) {
  if (bytes > 0xf0000000u) return nullptr;
  const size_t wanted = rounded(bytes ? bytes : 1, kAlign);
  void* found = take(wanted);
  return found || !grow(wanted) ? found : take(wanted);
}

void cuvil_memory_give(void* block) {
  if (block) put(static_cast<Block*>(block) - 1);
}

extern "C" {
// What memory.hpp asks its process for.
__attribute__((visibility("hidden"))) void* malloc(size_t bytes) {
  return cuvil_memory_take(bytes);
}
__attribute__((visibility("hidden"))) void free(void* block) { cuvil_memory_give(block); }

// A product of 128 bits, which the compiler calls where it looks for overflow. Its name and meaning
// are LLVM's (compiler-rt).
__attribute__((visibility("hidden"))) __int128 __multi3(__int128 a, __int128 b) {
  const uint64_t x = uint64_t(a), y = uint64_t(b), low = 0xffffffffu;
  const uint64_t x0 = x & low, x1 = x >> 32, y0 = y & low, y1 = y >> 32;
  const uint64_t first = x0 * y0, second = x1 * y0 + (first >> 32);
  const uint64_t third = x0 * y1 + (second & low);
  const uint64_t high = x1 * y1 + (second >> 32) + (third >> 32) + x * uint64_t(b >> 64) +
                        uint64_t(a >> 64) * y;
  return __int128(static_cast<unsigned __int128>(high) << 64 | (third << 32 | (first & low)));
}
}

#endif
