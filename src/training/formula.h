// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "millrace/scope.h"
#include "millrace/tensor.h"
#include "training/apply.h"

// Formulas of tensors, with nodes named as those of TensorFlow's Python client: "mul", "mul_1/y".
namespace millrace {

#pragma GCC visibility push(hidden)

// A scalar of that type; an int32 or a float if the type has no literals.
Tensor NumberTensor(double value, DataType dtype);
// A constant with the tensor; called `name` or "Const".
Output Number(const Scope& scope, double value, DataType dtype);
// The pair of seeds of a random node: from its own seed, 0 for none, and that of the graph.
std::pair<int64_t, int64_t> SeedsOf(const Scope& scope, int64_t seed);
// An int32 vector constant.
Output Vector(const Scope& scope, const std::vector<int64_t>& values);
// A literal as a constant called `name`, converted to `dtype` when both are floats; a tensor unchanged.
Output AsTensor(const Scope& scope, const char* name, const Input& input, DataType dtype);
Output CastTo(const Scope& scope, const Output& tensor, DataType dtype);

// A tensor in a formula: nodes of the formula are added to its scope.
class Formula {
 public:
  Formula(const Scope& scope, const Output& tensor) : scope_(scope), tensor_(tensor) {}
  operator Output() const { return tensor_; }  // NOLINT(google-explicit-constructor)

  const Scope& scope() const { return scope_; }
  const Output& tensor() const { return tensor_; }
  DataType dtype() const { return Scope::TypeOf(tensor_); }
  Formula Call(const char* op, const OpAttrs& attrs = {}) const {
    return {scope_, AddOp(scope_, op, {tensor_}, attrs)};
  }
  Formula Call(const char* op, const Input& other, const OpAttrs& attrs = {}) const {
    return {scope_, AddOp(scope_, op, {tensor_, other}, attrs)};
  }
  Formula To(DataType dtype) const { return {scope_, CastTo(scope_, tensor_, dtype)}; }
  // Reductions over axes; over all axes without them.
  Formula Reduce(const char* op, std::initializer_list<int64_t> axes, bool keep_dims = false) const;
  Formula Reduce(const char* op) const;

 private:
  Scope scope_;
  Output tensor_;
};

// An operand: a tensor, or a number of the type of the other operand.
struct Term {
  Term(const Formula& e) : tensor(e.tensor()) {}       // NOLINT(google-explicit-constructor)
  Term(const Output& t) : tensor(t) {}                 // NOLINT(google-explicit-constructor)
  Term(const GraphVariable& v) : tensor(v.value()) {}  // NOLINT(google-explicit-constructor)
  Term(double n) : number(n) {}                        // NOLINT(google-explicit-constructor)
  Output tensor;
  std::optional<double> number;  // if it is not a tensor; an unset tensor is an error, not a number
};

// `name` is that of the node, `op` its op.
Formula Binary(const Scope& scope, const char* name, const char* op, const Term& x, const Term& y);

inline Formula operator+(const Formula& x, const Term& y) { return Binary(x.scope(), "add", "Add", x, y); }
inline Formula operator-(const Formula& x, const Term& y) { return Binary(x.scope(), "sub", "Sub", x, y); }
inline Formula operator*(const Formula& x, const Term& y) { return Binary(x.scope(), "mul", "Mul", x, y); }
inline Formula operator/(const Formula& x, const Term& y) {
  return Binary(x.scope(), "truediv", "RealDiv", x, y);
}
inline Formula operator+(double x, const Formula& y) { return Binary(y.scope(), "add", "Add", x, y); }
inline Formula operator-(double x, const Formula& y) { return Binary(y.scope(), "sub", "Sub", x, y); }
inline Formula operator*(double x, const Formula& y) { return Binary(y.scope(), "mul", "Mul", x, y); }
inline Formula operator/(double x, const Formula& y) { return Binary(y.scope(), "truediv", "RealDiv", x, y); }
inline Formula Minimum(const Formula& x, const Term& y) {
  return Binary(x.scope(), "Minimum", "Minimum", x, y);
}
inline Formula Maximum(const Formula& x, const Term& y) {
  return Binary(x.scope(), "Maximum", "Maximum", x, y);
}
inline Formula Pow(const Term& x, const Formula& y) { return Binary(y.scope(), "Pow", "Pow", x, y); }
inline Formula Pow(const Formula& x, double y) { return Binary(x.scope(), "Pow", "Pow", x, y); }
// x / y, 0 where y is 0.
inline Formula DivNoNan(const Formula& x, const Term& y) {
  return Binary(x.scope(), "div_no_nan", "DivNoNan", x, y);
}

#pragma GCC visibility pop

}  // namespace millrace
