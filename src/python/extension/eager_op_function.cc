// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Called by the generated functions. In graphs it calls op_def_library's function of the op; in eager mode it
// executes the op, without Python code when all arguments have the expected types.
#include <cstddef>

#include "python/extension/eager.h"
#include "python/extension/module.h"

namespace millrace::python {
namespace {

struct InputSpec {
  int dtype = 0;  // 0: it is in `attr`
  int attr = -1;  // number of the attribute in the order of first use; -1: a list of any types
  bool is_list = false;
};

struct AttrSpec {
  std::string name;
  std::string kind;
  PyObject* default_value;  // owned
};

struct Spec {
  std::string name;
  std::vector<InputSpec> inputs;
  std::vector<AttrSpec> attrs;
  std::vector<std::string> outputs;  // names, lists are marked by `lists`
  std::vector<bool> lists;
  std::vector<std::string> type_attrs;  // of the inputs
  std::vector<int> default_types;       // of these; 0: none
  bool executable = true;               // no argument is a reference
};

struct FunctionObject {
  PyObject_HEAD vectorcallfunc call;
  PyObject* slow_function;  // op_def_library.OpFunction
  PyObject* slow;           // its method for graphs
  PyObject* slow_eager;     // its method for arguments of any kind
  PyObject* none;           // marks an argument without a default
  Spec* spec;
};

FunctionObject* FunctionOf(PyObject* object) { return reinterpret_cast<FunctionObject*>(object); }

// "x:T &y:#7 z:N*T"
bool ReadInputs(std::string_view text, Spec* spec) {
  std::vector<std::string> attrs;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    std::string_view item = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    item.remove_prefix(item.find(':') + 1);
    InputSpec input;
    if (item.starts_with("&")) {
      spec->executable = false;
      item.remove_prefix(1);
    }
    if (const size_t star = item.find('*'); star != std::string_view::npos) {
      input.is_list = true;
      item.remove_prefix(star + 1);
    } else if (item.starts_with("#")) {
      input.dtype = std::atoi(std::string(item.substr(1)).c_str());
    } else {
      size_t at = 0;
      while (at < attrs.size() && attrs[at] != item) ++at;
      if (at == attrs.size()) attrs.emplace_back(item);
      input.attr = static_cast<int>(at);
    }
    spec->inputs.push_back(input);
  }
  spec->type_attrs = std::move(attrs);
  spec->default_types.resize(spec->type_attrs.size());
  return true;
}

void ReadOutputs(std::string_view text, Spec* spec) {
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view item = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t colon = item.find(':');
    spec->outputs.emplace_back(item.substr(0, colon));
    spec->lists.push_back(item.find('*') != std::string_view::npos);
    if (item.substr(colon + 1).starts_with("&")) spec->executable = false;
  }
}

// The default types of attributes that the inputs do not determine.
bool ReadDefaultTypes(PyObject* attrs, Spec* spec) {
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(attrs); ++k) {
    const char *attr = nullptr, *kind = nullptr;
    PyObject *allowed = nullptr, *minimum = nullptr, *type = nullptr;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(attrs, k), "ssOOO", &attr, &kind, &allowed, &minimum, &type))
      return false;
    for (size_t i = 0; i < spec->type_attrs.size(); ++i) {
      if (spec->type_attrs[i] == attr && PyLong_Check(type))
        spec->default_types[i] = static_cast<int>(PyLong_AsLong(type));
    }
  }
  return true;
}

bool ReadAttrs(PyObject* attrs, const char* parameters, PyObject* defaults, Spec* spec) {
  std::string_view names = parameters;
  for (Py_ssize_t i = 0; !names.empty(); ++i) {
    const size_t end = std::min(names.find(' '), names.size());
    const std::string name(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
    if (i >= PyTuple_GET_SIZE(defaults)) return false;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(attrs); ++k) {
      const char *attr = nullptr, *kind = nullptr;
      PyObject *allowed = nullptr, *minimum = nullptr, *type = nullptr;
      if (!PyArg_ParseTuple(PyTuple_GET_ITEM(attrs, k), "ssOOO", &attr, &kind, &allowed, &minimum, &type))
        return false;
      if (name == attr) spec->attrs.push_back({name, kind, Py_NewRef(PyTuple_GET_ITEM(defaults, i))});
    }
  }
  return true;
}

