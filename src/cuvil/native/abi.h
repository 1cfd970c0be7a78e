/* The C interface of a compiled model. Plain C, no dependency; tensors are DLPack's DLTensor.
 *
 * Functions return a code (CUVIL_OK is 0) and, where `status` is not null, explain there which
 * tensor (`index`, inputs counted before outputs) and axis are at fault (-1: none). Nothing
 * throws, and a model may be used by several threads at once if each brings its own workspace.
 *
 * Sizes that depend on data: a symbol of the description that has a "source" is late, known only
 * during a call. A late output, one with such a symbol in its shape, is allocated by the library.
 * A model without late symbols allocates nothing after cuvil_create; one with them keeps the
 * memory that its largest call needed until cuvil_destroy.
 */
#ifndef CUVIL_ABI_H_
#define CUVIL_ABI_H_

#include <stdint.h>

#ifndef DLPACK_DLPACK_H_ /* dlpack.h, if included before, brings the same types */
typedef struct {
  int32_t device_type; /* 1: CPU memory, the only one accepted here */
  int32_t device_id;
} DLDevice;
typedef struct {
  uint8_t code; /* 0 int, 1 uint, 2 float, 4 bfloat, 6 bool; 10 to 17 as in DLPack 1.1: floats
                   e4m3fn, e4m3fnuz, e5m2, e5m2fnuz, e8m0fnu, e2m3fn, e3m2fn, e2m1fn */
  uint8_t bits; /* below 8 (fp6, fp4, int4, int2): padded, the low bits of a byte an element */
  uint16_t lanes;
} DLDataType;
typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides; /* in elements; null: row major */
  uint64_t byte_offset;
} DLTensor;
#endif

/* Another number than cuvil_abi_version() gives: don't call the library. Functions and codes may
 * be added without a new version; nothing else changes without one. */
#define CUVIL_ABI_VERSION 2
#define CUVIL_MAX_RANK 16
#define CUVIL_ALIGNMENT 64 /* of weights and workspace, in bytes */

