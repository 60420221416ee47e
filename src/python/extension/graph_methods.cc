// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "python/extension/methods.h"

namespace millrace::python {
namespace {

class BufferHolder {
 public:
  BufferHolder() : buffer_(TF_NewBuffer()) {}
  BufferHolder(const char* data, Py_ssize_t size)
      : buffer_(TF_NewBufferFromString(data, static_cast<size_t>(size))) {}
  BufferHolder(const BufferHolder&) = delete;
  BufferHolder& operator=(const BufferHolder&) = delete;
  ~BufferHolder() { TF_DeleteBuffer(buffer_); }
  TF_Buffer* get() const { return buffer_; }
  PyObject* bytes() const {
    return PyBytes_FromStringAndSize(static_cast<const char*>(buffer_->data),
                                     static_cast<Py_ssize_t>(buffer_->length));
  }

 private:
  TF_Buffer* buffer_;
};

bool TensorArg(GraphObject* graph, PyObject* object, TF_Output* output) {
  if (!IsTensor(object)) {
    PyErr_Format(PyExc_TypeError, "Expected a Tensor, not %s", Py_TYPE(object)->tp_name);
    return false;
  }
  TensorObject* tensor = TensorOf(object);
  if (GraphOfTensor(tensor) != reinterpret_cast<PyObject*>(graph)) {
    PyErr_Format(PyExc_ValueError, "Tensor %R is not from the passed-in graph.", object);
    return false;
  }
  *output = OutputOf(tensor);
  return true;
}

bool OperationArg(GraphObject* graph, PyObject* object, TF_Operation** op) {
  if (!IsOperation(object)) {
    PyErr_Format(PyExc_TypeError, "Expected an Operation, not %s", Py_TYPE(object)->tp_name);
    return false;
  }
  if (OperationOf(object)->graph != reinterpret_cast<PyObject*>(graph)) {
    PyErr_Format(PyExc_ValueError, "Operation %R is not from the passed-in graph.", object);
    return false;
  }
  *op = OperationOf(object)->op;
  return true;
}

bool TensorArgs(GraphObject* graph, PyObject* sequence, std::vector<TF_Output>* outputs) {
  const Ref list(PySequence_Fast(sequence, "Expected a list of tensors"));
  if (!list) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.get()); ++i) {
    TF_Output output;
    if (!TensorArg(graph, PySequence_Fast_GET_ITEM(list.get(), i), &output)) return false;
    outputs->push_back(output);
  }
  return true;
}

bool OperationArgs(GraphObject* graph, PyObject* sequence, std::vector<TF_Operation*>* ops) {
  const Ref list(PySequence_Fast(sequence, "Expected a list of operations"));
  if (!list) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.get()); ++i) {
    TF_Operation* op = nullptr;
    if (!OperationArg(graph, PySequence_Fast_GET_ITEM(list.get(), i), &op)) return false;
    ops->push_back(op);
  }
  return true;
}

bool StringArgs(PyObject* sequence, const char* what, std::vector<std::string>* texts) {
  const Ref list(PySequence_Fast(sequence, "Expected a list of strings"));
  if (!list) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.get()); ++i) {
    std::string_view text;
    if (!TextOf(PySequence_Fast_GET_ITEM(list.get(), i), what, &text)) return false;
    texts->emplace_back(text);
  }
  return true;
}

PyObject* Finished(GraphObject* graph, TF_OperationDescription* description, PyObject* name) {
  const StatusHolder status;
  TF_Operation* op = TF_FinishOperation(description, status.get());
  if (op == nullptr) return RaiseStatusOfOp(status);
  return Py_XNewRef(AdoptOperation(graph, op, name));
}

// The inputs of an operation: tensors, and lists of tensors for list arguments.
bool AddInputs(GraphObject* graph, TF_OperationDescription* description, PyObject* inputs) {
  const Ref list(PySequence_Fast(inputs, "The inputs must be a list"));
  if (!list) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.get()); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(list.get(), i);
    if (PyList_Check(item) || PyTuple_Check(item)) {
      std::vector<TF_Output> outputs;
      if (!TensorArgs(graph, item, &outputs)) return false;
      TF_AddInputList(description, outputs.data(), static_cast<int>(outputs.size()));
    } else {
      TF_Output output;
      if (!TensorArg(graph, item, &output)) return false;
      TF_AddInput(description, output);
    }
  }
  return true;
}

