// Checks of one tensor that a caller gives, for the C interface.
#pragma once
#include "abi.h"
#include "abi.hpp"
#include "abi_text.hpp"

namespace cuvil {
namespace {

constexpr int32_t kCpu = 1;  // DLPack's kDLCPU
constexpr int64_t kMaxBytes = (int64_t(1) << 47) - 1;

// Which tensor is being looked at, for messages.
struct Place {
  const TensorTable& spec;
  int32_t index;  // inputs first
  bool output;
};

Message& begin(Message& message, const Place& place) {
  return message << (place.output ? "output '" : "input '") << place.spec.name << "'";
}

// An array of tensors, and how many it should have.
struct Given {
  const char* what;
  int32_t expected, count;
};

int32_t check_count(const Given& given, const void* array, cuvil_status* status) {
  if (given.count == given.expected && (array || given.count == 0)) return CUVIL_OK;
  Message message(status);
  message << "the model has " << given.expected << " " << given.what << "; ";
  if (given.count != given.expected) message << given.count << " were given";
  else message << "the array of " << given.what << " is null";
  return message.fail(CUVIL_E_ARGUMENT);
}

// The check of one tensor's header: everything but its dims and data.
__attribute__((noinline)) int32_t check_header(const DLTensor* tensor, const Place& at,
                                               cuvil_status* status) {
  Message message(status, at.index);
  if (!tensor) {
    return begin(message, at) << ": the tensor pointer is null", message.fail(CUVIL_E_ARGUMENT);
  }
  if (tensor->device.device_type != kCpu) {
    begin(message, at) << " is on device type " << tensor->device.device_type
                       << "; only CPU memory (1) is accepted";
    return message.fail(CUVIL_E_DEVICE);
  }
  const DLDataType given = tensor->dtype;
  if (given.code != at.spec.code || given.bits != at.spec.bits || given.lanes != 1) {
    begin(message, at) << " has DLPack type code " << given.code << ", " << given.bits
                       << " bits, " << given.lanes << " lanes; expected " << at.spec.dtype
                       << " (code " << at.spec.code << ", " << at.spec.bits << " bits, 1 lane)";
    return message.fail(CUVIL_E_DTYPE);
  }
  if (tensor->ndim != at.spec.rank) {
    begin(message, at) << " has rank " << tensor->ndim << "; expected " << at.spec.rank;
    return message.fail(CUVIL_E_RANK);
  }
  if (at.spec.rank > 0 && !tensor->shape) {
    begin(message, at) << ": the shape pointer is null";
    return message.fail(CUVIL_E_ARGUMENT);
  }
  return CUVIL_OK;
}

__attribute__((noinline)) int32_t check_dims(const DLTensor& tensor, const Place& at,
                                             const int64_t* symbols,
                   cuvil_status* status) {
  int64_t expected[CUVIL_MAX_RANK];
  at.spec.shape(symbols, expected);
  for (int32_t axis = 0; axis < at.spec.rank; ++axis) {
    if (tensor.shape[axis] == expected[axis] && expected[axis] >= 0) continue;
    Message message(status, at.index, axis);
    begin(message, at) << ", axis " << axis << " is " << tensor.shape[axis] << "; expected "
                       << at.spec.dims[axis];
    if (expected[axis] < 0) {
      message << ", which has no value here";
    } else if (!is_number(at.spec.dims[axis])) {
      message << " = " << expected[axis];
    }
    return message.fail(CUVIL_E_SHAPE);
  }
  return CUVIL_OK;
}

struct Memory {
  void* data;
  int64_t bytes;
};

bool share_memory(Memory a, Memory b) {
  const uintptr_t x = reinterpret_cast<uintptr_t>(a.data), y = reinterpret_cast<uintptr_t>(b.data);
  return a.bytes > 0 && b.bytes > 0 && x < y + uint64_t(b.bytes) && y < x + uint64_t(a.bytes);
}

// An element of less than 8 bits fills a byte.
int64_t element_bytes(const TensorTable& spec) { return spec.bits < 8 ? 1 : spec.bits / 8; }

// Bytes of a tensor whose dims are known to be right; -1 if no memory can hold it.
int64_t tensor_bytes(const int64_t* shape, const TensorTable& spec) {
  int64_t bytes = element_bytes(spec);
  bool empty = false;
  for (int32_t axis = 0; axis < spec.rank; ++axis) {
    if (shape[axis] == 0) empty = true;
    else if (__builtin_mul_overflow(bytes, shape[axis], &bytes)) return -1;
    if (bytes > kMaxBytes) return -1;
  }
  return empty ? 0 : bytes;
}

// Strides, then the data pointer, which goes to *data.
int32_t check_data(const DLTensor& tensor, const Place& at, void** data, cuvil_status* status) {
  const int64_t bytes = tensor_bytes(tensor.shape, at.spec);
  if (bytes < 0) {
    Message message(status, at.index);
    begin(message, at) << " is larger than any memory";
    return message.fail(CUVIL_E_SHAPE);
  }
  int64_t stride = 1;
  for (int32_t axis = at.spec.rank - 1; bytes > 0 && tensor.strides && axis >= 0; --axis) {
    if (tensor.shape[axis] != 1 && tensor.strides[axis] != stride) {
      Message message(status, at.index, axis);
      begin(message, at) << ", axis " << axis << " has stride " << tensor.strides[axis]
                         << "; expected " << stride << " (row major)";
      return message.fail(CUVIL_E_LAYOUT);
    }
    stride *= tensor.shape[axis];
  }
  *data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  if (bytes == 0) return CUVIL_OK;
  Message message(status, at.index);
  if (!tensor.data) {
    begin(message, at) << ": the data pointer is null";
    return message.fail(CUVIL_E_DATA);
  }
  const uint64_t size = uint64_t(element_bytes(at.spec));
  if (reinterpret_cast<uintptr_t>(*data) % size != 0) {
    begin(message, at) << ": data is not aligned to " << size << " bytes";
    return message.fail(CUVIL_E_DATA);
  }
  return CUVIL_OK;
}

}  // namespace
}  // namespace cuvil
