// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/trace_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensorflow/core/protobuf/config.pb.h"

namespace millrace::cli {
namespace {

using ::testing::HasSubstr;

std::string OneEvent() {
  tensorflow::RunMetadata proto;
  auto* const n = proto.mutable_step_stats()->add_dev_stats()->add_node_stats();
  n->set_node_name("x");
  n->set_timeline_label("x = Add(a, b)");
  n->set_all_start_nanos(5);
  n->set_all_end_rel_nanos(10);
  return proto.SerializeAsString();
}

TEST(TraceCommandTest, WritesThePageAndReturnsTheFigures) {
  MemEnv env;
  ASSERT_TRUE(WriteFileAtomically(env, "/d/step.pb", OneEvent()).ok());
  const auto summary = RunTrace(env, {.run_metadata = "/d/step.pb", .graph = "", .output = "/d/step.html"});
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_THAT(*summary, HasSubstr("\"source\":\"step.pb\",\"events_count\":1"));
  const auto page = ReadFileToString(env, "/d/step.html");
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_THAT(*page, HasSubstr("<title>step.pb"));
}

TEST(TraceCommandTest, ErrorsNameTheFileAndLeaveTheOldPage) {
  MemEnv env;
  ASSERT_TRUE(WriteFileAtomically(env, "/page.html", "old").ok());
  ASSERT_TRUE(WriteFileAtomically(env, "/bad.pb", "\x0a\x7f").ok());
  ASSERT_TRUE(WriteFileAtomically(env, "/good.pb", OneEvent()).ok());
  ASSERT_TRUE(WriteFileAtomically(env, "/bad.pbtxt", "node {").ok());
  const auto none = RunTrace(env, {.run_metadata = "/none.pb", .graph = "", .output = "/page.html"});
  EXPECT_EQ(none.status().code(), ErrorCode::kNotFound);
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("/none.pb"));
  const auto bad = RunTrace(env, {.run_metadata = "/bad.pb", .graph = "", .output = "/page.html"});
  EXPECT_EQ(bad.status().code(), ErrorCode::kDataLoss);
  EXPECT_THAT(std::string(bad.status().message()), HasSubstr("/bad.pb"));
  const auto graph =
      RunTrace(env, {.run_metadata = "/good.pb", .graph = "/bad.pbtxt", .output = "/page.html"});
  EXPECT_EQ(graph.status().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(*ReadFileToString(env, "/page.html"), "old");
}

}  // namespace
}  // namespace millrace::cli
