// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Attributes between Python's values and the engine's.
#include <memory>

#include "python/extension/methods.h"

namespace millrace::python {
namespace {

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

bool SetStrings(TF_OperationDescription* op, const char* name, PyObject* value) {
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
  TF_SetAttrStringList(op, name, data.data(), sizes.data(), static_cast<int>(data.size()));
  return true;
}

bool SetShapes(TF_OperationDescription* op, const char* name, PyObject* value) {
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
  TF_SetAttrShapeList(op, name, dims.data(), ranks.data(), static_cast<int>(ranks.size()));
  return true;
}

// A list of attributes; false with KeyError-like behaviour is signalled by *known = false.
bool SetList(TF_OperationDescription* op, const char* name, std::string_view kind, PyObject* value,
             bool* known) {
  if (kind == "list(int)") {
    std::vector<int64_t> list;
    if (!ReadList(value, &list, [](PyObject* o, auto set) { return WithInt(o, set); })) return false;
    TF_SetAttrIntList(op, name, list.data(), static_cast<int>(list.size()));
  } else if (kind == "list(float)") {
    std::vector<float> list;
    if (!ReadList(value, &list, [](PyObject* o, auto set) { return WithFloat(o, set); })) return false;
    TF_SetAttrFloatList(op, name, list.data(), static_cast<int>(list.size()));
  } else if (kind == "list(bool)") {
    std::vector<unsigned char> list;
    if (!ReadList(value, &list, [](PyObject* o, auto set) { return WithBool(o, set); })) return false;
    TF_SetAttrBoolList(op, name, list.data(), static_cast<int>(list.size()));
  } else if (kind == "list(type)") {
    std::vector<TF_DataType> list;
    if (!ReadList(value, &list, [](PyObject* o, auto set) { return WithType(o, set); })) return false;
    TF_SetAttrTypeList(op, name, list.data(), static_cast<int>(list.size()));
  } else if (kind == "list(string)") {
    return SetStrings(op, name, value);
  } else if (kind == "list(shape)") {
    return SetShapes(op, name, value);
  } else {
    *known = false;
  }
  return true;
}

bool SetProto(TF_OperationDescription* op, const char* name, PyObject* value) {
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(value, &data, &size) < 0) return false;
  const StatusHolder status;
  TF_SetAttrValueProto(op, name, data, static_cast<size_t>(size), status.get());
  if (status.ok()) return true;
  RaiseStatusOfOp(status);
  return false;
}

bool SetTensor(TF_OperationDescription* op, const char* name, PyObject* value) {
  TF_Tensor* tensor = TensorOfArray(value, -1);
  if (tensor == nullptr) return false;
  const StatusHolder status;
  TF_SetAttrTensor(op, name, tensor, status.get());
  TF_DeleteTensor(tensor);
  if (status.ok()) return true;
  RaiseStatusOfOp(status);
  return false;
}

// --- Reading

PyObject* ShapeTuple(const int64_t* dims, int rank) {
  if (rank < 0) return PyObject_CallOneArg(registered.tensor_shape, Py_None);
  const Ref tuple(PyTuple_New(rank));
  if (!tuple) return nullptr;
  for (int i = 0; i < rank; ++i) {
    PyObject* size = dims[i] < 0 ? Py_NewRef(Py_None) : PyLong_FromLongLong(dims[i]);
    if (size == nullptr) return nullptr;
    PyTuple_SET_ITEM(tuple.get(), i, size);
  }
  return PyObject_CallOneArg(registered.tensor_shape, tuple.get());
}

// A list of `count` values made by make(i), each a new reference.
template <typename Make>
PyObject* ListOf(size_t count, Make make) {
  Ref list(PyList_New(static_cast<Py_ssize_t>(count)));
  if (!list) return nullptr;
  for (size_t i = 0; i < count; ++i) {
    PyObject* item = make(i);
    if (item == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), item);
  }
  return list.release();
}

PyObject* ProtoBytes(TF_Operation* op, const char* name) {
  TF_Buffer* buffer = TF_NewBuffer();
  const StatusHolder status;
  TF_OperationGetAttrValueProto(op, name, buffer, status.get());
  PyObject* bytes = status.ok() ? PyBytes_FromStringAndSize(static_cast<const char*>(buffer->data),
                                                            static_cast<Py_ssize_t>(buffer->length))
                                : RaiseStatusOfOp(status);
  TF_DeleteBuffer(buffer);
  if (bytes == nullptr) return nullptr;
  PyObject* wrapped = Py_BuildValue("(sN)", "proto", bytes);
  return wrapped;
}

PyObject* OneValue(TF_Operation* op, const char* name, const TF_AttrMetadata& metadata) {
  const StatusHolder status;
  PyObject* result = nullptr;
  switch (metadata.type) {
    case TF_ATTR_STRING: {
      std::string text(static_cast<size_t>(metadata.total_size), '\0');
      TF_OperationGetAttrString(op, name, text.data(), text.size(), status.get());
      result = PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
      break;
    }
    case TF_ATTR_INT: {
      int64_t value = 0;
      TF_OperationGetAttrInt(op, name, &value, status.get());
      result = PyLong_FromLongLong(value);
      break;
    }
    case TF_ATTR_FLOAT: {
      float value = 0;
      TF_OperationGetAttrFloat(op, name, &value, status.get());
      result = PyFloat_FromDouble(value);
      break;
    }
    case TF_ATTR_BOOL: {
      unsigned char value = 0;
      TF_OperationGetAttrBool(op, name, &value, status.get());
      result = PyBool_FromLong(value);
      break;
    }
    case TF_ATTR_TYPE: {
      TF_DataType value = TF_FLOAT;
      TF_OperationGetAttrType(op, name, &value, status.get());
      result = DTypeObject(static_cast<int>(value));
      break;
    }
    case TF_ATTR_SHAPE: {
      std::vector<int64_t> dims(metadata.total_size < 0 ? 0 : static_cast<size_t>(metadata.total_size));
      TF_OperationGetAttrShape(op, name, dims.data(), static_cast<int>(dims.size()), status.get());
      result = ShapeTuple(dims.data(), metadata.total_size < 0 ? -1 : static_cast<int>(dims.size()));
      break;
    }
    default:
      return ProtoBytes(op, name);
  }
  if (status.ok()) return result;
  Py_XDECREF(result);
  return RaiseStatusOfOp(status);
}

