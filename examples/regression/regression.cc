// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// regression DIR: fits y = w x + b to DIR/train.csv, evaluates on DIR/test.csv (both are made when they are
// missing) and writes the model to DIR/export. It can be killed at any moment. When it is started again, it
// continues from its last checkpoint with the next element of the input.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "millrace/ops.h"
#include "millrace/training.h"

namespace mr = millrace;
namespace ops = millrace::ops;
using Outputs = std::vector<mr::Output>;

constexpr int64_t kLastStep = 4000;
constexpr int64_t kBatch = 16;

// Lines "x0,x1,y" with y = 2 x0 - 3 x1 + 0.5 and some noise, the same each time.
void WriteCsv(const std::string& path, int lines, uint32_t state) {
  if (std::filesystem::exists(path)) return;
  const auto next = [&] {
    state = state * 1664525u + 1013904223u;
    return static_cast<float>(state >> 8) / static_cast<float>(1 << 23) - 1;
  };
  std::ofstream file(path + ".part");
  for (int i = 0; i < lines; ++i) {
    const float x0 = next(), x1 = next();
    file << x0 << ',' << x1 << ',' << 2 * x0 - 3 * x1 + 0.5f + 0.1f * next() << '\n';
  }
  file.close();
  std::filesystem::rename(path + ".part", path);
}

// Elements x [2] and y, floats.
mr::Dataset ReadCsv(const mr::Scope& scope, const std::string& path) {
  return mr::Dataset::TextLine(scope, path).Map([](const mr::Scope& s, const Outputs& line) -> Outputs {
    const ops::DecodeCSV fields(s, line[0], mr::InputList({{0.f}, {0.f}, {0.f}}));
    if (!s.ok()) return {};
    return {ops::Pack(s, {fields[0], fields[1]}), fields[2]};
  });
}

struct Model {
  Model(const mr::Scope& scope, const mr::Output& x)
      : w(scope.WithOpName("w"), {{0.f}, {0.f}}),
        b(scope.WithOpName("b"), 0.f),
        y(ops::Add(scope.WithOpName("y"),
                   ops::Squeeze(scope, ops::MatMul(scope, x, w), ops::Squeeze::SqueezeDims({1})), b)) {}
  mr::Output Loss(const mr::Scope& scope, const mr::Output& wanted) const {
    return ops::Mean(scope.WithOpName("loss"), ops::SquaredDifference(scope, y, wanted), 0);
  }
  mr::GraphVariable w, b;
  mr::Output y;
};

mr::Status Train(const std::string& dir) {
  const mr::Scope scope = mr::Scope::NewRootScope();
  const mr::GraphVariable step = mr::CreateGlobalStep(scope);
  const mr::Iterator input = mr::Iterator::Initializable(
      ReadCsv(scope, dir + "/train.csv").Shuffle(200, /*seed=*/1).Repeat().Batch(kBatch, true).Prefetch(2));
  input.SaveWithModel(scope);
  const Outputs batch = input.GetNext(scope);
  MR_RETURN_IF_ERROR(scope.status());
  const Model model(scope, batch[0]);
  const mr::Output loss = model.Loss(scope, batch[1]);
  mr::summary::Scalar(scope, "train_loss", loss);
  const mr::Operation train =
      mr::MomentumOptimizer(0.002f, 0.9f).Minimize(scope, loss, {model.w, model.b}, step);

  return mr::RunTraining(scope, train,
                         {.checkpoint_dir = dir + "/run",
                          .hooks = {std::make_shared<mr::NanTensorHook>(loss)},
                          .save_checkpoint_steps = 200,
                          .log_step_count_steps = 1000,
                          .last_step = kLastStep,
                          .progress_loss = loss});
}

// Evaluates the model with the weights of the last checkpoint on other data, and exports it.
mr::Status EvaluateAndExport(const std::string& dir) {
  const mr::Scope scope = mr::Scope::NewRootScope();
  const mr::Output x = ops::Placeholder(scope.WithOpName("x"), mr::DataType::kFloat,
                                        ops::Placeholder::Shape(mr::PartialShape({-1, 2})));
  const Model model(scope, x);
  const mr::Iterator test = mr::Iterator::Initializable(ReadCsv(scope, dir + "/test.csv").Batch(1000));
  const Outputs all = test.GetNext(scope);
  MR_RETURN_IF_ERROR(scope.status());
  const mr::Output loss = model.Loss(scope, all[1]);
  const mr::Saver saver(scope);
  const mr::ClientSession session(scope);
  MR_RETURN_IF_ERROR(saver.Restore(session, mr::LatestCheckpoint(dir + "/run")));
  std::vector<mr::Tensor> data, values;
  MR_RETURN_IF_ERROR(session.Run({}, {}, {test.initializer()}, nullptr));
  MR_RETURN_IF_ERROR(session.Run(all, &data));
  MR_RETURN_IF_ERROR(session.Run({{x, data[0]}, {all[1], data[1]}}, {model.w, model.b, loss}, &values));
  const auto w = values[0].flat<float>();
  std::printf("w = %.9g %.9g  b = %.9g  test loss = %.9g\n", w[0], w[1], values[1].scalar<float>(),
              values[2].scalar<float>());
  return mr::SimpleSave(session, scope, dir + "/export", {{"x", x}}, {{"y", model.y}});
}

int main(int argc, char** argv) {
  const std::string dir = argc > 1 ? argv[1] : ".";
  WriteCsv(dir + "/train.csv", 1000, 1);
  WriteCsv(dir + "/test.csv", 200, 2);
  mr::Status status = Train(dir);
  if (status.ok()) status = EvaluateAndExport(dir);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
