/* Runs a compiled model from plain C: no Python, no framework, nothing but the C library.
 *
 *   from Python: compiled.save("model.so")     writes model.so, model.weights and model.h
 *   then:        cc -O2 -I. examples/embed/c/run_artifact.c model.so -Wl,-rpath,. -o embed
 *                ./embed model.weights 3
 *
 * Where there is no C compiler, `python -m ziglang cc -fno-sanitize=all` is one.
 *
 * This one is for the model of compile_onnx.py, f32[n, 8] to f32[n, 4]; the shapes of another are
 * in the JSON text that cuvil_describe() returns. The number is n.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model.h"

enum { FEATURES = 8, SCORES = 4 };

static int failed(const char* what, const cuvil_status* status) {
  fprintf(stderr, "%s: %s (code %d)\n", what, status->message, status->code);
  return 1;
}

/* Maps a whole file, or returns null. */
static const void* map_file(const char* path, uint64_t* size) {
  int file = open(path, O_RDONLY);
  struct stat facts;
  if (file < 0) return NULL;
  void* data = MAP_FAILED;
  if (fstat(file, &facts) == 0 && facts.st_size > 0) {
    *size = (uint64_t)facts.st_size;
    data = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, file, 0);
  }
  close(file);
  return data == MAP_FAILED ? NULL : data;
}

/* Whether these are the weights that the library was compiled with. It reads all of them, which
 * creating a model does not: worth it after a download rather than at every start. */
static int weights_fit(const void* weights, uint64_t size) {
  char expected[64];
  unsigned long long hash = cuvil_hash64(weights, size, 0);
  snprintf(expected, sizeof expected, "\"weights_hash64\":\"%016llx\"", hash);
  return strstr(cuvil_describe(), expected) != NULL;
}

static DLTensor matrix(float* data, int64_t* shape) {
  DLTensor t = {data, {1, 0}, 2, {2, 32, 1}, shape, NULL, 0}; /* CPU, f32, row major */
  return t;
}

static int run(const cuvil_model* model, int64_t rows, cuvil_status* status) {
  int64_t x_shape[2] = {rows, FEATURES}, y_shape[CUVIL_MAX_RANK];
  float* x_data = malloc((size_t)(rows * FEATURES) * sizeof(float));
  for (int64_t i = 0; i < rows * FEATURES; ++i) x_data[i] = (float)(i % 7) - 3.0f;
  DLTensor x = matrix(x_data, x_shape);
  const DLTensor* inputs[] = {&x};

  /* Ask first: what the output's shape is, and how much scratch memory a run needs. */
  if (cuvil_output_shape(model, inputs, 1, 0, y_shape, status)) return failed("shape", status);
  uint64_t bytes = 0;
  if (cuvil_workspace_size(model, inputs, 1, &bytes, status)) return failed("workspace", status);
  bytes = (bytes + CUVIL_ALIGNMENT) / CUVIL_ALIGNMENT * CUVIL_ALIGNMENT;
  void* workspace = aligned_alloc(CUVIL_ALIGNMENT, bytes);

  float* y_data = malloc((size_t)(y_shape[0] * y_shape[1]) * sizeof(float));
  DLTensor y = matrix(y_data, y_shape);
  DLTensor* outputs[] = {&y};
  int code = cuvil_run(model, inputs, 1, outputs, 1, workspace, bytes, status);
  if (code == CUVIL_OK) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < SCORES; ++j)
        printf("%.7g%c", y_data[i * SCORES + j], j + 1 < SCORES ? ' ' : '\n');
  }
  free(workspace);
  free(x_data);
  free(y_data);
  return code ? failed("run", status) : 0;
}

/* A wrong shape is a code and a message that names tensor and axis; nothing was run. */
static void try_wrong_shape(const cuvil_model* model, int64_t rows, cuvil_status* status) {
  int64_t x_shape[2] = {rows, FEATURES - 1}, y_shape[CUVIL_MAX_RANK];
  DLTensor x = matrix(NULL, x_shape);
  const DLTensor* inputs[] = {&x};
  if (cuvil_output_shape(model, inputs, 1, 0, y_shape, status) == CUVIL_E_SHAPE)
    printf("refused: %s\n", status->message);
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s MODEL.weights N\n", argv[0]);
    return 2;
  }
  int64_t rows = atoll(argv[2]);
  if (rows < 1 || rows > 1000000) {
    fprintf(stderr, "N must be from 1 to 1000000\n");
    return 2;
  }
  uint64_t weights_size = 0;
  const void* weights = map_file(argv[1], &weights_size);
  if (weights == NULL) {
    fprintf(stderr, "cannot map %s\n", argv[1]);
    return 1;
  }
  cuvil_status status;
  cuvil_model* model = NULL;
  if (cuvil_create(weights, weights_size, NULL, &model, &status)) return failed("create", &status);
  int code = !weights_fit(weights, weights_size);
  if (code) fprintf(stderr, "%s is damaged, or of another model\n", argv[1]);
  if (!code) code = run(model, rows, &status);
  if (!code) try_wrong_shape(model, rows, &status);
  cuvil_destroy(model);
  return code;
}
