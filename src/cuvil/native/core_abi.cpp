// The C entry points, over the tables of the model that is linked in.
#include "abi.h"
#include "abi.hpp"
#include "abi_check.hpp"
#include "abi_cpu.hpp"
#include "abi_text.hpp"
#include "hash.hpp"
#include "memory.hpp"
#include "model.hpp"
#include "threads.hpp"

#ifndef CUVIL_CORE_ID
#define CUVIL_CORE_ID 0
#endif

namespace cuvil {

namespace {

const ModelTables& tables = model_tables;
static_assert(kBrokenConstraint == CUVIL_E_CONSTRAINT, "kernels know the code by its number");

// Reads one symbol off the input it is bound to.
int32_t bind_symbol(const SymbolTable& symbol, const DLTensor* const* inputs, int64_t* value,
                    cuvil_status* status) {
  const Place at = {tables.inputs[symbol.input], symbol.input, false};
  const int64_t given = inputs[symbol.input]->shape[symbol.axis];
  const Checked shifted = Checked(given) - symbol.offset;
  *value = floordiv(shifted.value, symbol.slope);
  const bool whole = shifted.ok && mod(shifted.value, symbol.slope) == 0;
  if (whole && given >= 0 && *value >= symbol.min && *value <= symbol.max) return CUVIL_OK;
  Message message(status, symbol.input, symbol.axis);
  begin(message, at) << ", axis " << symbol.axis << " (" << at.spec.dims[symbol.axis] << ") is "
                     << given << "; allowed is " << symbol.min << " <= " << symbol.name
                     << " <= " << symbol.max;
  if (*symbol.source) message << " (" << symbol.source << ")";
  return message.fail(CUVIL_E_SHAPE);
}

int32_t say_broken(int32_t broken, const int64_t* symbols, bool late, cuvil_status* status) {
  Message message(status);
  message << "the constraint " << tables.constraints[broken].text << " ("
          << tables.constraints[broken].origin << ") does not hold:";
  for (int32_t i = 0; i < tables.symbol_count; ++i) {
    if (tables.symbols[i].input < 0 && !late) continue;
    message << (i ? ", " : " ") << tables.symbols[i].name << " = " << symbols[i];
  }
  return message.fail(CUVIL_E_CONSTRAINT);
}

int32_t check_constraints(const int64_t* symbols, cuvil_status* status) {
  const int32_t broken = tables.broken_constraint(symbols);
  return broken < 0 ? CUVIL_OK : say_broken(broken, symbols, false, status);
}

// Checks inputs but for their data and finds the symbols' values.
__attribute__((noinline)) int32_t bind(const cuvil_model* model,
                                       const DLTensor* const* inputs, int32_t count,
             int64_t* symbols, cuvil_status* status) {
  Message message(status);
  if (!model) return message << "the model is null", message.fail(CUVIL_E_ARGUMENT);
  const Given given = {"inputs", tables.input_count, count};
  if (int32_t code = check_count(given, inputs, status)) return code;
  for (int32_t i = 0; i < count; ++i) {
    if (int32_t code = check_header(inputs[i], {tables.inputs[i], i, false}, status)) return code;
  }
  for (int32_t i = 0; i < tables.symbol_count; ++i) {
    symbols[i] = 0;
    if (tables.symbols[i].input < 0) continue;
    if (int32_t code = bind_symbol(tables.symbols[i], inputs, &symbols[i], status)) return code;
  }
  for (int32_t i = 0; i < count; ++i) {
    const Place at = {tables.inputs[i], i, false};
    if (int32_t code = check_dims(*inputs[i], at, symbols, status)) return code;
  }
  return check_constraints(symbols, status);
}

// Tensor i of a call, inputs first.
Place place_of(int32_t i) {
  const int32_t output = i - tables.input_count;
  return {output < 0 ? tables.inputs[i] : tables.outputs[output], i, output >= 0};
}

// Checks the data of inputs and everything of outputs; fills one block a tensor, inputs first.
int32_t gather(const DLTensor* const* inputs, DLTensor* const* outputs,
               const int64_t* symbols, Memory* blocks, cuvil_status* status) {
  const int32_t first_output = tables.input_count;
  for (int32_t i = 0; i < first_output + tables.output_count; ++i) {
    const bool output = i >= first_output;
    const DLTensor* tensor = output ? outputs[i - first_output] : inputs[i];
    const Place at = place_of(i);
    if (output) {
      if (int32_t code = check_header(tensor, at, status)) return code;
      blocks[i] = {nullptr, 0};
      if (at.spec.late) continue;
      if (int32_t code = check_dims(*tensor, at, symbols, status)) return code;
    }
    if (int32_t code = check_data(*tensor, at, &blocks[i].data, status)) return code;
    blocks[i].bytes = tensor_bytes(tensor->shape, at.spec);
  }
  return CUVIL_OK;
}

Memory weights_of(const cuvil_model* model) {
  return {const_cast<char*>(model->weights), int64_t(tables.weights_bytes)};
}

// What is written, outputs and workspace, shares memory with nothing else. What is read may: two
// inputs, or an input and the weights.
__attribute__((noinline)) int32_t check_written(const Memory* blocks, Memory weights,
                                                Memory workspace, cuvil_status* status) {
  const int32_t tensors = tables.input_count + tables.output_count;
  for (int32_t i = tables.input_count; i < tensors; ++i) {
    Message message(status, i);
    for (int32_t j = 0; j < i; ++j) {
      if (!share_memory(blocks[i], blocks[j])) continue;
      begin(begin(message, place_of(i)) << " shares memory with ", place_of(j));
      return message.fail(CUVIL_E_OVERLAP);
    }
    if (!share_memory(blocks[i], weights)) continue;
    begin(message, place_of(i)) << " shares memory with the weights";
    return message.fail(CUVIL_E_OVERLAP);
  }
  for (int32_t i = 0; i < tensors; ++i) {
    if (!share_memory(workspace, blocks[i])) continue;
    Message message(status, i);
    begin(message << "the workspace shares memory with ", place_of(i));
    return message.fail(CUVIL_E_OVERLAP);
  }
  if (!share_memory(workspace, weights)) return CUVIL_OK;
  Message message(status);
  return message << "the workspace shares memory with the weights", message.fail(CUVIL_E_OVERLAP);
}

int32_t check_workspace(const void* workspace, uint64_t given, int64_t needed,
                        cuvil_status* status) {
  Message message(status);
  if (needed < 0) return message << "these shapes need too much memory",
                         message.fail(CUVIL_E_SHAPE);
  if (uint64_t(needed) > given || (needed > 0 && !workspace)) {
    message << "the workspace has " << int64_t(workspace ? given : 0) << " bytes; " << needed
            << " are needed";
    return message.fail(CUVIL_E_WORKSPACE);
  }
  if (reinterpret_cast<uintptr_t>(workspace) % CUVIL_ALIGNMENT != 0) {
    message << "the workspace is not aligned to " << CUVIL_ALIGNMENT << " bytes";
    return message.fail(CUVIL_E_WORKSPACE);
  }
  return CUVIL_OK;
}

// What a call that began has failed for.
int32_t explain(int32_t code, const int64_t* fault, const int64_t* symbols, cuvil_status* status) {
  if (code == CUVIL_E_CONSTRAINT) return say_broken(int32_t(fault[0]), symbols, true, status);
  Message message(status);
  if (code == CUVIL_E_INDEX) {
    message << "the model looked up index " << fault[0] << " in a dimension of size "
            << maximum(fault[1], 0);
  } else if (code == CUVIL_E_SHAPE) {
    const SymbolTable& symbol = tables.symbols[fault[0]];
    message << "the size " << symbol.name << " is " << fault[1] << "; allowed is " << symbol.min
            << " <= " << symbol.name << " <= " << symbol.max << " (" << symbol.source << ")";
  } else {
    message << "no memory for what the sizes that were computed ask for";
  }
  return message.fail(code);
}

// The shapes and data of late outputs, for the caller.
void hand_out(void* const* data, const int64_t* symbols, DLTensor* const* outputs) {
  for (int32_t i = 0; i < tables.output_count; ++i) {
    if (!tables.outputs[i].late) continue;
    outputs[i]->data = data[i];
    outputs[i]->byte_offset = 0;
    if (data[i]) tables.outputs[i].shape(symbols, outputs[i]->shape);
  }
}

}  // namespace
}  // namespace cuvil

