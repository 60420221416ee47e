// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Two passes over the examples, each in parallel by shards of them: the first finds and counts the values,
// then every tensor is allocated in its final size, and the second copies. Plain examples need one pass only.
#include "io/example/example_parser.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "base/strings.h"
#include "io/example/feature_view.h"
#include "io/example/plain_examples.h"

namespace millrace::io {
namespace {

using Feature = FeatureTable::Feature;

constexpr int64_t kExamplesOfShard = 32;
constexpr int64_t kCostOfShardNs = kExamplesOfShard * 1000;
constexpr int64_t kCostOfPlainShardNs = kExamplesOfShard * 150;
constexpr size_t kShownOfBrokenExample = 200;

// Values that were found. There may be one for every few bytes of an example, so the numbers are narrow.
struct Found {
  const char* data;
  uint32_t size;
  uint32_t count;
  int32_t feature;
  int32_t example;
  int32_t step;

  FeatureView view(const Feature& f) const { return {std::string_view(data, size), f.dtype, count}; }
};

// The state of one feature in a shard.
struct Total {
  int64_t values = 0;   // found in the shard
  int64_t longest = 0;  // most values of one row
  int64_t most_steps = 0;
  int64_t offset = 0;    // of sparse ones: values of the shards before
  int64_t next_row = 0;  // of dense ones: rows up to here are written
};

struct Shard {
  int64_t begin = 0;
  int64_t end = 0;
  std::vector<Found> found;  // by example, feature and step
  std::vector<Total> totals;
  Status status;
};

class BatchParser {
 public:
  BatchParser(const FeatureTable& table, const ParseRequest& request)
      : table_(table), request_(request), is_list_(request.source == FeatureSource::kSequenceLists) {}

  StatusOr<ParsedFeatures> Parse(RunParallel parallel) {
    const int64_t n = request_.size();
    if (n > std::numeric_limits<int32_t>::max()) return errors::InvalidArgument("Too many examples: ", n);
    shards_.resize(static_cast<size_t>((n + kExamplesOfShard - 1) / kExamplesOfShard));
    results_.resize(static_cast<size_t>(table_.size()));
    if (MayBePlain(table_, request_)) {
      for (int f = 0; f < table_.size(); ++f) {
        MR_RETURN_IF_ERROR(AllocateDense(table_[f], Total(), &results_[static_cast<size_t>(f)]));
      }
      if (ParsePlain(parallel)) return std::move(results_);
    }
    MR_RETURN_IF_ERROR(ForEachShard(parallel, [this](Shard& shard) { return Find(&shard); }));
    MR_RETURN_IF_ERROR(Allocate());
    MR_RETURN_IF_ERROR(ForEachShard(parallel, [this](Shard& shard) { return Copy(&shard); }));
    return std::move(results_);
  }

 private:
  // The first error is that of the first example that has one.
  template <typename Fn>
  Status ForEachShard(RunParallel parallel, Fn fn) {
    const int64_t n = request_.size();
    parallel(static_cast<int64_t>(shards_.size()), kCostOfShardNs, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Shard& shard = shards_[static_cast<size_t>(i)];
        shard.begin = i * kExamplesOfShard;
        shard.end = std::min(n, shard.begin + kExamplesOfShard);
        shard.status = fn(shard);
      }
    });
    for (const Shard& shard : shards_) MR_RETURN_IF_ERROR(shard.status);
    return Status();
  }

  bool ParsePlain(RunParallel parallel) {
    std::atomic<bool> plain = true;  // relaxed: `parallel` waits for all shards
    parallel(static_cast<int64_t>(shards_.size()), kCostOfPlainShardNs, [&](int64_t begin, int64_t end) {
      if (!plain.load(std::memory_order_relaxed)) return;
      const int64_t last = std::min(request_.size(), end * kExamplesOfShard);
      if (!ParsePlainExamples(table_, request_, begin * kExamplesOfShard, last, &results_))
        plain.store(false, std::memory_order_relaxed);
    });
    return plain.load(std::memory_order_relaxed);
  }

  // The positions of the table's features in one example.
  struct Places {
    explicit Places(int n) : value(static_cast<size_t>(n)), there(static_cast<size_t>(n), false) {}
    std::vector<std::string_view> value;
    std::vector<char> there;
  };

  std::string_view NameOf(int64_t example) const {
    return request_.names.empty() ? "<unknown>" : std::string_view(request_.names[example]);
  }
  Status Broken(int64_t example) const {
    const std::string_view bytes = request_.example(example);
    const bool cut = bytes.size() > kShownOfBrokenExample;
    return errors::InvalidArgument("Could not parse example input, value: '",
                                   CEscape(bytes.substr(0, kShownOfBrokenExample)), cut ? "…" : "", "'");
  }

