// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/logging/graph_rows.h"

#include <charconv>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

using NodeIds = std::unordered_map<std::string_view, int64_t>;

// "name", "name:2" or "^name".
struct Input {
  int64_t node = 0;
  int64_t output = 0;
  bool is_control = false;
};

StatusOr<Input> ParseInput(const std::string& text, const NodeIds& ids) {
  std::string_view name = text;
  Input input;
  if (const size_t colon = name.rfind(':'); colon != std::string_view::npos) {
    const char* const end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data() + colon + 1, end, input.output);
    if (error != std::errc() || rest != end) return errors::DataLoss("Bad NodeDef.input: ", text);
    name = name.substr(0, colon);
  }
  if (name.starts_with('^')) {
    name.remove_prefix(1);
    input.is_control = true;
  }
  const auto found = ids.find(name);
  if (found == ids.end()) return errors::DataLoss("Could not find node: ", name);
  input.node = found->second;
  return input;
}

Status WriteInputs(SqliteDatabase& database, int64_t graph_id, const tensorflow::GraphDef& graph) {
  NodeIds ids;
  for (int64_t i = 0; const tensorflow::NodeDef& node : graph.node()) ids.emplace(node.name(), i++);
  MR_ASSIGN_OR_RETURN(
      SqliteStatement insert,
      database.Prepare(
          "INSERT INTO NodeInputs (graph_id, node_id, idx, input_node_id, input_node_idx, is_control) "
          "VALUES (?, ?, ?, ?, ?, ?)"));
  for (int64_t id = 0; const tensorflow::NodeDef& node : graph.node()) {
    for (int64_t i = 0; const std::string& text : node.input()) {
      MR_ASSIGN_OR_RETURN(const Input input, ParseInput(text, ids));
      MR_RETURN_IF_ERROR(insert.Run({graph_id, id, i, input.node, input.output, int64_t{input.is_control}}));
      ++i;
    }
    ++id;
  }
  return Status();
}

}  // namespace

Status WriteNodes(SqliteDatabase& database, int64_t graph_id, const tensorflow::GraphDef& graph) {
  MR_RETURN_IF_ERROR(WriteInputs(database, graph_id, graph).WithContext("\n\tSaveNodeInputs"));
  MR_ASSIGN_OR_RETURN(
      SqliteStatement insert,
      database.Prepare("INSERT INTO Nodes (graph_id, node_id, node_name, op, device, node_def) "
                       "VALUES (?, ?, ?, ?, ?, ?)"));
  for (int64_t id = 0; const tensorflow::NodeDef& node : graph.node()) {
    tensorflow::NodeDef rest;
    *rest.mutable_attr() = node.attr();
    if (node.has_experimental_debug_info())
      *rest.mutable_experimental_debug_info() = node.experimental_debug_info();
    const std::string bytes = rest.SerializeAsString();
    MR_RETURN_IF_ERROR(insert
                           .Run({graph_id, id++, std::string_view(node.name()), std::string_view(node.op()),
                                 std::string_view(node.device()), SqliteBlob{bytes}})
                           .WithContext("\n\tSaveNodes"));
  }
  return Status();
}

}  // namespace millrace
