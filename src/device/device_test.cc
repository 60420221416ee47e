// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"

#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

class FakeDevice : public Device {
 public:
  FakeDevice(const std::string& name, const std::string& type) : Device({name, type, 0, 1, ""}) {}
  Allocator& allocator() override { return CpuAllocator(); }
};

std::unique_ptr<Device> Fake(const std::string& name, const std::string& type) {
  return std::make_unique<FakeDevice>(name, type);
}

StatusOr<std::unique_ptr<DeviceSet>> CpuDevices(std::map<std::string, int> counts) {
  DeviceFactoryRegistry registry;
  MR_RETURN_IF_ERROR(RegisterCpuDeviceFactory(registry));
  DeviceOptions options;
  options.device_count = std::move(counts);
  return registry.CreateDevices(options);
}

TEST(DeviceTest, OneCpuIsMadeByDefault) {
  const auto set = CpuDevices({});
  ASSERT_TRUE(set.ok()) << set.status();
  ASSERT_EQ((*set)->devices().size(), 1u);
  const Device& cpu = *(*set)->devices()[0];
  EXPECT_EQ(cpu.name(), "/job:localhost/replica:0/task:0/device:CPU:0");
  EXPECT_EQ(cpu.type(), "CPU");
  EXPECT_EQ(cpu.attributes().memory_limit, 268435456);
  EXPECT_NE(cpu.attributes().incarnation, 0u);
  EXPECT_EQ((*set)->client_device(), &cpu);
}

TEST(DeviceTest, DeviceCountGivesSeveralCpusWithTheirOwnIncarnations) {
  const auto set = CpuDevices({{"CPU", 12}, {"GPU", 7}});
  ASSERT_TRUE(set.ok()) << set.status();
  std::set<uint64_t> incarnations;
  for (const auto& device : (*set)->devices()) incarnations.insert(device->attributes().incarnation);
  EXPECT_EQ(incarnations.size(), 12u);
  const std::vector<Device*> all = (*set)->Matching(DeviceName{});
  ASSERT_EQ(all.size(), 12u);
  EXPECT_EQ(all[2]->name(), "/job:localhost/replica:0/task:0/device:CPU:2") << "the order is numeric";
}

TEST(DeviceTest, ZeroCpusMeansOneAndImpossibleCountsAreRefused) {
  EXPECT_EQ((*CpuDevices({{"CPU", 0}}))->devices().size(), 1u);
  EXPECT_TRUE(errors::IsInvalidArgument(CpuDevices({{"CPU", -1}}).status()));
  EXPECT_TRUE(errors::IsInvalidArgument(CpuDevices({{"CPU", 2000000000}}).status()));
}

StatusOr<std::vector<std::string>> FilteredNames(std::vector<std::string> filters) {
  DeviceFactoryRegistry registry;
  MR_RETURN_IF_ERROR(RegisterCpuDeviceFactory(registry));
  DeviceOptions options;
  options.device_count["CPU"] = 4;
  options.filters = std::move(filters);
  MR_ASSIGN_OR_RETURN(const auto set, registry.CreateDevices(options));
  std::vector<std::string> names;
  for (const auto& device : set->devices()) {
    const std::string& name = device->name();
    names.push_back(name.substr(name.rfind('/') + 1));
  }
  return names;
}

TEST(DeviceTest, FiltersHideDevicesButNeverTheClients) {
  using ::testing::ElementsAre;
  EXPECT_THAT(*FilteredNames({}),
              ElementsAre("device:CPU:0", "device:CPU:1", "device:CPU:2", "device:CPU:3"));
  EXPECT_THAT(*FilteredNames({"/cpu:2", "/job:localhost/device:CPU:3"}),
              ElementsAre("device:CPU:0", "device:CPU:2", "device:CPU:3"));
  EXPECT_THAT(*FilteredNames({"/job:ps"}), ElementsAre("device:CPU:0"));
  EXPECT_THAT(*FilteredNames({"/job:localhost"}), ::testing::SizeIs(4));
  const Status bad = FilteredNames({"cpu"}).status();
  EXPECT_TRUE(errors::IsInvalidArgument(bad));
  EXPECT_THAT(bad.message(), ::testing::HasSubstr("Malformed device specification 'cpu'; in device_filters"));
}

