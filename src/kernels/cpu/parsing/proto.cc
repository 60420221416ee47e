// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// DecodeProtoV2 and EncodeProto: messages of types that are known when the graph is built.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/env.h"
#include "kernels/cpu/kernel_util.h"
#include "proto/message_types.h"

namespace millrace {
namespace {

namespace pb = google::protobuf;
using CppType = pb::FieldDescriptor::CppType;

// A type of messages with some of its fields.
class MessageType {
 public:
  // `source`: "local://" for the types of this program, "bytes://" followed by a FileDescriptorSet, or the
  // name of a file that holds one.
  static StatusOr<std::unique_ptr<MessageType>> Find(const std::string& source, const std::string& name,
                                                     const std::vector<std::string>& fields) {
    auto type = std::make_unique<MessageType>();
    if (source.empty() || source == "local://") {
      type->type_ = FindMessageType(name);
    } else {
      MR_RETURN_IF_ERROR(type->ReadPool(source));
      type->type_ = type->pool_->FindMessageTypeByName(name);
    }
    if (type->type_ == nullptr) return errors::InvalidArgument("No descriptor found for message type ", name);
    for (const std::string& field : fields) {
      const pb::FieldDescriptor* found = type->type_->FindFieldByName(field);
      if (found == nullptr)
        found = type->type_->file()->pool()->FindExtensionByPrintableName(type->type_, field);
      if (found == nullptr)
        return errors::InvalidArgument("Unknown field: ", field, " in message type ", name);
      type->fields_.push_back(found);
    }
    type->factory_ = std::make_unique<pb::DynamicMessageFactory>();
    type->prototype_ = type->factory_->GetPrototype(type->type_);
    return type;
  }

  const std::vector<const pb::FieldDescriptor*>& fields() const { return fields_; }
  std::unique_ptr<pb::Message> New() const { return std::unique_ptr<pb::Message>(prototype_->New()); }

 private:
  Status ReadPool(const std::string& source) {
    constexpr std::string_view kBytes = "bytes://";
    std::string set_bytes;
    if (source.starts_with(kBytes)) {
      set_bytes = source.substr(kBytes.size());
    } else {
      MR_ASSIGN_OR_RETURN(set_bytes, ReadFileToString(Env::Posix(), source));
    }
    pb::FileDescriptorSet set;
    if (!set.ParseFromString(set_bytes))
      return errors::InvalidArgument("descriptor_source is not a FileDescriptorSet: ", source.substr(0, 64));
    pool_ = std::make_unique<pb::DescriptorPool>();
    for (const pb::FileDescriptorProto& file : set.file()) {
      if (pool_->BuildFile(file) == nullptr)
        return errors::InvalidArgument("Failed to load FileDescriptorProto: ", file.name());
    }
    return Status();
  }

