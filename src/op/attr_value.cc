// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "op/attr_value.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/strings.h"

namespace millrace {
namespace {

template <typename... F>
struct Overload : F... {
  using F::operator()...;
};
template <typename... F>
Overload(F...) -> Overload<F...>;

// Names of the alternatives of AttrValue::Variant, in their order.
constexpr std::string_view kTypeNames[] = {
    "unset",      "string",     "int",         "float",        "bool",         "type",      "shape",
    "tensor",     "func",       "placeholder", "any list",     "list(string)", "list(int)", "list(float)",
    "list(bool)", "list(type)", "list(shape)", "list(tensor)", "list(func)"};
static_assert(std::size(kTypeNames) == std::variant_size_v<AttrValue::Variant>);

// Lists longer than this print their first and last entries only.
constexpr size_t kMaxPrintedEntries = 10;
constexpr size_t kMaxPrintedString = 80;

std::string Print(const std::string& s) {
  if (s.size() <= kMaxPrintedString) return StrCat("\"", CEscape(s), "\"");
  const std::string_view v = s;
  return StrCat("\"", CEscape(v.substr(0, kMaxPrintedString / 2)), "...",
                CEscape(v.substr(v.size() - kMaxPrintedString / 8)), "\"");
}
std::string Print(int64_t i) { return std::to_string(i); }
std::string Print(bool b) { return b ? "true" : "false"; }
std::string Print(DataType t) { return DataTypeEnumName(t); }
std::string Print(const PartialShape& s) { return s.ToString(); }
std::string Print(const Tensor& t) { return t.DebugString(); }

// The shortest of %.6g to %.9g that reads back as the same number.
std::string Print(float f) {
  char text[40];
  for (int digits = 6; digits <= 9; ++digits) {
    std::snprintf(text, sizeof(text), "%.*g", digits, static_cast<double>(f));
    if (std::strtof(text, nullptr) == f) break;
  }
  return text;
}

std::string Print(const NameAttrList& f) {
  std::string out = f.name;
  out += "[";
  bool first = true;
  if (f.attrs != nullptr) {
    for (const auto& [name, value] : *f.attrs) {
      if (!first) out += ", ";
      first = false;
      out += StrCat(name, "=", value.ToString());
    }
  }
  return out + "]";
}

template <typename T>
std::string PrintList(const std::vector<T>& list) {
  std::string out = "[";
  for (size_t i = 0; i < list.size(); ++i) {
    if (list.size() > kMaxPrintedEntries && i == kMaxPrintedEntries / 2) {
      out += ", ...";
      i = list.size() - kMaxPrintedEntries / 2;
    }
    if (i > 0) out += ", ";
    out += Print(list[i]);
  }
  return out + "]";
}

bool Same(const std::string& a, const std::string& b) { return a == b; }
bool Same(int64_t a, int64_t b) { return a == b; }
bool Same(bool a, bool b) { return a == b; }
bool Same(DataType a, DataType b) { return a == b; }
bool Same(const PartialShape& a, const PartialShape& b) { return a == b; }
bool Same(const NameAttrList& a, const NameAttrList& b) { return a == b; }
bool Same(const AttrPlaceholder& a, const AttrPlaceholder& b) { return a == b; }
bool Same(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

bool Same(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape() || a.IsInitialized() != b.IsInitialized())
    return false;
  if (a.num_elements() == 0 || !a.IsInitialized()) return true;
  if (a.SharesBufferWith(b) && a.raw_data() == b.raw_data()) return true;
  if (a.dtype() == DataType::kString) {
    return std::ranges::equal(a.flat<std::string>(), b.flat<std::string>());
  }
  if (DataTypeSize(a.dtype()) == 0) return false;  // handles and variants: only the same object is the same
  return std::memcmp(a.raw_data(), b.raw_data(), a.num_bytes()) == 0;
}
bool Same(const std::shared_ptr<const Tensor>& a, const std::shared_ptr<const Tensor>& b) {
  return Same(*a, *b);
}
template <typename T>
bool Same(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!Same(a[i], b[i])) return false;
  }
  return true;
}

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

// The spelling of the attribute type that a C++ type reads.
template <typename T>
std::string ExpectedType() {
  if constexpr (IsVector<T>::value) {
    return StrCat("list(", ExpectedType<typename T::value_type>(), ")");
  } else if constexpr (std::is_same_v<T, std::string>) {
    return "string";
  } else if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, int32_t>) {
    return "int";
  } else if constexpr (std::is_same_v<T, float>) {
    return "float";
  } else if constexpr (std::is_same_v<T, bool>) {
    return "bool";
  } else if constexpr (std::is_same_v<T, DataType>) {
    return "type";
  } else if constexpr (std::is_same_v<T, PartialShape> || std::is_same_v<T, TensorShape>) {
    return "shape";
  } else if constexpr (std::is_same_v<T, Tensor>) {
    return "tensor";
  } else {
    static_assert(std::is_same_v<T, NameAttrList>);
    return "func";
  }
}

