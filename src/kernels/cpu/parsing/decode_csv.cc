// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Records of comma-separated values, RFC 4180, with a tensor for each column.
#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/number_text.h"

namespace millrace {
namespace {

// Splits one record into fields.
class CsvReader {
 public:
  CsvReader(std::string_view record, char delimiter, bool quotes)
      : in_(record), delimiter_(delimiter), quotes_(quotes) {}

  StatusOr<std::vector<std::string>> Fields() {
    std::vector<std::string> fields;
    while (at_ < in_.size()) {
      if (IsLineEnd(in_[at_])) {
        ++at_;
        continue;
      }
      std::string field;
      const bool quoted = quotes_ && in_[at_] == '"';
      MR_RETURN_IF_ERROR(quoted ? ReadQuoted(&field) : ReadPlain(&field));
      fields.push_back(std::move(field));
    }
    if (!in_.empty() && in_.back() == delimiter_) fields.emplace_back();
    return fields;
  }

 private:
  static bool IsLineEnd(char c) { return c == '\n' || c == '\r'; }

  Status ReadPlain(std::string* field) {
    for (; at_ < in_.size() && in_[at_] != delimiter_; ++at_) {
      if ((quotes_ && in_[at_] == '"') || IsLineEnd(in_[at_])) {
        return errors::InvalidArgument("Unquoted fields cannot have quotes/CRLFs inside");
      }
      *field += in_[at_];
    }
    ++at_;
    return Status();
  }

  // A quote in a quoted field is doubled.
  Status ReadQuoted(std::string* field) {
    ++at_;
    while (at_ + 1 < in_.size() && (in_[at_] != '"' || in_[at_ + 1] != delimiter_)) {
      if (in_[at_] == '"') {
        if (in_[at_ + 1] != '"') {
          return errors::InvalidArgument("Quote inside a string has to be escaped by another quote");
        }
        ++at_;
      }
      *field += in_[at_++];
    }
    if (at_ >= in_.size() || in_[at_] != '"') {
      return errors::InvalidArgument("Quoted field has to end with quote followed by delim or end");
    }
    at_ += 2;
    return Status();
  }

  const std::string_view in_;
  const char delimiter_;
  const bool quotes_;
  size_t at_ = 0;
};

class DecodeCsvKernel final : public OpKernel {
 public:
  explicit DecodeCsvKernel(KernelConstruction& c)
      : OpKernel(c),
        quotes_(c.Attr<bool>("use_quote_delim")),
        na_value_(c.Attr<std::string>("na_value")),
        columns_(c.Attr<std::vector<int64_t>>("select_cols")) {
    const auto delimiter = c.Attr<std::string>("field_delim");
    if (delimiter.size() == 1) delimiter_ = delimiter[0];
    const Status status = CheckAttrs(delimiter);
    if (!status.ok()) c.SetError(status);
  }
  Status Compute(KernelContext& context) override {
    const Tensor& records = context.input(0);
    for (int i = 0; i < num_outputs(); ++i) {
      const int64_t n = context.input(i + 1).num_elements();
      if (n <= 1) continue;
      return errors::InvalidArgument("There should only be 1 default per field but field ", i, " has ", n);
    }
    std::vector<Tensor*> columns;
    for (int i = 0; i < num_outputs(); ++i) {
      MR_ASSIGN_OR_RETURN(Tensor* const column, context.AllocateOutput(i, records.shape()));
      columns.push_back(column);
    }
    for (int64_t r = 0; r < records.num_elements(); ++r) {
      MR_ASSIGN_OR_RETURN(std::vector<std::string> fields,
                          CsvReader(records.data<std::string>()[r], delimiter_, quotes_).Fields());
      if (!columns_.empty()) Select(&fields);
      if (fields.size() != columns.size()) {
        return errors::InvalidArgument("Expect ", columns.size(), " fields but have ", fields.size(),
                                       " in record ", r);
      }
      for (size_t f = 0; f < fields.size(); ++f) {
        MR_RETURN_IF_ERROR(SetField(&fields[f], context.input(static_cast<int>(f) + 1), f, r, columns[f]));
      }
    }
    return Status();
  }

 private:
  Status CheckAttrs(const std::string& delimiter) const {
    if (delimiter.size() != 1) return errors::InvalidArgument("field_delim should be only 1 char");
    if (columns_.empty()) return Status();
    if (columns_.size() != static_cast<size_t>(num_outputs())) {
      return errors::InvalidArgument("select_cols should match output size");
    }
    if (std::adjacent_find(columns_.begin(), columns_.end(), std::greater_equal<>()) != columns_.end()) {
      return errors::InvalidArgument("select_cols should be strictly increasing indices");
    }
    if (columns_[0] < 0) return errors::InvalidArgument("select_cols should be non-negative indices");
    return Status();
  }

  // Keeps the selected columns that exist.
  void Select(std::vector<std::string>* fields) const {
    std::vector<std::string> selected;
    for (const int64_t column : columns_) {
      if (column >= static_cast<int64_t>(fields->size())) break;
      selected.push_back(std::move((*fields)[static_cast<size_t>(column)]));
    }
    *fields = std::move(selected);
  }

  Status SetField(std::string* field, const Tensor& fallback, size_t f, int64_t r, Tensor* column) const {
    const bool missing = field->empty() || *field == na_value_;
    if (missing && fallback.num_elements() != 1) {
      return errors::InvalidArgument("Field ", f, " is required but missing in record ", r, "!");
    }
    switch (column->dtype()) {
      case DataType::kInt32:
        return SetNumber<int32_t>(missing, *field, fallback, f, r, column);
      case DataType::kInt64:
        return SetNumber<int64_t>(missing, *field, fallback, f, r, column);
      case DataType::kFloat:
        return SetNumber<float>(missing, *field, fallback, f, r, column);
      case DataType::kDouble:
        return SetNumber<double>(missing, *field, fallback, f, r, column);
      case DataType::kString:
        if (missing) {
          column->data<std::string>()[r] = fallback.data<std::string>()[0];
        } else {
          column->data<std::string>()[r] = std::move(*field);
        }
        return Status();
      default:
        return errors::InvalidArgument("csv: data type ", DataTypeName(column->dtype()),
                                       " not supported in field ", f);
    }
  }

  template <typename T>
  static Status SetNumber(bool missing, const std::string& field, const Tensor& fallback, size_t f, int64_t r,
                          Tensor* column) {
    const std::optional<T> value = missing ? fallback.data<T>()[0] : ParseNumber<T>(field);
    if (!value) {
      return errors::InvalidArgument("Field ", f, " in record ", r, " is not a valid ",
                                     DataTypeName(column->dtype()), ": ", field);
    }
    column->data<T>()[r] = *value;
    return Status();
  }

  const bool quotes_;
  const std::string na_value_;
  const std::vector<int64_t> columns_;  // empty: all
  char delimiter_ = ',';
};

}  // namespace

void RegisterDecodeCsvKernels(KernelRegistry& registry) {
  registry.Register<DecodeCsvKernel>(KernelDef("DecodeCSV"));
}

}  // namespace millrace