bool Describe(GraphObject* graph, TF_OperationDescription* description, PyObject* inputs, PyObject* controls,
              PyObject* attrs) {
  if (!AddInputs(graph, description, inputs)) return false;
  std::vector<TF_Operation*> ops;
  if (!OperationArgs(graph, controls, &ops)) return false;
  for (TF_Operation* op : ops) TF_AddControlInput(description, op);
  const Ref list(PySequence_Fast(attrs, "The attributes must be a list"));
  if (!list) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.get()); ++i) {
    const char* name = nullptr;
    const char* kind = nullptr;
    PyObject* value = nullptr;
    if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(list.get(), i), "ssO", &name, &kind, &value)) return false;
    if (!SetAttribute(description, name, kind, value)) return false;
  }
  return true;
}

// A description that was begun must be finished; this ignores the error.
void Abandon(TF_OperationDescription* description) {
  TF_AddInput(description, {nullptr, 0});
  const StatusHolder status;
  TF_FinishOperation(description, status.get());
}

PyObject* MakeOp(PyObject* self, PyObject* args) {
  const char* type = nullptr;
  PyObject* name = nullptr;
  const char* device = nullptr;
  PyObject *inputs = nullptr, *controls = nullptr, *attrs = nullptr;
  if (!PyArg_ParseTuple(args, "sUsOOO", &type, &name, &device, &inputs, &controls, &attrs)) return nullptr;
  const char* name_text = PyUnicode_AsUTF8(name);
  if (name_text == nullptr) return nullptr;
  GraphObject* graph = GraphOf(self);
  if (!AwaitGradients(graph)) return nullptr;
  TF_OperationDescription* description = TF_NewOperation(graph->graph, type, name_text);
  if (description == nullptr) return PyErr_NoMemory();
  if (*device != '\0') TF_SetDevice(description, device);
  if (!Describe(graph, description, inputs, controls, attrs)) {
    PyObject *error = nullptr, *value = nullptr, *traceback = nullptr;
    PyErr_Fetch(&error, &value, &traceback);
    Abandon(description);
    PyErr_Restore(error, value, traceback);
    return nullptr;
  }
  return Finished(graph, description, name);
}

PyObject* UniqueNameMethod(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"name", "mark_as_used", nullptr};
  PyObject* name = nullptr;
  int mark = 1;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|p:unique_name", const_cast<char**>(names), &name,
                                   &mark)) {
    return nullptr;
  }
  std::string_view text;
  if (!TextOf(name, "A name", &text)) return nullptr;
  return UniqueName(GraphOf(self), text, mark != 0);
}

PyObject* Operations(PyObject* self, PyObject* /*unused*/) {
  Ref list(PyList_New(0));
  if (!list) return nullptr;
  for (PyObject* op : *GraphOf(self)->operations) {
    if (op != nullptr && PyList_Append(list.get(), op) < 0) return nullptr;
  }
  return list.release();
}

PyObject* AdoptNew(PyObject* self, PyObject* /*unused*/) { return AdoptNewOperations(GraphOf(self)); }

PyObject* ToGraphDef(PyObject* self, PyObject* /*unused*/) {
  const BufferHolder buffer;
  const StatusHolder status;
  TF_GraphToGraphDef(GraphOf(self)->graph, buffer.get(), status.get());
  return status.ok() ? buffer.bytes() : RaiseStatus(status);
}

PyObject* GetOpDef(PyObject* self, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return nullptr;
  const BufferHolder buffer;
  const StatusHolder status;
  TF_GraphGetOpDef(GraphOf(self)->graph, text, buffer.get(), status.get());
  return status.ok() ? buffer.bytes() : RaiseStatus(status);
}

PyObject* Versions(PyObject* self, PyObject* /*unused*/) {
  const BufferHolder buffer;
  const StatusHolder status;
  TF_GraphVersions(GraphOf(self)->graph, buffer.get(), status.get());
  return status.ok() ? buffer.bytes() : RaiseStatus(status);
}

PyObject* SetMinConsumer(PyObject* self, PyObject* version) {
  const long number = PyLong_AsLong(version);
  if (number == -1 && PyErr_Occurred()) return nullptr;
  Millrace_SetMinConsumer(GraphOf(self)->graph, static_cast<int>(number));
  Py_RETURN_NONE;
}

struct ImportOptions {
  ImportOptions() : options(TF_NewImportGraphDefOptions()) {}
  ImportOptions(const ImportOptions&) = delete;
  ImportOptions& operator=(const ImportOptions&) = delete;
  ~ImportOptions() { TF_DeleteImportGraphDefOptions(options); }
  TF_ImportGraphDefOptions* options;
};

