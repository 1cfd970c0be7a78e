// Operators that users register: what a kernel's function of theirs is given.
//   void function(const cuvil::Tensor* inputs, const cuvil::Tensor* outputs, attributes...)
// Tensors are dense and row major. Attributes come as bool, int64_t, double or const char*, lists
// as cuvil::List<int64_t> or cuvil::List<double>.
#pragma once
#include <stdint.h>

namespace cuvil {

struct Tensor {
  void* data;
  const int64_t* shape;
  int64_t rank;
  int64_t elements;

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

template <class T>
struct List {
  const T* data;
  int64_t size;

  T operator[](int64_t index) const { return data[index]; }
};

}  // namespace cuvil
