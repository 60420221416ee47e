// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "session/direct_session.h"
#include "tests/session/def_builder.h"

namespace millrace {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

Tensor F(float v) { return Tensor::Scalar(v); }
float Value(const Tensor& t) { return t.dtype() == DataType::kFloat ? t.scalar<float>() : NAN; }

// The configuration of a session; each test runs with each of them.
struct Setup {
  const char* name;
  int threads;
  int cpus;
  bool optimize;
};
void PrintTo(const Setup& s, std::ostream* os) { *os << s.name; }

class SessionTest : public ::testing::TestWithParam<Setup> {
 protected:
  SessionOptions Options() const {
    SessionOptions o;
    o.inter_op_parallelism_threads = GetParam().threads;
    o.intra_op_parallelism_threads = GetParam().threads;
    o.device_count["CPU"] = GetParam().cpus;
    o.fold_constants = GetParam().optimize;
    o.eliminate_common_subexpressions = GetParam().optimize;
    return o;
  }
  // With two CPUs, nodes whose name has an odd hash are placed on the second, so that edges are cut.
  std::unique_ptr<Session> Make(const DefBuilder& graph) const {
    DefBuilder spread = graph;
    if (GetParam().cpus > 1) {
      for (auto& node : *spread.mutable_def()->mutable_node()) {
        const bool stays = node.op() == "VariableV2" || node.op() == "Assign" || node.op() == "AssignAdd" ||
                           !node.device().empty();
        if (!stays && std::hash<std::string>()(node.name()) % 2 == 1) node.set_device("/cpu:1");
      }
    }
    return SessionWith(spread, Options());
  }
};

// y = (x + 1) * (x + 1), z = Identity(y)
DefBuilder SquareGraph() {
  DefBuilder g;
  g.Placeholder("x");
  g.Const("one", F(1));
  g.Float("a", "Add", {"x", "one"});
  g.Float("b", "Add", {"x", "one"});
  g.Float("y", "Mul", {"a", "b"});
  g.Float("z", "Identity", {"y"});
  g.Add("nothing", "NoOp", {"^y"});
  return g;
}

TEST_P(SessionTest, FetchesComeInTheCallersOrderAndMayRepeat) {
  const auto session = Make(SquareGraph());
  std::vector<Tensor> out;
  ASSERT_TRUE(session->Run({{"x", F(2)}}, {"z", "a:0", "y", "a", "x:0"}, {}, &out).ok());
  ASSERT_EQ(out.size(), 5u);
  EXPECT_EQ(Value(out[0]), 9);
  EXPECT_EQ(Value(out[1]), 3);
  EXPECT_EQ(Value(out[2]), 9);
  EXPECT_EQ(Value(out[3]), 3);
  EXPECT_EQ(Value(out[4]), 2) << "a fed tensor can be fetched";
}

TEST_P(SessionTest, AnyTensorCanBeFedAndUnusedFeedsAreFine) {
  const auto session = Make(SquareGraph());
  std::vector<Tensor> out;
  ASSERT_TRUE(session->Run({{"a", F(10)}, {"x", F(2)}}, {"y"}, {}, &out).ok());
  EXPECT_EQ(Value(out[0]), 30);
  ASSERT_TRUE(session->Run({{"y", F(5)}, {"x", F(2)}}, {"z"}, {}, &out).ok());
  EXPECT_EQ(Value(out[0]), 5);
  ASSERT_TRUE(session->Run({{"one", F(0)}, {"x", F(2)}}, {"y"}, {}, &out).ok());
  EXPECT_EQ(Value(out[0]), 4) << "a constant that is fed must not have been folded away";
}

TEST_P(SessionTest, TargetsRunWithoutOutputs) {
  DefBuilder g;
  g.Variable("v", 1);
  g.Const("two", F(2));
  g.Float("inc", "AssignAdd", {"v", "two"});
  g.Float("read", "Identity", {"v"});
  const auto session = Make(g);
  std::vector<Tensor> out{F(7)};
  ASSERT_TRUE(session->Run({}, {}, {"v/Assign"}, nullptr).ok());
  ASSERT_TRUE(session->Run({}, {}, {"inc", "inc"}, &out).ok());
  EXPECT_TRUE(out.empty());
  ASSERT_TRUE(session->Run({}, {"read"}, {}, &out).ok());
  EXPECT_EQ(Value(out[0]), 3) << "state lives from Run to Run; a target named twice runs once";
}

TEST_P(SessionTest, EmptyRequestsAreRefused) {
  const auto session = Make(SquareGraph());
  std::vector<Tensor> out;
  EXPECT_TRUE(errors::IsInvalidArgument(session->Run({}, {}, {}, &out)));
}

TEST_P(SessionTest, BadNamesAreNamed) {
  const auto session = Make(SquareGraph());
  std::vector<Tensor> out;
  EXPECT_THAT(session->Run({}, {"nowhere"}, {}, &out).ToString(), HasSubstr("nowhere"));
  EXPECT_THAT(session->Run({}, {"y:1"}, {}, &out).ToString(), HasSubstr("does not have output 1"));
  EXPECT_THAT(session->Run({}, {}, {"ghost"}, &out).ToString(), HasSubstr("ghost"));
  EXPECT_THAT(session->Run({{"phantom", F(1)}}, {"one"}, {}, &out).ToString(), HasSubstr("phantom"));
  EXPECT_THAT(session->Run({{"x", F(1)}, {"x:0", F(2)}}, {"y"}, {}, &out).ToString(),
              HasSubstr("more than once"));
  EXPECT_THAT(session->Run({}, {""}, {}, &out).ok(), false);
}

TEST_P(SessionTest, PlaceholderThatIsNotFedIsNamed) {
  const auto session = Make(SquareGraph());
  std::vector<Tensor> out;
  const Status s = session->Run({}, {"y"}, {}, &out);
  EXPECT_TRUE(errors::IsInvalidArgument(s));
  EXPECT_THAT(s.message(), HasSubstr("You must feed a value for placeholder tensor 'x' with dtype float"));
  EXPECT_THAT(s.message(), HasSubstr("\n\t [[{{node x}}]]"));
}

TEST_P(SessionTest, FeedsOfTheWrongTypeAreRefusedAndThoseOfAnotherShapeTaken) {
  DefBuilder g;
  g.ShapedPlaceholder("m", {-1, 2});
  g.Float("y", "Neg", {"m"});
  const auto session = Make(g);
  std::vector<Tensor> out;
  EXPECT_THAT(session->Run({{"m", Tensor::Scalar<int32_t>(1)}}, {"y"}, {}, &out).message(),
              HasSubstr("to be float but int32"));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(session->Run({{"m", Tensor::Vector<float>({1, 2, 3})}}, {"y"}, {}, &out).ok());
    ASSERT_EQ(out[0].shape(), TensorShape({3}));
    EXPECT_EQ(out[0].data<float>()[2], -3);
  }
  EXPECT_TRUE(session->Run({{"m", Tensor(DataType::kFloat, {0, 2})}}, {"y"}, {}, &out).ok());
  EXPECT_EQ(out[0].shape(), TensorShape({0, 2}));
}

