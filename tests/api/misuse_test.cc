// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Wrong use of the public C++ API: wrong types, ranks and sizes, unset, null, empty, moved-from and closed
// objects. Each returns a Status, or ends the program with a message that names the function. Only public
// headers are included, as in a program outside the repository.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/client_session.h"
#include "millrace/control_flow.h"
#include "millrace/coordinator.h"
#include "millrace/gradients.h"
#include "millrace/graph_def.h"
#include "millrace/meta_graph.h"
#include "millrace/ops.h"
#include "millrace/optimizers.h"
#include "millrace/queue_runner.h"
#include "millrace/saved_model.h"
#include "millrace/saver.h"
#include "millrace/session.h"
#include "millrace/summary.h"
#include "millrace/variables.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

// Expects an error with a message. `line` is that of the call.
template <typename T>
void ExpectError(const StatusOr<T>& result, int line = __builtin_LINE()) {
  EXPECT_FALSE(result.ok()) << "line " << line;
  EXPECT_FALSE(result.status().message().empty());
}
void ExpectError(const Status& status, int line = __builtin_LINE()) {
  EXPECT_FALSE(status.ok()) << "line " << line;
  EXPECT_FALSE(status.message().empty());
}

// Expects that the error names the op or function that caused it.
void ExpectNames(const Status& status, const std::string& name) {
  EXPECT_FALSE(status.ok()) << name;
  EXPECT_THAT(std::string(status.message()), HasSubstr(name));
}

// --- Tensors and shapes

TEST(TensorMisuseDeathTest, TypedAccessNamesTypes) {
  const Tensor t = Tensor::Vector({1.f, 2.f});
  EXPECT_DEATH(t.data<int32_t>(), "float.*accessed as int32");
  EXPECT_DEATH(t.matrix<float>(), "viewed as a tensor of rank 2");
  EXPECT_DEATH(t.scalar<float>(), "exactly one element");
  EXPECT_DEATH(t.vec<float>()(2), "index 2 is out of range");
  EXPECT_DEATH(t.vec<float>()(-1), "index -1 is out of range");
  EXPECT_DEATH(t.text(), "accessed as string");
  EXPECT_DEATH(Tensor::From({1.f}, {2}), "1 values for shape \\[2\\]");
}

TEST(TensorMisuseDeathTest, MovedFromTensorsHaveNoElements) {
  Tensor t = Tensor::Vector({1.f, 2.f});
  const Tensor taken = std::move(t);
  EXPECT_DEATH(t.scalar<float>(), "");  // NOLINT(bugprone-use-after-move)
  EXPECT_DEATH(t.vec<float>()(0), "");  // NOLINT(bugprone-use-after-move)
  EXPECT_FALSE(t.OwnsBufferAlone());    // NOLINT(bugprone-use-after-move)
  t = Tensor::Scalar(3.f);
  EXPECT_EQ(t.scalar<float>(), 3.f);
  EXPECT_EQ(taken.num_elements(), 2);
}

TEST(TensorMisuse, SizesThatCannotBeAreErrors) {
  ExpectError(TensorShape::Make(std::vector<int64_t>{-1}));
  ExpectError(TensorShape::Make(std::vector<int64_t>{kHuge, kHuge}));
  ExpectError(Tensor::Allocate(DataType::kFloat, TensorShape({kHuge / 4})));
  ExpectError(Tensor::Allocate(DataType::kFloat, TensorShape({int64_t{1} << 60})));
  ExpectError(Tensor::Vector({1, 2, 3}).Reshape(TensorShape({2})));
  ExpectError(Tensor::Of({{1, 2}, {3}}));
  ExpectError(Tensor::Of({1, 2.f}));
  ExpectError(Tensor::Of({1, "a"}));
  const Tensor huge(DataType::kFloat, TensorShape({int64_t{1} << 60}));
  EXPECT_FALSE(huge.IsInitialized());
  const Tensor none(DataType::kFloat, TensorShape({0, kHuge / 2}));
  ExpectError(Tensor::Of({none, none, none}));
}

