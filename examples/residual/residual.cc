// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// residual DIR STEPS: trains a small residual network on generated digits, which it stores in DIR/digits, for
// STEPS steps. Checkpoints and summaries are in DIR/run, from which it continues when it is started again,
// with the same result as without the interruption. Then it reports the accuracy on test digits, and writes
// the SavedModel DIR/export.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "digit_generator.h"
#include "millrace/ops.h"
#include "millrace/saved_model.h"
#include "millrace/training.h"

namespace mr = millrace;
namespace ops = millrace::ops;
namespace layers = millrace::layers;

constexpr int kSide = 28, kRecord = 1 + kSide * kSide;  // the label, and a byte for each pixel
constexpr int kTrain = 3000, kTest = 500, kBatch = 32;

mr::Status WriteDigits(const std::string& path) {
  if (std::filesystem::exists(path)) return mr::Status();
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  const mr::mnist::Examples digits =
      mr::mnist::GenerateDigits({.train_size = kTrain + kTest, .test_size = 0}).train;
  std::ofstream file(path + ".new", std::ios::binary);
  for (int64_t i = 0; i < digits.size(); ++i) {
    file.put(static_cast<char>(digits.labels[static_cast<size_t>(i)]));
    for (const float pixel : digits.image(i)) file.put(static_cast<char>(static_cast<uint8_t>(pixel * 255)));
  }
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(path + ".new", path, error);
  return file && !error ? mr::Status() : mr::errors::Internal("cannot write ", path);
}

// Images [n, 28, 28, 1] between 0 and 1, and labels [n].
struct Examples {
  mr::Output images, labels;
};
Examples Decode(const mr::Scope& scope, const mr::Output& records) {
  const mr::Output pixels = ops::Slice(scope, records, {0, 1}, {-1, kSide * kSide});
  const mr::Output floats = ops::Div(scope, ops::Cast(scope, pixels, mr::DataType::kFloat).y, 255.f);
  const mr::Output labels = ops::Reshape(scope, ops::Slice(scope, records, {0, 0}, {-1, 1}).output, {-1});
  return {ops::Reshape(scope, floats, {-1, kSide, kSide, 1}), ops::Cast(scope, labels, mr::DataType::kInt32)};
}

// The batch of a step: digits drawn by its number, each moved and stretched a little.
Examples DrawBatch(const mr::Scope& scope, const mr::Output& records, const mr::Output& step) {
  const mr::Output seed = ops::Pack(scope, {step, int64_t{17}});
  const mr::Output drawn = ops::StatelessRandomUniformInt(scope, {kBatch}, seed, 0, kTrain);
  const Examples plain = Decode(scope, ops::GatherV2(scope, records, drawn, 0));
  const mr::Output noise = ops::StatelessRandomUniform(scope, {kBatch, 4}, seed);
  const mr::Output change = ops::Mul(scope, ops::Sub(scope, noise, 0.5f).z, 0.16f);
  const mr::Output boxes = ops::Add(scope, change, {0.f, 0.f, 1.f, 1.f});
  const mr::Output each = ops::Range(scope, 0, kBatch, 1);
  return {ops::CropAndResize(scope, plain.images, boxes, each, {kSide, kSide}), plain.labels};
}

mr::Output Block(const mr::Scope& scope, const mr::Output& x, int64_t filters, int64_t stride,
                 bool training) {
  const auto conv = [&](const mr::Output& in, int64_t size, int64_t by) {
    return layers::Conv2D(scope, in, filters, {size}, {.strides = {by}, .padding = layers::Padding::kSame},
                          {.use_bias = false, .kernel_initializer = mr::initializers::HeNormal()});
  };
  const auto norm = [&](const mr::Output& in) {
    return layers::BatchNormalization(scope, in, {.training = training, .momentum = 0.9});
  };
  const mr::Output inner = layers::Relu(scope, norm(conv(x, 3, stride)));
  const mr::Output outer = norm(conv(inner, 3, 1));
  const mr::Output around = scope.ShapeOf(x) == scope.ShapeOf(outer) ? x : conv(x, 1, stride);
  return layers::Relu(scope, ops::Add(scope, outer, around));
}