// Values computed from the declared shape at compilation are not used for another shape.
TEST_P(SessionTest, ShapesThatFeedsDoNotHaveAreNotFolded) {
  DefBuilder g;
  g.ShapedPlaceholder("m", {2, 2});
  g.Node("shape", "Shape", {"m"}, {{"T", DataType::kFloat}, {"out_type", DataType::kInt32}});
  g.Node("size", "Size", {"m"}, {{"T", DataType::kFloat}, {"out_type", DataType::kInt32}});
  const auto session = Make(g);
  std::vector<Tensor> out;
  for (const int64_t n : {2, 3, 2, 5}) {
    const Tensor fed(DataType::kFloat, n == 2 ? TensorShape({2, 2}) : TensorShape({n}));
    ASSERT_TRUE(session->Run({{"m", fed}}, {"shape", "size"}, {}, &out).ok());
    EXPECT_EQ(out[0].num_elements(), n == 2 ? 2 : 1);
    EXPECT_EQ(out[0].data<int32_t>()[0], n);
    EXPECT_EQ(out[1].scalar<int32_t>(), n == 2 ? 4 : n);
  }
}

TEST_P(SessionTest, FeedIsNotOverwrittenInPlace) {
  const auto session = Make(SquareGraph());
  const Session::Feeds feeds{{"x", F(2)}};
  std::vector<Tensor> out;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(session->Run(feeds, {"y"}, {}, &out).ok());
    EXPECT_EQ(Value(out[0]), 9);
    EXPECT_EQ(Value(feeds[0].second), 2);
  }
}

