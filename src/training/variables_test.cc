// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/variables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "graph/graph.h"
#include "millrace/client_session.h"
#include "millrace/control_flow.h"
#include "millrace/ops.h"
#include "millrace/optimizers.h"
#include "millrace/saver.h"
#include "training/training_testing.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The values after the initializer of all variables has run.
std::vector<Tensor> Initialized(const Scope& scope, const std::vector<Output>& fetches) {
  const Operation init = GlobalVariablesInitializer(scope);
  const ClientSession session(scope);
  std::vector<Tensor> out;
  Status status = session.Run({}, {}, {init}, nullptr);
  if (status.ok()) status = session.Run(fetches, &out);
  EXPECT_TRUE(status.ok()) << status;
  out.resize(fetches.size());
  return out;
}

std::vector<std::string> NamesOf(const std::vector<GraphVariable>& variables) {
  std::vector<std::string> names;
  names.reserve(variables.size());
  for (const GraphVariable& variable : variables) names.push_back(variable.name());
  return names;
}

TEST(GetVariableTest, NamesAreThoseOfTheScopeOfVariables) {
  const Scope root = Scope::NewRootScope();
  const Scope outer = EnterVariableScope(root, "outer");
  const Scope inner = EnterVariableScope(outer, "inner");
  const GraphVariable w = GetVariable(inner, "w", {2, 3});
  // A scope of op names only does not change the names of variables.
  const GraphVariable b = GetVariable(inner.NewSubScope("only_nodes"), "b", {3});
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ(w.name(), "outer/inner/w");
  EXPECT_EQ(b.name(), "outer/inner/b");
  EXPECT_EQ(Scope::NameOf(w.value()), "outer/inner/w/read");
  for (const char* name : {"shape", "min", "max", "RandomUniform", "sub", "mul"}) {
    EXPECT_TRUE(root.FindOperation(StrCat("outer/inner/w/Initializer/random_uniform/", name)).ok()) << name;
  }
  EXPECT_TRUE(root.FindOperation("outer/inner/w/Initializer/random_uniform").ok());
  const Output limit{root.FindOperation("outer/inner/w/Initializer/random_uniform/max")->node, 0};
  const std::vector<Tensor> out = Initialized(root, {w, limit});
  EXPECT_NEAR(out[1].scalar<float>(), std::sqrt(6.0 / 5), 1e-6);
  for (const float x : Floats(out[0])) EXPECT_LT(std::abs(x), std::sqrt(6.0f / 5));
}

TEST(GetVariableTest, EnteringAgainSharesVariablesAndNotNodes) {
  const Scope root = Scope::NewRootScope();
  const GraphVariable w = GetVariable(EnterVariableScope(root, "s"), "w", {2});
  const Scope again = EnterVariableScope(root, "s", {.reuse = Reuse::kReuse});
  EXPECT_EQ(again.path(), "s_1");
  EXPECT_TRUE(GetVariable(again, "w", {2}).ref() == w.ref());
  EXPECT_TRUE(GetVariable(again, "w", PartialShape()).ref() == w.ref());
  // A scope within a scope that shares variables shares them, too.
  const Scope automatic = EnterVariableScope(root, "s", {.reuse = Reuse::kAuto});
  EXPECT_TRUE(GetVariable(automatic, "w", {2}).ref() == w.ref());
  const GraphVariable v = GetVariable(EnterVariableScope(automatic, "t"), "v", {1});
  EXPECT_EQ(v.name(), "s/t/v");
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_THAT(NamesOf(GlobalVariables(root)), ElementsAre("s/w", "s/t/v"));
}

TEST(GetVariableTest, UniqueScopesCountUpAndBeginAnewInAScopeThatIsEnteredAgain) {
  const Scope root = Scope::NewRootScope();
  const auto names = [&](const VariableScopeOptions& options) {
    const Scope net = EnterVariableScope(root, "net", options);
    std::string text;
    for (int i = 0; i < 2; ++i) {
      text += GetVariable(EnterUniqueVariableScope(net, "dense"), "kernel", {1}).name() + " ";
    }
    return text;
  };
  EXPECT_EQ(names({}), "net/dense/kernel net/dense_1/kernel ");
  EXPECT_EQ(names({.reuse = Reuse::kReuse}), "net/dense/kernel net/dense_1/kernel ");
  EXPECT_EQ(GlobalVariables(root).size(), 2u);
  EXPECT_TRUE(root.ok()) << root.status();
}

