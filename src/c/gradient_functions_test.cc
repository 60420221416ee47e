// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Gradient functions that are registered in C, called for graphs of the C++ API and for bodies of functions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "c/internal.h"
#include "millrace/c/gradients.h"
#include "millrace/client_session.h"
#include "millrace/control_flow.h"
#include "millrace/functions.h"
#include "millrace/gradients.h"
#include "millrace/ops.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Outputs = std::vector<Output>;

TF_Output AddSeven(Millrace_GradientCall* call, TF_Status* status) {
  TF_Tensor* const seven = TF_AllocateTensor(TF_FLOAT, nullptr, 0, sizeof(float));
  *static_cast<float*>(TF_TensorData(seven)) = 7;
  const std::string name = StrCat(call->name_scope, "/seven");
  TF_OperationDescription* const constant = TF_NewOperation(call->graph, "Const", name.c_str());
  TF_SetAttrTensor(constant, "value", seven, status);
  TF_SetAttrType(constant, "dtype", TF_FLOAT);
  TF_DeleteTensor(seven);
  return {TF_FinishOperation(constant, status), 0};
}

// dx = 7 dy, by two nodes.
void SevenTimes(Millrace_GradientCall* call, TF_Status* status) {
  const TF_Output factor = AddSeven(call, status);
  if (TF_GetCode(status) != TF_OK) return;
  const TF_Output dy =
      Millrace_DenseGradient(call->graph, call->name_scope, &call->output_gradients[0], status);
  if (TF_GetCode(status) != TF_OK) return;
  const std::string name = StrCat(call->name_scope, "/product");
  TF_OperationDescription* const product = TF_NewOperation(call->graph, "Mul", name.c_str());
  TF_AddInput(product, factor);
  TF_AddInput(product, dy);
  call->input_gradients[0].kind = MILLRACE_GRADIENT_DENSE;
  call->input_gradients[0].values = {TF_FinishOperation(product, status), 0};
}

// Reads the graph as a client may, then fails.
void LookAndFail(Millrace_GradientCall* call, TF_Status* status) {
  TF_Operation* const x = TF_GraphOperationByName(call->graph, "x");
  const bool right = x != nullptr && TF_OperationInput({call->oper, 0}).oper == x &&
                     TF_OperationOutputNumConsumers({x, 0}) == 1 &&
                     TF_GraphGetTensorNumDims(call->graph, {x, 0}, status) == 1;
  AddSeven(call, status);
  TF_SetStatus(status, TF_ABORTED, right ? "as expected" : "the graph is not as it should be");
}

// The identity, with a gradient function in C.
Output Overridden(const Scope& scope, const Output& x, const char* gradient) {
  const Output y = ops::Identity(scope, x);
  EXPECT_EQ(OverrideGradient(Operation(y), gradient), Status());
  return y;
}

class GradientFunctionsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    TF_Status status;
    Millrace_RegisterGradient(nullptr, "SevenTimesInC", SevenTimes, nullptr, nullptr, &status);
    ASSERT_EQ(status.status, Status());
    Millrace_RegisterGradient(nullptr, "LookAndFailInC", LookAndFail, nullptr, nullptr, &status);
    ASSERT_EQ(status.status, Status());
  }

  // The gradient of the sum of y for x, when x has that value.
  std::vector<float> Gradient(const Output& y, const Tensor& value) {
    Outputs grads;
    Status status = AddSymbolicGradients(scope_, {y}, {x_}, &grads);
    std::vector<Tensor> results;
    if (status.ok()) status = ClientSession(scope_).Run({{x_, value}}, {grads[0]}, &results);
    EXPECT_EQ(status, Status());
    if (!status.ok()) return {};
    const auto flat = results[0].flat<float>();
    return {flat.begin(), flat.end()};
  }

  const Scope scope_ = Scope::NewRootScope();
  const Output x_ = ops::Placeholder(scope_.WithOpName("x"), DataType::kFloat, ops::Placeholder::Shape({-1}));
};

TEST_F(GradientFunctionsTest, AGraphOfTheCppApi) {
  const Output y = ops::Mul(scope_, Overridden(scope_, x_, "SevenTimesInC"), 2.f);
  EXPECT_THAT(Gradient(y, Tensor::Vector({1.f, 5.f})), ElementsAre(14, 14));
  EXPECT_TRUE(scope_.FindOperation("gradients/Identity_grad/product").ok());
  EXPECT_THAT(Gradient(y, Tensor::Vector({1.f})), ElementsAre(14)) << "a second time, under other names";
}

TEST_F(GradientFunctionsTest, AGradientThatIsSlices) {
  const Output rows = ops::Gather(scope_, Overridden(scope_, x_, "SevenTimesInC"), {2, 0, 2});
  EXPECT_THAT(Gradient(rows, Tensor::Vector({1.f, 2.f, 3.f})), ElementsAre(7, 0, 14));
}

TEST_F(GradientFunctionsTest, ALoop) {
  // Three times v = 2 I(v), so d v / d x = (2 * 7)^3.
  const Outputs loop = While(
      scope_, {0, x_}, [](const Scope& s, const Outputs& v) -> Output { return ops::Less(s, v[0], 3); },
      [](const Scope& s, const Outputs& v) -> Outputs {
        return {ops::Add(s, v[0], 1), ops::Mul(s, Overridden(s, v[1], "SevenTimesInC"), 2.f)};
      });
  ASSERT_EQ(scope_.status(), Status());
  EXPECT_THAT(Gradient(loop[1], Tensor::Vector({1.f})), ElementsAre(2744));
}

TEST_F(GradientFunctionsTest, TheBodyOfAFunction) {
  const GraphFunction twice = MakeGraphFunction(
      scope_, "twice", {DataType::kFloat}, {}, [](const Scope& s, const Outputs& args) -> Outputs {
        return {ops::Mul(s, Overridden(s, args[0], "SevenTimesInC"), 2.f)};
      });
  const Output y = CallFunction(scope_, twice, {x_})[0];
  EXPECT_THAT(Gradient(y, Tensor::Vector({1.f, 2.f})), ElementsAre(14, 14));
}

TEST_F(GradientFunctionsTest, ItsErrorEndsTheComputation) {
  Outputs grads;
  const Status status =
      AddSymbolicGradients(scope_, {Overridden(scope_, x_, "LookAndFailInC")}, {x_}, &grads);
  EXPECT_TRUE(errors::IsAborted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("as expected"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("node 'Identity'"));
  EXPECT_EQ(scope_.status(), status);
}

}  // namespace
}  // namespace millrace
