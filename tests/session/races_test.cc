// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Variables that many steps read and write at the same time, and sessions that are reset while they run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/session/state_testing.h"

namespace millrace {
namespace {

using Containers = std::vector<std::string>;

constexpr int64_t kSize = 3000;
constexpr int kRounds = 150;

Tensor Uniform(float v) {
  Tensor t(DataType::kFloat, TensorShape({kSize}));
  std::fill_n(t.data<float>(), kSize, v);
  return t;
}

enum class Kind { kResource, kReference, kReferenceWithoutLocking };
void PrintTo(Kind kind, std::ostream* os) {
  *os << (kind == Kind::kResource    ? "Resource"
          : kind == Kind::kReference ? "Reference"
                                     : "ReferenceWithoutLocking");
}

// A variable of kSize equal floats with "set" (to the placeholder x), "add", "sub" and "read".
class VariableRaceTest : public StateTest, public ::testing::WithParamInterface<Kind> {
 protected:
  void SetUp() override {
    graph_.Placeholder("x");
    if (GetParam() == Kind::kResource) {
      const AttrMap dtype = {{"dtype", DataType::kFloat}};
      graph_.Node("v", "VarHandleOp", {}, {{"dtype", DataType::kFloat}, {"shape", PartialShape({kSize})}});
      graph_.Node("set", "AssignVariableOp", {"v", "x"}, dtype);
      graph_.Node("add", "AssignAddVariableOp", {"v", "x"}, dtype);
      graph_.Node("sub", "AssignSubVariableOp", {"v", "x"}, dtype);
      graph_.Node("read", "ReadVariableOp", {"v"}, dtype);
    } else {
      const AttrMap attrs = {{"T", DataType::kFloat}, {"use_locking", GetParam() == Kind::kReference}};
      graph_.Node("v", "VariableV2", {}, {{"dtype", DataType::kFloat}, {"shape", TensorShape({kSize})}});
      graph_.Node("set", "Assign", {"v", "x"}, attrs);
      graph_.Node("add", "AssignAdd", {"v", "x"}, attrs);
      graph_.Node("sub", "AssignSub", {"v", "x"}, attrs);
      graph_.Float("read", "Identity", {"v"});
    }
    ASSERT_EQ(Do("set", {{"x", Uniform(0)}}), Status());
  }
  // Whether all elements are equal.
  static bool IsWhole(const Tensor& t) {
    const float first = t.data<float>()[0];
    return std::all_of(t.data<float>(), t.data<float>() + kSize, [first](float v) { return v == first; });
  }
};

TEST_P(VariableRaceTest, NoReaderSeesHalfOfAnUpdate) {
  std::atomic<bool> over{false};
  std::vector<std::thread> readers;
  readers.reserve(2);
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      do {
        std::vector<Tensor> out;
        ASSERT_EQ(session().Run({}, {"read"}, {}, &out), Status());
        ASSERT_TRUE(IsWhole(out[0]));
      } while (!over);
    });
  }
  std::vector<std::thread> writers;
  writers.reserve(2);
  for (int i = 0; i < 2; ++i) {
    writers.emplace_back([&, i] {
      for (int round = 0; round < kRounds; ++round) {
        const char* const ops[] = {"set", "add", "sub"};
        EXPECT_EQ(Do(ops[(round + i) % 3], {{"x", Uniform(static_cast<float>(round))}}), Status());
      }
    });
  }
  for (std::thread& t : writers) t.join();
  over = true;
  for (std::thread& t : readers) t.join();
}

TEST_P(VariableRaceTest, NoUpdateIsLost) {
  std::vector<std::thread> writers;
  writers.reserve(4);
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([&, i] {
      for (int round = 0; round < kRounds; ++round) {
        EXPECT_EQ(Do(i == 3 ? "sub" : "add", {{"x", Uniform(1)}}), Status());
      }
    });
  }
  for (std::thread& t : writers) t.join();
  const Tensor sum = GetOne("read");
  EXPECT_TRUE(IsWhole(sum));
  EXPECT_EQ(sum.data<float>()[0], 2.0f * kRounds);
}

TEST_P(VariableRaceTest, WhatWasReadStaysAsItWas) {
  std::vector<Tensor> read;
  for (int round = 0; round < 5; ++round) {
    read.push_back(GetOne("read"));
    ASSERT_EQ(Do("add", {{"x", Uniform(1)}}), Status());
  }
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT_TRUE(IsWhole(read[i]));
    EXPECT_EQ(read[i].data<float>()[0], static_cast<float>(i));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, VariableRaceTest,
                         ::testing::Values(Kind::kResource, Kind::kReference, Kind::kReferenceWithoutLocking),
                         ::testing::PrintToStringParamName());