#ifdef __cplusplus
extern "C" {
#define CUVIL_API __attribute__((visibility("default")))
#else
#define CUVIL_API
#endif

enum {
  CUVIL_OK = 0,
  CUVIL_E_ARGUMENT = 1,   /* a null pointer, or a wrong number of tensors */
  CUVIL_E_DEVICE = 2,     /* a tensor that is not in CPU memory */
  CUVIL_E_DTYPE = 3,
  CUVIL_E_RANK = 4,
  CUVIL_E_SHAPE = 5,      /* a dim that is not what the model expects */
  CUVIL_E_CONSTRAINT = 6, /* dims that break a constraint, of the model or of a part that runs */
  CUVIL_E_LAYOUT = 7,     /* strides that are not row major */
  CUVIL_E_DATA = 8,       /* a null or misaligned data pointer */
  CUVIL_E_OVERLAP = 9,    /* an output or the workspace that shares memory with anything */
  CUVIL_E_WORKSPACE = 10, /* missing, misaligned or too small */
  CUVIL_E_WEIGHTS = 11,   /* missing, misaligned or of a wrong size */
  CUVIL_E_CPU = 12,       /* this CPU lacks a feature that the code uses */
  CUVIL_E_MEMORY = 13,
  CUVIL_E_INDEX = 14,     /* a value of an input is an index outside its dimension */
  CUVIL_E_LATE = 15       /* the shape of a late output is not known before the call */
};

typedef struct cuvil_model cuvil_model;
typedef struct cuvil_pool cuvil_pool;

typedef struct {
  int32_t code;
  int32_t index;
  int32_t axis;
  int32_t reserved;
  char message[240]; /* UTF-8, always terminated */
} cuvil_status;

CUVIL_API int32_t cuvil_abi_version(void);

/* Identifies the thread pool's code: a pool may be handed only to libraries with the same id. */
CUVIL_API uint64_t cuvil_core_id(void);

/* Inputs, outputs, symbols, constraints and origin of the model, as JSON text. */
CUVIL_API const char* cuvil_describe(void);

CUVIL_API uint64_t cuvil_weights_size(void);

/* `weights` must stay mapped, aligned to CUVIL_ALIGNMENT and unchanged while the model lives; null
 * if the size is 0. A null pool means that runs use the calling thread only. */
CUVIL_API int32_t cuvil_create(const void* weights, uint64_t weights_bytes, cuvil_pool* pool,
                               cuvil_model** model, cuvil_status* status);
CUVIL_API void cuvil_destroy(cuvil_model* model);

/* A library may hold its code for several kinds of CPU. cuvil_create takes the best that this CPU
 * runs; here the caller names it (null: the best), mostly to test it: CUVIL_E_CPU where this CPU
 * can't run that, CUVIL_E_ARGUMENT where there is none of that name. */
CUVIL_API int32_t cuvil_create_variant(const char* variant, const void* weights,
                                       uint64_t weights_bytes, cuvil_pool* pool,
                                       cuvil_model** model, cuvil_status* status);
/* Its name; "" in a library with one code only. */
CUVIL_API const char* cuvil_variant(const cuvil_model* model);

/* Bytes of workspace that cuvil_run needs for inputs of these shapes (data is not looked at). */
CUVIL_API int32_t cuvil_workspace_size(const cuvil_model* model, const DLTensor* const* inputs,
                                       int32_t input_count, uint64_t* bytes,
                                       cuvil_status* status);

/* Writes the dims of output `index` for inputs of these shapes; at most CUVIL_MAX_RANK. */
CUVIL_API int32_t cuvil_output_shape(const cuvil_model* model, const DLTensor* const* inputs,
                                     int32_t input_count, int32_t index, int64_t* shape,
                                     cuvil_status* status);

/* Checks everything, then runs. Outputs are the caller's, of the shapes above; they and the
 * workspace may not share memory with each other, an input or the weights. Of a late output the
 * caller gives dtype, ndim and room for ndim numbers in `shape`, strides null; the library fills
 * `shape` and `data`, and sets `byte_offset` to 0. Its data is to be freed with cuvil_free; it is
 * null after a failure. */
CUVIL_API int32_t cuvil_run(const cuvil_model* model, const DLTensor* const* inputs,
                            int32_t input_count, DLTensor* const* outputs,
                            int32_t output_count, void* workspace, uint64_t workspace_bytes,
                            cuvil_status* status);

/* Frees the data of a late output; null is fine. */
CUVIL_API void cuvil_free(void* data);

/* The same with nothing checked: the caller vouches for symbol values (in the order of the
 * description), shapes, row-major layout, alignment and a workspace of cuvil_workspace_raw bytes.
 * Late symbols and the pointers of late outputs are written by the call; without any, `symbols`
 * and `outputs` are only read. Returns CUVIL_OK, or, with two numbers in `fault` unless that is
 * null, CUVIL_E_INDEX: the index and the size; CUVIL_E_SHAPE: the number of a late symbol outside
 * its bounds, and its value; CUVIL_E_CONSTRAINT: the number of one that late symbols break;
 * CUVIL_E_MEMORY. */
CUVIL_API int64_t cuvil_workspace_raw(const cuvil_model* model, const int64_t* symbols);
CUVIL_API int32_t cuvil_run_raw(const cuvil_model* model, const void* const* inputs,
                                void** outputs, int64_t* symbols, void* workspace, int64_t* fault);

/* Null when threads <= 1 or where threads are not available. Destroy it after the models. */
CUVIL_API cuvil_pool* cuvil_pool_create(int32_t threads);
CUVIL_API void cuvil_pool_destroy(cuvil_pool* pool);

/* Part of a loop: the tasks [begin, end), on the thread of that number. */
typedef void (*cuvil_task_fn)(void* task_context, int64_t begin, int64_t end, int32_t thread);

/* Runs all tasks of [0, count), count >= 2, and returns when they are done and what they wrote is
 * visible. Cut the range as you like; parts may not overlap, may run in any order, at once or one
 * after the other. Parts that run at the same time have different numbers of thread, from 0 to
 * threads - 1. Each task is worth handing to a thread. Tasks call nothing back and don't block. */
typedef void (*cuvil_parallel_for_fn)(void* context, int64_t count, cuvil_task_fn task,
                                      void* task_context);

/* A pool that is the caller's: cuvil_run calls `parallel_for(context, ...)`, on the thread that
 * runs, several times a run, and from as many threads at once as run models with this pool. No
 * thread is started and nothing is known of forks: in a child it is called as before. It must not
 * throw or jump out. Null if threads < 1, for a null function or without memory. */
CUVIL_API cuvil_pool* cuvil_pool_from(cuvil_parallel_for_fn parallel_for, void* context,
                                      int32_t threads);

/* Finds accidents, not attackers. Of the weights and seed 0 it is the description's weights_hash64,
 * there as 16 hex digits; cuvil_create does not compare them, since that would read all weights. */
CUVIL_API uint64_t cuvil_hash64(const void* data, uint64_t bytes, uint64_t seed);

#ifdef __cplusplus
}
#endif
#endif
