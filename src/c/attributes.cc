// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reading the attributes of operations. Error texts are TensorFlow's.
#include <algorithm>
#include <cstring>
#include <optional>

#include "c/internal.h"
#include "op/attr_codec.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/tensor_shape.pb.h"

namespace millrace::c_api {
namespace {

template <typename T>
constexpr std::optional<TF_AttrType> kKindOf = std::nullopt;
template <>
constexpr std::optional<TF_AttrType> kKindOf<std::string> = TF_ATTR_STRING;
template <>
constexpr std::optional<TF_AttrType> kKindOf<int64_t> = TF_ATTR_INT;
template <>
constexpr std::optional<TF_AttrType> kKindOf<float> = TF_ATTR_FLOAT;
template <>
constexpr std::optional<TF_AttrType> kKindOf<bool> = TF_ATTR_BOOL;
template <>
constexpr std::optional<TF_AttrType> kKindOf<DataType> = TF_ATTR_TYPE;
template <>
constexpr std::optional<TF_AttrType> kKindOf<PartialShape> = TF_ATTR_SHAPE;
template <>
constexpr std::optional<TF_AttrType> kKindOf<std::shared_ptr<const Tensor>> = TF_ATTR_TENSOR;
template <>
constexpr std::optional<TF_AttrType> kKindOf<Tensor> = TF_ATTR_TENSOR;
template <>
constexpr std::optional<TF_AttrType> kKindOf<NameAttrList> = TF_ATTR_FUNC;
template <>
constexpr std::optional<TF_AttrType> kKindOf<AttrPlaceholder> = TF_ATTR_PLACEHOLDER;

int64_t SizeOf(const std::string& value) { return static_cast<int64_t>(value.size()); }
int64_t SizeOf(const PartialShape& value) { return value.rank(); }

// The metadata of one value.
template <typename T>
bool Describe(const T& value, TF_AttrMetadata* metadata) {
  if constexpr (kKindOf<T>.has_value()) {
    *metadata = {0, -1, *kKindOf<T>, -1};
    if constexpr (requires { SizeOf(value); }) metadata->total_size = SizeOf(value);
    return true;
  }
  return false;
}

template <typename T>
bool Describe(const std::vector<T>& list, TF_AttrMetadata* metadata) {
  *metadata = {1, static_cast<int64_t>(list.size()), *kKindOf<T>, -1};
  if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, PartialShape>) {
    metadata->total_size = 0;
    for (const T& value : list) metadata->total_size += std::max<int64_t>(0, SizeOf(value));
  }
  return true;
}

// The element kind of an empty list is the one that the op declares.
TF_AttrMetadata DescribeEmptyList(const OpDef& op, const char* name) {
  TF_AttrMetadata metadata = {1, 0, TF_ATTR_STRING, -1};
  const AttrDef* attr = op.FindAttr(name);
  const std::string_view type = attr == nullptr ? std::string_view() : std::string_view(attr->type);
  const std::pair<std::string_view, TF_AttrType> kinds[] = {
      {"list(string)", TF_ATTR_STRING}, {"list(int)", TF_ATTR_INT},   {"list(float)", TF_ATTR_FLOAT},
      {"list(bool)", TF_ATTR_BOOL},     {"list(type)", TF_ATTR_TYPE}, {"list(shape)", TF_ATTR_SHAPE},
      {"list(tensor)", TF_ATTR_TENSOR}, {"list(func)", TF_ATTR_FUNC}};
  for (const auto& [text, kind] : kinds) {
    if (type == text) metadata.type = kind;
  }
  if (metadata.type == TF_ATTR_STRING || metadata.type == TF_ATTR_SHAPE) metadata.total_size = 0;
  return metadata;
}

// The list of a getter; null stands for an empty one.
template <typename T>
StatusOr<const std::vector<T>*> FindList(TF_Operation* op, const char* name) {
  MR_ASSIGN_OR_RETURN(const AttrValue* value, FindAttr(op, name));
  if (!value->IsList()) return errors::InvalidArgument("Value for '", name, "' is not a list.");
  if (value->As<EmptyList>() != nullptr) return static_cast<const std::vector<T>*>(nullptr);
  const auto* list = value->As<std::vector<T>>();
  if (list == nullptr) {
    return errors::InvalidArgument("Value for '", name, "' is ", value->TypeName(),
                                   ", a list of another type");
  }
  return list;
}

template <typename T>
StatusOr<const T*> FindSingle(TF_Operation* op, const char* name, const char* wanted) {
  MR_ASSIGN_OR_RETURN(const AttrValue* value, FindAttr(op, name));
  const T* single = value->As<T>();
  if (single != nullptr) return single;
  return errors::InvalidArgument("AttrValue had value with type '", value->TypeName(), "' when '", wanted,
                                 "' expected\n\t for attr '", name, "'\n\t; NodeDef: {{node ",
                                 NodeOf(op)->name(), "}}");
}

// One value of a plain kind.
template <typename T, typename Out>
void GetSingle(TF_Operation* op, const char* name, const char* wanted, Out* out, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (out == nullptr) return NullArgument("The value");
    MR_ASSIGN_OR_RETURN(const T* value, FindSingle<T>(op, name, wanted));
    *out = static_cast<Out>(*value);
    return Status();
  });
}

