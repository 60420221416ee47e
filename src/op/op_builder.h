// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "millrace/status.h"
#include "op/op_def.h"

namespace millrace {

class InferenceContext;
using ShapeFn = std::function<Status(InferenceContext&)>;

// All that is registered about an op.
struct OpRegistration {
  OpDef def;
  OpTraits traits;
  ShapeFn shape_fn;  // null: every output has an unknown shape
};

// The registration language: OpBuilder("MatMul").Input("a: T").Input("b: T").Output("product: T")
// .Attr("transpose_a: bool = false").Attr("T: {half, float}").Shape(fn).
// Errors in the texts are kept and returned by Finalize, all of them in one message.
class OpBuilder {
 public:
  explicit OpBuilder(std::string name);
  OpBuilder& Input(std::string spec);  // "a: T", "a: Ref(T)", "a: N * T", "a: list_attr", "a: float"
  OpBuilder& Output(std::string spec);
  OpBuilder& Attr(
      std::string spec);  // "N: int >= 2 = 3", "T: {float, int32} = DT_FLOAT", "s: list(shape) = []", …
  OpBuilder& Commutative();
  OpBuilder& Aggregate();
  OpBuilder& Stateful();
  OpBuilder& AllowsUninitializedInput();
  OpBuilder& Deprecated(int version, std::string explanation);
  OpBuilder& Doc(std::string text);  // first line is the summary
  OpBuilder& Shape(ShapeFn fn);
  OpBuilder& Traits(OpTraits traits);  // replaces
  StatusOr<OpRegistration> Finalize() const;

 private:
  OpRegistration reg_;
  std::vector<std::string> inputs_, outputs_, attrs_, errors_;
};

}  // namespace millrace
