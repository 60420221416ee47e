// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The base class of ops.EagerTensor.
#include <atomic>
#include <cstddef>

#include "python/extension/arrays.h"
#include "python/extension/eager.h"
#include "python/extension/methods.h"

namespace millrace::python {
namespace {

std::atomic<int64_t> next_id = 1;

int Traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(EagerTensorOf(self)->handle_data);
  return tensor_type.tp_traverse(self, visit, arg);
}

int Clear(PyObject* self) {
  Py_CLEAR(EagerTensorOf(self)->handle_data);
  return tensor_type.tp_clear(self);
}

void Free(PyObject* self) {
  PyObject_GC_UnTrack(self);
  Py_CLEAR(EagerTensorOf(self)->handle_data);
  TFE_TensorHandle* handle = std::exchange(EagerTensorOf(self)->handle, nullptr);
  if (handle != nullptr) TFE_DeleteTensorHandle(handle);
  PyObject_GC_Track(self);  // the base takes it off
  tensor_type.tp_dealloc(self);
}

PyObject* Sizes(PyObject* self, PyObject* /*unused*/) {
  TFE_TensorHandle* handle = EagerTensorOf(self)->handle;
  const StatusHolder status;
  const int rank = TFE_TensorHandleNumDims(handle, status.get());
  if (!status.ok()) return RaiseStatus(status);
  Ref dims(PyTuple_New(rank));
  for (int i = 0; dims && i < rank; ++i) {
    PyObject* size = PyLong_FromLongLong(TFE_TensorHandleDim(handle, i, status.get()));
    if (size == nullptr) return nullptr;
    PyTuple_SET_ITEM(dims.get(), i, size);
  }
  return dims.release();
}

PyObject* Shape(PyObject* self, void* /*unused*/) {
  TensorObject* tensor = TensorOf(self);
  if (tensor->shape == nullptr) {
    const Ref dims(Sizes(self, nullptr));
    if (!dims) return nullptr;
    tensor->shape = PyObject_CallOneArg(registered.tensor_shape, dims.get());
  }
  return Py_XNewRef(tensor->shape);
}

PyObject* Device(PyObject* self, void* /*unused*/) {
  const StatusHolder status;
  const char* name = TFE_TensorHandleDeviceName(EagerTensorOf(self)->handle, status.get());
  return status.ok() ? PyUnicode_FromString(name) : RaiseStatus(status);
}

PyObject* BackingDevice(PyObject* self, void* /*unused*/) {
  const StatusHolder status;
  const char* name = TFE_TensorHandleBackingDeviceName(EagerTensorOf(self)->handle, status.get());
  return status.ok() ? PyUnicode_FromString(name) : RaiseStatus(status);
}

PyObject* Id(PyObject* self, void* /*unused*/) { return PyLong_FromLongLong(EagerTensorOf(self)->id); }

PyObject* Rank(PyObject* self, PyObject* /*unused*/) {
  const StatusHolder status;
  const int rank = TFE_TensorHandleNumDims(EagerTensorOf(self)->handle, status.get());
  return status.ok() ? PyLong_FromLong(rank) : RaiseStatus(status);
}

PyObject* NumElements(PyObject* self, PyObject* /*unused*/) {
  const StatusHolder status;
  const int64_t count = TFE_TensorHandleNumElements(EagerTensorOf(self)->handle, status.get());
  return status.ok() ? PyLong_FromLongLong(count) : RaiseStatus(status);
}

TF_Tensor* Resolve(PyObject* self) {
  const StatusHolder status;
  TF_Tensor* value = nullptr;
  {
    const WithoutGil unlocked;
    value = TFE_TensorHandleResolve(EagerTensorOf(self)->handle, status.get());
  }
  if (!status.ok()) RaiseStatus(status);
  return value;
}

PyObject* Numpy(PyObject* self, PyObject* /*unused*/) {
  TF_Tensor* value = Resolve(self);
  if (value == nullptr) return nullptr;
  PyObject* array = CopyOfTensor(value);
  TF_DeleteTensor(value);
  return array;
}

PyObject* Array(PyObject* self, PyObject* /*unused*/) {
  TF_Tensor* value = Resolve(self);
  return value == nullptr ? nullptr : ArrayNotScalar(value);
}

PyObject* CopyToDevice(PyObject* self, PyObject* name) {
  const char* device = PyUnicode_AsUTF8(name);
  TFE_Context* context = EagerContextOf();
  if (device == nullptr || context == nullptr) return nullptr;
  const StatusHolder status;
  TFE_TensorHandle* copy =
      TFE_TensorHandleCopyToDevice(EagerTensorOf(self)->handle, context, device, status.get());
  if (status.ok()) return MakeEagerTensor(copy);
  return PyErr_Format(PyExc_RuntimeError, "Error copying tensor to device: %s. %s", device, status.message());
}

PyObject* FromArray(PyObject* /*module*/, PyObject* args) {
  PyObject* array = nullptr;
  int dtype = -1;
  if (!PyArg_ParseTuple(args, "Oi", &array, &dtype)) return nullptr;
  return EagerTensorOfArray(array, dtype);
}

PyMethodDef module_functions[] = {
    {"eager_tensor", FromArray, METH_VARARGS, "eager_tensor(array, number of the type or -1)"},
    {nullptr, nullptr, 0, nullptr}};

PyMethodDef methods[] = {{"_shape_tuple", Sizes, METH_NOARGS, nullptr},
                         {"_rank", Rank, METH_NOARGS, nullptr},
                         {"_num_elements", NumElements, METH_NOARGS, nullptr},
                         {"_numpy_copy", Numpy, METH_NOARGS, nullptr},
                         {"_numpy_array", Array, METH_NOARGS, nullptr},
                         {"_copy_handle", CopyToDevice, METH_O, nullptr},
                         {nullptr, nullptr, 0, nullptr}};

PyMemberDef members[] = {{"_handle_data", T_OBJECT, offsetof(EagerTensorObject, handle_data), 0, nullptr},
                         {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef properties[] = {
    {"shape", Shape, nullptr, "The shape: a TensorShape.", nullptr},
    {"device", Device, nullptr, "The device that the op ran on.", nullptr},
    {"backing_device", BackingDevice, nullptr, "The device whose memory has the elements.", nullptr},
    {"_id", Id, nullptr, "A number that no other tensor of the process has.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyTypeObject EmptyType() {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "millrace.python._engine.EagerTensorBase";
  type.tp_basicsize = sizeof(EagerTensorObject);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
  return type;
}

}  // namespace

PyTypeObject eager_tensor_type = EmptyType();

bool ReadyEagerTensorType(PyObject* module) {
  eager_tensor_type.tp_base = &tensor_type;
  eager_tensor_type.tp_traverse = Traverse;
  eager_tensor_type.tp_clear = Clear;
  eager_tensor_type.tp_dealloc = Free;
  eager_tensor_type.tp_methods = methods;
  eager_tensor_type.tp_members = members;
  eager_tensor_type.tp_getset = properties;
  return PyType_Ready(&eager_tensor_type) == 0 &&
         PyModule_AddObjectRef(module, "EagerTensorBase", reinterpret_cast<PyObject*>(&eager_tensor_type)) ==
             0 &&
         PyModule_AddFunctions(module, module_functions) == 0;
}

PyObject* MakeEagerTensor(TFE_TensorHandle* handle) {
  const int number = static_cast<int>(TFE_TensorHandleDataType(handle));
  PyTypeObject* type = registered.eager_tensor;
  Ref dtype(DTypeObject(number));
  PyObject* made = dtype && type != nullptr ? type->tp_alloc(type, 0) : nullptr;
  if (made == nullptr) {
    TFE_DeleteTensorHandle(handle);
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_RuntimeError, "millrace.python.framework.ops was not loaded");
    return nullptr;
  }
  EagerTensorObject* tensor = EagerTensorOf(made);
  tensor->handle = handle;
  tensor->id = next_id++;
  tensor->tensor.index = -1;
  tensor->tensor.dtype_number = number;
  tensor->tensor.dtype = dtype.release();
  return made;
}

PyObject* EagerTensorOfArray(PyObject* array, int dtype) {
  TF_Tensor* value = CopiedTensorOfArray(array, dtype);
  if (value == nullptr) return nullptr;
  const StatusHolder status;
  TFE_TensorHandle* handle = TFE_NewTensorHandle(value, status.get());
  TF_DeleteTensor(value);
  return status.ok() ? MakeEagerTensor(handle) : RaiseStatus(status);
}

}  // namespace millrace::python