  std::unique_ptr<pb::DescriptorPool> pool_;  // null: that of the program
  std::unique_ptr<pb::DynamicMessageFactory> factory_;
  const pb::Descriptor* type_ = nullptr;
  const pb::Message* prototype_ = nullptr;
  std::vector<const pb::FieldDescriptor*> fields_;
};

// Whether the values of a field may be elements of a tensor of that type.
bool Fits(const pb::FieldDescriptor& field, DataType dtype) {
  switch (field.cpp_type()) {
    case CppType::CPPTYPE_INT32:
    case CppType::CPPTYPE_INT64:
      return dtype == DataType::kInt64 ||
             (dtype == DataType::kInt32 && field.cpp_type() == CppType::CPPTYPE_INT32);
    case CppType::CPPTYPE_UINT32:
      return dtype == DataType::kUint32 || dtype == DataType::kInt64 || dtype == DataType::kInt32;
    case CppType::CPPTYPE_UINT64:
      return dtype == DataType::kUint64 || dtype == DataType::kInt64;
    case CppType::CPPTYPE_FLOAT:
      return dtype == DataType::kFloat || dtype == DataType::kDouble;
    case CppType::CPPTYPE_DOUBLE:
      return dtype == DataType::kDouble;
    case CppType::CPPTYPE_BOOL:
      return dtype == DataType::kBool;
    case CppType::CPPTYPE_ENUM:
      return dtype == DataType::kInt32;
    case CppType::CPPTYPE_STRING:
    case CppType::CPPTYPE_MESSAGE:
      return dtype == DataType::kString;
  }
  return false;
}

Status CheckTypes(const MessageType& type, const std::vector<DataType>& dtypes, const char* what) {
  if (dtypes.size() != type.fields().size()) {
    return errors::InvalidArgument("The number of field_names (", type.fields().size(), ") and that of ",
                                   what, " (", dtypes.size(), ") must be equal");
  }
  for (size_t i = 0; i < dtypes.size(); ++i) {
    const pb::FieldDescriptor& field = *type.fields()[i];
    if (Fits(field, dtypes[i])) continue;
    return errors::InvalidArgument("Unexpected output type for ", field.full_name(), ": ",
                                   field.cpp_type_name(), " to ", DataTypeName(dtypes[i]));
  }
  return Status();
}

template <typename T, typename V>
void Put(Tensor* to, int64_t at, V value) {
  to->data<T>()[at] = static_cast<T>(value);
}
// Stores a number as an element of any of the types that fit.
template <typename V>
void PutNumber(Tensor* to, int64_t at, V value) {
  switch (to->dtype()) {
    case DataType::kInt32:
      return Put<int32_t>(to, at, value);
    case DataType::kUint32:
      return Put<uint32_t>(to, at, value);
    case DataType::kInt64:
      return Put<int64_t>(to, at, value);
    case DataType::kUint64:
      return Put<uint64_t>(to, at, value);
    case DataType::kFloat:
      return Put<float>(to, at, value);
    case DataType::kDouble:
      return Put<double>(to, at, value);
    default:
      return;
  }
}

// Value `k` of a field; for one that is not repeated, its value, which may be the default.
void Extract(const pb::Message& message, const pb::FieldDescriptor& field, int k, Tensor* to, int64_t at) {
  const pb::Reflection& r = *message.GetReflection();
  const bool many = field.is_repeated();
  switch (field.cpp_type()) {
    case CppType::CPPTYPE_INT32:
      return PutNumber(to, at, many ? r.GetRepeatedInt32(message, &field, k) : r.GetInt32(message, &field));
    case CppType::CPPTYPE_INT64:
      return PutNumber(to, at, many ? r.GetRepeatedInt64(message, &field, k) : r.GetInt64(message, &field));
    case CppType::CPPTYPE_UINT32:
      return PutNumber(to, at, many ? r.GetRepeatedUInt32(message, &field, k) : r.GetUInt32(message, &field));
    case CppType::CPPTYPE_UINT64:
      return PutNumber(to, at, many ? r.GetRepeatedUInt64(message, &field, k) : r.GetUInt64(message, &field));
    case CppType::CPPTYPE_FLOAT:
      return PutNumber(to, at, many ? r.GetRepeatedFloat(message, &field, k) : r.GetFloat(message, &field));
    case CppType::CPPTYPE_DOUBLE:
      return PutNumber(to, at, many ? r.GetRepeatedDouble(message, &field, k) : r.GetDouble(message, &field));
    case CppType::CPPTYPE_ENUM:
      return PutNumber(to, at,
                       many ? r.GetRepeatedEnumValue(message, &field, k) : r.GetEnumValue(message, &field));
    case CppType::CPPTYPE_BOOL:
      return Put<bool>(to, at, many ? r.GetRepeatedBool(message, &field, k) : r.GetBool(message, &field));
    case CppType::CPPTYPE_STRING:
      to->data<std::string>()[at] =
          many ? r.GetRepeatedString(message, &field, k) : r.GetString(message, &field);
      return;
    case CppType::CPPTYPE_MESSAGE:
      to->data<std::string>()[at] =
          (many ? r.GetRepeatedMessage(message, &field, k) : r.GetMessage(message, &field))
              .SerializePartialAsString();
      return;
  }
}

int CountOf(const pb::Message& message, const pb::FieldDescriptor& field) {
  const pb::Reflection& r = *message.GetReflection();
  if (field.is_repeated()) return r.FieldSize(message, &field);
  return r.HasField(message, &field) ? 1 : 0;
}

class DecodeProtoKernel final : public OpKernel {
 public:
  explicit DecodeProtoKernel(KernelConstruction& c) : OpKernel(c) {
    const auto format = c.Attr<std::string>("message_format");
    if (format != "binary" && format != "text")
      c.SetError(errors::InvalidArgument("format must be one of binary or text"));
    text_ = format == "text";
    auto type =
        MessageType::Find(c.Attr<std::string>("descriptor_source"), c.Attr<std::string>("message_type"),
                          c.Attr<std::vector<std::string>>("field_names"));
    c.SetError(type.status());
    if (!type.ok()) return;
    type_ = *std::move(type);
    c.SetError(CheckTypes(*type_, c.Attr<std::vector<DataType>>("output_types"), "output_types"));
  }

