// The pool behind threads.hpp: workers that join a loop when they get to it, never waited for when
// they do not, so a descheduled worker delays nobody.
#include "memory.hpp"
#include "os.hpp"
#include "threads.hpp"

namespace cuvil {
namespace {

struct Loop {
  RangeFn fn;
  void* ctx;
  int64_t n, grain, units;
};

// Units are of `grain` items; the last one takes what is left.
void run_units(void* context, int64_t begin, int64_t end, int32_t thread) {
  const Loop& l = *static_cast<const Loop*>(context);
  if (begin < end) l.fn(l.ctx, begin * l.grain, end == l.units ? l.n : end * l.grain, thread);
}

}  // namespace

Pool* pool_from(HostLoopFn host, void* context, int32_t threads) {
  if (!host || threads < 1) return nullptr;
  Pool* pool = static_cast<Pool*>(memory_of(sizeof(Pool)));
  if (pool) *pool = {host, context, threads};
  return pool;
}

}  // namespace cuvil

#if CUVIL_HAS_THREADS

#if !defined(__wasm__)
// Weak: an artifact in a process without threads runs on its caller alone.
extern "C" {
__attribute__((weak, visibility("default"))) int pthread_create(unsigned long*, const void*,
                                                                void* (*)(void*), void*);
__attribute__((weak, visibility("default"))) int pthread_join(unsigned long, void**);
}
#endif

namespace cuvil {

#if CUVIL_PROFILE  // of core_profile.cpp, in libraries that are built to be profiled
void profile_share(int32_t thread, uint64_t begin);
#endif

namespace {

constexpr int32_t kMaxThreads = 256;
constexpr uint64_t kSpinNanoseconds = 40000;

struct alignas(64) Share {  // of the range, in units of `grain`; taken from the front
  uint64_t next, end;
};

struct Team;

struct alignas(64) Worker {
  Team* pool;
  int32_t index;
  unsigned long thread;
};

// `gate` is the loop in progress: workers inside it in bits 0..8, open in bit 9, a serial number
// above. A worker enters by adding one while the gate is open; the caller shuts it when no work is
// left and waits only for those inside.
struct Team : Pool {
  int32_t process;
  uint32_t* same_process;  // zero in a forked child, or null: compare process ids
  size_t bytes;
  uint64_t spin_ticks;
  alignas(64) uint32_t gate;
  uint32_t stop;
  alignas(64) uint32_t sleepers;
  alignas(64) uint32_t busy;
  uint32_t caller_waits;
  alignas(64) Loop loop;
  int32_t shares;
  Worker workers[kMaxThreads];
  Share share[kMaxThreads];
};

constexpr uint32_t kInside = 0x1ff, kOpen = 0x200, kSerial = 0x400;

uint64_t ticks_for(uint64_t nanoseconds) {
#if defined(__aarch64__)
  uint64_t per_second;
  __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(per_second));
  return per_second * nanoseconds / 1000000000u;
#elif defined(__wasm__)
  return nanoseconds;
#else
  return nanoseconds * 5 / 2;  // counters run at 2 to 4 GHz; this is a bound, not a clock
#endif
}

// Takes half of what is left, whole when that is one unit: few calls, and a short tail.
bool take(Share& s, uint64_t* begin, uint64_t* end) {
  uint64_t at = __atomic_load_n(&s.next, __ATOMIC_RELAXED);
  for (;;) {
    if (at >= s.end) return false;
    const uint64_t left = s.end - at, count = left - left / 2;
    if (__atomic_compare_exchange_n(&s.next, &at, at + count, true, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED)) {
      *begin = at;
      *end = at + count;
      return true;
    }
  }
}

void work(Team* p, int32_t thread) {
  const int32_t shares = p->shares;
  const int32_t first = thread < shares ? thread : thread % shares;
  for (int32_t i = 0; i < shares; ++i) {
    Share& s = p->share[first + i < shares ? first + i : first + i - shares];
    uint64_t begin, end;
    while (take(s, &begin, &end)) {
      run_units(&p->loop, int64_t(begin), int64_t(end), thread);
    }
  }
}

// True when this worker is now inside an open loop.
bool enter(Team* p) {
  uint32_t g = __atomic_load_n(&p->gate, __ATOMIC_RELAXED);
  while (g & kOpen) {
    if (__atomic_compare_exchange_n(&p->gate, &g, g + 1, true, __ATOMIC_ACQUIRE,
                                    __ATOMIC_RELAXED)) {
      return true;
    }
  }
  return false;
}

void leave(Team* p) {
  const uint32_t g = __atomic_sub_fetch(&p->gate, 1, __ATOMIC_SEQ_CST);
  if ((g & (kInside | kOpen)) == 0 && __atomic_load_n(&p->caller_waits, __ATOMIC_SEQ_CST)) {
    __atomic_store_n(&p->caller_waits, 0, __ATOMIC_SEQ_CST);
    os::futex_wake(&p->caller_waits, 1);
  }
}

// Waits until the gate no longer reads `seen`, first spinning. False when it had to sleep.
bool wait_for_change(Team* p, uint32_t seen, uint64_t spin) {
  const uint64_t start = os::ticks();
  do {
    for (int i = 0; i < 8; ++i) {
      if (__atomic_load_n(&p->gate, __ATOMIC_RELAXED) != seen) return true;
      os::relax();
    }
  } while (os::ticks() - start < spin);
  __atomic_add_fetch(&p->sleepers, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&p->gate, __ATOMIC_SEQ_CST) == seen) os::futex_wait(&p->gate, seen);
  __atomic_sub_fetch(&p->sleepers, 1, __ATOMIC_RELAXED);
  return false;
}

