// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Reads values of attributes from a serialised AttrValue, for op_kernel.h and shape_inference.h.
#ifndef TENSORFLOW_CORE_FRAMEWORK_ATTR_VALUE_READER_H_
#define TENSORFLOW_CORE_FRAMEWORK_ATTR_VALUE_READER_H_

#include <cstring>
#include <vector>

#include "millrace/c/io.h"
#include "tensorflow/c/c_api.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tensorflow {

// A function as the value of an attribute: its name.
class NameAttrList {
 public:
  const string& name() const { return name_; }
  void set_name(const string& name) { name_ = name; }

 private:
  string name_;
};

namespace internal {

// Iterates over the fields of a message in the wire format of protocol buffers.
class WireReader {
 public:
  WireReader(const char* begin, size_t size) : at_(begin), end_(begin + size) {}
  // False at the end, and if the bytes are not a message.
  bool Next() {
    std::uint64_t tag = 0;
    if (at_ == end_ || !Varint(&tag)) return false;
    field_ = static_cast<int>(tag >> 3);
    switch (tag & 7) {
      case 0:
        return Varint(&number_);
      case 1:
        return Fixed(8);
      case 2: {
        std::uint64_t length = 0;
        if (!Varint(&length) || length > static_cast<std::uint64_t>(end_ - at_)) return false;
        bytes_ = at_;
        size_ = static_cast<size_t>(length);
        at_ += length;
        return true;
      }
      case 5:
        return Fixed(4);
      default:
        return false;
    }
  }
  int field() const { return field_; }
  int64 number() const { return static_cast<int64>(number_); }
  float real() const {
    const std::uint32_t bits = static_cast<std::uint32_t>(number_);
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  string text() const { return string(bytes_, size_); }
  WireReader message() const { return WireReader(bytes_, size_); }
  // The one number of the field, or all of a packed list.
  template <typename Add>
  void Numbers(bool fixed, Add add) const {
    if (bytes_ == nullptr) return add(*this);
    WireReader reader(bytes_, size_);
    while (reader.at_ != reader.end_) {
      if (!(fixed ? reader.Fixed(4) : reader.Varint(&reader.number_))) return;
      add(reader);
    }
  }
  void Forget() { bytes_ = nullptr; }

 private:
  bool Varint(std::uint64_t* value) {
    *value = 0;
    for (int shift = 0; shift < 64 && at_ != end_; shift += 7) {
      const unsigned char byte = static_cast<unsigned char>(*at_++);
      *value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool Fixed(size_t size) {
    if (static_cast<size_t>(end_ - at_) < size) return false;
    number_ = 0;
    std::memcpy(&number_, at_, size);
    at_ += size;
    return true;
  }

  const char* at_;
  const char* end_;
  int field_ = 0;
  std::uint64_t number_ = 0;
  const char* bytes_ = nullptr;
  size_t size_ = 0;
};

// All values of an attribute: those of its list, or a single one.
struct AttrValues {
  bool is_list = false;
  std::vector<string> strings;
  std::vector<int64> ints;
  std::vector<float> floats;
  std::vector<bool> bools;
  std::vector<DataType> types;
  std::vector<PartialTensorShape> shapes;
  std::vector<string> tensors;  // serialised
  std::vector<NameAttrList> functions;
};

inline PartialTensorShape ReadShape(WireReader reader) {
  PartialTensorShape shape((std::vector<int64>()));
  bool unknown_rank = false;
  while (reader.Next()) {
    if (reader.field() == 3) unknown_rank = reader.number() != 0;
    if (reader.field() != 2) continue;
    int64 size = 0;
    WireReader dim = reader.message();
    while (dim.Next()) {
      if (dim.field() == 1) size = dim.number();
    }
    shape.AddDim(size);
  }
  return unknown_rank ? PartialTensorShape() : shape;
}

inline NameAttrList ReadFunction(WireReader reader) {
  NameAttrList function;
  while (reader.Next()) {
    if (reader.field() == 1) function.set_name(reader.text());
  }
  return function;
}

// AttrValue and its ListValue have the same field numbers for the same kinds, except for functions: in
// AttrValue 9 is a placeholder.
inline void ReadAttr(WireReader reader, AttrValues* values) {
  for (reader.Forget(); reader.Next(); reader.Forget()) {
    switch (reader.field()) {
      case 1:
        if (values->is_list) break;
        values->is_list = true;
        ReadAttr(reader.message(), values);
        break;
      case 2:
        values->strings.push_back(reader.text());
        break;
      case 3:
        reader.Numbers(false, [values](const WireReader& r) { values->ints.push_back(r.number()); });
        break;
      case 4:
        reader.Numbers(true, [values](const WireReader& r) { values->floats.push_back(r.real()); });
        break;
      case 5:
        reader.Numbers(false, [values](const WireReader& r) { values->bools.push_back(r.number() != 0); });
        break;
      case 6:
        reader.Numbers(false, [values](const WireReader& r) {
          values->types.push_back(static_cast<DataType>(r.number()));
        });
        break;
      case 7:
        values->shapes.push_back(ReadShape(reader.message()));
        break;
      case 8:
        values->tensors.push_back(reader.text());
        break;
      case 9:
      case 10:
        if ((reader.field() == 9) == values->is_list)
          values->functions.push_back(ReadFunction(reader.message()));
        break;
      default:
        break;
    }
  }
}

inline Status ConvertAttr(const std::vector<string>& from, std::vector<string>* to) {
  return *to = from, Status();
}
inline Status ConvertAttr(const std::vector<int64>& from, std::vector<int64>* to) {
  return *to = from, Status();
}
inline Status ConvertAttr(const std::vector<float>& from, std::vector<float>* to) {
  return *to = from, Status();
}
inline Status ConvertAttr(const std::vector<bool>& from, std::vector<bool>* to) {
  return *to = from, Status();
}
inline Status ConvertAttr(const std::vector<DataType>& from, std::vector<DataType>* to) {
  return *to = from, Status();
}
inline Status ConvertAttr(const std::vector<PartialTensorShape>& from, std::vector<PartialTensorShape>* to) {
  return *to = from, Status();
}
inline Status ConvertAttr(const std::vector<int64>& from, std::vector<int32>* to) {
  for (const int64 value : from) {
    if (value != static_cast<int32>(value))
      return errors::InvalidArgument("value ", value, " out of range for an int32");
    to->push_back(static_cast<int32>(value));
  }
  return Status();
}
inline Status ConvertAttr(const std::vector<PartialTensorShape>& from, std::vector<TensorShape>* to) {
  for (const PartialTensorShape& value : from) {
    TensorShape shape;
    if (!value.AsTensorShape(&shape))
      return errors::InvalidArgument("shape ", value, " is not fully defined");
    to->push_back(shape);
  }
  return Status();
}

inline Status ConvertAttr(const std::vector<NameAttrList>& from, std::vector<NameAttrList>* to) {
  return *to = from, Status();
}
inline Status ConvertAttr(const std::vector<string>& from, std::vector<Tensor>* to) {
  for (const string& proto : from) {
    const CStatus status;
    TF_Tensor* const tensor = Millrace_ReadTensor(proto.data(), proto.size(), status.get());
    TF_RETURN_IF_ERROR(status.status());
    to->push_back(Tensor::Adopt(tensor));
  }
  return Status();
}

inline const std::vector<string>& ValuesFor(const AttrValues& v, const string*) { return v.strings; }
inline const std::vector<string>& ValuesFor(const AttrValues& v, const Tensor*) { return v.tensors; }
inline const std::vector<NameAttrList>& ValuesFor(const AttrValues& v, const NameAttrList*) {
  return v.functions;
}
inline const std::vector<int64>& ValuesFor(const AttrValues& v, const int64*) { return v.ints; }
inline const std::vector<int64>& ValuesFor(const AttrValues& v, const int32*) { return v.ints; }
inline const std::vector<float>& ValuesFor(const AttrValues& v, const float*) { return v.floats; }
inline const std::vector<bool>& ValuesFor(const AttrValues& v, const bool*) { return v.bools; }
inline const std::vector<DataType>& ValuesFor(const AttrValues& v, const DataType*) { return v.types; }
inline const std::vector<PartialTensorShape>& ValuesFor(const AttrValues& v, const PartialTensorShape*) {
  return v.shapes;
}
inline const std::vector<PartialTensorShape>& ValuesFor(const AttrValues& v, const TensorShape*) {
  return v.shapes;
}

template <typename T>
Status TakeAttr(const AttrValues& values, const string& name, std::vector<T>* value) {
  value->clear();
  if (!values.is_list) return errors::InvalidArgument("Attr ", name, " is not a list");
  return ConvertAttr(ValuesFor(values, static_cast<const T*>(nullptr)), value);
}
template <typename T>
Status TakeAttr(const AttrValues& values, const string& name, T* value) {
  std::vector<T> all;
  TF_RETURN_IF_ERROR(ConvertAttr(ValuesFor(values, value), &all));
  if (values.is_list || all.size() != 1) return errors::InvalidArgument("Attr ", name, " is of another type");
  *value = all[0];
  return Status();
}

// Parses the attribute that `read` writes to a buffer.
template <typename Read, typename T>
Status GetAttrBy(Read read, const string& name, T* value) {
  CStatus status;
  const CBuffer buffer;
  read(buffer.get(), status.get());
  TF_RETURN_IF_ERROR(status.status());
  AttrValues values;
  ReadAttr(WireReader(static_cast<const char*>(buffer.get()->data), buffer.get()->length), &values);
  return TakeAttr(values, name, value);
}

}  // namespace internal
}  // namespace tensorflow

#endif