TEST_P(SessionTest, KernelErrorNamesNodeAndOp) {
  DefBuilder g;
  g.Placeholder("p");
  g.Placeholder("q");
  g.Float("sum", "Add", {"p", "q"});
  const auto session = Make(g);
  std::vector<Tensor> out;
  const Status s = session->Run(
      {{"p", Tensor::Vector<float>({1, 2})}, {"q", Tensor::Vector<float>({1, 2, 3})}}, {"sum"}, {}, &out);
  EXPECT_TRUE(errors::IsInvalidArgument(s));
  EXPECT_THAT(s.message(), HasSubstr("Incompatible shapes: [2] vs. [3]"));
  EXPECT_THAT(s.message(), HasSubstr("[[{{node sum}}]]"));
  ASSERT_TRUE(session->Run({{"p", F(1)}, {"q", F(2)}}, {"sum"}, {}, &out).ok()) << "the session continues";
  EXPECT_EQ(Value(out[0]), 3);
}

TEST_P(SessionTest, VariableBeforeItsFirstAssignmentIsAnError) {
  DefBuilder g;
  g.Variable("w", 1);
  g.Float("read", "Identity", {"w"});
  const auto session = Make(g);
  std::vector<Tensor> out;
  const Status s = session->Run({}, {"read"}, {}, &out);
  EXPECT_EQ(s.code(), ErrorCode::kFailedPrecondition);
  EXPECT_THAT(s.message(), HasSubstr("Attempting to use uninitialized value w"));
}

TEST_P(SessionTest, ExtendAppendsAndRefusesDuplicates) {
  const auto session = Make(SquareGraph());
  DefBuilder more;
  more.Float("twice", "Add", {"y", "y"});
  ASSERT_TRUE(session->Extend(more.def()).ok());
  std::vector<Tensor> out;
  ASSERT_TRUE(session->Run({{"x", F(1)}}, {"twice"}, {}, &out).ok());
  EXPECT_EQ(Value(out[0]), 8);
  const Status again = session->Extend(more.def());
  EXPECT_FALSE(again.ok());
  EXPECT_THAT(again.message(), HasSubstr("twice"));
  DefBuilder broken;
  broken.Float("fresh", "Neg", {"y"});
  broken.Float("bad", "Neg", {"missing"});
  EXPECT_THAT(session->Extend(broken.def()).message(), HasSubstr("missing"));
  DefBuilder fresh;
  fresh.Float("fresh", "Neg", {"y"});
  EXPECT_TRUE(session->Extend(fresh.def()).ok()) << "a failed Extend must leave nothing behind";
}

// As in TensorFlow, whose sessions do not check shapes.
TEST_P(SessionTest, WhatFailsOnlyWhenItIsRunIsTaken) {
  DefBuilder g;
  g.Const("a", Tensor::Vector<float>({3, 3}));
  g.Const("b", Tensor::Vector<float>({4, 4, 4}));
  g.Float("bad", "Add", {"a", "b"});
  (*g.Float("good", "Neg", {"a"})->mutable_attr())["of_a_later_version"].set_i(5);
  const auto session = *NewSession(Options());
  ASSERT_EQ(session->Create(g.def()), Status());
  std::vector<Tensor> out;
  ASSERT_EQ(session->Run({}, {"good"}, {}, &out), Status());
  EXPECT_EQ(out[0].data<float>()[1], -3);
  const Status failed = session->Run({}, {"bad"}, {}, &out);
  EXPECT_TRUE(errors::IsInvalidArgument(failed)) << failed;
  EXPECT_THAT(failed.message(), HasSubstr("Incompatible shapes: [2] vs. [3]"));
}

