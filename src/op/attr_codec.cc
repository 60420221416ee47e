// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "op/attr_codec.h"

#include <algorithm>
#include <utility>

#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace millrace {
namespace {

using Proto = tensorflow::AttrValue;

// The context of decoding other than the message.
struct Scope {
  std::string_view name;         // of the attribute, for messages
  int64_t* tensor_bytes_budget;  // null: only the limit for one tensor holds
  int depth = 0;

  Scope Deeper() const { return {name, tensor_bytes_budget, depth + 1}; }
};

StatusOr<AttrValue> Decode(const Proto& proto, const Scope& scope);

StatusOr<NameAttrList> DecodeFunc(const tensorflow::NameAttrList& proto, const Scope& scope) {
  if (scope.depth >= kMaxAttrNesting) {
    return errors::InvalidArgument("Attr '", scope.name, "': functions are nested deeper than ",
                                   kMaxAttrNesting);
  }
  std::vector<AttrMap::Entry> entries;
  for (const auto& [key, value] : proto.attr()) {
    MR_ASSIGN_OR_RETURN(AttrValue decoded, Decode(value, scope.Deeper()));
    entries.emplace_back(key, std::move(decoded));
  }
  return NameAttrList{proto.name(), std::make_shared<AttrMap>(AttrMap::FromEntries(std::move(entries)))};
}

StatusOr<DataType> DecodeType(int number, const Scope& scope) {
  const auto type = static_cast<DataType>(number);
  if (type == DataType::kInvalid || IsKnownDataType(type)) return type;
  return errors::InvalidArgument("Attr '", scope.name, "': ", number, " is not the number of a data type");
}

StatusOr<PartialShape> DecodeShape(const tensorflow::TensorShapeProto& proto, const Scope& scope) {
  auto shape = PartialShapeFromProto(proto);
  if (!shape.ok()) return shape.status().WithContext(StrCat("; in the shape of attr '", scope.name, "'"));
  return shape;
}

StatusOr<Tensor> DecodeTensor(const tensorflow::TensorProto& proto, const Scope& scope) {
  TensorDecodeOptions options;
  int64_t* budget = scope.tensor_bytes_budget;
  if (budget != nullptr) options.max_bytes = std::min(options.max_bytes, *budget);
  auto tensor = TensorFromProto(proto, options);
  if (!tensor.ok()) return tensor.status().WithContext(StrCat("; in the tensor of attr '", scope.name, "'"));
  if (budget != nullptr) *budget -= static_cast<int64_t>(tensor->num_bytes());
  return tensor;
}

// A list of decoded entries, or the first error.
template <typename T, typename Entries, typename DecodeOne>
StatusOr<AttrValue> DecodeEach(const Entries& entries, DecodeOne decode) {
  std::vector<T> out;
  out.reserve(entries.size());
  for (const auto& entry : entries) {
    MR_ASSIGN_OR_RETURN(T value, decode(entry));
    out.push_back(std::move(value));
  }
  return AttrValue(std::move(out));
}

StatusOr<AttrValue> DecodeList(const Proto::ListValue& list, const Scope& scope) {
  const int kinds = (list.s_size() > 0) + (list.i_size() > 0) + (list.f_size() > 0) + (list.b_size() > 0) +
                    (list.type_size() > 0) + (list.shape_size() > 0) + (list.tensor_size() > 0) +
                    (list.func_size() > 0);
  if (kinds > 1)
    return errors::InvalidArgument("Attr '", scope.name, "' is a list of several kinds of values at once");
  if (list.s_size() > 0) return AttrValue(std::vector<std::string>(list.s().begin(), list.s().end()));
  if (list.i_size() > 0) return AttrValue(std::vector<int64_t>(list.i().begin(), list.i().end()));
  if (list.f_size() > 0) return AttrValue(std::vector<float>(list.f().begin(), list.f().end()));
  if (list.b_size() > 0) return AttrValue(std::vector<bool>(list.b().begin(), list.b().end()));
  if (list.type_size() > 0) {
    return DecodeEach<DataType>(list.type(), [&scope](int number) { return DecodeType(number, scope); });
  }
  if (list.shape_size() > 0) {
    return DecodeEach<PartialShape>(list.shape(),
                                    [&scope](const auto& shape) { return DecodeShape(shape, scope); });
  }
  if (list.tensor_size() > 0) {
    return DecodeEach<Tensor>(list.tensor(),
                              [&scope](const auto& tensor) { return DecodeTensor(tensor, scope); });
  }
  if (list.func_size() > 0) {
    return DecodeEach<NameAttrList>(list.func(),
                                    [&scope](const auto& func) { return DecodeFunc(func, scope); });
  }
  return AttrValue(EmptyList{});
}

StatusOr<AttrValue> Decode(const Proto& proto, const Scope& scope) {
  switch (proto.value_case()) {
    case Proto::kS:
      return AttrValue(proto.s());
    case Proto::kI:
      return AttrValue(static_cast<int64_t>(proto.i()));
    case Proto::kF:
      return AttrValue(proto.f());
    case Proto::kB:
      return AttrValue(proto.b());
    case Proto::kType: {
      MR_ASSIGN_OR_RETURN(const DataType type, DecodeType(proto.type(), scope));
      return AttrValue(type);
    }
    case Proto::kShape: {
      MR_ASSIGN_OR_RETURN(PartialShape shape, DecodeShape(proto.shape(), scope));
      return AttrValue(std::move(shape));
    }
    case Proto::kTensor: {
      MR_ASSIGN_OR_RETURN(Tensor tensor, DecodeTensor(proto.tensor(), scope));
      return AttrValue(std::move(tensor));
    }
    case Proto::kList:
      return DecodeList(proto.list(), scope);
    case Proto::kFunc: {
      MR_ASSIGN_OR_RETURN(NameAttrList func, DecodeFunc(proto.func(), scope));
      return AttrValue(std::move(func));
    }
    case Proto::kPlaceholder:
      return AttrValue(AttrPlaceholder{proto.placeholder()});
    case Proto::VALUE_NOT_SET:
      break;
  }
  return AttrValue();
}

// Writes one value to the field of its kind.
struct Encoder {
  Proto* proto;

