// What a cuvil_model is, for the units that run one.
#pragma once
#include "abi.hpp"
#include "memory.hpp"

struct cuvil_model {
  const char* weights;
  cuvil::Pool* pool;
  int32_t threads;
  cuvil::LateCache* late;
  const cuvil::VariantTable* code;
};
