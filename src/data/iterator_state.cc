// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/iterator_state.h"

#include "base/strings.h"
#include "data/dataset.h"

namespace millrace::data {

// The metadata are the keys, one per line; each key's tensor has the same index.
VariantData IteratorState::EncodeVariant() const {
  VariantData data;
  for (const auto& [key, value] : values) {
    data.metadata += key + "\n";
    data.tensors.push_back(value);
  }
  return data;
}

StatusOr<IteratorState> IteratorState::DecodeVariant(VariantData data) {
  IteratorState state;
  std::string_view keys = data.metadata;
  for (Tensor& value : data.tensors) {
    const size_t end = keys.find('\n');
    if (end == std::string_view::npos) break;
    state.values.emplace(keys.substr(0, end), std::move(value));
    keys.remove_prefix(end + 1);
  }
  if (!keys.empty() || state.values.size() != data.tensors.size()) {
    return errors::DataLoss("The saved state of an iterator has ", data.tensors.size(),
                            " values, which do not match its keys");
  }
  return state;
}

std::string StateWriter::Key(std::string_view key) const { return StrCat(scope_, key); }

void StateWriter::Write(std::string_view key, Tensor value) {
  state_.values.insert_or_assign(Key(key), std::move(value));
}

void StateWriter::WriteElement(std::string_view key, const std::vector<Tensor>& element) {
  Write(StrCat(key, ".size"), static_cast<int64_t>(element.size()));
  for (size_t i = 0; i < element.size(); ++i) Write(StrCat(key, ".", i), element[i]);
}

void StateWriter::WriteStatus(std::string_view key, const Status& status) {
  Write(StrCat(key, ".code"), static_cast<int64_t>(status.code()));
  if (!status.ok()) Write(StrCat(key, ".message"), std::string_view(status.message()));
}

Status StateWriter::Save(Context& ctx, std::string_view name, Iterator* iterator) {
  Write(StrCat(name, ".there"), int64_t{iterator != nullptr});
  if (iterator == nullptr) return Status();
  const size_t outer = scope_.size();
  scope_ += StrCat(name, "/");
  Status status = iterator->Save(ctx, *this);
  scope_.resize(outer);
  return status;
}

bool StateReader::Has(std::string_view key) const { return state_.values.contains(StrCat(scope_, key)); }

StatusOr<Tensor> StateReader::Value(std::string_view key) const {
  const std::string full = StrCat(scope_, key);
  const auto found = state_.values.find(full);
  if (found == state_.values.end()) {
    return errors::DataLoss("The saved state of the iterator has no '", full,
                            "': was it of another dataset?");
  }
  return found->second;
}

StatusOr<int64_t> StateReader::Int(std::string_view key) const {
  MR_ASSIGN_OR_RETURN(const Tensor value, Value(key));
  if (value.dtype() == DataType::kInt64 && value.num_elements() == 1) return value.scalar<int64_t>();
  return errors::DataLoss("'", scope_, key, "' in the saved state of the iterator is not a number");
}

StatusOr<int64_t> StateReader::Count(std::string_view key, int64_t limit) const {
  MR_ASSIGN_OR_RETURN(const int64_t value, Int(key));
  if (value >= 0 && value <= limit) return value;
  return errors::DataLoss("'", scope_, key, "' in the saved state of the iterator is ", value);
}

StatusOr<std::string> StateReader::Text(std::string_view key) const {
  MR_ASSIGN_OR_RETURN(const Tensor value, Value(key));
  if (value.dtype() == DataType::kString && value.num_elements() == 1) return value.scalar<std::string>();
  return errors::DataLoss("'", scope_, key, "' in the saved state of the iterator is not text");
}

StatusOr<std::vector<Tensor>> StateReader::ReadElement(std::string_view key) const {
  MR_ASSIGN_OR_RETURN(const int64_t size, Count(StrCat(key, ".size")));
  std::vector<Tensor> element;
  for (int64_t i = 0; i < size; ++i) {
    MR_ASSIGN_OR_RETURN(Tensor value, Value(StrCat(key, ".", i)));
    element.push_back(std::move(value));
  }
  return element;
}

Status StateReader::ReadStatus(std::string_view key, Status* status) const {
  MR_ASSIGN_OR_RETURN(const int64_t code, Count(StrCat(key, ".code"), 16));
  *status = Status();
  if (code == 0) return Status();
  MR_ASSIGN_OR_RETURN(std::string message, Text(StrCat(key, ".message")));
  *status = Status(static_cast<ErrorCode>(code), std::move(message));
  return Status();
}

bool StateReader::HasIterator(std::string_view name) const {
  const auto there = Int(StrCat(name, ".there"));
  return there.ok() && *there == 1;
}

Status StateReader::Restore(Context& ctx, std::string_view name, Iterator& iterator) const {
  const StateReader inner(state_, StrCat(scope_, name, "/"));
  return iterator.Restore(ctx, inner);
}

}  // namespace millrace::data
