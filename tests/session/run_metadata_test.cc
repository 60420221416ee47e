// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/run_metadata.h"

#include <gtest/gtest.h>

#include "tensorflow/core/protobuf/config.pb.h"

namespace millrace {
namespace {

TEST(RunMetadataTest, TheMessageHasTimesThreadsOutputsAndMemory) {
  NodeStats node;
  node.node = "m";
  node.op = "MatMul";
  node.label = "m = MatMul(a, b)";
  node.scheduled_ns = 1'500;
  node.start_ns = 2'250;
  node.end_ns = 7'900;
  node.thread = 5;
  node.outputs.push_back({.slot = 0,
                          .dtype = DataType::kFloat,
                          .shape = TensorShape({2, 3}),
                          .bytes = 24,
                          .address = 0x1000,
                          .sole_owner = true});
  node.memory = {.requested_bytes = 188,
                 .peak_bytes = 188,
                 .live_bytes = 88,
                 .allocator_bytes_in_use = 1088,
                 .allocations = {{3'000, 188}, {6'000, -100}}};
  RunMetadata metadata;
  metadata.step_start_unix_us = 1'000'000;
  metadata.devices.push_back(
      {.device = "/device:CPU:0", .allocator = "cpu", .nodes = {node}, .thread_names = {{5, "caller"}}});

  tensorflow::RunMetadata proto;
  ASSERT_TRUE(proto.ParseFromString(metadata.SerializeAsString()));
  ASSERT_EQ(proto.step_stats().dev_stats_size(), 1);
  const tensorflow::DeviceStepStats& device = proto.step_stats().dev_stats(0);
  EXPECT_EQ(device.device(), "/device:CPU:0");
  EXPECT_EQ(device.thread_names().at(5), "caller");
  ASSERT_EQ(device.node_stats_size(), 1);
  const tensorflow::NodeExecStats& n = device.node_stats(0);
  EXPECT_EQ(n.timeline_label(), "m = MatMul(a, b)");
  EXPECT_EQ(n.scheduled_micros(), 1'000'001);
  EXPECT_EQ(n.all_start_micros(), 1'000'002);
  EXPECT_EQ(n.all_start_nanos(), 1'000'002'250);
  EXPECT_EQ(n.all_end_rel_nanos(), 5'650);
  EXPECT_EQ(n.all_end_rel_micros(), 5);
  EXPECT_EQ(n.thread_id(), 5u);
  ASSERT_EQ(n.memory_size(), 1);
  EXPECT_EQ(n.memory(0).allocator_name(), "cpu");
  EXPECT_EQ(n.memory(0).total_bytes(), 188);
  EXPECT_EQ(n.memory(0).peak_bytes(), 188);
  EXPECT_EQ(n.memory(0).live_bytes(), 88);
  EXPECT_EQ(n.memory(0).allocator_bytes_in_use(), 1088);
  ASSERT_EQ(n.memory(0).allocation_records_size(), 2);
  EXPECT_EQ(n.memory(0).allocation_records(1).alloc_micros(), 1'000'006);
  EXPECT_EQ(n.memory(0).allocation_records(1).alloc_bytes(), -100);
  EXPECT_EQ(n.memory_stats().temp_memory_size(), 188 - 24);
  ASSERT_EQ(n.output_size(), 1);
  const auto& allocation = n.output(0).tensor_description().allocation_description();
  EXPECT_EQ(allocation.requested_bytes(), 24);
  EXPECT_EQ(allocation.allocator_name(), "cpu");
  EXPECT_EQ(allocation.ptr(), 0x1000u);
  EXPECT_TRUE(allocation.has_single_reference());
}

}  // namespace
}  // namespace millrace
