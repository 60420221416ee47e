// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "autodiff/graph_builder.h"
#include "millrace/output.h"

namespace millrace {

// A tensor of a graph under construction, so that formulas can be written directly: `dy * (2.0 * x)` adds the
// nodes for it. A small value; the builder must outlive it. An unset one stands for "no tensor": using it in
// a formula is an error, which the builder keeps.
class Expr {
 public:
  Expr() = default;
  Expr(GraphBuilder& builder, Output tensor) : builder_(&builder), tensor_(tensor) {}

  bool IsSet() const { return tensor_.IsSet(); }
  Output output() const { return tensor_; }
  GraphBuilder* builder() const { return builder_; }
  // The base type; kInvalid when unset.
  DataType dtype() const;
  // The static shape, as far as it is known.
  PartialShape shape() const;
  // Another output of the same node.
  Expr Sibling(int index) const;

 private:
  GraphBuilder* builder_ = nullptr;
  Output tensor_;
};

// An argument of an op: one tensor or a list.
class Operand {
 public:
  Operand(const Expr& e) : exprs_{e}, is_list_(false) {}  // NOLINT(google-explicit-constructor)
  Operand(std::vector<Expr> list)
      : exprs_(std::move(list)), is_list_(true) {}  // NOLINT(google-explicit-constructor)
  const std::vector<Expr>& exprs() const { return exprs_; }
  bool is_list() const { return is_list_; }

 private:
  std::vector<Expr> exprs_;
  bool is_list_;
};

// Output 0 of a new node; types and counts are inferred. REQUIRES: an operand that has a builder.
Expr Op(std::string_view op, std::initializer_list<Operand> operands, AttrMap attrs = {});
inline Expr Op(std::string_view op, const Expr& x) { return Op(op, {Operand(x)}); }

// A constant of the type of `like`: a scalar, a vector of integers.
Expr ScalarLike(const Expr& like, double value);
Expr VectorLike(const Expr& like, const std::vector<int64_t>& values);
// The same with a given type.
Expr Scalar(GraphBuilder& builder, DataType dtype, double value, std::string_view name = {});
Expr Vector(GraphBuilder& builder, DataType dtype, const std::vector<int64_t>& values,
            std::string_view name = {});

// Arithmetic, with broadcasting.
Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
Expr operator/(const Expr& a, const Expr& b);  // RealDiv; FloorDiv for integers
Expr operator-(const Expr& a);
Expr operator+(const Expr& a, double b);
Expr operator+(double a, const Expr& b);
Expr operator-(const Expr& a, double b);
Expr operator-(double a, const Expr& b);
Expr operator*(double a, const Expr& b);
Expr operator/(double a, const Expr& b);
// The complex conjugate; `x` itself when it is real.
Expr Conj(const Expr& x);
Expr CastTo(const Expr& x, DataType dtype);
Expr ZerosLike(const Expr& x);
// Element by element: a where the condition holds, else b. All have one shape.
Expr Where(const Expr& condition, const Expr& a, const Expr& b);

// Shapes as integer vectors: constants where they are known statically.
Expr ShapeOf(const Expr& x, DataType dtype = DataType::kInt32);
// The number of dimensions, a scalar.
Expr RankOf(const Expr& x, DataType dtype = DataType::kInt32);
// `x` in the shape of `like`; `x` itself when it is known to have it.
Expr ReshapeLike(const Expr& x, const Expr& like);
Expr Reshape(const Expr& x, const Expr& shape);
Expr ExpandDims(const Expr& x, int axis);
Expr Transpose(const Expr& x, const Expr& perm);
// Joins vectors; scalars count as vectors of one element.
Expr JoinVectors(const std::vector<Expr>& parts);
Expr GatherRows(const Expr& params, const Expr& indices);
Expr Fill(const Expr& shape, const Expr& value);
Expr Sum(const Expr& x, const Expr& axes, bool keep_dims = false);

// The elements of an integer tensor if they are known from the graph alone.
StatusOr<std::vector<int64_t>> StaticIntegers(const Expr& x);

}  // namespace millrace
