// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// One training step of the digit models, batch 100: forward, backward and update, through a callable. The
// argument is the number of threads.
//
//   mnist_step/{softmax,mlp,conv}            this engine: examples/mnist's softmax, mlp_relu and conv
//   mnist_step/{mlp_dropout,conv_dropout}    the models with dropout, without a baseline
//   mnist_step_libtorch/{softmax,mlp,conv}   the same step in libtorch's C++ API, where libtorch-dev is
//                                            installed; conv with channels last
//   mnist_step_libtorch/conv_nchw            conv with channels first
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "bench/bench_util.h"
#include "millrace/client_session.h"
#include "millrace/scope.h"
#include "model.h"

#ifdef MR_HAVE_LIBTORCH
#include "bench/train/libtorch_step.h"
#endif

namespace millrace {
namespace {

using bench::CheckOk;

constexpr int64_t kBatch = 100;

// Random images with random labels: the work does not depend on the values.
std::vector<Tensor> RandomBatch() {
  std::mt19937 rng(1);
  std::uniform_real_distribution<float> pixel(0.0f, 1.0f);
  Tensor images(DataType::kFloat, {kBatch, 28, 28, 1});
  for (float& v : images.flat<float>()) v = pixel(rng);
  Tensor labels(DataType::kFloat, {kBatch, 10});
  for (float& v : labels.flat<float>()) v = 0.0f;
  for (int64_t i = 0; i < kBatch; ++i) labels.data<float>()[i * 10 + static_cast<int64_t>(rng() % 10)] = 1.0f;
  return {images, labels};
}

void MillraceStep(benchmark::State& state, const std::string& name) {
  const Scope scope = Scope::NewRootScope();
  const mnist::Model model = mnist::BuildModel(scope, *mnist::FindModelSpec(name), 1);
  CheckOk(scope.status());
  SessionOptions options;
  options.inter_op_parallelism_threads = static_cast<int>(state.range(0));
  options.intra_op_parallelism_threads = static_cast<int>(state.range(0));
  const ClientSession session(scope, options);
  CheckOk(session.Run({}, {}, {model.initializer}, nullptr));
  std::vector<Output> names{model.images, model.labels};
  std::vector<Tensor> feeds = RandomBatch();
  if (model.learning_rate.node != nullptr) {
    names.push_back(model.learning_rate);
    feeds.push_back(Tensor::Scalar(0.001f));
  }
  if (model.keep_probability.node != nullptr) {
    names.push_back(model.keep_probability);
    feeds.push_back(Tensor::Scalar(0.75f));
  }
  const auto callable = session.MakeCallable(names, {}, {model.train_step});
  CheckOk(callable.status());
  for (int i = 0; i < 10; ++i) CheckOk(session.RunCallable(*callable, feeds, nullptr));
  for (auto _ : state) CheckOk(session.RunCallable(*callable, feeds, nullptr));
}

void Register(const char* bench, const char* model) {
  benchmark::RegisterBenchmark((std::string("mnist_step/") + bench).c_str(), MillraceStep, std::string(model))
      ->Arg(1)
      ->Arg(2)
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}

#ifdef MR_HAVE_LIBTORCH
void LibtorchStep(benchmark::State& state, bench::TorchModel model, bool channels_last) {
  bench::TorchStepOptions options;
  options.model = model;
  options.batch = kBatch;
  options.threads = static_cast<int>(state.range(0));
  options.channels_last = channels_last;
  bench::LibtorchStep step(options);
  for (int i = 0; i < 10; ++i) step.RunStep();
  for (auto _ : state) benchmark::DoNotOptimize(step.RunStep());
}

void RegisterBaseline(const char* bench, bench::TorchModel model, bool channels_last) {
  benchmark::RegisterBenchmark((std::string("mnist_step_libtorch/") + bench).c_str(), LibtorchStep, model,
                               channels_last)
      ->Arg(1)
      ->Arg(2)
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}
#endif

void RegisterAll() {
  Register("softmax", "softmax");
  Register("mlp", "mlp_relu");
  Register("conv", "conv");
  Register("mlp_dropout", "mlp_dropout");
  Register("conv_dropout", "conv_dropout");
#ifdef MR_HAVE_LIBTORCH
  RegisterBaseline("softmax", bench::TorchModel::kSoftmax, false);
  RegisterBaseline("mlp", bench::TorchModel::kMlp, false);
  RegisterBaseline("conv", bench::TorchModel::kConv, true);
  RegisterBaseline("conv_nchw", bench::TorchModel::kConv, false);
#endif
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  millrace::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
