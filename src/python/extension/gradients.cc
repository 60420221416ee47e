// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Gradients: the engine's, and those that Python functions compute. In Python a gradient is None, a tensor,
// or a tuple (values, indices, dense_shape or None).
#include "millrace/c/gradients.h"

#include <algorithm>

#include "python/extension/methods.h"
#include "python/extension/module.h"

namespace millrace::python {
namespace {

constexpr TF_Output kNoTensor = {nullptr, -1};
constexpr Millrace_Gradient kNoGradient = {MILLRACE_GRADIENT_NONE, kNoTensor, kNoTensor, kNoTensor};

// The state that the calls of this thread's computation of gradients share.
struct Computation {
  GraphObject* graph;
  int first_new;  // operations from this number on belong to it
  int adopted;    // up to here Python has objects of them
  Computation* outer;
  PyObject *error = nullptr, *value = nullptr, *traceback = nullptr;  // of a Python function
};
thread_local Computation* current = nullptr;

bool TensorOfGraph(GraphObject* graph, PyObject* object, TF_Output* output) {
  if (!IsTensor(object)) {
    PyErr_Format(PyExc_TypeError, "Expected a Tensor, not %s", Py_TYPE(object)->tp_name);
    return false;
  }
  if (GraphOfTensor(TensorOf(object)) != reinterpret_cast<PyObject*>(graph)) {
    PyErr_Format(PyExc_ValueError, "Tensor %R is not from the passed-in graph.", object);
    return false;
  }
  *output = OutputOf(TensorOf(object));
  return true;
}

bool TensorList(GraphObject* graph, PyObject* sequence, std::vector<TF_Output>* outputs) {
  const Ref list(PySequence_Fast(sequence, "Expected a list of tensors"));
  if (!list) return false;
  outputs->resize(static_cast<size_t>(PySequence_Fast_GET_SIZE(list.get())));
  for (size_t i = 0; i < outputs->size(); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(list.get(), static_cast<Py_ssize_t>(i));
    if (!TensorOfGraph(graph, item, &(*outputs)[i])) return false;
  }
  return true;
}

bool ReadGradient(GraphObject* graph, PyObject* object, Millrace_Gradient* gradient) {
  *gradient = kNoGradient;
  if (object == Py_None) return true;
  if (!PyTuple_Check(object)) {
    gradient->kind = MILLRACE_GRADIENT_DENSE;
    return TensorOfGraph(graph, object, &gradient->values);
  }
  PyObject *values = nullptr, *indices = nullptr, *shape = nullptr;
  if (!PyArg_ParseTuple(object, "OOO", &values, &indices, &shape)) return false;
  gradient->kind = MILLRACE_GRADIENT_SLICES;
  return TensorOfGraph(graph, values, &gradient->values) &&
         TensorOfGraph(graph, indices, &gradient->indices) &&
         (shape == Py_None || TensorOfGraph(graph, shape, &gradient->dense_shape));
}

bool ReadGradients(GraphObject* graph, PyObject* sequence, std::vector<Millrace_Gradient>* gradients) {
  const Ref list(PySequence_Fast(sequence, "Expected a list of gradients"));
  if (!list) return false;
  gradients->resize(static_cast<size_t>(PySequence_Fast_GET_SIZE(list.get())));
  for (size_t i = 0; i < gradients->size(); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(list.get(), static_cast<Py_ssize_t>(i));
    if (!ReadGradient(graph, item, &(*gradients)[i])) return false;
  }
  return true;
}

PyObject* ObjectOrNone(GraphObject* graph, const TF_Output& output) {
  return output.oper == nullptr ? Py_NewRef(Py_None) : ObjectOfOutput(graph, output);
}

PyObject* GradientObject(GraphObject* graph, const Millrace_Gradient& gradient) {
  if (gradient.kind == MILLRACE_GRADIENT_NONE) Py_RETURN_NONE;
  if (gradient.kind == MILLRACE_GRADIENT_DENSE) return ObjectOrNone(graph, gradient.values);
  const Ref values(ObjectOrNone(graph, gradient.values));
  const Ref indices(ObjectOrNone(graph, gradient.indices));
  const Ref shape(ObjectOrNone(graph, gradient.dense_shape));
  if (!values || !indices || !shape) return nullptr;
  return PyTuple_Pack(3, values.get(), indices.get(), shape.get());
}

PyObject* GradientObjects(GraphObject* graph, const Millrace_Gradient* gradients, size_t count) {
  Ref list(PyList_New(static_cast<Py_ssize_t>(count)));
  if (!list) return nullptr;
  for (size_t i = 0; i < count; ++i) {
    PyObject* item = GradientObject(graph, gradients[i]);
    if (item == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), item);
  }
  return list.release();
}

// The Python function for the gradient of `call->oper`; false with an exception.
bool CallFunction(GraphObject* graph, Millrace_GradientCall* call) {
  if (registered.gradient_function == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "millrace.python.ops.gradients_util was not loaded");
    return false;
  }
  const Ref fresh(
      AdoptNewOperations(graph, std::exchange(current->adopted, Millrace_GraphNumIds(call->graph))));
  if (!fresh) return false;
  PyObject* op = ObjectOfOperation(graph, call->oper);
  if (op == nullptr) return false;
  const Ref grads(GradientObjects(graph, call->output_gradients, static_cast<size_t>(call->num_outputs)));
  const Ref wanted(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(call->wanted), call->num_inputs));
  if (!grads || !wanted) return false;
  const Ref results(PyObject_CallFunction(
      registered.gradient_function, "OsOOOs", reinterpret_cast<PyObject*>(graph),
      static_cast<const char*>(call->user_data), op, grads.get(), wanted.get(), call->name_scope));
  std::vector<Millrace_Gradient> gradients;
  if (!results || !ReadGradients(graph, results.get(), &gradients)) return false;
  if (gradients.size() != static_cast<size_t>(call->num_inputs)) {
    PyErr_Format(PyExc_ValueError, "Num gradients %zu generated for op %R do not match num inputs %d",
                 gradients.size(), op, call->num_inputs);
    return false;
  }
  std::copy(gradients.begin(), gradients.end(), call->input_gradients);
  return true;
}