using namespace cuvil;

int32_t cuvil_abi_version(void) { return CUVIL_ABI_VERSION; }
uint64_t cuvil_core_id(void) { return CUVIL_CORE_ID; }
const char* cuvil_describe(void) { return tables.description; }
uint64_t cuvil_weights_size(void) { return tables.weights_bytes; }

int32_t cuvil_create(const void* weights, uint64_t weights_bytes, cuvil_pool* pool,
                     cuvil_model** model, cuvil_status* status) {
  return cuvil_create_variant(nullptr, weights, weights_bytes, pool, model, status);
}

const char* cuvil_variant(const cuvil_model* model) { return model ? model->code->name : ""; }

int32_t cuvil_create_variant(const char* variant, const void* weights, uint64_t weights_bytes,
                             cuvil_pool* pool, cuvil_model** model, cuvil_status* status) {
  Message message(status);
  if (!model) return message << "the place for the model is null", message.fail(CUVIL_E_ARGUMENT);
  *model = nullptr;
  const char* missing;
  const VariantTable* code = choose_variant(tables, variant, &missing);
  if (!code && missing) {
    message << "this CPU lacks " << missing << ", which the model was compiled for";
    return message.fail(CUVIL_E_CPU);
  }
  if (!code) {
    message << "the model has no code '" << variant << "'; it has";
    for (int32_t i = 0; i < tables.variant_count; ++i)
      message << (i ? ", '" : " '") << tables.variants[i].name << "'";
    return message.fail(CUVIL_E_ARGUMENT);
  }
  if (weights_bytes != tables.weights_bytes || (weights_bytes > 0 && !weights)) {
    message << "the weights have " << int64_t(weights ? weights_bytes : 0) << " bytes; "
            << int64_t(tables.weights_bytes) << " are needed";
    return message.fail(CUVIL_E_WEIGHTS);
  }
  if (reinterpret_cast<uintptr_t>(weights) % CUVIL_ALIGNMENT != 0) {
    message << "the weights are not aligned to " << CUVIL_ALIGNMENT << " bytes";
    return message.fail(CUVIL_E_WEIGHTS);
  }
  void* block = memory_of(sizeof(cuvil_model) + sizeof(LateCache));
  if (!block) return message << "no memory for the model", message.fail(CUVIL_E_MEMORY);
  Pool* threads = reinterpret_cast<Pool*>(pool);
  *model = static_cast<cuvil_model*>(block);
  LateCache* late = reinterpret_cast<LateCache*>(*model + 1);
  *late = {nullptr, 0};
  **model = {static_cast<const char*>(weights), threads, pool_threads(threads), late,
            code};
  return message.fine();
}

