// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The parts of a record agree with each other.
#include <gtest/gtest.h>

#include <algorithm>

#include "op/elementwise_kind.h"
#include "op/op_registry.h"
#include "ops/register.h"

namespace millrace {
namespace {

using Operands = ElementwiseForm::Operands;

std::vector<const OpRegistration*> Records() {
  static auto* const registry = [] {
    auto* const all = new OpRegistry;
    EXPECT_EQ(RegisterAllOps(*all), Status());
    return all;
  }();
  return registry->All();
}

TEST(RecordsTest, InstructionsHaveTheOperandsAndResultOfTheSignature) {
  int found = 0;
  for (const OpRegistration* op : Records()) {
    const ElementwiseForm& form = op->elementwise;
    if (form.operands == Operands::kNone) continue;
    ++found;
    const bool sum = form.operands == Operands::kSum;
    EXPECT_EQ(op->def.inputs.size(), sum ? 1 : static_cast<size_t>(form.arity())) << op->def.name;
    EXPECT_EQ(!op->def.inputs[0].number_attr.empty(), sum) << op->def.name;
    ASSERT_EQ(op->def.outputs.size(), 1u) << op->def.name;
    const ArgDef& output = op->def.outputs[0];
    using Result = ElementwiseForm::Result;
    EXPECT_EQ(output.type == DataType::kBool, form.result == Result::kBool) << op->def.name;
    EXPECT_EQ(output.type_attr == op->def.inputs.back().type_attr && output.type != DataType::kBool,
              form.result == Result::kSame)
        << op->def.name;
    EXPECT_FALSE(op->def.is_stateful) << op->def.name;
    EXPECT_TRUE(op->traits.elementwise || form.operands == Operands::kSelect) << op->def.name;
  }
  EXPECT_GE(found, 87);
}

ElementwiseKind KindOf(std::string_view name) {
  for (const OpRegistration* op : Records()) {
    if (op->def.name == name) return ElementwiseKindOf(*op);
  }
  ADD_FAILURE() << name;
  return ElementwiseKind::kNone;
}

TEST(RecordsTest, ElementwiseOpsHaveAKind) {
  int found = 0;
  for (const OpRegistration* op : Records()) {
    const Operands operands = op->elementwise.operands;
    if (op->def.name == "_FusedElementwise" || operands == Operands::kSelect) continue;
    if (!op->traits.elementwise && operands == Operands::kNone) continue;
    ++found;
    const ElementwiseKind kind = ElementwiseKindOf(*op);
    EXPECT_NE(kind, ElementwiseKind::kNone) << op->def.name;
    if (operands == Operands::kNone) continue;
    const ElementwiseKind expected = operands == Operands::kOne         ? ElementwiseKind::kOne
                                     : operands == Operands::kBroadcast ? ElementwiseKind::kBroadcasts
                                                                        : ElementwiseKind::kSameShape;
    EXPECT_EQ(kind, expected) << op->def.name;
  }
  EXPECT_GE(found, 110);
}

TEST(RecordsTest, KindsOfElementwiseOps) {
  for (const char* name : {"Exp", "Cast", "Invert", "LeakyRelu", "LogicalNot", "Identity", "StopGradient"})
    EXPECT_EQ(KindOf(name), ElementwiseKind::kOne) << name;
  for (const char* name : {"Add", "Xdivy", "Xlogy", "LeftShift", "Complex", "Zeta", "MulNoNan", "NextAfter"})
    EXPECT_EQ(KindOf(name), ElementwiseKind::kBroadcasts) << name;
  for (const char* name : {"SigmoidGrad", "ReluGrad", "LeakyReluGrad", "AddN", "ApproximateEqual"})
    EXPECT_EQ(KindOf(name), ElementwiseKind::kSameShape) << name;
  for (const char* name : {"Select", "Softmax", "IdentityN", "EnsureShape", "PlaceholderWithDefault",
                           "CheckNumerics", "_FusedElementwise", "MatMul"})
    EXPECT_EQ(KindOf(name), ElementwiseKind::kNone) << name;
}

TEST(RecordsTest, FlopRulesFindTheAttributesAndArgumentsThatTheyRead) {
  int found = 0;
  for (const OpRegistration* op : Records()) {
    const OpDef& def = op->def;
    if (op->flop_rule == FlopRule::kElements) continue;
    ++found;
    EXPECT_FALSE(def.inputs.empty() || def.outputs.empty()) << def.name;
    EXPECT_GT(op->flop_factor, 0) << def.name;
    switch (op->flop_rule) {
      case FlopRule::kTerms:
        EXPECT_FALSE(def.inputs[0].number_attr.empty()) << def.name;
        break;
      case FlopRule::kWindows:
        EXPECT_NE(def.FindAttr("ksize"), nullptr) << def.name;
        break;
      case FlopRule::kMatMul:
        EXPECT_TRUE(def.FindAttr("transpose_a") != nullptr || def.FindAttr("adj_x") != nullptr) << def.name;
        break;
      case FlopRule::kConvolution:
      case FlopRule::kDepthwiseConvolution:
        EXPECT_GE(def.inputs.size(), 2u) << def.name;
        break;
      case FlopRule::kConvolutionInput:
      case FlopRule::kConvolutionFilter:
        EXPECT_EQ(def.inputs.size(), 3u) << def.name;
        break;
      default:
        break;
    }
  }
  EXPECT_GE(found, 30);
}

TEST(RecordsTest, WhatChangesStateWithoutAnOutputHasNoGradient) {
  for (const OpRegistration* op : Records()) {
    if (op->def.outputs.empty() && !op->traits.is_control_flow) {
      EXPECT_TRUE(op->traits.not_differentiable) << op->def.name;
    }
  }
}

}  // namespace
}  // namespace millrace
