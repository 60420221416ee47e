// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "millrace/status.h"
#include "op/attr_value.h"
#include "op/op_builder.h"

namespace tensorflow {
class FunctionDef;
}

namespace millrace {

// Writes a function in the language in which ops are registered:
//   FunctionBuilder("XTimesTwo").Arg("x: T").Ret("y: T").Attr("T: {float, double, int32}")
//       .Node("two", "Const", {}, {{"dtype", "$T"}, {"value", …}})
//       .Node("mul", "Mul", {"x", "two:output"}, {{"T", "$T"}})
//       .Return("y", "mul:z")
// Inputs are spelled as in a FunctionDef: "arg", "arg:1" (of a list argument), "node:output",
// "node:output:1", "^node". An attribute with the string "$T" takes the value of the function's T. Errors are
// kept and returned by Build.
class FunctionBuilder {
 public:
  explicit FunctionBuilder(std::string name);
  FunctionBuilder& Arg(std::string spec);
  FunctionBuilder& Ret(std::string spec);
  FunctionBuilder& Attr(std::string spec);
  FunctionBuilder& Stateful();
  // Calls are not inlined.
  FunctionBuilder& NoInline();
  FunctionBuilder& Node(std::string name, std::string op, std::vector<std::string> inputs = {},
                        AttrMap attrs = {}, std::string device = {});
  FunctionBuilder& Return(std::string ret, std::string tensor);
  // `node` runs with every call, even without consumers.
  FunctionBuilder& ControlReturn(std::string name, std::string node);
  // `def` is overwritten.
  Status Build(tensorflow::FunctionDef* def) const;

 private:
  struct BodyNode {
    std::string name, op;
    std::vector<std::string> inputs;
    AttrMap attrs;
    std::string device;
  };
  const std::string name_;
  OpBuilder signature_;
  bool no_inline_ = false;
  std::vector<BodyNode> nodes_;
  std::map<std::string, std::string> rets_, control_rets_;
};

}  // namespace millrace