void* worker_main(void* argument) {
  Worker* w = static_cast<Worker*>(argument);
  Team* p = w->pool;
  uint64_t spin = p->spin_ticks;
  uint32_t done = 0;  // serial number of the loop this worker has seen the end of
  for (;;) {
    const uint32_t g = __atomic_load_n(&p->gate, __ATOMIC_ACQUIRE);
    if (__atomic_load_n(&p->stop, __ATOMIC_RELAXED)) return nullptr;
    if ((g & kOpen) && g / kSerial != done) {
      if (!enter(p)) continue;
      done = __atomic_load_n(&p->gate, __ATOMIC_RELAXED) / kSerial;
#if CUVIL_PROFILE
      const uint64_t begin = os::ticks();
      work(p, w->index);
      profile_share(w->index, begin);  // before the caller goes on
#else
      work(p, w->index);
#endif
      leave(p);
      continue;
    }
    // Spinning pays while loops follow each other closely; after a miss it is tried for less long.
    const bool caught = wait_for_change(p, g, spin);
    spin = caught ? p->spin_ticks : (spin > p->spin_ticks / 16 ? spin / 2 : spin);
  }
}

#if defined(__wasm__)
// The host starts threads, when it comes to that (cuvil_pool_serve), and ends them with the memory
// that they share.
bool threads_exist() { return true; }
bool start_thread(Worker*) { return true; }
bool join_threads(Team*) { return false; }
#else
bool threads_exist() { return pthread_create && pthread_join; }
bool start_thread(Worker* w) { return pthread_create(&w->thread, nullptr, worker_main, w) == 0; }
bool join_threads(Team* p) {
  for (int32_t i = 1; i < p->threads; ++i) pthread_join(p->workers[i].thread, nullptr);
  return true;
}
#endif

bool in_other_process(const Team* p) {
  if (p->same_process) return __atomic_load_n(p->same_process, __ATOMIC_RELAXED) == 0;
  return os::process_id() != p->process;
}

void wait_until_empty(Team* p) {
  const uint64_t start = os::ticks();
  for (;;) {
    if ((__atomic_load_n(&p->gate, __ATOMIC_ACQUIRE) & kInside) == 0) return;
    os::relax();
    if (!os::kCallersSleep || os::ticks() - start < p->spin_ticks) continue;
    __atomic_store_n(&p->caller_waits, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&p->gate, __ATOMIC_SEQ_CST) & kInside) os::futex_wait(&p->caller_waits, 1);
  }
}

void split(Team* p, int64_t units, int32_t shares) {
  for (int32_t i = 0; i < shares; ++i) {
    __atomic_store_n(&p->share[i].next, uint64_t(units * i / shares), __ATOMIC_RELAXED);
    p->share[i].end = uint64_t(units * (i + 1) / shares);
  }
  p->shares = shares;
}

}  // namespace

