// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "millrace/cluster.h"
#include "tensorflow/core/protobuf/cluster.pb.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(std::string_view text) {
  const auto spec = ClusterSpec::Parse(text);
  EXPECT_TRUE(errors::IsInvalidArgument(spec.status())) << text;
  return std::string(spec.status().message());
}

TEST(ClusterSpecTest, TextsAreReadAndWritten) {
  const auto spec = ClusterSpec::Parse("ps=a:1, worker:2=b.c:22,[::1]:3,worker:9=d:0");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->num_tasks(), 4u);
  EXPECT_EQ(*spec->AddressOf("ps", 0), "a:1");
  EXPECT_EQ(*spec->AddressOf("worker", 2), "b.c:22");
  EXPECT_EQ(*spec->AddressOf("worker", 3), "[::1]:3");
  EXPECT_EQ(*spec->AddressOf("worker", 9), "d:0");
  EXPECT_EQ(spec->ToString(), "ps=a:1,worker:2=b.c:22,[::1]:3,worker:9=d:0");
  tensorflow::ClusterDef def;
  spec->ToProto(&def);
  EXPECT_EQ(ClusterSpec::FromProto(def)->ToString(), spec->ToString());
}

TEST(ClusterSpecTest, ErrorsNameTheTask) {
  EXPECT_EQ(ErrorOf("w=nohost"),
            "Could not interpret \"nohost\" as a host-port pair, for task 0 of job \"w\".");
  EXPECT_THAT(ErrorOf("w=a:1,b:70000"), HasSubstr("\"b:70000\" as a host-port pair, for task 1"));
  EXPECT_THAT(ErrorOf("w=a:1,:2"), HasSubstr("task 1 of job \"w\""));
  EXPECT_THAT(ErrorOf("w=::1:2"), HasSubstr("host-port"));
  EXPECT_EQ(ErrorOf("w=a:1,w=b:2"), "Duplicate job ID in cluster specification: w");
  EXPECT_EQ(ErrorOf("w=a:1,b:2,w:1=c:3"),
            "JobDef for job \"w\" specified two addresses for task \"1\": b:2 and c:3");
  EXPECT_THAT(ErrorOf("a:1"), HasSubstr("ps=host:port"));
  EXPECT_THAT(ErrorOf("1w=a:1"), HasSubstr("Invalid job name"));
  EXPECT_THAT(ErrorOf("w:x=a:1"), HasSubstr("Invalid task number"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("ps=host:port"));
  const auto spec = ClusterSpec::Parse("w=a:1");
  EXPECT_EQ(spec->AddressOf("w", 1).status().message(), "Task 1 was not defined in job \"w\"");
  EXPECT_EQ(spec->AddressOf("v", 0).status().message(), "Job \"v\" was not defined in cluster");
}

TEST(ClusterTaskTest, TfConfigIsRead) {
  const auto task = ClusterTask::FromTfConfig(
      R"({"cluster": {"ps": ["a:1"], "worker": {"0": "b:2", "7": "c:3"}}, "environment": "cloud",
          "task": {"type": "worker", "index": "7", "trial": "1"}})");
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ(task->cluster.ToString(), "ps=a:1,worker=b:2,worker:7=c:3");
  EXPECT_EQ(task->job, "worker");
  EXPECT_EQ(task->task, 7);
}

TEST(ClusterTaskTest, WrongTfConfigsAreErrors) {
  const auto error = [](std::string_view json) {
    const auto task = ClusterTask::FromTfConfig(json);
    EXPECT_TRUE(errors::IsInvalidArgument(task.status())) << json;
    return std::string(task.status().message());
  };
  EXPECT_THAT(error("{"), HasSubstr("not a JSON object"));
  EXPECT_THAT(error("[1]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(error("{}"), HasSubstr("no object \"cluster\""));
  EXPECT_THAT(error(R"({"cluster": {"w": "a:1"}})"), HasSubstr("neither a list nor an object"));
  EXPECT_THAT(error(R"({"cluster": {"w": [5]}})"),
              HasSubstr("address of task 0 of job \"w\" is not a string"));
  EXPECT_THAT(error(R"({"cluster": {"w": ["a:1"]}})"), HasSubstr("no object \"task\""));
  EXPECT_THAT(error(R"({"cluster": {"w": ["a:1"]}, "task": {"index": 0}})"), HasSubstr("no \"type\""));
  EXPECT_THAT(error(R"({"cluster": {"w": ["a:1"]}, "task": {"type": "w", "index": 0.5}})"),
              HasSubstr("no \"index\""));
  EXPECT_EQ(error(R"({"cluster": {"w": ["a:1"]}, "task": {"type": "w", "index": 3}})"),
            "Task 3 was not defined in job \"w\"");
}

class SlurmTest : public ::testing::Test {
 protected:
  ~SlurmTest() override {
    for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE", "SLURM_PROCID"})
      ::unsetenv(name);
  }
  static void Set(const char* nodes, const char* counts, const char* rank) {
    ::setenv("SLURM_STEP_NODELIST", nodes, 1);
    ::setenv("SLURM_STEP_TASKS_PER_NODE", counts, 1);
    ::setenv("SLURM_PROCID", rank, 1);
  }
};

TEST_F(SlurmTest, ProcessesBecomeTasksInOrder) {
  Set("n[08-10,2],other", "2(x2),1(x3)", "4");
  const auto task = ClusterTask::FromSlurm({{"ps", 1}, {"worker", 6}}, 5000);
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ(task->cluster.ToString(),
            "ps=n08:5000,worker=n08:5001,n09:5000,n09:5001,n10:5000,n2:5000,other:5000");
  EXPECT_EQ(task->job, "worker");
  EXPECT_EQ(task->task, 3);
}

TEST_F(SlurmTest, WhatDoesNotFitIsAnError) {
  EXPECT_TRUE(errors::IsNotFound(ClusterTask::FromSlurm({{"w", 1}}).status()));
  Set("a,b", "1(x2)", "0");
  EXPECT_THAT(std::string(ClusterTask::FromSlurm({{"w", 3}}).status().message()),
              HasSubstr("none is left for task 2 of job \"w\""));
  EXPECT_THAT(std::string(ClusterTask::FromSlurm({{"w", 1}}).status().message()),
              HasSubstr("2 processes, but the jobs have 1 tasks"));
  Set("a,b", "1", "0");
  EXPECT_TRUE(errors::IsInvalidArgument(ClusterTask::FromSlurm({{"w", 1}}).status()));
  Set("a[1-", "1", "0");
  EXPECT_THAT(std::string(ClusterTask::FromSlurm({{"w", 1}}).status().message()),
              HasSubstr("Not a Slurm node list"));
  Set("a", "1", "1");
  EXPECT_TRUE(errors::IsInvalidArgument(ClusterTask::FromSlurm({{"w", 1}}).status()));
}

}  // namespace
}  // namespace millrace
