// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "c/internal.h"
#include "graph/graph_import.h"
#include "op/op_def_codec.h"
#include "op/op_registry.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/op_def.pb.h"
#include "tensorflow/core/framework/versions.pb.h"

namespace millrace::c_api {
namespace {

// The version of graphs that TensorFlow 1.15 produces.
constexpr int kProducerVersion = 134;

// Why two shapes are incompatible. REQUIRES: they are.
Status MergeError(const PartialShape& a, const PartialShape& b) {
  if (a.rank() != b.rank()) {
    return errors::InvalidArgument("Shapes must be equal rank, but are ", a.rank(), " and ", b.rank());
  }
  int i = 0;
  while (i + 1 < a.rank() && (a.dim(i) == b.dim(i) || a.dim(i) < 0 || b.dim(i) < 0)) ++i;
  return errors::InvalidArgument("Dimension ", i, " in both shapes must be equal, but are ", a.dim(i),
                                 " and ", b.dim(i), ". Shapes are ", a, " and ", b, ".");
}

// Whether a node has this name or one that continues with a '/' after it.
bool IsTaken(const Graph& graph, std::string_view name) {
  if (graph.FindNode(name) != nullptr) return true;
  for (int id = 2; id < graph.num_node_ids(); ++id) {
    const Node* node = graph.node(id);
    if (node != nullptr && node->name().size() > name.size() && node->name()[name.size()] == '/' &&
        node->name().starts_with(name)) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string UniqueScope(const Graph& graph, const std::string& name) {
  std::string unique = name;
  for (int i = 1; IsTaken(graph, unique); ++i) unique = StrCat(name, "_", i);
  return unique;
}

Status CheckOutput(const Graph* graph, const TF_Output& output) {
  if (output.oper == nullptr) return NullArgument("The operation of a tensor");
  const Node& node = *NodeOf(output.oper);
  if (graph != nullptr && &node.graph() != graph) {
    return errors::InvalidArgument("Node ", node.name(), " was not found in the graph");
  }
  if (output.index < 0 || output.index >= node.num_outputs()) {
    return errors::InvalidArgument("output_port '", output.index, "' is out of range, node '", node.name(),
                                   "' has ", node.num_outputs(), " outputs");
  }
  return Status();
}

void Hold(TF_Graph* graph) {
  if (graph == nullptr) return;
  MutexLock lock(graph->mu);
  ++graph->num_users;
}

void Release(TF_Graph* graph) {
  if (graph == nullptr) return;
  bool unused = false;
  {
    MutexLock lock(graph->mu);
    unused = --graph->num_users == 0 && graph->delete_requested;
  }
  if (unused) delete graph;
}

}  // namespace millrace::c_api

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library
using millrace::MutexLock;
using millrace::Node;
using millrace::PartialShape;
using millrace::Status;
namespace errors = millrace::errors;

const char* TF_Version(void) { return "1.15.5"; }

TF_Graph* TF_NewGraph(void) {
  return EnterOr<TF_Graph*>(nullptr, [] {
    auto graph = std::make_unique<TF_Graph>(millrace::OpRegistry::Global());
    MutexLock lock(graph->mu);
    graph->graph.set_versions({.producer = kProducerVersion, .min_consumer = 0, .bad_consumers = {}});
    return graph.release();
  });
}

void TF_DeleteGraph(TF_Graph* graph) {
  if (graph == nullptr) return;
  bool unused = false;
  {
    MutexLock lock(graph->mu);
    graph->delete_requested = true;
    unused = graph->num_users == 0;
  }
  if (unused) delete graph;
}

void TF_GraphSetTensorShape(TF_Graph* graph, TF_Output output, const int64_t* dims, const int num_dims,
                            TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (graph == nullptr) return NullArgument("The graph");
    MR_ASSIGN_OR_RETURN(const PartialShape shape, MakeShape(dims, num_dims));
    MutexLock lock(graph->mu);
    MR_RETURN_IF_ERROR(CheckOutput(&graph->graph, output));
    const Node& node = *NodeOf(output.oper);
    const PartialShape known = graph->refiner.OutputShape(node, output.index);
    if (!known.MergeWith(shape).ok()) return MergeError(known, shape);
    return graph->refiner.MergeOutput(node, output.index, shape);
  });
}

int TF_GraphGetTensorNumDims(TF_Graph* graph, TF_Output output, TF_Status* status) {
  int rank = -1;
  Enter(status, [&]() -> Status {
    if (graph == nullptr) return NullArgument("The graph");
    MutexLock lock(graph->mu);
    MR_RETURN_IF_ERROR(CheckOutput(&graph->graph, output));
    rank = graph->refiner.OutputShape(*NodeOf(output.oper), output.index).rank();
    return Status();
  });
  return rank;
}

void TF_GraphGetTensorShape(TF_Graph* graph, TF_Output output, int64_t* dims, int num_dims,
                            TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (graph == nullptr) return NullArgument("The graph");
    MutexLock lock(graph->mu);
    MR_RETURN_IF_ERROR(CheckOutput(&graph->graph, output));
    const PartialShape shape = graph->refiner.OutputShape(*NodeOf(output.oper), output.index);
    if (num_dims != shape.rank()) {
      return errors::InvalidArgument("Expected rank is ", num_dims, " but actual rank is ", shape.rank());
    }
    if (num_dims > 0 && dims == nullptr) return NullArgument("The array of dimensions");
    for (int i = 0; i < num_dims; ++i) dims[i] = shape.dim(i);
    return Status();
  });
}

