// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/lookup/table.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/move.h"

namespace millrace {
namespace {

void CopyElements(DataType dtype, const void* from, void* to, int64_t n) {
  cpu::SerialParallel serial;
  if (n > 0) MoveElements(dtype, from, to, n, serial);
}

StatusOr<TensorShape> WithRows(int64_t rows, const TensorShape& shape) {
  TensorShape out;
  MR_RETURN_IF_ERROR(out.TryAddDim(rows));
  for (const int64_t size : shape.dims()) MR_RETURN_IF_ERROR(out.TryAddDim(size));
  return out;
}

}  // namespace

TableRows::TableRows(DataType key_dtype, const TensorShape& key_shape, DataType value_dtype,
                     const TensorShape& value_shape)
    : key_dtype_(key_dtype),
      value_dtype_(value_dtype),
      key_shape_(key_shape),
      value_shape_(value_shape),
      key_elements_(key_shape.num_elements()),
      value_elements_(value_shape.num_elements()) {}

int64_t TableRows::IntKey(const Tensor& keys, int64_t i) const { return IntValue(keys, i); }

std::string TableRows::TextKey(const Tensor& keys, int64_t i) const {
  std::string text;
  if (key_dtype_ == DataType::kString) {
    const std::string* first = keys.data<std::string>() + i * key_elements_;
    if (key_elements_ == 1) return *first;
    for (int64_t k = 0; k < key_elements_; ++k) {
      const uint64_t length = first[k].size();
      text.append(reinterpret_cast<const char*>(&length), sizeof(length));
      text += first[k];
    }
    return text;
  }
  const size_t bytes = static_cast<size_t>(key_elements_) * ElementSize(key_dtype_);
  text.assign(static_cast<const char*>(keys.raw_data()) + static_cast<size_t>(i) * bytes, bytes);
  return text;
}

int64_t TableRows::Find(const Tensor& keys, int64_t i) const {
  if (ScalarInt()) {
    const auto at = by_int_.find(IntKey(keys, i));
    return at == by_int_.end() ? -1 : at->second;
  }
  if (key_elements_ == 1) {  // without a copy of the string
    const auto at = by_text_.find(std::string_view(keys.data<std::string>()[i]));
    return at == by_text_.end() ? -1 : at->second;
  }
  const auto at = by_text_.find(TextKey(keys, i));
  return at == by_text_.end() ? -1 : at->second;
}

Status TableRows::Grow() {
  const int64_t capacity = std::max<int64_t>(16, 2 * capacity_);
  MR_ASSIGN_OR_RETURN(const TensorShape key_rows, WithRows(capacity, key_shape_));
  MR_ASSIGN_OR_RETURN(const TensorShape value_rows, WithRows(capacity, value_shape_));
  MR_ASSIGN_OR_RETURN(Tensor keys, Tensor::Allocate(key_dtype_, key_rows));
  MR_ASSIGN_OR_RETURN(Tensor values, Tensor::Allocate(value_dtype_, value_rows));
  CopyKeys(keys.raw_data());
  CopyValues(values.raw_data());
  keys_ = std::move(keys);
  values_ = std::move(values);
  capacity_ = capacity;
  return Status();
}

Status TableRows::Put(const Tensor& keys, const Tensor& values, int64_t i) {
  int64_t row = Find(keys, i);
  if (row < 0) {
    if (size_ == capacity_) MR_RETURN_IF_ERROR(Grow());
    row = size_++;
    if (ScalarInt()) {
      by_int_.emplace(IntKey(keys, i), row);
    } else {
      by_text_.emplace(TextKey(keys, i), row);
    }
    CopyElements(key_dtype_, ElementAt(keys.raw_data(), key_dtype_, i * key_elements_),
                 ElementAt(keys_.raw_data(), key_dtype_, row * key_elements_), key_elements_);
  }
  CopyElements(value_dtype_, ElementAt(values.raw_data(), value_dtype_, i * value_elements_),
               ElementAt(values_.raw_data(), value_dtype_, row * value_elements_), value_elements_);
  return Status();
}

void TableRows::CopyRow(int64_t from, int64_t to) {
  CopyElements(key_dtype_, ElementAt(keys_.raw_data(), key_dtype_, from * key_elements_),
               ElementAt(keys_.raw_data(), key_dtype_, to * key_elements_), key_elements_);
  CopyElements(value_dtype_, ValueAt(from), ElementAt(values_.raw_data(), value_dtype_, to * value_elements_),
               value_elements_);
}

void TableRows::Remove(const Tensor& keys, int64_t i) {
  const int64_t row = Find(keys, i);
  if (row < 0) return;
  if (ScalarInt()) {
    by_int_.erase(IntKey(keys, i));
  } else {
    by_text_.erase(TextKey(keys, i));
  }
  // The last row is moved to the free place.
  const int64_t last = --size_;
  if (row == last) return;
  if (ScalarInt()) {
    by_int_[IntKey(keys_, last)] = row;
  } else {
    by_text_[TextKey(keys_, last)] = row;
  }
  CopyRow(last, row);
}

void TableRows::Clear() {
  by_int_.clear();
  by_text_.clear();
  size_ = capacity_ = 0;
  keys_ = Tensor();
  values_ = Tensor();
}

const void* TableRows::ValueAt(int64_t row) const {
  return ElementAt(values_.raw_data(), value_dtype_, row * value_elements_);
}

void TableRows::CopyKeys(void* to) const {
  CopyElements(key_dtype_, keys_.raw_data(), to, size_ * key_elements_);
}

void TableRows::CopyValues(void* to) const {
  CopyElements(value_dtype_, values_.raw_data(), to, size_ * value_elements_);
}

Status LookupTable::CheckKeys(const Tensor& keys) const {
  if (keys.dtype() != spec_.key_dtype) {
    return errors::InvalidArgument("Key must be type ", DataTypeName(spec_.key_dtype), " but got ",
                                   DataTypeName(keys.dtype()));
  }
  const auto have = keys.shape().dims();
  const auto want = spec_.key_shape.dims();
  if (have.size() < want.size() || !std::equal(want.begin(), want.end(), have.end() - want.size())) {
    return errors::InvalidArgument("Input key shape ", keys.shape(), " must end with the table's key shape ",
                                   spec_.key_shape);
  }
  return Status();
}

Status LookupTable::CheckFind(const Tensor& keys, const Tensor& default_value) const {
  MR_RETURN_IF_ERROR(CheckKeys(keys));
  if (default_value.dtype() != spec_.value_dtype) {
    return errors::InvalidArgument("Value must be type ", DataTypeName(spec_.value_dtype), " but got ",
                                   DataTypeName(default_value.dtype()));
  }
  if (default_value.shape() != spec_.value_shape) {
    return errors::InvalidArgument("Expected shape ", spec_.value_shape, " for default value, got ",
                                   default_value.shape());
  }
  return Status();
}

Status LookupTable::CheckEntries(const Tensor& keys, const Tensor& values) const {
  MR_RETURN_IF_ERROR(CheckKeys(keys));
  if (values.dtype() != spec_.value_dtype) {
    return errors::InvalidArgument("Value must be type ", DataTypeName(spec_.value_dtype), " but got ",
                                   DataTypeName(values.dtype()));
  }
  TensorShape expected = keys.shape();
  for (int i = 0; i < spec_.key_shape.rank(); ++i) expected.RemoveDim(expected.rank() - 1);
  for (const int64_t size : spec_.value_shape.dims()) MR_RETURN_IF_ERROR(expected.TryAddDim(size));
  if (values.shape() != expected) {
    return errors::InvalidArgument("Expected shape ", expected, " for value, got ", values.shape());
  }
  return Status();
}

int64_t LookupTable::size() const {
  ReaderLock lock(mu_);
  return rows_.size();
}

Status LookupTable::Find(const Tensor& keys, const Tensor& default_value, Tensor& values) const {
  const int64_t n = NumKeys(keys);
  const int64_t row_elements = spec_.value_shape.num_elements();
  ReaderLock lock(mu_);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t row = rows_.Find(keys, i);
    CopyElements(spec_.value_dtype, row < 0 ? default_value.raw_data() : rows_.ValueAt(row),
                 ElementAt(values.raw_data(), spec_.value_dtype, i * row_elements), row_elements);
  }
  return Status();
}

