// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/dtype.h"
#include "millrace/status.h"
#include "op/attr_value.h"

namespace millrace {

// The engine's form of tensorflow.OpDef (see op_def_codec.h for the wire form).
struct ArgDef {
  std::string name;
  DataType type = DataType::kInvalid;  // a fixed type …
  std::string type_attr;               // … or the attr that gives it
  std::string number_attr;             // "N * T": the attr that gives the count
  std::string type_list_attr;          // list(type) attr: one tensor per entry
  bool is_ref = false;
  std::string description;
  friend bool operator==(const ArgDef&, const ArgDef&) = default;
};

struct AttrDef {
  std::string name;
  std::string type;         // "string", "list(int)", …
  AttrValue default_value;  // unset: none
  bool has_minimum = false;
  int64_t minimum = 0;
  AttrValue allowed_values;  // a list of types or strings; unset: all
  std::string description;
  friend bool operator==(const AttrDef&, const AttrDef&) = default;
};

struct OpDef {
  std::string name;
  std::vector<ArgDef> inputs;
  std::vector<ArgDef> outputs;
  std::vector<AttrDef> attrs;
  std::string summary;
  std::string description;
  int deprecated_version = 0;  // 0: not deprecated
  std::string deprecated_explanation;
  bool is_commutative = false;
  bool is_aggregate = false;
  bool is_stateful = false;
  bool allows_uninitialized_input = false;

  const AttrDef* FindAttr(std::string_view attr) const;
  friend bool operator==(const OpDef&, const OpDef&) = default;
};

// A special value in the laws of arithmetic: the zero (false) or one (true) of a type.
enum class Unit : uint8_t { kNone, kZero, kOne };

// Properties of an op that passes and the executor use instead of lists of names.
struct OpTraits {
  bool elementwise = false;    // output[i] depends on input[i] only (after broadcasting)
  bool metadata_only = false;  // reads the shape of its input, not the values: Shape, Size, Rank
  bool cheap = false;          // cheaper than passing it to another thread, whatever the input
  bool aliasing = false;       // the output may share the input's memory: Identity, Reshape
  bool generator = false;      // no data input: Const, RandomUniform, VariableV2
  bool never_fold = false;     // stateless, yet must not be evaluated at compile time: Placeholder
  bool is_send = false;
  bool is_recv = false;
  bool is_control_flow = false;     // Switch, Merge, Enter, Exit, NextIteration
  bool is_variable = false;         // VariableV2, VarHandleOp, …
  bool has_side_effects = false;    // stateful in a way that forbids removal even when unused within a step
  bool only_checks = false;         // no effect except for errors: Assert
  bool not_differentiable = false;  // gradients end here: integer outputs, steps, changes of state

  // Laws, which hold except for the sign of a zero.
  bool forwards = false;          // output i is input i: Identity, StopGradient
  bool same_in_shape = false;     // an output in the shape of input 0 is that input: Reshape, Tile, Sum
  bool involution = false;        // f(f(x)) is x: Neg
  bool idempotent = false;        // f(f(x)) is f(x): Abs; of two inputs, f(x, x) is x: Maximum
  bool associative = false;       // f(f(x, y), z) is f(x, f(y, z)), except for rounding: Add
  Unit left_unit = Unit::kNone;   // f(unit, x) is x
  Unit right_unit = Unit::kNone;  // f(x, unit) is x
  Unit absorber = Unit::kNone;    // f(x, absorber) is the absorber, except for NaN and infinity
};

// How a node of _FusedElementwise runs an op as an instruction.
struct ElementwiseForm {
  enum class Operands : uint8_t {
    kNone,  // it cannot
    kOne,
    kBroadcast,  // two, of shapes that broadcast against each other
    kSame,       // two of one shape
    kSameCount,  // as kSame; the op's own kernel also takes different shapes with equally many elements
    kSum,        // AddN, two terms at a time
    kSelect,     // a condition and two of one shape
  };
  enum class Result : uint8_t { kSame, kBool, kReal, kAny };  // relative to the type of the last operand
  Operands operands = Operands::kNone;
  Result result = Result::kSame;
  bool takes_integers = true;

  int arity() const { return operands == Operands::kOne ? 1 : operands == Operands::kSelect ? 3 : 2; }
};

// How the number of floating-point operations of a node follows from the shapes of its inputs and outputs.
enum class FlopRule : uint8_t {
  kElements,              // one per element of a floating output of an element-wise op; 0 for other ops
  kOutputs,               // a constant per element of output 0
  kInputs,                // a constant per element of input 0
  kTerms,                 // one per element and term of a sum of all inputs
  kWindows,               // one per element of each window of attribute ksize
  kMatMul,                // products of matrices; transpose_a or adj_x says which dimension is summed over
  kConvolution,           // of input 0 with the filter in input 1
  kDepthwiseConvolution,  // the same, channel by channel
  kConvolutionInput,      // its gradient for the input: the filter is input 1, the gradient input 2
  kConvolutionFilter,     // its gradient for the filter, output 0; the gradient is input 2
};

// Types of a node's inputs and outputs, inferred from the op and its attributes. InvalidArgument names the
// attr with the error.
Status InferArgTypes(const OpDef& op, const AttrMap& attrs, std::vector<DataType>* inputs,
                     std::vector<DataType>* outputs);

// Half-open ranges of flat indices by argument name.
struct ArgRange {
  std::string name;
  int begin = 0;
  int end = 0;
};
Status InferArgRanges(const std::vector<ArgDef>& args, const AttrMap& attrs, std::vector<ArgRange>* ranges);

// Adds the defaults of `op` to `attrs`, then checks that each attr is known (names starting with '_' always
// are) and has the declared type, minimum and allowed values. Messages name the attr; callers add the node.
Status AddDefaultAttrs(const OpDef& op, AttrMap* attrs);
Status ValidateAttrs(const OpDef& op, const AttrMap& attrs);
// Checks one value against the declaration of its attribute: type, minimum, allowed values.
Status ValidateAttrValue(const AttrDef& attr, const AttrValue& value);
// Checks the registration itself: names, types, references between args and attrs, defaults within the
// constraints.
Status ValidateOpDef(const OpDef& op);
// The same for the signature of a function, whose name may be anything.
Status ValidateSignature(const OpDef& op);

// For messages: Op<name=MatMul; signature=a:T, b:T -> product:T; attr=transpose_a:bool,default=false; …>.
std::string SummarizeOp(const OpDef& op);

}  // namespace millrace
