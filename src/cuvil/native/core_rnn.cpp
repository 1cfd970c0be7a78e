// Recurrent layers in f32.
#include "rnn_sequence.hpp"

namespace cuvil {

void rnn_f32(const RnnArgs* directions, int32_t count, void* scratch, Pool* pool) {
  run_directions<FloatState>(directions, count, scratch, pool);
}

}  // namespace cuvil