PyObject* StringList(TF_Operation* op, const char* name, size_t count, size_t total) {
  std::vector<void*> values(count);
  std::vector<size_t> lengths(count);
  std::string storage(total, '\0');
  const StatusHolder status;
  TF_OperationGetAttrStringList(op, name, values.data(), lengths.data(), static_cast<int>(count),
                                storage.data(), storage.size(), status.get());
  if (!status.ok()) return RaiseStatusOfOp(status);
  return ListOf(count, [&](size_t i) {
    return PyBytes_FromStringAndSize(static_cast<const char*>(values[i]),
                                     static_cast<Py_ssize_t>(lengths[i]));
  });
}

PyObject* ShapeList(TF_Operation* op, const char* name, size_t count, size_t total) {
  std::vector<int64_t*> dims(count);
  std::vector<int> ranks(count);
  std::vector<int64_t> storage(total);
  const StatusHolder status;
  TF_OperationGetAttrShapeList(op, name, dims.data(), ranks.data(), static_cast<int>(count), storage.data(),
                               static_cast<int>(storage.size()), status.get());
  if (!status.ok()) return RaiseStatusOfOp(status);
  return ListOf(count, [&](size_t i) { return ShapeTuple(dims[i], ranks[i]); });
}

PyObject* ListValue(TF_Operation* op, const char* name, const TF_AttrMetadata& metadata) {
  const auto count = static_cast<size_t>(metadata.list_size);
  const auto room = static_cast<int>(count);
  const auto total = static_cast<size_t>(metadata.total_size < 0 ? 0 : metadata.total_size);
  const StatusHolder status;
  switch (metadata.type) {
    case TF_ATTR_STRING:
      return StringList(op, name, count, total);
    case TF_ATTR_SHAPE:
      return ShapeList(op, name, count, total);
    case TF_ATTR_INT: {
      std::vector<int64_t> values(count);
      TF_OperationGetAttrIntList(op, name, values.data(), room, status.get());
      if (!status.ok()) return RaiseStatusOfOp(status);
      return ListOf(count, [&](size_t i) { return PyLong_FromLongLong(values[i]); });
    }
    case TF_ATTR_FLOAT: {
      std::vector<float> values(count);
      TF_OperationGetAttrFloatList(op, name, values.data(), room, status.get());
      if (!status.ok()) return RaiseStatusOfOp(status);
      return ListOf(count, [&](size_t i) { return PyFloat_FromDouble(values[i]); });
    }
    case TF_ATTR_BOOL: {
      std::vector<unsigned char> values(count);
      TF_OperationGetAttrBoolList(op, name, values.data(), room, status.get());
      if (!status.ok()) return RaiseStatusOfOp(status);
      return ListOf(count, [&](size_t i) { return PyBool_FromLong(values[i]); });
    }
    case TF_ATTR_TYPE: {
      std::vector<TF_DataType> values(count);
      TF_OperationGetAttrTypeList(op, name, values.data(), room, status.get());
      if (!status.ok()) return RaiseStatusOfOp(status);
      return ListOf(count, [&](size_t i) { return DTypeObject(static_cast<int>(values[i])); });
    }
    default:
      return ProtoBytes(op, name);
  }
}

}  // namespace

bool SetAttribute(TF_OperationDescription* op, const char* name, std::string_view kind, PyObject* value) {
  if (kind == "type") {
    return WithType(value, [&](TF_DataType v) { TF_SetAttrType(op, name, v); });
  }
  if (kind == "int") {
    return WithInt(value, [&](int64_t v) { TF_SetAttrInt(op, name, v); });
  }
  if (kind == "bool") {
    return WithBool(value, [&](unsigned char v) { TF_SetAttrBool(op, name, v); });
  }
  if (kind == "float") {
    return WithFloat(value, [&](float v) { TF_SetAttrFloat(op, name, v); });
  }
  if (kind == "proto") return SetProto(op, name, value);
  if (kind == "array") return SetTensor(op, name, value);
  if (kind == "string") {
    std::string_view text;
    if (!TextOf(value, name, &text)) return false;
    TF_SetAttrString(op, name, text.data(), text.size());
    return true;
  }
  if (kind == "shape") {
    Sizes sizes;
    if (!SizesOf(value, &sizes)) return false;
    TF_SetAttrShape(op, name, sizes.sizes.data(), sizes.rank);
    return true;
  }
  bool known = true;
  if (!SetList(op, name, kind, value, &known)) return false;
  if (known) return true;
  PyErr_Format(PyExc_TypeError, "Unrecognized Attr type %.*s of '%s'", static_cast<int>(kind.size()),
               kind.data(), name);
  return false;
}

PyObject* AttributeOf(TF_Operation* op, const char* name) {
  const StatusHolder status;
  const TF_AttrMetadata metadata = TF_OperationGetAttrMetadata(op, name, status.get());
  if (!status.ok()) return RaiseStatusOfOp(status);
  return metadata.is_list != 0 ? ListValue(op, name, metadata) : OneValue(op, name, metadata);
}

}  // namespace millrace::python
