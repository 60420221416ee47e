// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "op/einsum_equation.h"

#include <algorithm>

namespace millrace {
namespace {

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Letters and a '.' for "...".
StatusOr<std::string> ParseSubscripts(std::string_view text, std::string_view equation) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (IsLetter(text[i])) {
      out += text[i];
    } else if (text.substr(i, 3) == "..." && out.find('.') == std::string::npos) {
      out += '.';
      i += 2;
    } else if (text[i] != ' ') {
      return errors::InvalidArgument("Invalid subscripts '", text, "' in einsum equation '", equation,
                                     "': expected letters and at most one ellipsis");
    }
  }
  return out;
}

}  // namespace

StatusOr<EinsumEquation> ParseEinsum(std::string_view equation) {
  const size_t arrow = equation.find("->");
  if (arrow == std::string_view::npos || equation.find("->", arrow + 2) != std::string_view::npos)
    return errors::InvalidArgument("Expecting exactly one '->' in einsum equation: ", equation);
  EinsumEquation out;
  std::string_view rest = equation.substr(0, arrow);
  for (bool more = true; more;) {
    const size_t comma = rest.find(',');
    MR_ASSIGN_OR_RETURN(std::string subscripts, ParseSubscripts(rest.substr(0, comma), equation));
    out.inputs.push_back(std::move(subscripts));
    more = comma != std::string_view::npos;
    if (more) rest = rest.substr(comma + 1);
  }
  if (out.inputs.size() > 2) {
    return errors::InvalidArgument("Expecting 1 or 2 input subscripts in equation '", equation,
                                   "' but got: ", out.inputs.size());
  }
  MR_ASSIGN_OR_RETURN(out.output, ParseSubscripts(equation.substr(arrow + 2), equation));
  for (const char c : out.output) {
    if (c == '.') continue;
    const auto has = [&](const std::string& s) { return s.find(c) != std::string::npos; };
    if (std::none_of(out.inputs.begin(), out.inputs.end(), has)) {
      return errors::InvalidArgument("Einsum output subscripts for equation '", equation,
                                     "' has label that is not in the inputs: ", std::string(1, c));
    }
  }
  return out;
}

StatusOr<std::vector<int>> EinsumLabels(const std::string& subscripts, int rank) {
  const bool ellipsis = subscripts.find('.') != std::string::npos;
  const int letters = static_cast<int>(subscripts.size()) - (ellipsis ? 1 : 0);
  if (ellipsis ? rank < letters : rank != letters) {
    return errors::InvalidArgument("Expected input to have rank ", ellipsis ? "at least " : "", letters,
                                   " for the einsum subscripts '", subscripts, "' but got rank ", rank);
  }
  std::vector<int> labels;
  for (const char c : subscripts) {
    if (c != '.') {
      labels.push_back(c);
      continue;
    }
    for (int i = rank - letters; i-- > 0;) labels.push_back(kEllipsisLabel + i);
  }
  return labels;
}

std::vector<int> EinsumOutputLabels(const std::string& subscripts,
                                    std::span<const std::vector<int>> operands) {
  int dims = 0;
  for (const auto& labels : operands) {
    for (const int label : labels) dims = std::max(dims, label - kEllipsisLabel + 1);
  }
  std::vector<int> out;
  for (const char c : subscripts) {
    if (c != '.') {
      out.push_back(c);
      continue;
    }
    for (int i = dims; i-- > 0;) out.push_back(kEllipsisLabel + i);
  }
  return out;
}

}  // namespace millrace
