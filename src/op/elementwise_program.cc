// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "op/elementwise_program.h"

#include <algorithm>
#include <utility>

#include "op/op_registry.h"

namespace millrace {
namespace {

using Operands = ElementwiseForm::Operands;
using Result = ElementwiseForm::Result;

// The types that the loops support.
bool IsPlain(DataType type) {
  return IsIntegerType(type) || IsComplexType(type) || IsFloatingType(type) || type == DataType::kBool;
}

bool IsInstruction(const OpRegistration& op) { return op.elementwise.operands != Operands::kNone; }

bool TypesFit(const ElementwiseForm& op, std::span<const DataType> operands, DataType result) {
  if (!IsPlain(result) || !std::all_of(operands.begin(), operands.end(), IsPlain)) return false;
  const DataType type = operands.back();
  if (operands.size() == 2 && operands[0] != type) return false;
  if (operands.size() == 3 && (operands[0] != DataType::kBool || operands[1] != type)) return false;
  if (!op.takes_integers && IsIntegerType(type)) return false;
  switch (op.result) {
    case Result::kSame:
      return result == type;
    case Result::kBool:
      return result == DataType::kBool;
    case Result::kReal:
      return (type == DataType::kComplex64 && result == DataType::kFloat) ||
             (type == DataType::kComplex128 && result == DataType::kDouble);
    case Result::kAny:
      return result != type;
  }
  return false;
}

Status BadInstruction(size_t i, std::string_view op, std::string_view what) {
  return errors::InvalidArgument("Instruction ", i, " ('", op, "') of an element-wise program ", what);
}

// The lists of the attributes, and how far they were read.
class Reader {
 public:
  explicit Reader(ElementwiseProgram* program) : program_(*program) {}

  Status Read(const AttrMap& attrs) {
    MR_ASSIGN_OR_RETURN(program_.types, attrs.Get<std::vector<DataType>>("Tin"));
    MR_ASSIGN_OR_RETURN(outputs_, attrs.Get<std::vector<DataType>>("Tout"));
    MR_ASSIGN_OR_RETURN(ops_, attrs.Get<std::vector<std::string>>("ops"));
    MR_ASSIGN_OR_RETURN(types_, attrs.Get<std::vector<DataType>>("types"));
    MR_ASSIGN_OR_RETURN(operands_, attrs.Get<std::vector<int64_t>>("operands"));
    MR_ASSIGN_OR_RETURN(results_, attrs.Get<std::vector<int64_t>>("results"));
    MR_ASSIGN_OR_RETURN(nodes_, attrs.Get<std::vector<std::string>>("nodes"));
    MR_RETURN_IF_ERROR(CheckSizes());
    program_.num_inputs = static_cast<int>(program_.types.size());
    for (size_t i = 0; i < ops_.size(); ++i) MR_RETURN_IF_ERROR(ReadInstruction(i));
    if (next_operand_ != operands_.size()) {
      return errors::InvalidArgument("An element-wise program takes ", next_operand_, " operands, but has ",
                                     operands_.size());
    }
    return ReadResults();
  }

 private:
  Status CheckSizes() const {
    if (program_.types.empty() || program_.types.size() > ElementwiseProgram::kMaxInputs) {
      return errors::InvalidArgument("An element-wise program takes 1 to ", ElementwiseProgram::kMaxInputs,
                                     " inputs, not ", program_.types.size());
    }
    if (ops_.empty() || ops_.size() > ElementwiseProgram::kMaxInstructions) {
      return errors::InvalidArgument("An element-wise program has 1 to ",
                                     ElementwiseProgram::kMaxInstructions, " instructions, not ",
                                     ops_.size());
    }
    if (types_.size() != ops_.size() || (!nodes_.empty() && nodes_.size() != ops_.size())) {
      return errors::InvalidArgument("An element-wise program of ", ops_.size(), " instructions has ",
                                     types_.size(), " types and ", nodes_.size(), " names of nodes");
    }
    if (results_.empty() || results_.size() != outputs_.size() || results_.size() > ops_.size()) {
      return errors::InvalidArgument("An element-wise program with ", outputs_.size(), " outputs names ",
                                     results_.size(), " results");
    }
    return Status();
  }