// As many values of a list as there is room for.
template <typename T, typename Out>
void GetList(TF_Operation* op, const char* name, Out* values, int max_values, TF_Status* status) {
  Enter(status, [&]() -> Status {
    MR_ASSIGN_OR_RETURN(const std::vector<T>* list, FindList<T>(op, name));
    if (list == nullptr || max_values <= 0) return Status();
    if (values == nullptr) return NullArgument("The array of values");
    const size_t count = std::min(list->size(), static_cast<size_t>(max_values));
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<Out>((*list)[i]);
    return Status();
  });
}

}  // namespace

StatusOr<const AttrValue*> FindAttr(TF_Operation* op, const char* name) {
  if (op == nullptr || name == nullptr) return NullArgument("The operation or the name");
  const AttrValue* value = NodeOf(op)->attrs().Find(name);
  if (value == nullptr) {
    return errors::InvalidArgument("Operation '", NodeOf(op)->name(), "' has no attr named '", name, "'.");
  }
  return value;
}

}  // namespace millrace::c_api

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library
using millrace::AttrValue;
using millrace::DataType;
using millrace::PartialShape;
using millrace::Status;
namespace errors = millrace::errors;

TF_AttrMetadata TF_OperationGetAttrMetadata(TF_Operation* oper, const char* attr_name, TF_Status* status) {
  TF_AttrMetadata metadata = {0, -1, TF_ATTR_STRING, -1};
  Enter(status, [&]() -> Status {
    MR_ASSIGN_OR_RETURN(const AttrValue* value, FindAttr(oper, attr_name));
    if (value->As<millrace::EmptyList>() != nullptr) {
      metadata = DescribeEmptyList(NodeOf(oper)->op_def(), attr_name);
      return Status();
    }
    const bool set = std::visit([&](const auto& v) { return Describe(v, &metadata); }, value->variant());
    if (!set) return errors::InvalidArgument("Attribute '", attr_name, "' has no value set");
    return Status();
  });
  return metadata;
}

void TF_OperationGetAttrString(TF_Operation* oper, const char* attr_name, void* value, size_t max_length,
                               TF_Status* status) {
  Enter(status, [&]() -> Status {
    MR_ASSIGN_OR_RETURN(const AttrValue* attr, FindAttr(oper, attr_name));
    const auto* text = attr->As<std::string>();
    if (text == nullptr) return errors::InvalidArgument("Attribute '", attr_name, "' is not a string");
    if (max_length == 0 || text->empty()) return Status();
    if (value == nullptr) return NullArgument("The value");
    std::memcpy(value, text->data(), std::min(text->size(), max_length));
    return Status();
  });
}