  void operator()(std::monostate) const {}
  void operator()(const std::string& v) const { proto->set_s(v); }
  void operator()(int64_t v) const { proto->set_i(v); }
  void operator()(float v) const { proto->set_f(v); }
  void operator()(bool v) const { proto->set_b(v); }
  void operator()(DataType v) const { proto->set_type(static_cast<tensorflow::DataType>(v)); }
  void operator()(const PartialShape& v) const { ShapeToProto(v, proto->mutable_shape()); }
  void operator()(const std::shared_ptr<const Tensor>& v) const {
    TensorToProto(*v, proto->mutable_tensor());
  }
  void operator()(const NameAttrList& v) const { NameAttrListToProto(v, proto->mutable_func()); }
  void operator()(const AttrPlaceholder& v) const { proto->set_placeholder(v.name); }
  void operator()(const EmptyList&) const { proto->mutable_list(); }
  void operator()(const std::vector<std::string>& v) const {
    for (const std::string& e : v) proto->mutable_list()->add_s(e);
  }
  void operator()(const std::vector<int64_t>& v) const {
    proto->mutable_list()->mutable_i()->Add(v.begin(), v.end());
  }
  void operator()(const std::vector<float>& v) const {
    proto->mutable_list()->mutable_f()->Add(v.begin(), v.end());
  }
  void operator()(const std::vector<bool>& v) const {
    proto->mutable_list()->mutable_b()->Add(v.begin(), v.end());
  }
  void operator()(const std::vector<DataType>& v) const {
    for (const DataType e : v) proto->mutable_list()->add_type(static_cast<tensorflow::DataType>(e));
  }
  void operator()(const std::vector<PartialShape>& v) const {
    for (const PartialShape& e : v) ShapeToProto(e, proto->mutable_list()->add_shape());
  }
  void operator()(const std::vector<Tensor>& v) const {
    for (const Tensor& e : v) TensorToProto(e, proto->mutable_list()->add_tensor());
  }
  void operator()(const std::vector<NameAttrList>& v) const {
    for (const NameAttrList& e : v) NameAttrListToProto(e, proto->mutable_list()->add_func());
  }
};

}  // namespace

StatusOr<AttrValue> AttrValueFromProto(const tensorflow::AttrValue& proto, std::string_view attr_name,
                                       int64_t* tensor_bytes_budget) {
  return Decode(proto, {attr_name, tensor_bytes_budget});
}

StatusOr<NameAttrList> NameAttrListFromProto(const tensorflow::NameAttrList& proto,
                                             std::string_view attr_name, int64_t* tensor_bytes_budget) {
  return DecodeFunc(proto, {attr_name, tensor_bytes_budget});
}

StatusOr<AttrMap> AttrMapFromProto(const google::protobuf::Map<std::string, tensorflow::AttrValue>& protos,
                                   int64_t* tensor_bytes_budget) {
  std::vector<AttrMap::Entry> entries;
  entries.reserve(protos.size());
  for (const auto& [name, proto] : protos) {
    MR_ASSIGN_OR_RETURN(AttrValue value, Decode(proto, {name, tensor_bytes_budget}));
    entries.emplace_back(name, std::move(value));
  }
  return AttrMap::FromEntries(std::move(entries));
}

StatusOr<AttrMap> TakeAttrMapFromProto(google::protobuf::Map<std::string, tensorflow::AttrValue>* protos) {
  std::vector<AttrMap::Entry> entries;
  entries.reserve(protos->size());
  for (auto& [name, proto] : *protos) {
    if (proto.value_case() == Proto::kTensor) {
      auto tensor = TakeTensorFromProto(proto.mutable_tensor());
      if (!tensor.ok()) return tensor.status().WithContext(StrCat("; in the tensor of attr '", name, "'"));
      entries.emplace_back(name, *std::move(tensor));
    } else {
      MR_ASSIGN_OR_RETURN(AttrValue value, Decode(proto, {name, nullptr}));
      entries.emplace_back(name, std::move(value));
    }
  }
  return AttrMap::FromEntries(std::move(entries));
}

void AttrValueToProto(const AttrValue& value, tensorflow::AttrValue* proto) {
  proto->Clear();
  std::visit(Encoder{proto}, value.variant());
}

void NameAttrListToProto(const NameAttrList& value, tensorflow::NameAttrList* proto) {
  proto->Clear();
  proto->set_name(value.name);
  if (value.attrs != nullptr) AttrMapToProto(*value.attrs, proto->mutable_attr());
}

void AttrMapToProto(const AttrMap& attrs, google::protobuf::Map<std::string, tensorflow::AttrValue>* protos) {
  protos->clear();
  for (const auto& [name, value] : attrs) AttrValueToProto(value, &(*protos)[name]);
}

}  // namespace millrace
