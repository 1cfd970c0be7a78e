// Runs a compiled model from C++, its loops on this program's own threads.
//
//   python examples/compile_onnx.py .      writes model.so, model.weights and model.h
//   c++ -std=c++17 -O2 -pthread -I. examples/embed/cpp/main.cpp model.so -Wl,-rpath,. -o embed
//   ./embed model.weights 3
//
// The model is f32[n, 8] to f32[n, 4]; the number is n.
#include <cstdio>
#include <thread>

#include "model.h"

#include "cuvil.hpp"  // wants the model's header first

// Cuts a loop into as many parts as there are threads. A program that has a pool of threads would
// hand the parts to that.
static void on_threads(void* context, int64_t count, cuvil_task_fn task, void* task_context) {
  const int32_t threads = *static_cast<const int32_t*>(context);
  std::vector<std::thread> others;
  for (int32_t i = 1; i < threads; ++i)
    others.emplace_back(task, task_context, count * i / threads, count * (i + 1) / threads, i);
  task(task_context, 0, count / threads, 0);
  for (std::thread& other : others) other.join();
}

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s MODEL.weights N\n", argv[0]);
    return 2;
  }
  const int64_t rows = std::atoll(argv[2]);
  int32_t threads = 2;
  const std::unique_ptr<cuvil_pool, void (*)(cuvil_pool*)> pool(
      cuvil_pool_from(on_threads, &threads, threads), cuvil_pool_destroy);
  const cuvil::Model model(argv[1], pool.get());

  std::vector<float> values(size_t(rows * 8));
  for (size_t i = 0; i < values.size(); ++i) values[i] = float(i % 7) - 3.0f;
  cuvil::Tensor<float> x(values.data(), {rows, 8});
  cuvil::Tensor<float> y(model.output_shape({x.view()}, 0, 2));
  model.run({x.view()}, {y.view()});
  for (int64_t i = 0; i < rows * 4; ++i) std::printf("%.7g%c", y.data()[i], i % 4 < 3 ? ' ' : '\n');

  try {
    cuvil::Tensor<float> wrong(values.data(), {rows, 7});
    model.run({wrong.view()}, {y.view()});
  } catch (const cuvil::Error& error) {
    std::printf("refused: %s\n", error.what());
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