// 1: done; 0: another way must be taken; -1: an exception.
int FastAttribute(TFE_Op* op, const FunctionObject* self, const AttrSpec& attr, PyObject* value) {
  if (value == Py_None && attr.default_value != self->none) value = attr.default_value;
  const std::string& kind = attr.kind;
  bool known = false;
  if (kind == "bool") {
    known = PyBool_Check(value);
  } else if (kind == "int") {
    known = PyLong_CheckExact(value);
  } else if (kind == "float") {
    known = PyFloat_CheckExact(value);
  } else if (kind == "string") {
    known = (PyUnicode_CheckExact(value) || PyBytes_CheckExact(value)) && attr.name != "shared_name";
  } else if (kind == "type") {
    for (int i = 1; i < 64; ++i) {
      if (registered.dtypes[i] != value) continue;
      TFE_OpSetAttrType(op, attr.name.c_str(), static_cast<TF_DataType>(i));
      return 1;
    }
  } else if (kind == "list(int)") {
    known = PyList_CheckExact(value);
    for (Py_ssize_t i = 0; known && i < PyList_GET_SIZE(value); ++i)
      known = PyLong_CheckExact(PyList_GET_ITEM(value, i));
  } else if (kind == "tensor") {
    if (value == Py_None) return 1;
  }
  if (!known) return 0;
  return SetEagerAttribute(op, attr.name.c_str(), kind, value) ? 1 : -1;
}

// Writes a Python number if the type can represent it under TensorFlow's rules; else false, perhaps with an
// exception.
bool WriteNumber(PyObject* value, int dtype, char* to) {
  if (dtype == TF_FLOAT || dtype == TF_DOUBLE) {
    if (!PyFloat_CheckExact(value) && !PyLong_CheckExact(value)) return false;
    const double v = PyFloat_AsDouble(value);
    if (v == -1.0 && PyErr_Occurred()) return false;
    const auto narrow = static_cast<float>(v);
    dtype == TF_FLOAT ? memcpy(to, &narrow, sizeof(narrow)) : memcpy(to, &v, sizeof(v));
    return true;
  }
  if (!PyLong_CheckExact(value)) return false;
  int overflow = 0;
  const int64_t v = PyLong_AsLongLongAndOverflow(value, &overflow);
  const auto narrow = static_cast<int32_t>(v);
  if (overflow != 0 || (dtype == TF_INT32 && v != narrow)) return false;
  dtype == TF_INT32 ? memcpy(to, &narrow, sizeof(narrow)) : memcpy(to, &v, sizeof(v));
  return true;
}

// A tensor of a Python number or a list of them; null, perhaps without an exception, where it must be
// converted in another way.
PyObject* TensorOfNumber(PyObject* value, int dtype) {
  if (dtype != TF_FLOAT && dtype != TF_DOUBLE && dtype != TF_INT32 && dtype != TF_INT64) return nullptr;
  const bool is_list = PyList_CheckExact(value) || PyTuple_CheckExact(value);
  if (!is_list && !PyLong_CheckExact(value) && !PyFloat_CheckExact(value)) return nullptr;
  const int64_t count = is_list ? PySequence_Fast_GET_SIZE(value) : 1;
  const size_t size = TF_DataTypeSize(static_cast<TF_DataType>(dtype));
  TF_Tensor* tensor = TF_AllocateTensor(static_cast<TF_DataType>(dtype), &count, is_list ? 1 : 0,
                                        size * static_cast<size_t>(count));
  if (tensor == nullptr) return PyErr_NoMemory();
  char* to = static_cast<char*>(TF_TensorData(tensor));
  for (int64_t i = 0; i < count; ++i, to += size) {
    if (WriteNumber(is_list ? PySequence_Fast_GET_ITEM(value, i) : value, dtype, to)) continue;
    TF_DeleteTensor(tensor);
    return nullptr;
  }
  const StatusHolder status;
  TFE_TensorHandle* handle = TFE_NewTensorHandle(tensor, status.get());
  TF_DeleteTensor(tensor);
  return status.ok() ? MakeEagerTensor(handle) : RaiseStatus(status);
}

// eager_number(value, number of the type): a tensor, or None where it must be converted in another way.
PyObject* NumberFunction(PyObject* /*module*/, PyObject* const* args, Py_ssize_t count) {
  if (count != 2) {
    PyErr_SetString(PyExc_TypeError, "eager_number takes a value and a type");
    return nullptr;
  }
  const long dtype = PyLong_AsLong(args[1]);
  if (dtype == -1 && PyErr_Occurred()) return nullptr;
  PyObject* made = TensorOfNumber(args[0], static_cast<int>(dtype));
  if (made != nullptr || PyErr_Occurred()) return made;
  Py_RETURN_NONE;
}

