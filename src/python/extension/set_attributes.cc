// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Sets attributes of operations in graphs and of eager ops from Python values.
#include <vector>

#include "python/extension/eager.h"
#include "python/extension/methods.h"

namespace millrace::python {
namespace {

// Set an attribute of an operation or an op; the status is for functions that may fail.
struct GraphTarget {
  TF_OperationDescription* op;
  void Int(const char* n, int64_t v) const { TF_SetAttrInt(op, n, v); }
  void Float(const char* n, float v) const { TF_SetAttrFloat(op, n, v); }
  void Bool(const char* n, unsigned char v) const { TF_SetAttrBool(op, n, v); }
  void Type(const char* n, TF_DataType v) const { TF_SetAttrType(op, n, v); }
  void String(const char* n, std::string_view v) const { TF_SetAttrString(op, n, v.data(), v.size()); }
  void Shape(const char* n, const int64_t* dims, int rank, TF_Status* /*status*/) const {
    TF_SetAttrShape(op, n, dims, rank);
  }
  void Tensor(const char* n, TF_Tensor* v, TF_Status* status) const { TF_SetAttrTensor(op, n, v, status); }
  void Ints(const char* n, const int64_t* v, int count) const { TF_SetAttrIntList(op, n, v, count); }
  void Floats(const char* n, const float* v, int count) const { TF_SetAttrFloatList(op, n, v, count); }
  void Bools(const char* n, const unsigned char* v, int count) const { TF_SetAttrBoolList(op, n, v, count); }
  void Types(const char* n, const TF_DataType* v, int count) const { TF_SetAttrTypeList(op, n, v, count); }
  void Strings(const char* n, const void* const* v, const size_t* sizes, int count) const {
    TF_SetAttrStringList(op, n, v, sizes, count);
  }
  void Shapes(const char* n, const int64_t** dims, const int* ranks, int count, TF_Status* /*status*/) const {
    TF_SetAttrShapeList(op, n, dims, ranks, count);
  }
};

struct EagerTarget {
  TFE_Op* op;
  void Int(const char* n, int64_t v) const { TFE_OpSetAttrInt(op, n, v); }
  void Float(const char* n, float v) const { TFE_OpSetAttrFloat(op, n, v); }
  void Bool(const char* n, unsigned char v) const { TFE_OpSetAttrBool(op, n, v); }
  void Type(const char* n, TF_DataType v) const { TFE_OpSetAttrType(op, n, v); }
  void String(const char* n, std::string_view v) const { TFE_OpSetAttrString(op, n, v.data(), v.size()); }
  void Shape(const char* n, const int64_t* dims, int rank, TF_Status* status) const {
    TFE_OpSetAttrShape(op, n, dims, rank, status);
  }
  void Tensor(const char* n, TF_Tensor* v, TF_Status* status) const { TFE_OpSetAttrTensor(op, n, v, status); }
  void Ints(const char* n, const int64_t* v, int count) const { TFE_OpSetAttrIntList(op, n, v, count); }
  void Floats(const char* n, const float* v, int count) const { TFE_OpSetAttrFloatList(op, n, v, count); }
  void Bools(const char* n, const unsigned char* v, int count) const {
    TFE_OpSetAttrBoolList(op, n, v, count);
  }
  void Types(const char* n, const TF_DataType* v, int count) const { TFE_OpSetAttrTypeList(op, n, v, count); }
  void Strings(const char* n, const void* const* v, const size_t* sizes, int count) const {
    TFE_OpSetAttrStringList(op, n, v, sizes, count);
  }
  void Shapes(const char* n, const int64_t** dims, const int* ranks, int count, TF_Status* status) const {
    TFE_OpSetAttrShapeList(op, n, dims, ranks, count, status);
  }
};

bool Succeeded(const StatusHolder& status) {
  if (!status.ok()) RaiseStatusOfOp(status);
  return status.ok();
}

bool IntOf(PyObject* object, int64_t* result) {
  const Ref number(PyNumber_Index(object));
  if (!number) return false;
  *result = PyLong_AsLongLong(number.get());
  return *result != -1 || !PyErr_Occurred();
}

// One value, set by `set(value)`.
template <typename Set>
bool WithInt(PyObject* object, Set set) {
  int64_t value = 0;
  if (!IntOf(object, &value)) return false;
  set(value);
  return true;
}

template <typename Set>
bool WithFloat(PyObject* object, Set set) {
  const double value = PyFloat_AsDouble(object);
  if (value == -1.0 && PyErr_Occurred()) return false;
  set(static_cast<float>(value));
  return true;
}

template <typename Set>
bool WithBool(PyObject* object, Set set) {
  const int value = PyObject_IsTrue(object);
  if (value < 0) return false;
  set(static_cast<unsigned char>(value));
  return true;
}

template <typename Set>
bool WithType(PyObject* object, Set set) {
  const int value = DataTypeOf(object);
  if (value < 0) return false;
  set(static_cast<TF_DataType>(value));
  return true;
}

template <typename T, typename Read>
bool ReadList(PyObject* value, std::vector<T>* list, Read read) {
  const Ref items(PySequence_Fast(value, "The value of a list attribute must be a list"));
  if (!items) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    if (!read(PySequence_Fast_GET_ITEM(items.get(), i), [&](T item) { list->push_back(item); })) return false;
  }
  return true;
}

template <typename Target>
bool SetStrings(const Target& op, const char* name, PyObject* value) {
  std::vector<const void*> data;
  std::vector<size_t> sizes;
  const Ref items(PySequence_Fast(value, "The value of a list attribute must be a list"));
  if (!items) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    std::string_view text;
    if (!TextOf(PySequence_Fast_GET_ITEM(items.get(), i), name, &text)) return false;
    data.push_back(text.data());
    sizes.push_back(text.size());
  }
  op.Strings(name, data.data(), sizes.data(), static_cast<int>(data.size()));
  return true;
}