StatusOr<int32_t> Narrow(int64_t v, std::string_view name) {
  if (v < std::numeric_limits<int32_t>::min() || v > std::numeric_limits<int32_t>::max()) {
    return errors::InvalidArgument("Attr ", name, " has value ", v, " out of range for an int32");
  }
  return static_cast<int32_t>(v);
}

// Reads a value of type T, or returns the type of the value instead.
template <typename T>
StatusOr<T> Read(const AttrValue& v, std::string_view name) {
  if constexpr (std::is_same_v<T, Tensor>) {
    if (const auto* p = v.As<std::shared_ptr<const Tensor>>()) return **p;
  } else if constexpr (std::is_same_v<T, int32_t>) {
    if (const auto* p = v.As<int64_t>()) return Narrow(*p, name);
  } else if constexpr (std::is_same_v<T, TensorShape>) {
    if (const auto* p = v.As<PartialShape>()) return p->ToTensorShape();
  } else if constexpr (std::is_same_v<T, std::vector<int32_t>>) {
    if (const auto* p = v.As<std::vector<int64_t>>()) {
      std::vector<int32_t> out;
      out.reserve(p->size());
      for (const int64_t e : *p) {
        MR_ASSIGN_OR_RETURN(const int32_t narrow, Narrow(e, name));
        out.push_back(narrow);
      }
      return out;
    }
  } else {
    if (const auto* p = v.As<T>()) return *p;
  }
  if constexpr (IsVector<T>::value) {
    if (v.As<EmptyList>() != nullptr || !v.IsSet()) return T();
  }
  return CheckAttrType(v, ExpectedType<T>()).WithContext(StrCat(" for attr '", name, "'"));
}

Status CheckType(DataType t) {
  if (IsRefType(t))
    return errors::InvalidArgument("AttrValue must not have reference type value of ", DataTypeName(t));
  if (!IsKnownDataType(t)) {
    return errors::InvalidArgument("AttrValue has invalid DataType enum value: ", static_cast<int>(t));
  }
  return Status::Ok();
}

}  // namespace

bool operator==(const NameAttrList& a, const NameAttrList& b) {
  static const AttrMap kNone;
  const AttrMap& x = a.attrs == nullptr ? kNone : *a.attrs;
  const AttrMap& y = b.attrs == nullptr ? kNone : *b.attrs;
  return a.name == b.name && x == y;
}

AttrValue::AttrValue() noexcept = default;
AttrValue::AttrValue(const AttrValue& o) = default;
AttrValue::AttrValue(AttrValue&& o) noexcept = default;
AttrValue& AttrValue::operator=(const AttrValue& o) = default;
AttrValue& AttrValue::operator=(AttrValue&& o) noexcept = default;
AttrValue::~AttrValue() = default;
AttrValue::AttrValue(std::string v) : v_(std::move(v)) {}
AttrValue::AttrValue(std::string_view v) : v_(std::string(v)) {}
AttrValue::AttrValue(const char* v) : v_(std::string(v)) {}
AttrValue::AttrValue(int64_t v) : v_(v) {}
AttrValue::AttrValue(int v) : v_(int64_t{v}) {}
AttrValue::AttrValue(float v) : v_(v) {}
AttrValue::AttrValue(double v) : v_(static_cast<float>(v)) {}
AttrValue::AttrValue(bool v) : v_(v) {}
AttrValue::AttrValue(DataType v) : v_(v) {}
AttrValue::AttrValue(PartialShape v) : v_(std::move(v)) {}
AttrValue::AttrValue(const TensorShape& v) : v_(PartialShape(v)) {}
AttrValue::AttrValue(Tensor v) : v_(std::make_shared<const Tensor>(std::move(v))) {}
AttrValue::AttrValue(NameAttrList v) : v_(std::move(v)) {}
AttrValue::AttrValue(AttrPlaceholder v) : v_(std::move(v)) {}
AttrValue::AttrValue(EmptyList v) : v_(v) {}
template <typename T>
AttrValue::AttrValue(std::vector<T> v) {
  if (v.empty()) {
    v_ = EmptyList{};
  } else {
    v_ = std::move(v);
  }
}
template AttrValue::AttrValue(std::vector<std::string>);
template AttrValue::AttrValue(std::vector<int64_t>);
template AttrValue::AttrValue(std::vector<float>);
template AttrValue::AttrValue(std::vector<bool>);
template AttrValue::AttrValue(std::vector<DataType>);
template AttrValue::AttrValue(std::vector<PartialShape>);
template AttrValue::AttrValue(std::vector<Tensor>);
template AttrValue::AttrValue(std::vector<NameAttrList>);

std::string_view AttrValue::TypeName() const {
  static_assert(std::is_same_v<std::variant_alternative_t<kFirstList, Variant>, EmptyList>);
  return kTypeNames[v_.index()];
}

static Status CheckTensor(const Tensor& tensor) {
  if (tensor.IsInitialized()) return Status::Ok();
  return errors::InvalidArgument("AttrValue had a tensor without value: ", tensor.dtype(), " of shape ",
                                 tensor.shape());
}

