#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

void board_print(const char *text);
void board_print_word(uint32_t word); /* as eight hexadecimal digits */
void board_exit(int status);
void board_start_clock(void);
uint32_t board_ticks(void); /* since then, of the processor's clock; wraps after 24 bits */

#endif
