// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "python/extension/common.h"

namespace millrace::python {

// The base classes of ops.Graph, ops.Operation and ops.Tensor. An operation keeps its graph alive, a tensor
// its operation, and the graph's dict of names all operations; the cycle collector tracks them all.
struct GraphObject {
  PyObject_HEAD TF_Graph* graph;
  PyObject* nodes_by_name;             // dict: str -> operation
  PyObject* name_stack;                // str: the current scope without '/' at its end
  std::vector<PyObject*>* operations;  // by number of the engine; borrowed; null where there is none (yet)
  std::unordered_map<std::string, int>* names_in_use;  // lower case
  int slow_reasons;            // conditions that operations made now depend on: devices, control inputs, ...
  unsigned long gradients_of;  // the thread that computes gradients, in which Python functions may run; or 0
  bool finalized;
  PyObject* context;  // of control flow; None or an object
  PyObject* dict;
  PyObject* weak_references;
};

struct OperationObject {
  PyObject_HEAD PyObject* graph;
  TF_Operation* op;
  PyObject* name;
  PyObject* outputs;   // list of tensors
  PyObject* inputs;    // tuple of tensors; null: not read yet
  PyObject* context;   // of control flow
  PyObject* original;  // operation that this one's gradient is of, or None
  void* stack;         // StackOfCalls: where it was made
  PyObject* dict;
  PyObject* weak_references;
};

struct TensorObject {
  PyObject_HEAD PyObject* op;  // null: it has a value, see eager.h
  int index;
  int dtype_number;
  PyObject* dtype;
  PyObject* shape;  // TensorShape; null: not read yet
  PyObject* dict;
  PyObject* weak_references;
};

extern PyTypeObject graph_type;
extern PyTypeObject operation_type;
extern PyTypeObject tensor_type;
bool ReadyTypes(PyObject* module);

inline bool IsGraph(PyObject* object) { return PyObject_TypeCheck(object, &graph_type); }
inline bool IsOperation(PyObject* object) { return PyObject_TypeCheck(object, &operation_type); }

inline GraphObject* GraphOf(PyObject* object) { return reinterpret_cast<GraphObject*>(object); }
inline OperationObject* OperationOf(PyObject* object) { return reinterpret_cast<OperationObject*>(object); }
inline TensorObject* TensorOf(PyObject* object) { return reinterpret_cast<TensorObject*>(object); }
// Whether it is a tensor of a graph; those that have values, of no operation, are not.
inline bool IsTensor(PyObject* object) {
  return PyObject_TypeCheck(object, &tensor_type) && TensorOf(object)->op != nullptr;
}
inline PyObject* GraphOfTensor(const TensorObject* tensor) { return OperationOf(tensor->op)->graph; }
inline TF_Output OutputOf(const TensorObject* tensor) { return {OperationOf(tensor->op)->op, tensor->index}; }

// Waits, without the lock of the interpreter, until no other thread computes gradients in the graph: the
// engine would wait with it. False with an exception when the wait was interrupted.
bool AwaitGradients(GraphObject* graph);

// The Python object of a new operation of the engine: with its tensors, in the graph's dict. Borrowed.
// `name` may be null.
PyObject* AdoptOperation(GraphObject* graph, TF_Operation* op, PyObject* name);
// The object of an operation of the graph; it is made if Python never saw the operation. Borrowed.
PyObject* ObjectOfOperation(GraphObject* graph, TF_Operation* op);
// New reference.
PyObject* ObjectOfOutput(GraphObject* graph, TF_Output output);
// Makes objects of all operations, from a number on, that Python has not seen: a list of them. New reference.
PyObject* AdoptNewOperations(GraphObject* graph, int first = 2);

// `name` in the current scope with a number that makes it new. New reference to a str.
PyObject* UniqueName(GraphObject* graph, std::string_view name, bool mark_as_used);

// Drops the cached shape of a tensor.
void ForgetShape(TensorObject* tensor);
PyObject* ShapeOf(TensorObject* tensor);  // new reference

// The calls that are in progress in Python, innermost last.
void* CaptureStack();
void FreeStack(void* stack);
// List of (file name, line, function name). New reference.
PyObject* DescribeStack(void* stack);

}  // namespace millrace::python
