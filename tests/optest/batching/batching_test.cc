// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Batch, Unbatch and UnbatchGrad, with concurrent kernels on shared resources.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "kernel/testing.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<Tensor>;

constexpr int64_t kNever = int64_t{1} << 60;  // microseconds

class BatchingTest : public ::testing::Test {
 protected:
  // A node of Batch; all share a queue.
  struct BatchNode {
    int64_t max_size = 4;
    int64_t timeout_micros = kNever;
    int64_t max_enqueued = 10;
    int64_t threads = 1;
    std::vector<int64_t> allowed = {};
  };
  void Set(KernelRunner& runner, const BatchNode& node, const Tensors& inputs) {
    std::vector<DataType> types;
    for (const Tensor& in : inputs) {
      runner.Input(in);
      types.push_back(in.dtype());
    }
    runner.Attr("num_batch_threads", node.threads)
        .Attr("max_batch_size", node.max_size)
        .Attr("batch_timeout_micros", node.timeout_micros)
        .Attr("max_enqueued_batches", node.max_enqueued)
        .Attr("allowed_batch_sizes", node.allowed)
        .Attr("grad_timeout_micros", int64_t{0})
        .Attr("T", types)
        .Name("batch")
        .Resources(&resources_);
  }
  StatusOr<Tensors> Batch(const BatchNode& node, const Tensors& inputs) {
    KernelRunner runner("Batch");
    Set(runner, node, inputs);
    return runner.Run();
  }
  std::string BatchError(const BatchNode& node, const Tensors& inputs) {
    return std::string(Batch(node, inputs).status().message());
  }
  StatusOr<Tensor> Unbatch(const Tensor& data, const Tensor& index, int64_t id, int64_t timeout_micros) {
    KernelRunner runner("Unbatch");
    runner.Input(data).Input(index).Input(Tensor::Scalar(id)).Attr("timeout_micros", timeout_micros);
    return runner.Name("unbatch").Resources(&resources_).RunOne();
  }
  StatusOr<Tensor> UnbatchGrad(const Tensor& data, const Tensor& index, const Tensor& grad, int64_t id) {
    KernelRunner runner("UnbatchGrad");
    runner.Input(data).Input(index).Input(grad).Input(Tensor::Scalar(id));
    return runner.Name("grad").Resources(&resources_).RunOne();
  }

  ResourceManager resources_{std::string(KernelRunner::kDeviceName)};
};

Tensor Index(const std::vector<int64_t>& entries) {
  return Tensor::From(entries, TensorShape({static_cast<int64_t>(entries.size() / 3), 3}));
}
const Tensor& NoIndex() {
  static const Tensor none(DataType::kInt64, TensorShape({0, 3}));
  return none;
}

TEST_F(BatchingTest, OneStepIsABatchOfItsOwnAfterTheTimeout) {
  const auto out = Batch({.timeout_micros = 1000},
                         {Tensor::Vector<float>({1, 2}), Tensor::Vector<std::string>({"a", "b"})});
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectTensorEqual((*out)[0], Tensor::Vector<float>({1, 2}));
  ExpectTensorEqual((*out)[1], Tensor::Vector<std::string>({"a", "b"}));
  ExpectTensorEqual((*out)[2], Index({(*out)[3].scalar<int64_t>(), 0, 2}));
}

TEST_F(BatchingTest, StepsTogetherAreOneBatch) {
  std::vector<std::optional<StatusOr<Tensors>>> out(3);
  std::vector<std::thread> steps;
  const std::vector<int64_t> rows = {1, 2, 1};
  for (size_t i = 0; i < 3; ++i) {
    steps.emplace_back([&, i] {
      Tensor in(DataType::kInt32, TensorShape({rows[i], 2}));
      std::fill_n(in.data<int32_t>(), in.num_elements(), static_cast<int32_t>(i));
      out[i] = Batch({}, {in});
    });
  }
  for (std::thread& step : steps) step.join();
  std::map<int64_t, size_t> step_of;  // by id
  const Tensors* batch = nullptr;
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(out[i]->ok()) << out[i]->status();
    const Tensors& got = **out[i];
    step_of[got[2].scalar<int64_t>()] = i;
    if (got[1].dim(0) > 0) {
      ASSERT_EQ(batch, nullptr);
      batch = &got;
    } else {
      EXPECT_EQ(got[0].shape(), TensorShape({0, 2}));
    }
  }
  ASSERT_NE(batch, nullptr);
  ASSERT_EQ(step_of.size(), 3u);
  ASSERT_EQ((*batch)[0].shape(), TensorShape({4, 2}));
  ASSERT_EQ((*batch)[1].shape(), TensorShape({3, 3}));
  int64_t end = 0;
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t* entry = (*batch)[1].data<int64_t>() + 3 * i;
    const size_t step = step_of.at(entry[0]);
    EXPECT_EQ(entry[1], end);
    end = entry[2];
    EXPECT_EQ(end - entry[1], rows[step]);
    for (int64_t j = 2 * entry[1]; j < 2 * end; ++j) {
      EXPECT_EQ((*batch)[0].data<int32_t>()[j], static_cast<int32_t>(step));
    }
  }
}

