// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Creation, look-up and destruction of graphs, operations and tensors; their methods are in *_methods.cc.
// Subclasses made in Python count and visit their types themselves: the bases must not.
#include "python/extension/objects.h"

#include <cctype>
#include <chrono>
#include <cstddef>
#include <thread>

#include "python/extension/methods.h"

namespace millrace::python {
namespace {

// --- Graph

PyObject* NewGraph(PyTypeObject* type, PyObject* /*args*/, PyObject* /*kwargs*/) {
  Ref self(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  GraphObject* graph = GraphOf(self.get());
  graph->graph = TF_NewGraph();
  graph->nodes_by_name = PyDict_New();
  graph->name_stack = PyUnicode_FromString("");
  graph->operations = new std::vector<PyObject*>();
  graph->names_in_use = new std::unordered_map<std::string, int>();
  graph->context = Py_NewRef(Py_None);
  if (graph->graph == nullptr || graph->nodes_by_name == nullptr || graph->name_stack == nullptr) {
    return PyErr_NoMemory();
  }
  return self.release();
}

int TraverseGraph(PyObject* self, visitproc visit, void* arg) {
  GraphObject* graph = GraphOf(self);
  Py_VISIT(graph->nodes_by_name);
  Py_VISIT(graph->context);
  Py_VISIT(graph->dict);
  return 0;
}

int ClearGraph(PyObject* self) {
  GraphObject* graph = GraphOf(self);
  Py_CLEAR(graph->nodes_by_name);
  Py_CLEAR(graph->context);
  Py_CLEAR(graph->dict);
  return 0;
}

void FreeGraph(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  GraphObject* graph = GraphOf(self);
  if (graph->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  ClearGraph(self);
  Py_CLEAR(graph->name_stack);
  delete graph->operations;
  delete graph->names_in_use;
  TF_DeleteGraph(graph->graph);
  type->tp_free(self);
}

// --- Operation

int TraverseOperation(PyObject* self, visitproc visit, void* arg) {
  OperationObject* op = OperationOf(self);
  Py_VISIT(op->graph);
  Py_VISIT(op->outputs);
  Py_VISIT(op->inputs);
  Py_VISIT(op->context);
  Py_VISIT(op->original);
  Py_VISIT(op->dict);
  return 0;
}

// The graph stays until the end: the engine's operation is only valid with it. Everything that could lead
// around a cycle through the graph is cleared by the graph's dict.
int ClearOperation(PyObject* self) {
  OperationObject* op = OperationOf(self);
  Py_CLEAR(op->outputs);
  Py_CLEAR(op->inputs);
  Py_CLEAR(op->context);
  Py_CLEAR(op->original);
  Py_CLEAR(op->dict);
  return 0;
}

void FreeOperation(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  Py_TRASHCAN_BEGIN(self, FreeOperation) OperationObject* op = OperationOf(self);
  if (op->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  ClearOperation(self);
  Py_CLEAR(op->name);
  FreeStack(std::exchange(op->stack, nullptr));
  if (op->graph != nullptr && op->op != nullptr) {
    std::vector<PyObject*>* all = GraphOf(op->graph)->operations;
    const auto id = static_cast<size_t>(Millrace_OperationId(op->op));
    if (id < all->size() && (*all)[id] == self) (*all)[id] = nullptr;
  }
  Py_CLEAR(op->graph);
  type->tp_free(self);
  Py_TRASHCAN_END
}

// --- Tensor

int TraverseTensor(PyObject* self, visitproc visit, void* arg) {
  TensorObject* tensor = TensorOf(self);
  Py_VISIT(tensor->op);
  Py_VISIT(tensor->shape);
  Py_VISIT(tensor->dict);
  return 0;
}

int ClearTensor(PyObject* self) {
  TensorObject* tensor = TensorOf(self);
  Py_CLEAR(tensor->shape);
  Py_CLEAR(tensor->dict);
  return 0;
}

void FreeTensor(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  Py_TRASHCAN_BEGIN(self, FreeTensor) TensorObject* tensor = TensorOf(self);
  if (tensor->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  ClearTensor(self);
  Py_CLEAR(tensor->dtype);
  Py_CLEAR(tensor->op);
  type->tp_free(self);
  Py_TRASHCAN_END
}

PyObject* NoNew(PyTypeObject* type, PyObject* /*args*/, PyObject* /*kwargs*/) {
  PyErr_Format(PyExc_TypeError, "%s objects are made by the functions of ops", type->tp_name);
  return nullptr;
}

PyTypeObject TypeOf(const char* name, Py_ssize_t size, Py_ssize_t dict, Py_ssize_t weak) {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = name;
  type.tp_basicsize = size;
  type.tp_dictoffset = dict;
  type.tp_weaklistoffset = weak;
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
  return type;
}

}  // namespace

PyTypeObject graph_type = TypeOf("millrace.python._engine.GraphBase", sizeof(GraphObject),
                                 offsetof(GraphObject, dict), offsetof(GraphObject, weak_references));
PyTypeObject operation_type =
    TypeOf("millrace.python._engine.OperationBase", sizeof(OperationObject), offsetof(OperationObject, dict),
           offsetof(OperationObject, weak_references));
PyTypeObject tensor_type = TypeOf("millrace.python._engine.TensorBase", sizeof(TensorObject),
                                  offsetof(TensorObject, dict), offsetof(TensorObject, weak_references));

bool ReadyTypes(PyObject* module) {
  graph_type.tp_new = NewGraph;
  graph_type.tp_traverse = TraverseGraph;
  graph_type.tp_clear = ClearGraph;
  graph_type.tp_dealloc = FreeGraph;
  graph_type.tp_methods = graph_methods;
  graph_type.tp_members = graph_members;
  graph_type.tp_getset = graph_properties;
  operation_type.tp_new = NoNew;
  operation_type.tp_traverse = TraverseOperation;
  operation_type.tp_clear = ClearOperation;
  operation_type.tp_dealloc = FreeOperation;
  operation_type.tp_methods = operation_methods;
  operation_type.tp_members = operation_members;
  operation_type.tp_getset = operation_properties;
  tensor_type.tp_new = NoNew;
  tensor_type.tp_traverse = TraverseTensor;
  tensor_type.tp_clear = ClearTensor;
  tensor_type.tp_dealloc = FreeTensor;
  tensor_type.tp_methods = tensor_methods;
  tensor_type.tp_members = tensor_members;
  tensor_type.tp_getset = tensor_properties;
  for (const auto& [name, type] : {std::pair<const char*, PyTypeObject*>{"GraphBase", &graph_type},
                                   {"OperationBase", &operation_type},
                                   {"TensorBase", &tensor_type}}) {
    if (PyType_Ready(type) < 0) return false;
    if (PyModule_AddObjectRef(module, name, reinterpret_cast<PyObject*>(type)) < 0) return false;
  }
  return true;
}

namespace {

PyObject* MakeTensor(PyObject* op, TF_Operation* handle, int index) {
  const int number = static_cast<int>(TF_OperationOutputType({handle, index}));
  Ref dtype(DTypeObject(number));
  if (!dtype) return nullptr;
  PyTypeObject* type = registered.tensor;
  PyObject* made = type->tp_alloc(type, 0);
  if (made == nullptr) return nullptr;
  TensorObject* tensor = TensorOf(made);
  tensor->op = Py_NewRef(op);
  tensor->index = index;
  tensor->dtype_number = number;
  tensor->dtype = dtype.release();
  return made;
}

// A key for names, which are compared without case.
std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
  }
  return lower;
}

}  // namespace

bool AwaitGradients(GraphObject* graph) {
  while (graph->gradients_of != 0 && graph->gradients_of != PyThread_get_thread_ident()) {
    {
      const WithoutGil unlocked;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (PyErr_CheckSignals() < 0) return false;
  }
  return true;
}

PyObject* AdoptOperation(GraphObject* graph, TF_Operation* handle, PyObject* name) {
  PyTypeObject* type = registered.operation;
  if (type == nullptr || registered.tensor == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "millrace.python.framework.ops was not loaded");
    return nullptr;
  }
  const Ref made(type->tp_alloc(type, 0));
  if (!made) return nullptr;
  OperationObject* op = OperationOf(made.get());
  op->graph = Py_NewRef(reinterpret_cast<PyObject*>(graph));
  op->op = handle;
  op->context = Py_NewRef(graph->context);
  op->original = Py_NewRef(Py_None);
  op->name = name != nullptr ? Py_NewRef(name) : PyUnicode_FromString(TF_OperationName(handle));
  if (op->name == nullptr) return nullptr;
  const int count = TF_OperationNumOutputs(handle);
  op->outputs = PyList_New(count);
  if (op->outputs == nullptr) return nullptr;
  for (int i = 0; i < count; ++i) {
    PyObject* tensor = MakeTensor(made.get(), handle, i);
    if (tensor == nullptr) return nullptr;
    PyList_SET_ITEM(op->outputs, i, tensor);
  }
  op->stack = CaptureStack();
  const auto id = static_cast<size_t>(Millrace_OperationId(handle));
  if (graph->operations->size() <= id) graph->operations->resize(id + 1, nullptr);
  if (PyDict_SetItem(graph->nodes_by_name, op->name, made.get()) < 0) return nullptr;
  (*graph->operations)[id] = made.get();
  return made.get();
}

PyObject* ObjectOfOperation(GraphObject* graph, TF_Operation* op) {
  const auto id = static_cast<size_t>(Millrace_OperationId(op));
  if (id < graph->operations->size() && (*graph->operations)[id] != nullptr) return (*graph->operations)[id];
  return AdoptOperation(graph, op, nullptr);
}

namespace {

// Gradients give calls, conditions and loops more outputs, and loops more inputs.
bool AppendOutputs(OperationObject* op) {
  const int count = TF_OperationNumOutputs(op->op);
  Py_CLEAR(op->inputs);
  for (auto i = static_cast<int>(PyList_GET_SIZE(op->outputs)); i < count; ++i) {
    const Ref tensor(MakeTensor(reinterpret_cast<PyObject*>(op), op->op, i));
    if (!tensor || PyList_Append(op->outputs, tensor.get()) < 0) return false;
  }
  return true;
}

}  // namespace

PyObject* ObjectOfOutput(GraphObject* graph, TF_Output output) {
  PyObject* op = ObjectOfOperation(graph, output.oper);
  if (op == nullptr) return nullptr;
  PyObject* outputs = OperationOf(op)->outputs;
  if (outputs != nullptr && output.index >= PyList_GET_SIZE(outputs) && !AppendOutputs(OperationOf(op)))
    return nullptr;
  if (outputs == nullptr || output.index < 0 || output.index >= PyList_GET_SIZE(outputs)) {
    PyErr_SetString(PyExc_RuntimeError, "An operation that is being freed has no outputs");
    return nullptr;
  }
  return Py_NewRef(PyList_GET_ITEM(outputs, output.index));
}

PyObject* AdoptNewOperations(GraphObject* graph, int first) {
  Ref list(PyList_New(0));
  if (!list) return nullptr;
  const int count = Millrace_GraphNumIds(graph->graph);
  for (int id = first; id < count; ++id) {
    const auto at = static_cast<size_t>(id);
    if (at < graph->operations->size() && (*graph->operations)[at] != nullptr) continue;
    TF_Operation* handle = Millrace_OperationOfId(graph->graph, id);
    if (handle == nullptr) continue;
    PyObject* op = AdoptOperation(graph, handle, nullptr);
    if (op == nullptr || PyList_Append(list.get(), op) < 0) return nullptr;
    ++(*graph->names_in_use)[LowerCase(TF_OperationName(handle))];
  }
  return list.release();
}

PyObject* UniqueName(GraphObject* graph, std::string_view name, bool mark_as_used) {
  Py_ssize_t size = 0;
  const char* scope = PyUnicode_AsUTF8AndSize(graph->name_stack, &size);
  if (scope == nullptr) return nullptr;
  std::string full(scope, static_cast<size_t>(size));
  if (!full.empty()) full += '/';
  full += name;
  std::string key = LowerCase(full);
  auto& used = *graph->names_in_use;
  const auto [entry, is_new] = used.try_emplace(key, 0);
  int number = entry->second;
  if (mark_as_used) {
    ++entry->second;
  } else if (is_new) {
    used.erase(entry);
  }
  if (number == 0) return PyUnicode_FromStringAndSize(full.data(), static_cast<Py_ssize_t>(full.size()));
  const std::string base = key;
  int* const counter = mark_as_used ? &used[base] : nullptr;
  for (;; ++number) {
    key = base + "_" + std::to_string(number);
    if (!used.contains(key)) break;
  }
  if (mark_as_used) {
    *counter = number + 1;  // so that the next look begins where this one ended
    used[key] = 1;
  }
  full += "_" + std::to_string(number);
  return PyUnicode_FromStringAndSize(full.data(), static_cast<Py_ssize_t>(full.size()));
}

void ForgetShape(TensorObject* tensor) { Py_CLEAR(tensor->shape); }

PyObject* ShapeOf(TensorObject* tensor) {
  if (tensor->shape != nullptr) return Py_NewRef(tensor->shape);
  TF_Graph* graph = GraphOf(GraphOfTensor(tensor))->graph;
  const StatusHolder status;
  const int rank = TF_GraphGetTensorNumDims(graph, OutputOf(tensor), status.get());
  if (!status.ok()) return RaiseStatus(status);
  Ref dims;
  if (rank < 0) {
    dims = Ref::New(Py_None);
  } else {
    std::vector<int64_t> sizes(static_cast<size_t>(rank));
    TF_GraphGetTensorShape(graph, OutputOf(tensor), sizes.data(), rank, status.get());
    if (!status.ok()) return RaiseStatus(status);
    dims = Ref(PyTuple_New(rank));
    if (!dims) return nullptr;
    for (int i = 0; i < rank; ++i) {
      const int64_t size = sizes[static_cast<size_t>(i)];
      PyObject* item = size < 0 ? Py_NewRef(Py_None) : PyLong_FromLongLong(size);
      if (item == nullptr) return nullptr;
      PyTuple_SET_ITEM(dims.get(), i, item);
    }
  }
  tensor->shape = PyObject_CallOneArg(registered.tensor_shape, dims.get());
  return Py_XNewRef(tensor->shape);
}

}  // namespace millrace::python
