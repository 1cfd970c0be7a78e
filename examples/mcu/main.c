/* Runs the model net.c on one input and prints what it gives, as bits. */
#include "board.h"
#include "net.h"
#include "sample.h" /* float sample[]: the input */

static float output[NET_SCORES_SIZE];

int main(void) {
  board_start_clock();
  const int status = net_run(sample, output);
  const uint32_t ticks = board_ticks();
  for (int i = 0; i < NET_SCORES_SIZE; ++i) {
    uint32_t bits;
    __builtin_memcpy(&bits, &output[i], sizeof bits);
    board_print_word(bits);
  }
  board_print("ticks\n");
  board_print_word(ticks);
  return status;
}
