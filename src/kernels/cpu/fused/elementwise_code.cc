// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/fused/elementwise_code.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "kernels/cpu/math/elementwise.h"
#include "kernels/cpu/math/integer_error.h"
#include "kernels/cpu/vector/cast.h"
#include "tensor/dtype_table.h"

namespace millrace {
namespace {

using cpu::BinaryOp;
using cpu::UnaryOp;
using Operands = ElementwiseForm::Operands;

constexpr double kCastNs = 0.5, kSelectNs = 0.2;

uint64_t Bit(int i) { return uint64_t{1} << i; }

}  // namespace

StatusOr<ElementwiseCode> ElementwiseCode::Make(ElementwiseProgram program) {
  ElementwiseCode code;
  code.program_ = std::move(program);
  for (const DataType type : code.program_.types)
    code.sizes_.push_back(static_cast<int64_t>(ElementSize(type)));
  for (const auto& instruction : code.program_.instructions) MR_RETURN_IF_ERROR(code.AddStep(instruction));
  code.AssignRegisters();
  code.FindShapeRules();
  return code;
}

Status ElementwiseCode::AddStep(const ElementwiseProgram::Instruction& instruction) {
  const ElementwiseForm& form = instruction.form();
  const std::string& op = instruction.op->def.name;
  Step step;
  step.operands = instruction.operands;
  step.result = static_cast<uint8_t>(program_.num_inputs + num_steps());
  const DataType from = program_.types[step.operands[0]];
  DataType to = instruction.type;
  if (form.operands == Operands::kSelect) {
    step.select = cpu::FindSelect(size(step.result));
    step.cost_ns = kSelectNs;
  } else if (form.result == ElementwiseForm::Result::kAny) {
    step.unary = cpu::FindCast(from, to);
    step.cost_ns = kCastNs;
  } else if (form.operands == Operands::kOne) {
    const UnaryOp unary = UnaryOpOf(op);
    step.unary = cpu::FindUnary(unary, from);
    to = cpu::UnaryResultType(unary, from);
    step.cost_ns = cpu::UnaryCostNs(unary, from);
  } else {
    step.op = form.operands == Operands::kSum ? BinaryOp::kAdd : BinaryOpOf(op);
    step.binary = cpu::FindBinary(step.op, from);
    to = cpu::BinaryResultType(step.op, from);
    step.cost_ns = cpu::BinaryCostNs(step.op, from);
    if (step.binary != nullptr)
      step.forms = {nullptr, step.binary->scalar_right, step.binary->scalar_left, step.binary->same};
  }
  if (step.select == nullptr && step.unary == nullptr && step.binary == nullptr) {
    return errors::Unimplemented("An element-wise program has no CPU kernel for ", op, " of ",
                                 DataTypeName(from));
  }
  if (to != instruction.type) {
    return errors::InvalidArgument("An element-wise program has ", op, " of ", DataTypeName(from), " give ",
                                   DataTypeName(instruction.type), " instead of ", DataTypeName(to));
  }
  cost_ns_ += step.cost_ns;
  steps_.push_back(step);
  return Status();
}

void ElementwiseCode::AssignRegisters() {
  std::vector<int> last_use(sizes_.size(), -1);
  for (int i = 0; i < num_steps(); ++i) {
    const int arity = program_.instructions[static_cast<size_t>(i)].form().arity();
    for (int j = 0; j < arity; ++j) last_use[step(i).operands[static_cast<size_t>(j)]] = i;
  }
  registers_.assign(sizes_.size(), kNoRegister);
  uint64_t taken = 0;
  for (int i = 0; i < num_steps(); ++i) {
    const Step& s = step(i);
    const int arity = program_.instructions[static_cast<size_t>(i)].form().arity();
    // A register that is read for the last time is reused for the result if the elements have the same size.
    uint64_t free_before = 0, free_after = 0;
    for (int j = 0; j < arity; ++j) {
      const int operand = s.operands[static_cast<size_t>(j)];
      if (register_of(operand) == kNoRegister || last_use[static_cast<size_t>(operand)] != i) continue;
      (size(operand) == size(s.result) ? free_before : free_after) |= Bit(register_of(operand));
    }
    taken &= ~free_before;
    const auto& results = program_.results;
    if (std::find(results.begin(), results.end(), static_cast<int>(s.result)) == results.end()) {
      const int reg = std::countr_one(taken);
      registers_[s.result] = static_cast<uint8_t>(reg);
      taken |= Bit(reg);
      num_registers_ = std::max(num_registers_, reg + 1);
      register_size_ = std::max(register_size_, size(s.result));
      if (last_use[s.result] < 0) taken &= ~Bit(reg);
    }
    taken &= ~free_after;
  }
  for (const int result : program_.results) {
    const int made_by = result - num_inputs();
    uint64_t inputs = 0;
    for (int v = 0; v < num_inputs(); ++v) {
      const auto value = static_cast<size_t>(v);
      if (last_use[value] <= made_by && program_.types[value] == program_.types[static_cast<size_t>(result)])
        inputs |= Bit(v);
    }
    replaceable_.push_back(inputs);
  }
}

void ElementwiseCode::FindShapeRules() {
  const uint64_t all_inputs = Bit(num_inputs()) - 1;
  for (int i = 0; i < num_steps(); ++i) {
    const ElementwiseForm& form = program_.instructions[static_cast<size_t>(i)].form();
    uint64_t operands = 0;
    for (int j = 0; j < form.arity(); ++j) operands |= Bit(step(i).operands[static_cast<size_t>(j)]);
    const uint64_t inputs = operands & all_inputs;
    if (form.operands != Operands::kBroadcast) {
      must_be_arrays_ |= inputs;
    } else if (inputs == operands) {
      pairs_.push_back(inputs);
    }
  }
}

int ElementwiseCode::Run(const Addresses& at, uint64_t arrays, uint64_t steps, int64_t n) const {
  int failed = -1;
  for (; steps != 0; steps &= steps - 1) {
    const Step& s = steps_[static_cast<size_t>(std::countr_zero(steps))];
    const char* const a = at[s.operands[0]];
    char* const out = at[s.result];
    if (s.unary != nullptr) {
      s.unary(a, out, n);
    } else if (s.binary != nullptr) {
      const uint64_t form = (arrays >> s.operands[0] & 1) | (arrays >> s.operands[1] & 1) << 1;
      if (!s.forms[form](a, at[s.operands[1]], out, n) && failed < 0) failed = std::countr_zero(steps);
    } else {
      s.select(a, at[s.operands[1]], at[s.operands[2]], out, n);
    }
  }
  return failed;
}

Status ElementwiseCode::Failure(int i) const {
  return BadInteger(program_.instructions[static_cast<size_t>(i)].op->def.name);
}

int ElementwiseCode::NumberOfTerm(int i) const {
  int term = 1;
  const auto& instructions = program_.instructions;
  for (int sum = i; instructions[static_cast<size_t>(sum)].form().operands == Operands::kSum; ++term) {
    const int before = step(sum).operands[0] - num_inputs();
    if (before < 0 ||
        instructions[static_cast<size_t>(before)].node != instructions[static_cast<size_t>(i)].node)
      break;
    sum = before;
  }
  return term;
}

}  // namespace millrace