  Status ReadInstruction(size_t i) {
    ElementwiseProgram::Instruction instruction;
    const auto op = OpRegistry::Global().LookUp(ops_[i]);
    if (!op.ok() || !IsInstruction(**op)) return BadInstruction(i, ops_[i], "is of an unknown op");
    instruction.op = *op;
    instruction.type = types_[i];
    if (!nodes_.empty()) instruction.node = nodes_[i];
    const auto arity = static_cast<size_t>(instruction.form().arity());
    std::array<DataType, 3> types;
    for (size_t j = 0; j < arity; ++j, ++next_operand_) {
      if (next_operand_ >= operands_.size()) return BadInstruction(i, ops_[i], "lacks an operand");
      const int64_t value = operands_[next_operand_];
      if (value < 0 || value >= static_cast<int64_t>(program_.types.size()))
        return BadInstruction(i, ops_[i], StrCat("takes value ", value, ", which is computed later"));
      instruction.operands[j] = static_cast<uint8_t>(value);
      types[j] = program_.types[static_cast<size_t>(value)];
    }
    if (!TypesFit(instruction.form(), std::span(types).first(arity), instruction.type)) {
      return BadInstruction(i, ops_[i],
                            StrCat("does not give ", DataTypeName(instruction.type), " of ",
                                   DataTypeName(types[arity - 1]), " operands"));
    }
    program_.types.push_back(instruction.type);
    program_.instructions.push_back(std::move(instruction));
    return Status();
  }

  Status ReadResults() {
    for (size_t i = 0; i < results_.size(); ++i) {
      const int64_t value = results_[i];
      if (value < program_.num_inputs || value >= static_cast<int64_t>(program_.types.size()) ||
          program_.types[static_cast<size_t>(value)] != outputs_[i] ||
          std::count(results_.begin(), results_.end(), value) != 1) {
        return errors::InvalidArgument("Output ", i, " of an element-wise program can't be value ", value);
      }
      program_.results.push_back(static_cast<int>(value));
    }
    return Status();
  }

  ElementwiseProgram& program_;
  std::vector<DataType> outputs_, types_;
  std::vector<std::string> ops_, nodes_;
  std::vector<int64_t> operands_, results_;
  size_t next_operand_ = 0;
};

}  // namespace

const ElementwiseForm* InstructionOf(const NodeProps& props) {
  const ElementwiseForm* const op = &props.op->elementwise;
  if (!IsInstruction(*props.op) || props.output_types.size() != 1) return nullptr;
  const std::vector<DataType>& inputs = props.input_types;
  if (op->operands == Operands::kSum) {
    return inputs.size() >= 2 && IsPlain(inputs[0]) ? op : nullptr;
  }
  if (inputs.size() != static_cast<size_t>(op->arity())) return nullptr;
  if (op->result == Result::kAny && props.attrs.Get<bool>("Truncate").value_or(false)) return nullptr;
  return TypesFit(*op, inputs, props.output_types[0]) ? op : nullptr;
}

StatusOr<ElementwiseProgram> ElementwiseProgram::Read(const AttrMap& attrs) {
  ElementwiseProgram program;
  MR_RETURN_IF_ERROR(Reader(&program).Read(attrs));
  return program;
}

AttrMap ElementwiseProgram::ToAttrs() const {
  std::vector<DataType> in(types.begin(), types.begin() + num_inputs), out, result_types;
  std::vector<std::string> ops, nodes;
  std::vector<int64_t> operands;
  for (const Instruction& instruction : instructions) {
    ops.push_back(instruction.op->def.name);
    nodes.push_back(instruction.node);
    result_types.push_back(instruction.type);
    for (int i = 0; i < instruction.form().arity(); ++i) operands.push_back(instruction.operands[i]);
  }
  for (const int value : results) out.push_back(types[static_cast<size_t>(value)]);
  return AttrMap::FromEntries({{"Tin", std::move(in)},
                               {"Tout", std::move(out)},
                               {"ops", std::move(ops)},
                               {"types", std::move(result_types)},
                               {"operands", std::move(operands)},
                               {"results", std::vector<int64_t>(results.begin(), results.end())},
                               {"nodes", std::move(nodes)}});
}

}  // namespace millrace
