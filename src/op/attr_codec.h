// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "op/attr_value.h"

namespace google::protobuf {
template <typename Key, typename T>
class Map;
}  // namespace google::protobuf
namespace tensorflow {
class AttrValue;
class NameAttrList;
}  // namespace tensorflow

namespace millrace {

// Functions within functions deeper than this are refused.
inline constexpr int kMaxAttrNesting = 64;

// A proto without a value gives an unset AttrValue. InvalidArgument, naming `attr_name`, for a list of
// several kinds, a malformed tensor or shape, a number that is not a type, and nesting beyond
// kMaxAttrNesting. A tensor's few encoded bytes can claim gigabytes: a caller that decodes many passes a
// budget, from which the size of each tensor is subtracted.
StatusOr<AttrValue> AttrValueFromProto(const tensorflow::AttrValue& proto, std::string_view attr_name,
                                       int64_t* tensor_bytes_budget = nullptr);
StatusOr<NameAttrList> NameAttrListFromProto(const tensorflow::NameAttrList& proto,
                                             std::string_view attr_name,
                                             int64_t* tensor_bytes_budget = nullptr);
StatusOr<AttrMap> AttrMapFromProto(const google::protobuf::Map<std::string, tensorflow::AttrValue>& protos,
                                   int64_t* tensor_bytes_budget = nullptr);

// The same for attributes that are no longer needed: their tensors take over the messages' memory.
StatusOr<AttrMap> TakeAttrMapFromProto(google::protobuf::Map<std::string, tensorflow::AttrValue>* protos);

// The inverses. The proto is overwritten.
void AttrValueToProto(const AttrValue& value, tensorflow::AttrValue* proto);
void NameAttrListToProto(const NameAttrList& value, tensorflow::NameAttrList* proto);
void AttrMapToProto(const AttrMap& attrs, google::protobuf::Map<std::string, tensorflow::AttrValue>* protos);

}  // namespace millrace
