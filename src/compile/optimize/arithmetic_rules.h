// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "compile/optimize/rewriter.h"
#include "graph/graph.h"

// The rules of SimplifyArithmetic. Each takes a pure node that may be removed, and returns whether it made a
// rewrite; the node may have been removed then.
namespace millrace::arithmetic {

// Rules from the traits of an op: units, absorbers, involutions, …
bool ApplyLaws(Rewriter& rewriter, Node* node);
// Transpose, Reshape, Cast, ReverseV2, Pack and Unpack, Slice, Split.
bool SimplifyArrangement(Rewriter& rewriter, Node* node);
// Sums, products, powers.
bool SimplifySums(Rewriter& rewriter, Node* node);

// Shared by the rules.

// True for a type in which sums and products are exact: integers and bool.
bool IsExact(DataType type);
// Pure, without control inputs: bypassing it changes no order.
bool IsPlain(const Node& node);
// The same with one consumer.
bool IsPlainWithOneUse(const Node& node);
// True if all elements are that number; false for types without numbers and for large tensors.
bool IsAll(const Tensor& tensor, double value);
// The number that all elements of a real tensor have; empty for empty and for large tensors.
std::optional<double> UniformValue(const Tensor& tensor);
// A scalar of a type; empty for types without numbers.
std::optional<Tensor> ScalarOf(DataType type, double value);
// Whether broadcasting x with `other` leaves the shape of x.
bool KeepsShape(Rewriter& rewriter, const TensorRef& x, const TensorRef& other);
// The control inputs of a constant that replaces `constants`: those constants that wait, or are in a loop.
// REQUIRES: they are constants in the sense of ConstTensorOf.
std::vector<Node*> WaitsOf(const std::vector<TensorRef>& constants);
// The integers in a constant, if it is one. A node that bypasses the constant must wait for it.
std::optional<std::vector<int64_t>> ConstIntegers(const TensorRef& tensor);
// {"T", type of the first input of node}, the only attribute of most ops.
AttrMap TypeAttr(const Node& node);

}  // namespace millrace::arithmetic