TEST_P(SessionTest, AnExistingNodeIsNotAddedAgain) {
  const auto session = Make(SquareGraph());
  DefBuilder again;
  again.Placeholder("x");
  EXPECT_EQ(
      session->Extend(again.def()).message(),
      "GraphDef argument to Extend includes node 'x', which was created by a previous call to Create or "
      "Extend in this session.");
}

TEST_P(SessionTest, OneOfTwoConcurrentCreatesWins) {
  DefBuilder graphs[2];
  for (int i = 0; i < 2; ++i) graphs[i].Const(StrCat("only", i), F(static_cast<float>(i)));
  for (int round = 0; round < 20; ++round) {
    const auto session = *NewSession(Options());
    Status statuses[2];
    std::atomic<int> ready = 0;
    {
      std::vector<std::jthread> threads;
      threads.reserve(2);
      for (int i = 0; i < 2; ++i) {
        threads.emplace_back([&, i] {
          for (ready.fetch_add(1); ready.load() < 2;) std::this_thread::yield();
          statuses[i] = session->Create(graphs[i].def());
        });
      }
    }
    const int winner = statuses[0].ok() ? 0 : 1;
    EXPECT_EQ(statuses[winner], Status());
    EXPECT_EQ(statuses[1 - winner].code(), ErrorCode::kAlreadyExists) << statuses[1 - winner];
    std::vector<Tensor> out;
    ASSERT_EQ(session->Run({}, {StrCat("only", winner)}, {}, &out), Status());
    EXPECT_EQ(Value(out[0]), static_cast<float>(winner));
    EXPECT_FALSE(session->Run({}, {StrCat("only", 1 - winner)}, {}, &out).ok());
  }
}

TEST_P(SessionTest, SecondCreateIsRefused) {
  const auto session = Make(SquareGraph());
  EXPECT_EQ(session->Create(SquareGraph().def()).code(), ErrorCode::kAlreadyExists);
}

TEST_P(SessionTest, RunWithoutGraphIsRefused) {
  const auto session = *NewSession(Options());
  EXPECT_TRUE(session->Create(tensorflow::GraphDef()).ok());
  EXPECT_THAT(session->Run({}, {"x"}, {}, nullptr).message(),
              HasSubstr("Session was not created with a graph before Run()!"));
}

TEST_P(SessionTest, ClosedSessionRefusesEverything) {
  const auto session = Make(SquareGraph());
  std::vector<Tensor> out;
  ASSERT_TRUE(session->Run({{"x", F(1)}}, {"y"}, {}, &out).ok());
  EXPECT_TRUE(session->Close().ok());
  EXPECT_TRUE(session->Close().ok());
  EXPECT_THAT(session->Run({{"x", F(1)}}, {"y"}, {}, &out).ToString(), HasSubstr("Session has been closed."));
  EXPECT_THAT(session->Run({{"x", F(1)}}, {"z"}, {}, &out).ToString(), HasSubstr("Session has been closed."));
  EXPECT_FALSE(session->Extend(SquareGraph().def()).ok());
}

TEST_P(SessionTest, CallablesGiveWhatRunGives) {
  const auto session = Make(SquareGraph());
  const auto handle = session->MakeCallable({{"x"}, {"y", "x"}, {"nothing"}, RunOptions()});
  ASSERT_TRUE(handle.ok()) << handle.status();
  std::vector<Tensor> out;
  const std::vector<Tensor> feeds{F(3)};
  ASSERT_TRUE(session->RunCallable(*handle, feeds, &out, nullptr).ok());
  EXPECT_EQ(Value(out[0]), 16);
  EXPECT_EQ(Value(out[1]), 3);
  EXPECT_FALSE(session->RunCallable(*handle, {}, &out, nullptr).ok()) << "too few feeds";
  EXPECT_FALSE(session->RunCallable(*handle + 1, feeds, &out, nullptr).ok());
  EXPECT_FALSE(session->RunCallable(-1, feeds, &out, nullptr).ok());
  EXPECT_TRUE(session->ReleaseCallable(*handle).ok());
  EXPECT_FALSE(session->ReleaseCallable(*handle).ok());
  EXPECT_FALSE(session->RunCallable(*handle, feeds, &out, nullptr).ok());
}

