// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/tensor_codec.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/logging.h"
#include "tensor/allocator.h"
#include "tensor/buffer.h"
#include "tensor/codec_lists.h"
#include "tensor/dtype_table.h"
#include "tensorflow/core/framework/tensor.pb.h"

namespace millrace {

using codec_internal::ListField;
using codec_internal::StringListReader;

namespace {

// The largest size of a repeated field.
constexpr int64_t kMaxListEntries = std::numeric_limits<int>::max();

// Variants hold tensors that hold variants; a greater depth is an error.
constexpr int kMaxDepth = 32;

std::string Describe(const tensorflow::TensorProto& proto, const TensorShape& shape) {
  return StrCat("TensorProto of type ", DataTypeName(static_cast<DataType>(proto.dtype())), " and shape ",
                shape);
}

class Decoder {
 public:
  explicit Decoder(const TensorDecodeOptions& options)
      : allocator_(options.allocator != nullptr ? *options.allocator : CpuAllocator()),
        budget_(options.max_bytes) {}

  StatusOr<Tensor> Decode(const tensorflow::TensorProto& proto);

 private:
  // Subtracts from what may still be allocated.
  Status Spend(const tensorflow::TensorProto& proto, const TensorShape& shape, int64_t count,
               int64_t bytes_each);

  template <typename T>
  Status DecodeElements(const tensorflow::TensorProto& proto, Tensor* tensor);
  template <typename T>
  Status DecodeContent(const tensorflow::TensorProto& proto, Tensor* tensor);
  template <typename T>
  Status DecodeOne(const std::string& bytes, T* value);
  Status DecodeVariant(const tensorflow::VariantTensorDataProto& proto, Variant* value);

  // Converts one entry of a typed list.
  template <typename T, typename List>
  Status Convert(const List& list, int64_t i, T* value);

  Allocator& allocator_;
  int64_t budget_;
  int depth_ = 0;
};

Status Decoder::Spend(const tensorflow::TensorProto& proto, const TensorShape& shape, int64_t count,
                      int64_t bytes_each) {
  int64_t bytes;
  if (__builtin_mul_overflow(count, bytes_each, &bytes) || bytes > budget_) {
    return errors::ResourceExhausted(Describe(proto, shape),
                                     ": its elements need more memory than is allowed (", count, " x ",
                                     bytes_each, " bytes, ", budget_, " left)");
  }
  budget_ -= bytes;
  return Status::Ok();
}

StatusOr<Tensor> Decoder::Decode(const tensorflow::TensorProto& proto) {
  if (depth_ >= kMaxDepth) return errors::InvalidArgument("TensorProto: variants are nested too deeply");
  ++depth_;
  const auto dtype = static_cast<DataType>(proto.dtype());
  if (!IsKnownDataType(dtype) || IsRefType(dtype)) {
    return errors::InvalidArgument("TensorProto: invalid type ", DataTypeName(dtype));
  }
  StatusOr<TensorShape> shape = ShapeFromProto(proto.tensor_shape());
  if (!shape.ok())
    return shape.status().WithContext(StrCat(" (in a TensorProto of type ", DataTypeName(dtype), ")"));
  MR_RETURN_IF_ERROR(Spend(proto, *shape, shape->num_elements(), static_cast<int64_t>(ElementSize(dtype))));
  MR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, *shape, allocator_));
  MR_RETURN_IF_ERROR(
      VisitDataType(dtype, Status::Ok(), [&]<typename T>() { return DecodeElements<T>(proto, &tensor); }));
  --depth_;
  return tensor;
}

