"""From C++ text to a library: compiler driver, object store, compile cache."""
