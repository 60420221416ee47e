// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "eager/eager_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <latch>
#include <memory>
#include <string>
#include <thread>

namespace millrace {
namespace {

std::unique_ptr<EagerContext> MakeContext(bool is_async = false) {
  auto made = EagerContext::Make({.session = {}, .is_async = is_async});
  EXPECT_EQ(made.status(), Status());
  return *std::move(made);
}

EagerOp MakeOp(EagerContext& context, const std::string& name) {
  bool is_function = false;
  EagerOp op;
  op.Reset(&context, context.LookUp(name, &is_function).value(), is_function);
  return op;
}

StatusOr<Tensor> RunOp(EagerContext& context, const EagerOp& op) {
  EagerTensor* output = nullptr;
  int count = 0;
  MR_RETURN_IF_ERROR(context.Execute(op, {&output, 1}, &count));
  const RefPtr<EagerTensor> result(output);
  MR_RETURN_IF_ERROR(result->Await());
  return result->value();
}

// An op of a kernel of its own for each `number`.
StatusOr<Tensor> Replace(EagerContext& context, int number) {
  EagerOp op = MakeOp(context, "StaticRegexReplace");
  const auto text = MakeRef<EagerTensor>(Tensor::Scalar("number"), InternDeviceName("/device:CPU:0"));
  op.AddInput(text.get());
  op.SetAttr("pattern", AttrValue("number"));
  op.SetAttr("rewrite", AttrValue(StrCat("number ", number)));
  return RunOp(context, op);
}

StatusOr<Tensor> Draw(EagerContext& context) {
  EagerOp op = MakeOp(context, "RandomUniform");
  const auto shape = MakeRef<EagerTensor>(Tensor::Vector<int32_t>({4}), InternDeviceName("/device:CPU:0"));
  op.AddInput(shape.get());
  op.SetAttr("dtype", AttrValue(DataType::kFloat));
  op.SetAttr("seed", AttrValue(7));
  return RunOp(context, op);
}

TEST(EagerContext, KernelsOfManyAttributesAreBounded) {
  const auto context = MakeContext();
  const StatusOr<Tensor> first = Draw(*context);
  ASSERT_EQ(first.status(), Status());
  for (int i = 0; i < 10000; ++i) {
    const StatusOr<Tensor> replaced = Replace(*context, i);
    ASSERT_EQ(replaced.status(), Status());
    ASSERT_EQ(replaced->scalar<std::string>(), StrCat("number ", i));
  }
  EXPECT_LE(context->num_kernels_for_test(), 4096u);
  EXPECT_LE(context->num_dropped_kernels_for_test(), 1u);
  // The kernel of random numbers has gone on from its state.
  const StatusOr<Tensor> second = Draw(*context);
  ASSERT_EQ(second.status(), Status());
  EXPECT_NE(first->flat<float>()[0], second->flat<float>()[0]);
}

TEST(EagerContext, ClearedKernelsAreFreedOnceNoThreadHasThem) {
  const auto context = MakeContext();
  ASSERT_EQ(Replace(*context, 1).status(), Status());
  std::latch ran(1);
  std::latch cleared(1);
  std::thread other([&] {
    EXPECT_EQ(Replace(*context, 1).status(), Status());
    EXPECT_EQ(Replace(*context, 2).status(), Status());
    ran.count_down();
    cleared.wait();
  });
  ran.wait();
  EXPECT_EQ(context->num_kernels_for_test(), 2u);
  context->ClearKernels();
  EXPECT_EQ(context->num_kernels_for_test(), 0u);
  EXPECT_EQ(context->num_dropped_kernels_for_test(), 2u);
  cleared.count_down();
  other.join();
  context->ClearKernels();
  EXPECT_EQ(context->num_dropped_kernels_for_test(), 0u);
}

TEST(EagerContext, ClearedKernelsStartAgain) {
  const auto context = MakeContext();
  const StatusOr<Tensor> first = Draw(*context);
  context->ClearKernels();
  const StatusOr<Tensor> again = Draw(*context);
  ASSERT_TRUE(first.ok() && again.ok());
  EXPECT_THAT(again->flat<float>(), ::testing::ElementsAreArray(first->flat<float>()));
}

TEST(EagerContext, KernelsOfResourcesStayForTheirHandles) {
  const auto context = MakeContext();
  EagerOp make = MakeOp(*context, "FIFOQueueV2");
  make.SetAttr("component_types", AttrValue(std::vector<DataType>{DataType::kInt32}));
  make.SetAttr("shapes", AttrValue(std::vector<PartialShape>{PartialShape({})}));
  EagerTensor* output = nullptr;
  int count = 0;
  ASSERT_EQ(context->Execute(make, {&output, 1}, &count), Status());
  const RefPtr<EagerTensor> queue(output);
  context->ClearKernels();
  context->ClearKernels();
  EXPECT_EQ(context->num_dropped_kernels_for_test(), 1u);
  EagerOp size = MakeOp(*context, "QueueSizeV2");
  size.AddInput(queue.get());
  const StatusOr<Tensor> found = RunOp(*context, size);
  ASSERT_EQ(found.status(), Status());
  EXPECT_EQ(found->scalar<int32_t>(), 0);
}

TEST(EagerContext, AsynchronousOpsHoldTheirKernels) {
  const auto context = MakeContext(true);
  for (int i = 0; i < 100; ++i) {
    const StatusOr<Tensor> replaced = Replace(*context, i);
    ASSERT_EQ(replaced.status(), Status());
    if (i % 10 == 0) context->ClearKernels();
  }
  EXPECT_EQ(context->Await(), Status());
}

TEST(EagerContext, ThreadsOutliveContexts) {
  std::latch ran(1);
  std::latch gone(1);
  auto context = MakeContext();
  std::thread other([&] {
    EXPECT_EQ(Replace(*context, 1).status(), Status());
    ran.count_down();
    gone.wait();
    const auto next = MakeContext();
    EXPECT_EQ(Replace(*next, 1).status(), Status());
  });
  ran.wait();
  context.reset();
  gone.count_down();
  other.join();
}

TEST(EagerContext, ThreadsClearWhileOthersRun) {
  const auto context = MakeContext();
  std::array<std::thread, 3> threads;
  for (int t = 0; t < 3; ++t) {
    threads[static_cast<size_t>(t)] = std::thread([&, t] {
      for (int i = 0; i < 2000; ++i) {
        ASSERT_EQ(Replace(*context, i % 5).status(), Status());
        if (i % 50 == t) context->ClearKernels();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  context->ClearKernels();
  EXPECT_EQ(context->num_dropped_kernels_for_test(), 0u);
}

}  // namespace
}  // namespace millrace