TEST_F(BatchingTest, RowsArePaddedWithTheFirstToAnAllowedSize) {
  const BatchNode node{.max_size = 8, .timeout_micros = 0, .allowed = {1, 5, 8}};
  const auto out = Batch(node, {Tensor::From<int8_t>({1, 2, 3, 4}, TensorShape({2, 2}))});
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectTensorEqual((*out)[0], Tensor::From<int8_t>({1, 2, 3, 4, 1, 2, 1, 2, 1, 2}, TensorShape({5, 2})));
  EXPECT_EQ((*out)[1].data<int64_t>()[2], 2);
  EXPECT_THAT(BatchError(node, {Tensor(DataType::kInt8, TensorShape({0, 2}))}),
              HasSubstr("Cannot use an empty tensor with zero rows as padding"));
}

TEST_F(BatchingTest, InputsThatAreNoRowsOfABatchAreRefused) {
  EXPECT_THAT(BatchError({}, {Tensor::Scalar(1.f)}),
              HasSubstr("Batching input tensors must have at least one dimension"));
  EXPECT_THAT(BatchError({}, {Tensor::Vector<float>({1}), Tensor::Vector<float>({1, 2})}),
              HasSubstr("must have equal 0th-dimension size"));
  EXPECT_THAT(BatchError({.max_size = 2}, {Tensor::Vector<float>({1, 2, 3})}),
              HasSubstr("Task size 3 is larger than maximum batch size 2"));
}

TEST_F(BatchingTest, OptionsOutOfRangeAreRefused) {
  const Tensors in = {Tensor::Vector<float>({1})};
  EXPECT_THAT(BatchError({.max_size = 0}, in), HasSubstr("max_batch_size must be positive; was 0"));
  EXPECT_THAT(BatchError({.threads = -1}, in), HasSubstr("num_batch_threads must be positive; was -1"));
  EXPECT_THAT(BatchError({.timeout_micros = -1}, in), HasSubstr("batch_timeout_micros must be non-negative"));
  EXPECT_THAT(BatchError({.max_enqueued = -1}, in), HasSubstr("max_enqueued_batches must be non-negative"));
  EXPECT_THAT(BatchError({.allowed = {2, 2, 4}}, in), HasSubstr("must be monotonically increasing"));
  EXPECT_THAT(BatchError({.allowed = {2, 3}}, in), HasSubstr("must equal max_batch_size"));
}

TEST_F(BatchingTest, AWaitingStepEndsWhenItIsCancelled) {
  KernelRunner runner("Batch");
  Set(runner, {}, {Tensor::Vector<float>({1})});
  std::optional<StatusOr<Tensors>> out;
  std::thread step([&] { out = runner.Run(); });
  runner.cancellation().StartCancel();
  step.join();
  EXPECT_TRUE(errors::IsCancelled(out->status())) << out->status();
}

TEST_F(BatchingTest, AWaitingStepEndsWithItsContainer) {
  KernelRunner runner("Batch");
  Set(runner, {}, {Tensor::Vector<float>({1})});
  std::optional<StatusOr<Tensors>> out;
  std::thread step([&] { out = runner.Run(); });
  while (resources_.DebugString().find("1 waiting") == std::string::npos) std::this_thread::yield();
  resources_.Clear();
  step.join();
  EXPECT_TRUE(errors::IsCancelled(out->status())) << out->status();
}

TEST_F(BatchingTest, UnbatchHandsRowsToTheStepsTheyAreFor) {
  std::optional<StatusOr<Tensor>> other;
  std::thread step(
      [&] { other = Unbatch(Tensor(DataType::kFloat, TensorShape({0})), NoIndex(), 7, kNever); });
  const auto own = Unbatch(Tensor::Vector<float>({1, 2, 3, 9}), Index({5, 0, 1, 7, 1, 3}), 5, kNever);
  step.join();
  ASSERT_TRUE(own.ok() && other->ok()) << own.status() << other->status();
  ExpectTensorEqual(*own, Tensor::Vector<float>({1}));
  ExpectTensorEqual(**other, Tensor::Vector<float>({2, 3}));
}