void TF_OperationGetAttrStringList(TF_Operation* oper, const char* attr_name, void** values, size_t* lengths,
                                   int max_values, void* storage, size_t storage_size, TF_Status* status) {
  Enter(status, [&]() -> Status {
    MR_ASSIGN_OR_RETURN(const std::vector<std::string>* list, FindList<std::string>(oper, attr_name));
    if (list == nullptr || max_values <= 0) return Status();
    if (values == nullptr || lengths == nullptr) return NullArgument("The array of values");
    char* next = static_cast<char*>(storage);
    size_t left = storage == nullptr ? 0 : storage_size;
    const size_t count = std::min(list->size(), static_cast<size_t>(max_values));
    for (size_t i = 0; i < count; ++i) {
      const std::string& text = (*list)[i];
      if (text.size() > left) {
        return errors::InvalidArgument("Not enough storage to hold the requested list of strings");
      }
      if (!text.empty()) std::memcpy(next, text.data(), text.size());
      values[i] = next;
      lengths[i] = text.size();
      next += text.size();
      left -= text.size();
    }
    return Status();
  });
}

void TF_OperationGetAttrInt(TF_Operation* oper, const char* attr_name, int64_t* value, TF_Status* status) {
  GetSingle<int64_t>(oper, attr_name, "int", value, status);
}

void TF_OperationGetAttrIntList(TF_Operation* oper, const char* attr_name, int64_t* values, int max_values,
                                TF_Status* status) {
  GetList<int64_t>(oper, attr_name, values, max_values, status);
}

void TF_OperationGetAttrFloat(TF_Operation* oper, const char* attr_name, float* value, TF_Status* status) {
  GetSingle<float>(oper, attr_name, "float", value, status);
}

void TF_OperationGetAttrFloatList(TF_Operation* oper, const char* attr_name, float* values, int max_values,
                                  TF_Status* status) {
  GetList<float>(oper, attr_name, values, max_values, status);
}

void TF_OperationGetAttrBool(TF_Operation* oper, const char* attr_name, unsigned char* value,
                             TF_Status* status) {
  GetSingle<bool>(oper, attr_name, "bool", value, status);
}

void TF_OperationGetAttrBoolList(TF_Operation* oper, const char* attr_name, unsigned char* values,
                                 int max_values, TF_Status* status) {
  GetList<bool>(oper, attr_name, values, max_values, status);
}

void TF_OperationGetAttrType(TF_Operation* oper, const char* attr_name, TF_DataType* value,
                             TF_Status* status) {
  GetSingle<DataType>(oper, attr_name, "type", value, status);
}

void TF_OperationGetAttrTypeList(TF_Operation* oper, const char* attr_name, TF_DataType* values,
                                 int max_values, TF_Status* status) {
  GetList<DataType>(oper, attr_name, values, max_values, status);
}

void TF_OperationGetAttrShape(TF_Operation* oper, const char* attr_name, int64_t* value, int num_dims,
                              TF_Status* status) {
  Enter(status, [&]() -> Status {
    MR_ASSIGN_OR_RETURN(const PartialShape* shape, FindSingle<PartialShape>(oper, attr_name, "shape"));
    const int count = std::min(shape->rank(), num_dims);
    if (count > 0 && value == nullptr) return NullArgument("The array of dimensions");
    for (int i = 0; i < count; ++i) value[i] = shape->dim(i);
    return Status();
  });
}

void TF_OperationGetAttrShapeList(TF_Operation* oper, const char* attr_name, int64_t** dims, int* num_dims,
                                  int num_shapes, int64_t* storage, int storage_size, TF_Status* status) {
  Enter(status, [&]() -> Status {
    MR_ASSIGN_OR_RETURN(const std::vector<PartialShape>* list, FindList<PartialShape>(oper, attr_name));
    if (list == nullptr || num_shapes <= 0) return Status();
    if (dims == nullptr || num_dims == nullptr) return NullArgument("The array of shapes");
    int left = storage == nullptr ? 0 : storage_size;
    const size_t count = std::min(list->size(), static_cast<size_t>(num_shapes));
    for (size_t i = 0; i < count; ++i) {
      const PartialShape& shape = (*list)[i];
      num_dims[i] = shape.rank();
      dims[i] = storage;
      if (shape.rank() > left) {
        return errors::InvalidArgument("Not enough storage to hold the requested list of shapes");
      }
      for (int d = 0; d < shape.rank(); ++d) *storage++ = shape.dim(d);
      left -= std::max(0, shape.rank());
    }
    return Status();
  });
}