TEST(GetVariableTest, ErrorsHaveTheTextsOfTensorFlow) {
  const auto error = [](const std::function<void(const Scope&)>& make) {
    const Scope root = Scope::NewRootScope();
    make(root);
    return std::string(root.status().message());
  };
  const Reuse reuse = Reuse::kReuse;
  EXPECT_EQ(error([](const Scope& s) {
              GetVariable(s, "w", {2});
              GetVariable(s, "w", {2});
            }),
            "Variable w already exists, disallowed. Did you mean to set reuse=True or reuse=tf.AUTO_REUSE in "
            "VarScope?");
  EXPECT_EQ(error([&](const Scope& s) { GetVariable(EnterVariableScope(s, "a", {reuse}), "w", {2}); }),
            "Variable a/w does not exist, or was not created with tf.get_variable(). Did you mean to set "
            "reuse=tf.AUTO_REUSE in VarScope?");
  EXPECT_EQ(error([&](const Scope& s) {
              GetVariable(s, "w", {2, 3});
              GetVariable(WithVariableOptions(s, {reuse}), "w", {2});
            }),
            "Trying to share variable w, but specified shape (2,) and found shape (2, 3).");
  EXPECT_EQ(error([&](const Scope& s) {
              GetVariable(s, "w", {2});
              GetVariable(WithVariableOptions(s, {reuse}), "w", {2}, {.dtype = DataType::kDouble});
            }),
            "Trying to share variable w, but specified dtype float64 and found dtype float32.");
  EXPECT_EQ(error([&](const Scope& s) {
              GetVariable(s, "w", {-1, 3});
            }),
            "Shape of a new variable (w) must be fully defined, but instead was (?, 3).");
  const Partitioner two = FixedSizePartitioner(2);
  EXPECT_EQ(error([&](const Scope& s) {
              GetPartitionedVariable(s, "w", {4}, {.partitioner = two});
              GetVariable(s, "w", {4});
            }),
            "No partitioner was provided, but a partitioned version of the variable was found: w/part_0. "
            "Perhaps a variable of the same name was already created with partitioning?");
  EXPECT_EQ(error([&](const Scope& s) {
              GetVariable(s, "w", {4});
              GetPartitionedVariable(s, "w", {4}, {.partitioner = two});
            }),
            "A partitioner was provided, but an unpartitioned version of the variable was found: w.  Perhaps "
            "a variable of the same name was already created without partitioning?");
  EXPECT_EQ(error([&](const Scope& s) {
              GetPartitionedVariable(s, "w", {4}, {.partitioner = two});
              GetPartitionedVariable(s, "w", {4}, {.partitioner = two});
            }),
            "Partitioned variable with name w already exists. Did you mean to set reuse=True or "
            "reuse=tf.AUTO_REUSE in VarScope?");
}

TEST(GetVariableTest, TheScopeSetsTheDefaultsOfVariables) {
  const Scope root = Scope::NewRootScope();
  const Scope doubles = EnterVariableScope(root, "d",
                                           {.initializer = initializers::Constant(3.0),
                                            .regularizer = L2Regularizer(0.5),
                                            .dtype = DataType::kDouble,
                                            .resource = true});
  const GraphVariable w = GetVariable(EnterVariableScope(doubles, "e"), "w", {2});
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_TRUE(w.is_resource());
  EXPECT_EQ(w.dtype(), DataType::kDouble);
  const std::vector<Output> losses = CollectedTensors(root, graph_keys::kRegularizationLosses);
  ASSERT_EQ(losses.size(), 1u);
  EXPECT_EQ(Scope::NameOf(losses[0]), "d/e/w/Regularizer/l2_regularizer");
  const std::vector<Tensor> out = Initialized(root, {w, losses[0]});
  EXPECT_EQ(out[0].data<double>()[1], 3.0);
  EXPECT_EQ(out[1].scalar<double>(), 0.5 * (9 + 9) / 2);  // scale * sum w^2 / 2
}

TEST(GetVariableTest, InitialValuesMayBeGiven) {
  const Scope root = Scope::NewRootScope();
  const GraphVariable w = GetVariable(root, "w", PartialShape(), {.initial_value = Input({{1.f, 2.f}})});
  const GraphVariable n = GetVariable(root, "n", {2}, {.dtype = DataType::kInt64});
  const GraphVariable l1 =
      GetVariable(root, "l", {2}, {.initial_value = Input({-1.f, 2.f}), .regularizer = L1Regularizer(2)});
  ASSERT_TRUE(root.ok()) << root.status();
  const auto out = Initialized(root, {w, n, CollectedTensors(root, graph_keys::kRegularizationLosses).at(0)});
  EXPECT_THAT(Floats(out[0]), ElementsAre(1, 2));
  EXPECT_EQ(out[1].data<int64_t>()[0], 0);
  EXPECT_EQ(out[2].scalar<float>(), 6);
}

