"""From fused regions to C99: one .c and one .h, for microcontrollers and for any C program."""
