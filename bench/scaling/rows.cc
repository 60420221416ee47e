// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/scaling/rows.h"

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench_util.h"
#include "bench/graph/resnet50.h"
#include "bench/graph/resnet50_net.h"
#include "bench/scaling/program.h"
#include "millrace/client_session.h"
#include "millrace/gradients.h"
#include "millrace/initializers.h"
#include "millrace/ops.h"
#include "millrace/optimizers.h"
#include "millrace/recurrent.h"
#include "model.h"

namespace millrace::bench {
namespace {

Step Digits(const char* name, int threads) {
  const Scope scope = Scope::NewRootScope();
  const mnist::Model model = mnist::BuildModel(scope, *mnist::FindModelSpec(name), 1);
  constexpr int64_t kBatch = 100;
  Tensor labels(DataType::kFloat, {kBatch, 10});
  for (float& v : labels.flat<float>()) v = 0;
  for (int64_t i = 0; i < kBatch; ++i) labels.flat<float>()[i * 10 + i % 10] = 1;
  Program program;
  program.placeholders = {model.images, model.labels, model.learning_rate};
  program.feeds = {RandomTensor({kBatch, 28, 28, 1}, 1), labels, Tensor::Scalar(0.001f)};
  if (model.keep_probability.node != nullptr) {
    program.placeholders.push_back(model.keep_probability);
    program.feeds.push_back(Tensor::Scalar(0.75f));
  }
  program.targets = {model.train_step};
  program.initializers = {model.initializer};
  return Prepare(scope, std::move(program), threads);
}

Step Resnet50(int threads) {
  const Scope scope = Scope::NewRootScope();
  Program program;
  const Output image = Input(scope, &program, {1, kImageSide, kImageSide, 3});
  MillraceNet net(scope, false, Weights::kConstants);
  program.fetches = {BuildResnet50(net, image)};
  return Prepare(scope, std::move(program), threads);
}

// One loop over the sequence; the loss is the sum of squares of the last state.
Step Lstm(const LstmSize& size, bool train, int threads) {
  const Scope scope = Scope::NewRootScope();
  Program program;
  const Output x = Input(scope, &program, {size.time, size.batch, size.inputs});
  const std::unique_ptr<RnnCell> cell = BasicLstmCell(size.units);
  const RnnOutputs result = DynamicRnn(scope, *cell, x, {.time_major = true});
  if (train) {
    const Output loss = ops::Sum(scope, ops::Square(scope, result.outputs), {0, 1, 2});
    program.targets = {GradientDescentOptimizer(0.0001f).Minimize(scope, loss)};
  } else {
    program.fetches = {result.outputs};
  }
  program.initializers = {GlobalVariablesInitializer(scope)};
  return Prepare(scope, std::move(program), threads);
}

// Skip-gram with negative samples that are common to the batch.
Step WordVectors(int64_t words, int threads) {
  const Scope scope = Scope::NewRootScope();
  Program program;
  const auto table = [&](const char* name) {
    return GraphVariable(scope.WithOpName(name),
                         ops::Const(scope, RandomTensor(TensorShape({words, kWordDepth}), 0.05f)));
  };
  const auto ids = [&](int64_t count) {
    const TensorShape shape({count});
    program.placeholders.push_back(
        ops::Placeholder(scope, DataType::kInt32, ops::Placeholder::Shape(PartialShape(shape))));
    std::mt19937 random(static_cast<unsigned>(count));
    Tensor t(DataType::kInt32, shape);
    for (int32_t& id : t.flat<int32_t>()) id = static_cast<int32_t>(random() % static_cast<uint64_t>(words));
    program.feeds.push_back(t);
    return program.placeholders.back();
  };
  const GraphVariable in = table("in"), out = table("out");
  const Output centre = ops::Gather(scope, in.ref(), ids(kWordBatch));
  const Output near = ops::Gather(scope, out.ref(), ids(kWordBatch));
  const Output others = ops::Gather(scope, out.ref(), ids(kNegatives));
  const Output right = ops::Sum(scope, ops::Mul(scope, centre, near), 1);
  const Output wrong = ops::MatMul(scope, centre, others, ops::MatMul::TransposeB(true));
  const Output loss = ops::Add(scope, ops::Sum(scope, ops::Softplus(scope, ops::Neg(scope, right)), 0),
                               ops::Sum(scope, ops::Softplus(scope, wrong), {0, 1}));
  program.targets = {GradientDescentOptimizer(0.01f).Minimize(scope, loss)};
  program.initializers = {GlobalVariablesInitializer(scope)};
  return Prepare(scope, std::move(program), threads);
}

template <typename Fn>
Step OneOp(const TensorShape& shape, const Fn& fn, int threads) {
  const Scope scope = Scope::NewRootScope();
  Program program;
  const Output x = Input(scope, &program, shape, 3);
  program.targets = {Operation(fn(scope, x).node)};
  return Prepare(scope, std::move(program), threads);
}

Step Branches(int threads) {
  const Scope scope = Scope::NewRootScope();
  Program program;
  const Output x = Input(scope, &program, {kBranchRows, kBranchWidth});
  std::vector<Output> ends;
  for (int64_t b = 0; b < kBranches; ++b) {
    Output y = x;
    for (int64_t i = 0; i < kBranchDepth; ++i) {
      y = ops::Tanh(
          scope, ops::MatMul(scope, y, ops::Const(scope, RandomTensor({kBranchWidth, kBranchWidth}, 0.1f))));
    }
    ends.push_back(y);
  }
  program.fetches = {ops::AddN(scope, ends)};
  return Prepare(scope, std::move(program), threads);
}

Step FanOut(int threads) {
  const Scope scope = Scope::NewRootScope();
  Program program;
  const Output x = Input(scope, &program, TensorShape());
  for (int i = 0; i < 1000; ++i) {
    program.targets.push_back(Operation(ops::Add(scope, x, static_cast<float>(i)).node));
  }
  return Prepare(scope, std::move(program), threads);
}

constexpr ScalingRow kRows[] = {
    {"digits_mlp", "digit MLP and Adam, batch 100, a training step",
     [](int threads) { return Digits("mlp_relu", threads); }},
    {"digits_conv", "digit convnet and Adam, batch 100, a training step",
     [](int threads) { return Digits("conv", threads); }},
    {"digits_conv_dropout", "larger digit convnet with dropout, batch 100, a training step",
     [](int threads) { return Digits("conv_dropout", threads); }},
    {"resnet50", "ResNet-50, batch 1, inference", Resnet50},
    {"lstm_train", "LSTM, 50 steps, batch 1, 32 units, a training step",
     [](int threads) { return Lstm(kSmallLstm, true, threads); }},
    {"lstm_large", "LSTM, 50 steps, batch 32, 128 units, forward",
     [](int threads) { return Lstm(kLargeLstm, false, threads); }},
    {"lstm_large_train", "LSTM, 50 steps, batch 32, 128 units, a training step",
     [](int threads) { return Lstm(kLargeLstm, true, threads); }},
    {"small_resnet_train", "ResNet-20 of 32 x 32 images and momentum, batch 64, a training step",
     SmallResnet},
    {"transformer_train", "encoder layer of BERT-base and SGD, 2 x 128 tokens, a training step", Transformer},
    {"language_lstm_train", "LSTM, 50 steps, batch 32, 256 units, a training step",
     [](int threads) { return Lstm(kLanguageLstm, true, threads); }},
    {"word_vectors", "skip-gram, 10,000 words of 128, batch 128, 64 samples, a training step",
     [](int threads) { return WordVectors(kWords, threads); }},
    {"many_word_vectors", "the same with 50,000 words",
     [](int threads) { return WordVectors(kManyWords, threads); }},
    {"branches", "eight chains of four 64x256x256 products", Branches},
    {"transpose", "transposition of 1000 x 1000 floats",
     [](int threads) {
       return OneOp(
           {kMatrixSide, kMatrixSide},
           [](const Scope& s, const Output& x) {
             return Output(ops::Transpose(s, x, Tensor::Vector<int32_t>({1, 0})));
           },
           threads);
     }},
    {"tanh", "tanh of 10^6 floats",
     [](int threads) {
       return OneOp(
           {kMatrixSide, kMatrixSide},
           [](const Scope& s, const Output& x) { return Output(ops::Tanh(s, x)); }, threads);
     }},
    {"sigmoid", "sigmoid of 10^6 floats",
     [](int threads) {
       return OneOp(
           {kMatrixSide, kMatrixSide},
           [](const Scope& s, const Output& x) { return Output(ops::Sigmoid(s, x)); }, threads);
     }},
    {"lrn", "local response normalisation of 8x28x28x64",
     [](int threads) {
       return OneOp(
           {8, 28, 28, 64}, [](const Scope& s, const Output& x) { return Output(ops::LRN(s, x)); }, threads);
     }},
    {"fan_out", "1,000 additions of scalars, each on its own", FanOut},
};

}  // namespace

std::span<const ScalingRow> ScalingRows() { return kRows; }

}  // namespace millrace::bench
