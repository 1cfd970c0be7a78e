"""Run what was built for another machine: in an emulator, another program, or another process."""
