// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "millrace/dtype.h"
#include "millrace/status.h"
#include "op/op_def.h"

namespace tensorflow {
class AttrValue;
class NodeDef;
}  // namespace tensorflow

namespace millrace {

// [A-Za-z0-9.][A-Za-z0-9_.\\/-]*; with `internal` also with a '_' at the start.
bool IsValidNodeName(std::string_view name, bool internal);
// For messages: "{{node b}} = Identity[T=DT_FLOAT, _device=\"/cpu:0\"](a, ^c)"; long lists are truncated.
std::string SummarizeNodeDef(const tensorflow::NodeDef& def);
// "{{node b}}", as TensorFlow marks nodes in its messages.
std::string NodeTag(std::string_view name);
// The error of ValidateAttrs or NodeProps::Make for a node, with the node's name where TensorFlow puts it.
Status WithNodeName(const Status& status, const OpDef& op, std::string_view node);
// "float, int32".
std::string DataTypesText(std::span<const DataType> types);
// The memory of the tensors in `value` according to their shapes; INT64_MAX / 4 if that is out of
// bounds.
int64_t DeclaredTensorBytes(const tensorflow::AttrValue& value);

}  // namespace millrace
