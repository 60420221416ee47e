// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/status.h"
#include "millrace/tensor.h"
#include "tensor/variant.h"

namespace millrace::data {

class Iterator;
struct Context;

// The saved state of an iterator: tensors by key. A value that a variant tensor holds.
struct IteratorState {
  static constexpr std::string_view kVariantTypeName = "tensorflow::Iterator";
  std::map<std::string, Tensor, std::less<>> values;

  VariantData EncodeVariant() const;
  // DataLoss for bytes that no iterator has written.
  static StatusOr<IteratorState> DecodeVariant(VariantData data);
};

// Builds a state. A stage may use any keys: those of its inputs get a prefix of their
// own.
class StateWriter {
 public:
  explicit StateWriter(IteratorState* state) : state_(*state) {}
  void Write(std::string_view key, int64_t value) { Write(key, Tensor::Scalar(value)); }
  void Write(std::string_view key, std::string_view value) { Write(key, Tensor::Scalar(value)); }
  void Write(std::string_view key, Tensor value);
  void WriteElement(std::string_view key, const std::vector<Tensor>& element);
  void WriteStatus(std::string_view key, const Status& status);
  // The state of another iterator; null: records that there is none.
  Status Save(Context& ctx, std::string_view name, Iterator* iterator);

 private:
  std::string Key(std::string_view key) const;
  IteratorState& state_;
  std::string scope_;
};

// Reads it. DataLoss names the key that is missing or has another type.
class StateReader {
 public:
  explicit StateReader(const IteratorState& state, std::string scope = "")
      : state_(state), scope_(std::move(scope)) {}
  bool Has(std::string_view key) const;
  StatusOr<int64_t> Int(std::string_view key) const;
  // In [0, limit].
  StatusOr<int64_t> Count(std::string_view key, int64_t limit = INT64_MAX) const;
  StatusOr<std::string> Text(std::string_view key) const;
  StatusOr<Tensor> Value(std::string_view key) const;
  StatusOr<std::vector<Tensor>> ReadElement(std::string_view key) const;
  // The error that was written; `read` is set if it could be read.
  Status ReadStatus(std::string_view key, Status* status) const;
  // Whether Save wrote an iterator and not null.
  bool HasIterator(std::string_view name) const;
  Status Restore(Context& ctx, std::string_view name, Iterator& iterator) const;

 private:
  const IteratorState& state_;
  const std::string scope_;
};

}  // namespace millrace::data
