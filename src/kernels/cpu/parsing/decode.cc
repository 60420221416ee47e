// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// DecodeRaw, DecodeJSONExample and others: bytes and text as tensors, and tensors as bytes.
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/number_text.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/example/example.pb.h"
#include "tensorflow/core/framework/tensor.pb.h"

namespace millrace {
namespace {

// The elements in all strings, one string after the other.
class DecodeRawKernel final : public OpKernel {
 public:
  explicit DecodeRawKernel(KernelConstruction& c)
      : OpKernel(c), little_endian_(c.Attr<bool>("little_endian")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const std::string* const texts = in.data<std::string>();
    const int64_t n = in.num_elements();
    const size_t size = n == 0 ? 0 : texts[0].size();
    for (int64_t i = 1; i < n; ++i) {
      if (texts[i].size() == size) continue;
      return errors::InvalidArgument("DecodeRaw requires input strings to all be the same size, but element ",
                                     i, " has size ", size, " != ", texts[i].size());
    }
    const DataType type = output_type(0);
    const size_t element = ElementSize(type);
    if (size % element != 0) {
      return errors::InvalidArgument("Input to DecodeRaw has length ", size, " that is not a multiple of ",
                                     element, ", the size of ", DataTypeName(type));
    }
    TensorShape shape = in.shape();
    MR_RETURN_IF_ERROR(shape.TryAddDim(static_cast<int64_t>(size / element)));
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, shape));
    if (size == 0) return Status();
    char* to = static_cast<char*>(out->raw_data());
    for (int64_t i = 0; i < n; ++i, to += size) std::memcpy(to, texts[i].data(), size);
    char* const begin = static_cast<char*>(out->raw_data());
    if (type == DataType::kBool) std::transform(begin, to, begin, [](char c) { return c != 0 ? 1 : 0; });
    const size_t word = IsComplexType(type) ? element / 2 : element;
    if (!little_endian_ && word > 1) {
      for (char* p = begin; p != to; p += word) std::reverse(p, p + word);
    }
    return Status();
  }

 private:
  const bool little_endian_;
};

// Strings that are truncated or padded with zeros to one length.
class DecodePaddedRawKernel final : public OpKernel {
 public:
  explicit DecodePaddedRawKernel(KernelConstruction& c)
      : OpKernel(c), little_endian_(c.Attr<bool>("little_endian")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_RETURN_IF_ERROR(RequireScalar(context.input(1), "fixed_length"));
    const int32_t length = context.input(1).scalar<int32_t>();
    const size_t element = ElementSize(output_type(0));
    if (length <= 0 || static_cast<size_t>(length) % element != 0) {
      return errors::InvalidArgument("fixed_length (", length,
                                     ") must be greater than zero and a multiple of ", element,
                                     ", the size of ", DataTypeName(output_type(0)));
    }
    TensorShape shape = in.shape();
    MR_RETURN_IF_ERROR(shape.TryAddDim(static_cast<int64_t>(static_cast<size_t>(length) / element)));
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, shape));
    char* to = static_cast<char*>(out->raw_data());
    for (const std::string& text : in.flat<std::string>()) {
      const size_t taken = std::min(text.size(), static_cast<size_t>(length));
      std::memcpy(to, text.data(), taken);
      std::fill(to + taken, to + length, '\0');
      for (char* p = to; !little_endian_ && p != to + length; p += element) std::reverse(p, p + element);
      to += length;
    }
    return Status();
  }

 private:
  const bool little_endian_;
};

class ParseTensorKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    if (!in.shape().IsScalar()) {
      return errors::InvalidArgument("Expected `serialized` to be a scalar, got shape: ", in.shape());
    }
    tensorflow::TensorProto proto;
    if (!proto.ParseFromString(in.scalar<std::string>())) {
      return errors::InvalidArgument("Could not parse `serialized` as TensorProto");
    }
    MR_ASSIGN_OR_RETURN(Tensor out, TensorFromProto(proto, {.allocator = &context.allocator()}));
    if (out.dtype() != output_type(0)) {
      return errors::InvalidArgument("Type mismatch between parsed tensor (", DataTypeName(out.dtype()),
                                     ") and dtype (", DataTypeName(output_type(0)), ")");
    }
    context.set_output(0, std::move(out));
    return Status();
  }
};

class SerializeTensorKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    tensorflow::TensorProto proto;
    TensorToProtoContent(context.input(0), &proto);
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, TensorShape()));
    if (!proto.SerializeToString(&out->scalar<std::string>())) {
      return errors::InvalidArgument("The tensor is too large to be serialized");
    }
    return Status();
  }
};

class DecodeJsonExampleKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, in.shape()));
    for (int64_t i = 0; i < in.num_elements(); ++i) {
      tensorflow::Example example;
      const auto status = google::protobuf::util::JsonStringToMessage(in.data<std::string>()[i], &example);
      if (!status.ok() || !example.SerializeToString(&out->data<std::string>()[i])) {
        return errors::InvalidArgument("Error while parsing JSON: ", status.ToString());
      }
    }
    return Status();
  }
};

class StringToNumberKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, in.shape()));
    return VisitNumber(output_type(0), NoSuchType(context, output_type(0)), [&]<typename T>() {
      if constexpr (sizeof(T) >= 4 && std::is_signed_v<T>) return Convert<T>(in, out);
      return NoSuchType(context, output_type(0));
    });
  }

 private:
  template <typename T>
  static Status Convert(const Tensor& in, Tensor* out) {
    for (int64_t i = 0; i < in.num_elements(); ++i) {
      const std::string& text = in.data<std::string>()[i];
      const auto value = ParseNumber<T>(text);
      if (!value) {
        return errors::InvalidArgument("StringToNumberOp could not correctly convert string: ", text);
      }
      out->data<T>()[i] = *value;
    }
    return Status();
  }
};

}  // namespace

void RegisterDecodeKernels(KernelRegistry& registry) {
  registry.Register<DecodeRawKernel>(
      KernelDef("DecodeRaw")
          .Types("out_type",
                 {DataType::kHalf, DataType::kFloat, DataType::kDouble, DataType::kInt32, DataType::kUint16,
                  DataType::kUint8, DataType::kInt16, DataType::kInt8, DataType::kInt64, DataType::kComplex64,
                  DataType::kComplex128, DataType::kBool}));
  registry.Register<DecodePaddedRawKernel>(KernelDef("DecodePaddedRaw"));
  registry.Register<ParseTensorKernel>(KernelDef("ParseTensor"));
  registry.Register<SerializeTensorKernel>(KernelDef("SerializeTensor"));
  registry.Register<DecodeJsonExampleKernel>(KernelDef("DecodeJSONExample"));
  registry.Register<StringToNumberKernel>(
      KernelDef("StringToNumber")
          .Types("out_type", {DataType::kFloat, DataType::kDouble, DataType::kInt32, DataType::kInt64}));
}

}  // namespace millrace
