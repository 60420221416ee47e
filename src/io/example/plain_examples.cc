// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/example/plain_examples.h"

#include <algorithm>
#include <cstring>

#include "io/example/feature_view.h"
#include "io/example/wire.h"

namespace millrace::io {
namespace {

using Feature = FeatureTable::Feature;

// Tags of fields of bytes.
constexpr char Tag(int number) { return static_cast<char>(number << 3 | static_cast<int>(WireType::kBytes)); }

// Fields of bytes, one after the other.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : p_(bytes.data()), end_(p_ + bytes.size()) {}
  bool done() const { return p_ == end_; }
  // Takes the next field, if it has this tag and is whole.
  bool Take(char tag, std::string_view* bytes) {
    if (end_ - p_ < 2 || *p_ != tag) return false;
    const char* p = p_ + 1;
    uint64_t size = static_cast<unsigned char>(*p);
    p = size < 0x80 ? p + 1 : ReadVarint(p, end_, &size);
    if (p == nullptr || size > static_cast<uint64_t>(end_ - p)) return false;
    *bytes = {p, size};
    p_ = p + size;
    return true;
  }
  // The same when nothing may follow.
  bool TakeLast(char tag, std::string_view* bytes) { return Take(tag, bytes) && done(); }

 private:
  const char* p_;
  const char* const end_;
};

bool CopyValues(std::string_view list, int64_t n, float* to) {
  std::string_view packed;
  if (!Fields(list).TakeLast(Tag(1), &packed) || packed.size() != static_cast<size_t>(n) * sizeof(float)) {
    return false;
  }
  std::memcpy(to, packed.data(), packed.size());
  return true;
}

bool CopyValues(std::string_view list, int64_t n, int64_t* to) {
  std::string_view packed;
  if (!Fields(list).TakeLast(Tag(1), &packed)) return false;
  if (n > 1) return CopyPacked(packed, n, to);
  uint64_t value = 0;
  if (ReadVarint(packed.data(), packed.data() + packed.size(), &value) != packed.data() + packed.size())
    return false;
  *to = static_cast<int64_t>(value);
  return true;
}

bool CopyValues(std::string_view list, int64_t n, std::string* to) {
  Fields fields(list);
  for (std::string_view value; n > 0; --n) {
    if (!fields.Take(Tag(1), &value)) return false;
    to++->assign(value);
  }
  return fields.done();
}

// The bytes of a Feature.
bool CopyRow(const Feature& f, std::string_view feature, int64_t row, Tensor* values) {
  const int64_t n = f.row_elements;
  std::string_view list;
  Fields fields(feature);
  switch (f.dtype) {
    case DataType::kString:
      return fields.TakeLast(Tag(1), &list) && CopyValues(list, n, values->data<std::string>() + row * n);
    case DataType::kFloat:
      return fields.TakeLast(Tag(2), &list) && CopyValues(list, n, values->data<float>() + row * n);
    default:
      return fields.TakeLast(Tag(3), &list) && CopyValues(list, n, values->data<int64_t>() + row * n);
  }
}

bool FillRow(const Feature& f, int64_t row, Tensor* values) {
  const int64_t n = f.row_elements;
  if (f.default_value.num_elements() != n) return false;
  switch (f.dtype) {
    case DataType::kString:
      std::copy_n(f.default_value.data<std::string>(), n, values->data<std::string>() + row * n);
      break;
    case DataType::kFloat:
      std::copy_n(f.default_value.data<float>(), n, values->data<float>() + row * n);
      break;
    default:
      std::copy_n(f.default_value.data<int64_t>(), n, values->data<int64_t>() + row * n);
  }
  return true;
}

class PlainParser {
 public:
  PlainParser(const FeatureTable& table, ParsedFeatures* values)
      : table_(table), values_(*values), last_(static_cast<size_t>(table.size()), -1) {}

  bool Parse(std::string_view example, int64_t row) {
    std::string_view entries, entry, key, feature;
    if (!Fields(example).TakeLast(Tag(1), &entries)) return false;
    int found = 0;
    size_t place = 0;
    for (Fields map(entries); !map.done(); ++place) {
      if (!map.Take(Tag(1), &entry)) return false;
      Fields fields(entry);
      if (!fields.Take(Tag(1), &key) || !fields.TakeLast(Tag(2), &feature)) return false;
      const int f = Find(place, key);
      if (f < 0) continue;
      // For duplicate keys the general parser is used, which decides which entry counts.
      if (last_[static_cast<size_t>(f)] == row) return false;
      last_[static_cast<size_t>(f)] = row;
      ++found;
      if (!CopyRow(table_[f], feature, row, &values_[static_cast<size_t>(f)][0])) return false;
    }
    if (found == table_.size()) return true;
    for (int f = 0; f < table_.size(); ++f) {
      if (last_[static_cast<size_t>(f)] == row) continue;
      if (!FillRow(table_[f], row, &values_[static_cast<size_t>(f)][0])) return false;
    }
    return true;
  }

 private:
  // Many examples have their keys in the same order. Otherwise the order is arbitrary, so only a few keys are
  // compared.
  int Find(size_t place, std::string_view key) {
    constexpr int kFew = 8;
    if (place == order_.size()) order_.push_back(-1);
    int& guess = order_[place];
    if (guess >= 0 && Is(guess, key)) return guess;
    if (table_.size() > kFew) return guess = table_.Find(key);
    for (int f = 0; f < table_.size(); ++f) {
      if (Is(f, key)) return guess = f;
    }
    return -1;
  }
  bool Is(int f, std::string_view key) const {
    const std::string& k = table_[f].key;
    return k.size() == key.size() && (key.empty() || (k[0] == key[0] && k == key));
  }

  const FeatureTable& table_;
  ParsedFeatures& values_;
  std::vector<int64_t> last_;  // by feature: the row that had it last
  std::vector<int> order_;     // by position in the map: the last feature there; -1: none of the table
};

}  // namespace

bool MayBePlain(const FeatureTable& table, const ParseRequest& request) {
  if (request.source != FeatureSource::kExample || request.size() == 0) return false;
  uint64_t least = 0;  // bytes of an example
  for (int i = 0; i < table.size(); ++i) {
    const Feature& f = table[i];
    if (f.is_sparse || f.is_variable || f.row_elements <= 0) return false;
    if (f.default_value.num_elements() > 0) continue;
    const uint64_t each = f.dtype == DataType::kString ? 2 : f.dtype == DataType::kFloat ? sizeof(float) : 1;
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(each, static_cast<uint64_t>(f.row_elements), &bytes) ||
        __builtin_add_overflow(least, bytes, &least)) {
      return false;
    }
  }
  for (int64_t k = 0; k < request.size(); ++k) {
    if (request.example(k).size() < least) return false;
  }
  return true;
}

bool ParsePlainExamples(const FeatureTable& table, const ParseRequest& request, int64_t begin, int64_t end,
                        ParsedFeatures* values) {
  PlainParser parser(table, values);
  for (int64_t i = begin; i < end; ++i) {
    if (!parser.Parse(request.example(i), i)) return false;
  }
  return true;
}

}  // namespace millrace::io
