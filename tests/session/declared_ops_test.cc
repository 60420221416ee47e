// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Graphs with declared ops that have no kernel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/session/state_testing.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

class DeclaredOpsTest : public StateTest {
 protected:
  void SetUp() override {
    graph_.Const("x", Tensor::Scalar(2.f));
    graph_.Const("groups", Tensor::From<int32_t>({0}, {1, 1}));
    graph_.Node("sum", "CrossReplicaSum", {"x", "groups"}, {{"T", DataType::kFloat}});
    graph_.Float("after", "Neg", {"sum"});
    graph_.Float("beside", "Neg", {"x"});
  }
};

TEST_F(DeclaredOpsTest, WhatNeedsNoneOfThemRuns) {
  EXPECT_EQ(GetOne("beside").scalar<float>(), -2.f);
  // A fed one is not run.
  EXPECT_EQ(GetOne("after", {{"sum", Tensor::Scalar(5.f)}}).scalar<float>(), -5.f);
}

TEST_F(DeclaredOpsTest, AnOpWithoutAKernelIsNamed) {
  const Status status = Get({"after"}).status();
  EXPECT_TRUE(errors::IsInvalidArgument(status));
  EXPECT_THAT(
      status.message(),
      HasSubstr(StrCat("No OpKernel was registered to support Op 'CrossReplicaSum' used by {{node sum}}"
                       "with these attrs: [T=DT_FLOAT]\nRegistered devices: [",
                       OnFakeDevices() ? "CPU, FAKE" : "CPU",
                       "]\nRegistered kernels:\n  <no registered kernels>\n\n\t [[sum]]")));
}

TEST_F(DeclaredOpsTest, TheirNodesAreChecked) {
  graph_.Node("bad", "CrossReplicaSum", {"x", "groups"}, {{"T", DataType::kString}});
  const auto session = NewSession(options_);
  ASSERT_TRUE(session.ok()) << session.status();
  const Status status = (*session)->Create(graph_.def());
  EXPECT_THAT(status.message(),
              HasSubstr("Value for attr 'T' of string is not in the list of allowed values"));
}

}  // namespace
}  // namespace millrace
