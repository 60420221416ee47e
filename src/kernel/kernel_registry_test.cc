// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernel/kernel_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "kernel/resource.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NullKernel : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext&) override { return Status(); }
};
class OtherKernel : public NullKernel {
 public:
  using NullKernel::NullKernel;
};

class NullDevice : public Device {
 public:
  NullDevice() : Device(Attributes()) {}
  Allocator& allocator() override { return CpuAllocator(); }

 private:
  static DeviceAttributes Attributes() {
    DeviceAttributes a;
    a.name = "/job:localhost/replica:0/task:0/device:CPU:0";
    a.type = "CPU";
    return a;
  }
};

class KernelRegistryTest : public ::testing::Test {
 protected:
  std::shared_ptr<NodeProps> Props(AttrMap attrs) {
    registration_.def.name = "MyOp";
    auto props = std::make_shared<NodeProps>();
    props->op = &registration_;
    props->attrs = std::move(attrs);
    return props;
  }
  OpRegistration registration_;
  KernelRegistry registry_;
};

TEST_F(KernelRegistryTest, FindsTheKernelOfTheType) {
  registry_.Register<NullKernel>(KernelDef("MyOp").Type<float>("T"));
  registry_.Register<NullKernel>(KernelDef("MyOp").Types("T", {DataType::kInt32, DataType::kInt64}));
  EXPECT_TRUE(registry_.HasKernel("CPU", *Props({{"T", DataType::kFloat}})));
  EXPECT_TRUE(registry_.HasKernel("CPU", *Props({{"T", DataType::kInt64}})));
  EXPECT_FALSE(registry_.HasKernel("CPU", *Props({{"T", DataType::kBool}})));
  EXPECT_FALSE(registry_.HasKernel("CPU", *Props({})));
  EXPECT_FALSE(registry_.HasKernel("GPU", *Props({{"T", DataType::kFloat}})));
  EXPECT_THAT(registry_.Ops(), ElementsAre("MyOp"));
  EXPECT_EQ(registry_.KernelsOf("MyOp").size(), 2u);
}

TEST_F(KernelRegistryTest, ATypeListMatchesWhenEachTypeIsAllowed) {
  registry_.Register<NullKernel>(KernelDef("MyOp").Types("T", {DataType::kInt32, DataType::kInt64}));
  EXPECT_TRUE(registry_.HasKernel("CPU", *Props({{"T", std::vector{DataType::kInt32, DataType::kInt64}}})));
  EXPECT_FALSE(registry_.HasKernel("CPU", *Props({{"T", std::vector{DataType::kInt32, DataType::kBool}}})));
  EXPECT_TRUE(registry_.HasKernel("CPU", *Props({{"T", std::vector<DataType>{}}})));
}

TEST_F(KernelRegistryTest, HighestPriorityWins) {
  registry_.Register<NullKernel>(KernelDef("MyOp").Priority(1));
  registry_.Register<OtherKernel>(KernelDef("MyOp").Priority(2));
  registry_.Register<NullKernel>(KernelDef("MyOp"));
  NullDevice device;
  ResourceManager resources("d");
  KernelConstruction c("n", Props({}), device, resources);
  auto kernel = registry_.Create("CPU", c);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_NE(dynamic_cast<OtherKernel*>(kernel->get()), nullptr);
}

TEST_F(KernelRegistryTest, ALabelledKernelNeedsTheLabel) {
  registry_.Register<NullKernel>(KernelDef("MyOp").Label("fast"));
  EXPECT_FALSE(registry_.HasKernel("CPU", *Props({})));
  EXPECT_TRUE(registry_.HasKernel("CPU", *Props({{"_kernel", "fast"}})));
}

TEST_F(KernelRegistryTest, AMissingKernelIsNotFoundWithWhatThereIs) {
  const Status none = registry_.Find("CPU", *Props({})).status();
  EXPECT_TRUE(errors::IsNotFound(none));
  EXPECT_THAT(none.message(),
              HasSubstr("No registered 'MyOp' OpKernel for CPU devices compatible with node"));
  EXPECT_THAT(none.message(), HasSubstr("<no registered kernels>"));
  registry_.Register<NullKernel>(KernelDef("MyOp").Type<float>("T"));
  const Status mismatch = registry_.Find("CPU", *Props({{"T", DataType::kBool}})).status();
  EXPECT_THAT(mismatch.message(), HasSubstr("OpKernel was found, but attributes didn't match"));
  EXPECT_THAT(mismatch.message(), HasSubstr("device='CPU'; T in [DT_FLOAT]"));
}

TEST_F(KernelRegistryTest, HostMemoryMustNameArguments) {
  const auto memory_with = [&](const char* arg) {
    KernelRegistry registry;
    registry.Register<NullKernel>(KernelDef("MyOp").HostMemory(arg));
    const auto props = Props({});
    registration_.def.inputs.resize(1);
    registration_.def.inputs[0].name = "x";
    registration_.def.inputs[0].type = DataType::kFloat;
    props->input_types = {DataType::kFloat};
    return registry.MemoryOf("CPU", *props);
  };
  const auto known = memory_with("x");
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_THAT(known->host_inputs, ElementsAre(true));
  const Status unknown = memory_with("xx").status();
  EXPECT_TRUE(errors::IsInvalidArgument(unknown)) << unknown;
  EXPECT_EQ(unknown.message(), "HostMemory args 'xx' not found in OpDef: Op<name=MyOp>");
}

class PickyKernel : public NullKernel {
 public:
  explicit PickyKernel(KernelConstruction& c) : NullKernel(c) { c.Attr<int64_t>("absent"); }
};

TEST_F(KernelRegistryTest, AnErrorInTheConstructorIsReturned) {
  registry_.Register<PickyKernel>(KernelDef("MyOp"));
  NullDevice device;
  ResourceManager resources("d");
  KernelConstruction c("n", Props({}), device, resources);
  EXPECT_TRUE(errors::IsNotFound(registry_.Create("CPU", c).status()));
}

}  // namespace
}  // namespace millrace