template <typename T>
Status Decoder::DecodeElements(const tensorflow::TensorProto& proto, Tensor* tensor) {
  const int64_t n = tensor->num_elements();
  const auto& list = ListField<T>::Get(proto);
  const int64_t given = list.size();
  if (given % ListField<T>::kPerElement != 0) {
    return errors::InvalidArgument(Describe(proto, tensor->shape()),
                                   ": a complex number lacks its imaginary part");
  }
  // Surplus values are ignored, as in TensorFlow.
  const int64_t elements = std::min(given / ListField<T>::kPerElement, n);
  if (!proto.tensor_content().empty()) {
    if (given != 0) {
      return errors::InvalidArgument(Describe(proto, tensor->shape()),
                                     " has both tensor_content and a list of values");
    }
    return DecodeContent<T>(proto, tensor);
  }
  T* out = tensor->data<T>();
  int64_t budget_before_last = budget_;
  for (int64_t i = 0; i < elements; ++i) {
    budget_before_last = budget_;
    MR_RETURN_IF_ERROR(Convert<T>(list, i, &out[i]));
  }
  if (elements == n) return Status::Ok();
  if (elements == 0) {
    std::fill_n(out, n, T());
    return Status::Ok();
  }
  if constexpr (OwnsMemory(kDataTypeOf<T>)) {
    // A repeated variant costs what its tensors cost, although it shares them: encoding it visits them
    // again.
    const int64_t each =
        static_cast<int64_t>(codec_internal::MemoryOf(list, elements - 1)) + budget_before_last - budget_;
    MR_RETURN_IF_ERROR(Spend(proto, tensor->shape(), n - elements, each));
  }
  const T last = out[elements - 1];
  std::fill(out + elements, out + n, last);
  return Status::Ok();
}

template <typename T, typename List>
Status Decoder::Convert(const List& list, int64_t i, T* value) {
  if constexpr (std::is_same_v<T, ResourceHandle>) {
    MR_ASSIGN_OR_RETURN(*value, ResourceHandleFromProto(list.Get(static_cast<int>(i))));
    return Status::Ok();
  } else if constexpr (std::is_same_v<T, Variant>) {
    return DecodeVariant(list.Get(static_cast<int>(i)), value);
  } else {
    *value = ListField<T>::FromList(list, i);
    return Status::Ok();
  }
}

Status Decoder::DecodeVariant(const tensorflow::VariantTensorDataProto& proto, Variant* value) {
  VariantData data;
  data.type_name = proto.type_name();
  data.metadata = proto.metadata();
  for (const tensorflow::TensorProto& part : proto.tensors()) {
    MR_ASSIGN_OR_RETURN(Tensor tensor, Decode(part));
    data.tensors.push_back(std::move(tensor));
  }
  MR_ASSIGN_OR_RETURN(*value, Variant::Decode(std::move(data)));
  return Status::Ok();
}

template <typename T>
Status Decoder::DecodeOne(const std::string& bytes, T* value) {
  if constexpr (std::is_same_v<T, std::string>) {
    *value = bytes;
    return Status::Ok();
  } else if constexpr (std::is_same_v<T, ResourceHandle>) {
    tensorflow::ResourceHandleProto proto;
    if (!proto.ParseFromString(bytes))
      return errors::InvalidArgument("tensor_content holds a malformed handle");
    MR_ASSIGN_OR_RETURN(*value, ResourceHandleFromProto(proto));
    return Status::Ok();
  } else {
    tensorflow::VariantTensorDataProto proto;
    if (!proto.ParseFromString(bytes))
      return errors::InvalidArgument("tensor_content holds a malformed variant");
    return DecodeVariant(proto, value);
  }
}

template <typename T>
Status Decoder::DecodeContent(const tensorflow::TensorProto& proto, Tensor* tensor) {
  const std::string& content = proto.tensor_content();
  const int64_t n = tensor->num_elements();
  if constexpr (OwnsMemory(kDataTypeOf<T>)) {
    // One varint per element, then the bytes of all.
    StatusOr<StringListReader> reader = StringListReader::Make(content, n);
    if (!reader.ok())
      return Status(reader.status().code(),
                    StrCat(Describe(proto, tensor->shape()), ": ", reader.status().message()));
    std::string bytes;
    for (int64_t i = 0; i < n; ++i) {
      bytes.assign(reader->Next());
      MR_RETURN_IF_ERROR(DecodeOne<T>(bytes, &tensor->data<T>()[i]));
    }
    return Status::Ok();
  } else {
    if (content.size() != tensor->num_bytes()) {
      return errors::InvalidArgument(Describe(proto, tensor->shape()), ": tensor_content has ",
                                     content.size(), " bytes, needs ", tensor->num_bytes());
    }
    if constexpr (std::is_same_v<T, bool>) {
      // A bool in memory must be 0 or 1.
      std::transform(content.begin(), content.end(), tensor->data<bool>(), [](char c) { return c != 0; });
    } else {
      std::memcpy(tensor->raw_data(), content.data(), content.size());
    }
    return Status::Ok();
  }
}

