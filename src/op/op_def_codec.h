// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "op/op_def.h"

namespace tensorflow {
class OpDef;
class OpList;
}  // namespace tensorflow

namespace millrace {

class OpRegistry;

// Decodes without validation: see ValidateOpDef. InvalidArgument for values that can't be represented.
StatusOr<OpDef> OpDefFromProto(const tensorflow::OpDef& proto);
// The proto is overwritten.
void OpDefToProto(const OpDef& op, tensorflow::OpDef* proto);
// Every op of the registry, sorted by name.
void ExportOps(const OpRegistry& registry, tensorflow::OpList* list);

}  // namespace millrace