Pool* pool_create(int32_t threads) {
  if (threads <= 1 || !threads_exist()) return nullptr;
  constexpr size_t page = 65536;  // the largest page in use on these machines
  const size_t bytes = (sizeof(Team) + page - 1) / page * page + page;
  char* memory = static_cast<char*>(os::map_pages(bytes));
  if (!memory) return nullptr;
  Team* p = reinterpret_cast<Team*>(memory);
  p->bytes = bytes;
  p->process = os::process_id();
  p->spin_ticks = ticks_for(kSpinNanoseconds);
  uint32_t* mark = reinterpret_cast<uint32_t*>(memory + bytes - page);
  if (os::wipe_on_fork(mark, page)) {
    *mark = 1;
    p->same_process = mark;
  }
  p->threads = 1;
  threads = threads < kMaxThreads ? threads : kMaxThreads;
  // Signal handlers belong to the host's own threads.
  const uint64_t signals = os::block_signals(~uint64_t(0));
  for (int32_t i = 1; i < threads; ++i) {
    Worker& w = p->workers[i];
    w.pool = p;
    w.index = i;
    if (!start_thread(&w)) break;
    p->threads = i + 1;
  }
  os::block_signals(signals);
  if (p->threads > 1) return p;
  os::unmap_pages(p, bytes);
  return nullptr;
}

void pool_destroy(Pool* pool) {
  if (!pool) return;
  if (pool->host) return release_memory(pool);
  Team* p = static_cast<Team*>(pool);
  if (!in_other_process(p)) {
    __atomic_store_n(&p->stop, 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&p->gate, kSerial, __ATOMIC_SEQ_CST);
    os::futex_wake(&p->gate, kMaxThreads);
    if (!join_threads(p)) return;
  }
  os::unmap_pages(p, p->bytes);
}

namespace {

void run_on_team(Pool* pool, const Loop& l) {
  Team* p = static_cast<Team*>(pool);
  if (in_other_process(p) || __atomic_exchange_n(&p->busy, 1, __ATOMIC_ACQUIRE) != 0) {
    return l.fn(l.ctx, 0, l.n, 0);
  }
  p->loop = l;
  split(p, l.units, l.units < p->threads ? int32_t(l.units) : p->threads);
  // Opens the gate under a new serial number. Nobody is inside, so a plain store does.
  const uint32_t serial = (__atomic_load_n(&p->gate, __ATOMIC_RELAXED) & ~(kSerial - 1)) + kSerial;
  __atomic_store_n(&p->gate, serial | kOpen, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&p->sleepers, __ATOMIC_SEQ_CST)) {
    const int64_t helpers = l.units - 1 < p->threads ? l.units - 1 : p->threads;
    os::futex_wake(&p->gate, int32_t(helpers));
  }
  work(p, 0);
  __atomic_and_fetch(&p->gate, ~kOpen, __ATOMIC_SEQ_CST);
  wait_until_empty(p);
  __atomic_store_n(&p->busy, 0, __ATOMIC_RELEASE);
}

}  // namespace
}  // namespace cuvil

#if defined(__wasm__)
void cuvil_pool_serve(cuvil_pool* pool, int32_t index) {
  cuvil::worker_main(&reinterpret_cast<cuvil::Team*>(pool)->workers[index]);
}
#endif

#else  // no threads on this target: every pool is a host's

namespace cuvil {
namespace {

void run_on_team(Pool*, const Loop&) {}

}  // namespace

Pool* pool_create(int32_t) { return nullptr; }
void pool_destroy(Pool* pool) {
  if (pool) release_memory(pool);
}

}  // namespace cuvil

#endif

namespace cuvil {

void parallel_for(Pool* pool, int64_t n, int64_t grain, RangeFn fn, void* ctx) {
  if (n <= 0) return;
  grain = grain > 0 ? grain : 1;
  Loop loop = {fn, ctx, n, grain, n / grain};
  if (!pool || loop.units < 2) return fn(ctx, 0, n, 0);
  if (!pool->host) return run_on_team(pool, loop);
  pool->host(pool->context, loop.units, run_units, &loop);
}

}  // namespace cuvil
