// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/output.h"
#include "millrace/scope.h"
#include "millrace/session.h"
#include "millrace/status.h"

// Graphs in TensorFlow's GraphDef form, without TensorFlow's message classes: from files, from bytes, and to
// bytes. A GraphDef may be in protobuf's binary form or in its text form. Graphs from outside may contain
// anything; errors in them are returned as a Status.
namespace millrace {

struct ImportGraphDefOptions {
  std::string prefix = {};      // prepended to the name of every node, with a '/'; "": the path of the scope
  bool uniquify_names = false;  // a name that is taken gets a suffix; otherwise AlreadyExists
  bool validate_shapes =
      true;  // refuse what shape inference refuses; false: it fails at run time, as in a session
  bool clear_devices = false;       // remove the requested devices of nodes
  std::string default_device = {};  // for nodes that request none
  // "name:output" of the GraphDef, or "^name" for a control input -> a tensor of the scope's graph to use
  // instead.
  std::map<std::string, Output> input_map = {};
  std::vector<Operation> control_dependencies = {};  // of every imported node that has no imported inputs
  // Tensors "name:output" and nodes of the GraphDef to look up; NotFound when one is missing.
  std::vector<std::string> return_outputs = {};
  std::vector<std::string> return_operations = {};
};

// The results for return_outputs and return_operations, in that order.
struct ImportGraphDefResults {
  std::vector<Output> outputs;
  std::vector<Operation> operations;
};

// Adds the nodes and functions of a GraphDef to the graph of a scope. On error the graph is not changed; the
// status of the scope does not change.
StatusOr<ImportGraphDefResults> ImportGraphDef(const Scope& scope, std::string_view graph_def,
                                               const ImportGraphDefOptions& options = {});
// The same from a file.
StatusOr<ImportGraphDefResults> LoadGraph(const Scope& scope, const std::string& filename,
                                          const ImportGraphDefOptions& options = {});

// The tensor "name:output" or "name" of a graph; NotFound if there is none.
StatusOr<Output> FindOutput(const Scope& scope, const std::string& name);
// The node of that name; NotFound if there is none.
StatusOr<Operation> FindOperation(const Scope& scope, const std::string& name);

// The graph of a scope as a binary GraphDef; equal bytes for equal graphs. InvalidArgument above 2 GiB.
StatusOr<std::string> SerializeGraphDef(const Scope& scope);
// Writes it to a file, which is replaced atomically.
Status SaveGraph(const Scope& scope, const std::string& filename);

// Sets the graph of a session (Session::Create), or adds nodes (Session::Extend), from a serialised GraphDef.
Status CreateSessionGraph(Session& session, std::string_view graph_def);
Status ExtendSessionGraph(Session& session, std::string_view graph_def);
// A session with the graph of a file.
StatusOr<std::unique_ptr<Session>> LoadSession(const std::string& filename,
                                               const SessionOptions& options = {});

}  // namespace millrace