// (source name, index, tensor or operation); index -1 means the operation itself, as a control input.
bool MapInputs(GraphObject* graph, TF_ImportGraphDefOptions* options, PyObject* map) {
  const Ref list(PySequence_Fast(map, "The input map must be a list"));
  if (!list) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.get()); ++i) {
    const char* name = nullptr;
    int index = 0;
    PyObject* to = nullptr;
    if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(list.get(), i), "siO", &name, &index, &to)) return false;
    if (index < 0) {
      TF_Operation* op = nullptr;
      if (!OperationArg(graph, to, &op)) return false;
      TF_ImportGraphDefOptionsRemapControlDependency(options, name, op);
    } else {
      TF_Output output;
      if (!TensorArg(graph, to, &output)) return false;
      TF_ImportGraphDefOptionsAddInputMapping(options, name, index, output);
    }
  }
  return true;
}

PyObject* ImportResults(GraphObject* graph, TF_ImportGraphDefResults* results) {
  Ref fresh(AdoptNewOperations(graph));
  if (!fresh) return nullptr;
  int count = 0;
  TF_Output* outputs = nullptr;
  TF_ImportGraphDefResultsReturnOutputs(results, &count, &outputs);
  Ref tensors(PyList_New(0));
  for (int i = 0; i < count; ++i) {
    const Ref tensor(ObjectOfOutput(graph, outputs[i]));
    if (!tensor || PyList_Append(tensors.get(), tensor.get()) < 0) return nullptr;
  }
  TF_Operation** operations = nullptr;
  TF_ImportGraphDefResultsReturnOperations(results, &count, &operations);
  Ref ops(PyList_New(0));
  for (int i = 0; i < count; ++i) {
    PyObject* op = ObjectOfOperation(graph, operations[i]);
    if (op == nullptr || PyList_Append(ops.get(), op) < 0) return nullptr;
  }
  const char** names = nullptr;
  int* indices = nullptr;
  TF_ImportGraphDefResultsMissingUnusedInputMappings(results, &count, &names, &indices);
  Ref missing(PyList_New(0));
  for (int i = 0; i < count; ++i) {
    const Ref entry(Py_BuildValue("(si)", names[i], indices[i]));
    if (!entry || PyList_Append(missing.get(), entry.get()) < 0) return nullptr;
  }
  return PyTuple_Pack(4, fresh.get(), tensors.get(), ops.get(), missing.get());
}

// _import(graph_def, prefix, input_map, return_tensors [(name, index)], return_ops [name], controls,
// uniquify)
// -> (new operations, tensors, operations, names of the map that nothing used)
PyObject* ImportMethod(PyObject* self, PyObject* args) {
  const char* data = nullptr;
  Py_ssize_t size = 0;
  const char* prefix = nullptr;
  PyObject *map = nullptr, *tensors = nullptr, *ops = nullptr, *controls = nullptr;
  int uniquify = 0;
  if (!PyArg_ParseTuple(args, "y#sOOOOp", &data, &size, &prefix, &map, &tensors, &ops, &controls,
                        &uniquify)) {
    return nullptr;
  }
  GraphObject* graph = GraphOf(self);
  if (!AwaitGradients(graph)) return nullptr;
  const ImportOptions import;
  TF_ImportGraphDefOptionsSetPrefix(import.options, prefix);
  TF_ImportGraphDefOptionsSetUniquifyNames(import.options, static_cast<unsigned char>(uniquify));
  if (!MapInputs(graph, import.options, map)) return nullptr;
  const Ref wanted(PySequence_Fast(tensors, "The tensors must be a list"));
  if (!wanted) return nullptr;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(wanted.get()); ++i) {
    const char* name = nullptr;
    int index = 0;
    if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(wanted.get(), i), "si", &name, &index)) return nullptr;
    TF_ImportGraphDefOptionsAddReturnOutput(import.options, name, index);
  }
  std::vector<std::string> names;
  if (!StringArgs(ops, "The name of an operation", &names)) return nullptr;
  for (const std::string& name : names)
    TF_ImportGraphDefOptionsAddReturnOperation(import.options, name.c_str());
  std::vector<TF_Operation*> control_ops;
  if (!OperationArgs(graph, controls, &control_ops)) return nullptr;
  for (TF_Operation* op : control_ops) TF_ImportGraphDefOptionsAddControlDependency(import.options, op);
  const BufferHolder buffer(data, size);
  const StatusHolder status;
  TF_ImportGraphDefResults* results = nullptr;
  {
    const WithoutGil unlocked;
    results = TF_GraphImportGraphDefWithResults(graph->graph, buffer.get(), import.options, status.get());
  }
  if (results == nullptr) return RaiseStatusOfOp(status);
  PyObject* described = ImportResults(graph, results);
  TF_DeleteImportGraphDefResults(results);
  return described;
}

