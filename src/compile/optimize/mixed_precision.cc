// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/mixed_precision.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace millrace {
namespace {

constexpr std::string_view kAttr = "_bfloat16_products";
constexpr std::array<std::string_view, 8> kProducts = {
    "MatMul",       "BatchMatMul",  "BatchMatMulV2",       "Conv2D",
    "_FusedMatMul", "_FusedConv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"};

}  // namespace

int UseBfloat16Products(Graph* graph) {
  int marked = 0;
  for (Node* node : graph->OpNodes()) {
    const bool is_product = std::find(kProducts.begin(), kProducts.end(), node->op_name()) != kProducts.end();
    if (!is_product || node->output_type(0) != DataType::kFloat || node->attrs().Find(kAttr) != nullptr)
      continue;
    node->SetAttr(kAttr, true);
    ++marked;
  }
  return marked;
}

}  // namespace millrace
