// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// BatchFunction: calls of several steps as one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tensor/testing.h"
#include "tests/session/function_fixture.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMinute = 60'000'000;  // microseconds

class BatchFunctionTest : public FunctionTest {
 protected:
  struct Options {
    int64_t max_size = 4;
    int64_t timeout_micros = kMinute;
    int64_t max_enqueued = 10;
    int64_t threads = 1;
    std::vector<int64_t> allowed = {};
  };
  // Adds "y", for the placeholder "x" and the captured inputs of the function.
  void Batch(const std::string& function, const Options& o, const std::vector<std::string>& captured = {},
             const std::vector<DataType>& captured_types = {}) {
    g_.Placeholder("x");
    std::vector<std::string> inputs = {"x"};
    inputs.insert(inputs.end(), captured.begin(), captured.end());
    Node("y", "BatchFunction", inputs,
         {{"f", Fn(function)},
          {"num_batch_threads", o.threads},
          {"max_batch_size", o.max_size},
          {"batch_timeout_micros", o.timeout_micros},
          {"max_enqueued_batches", o.max_enqueued},
          {"allowed_batch_sizes", o.allowed},
          {"Tin", Types(1)},
          {"Tcaptured", captured_types},
          {"Tout", Types(1)}});
  }
  // y = x + the number of rows, which identifies the number of steps in the batch
  void RowsFunction() {
    g_.Function(
        FunctionBuilder("Rows")
            .Arg("x: float")
            .Ret("y: float")
            .Node("size", "Size", {"x"}, kFloat)
            .Node("count", "Cast", {"size:output"}, {{"SrcT", DataType::kInt32}, {"DstT", DataType::kFloat}})
            .Node("add", "Add", {"x", "count:y"}, kFloat)
            .Return("y", "add:z"));
  }
  void Queue(const std::string& name) {
    Node(name, "FIFOQueueV2", {},
         {{"component_types", Types(1)}, {"shapes", std::vector<PartialShape>{TensorShape()}}});
  }
  // Reports on the queue "began" that it runs, and waits for the queue "go".
  void BlockingFunction() {
    g_.Function(FunctionBuilder("Blocking")
                    .Arg("x: float")
                    .Arg("began: resource")
                    .Arg("go: resource")
                    .Ret("y: float")
                    .Stateful()
                    .Node("one", "Const", {}, ConstOf(F(1)))
                    .Node("say", "QueueEnqueueV2", {"began", "one:output"}, {{"Tcomponents", Types(1)}})
                    .Node("take", "QueueDequeueV2", {"go", "^say"}, {{"component_types", Types(1)}})
                    .Node("add", "Add", {"x", "take:components:0"}, kFloat)
                    .Return("y", "add:z"));
    Queue("began");
    Queue("go");
    Node("await", "QueueDequeueV2", {"began"}, {{"component_types", Types(1)}});
    g_.Const("hundred", F(100));
    Node("release", "QueueEnqueueV2", {"go", "hundred"}, {{"Tcomponents", Types(1)}});
  }
  Status RunFor(int64_t timeout_in_ms, const Tensor& x, Tensor* y) {
    RunOptions options;
    options.timeout_in_ms = timeout_in_ms;
    std::vector<Tensor> out;
    MR_RETURN_IF_ERROR(session_->Run(options, {{"x", x}}, {"y"}, {}, &out, nullptr));
    *y = out[0];
    return Status();
  }
};

TEST_P(BatchFunctionTest, StepsTogetherAreOneCall) {
  RowsFunction();
  Batch("Rows", {.max_size = 6});
  Make();
  std::vector<Status> statuses(3);
  Tensor out[3];
  std::vector<std::thread> steps;
  for (size_t i = 0; i < 3; ++i) {
    steps.emplace_back([&, i] {
      const std::vector<float> x(i + 1, static_cast<float>(i));
      statuses[i] = RunFor(60'000, Tensor::Vector<float>(x), &out[i]);
    });
  }
  for (std::thread& step : steps) step.join();
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(statuses[i].ok()) << statuses[i];
    ASSERT_EQ(out[i].shape(), TensorShape({static_cast<int64_t>(i) + 1}));
    for (const float y : out[i].flat<float>()) EXPECT_EQ(y, static_cast<float>(i) + 6);
  }
}

