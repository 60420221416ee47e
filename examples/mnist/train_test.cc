// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "train.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "digit_generator.h"
#include "millrace/saved_model.h"
#include "model.h"

namespace millrace::mnist {
namespace {

const Dataset& SmallSet() {
  static const Dataset& data = *new Dataset(GenerateDigits({.train_size = 1000, .test_size = 600}));
  return data;
}

ReportData MustTrain(const TrainOptions& options) {
  auto report = Train(SmallSet(), options, nullptr);
  EXPECT_TRUE(report.ok()) << options.model << ": " << report.status();
  return report.ok() ? *std::move(report) : ReportData();
}

class TrainEachModelTest : public testing::TestWithParam<std::string> {};

TEST_P(TrainEachModelTest, LearnsAndDoesNotDependOnThreads) {
  TrainOptions options{.model = GetParam(), .steps = 60, .batch = 50, .seed = 5, .threads = 1};
  const ReportData one = MustTrain(options);
  ASSERT_EQ(one.test_loss.values.size(), 2u) << "before the first step and after the last";
  EXPECT_LT(one.test_loss.values.back(), one.test_loss.values.front() + 1e-3);
  // Sixty steps of training bring the sigmoid network only to that accuracy.
  if (GetParam() != "mlp_sigmoid") {
    EXPECT_GT(one.final_accuracy, 0.5);
  }

  options.threads = 3;
  const ReportData three = MustTrain(options);
  EXPECT_EQ(one.test_loss.values, three.test_loss.values);
  EXPECT_EQ(one.train_loss.values, three.train_loss.values);
  EXPECT_EQ(one.test_accuracy.values, three.test_accuracy.values);
  ASSERT_EQ(one.parameters.size(), three.parameters.size());
  for (size_t i = 0; i < one.parameters.size(); ++i) {
    EXPECT_EQ(one.parameters[i].snapshots.back().bounds, three.parameters[i].snapshots.back().bounds)
        << one.parameters[i].name;
  }
  options.seed = 6;
  EXPECT_NE(MustTrain(options).test_loss.values, three.test_loss.values);
}

INSTANTIATE_TEST_SUITE_P(Models, TrainEachModelTest,
                         testing::Values("softmax", "mlp_sigmoid", "mlp_relu", "mlp_dropout", "conv",
                                         "conv_dropout"),
                         [](const auto& param_info) { return param_info.param; });

TEST(TrainTest, TheReportHoldsWhatTheRunDid) {
  std::vector<int64_t> seen;
  const TrainOptions options{.model = "softmax", .steps = 230, .batch = 20, .seed = 1, .threads = 1};
  const auto report =
      Train(SmallSet(), options, [&](const Progress& progress) { seen.push_back(progress.step); });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(seen, (std::vector<int64_t>{0, 100, 200, 230}));
  EXPECT_EQ(report->test_accuracy.steps, seen);
  EXPECT_EQ(report->step_times.count, 230);
  EXPECT_EQ(report->parameters.size(), 2u);
  EXPECT_EQ(report->parameters[0].shape, (std::vector<int64_t>{784, 10}));
  int64_t counted = 0, right = 0;
  for (size_t label = 0; label < report->confusion.size(); ++label) {
    for (const int64_t n : report->confusion[label]) counted += n;
    right += report->confusion[label][label];
  }
  EXPECT_EQ(counted, 600);
  EXPECT_DOUBLE_EQ(report->final_accuracy, static_cast<double>(right) / 600);
}

TEST(TrainTest, ATraceChangesNoNumberAndIsWritten) {
  const std::string path = testing::TempDir() + "train_test_step.pb";
  TrainOptions options{.model = "mlp_dropout", .steps = 3, .batch = 20, .seed = 1, .threads = 1};
  const ReportData untraced = MustTrain(options);
  options.trace = path;
  EXPECT_EQ(MustTrain(options).test_loss.values, untraced.test_loss.values);
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  for (const char* const text : {"MatMul", "caller", "/device:CPU:0"}) {
    EXPECT_NE(bytes.find(text), std::string::npos) << text;
  }
  std::remove(path.c_str());
}

TEST(TrainTest, TheModelIsExported) {
  const std::string folder = testing::TempDir() + "train_test_model";
  for (const char* model : {"mlp_dropout", "softmax"}) {  // the second one replaces the first
    TrainOptions options{.model = model, .steps = 40, .batch = 20, .seed = 1, .threads = 1};
    options.export_dir = folder;
    ASSERT_EQ(CheckOutputs(options, ""), Status());
    const ReportData report = MustTrain(options);
    const auto loaded = SavedModelBundle::Load(folder, {"serve"});
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    const Examples& test = SmallSet().test;
    Tensor images(DataType::kFloat, {test.size(), kImageSide, kImageSide, 1});
    std::copy_n(test.image(0).data(), test.size() * kPixels, images.data<float>());
    const auto outputs = (*loaded)->Run("serving_default", {{"images", images}});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    int64_t right = 0;
    for (int64_t i = 0; i < test.size(); ++i)
      right += outputs->at("digits").data<int64_t>()[i] == test.labels[static_cast<size_t>(i)] ? 1 : 0;
    EXPECT_DOUBLE_EQ(static_cast<double>(right) / static_cast<double>(test.size()), report.final_accuracy);
  }
  std::filesystem::remove_all(folder);
}

TEST(TrainTest, TrainingEndsWhenAskedTo) {
  TrainOptions options{.model = "softmax", .steps = 1000, .batch = 20, .seed = 1, .threads = 1};
  int left = 7;
  options.stop = [&] { return left-- == 0; };
  const ReportData report = MustTrain(options);
  EXPECT_EQ(report.steps, 7);
  EXPECT_EQ(report.test_accuracy.steps, (std::vector<int64_t>{0, 7}));
}

TEST(TrainTest, OutputsAreCheckedBeforeTheTraining) {
  const std::string folder = testing::TempDir() + "train_test_outputs";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/file") << "text";
  EXPECT_EQ(CheckOutputs({}, folder + "/report.html"), Status());
  EXPECT_TRUE(errors::IsNotFound(CheckOutputs({}, folder + "/no/report.html")));
  EXPECT_TRUE(errors::IsFailedPrecondition(CheckOutputs({}, folder)));
  EXPECT_TRUE(errors::IsNotFound(CheckOutputs({.trace = folder + "/no/t"}, "")));
  EXPECT_TRUE(errors::IsAlreadyExists(CheckOutputs({.export_dir = folder}, "")));
  EXPECT_TRUE(errors::IsAlreadyExists(CheckOutputs({.export_dir = folder + "/file"}, "")));
  EXPECT_EQ(CheckOutputs({.export_dir = folder + "/model"}, ""), Status());
  std::filesystem::remove_all(folder);
}

TEST(TrainTest, OptionsThatCannotBeAreErrors) {
  EXPECT_TRUE(errors::IsInvalidArgument(Train(SmallSet(), {.model = "big"}, nullptr).status()));
  EXPECT_TRUE(errors::IsInvalidArgument(Train(SmallSet(), {.steps = -1}, nullptr).status()));
  EXPECT_TRUE(
      errors::IsInvalidArgument(Train(SmallSet(), {.steps = 0, .trace = "/nowhere"}, nullptr).status()));
  EXPECT_TRUE(errors::IsInvalidArgument(Train(SmallSet(), {.batch = 0}, nullptr).status()));
  EXPECT_TRUE(errors::IsInvalidArgument(Train(SmallSet(), {.batch = 5000}, nullptr).status()));
}

TEST(TrainTest, TheRateFallsAsDocumented) {
  EXPECT_FLOAT_EQ(LearningRate(0), 0.003f);
  EXPECT_NEAR(LearningRate(2000), 0.0001 + 0.0029 / 2.718281828, 1e-8);
  EXPECT_NEAR(LearningRate(1000000), 0.0001, 1e-9);
}

}  // namespace
}  // namespace millrace::mnist
