// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/dtype.h"
#include "millrace/status.h"
#include "op/node_props.h"

namespace millrace {

// An op that a node of _FusedElementwise can do as one of its instructions.
struct ElementwiseOp {
  enum class Operands : uint8_t {
    kOne,
    kBroadcast,  // two, of shapes that broadcast against each other
    kSame,       // two of one shape
    kSum,        // AddN, two terms at a time
    kSelect,     // a condition and two of one shape
  };
  enum class Result : uint8_t { kSame, kBool, kReal, kAny };  // beside the type of the last operand
  const char* name;
  Operands operands;
  Result result = Result::kSame;
  bool takes_integers = true;

  int arity() const { return operands == Operands::kOne ? 1 : operands == Operands::kSelect ? 3 : 2; }
};

// Sorted by name.
std::span<const ElementwiseOp> ElementwiseOps();
// The op whose instructions do what such a node does, if there is one. AddN takes one instruction less than
// it has terms.
const ElementwiseOp* InstructionOf(const NodeProps& props);

// What a node of _FusedElementwise computes, as its attributes say. Values are counted: first the inputs,
// then the results of the instructions.
struct ElementwiseProgram {
  static constexpr int kMaxInputs = 24;
  static constexpr int kMaxInstructions = 40;
  static constexpr int kMaxValues = kMaxInputs + kMaxInstructions;

  struct Instruction {
    const ElementwiseOp* op = nullptr;
    DataType type = DataType::kInvalid;    // of the result
    std::array<uint8_t, 3> operands = {};  // as many as the op takes
    std::string node;                      // whose work it is, for messages
  };
  int num_inputs = 0;
  std::vector<DataType> types;  // of all values
  std::vector<Instruction> instructions;
  std::vector<int> results;  // the value of each output, all of them results of instructions

  int num_values() const { return num_inputs + static_cast<int>(instructions.size()); }

  // InvalidArgument says which instruction is wrong and how. What is returned is in bounds and of fitting
  // types throughout.
  static StatusOr<ElementwiseProgram> Read(const AttrMap& attrs);
  // The attributes that Read reads. REQUIRES: as Read returns it.
  AttrMap ToAttrs() const;
};

}  // namespace millrace
