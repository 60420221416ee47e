// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/dtype.h"
#include "millrace/status.h"
#include "op/node_props.h"

namespace millrace {

// How an instruction computes a node, by its op's record and its types; null if none can. AddN takes one
// instruction less than it has terms.
const ElementwiseForm* InstructionOf(const NodeProps& props);

// The program of a _FusedElementwise node, given by its attributes. Values are numbered: first the inputs,
// then the results of the instructions.
struct ElementwiseProgram {
  static constexpr int kMaxInputs = 24;
  static constexpr int kMaxInstructions = 40;
  static constexpr int kMaxValues = kMaxInputs + kMaxInstructions;

  struct Instruction {
    const OpRegistration* op = nullptr;
    DataType type = DataType::kInvalid;    // of the result
    std::array<uint8_t, 3> operands = {};  // as many as the op takes
    std::string node;                      // the original node, for messages

    const ElementwiseForm& form() const { return op->elementwise; }
  };
  int num_inputs = 0;
  std::vector<DataType> types;  // of all values
  std::vector<Instruction> instructions;
  std::vector<int> results;  // the value of each output; all are results of instructions

  int num_values() const { return num_inputs + static_cast<int>(instructions.size()); }

  // InvalidArgument says which instruction is invalid and why. Ops are those of OpRegistry::Global(). The
  // result has valid indices and matching types.
  static StatusOr<ElementwiseProgram> Read(const AttrMap& attrs);
  // The attributes that Read reads. REQUIRES: a program that Read would return.
  AttrMap ToAttrs() const;
};

}  // namespace millrace
