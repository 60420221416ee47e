// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/status.h"
#include "op/op_def.h"

namespace millrace {

class InferenceContext;
using ShapeFn = std::function<Status(InferenceContext&)>;

// All registered properties of an op.
struct OpRegistration {
  OpDef def;
  OpTraits traits;
  ElementwiseForm elementwise;
  FlopRule flop_rule = FlopRule::kElements;
  float flop_factor = 1;  // of kOutputs and kInputs
  ShapeFn shape_fn;       // null: every output has an unknown shape
};

// The registration language: OpBuilder("MatMul").Input("a: T").Input("b: T").Output("product: T")
// .Attr("transpose_a: bool = false").Attr("T: {half, float}").Shape(fn). The name may come with a summary:
// OpBuilder("MatMul: The product of two matrices.").
// Errors in the texts are kept and returned by Finalize, all of them in one message.
class OpBuilder {
 public:
  explicit OpBuilder(std::string_view name_and_summary);
  OpBuilder(const OpBuilder& o);
  OpBuilder(OpBuilder&& o) noexcept;
  OpBuilder& operator=(const OpBuilder& o);
  OpBuilder& operator=(OpBuilder&& o) noexcept;
  ~OpBuilder();
  OpBuilder& Input(std::string_view spec);  // "a: T", "a: Ref(T)", "a: N * T", "a: list_attr", "a: float"
  OpBuilder& Output(std::string_view spec);
  OpBuilder& Attr(
      std::string_view spec);  // "N: int >= 2 = 3", "T: {float, int32} = DT_FLOAT", "s: list(shape) = []", …
  OpBuilder& Commutative();
  OpBuilder& Aggregate();
  OpBuilder& Stateful();
  OpBuilder& AllowsUninitializedInput();
  OpBuilder& Deprecated(int version, std::string_view explanation);
  OpBuilder& Doc(std::string_view text);  // first line is the summary
  OpBuilder& Shape(ShapeFn fn);
  OpBuilder& Traits(OpTraits traits);  // replaces them; the mark of NotDifferentiable stays
  // Gradients end at the op: it has no gradient function, which is not an error.
  OpBuilder& NotDifferentiable();
  // The op can be an instruction of _FusedElementwise, whose kernel finds the routine by the op's name.
  OpBuilder& Fuses(ElementwiseForm form);
  // `factor`: operations per element, of kOutputs and kInputs.
  OpBuilder& Flops(FlopRule rule, float factor = 1);
  StatusOr<OpRegistration> Finalize() const;

 private:
  OpRegistration reg_;
  std::vector<std::string> inputs_, outputs_, attrs_, errors_;
};

}  // namespace millrace