TEST_P(BatchFunctionTest, ManyStepsGetTheirOwnRows) {
  RowsFunction();
  Batch("Rows", {.max_size = 8, .timeout_micros = 100, .max_enqueued = 1000, .threads = 3});
  Make();
  std::atomic<int> wrong{0};
  std::vector<std::thread> steps;
  steps.reserve(6);
  for (int t = 0; t < 6; ++t) {
    steps.emplace_back([&, t] {
      for (int i = 0; i < 30; ++i) {
        Tensor y;
        const float x = static_cast<float>(1000 * t + 10 * i);
        const Status status = RunFor(60'000, Tensor::Vector<float>({x}), &y);
        if (!status.ok() || y.num_elements() != 1) {
          ++wrong;
        } else if (const float rows = y.data<float>()[0] - x; rows < 1 || rows > 8) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& step : steps) step.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(BatchFunctionTest, BatchesArePaddedToAnAllowedSize) {
  RowsFunction();
  Batch("Rows", {.max_size = 8, .timeout_micros = 0, .allowed = {1, 5, 8}});
  Make();
  Tensor y;
  ASSERT_EQ(RunFor(60'000, Tensor::Vector<float>({1, 2, 3}), &y), Status());
  ExpectTensorEqual(y, Tensor::Vector<float>({6, 7, 8}));
}

TEST_P(BatchFunctionTest, AQueueThatIsFullRefusesMore) {
  BlockingFunction();
  Batch("Blocking", {.max_size = 1, .max_enqueued = 1}, {"began", "go"}, Types(2, DataType::kResource));
  Make();
  Status statuses[2];
  Tensor out[2];
  std::thread first([&] { statuses[0] = RunFor(60'000, Tensor::Vector<float>({1}), &out[0]); });
  std::vector<Tensor> began;
  ASSERT_EQ(session_->Run({}, {"await"}, {}, &began), Status());
  // The thread is busy; one of these waits, the other finds the queue full.
  std::atomic<int> ended{0};
  Status more[2];
  std::thread others[2];
  for (int i = 0; i < 2; ++i) {
    others[i] = std::thread([&, i] {
      Tensor y;
      more[i] = RunFor(60'000, Tensor::Vector<float>({2}), &y);
      if (ended.fetch_add(1) == 0) {
        for (int k = 0; k < 2; ++k) {
          EXPECT_EQ(session_->Run({}, {}, {"release"}, nullptr), Status());
        }
      }
    });
  }
  for (std::thread& other : others) other.join();
  first.join();
  EXPECT_EQ(statuses[0], Status());
  ExpectTensorEqual(out[0], Tensor::Vector<float>({101}));
  const Status& full = more[0].ok() ? more[1] : more[0];
  EXPECT_TRUE(more[0].ok() || more[1].ok());
  EXPECT_EQ(full.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(std::string(full.message()),
              HasSubstr("The batch scheduling queue to which this task was submitted is full"));
}

TEST_P(BatchFunctionTest, AStepThatWaitsForItsBatchHasATimeout) {
  RowsFunction();
  Batch("Rows", {});
  Make();
  Tensor y;
  EXPECT_EQ(RunFor(20, Tensor::Vector<float>({1}), &y).code(), ErrorCode::kDeadlineExceeded);
  // The cancelled task was removed: this batch has four rows.
  ASSERT_EQ(RunFor(60'000, Tensor::Vector<float>({1, 2, 3, 4}), &y), Status());
  ExpectTensorEqual(y, Tensor::Vector<float>({5, 6, 7, 8}));
}

TEST_P(BatchFunctionTest, ASessionEndsWhileABatchRuns) {
  BlockingFunction();
  Batch("Blocking", {.max_size = 1}, {"began", "go"}, Types(2, DataType::kResource));
  Make();
  Status status;
  std::thread step([&] {
    Tensor y;
    status = RunFor(60'000, Tensor::Vector<float>({1}), &y);
  });
  std::vector<Tensor> began;
  ASSERT_EQ(session_->Run({}, {"await"}, {}, &began), Status());
  EXPECT_EQ(session_->Close(), Status());
  step.join();
  EXPECT_FALSE(status.ok());
}

TEST_P(BatchFunctionTest, ErrorsOfTheFunctionReachTheStep) {
  g_.Function(FunctionBuilder("Total")
                  .Arg("x: float")
                  .Ret("y: float")
                  .Node("axes", "Const", {}, ConstOf(Tensor::Vector<int32_t>({0})))
                  .Node("sum", "Sum", {"x", "axes:output"}, {{"T", DataType::kFloat}})
                  .Return("y", "sum:output"));
  Batch("Total", {.timeout_micros = 0});
  Make();
  EXPECT_THAT(Error({{"x", Tensor::Vector<float>({1, 2})}}, "y"),
              HasSubstr("Batched output tensor has 0 dimensions"));
  EXPECT_THAT(Error({{"x", Tensor::From<float>({1, 2, 3, 4, 5, 6}, TensorShape({2, 3}))}}, "y"),
              HasSubstr("0th dimension does not equal the sum of the 0th dimension sizes"));
  EXPECT_THAT(Error({{"x", F(1)}}, "y"), HasSubstr("must have at least one dimension"));
}

INSTANTIATE_TEST_SUITE_P(, BatchFunctionTest, FunctionSetups(),
                         [](const auto& setup) { return std::string(setup.param.name); });

}  // namespace
}  // namespace millrace