template <typename Target>
bool SetShapes(const Target& op, const char* name, PyObject* value) {
  const Ref items(PySequence_Fast(value, "The value of a list attribute must be a list"));
  if (!items) return false;
  std::vector<Sizes> shapes(static_cast<size_t>(PySequence_Fast_GET_SIZE(items.get())));
  std::vector<const int64_t*> dims;
  std::vector<int> ranks;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (!SizesOf(PySequence_Fast_GET_ITEM(items.get(), static_cast<Py_ssize_t>(i)), &shapes[i])) return false;
    dims.push_back(shapes[i].sizes.data());
    ranks.push_back(shapes[i].rank);
  }
  const StatusHolder status;
  op.Shapes(name, dims.data(), ranks.data(), static_cast<int>(ranks.size()), status.get());
  return Succeeded(status);
}

// A list of attributes; false with KeyError-like behaviour is signalled by *known = false.
template <typename Target>
bool SetList(const Target& op, const char* name, std::string_view kind, PyObject* value, bool* known) {
  if (kind == "list(int)") {
    std::vector<int64_t> list;
    if (!ReadList(value, &list, [](PyObject* o, auto set) { return WithInt(o, set); })) return false;
    op.Ints(name, list.data(), static_cast<int>(list.size()));
  } else if (kind == "list(float)") {
    std::vector<float> list;
    if (!ReadList(value, &list, [](PyObject* o, auto set) { return WithFloat(o, set); })) return false;
    op.Floats(name, list.data(), static_cast<int>(list.size()));
  } else if (kind == "list(bool)") {
    std::vector<unsigned char> list;
    if (!ReadList(value, &list, [](PyObject* o, auto set) { return WithBool(o, set); })) return false;
    op.Bools(name, list.data(), static_cast<int>(list.size()));
  } else if (kind == "list(type)") {
    std::vector<TF_DataType> list;
    if (!ReadList(value, &list, [](PyObject* o, auto set) { return WithType(o, set); })) return false;
    op.Types(name, list.data(), static_cast<int>(list.size()));
  } else if (kind == "list(string)") {
    return SetStrings(op, name, value);
  } else if (kind == "list(shape)") {
    return SetShapes(op, name, value);
  } else {
    *known = false;
  }
  return true;
}

