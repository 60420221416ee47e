// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "io/checkpoint/checkpoint_reader.h"
#include "tensor/dtype_table.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "training/graph_tools/graph_tools.h"
#include "training/graph_tools/node_index.h"
#include "training/graph_tools/variable_uses.h"

namespace millrace {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

bool IsResourceVariable(const NodeDef& node) { return node.op() == "VarHandleOp"; }
bool IsVariable(const NodeDef& node) {
  return node.op() == "Variable" || node.op() == "VariableV2" || IsResourceVariable(node);
}

// Returns the values of variables, in their order.
using Values = std::function<StatusOr<std::vector<Tensor>>(const std::vector<const NodeDef*>& variables)>;

// The nodes of the variables that become constants. REQUIRES: the graph only has nodes that the outputs need.
std::vector<int> VariablesIn(const FreezeOptions& options, const GraphDef& graph) {
  std::vector<int> variables;
  for (int i = 0; i < graph.node_size(); ++i) {
    const NodeDef& node = graph.node(i);
    if (!IsVariable(node) || options.keep_variables.contains(node.name())) continue;
    if (!options.only_variables.empty() && !options.only_variables.contains(node.name())) continue;
    variables.push_back(i);
  }
  return variables;
}

Status Freeze(const FreezeOptions& options, const Values& values, GraphDef* graph) {
  if (options.outputs.empty()) return errors::InvalidArgument("FreezeGraph: no output is named");
  MR_RETURN_IF_ERROR(ExtractSubGraph(options.outputs, graph));
  const std::vector<int> variables = VariablesIn(options, *graph);
  std::vector<const NodeDef*> nodes;
  nodes.reserve(variables.size());
  for (const int variable : variables) nodes.push_back(&graph->node(variable));
  MR_ASSIGN_OR_RETURN(const std::vector<Tensor> read, values(nodes));
  MR_ASSIGN_OR_RETURN(const NodeIndex index, NodeIndex::Make(*graph));
  VariableUses uses(index, graph);
  for (size_t i = 0; i < variables.size(); ++i) {
    NodeDef& node = *graph->mutable_node(variables[i]);
    const DataType dtype = TypeAttr(node, "dtype");
    if (read[i].dtype() != dtype || !read[i].IsInitialized()) {
      return errors::InvalidArgument("Variable '", node.name(), "' is of type ", DataTypeName(dtype),
                                     ", its value ", DataTypeName(read[i].dtype()));
    }
    MR_RETURN_IF_ERROR(uses.Freeze(variables[i], dtype, IsResourceVariable(node)));
    MakeConst(read[i], &node);
  }
  uses.Finish();
  if (options.clear_devices) {
    for (NodeDef& node : *graph->mutable_node()) node.clear_device();
  }
  // Nodes that were needed only for the variables are removed.
  return ExtractSubGraph(options.outputs, graph);
}

// Reads variables of a session with the read nodes of its graph.
class SessionValues {
 public:
  SessionValues(Session& session, const GraphDef& graph) : session_(session) {
    for (const NodeDef& node : graph.node()) {
      if (node.op() != "ReadVariableOp" || node.input_size() != 1) continue;
      // Prefers the variable's own read, which has no control inputs.
      const std::string variable(ParseTensorId(node.input(0)).name);
      const bool own = node.name() == variable + "/Read/ReadVariableOp";
      if (own || !reads_.contains(variable)) reads_[variable] = node.name();
    }
  }

  StatusOr<std::vector<Tensor>> operator()(const std::vector<const NodeDef*>& variables) {
    std::vector<std::string> fetches;
    for (const NodeDef* variable : variables) {
      if (!IsResourceVariable(*variable)) {
        fetches.push_back(variable->name() + ":0");
        continue;
      }
      if (!reads_.contains(variable->name())) MR_RETURN_IF_ERROR(AddRead(*variable));
      fetches.push_back(reads_[variable->name()] + ":0");
    }
    std::vector<Tensor> values;
    if (!fetches.empty()) MR_RETURN_IF_ERROR(session_.Run({}, fetches, {}, &values));
    return values;
  }

 private:
  Status AddRead(const NodeDef& variable) {
    for (int i = 0;; ++i) {
      GraphDef def;
      NodeDef* node = def.add_node();
      node->set_name(StrCat(variable.name(), "/Freeze/ReadVariableOp", i == 0 ? "" : StrCat("_", i)));
      node->set_op("ReadVariableOp");
      node->add_input(variable.name());
      (*node->mutable_attr())["dtype"].set_type(DataTypeToProto(TypeAttr(variable, "dtype")));
      const Status added = session_.Extend(def);
      if (!added.ok() && added.message().find("was created by a previous call") != std::string_view::npos &&
          i < 100) {
        continue;
      }
      MR_RETURN_IF_ERROR(added);
      reads_[variable.name()] = node->name();
      return Status();
    }
  }

