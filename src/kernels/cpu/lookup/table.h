// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/mutex.h"
#include "kernel/kernel_context.h"
#include "kernel/resource.h"
#include "millrace/tensor.h"

namespace millrace {

// Rows of keys and of values, found by key. A key is one element, or a vector of elements: int32, int64 or
// strings. Values are of any type. Not thread-safe.
class TableRows {
 public:
  TableRows(DataType key_dtype, const TensorShape& key_shape, DataType value_dtype,
            const TensorShape& value_shape);

  int64_t size() const { return size_; }
  // The row of key `i` of `keys`; -1: none.
  int64_t Find(const Tensor& keys, int64_t i) const;
  // Sets the value of key `i` to value `i`.
  Status Put(const Tensor& keys, const Tensor& values, int64_t i);
  void Remove(const Tensor& keys, int64_t i);
  void Clear();
  const void* ValueAt(int64_t row) const;
  // Copies all keys and values, in order of insertion unless some were removed.
  void CopyKeys(void* to) const;
  void CopyValues(void* to) const;
  int64_t key_elements() const { return key_elements_; }
  int64_t value_elements() const { return value_elements_; }

 private:
  bool ScalarInt() const { return key_elements_ == 1 && key_dtype_ != DataType::kString; }
  int64_t IntKey(const Tensor& keys, int64_t i) const;
  // The bytes of a key; those of strings with their lengths.
  std::string TextKey(const Tensor& keys, int64_t i) const;
  Status Grow();
  void CopyRow(int64_t from, int64_t to);

  const DataType key_dtype_, value_dtype_;
  const TensorShape key_shape_, value_shape_;
  const int64_t key_elements_, value_elements_;
  int64_t size_ = 0, capacity_ = 0;
  Tensor keys_, values_;  // of `capacity_` rows
  std::unordered_map<int64_t, int64_t> by_int_;
  std::unordered_map<std::string, int64_t, StringHash, std::equal_to<>> by_text_;
};

// A map from keys to values that persists between steps. Thread-safe. An operation that returns an error has
// changed nothing.
class LookupTable : public Resource {
 public:
  struct Spec {
    std::string name;
    DataType key_dtype = DataType::kInvalid, value_dtype = DataType::kInvalid;
    TensorShape key_shape, value_shape;
  };
  const Spec& spec() const { return spec_; }
  virtual int64_t size() const MR_EXCLUDES(mu_);
  // REQUIRES: CheckFind passed. Writes the value of each key, or the default.
  virtual Status Find(const Tensor& keys, const Tensor& default_value, Tensor& values) const MR_EXCLUDES(mu_);
  virtual Status Insert(const Tensor& keys, const Tensor& values) MR_EXCLUDES(mu_);
  virtual Status Remove(const Tensor& keys) MR_EXCLUDES(mu_);
  // Replaces everything.
  virtual Status Import(const Tensor& keys, const Tensor& values) MR_EXCLUDES(mu_);
  virtual Status Export(KernelContext& context) const MR_EXCLUDES(mu_);
  // Fills a table that can't be changed otherwise, once; repeating it with as many entries is not an error.
  virtual Status Initialize(const Tensor& keys, const Tensor& values);
  std::string DebugString() const override;

  Status CheckKeys(const Tensor& keys) const;
  Status CheckFind(const Tensor& keys, const Tensor& default_value) const;
  Status CheckEntries(const Tensor& keys, const Tensor& values) const;
  int64_t NumKeys(const Tensor& keys) const { return keys.num_elements() / spec_.key_shape.num_elements(); }

 protected:
  explicit LookupTable(Spec spec)
      : spec_(std::move(spec)),
        rows_(spec_.key_dtype, spec_.key_shape, spec_.value_dtype, spec_.value_shape) {}
  Status ExportRows(KernelContext& context, int64_t buckets, const Tensor* filler) const
      MR_REQUIRES_SHARED(mu_);

  const Spec spec_;
  mutable SharedMutex mu_;
  TableRows rows_ MR_GUARDED_BY(mu_);
};

// Filled once, from tensors or a file.
class StaticTable final : public LookupTable {
 public:
  explicit StaticTable(Spec spec) : LookupTable(std::move(spec)) {}
  Status Find(const Tensor& keys, const Tensor& default_value, Tensor& values) const override;
  Status Insert(const Tensor& keys, const Tensor& values) override;
  Status Remove(const Tensor& keys) override;
  Status Import(const Tensor& keys, const Tensor& values) override;
  Status Export(KernelContext& context) const override;
  Status Initialize(const Tensor& keys, const Tensor& values) override;

 private:
  bool initialized_ MR_GUARDED_BY(mu_) = false;
};

class MutableTable final : public LookupTable {
 public:
  explicit MutableTable(Spec spec) : LookupTable(std::move(spec)) {}
};

// A mutable table with a key that no entry may have. Exports look like the buckets of TensorFlow's open
// addressing: a power of two of them, with the empty key in unused ones.
class DenseTable final : public LookupTable {
 public:
  // Neither key can be in the table. Without `deleted_key`, which may be null, there is only the empty key.
  static StatusOr<RefPtr<DenseTable>> Make(Spec spec, const Tensor& empty_key, const Tensor* deleted_key,
                                           int64_t buckets, float max_load);
  Status Find(const Tensor& keys, const Tensor& default_value, Tensor& values) const override;
  Status Insert(const Tensor& keys, const Tensor& values) override;
  Status Remove(const Tensor& keys) override;
  Status Import(const Tensor& keys, const Tensor& values) override;
  Status Export(KernelContext& context) const override;

 private:
  DenseTable(Spec spec, const Tensor& empty_key, int64_t buckets, float max_load);
  bool IsMarked(const Tensor& keys, int64_t i) const { return marked_.Find(keys, i) >= 0; }
  Status RefuseMarkedKeys(const Tensor& keys) const;
  void MakeRoom(int64_t entries) MR_REQUIRES(mu_);

  const Tensor empty_key_;
  const float max_load_;
  const int64_t initial_buckets_;
  TableRows marked_;  // has the empty key, then the deleted one; constant after construction
  int64_t buckets_ MR_GUARDED_BY(mu_);
};

// The columns of a text file that a table uses.
struct TextColumns {
  static constexpr int64_t kLineNumber = -1, kWholeLine = -2;
  int64_t key = kWholeLine;
  int64_t value = kLineNumber;
  int64_t lines = -1;  // number of lines to read; -1: all
  char delimiter = '\t';
};
Status InitializeFromTextFile(LookupTable& table, const std::string& path, const TextColumns& columns);

}  // namespace millrace
