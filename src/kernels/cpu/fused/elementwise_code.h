// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/cpu/vector/binary.h"
#include "kernels/cpu/vector/select.h"
#include "kernels/cpu/vector/unary.h"
#include "op/elementwise_program.h"

namespace millrace {

// An element-wise program with the routines of its instructions: those of the kernels of the single ops,
// so that results are the same bits. Immutable once made; Run may be called by many threads.
class ElementwiseCode {
 public:
  static constexpr int kMaxValues = ElementwiseProgram::kMaxValues;
  static constexpr uint8_t kNoRegister = 0xff;
  // The scratch of one block, on the stack; and the largest number of elements of a block.
  static constexpr int64_t kScratchBytes = 32768;
  static constexpr int64_t kMaxBlock = 1024;
  using Addresses = std::array<char*, kMaxValues>;  // of the first element of each value

  // InvalidArgument or Unimplemented if an instruction has no routine for its types.
  static StatusOr<ElementwiseCode> Make(ElementwiseProgram program);

  const ElementwiseProgram& program() const { return program_; }
  int num_inputs() const { return program_.num_inputs; }
  int num_steps() const { return static_cast<int>(steps_.size()); }
  int64_t size(int value) const { return sizes_[static_cast<size_t>(value)]; }  // bytes an element
  double cost_ns() const { return cost_ns_; }                                   // an element, all steps

  // Runs those of `steps` (bit i: step i) on n elements; each value is an array (bit v of `arrays`) or one
  // number. Operands and results of an instruction must not overlap unless Make gave them one register.
  // Returns -1, or the first step that failed: it divided an integer by zero, or raised it to a negative
  // power. REQUIRES: an operand that is one number is of an instruction with Operands::kBroadcast whose other
  // operand is an array; all results are arrays.
  int Run(const Addresses& at, uint64_t arrays, uint64_t steps, int64_t n) const;
  Status Failure(int step) const;
  // The index of the term of its AddN that is the right operand of the step; 1 for other steps.
  int NumberOfTerm(int step) const;

  // One step alone. `unary`, `binary` or `select` is set.
  struct Step {
    cpu::UnaryFn unary = nullptr;
    const cpu::BinaryFns* binary = nullptr;
    cpu::SelectFn select = nullptr;
    std::array<cpu::BinaryFn, 4> forms = {};  // by operands that are arrays: 1 the left one, 2 the right one
    std::array<uint8_t, 3> operands = {};
    uint8_t result = 0;
    cpu::BinaryOp op = cpu::BinaryOp::kCount;  // where binary is set
    double cost_ns = 0;
  };
  const Step& step(int i) const { return steps_[static_cast<size_t>(i)]; }

  // Results that aren't outputs are in registers: blocks of scratch that are used again after their last
  // use.
  uint8_t register_of(int value) const { return registers_[static_cast<size_t>(value)]; }
  int num_registers() const { return num_registers_; }
  // The largest size of an element in a register, in bytes.
  int64_t register_size() const { return register_size_; }
  // Inputs of the type of output `o` that are not read after the step that makes it, as bits: the output may
  // overwrite one of them.
  uint64_t replaceable_inputs(int o) const { return replaceable_[static_cast<size_t>(o)]; }

  // Whether all results have the shape of the inputs in `arrays` if these have one shape and the others are
  // one number each. False: unknown.
  bool IsFlat(uint64_t arrays) const {
    if ((arrays & must_be_arrays_) != must_be_arrays_) return false;
    for (const uint64_t pair : pairs_) {
      if ((arrays & pair) == 0) return false;
    }
    return true;
  }

 private:
  Status AddStep(const ElementwiseProgram::Instruction& instruction);
  void AssignRegisters();
  void FindShapeRules();

  ElementwiseProgram program_;
  std::vector<Step> steps_;
  std::vector<int64_t> sizes_;      // by value
  std::vector<uint8_t> registers_;  // by value
  std::vector<uint64_t> replaceable_;
  std::vector<uint64_t> pairs_;  // inputs of which at least one has to be an array
  uint64_t must_be_arrays_ = 0;  // inputs
  int num_registers_ = 0;
  int64_t register_size_ = 1;
  double cost_ns_ = 0;
};

}  // namespace millrace
