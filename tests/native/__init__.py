"""Tests of the native kernels, called through ctypes."""
