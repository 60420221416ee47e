// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "python/extension/methods.h"

namespace millrace::python {
namespace {

GraphObject* GraphOfOp(PyObject* self) { return GraphOf(OperationOf(self)->graph); }

PyObject* Done(const StatusHolder& status) {
  if (!status.ok()) return RaiseStatus(status);
  Py_RETURN_NONE;
}

bool CheckSameGraph(PyObject* self, PyObject* graph) {
  if (OperationOf(self)->graph == graph) return true;
  PyErr_Format(PyExc_ValueError, "%R is not of the same graph as %R", self, graph);
  return false;
}

PyObject* Id(PyObject* self, void* /*unused*/) {
  return PyLong_FromLong(Millrace_OperationId(OperationOf(self)->op) - 1);
}
PyObject* Type(PyObject* self, void* /*unused*/) {
  return PyUnicode_FromString(TF_OperationOpType(OperationOf(self)->op));
}
PyObject* Device(PyObject* self, void* /*unused*/) {
  return PyUnicode_FromString(TF_OperationDevice(OperationOf(self)->op));
}
PyObject* NumInputs(PyObject* self, void* /*unused*/) {
  return PyLong_FromLong(TF_OperationNumInputs(OperationOf(self)->op));
}
PyObject* Handle(PyObject* self, void* /*unused*/) { return PyLong_FromVoidPtr(OperationOf(self)->op); }

PyObject* Inputs(PyObject* self, void* /*unused*/) {
  OperationObject* op = OperationOf(self);
  if (op->inputs == nullptr) {
    const int count = TF_OperationNumInputs(op->op);
    Ref tuple(PyTuple_New(count));
    if (!tuple) return nullptr;
    for (int i = 0; i < count; ++i) {
      PyObject* tensor = ObjectOfOutput(GraphOfOp(self), TF_OperationInput({op->op, i}));
      if (tensor == nullptr) return nullptr;
      PyTuple_SET_ITEM(tuple.get(), i, tensor);
    }
    op->inputs = tuple.release();
  }
  return Py_NewRef(op->inputs);
}

PyObject* Operations(PyObject* self, const std::vector<TF_Operation*>& handles) {
  Ref list(PyList_New(0));
  if (!list) return nullptr;
  for (TF_Operation* handle : handles) {
    PyObject* op = ObjectOfOperation(GraphOfOp(self), handle);
    if (op == nullptr || PyList_Append(list.get(), op) < 0) return nullptr;
  }
  return list.release();
}

PyObject* ControlInputs(PyObject* self, void* /*unused*/) {
  TF_Operation* op = OperationOf(self)->op;
  std::vector<TF_Operation*> handles(static_cast<size_t>(TF_OperationNumControlInputs(op)));
  TF_OperationGetControlInputs(op, handles.data(), static_cast<int>(handles.size()));
  return Operations(self, handles);
}

PyObject* ControlOutputs(PyObject* self, void* /*unused*/) {
  TF_Operation* op = OperationOf(self)->op;
  std::vector<TF_Operation*> handles(static_cast<size_t>(TF_OperationNumControlOutputs(op)));
  TF_OperationGetControlOutputs(op, handles.data(), static_cast<int>(handles.size()));
  return Operations(self, handles);
}

PyObject* Stack(PyObject* self, void* /*unused*/) { return DescribeStack(OperationOf(self)->stack); }

PyObject* GetAttr(PyObject* self, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  return text == nullptr ? nullptr : AttributeOf(OperationOf(self)->op, text);
}

PyObject* AttrProto(PyObject* self, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return nullptr;
  TF_Buffer* buffer = TF_NewBuffer();
  const StatusHolder status;
  TF_OperationGetAttrValueProto(OperationOf(self)->op, text, buffer, status.get());
  PyObject* bytes = status.ok() ? PyBytes_FromStringAndSize(static_cast<const char*>(buffer->data),
                                                            static_cast<Py_ssize_t>(buffer->length))
                                : RaiseStatusOfOp(status);
  TF_DeleteBuffer(buffer);
  return bytes;
}

PyObject* NodeDef(PyObject* self, PyObject* /*unused*/) {
  TF_Buffer* buffer = TF_NewBuffer();
  const StatusHolder status;
  TF_OperationToNodeDef(OperationOf(self)->op, buffer, status.get());
  PyObject* bytes = status.ok() ? PyBytes_FromStringAndSize(static_cast<const char*>(buffer->data),
                                                            static_cast<Py_ssize_t>(buffer->length))
                                : RaiseStatus(status);
  TF_DeleteBuffer(buffer);
  return bytes;
}

PyObject* SetAttrProto(PyObject* self, PyObject* args) {
  const char *name = nullptr, *data = nullptr;
  Py_ssize_t size = 0;
  if (!PyArg_ParseTuple(args, "sy#", &name, &data, &size)) return nullptr;
  if (!AwaitGradients(GraphOfOp(self))) return nullptr;
  const StatusHolder status;
  Millrace_SetAttr(GraphOfOp(self)->graph, OperationOf(self)->op, name, data, static_cast<size_t>(size),
                   status.get());
  return Done(status);
}

PyObject* ClearAttr(PyObject* self, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return nullptr;
  if (!AwaitGradients(GraphOfOp(self))) return nullptr;
  const StatusHolder status;
  Millrace_ClearAttr(GraphOfOp(self)->graph, OperationOf(self)->op, text, status.get());
  return Done(status);
}

PyObject* SetDevice(PyObject* self, PyObject* device) {
  const char* text = PyUnicode_AsUTF8(device);
  if (text == nullptr) return nullptr;
  if (!AwaitGradients(GraphOfOp(self))) return nullptr;
  const StatusHolder status;
  Millrace_SetRequestedDevice(GraphOfOp(self)->graph, OperationOf(self)->op, text, status.get());
  return Done(status);
}

PyObject* UpdateInput(PyObject* self, PyObject* args) {
  int index = 0;
  PyObject* tensor = nullptr;
  if (!PyArg_ParseTuple(args, "iO", &index, &tensor)) return nullptr;
  if (!IsTensor(tensor)) {
    PyErr_Format(PyExc_TypeError, "tensor must be a Tensor: %R", tensor);
    return nullptr;
  }
  if (!CheckSameGraph(self, GraphOfTensor(TensorOf(tensor)))) return nullptr;
  if (!AwaitGradients(GraphOfOp(self))) return nullptr;
  const StatusHolder status;
  Millrace_UpdateInput(GraphOfOp(self)->graph, OutputOf(TensorOf(tensor)), {OperationOf(self)->op, index},
                       status.get());
  if (!status.ok()) return RaiseStatus(status);
  Py_CLEAR(OperationOf(self)->inputs);
  Py_RETURN_NONE;
}

PyObject* AddControlInput(PyObject* self, PyObject* other) {
  if (!IsOperation(other)) {
    PyErr_Format(PyExc_TypeError, "op must be an Operation: %R", other);
    return nullptr;
  }
  if (!CheckSameGraph(self, OperationOf(other)->graph)) return nullptr;
  if (!AwaitGradients(GraphOfOp(self))) return nullptr;
  const StatusHolder status;
  Millrace_AddControlInput(GraphOfOp(self)->graph, OperationOf(self)->op, OperationOf(other)->op,
                           status.get());
  return Done(status);
}

PyObject* RemoveControlInputs(PyObject* self, PyObject* /*unused*/) {
  if (!AwaitGradients(GraphOfOp(self))) return nullptr;
  const StatusHolder status;
  Millrace_RemoveAllControlInputs(GraphOfOp(self)->graph, OperationOf(self)->op, status.get());
  return Done(status);
}

// --- Tensor

// Eager tensors have no operation; false with an exception.
bool HasOperation(PyObject* self) {
  if (TensorOf(self)->op != nullptr) return true;
  PyErr_SetString(PyExc_AttributeError, "Tensor.op is meaningless when eager execution is enabled.");
  return false;
}

PyObject* TensorName(PyObject* self, void* /*unused*/) {
  if (!HasOperation(self)) return nullptr;
  const TensorObject* tensor = TensorOf(self);
  return PyUnicode_FromFormat("%U:%d", OperationOf(tensor->op)->name, tensor->index);
}

PyObject* TensorGraph(PyObject* self, void* /*unused*/) {
  return HasOperation(self) ? Py_NewRef(GraphOfTensor(TensorOf(self))) : nullptr;
}
PyObject* TensorShape(PyObject* self, void* /*unused*/) {
  return HasOperation(self) ? ShapeOf(TensorOf(self)) : nullptr;
}
PyObject* TensorDevice(PyObject* self, void* /*unused*/) {
  return HasOperation(self) ? Device(TensorOf(self)->op, nullptr) : nullptr;
}

PyObject* Consumers(PyObject* self, PyObject* /*unused*/) {
  if (!HasOperation(self)) return nullptr;
  TensorObject* tensor = TensorOf(self);
  std::vector<TF_Input> inputs(static_cast<size_t>(TF_OperationOutputNumConsumers(OutputOf(tensor))));
  TF_OperationOutputConsumers(OutputOf(tensor), inputs.data(), static_cast<int>(inputs.size()));
  // One for each use, as in TensorFlow: an operation that has the tensor twice stands there twice.
  std::vector<TF_Operation*> handles;
  handles.reserve(inputs.size());
  for (const TF_Input& input : inputs) handles.push_back(input.oper);
  return Operations(tensor->op, handles);
}

// _set_shape(None or sequence of int and None): merges.
PyObject* SetShape(PyObject* self, PyObject* dims) {
  if (!HasOperation(self)) return nullptr;
  Sizes sizes;
  if (!SizesOf(dims, &sizes)) return nullptr;
  TensorObject* tensor = TensorOf(self);
  const StatusHolder status;
  TF_GraphSetTensorShape(GraphOf(GraphOfTensor(tensor))->graph, OutputOf(tensor), sizes.sizes.data(),
                         sizes.rank, status.get());
  if (!status.ok()) return RaiseStatusOfOp(status);
  ForgetShape(tensor);
  Py_RETURN_NONE;
}

// None, or (number of the type, None or list of sizes, -1 for unknown ones)
PyObject* HandleData(PyObject* self, PyObject* /*unused*/) {
  if (!HasOperation(self)) return nullptr;
  TensorObject* tensor = TensorOf(self);
  TF_Graph* graph = GraphOf(GraphOfTensor(tensor))->graph;
  TF_DataType dtype;
  int64_t dims[256];
  int rank = 0;
  if (Millrace_GetHandleShapeAndType(graph, OutputOf(tensor), &dtype, dims, 256, &rank) == 0) Py_RETURN_NONE;
  if (rank < 0) return Py_BuildValue("(iO)", static_cast<int>(dtype), Py_None);
  Ref list(PyList_New(rank));
  for (int i = 0; i < rank; ++i) PyList_SET_ITEM(list.get(), i, PyLong_FromLongLong(dims[i]));
  return Py_BuildValue("(iO)", static_cast<int>(dtype), list.get());
}

PyObject* SetHandleData(PyObject* self, PyObject* args) {
  if (!HasOperation(self)) return nullptr;
  int dtype = 0;
  PyObject* dims = nullptr;
  if (!PyArg_ParseTuple(args, "iO", &dtype, &dims)) return nullptr;
  Sizes sizes;
  if (!SizesOf(dims, &sizes)) return nullptr;
  TensorObject* tensor = TensorOf(self);
  const StatusHolder status;
  Millrace_SetHandleShapeAndType(GraphOf(GraphOfTensor(tensor))->graph, OutputOf(tensor),
                                 static_cast<TF_DataType>(dtype), sizes.sizes.data(), sizes.rank,
                                 status.get());
  return Done(status);
}

}  // namespace

bool SizesOf(PyObject* object, Sizes* result) {
  if (object == Py_None) return true;
  const Ref list(PySequence_Fast(object, "A shape must be None or a list"));
  if (!list) return false;
  const Py_ssize_t rank = PySequence_Fast_GET_SIZE(list.get());
  result->rank = static_cast<int>(rank);
  for (Py_ssize_t i = 0; i < rank; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(list.get(), i);
    int64_t size = -1;
    if (item != Py_None) {
      const Ref number(PyNumber_Index(item));
      if (!number) return false;
      size = PyLong_AsLongLong(number.get());
      if (size == -1 && PyErr_Occurred()) return false;
    }
    result->sizes.push_back(size);
  }
  return true;
}

PyMethodDef operation_methods[] = {{"_get_attr", GetAttr, METH_O, nullptr},
                                   {"_attr_proto", AttrProto, METH_O, nullptr},
                                   {"_node_def_bytes", NodeDef, METH_NOARGS, nullptr},
                                   {"_set_attr_proto", SetAttrProto, METH_VARARGS, nullptr},
                                   {"_clear_attr_value", ClearAttr, METH_O, nullptr},
                                   {"_set_requested_device", SetDevice, METH_O, nullptr},
                                   {"_update_input_tensor", UpdateInput, METH_VARARGS, nullptr},
                                   {"_add_control_op", AddControlInput, METH_O, nullptr},
                                   {"_remove_control_ops", RemoveControlInputs, METH_NOARGS, nullptr},
                                   {nullptr, nullptr, 0, nullptr}};

PyMemberDef operation_members[] = {
    {"_graph", T_OBJECT_EX, offsetof(OperationObject, graph), READONLY, nullptr},
    {"graph", T_OBJECT_EX, offsetof(OperationObject, graph), READONLY, "The graph that the operation is in."},
    {"name", T_OBJECT_EX, offsetof(OperationObject, name), READONLY, "The full name of the operation."},
    {"outputs", T_OBJECT_EX, offsetof(OperationObject, outputs), READONLY,
     "The tensors that the operation computes."},
    {"_outputs", T_OBJECT_EX, offsetof(OperationObject, outputs), READONLY, nullptr},
    {"_control_flow_context", T_OBJECT_EX, offsetof(OperationObject, context), 0, nullptr},
    {"_original_op", T_OBJECT_EX, offsetof(OperationObject, original), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef operation_properties[] = {
    {"_id", Id, nullptr, "The number of the operation in its graph, from 1.", nullptr},
    {"_id_value", Id, nullptr, nullptr, nullptr},
    {"type", Type, nullptr, "The name of the op, such as \"MatMul\".", nullptr},
    {"device", Device, nullptr, "The requested device, or \"\".", nullptr},
    {"_num_inputs", NumInputs, nullptr, nullptr, nullptr},
    {"_input_tensors", Inputs, nullptr, nullptr, nullptr},
    {"control_inputs", ControlInputs, nullptr, "The operations that must end before this one starts.",
     nullptr},
    {"_control_outputs", ControlOutputs, nullptr, nullptr, nullptr},
    {"_stack", Stack, nullptr, nullptr, nullptr},
    {"_c_op", Handle, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMethodDef tensor_methods[] = {
    {"consumers", Consumers, METH_NOARGS, "The operations that have this tensor as an input."},
    {"_merge_shape", SetShape, METH_O, nullptr},
    {"_handle_data_tuple", HandleData, METH_NOARGS, nullptr},
    {"_set_handle_data_tuple", SetHandleData, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef tensor_members[] = {
    {"op", T_OBJECT_EX, offsetof(TensorObject, op), READONLY, "The operation that computes the tensor."},
    {"_op", T_OBJECT_EX, offsetof(TensorObject, op), READONLY, nullptr},
    {"value_index", T_INT, offsetof(TensorObject, index), READONLY,
     "Which output of its operation the tensor is."},
    {"_value_index", T_INT, offsetof(TensorObject, index), READONLY, nullptr},
    {"dtype", T_OBJECT_EX, offsetof(TensorObject, dtype), READONLY, "The type of the elements."},
    {"_dtype", T_OBJECT_EX, offsetof(TensorObject, dtype), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef tensor_properties[] = {
    {"name", TensorName, nullptr, "\"operation:index\".", nullptr},
    {"graph", TensorGraph, nullptr, "The graph that the tensor is in.", nullptr},
    {"shape", TensorShape, nullptr, "What is known of the shape: a TensorShape.", nullptr},
    {"device", TensorDevice, nullptr, "The device of the operation.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

}  // namespace millrace::python
