// Calls back into the process that loaded the library, for operators that are Python functions.
// The process sets one function; without it a call fails like an index that is out of range.
#pragma once
#include "custom.hpp"
#include "shared.hpp"

extern "C" {
typedef int32_t (*cuvil_host_function)(const char* call, const cuvil::Tensor* inputs,
                                       const cuvil::Tensor* outputs);
__attribute__((visibility("default"))) void cuvil_set_host_function(cuvil_host_function function);
}

namespace cuvil {

// `call` says in JSON what to run. False if it failed.
bool host_call(const char* call, const Tensor* inputs, const Tensor* outputs)
    CUVIL_SHARED(host_call);

}  // namespace cuvil