  Status Compute(KernelContext& context) override {
    const Tensor& bytes = context.input(0);
    const auto fields = static_cast<int64_t>(type_->fields().size());
    TensorShape shape = bytes.shape();
    MR_RETURN_IF_ERROR(shape.TryAddDim(fields));
    MR_ASSIGN_OR_RETURN(Tensor * sizes, context.AllocateOutput(0, shape));
    std::vector<std::unique_ptr<pb::Message>> messages;
    std::vector<int64_t> longest(type_->fields().size());
    for (int64_t i = 0; i < bytes.num_elements(); ++i) {
      messages.push_back(type_->New());
      pb::Message& message = *messages.back();
      MR_RETURN_IF_ERROR(Parse(bytes.data<std::string>()[i], &message));
      for (int64_t f = 0; f < fields; ++f) {
        const int count = CountOf(message, *type_->fields()[static_cast<size_t>(f)]);
        sizes->data<int32_t>()[i * fields + f] = count;
        longest[static_cast<size_t>(f)] = std::max<int64_t>(longest[static_cast<size_t>(f)], count);
      }
    }
    for (size_t f = 0; f < longest.size(); ++f) {
      TensorShape values_shape = bytes.shape();
      MR_RETURN_IF_ERROR(values_shape.TryAddDim(longest[f]));
      MR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(1 + static_cast<int>(f), values_shape));
      Fill(messages, *type_->fields()[f], longest[f], values);
    }
    return Status();
  }

 private:
  Status Parse(const std::string& bytes, pb::Message* message) const {
    if (!text_) {
      if (message->ParsePartialFromString(bytes)) return Status();
      return errors::DataLoss("Unable to parse binary protobuf");
    }
    TextError error;
    if (ParseMessageText(bytes, UnknownFields::kRefused, message, &error)) return Status();
    return errors::DataLoss("Unable to parse text format protobuf");
  }

  // After the last value of a message, fills with zeros and empty strings, or the default of the field.
  static void Fill(const std::vector<std::unique_ptr<pb::Message>>& messages,
                   const pb::FieldDescriptor& field, int64_t longest, Tensor* values) {
    if (values->num_elements() == 0) return;
    if (values->dtype() != DataType::kString) std::memset(values->raw_data(), 0, values->num_bytes());
    for (size_t i = 0; i < messages.size(); ++i) {
      const int count = CountOf(*messages[i], field);
      const int present = field.is_repeated() ? count : 1;
      for (int k = 0; k < present; ++k)
        Extract(*messages[i], field, k, values, static_cast<int64_t>(i) * longest + k);
    }
  }

  bool text_ = false;
  std::unique_ptr<MessageType> type_;
};

// A number of one of the types that fit, converted to the type of the field.
template <typename V>
V NumberAt(const Tensor& t, int64_t at) {
  return VisitReal(t.dtype(), V(), [&]<typename T>() -> V {
    if constexpr (kIsSmallFloat<T>) {
      return V();
    } else {
      return static_cast<V>(t.data<T>()[at]);
    }
  });
}

// Sets a field, or appends to it if it is repeated. False for bytes that are not a message.
bool Insert(pb::Message* message, const pb::FieldDescriptor& field, const Tensor& t, int64_t at) {
  const pb::Reflection& r = *message->GetReflection();
  const bool many = field.is_repeated();
  const auto put = [&](auto add, auto set, auto value) {
    (r.*(many ? add : set))(message, &field, value);
    return true;
  };
  using R = pb::Reflection;
  switch (field.cpp_type()) {
    case CppType::CPPTYPE_INT32:
      return put(&R::AddInt32, &R::SetInt32, NumberAt<int32_t>(t, at));
    case CppType::CPPTYPE_INT64:
      return put(&R::AddInt64, &R::SetInt64, NumberAt<int64_t>(t, at));
    case CppType::CPPTYPE_UINT32:
      return put(&R::AddUInt32, &R::SetUInt32, NumberAt<uint32_t>(t, at));
    case CppType::CPPTYPE_UINT64:
      return put(&R::AddUInt64, &R::SetUInt64, NumberAt<uint64_t>(t, at));
    case CppType::CPPTYPE_FLOAT:
      return put(&R::AddFloat, &R::SetFloat, NumberAt<float>(t, at));
    case CppType::CPPTYPE_DOUBLE:
      return put(&R::AddDouble, &R::SetDouble, NumberAt<double>(t, at));
    case CppType::CPPTYPE_ENUM:
      return put(&R::AddEnumValue, &R::SetEnumValue, NumberAt<int>(t, at));
    case CppType::CPPTYPE_BOOL:
      return put(&R::AddBool, &R::SetBool, t.data<bool>()[at]);
    case CppType::CPPTYPE_STRING:
      return put(&R::AddString, &R::SetString, t.data<std::string>()[at]);
    case CppType::CPPTYPE_MESSAGE:
      return (many ? r.AddMessage(message, &field) : r.MutableMessage(message, &field))
          ->ParsePartialFromString(t.data<std::string>()[at]);
  }
  return false;
}

// Inputs: sizes [batch..., fields], and for each field values [batch..., most].
class EncodeProtoKernel final : public OpKernel {
 public:
  explicit EncodeProtoKernel(KernelConstruction& c) : OpKernel(c) {
    auto type =
        MessageType::Find(c.Attr<std::string>("descriptor_source"), c.Attr<std::string>("message_type"),
                          c.Attr<std::vector<std::string>>("field_names"));
    c.SetError(type.status());
    if (!type.ok()) return;
    type_ = *std::move(type);
    c.SetError(CheckTypes(*type_, c.Attr<std::vector<DataType>>("Tinput_types"), "Tinput_types"));
  }