void cuvil_destroy(cuvil_model* model) {
  if (!model) return;
  while (LateBlock* block = model->late->first) {
    model->late->first = block->next;
    release_memory(block->raw);
  }
  release_memory(model);
}

void cuvil_free(void* data) {
  if (data) release_memory((static_cast<LateBlock*>(data) - 1)->raw);
}

int32_t cuvil_workspace_size(const cuvil_model* model, const DLTensor* const* inputs,
                             int32_t input_count, uint64_t* bytes, cuvil_status* status) {
  Message message(status);
  if (!bytes) return message << "the place for the size is null", message.fail(CUVIL_E_ARGUMENT);
  int64_t* symbols =
      static_cast<int64_t*>(__builtin_alloca(sizeof(int64_t) * (tables.symbol_count + 1)));
  if (int32_t code = bind(model, inputs, input_count, symbols, status)) return code;
  const int64_t needed = model->code->workspace_bytes(symbols, model->threads);
  if (needed < 0) {
    return message << "these shapes need too much memory", message.fail(CUVIL_E_SHAPE);
  }
  *bytes = uint64_t(needed);
  return message.fine();
}

int32_t cuvil_output_shape(const cuvil_model* model, const DLTensor* const* inputs,
                           int32_t input_count, int32_t index, int64_t* shape,
                           cuvil_status* status) {
  Message message(status);
  if (index < 0 || index >= tables.output_count) {
    message << "the model has " << tables.output_count << " outputs; there is no output " << index;
    return message.fail(CUVIL_E_ARGUMENT);
  }
  const TensorTable& spec = tables.outputs[index];
  if (spec.late) {
    message << "the shape of output '" << spec.name << "' depends on data";
    return message.fail(CUVIL_E_LATE);
  }
  if (!shape && spec.rank > 0) {
    return message << "the place for the shape is null", message.fail(CUVIL_E_ARGUMENT);
  }
  int64_t* symbols =
      static_cast<int64_t*>(__builtin_alloca(sizeof(int64_t) * (tables.symbol_count + 1)));
  if (int32_t code = bind(model, inputs, input_count, symbols, status)) return code;
  int64_t dims[CUVIL_MAX_RANK];
  spec.shape(symbols, dims);
  for (int32_t axis = 0; axis < spec.rank; ++axis) {
    if (dims[axis] >= 0) continue;
    Message reason(status, tables.input_count + index, axis);
    reason << "output '" << spec.name << "', axis " << axis << " (" << spec.dims[axis]
           << ") can't be for these inputs";
    return reason.fail(CUVIL_E_SHAPE);
  }
  for (int32_t axis = 0; axis < spec.rank; ++axis) shape[axis] = dims[axis];
  return message.fine();
}