  Status Find(Shard* shard) const {
    shard->totals.resize(static_cast<size_t>(table_.size()));
    Places places(table_.size());
    for (int64_t i = shard->begin; i < shard->end; ++i) {
      const std::string_view bytes = request_.example(i);
      if (bytes.size() > std::numeric_limits<int32_t>::max()) return Broken(i);  // no message is longer
      std::fill(places.there.begin(), places.there.end(), false);
      const auto keep = [&](std::string_view key, std::string_view value) {
        const int feature = table_.Find(key);
        if (feature >= 0 && (is_list_ || !value.empty())) {
          places.value[feature] = value;
          places.there[feature] = true;
        }
        return true;
      };
      const uint32_t field = is_list_ ? 2 : 1;
      if (!VisitMapsOf(bytes, field, keep)) return Broken(i);
      for (int f = 0; f < table_.size(); ++f) {
        MR_RETURN_IF_ERROR(places.there[f] ? Read(i, f, places.value[f], shard) : Miss(i, table_[f]));
      }
    }
    return Status();
  }

  Status Read(int64_t example, int feature, std::string_view value, Shard* shard) const {
    if (!is_list_) return ReadRow(example, 0, feature, value, shard);
    Status status;
    int64_t step = 0;
    const auto read = [&](std::string_view bytes) {
      status = ReadRow(example, step++, feature, bytes, shard);
      return status.ok();
    };
    const bool whole = VisitSteps(value, read);
    MR_RETURN_IF_ERROR(status);
    if (!whole) return Broken(example);
    Total& total = shard->totals[feature];
    total.most_steps = std::max(total.most_steps, step);
    return Status();
  }

  Status ReadRow(int64_t example, int64_t step, int feature, std::string_view bytes, Shard* shard) const {
    const Feature& f = table_[feature];
    FeatureView view;
    if (!ReadFeature(bytes, &view)) return Broken(example);
    const bool none = view.dtype == DataType::kInvalid;
    if (none && (f.is_sparse || !is_list_)) return f.is_sparse ? Status() : Miss(example, f);
    if (view.dtype != f.dtype) return WrongType(example, step, f, view);
    if (!f.is_sparse) MR_RETURN_IF_ERROR(CheckCount(example, step, f, view));
    Total& total = shard->totals[feature];
    total.values += view.count;
    total.longest = std::max(total.longest, view.count);
    if (view.count == 0) return Status();
    shard->found.push_back({view.bytes.data(), static_cast<uint32_t>(view.bytes.size()),
                            static_cast<uint32_t>(view.count), feature, static_cast<int32_t>(example),
                            static_cast<int32_t>(step)});
    return Status();
  }

  Status Miss(int64_t example, const Feature& f) const;
  Status WrongType(int64_t example, int64_t step, const Feature& f, const FeatureView& view) const;
  Status CheckCount(int64_t example, int64_t step, const Feature& f, const FeatureView& view) const;
  Status Allocate();
  Status AllocateSparse(const Feature& f, const Total& all, std::vector<Tensor>* result) const;
  Status AllocateDense(const Feature& f, const Total& all, std::vector<Tensor>* result) const;
  Status Copy(Shard* shard);
  Status CopySparse(const Found& found, Total* total);
  Status CopyDense(const Found& found, Total* total);
  void FillDense(const Shard& shard);
  void FillRows(int feature, int64_t begin, int64_t end);

  const FeatureTable& table_;
  const ParseRequest& request_;
  const bool is_list_;
  std::vector<Shard> shards_;
  std::vector<Total> all_;  // over all shards
  ParsedFeatures results_;
};

Status BatchParser::Miss(int64_t example, const Feature& f) const {
  if (f.is_sparse || f.is_variable || f.may_be_missing) return Status();
  if (is_list_) {
    return errors::InvalidArgument(
        "Name: ", NameOf(example), ", Feature list '", f.key,
        "' is required but could not be found.  Did you mean to include it in "
        "feature_list_dense_missing_assumed_empty or feature_list_dense_defaults?");
  }
  if (f.default_value.num_elements() > 0) return Status();
  if (request_.source == FeatureSource::kSequenceContext) {
    return errors::InvalidArgument("Name: ", NameOf(example), ", Context feature '", f.key,
                                   "' is required but could not be found.");
  }
  const std::string who = request_.batched ? StrCat("Name: ", NameOf(example), ", ") : "";
  return errors::InvalidArgument(who, "Feature: ", f.key, " (data type: ", DataTypeName(f.dtype),
                                 ") is required but could not be found.");
}

