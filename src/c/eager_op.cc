// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Ops that run one by one: their inputs and attributes, and running them.
#include <cstring>

#include "c/eager.h"

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library
using millrace::AttrMap;
using millrace::AttrValue;
using millrace::DataType;
using millrace::EagerTensor;
using millrace::NameAttrList;
using millrace::OpRegistration;
using millrace::PartialShape;
using millrace::Status;
using millrace::StatusOr;
using millrace::Tensor;
namespace errors = millrace::errors;

namespace {

// A thread's cache: memory of deleted ops for the next ones, and the op that it looked up last.
struct Spare {
  static constexpr size_t kMost = 8;
  std::vector<std::unique_ptr<TFE_Op>> ops;
  const OpRegistration* last = nullptr;  // of the global registry, which keeps it
};
thread_local Spare spare;

StatusOr<const OpRegistration*> LookUp(TFE_Context* ctx, const char* name, bool* is_function) {
  *is_function = false;
  if (spare.last != nullptr && spare.last->def.name == name) [[likely]]
    return spare.last;
  MR_ASSIGN_OR_RETURN(const OpRegistration* op, ctx->context->LookUp(name, is_function));
  if (!*is_function) spare.last = op;
  return op;
}

// "list(int)" and similar types as the C API has them.
bool KindOf(std::string_view type, TF_AttrType* kind, unsigned char* is_list) {
  *is_list = 0;
  if (type.starts_with("list(") && type.ends_with(")")) {
    *is_list = 1;
    type = type.substr(5, type.size() - 6);
  }
  static constexpr std::pair<std::string_view, TF_AttrType> kKinds[] = {
      {"string", TF_ATTR_STRING}, {"int", TF_ATTR_INT},   {"float", TF_ATTR_FLOAT},
      {"bool", TF_ATTR_BOOL},     {"type", TF_ATTR_TYPE}, {"shape", TF_ATTR_SHAPE},
      {"tensor", TF_ATTR_TENSOR}, {"func", TF_ATTR_FUNC}};
  for (const auto& [text, of] : kKinds) {
    if (type != text) continue;
    *kind = of;
    return true;
  }
  return false;
}

Status FindKind(const millrace::OpDef& op, const char* name, TF_AttrType* kind, unsigned char* is_list) {
  unsigned char list = 0;
  const millrace::AttrDef* attr = name == nullptr ? nullptr : op.FindAttr(name);
  if (attr == nullptr || !KindOf(attr->type, kind, &list)) {
    return errors::InvalidArgument("Attribute '", OrEmpty(name), "' does not exist for this operation");
  }
  if (is_list != nullptr) *is_list = list;
  return Status();
}

// For setters: an attribute with a name, unless something is null. An error shows when the op runs.
template <typename F>
void SetAttribute(TFE_Op* op, const char* name, F&& value) {
  if (op == nullptr || name == nullptr) return;
  Enter(nullptr, [&]() -> Status {
    op->SetAttr(name, AttrValue(value()));
    return Status();
  });
}

template <typename T, typename From>
std::vector<T> ListOf(const From* values, int count) {
  if (values == nullptr || count <= 0) return {};
  return std::vector<T>(values, values + count);
}

StatusOr<PartialShape> ShapeOf(const char* attr_name, const int64_t* dims, int num_dims) {
  constexpr int kMostDims = 254;
  if (num_dims > kMostDims) {
    return errors::InvalidArgument("Value specified for `", attr_name, "` has ", num_dims,
                                   " dimensions which is over the limit of ", kMostDims, ".");
  }
  return MakeShape(dims, num_dims);
}

// An op that may be queried and run: after its context was deleted, an op can only be deleted.
Status CheckUsable(const TFE_Op* op) {
  if (op == nullptr) [[unlikely]]
    return NullArgument("The op");
  if (!op->has_context()) [[unlikely]]
    return errors::FailedPrecondition("The context of the op has been deleted");
  return Status();
}

// REQUIRES: CheckUsable(&op).ok().
NameAttrList FunctionOf(const TFE_Op& op) {
  return {op.name(), std::make_shared<const AttrMap>(AttrMap::FromEntries(op.attrs()))};
}

}  // namespace

TFE_Op* TFE_NewOp(TFE_Context* ctx, const char* op_or_function_name, TF_Status* status) {
  TFE_Op* result = nullptr;
  Enter(status, [&]() -> Status {
    if (ctx == nullptr || op_or_function_name == nullptr) return NullArgument("The context or the name");
    bool is_function = false;
    MR_ASSIGN_OR_RETURN(const OpRegistration* op, LookUp(ctx, op_or_function_name, &is_function));
    if (spare.ops.empty()) {
      result = new TFE_Op;
    } else {
      result = spare.ops.back().release();
      spare.ops.pop_back();
    }
    result->Reset(ctx->context.get(), op, is_function);
    result->life = ctx->life;
    result->number = ctx->number;
    return Status();
  });
  return result;
}

