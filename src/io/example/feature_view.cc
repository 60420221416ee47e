// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/example/feature_view.h"

#include <bit>
#include <cstring>

#include "io/example/wire.h"

namespace millrace::io {
namespace {

// The fields of Feature, by number.
constexpr DataType kKinds[] = {DataType::kInvalid, DataType::kString, DataType::kFloat, DataType::kInt64};

uint32_t KindOf(DataType dtype) { return dtype == DataType::kString ? 1 : dtype == DataType::kFloat ? 2 : 3; }

// How many numbers end within the bytes; -1 when the last one does not.
int64_t CountVarints(std::string_view packed) {
  if (packed.empty()) return 0;
  if ((static_cast<unsigned char>(packed.back()) & 0x80) != 0) return -1;
  int64_t count = 0;
  for (const char c : packed) count += static_cast<signed char>(c) >= 0 ? 1 : 0;
  return count;
}

// How many values one list holds; -1 when it is broken.
int64_t CountList(std::string_view list, DataType kind) {
  int64_t count = 0;
  WireReader reader(list);
  for (WireField field; reader.Next(&field);) {
    if (field.number != 1) continue;
    if (kind == DataType::kString) {
      count += field.type == WireType::kBytes ? 1 : 0;
    } else if (field.type != WireType::kBytes) {
      count += field.type == (kind == DataType::kFloat ? WireType::kFixed32 : WireType::kVarint) ? 1 : 0;
    } else if (kind == DataType::kFloat) {
      if (field.bytes.size() % sizeof(float) != 0) return -1;
      count += static_cast<int64_t>(field.bytes.size() / sizeof(float));
    } else {
      const int64_t more = CountVarints(field.bytes);
      if (more < 0) return -1;
      count += more;
    }
  }
  return reader.ok() ? count : -1;
}

// Calls fn(list) for the lists of the view.
template <typename Fn>
bool EachList(const FeatureView& view, Fn fn) {
  const uint32_t kind = KindOf(view.dtype);
  WireReader reader(view.bytes);
  for (WireField field; reader.Next(&field);) {
    if (field.number != kind || field.type != WireType::kBytes) continue;
    if (!fn(field.bytes)) return false;
  }
  return reader.ok();
}

bool UnpackVarints(std::string_view packed, int64_t** to) {
  const char* p = packed.data();
  const char* const end = p + packed.size();
  int64_t* out = *to;
  while (p < end) {
    if (end - p >= 8) {  // eight small numbers at once
      uint64_t word;
      std::memcpy(&word, p, sizeof word);
      const uint64_t large = word & 0x8080808080808080ULL;
      if (large == 0) {
        for (int i = 0; i < 8; ++i) out[i] = static_cast<unsigned char>(p[i]);
        out += 8;
        p += 8;
        continue;
      }
    }
    uint64_t value = 0;
    p = ReadVarint(p, end, &value);
    if (p == nullptr) return false;
    *out++ = static_cast<int64_t>(value);
  }
  *to = out;
  return true;
}

}  // namespace

bool ReadFeature(std::string_view feature, FeatureView* view) {
  *view = FeatureView();
  const char* const end = feature.data() + feature.size();
  WireReader reader(feature);
  const char* begin = reader.position();
  for (WireField field; reader.Next(&field); begin = reader.position()) {
    if (field.type != WireType::kBytes || field.number > 3) continue;
    const DataType kind = kKinds[field.number];
    if (kind != view->dtype) {
      *view = {std::string_view(begin, static_cast<size_t>(end - begin)), kind, 0};
    }
    const int64_t count = CountList(field.bytes, kind);
    if (count < 0) return false;
    view->count += count;
  }
  return reader.ok();
}

bool CopyFeature(const FeatureView& view, float* to) {
  static_assert(std::endian::native == std::endian::little, "packed floats are copied as they are");
  return EachList(view, [&](std::string_view list) {
    WireReader reader(list);
    for (WireField field; reader.Next(&field);) {
      if (field.number != 1) continue;
      if (field.type == WireType::kBytes && !field.bytes.empty()) {
        std::memcpy(to, field.bytes.data(), field.bytes.size());
        to += field.bytes.size() / sizeof(float);
      } else if (field.type == WireType::kFixed32) {
        *to++ = std::bit_cast<float>(static_cast<uint32_t>(field.value));
      }
    }
    return reader.ok();
  });
}

bool CopyFeature(const FeatureView& view, int64_t* to) {
  return EachList(view, [&](std::string_view list) {
    WireReader reader(list);
    for (WireField field; reader.Next(&field);) {
      if (field.number != 1) continue;
      if (field.type == WireType::kVarint) *to++ = static_cast<int64_t>(field.value);
      if (field.type == WireType::kBytes && !UnpackVarints(field.bytes, &to)) return false;
    }
    return reader.ok();
  });
}

bool CopyFeature(const FeatureView& view, std::string* to) {
  return EachList(view, [&](std::string_view list) {
    WireReader reader(list);
    for (WireField field; reader.Next(&field);) {
      if (field.number == 1 && field.type == WireType::kBytes) *to++ = field.bytes;
    }
    return reader.ok();
  });
}

bool VisitMap(std::string_view message, MapVisitor visit) {
  WireReader entries(message);
  for (WireField entry; entries.Next(&entry);) {
    if (entry.number != 1 || entry.type != WireType::kBytes) continue;
    std::string_view key, value;
    WireReader reader(entry.bytes);
    for (WireField field; reader.Next(&field);) {
      if (field.type != WireType::kBytes) continue;
      if (field.number == 1) key = field.bytes;
      if (field.number == 2) value = field.bytes;
    }
    if (!reader.ok() || !visit(key, value)) return false;
  }
  return entries.ok();
}

bool VisitMapsOf(std::string_view message, uint32_t number, MapVisitor visit) {
  WireReader reader(message);
  for (WireField field; reader.Next(&field);) {
    if (field.number == number && field.type == WireType::kBytes && !VisitMap(field.bytes, visit))
      return false;
  }
  return reader.ok();
}

bool VisitSteps(std::string_view feature_list, FunctionRef<bool(std::string_view)> visit) {
  WireReader reader(feature_list);
  for (WireField field; reader.Next(&field);) {
    if (field.number == 1 && field.type == WireType::kBytes && !visit(field.bytes)) return false;
  }
  return reader.ok();
}

}  // namespace millrace::io