void VariantToProto(const Variant& value, tensorflow::VariantTensorDataProto* proto) {
  const VariantData data = value.Encode();
  proto->set_type_name(data.type_name);
  proto->set_metadata(data.metadata);
  for (const Tensor& tensor : data.tensors) TensorToProto(tensor, proto->add_tensors());
}

// True for copies of one decoded value, whose tensors share their buffers; others cannot be compared. A
// message of a few bytes can hold many such copies of a large value, which must not be written once each.
bool SameValue(const Variant& a, const Variant& b) {
  const auto* x = a.get<VariantData>();
  const auto* y = b.get<VariantData>();
  if (x == nullptr || y == nullptr || x->type_name != y->type_name || x->metadata != y->metadata)
    return false;
  return std::equal(x->tensors.begin(), x->tensors.end(), y->tensors.begin(), y->tensors.end(),
                    [](const Tensor& t, const Tensor& u) {
                      return t.dtype() == u.dtype() && t.shape() == u.shape() && t.raw_data() == u.raw_data();
                    });
}

template <typename T>
bool SameValue(const T& a, const T& b) {
  return codec_internal::SameBits(a, b);
}

// The number of values that a typed list needs: the last one stands for all that follow.
template <typename T>
int64_t CompactCount(const Tensor& tensor) {
  int64_t n = tensor.num_elements();
  const T* values = tensor.data<T>();
  while (n > 1 && SameValue(values[n - 1], values[n - 2])) --n;
  return n;
}

template <typename T>
void EncodeList(const Tensor& tensor, tensorflow::TensorProto* proto) {
  const int64_t n = CompactCount<T>(tensor);
  if (n > kMaxListEntries / ListField<T>::kPerElement) {
    MR_LOG(Error) << "A tensor of shape " << tensor.shape() << " and type " << tensor.dtype()
                  << " does not fit in a TensorProto; its values are left out";
    return;
  }
  const T* values = tensor.data<T>();
  auto* list = ListField<T>::Mutable(proto);
  list->Reserve(static_cast<int>(n * ListField<T>::kPerElement));
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<T, ResourceHandle>) {
      ResourceHandleToProto(values[i], list->Add());
    } else if constexpr (std::is_same_v<T, Variant>) {
      VariantToProto(values[i], list->Add());
    } else {
      ListField<T>::AddTo(values[i], list);
    }
  }
}

template <typename T>
std::string EncodeOne(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return value;
  } else if constexpr (std::is_same_v<T, ResourceHandle>) {
    tensorflow::ResourceHandleProto proto;
    ResourceHandleToProto(value, &proto);
    return proto.SerializeAsString();
  } else {
    tensorflow::VariantTensorDataProto proto;
    VariantToProto(value, &proto);
    return proto.SerializeAsString();
  }
}

template <typename T>
void EncodeContent(const Tensor& tensor, std::string* content) {
  if constexpr (OwnsMemory(kDataTypeOf<T>)) {
    std::string bytes, one;
    const T* before = nullptr;
    for (const T& value : tensor.flat<T>()) {
      if (before == nullptr || !SameValue(value, *before)) one = EncodeOne(value);
      before = &value;
      codec_internal::AppendVarint(one.size(), content);
      bytes += one;
    }
    *content += bytes;
  } else {
    content->assign(static_cast<const char*>(tensor.raw_data()), tensor.num_bytes());
  }
}

// Smaller values are copied: that costs nothing, and gives them the alignment of other tensors.
constexpr size_t kMinAdoptedBytes = 16 << 10;

// A tensor over the memory of `values`, a string or a list of numbers, which is moved out of its message.
template <typename T, typename Values>
Tensor TensorOver(Values* values, const TensorShape& shape, size_t bytes) {
  const auto kept = std::make_shared<Values>(std::move(*values));
  void* data = const_cast<void*>(static_cast<const void*>(kept->data()));  // there is no other reference
  return Tensor::FromBuffer(kDataTypeOf<T>, shape, Buffer::Wrap(data, bytes, [kept] {}), data);
}