using FirstUseTest = StateTest;

// Every first use creates the state, or finds it created by another one.
TEST_F(FirstUseTest, ManyStepsMakeTheStateTogether) {
  constexpr int kNodes = 10;
  graph_.Const("one", Tensor::Scalar(1.0f));
  graph_.Placeholder("x");
  for (int i = 0; i < kNodes; ++i) {
    // Each by a separate node, all with one name.
    graph_.Node(StrCat("q", i), "FIFOQueueV2", {},
                {{"component_types", std::vector<DataType>{DataType::kFloat}}, {"shared_name", "shared"}});
    graph_.Node(StrCat("put", i), "QueueEnqueueV2", {StrCat("q", i), "one"},
                {{"Tcomponents", std::vector<DataType>{DataType::kFloat}}});
    graph_.Node(StrCat("stage", i), "Stage", {"one"},
                {{"dtypes", std::vector<DataType>{DataType::kFloat}}, {"shared_name", "area"}});
  }
  graph_.Add("size", "QueueSizeV2", {"q0"});
  graph_.Node("staged", "StageSize", {},
              {{"dtypes", std::vector<DataType>{DataType::kFloat}}, {"shared_name", "area"}});
  for (int round = 0; round < 10; ++round) {
    session_.reset();
    session();
    std::vector<std::thread> threads;
    threads.reserve(kNodes);
    for (int i = 0; i < kNodes; ++i) {
      threads.emplace_back([&, i] {
        EXPECT_EQ(Do(StrCat("put", i)), Status());
        EXPECT_EQ(Do(StrCat("stage", i)), Status());
      });
    }
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(Count("size"), kNodes);
    EXPECT_EQ(Count("staged"), kNodes);
  }
}

// Uses variables and a queue until the session is closed by another thread; returns the last status.
Status UseUntilClosed(Session& session) {
  while (true) {
    std::vector<Tensor> out;
    MR_RETURN_IF_ERROR(session.Run({}, {}, {"v/Assign"}, nullptr));
    MR_RETURN_IF_ERROR(session.Run({}, {"v"}, {}, &out));
    MR_RETURN_IF_ERROR(session.Run({}, {}, {"put"}, nullptr));
    MR_RETURN_IF_ERROR(session.Run({}, {"take"}, {}, &out));
  }
}

TEST(ResetRaceTest, SessionsEndInOneOfTheirErrorsWhateverTheyWereDoing) {
  DefBuilder graph;
  graph.Variable("v", 1);
  const std::vector<DataType> floats = {DataType::kFloat};
  graph.Node("q", "FIFOQueueV2", {}, {{"component_types", floats}, {"shared_name", "q"}});
  graph.Node("put", "QueueEnqueueV2", {"q", "v/initial_value"}, {{"Tcomponents", floats}});
  graph.Node("take", "QueueDequeueV2", {"q"}, {{"component_types", floats}});
  std::atomic<bool> over{false};
  std::atomic<int> ended{0};
  std::vector<std::thread> users;
  users.reserve(4);
  for (int i = 0; i < 4; ++i) {
    users.emplace_back([&] {
      while (!over) {
        auto session = NewSession(SessionOptions());
        ASSERT_TRUE(session.ok()) << session.status();
        // Others may use it while it is closed, and its graph may come too late.
        const Status created = (*session)->Create(graph.def());
        if (created.ok()) {
          Status second;
          std::thread other([&] { second = UseUntilClosed(**session); });
          const Status first = UseUntilClosed(**session);
          // A dropped tensor is not found; in that case the session may not be closed yet.
          EXPECT_EQ((*session)->Close(), Status());
          other.join();
          for (const Status& s : {first, second}) {
            EXPECT_TRUE(errors::IsCancelled(s) || errors::IsAborted(s) || errors::IsNotFound(s) ||
                        errors::IsFailedPrecondition(s))
                << s;
          }
        } else {
          EXPECT_TRUE(errors::IsCancelled(created)) << created;
        }
        ++ended;
      }
    });
  }
  const auto reset = [](const Containers& containers) {
    EXPECT_EQ(Reset(SessionOptions(), containers), Status());
    std::this_thread::yield();
  };
  for (int i = 0; i < 50 || ended < 20; ++i) reset(i % 2 == 0 ? Containers{} : Containers{"localhost"});
  over = true;
  // A session that began after the last Reset would run endlessly.
  std::atomic<bool> joined{false};
  std::thread resets([&] {
    while (!joined) reset({});
  });
  for (std::thread& t : users) t.join();
  joined = true;
  resets.join();
}

}  // namespace
}  // namespace millrace
