// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "device/device_name.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

DeviceName Parse(std::string_view text) {
  const auto parsed = DeviceName::Parse(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.value_or(DeviceName());
}

TEST(DeviceNameTest, FullNameHasAllParts) {
  const DeviceName name = Parse("/job:worker_1/replica:2/task:3/device:GPU:4");
  EXPECT_EQ(name.job, "worker_1");
  EXPECT_EQ(name.replica, 2);
  EXPECT_EQ(name.task, 3);
  EXPECT_EQ(name.type, "GPU");
  EXPECT_EQ(name.index, 4);
  EXPECT_TRUE(name.IsFullySpecified());
}

TEST(DeviceNameTest, SpellingsOfOneDeviceAreEqual) {
  const std::string want = "/device:CPU:0";
  for (const char* text : {"/cpu:0", "/CPU:0", "/device:CPU:0", "/device:cpu:0"}) {
    EXPECT_EQ(Parse(text).ToString(), want) << text;
  }
}

TEST(DeviceNameTest, PartsMayComeInAnyOrderAndTheLastOfAKindWins) {
  EXPECT_EQ(Parse("/device:GPU:1/task:2/job:a/task:5/replica:0").ToString(),
            "/job:a/replica:0/task:5/device:GPU:1");
}

TEST(DeviceNameTest, StarLeavesAPartOpen) {
  EXPECT_EQ(Parse("/gpu:*").ToString(), "/device:GPU:*");
  EXPECT_EQ(Parse("/device:GPU").ToString(), "/device:GPU:*");
  EXPECT_EQ(Parse("/device:*:2").ToString(), "/device:*:2");
  EXPECT_FALSE(Parse("/job:*/replica:*/task:*/device:*:*").HasAnything());
}

TEST(DeviceNameTest, NothingAndASlashAreUnconstrained) {
  EXPECT_EQ(Parse("").ToString(), "");
  EXPECT_EQ(Parse("/").ToString(), "");
}

TEST(DeviceNameTest, MalformedNamesAreRefusedWithTheirText) {
  for (const char* text :
       {"cpu:0", "//", "/job:", "/job:1a", "/job:a-b", "/replica:x", "/task:-1",
        "/task:", "/device:", "/device:GPU:", "/gpu:", "/cpu", "/task:99999999999", "/job:a/", "/job:a/tsk:0",
        "/device:GPU:0x", "/device:GPU:0 ", "@node", "/job:a/replica:0/task:0/device:GPU:0/device"}) {
    const auto parsed = DeviceName::Parse(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_TRUE(errors::IsInvalidArgument(parsed.status()));
    EXPECT_EQ(parsed.status().message(), StrCat("Malformed device specification '", text, "'"));
  }
}

TEST(DeviceNameTest, PrintingRoundTrips) {
  for (const char* text :
       {"/job:a", "/replica:3", "/task:1", "/device:GPU:*", "/device:*:7", "/job:a/task:1/device:CPU:0"}) {
    EXPECT_EQ(Parse(text).ToString(), text);
    EXPECT_EQ(Parse(Parse(text).ToString()), Parse(text));
  }
}

TEST(DeviceNameTest, DescribesWhatAgreesInEverySetPart) {
  const DeviceName gpu = Parse("/job:a/replica:0/task:1/device:GPU:0");
  for (const char* spec :
       {"", "/job:a", "/task:1", "/gpu:*", "/device:*:0", "/job:a/replica:0/task:1/device:GPU:0"}) {
    EXPECT_TRUE(Parse(spec).Describes(gpu)) << spec;
  }
  for (const char* spec : {"/job:b", "/task:0", "/cpu:*", "/gpu:1", "/job:a/replica:1"}) {
    EXPECT_FALSE(Parse(spec).Describes(gpu)) << spec;
  }
  EXPECT_FALSE(Parse("/job:a").Describes(Parse("/task:0")));
}

TEST(DeviceNameTest, InnerSpecificationOverridesPartByPart) {
  EXPECT_EQ(Parse("/device:CPU:0").OverriddenBy(Parse("/job:ps/device:GPU:0")).ToString(),
            "/job:ps/device:GPU:0");
  EXPECT_EQ(Parse("/job:ps").OverriddenBy(Parse("/task:0/device:GPU:0")).ToString(),
            "/job:ps/task:0/device:GPU:0");
}

TEST(DeviceNameTest, MergeKeepsWhatEitherSetsAndRefusesConflicts) {
  DeviceName name = Parse("/job:a");
  EXPECT_TRUE(name.MergeFrom(Parse("/device:GPU:1")).ok());
  EXPECT_EQ(name.ToString(), "/job:a/device:GPU:1");
  const struct {
    const char *a, *b, *message;
  } kConflicts[] = {
      {"/job:a", "/job:b", "Cannot merge devices with incompatible jobs: '/job:a' and '/job:b'"},
      {"/replica:0", "/replica:1",
       "Cannot merge devices with incompatible replicas: '/replica:0' and '/replica:1'"},
      {"/task:0", "/task:1", "Cannot merge devices with incompatible tasks: '/task:0' and '/task:1'"},
      {"/cpu:*", "/gpu:*",
       "Cannot merge devices with incompatible types: '/device:CPU:*' and '/device:GPU:*'"},
      {"/gpu:0", "/gpu:1", "Cannot merge devices with incompatible ids: '/device:GPU:0' and '/device:GPU:1'"},
  };
  for (const auto& c : kConflicts) {
    DeviceName merged = Parse(c.a);
    const Status status = merged.MergeFrom(Parse(c.b));
    EXPECT_TRUE(errors::IsInvalidArgument(status));
    EXPECT_EQ(status.message(), c.message);
    EXPECT_EQ(merged, Parse(c.a)) << "a failed merge must change nothing";
  }
}

TEST(DeviceNameTest, SoftMergeDropsTypeAndIndexInConflict) {
  DeviceName types = Parse("/job:a/gpu:0");
  EXPECT_TRUE(types.MergeFrom(Parse("/cpu:0"), true).ok());
  EXPECT_EQ(types.ToString(), "/job:a");
  DeviceName indices = Parse("/gpu:0");
  EXPECT_TRUE(indices.MergeFrom(Parse("/gpu:1"), true).ok());
  EXPECT_EQ(indices.ToString(), "/device:GPU:*");
  DeviceName jobs = Parse("/job:a");
  EXPECT_FALSE(jobs.MergeFrom(Parse("/job:b"), true).ok());
}

TEST(DeviceNameTest, SplitGivesTaskAndDeviceOfFullNamesOnly) {
  std::string task, device;
  ASSERT_TRUE(SplitDeviceName("/job:w/replica:0/task:1/gpu:2", &task, &device));
  EXPECT_EQ(task, "/job:w/replica:0/task:1");
  EXPECT_EQ(device, "device:GPU:2");
  EXPECT_FALSE(SplitDeviceName("/job:w/task:1/device:GPU:2", &task, &device));
  EXPECT_FALSE(SplitDeviceName("nonsense", &task, &device));
}

}  // namespace
}  // namespace millrace