TEST_P(SessionTest, CallablesConnectTensors) {
  const auto session = Make(SquareGraph());
  std::vector<Tensor> out;
  const std::vector<Tensor> feeds{F(3)};
  const auto run = [&](const CallableOptions& wanted) -> float {
    const auto handle = session->MakeCallable(wanted);
    EXPECT_TRUE(handle.ok()) << handle.status();
    if (!handle.ok()) return -1;
    const Status ran = session->RunCallable(*handle, feeds, &out, nullptr);
    EXPECT_EQ(ran, Status());
    return ran.ok() ? Value(out[0]) : -1;
  };
  // The same names before and after, with and without a connection.
  EXPECT_EQ(run({{"x"}, {"y"}, {}, RunOptions()}), 16);
  EXPECT_EQ(run({{"x"}, {"y"}, {}, RunOptions(), {{"one", "b"}}}), 4);
  EXPECT_EQ(run({{"x"}, {"y", "b"}, {}, RunOptions(), {{"a:0", "b"}, {"one", "a"}}}), 1);
  EXPECT_EQ(Value(out[1]), 1) << "a tensor that is replaced can be fetched";
  EXPECT_EQ(run({{"x"}, {"y"}, {}, RunOptions()}), 16);
  ASSERT_TRUE(session->Run({{"x", F(3)}}, {"y"}, {}, &out).ok());
  EXPECT_EQ(Value(out[0]), 16);
  const Status cycle = session->MakeCallable({{"x"}, {"z"}, {}, RunOptions(), {{"y", "a"}}}).status();
  EXPECT_TRUE(errors::IsInvalidArgument(cycle)) << cycle;
  EXPECT_THAT(cycle.message(),
              HasSubstr("Requested Tensor connection between nodes \"a\" and \"y\" would create a cycle."));
}

TEST_P(SessionTest, CallablesNameTheDevicesOfTheirValues) {
  const auto session = Make(SquareGraph());
  const std::string cpu = (*session->ListDevices())[0].name;
  CallableOptions wanted{{"x"}, {"y"}, {}, RunOptions()};
  wanted.feed_devices = {{"x", cpu}};
  wanted.fetch_devices = {{"y", cpu}};
  EXPECT_THAT(session->MakeCallable(wanted).status().ToString(),
              HasSubstr("CallableOptions.fetch_skip_sync = false is not yet implemented."));
  wanted.fetch_skip_sync = true;
  const auto handle = session->MakeCallable(wanted);
  ASSERT_TRUE(handle.ok()) << handle.status();
  std::vector<Tensor> out;
  const std::vector<Tensor> feeds{F(3)};
  ASSERT_TRUE(session->RunCallable(*handle, feeds, &out, nullptr).ok());
  EXPECT_EQ(Value(out[0]), 16);
  wanted.feed_devices = {{"x", "no device"}};
  EXPECT_THAT(session->MakeCallable(wanted).status().message(),
              HasSubstr("Invalid device name ('no device') provided for the tensor 'x' in CallableOptions"));
  wanted.feed_devices.clear();
  wanted.fetch_devices = {{"y", "/job:localhost/replica:0/task:0/device:CPU:77"}};
  EXPECT_THAT(session->MakeCallable(wanted).status().message(),
              HasSubstr("Device '/job:localhost/replica:0/task:0/device:CPU:77' specified for tensor 'y' in "
                        "CallableOptions does not exist"));
}

TEST_P(SessionTest, RepeatedSignaturesCompileOnceWhateverTheirOrder) {
  const auto session = *DirectSession::Make(Options());
  ASSERT_EQ(session->Create(SquareGraph().def()), Status());
  auto* direct = dynamic_cast<DirectSession*>(session.get());
  std::vector<Tensor> out;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(session->Run({{"x", F(1)}, {"one", F(2)}}, {"y", "a"}, {}, &out).ok());
    ASSERT_TRUE(session->Run({{"one:0", F(2)}, {"x", F(1)}}, {"a:0", "y", "a"}, {}, &out).ok());
    EXPECT_EQ(Value(out[0]), 3);
    EXPECT_EQ(Value(out[1]), 9);
  }
  EXPECT_EQ(direct->num_compiled_for_test(), 1u);
}