PyMethodDef module_functions[] = {
    {"eager_number", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(NumberFunction)),
     METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr}};

bool AllEager(PyObject* list) {
  if (!PyList_CheckExact(list) && !PyTuple_CheckExact(list)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list); ++i) {
    if (!IsEagerTensor(PySequence_Fast_GET_ITEM(list, i))) return false;
  }
  return true;
}

// Whether all inputs can be used; `inputs` gets them, numbers as tensors.
bool ReadArguments(const Spec& spec, PyObject* const* args, std::vector<Ref>* inputs) {
  int types[16] = {};
  if (spec.type_attrs.size() > 16) return false;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const InputSpec& input = spec.inputs[i];
    if (input.is_list || !IsEagerTensor(args[i])) continue;
    const int dtype = TensorOf(args[i])->dtype_number;
    if (input.attr < 0) {
      if (dtype != input.dtype) return false;
    } else if (types[input.attr] == 0) {
      types[input.attr] = dtype;
    } else if (types[input.attr] != dtype) {
      return false;  // refused with the usual text
    }
  }
  for (size_t i = 0; i < spec.default_types.size(); ++i) {
    if (types[i] == 0) types[i] = spec.default_types[i];
  }
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const InputSpec& input = spec.inputs[i];
    PyObject* value = args[i];
    if (input.is_list ? AllEager(value) : IsEagerTensor(value)) {
      inputs->push_back(Ref::New(value));
      continue;
    }
    const int dtype = input.is_list ? 0 : input.attr < 0 ? input.dtype : types[input.attr];
    if (dtype == 0) return false;
    Ref made(TensorOfNumber(value, dtype));
    if (!made) return false;
    inputs->push_back(std::move(made));
  }
  return true;
}

PyObject* ResultsOf(FunctionObject* self, TFE_Op* op, PyObject* flat) {
  const Spec& spec = *self->spec;
  if (spec.outputs.empty()) Py_RETURN_NONE;
  if (spec.outputs.size() == 1) {
    return spec.lists[0] ? Py_NewRef(flat) : Py_NewRef(PyList_GET_ITEM(flat, 0));
  }
  const Ref values(PyList_New(0));
  Py_ssize_t at = 0;
  for (size_t i = 0; values && i < spec.outputs.size(); ++i) {
    if (!spec.lists[i]) {
      if (PyList_Append(values.get(), PyList_GET_ITEM(flat, at++)) < 0) return nullptr;
      continue;
    }
    const StatusHolder status;
    const int count = TFE_OpGetOutputLength(op, spec.outputs[i].c_str(), status.get());
    if (!status.ok()) return RaiseStatus(status);
    const Ref part(PyList_GetSlice(flat, at, at + count));
    if (!part || PyList_Append(values.get(), part.get()) < 0) return nullptr;
    at += count;
  }
  return values ? PyObject_CallMethod(self->slow_function, "_named", "O", values.get()) : nullptr;
}

int CountOutputs(const Spec& spec, TFE_Op* op) {
  int count = 0;
  for (size_t i = 0; i < spec.outputs.size(); ++i) {
    if (!spec.lists[i]) {
      ++count;
      continue;
    }
    const StatusHolder status;
    const int length = TFE_OpGetOutputLength(op, spec.outputs[i].c_str(), status.get());
    if (!status.ok()) {
      RaiseStatus(status);
      return -1;
    }
    count += length;
  }
  return count;
}

bool Record(FunctionObject* self, PyObject* const* args, const std::vector<Ref>& inputs, PyObject* outputs) {
  if (registered.record == nullptr) return true;
  if (!record_everything && (!ThisThread().recording || PyList_GET_SIZE(outputs) == 0)) return true;
  const Spec& spec = *self->spec;
  const Ref values(PyTuple_New(static_cast<Py_ssize_t>(spec.attrs.size())));
  const Ref tensors(PyTuple_New(static_cast<Py_ssize_t>(inputs.size())));
  if (!values || !tensors) return false;
  for (size_t i = 0; i < spec.attrs.size(); ++i)
    PyTuple_SET_ITEM(values.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args[inputs.size() + i]));
  for (size_t i = 0; i < inputs.size(); ++i)
    PyTuple_SET_ITEM(tensors.get(), static_cast<Py_ssize_t>(i), Py_NewRef(inputs[i].get()));
  PyObject* const call[] = {self->slow_function, values.get(), tensors.get(), outputs};
  const Ref done(PyObject_Vectorcall(registered.record, call, 4, nullptr));
  return static_cast<bool>(done);
}

