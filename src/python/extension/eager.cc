// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The context of eager execution, and the mode of a thread.
#include "python/extension/eager.h"

#include <atomic>

#include "python/extension/methods.h"

namespace millrace::python {
namespace {

TFE_Context* context = nullptr;  // lives as long as the process: kernels may run until its end
std::atomic<bool> eager_by_default = false;

struct Started {
  std::string config;
  int policy = TFE_DEVICE_PLACEMENT_SILENT;
  bool is_async = false;
};
Started* const options = new Started();

PyObject* Start(PyObject* /*module*/, PyObject* args) {
  const char* config = nullptr;
  Py_ssize_t size = 0;
  int policy = 0, is_async = 0;
  if (!PyArg_ParseTuple(args, "y#ip", &config, &size, &policy, &is_async)) return nullptr;
  if (context == nullptr) {
    options->config.assign(config, static_cast<size_t>(size));
    options->policy = policy;
    options->is_async = is_async != 0;
  }
  return PyBool_FromLong(context == nullptr);
}

PyObject* ExecutingEagerly(PyObject* /*module*/, PyObject* /*unused*/) {
  return PyBool_FromLong(ThisThread().eager);
}

PyObject* SetEager(PyObject* /*module*/, PyObject* value) {
  const bool old = std::exchange(ThisThread().eager, value == Py_True);
  return PyBool_FromLong(old);
}

PyObject* SetDefault(PyObject* /*module*/, PyObject* value) {
  eager_by_default = value == Py_True;
  Py_RETURN_NONE;
}

PyObject* SetRecording(PyObject* /*module*/, PyObject* value) {
  const bool old = std::exchange(ThisThread().recording, value == Py_True);
  return PyBool_FromLong(old);
}

PyObject* SetRecordEverything(PyObject* /*module*/, PyObject* value) {
  record_everything = value == Py_True;
  Py_RETURN_NONE;
}

PyObject* SetDevice(PyObject* /*module*/, PyObject* name) {
  std::string_view text;
  if (name != Py_None && !TextOf(name, "A device", &text)) return nullptr;
  ThisThread().device = text;
  Py_RETURN_NONE;
}

PyObject* Devices(PyObject* /*module*/, PyObject* /*unused*/) {
  TFE_Context* ctx = EagerContextOf();
  if (ctx == nullptr) return nullptr;
  const StatusHolder status;
  TF_DeviceList* devices = TFE_ContextListDevices(ctx, status.get());
  if (!status.ok()) return RaiseStatus(status);
  Ref list(PyList_New(0));
  for (int i = 0; list && i < TF_DeviceListCount(devices); ++i) {
    const Ref entry(Py_BuildValue("(ss)", TF_DeviceListName(devices, i, status.get()),
                                  TF_DeviceListType(devices, i, status.get())));
    if (!entry || PyList_Append(list.get(), entry.get()) < 0) list = Ref();
  }
  TF_DeleteDeviceList(devices);
  return list.release();
}

PyObject* Done(const StatusHolder& status) {
  if (!status.ok()) return RaiseStatus(status);
  Py_RETURN_NONE;
}

PyObject* AddFunction(PyObject* /*module*/, PyObject* bytes) {
  char* data = nullptr;
  Py_ssize_t size = 0;
  TFE_Context* ctx = EagerContextOf();
  if (ctx == nullptr || PyBytes_AsStringAndSize(bytes, &data, &size) < 0) return nullptr;
  const StatusHolder status;
  TFE_ContextAddFunctionDef(ctx, data, static_cast<size_t>(size), status.get());
  return Done(status);
}

PyObject* RemoveFunction(PyObject* /*module*/, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  TFE_Context* ctx = EagerContextOf();
  if (text == nullptr || ctx == nullptr) return nullptr;
  const StatusHolder status;
  TFE_ContextRemoveFunction(ctx, text, status.get());
  return Done(status);
}

PyObject* HasFunction(PyObject* /*module*/, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  TFE_Context* ctx = EagerContextOf();
  if (text == nullptr || ctx == nullptr) return nullptr;
  return PyBool_FromLong(TFE_ContextHasFunction(ctx, text));
}

PyObject* ClearCaches(PyObject* /*module*/, PyObject* /*unused*/) {
  if (context != nullptr) TFE_ContextClearCaches(context);
  Py_RETURN_NONE;
}

// eager_step(begins)
PyObject* Step(PyObject* /*module*/, PyObject* begins) {
  TFE_Context* ctx = EagerContextOf();
  if (ctx == nullptr) return nullptr;
  begins == Py_True ? TFE_ContextStartStep(ctx) : TFE_ContextEndStep(ctx);
  Py_RETURN_NONE;
}

bool AddArguments(EagerOpHolder* op, PyObject* inputs) {
  const Ref list(PySequence_Fast(inputs, "The inputs must be a list"));
  if (!list) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.get()); ++i) {
    PyObject* input = PySequence_Fast_GET_ITEM(list.get(), i);
    if (IsEagerTensor(input)) {
      if (!op->AddInput(input)) return false;
      continue;
    }
    if (!PyList_Check(input) && !PyTuple_Check(input)) {
      PyErr_Format(
          PyExc_TypeError,
          "provided list of inputs contains objects other than 'EagerTensor'. Item %zd is of the type %s", i,
          Py_TYPE(input)->tp_name);
      return false;
    }
    if (!op->AddInputs(input)) return false;
  }
  return true;
}

