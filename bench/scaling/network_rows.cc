// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench_util.h"
#include "bench/scaling/program.h"
#include "millrace/initializers.h"
#include "millrace/layers.h"
#include "millrace/losses.h"
#include "millrace/ops.h"
#include "millrace/optimizers.h"
#include "millrace/run_metadata.h"

namespace millrace::bench {

std::string trace_file;

namespace {

void RunTraced(const ClientSession& session, const Program& program) {
  ClientSession::Feeds feeds;
  for (size_t i = 0; i < program.feeds.size(); ++i)
    feeds.emplace_back(program.placeholders[i], program.feeds[i]);
  std::vector<Tensor> outputs;
  RunMetadata metadata;
  // The first run compiles.
  for (int i = 0; i < 4; ++i) {
    metadata = RunMetadata();
    CheckOk(session.Run({.trace_level = RunOptions::TraceLevel::kFull}, feeds, program.fetches,
                        program.targets, &outputs, &metadata));
  }
  std::ofstream(trace_file, std::ios::binary) << metadata.SerializeAsString();
}

}  // namespace

Step Prepare(const Scope& scope, Program program, int threads) {
  CheckOk(scope.status());
  SessionOptions options;
  options.inter_op_parallelism_threads = options.intra_op_parallelism_threads = threads;
  const auto session = std::make_shared<ClientSession>(scope, options);
  if (!program.initializers.empty()) CheckOk(session->Run({}, {}, program.initializers, nullptr));
  const auto callable = session->MakeCallable(program.placeholders, program.fetches, program.targets);
  CheckOk(callable.status());
  return [session, handle = *callable, program = std::move(program)] {
    if (!trace_file.empty()) return RunTraced(*session, program);
    std::vector<Tensor> outputs;
    CheckOk(session->RunCallable(handle, program.feeds, &outputs));
  };
}

Output Input(const Scope& scope, Program* program, const TensorShape& shape, float limit) {
  program->placeholders.push_back(
      ops::Placeholder(scope, DataType::kFloat, ops::Placeholder::Shape(PartialShape(shape))));
  program->feeds.push_back(RandomTensor(shape, limit));
  return program->placeholders.back();
}

// He et al. (2015), section 4.2: three stages of three blocks.
Step SmallResnet(int threads) {
  const Scope scope = Scope::NewRootScope();
  Program program;
  const Output images = Input(scope, &program, {kResnetBatch, kResnetSide, kResnetSide, 3});
  const auto conv = [&](const Output& x, int64_t filters, int64_t size, int64_t stride) {
    const Output y =
        layers::Conv2D(scope, x, filters, {size}, {.strides = {stride}, .padding = layers::Padding::kSame},
                       {.use_bias = false, .kernel_initializer = initializers::HeNormal()});
    return Output(layers::BatchNormalization(scope, y, {.training = true}));
  };
  Output x = ops::Relu(scope, conv(images, 16, 3, 1));
  for (const int64_t filters : {16, 32, 64}) {
    for (int block = 0; block < 3; ++block) {
      const int64_t stride = block == 0 && filters > 16 ? 2 : 1;
      const Output inner = ops::Relu(scope, conv(x, filters, 3, stride));
      const Output outer = conv(inner, filters, 3, 1);
      const Output around = stride == 1 ? x : conv(x, filters, 1, stride);
      x = ops::Relu(scope, ops::Add(scope, outer, around));
    }
  }
  const Output logits = layers::Dense(scope, ops::Mean(scope, x, {1, 2}).output, kResnetClasses);
  Tensor labels(DataType::kInt32, {kResnetBatch});
  for (int64_t i = 0; i < kResnetBatch; ++i)
    labels.flat<int32_t>()[i] = static_cast<int32_t>(i % kResnetClasses);
  const ops::SparseSoftmaxCrossEntropyWithLogits losses(scope, logits, labels);
  const Output loss = ops::Mean(scope, losses.loss, {0});
  program.targets = {MomentumOptimizer(0.01f, 0.9f).Minimize(scope, loss)};
  program.initializers = {GlobalVariablesInitializer(scope)};
  return Prepare(scope, std::move(program), threads);
}

namespace {

Output Dense(const Scope& scope, const Output& x, int64_t in, int64_t out) {
  const float limit = std::sqrt(3.0f / static_cast<float>(in));
  const GraphVariable kernel(scope, ops::Const(scope, RandomTensor(TensorShape({in, out}), limit)));
  const GraphVariable bias(scope, ops::Const(scope, RandomTensor(TensorShape({out}), 0.1f)));
  return ops::BiasAdd(scope, ops::MatMul(scope, x, kernel), bias);
}

Output LayerNorm(const Scope& scope, const Output& x) {
  Tensor ones(DataType::kFloat, {kTransformerWidth});
  for (float& v : ones.flat<float>()) v = 1;
  const GraphVariable scale(scope, ops::Const(scope, ones));
  const GraphVariable offset(scope, ops::Const(scope, RandomTensor(TensorShape({kTransformerWidth}), 0.1f)));
  const Output mean = ops::Mean(scope, x, {1}, ops::Mean::KeepDims(true));
  const Output centred = ops::Sub(scope, x, mean);
  const Output variance = ops::Mean(scope, ops::Square(scope, centred), {1}, ops::Mean::KeepDims(true));
  const Output unit = ops::Mul(scope, centred, ops::Rsqrt(scope, ops::Add(scope, variance, 1e-5f)));
  return ops::Add(scope, ops::Mul(scope, unit, scale), offset);
}

}  // namespace

// Vaswani et al. (2017), with normalisation after the sums, and GELU computed with erf.
Step Transformer(int threads) {
  constexpr int64_t kWidth = kTransformerWidth, kDepth = kWidth / kTransformerHeads;
  const Scope scope = Scope::NewRootScope();
  Program program;
  const Output x = Input(scope, &program, {kTransformerBatch * kTransformerTokens, kWidth});
  const auto heads = [&](const Output& all) {
    const Output split =
        ops::Reshape(scope, all, {kTransformerBatch, kTransformerTokens, kTransformerHeads, kDepth});
    return Output(ops::Transpose(scope, split, {0, 2, 1, 3}));
  };
  const Output query = heads(Dense(scope, x, kWidth, kWidth)), key = heads(Dense(scope, x, kWidth, kWidth)),
               value = heads(Dense(scope, x, kWidth, kWidth));
  const Output scores = ops::Mul(scope, ops::BatchMatMulV2(scope, query, key, ops::BatchMatMulV2::AdjY(true)),
                                 1 / std::sqrt(static_cast<float>(kDepth)));
  const Output mixed = ops::BatchMatMulV2(scope, ops::Softmax(scope, scores), value);
  const Output joined =
      ops::Reshape(scope, ops::Transpose(scope, mixed, {0, 2, 1, 3}), {int64_t{-1}, kWidth});
  const Output attended = LayerNorm(scope, ops::Add(scope, x, Dense(scope, joined, kWidth, kWidth)));
  const Output wide = Dense(scope, attended, kWidth, 4 * kWidth);
  const Output half = ops::Mul(scope, wide, 0.5f);
  const Output bent =
      ops::Mul(scope, half, ops::Add(scope, ops::Erf(scope, ops::Mul(scope, wide, 0.70710678f)), 1.0f));
  const Output y = LayerNorm(scope, ops::Add(scope, attended, Dense(scope, bent, 4 * kWidth, kWidth)));
  const Output loss = ops::Sum(scope, ops::Square(scope, y), {0, 1});
  program.targets = {GradientDescentOptimizer(1e-6f).Minimize(scope, loss)};
  program.initializers = {GlobalVariablesInitializer(scope)};
  return Prepare(scope, std::move(program), threads);
}

}  // namespace millrace::bench