TEST(GraphVariableTest, MayBeginAsAnotherDoes) {
  for (const bool resource : {false, true}) {
    const Scope root = Scope::NewRootScope();
    const GraphVariable w(root.WithOpName("w"), InitialValue{.shape = {100}}, initializers::RandomNormal(),
                          {.resource = resource});
    const GraphVariable v(root.WithOpName("v"), w.InitializedValue(root), {.resource = resource});
    ASSERT_TRUE(root.ok()) << root.status();
    const std::vector<Tensor> out = Initialized(root, {w, v});
    EXPECT_EQ(Floats(out[0]), Floats(out[1])) << resource;
    EXPECT_NE(out[0].data<float>()[0], 0);
  }
}

TEST(GraphVariableTest, AssignmentsGiveTheNewValue) {
  for (const bool resource : {false, true}) {
    const Scope root = Scope::NewRootScope();
    const GraphVariable w(root.WithOpName("w"), 1.0, {.resource = resource});
    const Operation init = GlobalVariablesInitializer(root);
    const std::vector<Output> steps = {w.AssignAdd(root, 2), w.AssignSub(root, 1.5f), w.Assign(root, 7)};
    ASSERT_TRUE(root.ok()) << root.status();
    const ClientSession session(root);
    ASSERT_TRUE(session.Run({}, {}, {init}, nullptr).ok());
    for (size_t i = 0; i < steps.size(); ++i) {
      std::vector<Tensor> out;
      ASSERT_TRUE(session.Run({steps[i]}, &out).ok());
      EXPECT_EQ(out[0].scalar<double>(), std::vector<double>({3, 1.5, 7})[i]) << resource;
    }
  }
}

TEST(GraphVariableTest, IsMadeOutsideOfTheLoopThatUsesIt) {
  const Scope root = Scope::NewRootScope();
  const auto body = [](const Scope& scope, const std::vector<Output>& vars) -> std::vector<Output> {
    const GraphVariable w = GetVariable(scope, "w", TensorShape(), {.initializer = initializers::Ones()});
    return {ops::Add(scope, vars[0], w)};
  };
  const auto cond = [](const Scope& scope, const std::vector<Output>& vars) -> Output {
    return ops::Less(scope, vars[0], 2.5f);
  };
  const std::vector<Output> result = While(root, {0.f}, cond, body);
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ(Initialized(root, {result[0]})[0].scalar<float>(), 3.f);
}

TEST(VariableGroupsTest, GlobalAndLocalOnesAreApart) {
  const Scope root = Scope::NewRootScope();
  const GraphVariable w = GetVariable(root, "w", TensorShape());
  const GraphVariable epochs = GetLocalVariable(root, "epochs", TensorShape(), {.dtype = DataType::kInt64});
  EXPECT_THAT(NamesOf(GlobalVariables(root)), ElementsAre("w"));
  EXPECT_THAT(NamesOf(LocalVariables(root)), ElementsAre("epochs"));
  EXPECT_THAT(NamesOf(TrainableVariables(root)), ElementsAre("w"));
  AddToCollection(root, graph_keys::kModelVariables, w);
  EXPECT_THAT(NamesOf(CollectVariables(root, graph_keys::kModelVariables)), ElementsAre("w"));

  const Output missing = ReportUninitializedVariables(root);
  const Operation init = GlobalVariablesInitializer(root), local = LocalVariablesInitializer(root);
  ASSERT_TRUE(root.ok()) << root.status();
  const ClientSession session(root);
  const auto report = [&] {
    std::vector<Tensor> out;
    EXPECT_TRUE(session.Run({missing}, &out).ok());
    const auto names = out.at(0).flat<std::string>();
    return std::vector<std::string>(names.begin(), names.end());
  };
  EXPECT_THAT(report(), ElementsAre("w", "epochs"));
  ASSERT_TRUE(session.Run({}, {}, {init}, nullptr).ok());
  EXPECT_THAT(report(), ElementsAre("epochs"));
  ASSERT_TRUE(session.Run({}, {}, {local}, nullptr).ok());
  EXPECT_THAT(report(), IsEmpty());
}