  Status Compute(KernelContext& context) override {
    const Tensor& sizes = context.input(0);
    const auto fields = static_cast<int64_t>(type_->fields().size());
    if (sizes.rank() < 1 || sizes.dim(sizes.rank() - 1) != fields) {
      return errors::InvalidArgument("sizes.shape[-1] must be equal to the number of fields, ", fields,
                                     ", got shape ", sizes.shape());
    }
    TensorShape batch = sizes.shape();
    batch.RemoveDim(batch.rank() - 1);
    for (int64_t f = 0; f < fields; ++f) MR_RETURN_IF_ERROR(CheckValues(context, batch, f));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, batch));
    for (int64_t i = 0; i < batch.num_elements(); ++i) {
      const auto message = type_->New();
      for (int64_t f = 0; f < fields; ++f) {
        const Tensor& values = context.input(1 + static_cast<int>(f));
        const pb::FieldDescriptor& field = *type_->fields()[static_cast<size_t>(f)];
        for (int64_t k = 0; k < sizes.data<int32_t>()[i * fields + f]; ++k) {
          if (!Insert(message.get(), field, values, i * values.dim(values.rank() - 1) + k))
            return errors::DataLoss("Unable to parse the message in field ", field.full_name());
        }
      }
      if (!message->SerializePartialToString(out->data<std::string>() + i))
        return errors::DataLoss("Unable to encode message ", i);
    }
    return Status();
  }

 private:
  Status CheckValues(const KernelContext& context, const TensorShape& batch, int64_t f) const {
    const Tensor& sizes = context.input(0);
    const Tensor& values = context.input(1 + static_cast<int>(f));
    TensorShape rest = values.shape();
    if (rest.rank() > 0) rest.RemoveDim(rest.rank() - 1);
    if (values.rank() == 0 || rest != batch) {
      return errors::InvalidArgument("Values must match up on all but the last dimension of sizes: ",
                                     values.shape(), " vs. ", sizes.shape());
    }
    const int64_t most = values.dim(values.rank() - 1), fields = sizes.dim(sizes.rank() - 1);
    const bool many = type_->fields()[static_cast<size_t>(f)]->is_repeated();
    for (int64_t i = 0; i < batch.num_elements(); ++i) {
      const int64_t size = sizes.data<int32_t>()[i * fields + f];
      if (size < 0 || size > most)
        return errors::InvalidArgument("Size ", size, " of field ", f, " is not in [0, ", most, "]");
      if (size > 1 && !many) {
        return errors::InvalidArgument("Field ", type_->fields()[static_cast<size_t>(f)]->full_name(),
                                       " is not repeated, but has ", size, " values");
      }
    }
    return Status();
  }

  std::unique_ptr<MessageType> type_;
};

}  // namespace

void RegisterProtoKernels(KernelRegistry& registry) {
  registry.Register<DecodeProtoKernel>(KernelDef("DecodeProtoV2"));
  registry.Register<EncodeProtoKernel>(KernelDef("EncodeProto"));
}

}  // namespace millrace