PyObject* Call(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* keywords) {
  FunctionObject* self = FunctionOf(callable);
  if (!ThisThread().eager) return PyObject_Vectorcall(self->slow, args, nargsf, keywords);
  const Spec& spec = *self->spec;
  const auto count = static_cast<size_t>(PyVectorcall_NARGS(nargsf));
  if (keywords != nullptr || count != spec.inputs.size() + spec.attrs.size() + 1 || !spec.executable)
    return PyObject_Vectorcall(self->slow_eager, args, nargsf, keywords);
  std::vector<Ref> inputs;
  inputs.reserve(spec.inputs.size());
  if (!ReadArguments(spec, args, &inputs)) {
    if (PyErr_Occurred()) return nullptr;
    return PyObject_Vectorcall(self->slow_eager, args, nargsf, nullptr);
  }
  EagerOpHolder op;
  if (!op.Start(spec.name.c_str())) return nullptr;
  for (const Ref& input : inputs) {
    if (!(IsEagerTensor(input.get()) ? op.AddInput(input.get()) : op.AddInputs(input.get()))) return nullptr;
  }
  for (size_t i = 0; i < spec.attrs.size(); ++i) {
    const int done = FastAttribute(op.get(), self, spec.attrs[i], args[inputs.size() + i]);
    if (done < 0) return nullptr;
    if (done == 0) return PyObject_Vectorcall(self->slow_eager, args, nargsf, nullptr);
  }
  const int num_outputs = CountOutputs(spec, op.get());
  if (num_outputs < 0) return nullptr;
  const Ref outputs(op.Execute(num_outputs));
  if (!outputs || !Record(self, args, inputs, outputs.get())) return nullptr;
  return ResultsOf(self, op.get(), outputs.get());
}

PyObject* New(PyTypeObject* type, PyObject* args, PyObject* /*kwargs*/) {
  PyObject *function = nullptr, *attrs = nullptr, *defaults = nullptr, *none = nullptr;
  const char *name = nullptr, *inputs = nullptr, *outputs = nullptr, *parameters = nullptr;
  if (!PyArg_ParseTuple(args, "OsssO!sO!O", &function, &name, &inputs, &outputs, &PyTuple_Type, &attrs,
                        &parameters, &PyTuple_Type, &defaults, &none)) {
    return nullptr;
  }
  Ref made(type->tp_alloc(type, 0));
  if (!made) return nullptr;
  FunctionObject* self = FunctionOf(made.get());
  self->call = Call;
  self->spec = new Spec();
  self->spec->name = name;
  self->slow_function = Py_NewRef(function);
  self->none = Py_NewRef(none);
  self->slow = PyObject_GetAttrString(function, "slow");
  self->slow_eager = PyObject_GetAttrString(function, "slow_eager");
  if (self->slow == nullptr || self->slow_eager == nullptr) return nullptr;
  ReadOutputs(outputs, self->spec);
  if (!ReadInputs(inputs, self->spec) || !ReadDefaultTypes(attrs, self->spec) ||
      !ReadAttrs(attrs, parameters, defaults, self->spec)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "The description of the op is not complete");
    return nullptr;
  }
  return made.release();
}

void Free(PyObject* object) {
  FunctionObject* self = FunctionOf(object);
  Py_XDECREF(self->slow_function);
  Py_XDECREF(self->slow);
  Py_XDECREF(self->slow_eager);
  Py_XDECREF(self->none);
  if (self->spec != nullptr) {
    for (const AttrSpec& attr : self->spec->attrs) Py_XDECREF(attr.default_value);
  }
  delete self->spec;
  Py_TYPE(object)->tp_free(object);
}

PyMemberDef members[] = {{"slow_function", T_OBJECT_EX, offsetof(FunctionObject, slow_function), READONLY,
                          "The function in Python."},
                         {nullptr, 0, 0, 0, nullptr}};

PyTypeObject function_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

}  // namespace

bool ReadyEagerOpFunction(PyObject* module) {
  function_type.tp_name = "millrace.python._engine.OpFunction";
  function_type.tp_basicsize = sizeof(FunctionObject);
  function_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
  function_type.tp_vectorcall_offset = offsetof(FunctionObject, call);
  function_type.tp_call = PyVectorcall_Call;
  function_type.tp_new = New;
  function_type.tp_dealloc = Free;
  function_type.tp_members = members;
  return PyType_Ready(&function_type) == 0 && PyModule_AddFunctions(module, module_functions) == 0 &&
         PyModule_AddObjectRef(module, "OpFunction", reinterpret_cast<PyObject*>(&function_type)) == 0;
}

}  // namespace millrace::python