TEST(VariableGroupsTest, CollectionsSurviveAMetaGraph) {
  const std::string path = testing::TempDir() + "/groups.meta";
  {
    const Scope root = Scope::NewRootScope();
    GetVariable(root, "w", TensorShape());
    GetLocalVariable(root, "epochs", TensorShape());
    CreateGlobalStep(root);
    ASSERT_TRUE(ExportMetaGraph(root, path).ok());
  }
  const Scope root = Scope::NewRootScope();
  ASSERT_TRUE(ImportMetaGraph(root, path).ok());
  EXPECT_THAT(NamesOf(GlobalVariables(root)), ElementsAre("w", "global_step"));
  EXPECT_THAT(NamesOf(LocalVariables(root)), ElementsAre("epochs"));
  EXPECT_THAT(NamesOf(TrainableVariables(root)), ElementsAre("w"));
  EXPECT_EQ(GetGlobalStep(root).name(), "global_step");
}

TEST(PartitionedVariableTest, PartsAreCutAndJoined) {
  const Scope root = Scope::NewRootScope();
  const Scope scope = EnterVariableScope(root, "s", {.partitioner = FixedSizePartitioner(3)});
  std::vector<float> numbers(10);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  const PartitionedVariable v = GetPartitionedVariable(
      scope, "v", {5, 2}, {.initial_value = Input(Tensor::From(numbers, TensorShape({5, 2})))});
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_THAT(NamesOf(v.parts()), ElementsAre("s/v/part_0", "s/v/part_1", "s/v/part_2"));
  EXPECT_EQ(Scope::NameOf(v.value()), "s/v");
  ASSERT_NE(v.parts()[1].slice(), nullptr);
  EXPECT_EQ(v.parts()[1].slice()->Spec(), "5 2 2,2:0,2");
  const auto out = Initialized(root, {v, v.parts()[0], v.parts()[2]});
  EXPECT_EQ(Floats(out[0]), numbers);
  EXPECT_THAT(Floats(out[1]), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Floats(out[2]), ElementsAre(8, 9));
}

// Saves a variable in three parts with its slots, and restores it in two.
TEST(PartitionedVariableTest, CheckpointsDoNotDependOnTheParts) {
  const std::string path = testing::TempDir() + "/parts";
  std::vector<float> trained[2];
  for (const bool restore : {false, true}) {
    const Scope root = Scope::NewRootScope();
    const PartitionedVariable v =
        GetPartitionedVariable(root, "v", {5},
                               {.initializer = initializers::Constant(restore ? 0.f : 2.f),
                                .partitioner = FixedSizePartitioner(restore ? 2 : 3)});
    const Operation train = MomentumOptimizer(0.1f, 0.9f).Minimize(root, ops::L2Loss(root, v));
    const Operation init = GlobalVariablesInitializer(root);
    Saver saver(root);
    ASSERT_TRUE(root.ok()) << root.status();
    const ClientSession session(root);
    if (restore) {
      ASSERT_TRUE(saver.Restore(session, path).ok());
    } else {
      ASSERT_TRUE(session.Run({}, {}, {init}, nullptr).ok());
      ASSERT_TRUE(session.Run({}, {}, {train}, nullptr).ok());
      ASSERT_TRUE(saver.Save(session, path).ok());
    }
    ASSERT_TRUE(session.Run({}, {}, {train}, nullptr).ok());
    std::vector<Tensor> out;
    ASSERT_TRUE(session.Run({v}, &out).ok());
    trained[restore ? 1 : 0] = Floats(out[0]);
  }
  EXPECT_EQ(trained[0], trained[1]);
  EXPECT_NEAR(trained[0][0], 1.8 - 0.1 * (0.9 * 2 + 1.8), 1e-6);
}

TEST(PartitionedVariableTest, PartitionersCountByBytes) {
  const auto parts = [](const Partitioner& partitioner, const TensorShape& shape, DataType dtype) {
    return partitioner(shape, dtype).value_or({});
  };
  // A row has 40 bytes: two of them fit.
  EXPECT_THAT(parts(AxisSizePartitioner({.max_shard_bytes = 100}), {10, 10}, DataType::kFloat),
              ElementsAre(5, 1));
  EXPECT_THAT(
      parts(AxisSizePartitioner({.max_shard_bytes = 100, .max_shards = 3}), {10, 10}, DataType::kFloat),
      ElementsAre(3, 1));
  EXPECT_THAT(parts(MinMaxPartitioner({.max_partitions = 8, .axis = 1, .min_slice_size = 100}), {10, 10},
                    DataType::kFloat),
              ElementsAre(1, 4));
  EXPECT_THAT(parts(FixedSizePartitioner(20, 1), {10, 10}, DataType::kFloat), ElementsAre(1, 10));
  EXPECT_FALSE(FixedSizePartitioner(2, 2)({10, 10}, DataType::kFloat).ok());

  const Scope root = Scope::NewRootScope();
  const Partitioner both = [](const TensorShape&, DataType) { return std::vector<int64_t>{2, 2}; };
  GetPartitionedVariable(root, "w", {4, 4}, {.partitioner = both});
  EXPECT_THAT(root.status().message(), HasSubstr("Can only slice a variable along one dimension"));
}