template <typename Target>
bool SetTensor(const Target& op, const char* name, PyObject* value) {
  TF_Tensor* tensor = TensorOfArray(value, -1);
  if (tensor == nullptr) return false;
  const StatusHolder status;
  op.Tensor(name, tensor, status.get());
  TF_DeleteTensor(tensor);
  return Succeeded(status);
}

bool SetProto(TF_OperationDescription* op, const char* name, PyObject* value) {
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(value, &data, &size) < 0) return false;
  const StatusHolder status;
  TF_SetAttrValueProto(op, name, data, static_cast<size_t>(size), status.get());
  return Succeeded(status);
}

template <typename Target>
bool Set(const Target& op, const char* name, std::string_view kind, PyObject* value) {
  if (kind == "type") {
    return WithType(value, [&](TF_DataType v) { op.Type(name, v); });
  }
  if (kind == "int") {
    return WithInt(value, [&](int64_t v) { op.Int(name, v); });
  }
  if (kind == "bool") {
    return WithBool(value, [&](unsigned char v) { op.Bool(name, v); });
  }
  if (kind == "float") {
    return WithFloat(value, [&](float v) { op.Float(name, v); });
  }
  if (kind == "array") return SetTensor(op, name, value);
  if (kind == "string") {
    std::string_view text;
    if (!TextOf(value, name, &text)) return false;
    op.String(name, text);
    return true;
  }
  if (kind == "shape") {
    Sizes sizes;
    if (!SizesOf(value, &sizes)) return false;
    const StatusHolder status;
    op.Shape(name, sizes.sizes.data(), sizes.rank, status.get());
    return Succeeded(status);
  }
  bool known = true;
  if (!SetList(op, name, kind, value, &known)) return false;
  if (known) return true;
  PyErr_Format(PyExc_TypeError, "Unrecognized Attr type %.*s of '%s'", static_cast<int>(kind.size()),
               kind.data(), name);
  return false;
}

bool SetFunctionName(TFE_Op* op, const char* name, PyObject* value) {
  std::string_view text;
  if (!TextOf(value, name, &text)) return false;
  TFE_OpSetAttrFunctionName(op, name, text.data(), text.size());
  return true;
}

bool SetFunctionNames(TFE_Op* op, const char* name, PyObject* value) {
  const Ref items(PySequence_Fast(value, "The value of a list attribute must be a list"));
  if (!items) return false;
  std::vector<TFE_Op*> functions;
  bool good = true;
  for (Py_ssize_t i = 0; good && i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    const char* text = PyUnicode_AsUTF8(PySequence_Fast_GET_ITEM(items.get(), i));
    const StatusHolder status;
    TFE_Op* function = text == nullptr ? nullptr : TFE_NewOp(EagerContextOf(), text, status.get());
    if (function != nullptr) functions.push_back(function);
    good = function != nullptr;
    if (text != nullptr && !good) RaiseStatus(status);
  }
  if (good) {
    std::vector<const TFE_Op*> list(functions.begin(), functions.end());
    TFE_OpSetAttrFunctionList(op, name, list.data(), static_cast<int>(list.size()));
  }
  for (TFE_Op* function : functions) TFE_DeleteOp(function);
  return good;
}

}  // namespace

bool SetAttribute(TF_OperationDescription* op, const char* name, std::string_view kind, PyObject* value) {
  return kind == "proto" ? SetProto(op, name, value) : Set(GraphTarget{op}, name, kind, value);
}

bool SetEagerAttribute(TFE_Op* op, const char* name, std::string_view kind, PyObject* value) {
  if (kind == "func") return SetFunctionName(op, name, value);
  if (kind == "list(func)") return SetFunctionNames(op, name, value);
  return Set(EagerTarget{op}, name, kind, value);
}

}  // namespace millrace::python