TEST(TensorMisuse, ListsOfUninitializedTensorsAreErrors) {
  Tensor moved = Tensor::Vector({1.f});
  const Tensor taken = std::move(moved);
  ExpectNames(Tensor::Of({moved, taken}).status(), "not initialized");  // NOLINT(bugprone-use-after-move)
  ExpectNames(Tensor::Of({taken, moved}).status(), "not initialized");  // NOLINT(bugprone-use-after-move)
  Tensor cleared = Tensor::Vector({"text"});
  cleared.Clear();
  ExpectNames(Tensor::Of({cleared, Tensor::Vector({"a"})}).status(), "not initialized");
}

// --- Graphs

TEST(ScopeMisuse, AnUnsetInputIsAnError) {
  const Scope scope = Scope::NewRootScope();
  const Output y = ops::MatMul(scope, Output(), Output());
  EXPECT_FALSE(y.IsSet());
  ExpectNames(scope.status(), "MatMul");
  // The first error is kept, and nothing is added after it.
  const std::string first = scope.status().ToString();
  EXPECT_FALSE(ops::Placeholder(scope, DataType::kFloat).output.IsSet());
  EXPECT_EQ(scope.status().ToString(), first);
}

TEST(ScopeMisuse, WrongTypesRanksAndNamesNameTheOp) {
  {
    const Scope scope = Scope::NewRootScope();
    ops::Add(scope, 1.f, 1);
    ExpectNames(scope.status(), "Add");
  }
  {
    const Scope scope = Scope::NewRootScope();
    ops::MatMul(scope, {1.f, 2.f}, {{1.f}});
    ExpectNames(scope.status(), "MatMul");
  }
  {
    const Scope scope = Scope::NewRootScope();
    ops::Const(scope, {{1, 2}, {3}});
    ExpectError(scope.status());
  }
  {
    const Scope scope = Scope::NewRootScope();
    ops::Const(scope, {1, 2, 3}, TensorShape({2}));
    ExpectError(scope.status());
  }
  for (const char* name : {"a b", "-", "\n", "/x", "ü"}) {
    const Scope scope = Scope::NewRootScope();
    ops::NoOp(scope.WithOpName(name));
    ExpectError(scope.status());
  }
  {
    const Scope scope = Scope::NewRootScope();
    ops::NoOp(scope.WithDevice("/nonsense:::"));
    const ClientSession session(scope);
    ExpectError(session.Run({}, {}, {Operation()}, nullptr));
  }
  {
    const Scope scope = Scope::NewRootScope();
    OpMaker maker(scope, "NoSuchOp", {});
    EXPECT_EQ(maker.Finish(), nullptr);
    ExpectNames(scope.status(), "NoSuchOp");
    EXPECT_FALSE(maker.output(0).IsSet());
    EXPECT_TRUE(maker.outputs(-1).empty());
  }
  {
    const Scope scope = Scope::NewRootScope();
    OpMaker maker(scope, "MatMul", {});
    maker.Add(Input(1.f));
    EXPECT_EQ(maker.Finish(), nullptr);  // an input is missing
    ExpectNames(scope.status(), "MatMul");
  }
  {
    const Scope scope = Scope::NewRootScope();
    OpMaker maker(scope, "NoOp", {});
    maker.SetAttr("no_such_attribute", int64_t{1});
    EXPECT_EQ(maker.Finish(), nullptr);
    ExpectError(scope.status());
  }
  {
    const Scope scope = Scope::NewRootScope();
    OpMaker maker(scope, "NoOp", {});
    maker.SetAttr(nullptr, int64_t{1});
    EXPECT_EQ(maker.Finish(), nullptr);
    ExpectNames(scope.status(), "(null)");
  }
  {
    const Scope scope = Scope::NewRootScope();
    scope.ToGraphDef(nullptr);
    ExpectNames(scope.status(), "ToGraphDef");
  }
}

