// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The cost of a training step of word vectors with negative samples, for several sizes of the vocabulary.
//
//   rows/<optimizer>/<variables>/N   N rows of 64; gradients are slices, and updates go by rows
//   dense/sgd/ref/N                  the baseline: the same gradients as tensors, all rows updated
//
// A step takes 256 pairs of words with 5 samples each: 1,792 look-ups in two tables.
#include <benchmark/benchmark.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/bench_util.h"
#include "millrace/client_session.h"
#include "millrace/gradients.h"
#include "millrace/ops.h"
#include "millrace/optimizers.h"

namespace millrace::bench {
namespace {

constexpr int64_t kDepth = 64, kPairs = 256, kSamples = 6, kBatches = 32;

struct WordVectors {
  Scope scope = Scope::NewRootScope();
  GraphVariable in, out;
  Output centres, others, labels, loss;
};

GraphVariable Table(const Scope& scope, const char* name, int64_t rows, bool resource) {
  const Output dims = ops::Const(scope, Tensor::Vector<int32_t>({static_cast<int32_t>(rows), kDepth}));
  const Output first = ops::Fill(scope, dims, 0.01f);
  return GraphVariable(scope.WithOpName(name), first, {.resource = resource});
}

Output LookUp(const Scope& scope, const GraphVariable& table, const Output& ids) {
  if (table.is_resource()) return ops::ResourceGather(scope, table.ref(), ids, DataType::kFloat);
  return ops::Gather(scope, table.ref(), ids);
}

// The logistic loss of the products of a word's vector with those of its neighbour and of other words.
WordVectors Build(int64_t rows, bool resource) {
  WordVectors model;
  const Scope& s = model.scope;
  const auto ids = [&](const TensorShape& shape) {
    return Output(ops::Placeholder(s, DataType::kInt32, ops::Placeholder::Shape(shape)));
  };
  model.in = Table(s, "in", rows, resource);
  model.out = Table(s, "out", rows, resource);
  model.centres = ids({kPairs});
  model.others = ids({kPairs, kSamples});
  model.labels = ops::Placeholder(s, DataType::kFloat, ops::Placeholder::Shape({kPairs, kSamples}));
  const Output centre = ops::ExpandDims(s, LookUp(s, model.in, model.centres), 1);
  const Output logits = ops::Sum(s, ops::Mul(s, centre, LookUp(s, model.out, model.others)), 2);
  const Output p = ops::Sigmoid(s, logits);
  model.loss = ops::Sum(s, ops::SquaredDifference(s, p, model.labels), {0, 1});
  return model;
}

std::unique_ptr<Optimizer> Make(const std::string& name) {
  if (name == "sgd") return std::make_unique<GradientDescentOptimizer>(0.05f);
  if (name == "adagrad") return std::make_unique<AdagradOptimizer>(0.05f);
  return std::make_unique<MomentumOptimizer>(0.05f, 0.9f);
}

// The same step with tensors for gradients.
Operation DenseStep(const WordVectors& model) {
  std::vector<Output> grads;
  CheckOk(AddSymbolicGradients(model.scope, {model.loss}, {model.in.ref(), model.out.ref()}, &grads));
  return GradientDescentOptimizer(0.05f).ApplyGradients(model.scope,
                                                        {{grads[0], model.in}, {grads[1], model.out}});
}

void Step(benchmark::State& state, const std::string& optimizer, bool resource, bool dense) {
  const int64_t rows = state.range(0);
  const WordVectors model = Build(rows, resource);
  const Operation step = dense ? DenseStep(model) : Make(optimizer)->Minimize(model.scope, model.loss);
  const Operation init = GlobalVariablesInitializer(model.scope);
  CheckOk(model.scope.status());
  const ClientSession session(model.scope);
  CheckOk(session.Run({}, {}, {init}, nullptr));
  std::mt19937 random(1);
  std::uniform_int_distribution<int32_t> word(0, static_cast<int32_t>(rows - 1));
  const auto draw = [&](const TensorShape& shape) {
    Tensor t(DataType::kInt32, shape);
    for (int32_t& id : t.flat<int32_t>()) id = word(random);
    return t;
  };
  std::vector<ClientSession::Feeds> batches;
  for (int64_t i = 0; i < kBatches; ++i) {
    Tensor labels(DataType::kFloat, TensorShape({kPairs, kSamples}));
    for (int64_t k = 0; k < kPairs * kSamples; ++k) labels.flat<float>()[k] = k % kSamples == 0 ? 1.f : 0.f;
    batches.push_back(
        {{model.centres, draw({kPairs})}, {model.others, draw({kPairs, kSamples})}, {model.labels, labels}});
  }
  size_t next = 0;
  for (auto _ : state) CheckOk(session.Run(batches[next++ % kBatches], {}, {step}, nullptr));
}

void Register() {
  for (const char* optimizer : {"sgd", "momentum", "adagrad"}) {
    for (const bool resource : {false, true}) {
      const std::string name = std::string("rows/") + optimizer + (resource ? "/resource" : "/ref");
      benchmark::RegisterBenchmark(name.c_str(), Step, std::string(optimizer), resource, false)
          ->Arg(10'000)
          ->Arg(1'000'000)
          ->Unit(benchmark::kMicrosecond)
          ->UseRealTime();
    }
  }
  benchmark::RegisterBenchmark("dense/sgd/ref", Step, std::string("sgd"), false, true)
      ->Arg(10'000)
      ->Arg(1'000'000)
      ->Unit(benchmark::kMicrosecond)
      ->UseRealTime();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  millrace::bench::Register();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