struct FunctionHolder {
  TF_Function* function = nullptr;
  FunctionHolder() = default;
  FunctionHolder(const FunctionHolder&) = delete;
  FunctionHolder& operator=(const FunctionHolder&) = delete;
  ~FunctionHolder() { TF_DeleteFunction(function); }
};

// _copy_function(function_def, gradient's function_def or None)
PyObject* CopyFunction(PyObject* self, PyObject* args) {
  const char *data = nullptr, *gradient_data = nullptr;
  Py_ssize_t size = 0, gradient_size = 0;
  if (!PyArg_ParseTuple(args, "y#z#", &data, &size, &gradient_data, &gradient_size)) return nullptr;
  if (!AwaitGradients(GraphOf(self))) return nullptr;
  const StatusHolder status;
  FunctionHolder function, gradient;
  function.function = TF_FunctionImportFunctionDef(data, static_cast<size_t>(size), status.get());
  if (!status.ok()) return RaiseStatus(status);
  if (gradient_data != nullptr) {
    gradient.function =
        TF_FunctionImportFunctionDef(gradient_data, static_cast<size_t>(gradient_size), status.get());
    if (!status.ok()) return RaiseStatus(status);
  }
  TF_GraphCopyFunction(GraphOf(self)->graph, function.function, gradient.function, status.get());
  if (!status.ok()) return RaiseStatus(status);
  Py_RETURN_NONE;
}

// _functions() -> serialised FunctionDefs of the graph
PyObject* Functions(PyObject* self, PyObject* /*unused*/) {
  TF_Graph* graph = GraphOf(self)->graph;
  std::vector<TF_Function*> functions(static_cast<size_t>(TF_GraphNumFunctions(graph)));
  const StatusHolder status;
  const int count =
      TF_GraphGetFunctions(graph, functions.data(), static_cast<int>(functions.size()), status.get());
  if (!status.ok()) return RaiseStatus(status);
  Ref list(PyList_New(0));
  for (int i = 0; i < count; ++i) {
    TF_Function* function = functions[static_cast<size_t>(i)];
    const BufferHolder buffer;
    TF_FunctionToFunctionDef(function, buffer.get(), status.get());
    const Ref bytes(status.ok() ? buffer.bytes() : RaiseStatus(status));
    TF_DeleteFunction(function);
    if (!bytes || PyList_Append(list.get(), bytes.get()) < 0) list = Ref();
    if (!list) {
      while (++i < count) TF_DeleteFunction(functions[static_cast<size_t>(i)]);
      return nullptr;
    }
  }
  return list.release();
}

// _to_function(name, append_hash, ops or None, inputs, outputs, output_names or None, controls,
// control_names, description) -> serialised FunctionDef
PyObject* ToFunction(PyObject* self, PyObject* args) {
  const char *name = nullptr, *description = nullptr;
  int append_hash = 0;
  PyObject *ops = nullptr, *inputs = nullptr, *outputs = nullptr, *output_names = nullptr,
           *controls = nullptr, *control_names = nullptr;
  if (!PyArg_ParseTuple(args, "spOOOOOOz", &name, &append_hash, &ops, &inputs, &outputs, &output_names,
                        &controls, &control_names, &description)) {
    return nullptr;
  }
  GraphObject* graph = GraphOf(self);
  std::vector<TF_Operation*> op_list, control_list;
  std::vector<TF_Output> input_list, output_list;
  std::vector<std::string> names, names_of_controls;
  if ((ops != Py_None && !OperationArgs(graph, ops, &op_list)) || !TensorArgs(graph, inputs, &input_list) ||
      !TensorArgs(graph, outputs, &output_list) ||
      (output_names != Py_None && !StringArgs(output_names, "The name of an output", &names)) ||
      !OperationArgs(graph, controls, &control_list) ||
      !StringArgs(control_names, "The name of a control output", &names_of_controls)) {
    return nullptr;
  }
  if (output_names != Py_None && names.size() != output_list.size()) {
    PyErr_SetString(PyExc_ValueError, "There must be one name for each output");
    return nullptr;
  }
  std::vector<const char*> name_list, control_name_list;
  for (const std::string& text : names) name_list.push_back(text.c_str());
  for (const std::string& text : names_of_controls) control_name_list.push_back(text.c_str());
  const StatusHolder status;
  FunctionHolder function;
  function.function = TF_GraphToFunctionWithControlOutputs(
      graph->graph, name, static_cast<unsigned char>(append_hash),
      ops == Py_None ? -1 : static_cast<int>(op_list.size()), op_list.data(),
      static_cast<int>(input_list.size()), input_list.data(), static_cast<int>(output_list.size()),
      output_list.data(), output_names == Py_None ? nullptr : name_list.data(),
      static_cast<int>(control_list.size()), control_list.data(),
      control_name_list.empty() ? nullptr : control_name_list.data(), nullptr, description, status.get());
  if (!status.ok()) return RaiseStatus(status);
  const BufferHolder buffer;
  TF_FunctionToFunctionDef(function.function, buffer.get(), status.get());
  return status.ok() ? buffer.bytes() : RaiseStatus(status);
}

