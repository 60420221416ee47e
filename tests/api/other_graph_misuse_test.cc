// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Objects of the training library used with a graph that is not theirs, which may be gone: each returns a
// Status that names the function.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "millrace/client_session.h"
#include "millrace/functions.h"
#include "millrace/moving_averages.h"
#include "millrace/ops.h"
#include "millrace/optimizers.h"
#include "millrace/recurrent.h"
#include "millrace/replicas.h"
#include "millrace/saved_model.h"
#include "millrace/saver.h"
#include "millrace/variables.h"

namespace millrace {
namespace {

// Expects InvalidArgument with this text.
void ExpectInvalid(const Status& status, const std::string& text, int line = __builtin_LINE()) {
  EXPECT_TRUE(errors::IsInvalidArgument(status)) << "line " << line << ": " << status;
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(text)) << "line " << line;
}

TEST(OtherGraphMisuse, SessionsOfSavers) {
  const Scope scope = Scope::NewRootScope(), other = Scope::NewRootScope();
  const GraphVariable a(scope.WithOpName("w"), 1.f), b(other.WithOpName("w"), 2.f);
  Saver saver(scope);
  const ClientSession session(other);
  ASSERT_TRUE(session.Run({}, {}, {GlobalVariablesInitializer(other)}, nullptr).ok());
  const std::string path = ::testing::TempDir() + "/other_graph";
  ExpectInvalid(saver.Save(session, path).status(), "Saver::Save: the session is of another graph");
  ExpectInvalid(saver.Restore(session, path), "Saver::Restore: the session is of another graph");
  ExpectInvalid(SimpleSave(session, scope, path + "_simple", {}, {{"w", a}}),
                "SimpleSave: the session is of another graph");
  const auto builder = SavedModelBuilder::Open(path + "_builder");
  ASSERT_TRUE(builder.ok()) << builder.status();
  ExpectInvalid((*builder)->AddMetaGraphAndVariables(session, scope, {"serve"}),
                "SavedModelBuilder::AddMetaGraphAndVariables: the session is of another graph");
  // The session goes on with its graph.
  const Output later = ops::Mul(other.WithOpName("later"), b, 3.f);
  std::vector<Tensor> out;
  ASSERT_EQ(session.Run({later}, &out), Status());
  EXPECT_EQ(out[0].scalar<float>(), 6.f);
}

RnnCell::Result StepOnce(const Scope& scope, RnnCell& cell) {
  const std::vector<Output> state = cell.ZeroState(scope, ops::Const(scope, 1), DataType::kFloat);
  return cell.Step(scope, ops::Const(scope, {{1.f, 2.f}}), state);
}

TEST(OtherGraphMisuse, CellsAfterTheirGraphIsGone) {
  const std::vector<std::shared_ptr<RnnCell>> cells = {
      std::make_shared<BasicRnnCell>(3), std::make_shared<LstmCell>(3), std::make_shared<GruCell>(3),
      std::make_shared<MultiRnnCell>(std::vector<std::shared_ptr<RnnCell>>{std::make_shared<GruCell>(3)})};
  for (const auto& cell : cells) {
    {
      const Scope first = Scope::NewRootScope();
      StepOnce(first, *cell);
      ASSERT_TRUE(first.ok()) << first.status();
    }
    const Scope second = Scope::NewRootScope();
    EXPECT_FALSE(StepOnce(second, *cell).output.IsSet());
    ExpectInvalid(second.status(), "_cell' are of another graph");
    const Scope third = Scope::NewRootScope();
    DynamicRnn(third, *cell, ops::Const(third, {{{1.f, 2.f}}}));
    ExpectInvalid(third.status(), "RnnCell::Step: the variables of '");
  }
}

TEST(OtherGraphMisuse, CellsInBodiesOfFunctionsOfTheirGraph) {
  const Scope scope = Scope::NewRootScope();
  GruCell cell(3);
  const Output outside = StepOnce(scope, cell).output;
  const GraphFunction function =
      MakeGraphFunction(scope, "step", {}, {}, [&](const Scope& body, const std::vector<Output>&) {
        return std::vector<Output>{StepOnce(body, cell).output};
      });
  const std::vector<Output> inside = CallFunction(scope, function, {});
  const Operation init = GlobalVariablesInitializer(scope);
  ASSERT_TRUE(scope.ok()) << scope.status();
  const ClientSession session(scope);
  std::vector<Tensor> out;
  ASSERT_EQ(session.Run({}, {}, {init}, nullptr), Status());
  ASSERT_EQ(session.Run({outside, inside[0]}, &out), Status());
  EXPECT_EQ(out[0].matrix<float>()(0, 2), out[1].matrix<float>()(0, 2));
}

TEST(OtherGraphMisuse, AveragesAfterTheirGraphIsGone) {
  ExponentialMovingAverage averages({});
  {
    const Scope first = Scope::NewRootScope();
    averages.Apply(first, {GraphVariable(first.WithOpName("w"), 1.f)});
    ASSERT_TRUE(first.ok()) << first.status();
  }
  const Scope second = Scope::NewRootScope();
  const GraphVariable w(second.WithOpName("w"), 1.f);
  EXPECT_EQ(averages.AverageName(w), "w/ExponentialMovingAverage");
  EXPECT_FALSE(averages.Apply(second, {w}).IsSet());
  ExpectInvalid(second.status(), "ExponentialMovingAverage::Apply: the averages are of another graph");
}

TEST(OtherGraphMisuse, ReplicasAfterTheirGraphIsGone) {
  SyncReplicasOptimizer sync(std::make_shared<GradientDescentOptimizer>(0.1f), 1);
  const auto minimize = [&](const Scope& scope) {
    const GraphVariable w(scope.WithOpName("w"), {1.f, 2.f});
    const GraphVariable step = CreateGlobalStep(scope);
    sync.Minimize(scope, ops::Sum(scope, ops::Square(scope, w), 0), step);
    return scope.status();
  };
  ASSERT_EQ(minimize(Scope::NewRootScope()), Status());
  EXPECT_TRUE(errors::IsFailedPrecondition(minimize(Scope::NewRootScope())));
  const Scope other = Scope::NewRootScope();
  EXPECT_FALSE(sync.InitTokensOp(other).IsSet());
  ExpectInvalid(other.status(), "SyncReplicasOptimizer::InitTokensOp: the token queue is of another graph");
  const Scope third = Scope::NewRootScope();
  ExpectInvalid(sync.MakeSessionRunHook(true)->Begin(third), "is of another graph");
}

}  // namespace
}  // namespace millrace
