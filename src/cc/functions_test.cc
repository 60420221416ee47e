// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/functions.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "graph/function_library.h"
#include "graph/graph.h"
#include "millrace/client_session.h"
#include "millrace/gradients.h"
#include "millrace/ops.h"
#include "tensorflow/core/framework/function.pb.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Outputs = std::vector<Output>;

// (a, b) -> (a b, a + b + outside).
GraphFunction ProductAndSum(const Scope& scope, const Output& outside) {
  return MakeGraphFunction(
      scope, "pair", {DataType::kFloat, DataType::kFloat}, {TensorShape(), TensorShape()},
      [&](const Scope& s, const Outputs& args) -> Outputs {
        return {ops::Mul(s, args[0], args[1]), ops::AddN(s, {args[0], args[1], outside})};
      });
}

class FunctionsTest : public ::testing::Test {
 protected:
  std::vector<float> Run(const ClientSession::Feeds& feeds, const Outputs& fetches) const {
    std::vector<Tensor> results;
    const Status status = ClientSession(scope_).Run(feeds, fetches, &results);
    EXPECT_EQ(status, Status());
    std::vector<float> values;
    values.reserve(results.size());
    for (const Tensor& result : results) values.push_back(result.scalar<float>());
    return values;
  }
  Output Scalar(const char* name) const {
    return ops::Placeholder(scope_.WithOpName(name), DataType::kFloat,
                            ops::Placeholder::Shape(TensorShape()));
  }

  const Scope scope_ = Scope::NewRootScope();
};

TEST_F(FunctionsTest, CallsGiveTheResultsInOrderWithTheirShapes) {
  const Output x = Scalar("x");
  const GraphFunction pair = ProductAndSum(scope_, x);
  EXPECT_FALSE(pair.is_stateful);
  EXPECT_THAT(pair.captured, ElementsAre(x));
  const Outputs first = CallFunction(scope_.WithOpName("first"), pair, {x, 3.f});
  ASSERT_EQ(first.size(), 2u);
  const Outputs second = CallFunction(scope_, pair, {first[0], first[1]});
  EXPECT_EQ(Scope::NameOf(first[1]), "first:1");
  EXPECT_EQ(scope_.ShapeOf(second[0]), PartialShape(TensorShape()));
  // 6 and 7 of (2, 3), then 42 and 15 of (6, 7).
  EXPECT_THAT(Run({{x, 2.f}}, {first[0], first[1], second[0], second[1]}), ElementsAre(6, 7, 42, 15));
}

TEST_F(FunctionsTest, CallsHaveGradients) {
  const Output x = Scalar("x"), y = Scalar("y");
  const Outputs results = CallFunction(scope_, ProductAndSum(scope_, x), {x, y});
  Outputs grads;
  ASSERT_EQ(AddSymbolicGradients(scope_, {results[0], results[1]}, {x, y}, &grads), Status());
  // x y + x + y + x, for x: y + 2; for y: x + 1.
  EXPECT_THAT(Run({{x, 3.f}, {y, 5.f}}, grads), ElementsAre(7, 4));
}

TEST_F(FunctionsTest, AFunctionCallsAnother) {
  const Output x = Scalar("x");
  const GraphFunction pair = ProductAndSum(scope_, x);
  const GraphFunction outer = MakeGraphFunction(scope_, "outer", {DataType::kFloat}, {},
                                                [&](const Scope& s, const Outputs& args) -> Outputs {
                                                  return CallFunction(s, pair, {args[0], 10.f});
                                                });
  const Outputs results = CallFunction(scope_, outer, {4.f});
  EXPECT_THAT(Run({{x, 1.f}}, results), ElementsAre(40, 15));
}

TEST_F(FunctionsTest, CallsOfAFunctionWithStateAreNotMerged) {
  const GraphFunction random =
      MakeGraphFunction(scope_, "random", {}, {}, [](const Scope& s, const Outputs&) -> Outputs {
        return {
            ops::RandomUniform(s, ops::Const(s, Tensor::Vector(std::vector<int32_t>())), DataType::kFloat)};
      });
  EXPECT_TRUE(random.is_stateful);
  const std::vector<float> values =
      Run({}, {CallFunction(scope_, random, {})[0], CallFunction(scope_, random, {})[0]});
  ASSERT_EQ(values.size(), 2u);
  EXPECT_NE(values[0], values[1]);
}