PyObject* OperationByName(PyObject* self, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return nullptr;
  TF_Operation* op = TF_GraphOperationByName(GraphOf(self)->graph, text);
  if (op == nullptr) Py_RETURN_NONE;
  return Py_XNewRef(ObjectOfOperation(GraphOf(self), op));
}

PyObject* MarkName(PyObject* self, PyObject* args) {
  const char* name = nullptr;
  int uses = 0;
  if (!PyArg_ParseTuple(args, "si", &name, &uses)) return nullptr;
  (*GraphOf(self)->names_in_use)[name] = uses;
  Py_RETURN_NONE;
}

PyObject* NamesInUse(PyObject* self, void* /*unused*/) {
  Ref dict(PyDict_New());
  for (const auto& [name, uses] : *GraphOf(self)->names_in_use) {
    const Ref count(PyLong_FromLong(uses));
    if (!count || PyDict_SetItemString(dict.get(), name.c_str(), count.get()) < 0) return nullptr;
  }
  return dict.release();
}

PyObject* NumIds(PyObject* self, void* /*unused*/) {
  return PyLong_FromLong(Millrace_GraphNumIds(GraphOf(self)->graph) - 2);
}

PyObject* Handle(PyObject* self, void* /*unused*/) { return PyLong_FromVoidPtr(GraphOf(self)->graph); }

}  // namespace

PyMethodDef graph_methods[] = {
    {"_make_op", MakeOp, METH_VARARGS, nullptr},
    {"unique_name", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(UniqueNameMethod)),
     METH_VARARGS | METH_KEYWORDS, "A name that no operation of the graph has, in the current scope."},
    {"_operations", Operations, METH_NOARGS, nullptr},
    {"_adopt_new_operations", AdoptNew, METH_NOARGS, nullptr},
    {"_operation_by_name", OperationByName, METH_O, nullptr},
    {"_to_graph_def", ToGraphDef, METH_NOARGS, nullptr},
    {"_op_def_bytes", GetOpDef, METH_O, nullptr},
    {"_version_bytes", Versions, METH_NOARGS, nullptr},
    {"_set_min_consumer", SetMinConsumer, METH_O, nullptr},
    {"_import", ImportMethod, METH_VARARGS, nullptr},
    {"_copy_function", CopyFunction, METH_VARARGS, nullptr},
    {"_function_defs", Functions, METH_NOARGS, nullptr},
    {"_to_function", ToFunction, METH_VARARGS, nullptr},
    {"_gradients", GradientsMethod, METH_VARARGS, nullptr},
    {"_call_gradient", CallGradientMethod, METH_VARARGS, nullptr},
    {"_declare_gradient", DeclareGradientMethod, METH_VARARGS, nullptr},
    {"_mark_name", MarkName, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef graph_members[] = {
    {"_nodes_by_name", T_OBJECT_EX, offsetof(GraphObject, nodes_by_name), READONLY, nullptr},
    {"_name_stack", T_OBJECT_EX, offsetof(GraphObject, name_stack), 0, nullptr},
    {"_slow_reasons", T_INT, offsetof(GraphObject, slow_reasons), 0, nullptr},
    {"_finalized", T_BOOL, offsetof(GraphObject, finalized), 0, nullptr},
    {"_control_flow_context", T_OBJECT_EX, offsetof(GraphObject, context), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef graph_properties[] = {{"_names_in_use", NamesInUse, nullptr, nullptr, nullptr},
                                  {"_num_ids", NumIds, nullptr, nullptr, nullptr},
                                  {"_handle", Handle, nullptr, nullptr, nullptr},
                                  {nullptr, nullptr, nullptr, nullptr, nullptr}};

}  // namespace millrace::python