void TF_OperationGetAttrTensorShapeProto(TF_Operation* oper, const char* attr_name, TF_Buffer* value,
                                         TF_Status* status) {
  Enter(status, [&]() -> Status {
    MR_ASSIGN_OR_RETURN(const AttrValue* attr, FindAttr(oper, attr_name));
    const auto* shape = attr->As<PartialShape>();
    if (shape == nullptr) return errors::InvalidArgument("Value for '", attr_name, "' is not a shape.");
    tensorflow::TensorShapeProto proto;
    millrace::ShapeToProto(*shape, &proto);
    return ToBuffer(proto, value);
  });
}

void TF_OperationGetAttrTensorShapeProtoList(TF_Operation* oper, const char* attr_name, TF_Buffer** values,
                                             int max_values, TF_Status* status) {
  std::vector<TF_Buffer*> buffers;
  const bool ok = Enter(status, [&]() -> Status {
    MR_ASSIGN_OR_RETURN(const std::vector<PartialShape>* list, FindList<PartialShape>(oper, attr_name));
    if (list == nullptr || max_values <= 0) return Status();
    if (values == nullptr) return NullArgument("The array of values");
    const size_t count = std::min(list->size(), static_cast<size_t>(max_values));
    for (size_t i = 0; i < count; ++i) {
      tensorflow::TensorShapeProto proto;
      millrace::ShapeToProto((*list)[i], &proto);
      buffers.push_back(TF_NewBuffer());
      MR_RETURN_IF_ERROR(ToBuffer(proto, buffers.back()));
    }
    std::copy(buffers.begin(), buffers.end(), values);
    return Status();
  });
  if (!ok) std::for_each(buffers.begin(), buffers.end(), TF_DeleteBuffer);
}

void TF_OperationGetAttrTensor(TF_Operation* oper, const char* attr_name, TF_Tensor** value,
                               TF_Status* status) {
  if (value != nullptr) *value = nullptr;
  Enter(status, [&]() -> Status {
    if (value == nullptr) return NullArgument("The value");
    using TensorPtr = std::shared_ptr<const millrace::Tensor>;
    MR_ASSIGN_OR_RETURN(const TensorPtr* tensor, FindSingle<TensorPtr>(oper, attr_name, "tensor"));
    MR_ASSIGN_OR_RETURN(*value, FromTensor((*tensor)->DeepCopy()));
    return Status();
  });
}

void TF_OperationGetAttrTensorList(TF_Operation* oper, const char* attr_name, TF_Tensor** values,
                                   int max_values, TF_Status* status) {
  std::vector<TF_Tensor*> tensors;
  const bool ok = Enter(status, [&]() -> Status {
    MR_ASSIGN_OR_RETURN(const std::vector<millrace::Tensor>* list,
                        FindList<millrace::Tensor>(oper, attr_name));
    if (list == nullptr || max_values <= 0) return Status();
    if (values == nullptr) return NullArgument("The array of values");
    const size_t count = std::min(list->size(), static_cast<size_t>(max_values));
    for (size_t i = 0; i < count; ++i) {
      MR_ASSIGN_OR_RETURN(TF_Tensor * tensor, FromTensor((*list)[i].DeepCopy()));
      tensors.push_back(tensor);
    }
    std::copy(tensors.begin(), tensors.end(), values);
    return Status();
  });
  if (!ok) std::for_each(tensors.begin(), tensors.end(), TF_DeleteTensor);
}

void TF_OperationGetAttrValueProto(TF_Operation* oper, const char* attr_name, TF_Buffer* output_attr_value,
                                   TF_Status* status) {
  Enter(status, [&]() -> Status {
    MR_ASSIGN_OR_RETURN(const AttrValue* value, FindAttr(oper, attr_name));
    tensorflow::AttrValue proto;
    millrace::AttrValueToProto(*value, &proto);
    return ToBuffer(proto, output_attr_value);
  });
}