TEST_F(FunctionsTest, WrongCallsAreErrorsAndGiveUnsetResults) {
  const auto expect_error = [](const Scope& scope, const Outputs& results, const char* text) {
    EXPECT_TRUE(errors::IsInvalidArgument(scope.status())) << scope.status();
    EXPECT_THAT(std::string(scope.status().message()), HasSubstr(text));
    EXPECT_THAT(results, ::testing::Each(Output()));
  };
  for (const auto& [arguments, text] :
       std::vector<std::pair<std::vector<Input>, const char*>>{{{1.f}, "takes 2 arguments, got 1"},
                                                               {{1.f, 2.f, 3.f}, "takes 2 arguments, got 3"},
                                                               {{1.f, 2}, "Argument 1 of the function 'pair"},
                                                               {{1.f, Output()}, "is float, got invalid"}}) {
    const Scope scope = Scope::NewRootScope();
    const GraphFunction pair = ProductAndSum(scope, ops::Const(scope, 1.f));
    const Outputs results = CallFunction(scope, pair, arguments);
    EXPECT_EQ(results.size(), 2u);
    expect_error(scope, results, text);
  }
  {
    const Scope scope = Scope::NewRootScope();
    expect_error(scope, CallFunction(scope, GraphFunction(), {}), "the function is unset");
  }
  {
    const Scope scope = Scope::NewRootScope();
    MakeGraphFunction(scope, "f", {DataType::kFloat}, {}, nullptr);
    expect_error(scope, {}, "'f' has no body");
  }
  {
    const Scope scope = Scope::NewRootScope();
    MakeGraphFunction(scope, "f", {DataType::kFloat}, {{}, {}},
                      [](const Scope&, const Outputs& args) { return args; });
    expect_error(scope, {}, "1 types of arguments and 2 shapes");
  }
  {
    const Scope scope = Scope::NewRootScope();
    const GraphFunction wrong = MakeGraphFunction(scope, "f", {DataType::kFloat}, {{2}},
                                                  [](const Scope& s, const Outputs& args) -> Outputs {
                                                    return {ops::MatMul(s, args[0], args[0]), args[0]};
                                                  });
    EXPECT_FALSE(wrong.IsSet());
    const Outputs results = CallFunction(scope, wrong, {1.f});
    EXPECT_EQ(results.size(), 2u) << "the results exist, but are unset";
    expect_error(scope, results, "in function 'f'");
  }
}

// Wrappers of ops whose attributes are functions.
class FunctionOpsTest : public FunctionsTest {
 protected:
  // x -> x + `amount`, of a float.
  FunctionName Plus(float amount) const {
    return MakeGraphFunction(
               scope_, "plus", {DataType::kFloat}, {TensorShape()},
               [&](const Scope& s, const Outputs& args) -> Outputs { return {ops::Add(s, args[0], amount)}; })
        .name;
  }
  const std::vector<DataType> float_{DataType::kFloat};
};

TEST_F(FunctionOpsTest, IfCallsOneOfTwo) {
  const Output x = Scalar("x");
  const Output positive = ops::Greater(scope_, x, 0.f);
  const ops::If stateful(scope_, positive, {x}, float_, Plus(1), Plus(-1));
  const ops::StatelessIf stateless(scope_, positive, {x}, float_, Plus(10), Plus(-10));
  EXPECT_THAT(Run({{x, 5.f}}, {stateful[0], stateless[0]}), ElementsAre(6, 15));
  EXPECT_THAT(Run({{x, -5.f}}, {stateful[0], stateless[0]}), ElementsAre(-6, -15));
}

TEST_F(FunctionOpsTest, CaseCallsOneOfAList) {
  const Output i = ops::Placeholder(scope_, DataType::kInt32, ops::Placeholder::Shape({}));
  const ops::Case chosen(scope_, i, {7.f}, float_, {Plus(1), Plus(2), Plus(3)});
  EXPECT_THAT(Run({{i, 0}}, {chosen[0]}), ElementsAre(8));
  EXPECT_THAT(Run({{i, 1}}, {chosen[0]}), ElementsAre(9));
  EXPECT_THAT(Run({{i, 9}}, {chosen[0]}), ElementsAre(10)) << "the last one stands for all other numbers";
}

TEST_F(FunctionOpsTest, WhileCallsItsBodyWhileItsConditionHolds) {
  const GraphFunction below = MakeGraphFunction(
      scope_, "below", float_, {TensorShape()},
      [](const Scope& s, const Outputs& args) -> Outputs { return {ops::Less(s, args[0], 10.f)}; });
  const Output x = Scalar("x");
  const ops::While stateful(scope_, {x}, below.name, Plus(3));
  const ops::StatelessWhile stateless(scope_, {x}, below.name, Plus(4));
  EXPECT_THAT(Run({{x, 0.f}}, {stateful[0], stateless[0]}), ElementsAre(12, 12));
  EXPECT_THAT(Run({{x, 20.f}}, {stateful[0], stateless[0]}), ElementsAre(20, 20));
}

