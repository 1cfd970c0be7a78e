// The one function that the process gave.
#include "host_call.hpp"

static cuvil_host_function host_function = nullptr;

extern "C" void cuvil_set_host_function(cuvil_host_function function) { host_function = function; }

namespace cuvil {

bool host_call(const char* call, const Tensor* inputs, const Tensor* outputs) {
  return host_function && host_function(call, inputs, outputs) == 0;
}

}  // namespace cuvil