Status LookupTable::Insert(const Tensor& keys, const Tensor& values) {
  WriterLock lock(mu_);
  for (int64_t i = 0; i < NumKeys(keys); ++i) MR_RETURN_IF_ERROR(rows_.Put(keys, values, i));
  return Status();
}

Status LookupTable::Remove(const Tensor& keys) {
  WriterLock lock(mu_);
  for (int64_t i = 0; i < NumKeys(keys); ++i) rows_.Remove(keys, i);
  return Status();
}

Status LookupTable::Import(const Tensor& keys, const Tensor& values) {
  WriterLock lock(mu_);
  rows_.Clear();
  for (int64_t i = 0; i < NumKeys(keys); ++i) MR_RETURN_IF_ERROR(rows_.Put(keys, values, i));
  return Status();
}

Status LookupTable::Export(KernelContext& context) const {
  ReaderLock lock(mu_);
  return ExportRows(context, rows_.size(), nullptr);
}

Status LookupTable::ExportRows(KernelContext& context, int64_t buckets, const Tensor* filler) const {
  MR_ASSIGN_OR_RETURN(const TensorShape key_shape, WithRows(buckets, spec_.key_shape));
  MR_ASSIGN_OR_RETURN(const TensorShape value_shape, WithRows(buckets, spec_.value_shape));
  MR_ASSIGN_OR_RETURN(Tensor * keys, context.AllocateOutput(0, key_shape));
  MR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(1, value_shape));
  rows_.CopyKeys(keys->raw_data());
  rows_.CopyValues(values->raw_data());
  if (filler == nullptr) return Status();
  const int64_t key_elements = rows_.key_elements();
  for (int64_t i = rows_.size(); i < buckets; ++i) {
    CopyElements(spec_.key_dtype, filler->raw_data(),
                 ElementAt(keys->raw_data(), spec_.key_dtype, i * key_elements), key_elements);
  }
  const int64_t value_elements = rows_.value_elements();
  const int64_t unused = (buckets - rows_.size()) * value_elements;
  cpu::SerialParallel serial;
  if (unused > 0) {
    ZeroElements(spec_.value_dtype,
                 ElementAt(values->raw_data(), spec_.value_dtype, rows_.size() * value_elements), unused,
                 serial);
  }
  return Status();
}

Status LookupTable::Initialize(const Tensor& /*keys*/, const Tensor& /*values*/) {
  return errors::InvalidArgument("Table ", spec_.name, " is not initializable");
}

std::string LookupTable::DebugString() const {
  return StrCat("table of ", DataTypeName(spec_.key_dtype), " to ", DataTypeName(spec_.value_dtype), ", ",
                size(), " entries");
}

}  // namespace millrace
