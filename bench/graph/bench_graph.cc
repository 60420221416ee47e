// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Inference of whole models with random weights, through a callable. The argument is the number of threads.
//
//   mlp64/{1,32}             64 layers of 256: relu(x W + b), batch 1 and 32
//   mlp64_unfused/{1,32}     the same with the pass `fuse` switched off
//   mlp64_passes_off/{1,32}  the same with all passes switched off that can be
//   mlp64_libtorch/{1,32}    the same in libtorch's C++ API, where libtorch-dev is installed
//   resnet50/{1,32}              ResNet-50 v1.5, images of 224 x 224, weights that are constants
//   resnet50_{unfused,passes_off}  the same without the pass `fuse`, without any pass
//   resnet50_variables           weights are resource variables
//   resnet50_nchw, resnet50_nchw_passes_off  channels first
//   resnet50_libtorch_{contiguous,channels_last,frozen,frozen_channels_last,optimized}  libtorch_resnet50.h
//   resnet50_values/2            no figure of time: all of these compute the same
//
// Counters of resnet50, in a process that runs one case only: setup_mb, the peak of building the model and
// running it once; run_mb, the peak of later Runs. Both are beyond what the process had before.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "bench/bench_util.h"
#include "bench/graph/bench_resnet50.h"
#include "millrace/client_session.h"
#include "millrace/ops.h"
#include "millrace/scope.h"

#ifdef MR_HAVE_LIBTORCH
#include "bench/graph/libtorch_mlp.h"
#endif

namespace millrace::bench {
namespace {

constexpr int kLayers = 64;
constexpr int64_t kWidth = 256;

void Mlp(benchmark::State& state, int64_t batch, const std::set<std::string>& disabled) {
  const Scope scope = Scope::NewRootScope();
  const Output x = ops::Placeholder(scope, DataType::kFloat);
  Output y = x;
  for (int i = 0; i < kLayers; ++i) {
    const Output w = ops::Const(scope, RandomTensor({kWidth, kWidth}, 0.15f));
    const Output b = ops::Const(scope, RandomTensor({kWidth}, 0.1f));
    y = ops::Relu(scope, ops::BiasAdd(scope, ops::MatMul(scope, y, w).product, b));
  }
  CheckOk(scope.status());
  SessionOptions options;
  options.inter_op_parallelism_threads = options.intra_op_parallelism_threads =
      static_cast<int>(state.range(0));
  options.disabled_passes = disabled;
  const ClientSession session(scope, options);
  const auto callable = session.MakeCallable({x}, {y}, {});
  CheckOk(callable.status());
  const std::vector<Tensor> feeds{RandomTensor({batch, kWidth}, 1.0f)};
  std::vector<Tensor> outputs;
  for (int i = 0; i < 10; ++i) CheckOk(session.RunCallable(*callable, feeds, &outputs));
  for (auto _ : state) CheckOk(session.RunCallable(*callable, feeds, &outputs));
}

#ifdef MR_HAVE_LIBTORCH
void TorchMlp(benchmark::State& state, int64_t batch) {
  LibtorchMlp mlp(kLayers, kWidth, batch, static_cast<int>(state.range(0)));
  for (int i = 0; i < 10; ++i) mlp.Run();
  for (auto _ : state) benchmark::DoNotOptimize(mlp.Run());
}
#endif

void RegisterAll() {
  const auto with_threads = [](benchmark::internal::Benchmark* bench) {
    bench->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMicrosecond);
  };
  for (const int64_t batch : {1, 32}) {
    const std::string size = "/" + std::to_string(batch);
    const auto add = [&](const char* name, const std::set<std::string>& disabled) {
      with_threads(benchmark::RegisterBenchmark(
          (name + size).c_str(), [=](benchmark::State& state) { Mlp(state, batch, disabled); }));
    };
    add("mlp64", {});
    add("mlp64_unfused", {"fuse"});
    add("mlp64_passes_off", {"fuse", "fold", "cse"});
#ifdef MR_HAVE_LIBTORCH
    with_threads(benchmark::RegisterBenchmark(("mlp64_libtorch" + size).c_str(),
                                              [=](benchmark::State& state) { TorchMlp(state, batch); }));
#endif
  }
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  millrace::bench::RegisterAll();
  millrace::bench::RegisterResnet50();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
