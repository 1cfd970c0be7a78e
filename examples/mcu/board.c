/* Start-up and output of a Cortex-M without an operating system: the vector table, what runs before
   main, and words to the debugger (Arm, "Semihosting for AArch32 and AArch64", 2.0). */
#include "board.h"

#include <stddef.h>

extern uint32_t data_start, data_end, data_load, bss_start, bss_end, stack_top;

int main(void);
void reset(void);

static long semihost(long operation, const void *argument) {
  register long r0 __asm__("r0") = operation;
  register const void *r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

void board_print(const char *text) { semihost(0x04, text); }

void board_print_word(uint32_t word) {
  char text[10];
  for (int i = 0; i < 8; ++i) {
    const uint32_t digit = word >> (28 - 4 * i) & 15u;
    text[i] = (char)(digit < 10 ? '0' + digit : 'a' + digit - 10);
  }
  text[8] = '\n';
  text[9] = '\0';
  board_print(text);
}

void board_exit(int status) {
  const uint32_t block[2] = {0x20026, (uint32_t)status}; /* ADP_Stopped_ApplicationExit */
  semihost(0x20, block);
  for (;;) {
  }
}

/* The system timer counts down from its reload value, 24 bits. */
#define SYSTICK ((volatile uint32_t *)0xe000e010u)

void board_start_clock(void) {
  SYSTICK[1] = 0xffffffu;
  SYSTICK[2] = 0;
  SYSTICK[0] = 5;
}

uint32_t board_ticks(void) { return 0xffffffu - SYSTICK[2]; }

/* All of the C library that a model needs; compilers call these by themselves. */
void *memcpy(void *to, const void *from, size_t size) {
  char *target = to;
  for (const char *source = from; size > 0; --size) *target++ = *source++;
  return to;
}

void *memset(void *to, int value, size_t size) {
  for (char *target = to; size > 0; --size) *target++ = (char)value;
  return to;
}

static void fault(void) {
  board_print("fault\n");
  board_exit(3);
}

void reset(void) {
  *(volatile uint32_t *)0xe000ed88 |= 0xfu << 20; /* CPACR: the floating-point unit is on */
  __asm__ volatile("dsb\n\tisb");
  for (uint32_t *to = &data_start, *from = &data_load; to < &data_end;) *to++ = *from++;
  for (uint32_t *to = &bss_start; to < &bss_end;) *to++ = 0;
  board_exit(main());
}

__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    (void (*)(void))&stack_top, reset, fault, fault, fault, fault, fault,
};
