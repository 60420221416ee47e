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

// What ExportMetaGraph writes and ImportMetaGraph reads, as messages. `proto` is used up.
Status BuildMetaGraphDef(const Scope& scope, const MetaGraph& meta, const ExportMetaGraphOptions& options,
                         tensorflow::MetaGraphDef* proto);
StatusOr<MetaGraph> ImportMetaGraphDef(const Scope& scope, tensorflow::MetaGraphDef* proto,
                                       const ImportMetaGraphOptions& options);

// A name that an input of the file may have, as the importer looks it up: "a:0" for "a", "^a" for a control
// input.
std::string ImportKey(std::string_view name);

// The ops that the nodes and the functions they call use, sorted by name, without documentation.
Status StrippedOpList(const Graph& graph, const tensorflow::GraphDef& def, tensorflow::OpList* list);
// Removes attributes that have their defaults, from functions, too.
void StripDefaultAttrs(const Graph& graph, tensorflow::GraphDef* def);

// "scope/name"; "^scope/name" and "loc:@scope/name" for such. Without a scope or a name: the name.
std::string PrependScope(std::string_view scope, std::string_view name);
// The inverse, for a name that is below the scope.
std::string StripScope(std::string_view scope, std::string_view name);
bool IsBelowScope(std::string_view scope, std::string_view name);

// Puts a scope before the names in a list, if it is one of those whose entries are known to have names.
void PrependScope(std::string_view scope, const std::string& collection, CollectionDef* def);

inline constexpr char kUnboundInputsKey[] = "unbound_inputs";
inline constexpr char kUnboundInputPrefix[] = "$unbound_inputs_";

}  // namespace millrace
