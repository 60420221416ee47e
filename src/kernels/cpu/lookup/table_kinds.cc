// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The differences between static, mutable and dense tables.
#include <algorithm>

#include "base/env.h"
#include "base/strings.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/lookup/table.h"
#include "kernels/cpu/move.h"

namespace millrace {
namespace {

// The size limit of vocabulary files, which are read as a whole.
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 32;

Status NotSupported(std::string_view what) {
  return errors::Unimplemented(what, " not supported by InitializableLookupTable implementations");
}

// One element as text for messages.
std::string ElementText(DataType dtype, const void* at) {
  return VisitDataType(dtype, std::string("?"), [&]<typename T>() -> std::string {
    const T& value = *static_cast<const T*>(at);
    if constexpr (std::is_same_v<T, std::string>) {
      return value;
    } else if constexpr (std::is_same_v<T, bool>) {
      return value ? "1" : "0";
    } else if constexpr (kIsSmallFloat<T>) {
      return StrCat(static_cast<float>(value));
    } else if constexpr (std::is_integral_v<T>) {
      return std::to_string(value);
    } else if constexpr (std::is_floating_point_v<T>) {
      return StrCat(value);
    } else {
      return "?";
    }
  });
}

bool ElementsEqual(DataType dtype, const void* a, const void* b) {
  return VisitDataType(dtype, false, [&]<typename T>() {
    if constexpr (std::is_same_v<T, std::string> || std::is_arithmetic_v<T> || kIsComplex<T>) {
      return *static_cast<const T*>(a) == *static_cast<const T*>(b);
    } else if constexpr (kIsSmallFloat<T>) {
      return float(*static_cast<const T*>(a)) == float(*static_cast<const T*>(b));
    } else {
      return false;
    }
  });
}

}  // namespace

Status StaticTable::Find(const Tensor& keys, const Tensor& default_value, Tensor& values) const {
  {
    ReaderLock lock(mu_);
    if (!initialized_) return errors::FailedPrecondition("Table not initialized.");
  }
  return LookupTable::Find(keys, default_value, values);  // an initialised table stays so
}

Status StaticTable::Insert(const Tensor& /*keys*/, const Tensor& /*values*/) {
  return NotSupported("Insert");
}
Status StaticTable::Remove(const Tensor& /*keys*/) { return NotSupported("Remove"); }
Status StaticTable::Import(const Tensor& /*keys*/, const Tensor& /*values*/) {
  return NotSupported("ImportValues");
}

Status StaticTable::Export(KernelContext& context) const {
  ReaderLock lock(mu_);
  if (!initialized_) return errors::Aborted("HashTable is not initialized.");
  return ExportRows(context, rows_.size(), nullptr);
}

Status StaticTable::Initialize(const Tensor& keys, const Tensor& values) {
  MR_RETURN_IF_ERROR(CheckEntries(keys, values));
  WriterLock lock(mu_);
  if (initialized_) {
    if (rows_.size() == keys.num_elements()) return Status();
    return errors::FailedPrecondition("Table already initialized.");
  }
  for (int64_t i = 0; i < keys.num_elements(); ++i) {
    const void* value = ElementAt(values.raw_data(), values.dtype(), i);
    if (const int64_t row = rows_.Find(keys, i);
        row >= 0 && !ElementsEqual(values.dtype(), rows_.ValueAt(row), value)) {
      Status differs =
          errors::FailedPrecondition("HashTable has different value for same key. Key ",
                                     ElementText(keys.dtype(), ElementAt(keys.raw_data(), keys.dtype(), i)),
                                     " has ", ElementText(values.dtype(), rows_.ValueAt(row)),
                                     " and trying to add value ", ElementText(values.dtype(), value));
      rows_.Clear();
      return differs;
    }
    if (Status put = rows_.Put(keys, values, i); !put.ok()) {
      rows_.Clear();
      return put;
    }
  }
  initialized_ = true;
  return Status();
}

StatusOr<RefPtr<DenseTable>> DenseTable::Make(Spec spec, const Tensor& empty_key, const Tensor* deleted_key,
                                              int64_t buckets, float max_load) {
  if (empty_key.rank() > 1) {
    return errors::InvalidArgument("Empty key must be a scalar or a vector, got shape ", empty_key.shape());
  }
  if (empty_key.num_elements() == 0) return errors::InvalidArgument("Empty key must have elements");
  if (deleted_key != nullptr && deleted_key->shape() != empty_key.shape()) {
    return errors::InvalidArgument("Empty and deleted keys must have same shape, got shapes: ",
                                   empty_key.shape(), " and ", deleted_key->shape());
  }
  if (spec.value_shape.rank() > 1) {
    return errors::InvalidArgument("Empty value must be a scalar or a vector, got shape ", spec.value_shape);
  }
  if (!(max_load > 0) || max_load >= 1) {
    return errors::InvalidArgument("max_load_factor must be between 0 and 1, got: ", max_load);
  }
  if (buckets < 4 || (buckets & (buckets - 1)) != 0) {
    return errors::InvalidArgument("Number of buckets must be at least 4 and a power of 2, got: ", buckets);
  }
  spec.key_shape = empty_key.shape();
  RefPtr<DenseTable> table(new DenseTable(std::move(spec), empty_key, buckets, max_load));
  const Tensor nothing(DataType::kBool, TensorShape({1}));
  MR_RETURN_IF_ERROR(table->marked_.Put(empty_key, nothing, 0));
  if (deleted_key == nullptr) return table;
  if (table->IsMarked(*deleted_key, 0)) {
    return errors::InvalidArgument("Empty and deleted keys cannot be equal");
  }
  MR_RETURN_IF_ERROR(table->marked_.Put(*deleted_key, nothing, 0));
  return table;
}

DenseTable::DenseTable(Spec spec, const Tensor& empty_key, int64_t buckets, float max_load)
    : LookupTable(std::move(spec)),
      empty_key_(empty_key.DeepCopy()),
      max_load_(max_load),
      initial_buckets_(buckets),
      marked_(spec_.key_dtype, spec_.key_shape, DataType::kBool, TensorShape()),
      buckets_(buckets) {}

Status DenseTable::RefuseMarkedKeys(const Tensor& keys) const {
  for (int64_t i = 0; i < NumKeys(keys); ++i) {
    if (const int64_t row = marked_.Find(keys, i); row >= 0) {
      return errors::InvalidArgument("Using the ", row == 0 ? "empty_key" : "deleted_key",
                                     " as a table key is not allowed");
    }
  }
  return Status();
}

void DenseTable::MakeRoom(int64_t entries) {
  // In double: that number of entries fits in memory, and the buckets stay far below 2^63.
  while (static_cast<double>(entries) > static_cast<double>(buckets_) * double{max_load_} &&
         buckets_ < (int64_t{1} << 61)) {
    buckets_ *= 2;
  }
}

Status DenseTable::Find(const Tensor& keys, const Tensor& default_value, Tensor& values) const {
  MR_RETURN_IF_ERROR(RefuseMarkedKeys(keys));
  return LookupTable::Find(keys, default_value, values);
}

Status DenseTable::Insert(const Tensor& keys, const Tensor& values) {
  MR_RETURN_IF_ERROR(RefuseMarkedKeys(keys));
  WriterLock lock(mu_);
  MakeRoom(rows_.size() + NumKeys(keys));
  for (int64_t i = 0; i < NumKeys(keys); ++i) MR_RETURN_IF_ERROR(rows_.Put(keys, values, i));
  return Status();
}

Status DenseTable::Remove(const Tensor& keys) {
  MR_RETURN_IF_ERROR(RefuseMarkedKeys(keys));
  return LookupTable::Remove(keys);
}

Status DenseTable::Import(const Tensor& keys, const Tensor& values) {
  // Exported tables have these keys in unused buckets.
  WriterLock lock(mu_);
  rows_.Clear();
  buckets_ = initial_buckets_;
  for (int64_t i = 0; i < NumKeys(keys); ++i) {
    if (!IsMarked(keys, i)) MR_RETURN_IF_ERROR(rows_.Put(keys, values, i));
  }
  MakeRoom(rows_.size());
  return Status();
}

Status DenseTable::Export(KernelContext& context) const {
  ReaderLock lock(mu_);
  return ExportRows(context, buckets_, &empty_key_);
}

namespace {

// Writes field `token` of a line to element `i`.
Status ParseField(std::string_view token, int64_t line, Tensor& to, int64_t i) {
  const auto invalid = [&](std::string_view type) {
    return errors::InvalidArgument("Field ", token, " in line ", line, " is not a valid ", type, ".");
  };
  switch (to.dtype()) {
    case DataType::kInt32: {
      const auto v = SafeStringToInt32(StripWhitespace(token));
      if (!v) return invalid("int32");
      to.data<int32_t>()[i] = *v;
      return Status();
    }
    case DataType::kInt64: {
      const auto v = SafeStringToInt64(StripWhitespace(token));
      if (!v) return invalid("int64");
      to.data<int64_t>()[i] = *v;
      return Status();
    }
    case DataType::kFloat: {
      const auto v = SafeStringToDouble(StripWhitespace(token));
      if (!v) return invalid("float");
      to.data<float>()[i] = static_cast<float>(*v);
      return Status();
    }
    case DataType::kDouble: {
      const auto v = SafeStringToDouble(StripWhitespace(token));
      if (!v) return invalid("double");
      to.data<double>()[i] = *v;
      return Status();
    }
    case DataType::kString:
      to.data<std::string>()[i] = token;
      return Status();
    default:
      return errors::InvalidArgument("Data type ", DataTypeName(to.dtype()), " not supported.");
  }
}

Status CheckColumn(std::string_view what, int64_t column, DataType dtype) {
  if (column == TextColumns::kLineNumber && dtype != DataType::kInt64) {
    return errors::InvalidArgument(what, " index for line number requires table ",
                                   what == "Key" ? "key" : "value", " dtype of int64, got ",
                                   DataTypeName(dtype));
  }
  const bool is_key = what == "Key";
  if (column == TextColumns::kWholeLine && dtype != DataType::kString && !(is_key && IsIntegerType(dtype))) {
    return errors::InvalidArgument(what, " index for entire line content requires ",
                                   is_key ? "string or integer table key" : "table value dtype of string",
                                   ", got ", DataTypeName(dtype));
  }
  return Status();
}

StatusOr<std::vector<std::string_view>> LinesOf(const std::string& path, std::string_view text,
                                                int64_t wanted) {
  std::vector<std::string_view> lines = StrSplit(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  if (wanted >= 0) {
    const auto have = static_cast<int64_t>(lines.size());
    if (have < wanted) {
      return errors::InvalidArgument("Invalid vocab_size in ", path, ": expected ", wanted, " but got ",
                                     have);
    }
    lines.resize(static_cast<size_t>(wanted));
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    ConsumeSuffix(&lines[i], "\r");
    if (lines[i].empty()) {
      return errors::InvalidArgument("Invalid content in ", path, ": empty line found at position ",
                                     lines[i].data() - text.data(), ".");
    }
  }
  return lines;
}

}  // namespace

Status InitializeFromTextFile(LookupTable& table, const std::string& path, const TextColumns& columns) {
  if (path.empty()) return errors::InvalidArgument("filename cannot be empty.");
  MR_RETURN_IF_ERROR(CheckColumn("Key", columns.key, table.spec().key_dtype));
  MR_RETURN_IF_ERROR(CheckColumn("Value", columns.value, table.spec().value_dtype));
  MR_ASSIGN_OR_RETURN(const std::string text, ReadFileToString(Env::Posix(), path, kMaxFileBytes));
  MR_ASSIGN_OR_RETURN(const std::vector<std::string_view> lines, LinesOf(path, text, columns.lines));
  const TensorShape shape({static_cast<int64_t>(lines.size())});
  MR_ASSIGN_OR_RETURN(Tensor keys, Tensor::Allocate(table.spec().key_dtype, shape));
  MR_ASSIGN_OR_RETURN(Tensor values, Tensor::Allocate(table.spec().value_dtype, shape));
  const int64_t last = std::max(columns.key, columns.value);
  for (int64_t i = 0; i < shape.dim(0); ++i) {
    const std::string_view line = lines[static_cast<size_t>(i)];
    std::vector<std::string_view> fields;
    if (last >= 0) fields = StrSplit(line, columns.delimiter);
    if (last >= static_cast<int64_t>(fields.size()) && last >= 0) {
      return errors::InvalidArgument("Invalid number of columns in ", path, " line ", i, " (", line,
                                     ") : expected ", last, " got ", fields.size());
    }
    const auto set = [&](int64_t column, Tensor& to) {
      if (column == TextColumns::kLineNumber) {
        to.data<int64_t>()[i] = i;
        return Status();
      }
      return ParseField(column == TextColumns::kWholeLine ? line : fields[static_cast<size_t>(column)], i, to,
                        i);
    };
    MR_RETURN_IF_ERROR(set(columns.key, keys));
    MR_RETURN_IF_ERROR(set(columns.value, values));
  }
  return table.Initialize(keys, values);
}

}  // namespace millrace