  Session& session_;
  std::map<std::string, std::string> reads_;  // the node that reads a resource variable
};

// "v/part_3" -> ("v", 3).
std::optional<std::pair<std::string, size_t>> PartOf(const std::string& name) {
  const size_t at = name.rfind("/part_");
  if (at == std::string::npos) return std::nullopt;
  const std::string number = name.substr(at + 6);
  if (number.empty() || number.size() > 6 || number.find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  return std::pair(name.substr(0, at), static_cast<size_t>(std::stoul(number)));
}

// Reads variables from a checkpoint.
class CheckpointValues {
 public:
  explicit CheckpointValues(io::CheckpointReader& reader) : reader_(reader) {}

  StatusOr<std::vector<Tensor>> operator()(const std::vector<const NodeDef*>& variables) {
    for (const NodeDef* variable : variables) {
      if (const auto part = PartOf(variable->name())) parts_[part->first][part->second] = variable;
    }
    std::vector<Tensor> values;
    for (const NodeDef* variable : variables) {
      MR_ASSIGN_OR_RETURN(Tensor value, Read(*variable));
      values.push_back(std::move(value));
    }
    return values;
  }

 private:
  StatusOr<Tensor> Read(const NodeDef& variable) {
    if (reader_.HasTensor(variable.name())) return reader_.GetTensor(variable.name());
    if (const auto* shared = FindAttr(variable, "shared_name");
        shared != nullptr && !shared->s().empty() && reader_.HasTensor(shared->s())) {
      return reader_.GetTensor(shared->s());
    }
    const auto part = PartOf(variable.name());
    if (part && reader_.HasTensor(part->first)) return ReadPart(*part, variable);
    return reader_.GetTensor(variable.name());  // returns the error that there is none
  }

  // Parts are consecutive along the one dimension in which the whole is larger, in the order of their
  // numbers.
  StatusOr<Tensor> ReadPart(const std::pair<std::string, size_t>& part, const NodeDef& variable) {
    const auto& [whole_name, number] = part;
    const TensorShape& whole = reader_.variables().at(whole_name).shape;
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeOf(variable));
    const auto error = [&, name = std::string_view(whole_name)] {
      return errors::InvalidArgument("Variable '", variable.name(), "' of shape ", shape,
                                     " is not a part of '", name, "' of shape ", whole);
    };
    int axis = 0;
    if (shape.rank() != whole.rank() || whole.rank() == 0) return error();
    while (axis < whole.rank() - 1 && shape.dim(axis) == whole.dim(axis)) ++axis;
    int64_t begin = 0;
    for (const auto& [other, node] : parts_[whole_name]) {
      if (other >= number) break;
      MR_ASSIGN_OR_RETURN(const TensorShape before, ShapeOf(*node));
      if (before.rank() != whole.rank() || before.dim(axis) > whole.dim(axis) - begin) return error();
      begin += before.dim(axis);
    }
    for (int i = 0; i < whole.rank(); ++i) {
      const bool fits = i == axis ? shape.dim(i) <= whole.dim(i) - begin : shape.dim(i) == whole.dim(i);
      if (!fits) return error();
    }
    if (cached_name_ != whole_name) {
      MR_ASSIGN_OR_RETURN(cached_, reader_.GetTensor(whole_name));
      cached_name_ = whole_name;
    }
    return Cut(cached_, axis, begin, shape);
  }

  static StatusOr<TensorShape> ShapeOf(const NodeDef& variable) {
    const auto* shape = FindAttr(variable, "shape");
    if (shape == nullptr) return errors::InvalidArgument("Variable '", variable.name(), "' has no shape");
    return ShapeFromProto(shape->shape());
  }

  // [begin, begin + shape.dim(axis)) of one axis. REQUIRES: it is within the tensor.
  static StatusOr<Tensor> Cut(const Tensor& whole, int axis, int64_t begin, const TensorShape& shape) {
    if (OwnsMemory(whole.dtype())) {
      return errors::Unimplemented("Parts of variables of type ", DataTypeName(whole.dtype()));
    }
    MR_ASSIGN_OR_RETURN(Tensor cut, Tensor::Allocate(whole.dtype(), shape));
    int64_t outer = 1;
    auto inner = static_cast<int64_t>(ElementSize(whole.dtype()));
    for (int i = 0; i < axis; ++i) outer *= shape.dim(i);
    for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape.dim(i);
    const auto* from = static_cast<const char*>(whole.raw_data()) + begin * inner;
    auto* to = static_cast<char*>(cut.raw_data());
    const int64_t bytes = shape.dim(axis) * inner;
    if (bytes == 0) return cut;
    for (int64_t i = 0; i < outer; ++i)
      std::copy_n(from + i * whole.dim(axis) * inner, bytes, to + i * bytes);
    return cut;
  }

  io::CheckpointReader& reader_;
  std::map<std::string, std::map<size_t, const NodeDef*>> parts_;  // by variable, by number
  std::string cached_name_;                                        // of the partitioned variable last read
  Tensor cached_;
};

}  // namespace

Status FreezeGraph(const FreezeOptions& options, Session& session, GraphDef* graph) {
  SessionValues values(session, *graph);
  if (!options.initializers.empty()) MR_RETURN_IF_ERROR(session.Run({}, {}, options.initializers, nullptr));
  return Freeze(options, std::ref(values), graph);
}

Status FreezeGraph(const FreezeOptions& options, Env& env, const std::string& checkpoint, GraphDef* graph) {
  if (!options.initializers.empty()) {
    return errors::InvalidArgument("FreezeGraph: initializers need a session");
  }
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<io::CheckpointReader> reader,
                      io::CheckpointReader::Open(env, checkpoint));
  CheckpointValues values(*reader);
  return Freeze(options, std::ref(values), graph);
}

StatusOr<std::vector<std::string>> FrozenVariables(const FreezeOptions& options, const GraphDef& graph) {
  MR_ASSIGN_OR_RETURN(const NodeIndex index, NodeIndex::Make(graph));
  MR_ASSIGN_OR_RETURN(const std::vector<int> roots, index.FindAll(options.outputs));
  const std::vector<bool> needed = NeededBy(roots, index, graph);
  std::vector<std::string> names;
  for (const int variable : VariablesIn(options, graph)) {
    if (needed[static_cast<size_t>(variable)]) names.push_back(graph.node(variable).name());
  }
  return names;
}

}  // namespace millrace