mr::Output Logits(const mr::Scope& root, const mr::Output& images, bool training) {
  const mr::Scope scope = EnterVariableScope(root, "model", {.reuse = mr::Reuse::kAuto});
  mr::Output x = images;
  for (const int64_t filters : {8, 16, 32}) x = Block(scope, x, filters, 2, training);
  return layers::Dense(scope, ops::Mean(scope, x, {1, 2}).output, 10);
}

mr::Status Run(const std::string& dir, int64_t steps) {
  const std::string digits = dir + "/digits/digits.bin", run = dir + "/run";
  MR_RETURN_IF_ERROR(WriteDigits(digits));
  const mr::Scope scope = mr::Scope::NewRootScope();
  SetRandomSeed(scope, 1);
  const mr::Output bytes = ops::DecodeRaw(scope, ops::ReadFile(scope, digits).contents, mr::DataType::kUint8);
  const mr::GraphVariable records(scope.WithOpName("records"),
                                  ops::Reshape(scope, bytes, {kTrain + kTest, kRecord}).output,
                                  {.trainable = false, .collections = {mr::graph_keys::kLocalVariables}});
  const mr::GraphVariable step = CreateGlobalStep(scope);

  const Examples batch = DrawBatch(scope, records, step);
  mr::losses::SparseSoftmaxCrossEntropy(scope, batch.labels, Logits(scope, batch.images, true));
  const mr::Output loss = mr::losses::GetTotalLoss(scope);
  mr::summary::Scalar(scope, "loss", loss);
  const mr::Scope updated =
      scope.WithControlDependencies(CollectedOperations(scope, mr::graph_keys::kUpdateOps));
  const mr::MomentumOptimizer optimizer(CosineDecay(scope, 0.05f, step, 400), 0.9f);
  const mr::Operation train =
      optimizer.ApplyGradients(updated, optimizer.ComputeGradients(scope, loss), step);

  const mr::Output images = ops::Placeholder(scope.WithOpName("images"), mr::DataType::kFloat,
                                             ops::Placeholder::Shape({-1, kSide, kSide, 1}));
  const mr::Output classes = ops::ArgMax(scope.WithOpName("classes"), Logits(scope, images, false), 1);
  const Examples test = Decode(scope, ops::Slice(scope, records, {kTrain, 0}, {kTest, kRecord}));
  const mr::Output predicted = ops::ArgMax(scope, Logits(scope, test.images, false), 1);
  const mr::metrics::Metric accuracy = mr::metrics::Accuracy(scope, test.labels, predicted);
  std::vector<mr::Output> norms;
  for (const mr::GraphVariable& v : TrainableVariables(scope)) norms.push_back(ops::L2Loss(scope, v));
  const mr::Output size = ops::AddN(scope, norms);
  const auto saver = std::make_shared<mr::Saver>(scope);
  const mr::Operation init = LocalVariablesInitializer(scope);

  const auto scaffold = std::make_shared<mr::Scaffold>(scope, mr::Scaffold::Options{.saver = saver});
  MR_RETURN_IF_ERROR(mr::RunTraining(scope, train,
                                     {.checkpoint_dir = run,
                                      .scaffold = scaffold,
                                      .save_checkpoint_steps = 20,
                                      .save_summaries_steps = 20,
                                      .last_step = steps}));

  const mr::ClientSession session(scope);
  MR_RETURN_IF_ERROR(saver->Restore(session, mr::LatestCheckpoint(run)));
  MR_RETURN_IF_ERROR(session.Run({}, {}, {init}, nullptr));
  std::vector<mr::Tensor> out;
  MR_RETURN_IF_ERROR(session.Run({accuracy.update, size, step}, &out));
  std::printf("step %lld: accuracy %.3f, weights %.9g\n", static_cast<long long>(out[2].scalar<int64_t>()),
              out[0].scalar<float>(), out[1].scalar<float>());
  return mr::SimpleSave(session, scope, dir + "/export", {{"images", images}}, {{"classes", classes}});
}

int main(int argc, char** argv) {
  const mr::Status status = Run(argc > 1 ? argv[1] : ".", argc > 2 ? std::atoll(argv[2]) : 400);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
