// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "step/cost_graph.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace millrace {

void AppendCostGraph(const Graph& graph, const CostModel& model, std::vector<CostNode>* out) {
  const std::vector<Node*> nodes = graph.OpNodes();
  std::unordered_map<const Node*, int> ids;
  for (const Node* node : nodes) ids.emplace(node, static_cast<int>(out->size() + ids.size()));
  for (const Node* node : nodes) {
    CostNode cost;
    cost.name = node->name();
    cost.device = node->assigned_device();
    cost.id = ids.at(node);
    cost.is_final = node->traits().is_send || node->op_name() == "_Retval";
    for (const Edge* edge : node->in_edges()) {
      if (edge == nullptr || !edge->src->IsOp()) continue;
      const int source = ids.at(edge->src);
      if (edge->IsControl()) {
        cost.control_inputs.push_back(source);
      } else {
        cost.inputs.push_back({source, edge->src_output});
      }
    }
    const auto measured = model.Find(node->name(), node->assigned_device());
    cost.measured = measured.has_value();
    if (measured) {
      cost.compute_ns = measured->average_ns();
      cost.peak_bytes = measured->peak_bytes;
    }
    for (int i = 0; i < node->num_outputs(); ++i) {
      CostNode::Output& output = cost.outputs.emplace_back();
      output.dtype = BaseType(node->output_type(i));
      if (!measured) continue;
      const auto seen = std::find_if(measured->outputs.begin(), measured->outputs.end(),
                                     [i](const NodeStats::Output& o) { return o.slot == i; });
      if (seen == measured->outputs.end()) continue;
      output.bytes = seen->bytes;
      output.shape = seen->shape;
    }
    out->push_back(std::move(cost));
  }
}

}  // namespace millrace