void TFE_DeleteOp(TFE_Op* op) {
  if (op == nullptr) return;
  std::unique_ptr<TFE_Op> owned(op);
  op->Clear();
  Enter(nullptr, [&] {
    if (spare.ops.size() < Spare::kMost) spare.ops.push_back(std::move(owned));
    return Status();
  });
}

void TFE_OpSetDevice(TFE_Op* op, const char* device_name, TF_Status* status) {
  Enter(status, [&]() -> Status {
    MR_RETURN_IF_ERROR(CheckUsable(op));
    millrace::Device* device = nullptr;
    if (device_name != nullptr && device_name[0] != '\0') {
      MR_ASSIGN_OR_RETURN(device, op->context()->FindDevice(device_name));
    }
    op->set_device(device);
    return Status();
  });
}

const char* TFE_OpGetDevice(TFE_Op* op, TF_Status* status) {
  const Status usable = CheckUsable(op);
  Set(status, usable);
  if (!usable.ok()) return nullptr;
  return (op->device() == nullptr ? op->context()->host_device() : *op->device()).name().c_str();
}

// Ignored: there is no XLA compiler to choose.
void TFE_OpSetXLACompilation(TFE_Op* /*op*/, unsigned char /*enable*/) {}

void TFE_OpAddInput(TFE_Op* op, TFE_TensorHandle* input, TF_Status* status) {
  Enter(status, [&] {
    if (op == nullptr || input == nullptr) return NullArgument("The op or the input");
    op->AddInput(TensorOf(input));
    return Status();
  });
}

void TFE_OpAddInputList(TFE_Op* op, TFE_TensorHandle** inputs, int num_inputs, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (op == nullptr || num_inputs < 0 || (num_inputs > 0 && inputs == nullptr)) {
      return NullArgument("The op or the array of inputs");
    }
    std::vector<EagerTensor*> tensors;
    for (int i = 0; i < num_inputs; ++i) {
      if (inputs[i] == nullptr) return NullArgument("An input");
      tensors.push_back(TensorOf(inputs[i]));
    }
    op->AddInputList(tensors);
    return Status();
  });
}

TF_AttrType TFE_OpGetAttrType(TFE_Op* op, const char* attr_name, unsigned char* is_list, TF_Status* status) {
  TF_AttrType kind = TF_ATTR_INT;
  Enter(status, [&]() -> Status {
    MR_RETURN_IF_ERROR(CheckUsable(op));
    return FindKind(op->op()->def, attr_name, &kind, is_list);
  });
  return kind;
}

TF_AttrType TFE_OpNameGetAttrType(TFE_Context* ctx, const char* op_or_function_name, const char* attr_name,
                                  unsigned char* is_list, TF_Status* status) {
  TF_AttrType kind = TF_ATTR_INT;
  Enter(status, [&]() -> Status {
    if (ctx == nullptr || op_or_function_name == nullptr) return NullArgument("The context or the name");
    bool is_function = false;
    MR_ASSIGN_OR_RETURN(const OpRegistration* op, LookUp(ctx, op_or_function_name, &is_function));
    return FindKind(op->def, attr_name, &kind, is_list);
  });
  return kind;
}

void TFE_OpSetAttrString(TFE_Op* op, const char* attr_name, const void* value, size_t length) {
  SetAttribute(op, attr_name,
               [&] { return std::string(static_cast<const char*>(value), value == nullptr ? 0 : length); });
}

void TFE_OpSetAttrInt(TFE_Op* op, const char* attr_name, int64_t value) {
  SetAttribute(op, attr_name, [&] { return value; });
}

void TFE_OpSetAttrFloat(TFE_Op* op, const char* attr_name, float value) {
  SetAttribute(op, attr_name, [&] { return value; });
}

void TFE_OpSetAttrBool(TFE_Op* op, const char* attr_name, unsigned char value) {
  SetAttribute(op, attr_name, [&] { return value != 0; });
}

void TFE_OpSetAttrType(TFE_Op* op, const char* attr_name, TF_DataType value) {
  SetAttribute(op, attr_name, [&] { return TypeOf(value); });
}

void TFE_OpSetAttrShape(TFE_Op* op, const char* attr_name, const int64_t* dims, const int num_dims,
                        TF_Status* out_status) {
  Enter(out_status, [&]() -> Status {
    if (op == nullptr || attr_name == nullptr) return NullArgument("The op or the name");
    MR_ASSIGN_OR_RETURN(PartialShape shape, ShapeOf(attr_name, dims, num_dims));
    op->SetAttr(attr_name, std::move(shape));
    return Status();
  });
}

void TFE_OpSetAttrFunction(TFE_Op* op, const char* attr_name, const TFE_Op* value) {
  if (op == nullptr || value == nullptr) return;
  if (const Status usable = CheckUsable(value); !usable.ok()) return op->SetError(usable);
  SetAttribute(op, attr_name, [&] { return FunctionOf(*value); });
}

void TFE_OpSetAttrFunctionName(TFE_Op* op, const char* attr_name, const char* data, size_t length) {
  SetAttribute(op, attr_name, [&] {
    return NameAttrList{std::string(OrEmpty(data), data == nullptr ? 0 : length),
                        std::make_shared<const AttrMap>()};
  });
}