// Python holds objects of the operations that were made until now. The engine keeps them, also if it fails
// later, only where the function adds an operation.
void KeepOperations(Millrace_GradientCall* call) {
  const std::string name = std::string(call->name_scope) + "/keep";
  if (TF_GraphOperationByName(call->graph, name.c_str()) != nullptr) return;
  const StatusHolder status;
  TF_FinishOperation(TF_NewOperation(call->graph, "NoOp", name.c_str()), status.get());
}

void Callback(Millrace_GradientCall* call, TF_Status* status) {
  Computation* const computation = current;
  if (computation == nullptr || computation->graph->graph != call->graph) {
    TF_SetStatus(status, TF_UNIMPLEMENTED,
                 "The gradient function is one of Python, and the gradients are not computed from there");
    return;
  }
  const int before = Millrace_GraphNumIds(call->graph);
  if (!CallFunction(computation->graph, call)) {
    PyErr_Fetch(&computation->error, &computation->value, &computation->traceback);
    TF_SetStatus(status, TF_UNKNOWN, "A gradient function of Python failed");
  }
  if (Millrace_GraphNumIds(call->graph) == before) KeepOperations(call);
}

// Python may have read inputs and shapes of operations before the engine had completed them.
void ForgetInputs(GraphObject* graph, int first) {
  for (auto id = static_cast<size_t>(first); id < graph->operations->size(); ++id) {
    PyObject* op = (*graph->operations)[id];
    if (op == nullptr) continue;
    Py_CLEAR(OperationOf(op)->inputs);
    PyObject* outputs = OperationOf(op)->outputs;
    for (Py_ssize_t i = 0; outputs != nullptr && i < PyList_GET_SIZE(outputs); ++i) {
      ForgetShape(TensorOf(PyList_GET_ITEM(outputs, i)));
    }
  }
}

// Runs `compute(status)`, which may call Python functions back; then (gradients, new operations).
template <typename Compute>
PyObject* ComputeGradients(GraphObject* graph, const std::vector<Millrace_Gradient>& results,
                           Compute compute) {
  if (!AwaitGradients(graph)) return nullptr;
  const unsigned long thread = std::exchange(graph->gradients_of, PyThread_get_thread_ident());
  const int first = Millrace_GraphNumIds(graph->graph);
  Computation computation{graph, first, first, current};
  current = &computation;
  const StatusHolder status;
  compute(status.get());
  current = computation.outer;
  graph->gradients_of = thread;
  ForgetInputs(graph, computation.first_new);
  Ref fresh;
  if (status.ok() || computation.error != nullptr)
    fresh = Ref(AdoptNewOperations(graph, computation.first_new));
  if (computation.error != nullptr) {
    PyErr_Restore(computation.error, computation.value, computation.traceback);
    return nullptr;
  }
  if (!status.ok()) {
    if (status.code() == TF_NOT_FOUND) {
      PyErr_SetString(PyExc_LookupError, status.message());
      return nullptr;
    }
    return RaiseStatusOfOp(status);
  }
  if (!fresh) return nullptr;
  const Ref gradients(GradientObjects(graph, results.data(), results.size()));
  if (!gradients) return nullptr;
  return PyTuple_Pack(2, gradients.get(), fresh.get());
}

}  // namespace

