// A compiled model for C++17: owns what it holds, throws what the C interface reports.
// Include it after the header that was saved with a model, such as "model.h".
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace cuvil {

struct Error : std::runtime_error {
  explicit Error(const cuvil_status& s)
      : std::runtime_error(s.message), code(s.code), index(s.index), axis(s.axis) {}
  int code, index, axis;  // as in cuvil_status
};

// A row-major tensor: over memory of the caller, or with its own.
template <class T>
class Tensor {
 public:
  Tensor(const T* data, std::vector<int64_t> shape) : shape_(std::move(shape)) {
    const int32_t rank = int32_t(shape_.size());
    view_ = {const_cast<T*>(data), {1, 0}, rank, type(), shape_.data(), nullptr, 0};
  }
  explicit Tensor(std::vector<int64_t> shape) : Tensor(nullptr, std::move(shape)) {
    int64_t count = 1;
    for (int64_t dim : shape_) count *= dim;
    own_.resize(size_t(count));
    view_.data = own_.data();
  }
  Tensor(const Tensor&) = delete;
  Tensor(Tensor&&) = default;  // a vector's memory stays where it is when it moves

  const std::vector<int64_t>& shape() const { return shape_; }
  const T* data() const { return static_cast<const T*>(view_.data); }
  DLTensor* view() { return &view_; }

 private:
  static constexpr DLDataType type() {
    const bool floating = T(0.5) != T(0), negative = T(-1) < T(0);
    return {uint8_t(floating ? 2 : negative ? 0 : 1), uint8_t(8 * sizeof(T)), 1};
  }
  std::vector<int64_t> shape_;
  std::vector<T> own_;
  DLTensor view_;
};

class Model {
 public:
  // Maps the weights' file (none for a model without). `pool` may be null, and outlives the model.
  explicit Model(const std::string& weights, cuvil_pool* pool = nullptr) {
    if (cuvil_abi_version() != CUVIL_ABI_VERSION) throw std::runtime_error("another model.h");
    size_ = cuvil_weights_size();
    if (size_) {
      const int file = open(weights.c_str(), O_RDONLY);
      struct stat facts = {};
      if (file >= 0 && fstat(file, &facts) == 0) size_ = uint64_t(facts.st_size);
      void* mapped = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
      if (file >= 0) close(file);
      if (mapped == MAP_FAILED) throw std::runtime_error("cannot map " + weights);
      weights_ = mapped;
    }
    cuvil_status status;
    if (cuvil_create(weights_, size_, pool, &model_, &status)) {
      unmap();
      throw Error(status);
    }
  }
  Model(const Model&) = delete;
  ~Model() {
    cuvil_destroy(model_);
    unmap();
  }

  std::vector<int64_t> output_shape(const std::vector<DLTensor*>& inputs, int32_t index,
                                    int32_t rank) const {
    int64_t dims[CUVIL_MAX_RANK];
    cuvil_status status;
    check(cuvil_output_shape(model_, inputs.data(), int32_t(inputs.size()), index, dims, &status),
          status);
    return {dims, dims + rank};
  }

  // Safe to call from several threads: each call has its own workspace.
  void run(const std::vector<DLTensor*>& inputs, const std::vector<DLTensor*>& outputs) const {
    cuvil_status status;
    uint64_t bytes = 0;
    const int32_t count = int32_t(inputs.size());
    check(cuvil_workspace_size(model_, inputs.data(), count, &bytes, &status), status);
    bytes = (bytes + CUVIL_ALIGNMENT) / CUVIL_ALIGNMENT * CUVIL_ALIGNMENT;
    const std::unique_ptr<void, void (*)(void*)> workspace(
        std::aligned_alloc(CUVIL_ALIGNMENT, bytes), std::free);
    check(cuvil_run(model_, inputs.data(), count, outputs.data(), int32_t(outputs.size()),
                    workspace.get(), bytes, &status),
          status);
  }

 private:
  static void check(int32_t code, const cuvil_status& status) {
    if (code) throw Error(status);
  }
  void unmap() {
    if (weights_) munmap(weights_, size_);
  }
  cuvil_model* model_ = nullptr;
  void* weights_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace cuvil
