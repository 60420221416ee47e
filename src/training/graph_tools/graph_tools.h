// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/env.h"
#include "millrace/dtype.h"
#include "millrace/session.h"
#include "millrace/status.h"

namespace tensorflow {
class GraphDef;
}  // namespace tensorflow

// Rewrites of graphs that are kept in files, from training to inference. They work on GraphDefs, whatever ops
// those name, and change them in place, since most of their bytes are constants. Names may be those of nodes
// ("a") or tensors ("a:0"). After an error a graph is of no use. InvalidArgument "a is not in graph" for
// names that it lacks. See docs/graph-files.md.
namespace millrace {

// Keeps the nodes that `names` need, in their order.
Status ExtractSubGraph(const std::vector<std::string>& names, tensorflow::GraphDef* graph);

struct FreezeOptions {
  std::vector<std::string> outputs = {};       // kept, with all nodes that they need; at least one
  std::set<std::string> only_variables = {};   // unless empty: no others become constants
  std::set<std::string> keep_variables = {};   // these stay variables
  std::vector<std::string> initializers = {};  // run in the session before variables are read
  bool clear_devices = false;
};

// Variables become constants, with the values that they have in `session`, whose graph has them. Reads of
// resource variables become identities, gathers from them gathers from constants; ops on references lose the
// reference. InvalidArgument for a node that needs the variable itself. When the graph does not read a
// resource variable, a node that does is added to the session.
Status FreezeGraph(const FreezeOptions& options, Session& session, tensorflow::GraphDef* graph);
// With the values in a checkpoint of either format: those of the variables' names or shared names; the parts
// "v/part_0", "v/part_1"… of a partitioned variable from the slices of "v".
Status FreezeGraph(const FreezeOptions& options, Env& env, const std::string& checkpoint,
                   tensorflow::GraphDef* graph);
// The names of the variables that FreezeGraph would read, in the order of the nodes.
StatusOr<std::vector<std::string>> FrozenVariables(const FreezeOptions& options,
                                                   const tensorflow::GraphDef& graph);

struct StripOptions {
  std::vector<std::string> inputs = {};  // become placeholders
  std::vector<std::string> outputs = {};
  // Of the placeholders: one for each input or one for all; none: the types that the nodes have.
  std::vector<DataType> input_types = {};
};

// Replaces inputs by placeholders and drops what outputs do not need then.
Status StripUnused(const StripOptions& options, tensorflow::GraphDef* graph);

// Drops checks of numbers, and identities that nothing waits for and that wait for nothing. Nodes in
// `protect` stay.
Status RemoveTrainingNodes(const std::set<std::string>& protect, tensorflow::GraphDef* graph);

// Drops all nodes of these ops that have one data input and no control edge: consumers of their first output
// get the input instead.
Status RemoveNodes(const std::set<std::string>& ops, const std::set<std::string>& protect,
                   tensorflow::GraphDef* graph);

struct FoldConstantsOptions {
  std::vector<std::string> outputs = {};         // kept, under their names
  int64_t max_result_bytes = int64_t{10} << 20;  // larger results are left to be computed
};

// Computes what depends on constants only, by a session of its own.
Status FoldConstants(const FoldConstantsOptions& options, tensorflow::GraphDef* graph);

// Scales weights instead of results: FusedBatchNorm (V1 to V3, for inference), BatchNormWithGlobal-
// Normalization and products with constants, where they follow Conv2D, DepthwiseConv2dNative or MatMul with
// constant weights, perhaps with a bias between. What remains of a batch norm is a BiasAdd under its name. A
// product whose intermediate results have other readers is left alone. Keeps what `outputs` need.
Status FoldBatchNorms(const std::vector<std::string>& outputs, tensorflow::GraphDef* graph);

// StripUnused, RemoveTrainingNodes, FoldConstants and FoldBatchNorms, one after the other.
Status OptimizeForInference(const StripOptions& options, tensorflow::GraphDef* graph);

struct MemmappedOptions {
  int64_t min_bytes = 10000;  // smaller constants stay in the graph
};

// Writes a package of constants that can be mapped into memory (io/memmapped_package.h) and the graph, in
// which ImmutableConst has taken the place of Const.
Status WriteMemmappedPackage(const MemmappedOptions& options, Env& env, const std::string& path,
                             tensorflow::GraphDef* graph);
// The graph of a package, made so that any session of this process finds the constants in the package, which
// has to stay where it is.
Status LoadMemmappedGraph(Env& env, const std::string& path, tensorflow::GraphDef* graph);
// Makes the constants of a graph that are in files (ImmutableConst) constants of the graph again. Those
// without a whole shape stay.
Status RestoreMappedConstants(Env& env, tensorflow::GraphDef* graph);

}  // namespace millrace