TEST_F(FunctionOpsTest, CallsAndTheirGradients) {
  const Output x = Scalar("x");
  const GraphFunction square = MakeGraphFunction(
      scope_, "square", float_, {TensorShape()},
      [](const Scope& s, const Outputs& args) -> Outputs { return {ops::Mul(s, args[0], args[0])}; });
  const ops::PartitionedCall call(scope_, {x}, float_, square.name);
  const ops::StatefulPartitionedCall again(scope_, {call[0]}, float_, square.name);
  const ops::SymbolicGradient gradient(scope_, {x, 1.f}, float_, square.name);
  Outputs grads;
  ASSERT_EQ(AddSymbolicGradients(scope_, {again[0]}, {x}, &grads), Status());
  EXPECT_THAT(Run({{x, 3.f}}, {call[0], again[0], gradient[0], grads[0]}), ElementsAre(9, 81, 6, 108));
}

TEST_F(FunctionOpsTest, DatasetsMapAndFilter) {
  const std::vector<DataType> int64{DataType::kInt64};
  const std::vector<PartialShape> scalars{TensorShape()};
  const auto of_int64 = [&](const char* name, const FunctionBodyFn& body) {
    return MakeGraphFunction(scope_, name, int64, {TensorShape()}, body).name;
  };
  const FunctionName make =
      MakeGraphFunction(scope_, "make", {}, {}, [&](const Scope& s, const Outputs&) -> Outputs {
        const ops::RangeDataset range(s, int64_t{0}, int64_t{10}, int64_t{1}, int64, scalars);
        const ops::MapDataset squares(s, range, {},
                                      of_int64("square",
                                               [](const Scope& f, const Outputs& args) -> Outputs {
                                                 return {ops::Mul(f, args[0], args[0])};
                                               }),
                                      int64, scalars);
        const ops::FilterDataset large(s, squares, {},
                                       of_int64("large",
                                                [](const Scope& f, const Outputs& args) -> Outputs {
                                                  return {ops::Greater(f, args[0], int64_t{30})};
                                                }),
                                       int64, scalars);
        return {large};
      }).name;
  const ops::OneShotIterator iterator(scope_, make, int64, scalars);
  const ops::IteratorGetNext next(scope_, iterator, int64, scalars);
  const ClientSession session(scope_);
  for (const int64_t wanted : {36, 49, 64, 81}) {
    std::vector<Tensor> results;
    ASSERT_EQ(session.Run({}, {next[0]}, &results), Status());
    EXPECT_EQ(results[0].scalar<int64_t>(), wanted);
  }
  std::vector<Tensor> results;
  EXPECT_TRUE(errors::IsOutOfRange(session.Run({}, {next[0]}, &results)));
}

TEST_F(FunctionOpsTest, FunctionsHaveAttributes) {
  tensorflow::FunctionDef def;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(signature { name: "Twice"
                     input_arg { name: "x" type_attr: "T" } output_arg { name: "y" type_attr: "T" }
                     attr { name: "T" type: "type" } }
         node_def { name: "sum" op: "Add" input: "x" input: "x" attr { key: "T" value { placeholder: "T" } } }
         ret { key: "y" value: "sum:z:0" })",
      &def));
  ASSERT_EQ(scope_.graph().functions().Add(def), Status());
  FunctionName twice{.name = "Twice"};
  const auto call = [&](const Input& x, DataType type) {
    twice.attrs.Set("T", type);  // the calls before keep theirs
    return ops::PartitionedCall(scope_, {x}, {type}, twice)[0];
  };
  const Output of_float = call(1.5f, DataType::kFloat), of_int = call(21, DataType::kInt32);
  std::vector<Tensor> results;
  ASSERT_EQ(ClientSession(scope_).Run({}, {of_float, of_int}, &results), Status());
  EXPECT_EQ(results[0].scalar<float>(), 3.f);
  EXPECT_EQ(results[1].scalar<int32_t>(), 42);
}

TEST_F(FunctionOpsTest, AMissingFunctionIsAnErrorOfTheStep) {
  const ops::PartitionedCall call(scope_, {1.f}, float_, FunctionName{"nix"});
  std::vector<Tensor> results;
  const Status status = ClientSession(scope_).Run({}, {call[0]}, &results);
  EXPECT_THAT(std::string(status.message()), HasSubstr("nix"));
}

}  // namespace
}  // namespace millrace