bool SetAttributes(TFE_Op* op, PyObject* triples) {
  const Ref list(PySequence_Fast(triples, "The attributes must be a list"));
  if (!list) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.get()); ++i) {
    const char *name = nullptr, *kind = nullptr;
    PyObject* value = nullptr;
    if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(list.get(), i), "ssO", &name, &kind, &value) ||
        !SetEagerAttribute(op, name, kind, value)) {
      return false;
    }
  }
  return true;
}

// eager_execute(op, device or None, inputs, attribute triples, number of outputs) -> list
PyObject* Execute(PyObject* /*module*/, PyObject* args) {
  const char *name = nullptr, *device = nullptr;
  PyObject *inputs = nullptr, *triples = nullptr;
  int num_outputs = 0;
  if (!PyArg_ParseTuple(args, "szOOi", &name, &device, &inputs, &triples, &num_outputs)) return nullptr;
  EagerOpHolder op;
  if (!op.Start(name) || (device != nullptr && !op.SetDevice(device)) || !AddArguments(&op, inputs) ||
      !SetAttributes(op.get(), triples)) {
    return nullptr;
  }
  return op.Execute(num_outputs);
}

PyMethodDef functions[] = {
    {"eager_start", Start, METH_VARARGS,
     "eager_start(config, policy, is_async): options of the context; False once there is one."},
    {"executing_eagerly", ExecutingEagerly, METH_NOARGS, "Whether this thread executes ops at once."},
    {"set_eager", SetEager, METH_O, "Sets the mode of this thread; returns the old one."},
    {"set_eager_by_default", SetDefault, METH_O, "Sets the mode of threads that begin later."},
    {"set_record_everything", SetRecordEverything, METH_O, "Whether the ops of all threads are recorded."},
    {"set_recording", SetRecording, METH_O,
     "Sets whether this thread's ops are recorded on tapes; returns the old value."},
    {"set_eager_device", SetDevice, METH_O, "Where this thread executes ops; None: the first CPU."},
    {"eager_devices", Devices, METH_NOARGS, "[(name, type)]"},
    {"eager_add_function", AddFunction, METH_O, "Adds a serialised FunctionDef."},
    {"eager_remove_function", RemoveFunction, METH_O, nullptr},
    {"eager_has_function", HasFunction, METH_O, nullptr},
    {"eager_clear_caches", ClearCaches, METH_NOARGS, nullptr},
    {"eager_step", Step, METH_O, nullptr},
    {"eager_execute", Execute, METH_VARARGS,
     "eager_execute(op, device, inputs, attributes, number of outputs) -> tensors"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool record_everything = false;

EagerThread& ThisThread() {
  static thread_local EagerThread thread{eager_by_default, false, {}};
  return thread;
}

TFE_Context* EagerContextOf() {
  if (context != nullptr) return context;
  const StatusHolder status;
  TFE_ContextOptions* made = TFE_NewContextOptions();
  TFE_ContextOptionsSetConfig(made, options->config.data(), options->config.size(), status.get());
  TFE_ContextOptionsSetAsync(made, static_cast<unsigned char>(options->is_async));
  TFE_ContextOptionsSetDevicePlacementPolicy(made,
                                             static_cast<TFE_ContextDevicePlacementPolicy>(options->policy));
  if (status.ok()) context = TFE_NewContext(made, status.get());
  TFE_DeleteContextOptions(made);
  if (!status.ok()) RaiseStatus(status);
  return context;
}

bool EagerOpHolder::Start(const char* name) {
  TFE_Context* ctx = EagerContextOf();
  if (ctx == nullptr) return false;
  const StatusHolder status;
  op_ = TFE_NewOp(ctx, name, status.get());
  if (!status.ok()) {
    RaiseStatus(status);
    return false;
  }
  name_ = name;
  const std::string& device = ThisThread().device;
  return device.empty() || SetDevice(device);
}

EagerOpHolder::~EagerOpHolder() {
  if (op_ != nullptr) TFE_DeleteOp(op_);
}

bool EagerOpHolder::SetDevice(std::string_view device) {
  const StatusHolder status;
  TFE_OpSetDevice(op_, std::string(device).c_str(), status.get());
  if (!status.ok()) RaiseStatus(status);
  return status.ok();
}

bool EagerOpHolder::AddInput(PyObject* tensor) {
  const StatusHolder status;
  TFE_OpAddInput(op_, EagerTensorOf(tensor)->handle, status.get());
  if (!status.ok()) RaiseStatus(status);
  return status.ok();
}

bool EagerOpHolder::AddInputs(PyObject* list) {
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(list);
  std::vector<TFE_TensorHandle*> handles(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(list, i);
    if (!IsEagerTensor(item)) {
      PyErr_Format(
          PyExc_TypeError,
          "provided list of inputs contains objects other than 'EagerTensor'. Item %zd is of the type %s", i,
          Py_TYPE(item)->tp_name);
      return false;
    }
    handles[static_cast<size_t>(i)] = EagerTensorOf(item)->handle;
  }
  const StatusHolder status;
  TFE_OpAddInputList(op_, handles.data(), static_cast<int>(count), status.get());
  if (!status.ok()) RaiseStatus(status);
  return status.ok();
}

PyObject* EagerOpHolder::Execute(int num_outputs) {
  std::vector<TFE_TensorHandle*> handles(static_cast<size_t>(num_outputs));
  const StatusHolder status;
  {
    const WithoutGil unlocked;
    TFE_Execute(op_, handles.data(), &num_outputs, status.get());
  }
  if (!status.ok()) {
    const std::string text = std::string(status.message()) + " [Op:" + name_ + "]";
    const StatusHolder named;
    TF_SetStatus(named.get(), status.code(), text.c_str());
    return RaiseStatus(named);
  }
  Ref list(PyList_New(num_outputs));
  for (int i = 0; i < num_outputs; ++i) {
    PyObject* tensor = list ? MakeEagerTensor(handles[static_cast<size_t>(i)]) : nullptr;
    if (tensor == nullptr) {
      for (int rest = list ? i + 1 : i; rest < num_outputs; ++rest)
        TFE_DeleteTensorHandle(handles[static_cast<size_t>(rest)]);
      return nullptr;
    }
    PyList_SET_ITEM(list.get(), i, tensor);
  }
  return list.release();
}

bool ReadyEagerTypes(PyObject* module) {
  return ReadyEagerTensorType(module) && ReadyEagerOpFunction(module) &&
         PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace millrace::python
