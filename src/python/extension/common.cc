// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "python/extension/common.h"

namespace millrace::python {

Registered registered;

namespace {

PyObject* Raise(PyObject* type, const StatusHolder& status, bool is_op_error) {
  const Ref message(
      PyUnicode_DecodeUTF8(status.message(), static_cast<Py_ssize_t>(strlen(status.message())), "replace"));
  if (!message) return nullptr;
  const Ref error(is_op_error ? PyObject_CallFunctionObjArgs(type, Py_None, Py_None, message.get(), nullptr)
                              : PyObject_CallOneArg(type, message.get()));
  if (error) PyErr_SetObject(type, error.get());
  return nullptr;
}

}  // namespace

PyObject* RaiseStatus(const StatusHolder& status) {
  if (registered.error_classes == nullptr) {
    const Ref module(PyImport_ImportModule("millrace.python.framework.errors_impl"));
    if (!module) return nullptr;
  }
  if (registered.error_classes != nullptr) {
    const Ref code(PyLong_FromLong(status.code()));
    PyObject* type = code ? PyDict_GetItemWithError(registered.error_classes, code.get()) : nullptr;
    if (type != nullptr) return Raise(type, status, true);
    if (PyErr_Occurred()) return nullptr;
  }
  return Raise(PyExc_RuntimeError, status, false);
}

PyObject* RaiseStatusOfOp(const StatusHolder& status) {
  if (status.code() == TF_INVALID_ARGUMENT) return Raise(PyExc_ValueError, status, false);
  return RaiseStatus(status);
}

bool TextOf(PyObject* object, const char* what, std::string_view* text) {
  if (PyUnicode_Check(object)) {
    Py_ssize_t size = 0;
    const char* data = PyUnicode_AsUTF8AndSize(object, &size);
    if (data == nullptr) return false;
    *text = {data, static_cast<size_t>(size)};
    return true;
  }
  if (PyBytes_Check(object)) {
    *text = {PyBytes_AS_STRING(object), static_cast<size_t>(PyBytes_GET_SIZE(object))};
    return true;
  }
  PyErr_Format(PyExc_TypeError, "%s must be a string, not %s", what, Py_TYPE(object)->tp_name);
  return false;
}

int DataTypeOf(PyObject* object) {
  if (PyLong_Check(object)) return static_cast<int>(PyLong_AsLong(object));
  if (registered.dtype_enum == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "millrace.python.framework.dtypes was not loaded");
    return -1;
  }
  const Ref number(PyObject_CallOneArg(registered.dtype_enum, object));
  return number ? static_cast<int>(PyLong_AsLong(number.get())) : -1;
}

PyObject* DTypeObject(int number) {
  PyObject* dtype = number >= 0 && number < 256 ? registered.dtypes[number] : nullptr;
  if (dtype == nullptr) {
    PyErr_Format(PyExc_TypeError, "No data type has the number %d", number);
    return nullptr;
  }
  return Py_NewRef(dtype);
}

}  // namespace millrace::python