int32_t cuvil_run(const cuvil_model* model, const DLTensor* const* inputs, int32_t input_count,
                  DLTensor* const* outputs, int32_t output_count, void* workspace,
                  uint64_t workspace_bytes, cuvil_status* status) {
  const int32_t tensors = tables.input_count + tables.output_count;
  int64_t* symbols =
      static_cast<int64_t*>(__builtin_alloca(sizeof(int64_t) * (tables.symbol_count + 1)));
  if (int32_t code = bind(model, inputs, input_count, symbols, status)) return code;
  const Given given = {"outputs", tables.output_count, output_count};
  if (int32_t code = check_count(given, outputs, status)) return code;
  Memory* blocks = static_cast<Memory*>(__builtin_alloca(sizeof(Memory) * (tensors + 1)));
  if (int32_t code = gather(inputs, outputs, symbols, blocks, status)) return code;
  const int64_t needed = model->code->workspace_bytes(symbols, model->threads);
  if (int32_t code = check_workspace(workspace, workspace_bytes, needed, status)) return code;
  const Memory scratch = {workspace, needed};
  if (int32_t code = check_written(blocks, weights_of(model), scratch, status)) return code;
  void** data = static_cast<void**>(__builtin_alloca(sizeof(void*) * (tensors + 1)));
  for (int32_t i = 0; i < tensors; ++i) data[i] = blocks[i].data;
  int64_t fault[2];
  void** made = data + tables.input_count;
  const int32_t code = cuvil_run_raw(model, data, made, symbols, workspace, fault);
  hand_out(made, symbols, outputs);
  return code ? explain(code, fault, symbols, status) : Message(status).fine();
}

int64_t cuvil_workspace_raw(const cuvil_model* model, const int64_t* symbols) {
  return model->code->workspace_bytes(symbols, model->threads);
}

int32_t cuvil_run_raw(const cuvil_model* model, const void* const* inputs, void** outputs,
                      int64_t* symbols, void* workspace, int64_t* fault) {
  Fault found = {0, 0, 0};
  for (int32_t i = 0; i < tables.output_count; ++i) {
    if (tables.outputs[i].late) outputs[i] = nullptr;
  }
  model->code->run({model->weights, inputs, outputs, symbols, static_cast<char*>(workspace),
                    model->pool, model->threads, &found, model->late});
  if (found.size == 0 && found.code == 0) return CUVIL_OK;
  for (int32_t i = 0; i < tables.output_count; ++i) {
    if (!tables.outputs[i].late) continue;
    cuvil_free(outputs[i]);
    outputs[i] = nullptr;
  }
  if (fault) fault[0] = found.index, fault[1] = found.size;
  return found.code ? found.code : CUVIL_E_INDEX;
}

cuvil_pool* cuvil_pool_create(int32_t threads) {
  return reinterpret_cast<cuvil_pool*>(pool_create(threads));
}

cuvil_pool* cuvil_pool_from(cuvil_parallel_for_fn parallel_for, void* context, int32_t threads) {
  return reinterpret_cast<cuvil_pool*>(pool_from(parallel_for, context, threads));
}

void cuvil_pool_destroy(cuvil_pool* pool) { pool_destroy(reinterpret_cast<Pool*>(pool)); }

uint64_t cuvil_hash64(const void* data, uint64_t bytes, uint64_t seed) {
  return hash64(data, bytes, seed);
}
