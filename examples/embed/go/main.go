// Runs a compiled model from Go, through cgo.
//
//	python examples/compile_onnx.py .      writes model.so, model.weights and model.h
//	cp examples/embed/go/main.go . && go build -o embed main.go
//	./embed model.weights 3
//
// The model is f32[n, 8] to f32[n, 4]; the number is n.
package main

/*
#cgo CFLAGS: -I${SRCDIR}
#cgo LDFLAGS: -L${SRCDIR} -l:model.so -Wl,-rpath,$ORIGIN
#include <stdlib.h>
#include "model.h"

// Go's memory may not hold pointers to Go's memory while C reads it, so tensors are made here.
static DLTensor matrix(float* data, int64_t* shape) {
  DLTensor t = {data, {1, 0}, 2, {2, 32, 1}, shape, NULL, 0};
  return t;
}

static int32_t output_shape(const cuvil_model* model, int64_t* x_shape, int64_t* y_shape,
                            cuvil_status* status) {
  DLTensor x = matrix(NULL, x_shape);
  const DLTensor* inputs[] = {&x};
  return cuvil_output_shape(model, inputs, 1, 0, y_shape, status);
}

static int32_t run(const cuvil_model* model, float* x_data, int64_t* x_shape, float* y_data,
                   int64_t* y_shape, cuvil_status* status) {
  DLTensor x = matrix(x_data, x_shape), y = matrix(y_data, y_shape);
  const DLTensor* inputs[] = {&x};
  DLTensor* outputs[] = {&y};
  uint64_t bytes = 0;
  int32_t code = cuvil_workspace_size(model, inputs, 1, &bytes, status);
  if (code) return code;
  bytes = (bytes + CUVIL_ALIGNMENT) / CUVIL_ALIGNMENT * CUVIL_ALIGNMENT;
  void* workspace = aligned_alloc(CUVIL_ALIGNMENT, bytes);
  code = cuvil_run(model, inputs, 1, outputs, 1, workspace, bytes, status);
  free(workspace);
  return code;
}
*/
import "C"

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

const features = 8

// Model is safe for use by several goroutines.
type Model struct {
	handle  *C.cuvil_model
	weights []byte
}

func failure(status *C.cuvil_status) error {
	return fmt.Errorf("%s (code %d)", C.GoString(&status.message[0]), status.code)
}

// Open maps the weights and makes a model of them.
func Open(path string) (*Model, error) {
	if C.cuvil_abi_version() != C.CUVIL_ABI_VERSION {
		return nil, fmt.Errorf("the library has another version of the interface")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	facts, err := file.Stat()
	if err != nil {
		return nil, err
	}
	size := int(facts.Size())
	weights, err := syscall.Mmap(int(file.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("cannot map %s: %w", path, err)
	}
	model := &Model{weights: weights}
	var status C.cuvil_status
	place := unsafe.Pointer(&weights[0])
	if C.cuvil_create(place, C.uint64_t(size), nil, &model.handle, &status) != C.CUVIL_OK {
		syscall.Munmap(weights)
		return nil, failure(&status)
	}
	return model, nil
}

// Close frees the model.
func (m *Model) Close() {
	C.cuvil_destroy(m.handle)
	syscall.Munmap(m.weights)
}

// Run takes rows of `columns` features each, and gives scores and how many a row has.
func (m *Model) Run(x []float32, columns int) ([]float32, int, error) {
	xShape := [2]C.int64_t{C.int64_t(len(x) / columns), C.int64_t(columns)}
	var yShape [C.CUVIL_MAX_RANK]C.int64_t
	var status C.cuvil_status
	if C.output_shape(m.handle, &xShape[0], &yShape[0], &status) != C.CUVIL_OK {
		return nil, 0, failure(&status)
	}
	y := make([]float32, int(yShape[0]*yShape[1]))
	xData, yData := (*C.float)(&x[0]), (*C.float)(&y[0])
	if C.run(m.handle, xData, &xShape[0], yData, &yShape[0], &status) != C.CUVIL_OK {
		return nil, 0, failure(&status)
	}
	return y, int(yShape[1]), nil
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintf(os.Stderr, "usage: %s MODEL.weights N\n", os.Args[0])
		os.Exit(2)
	}
	rows, err := strconv.Atoi(os.Args[2])
	if err != nil || rows < 1 {
		fmt.Fprintln(os.Stderr, "N must be a positive number")
		os.Exit(2)
	}
	model, err := Open(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer model.Close()
	x := make([]float32, rows*features)
	for i := range x {
		x[i] = float32(i%7) - 3
	}
	y, columns, err := model.Run(x, features)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for i, value := range y {
		fmt.Printf("%.9g", value)
		fmt.Print(map[bool]string{true: "\n", false: " "}[i%columns == columns-1])
	}
	if _, _, err := model.Run(x, features/2); err != nil {
		fmt.Println("refused:", err)
	}
}