bool HasLists(const tensorflow::TensorProto& p) {
  return p.half_val_size() + p.float_val_size() + p.double_val_size() + p.int_val_size() +
             p.string_val_size() + p.scomplex_val_size() + p.int64_val_size() + p.bool_val_size() +
             p.dcomplex_val_size() + p.uint32_val_size() + p.uint64_val_size() >
         0;
}

template <typename T>
std::optional<Tensor> AdoptAs(tensorflow::TensorProto* proto, const TensorShape& shape) {
  if constexpr (OwnsMemory(kDataTypeOf<T>) || std::is_same_v<T, bool>) {
    return std::nullopt;  // their encoding differs from their bytes in memory
  } else {
    const auto n = static_cast<size_t>(shape.num_elements());
    if (n > SIZE_MAX / sizeof(T) || n * sizeof(T) < kMinAdoptedBytes) return std::nullopt;
    const auto fits = [&](const void* data) { return reinterpret_cast<uintptr_t>(data) % alignof(T) == 0; };
    if (!proto->tensor_content().empty()) {
      if (proto->tensor_content().size() != n * sizeof(T) || HasLists(*proto) ||
          !fits(proto->tensor_content().data())) {
        return std::nullopt;
      }
      return TensorOver<T>(proto->mutable_tensor_content(), shape, n * sizeof(T));
    }
    if constexpr (ListField<T>::kPerElement == 1) {
      auto* list = ListField<T>::Mutable(proto);
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(*list->data())>, T>) {
        if (static_cast<size_t>(list->size()) == n && fits(list->data())) {
          return TensorOver<T>(list, shape, n * sizeof(T));
        }
      }
    }
    return std::nullopt;
  }
}

// Nothing on errors: the copy reports them.
std::optional<Tensor> Adopt(tensorflow::TensorProto* proto, int64_t max_bytes) {
  const auto dtype = static_cast<DataType>(proto->dtype());
  if (!IsKnownDataType(dtype) || IsRefType(dtype)) return std::nullopt;
  const StatusOr<TensorShape> shape = ShapeFromProto(proto->tensor_shape());
  if (!shape.ok() || shape->num_elements() > max_bytes / static_cast<int64_t>(ElementSize(dtype))) {
    return std::nullopt;
  }
  return VisitDataType(dtype, std::optional<Tensor>(),
                       [&]<typename T>() { return AdoptAs<T>(proto, *shape); });
}

void StartProto(const Tensor& tensor, tensorflow::TensorProto* proto) {
  proto->Clear();
  proto->set_dtype(DataTypeToProto(tensor.dtype()));
  ShapeToProto(tensor.shape(), proto->mutable_tensor_shape());
}

}  // namespace

StatusOr<Tensor> TakeTensorFromProto(tensorflow::TensorProto* proto, const TensorDecodeOptions& options) {
  if (std::optional<Tensor> tensor = Adopt(proto, options.max_bytes)) return *std::move(tensor);
  return TensorFromProto(*proto, options);
}

StatusOr<Tensor> TensorFromProto(const tensorflow::TensorProto& proto, const TensorDecodeOptions& options) {
  return Decoder(options).Decode(proto);
}

void TensorToProto(const Tensor& tensor, tensorflow::TensorProto* proto) {
  StartProto(tensor, proto);
  if (tensor.num_elements() == 0 || !tensor.IsInitialized()) return;
  VisitDataType(tensor.dtype(), false, [&]<typename T>() {
    EncodeList<T>(tensor, proto);
    return true;
  });
}

void TensorToProtoContent(const Tensor& tensor, tensorflow::TensorProto* proto) {
  StartProto(tensor, proto);
  if (tensor.num_elements() == 0 || !tensor.IsInitialized()) return;
  VisitDataType(tensor.dtype(), false, [&]<typename T>() {
    EncodeContent<T>(tensor, proto->mutable_tensor_content());
    return true;
  });
}

}  // namespace millrace
