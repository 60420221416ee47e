// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The fake device fulfils the contract of devices with separate memory.
#include "device/fake_device_testing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/notification.h"
#include "device/copy.h"
#include "device/stream.h"

namespace millrace {
namespace {

class FakeDeviceTest : public ::testing::Test {
 protected:
  static DeviceAttributes Attributes(int number) {
    return {.name = StrCat("/job:localhost/replica:0/task:0/device:FAKE:", number),
            .type = "FAKE",
            .incarnation = NewIncarnation(),
            .physical_description = ""};
  }
  static Tensor OnDevice(FakeDevice& device, const std::vector<float>& values) {
    const Tensor host = Tensor::Vector(values);
    Tensor there = *Tensor::Allocate(host.dtype(), host.shape(), device.allocator());
    EXPECT_TRUE(device.CopyFromHost(host, there).ok());
    return there;
  }
  static std::vector<float> Values(const Tensor& tensor) {
    const auto host = BringToHost(tensor);
    EXPECT_TRUE(host.ok()) << host.status();
    if (!host.ok()) return {};
    const auto flat = host->flat<float>();
    return {flat.begin(), flat.end()};
  }

  FakeDevice device_{Attributes(0)};
  FakeDevice other_{Attributes(1)};
};

TEST_F(FakeDeviceTest, ItsMemoryIsNotForTheHost) {
  EXPECT_TRUE(device_.has_own_memory());
  const Tensor there = OnDevice(device_, {1, 2});
  EXPECT_EQ(DeviceOf(there), &device_);
  EXPECT_EQ(DeviceOf(there.Slice(1, 2)), &device_);
  EXPECT_EQ(DeviceOf(Tensor::Scalar(1.f)), nullptr);
  EXPECT_DEATH_IF_SUPPORTED({ std::fprintf(stderr, "%f", static_cast<double>(there.flat<float>()[0])); }, "");
}

TEST_F(FakeDeviceTest, CopiesGoThereAndBack) {
  const Tensor there = OnDevice(device_, {1, 2, 3});
  EXPECT_THAT(Values(there), ::testing::ElementsAre(1, 2, 3));
  EXPECT_THAT(Values(there.Slice(1, 3)), ::testing::ElementsAre(2, 3));
  EXPECT_EQ(device_.num_copies_from_host(), 1);
  EXPECT_EQ(device_.num_copies_to_host(), 2);
}

TEST_F(FakeDeviceTest, WorkWaitsUntilAThreadWaitsForIt) {
  bool done = false;
  device_.work().Launch([&] {
    done = true;
    return Status();
  });
  const RefPtr<Event> event = device_.work().Record();
  EXPECT_EQ(device_.work().num_done(), 0);
  EXPECT_TRUE(event->Wait().ok());
  EXPECT_TRUE(done);
  EXPECT_GT(event->TimeNs(), 0);
}

TEST_F(FakeDeviceTest, WorkIsDoneInOrder) {
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) {
    device_.work().Launch([&order, i] {
      order.push_back(i);
      return Status();
    });
  }
  EXPECT_TRUE(device_.Sync().ok());
  ASSERT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

// A freed block may be allocated again while work still uses it, because later work runs after that work.
TEST_F(FakeDeviceTest, MemoryIsHandedOutInTheOrderOfWork) {
  Tensor first = OnDevice(device_, {1, 2});
  const Tensor host = *Tensor::Allocate(DataType::kFloat, TensorShape({2}));
  Notification copied;
  device_.CopyToHost(first, host, [&](const Status& /*status*/) { copied.Notify(); });
  first = Tensor();
  const Tensor second = OnDevice(device_, {3, 4});
  copied.Wait();
  EXPECT_THAT(host.flat<float>(), ::testing::ElementsAre(1, 2));
  EXPECT_THAT(Values(second), ::testing::ElementsAre(3, 4));
}

TEST_F(FakeDeviceTest, ACopyBetweenDevicesWaitsForTheSource) {
  device_.work().Pause();
  const Tensor source = OnDevice(device_, {5, 6});
  Tensor copy;
  BringTensor(source, &other_, other_.allocator(), [&](StatusOr<Tensor> made) { copy = *std::move(made); });
  EXPECT_EQ(DeviceOf(copy), &other_);
  device_.work().Resume();
  EXPECT_THAT(Values(copy), ::testing::ElementsAre(5, 6));
  EXPECT_EQ(other_.num_copies_from_devices(), 1);
  EXPECT_EQ(device_.num_copies_to_host(), 0);
}

TEST_F(FakeDeviceTest, ExistingTensorsAreNotCopied) {
  const Tensor there = OnDevice(device_, {1});
  Tensor same;
  BringTensor(there, &device_, device_.allocator(), [&](StatusOr<Tensor> made) { same = *std::move(made); });
  EXPECT_TRUE(same.SharesBufferWith(there));
  const Tensor empty(DataType::kFloat, TensorShape({0}));
  BringTensor(empty, &device_, device_.allocator(),
              [&](const StatusOr<Tensor>& made) { EXPECT_TRUE(made.ok()); });
  EXPECT_EQ(device_.num_copies_from_devices(), 0);
}

// A device of a type without copies to other types.
class HostCopyDevice final : public Device {
 public:
  explicit HostCopyDevice(FakeDevice& base) : Device(base.attributes()), base_(base) {}
  Allocator& allocator() override { return base_.allocator(); }
  Status CopyFromHost(const Tensor& from, const Tensor& to) override { return base_.CopyFromHost(from, to); }

