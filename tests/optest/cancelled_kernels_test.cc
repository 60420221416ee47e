// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Kernels whose work grows faster than their inputs check for cancellation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/testing.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

// Runs it once normally, which must succeed, and once in a cancelled step.
void ExpectStops(KernelRunner& runner) {
  EXPECT_TRUE(runner.Run().ok());
  runner.cancellation().StartCancel();
  const auto stopped = runner.Run();
  EXPECT_TRUE(errors::IsCancelled(stopped.status())) << stopped.status();
  EXPECT_THAT(std::string(stopped.status().message()), testing::HasSubstr("The step was cancelled"));
}

Tensor Scores() {
  Tensor t(DataType::kFloat, TensorShape({3, 1, 3}));
  for (int64_t i = 0; i < t.num_elements(); ++i) t.data<float>()[i] = static_cast<float>(i % 4);
  return t;
}
// Indices, values and shape of the sparse tensor [[0, 1]].
Tensor Indices() {
  Tensor t(DataType::kInt64, TensorShape({2, 2}));
  for (int64_t i = 0; i < 4; ++i) t.data<int64_t>()[i] = i / 3;
  return t;
}
Tensor Labels() {
  Tensor t(DataType::kInt32, TensorShape({2}));
  for (int32_t i = 0; i < 2; ++i) t.data<int32_t>()[i] = i;
  return t;
}
Tensor Shape() {
  Tensor t(DataType::kInt64, TensorShape({2}));
  for (int64_t i = 0; i < 2; ++i) t.data<int64_t>()[i] = i + 1;
  return t;
}
Tensor Steps() {
  Tensor t(DataType::kInt32, TensorShape({1}));
  t.data<int32_t>()[0] = 3;
  return t;
}

TEST(CancelledKernelsTest, CtcLoss) {
  KernelRunner runner("CTCLoss");
  ExpectStops(runner.Input(Scores()).Input(Indices()).Input(Labels()).Input(Steps()));
}

TEST(CancelledKernelsTest, CtcBeamSearch) {
  KernelRunner runner("CTCBeamSearchDecoder");
  runner.Attr("beam_width", int64_t{4}).Attr("top_paths", int64_t{1});
  ExpectStops(runner.Input(Scores()).Input(Steps()));
}

TEST(CancelledKernelsTest, PoolsOfVolumes) {
  Tensor volume(DataType::kFloat, TensorShape({1, 2, 2, 2, 1}));
  for (int64_t i = 0; i < 8; ++i) volume.data<float>()[i] = static_cast<float>(i);
  const std::vector<int64_t> ones(5, 1);
  for (const char* op : {"MaxPool3D", "AvgPool3D", "MaxPool3DGrad", "MaxPool3DGradGrad"}) {
    SCOPED_TRACE(op);
    KernelRunner runner(op);
    runner.Attr("ksize", ones).Attr("strides", ones).Attr("padding", std::string("SAME"));
    const bool forward = !std::string_view(op).ends_with("Grad");
    for (int i = 0; i < (forward ? 1 : 3); ++i) runner.Input(volume);
    ExpectStops(runner);
  }
}

TEST(CancelledKernelsTest, EditDistance) {
  KernelRunner runner("EditDistance");
  runner.Input(Indices()).Input(Labels()).Input(Shape()).Input(Indices()).Input(Labels()).Input(Shape());
  ExpectStops(runner);
}

}  // namespace
}  // namespace millrace
