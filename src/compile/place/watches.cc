// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/place/watches.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "base/strings.h"

namespace millrace {
namespace {

constexpr std::string_view kSummary = "DebugNumericSummary";

bool IsDebugOp(std::string_view op) {
  return op == "DebugIdentity" || op == "DebugNanCount" || op == kSummary;
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Parses an attribute's value.
StatusOr<AttrValue> ParseAttr(bool is_bool, std::string_view key, std::string_view text,
                              std::string_view node) {
  if (is_bool && (text == "true" || text == "True" || text == "1")) return AttrValue(true);
  if (is_bool && (text == "false" || text == "False" || text == "0")) return AttrValue(false);
  const std::string copy(text);
  char* end = nullptr;
  const float value = std::strtof(copy.c_str(), &end);
  if (is_bool || copy.empty() || *end != '\0') {
    return errors::InvalidArgument("Invalid value string for ", is_bool ? "bool" : "float",
                                   "-type attribute ", key, " of debug node ", node, ": \"", text, "\"");
  }
  return AttrValue(value);
}

// "Op(key=value; key=value)": the op's name, and its attributes in `attrs`.
StatusOr<std::string_view> ParseSpec(std::string_view spec, std::string_view node, AttrMap* attrs) {
  const size_t open = spec.find('(');
  const std::string_view op = spec.substr(0, open);
  std::string_view rest;
  if (open != std::string_view::npos) {
    if (spec.back() != ')' || open == 0)
      return errors::InvalidArgument("Malformed debug op name \"", spec, "\"");
    rest = spec.substr(open + 1, spec.size() - open - 2);
  }
  int num_unknown = 0;
  std::string unknown;
  while (!Trimmed(rest).empty()) {
    const size_t end = std::min(rest.find(';'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos || Trimmed(pair.substr(0, equals)).empty())
      return errors::InvalidArgument("Malformed attributes in debug op name \"", spec, "\"");
    const std::string_view key = Trimmed(pair.substr(0, equals));
    const bool is_bool = key == "gated_grpc" || (op == kSummary && key == "mute_if_healthy");
    if (!is_bool && !(op == kSummary && (key == "lower_bound" || key == "upper_bound"))) {
      ++num_unknown;
      unknown += StrCat(unknown.empty() ? "" : ", ", key);
      continue;
    }
    MR_ASSIGN_OR_RETURN(AttrValue value, ParseAttr(is_bool, key, Trimmed(pair.substr(equals + 1)), node));
    attrs->Set(key, std::move(value));
  }
  if (num_unknown > 0) {
    return errors::InvalidArgument(num_unknown, " attribute key(s) were not valid for debug node ", node,
                                   ": ", unknown);
  }
  return op;
}

class WatchAdder {
 public:
  WatchAdder(Graph* graph, const PlaceOptions& options) : graph_(*graph), options_(options) {}

  Status Add(const DebugWatch& watch) {
    for (const std::string& url : watch.urls) {
      if (!std::string_view(url).starts_with("file://"))
        return errors::Unimplemented("Debug URLs other than file:// are not supported: ", url);
    }
    if (watch.node != "*") {
      Node* const node = graph_.FindNode(watch.node);
      return node == nullptr ? Status() : AddOutputs(watch, node);
    }
    for (Node* const node : graph_.OpNodes()) {
      if (!node->name().starts_with('_')) MR_RETURN_IF_ERROR(AddOutputs(watch, node));
    }
    return Status();
  }
  int added() const { return added_; }

 private:
  Status AddOutputs(const DebugWatch& watch, Node* node) {
    // The output of a NextIteration only goes to a Merge.
    if (!node->IsOp() || node->op_name() == "NextIteration" || node->op_name() == "RefNextIteration")
      return Status();
    for (int i = 0; i < node->num_outputs(); ++i) {
      if (watch.output != -1 && watch.output != i) continue;
      const DataType type = BaseType(node->output_type(i));
      if (type == DataType::kResource || type == DataType::kVariant) continue;
      for (size_t op = 0; op < watch.ops.size(); ++op) MR_RETURN_IF_ERROR(AddOp(watch, op, node, i));
    }
    return Status();
  }

  Status AddOp(const DebugWatch& watch, size_t index, Node* node, int output) {
    const std::string& spec = watch.ops[index];
    const std::string tensor = StrCat(node->name(), ":", std::to_string(output));
    const std::string name =
        StrCat("__dbg_", tensor, "_", std::to_string(index), "_", spec.substr(0, spec.find('(')));
    AttrMap attrs{{"T", BaseType(node->output_type(output))}};
    attrs.Set("tensor_name", tensor);
    attrs.Set("device_name", node->assigned_device());
    attrs.Set("debug_urls", watch.urls);
    MR_ASSIGN_OR_RETURN(const std::string_view op, ParseSpec(spec, name, &attrs));
    if (!IsDebugOp(op)) return Refuse(watch, op, tensor, "there is no such debug op");
    MR_ASSIGN_OR_RETURN(Node * made, graph_.AddNode(graph_.NewName(name), op, std::move(attrs)));
    const DeviceDescription* const device = options_.devices->Find(node->assigned_device());
    if (device == nullptr || !options_.has_kernel(device->type(), made->props())) {
      graph_.RemoveNode(made);
      return Refuse(watch, op, tensor, "it has no kernel for the tensor's type there");
    }
    made->set_assigned_device(node->assigned_device());
    std::vector<Node*> readers;
    if (IsRefType(node->output_type(output))) {
      for (const Edge* edge : node->out_edges()) {
        const Node& reader = *edge->dst;
        if (edge->src_output == output && reader.IsOp() && !reader.traits().is_control_flow &&
            !IsDebugOp(reader.op_name())) {
          readers.push_back(edge->dst);
        }
      }
    }
    graph_.AddEdge(node, output, made, 0);
    for (Node* const reader : readers) graph_.AddControlEdge(made, reader);
    ++added_;
    return Status();
  }

  static Status Refuse(const DebugWatch& watch, std::string_view op, std::string_view tensor,
                       std::string_view why) {
    if (watch.tolerate_failures) return Status();
    return errors::FailedPrecondition("Failed to create debug node ", op, " for tensor ", tensor,
                                      ", due to: ", why);
  }

  Graph& graph_;
  const PlaceOptions& options_;
  int added_ = 0;
};

}  // namespace

StatusOr<int> AddWatches(Graph* graph, std::span<const DebugWatch> watches, const PlaceOptions& options) {
  WatchAdder adder(graph, options);
  for (const DebugWatch& watch : watches) MR_RETURN_IF_ERROR(adder.Add(watch));
  graph->FixupSourceAndSinkEdges();
  return adder.added();
}

}  // namespace millrace
