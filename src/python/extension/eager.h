// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "python/extension/objects.h"
#include "tensorflow/c/eager/c_api.h"

// Ops that are executed at once, on tensors that have values.
namespace millrace::python {

// The base class of ops.EagerTensor: a tensor with a value, of no operation.
struct EagerTensorObject {
  TensorObject tensor;
  TFE_TensorHandle* handle;
  int64_t id;  // of no other one in this process
  PyObject* handle_data;
};
extern PyTypeObject eager_tensor_type;

inline bool IsEagerTensor(PyObject* object) { return PyObject_TypeCheck(object, &eager_tensor_type); }
inline EagerTensorObject* EagerTensorOf(PyObject* object) {
  return reinterpret_cast<EagerTensorObject*>(object);
}
// Takes the handle over. New reference, or null with an exception.
PyObject* MakeEagerTensor(TFE_TensorHandle* handle);
// A tensor with a copy of an array. dtype -1: the type of the array.
PyObject* EagerTensorOfArray(PyObject* array, int dtype);

// What a thread does.
struct EagerThread {
  bool eager;          // ops are executed, and not added to a graph
  bool recording;      // executed ops are passed to `registered.record`
  std::string device;  // where ops are executed; "": the first CPU
};
EagerThread& ThisThread();
// Executed ops of all threads are passed to `registered.record`, those without outputs, too: there is a
// listener.
extern bool record_everything;

// The process has one, which is made at its first use; null with an exception.
TFE_Context* EagerContextOf();

// An op that is being put together.
class EagerOpHolder {
 public:
  // Whether there is such an op; false with an exception.
  bool Start(const char* name);
  EagerOpHolder() = default;
  EagerOpHolder(const EagerOpHolder&) = delete;
  EagerOpHolder& operator=(const EagerOpHolder&) = delete;
  ~EagerOpHolder();
  TFE_Op* get() const { return op_; }
  bool SetDevice(std::string_view device);
  bool AddInput(PyObject* tensor);  // REQUIRES: IsEagerTensor
  bool AddInputs(PyObject* fast_sequence);
  // Executes it without the interpreter's lock. A list of tensors, or null with an exception.
  PyObject* Execute(int num_outputs);

 private:
  TFE_Op* op_ = nullptr;
  std::string name_;
};

// As SetAttribute; "func" and "list(func)" are names of functions.
bool SetEagerAttribute(TFE_Op* op, const char* name, std::string_view kind, PyObject* value);

bool ReadyEagerTypes(PyObject* module);
bool ReadyEagerTensorType(PyObject* module);
bool ReadyEagerOpFunction(PyObject* module);

}  // namespace millrace::python