TEST_P(SessionTest, MoreSignaturesThanTheSessionKeepsRunOnManyThreads) {
  constexpr int kCount = 1300;
  DefBuilder graph;
  for (int i = 0; i < kCount; ++i) graph.Const(StrCat("c", i), F(static_cast<float>(i)));
  const auto session = *DirectSession::Make(Options());
  ASSERT_EQ(session->Create(graph.def()), Status());
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    threads.reserve(2);
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&, t] {
        std::vector<Tensor> out;
        for (int k = 0; k < kCount; ++k) {
          for (const int i : {(k + t * 7) % kCount, 0}) {
            const Status status = session->Run({}, {StrCat("c", i)}, {}, &out);
            if (!status.ok() || Value(out[0]) != static_cast<float>(i)) ++wrong;
          }
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(dynamic_cast<DirectSession*>(session.get())->num_compiled_for_test(), kCount * 9u / 10);
}

TEST_P(SessionTest, ManyThreadsRunDifferentSignaturesAtOnce) {
  const auto session = Make(SquareGraph());
  std::atomic<int> wrong{0};
  std::vector<std::jthread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<Tensor> out;
      for (int i = 0; i < 100; ++i) {
        const float x = static_cast<float>(t * 100 + i);
        const std::string fetch = i % 3 == 0 ? "y" : i % 3 == 1 ? "z" : "a";
        const Status s = session->Run({{"x", F(x)}}, {fetch}, {}, &out);
        const float expected = fetch == "a" ? x + 1 : (x + 1) * (x + 1);
        wrong += s.ok() && Value(out[0]) == expected ? 0 : 1;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

TEST_P(SessionTest, TraceNamesEveryNodeOnce) {
  const auto session = Make(SquareGraph());
  RunOptions options;
  options.trace_level = RunOptions::TraceLevel::kFull;
  options.output_partition_graphs = true;
  RunMetadata metadata;
  std::vector<Tensor> out;
  ASSERT_TRUE(session->Run(options, {{"x", F(2)}}, {"z"}, {}, &out, &metadata).ok());
  // Work of a device itself is listed under its stream.
  const auto is_stream = [](const DeviceStats& d) { return d.device.ends_with("/stream:all"); };
  // Other tasks get one graph, which they partition.
  if (!InCluster()) {
    const auto streams = std::ranges::count_if(metadata.devices, is_stream);
    ASSERT_EQ(metadata.devices.size() - static_cast<size_t>(streams), metadata.partition_graphs.size());
  }
  int seen = 0;
  for (const DeviceStats& d : metadata.devices) {
    if (is_stream(d)) continue;
    for (const NodeStats& n : d.nodes) {
      seen += n.node == "y" ? 1 : 0;
      EXPECT_LE(n.start_ns, n.end_ns);
    }
  }
  EXPECT_EQ(seen, 1);
  const std::string trace = metadata.ToChromeTrace();
  EXPECT_THAT(trace, AnyOf(HasSubstr("\"name\":\"Mul\""), HasSubstr("\"name\":\"_FusedElementwise\"")));
  google::protobuf::Struct json;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(trace, &json).ok()) << trace;
  EXPECT_GT(json.fields().at("traceEvents").list_value().values_size(), 2);
}

TEST_P(SessionTest, DevicesAreListed) {
  const auto session = Make(SquareGraph());
  const auto devices = session->ListDevices();
  ASSERT_TRUE(devices.ok());
  const size_t fakes = OnFakeDevices() ? 2 : 0;
  ASSERT_EQ(devices->size(), (static_cast<size_t>(GetParam().cpus) + fakes) * (InCluster() ? 3 : 1));
  EXPECT_EQ((*devices)[0].name, "/job:localhost/replica:0/task:0/device:CPU:0");
  EXPECT_EQ((*devices)[0].type, "CPU");
  EXPECT_NE((*devices)[0].incarnation, 0u);
}

TEST_P(SessionTest, SameSeedsGiveTheSameRandomNumbersInEverySetup) {
  DefBuilder g;
  g.Const("shape", Tensor::Vector<int32_t>({7}));
  auto* random = g.Add("r", "RandomUniform", {"shape"});
  (*random->mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
  (*random->mutable_attr())["T"].set_type(tensorflow::DT_INT32);
  (*random->mutable_attr())["seed"].set_i(1);
  g.Float("sum", "Add", {"r", "r"});
  const auto session = Make(g);
  std::vector<Tensor> first, second;
  ASSERT_TRUE(session->Run({}, {"r", "sum"}, {}, &first).ok());
  // The values of TensorFlow's generator for seed 1, seed2 0 and seven values, and of its second run.
  EXPECT_FLOAT_EQ(first[0].data<float>()[0], 0.812696457f);
  EXPECT_EQ(first[1].data<float>()[5], first[0].data<float>()[5] * 2) << "one node runs once a step";
  ASSERT_TRUE(session->Run({}, {"sum", "r"}, {}, &second).ok());
  EXPECT_FLOAT_EQ(second[1].data<float>()[0], 0.281535149f)
      << "steps of another signature share the generator";
}

INSTANTIATE_TEST_SUITE_P(Setups, SessionTest,
                         ::testing::Values(Setup{"default", 0, 1, true}, Setup{"one_thread", 1, 1, true},
                                           Setup{"passes_off", 2, 1, false}, Setup{"two_cpus", 2, 2, true},
                                           Setup{"two_cpus_one_thread", 1, 2, false}),
                         [](const auto& i) { return std::string(i.param.name); });

TEST(SessionFactoryTest, UnknownTargetIsNotFound) {
  SessionOptions options;
  options.target = "carrier-pigeon://here";
  const auto session = NewSession(options);
  EXPECT_EQ(session.status().code(), ErrorCode::kNotFound);
  EXPECT_THAT(session.status().message(), HasSubstr("carrier-pigeon"));
}

TEST(SessionResetTest, ResetClearsContainersAndClosesSessions) {
  DefBuilder g;
  g.Variable("v", 1);
  g.Float("read", "Identity", {"v"});
  const auto session = SessionWith(g);
  ASSERT_TRUE(session->Run({}, {}, {"v/Assign"}, nullptr).ok());
  ASSERT_TRUE(Reset(SessionOptions(), {}).ok());
  EXPECT_THAT(session->Run({}, {"read"}, {}, nullptr).ToString(), HasSubstr("Session has been closed."));
}

TEST(SessionTimeoutTest, StepThatWaitsForeverEndsAtItsDeadline) {
  DefBuilder g;
  auto* recv = g.Add("r", "_Recv", {});
  auto& attr = *recv->mutable_attr();
  attr["tensor_type"].set_type(tensorflow::DT_FLOAT);
  attr["tensor_name"].set_s("never");
  attr["send_device"].set_s("/job:localhost/replica:0/task:0/device:CPU:0");
  attr["recv_device"].set_s("/job:localhost/replica:0/task:0/device:CPU:1");
  attr["send_device_incarnation"].set_i(1);
  g.Float("y", "Neg", {"r"});
  g.Placeholder("other")->set_device("/cpu:1");
  g.Float("elsewhere", "Neg", {"other"})->set_device("/cpu:1");
  SessionOptions options;
  options.device_count["CPU"] = 2;
  auto session = *NewSession(options);
  const Status created = session->Create(g.def());
  if (!created.ok()) {
    // Graphs of clients may not contain internal ops; then nothing can wait here.
    EXPECT_THAT(created.message(), HasSubstr("_Recv"));
    return;
  }
  RunOptions run;
  run.timeout_in_ms = 20;
  std::vector<Tensor> out;
  const Status s = session->Run(run, {{"other", F(1)}}, {"y", "elsewhere"}, {}, &out, nullptr);
  EXPECT_EQ(s.code(), ErrorCode::kDeadlineExceeded) << s;
}

}  // namespace
}  // namespace millrace
