// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Barriers, staging areas, mutexes and accumulators between steps of a session.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <thread>

#include "tensor/testing.h"
#include "tests/session/state_testing.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

void Types(tensorflow::NodeDef* node, const char* attr, const std::vector<DataType>& types) {
  for (const DataType t : types) {
    (*node->mutable_attr())[attr].mutable_list()->add_type(static_cast<tensorflow::DataType>(t));
  }
}
void Type(tensorflow::NodeDef* node, const char* attr, DataType type) {
  (*node->mutable_attr())[attr].set_type(static_cast<tensorflow::DataType>(type));
}

using CoordinationTest = StateTest;

class BarrierTest : public CoordinationTest {
 protected:
  void SetUp() override {
    auto* b = graph_.Add("b", "Barrier", {});
    Types(b, "component_types", {DataType::kFloat, DataType::kString});
    auto* shapes = (*b->mutable_attr())["shapes"].mutable_list();
    shapes->add_shape()->add_dim()->set_size(2);
    shapes->add_shape();
    graph_.Placeholder("keys", tensorflow::DT_STRING);
    graph_.Placeholder("floats");
    graph_.Placeholder("strings", tensorflow::DT_STRING);
    graph_.Placeholder("n", tensorflow::DT_INT32);
    Type(graph_.Add("put0", "BarrierInsertMany", {"b", "keys", "floats"}), "T", DataType::kFloat);
    Type(graph_.Add("put1", "BarrierInsertMany", {"b", "keys", "strings"}), "T", DataType::kString);
    Component("put0", 0);
    Component("put1", 1);
    for (const bool small : {false, true}) {
      auto* take = graph_.Add(small ? "take_small" : "take", "BarrierTakeMany", {"b", "n"});
      Types(take, "component_types", {DataType::kFloat, DataType::kString});
      (*take->mutable_attr())["allow_small_batch"].set_b(small);
      auto* close = graph_.Add(small ? "cancel" : "close", "BarrierClose", {"b"});
      (*close->mutable_attr())["cancel_pending_enqueues"].set_b(small);
    }
    graph_.Add("ready", "BarrierReadySize", {"b"});
    graph_.Add("incomplete", "BarrierIncompleteSize", {"b"});
  }
  void Component(const std::string& name, int64_t i) {
    for (auto& node : *graph_.mutable_def()->mutable_node()) {
      if (node.name() == name) (*node.mutable_attr())["component_index"].set_i(i);
    }
  }
  Status Put0(const std::vector<std::string>& keys, const std::vector<float>& values) {
    const auto n = static_cast<int64_t>(keys.size());
    return Do("put0", {{"keys", Tensor::Vector(keys)}, {"floats", AsTensor<float>(values, {n, 2})}});
  }
  Status Put1(const std::vector<std::string>& keys, const std::vector<std::string>& values) {
    return Do("put1", {{"keys", Tensor::Vector(keys)}, {"strings", Tensor::Vector(values)}});
  }
};

TEST_F(BarrierTest, ElementsComeWhenAllTheirComponentsExist) {
  ASSERT_EQ(Put0({"a", "b"}, {1, 2, 3, 4}), Status());
  ASSERT_EQ(Put1({"c", "b"}, {"C", "B"}), Status());
  EXPECT_EQ(Count("ready"), 1);
  EXPECT_EQ(Count("incomplete"), 2);
  ASSERT_EQ(Put1({"a"}, {"A"}), Status());
  ASSERT_EQ(Put0({"c"}, {5, 6}), Status());
  const auto out = Get({"take:0", "take:1", "take:2", "take:3"}, {{"n", Tensor::Scalar(3)}});
  ASSERT_TRUE(out.ok()) << out.status();
  constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();
  EXPECT_TRUE(TensorsEqual(AsTensor<int64_t>({kFirst, kFirst, kFirst + 1}), (*out)[0]));
  EXPECT_TRUE(TensorsEqual(AsTensor<std::string>({"b", "a", "c"}), (*out)[1]));
  EXPECT_TRUE(TensorsEqual(AsTensor<float>({3, 4, 1, 2, 5, 6}, {3, 2}), (*out)[2]));
  EXPECT_TRUE(TensorsEqual(AsTensor<std::string>({"B", "A", "C"}), (*out)[3]));
  EXPECT_EQ(Count("ready"), 0);
}

