// Order along an axis of [outer][size][inner]. Equal elements keep their order; NaN is greater than
// everything.

//: T=f32,f64
static inline bool cuvil_less_T(T a, T b) { return a < b || (a == a && b != b); }

//: T=i8,i16,i32,i64,u8,u16,u32,u64
static inline bool cuvil_less_T(T a, T b) { return a < b; }

//: T=f32,f64,i8,i16,i32,i64,u8,u16,u32,u64
// Whether element `i` comes before element `j`.
static inline bool cuvil_before_T(const T *x, ptrdiff_t step, int64_t i, int64_t j, bool largest) {
  const T a = x[(ptrdiff_t)i * step], b = x[(ptrdiff_t)j * step];
  if (cuvil_less_T(a, b)) return !largest;
  return cuvil_less_T(b, a) ? largest : i < j;
}

// `next` takes the place of the heap's top, and sinks until all below comes before it.
static void cuvil_sink_T(const T *x, ptrdiff_t step, int64_t *heap, ptrdiff_t count, int64_t next,
                         ptrdiff_t at, bool largest) {
  for (ptrdiff_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
    if (child + 1 < count &&
        cuvil_before_T(x, step, heap[child * step], heap[(child + 1) * step], largest)) {
      ++child;
    }
    if (!cuvil_before_T(x, step, next, heap[child * step], largest)) break;
    heap[at * step] = heap[child * step];
    at = child;
  }
  heap[at * step] = next;
}

// The first k elements in order and where they were found.
static void cuvil_topk_T(const T *x, T *values, int64_t *positions, ptrdiff_t outer, ptrdiff_t size,
                         ptrdiff_t inner, ptrdiff_t k, bool largest) {
  for (ptrdiff_t row = 0; row < (k > 0 ? outer * inner : 0); ++row) {
    const T *from = x + row / inner * size * inner + row % inner;
    const ptrdiff_t to = row / inner * k * inner + row % inner;
    int64_t *heap = positions + to; /* the last in order on top */
    for (ptrdiff_t i = 0; i < k; ++i) heap[i * inner] = i;
    for (ptrdiff_t i = k / 2; i-- > 0;)
      cuvil_sink_T(from, inner, heap, k, heap[i * inner], i, largest);
    for (ptrdiff_t i = k; i < size; ++i) {
      if (cuvil_before_T(from, inner, i, heap[0], largest))
        cuvil_sink_T(from, inner, heap, k, i, 0, largest);
    }
    for (ptrdiff_t left = k - 1; left > 0; --left) {
      const int64_t last = heap[left * inner];
      heap[left * inner] = heap[0];
      cuvil_sink_T(from, inner, heap, left, last, 0, largest);
    }
    for (ptrdiff_t i = 0; i < k; ++i)
      values[to + i * inner] = from[(ptrdiff_t)heap[i * inner] * inner];
  }
}