Status BatchParser::WrongType(int64_t example, int64_t step, const Feature& f,
                              const FeatureView& view) const {
  const std::string got = view.dtype == DataType::kInvalid ? "none" : DataTypeName(view.dtype);
  const std::string want = DataTypeName(f.dtype);
  if (request_.source == FeatureSource::kExample) {
    const std::string who = request_.batched
                                ? StrCat("Name: ", NameOf(example), ", Key: ", f.key, ", Index: ", example)
                                : StrCat("Key: ", f.key);
    if (f.is_sparse) {
      return errors::InvalidArgument(who, ".  Data types don't match. Expected type: ", want,
                                     ", Actual type: ", got);
    }
    return errors::InvalidArgument(who, ".  Data types don't match. Data type: ", got,
                                   " but expected type: ", want);
  }
  const std::string at = is_list_ ? StrCat(", Index: ", step) : "";
  return errors::InvalidArgument("Name: ", NameOf(example),
                                 is_list_ ? ", Feature list: " : ", Context feature: ", f.key, at,
                                 ".  Data types don't match. Expected type: ", want, "  Feature is: ", got);
}

Status BatchParser::CheckCount(int64_t example, int64_t step, const Feature& f,
                               const FeatureView& view) const {
  const bool fits = f.is_variable ? (f.row_elements > 0 ? view.count % f.row_elements == 0 : view.count == 0)
                                  : view.count == f.row_elements;
  if (fits) return Status();
  const std::string type = f.dtype == DataType::kString ? "bytes" : DataTypeName(f.dtype);
  const bool is_example = request_.source == FeatureSource::kExample;
  const std::string index = is_example && !request_.batched ? ""
                                                            : StrCat(", Index: ", is_list_     ? step
                                                                                  : is_example ? example
                                                                                               : 0);
  const std::string name = is_example && !request_.batched ? "" : StrCat("Name: ", NameOf(example), ", ");
  if (f.is_variable) {
    return errors::InvalidArgument(name, "Key: ", f.key, index, ".  Number of ", type,
                                   " values is not a multiple of stride length. Saw ", view.count,
                                   " values but output shape is: ", f.shape);
  }
  return errors::InvalidArgument(name, "Key: ", f.key, index, ".  Number of ", type, " values != expected.  ",
                                 is_example ? "Values" : "values", " size: ", view.count,
                                 " but output shape: ", f.shape);
}

Status BatchParser::Allocate() {
  all_.resize(static_cast<size_t>(table_.size()));
  for (Shard& shard : shards_) {
    for (int f = 0; f < table_.size(); ++f) {
      Total& total = shard.totals[f];
      Total& all = all_[f];
      total.offset = all.values;
      all.values += total.values;
      all.longest = std::max(all.longest, total.longest);
      all.most_steps = std::max(all.most_steps, total.most_steps);
    }
  }
  for (int f = 0; f < table_.size(); ++f) {
    const Feature& feature = table_[f];
    MR_RETURN_IF_ERROR(feature.is_sparse ? AllocateSparse(feature, all_[f], &results_[f])
                                         : AllocateDense(feature, all_[f], &results_[f]));
  }
  return Status();
}

Status BatchParser::AllocateSparse(const Feature& f, const Total& all, std::vector<Tensor>* result) const {
  std::vector<int64_t> shape;
  if (request_.batched) shape.push_back(request_.size());
  if (is_list_) shape.push_back(all.most_steps);
  shape.push_back(all.longest);
  const auto rank = static_cast<int64_t>(shape.size());
  MR_ASSIGN_OR_RETURN(Tensor indices, Tensor::Allocate(DataType::kInt64, TensorShape({all.values, rank})));
  MR_ASSIGN_OR_RETURN(Tensor values, Tensor::Allocate(f.dtype, TensorShape({all.values})));
  *result = {std::move(indices), std::move(values), Tensor::Vector<int64_t>(shape)};
  return Status();
}