TF_Operation* TF_GraphOperationByName(TF_Graph* graph, const char* oper_name) {
  if (graph == nullptr || oper_name == nullptr) return nullptr;
  MutexLock lock(graph->mu);
  Node* node = graph->graph.FindNode(oper_name);
  return node == nullptr || !node->IsOp() ? nullptr : OperationOf(node);
}

TF_Operation* TF_GraphNextOperation(TF_Graph* graph, size_t* pos) {
  if (graph == nullptr || pos == nullptr) return nullptr;
  if (*pos < SIZE_MAX) *pos = std::max<size_t>(*pos + 1, 2);  // _SOURCE and _SINK come first
  MutexLock lock(graph->mu);
  for (; *pos < static_cast<size_t>(graph->graph.num_node_ids()); ++*pos) {
    if (Node* node = graph->graph.node(static_cast<int>(*pos)); node != nullptr) return OperationOf(node);
  }
  return nullptr;
}

void TF_GraphToGraphDef(TF_Graph* graph, TF_Buffer* output_graph_def, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (graph == nullptr) return NullArgument("The graph");
    tensorflow::GraphDef def;
    {
      MutexLock lock(graph->mu);
      millrace::ExportGraphDef(graph->graph, &def);
    }
    return ToBuffer(def, output_graph_def);
  });
}

void TF_GraphGetOpDef(TF_Graph* graph, const char* op_name, TF_Buffer* output_op_def, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (graph == nullptr || op_name == nullptr) return NullArgument("The graph or the name");
    tensorflow::OpDef def;
    {
      MutexLock lock(graph->mu);
      MR_ASSIGN_OR_RETURN(const millrace::OpRegistration* op, graph->graph.LookUpOp(op_name));
      millrace::OpDefToProto(op->def, &def);
    }
    return ToBuffer(def, output_op_def);
  });
}

void TF_GraphVersions(TF_Graph* graph, TF_Buffer* output_version_def, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (graph == nullptr) return NullArgument("The graph");
    tensorflow::VersionDef def;
    {
      MutexLock lock(graph->mu);
      const millrace::GraphVersions& versions = graph->graph.versions();
      def.set_producer(versions.producer);
      def.set_min_consumer(versions.min_consumer);
      for (const int bad : versions.bad_consumers) def.add_bad_consumers(bad);
    }
    return ToBuffer(def, output_version_def);
  });
}
