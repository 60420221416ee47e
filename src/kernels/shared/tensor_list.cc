// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/shared/tensor_list.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/tensor_shape.pb.h"

namespace millrace {
namespace {

constexpr int64_t kMostMissing = int64_t{1} << 24;
constexpr int64_t kMostBytes = int64_t{1} << 31;
constexpr int64_t kBytesPerValue = 64;  // of its type and shape, at least

int64_t BytesOf(const Tensor& value) {
  auto bytes = static_cast<int64_t>(value.num_bytes()) + kBytesPerValue;
  if (value.dtype() != DataType::kString) return bytes;
  for (const std::string& text : value.flat<std::string>()) bytes += static_cast<int64_t>(text.size());
  return bytes;
}

void PutVarint(uint64_t value, std::string* out) {
  for (; value > 127; value >>= 7) out->push_back(static_cast<char>(value | 128));
  out->push_back(static_cast<char>(value));
}

bool TakeVarint(std::string_view* in, uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 64 && !in->empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(in->front());
    in->remove_prefix(1);
    *value |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

}  // namespace

RefPtr<TensorList::Node> TensorList::Inner::Copy() const {
  auto copy = MakeRef<Inner>();
  copy->children = children;
  return copy;
}

RefPtr<TensorList::Node> TensorList::Leaf::Copy() const {
  auto copy = MakeRef<Leaf>();
  copy->tensors = tensors;
  copy->present = present;
  return copy;
}

int TensorList::LevelsFor(int64_t size) {
  int levels = 0;
  while (size > int64_t{1} << (kBits * (levels + 1))) ++levels;
  return levels;
}

template <typename T>
T* TensorList::Own(RefPtr<Node>& place) {
  if (place == nullptr) {
    place = MakeRef<T>();
  } else if (!place->RefCountIsOne()) {
    place = place->Copy();
  }
  return static_cast<T*>(place.get());
}

const Tensor* TensorList::Find(int64_t i) const {
  const Node* node = root_.get();
  for (int level = levels_; level > 0 && node != nullptr; --level)
    node = static_cast<const Inner*>(node)->children[i >> (kBits * level) & (kBranches - 1)].get();
  if (node == nullptr) return nullptr;
  const auto* leaf = static_cast<const Leaf*>(node);
  const auto at = static_cast<size_t>(i & (kBranches - 1));
  return (leaf->present >> at & 1) != 0 ? &leaf->tensors[at] : nullptr;
}

Status TensorList::Set(int64_t i, Tensor value) {
  if (value.dtype() == DataType::kVariant) {
    for (const Variant& element : value.flat<Variant>()) {
      if (const auto* list = element.get<TensorList>()) depth_ = std::max(depth_, list->depth_ + 1);
    }
    if (depth_ > kMaxDepth) {
      return errors::InvalidArgument("Tensor lists must not be nested more than ", kMaxDepth, " deep");
    }
  }
  RefPtr<Node>* place = &root_;
  for (int level = levels_; level > 0; --level)
    place = &Own<Inner>(*place)->children[i >> (kBits * level) & (kBranches - 1)];
  Leaf* const leaf = Own<Leaf>(*place);
  const auto at = static_cast<size_t>(i & (kBranches - 1));
  leaf->tensors[at] = std::move(value);
  leaf->present |= 1u << at;
  return Status();
}

// Drops elements from index `size` on, counted from the first element in `place`.
void TensorList::Truncate(RefPtr<Node>& place, int levels, int64_t size) {
  if (place == nullptr || size >= int64_t{1} << (kBits * (levels + 1))) return;
  if (size == 0) {
    place.reset();
    return;
  }
  if (levels == 0) {
    Leaf* const leaf = Own<Leaf>(place);
    for (auto i = static_cast<size_t>(size); i < kBranches; ++i) leaf->tensors[i] = Tensor();
    leaf->present &= (1u << size) - 1;
    return;
  }
  Inner* const inner = Own<Inner>(place);
  const int64_t each = int64_t{1} << (kBits * levels);
  for (int64_t i = size / each; i < kBranches; ++i)
    Truncate(inner->children[static_cast<size_t>(i)], levels - 1, std::max<int64_t>(0, size - i * each));
}

void TensorList::Resize(int64_t size) {
  if (size < size_) Truncate(root_, levels_, size);
  size_ = size;
  const int levels = LevelsFor(size);
  for (; levels_ > levels; --levels_) {
    if (root_ == nullptr) continue;
    RefPtr<Node> first = static_cast<Inner*>(root_.get())->children[0];
    root_ = std::move(first);
  }
  for (; levels_ < levels; ++levels_) {
    if (root_ == nullptr) continue;
    auto above = MakeRef<Inner>();
    above->children[0] = std::move(root_);
    root_ = std::move(above);
  }
}

Status TensorList::Visit(const Node* node, int levels, int64_t first,
                         const std::function<Status(int64_t, const Tensor&)>& f) {
  if (node == nullptr) return Status();
  for (size_t i = 0; i < kBranches; ++i) {
    const int64_t at = first + (static_cast<int64_t>(i) << (kBits * levels));
    if (levels > 0) {
      MR_RETURN_IF_ERROR(Visit(static_cast<const Inner*>(node)->children[i].get(), levels - 1, at, f));
    } else if (const auto* leaf = static_cast<const Leaf*>(node); (leaf->present >> i & 1) != 0) {
      MR_RETURN_IF_ERROR(f(at, leaf->tensors[i]));
    }
  }
  return Status();
}

Status TensorList::ForEach(const std::function<Status(int64_t, const Tensor&)>& f) const {
  return Visit(root_.get(), levels_, 0, f);
}

StatusOr<TensorList> TensorList::Map(const std::function<StatusOr<Tensor>(const Tensor&)>& f) const {
  TensorList out(element_dtype, element_shape);
  out.max_num_elements = max_num_elements;
  out.Resize(size_);
  MR_RETURN_IF_ERROR(ForEach([&](int64_t i, const Tensor& tensor) -> Status {
    MR_ASSIGN_OR_RETURN(Tensor made, f(tensor));
    return out.Set(i, std::move(made));
  }));
  return out;
}

StatusOr<PartialShape> TensorList::MergedShape() const {
  PartialShape merged = element_shape;
  if (merged.IsFullyDefined()) return merged;
  MR_RETURN_IF_ERROR(ForEach([&](int64_t, const Tensor& tensor) -> Status {
    MR_ASSIGN_OR_RETURN(merged, merged.MergeWith(tensor.shape()));
    return Status();
  }));
  return merged;
}

Status TensorList::Spend(bool bytes, int64_t* left) const {
  return ForEach([&](int64_t, const Tensor& value) -> Status {
    const bool handles = value.dtype() == DataType::kVariant;
    *left -= bytes ? BytesOf(value) : 1 + (handles ? value.num_elements() : 0);
    if (*left < 0) return errors::ResourceExhausted("Lists within a tensor list have too many elements");
    if (!handles) return Status();
    for (const Variant& element : value.flat<Variant>()) {
      if (const auto* list = element.get<TensorList>()) MR_RETURN_IF_ERROR(list->Spend(bytes, left));
    }
    return Status();
  });
}

// The number of elements without a value and their indices, type, maximum size, shape.
VariantData TensorList::EncodeVariant() const {
  VariantData data;
  int64_t left = kMostBytes;
  if (!Spend(true, &left).ok()) return data;
  ForEach([&](int64_t, const Tensor& tensor) {
    data.tensors.push_back(tensor);
    return Status();
  }).IgnoreError("nothing fails");
  const auto values = static_cast<int64_t>(data.tensors.size());
  if (size_ - values > kMostMissing) return VariantData();
  PutVarint(static_cast<uint64_t>(size_ - values), &data.metadata);
  for (int64_t i = 0; size_ > values && i < size_; ++i) {
    if (Find(i) == nullptr) PutVarint(static_cast<uint64_t>(i), &data.metadata);
  }
  PutVarint(static_cast<uint64_t>(element_dtype), &data.metadata);
  PutVarint(static_cast<uint64_t>(int64_t{max_num_elements}), &data.metadata);
  tensorflow::TensorShapeProto shape;
  ShapeToProto(element_shape, &shape);
  shape.AppendToString(&data.metadata);
  return data;
}

StatusOr<TensorList> TensorList::DecodeVariant(VariantData data) {
  const auto broken = [] { return errors::InvalidArgument("The metadata of a tensor list are broken"); };
  std::string_view rest = data.metadata;
  uint64_t missing = 0, dtype = 0, most = 0;
  if (!TakeVarint(&rest, &missing) || missing > rest.size()) return broken();
  std::vector<uint64_t> absent(missing);
  for (uint64_t& index : absent) {
    if (!TakeVarint(&rest, &index)) return broken();
  }
  if (!TakeVarint(&rest, &dtype) || !TakeVarint(&rest, &most)) return broken();
  tensorflow::TensorShapeProto shape;
  if (dtype > INT32_MAX || !IsKnownDataType(static_cast<DataType>(dtype)) ||
      !shape.ParseFromArray(rest.data(), static_cast<int>(rest.size()))) {
    return broken();
  }
  TensorList list;
  list.element_dtype = static_cast<DataType>(dtype);
  list.max_num_elements = static_cast<int32_t>(most);
  MR_ASSIGN_OR_RETURN(list.element_shape, PartialShapeFromProto(shape));
  const uint64_t size = missing + data.tensors.size();
  if (size > static_cast<uint64_t>(kMaxSize)) return broken();
  list.Resize(static_cast<int64_t>(size));
  size_t next = 0, tensor = 0;
  for (uint64_t i = 0; i < size; ++i) {
    if (next < absent.size() && absent[next] == i) {
      ++next;
      continue;
    }
    if (tensor == data.tensors.size()) return broken();
    if (data.tensors[tensor].dtype() != list.element_dtype) return broken();
    MR_RETURN_IF_ERROR(list.Set(static_cast<int64_t>(i), std::move(data.tensors[tensor++])));
  }
  return list;
}

}  // namespace millrace