TEST(ScopeMisuse, UnsetTensorsAndNodesHaveNoProperties) {
  const Scope scope = Scope::NewRootScope();
  EXPECT_EQ(Scope::NameOf(Output()), "");
  EXPECT_EQ(Scope::NameOf(Operation()), "");
  EXPECT_EQ(Scope::TypeOf(Output()), DataType::kInvalid);
  EXPECT_TRUE(scope.ShapeOf(Output()).unknown_rank());
  ExpectError(scope.FindOperation(""));
  ExpectError(scope.FindOperation("none"));
  ExpectError(FindOutput(scope, ""));
  ExpectError(FindOutput(scope, "none:0"));
  ExpectError(FindOutput(scope, ":"));
  ExpectError(FindOperation(scope, "none"));
  EXPECT_TRUE(scope.ok());
}

TEST(ScopeMisuse, OutputsBeyondTheLastAreErrors) {
  const Scope scope = Scope::NewRootScope();
  Output x = ops::Const(scope, 1.f);
  for (const int index : {1, -1, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
    const Output none{x.node, index};
    EXPECT_EQ(Scope::TypeOf(none), DataType::kInvalid);
    EXPECT_TRUE(scope.ShapeOf(none).unknown_rank());
    const Scope root = Scope::NewRootScope();
    const Output y = ops::Const(root, 1.f);
    ops::Neg(root, Output{y.node, index});
    ExpectError(root.status());
    const ClientSession session(scope);
    std::vector<Tensor> out;
    ExpectError(session.Run({none}, &out));
  }
}

TEST(GraphDefMisuse, BytesAndFilesThatAreNoGraphs) {
  const Scope scope = Scope::NewRootScope();
  ExpectError(ImportGraphDef(scope, "not a graph"));
  ExpectError(LoadGraph(scope, ""));
  ExpectError(LoadGraph(scope, "/no/such/file"));
  ExpectError(SaveGraph(scope, "/no/such/folder/graph.pb"));
  ExpectError(SaveGraph(scope, ""));
  ExpectError(LoadSession("/no/such/file"));
  ImportGraphDefOptions options;
  options.return_outputs = {"none:0"};
  ExpectError(ImportGraphDef(scope, "", options));
  options = {};
  options.return_operations = {""};
  ExpectError(ImportGraphDef(scope, "", options));
  ExpectError(ImportMetaGraph(scope, "/no/such/file"));
  ExpectError(ExportMetaGraph(scope, "/no/such/folder/meta"));
}

TEST(GradientMisuse, UnsetForeignAndTooFew) {
  const Scope scope = Scope::NewRootScope();
  const Output x = ops::Placeholder(scope, DataType::kFloat);
  const Output y = ops::Square(scope, x);
  std::vector<Output> grads;
  ExpectError(AddSymbolicGradients(scope, {Output()}, {x}, &grads));
  {
    const Scope other = Scope::NewRootScope();
    const Output z = ops::Placeholder(other, DataType::kFloat);
    const Output q = ops::Square(other, z);
    ExpectError(AddSymbolicGradients(other, {q}, {z}, {Output(), Output()}, &grads));
  }
  {
    const Scope other = Scope::NewRootScope();
    ops::Placeholder(other, DataType::kFloat);
    ExpectError(AddSymbolicGradients(other, {y}, {x}, &grads));  // of another graph
  }
  ExpectError(OverrideGradient(Operation(), "Square"));
  std::vector<Output>* const no_outputs = nullptr;
  std::vector<GradientValue>* const no_values = nullptr;
  ExpectNames(AddSymbolicGradients(scope, {y}, {x}, no_outputs), "AddSymbolicGradients");
  ExpectNames(AddSymbolicGradients(scope, {y}, {x}, GradientSettings(), no_values), "AddSymbolicGradients");
  ExpectNames(OverrideGradient(Operation(), "Square"), "OverrideGradient");
  ExpectNames(RegisterNotDifferentiable(""), "RegisterNotDifferentiable");
  ExpectError(RegisterGradient("MisuseNull", nullptr));
  ExpectError(RegisterGradient("", [](GradientCall&) { return Status(); }));
}

TEST(ControlFlowMisuse, FunctionsThatAreNullOrGiveTheWrongThings) {
  const auto same = [](const Scope&, const std::vector<Output>& v) { return v; };
  {
    const Scope scope = Scope::NewRootScope();
    EXPECT_TRUE(Cond(scope, true, nullptr, nullptr).empty());
    ExpectNames(scope.status(), "Cond");
  }
  {
    const Scope scope = Scope::NewRootScope();
    EXPECT_FALSE(While(scope, {Input(1)}, nullptr, same)[0].IsSet());
    ExpectNames(scope.status(), "While");
  }
  {
    const Scope scope = Scope::NewRootScope();  // a condition that is not a bool
    While(
        scope, {Input(1)}, [](const Scope&, const std::vector<Output>& v) { return v[0]; }, same);
    ExpectError(scope.status());
  }
  {
    const Scope scope = Scope::NewRootScope();  // no variables
    While(
        scope, {}, [](const Scope& s, const std::vector<Output>&) { return ops::Const(s, false); }, same);
    ExpectError(scope.status());
  }
  {
    const Scope scope = Scope::NewRootScope();  // unset results
    While(
        scope, {Input(1)}, [](const Scope&, const std::vector<Output>&) { return Output(); }, same);
    ExpectError(scope.status());
  }
  {
    const Scope scope = Scope::NewRootScope();  // fewer results than variables
    While(
        scope, {Input(1)}, [](const Scope& s, const std::vector<Output>&) { return ops::Const(s, false); },
        [](const Scope&, const std::vector<Output>&) { return std::vector<Output>(); });
    ExpectError(scope.status());
  }
  {
    const Scope scope = Scope::NewRootScope();  // branches of different lengths
    Cond(
        scope, true, [](const Scope& s) { return std::vector<Output>{ops::Const(s, 1)}; },
        [](const Scope&) { return std::vector<Output>(); });
    ExpectError(scope.status());
  }
}

// --- Sessions

class SessionMisuse : public ::testing::Test {
 protected:
  const Scope scope_ = Scope::NewRootScope();
  const Output x_ =
      ops::Placeholder(scope_.WithOpName("x"), DataType::kFloat, ops::Placeholder::Shape(PartialShape({2})));
  const Output y_ = ops::Neg(scope_.WithOpName("y"), x_);
  std::vector<Tensor> out_;
};

TEST_F(SessionMisuse, UnsetForeignAndRepeatedNames) {
  const ClientSession session(scope_);
  ExpectError(session.Run({Output()}, &out_));
  ExpectError(session.Run({{Output(), 1.f}}, {y_}, &out_));
  ExpectError(session.Run({{x_, {1.f, 2.f}}}, {}, {Operation()}, &out_));
  ExpectError(session.Run({{x_, {1.f, 2.f}}, {x_, {1.f, 2.f}}}, {y_}, &out_));
  const Scope other = Scope::NewRootScope();
  const Output z = ops::Const(other.WithOpName("z"), 1.f);
  ExpectError(session.Run({z}, &out_));
  ExpectError(session.Run({}, {}, {Operation(z)}, &out_));
  EXPECT_TRUE(session.Run({{x_, {1.f, 2.f}}}, {y_}, nullptr).ok()) << "nothing above harms the session";
}

TEST_F(SessionMisuse, TensorsOfAnotherGraph) {
  const Scope scope = Scope::NewRootScope(), other = Scope::NewRootScope();
  const Output here = ops::Const(scope, 1.f), there = ops::Const(other, 2.f);
  ASSERT_EQ(Scope::NameOf(here), Scope::NameOf(there));
  const ClientSession session(scope);
  std::vector<Tensor> outputs;
  ExpectNames(session.Run({there}, &outputs), "fetch 0, 'Const', belongs to another graph");
  ExpectNames(session.Run({{there, 1.f}}, {here}, &outputs), "feed 0, 'Const'");
  ExpectNames(session.Run({}, {}, {here, there}, &outputs), "operation 1, 'Const'");
  ExpectNames(session.MakeCallable({there}, {here}, {}).status(), "feed 0, 'Const'");
  EXPECT_EQ(session.Run({here}, &outputs), Status());
}

TEST_F(SessionMisuse, FeedsOfWrongTypesAndShapes) {
  const ClientSession session(scope_);
  ExpectNames(session.Run({y_}, &out_), "'x'");  // is not fed
  ExpectError(session.Run({{x_, {1, 2}}}, {y_}, &out_));
  ExpectError(session.Run({{x_, "text"}}, {y_}, &out_));
  ExpectError(session.Run({{x_, {{1.f}, {2.f, 3.f}}}}, {y_}, &out_));
  Tensor moved = Tensor::Vector({1.f, 2.f});
  const Tensor taken = std::move(moved);
  ExpectError(session.Run({{x_, moved}}, {y_}, &out_));  // NOLINT(bugprone-use-after-move)
  ExpectError(session.Run({{x_, Tensor(DataType::kFloat, TensorShape({int64_t{1} << 60}))}}, {y_}, &out_));
}

TEST_F(SessionMisuse, MissingCallables) {
  const ClientSession session(scope_);
  const std::vector<Tensor> feeds = {Tensor::Vector({1.f, 2.f})};
  for (const int64_t handle : {int64_t{-1}, int64_t{0}, kHuge, -kHuge}) {
    ExpectError(session.RunCallable(handle, feeds, &out_));
    ExpectError(session.ReleaseCallable(handle));
  }
  ExpectError(session.MakeCallable({Output()}, {y_}, {}));
  const auto made = session.MakeCallable({x_}, {y_}, {});
  ASSERT_TRUE(made.ok()) << made.status();
  ExpectError(session.RunCallable(*made, {}, &out_));
  ExpectError(session.RunCallable(*made, std::vector<Tensor>(2), &out_));
  EXPECT_TRUE(session.RunCallable(*made, feeds, nullptr).ok());
  EXPECT_TRUE(session.ReleaseCallable(*made).ok());
  ExpectError(session.RunCallable(*made, feeds, &out_));
  ExpectError(session.ReleaseCallable(*made));
}

TEST_F(SessionMisuse, AClosedSessionRefuses) {
  const ClientSession session(scope_);
  const auto made = session.MakeCallable({x_}, {y_}, {});
  ASSERT_TRUE(session.session()->Close().ok());
  EXPECT_TRUE(session.session()->Close().ok());
  ExpectNames(session.Run({{x_, {1.f, 2.f}}}, {y_}, &out_), "closed");
  const std::vector<Tensor> feeds = {Tensor::Vector({1.f, 2.f})};
  ExpectNames(session.RunCallable(*made, feeds, &out_), "closed");
  ExpectError(session.MakeCallable({x_}, {x_}, {}));
  ExpectError(session.session()->ListDevices());
  ExpectError(session.session()->PRunSetup({"x"}, {"y"}, {}));
  ExpectError(session.session()->PRun("none", {}, {}, &out_));
}

TEST_F(SessionMisuse, OptionsThatCannotBe) {
  SessionOptions options;
  options.target = "nonsense://x";
  ExpectError(NewSession(options));
  ExpectError(Reset(options, {}));
  const ClientSession session(scope_, options);
  EXPECT_EQ(session.session(), nullptr);
  ExpectError(session.Run({y_}, &out_));
  ExpectError(session.MakeCallable({x_}, {y_}, {}));
  ExpectError(session.RunCallable(0, {}, &out_));
  ExpectError(session.ReleaseCallable(0));

  const ClientSession good(scope_);
  RunOptions run;
  for (const int pool : {7, -2, std::numeric_limits<int>::min()}) {
    run.inter_op_thread_pool = pool;
    ExpectNames(good.Run(run, {{x_, {1.f, 2.f}}}, {y_}, {}, &out_, nullptr), "inter_op_thread_pool");
  }
}

TEST_F(SessionMisuse, MissingPartialRuns) {
  const ClientSession session(scope_);
  ASSERT_TRUE(session.Run({{x_, {1.f, 2.f}}}, {y_}, &out_).ok());
  Session& plain = *session.session();
  ExpectError(plain.PRun("", {}, {}, &out_));
  ExpectError(plain.PRun("none", {}, {"y"}, &out_));
  ExpectError(plain.PRunSetup({"none"}, {"y"}, {}));
  ExpectError(plain.Run({{"", Tensor()}}, {"y"}, {}, &out_));
  ExpectError(plain.Run({}, {""}, {}, &out_));
  ExpectError(plain.Run({}, {"y:999999999999999999999"}, {}, &out_));
  ExpectError(plain.Run({}, {}, {"none"}, &out_));
}

// --- Variables, optimizers, files

TEST(TrainingMisuse, LossesAndVariablesThatAreNone) {
  {
    const Scope scope = Scope::NewRootScope();
    GradientDescentOptimizer(0.5f).Minimize(scope, Output());
    ExpectError(scope.status());
  }
  {
    const Scope scope = Scope::NewRootScope();
    GradientDescentOptimizer(0.5f).Minimize(scope, ops::Const(scope, 1.f));  // no variables
    ExpectError(scope.status());
  }
  {
    const Scope scope = Scope::NewRootScope();
    AdamOptimizer().ApplyGradients(scope, {});
    ExpectError(scope.status());
  }
  {
    const Scope scope = Scope::NewRootScope();
    AdamOptimizer().ApplyGradients(scope, {GradientAndVariable{}});
    ExpectError(scope.status());
  }
  {
    const Scope scope = Scope::NewRootScope();
    const GraphVariable unset;
    unset.Assign(scope, 1.f);
    ExpectError(scope.status());
  }
  {
    const Scope scope = Scope::NewRootScope();
    const GraphVariable w(scope, {1.f, 2.f});
    w.Assign(scope, {1, 2});  // int32
    ExpectError(scope.status());
  }
  {
    const Scope scope = Scope::NewRootScope();
    GetVariable(scope, "w", PartialShape({-1}));
    ExpectError(scope.status());
  }
  const GraphVariable unset;
  EXPECT_EQ(unset.name(), "");
  EXPECT_EQ(unset.dtype(), DataType::kInvalid);
  EXPECT_EQ(unset.slice(), nullptr);
}

TEST(TrainingMisuse, MissingCheckpointsAndModels) {
  const Scope scope = Scope::NewRootScope();
  const GraphVariable w(scope.WithOpName("w"), {1.f, 2.f});
  Saver saver(scope);
  const ClientSession session(scope);
  ExpectError(saver.Save(session, "/no/such/folder/model"));
  ExpectError(saver.Save(session, ""));
  ExpectError(saver.Restore(session, ""));
  ExpectError(saver.Restore(session, "/no/such/model"));
  EXPECT_FALSE(CheckpointExists(""));
  EXPECT_EQ(LatestCheckpoint("/no/such/folder"), "");
  EXPECT_FALSE(MaybeSavedModelDirectory(""));
  ExpectError(SavedModelBundle::Load("", {}));
  ExpectError(SavedModelBundle::Load("/no/such/folder", {"serve"}));
  const Scope empty = Scope::NewRootScope();
  const Saver none(empty);
  ExpectError(empty.status());
}

TEST(TrainingMisuse, ThreadsWithoutAFunction) {
  Coordinator coordinator;
  coordinator.StartThread("empty", nullptr);
  ExpectNames(coordinator.Join(), "StartThread");
  Coordinator other;
  LooperThread::Loop(other, std::nullopt, "empty", nullptr);
  ExpectNames(other.Join(), "LooperThread");
}

TEST(TrainingMisuse, QueuesAndSummariesThatAreNone) {
  const Scope scope = Scope::NewRootScope();
  QueueRunner::Make(scope, Output(), {});
  ExpectError(scope.status());
  ExpectError(QueueRunner::Parse("\xff\xff\xff"));
  ExpectError(SummaryWriter::Open("/proc/no/such/folder"));
  ExpectError(WriteProjectorConfig("/no/such/folder", {}));
  const auto writer = SummaryWriter::Open(::testing::TempDir() + "/misuse_events");
  ASSERT_TRUE(writer.ok()) << writer.status();
  ExpectError((*writer)->AddSummary("no message", 0));
  ExpectError((*writer)->AddMetaGraph("no message"));
  ExpectError((*writer)->AddText("tag", Tensor::Scalar(1.f), 0));
  EXPECT_TRUE((*writer)->Close().ok());
  ExpectError((*writer)->AddScalar("tag", 1.f, 0));
}

}  // namespace
}  // namespace millrace