Status CheckAttrType(const AttrValue& value, std::string_view type) {
  const bool wants_list = type.starts_with("list(");
  if (value.IsPlaceholder()) {
    return errors::InvalidArgument("AttrValue had value with unexpected type 'placeholder'");
  }
  if (!value.IsSet()) {
    if (wants_list) return Status::Ok();
    return errors::InvalidArgument("AttrValue missing value with expected type '", type, "'");
  }
  if (value.As<EmptyList>() != nullptr) {
    if (wants_list) return Status::Ok();
    return errors::InvalidArgument("AttrValue missing value with expected type '", type, "'");
  }
  if (value.TypeName() != type) {
    return errors::InvalidArgument("AttrValue had value with type '", value.TypeName(), "' when '", type,
                                   "' expected");
  }
  if (const auto* t = value.As<DataType>()) return CheckType(*t);
  if (const auto* list = value.As<std::vector<DataType>>()) {
    for (const DataType t : *list) MR_RETURN_IF_ERROR(CheckType(t));
  }
  if (const auto* tensor = value.As<std::shared_ptr<const Tensor>>()) return CheckTensor(**tensor);
  if (const auto* list = value.As<std::vector<Tensor>>()) {
    for (const Tensor& tensor : *list) MR_RETURN_IF_ERROR(CheckTensor(tensor));
  }
  return Status::Ok();
}

bool AttrValue::HasType(std::string_view type) const { return CheckAttrType(*this, type).ok(); }

std::string AttrValue::ToString() const {
  return std::visit(Overload{[](std::monostate) -> std::string { return "<unset>"; },
                             [](const EmptyList&) -> std::string { return "[]"; },
                             [](const AttrPlaceholder& p) -> std::string { return StrCat("$", p.name); },
                             [](const std::shared_ptr<const Tensor>& t) { return Print(*t); },
                             []<typename T>(const std::vector<T>& list) { return PrintList(list); },
                             [](const auto& v) { return Print(v); }},
                    v_);
}

bool operator==(const AttrValue& a, const AttrValue& b) {
  if (a.v_.index() != b.v_.index()) return false;
  return std::visit(
      [&b]<typename T>(const T& x) {
        if constexpr (std::is_same_v<T, std::monostate> || std::is_same_v<T, EmptyList>) {
          return true;
        } else {
          return Same(x, std::get<T>(b.v_));
        }
      },
      a.v_);
}

namespace {
auto LowerBound(auto& entries, std::string_view name) {
  return std::lower_bound(entries.begin(), entries.end(), name,
                          [](const AttrMap::Entry& e, std::string_view n) { return e.first.compare(n) < 0; });
}
}  // namespace

AttrMap::AttrMap() noexcept = default;
AttrMap::AttrMap(const AttrMap& o) = default;
AttrMap::AttrMap(AttrMap&& o) noexcept = default;
AttrMap& AttrMap::operator=(const AttrMap& o) = default;
AttrMap& AttrMap::operator=(AttrMap&& o) noexcept = default;
AttrMap::~AttrMap() = default;
AttrMap::AttrMap(std::initializer_list<Entry> entries) {
  for (const Entry& e : entries) Set(e.first, e.second);
}
bool operator==(const AttrMap& a, const AttrMap& b) { return a.entries_ == b.entries_; }

AttrMap AttrMap::FromEntries(std::vector<Entry> entries) {
  AttrMap attrs;
  attrs.entries_ = std::move(entries);
  std::ranges::sort(attrs.entries_, {}, &Entry::first);
  return attrs;
}

const AttrValue* AttrMap::Find(std::string_view name) const {
  const auto it = LowerBound(entries_, name);
  return it != entries_.end() && it->first == name ? &it->second : nullptr;
}

void AttrMap::Set(std::string_view name, AttrValue value) {
  const auto it = LowerBound(entries_, name);
  if (it != entries_.end() && it->first == name) {
    it->second = std::move(value);
  } else {
    entries_.emplace(it, std::string(name), std::move(value));
  }
}

void AttrMap::Erase(std::string_view name) {
  const auto it = LowerBound(entries_, name);
  if (it != entries_.end() && it->first == name) entries_.erase(it);
}

template <typename T>
StatusOr<T> AttrMap::Get(std::string_view name) const {
  const AttrValue* v = Find(name);
  if (v == nullptr) return errors::NotFound("No attr named '", name, "' in NodeDef");
  return Read<T>(*v, name);
}

#define MR_ATTR_GETTER(T)                                       \
  template StatusOr<T> AttrMap::Get<T>(std::string_view) const; \
  template StatusOr<std::vector<T>> AttrMap::Get<std::vector<T>>(std::string_view) const
MR_ATTR_GETTER(std::string);
MR_ATTR_GETTER(int64_t);
MR_ATTR_GETTER(int32_t);
MR_ATTR_GETTER(float);
MR_ATTR_GETTER(bool);
MR_ATTR_GETTER(DataType);
MR_ATTR_GETTER(PartialShape);
MR_ATTR_GETTER(Tensor);
MR_ATTR_GETTER(NameAttrList);
template StatusOr<TensorShape> AttrMap::Get<TensorShape>(std::string_view) const;
#undef MR_ATTR_GETTER

}  // namespace millrace
