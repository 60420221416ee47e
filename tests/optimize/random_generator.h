// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/shape.h"
#include "tests/optimize/random_graph.h"

namespace millrace {

// Generates a RandomGraph: random_graph.cc has the computations, random_flow.cc conditions, loops, functions
// and effects.
class RandomGraphGenerator {
 public:
  RandomGraphGenerator(uint32_t seed, const RandomGraphOptions& options);
  RandomGraph Make();

 private:
  using Dims = std::vector<int64_t>;

  struct Value {
    std::string name;
    DataType type = DataType::kDouble;
    Dims dims;
    bool exact = true;
  };

  // The place of new nodes: the graph's top, a branch, the body of a loop.
  struct Place {
    std::vector<Value> values;  // that may be used there
    std::string pivot;          // alive when the place is; "" at the top
    std::string handle;         // of the variable, in the frame of the place; "": not available
    int depth = 0;
    bool in_loop = false;  // constants wait for the pivot, to be in the frame
  };

  int Roll(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  std::vector<Value>& values() { return place_.values; }
  const Value& Pick();
  // A value that `wanted` accepts; null after a few tries.
  template <typename F>
  const Value* PickIf(const F& wanted) {
    for (int i = 0; i < 20; ++i) {
      const Value& value = Pick();
      if (wanted(value)) return &value;
    }
    return nullptr;
  }
  std::string NewName(std::string_view prefix);
  void Fetch(const Value& value);
  Dims RandomDims();
  Tensor RandomTensor(DataType type, const Dims& dims, int kind);
  DataType RandomType();
  void AddFeed();
  Value Constant(DataType type, const Dims& dims, int kind);
  std::string ConstantNode(const Tensor& tensor, bool may_wait);
  std::string Integers(const std::vector<int32_t>& numbers);
  std::vector<std::string> MaybeWait();
  // An op with one result of the type of its T.
  Node* Op(std::string_view op, std::vector<std::string> inputs, AttrMap attrs, std::string* name);
  Value Make(std::string_view op, const std::vector<std::string>& inputs, DataType type, const Dims& dims,
             bool exact, AttrMap attrs = {});
  // Limits the magnitude of numbers, with constants on both sides.
  Value Bounded(const Value& x);
  static bool IsNumber(const Value& v) { return v.type != DataType::kBool && v.type != DataType::kString; }
  static bool IsReal(const Value& v) { return v.type == DataType::kDouble || v.type == DataType::kFloat; }

  void AddComputations(int count);
  void AddComputation();
  void Unary();
  void Binary();
  void Logic();
  void Reduce();
  void Arrange();
  void Assemble();
  void Contract();
  void Convert();
  void ShapeOf();
  void Round();

  // random_flow.cc
  void AddFlow();
  Value Predicate();
  void Conditional();
  void Branch(int side, const std::vector<Value>& taken, const std::string& switched,
              std::vector<std::string>* results);
  void Loop();
  Value Limit();
  std::vector<std::string> Body(const std::vector<Value>& switches);
  Value SameAs(const Value& like);
  void Call();
  void Effect();
  void AddVariable();
  void AddFunctions();

  std::mt19937 random_;
  const RandomGraphOptions options_;
  RandomGraph out_;
  Place place_;
  int names_ = 0;
  int made_ = 0;
};

}  // namespace millrace