// _gradients(ys, xs, grad_ys or None, stop_gradients, prefix, device or None, flags, aggregation)
// -> (gradients, new operations). Flags: 1 colocate, 2 gate, 4 zeros.
PyObject* GradientsMethod(PyObject* self, PyObject* args) {
  PyObject *ys = nullptr, *xs = nullptr, *grad_ys = nullptr, *stops = nullptr;
  const char *prefix = nullptr, *device = nullptr;
  int flags = 0, aggregation = 0;
  if (!PyArg_ParseTuple(args, "OOOOzzii", &ys, &xs, &grad_ys, &stops, &prefix, &device, &flags,
                        &aggregation)) {
    return nullptr;
  }
  GraphObject* graph = GraphOf(self);
  std::vector<TF_Output> y, x, stop;
  std::vector<Millrace_Gradient> dy;
  if (!TensorList(graph, ys, &y) || !TensorList(graph, xs, &x) || !TensorList(graph, stops, &stop) ||
      (grad_ys != Py_None && !ReadGradients(graph, grad_ys, &dy))) {
    return nullptr;
  }
  if (grad_ys != Py_None && dy.size() != y.size()) {
    PyErr_Format(PyExc_ValueError, "Passed %zu grad_ys for %zu ys", dy.size(), y.size());
    return nullptr;
  }
  Millrace_GradientOptions options;
  Millrace_InitGradientOptions(&options);
  options.prefix = prefix;
  options.device = device;
  options.stop_gradients = stop.data();
  options.num_stop_gradients = static_cast<int>(stop.size());
  options.colocate = (flags & 1) != 0;
  options.gate = (flags & 2) != 0;
  options.zeros = (flags & 4) != 0;
  options.aggregation = aggregation;
  std::vector<Millrace_Gradient> results(x.size(), kNoGradient);
  return ComputeGradients(graph, results, [&](TF_Status* status) {
    Millrace_AddGradients(graph->graph, y.data(), static_cast<int>(y.size()), x.data(),
                          static_cast<int>(x.size()), grad_ys == Py_None ? nullptr : dy.data(), &options,
                          results.data(), status);
  });
}

// _call_gradient(op, name or None, gradients of its outputs, prefix or None, device or None)
// -> (gradients of its inputs, new operations)
PyObject* CallGradientMethod(PyObject* self, PyObject* args) {
  PyObject *op = nullptr, *grads = nullptr;
  const char *name = nullptr, *prefix = nullptr, *device = nullptr;
  if (!PyArg_ParseTuple(args, "OzOzz", &op, &name, &grads, &prefix, &device)) return nullptr;
  GraphObject* graph = GraphOf(self);
  if (!IsOperation(op) || OperationOf(op)->graph != self) {
    PyErr_SetString(PyExc_TypeError, "Expected an Operation of the graph");
    return nullptr;
  }
  TF_Operation* const handle = OperationOf(op)->op;
  std::vector<Millrace_Gradient> given;
  if (!ReadGradients(graph, grads, &given)) return nullptr;
  if (given.size() != static_cast<size_t>(TF_OperationNumOutputs(handle))) {
    PyErr_Format(PyExc_ValueError, "There are %zu gradients for the %d outputs of %R", given.size(),
                 TF_OperationNumOutputs(handle), op);
    return nullptr;
  }
  Millrace_GradientOptions options;
  Millrace_InitGradientOptions(&options);
  options.prefix = prefix;
  options.device = device;
  std::vector<Millrace_Gradient> results(static_cast<size_t>(TF_OperationNumInputs(handle)), kNoGradient);
  return ComputeGradients(graph, results, [&](TF_Status* status) {
    Millrace_CallGradient(graph->graph, handle, name, given.data(), &options, results.data(), status);
  });
}

// _declare_gradient(name, differentiable): gradients of that name are those of Python, or end there.
PyObject* DeclareGradientMethod(PyObject* self, PyObject* args) {
  const char* name = nullptr;
  int differentiable = 1;
  if (!PyArg_ParseTuple(args, "sp", &name, &differentiable)) return nullptr;
  const StatusHolder status;
  Millrace_RegisterGradient(GraphOf(self)->graph, name, differentiable != 0 ? Callback : nullptr,
                            differentiable != 0 ? strdup(name) : nullptr,
                            differentiable != 0 ? free : nullptr, status.get());
  if (!status.ok()) return RaiseStatus(status);
  Py_RETURN_NONE;
}

PyObject* HasGradient(PyObject* /*module*/, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  return text == nullptr ? nullptr : PyLong_FromLong(Millrace_HasGradient(nullptr, text));
}

}  // namespace millrace::python