TEST_F(BarrierTest, BadInsertionsAreRefused) {
  ASSERT_EQ(Put0({"a"}, {1, 2}), Status());
  EXPECT_THAT(Put0({"a"}, {1, 2}).ToString(),
              HasSubstr("Key a already has a value for component 0 in barrier"));
  EXPECT_THAT(
      Do("put0", {{"keys", Tensor::Vector<std::string>({"x"})}, {"floats", AsTensor<float>({1}, {1, 1})}})
          .ToString(),
      HasSubstr("Shape mismatch"));
  EXPECT_TRUE(errors::IsDeadlineExceeded(DoFor(5, "take", {{"n", Tensor::Scalar(1)}})));
  EXPECT_TRUE(errors::IsInvalidArgument(DoFor(5, "take", {{"n", Tensor::Scalar(-1)}})));
}

TEST_F(BarrierTest, ClosingLetsPendingKeysBeCompleted) {
  ASSERT_EQ(Put0({"a", "b"}, {1, 2, 3, 4}), Status());
  ASSERT_EQ(Put1({"b"}, {"B"}), Status());
  std::thread taker([&] {
    const auto out = Get({"take:1"}, {{"n", Tensor::Scalar(2)}});
    EXPECT_TRUE(out.ok()) << out.status();
  });
  ASSERT_EQ(Do("close"), Status());
  EXPECT_THAT(Put0({"new"}, {1, 2}).ToString(),
              HasSubstr("is closed, but attempted to insert a brand new key: new"));
  EXPECT_THAT(Do("close").ToString(), HasSubstr("is already closed."));
  ASSERT_EQ(Put1({"a"}, {"A"}), Status());
  taker.join();
  EXPECT_THAT(Put1({"a"}, {"A"}).ToString(), HasSubstr("is closed.  Pending enqueues cancelled: 0"));
  const Status empty = Get({"take:0"}, {{"n", Tensor::Scalar(2)}}).status();
  EXPECT_TRUE(errors::IsOutOfRange(empty));
  EXPECT_THAT(empty.ToString(),
              HasSubstr("is closed and has insufficient elements (requested 2, total size 0)"));
}

TEST_F(BarrierTest, CancellingDropsIncompleteElements) {
  ASSERT_EQ(Put0({"a", "b"}, {1, 2, 3, 4}), Status());
  ASSERT_EQ(Put1({"b"}, {"B"}), Status());
  ASSERT_EQ(Do("close"), Status());
  ASSERT_EQ(Do("cancel"), Status()) << "cancelling may follow closing";
  EXPECT_EQ(Count("incomplete"), 0);
  EXPECT_THAT(Put1({"a"}, {"A"}).ToString(), HasSubstr("Pending enqueues cancelled: 1"));
  EXPECT_TRUE(errors::IsOutOfRange(Get({"take:0"}, {{"n", Tensor::Scalar(2)}}).status()));
  const auto out = Get({"take_small:1"}, {{"n", Tensor::Scalar(5)}});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_TRUE(TensorsEqual(AsTensor<std::string>({"b"}), (*out)[0]));
}