void TFE_OpSetAttrTensor(TFE_Op* op, const char* attr_name, TF_Tensor* tensor, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (op == nullptr || attr_name == nullptr) return NullArgument("The op or the name");
    MR_ASSIGN_OR_RETURN(Tensor value, CopyOfTensor(tensor));
    op->SetAttr(attr_name, std::move(value));
    return Status();
  });
}

void TFE_OpSetAttrStringList(TFE_Op* op, const char* attr_name, const void* const* values,
                             const size_t* lengths, int num_values) {
  SetAttribute(op, attr_name, [&] {
    std::vector<std::string> list;
    for (int i = 0; values != nullptr && lengths != nullptr && i < num_values; ++i) {
      list.emplace_back(static_cast<const char*>(values[i]), values[i] == nullptr ? 0 : lengths[i]);
    }
    return list;
  });
}

void TFE_OpSetAttrIntList(TFE_Op* op, const char* attr_name, const int64_t* values, int num_values) {
  SetAttribute(op, attr_name, [&] { return ListOf<int64_t>(values, num_values); });
}

void TFE_OpSetAttrFloatList(TFE_Op* op, const char* attr_name, const float* values, int num_values) {
  SetAttribute(op, attr_name, [&] { return ListOf<float>(values, num_values); });
}

void TFE_OpSetAttrBoolList(TFE_Op* op, const char* attr_name, const unsigned char* values, int num_values) {
  SetAttribute(op, attr_name, [&] {
    std::vector<bool> list;
    for (int i = 0; values != nullptr && i < num_values; ++i) list.push_back(values[i] != 0);
    return list;
  });
}

void TFE_OpSetAttrTypeList(TFE_Op* op, const char* attr_name, const TF_DataType* values, int num_values) {
  SetAttribute(op, attr_name, [&] {
    std::vector<DataType> list;
    for (int i = 0; values != nullptr && i < num_values; ++i) list.push_back(TypeOf(values[i]));
    return list;
  });
}

void TFE_OpSetAttrShapeList(TFE_Op* op, const char* attr_name, const int64_t** dims, const int* num_dims,
                            int num_values, TF_Status* out_status) {
  Enter(out_status, [&]() -> Status {
    if (op == nullptr || attr_name == nullptr) return NullArgument("The op or the name");
    if (num_values > 0 && (dims == nullptr || num_dims == nullptr)) return NullArgument("The list");
    std::vector<PartialShape> list;
    for (int i = 0; i < num_values; ++i) {
      MR_ASSIGN_OR_RETURN(PartialShape shape, ShapeOf(attr_name, dims[i], num_dims[i]));
      list.push_back(std::move(shape));
    }
    op->SetAttr(attr_name, std::move(list));
    return Status();
  });
}

void TFE_OpSetAttrFunctionList(TFE_Op* op, const char* attr_name, const TFE_Op** value, int num_values) {
  if (op == nullptr) return;
  for (int i = 0; value != nullptr && i < num_values; ++i) {
    const Status usable = value[i] == nullptr ? Status() : CheckUsable(value[i]);
    if (!usable.ok()) return op->SetError(usable);
  }
  SetAttribute(op, attr_name, [&] {
    std::vector<NameAttrList> list;
    for (int i = 0; value != nullptr && i < num_values; ++i) {
      if (value[i] != nullptr) list.push_back(FunctionOf(*value[i]));
    }
    return list;
  });
}

int TFE_OpGetInputLength(TFE_Op* op, const char* input_name, TF_Status* status) {
  int length = -1;
  Enter(status, [&]() -> Status {
    if (op == nullptr || input_name == nullptr) return NullArgument("The op or the name");
    MR_RETURN_IF_ERROR(CheckUsable(op));
    MR_ASSIGN_OR_RETURN(length, op->ArgLength(input_name, true));
    return Status();
  });
  return length;
}

int TFE_OpGetOutputLength(TFE_Op* op, const char* output_name, TF_Status* status) {
  int length = -1;
  Enter(status, [&]() -> Status {
    if (op == nullptr || output_name == nullptr) return NullArgument("The op or the name");
    MR_RETURN_IF_ERROR(CheckUsable(op));
    MR_ASSIGN_OR_RETURN(length, op->ArgLength(output_name, false));
    return Status();
  });
  return length;
}

void TFE_Execute(TFE_Op* op, TFE_TensorHandle** retvals, int* num_retvals, TF_Status* status) {
  Enter(status, [&]() -> Status {
    MR_RETURN_IF_ERROR(CheckUsable(op));
    if (num_retvals == nullptr || (*num_retvals > 0 && retvals == nullptr)) {
      return NullArgument("The array of results or their number");
    }
    const size_t room = *num_retvals < 0 ? 0 : static_cast<size_t>(*num_retvals);
    static_assert(sizeof(TFE_TensorHandle*) == sizeof(EagerTensor*));
    return op->context()->Execute(*op, {reinterpret_cast<EagerTensor**>(retvals), room}, num_retvals);
  });
}
