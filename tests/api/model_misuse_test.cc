// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Wrong use of the parts of models: cells, schedules, clipping, averages, initializers, variable scopes,
// optimizers, summaries; and of functions that save them. Each returns a Status.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/client_session.h"
#include "millrace/clipping.h"
#include "millrace/coordinator.h"
#include "millrace/initializers.h"
#include "millrace/moving_averages.h"
#include "millrace/ops.h"
#include "millrace/optimizers.h"
#include "millrace/queue_input.h"
#include "millrace/queue_runner.h"
#include "millrace/recurrent.h"
#include "millrace/saved_model.h"
#include "millrace/saver.h"
#include "millrace/schedules.h"
#include "millrace/summary.h"
#include "millrace/variables.h"

namespace millrace {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <typename T>
void ExpectError(const StatusOr<T>& result, int line = __builtin_LINE()) {
  EXPECT_FALSE(result.ok()) << "line " << line;
  EXPECT_FALSE(result.status().message().empty()) << "line " << line;
}
void ExpectError(const Status& status, int line = __builtin_LINE()) {
  EXPECT_FALSE(status.ok()) << "line " << line;
  EXPECT_FALSE(status.message().empty()) << "line " << line;
}

// Expects that `build` leaves an error in the scope.
void ExpectWrong(const std::function<void(const Scope&)>& build, int line = __builtin_LINE()) {
  const Scope scope = Scope::NewRootScope();
  build(scope);
  ExpectError(scope.status(), line);
}

// Expects that building, initialising or running fails.
void ExpectFails(const std::function<std::vector<Output>(const Scope&)>& build, int line = __builtin_LINE()) {
  const Scope scope = Scope::NewRootScope();
  const std::vector<Output> fetches = build(scope);
  if (!scope.ok()) return;
  const Operation init = GlobalVariablesInitializer(scope);
  const ClientSession session(scope);
  std::vector<Tensor> out;
  Status status = session.Run({}, {}, {init}, nullptr);
  if (status.ok()) status = session.Run(fetches, &out);
  ExpectError(status, line);
}

Output Sequences(const Scope& scope) {
  return ops::Placeholder(scope, DataType::kFloat, ops::Placeholder::Shape({2, 3, 4}));
}

// --- Recurrent networks

TEST(RecurrentMisuse, CellsWithSizesThatCannotBe) {
  for (const int64_t units : {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    ExpectWrong([&](const Scope& s) {
      BasicRnnCell cell(units);
      DynamicRnn(s, cell, Sequences(s));
    });
    ExpectWrong([&](const Scope& s) {
      LstmCell cell(units);
      DynamicRnn(s, cell, Sequences(s));
    });
    ExpectWrong([&](const Scope& s) {
      GruCell cell(units);
      DynamicRnn(s, cell, Sequences(s));
    });
  }
  ExpectWrong([](const Scope& s) {
    BasicRnnCell cell(3, nullptr);
    DynamicRnn(s, cell, Sequences(s));
  });
  ExpectWrong([](const Scope& s) {
    LstmCell cell(3, {.activation = nullptr});
    DynamicRnn(s, cell, Sequences(s));
  });
  ExpectWrong([](const Scope& s) {
    LstmCell cell(3, {.num_proj = std::numeric_limits<int64_t>::max()});
    DynamicRnn(s, cell, Sequences(s));
  });
}

TEST(RecurrentMisuse, StacksOfNothingAndOfNull) {
  ExpectWrong([](const Scope& s) {
    MultiRnnCell cell({});
    DynamicRnn(s, cell, Sequences(s));
  });
  ExpectWrong([](const Scope& s) {
    MultiRnnCell cell({nullptr});
    DynamicRnn(s, cell, Sequences(s));
  });
  ExpectWrong([](const Scope& s) {
    MultiRnnCell cell({std::make_shared<GruCell>(3), nullptr});
    DynamicRnn(s, cell, Sequences(s));
  });
}

TEST(RecurrentMisuse, InputsOfOtherKinds) {
  const auto with = [](const std::function<Output(const Scope&)>& input, DynamicRnnOptions options = {},
                       int line = __builtin_LINE()) {
    ExpectWrong(
        [&](const Scope& s) {
          GruCell cell(3);
          DynamicRnn(s, cell, input(s), options);
        },
        line);
  };
  with([](const Scope&) { return Output(); });
  with([](const Scope& s) -> Output { return ops::Const(s, 1.f); });
  with([](const Scope& s) -> Output { return ops::Const(s, {{1.f, 2.f}}); });
  with([](const Scope& s) -> Output { return ops::Placeholder(s, DataType::kString); });
  with([](const Scope& s) -> Output {
    return ops::Placeholder(s, DataType::kInt32, ops::Placeholder::Shape({2, 3, 4}));
  });
  with(Sequences, {.parallel_iterations = 0});
  with(Sequences, {.parallel_iterations = -1});
  ExpectWrong([](const Scope& s) {
    GruCell cell(3);
    DynamicRnn(s, cell, Sequences(s), {.initial_state = {Output()}});
  });
  ExpectWrong([](const Scope& s) {
    GruCell cell(3);
    const Output state = ops::Const(s, {{1.f, 2.f, 3.f}, {1.f, 2.f, 3.f}});
    DynamicRnn(s, cell, Sequences(s), {.initial_state = {state, state}});  // the cell has one
  });
  ExpectWrong([](const Scope& s) {
    GruCell cell(3);
    cell.Step(s, ops::Const(s, {{1.f, 2.f}}), {});
  });
  ExpectWrong([](const Scope& s) { GruCell(3).ZeroState(s, Output(), DataType::kFloat); });
}

// --- Schedules

TEST(ScheduleMisuse, StepsAndRatesThatAreNone) {
  ExpectWrong([](const Scope& s) { ExponentialDecay(s, 0.1f, Output(), 10.f, 0.5f); });
  ExpectWrong([](const Scope& s) { NaturalExpDecay(s, 0.1f, Output(), 10.f, 0.5f); });
  ExpectWrong([](const Scope& s) { InverseTimeDecay(s, Output(), ops::Const(s, int64_t{1}), 10.f, 0.5f); });
  ExpectWrong([](const Scope& s) { PolynomialDecay(s, 0.1f, Output(), 10.f); });
  ExpectWrong([](const Scope& s) { CosineDecay(s, 0.1f, Output(), 10.f); });
  ExpectWrong([](const Scope& s) { CosineDecayRestarts(s, 0.1f, Output(), 10.f); });
  ExpectWrong([](const Scope& s) { LinearCosineDecay(s, 0.1f, Output(), 10.f); });
  ExpectWrong([](const Scope& s) { NoisyLinearCosineDecay(s, 0.1f, Output(), 10.f); });
  ExpectFails([](const Scope& s) -> std::vector<Output> {
    return {ExponentialDecay(s, 0.1f, ops::Const(s, "step"), 10.f, 0.5f)};
  });
  ExpectWrong([](const Scope& s) { CosineDecay(s, "rate", ops::Const(s, int64_t{1}), 10.f); });
}

TEST(ScheduleMisuse, PiecesThatDoNotFit) {
  const auto pieces = [](const std::vector<int64_t>& boundaries, const std::vector<double>& values,
                         int line = __builtin_LINE()) {
    ExpectWrong([&](const Scope& s) { PiecewiseConstant(s, ops::Const(s, int64_t{1}), boundaries, values); },
                line);
  };
  pieces({}, {});
  pieces({1, 2}, {0.1, 0.2});
  pieces({1}, {0.1, 0.2, 0.3});
  ExpectWrong([](const Scope& s) { PiecewiseConstant(s, Output(), {1}, {0.1, 0.2}); });
  ExpectFails([](const Scope& s) -> std::vector<Output> {
    return {PiecewiseConstant(s, ops::Const(s, "step"), {1}, {0.1, 0.2})};
  });
}

// --- Clipping and averages

TEST(ClippingMisuse, GradientsAndNormsThatAreNone) {
  const Scope unset = Scope::NewRootScope();
  EXPECT_FALSE(ClipByValue(unset, Output(), 0.f, 1.f).IsSet()) << "no gradient stays none";
  EXPECT_FALSE(ClipByNorm(unset, Output(), 1.f).IsSet());
  EXPECT_EQ(unset.status(), Status());
  ExpectWrong([](const Scope& s) { ClipByValue(s, Output(ops::Const(s, 1.f)), Output(), 1.f); });
  ExpectWrong([](const Scope& s) { ClipByNorm(s, Output(ops::Const(s, {1.f})), 1.f, {7}); });
  ExpectWrong([](const Scope& s) { ClipByNorm(s, Output(ops::Const(s, "text")), 1.f); });
  ExpectWrong([](const Scope& s) { ClipByAverageNorm(s, Output(), 1.f); });
  ExpectWrong([](const Scope& s) { GlobalNorm(s, {}); });
  ExpectWrong([](const Scope& s) { GlobalNorm(s, {GradientAndVariable{}}); });
  ExpectWrong([](const Scope& s) { ClipByGlobalNorm(s, {}, 1.f); });
  ExpectWrong([](const Scope& s) { ClipByGlobalNorm(s, {GradientAndVariable{}}, Output()); });
  ExpectWrong([](const Scope& s) { AccumulateGradients(s, AdamOptimizer(), {}); });
  ExpectWrong([](const Scope& s) { AccumulateGradients(s, AdamOptimizer(), {GradientAndVariable{}}); });
}

TEST(AverageMisuse, VariablesThatAreNone) {
  ExpectWrong([](const Scope& s) {
    ExponentialMovingAverage average({});
    average.Apply(s, {GraphVariable()});
  });
  ExpectWrong([](const Scope& s) {
    ExponentialMovingAverage average({});
    average.Apply(s, {}, {Output()});
  });
  ExpectWrong([](const Scope& s) {
    const GraphVariable w(s, {1, 2});  // int32
    ExponentialMovingAverage average({});
    average.Apply(s, {w});
  });
  ExpectWrong([](const Scope& s) {
    const GraphVariable w(s, {1.f, 2.f});
    ExponentialMovingAverage average({.decay = Output()});
    average.Apply(s, {w});
  });
  ExpectWrong([](const Scope& s) { AssignMovingAverage(s, GraphVariable(), ops::Const(s, 1.f), 0.5f); });
  ExpectWrong([](const Scope& s) { AssignMovingAverage(s, GraphVariable(s, {1.f, 2.f}), Output(), 0.5f); });
  const ExponentialMovingAverage average({});
  EXPECT_EQ(average.Average(GraphVariable()).name(), "");
  EXPECT_EQ(average.Average(Output()).name(), "");
  average.AverageName(GraphVariable());
}

// --- Variables

TEST(InitializerMisuse, ShapesAndTypesThatCannotBe) {
  const auto make = [](const Initializer& initializer, const PartialShape& shape,
                       DataType dtype = DataType::kFloat, int line = __builtin_LINE()) {
    ExpectFails(
        [&](const Scope& s) -> std::vector<Output> {
          return {GetVariable(s, "w", shape, {.dtype = dtype, .initializer = initializer})};
        },
        line);
  };
  make(initializers::Orthogonal(), PartialShape({4}));
  make(initializers::Identity(), PartialShape({4}));
  make(initializers::Identity(), PartialShape({2, 2, 2}));
  make(initializers::RandomNormal(), PartialShape({2}), DataType::kString);
  make(initializers::GlorotUniform(), PartialShape({2, 2}), DataType::kInt32);
  make(initializers::VarianceScaling({.scale = -1}), PartialShape({2, 2}));
  make(initializers::VarianceScaling({.scale = 0}), PartialShape({2, 2}));
  make(initializers::Constant({1.f, 2.f, 3.f}), PartialShape({2}));
  make(initializers::Constant("text"), PartialShape({2}));
  make(initializers::Zeros(), PartialShape({2}), DataType::kInvalid);
  make(initializers::Zeros(), PartialShape({1 << 30, 1 << 30, 1 << 30}));
  make([](const Scope&, const InitialValue&) { return Output(); }, PartialShape({2}));
  make([](const Scope& s, const InitialValue&) -> Output { return ops::Const(s, {1.f}); }, PartialShape({2}));
}

TEST(VariableMisuse, NamesScopesAndParts) {
  ExpectWrong([](const Scope& s) { GetVariable(s, "a b", PartialShape({1})); });
  ExpectWrong([](const Scope& s) { GetVariable(s, "w", PartialShape()); });
  ExpectWrong([](const Scope& s) { GetVariable(EnterVariableScope(s, "a b"), "w", PartialShape({1})); });
  ExpectWrong([](const Scope& s) {
    GetVariable(EnterVariableScope(s, "a", {.reuse = Reuse::kReuse}), "w", PartialShape({1}));
  });
  ExpectWrong([](const Scope& s) {
    GetVariable(s, "w", PartialShape({1}));
    GetVariable(s, "w", PartialShape({1}));
  });
  ExpectWrong([](const Scope& s) {
    GetVariable(s, "w", PartialShape({1}));
    GetVariable(WithVariableOptions(s, {.reuse = Reuse::kReuse}), "w", PartialShape({2}));
  });
  ExpectWrong([](const Scope& s) { AddToCollection(s, graph_keys::kVariables, GraphVariable()); });
  ExpectWrong([](const Scope& s) { VariablesInitializer(s, {GraphVariable()}); });
  ExpectWrong([](const Scope& s) { ReportUninitializedVariables(s, {GraphVariable()}); });
  ExpectWrong([](const Scope& s) { GraphVariable().InitializedValue(s); });
  ExpectWrong([](const Scope& s) { GraphVariable().AssignAdd(s, 1.f); });
  ExpectWrong([](const Scope& s) { GraphVariable().AssignSub(s, 1.f); });
  EXPECT_EQ(GetGlobalStep(Scope::NewRootScope()).name(), "");
  ExpectWrong([](const Scope& s) { CreateGlobalStep(s), CreateGlobalStep(s); });
  ExpectWrong([](const Scope& s) { L2Regularizer(0.1)(s, Output()); });
  const auto parts = [](Partitioner partitioner, const PartialShape& shape, int line = __builtin_LINE()) {
    ExpectWrong([&](const Scope& s) { GetPartitionedVariable(s, "w", shape, {.partitioner = partitioner}); },
                line);
  };
  parts(FixedSizePartitioner(0), PartialShape({4}));
  parts(FixedSizePartitioner(-1), PartialShape({4}));
  parts(FixedSizePartitioner(2, 1), PartialShape({4}));
  parts(FixedSizePartitioner(2, -1), PartialShape({4}));
  parts(AxisSizePartitioner({.max_shard_bytes = 0}), PartialShape({4}));
  parts(AxisSizePartitioner({.axis = 3}), PartialShape({4}));
  parts(MinMaxPartitioner({.max_partitions = 0}), PartialShape({4}));
  parts(MinMaxPartitioner({.axis = -2}), PartialShape({4}));
  parts([](const TensorShape&, DataType) { return errors::Aborted("no parts"); }, PartialShape({4}));
  parts([](const TensorShape&, DataType) { return std::vector<int64_t>{}; }, PartialShape({4}));
  parts([](const TensorShape&, DataType) { return std::vector<int64_t>{2, 2}; }, PartialShape({4, 4}));
  parts(FixedSizePartitioner(2), PartialShape({-1}));
}

TEST(OptimizerMisuse, ParametersThatAreNone) {
  const auto train = [](const std::function<Operation(const Scope&, const Output& loss)>& minimize,
                        int line = __builtin_LINE()) {
    ExpectWrong(
        [&](const Scope& s) {
          const GraphVariable w(s, {1.f, 2.f});
          minimize(s, ops::Sum(s, ops::Square(s, w), 0));
        },
        line);
  };
  train([](const Scope& s, const Output& l) { return MomentumOptimizer(Output(), 0.9f).Minimize(s, l); });
  train([](const Scope& s, const Output& l) { return MomentumOptimizer(0.1f, "text").Minimize(s, l); });
  train([](const Scope& s, const Output& l) { return AdagradOptimizer(Output()).Minimize(s, l); });
  train([](const Scope& s, const Output& l) { return AdadeltaOptimizer(Output()).Minimize(s, l); });
  train([](const Scope& s, const Output& l) { return RmsPropOptimizer(Output()).Minimize(s, l); });
  train([](const Scope& s, const Output& l) { return FtrlOptimizer(Output()).Minimize(s, l); });
  train([](const Scope& s, const Output& l) {
    return ProximalAdagradOptimizer(0.1f, {.l1_regularization_strength = Output()}).Minimize(s, l);
  });
  train([](const Scope& s, const Output& l) {
    return ProximalGradientDescentOptimizer(Output()).Minimize(s, l);
  });
  train([](const Scope& s, const Output& l) { return AdaMaxOptimizer(Output()).Minimize(s, l); });
  train([](const Scope& s, const Output& l) { return AddSignOptimizer(Output()).Minimize(s, l); });
  train([](const Scope& s, const Output& l) { return PowerSignOptimizer(Output()).Minimize(s, l); });
  train([](const Scope& s, const Output& l) {
    return AdagradDaOptimizer(0.1f, GraphVariable()).Minimize(s, l);
  });
  train([](const Scope& s, const Output& l) { return AdamOptimizer().Minimize(s, l, {GraphVariable()}); });
  ExpectWrong([](const Scope& s) { AdamOptimizer().ComputeGradients(s, Output()); });
}

// --- Summaries and queues

TEST(SummaryMisuse, TensorsOfOtherKinds) {
  ExpectWrong([](const Scope& s) { summary::Scalar(s, "a", Output()); });
  ExpectWrong([](const Scope& s) { summary::Histogram(s, "a", "text"); });
  ExpectFails([](const Scope& s) -> std::vector<Output> { return {summary::Image(s, "a", {1.f, 2.f})}; });
  ExpectWrong([](const Scope& s) { summary::Image(s, "a", Output(), -1); });
  ExpectWrong([](const Scope& s) { summary::Audio(s, "a", {{1.f}}, Output()); });
  ExpectWrong([](const Scope& s) { summary::Text(s, "a", 1.f); });
  ExpectWrong([](const Scope& s) { summary::Tensor(s, "a", Output()); });
  ExpectWrong([](const Scope& s) { summary::Merge(s, {}); });
  ExpectWrong([](const Scope& s) { summary::Merge(s, {Output()}); });
  ExpectWrong([](const Scope& s) { summary::Merge(s, {ops::Const(s, 1.f)}); });
  const Scope nothing = Scope::NewRootScope();
  EXPECT_EQ(Scope::NameOf(summary::MergeAll(nothing)), "") << "there is nothing to merge";
  const auto writer = SummaryWriter::Open(::testing::TempDir() + "/misuse_model_events", {.max_queue = -1});
  if (writer.ok()) {
    EXPECT_TRUE((*writer)->Close().ok());
    ExpectError((*writer)->AddSessionLog(SummaryWriter::SessionStatus::kStart, 0));
    ExpectError((*writer)->AddGraph(nothing));
    ExpectError((*writer)->AddCustomScalars({}));
  }
}

TEST(QueueMisuse, ProducersAndRunnersOfNothing) {
  ExpectWrong([](const Scope& s) { InputProducer(s, Output()); });
  ExpectWrong([](const Scope& s) { InputProducer(s, 1.f); });  // no rows
  ExpectWrong([](const Scope& s) { StringInputProducer(s, Output()); });
  ExpectWrong([](const Scope& s) { StringInputProducer(s, {1.f}); });
  ExpectWrong([](const Scope& s) { RangeInputProducer(s, Output()); });
  ExpectWrong([](const Scope& s) { LimitEpochs(s, Output(), 1); });
  ExpectWrong([](const Scope& s) { LimitEpochs(s, ops::Const(s, 1.f), 0); });
  ExpectWrong([](const Scope& s) { LimitEpochs(s, ops::Const(s, 1.f), -1); });
  ExpectWrong([](const Scope& s) { ShuffleBatchJoin(s, {}, 2, {}); });
  ExpectWrong([](const Scope& s) { ShuffleBatchJoin(s, {{}}, 2, {.min_after_dequeue = -1}); });
  const Scope scope = Scope::NewRootScope();
  const ClientSession session(scope);
  Coordinator coordinator;
  const QueueRunner none{
      .queue_name = "q", .enqueue_op_names = {"none"}, .close_op_name = "", .cancel_op_name = ""};
  AddQueueRunner(scope, none);
  const Status started = StartQueueRunners(scope, *session.session(), coordinator);
  coordinator.RequestStop();
  const Status joined = coordinator.Join(1, false, 5);
  EXPECT_FALSE(started.ok() && joined.ok());
}

TEST(CoordinatorMisuse, StopsJoinsAndThreadsOutOfOrder) {
  Coordinator coordinator;
  EXPECT_FALSE(coordinator.WaitForStop(0));
  EXPECT_FALSE(coordinator.WaitForStop(-1));
  EXPECT_FALSE(coordinator.WaitForStop(kNan));
  coordinator.ClearStop();
  coordinator.RequestStop(errors::Aborted("first"));
  coordinator.RequestStop(errors::Internal("second"));
  EXPECT_EQ(coordinator.Join(), errors::Aborted("first"));
  coordinator.Join().IgnoreError("joined twice");
  coordinator.RequestStop(errors::Internal("after Join"));
  LooperThread::Start(nullptr, "none");
}

// --- What saves

TEST(SavingMisuse, BuildersOfNothing) {
  const std::string folder = ::testing::TempDir() + "/misuse_builder";
  ExpectError(SavedModelBuilder::Open(""));
  ExpectError(SavedModelBuilder::Open("/proc/no/such/folder"));
  const auto builder = SavedModelBuilder::Open(folder);
  ASSERT_TRUE(builder.ok()) << builder.status();
  const Scope scope = Scope::NewRootScope();
  const GraphVariable w(scope.WithOpName("w"), {1.f, 2.f});
  const ClientSession session(scope);
  ExpectError((*builder)->AddMetaGraph(scope, {"serve"}, {}));                   // the variables come first
  ExpectError((*builder)->AddMetaGraphAndVariables(session, scope, {"serve"}));  // not initialised
  ExpectError((*builder)->AddMetaGraphAndVariables(session, scope, {"serve"}, {.assets = {Output()}}));
  ExpectError((*builder)->AddMetaGraphAndVariables(session, scope, {"serve"}, {.assets = {w}}));
  TensorInfoOf(scope, Output());
  PredictSignature(scope, {{"x", Output()}}, {});
  ExpectError(SimpleSave(session, scope, "", {}, {}));
  ExpectError(SimpleSave(session, scope, folder + "_simple", {{"x", Output()}}, {{"y", w}}));
}

TEST(SavingMisuse, SaversWithOptionsThatCannotBe) {
  ExpectWrong(
      [](const Scope& s) { Saver(s, std::vector<Saveable>{{.name = "w", .variable = Output()}}, {}); });
  ExpectWrong([](const Scope& s) {
    const Output w = GraphVariable(s, {1.f}).ref();
    Saver(s, std::vector<Saveable>{{.name = "w", .variable = w}, {.name = "w", .variable = w}}, {});
  });
  ExpectWrong([](const Scope& s) {
    Saver(s, std::vector<Saveable>{{.name = "w", .variable = ops::Const(s, 1.f)}}, {});
  });
  const Scope scope = Scope::NewRootScope();
  const GraphVariable w(scope.WithOpName("w"), {1.f, 2.f});
  Saver saver(scope, {.max_to_keep = -1, .keep_checkpoint_every_n_hours = kNan});
  const ClientSession session(scope);
  ASSERT_TRUE(session.Run({}, {}, {GlobalVariablesInitializer(scope)}, nullptr).ok());
  const std::string path = ::testing::TempDir() + "/misuse_saver_model";
  ExpectError(saver.Save(session, path, {.may_save = [] { return errors::Aborted("another chief"); }}));
  ExpectError(saver.Save(session, path, {.latest_filename = "no/such/folder/checkpoint"}));
  ExpectError(saver.ExportMetaGraph("/no/such/folder/model.meta"));
  ExpectError(RemoveCheckpoint("/no/such/folder/model", CheckpointFormat::kV2));
  saver.RecoverLastCheckpoints({"", "/no/such/model"});
  EXPECT_TRUE(saver.last_checkpoints().empty());
  EXPECT_TRUE(saver.Finish().ok()) << "nothing was written behind";
  const Saver none = Saver::FromDef(scope, {});
  ExpectError(none.Restore(session, path));
}

}  // namespace
}  // namespace millrace
