// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <string>
#include <string_view>
#include <utility>

#include "millrace/c/client.h"
#include "tensorflow/c/c_api.h"

// The extension module: functions follow Python's C conventions. A null result means that a Python exception
// is set.
namespace millrace::python {

// Owns one reference; null owns none.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : object_(owned) {}
  static Ref New(PyObject* borrowed) { return Ref(Py_XNewRef(borrowed)); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    PyObject* old = std::exchange(object_, std::exchange(other.object_, nullptr));
    Py_XDECREF(old);
    return *this;
  }
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  ~Ref() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

class StatusHolder {
 public:
  StatusHolder() : status_(TF_NewStatus()) {}
  StatusHolder(const StatusHolder&) = delete;
  StatusHolder& operator=(const StatusHolder&) = delete;
  ~StatusHolder() { TF_DeleteStatus(status_); }
  TF_Status* get() const { return status_; }
  TF_Code code() const { return TF_GetCode(status_); }
  bool ok() const { return code() == TF_OK; }
  const char* message() const { return TF_Message(status_); }

 private:
  TF_Status* status_;
};

// Takes the interpreter's lock again; does not return in threads that are left when the interpreter ends.
void TakeGil(PyThreadState* state);
// Takes the lock in a thread of the engine; false when the interpreter ends or has ended.
bool EnterPython(PyGILState_STATE* state);

// Lets other threads run Python while it lives.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  ~WithoutGil() { TakeGil(state_); }

 private:
  PyThreadState* state_;
};

// Names that Python code passes to the extension when its modules are loaded.
struct Registered {
  PyObject* error_classes = nullptr;  // dict: code -> class of errors_impl
  PyObject* dtypes[256] = {};         // DType by its number
  PyTypeObject* operation = nullptr;
  PyTypeObject* tensor = nullptr;
  PyTypeObject* eager_tensor = nullptr;
  PyObject* record = nullptr;             // tape: (op function, attributes, inputs, outputs)
  PyObject* tensor_shape = nullptr;       // makes a TensorShape of None or a tuple of int and None
  PyObject* slow_apply = nullptr;         // op_def_library: makes an operation of arguments of any kind
  PyObject* default_graph = nullptr;      // function
  PyObject* attr_to_proto = nullptr;      // (value, kind, op, attr name) -> bytes of an AttrValue
  PyObject* dtype_enum = nullptr;         // anything that names a type -> int
  PyObject* py_func = nullptr;            // (token, list of arrays) -> list of arrays
  PyObject* gradient_function = nullptr;  // (graph, name, op, gradients, wanted, scope) -> gradients
};
extern Registered registered;

// Sets the Python exception of a status; always null. Invalid arguments of operations that are
// being made are ValueErrors.
PyObject* RaiseStatus(const StatusHolder& status);
PyObject* RaiseStatusOfOp(const StatusHolder& status);

// UTF-8 text of a str, or the bytes of a bytes object; false with TypeError for others.
bool TextOf(PyObject* object, const char* what, std::string_view* text);
// A DType, a number or a name as a number; -1 with an exception.
int DataTypeOf(PyObject* object);
// New reference to the DType of a number.
PyObject* DTypeObject(int number);

}  // namespace millrace::python
