// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "millrace/status.h"
#include "op/attr_value.h"
#include "op/op_def.h"
#include "op/op_registry.h"

namespace tensorflow {
class GraphDef;
class OpList;
}  // namespace tensorflow

// Graphs of other versions of TensorFlow, see docs/graph-files.md.
namespace millrace {

// Gives attributes that an older producer wrote the meaning that they have now. Up to version 21 the shape []
// of a Placeholder meant that nothing is known of it.
void UpgradeAttrs(std::string_view op, int producer, AttrMap* attrs);

// Attributes that TensorFlow gave ops after 1.15 say nothing where they have the value that stands for what
// the op did before. Those are dropped, so that graphs of TensorFlow 2.x are read; others stay, and are
// errors.
bool HasLaterAttrs(std::string_view op);
void DropLaterAttrs(const OpDef& op, AttrMap* attrs);
// Of ops that TensorFlow's optimiser fuses, what only our own passes can promise: that weights stay the same.
void DropOwnAttrs(std::string_view op, AttrMap* attrs);

// Both for a whole graph and its functions, to which it also gives the default attributes that it lacks.
// InvalidArgument when the graph asks for a later consumer, Unimplemented for ops that its version does not
// have any more; both as ImportGraphDef has them, which does all this by itself. Ops and attributes that
// are not known stay as they are.
Status UpgradeGraphDef(const OpLookup& ops, tensorflow::GraphDef* graph);

// Whether this engine may read a graph of those versions, as ImportGraphDef asks.
Status CheckGraphVersions(const tensorflow::GraphDef& graph);
// Unimplemented "Op X is not available in GraphDef version N. It has been removed in version M. …". Before
// that version a warning, once for each op.
Status CheckOpDeprecation(const OpDef& op, int producer);

// An op and an attribute of it.
using OpAttr = std::pair<std::string, std::string>;

// Removes attributes that `consumer` does not know where they have the defaults that `producer` gives them,
// in functions too, so that an older consumer can read the graph; those with other values stay. The
// attributes removed are added to `removed`, unless that is null. InvalidArgument "Attr 'a' missing in
// producer's OpDef" for attributes that neither knows.
Status RemoveNewDefaultAttrs(const tensorflow::OpList& consumer, const tensorflow::OpList& producer,
                             tensorflow::GraphDef* graph, std::set<OpAttr>* removed);

}  // namespace millrace
