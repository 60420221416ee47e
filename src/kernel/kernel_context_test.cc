// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernel/kernel_context.h"

#include <gtest/gtest.h>

#include <memory>

#include "device/device.h"
#include "kernel/op_kernel.h"

namespace millrace {
namespace {

class NullKernel : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext&) override { return Status(); }
};

// A context of one kernel with `num_inputs` float inputs and one float output.
class KernelContextTest : public ::testing::Test {
 protected:
  void Make(std::vector<Tensor> inputs, DataType output_type = DataType::kFloat) {
    DeviceFactoryRegistry factories;
    ASSERT_TRUE(RegisterCpuDeviceFactory(factories).ok());
    auto devices = factories.CreateDevices(DeviceOptions{});
    ASSERT_TRUE(devices.ok()) << devices.status();
    devices_ = *std::move(devices);
    step_.UseDevice(*devices_->client_device());
    auto props = std::make_shared<NodeProps>();
    props->op = &registration_;
    props->output_types = {output_type};
    for (Tensor& t : inputs) {
      props->input_types.push_back(t.dtype());
      TensorValue& v = inputs_.emplace_back();
      v.value = std::move(t);
      v.kind = TensorValue::Kind::kValue;
    }
    outputs_.resize(1);
    KernelConstruction c("n", props, *step_.device, resources_);
    kernel_ = std::make_unique<NullKernel>(c);
    context_ = std::make_unique<KernelContext>(step_, kernel_.get(), inputs_, outputs_);
  }

  OpRegistration registration_;
  ResourceManager resources_{"d"};
  std::unique_ptr<DeviceSet> devices_;
  StepServices step_;
  std::vector<TensorValue> inputs_, outputs_;
  std::unique_ptr<NullKernel> kernel_;
  std::unique_ptr<KernelContext> context_;
};

std::vector<Tensor> One(Tensor t) {
  std::vector<Tensor> v;
  v.push_back(std::move(t));
  return v;
}

TEST_F(KernelContextTest, AllocateOutputMakesATensorOfTheOutputsType) {
  Make({}, DataType::kInt64);
  auto out = context_->AllocateOutput(0, TensorShape({2, 3}));
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)->dtype(), DataType::kInt64);
  EXPECT_EQ((*out)->shape(), TensorShape({2, 3}));
  EXPECT_EQ(outputs_[0].kind, TensorValue::Kind::kValue);
}

TEST_F(KernelContextTest, AnOversizedOutputIsAnError) {
  Make({});
  auto out = context_->AllocateOutput(0, TensorShape({int64_t{1} << 61}));
  EXPECT_FALSE(out.ok());
}

TEST_F(KernelContextTest, ASoleInputIsForwardedAndStillReads) {
  for (const TensorShape& shape : {TensorShape({2}), TensorShape({1, 1, 2, 1, 1, 1})}) {
    inputs_.clear();
    outputs_.clear();
    Make(One(Tensor::From<float>({1, 2}, shape)));
    const void* data = inputs_[0].value.raw_data();
    auto out = context_->ForwardInputOrAllocateOutput({0}, 0, shape);
    ASSERT_TRUE(out.ok());
    EXPECT_EQ((*out)->raw_data(), data);
    EXPECT_EQ((*out)->shape(), shape);
    EXPECT_EQ(context_->input(0).shape(), shape);
    EXPECT_EQ(context_->input(0).data<float>()[1], 2);
  }
}

TEST_F(KernelContextTest, ASharedInputIsNotForwarded) {
  Tensor held = Tensor::Vector<float>({1, 2});
  Make(One(held));
  auto out = context_->ForwardInputOrAllocateOutput({0}, 0, TensorShape({2}));
  ASSERT_TRUE(out.ok());
  EXPECT_NE((*out)->raw_data(), held.raw_data());
}

TEST_F(KernelContextTest, TheSameTensorAsTwoInputsIsNotForwarded) {
  Tensor x = Tensor::Vector<float>({1, 2});
  std::vector<Tensor> both;
  both.push_back(x);
  both.push_back(std::move(x));
  Make(std::move(both));
  const void* data = inputs_[0].value.raw_data();
  auto out = context_->ForwardInputOrAllocateOutput({0, 1}, 0, TensorShape({2}));
  ASSERT_TRUE(out.ok());
  EXPECT_NE((*out)->raw_data(), data);
}

TEST_F(KernelContextTest, AnInputOfAnotherTypeIsNotForwarded) {
  Make(One(Tensor::Vector<int32_t>({1, 2})));
  EXPECT_EQ(context_->TryForward(0, 0), nullptr);
}

TEST_F(KernelContextTest, ForwardingKeepsTheBufferUnderAnotherShape) {
  Make(One(Tensor::Vector<float>({1, 2})));
  const void* data = inputs_[0].value.raw_data();
  auto out = context_->ForwardInputOrAllocateOutput({0}, 0, TensorShape({2, 1}));
  ASSERT_TRUE(out.ok());
  EXPECT_EQ((*out)->raw_data(), data);
  EXPECT_EQ((*out)->shape(), TensorShape({2, 1}));
  EXPECT_EQ(context_->input(0).shape(), TensorShape({2}));
}

TEST_F(KernelContextTest, ABorrowedConstantIsNotForwarded) {
  Make(One(Tensor::Vector<float>({1, 2})));
  Tensor constant = Tensor::Vector<float>({3, 4});
  inputs_[0].kind = TensorValue::Kind::kConstant;
  inputs_[0].borrowed = &constant;
  auto out = context_->ForwardInputOrAllocateOutput({0}, 0, TensorShape({2}));
  ASSERT_TRUE(out.ok());
  EXPECT_NE((*out)->raw_data(), constant.raw_data());
  EXPECT_EQ(context_->TakeInput(0).raw_data(), constant.raw_data());
}

TEST_F(KernelContextTest, WithoutAPoolParallelForRunsOnceOverEverything) {
  Make({});
  int64_t calls = 0, units = 0;
  context_->ParallelFor(1000, 1000000, [&](int64_t begin, int64_t end) {
    ++calls;
    units += end - begin;
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(units, 1000);
}

}  // namespace
}  // namespace millrace
