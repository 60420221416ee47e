// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "millrace/status.h"
#include "tests/session/def_builder.h"

namespace millrace {

using Names = std::vector<std::string>;

// Builds a GraphDef of int32 scalars with conditions and loops made from primitives.
class FlowBuilder : public DefBuilder {
 public:
  tensorflow::NodeDef* Int(const std::string& name, const std::string& op, const Names& inputs) {
    tensorflow::NodeDef* node = Add(name, op, inputs);
    (*node->mutable_attr())["T"].set_type(tensorflow::DT_INT32);
    return node;
  }
  void Value(const std::string& name, int32_t v, const Names& after = {}) {
    tensorflow::NodeDef* node = Const(name, Tensor::Scalar(v));
    for (const std::string& a : after) node->add_input(a);
  }
  void Enter(const std::string& name, const std::string& input, const std::string& frame, bool constant) {
    auto& attr = *Int(name, "Enter", {input})->mutable_attr();
    attr["frame_name"].set_s(frame);
    attr["is_constant"].set_b(constant);
    attr["parallel_iterations"].set_i(parallel_iterations);
  }
  void Merge(const std::string& name, const Names& inputs) {
    (*Int(name, "Merge", inputs)->mutable_attr())["N"].set_i(static_cast<int64_t>(inputs.size()));
  }
  // while (cond(vars)) vars = body(vars). Both get a prefix for their nodes, a control input that keeps
  // constants in the frame, and the values; the results are in "<name>/Exit_<i>".
  void While(
      const std::string& name, const Names& init,
      const std::function<std::string(const std::string& prefix, const std::string& pivot, const Names&)>&
          cond,
      const std::function<Names(const std::string& prefix, const std::string& pivot, const Names&)>& body) {
    Names merged, inside, next;
    for (size_t i = 0; i < init.size(); ++i) {
      const std::string n = std::to_string(i);
      Enter(StrCat(name, "/Enter_", n), init[i], name, false);
      merged.push_back(StrCat(name, "/Merge_", n));
      Merge(merged.back(), {StrCat(name, "/Enter_", n), StrCat(name, "/Next_", n)});
      inside.push_back(StrCat(name, "/Body_", n));
    }
    const std::string pred = cond(name + "/cond", "^" + merged[0], merged);
    Add(name + "/LoopCond", "LoopCond", {pred});
    for (size_t i = 0; i < init.size(); ++i) {
      const std::string n = std::to_string(i);
      Int(StrCat(name, "/Switch_", n), "Switch", {merged[i], name + "/LoopCond"});
      Int(inside[i], "Identity", {StrCat(name, "/Switch_", n, ":1")});
      Int(StrCat(name, "/Exit_", n), "Exit", {StrCat(name, "/Switch_", n)});
    }
    next = body(name + "/body", "^" + inside[0], inside);
    for (size_t i = 0; i < init.size(); ++i)
      Int(name + "/Next_" + std::to_string(i), "NextIteration", {next[i]});
  }
  // The sum of 0, 1, …, limit - 1 in "<name>/Exit_1".
  void SumBelow(const std::string& name, const std::string& limit) {
    Value(name + "/zero", 0);
    Enter(name + "/limit", limit, name, true);
    While(
        name, {name + "/zero", name + "/zero"},
        [&](const std::string& p, const std::string&, const Names& v) {
          Int(p + "/Less", "Less", {v[0], name + "/limit"});
          return p + "/Less";
        },
        [&](const std::string& p, const std::string& pivot, const Names& v) {
          Value(p + "/one", 1, {pivot});
          Int(p + "/i", "Add", {v[0], p + "/one"});
          Int(p + "/sum", "Add", {v[1], v[0]});
          return Names{p + "/i", p + "/sum"};
        });
  }

  int64_t parallel_iterations = 10;
};

}  // namespace millrace