class StagingTest : public CoordinationTest {
 protected:
  void SetUp() override {
    graph_.Placeholder("x");
    graph_.Placeholder("i", tensorflow::DT_INT32);
    const auto add = [&](const char* name, const char* op, const std::vector<std::string>& inputs) {
      auto* node = graph_.Add(name, op, inputs);
      Types(node, "dtypes", {DataType::kFloat});
      (*node->mutable_attr())["shared_name"].set_s("area");
      return node;
    };
    add("stage", "Stage", {"x"});
    add("unstage", "Unstage", {});
    add("peek", "StagePeek", {"i"});
    add("size", "StageSize", {});
    add("clear", "StageClear", {});
    auto* wrong = graph_.Add("wrong", "Unstage", {});
    Types(wrong, "dtypes", {DataType::kInt32});
    (*wrong->mutable_attr())["shared_name"].set_s("area");
    // The op that creates the area determines its capacity.
    for (const auto& [name, op] : {std::pair("small", "StageSize"), std::pair("put", "Stage")}) {
      auto* node = graph_.Add(
          name, op, name == std::string("put") ? std::vector<std::string>{"x"} : std::vector<std::string>{});
      Types(node, "dtypes", {DataType::kFloat});
      (*node->mutable_attr())["shared_name"].set_s("small_area");
      if (name == std::string("put")) continue;
      (*node->mutable_attr())["capacity"].set_i(2);
      (*node->mutable_attr())["memory_limit"].set_i(6);
    }
  }
  Status Stage(float v) { return Do("stage", {{"x", Tensor::Scalar(v)}}); }
  float First(const StatusOr<std::vector<Tensor>>& out) {
    EXPECT_TRUE(out.ok()) << out.status();
    return out.ok() ? (*out)[0].scalar<float>() : -1;
  }
};

TEST_F(StagingTest, TuplesComeOutInTheirOrder) {
  for (const float v : {1.0f, 2.0f, 3.0f}) ASSERT_EQ(Stage(v), Status());
  EXPECT_EQ(Count("size"), 3);
  EXPECT_EQ(First(Get({"peek"}, {{"i", Tensor::Scalar(2)}})), 3);
  EXPECT_EQ(First(Get({"unstage"})), 1);
  EXPECT_EQ(First(Get({"unstage"})), 2);
  ASSERT_EQ(Do("clear"), Status());
  EXPECT_EQ(Count("size"), 0);
}

TEST_F(StagingTest, ReadersWaitForWriters) {
  for (const char* target : {"unstage", "peek"}) {
    EXPECT_TRUE(errors::IsDeadlineExceeded(DoFor(5, target, {{"i", Tensor::Scalar(0)}}))) << target;
  }
  session();
  std::thread reader([&] { EXPECT_EQ(First(Get({"unstage"})), 4); });
  ASSERT_EQ(Stage(4), Status());
  reader.join();
  ASSERT_EQ(Stage(5), Status());
  EXPECT_THAT(Do("wrong").ToString(), HasSubstr("Mismatch stage/unstage"));
  EXPECT_TRUE(errors::IsInvalidArgument(DoFor(5, "peek", {{"i", Tensor::Scalar(-1)}})));
}

TEST_F(StagingTest, WritersWaitForRoom) {
  ASSERT_EQ(Count("small"), 0);
  ASSERT_EQ(Do("put", {{"x", Tensor::Scalar(1.0f)}}), Status());
  EXPECT_TRUE(errors::IsDeadlineExceeded(DoFor(5, "put", {{"x", Tensor::Scalar(1.0f)}}))) << "8 bytes of 6";
  EXPECT_THAT(
      Do("put", {{"x", Tensor::Vector<float>({1, 2})}}).ToString(),
      HasSubstr("Attempted to insert tensors with combined size of '8' bytes into Staging Area with a "
                "memory limit of '6'."));
  const Tensor nothing = Tensor::Vector<float>({});
  ASSERT_EQ(Do("put", {{"x", nothing}}), Status());
  EXPECT_TRUE(errors::IsDeadlineExceeded(DoFor(5, "put", {{"x", nothing}}))) << "two are enough";
}

TEST_F(CoordinationTest, AMutexIsHeldForAsLongAsTheLockLives) {
  (*graph_.Add("m", "MutexV2", {})->mutable_attr())["shared_name"].set_s("mutex");
  graph_.Add("lock", "MutexLock", {"m"});
  graph_.Add("unlock", "ConsumeMutexLock", {"lock"});
  graph_.Const("number", Tensor::Scalar<Variant>(Variant()));
  graph_.Add("wrong", "ConsumeMutexLock", {"number"});
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(Do("lock"), Status());
    ASSERT_EQ(Do("unlock"), Status());
  }
  auto held = Get({"lock"});
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_TRUE(errors::IsDeadlineExceeded(DoFor(5, "lock")));
  std::thread waiting([&] { EXPECT_EQ(Do("unlock"), Status()); });
  held->clear();
  waiting.join();
  ASSERT_EQ(Do("lock"), Status());
  EXPECT_THAT(Do("wrong").ToString(), HasSubstr("Expected input to be a SharedLockReleaser"));
}

