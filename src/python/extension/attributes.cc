// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Attributes of operations as values of Python.
#include <memory>

#include "python/extension/methods.h"

namespace millrace::python {
namespace {

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

PyObject* AttributeOf(TF_Operation* op, const char* name) {
  const StatusHolder status;
  const TF_AttrMetadata metadata = TF_OperationGetAttrMetadata(op, name, status.get());
  if (!status.ok()) return RaiseStatusOfOp(status);
  return metadata.is_list != 0 ? ListValue(op, name, metadata) : OneValue(op, name, metadata);
}

}  // namespace millrace::python
