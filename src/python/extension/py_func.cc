// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels of PyFunc and its variants call the function that Python registered.
#include "python/extension/arrays.h"
#include "python/extension/module.h"

namespace millrace::python {
namespace {

// The engine's code for a Python exception.
TF_Code CodeOf(PyObject* type) {
  const Ref number(PyObject_GetAttrString(type, "_millrace_error_code"));
  if (number && PyLong_Check(number.get())) return static_cast<TF_Code>(PyLong_AsLong(number.get()));
  PyErr_Clear();
  if (PyErr_GivenExceptionMatches(type, PyExc_ValueError) ||
      PyErr_GivenExceptionMatches(type, PyExc_TypeError)) {
    return TF_INVALID_ARGUMENT;
  }
  if (PyErr_GivenExceptionMatches(type, PyExc_StopIteration)) return TF_OUT_OF_RANGE;
  if (PyErr_GivenExceptionMatches(type, PyExc_MemoryError)) return TF_RESOURCE_EXHAUSTED;
  if (PyErr_GivenExceptionMatches(type, PyExc_NotImplementedError)) return TF_UNIMPLEMENTED;
  return TF_UNKNOWN;
}

// "ValueError: text", with the traceback as the module traceback writes it.
void StatusOfException(TF_Status* status) {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  const Ref owned_type(type), owned_value(value), owned_traceback(traceback);
  const TF_Code code = CodeOf(type);
  const Ref module(PyImport_ImportModule("traceback"));
  const Ref lines(module ? PyObject_CallMethod(module.get(), "format_exception", "OOO", type, value,
                                               traceback == nullptr ? Py_None : traceback)
                         : nullptr);
  const Ref empty(PyUnicode_FromString(""));
  const Ref body(lines ? PyUnicode_Join(empty.get(), lines.get()) : nullptr);
  const Ref message(value == nullptr ? nullptr : PyObject_Str(value));
  PyErr_Clear();
  std::string text = std::string(reinterpret_cast<PyTypeObject*>(type)->tp_name);
  if (message) {
    if (const char* utf8 = PyUnicode_AsUTF8(message.get()); utf8 != nullptr) text += std::string(": ") + utf8;
  }
  if (body) {
    if (const char* utf8 = PyUnicode_AsUTF8(body.get()); utf8 != nullptr) text += std::string("\n") + utf8;
  }
  PyErr_Clear();
  TF_SetStatus(status, code, text.c_str());
}

bool FillOutputs(PyObject* results, TF_Tensor** outputs, int num_outputs) {
  const Ref list(PySequence_Fast(results, "The function's results must be a list"));
  if (!list) return false;
  if (PySequence_Fast_GET_SIZE(list.get()) != num_outputs) {
    PyErr_Format(PyExc_ValueError, "The function returned %zd values, the node has %d outputs",
                 PySequence_Fast_GET_SIZE(list.get()), num_outputs);
    return false;
  }
  for (int i = 0; i < num_outputs; ++i) {
    outputs[i] = TensorOfArray(PySequence_Fast_GET_ITEM(list.get(), i), -1);
    if (outputs[i] == nullptr) return false;
  }
  return true;
}

bool CallFunction(const char* token, size_t token_len, TF_Tensor* const* inputs, int num_inputs,
                  TF_Tensor** outputs, int num_outputs) {
  if (registered.py_func == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "No function is registered for py_func");
    return false;
  }
  const Ref arrays(PyList_New(num_inputs));
  if (!arrays) return false;
  for (int i = 0; i < num_inputs; ++i) {
    PyObject* array = CopyOfTensor(inputs[i]);
    if (array == nullptr) return false;
    PyList_SET_ITEM(arrays.get(), i, array);
  }
  const Ref results(PyObject_CallFunction(registered.py_func, "y#O", token,
                                          static_cast<Py_ssize_t>(token_len), arrays.get()));
  return results && FillOutputs(results.get(), outputs, num_outputs);
}

void Callback(const char* token, size_t token_len, TF_Tensor* const* inputs, int num_inputs,
              TF_Tensor** outputs, int num_outputs, TF_Status* status) {
  PyGILState_STATE gil;
  if (!EnterPython(&gil)) {  // the last kernels may run while the interpreter ends
    TF_SetStatus(status, TF_CANCELLED, "Python is shutting down");
    return;
  }
  if (!CallFunction(token, token_len, inputs, num_inputs, outputs, num_outputs)) StatusOfException(status);
  PyGILState_Release(gil);
}

}  // namespace

PyObject* SetPyFunc(PyObject* /*module*/, PyObject* function) {
  PyObject* old = std::exchange(registered.py_func, Py_NewRef(function));
  Py_XDECREF(old);
  Millrace_SetPyFuncCallback(Callback);
  Py_RETURN_NONE;
}

}  // namespace millrace::python