TEST_F(CoordinationTest, ATemporaryVariableLivesForOneStep) {
  auto* t = graph_.Add("t", "TemporaryVariable", {});
  Type(t, "dtype", DataType::kFloat);
  (*t->mutable_attr())["shape"].mutable_shape()->add_dim()->set_size(2);
  graph_.Const("x", Tensor::Vector<float>({1, 2}));
  graph_.Float("set", "Assign", {"t", "x"});
  graph_.Float("add", "AssignAdd", {"set", "x"});
  const auto destroy = [&](const char* name, const char* of, const char* var) {
    auto* node = graph_.Float(name, "DestroyTemporaryVariable", {of});
    (*node->mutable_attr())["var_name"].set_s(var);
    return node;
  };
  destroy("out", "add", "t");
  destroy("again", "add", "t")->add_input("^out");
  destroy("wrong", "add", "u");
  graph_.Float("late", "Identity", {"t"})->add_input("^out");
  auto* twin = graph_.Add("twin", "TemporaryVariable", {"^t"});
  Type(twin, "dtype", DataType::kFloat);
  (*twin->mutable_attr())["var_name"].set_s("t");
  (*twin->mutable_attr())["shape"].mutable_shape()->add_dim()->set_size(2);
  for (int i = 0; i < 3; ++i) {
    const auto out = Get({"out"});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_TRUE(TensorsEqual(AsTensor<float>({2, 4}), (*out)[0]));
    ASSERT_EQ(Do("add"), Status()) << "it need not be destroyed";
  }
  EXPECT_TRUE(errors::IsFailedPrecondition(Do("again"))) << "there is nothing left to destroy";
  EXPECT_TRUE(errors::IsNotFound(Do("wrong")));
  // A tensor that is sent to another device is a copy.
  EXPECT_TRUE(NodesAreSpread() || errors::IsFailedPrecondition(Do("late"))) << "its value is gone";
  EXPECT_TRUE(errors::IsAlreadyExists(Do("twin")));
}

class AccumulatorTest : public CoordinationTest {
 protected:
  // Nodes <prefix>{acc,apply,take,set,count}; a resource for some prefixes.
  void Dense(const std::string& prefix, DataType dtype, const char* reduction = nullptr) {
    auto* acc = graph_.Add(prefix + "acc", prefix + "ConditionalAccumulator", {});
    Type(acc, "dtype", dtype);
    (*acc->mutable_attr())["shape"].mutable_shape()->add_dim()->set_size(-1);
    if (reduction != nullptr) (*acc->mutable_attr())["reduction_type"].set_s(reduction);
    Type(graph_.Add(prefix + "apply", prefix + "AccumulatorApplyGradient", {prefix + "acc", "step", "g"}),
         "dtype", dtype);
    Type(graph_.Add(prefix + "take", prefix + "AccumulatorTakeGradient", {prefix + "acc", "n"}), "dtype",
         dtype);
    graph_.Add(prefix + "set", prefix + "AccumulatorSetGlobalStep", {prefix + "acc", "step"});
    graph_.Add(prefix + "count", prefix + "AccumulatorNumAccumulated", {prefix + "acc"});
    graph_.Placeholder("step", tensorflow::DT_INT64);
    graph_.Placeholder("n", tensorflow::DT_INT32);
    graph_.Placeholder("g", static_cast<tensorflow::DataType>(dtype));
  }
  static Tensor Step(int64_t v) { return Tensor::Scalar<int64_t>(v); }
};

