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

// Updates attributes of an older producer to their present meaning. Up to version 21 the shape [] of a
// Placeholder meant an unknown shape.
void UpgradeAttrs(std::string_view op, int producer, AttrMap* attrs);

// Attributes that TensorFlow added to ops after 1.15 have no effect if their value stands for the earlier
// behaviour. Those are dropped, so that graphs of TensorFlow 2.x can be read; others stay, and are
// errors.
bool HasLaterAttrs(std::string_view op);
void DropLaterAttrs(const OpDef& op, AttrMap* attrs);
// Removes from ops that TensorFlow's optimiser fused the promise, reserved to our passes, that weights stay.
void DropOwnAttrs(std::string_view op, AttrMap* attrs);

// Both for a whole graph and its functions, to which it also adds missing default attributes.
// InvalidArgument when the graph requires a later consumer, Unimplemented for ops removed before
// its version; both as in ImportGraphDef, which does all this itself. Unknown ops and attributes
// stay.
Status UpgradeGraphDef(const OpLookup& ops, tensorflow::GraphDef* graph);

// Whether this engine may read a graph of those versions, as checked by ImportGraphDef.
Status CheckGraphVersions(const tensorflow::GraphDef& graph);
// Unimplemented "Op X is not available in GraphDef version N. It has been removed in version M. …". Before
// that version a warning, once for each op.
Status CheckOpDeprecation(const OpDef& op, int producer);

// An op and an attribute of it.
using OpAttr = std::pair<std::string, std::string>;

// Removes attributes unknown to `consumer` whose values are the defaults of `producer`, in functions too, so
// that an older consumer can read the graph; those with other values stay. The removed attributes are added
// to `removed`, unless that is null. InvalidArgument "Attr 'a' missing in producer's OpDef" for attributes
// unknown to both.
Status RemoveNewDefaultAttrs(const tensorflow::OpList& consumer, const tensorflow::OpList& producer,
                             tensorflow::GraphDef* graph, std::set<OpAttr>* removed);

}  // namespace millrace
