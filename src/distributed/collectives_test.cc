// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Collective operations of four devices: in one process, and in four tasks whose messages are delayed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "distributed/in_process_cluster.h"
#include "graph/testing.h"
#include "session/direct_session.h"
#include "step/collective_groups.h"
#include "step/step_sequences.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr int kMembers = 4;

class CollectivesTest : public ::testing::TestWithParam<bool> {
 protected:
  // Adds the node once for each member, with "$i" as its number and "$d" as its device.
  void Make(const std::string& node) {
    SessionOptions options;
    TestConfig config;
    if (GetParam()) {
      config.other_tasks = InProcessCluster::Maker({.num_tasks = kMembers, .seed = 7, .max_delay_us = 300});
    } else {
      options.device_count["CPU"] = kMembers;
    }
    options.operation_timeout_in_ms = 60'000;
    auto made = DirectSession::MakeForTest(options, config);
    ASSERT_TRUE(made.ok()) << made.status();
    session_ = *std::move(made);
    std::string graph;
    for (int i = 0; i < kMembers; ++i) {
      std::string text = node;
      const std::string device = GetParam() ? StrCat("/task:", i) : StrCat("/device:CPU:", i);
      for (const auto& [mark, value] :
           {std::pair<std::string, std::string>{"$i", StrCat(i)}, {"$d", device}}) {
        for (size_t at = 0; (at = text.find(mark, at)) != std::string::npos;) text.replace(at, 2, value);
      }
      graph += text;
    }
    ASSERT_EQ(session_->Create(GraphDefFromText(graph)), Status());
  }
  static std::string Reduce(const std::string& type, const std::string& merge, const std::string& last,
                            int size = kMembers) {
    return StrCat(R"(
      node { name: "x$i" op: "Placeholder" device: "$d" attr { key: "dtype" value { type: )",
                  type, R"( } } }
      node { name: "y$i" op: "CollectiveReduce" input: "x$i" device: "$d" attr { key: "T" value { type: )",
                  type, " } } attr { key: \"merge_op\" value { s: \"", merge,
                  "\" } } attr { key: \"final_op\" value { s: \"", last,
                  "\" } } attr { key: \"subdiv_offsets\" value { list { i: 0 } } }", Group(size), "}");
  }
  static std::string Group(int size) {
    return StrCat(
        "attr { key: \"group_size\" value { i: ", size,
        " } } attr { key: \"group_key\" value { i: 1 } } attr { key: \"instance_key\" value { i: 1 } }");
  }
  StatusOr<std::vector<Tensor>> Run(const std::vector<Tensor>& in, int64_t timeout_in_ms = 0) {
    Session::Feeds feeds;
    std::vector<std::string> fetches;
    for (int i = 0; i < kMembers; ++i) {
      if (!in.empty()) feeds.emplace_back(StrCat("x", i), in[static_cast<size_t>(i)]);
      fetches.push_back(StrCat("y", i));
    }
    RunOptions options;
    options.timeout_in_ms = timeout_in_ms;
    std::vector<Tensor> out;
    MR_RETURN_IF_ERROR(session_->Run(options, feeds, fetches, {}, &out, nullptr));
    return out;
  }
  // Numbers whose sum depends on the order.
  static std::vector<Tensor> Numbers(int64_t size, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<Tensor> all;
    for (int i = 0; i < kMembers; ++i) {
      Tensor t(DataType::kFloat, TensorShape({size}));
      for (float& x : t.flat<float>()) x = normal(random) * std::pow(10.0f, static_cast<float>(i));
      all.push_back(t);
    }
    return all;
  }

  std::unique_ptr<DirectSession> session_;
};
INSTANTIATE_TEST_SUITE_P(Places, CollectivesTest, ::testing::Bool(),
                         [](const auto& tasks) { return tasks.param ? "Tasks" : "Devices"; });

TEST_P(CollectivesTest, SumsAreAddedInTheOrderOfTheRanks) {
  Make(Reduce("DT_FLOAT", "Add", "Id"));
  // One chunk, and several that do not end at a boundary.
  for (const int64_t size : {1, 5, 700'001}) {
    const std::vector<Tensor> in = Numbers(size, static_cast<unsigned>(size));
    for (int repeat = 0; repeat < (size < 10 ? 10 : 2); ++repeat) {
      const auto out = Run(in);
      ASSERT_TRUE(out.ok()) << out.status();
      for (const Tensor& y : *out) {
        int64_t wrong = 0;
        for (int64_t k = 0; k < size; ++k) {
          float sum = in[0].flat<float>()[static_cast<size_t>(k)];
          for (size_t m = 1; m < kMembers; ++m) sum += in[m].flat<float>()[static_cast<size_t>(k)];
          wrong += sum != y.flat<float>()[static_cast<size_t>(k)];
        }
        EXPECT_EQ(wrong, 0) << size;
      }
    }
  }
}

TEST_P(CollectivesTest, AllOperationsAndTypes) {
  const auto check = [&](const std::string& type, const std::string& merge, const std::string& last, auto one,
                         double wanted) {
    using T = decltype(one);
    Make(Reduce(type, merge, last));
    std::vector<Tensor> in;
    for (const int x : {3, -2, 5, 4})
      in.push_back(Tensor::From<T>({static_cast<T>(static_cast<float>(x))}, TensorShape({1, 1})));
    const auto out = Run(in);
    ASSERT_TRUE(out.ok()) << out.status();
    for (const Tensor& y : *out) {
      EXPECT_EQ(y.shape(), TensorShape({1, 1}));
      EXPECT_EQ(static_cast<double>(static_cast<float>(y.flat<T>()[0])), wanted) << type << merge << last;
    }
  };
  check("DT_FLOAT", "Add", "Div", 0.f, 2.5);
  check("DT_HALF", "Add", "Div", half(), 2.5);
  check("DT_HALF", "Mul", "Id", half(), -120);
  check("DT_DOUBLE", "Mul", "Id", 0.0, -120);
  check("DT_DOUBLE", "Min", "Id", 0.0, -2);
  check("DT_INT32", "Max", "Id", int32_t{}, 5);
  check("DT_INT32", "Add", "Div", int32_t{}, 2);
  check("DT_INT64", "Min", "Id", int64_t{}, -2);
  check("DT_INT64", "Add", "Id", int64_t{}, 10);
}

TEST_P(CollectivesTest, TensorsWithoutElementsAndScalars) {
  Make(Reduce("DT_FLOAT", "Add", "Div"));
  const auto empty = Run(std::vector<Tensor>(kMembers, Tensor(DataType::kFloat, TensorShape({0, 3}))));
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ((*empty)[2].shape(), TensorShape({0, 3}));
  Make(Reduce("DT_FLOAT", "Add", "Div"));
  const auto scalar = Run(std::vector<Tensor>(kMembers, Tensor::Scalar(3.f)));
  ASSERT_TRUE(scalar.ok()) << scalar.status();
  EXPECT_EQ((*scalar)[3].scalar<float>(), 3);
}

TEST_P(CollectivesTest, GatherPutsMembersOneAfterTheOther) {
  Make(StrCat(R"(
      node { name: "x$i" op: "Placeholder" device: "$d" attr { key: "dtype" value { type: DT_INT32 } } }
      node { name: "y$i" op: "CollectiveGather" input: "x$i" device: "$d" attr { key: "T" value { type: DT_INT32 } }
             attr { key: "shape" value { shape { dim { size: 1 } dim { size: 2 } } } })",
              Group(kMembers), "}"));
  std::vector<Tensor> in;
  in.reserve(kMembers);
  for (int32_t i = 0; i < kMembers; ++i)
    in.push_back(Tensor::From<int32_t>({10 * i, 10 * i + 1}, TensorShape({1, 2})));
  for (int repeat = 0; repeat < 5; ++repeat) {
    const auto out = Run(in);
    ASSERT_TRUE(out.ok()) << out.status();
    for (const Tensor& y : *out) {
      EXPECT_EQ(y.shape(), TensorShape({4, 2}));
      EXPECT_THAT(y.flat<int32_t>(), ::testing::ElementsAre(0, 1, 10, 11, 20, 21, 30, 31));
    }
  }
}

TEST_P(CollectivesTest, BroadcastFromEachMember) {
  for (int source = 0; source < kMembers; ++source) {
    const std::string attrs = StrCat(
        " attr { key: \"T\" value { type: DT_FLOAT } } attr { key: \"shape\" value { shape { dim { size: 2 } "
        "} } }",
        Group(kMembers), "}");
    Make(StrCat("node { name: \"y$i\" op: \"CollectiveBcastRecv\" device: \"$d\"", attrs));
    // The same graph with another op at the source.
    std::string graph;
    for (int i = 0; i < kMembers; ++i) {
      const std::string device = GetParam() ? StrCat("/task:", i) : StrCat("/device:CPU:", i);
      const bool sends = i == source;
      if (sends)
        graph += StrCat("node { name: \"c\" op: \"Placeholder\" device: \"", device,
                        "\" attr { key: \"dtype\" value { type: DT_FLOAT } } }");
      graph += StrCat("node { name: \"z", i, "\" op: \"CollectiveBcast", sends ? "Send" : "Recv", "\"",
                      sends ? " input: \"c\"" : "", " device: \"", device, "\"", attrs);
    }
    ASSERT_EQ(session_->Extend(GraphDefFromText(graph)), Status());
    std::vector<Tensor> out;
    ASSERT_EQ(session_->Run({{"c", Tensor::Vector({4.f, 5.f})}}, {"z0", "z1", "z2", "z3"}, {}, &out),
              Status());
    for (const Tensor& z : out) EXPECT_THAT(z.flat<float>(), ::testing::ElementsAre(4, 5));
    // A tensor of another shape than the declared one.
    const Status wrong = session_->Run({{"c", Tensor::Scalar(4.f)}}, {"z0", "z1", "z2", "z3"}, {}, &out);
    EXPECT_TRUE(errors::IsInvalidArgument(wrong)) << wrong;
  }
}

TEST_P(CollectivesTest, MembersThatDisagreeGetAnError) {
  Make(Reduce("DT_FLOAT", "Add", "Id"));
  std::vector<Tensor> in(kMembers, Tensor::Scalar(1.f));
  in[2] = Tensor::Vector({1.f, 2.f});
  const Status status = Run(in).status();
  EXPECT_TRUE(errors::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("Collective instance 1 of group 1 expected shape"));
  // A late member may have left its shape once.
  auto agreed = Run(std::vector<Tensor>(kMembers, in[2]));
  if (!agreed.ok()) agreed = Run(std::vector<Tensor>(kMembers, in[2]));
  EXPECT_TRUE(agreed.ok()) << agreed.status();
}

TEST_P(CollectivesTest, OneMembersErrorEndsAll) {
  std::string node = Reduce("DT_FLOAT", "Add", "Id");
  node = StrCat(R"(node { name: "in$i" op: "CheckNumerics" input: "x$i" device: "$d"
                  attr { key: "T" value { type: DT_FLOAT } } attr { key: "message" value { s: "bad $i" } } })",
                node.replace(node.find("input: \"x$i\""), 12, "input: \"in$i\""));
  Make(node);
  std::vector<Tensor> in(kMembers, Tensor::Scalar(1.f));
  ASSERT_TRUE(Run(in).ok());
  for (size_t bad = 0; bad < kMembers; ++bad) {
    std::vector<Tensor> wrong = in;
    wrong[bad] = Tensor::Scalar(NAN);
    const Status status = Run(wrong).status();
    EXPECT_TRUE(errors::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(StrCat("bad ", bad)));
    const auto again = Run(in);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ((*again)[0].scalar<float>(), 4);
  }
}

TEST_P(CollectivesTest, AMemberThatNeverComesIsWaitedForUntilTheDeadline) {
  Make(Reduce("DT_FLOAT", "Add", "Id", kMembers + 1));
  const Status status = Run(std::vector<Tensor>(kMembers, Tensor::Scalar(1.f)), 100).status();
  EXPECT_TRUE(errors::IsDeadlineExceeded(status)) << status;
}

TEST(CollectiveKernelTest, BadAttributesAreErrors) {
  for (const char* const attr :
       {"attr { key: 'group_size' value { i: 0 } }", "attr { key: 'subdiv_offsets' value { list { i: 7 } } }",
        "attr { key: 'group_key' value { i: 5000000000 } }"}) {
    std::string text = R"(node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
        node { name: "y" op: "CollectiveReduce" input: "x" attr { key: "T" value { type: DT_FLOAT } }
          attr { key: "merge_op" value { s: "Add" } } attr { key: "final_op" value { s: "Id" } } )";
    for (const char* const other :
         {"attr { key: 'group_size' value { i: 1 } }",
          "attr { key: 'subdiv_offsets' value { list { i: 0 } } }",
          "attr { key: 'group_key' value { i: 1 } }", "attr { key: 'instance_key' value { i: 1 } }"}) {
      const std::string_view name = std::string_view(other).substr(0, 20);
      text += std::string_view(attr).substr(0, 20) == name ? attr : other;
    }
    const auto session = *DirectSession::MakeForTest({}, {});
    ASSERT_EQ(session->Create(GraphDefFromText(text + "}")), Status());
    std::vector<Tensor> out;
    const Status status = session->Run({{"x", Tensor::Scalar(1.f)}}, {"y"}, {}, &out);
    EXPECT_TRUE(errors::IsInvalidArgument(status)) << status;
  }
}

CollectiveMember MemberAt(const std::string& device, int32_t size) {
  CollectiveMember member;
  member.name = "op";
  member.group_key = 3;
  member.group_size = size;
  member.device = device;
  member.device_type = "CPU";
  return member;
}

TEST(CollectiveGroupsTest, AGroupIsCompleteWhenAllHaveCome) {
  CollectiveGroups groups;
  std::vector<std::string> first, second;
  groups.CompleteGroup(MemberAt("b", 2), [&](const auto& devices) { first = *devices; });
  groups.CompleteGroup(MemberAt("b", 2), [](const auto&) {});  // once more, after a restart
  EXPECT_TRUE(first.empty());
  groups.CompleteGroup(MemberAt("a", 2), [&](const auto& devices) { second = *devices; });
  EXPECT_THAT(first, ::testing::ElementsAre("a", "b"));
  EXPECT_EQ(second, first);
  Status status;
  groups.CompleteGroup(MemberAt("c", 2), [&](const auto& devices) { status = devices.status(); });
  EXPECT_TRUE(errors::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("doesn't contain that device"));
  // The next program has groups of other sizes.
  groups.CompleteGroup(MemberAt("c", 1), [&](const auto& devices) { first = *devices; });
  EXPECT_THAT(first, ::testing::ElementsAre("c"));
}

TEST(CollectiveGroupsTest, ThereIsOneSource) {
  CollectiveGroups groups;
  for (const char* device : {"a", "b", "c"}) groups.CompleteGroup(MemberAt(device, 3), [](const auto&) {});
  std::map<std::string, StatusOr<int>> sources;
  const auto join = [&](const std::string& device, bool is_source) {
    CollectiveMember member = MemberAt(device, 3);
    member.kind = CollectiveMember::Kind::kBroadcast;
    member.is_source = is_source;
    groups.CompleteInstance(member,
                            [&, device](StatusOr<int> rank) { sources.insert_or_assign(device, rank); });
  };
  join("c", false);
  EXPECT_TRUE(sources.empty());
  join("b", true);
  EXPECT_EQ(sources.at("c").value_or(-2), 1);
  EXPECT_EQ(sources.at("b").value_or(-2), 1);
  join("a", true);
  EXPECT_TRUE(errors::IsInvalidArgument(sources.at("a").status()));
}

class StepSequencesTest : public ::testing::Test {
 protected:
  // The number of the task's next step, counted from the very first one.
  int64_t Next(const std::string& task, int64_t incarnation = 1) {
    StepTaker& taker = takers_[task];
    if (taker.incarnation != incarnation) taker = {task, incarnation};
    taker.last = sequences_.Next(kKey, taker);
    taker.last_failed = false;
    if (first_ == 0) first_ = taker.last;
    return taker.last - first_;
  }
  void Fail(const std::string& task) { takers_[task].last_failed = true; }

  static constexpr int64_t kKey = 5;
  StepSequences sequences_;
  std::map<std::string, StepTaker> takers_;
  int64_t first_ = 0;
};

TEST_F(StepSequencesTest, TheLeadersStepsCountOn) {
  const int64_t first = sequences_.Next(kKey);
  EXPECT_EQ(sequences_.Next(kKey), first);
  sequences_.Retire(kKey, first);
  EXPECT_EQ(sequences_.Next(kKey), first + 1);
  sequences_.Retire(kKey, first);
  EXPECT_EQ(sequences_.Next(kKey), first + 1);
  sequences_.Retire(kKey, first + 7);
  EXPECT_EQ(sequences_.Next(kKey), first + 1) << "that number was not used";
  EXPECT_NE(sequences_.Next(6), first);
}

// The source of a broadcast has ended its step, and begun others, before the last receiver requests the first
// one.
TEST_F(StepSequencesTest, ALateTaskLeavesNoStepOut) {
  EXPECT_EQ(Next("a"), 0);
  sequences_.Retire(kKey, first_);
  EXPECT_EQ(Next("b"), 0);
  EXPECT_EQ(Next("a"), 1);
  sequences_.Retire(kKey, first_ + 1);
  EXPECT_EQ(Next("c"), 0);
  EXPECT_EQ(Next("a"), 2);
  EXPECT_EQ(Next("c"), 1);
  EXPECT_EQ(Next("c"), 2);
  EXPECT_EQ(Next("b"), 1);
}

TEST_F(StepSequencesTest, AfterAnErrorAllMeetInTheNewestStep) {
  for (const char* task : {"a", "b", "c"}) Next(task);
  EXPECT_EQ(Next("a"), 1);
  EXPECT_EQ(Next("a"), 2);
  EXPECT_EQ(Next("b"), 1);
  Fail("c");  // step 0
  EXPECT_EQ(Next("c"), 2);
  Fail("b");
  EXPECT_EQ(Next("b"), 2);
  for (const char* task : {"a", "b", "c"}) Fail(task);
  for (const char* task : {"c", "a", "b"}) EXPECT_EQ(Next(task), 3);
  Fail("b");
  EXPECT_EQ(Next("a"), 4);
  EXPECT_EQ(Next("b"), 4);
  EXPECT_EQ(Next("d"), 4) << "the steps before the error are over";
}

TEST_F(StepSequencesTest, ARestartedTaskJoinsTheOthers) {
  for (const char* task : {"a", "b", "c"}) Next(task);
  EXPECT_EQ(Next("a"), 1);
  EXPECT_EQ(Next("b", 2), 1) << "where a waits for it";
  EXPECT_EQ(Next("c"), 1);
  EXPECT_EQ(Next("b", 3), 2) << "its previous life has been in the newest one";
  Fail("a");
  Fail("c");
  EXPECT_EQ(Next("c"), 2);
  EXPECT_EQ(Next("a"), 2);
}

TEST_F(StepSequencesTest, ATaskThatIsNewAfterManyStepsJoinsTheOthers) {
  for (int i = 0; i <= 10; ++i) {
    EXPECT_EQ(Next("a"), i);
    EXPECT_EQ(Next("b"), i);
  }
  EXPECT_EQ(Next("c"), 10);
}

TEST_F(StepSequencesTest, ALostAnswerIsGivenAgain) {
  Next("a");
  StepTaker taker{"b", 1};
  const int64_t lost = sequences_.Next(kKey, taker);
  EXPECT_EQ(sequences_.Next(kKey, taker), lost);
  taker.last = lost;
  const int64_t second = sequences_.Next(kKey, taker);
  EXPECT_EQ(second, lost + 1);
  EXPECT_EQ(sequences_.Next(kKey, taker), second);
}

// The numbers of its tasks are no longer valid.
TEST_F(StepSequencesTest, ALeaderThatHasRestartedBeginsAnew) {
  Next("a");
  StepSequences restarted;
  const int64_t first = restarted.Next(kKey, takers_["a"]);
  EXPECT_NE(first, first_ + 1);
  EXPECT_EQ(restarted.Next(kKey, {"b", 1, first_, true}), first);
  EXPECT_EQ(restarted.Next(kKey, {"b", 1, INT64_MAX, false}), first);
  EXPECT_EQ(restarted.Next(kKey, {"b", 1, INT64_MIN, true}), first);
}

}  // namespace
}  // namespace millrace