Status BatchParser::AllocateDense(const Feature& f, const Total& all, std::vector<Tensor>* result) const {
  std::vector<int64_t> dims;
  const int64_t n = request_.size();
  if (request_.batched) dims.push_back(n);
  if (is_list_) dims.push_back(all.most_steps);
  if (f.is_variable) dims.push_back(f.row_elements == 0 ? 0 : all.longest / f.row_elements);
  dims.insert(dims.end(), f.row_shape.dims().begin(), f.row_shape.dims().end());
  MR_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make(dims));
  MR_ASSIGN_OR_RETURN(Tensor values, Tensor::Allocate(f.dtype, shape));
  *result = {std::move(values)};
  if (!is_list_) return Status();
  MR_ASSIGN_OR_RETURN(Tensor lengths, Tensor::Allocate(DataType::kInt64, TensorShape({n})));
  std::fill_n(lengths.data<int64_t>(), n, 0);
  result->push_back(std::move(lengths));
  return Status();
}

// Calls fn.template operator()<T>() with the C++ type of a feature.
template <typename Fn>
auto VisitFeatureType(DataType dtype, Fn fn) {
  if (dtype == DataType::kFloat) return fn.template operator()<float>();
  if (dtype == DataType::kInt64) return fn.template operator()<int64_t>();
  return fn.template operator()<std::string>();
}

Status BatchParser::Copy(Shard* shard) {
  const int64_t steps_before = shard->begin;
  for (int f = 0; f < table_.size(); ++f) {
    shard->totals[f].next_row = steps_before * (is_list_ ? all_[f].most_steps : 1);
  }
  for (const Found& found : shard->found) {
    Total& total = shard->totals[found.feature];
    MR_RETURN_IF_ERROR(table_[found.feature].is_sparse ? CopySparse(found, &total)
                                                       : CopyDense(found, &total));
  }
  FillDense(*shard);
  return Status();
}

Status BatchParser::CopySparse(const Found& found, Total* total) {
  const Feature& f = table_[found.feature];
  std::vector<Tensor>& result = results_[found.feature];
  const int64_t rank = result[0].dim(1);
  int64_t* index = result[0].data<int64_t>() + total->offset * rank;
  for (uint32_t i = 0; i < found.count; ++i) {
    if (request_.batched) *index++ = found.example;
    if (is_list_) *index++ = found.step;
    *index++ = i;
  }
  const bool copied = VisitFeatureType(
      f.dtype, [&]<typename T>() { return CopyFeature(found.view(f), result[1].data<T>() + total->offset); });
  total->offset += found.count;
  return copied ? Status() : Broken(found.example);
}

Status BatchParser::CopyDense(const Found& found, Total* total) {
  const Feature& f = table_[found.feature];
  Tensor& out = results_[found.feature][0];
  const int64_t steps = is_list_ ? all_[found.feature].most_steps : 1;
  const int64_t row = found.example * steps + found.step;
  FillRows(found.feature, total->next_row, row);
  total->next_row = row + 1;
  if (is_list_) results_[found.feature][1].data<int64_t>()[found.example] = found.step + 1;
  const int64_t room = f.is_variable ? all_[found.feature].longest : f.row_elements;
  const bool copied = VisitFeatureType(f.dtype, [&]<typename T>() {
    T* const to = out.data<T>() + row * room;
    if (!CopyFeature(found.view(f), to)) return false;
    if (f.is_variable) std::fill(to + found.count, to + room, f.default_value.scalar<T>());
    return true;
  });
  return copied ? Status() : Broken(found.example);
}

// The remaining work at the end of a shard.
void BatchParser::FillDense(const Shard& shard) {
  for (int f = 0; f < table_.size(); ++f) {
    if (table_[f].is_sparse) continue;
    FillRows(f, shard.totals[f].next_row, shard.end * (is_list_ ? all_[f].most_steps : 1));
  }
}

void BatchParser::FillRows(int feature, int64_t begin, int64_t end) {
  const Feature& f = table_[feature];
  const int64_t room = f.is_variable ? all_[feature].longest : f.row_elements;
  if (room == 0) return;  // there may be many empty rows
  VisitFeatureType(f.dtype, [&]<typename T>() {
    T* const out = results_[feature][0].data<T>();
    const bool whole_row = !f.is_variable && f.default_value.num_elements() == room;
    if (f.is_variable) {
      std::fill(out + begin * room, out + end * room, f.default_value.scalar<T>());
    } else if (!whole_row) {
      std::fill(out + begin * room, out + end * room, T());
    } else {
      for (int64_t row = begin; row < end; ++row)
        std::copy_n(f.default_value.data<T>(), room, out + row * room);
    }
    return true;
  });
}

}  // namespace

StatusOr<ParsedFeatures> ParseFeatures(const FeatureTable& table, const ParseRequest& request,
                                       RunParallel parallel) {
  return BatchParser(table, request).Parse(parallel);
}

}  // namespace millrace::io