// Averaged as the underlying integers.
TEST_F(AccumulatorTest, QuantisedNumbersAreAveraged) {
  Dense("", DataType::kQint32);
  const auto quantised = [](int32_t a, int32_t b) {
    Tensor t = *Tensor::Allocate(DataType::kQint32, TensorShape({2}));
    static_cast<int32_t*>(t.raw_data())[0] = a;
    static_cast<int32_t*>(t.raw_data())[1] = b;
    return t;
  };
  ASSERT_EQ(Do("apply", {{"step", Step(0)}, {"g", quantised(100'000, -7)}}), Status());
  ASSERT_EQ(Do("apply", {{"step", Step(0)}, {"g", quantised(300'000, 1)}}), Status());
  const auto out = Get({"take"}, {{"n", Tensor::Scalar(2)}});
  ASSERT_TRUE(out.ok()) << out.status();
  ASSERT_EQ((*out)[0].dtype(), DataType::kQint32);
  const auto* mean = static_cast<const int32_t*>((*out)[0].raw_data());
  EXPECT_EQ(mean[0], 200'000);
  EXPECT_EQ(mean[1], -3);
}

TEST_F(AccumulatorTest, TheMeanIsTakenAndStaleGradientsAreDropped) {
  Dense("", DataType::kFloat);
  const auto apply = [&](int64_t step, const std::vector<float>& g) {
    return Do("apply", {{"step", Step(step)}, {"g", Tensor::Vector(g)}});
  };
  ASSERT_EQ(apply(0, {1, 2}), Status());
  ASSERT_EQ(apply(0, {3, 8}), Status());
  EXPECT_EQ(Count("count"), 2);
  EXPECT_THAT(apply(0, {1}).ToString(), HasSubstr("Shape mismatch: expected [2], got [1]"));
  EXPECT_TRUE(errors::IsDeadlineExceeded(DoFor(5, "take", {{"n", Tensor::Scalar(3)}})));
  auto out = Get({"take"}, {{"n", Tensor::Scalar(2)}});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_TRUE(TensorsEqual(AsTensor<float>({2, 5}), (*out)[0]));
  EXPECT_EQ(Count("count"), 0);
  ASSERT_EQ(apply(0, {9, 9}), Status()) << "the taking raised the global step to 1";
  EXPECT_EQ(Count("count"), 0);
  ASSERT_EQ(Do("set", {{"step", Step(7)}}), Status());
  ASSERT_EQ(apply(6, {9, 9}), Status());
  EXPECT_EQ(Count("count"), 0);
  std::thread taker([&] {
    const auto waited = Get({"take"}, {{"n", Tensor::Scalar(1)}});
    ASSERT_TRUE(waited.ok()) << waited.status();
    EXPECT_TRUE(TensorsEqual(AsTensor<float>({4, 4, 4}), (*waited)[0]));
  });
  ASSERT_EQ(apply(7, {4, 4, 4}), Status()) << "another shape is fine when nothing was summed up";
  taker.join();
  EXPECT_THAT(Do("take", {{"n", Tensor::Scalar(0)}}).ToString(),
              HasSubstr("Argument num_required must be positive, but was 0"));
  EXPECT_THAT(Do("apply", {{"step", Step(9)}, {"g", AsTensor<float>({1, 2}, {1, 2})}}).ToString(),
              HasSubstr("Shape mismatch: expected [?], got [1,2]"));
  EXPECT_THAT(Do("set", {{"step", Tensor::Vector<int64_t>({1})}}).ToString(),
              HasSubstr("Argument new_global_step must be scalar but had bad shape [1]"));
}

TEST_F(AccumulatorTest, GradientsThatAreSummedStayAsTheyWereForOthers) {
  Dense("Resource", DataType::kInt32, "SUM");
  const Tensor g = Tensor::Vector<int32_t>({3, -4});
  for (int i = 0; i < 3; ++i) ASSERT_EQ(Do("Resourceapply", {{"step", Step(0)}, {"g", g}}), Status());
  const auto out = Get({"Resourcetake"}, {{"n", Tensor::Scalar(3)}});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_TRUE(TensorsEqual(AsTensor<int32_t>({9, -12}), (*out)[0]));
  EXPECT_TRUE(TensorsEqual(AsTensor<int32_t>({3, -4}), g));
}

TEST_F(AccumulatorTest, ManyThreadsApplyAndOneTakes) {
  Dense("", DataType::kDouble);
  session();
  constexpr int kThreads = 4, kEach = 50;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        EXPECT_EQ(Do("apply", {{"step", Step(1'000'000)}, {"g", Tensor::Vector<double>({1.0, i * 1.0})}}),
                  Status());
      }
    });
  }
  const auto out = Get({"take"}, {{"n", Tensor::Scalar(kThreads * kEach)}});
  for (std::thread& t : threads) t.join();
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_TRUE(TensorsEqual(AsTensor<double>({1, (kEach - 1) / 2.0}), (*out)[0]));
}

TEST_F(AccumulatorTest, SparseRowsAreAveragedOverTheGradientsThatHaveThem) {
  auto* acc = graph_.Add("acc", "SparseConditionalAccumulator", {});
  Type(acc, "dtype", DataType::kFloat);
  auto* shape = (*acc->mutable_attr())["shape"].mutable_shape();
  shape->add_dim()->set_size(5);
  shape->add_dim()->set_size(-1);
  graph_.Placeholder("step", tensorflow::DT_INT64);
  graph_.Placeholder("i", tensorflow::DT_INT64);
  graph_.Placeholder("v");
  graph_.Placeholder("s", tensorflow::DT_INT64);
  graph_.Const("two", Tensor::Scalar(2));
  for (const bool known : {false, true}) {
    auto* apply = graph_.Add(known ? "apply_known" : "apply", "SparseAccumulatorApplyGradient",
                             {"acc", "step", "i", "v", "s"});
    Type(apply, "dtype", DataType::kFloat);
    (*apply->mutable_attr())["has_known_shape"].set_b(known);
  }
  Type(graph_.Add("take", "SparseAccumulatorTakeGradient", {"acc", "two"}), "dtype", DataType::kFloat);
  Type(graph_.Add("dense", "AccumulatorTakeGradient", {"acc", "two"}), "dtype", DataType::kFloat);
  const auto apply = [&](const std::vector<int64_t>& i, const Tensor& v, const char* how = "apply",
                         const std::vector<int64_t>& s = {}) {
    return Do(how, {{"step", Step(0)}, {"i", Tensor::Vector(i)}, {"v", v}, {"s", Tensor::Vector(s)}});
  };
  ASSERT_EQ(apply({4, 1}, AsTensor<float>({1, 2, 3, 4}, {2, 2})), Status());
  ASSERT_EQ(apply({1, 0}, AsTensor<float>({5, 6, 7, 8}, {2, 2}), "apply_known", {5, 2}), Status());
  EXPECT_THAT(apply({1}, AsTensor<float>({5}, {1, 1})).ToString(), HasSubstr("Shape mismatch"));
  EXPECT_THAT(apply({5}, AsTensor<float>({5, 6}, {1, 2})).ToString(), HasSubstr("Index 5"));
  EXPECT_THAT(apply({-1}, AsTensor<float>({5, 6}, {1, 2})).ToString(), HasSubstr("Index -1"));
  EXPECT_THAT(apply({1}, AsTensor<float>({5, 6}, {1, 2}), "apply_known", {6, 2}).ToString(),
              HasSubstr("Shape mismatch"));
  EXPECT_THAT(apply({1, 2}, AsTensor<float>({5, 6}, {1, 2})).ToString(), HasSubstr("2 indices"));
  EXPECT_THAT(Do("dense").ToString(), HasSubstr("is a sparse one of float, not a dense one"));
  const auto out = Get({"take:0", "take:1", "take:2"});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_TRUE(TensorsEqual(AsTensor<int64_t>({0, 1, 4}), (*out)[0]));
  EXPECT_TRUE(TensorsEqual(AsTensor<float>({7, 8, 4, 5, 1, 2}, {3, 2}), (*out)[1]));
  EXPECT_TRUE(TensorsEqual(AsTensor<int64_t>({5, 2}), (*out)[2]));
}

}  // namespace
}  // namespace millrace
