// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/shape.h"
#include "millrace/tensor.h"
#include "op/op_registry.h"

namespace millrace {

// Tests shape functions by one-liners: ShapeTester("MatMul").Infer("[2,?];[?,3]") gives "[d0_0,d1_1]".
// Inputs: shapes separated by ';', "?" for an unknown rank. Result: one shape per output, separated by ';'. A
// shape that is the same object as that of an input prints as "in<input>", such a size as
// "d<input>_<dimension>" (the first match), other sizes as numbers or "?". An error prints as "e;<message>".
// Attributes that the test omits and that have no default: a type gets its first allowed value or float, a
// count N and a list of types follow from the number of inputs.
class ShapeTester {
 public:
  explicit ShapeTester(std::string op, const OpLookup& registry = OpRegistry::Global());
  ShapeTester& Attr(std::string_view name, AttrValue value);
  // The value of input i is known to be `value`.
  ShapeTester& Const(int i, Tensor value);
  ShapeTester& Const(int i, const std::vector<int>& values);  // an int32 vector
  ShapeTester& ConstScalar(int i, int value);                 // an int32 scalar
  // Input i is a shape tensor known to describe `shape`: "[2,?]".
  ShapeTester& AsShape(int i, std::string_view shape);
  // Input i is a handle of a resource with this shape and type.
  ShapeTester& Handle(int i, std::string_view shape, DataType dtype);

  std::string Infer(std::string_view inputs);
  // "" when the shapes are as in `expected`, else the shapes. `expected` is written like a result of Infer,
  // with alternatives allowed: "[d0_0|d1_0,3]", "in0|in1"; a number matches each size of that value; "e;text"
  // any error whose message contains `text`; "e" any error.
  std::string Check(std::string_view inputs, std::string_view expected);
  // After Infer or Check: "[2,3]:float" for the resource of output i, "" when it is not known.
  const std::string& HandleOf(int i) const { return output_handles_[i]; }
  // After Infer or Check: the inputs whose values the function requested.
  const std::vector<int>& Wanted() const { return wanted_; }

 private:
  struct HandleText {
    std::string shape;
    DataType dtype;
  };
  class Run;

  void FillAttrs(const OpDef& op, int num_inputs, AttrMap* attrs) const;

  const std::string op_;
  const OpLookup& registry_;
  AttrMap attrs_;
  std::map<int, Tensor> constants_;
  std::map<int, std::string> as_shapes_;
  std::map<int, HandleText> handles_;
  std::vector<std::string> output_handles_;
  std::vector<int> wanted_;
};

// "[2,?]" or "?". REQUIRES: well-formed.
PartialShape ParseShapeText(std::string_view text);

}  // namespace millrace
