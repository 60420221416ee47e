// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "millrace/meta_graph.h"

namespace tensorflow {
class GraphDef;
class MetaGraphDef;
class OpList;
}  // namespace tensorflow
namespace google::protobuf {
class Message;
}

namespace millrace {

class Graph;

// The messages of ExportMetaGraph and ImportMetaGraph. `proto` is consumed.
Status BuildMetaGraphDef(const Scope& scope, const MetaGraph& meta, const ExportMetaGraphOptions& options,
                         tensorflow::MetaGraphDef* proto);
StatusOr<MetaGraph> ImportMetaGraphDef(const Scope& scope, tensorflow::MetaGraphDef* proto,
                                       const ImportMetaGraphOptions& options);

// The name of an input of the file in the form that the importer looks up: "a:0" for "a", "^a" for a control
// input.
std::string ImportKey(std::string_view name);

// The ops that the nodes and the functions they call use, sorted by name, without documentation.
Status StrippedOpList(const Graph& graph, const tensorflow::GraphDef& def, tensorflow::OpList* list);
// Removes attributes that have their defaults, from functions, too.
void StripDefaultAttrs(const Graph& graph, tensorflow::GraphDef* def);

// "scope/name"; "^scope/name" and "loc:@scope/name" for such names. Without a scope or a name: the name.
std::string PrependScope(std::string_view scope, std::string_view name);
// The inverse, for a name that is below the scope.
std::string StripScope(std::string_view scope, std::string_view name);
bool IsBelowScope(std::string_view scope, std::string_view name);

// Adds a scope to the names in a list, if its entries are known to be names.
void PrependScope(std::string_view scope, const std::string& collection, CollectionDef* def);

inline constexpr char kUnboundInputsKey[] = "unbound_inputs";
inline constexpr char kUnboundInputPrefix[] = "$unbound_inputs_";

}  // namespace millrace
