// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/status.h"

namespace millrace {

// The equation of an Einsum: for each operand and the result one letter per dimension, and at most one '.'
// for any number of dimensions, which are aligned at the last and broadcast.
struct EinsumEquation {
  std::vector<std::string> inputs;  // one or two
  std::string output;
};
StatusOr<EinsumEquation> ParseEinsum(std::string_view equation);

// One label per dimension of an operand: a letter, or kEllipsisLabel + i for dimension i of an ellipsis,
// counted from its last one.
inline constexpr int kEllipsisLabel = 128;
StatusOr<std::vector<int>> EinsumLabels(const std::string& subscripts, int rank);
// Those of the result; its ellipsis has as many dimensions as the largest of an operand.
std::vector<int> EinsumOutputLabels(const std::string& subscripts,
                                    std::span<const std::vector<int>> operands);

}  // namespace millrace