TEST_F(BatchingTest, UnbatchWaitsNoLongerThanItsTimeout) {
  const auto out = Unbatch(Tensor(DataType::kFloat, TensorShape({0})), NoIndex(), 7, 1000);
  EXPECT_EQ(out.status().code(), ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(out.status().message()),
              HasSubstr("Batched data did not arrive within timeout window."));
}

TEST_F(BatchingTest, UnbatchRefusesAnIndexThatDoesNotFit) {
  const Tensor data = Tensor::Vector<float>({1, 2});
  const auto error = [&](const Tensor& in, const Tensor& index) {
    return std::string(Unbatch(in, index, 1, 0).status().message());
  };
  EXPECT_THAT(error(data, Index({1, 0, 3})), HasSubstr("says rows 0 to 3 of a tensor of 2"));
  EXPECT_THAT(error(data, Index({1, -1, 1})), HasSubstr("says rows -1 to 1"));
  EXPECT_THAT(error(data, Index({1, 2, 1})), HasSubstr("says rows 2 to 1"));
  EXPECT_THAT(error(data, Index({1, INT64_MIN, INT64_MAX})), HasSubstr("of a tensor of 2"));
  EXPECT_THAT(error(data, Index({1, 0, 1, 2, 0, 1, 3, 0, 1})),
              HasSubstr("Expected 0th dimension size to be no greater than 2; Got: 3."));
  EXPECT_THAT(error(data, Tensor(DataType::kInt64, TensorShape({1, 2}))),
              HasSubstr("Expected 1st dimension size to be 3 ; Got: 2."));
  EXPECT_THAT(error(data, Tensor::Scalar<int64_t>(1)), HasSubstr("Wrong shape for index tensor"));
  EXPECT_THAT(error(Tensor::Scalar(1.f), Index({1, 0, 1})), HasSubstr("at least one dimension"));
  EXPECT_THAT(error(data, Index({1, 0, 1, 1, 1, 2})),
              HasSubstr("Multiple tensors returned for same batch key."));
}

TEST_F(BatchingTest, GradientsOfStepsAreJoinedForTheOneThatHasTheBatch) {
  std::optional<StatusOr<Tensor>> batch;
  std::thread step([&] {
    batch = UnbatchGrad(Tensor::Vector<float>({1, 2, 3}), Index({5, 0, 1, 7, 1, 3}),
                        Tensor::Vector<float>({10}), 5);
  });
  const auto other =
      UnbatchGrad(Tensor(DataType::kFloat, TensorShape({0})), NoIndex(), Tensor::Vector<float>({20, 30}), 7);
  step.join();
  ASSERT_TRUE(other.ok() && batch->ok()) << other.status() << batch->status();
  EXPECT_EQ(other->shape(), TensorShape({0}));
  ExpectTensorEqual(**batch, Tensor::Vector<float>({10, 20, 30}));
}

TEST_F(BatchingTest, GradientsThatFitNoBatchAreRefused) {
  const Tensor none(DataType::kFloat, TensorShape({0}));
  const Tensor one = Tensor::Vector<float>({1});
  const auto error = [&](const Tensor& data, const Tensor& index, const Tensor& grad, int64_t id) {
    return std::string(UnbatchGrad(data, index, grad, id).status().message());
  };
  EXPECT_EQ(error(none, NoIndex(), one, 1), "");
  EXPECT_THAT(error(none, NoIndex(), one, 1), HasSubstr("Two runs with the same batch key."));
  EXPECT_THAT(error(one, NoIndex(), one, 2), HasSubstr("batch_index is empty while the tensor isn't."));
  EXPECT_THAT(error(one, Index({3, 0, 1, 3, 0, 1}), one, 3), HasSubstr("one step more than once"));
  EXPECT_THAT(error(one, Index({4, 0, 1}), Tensor::Scalar(1.f), 4), HasSubstr("at least one dimension"));
  EXPECT_THAT(error(one, Tensor::Scalar<int64_t>(4), one, 4), HasSubstr("Wrong shape for index tensor"));
  EXPECT_EQ(error(none, NoIndex(), Tensor::From<float>({1, 2}, TensorShape({1, 2})), 5), "");
  EXPECT_THAT(error(one, Index({6, 0, 1, 5, 1, 2}), one, 6),
              HasSubstr("Ranks of all input tensors should match"));
}

}  // namespace
}  // namespace millrace
