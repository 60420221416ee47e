// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "millrace/dtype.h"
#include "millrace/shape.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace {

class AttrMap;

// A function name with its attributes, as in an attribute of type "func".
struct NameAttrList {
  std::string name;
  std::shared_ptr<const AttrMap> attrs;  // never null after construction by the codec; null means none
  friend bool operator==(const NameAttrList& a, const NameAttrList& b);
};

// A reference "$T" to an attribute of the enclosing function, before instantiation.
struct AttrPlaceholder {
  std::string name;
  friend bool operator==(const AttrPlaceholder&, const AttrPlaceholder&) = default;
};

// A list of unknown kind: an empty "list(type)" or other list.
struct EmptyList {
  friend bool operator==(const EmptyList&, const EmptyList&) = default;
};

// The value of an attribute of an op or node. Value type; large values (tensors) share memory.
class AttrValue {
 public:
  using Variant = std::variant<std::monostate, std::string, int64_t, float, bool, DataType, PartialShape,
                               std::shared_ptr<const Tensor>, NameAttrList, AttrPlaceholder, EmptyList,
                               std::vector<std::string>, std::vector<int64_t>, std::vector<float>,
                               std::vector<bool>, std::vector<DataType>, std::vector<PartialShape>,
                               std::vector<Tensor>, std::vector<NameAttrList>>;

  // All of these are compiled once, in attr_value.cc: copying and destroying so many types is much code.
  AttrValue() noexcept;
  AttrValue(const AttrValue& o);
  AttrValue(AttrValue&& o) noexcept;
  AttrValue& operator=(const AttrValue& o);
  AttrValue& operator=(AttrValue&& o) noexcept;
  ~AttrValue();
  AttrValue(std::string v);         // NOLINT(google-explicit-constructor)
  AttrValue(std::string_view v);    // NOLINT(google-explicit-constructor)
  AttrValue(const char* v);         // NOLINT(google-explicit-constructor)
  AttrValue(int64_t v);             // NOLINT(google-explicit-constructor)
  AttrValue(int v);                 // NOLINT(google-explicit-constructor)
  AttrValue(float v);               // NOLINT(google-explicit-constructor)
  AttrValue(double v);              // NOLINT(google-explicit-constructor)
  AttrValue(bool v);                // NOLINT(google-explicit-constructor)
  AttrValue(DataType v);            // NOLINT(google-explicit-constructor)
  AttrValue(PartialShape v);        // NOLINT(google-explicit-constructor)
  AttrValue(const TensorShape& v);  // NOLINT(google-explicit-constructor)
  AttrValue(Tensor v);              // NOLINT(google-explicit-constructor)
  AttrValue(NameAttrList v);        // NOLINT(google-explicit-constructor)
  AttrValue(AttrPlaceholder v);     // NOLINT(google-explicit-constructor)
  AttrValue(EmptyList v);           // NOLINT(google-explicit-constructor)
  // A list of a kind in Variant; an empty one becomes an EmptyList.
  template <typename T>
  AttrValue(std::vector<T> v);  // NOLINT(google-explicit-constructor)

  bool IsSet() const { return !std::holds_alternative<std::monostate>(v_); }
  bool IsPlaceholder() const { return std::holds_alternative<AttrPlaceholder>(v_); }
  bool IsList() const { return v_.index() >= kFirstList; }
  template <typename T>
  const T* As() const {
    return std::get_if<T>(&v_);
  }
  const Variant& variant() const { return v_; }
  // The spelling of the type in the registration language: "int", "list(type)", …; "any list" for an empty
  // list.
  std::string_view TypeName() const;
  // True when an attribute of type `type` ("list(int)", …) may have the value.
  bool HasType(std::string_view type) const;
  // For messages: 3, "abc", DT_FLOAT, [1, 2], …; long values are truncated.
  std::string ToString() const;
  // Values are equal when they print and serialise equally; tensors are compared by content.
  friend bool operator==(const AttrValue& a, const AttrValue& b);

 private:
  static constexpr size_t kFirstList = 10;  // EmptyList

  Variant v_;
};

// OK when an attribute of type `type` may have `value`; otherwise the error names the actual type: "AttrValue
// had value with type 'int' when 'string' expected". An empty list fits every list type; reference types are
// refused.
Status CheckAttrType(const AttrValue& value, std::string_view type);

// Attributes by name, sorted. Small and immutable once a node holds it.
class AttrMap {
 public:
  using Entry = std::pair<std::string, AttrValue>;
  AttrMap() noexcept;
  AttrMap(const AttrMap& o);
  AttrMap(AttrMap&& o) noexcept;
  AttrMap& operator=(const AttrMap& o);
  AttrMap& operator=(AttrMap&& o) noexcept;
  ~AttrMap();
  AttrMap(std::initializer_list<Entry> entries);
  // From entries in any order, without the cost of setting one by one. REQUIRES: names differ.
  static AttrMap FromEntries(std::vector<Entry> entries);
  const AttrValue* Find(std::string_view name) const;
  void Set(std::string_view name, AttrValue value);
  void Erase(std::string_view name);
  // Reads an attribute of C++ type T (one of the alternatives; Tensor and int32_t by conversion):
  // NotFound "No attr named 'x' in NodeDef" or InvalidArgument when it has another type.
  template <typename T>
  StatusOr<T> Get(std::string_view name) const;
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  friend bool operator==(const AttrMap& a, const AttrMap& b);

 private:
  std::vector<Entry> entries_;
};

}  // namespace millrace