 private:
  FakeDevice& base_;
};

TEST_F(FakeDeviceTest, DevicesWithoutDirectCopiesCopyThroughTheHost) {
  const Tensor source = OnDevice(device_, {7, 8});
  HostCopyDevice stranger(other_);
  Notification there;
  Tensor copy;
  BringTensor(source, &stranger, stranger.allocator(), [&](StatusOr<Tensor> made) {
    ASSERT_TRUE(made.ok()) << made.status();
    copy = *std::move(made);
    there.Notify();
  });
  there.Wait();
  EXPECT_EQ(device_.num_copies_to_host(), 1);
  EXPECT_THAT(Values(copy), ::testing::ElementsAre(7, 8));
}

TEST_F(FakeDeviceTest, AnErrorStaysWithTheStream) {
  const Tensor there = OnDevice(device_, {1});
  device_.work().Launch([] { return errors::Internal("the device is lost"); });
  EXPECT_EQ(device_.Sync().message(), "the device is lost");
  EXPECT_EQ(BringToHost(there).status().message(), "the device is lost");
}

TEST_F(FakeDeviceTest, OnlyTheHostHoldsStrings) {
  const auto made = Tensor::Allocate(DataType::kString, TensorShape({2}), device_.allocator());
  EXPECT_TRUE(errors::IsInvalidArgument(made.status())) << made.status();
}

TEST_F(FakeDeviceTest, ShortageIsAnError) {
  const auto made = Tensor::Allocate(DataType::kFloat, TensorShape({int64_t{1} << 29}), device_.allocator());
  EXPECT_TRUE(errors::IsResourceExhausted(made.status())) << made.status();
}

TEST_F(FakeDeviceTest, FactoriesMakeTheRequestedNumber) {
  DeviceFactoryRegistry factories;
  ASSERT_TRUE(RegisterCpuDeviceFactory(factories).ok());
  ASSERT_TRUE(RegisterFakeDeviceFactory(factories).ok());
  EXPECT_EQ((*factories.CreateDevices(DeviceOptions{}))->devices().size(), 1u);
  DeviceOptions options;
  options.device_count["FAKE"] = 2;
  const auto set = factories.CreateDevices(options);
  ASSERT_TRUE(set.ok());
  EXPECT_EQ((*set)->devices().size(), 3u);
  EXPECT_EQ((*set)->client_device()->type(), "CPU");
  EXPECT_EQ((*set)->Find("/job:localhost/replica:0/task:0/device:FAKE:1")->type(), "FAKE");
}

}  // namespace
}  // namespace millrace