TEST(DeviceTest, CpusCanUseTheBfcAllocator) {
  DeviceFactoryRegistry registry;
  ASSERT_TRUE(RegisterCpuDeviceFactory(registry).ok());
  DeviceOptions options;
  options.device_count["CPU"] = 2;
  options.cpu_bfc_limit_bytes = 3 << 20;
  const auto set = registry.CreateDevices(options);
  ASSERT_TRUE(set.ok()) << set.status();
  Device& cpu = *(*set)->devices()[1];
  EXPECT_EQ(cpu.allocator().name(), "cpu_bfc");
  EXPECT_EQ(&cpu.allocator(), &(*set)->devices()[0]->allocator());
  EXPECT_EQ(cpu.attributes().memory_limit, 3 << 20);
  EXPECT_EQ(cpu.allocator().Stats().bytes_limit, 3 << 20);
}

TEST(DeviceTest, RegistryWithoutCpuIsAnError) {
  const DeviceFactoryRegistry registry;
  EXPECT_TRUE(errors::IsNotFound(registry.CreateDevices({}).status()));
}

TEST(DeviceTest, TypeRegisteredTwiceIsRefused) {
  DeviceFactoryRegistry registry;
  EXPECT_TRUE(RegisterCpuDeviceFactory(registry).ok());
  EXPECT_TRUE(errors::IsAlreadyExists(RegisterCpuDeviceFactory(registry)));
}

// A device of another name; null for the name "".
Status OneMoreDevice(const std::string& name) {
  DeviceFactoryRegistry registry;
  MR_RETURN_IF_ERROR(RegisterCpuDeviceFactory(registry));
  MR_RETURN_IF_ERROR(registry.Register(
      "NPU", 1, [&name](const DeviceOptions&, std::vector<std::unique_ptr<Device>>* devices) {
        devices->push_back(name.empty() ? nullptr : Fake(name, "NPU"));
        return Status();
      }));
  return registry.CreateDevices({}).status();
}

TEST(DeviceTest, DevicesMustHaveFullNamesOfTheirOwn) {
  const std::string task = "/job:localhost/replica:0/task:0/device:";
  EXPECT_EQ(OneMoreDevice(task + "NPU:0"), Status());
  const auto expect_refused = [](const std::string& name, const std::string& text) {
    const Status status = OneMoreDevice(name);
    EXPECT_TRUE(errors::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(),
                ::testing::AllOf(::testing::HasSubstr(text),
                                 ::testing::HasSubstr("; while making devices of type NPU")));
  };
  expect_refused("", "A device is null");
  expect_refused("bad", "'bad' is not the full name of a device, /job:J/replica:R/task:T/device:TYPE:N");
  expect_refused("/device:NPU:0", "'/device:NPU:0' is not the full name");
  expect_refused(task + "CPU:0", "Two devices have the name '" + task + "CPU:0'");
}

TEST(DeviceTest, FailingFactoryIsNamed) {
  DeviceFactoryRegistry registry;
  ASSERT_TRUE(RegisterCpuDeviceFactory(registry).ok());
  ASSERT_TRUE(
      registry
          .Register("NPU", 1, [](const DeviceOptions&, auto*) { return errors::Unavailable("no driver"); })
          .ok());
  const Status status = registry.CreateDevices({}).status();
  EXPECT_EQ(status.message(), "no driver; while making devices of type NPU");
}

TEST(DeviceTest, MatchingPutsFasterTypesFirst) {
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(Fake("/job:a/replica:0/task:0/device:CPU:0", "CPU"));
  devices.push_back(Fake("/job:a/replica:0/task:0/device:GPU:1", "GPU"));
  devices.push_back(Fake("/job:a/replica:0/task:0/device:GPU:0", "GPU"));
  const DeviceSet set(std::move(devices));
  EXPECT_THAT(set.types(), testing::ElementsAre("GPU", "CPU"));
  std::vector<std::string> names;
  for (const Device* device : set.Matching(DeviceName{})) names.push_back(device->name());
  EXPECT_THAT(names, testing::ElementsAre("/job:a/replica:0/task:0/device:GPU:0",
                                          "/job:a/replica:0/task:0/device:GPU:1",
                                          "/job:a/replica:0/task:0/device:CPU:0"));
  EXPECT_EQ(set.client_device()->type(), "CPU");
}

TEST(DeviceTest, FindTakesEverySpellingOfAFullName) {
  const auto set = CpuDevices({{"CPU", 2}});
  ASSERT_TRUE(set.ok());
  Device* const second = (*set)->devices()[1].get();
  EXPECT_EQ((*set)->Find("/job:localhost/replica:0/task:0/device:CPU:1"), second);
  EXPECT_EQ((*set)->Find("/job:localhost/replica:0/task:0/cpu:1"), second);
  EXPECT_EQ((*set)->Find("/cpu:1"), nullptr);
  EXPECT_EQ((*set)->Find("/job:localhost/replica:0/task:0/device:CPU:2"), nullptr);
  EXPECT_EQ((*set)->Find("junk"), nullptr);
}

}  // namespace
}  // namespace millrace