TEST(GlobalStepTest, IsFoundAgainAndMadeOnce) {
  const Scope root = Scope::NewRootScope();
  EXPECT_FALSE(GetGlobalStep(root).ref().IsSet());
  const GraphVariable step = GetOrCreateGlobalStep(EnterVariableScope(root, "somewhere"));
  EXPECT_EQ(step.name(), "global_step");
  EXPECT_EQ(step.dtype(), DataType::kInt64);
  EXPECT_TRUE(root.FindOperation("global_step/Initializer/zeros").ok());
  EXPECT_TRUE(GetOrCreateGlobalStep(root).ref() == step.ref());
  EXPECT_THAT(TrainableVariables(root), IsEmpty());
  EXPECT_TRUE(root.ok()) << root.status();
  CreateGlobalStep(root);
  EXPECT_EQ(root.status().message(), "\"global_step\" already exists.");
}

TEST(InitializersTest, FollowTheirDistributions) {
  const Scope root = Scope::NewRootScope();
  SetRandomSeed(root, 7);
  const int n = 40000;
  const std::vector<std::pair<Initializer, double>> cases = {
      {initializers::RandomNormal(0, 2), 2},
      {initializers::TruncatedNormal(0, 1), 0.8796},
      {initializers::RandomUniform(-3, 3), std::sqrt(3)},
      {initializers::GlorotUniform(), std::sqrt(2.0 / 400)},
      {initializers::GlorotNormal(), std::sqrt(2.0 / 400)},
      {initializers::HeNormal(), std::sqrt(2.0 / 200)},
      {initializers::LecunUniform(), std::sqrt(1.0 / 200)},
  };
  std::vector<Output> values;
  values.reserve(cases.size());
  for (const auto& [initializer, unused] : cases) values.push_back(initializer(root, {.shape = {200, 200}}));
  ASSERT_TRUE(root.ok()) << root.status();
  std::vector<Tensor> out;
  ASSERT_TRUE(ClientSession(root).Run(values, &out).ok());
  for (size_t i = 0; i < cases.size(); ++i) {
    double sum = 0, squares = 0;
    for (const float x : Floats(out[i])) sum += x, squares += double{x} * x;
    const double deviation = cases[i].second;
    EXPECT_NEAR(sum / n, 0, 5 * deviation / std::sqrt(n)) << i;
    EXPECT_NEAR(std::sqrt(squares / n), deviation, 0.02 * deviation) << i;
  }
  std::vector<Tensor> again;
  ASSERT_TRUE(ClientSession(root).Run(values, &again).ok());
  EXPECT_EQ(Floats(out[0]), Floats(again[0]));  // with the seed of the graph
  EXPECT_NE(Floats(out[3])[0], Floats(out[6])[0]);
}

TEST(InitializersTest, OrthogonalAndIdentityAreWhatTheyAreCalled) {
  const Scope root = Scope::NewRootScope();
  std::vector<Tensor> out;
  const std::vector<Output> values = {initializers::Orthogonal(2)(root, {.shape = {3, 5}}),
                                      initializers::Identity(3)(root, {.shape = {2, 3}})};
  ASSERT_TRUE(root.ok()) << root.status();
  ASSERT_TRUE(ClientSession(root).Run(values, &out).ok());
  const auto rows = out[0].matrix<float>();
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      double dot = 0;
      for (int k = 0; k < 5; ++k) dot += rows(i, k) * rows(j, k);
      EXPECT_NEAR(dot, i == j ? 4 : 0, 1e-5);
    }
  }
  EXPECT_THAT(Floats(out[1]), ElementsAre(3, 0, 0, 0, 3, 0));
}

TEST(InitializersTest, WhatDoesNotFitIsAnError) {
  const Scope root = Scope::NewRootScope();
  GetVariable(root, "w", {3}, {.initializer = initializers::Constant({1.f, 2.f})});
  EXPECT_THAT(root.status().message(), HasSubstr("2 elements for a variable of shape [3]"));
  const Scope orthogonal = Scope::NewRootScope();
  GetVariable(orthogonal, "w", {3}, {.initializer = initializers::Orthogonal()});
  EXPECT_THAT(orthogonal.status().message(), HasSubstr("at least two-dimensional"));
}

}  // namespace
}  // namespace millrace
