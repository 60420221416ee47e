// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Running graphs: SessionBase, the base class of client.session's sessions, and callables.
#include <algorithm>
#include <memory>
#include <vector>

#include "python/extension/arrays.h"
#include "python/extension/interrupt.h"
#include "python/extension/module.h"
#include "python/extension/objects.h"

namespace millrace::python {
namespace {

struct SessionObject {
  PyObject_HEAD PyObject* graph;
  TF_Session* session;
  int running;  // calls in progress, which a deletion waits for
  PyObject* dict;
  PyObject* weak_references;
};

SessionObject* SessionOf(PyObject* object) { return reinterpret_cast<SessionObject*>(object); }

// Up to a few elements without the heap.
template <typename T>
class Few {
 public:
  explicit Few(size_t count) : data_(count > kRoom ? new T[count] : few_) { std::fill_n(data_, count, T()); }
  Few(const Few&) = delete;
  Few& operator=(const Few&) = delete;
  ~Few() {
    if (data_ != few_) delete[] data_;
  }
  T* data() { return data_; }
  T& operator[](size_t i) { return data_[i]; }

 private:
  static constexpr size_t kRoom = 8;
  T few_[kRoom];
  T* data_;
};

// One step's names and values. Values are deleted with it.
struct Step {
  Step(size_t feed_count, size_t fetch_count, size_t target_count)
      : num_feeds(feed_count),
        num_fetches(fetch_count),
        num_targets(target_count),
        feeds(feed_count),
        values(feed_count),
        fetches(fetch_count),
        results(fetch_count),
        targets(target_count) {}
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  ~Step() {
    for (size_t i = 0; i < num_feeds; ++i) TF_DeleteTensor(values[i]);
    for (size_t i = 0; i < num_fetches; ++i) TF_DeleteTensor(results[i]);
  }

  size_t num_feeds, num_fetches, num_targets;
  Few<TF_Output> feeds;
  Few<TF_Tensor*> values;
  Few<TF_Output> fetches;
  Few<TF_Tensor*> results;
  Few<const TF_Operation*> targets;
};

PyObject* ClosedError() {
  PyErr_SetString(PyExc_RuntimeError, "The Session has been deleted.");
  return nullptr;
}

// Runs the step without the GIL; false with an exception.
bool Run(SessionObject* session, Step& step, const TF_Buffer* options, TF_Buffer* metadata) {
  if (session->session == nullptr) {
    ClosedError();
    return false;
  }
  const StatusHolder status;
  const InterruptibleStep interruptible(session->session);
  if (PyErr_CheckSignals() < 0) return false;
  ++session->running;
  {
    const WithoutGil unlocked;
    TF_SessionRun(session->session, options, step.feeds.data(), step.values.data(),
                  static_cast<int>(step.num_feeds), step.fetches.data(), step.results.data(),
                  static_cast<int>(step.num_fetches), step.targets.data(), static_cast<int>(step.num_targets),
                  metadata, status.get());
  }
  --session->running;
  if (interruptible.interrupted() && PyErr_CheckSignals() < 0) return false;
  if (status.ok()) return true;
  RaiseStatus(status);
  return false;
}

// Takes result `i` out as an array.
PyObject* TakeResult(Step& step, size_t i) {
  TF_Tensor* tensor = std::exchange(step.results[i], nullptr);
  if (tensor == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "A fetch returned no tensor");
    return nullptr;
  }
  return ArrayOfTensor(tensor);
}

PyObject* TakeResults(Step& step) {
  Ref list(PyList_New(static_cast<Py_ssize_t>(step.num_fetches)));
  if (!list) return nullptr;
  for (size_t i = 0; i < step.num_fetches; ++i) {
    PyObject* array = TakeResult(step, i);
    if (array == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), array);
  }
  return list.release();
}

bool IsOfGraph(const SessionObject* session, PyObject* tensor_or_op) {
  if (IsTensor(tensor_or_op)) return GraphOfTensor(TensorOf(tensor_or_op)) == session->graph;
  return IsOperation(tensor_or_op) && OperationOf(tensor_or_op)->graph == session->graph;
}

// --- Session.run for the common cases

// The fetches of a call: tensors by position, -1 for operations.
struct Fetches {
  std::vector<PyObject*> tensors;
  std::vector<PyObject*> ops;
  std::vector<int> places;
};

// False, without an exception, for objects that are neither tensors nor operations of the graph.
bool AddFetch(const SessionObject* session, PyObject* fetch, Fetches* fetches) {
  if (IsTensor(fetch)) {
    if (!IsOfGraph(session, fetch)) return false;
    fetches->places.push_back(static_cast<int>(fetches->tensors.size()));
    fetches->tensors.push_back(fetch);
    return true;
  }
  if (!IsOperation(fetch) || !IsOfGraph(session, fetch)) return false;
  fetches->places.push_back(-1);
  fetches->ops.push_back(fetch);
  return true;
}

bool ReadFetches(const SessionObject* session, PyObject* fetches, Fetches* result) {
  if (!PyList_CheckExact(fetches) && !PyTuple_CheckExact(fetches)) return AddFetch(session, fetches, result);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fetches); ++i) {
    if (!AddFetch(session, PySequence_Fast_GET_ITEM(fetches, i), result)) return false;
  }
  return true;
}

PyObject* Arrange(PyObject* fetches, const Fetches& read, Step& step) {
  if (!PyList_CheckExact(fetches) && !PyTuple_CheckExact(fetches)) {
    if (read.places[0] < 0) Py_RETURN_NONE;
    return TakeResult(step, 0);
  }
  const bool is_list = PyList_CheckExact(fetches);
  const auto count = static_cast<Py_ssize_t>(read.places.size());
  Ref result(is_list ? PyList_New(count) : PyTuple_New(count));
  if (!result) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const int place = read.places[static_cast<size_t>(i)];
    PyObject* item = place < 0 ? Py_NewRef(Py_None) : TakeResult(step, static_cast<size_t>(place));
    if (item == nullptr) return nullptr;
    if (is_list) {
      PyList_SET_ITEM(result.get(), i, item);
    } else {
      PyTuple_SET_ITEM(result.get(), i, item);
    }
  }
  return result.release();
}

// Whether the value has a type that needs no conversion or check by the general path.
bool IsPlainFeed(PyObject* key, PyObject* value);
bool FitsShape(TensorObject* tensor, const TF_Tensor* value);

// Whether a fetch is among operations that may not be fetched; errors count as that.
bool IsAmong(PyObject* ops, PyObject* tensor_or_op) {
  if (PySet_GET_SIZE(ops) == 0) return false;
  PyObject* op = IsTensor(tensor_or_op) ? TensorOf(tensor_or_op)->op : tensor_or_op;
  const bool among = op == nullptr || PySet_Contains(ops, op) != 0;
  PyErr_Clear();
  return among;
}

bool AnyIsAmong(PyObject* ops, const Fetches& fetches) {
  const auto among = [ops](PyObject* fetch) { return IsAmong(ops, fetch); };
  return std::any_of(fetches.tensors.begin(), fetches.tensors.end(), among) ||
         std::any_of(fetches.ops.begin(), fetches.ops.end(), among);
}

bool MayBeFed(PyObject* unfeedable, PyObject* tensor) {
  if (PySet_GET_SIZE(unfeedable) == 0) return true;
  const bool may = PySet_Contains(unfeedable, tensor) == 0;
  PyErr_Clear();
  return may;
}

// _fast_run(fetches, feed_dict, unfetchable operations, unfeedable tensors): NotImplemented when the general
// path has to do it.
PyObject* FastRun(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  if (count != 4 || !PySet_Check(args[2]) || !PySet_Check(args[3])) Py_RETURN_NOTIMPLEMENTED;
  SessionObject* session = SessionOf(self);
  Fetches fetches;
  if (session->session == nullptr || !ReadFetches(session, args[0], &fetches)) Py_RETURN_NOTIMPLEMENTED;
  if (fetches.tensors.size() + fetches.ops.size() == 0) Py_RETURN_NOTIMPLEMENTED;
  if (AnyIsAmong(args[2], fetches)) Py_RETURN_NOTIMPLEMENTED;
  PyObject* feeds = args[1];
  if (feeds != Py_None && !PyDict_CheckExact(feeds)) Py_RETURN_NOTIMPLEMENTED;
  const auto num_feeds = static_cast<size_t>(feeds == Py_None ? 0 : PyDict_GET_SIZE(feeds));
  Step step(num_feeds, fetches.tensors.size(), fetches.ops.size());
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  for (size_t i = 0; i < num_feeds; ++i) {
    if (PyDict_Next(feeds, &position, &key, &value) == 0) Py_RETURN_NOTIMPLEMENTED;
    if (!IsTensor(key) || !IsOfGraph(session, key) || !IsPlainFeed(key, value)) Py_RETURN_NOTIMPLEMENTED;
    if (!MayBeFed(args[3], key)) Py_RETURN_NOTIMPLEMENTED;
    step.feeds[i] = OutputOf(TensorOf(key));
    step.values[i] = TensorOfFeed(value, TensorOf(key)->dtype_number);
    if (step.values[i] == nullptr || !FitsShape(TensorOf(key), step.values[i])) {
      PyErr_Clear();
      Py_RETURN_NOTIMPLEMENTED;
    }
  }
  for (size_t i = 0; i < fetches.tensors.size(); ++i) {
    step.fetches[i] = OutputOf(TensorOf(fetches.tensors[i]));
    if (TensorOf(fetches.tensors[i])->dtype_number == TF_RESOURCE) Py_RETURN_NOTIMPLEMENTED;
  }
  for (size_t i = 0; i < fetches.ops.size(); ++i) step.targets[i] = OperationOf(fetches.ops[i])->op;
  if (!Run(session, step, nullptr, nullptr)) return nullptr;
  return Arrange(args[0], fetches, step);
}

bool FitsShape(TensorObject* tensor, const TF_Tensor* value) {
  TF_Graph* graph = GraphOf(GraphOfTensor(tensor))->graph;
  const int rank = TF_GraphGetTensorNumDims(graph, OutputOf(tensor), nullptr);
  if (rank < 0) return true;
  if (rank != TF_NumDims(value)) return false;
  Few<int64_t> dims(static_cast<size_t>(rank));
  TF_GraphGetTensorShape(graph, OutputOf(tensor), dims.data(), rank, nullptr);
  for (int i = 0; i < rank; ++i) {
    const int64_t size = dims[static_cast<size_t>(i)];
    if (size >= 0 && size != TF_Dim(value, i)) return false;
  }
  return true;
}

bool IsPlainFeed(PyObject* key, PyObject* value) {
  const int dtype = TensorOf(key)->dtype_number;
  if (PyFloat_CheckExact(value)) return dtype == TF_FLOAT || dtype == TF_DOUBLE;
  if (PyBool_Check(value)) return dtype == TF_BOOL;
  return IsArrayOf(value, dtype);
}

// --- The general path: feeds [(tensor, array)], tensors, operations, options or None, whether metadata is
// wanted

bool FillStep(PyObject* feeds, PyObject* fetches, PyObject* targets, const SessionObject* session,
              Step* step) {
  for (size_t i = 0; i < step->num_feeds; ++i) {
    PyObject *tensor = nullptr, *value = nullptr;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(feeds, static_cast<Py_ssize_t>(i)), "O!O", &tensor_type, &tensor,
                          &value)) {
      return false;
    }
    if (!IsOfGraph(session, tensor)) {
      PyErr_Format(PyExc_ValueError, "Tensor %R is not an element of this graph.", tensor);
      return false;
    }
    step->feeds[i] = OutputOf(TensorOf(tensor));
    step->values[i] = TensorOfFeed(value, TensorOf(tensor)->dtype_number);
    if (step->values[i] == nullptr) return false;
  }
  for (size_t i = 0; i < step->num_fetches; ++i) {
    PyObject* tensor = PyList_GET_ITEM(fetches, static_cast<Py_ssize_t>(i));
    if (!IsTensor(tensor) || !IsOfGraph(session, tensor)) {
      PyErr_Format(PyExc_ValueError, "Tensor %R is not an element of this graph.", tensor);
      return false;
    }
    step->fetches[i] = OutputOf(TensorOf(tensor));
  }
  for (size_t i = 0; i < step->num_targets; ++i) {
    PyObject* op = PyList_GET_ITEM(targets, static_cast<Py_ssize_t>(i));
    if (!IsOperation(op) || !IsOfGraph(session, op)) {
      PyErr_Format(PyExc_ValueError, "Operation %R is not an element of this graph.", op);
      return false;
    }
    step->targets[i] = OperationOf(op)->op;
  }
  return true;
}

PyObject* RunMethod(PyObject* self, PyObject* args) {
  PyObject *feeds = nullptr, *fetches = nullptr, *targets = nullptr;
  const char* options = nullptr;
  Py_ssize_t options_size = 0;
  int wants_metadata = 0;
  if (!PyArg_ParseTuple(args, "O!O!O!z#p", &PyList_Type, &feeds, &PyList_Type, &fetches, &PyList_Type,
                        &targets, &options, &options_size, &wants_metadata)) {
    return nullptr;
  }
  SessionObject* session = SessionOf(self);
  Step step(static_cast<size_t>(PyList_GET_SIZE(feeds)), static_cast<size_t>(PyList_GET_SIZE(fetches)),
            static_cast<size_t>(PyList_GET_SIZE(targets)));
  if (!FillStep(feeds, fetches, targets, session, &step)) return nullptr;
  const std::unique_ptr<TF_Buffer, void (*)(TF_Buffer*)> option_buffer(
      options == nullptr ? nullptr : TF_NewBufferFromString(options, static_cast<size_t>(options_size)),
      TF_DeleteBuffer);
  const std::unique_ptr<TF_Buffer, void (*)(TF_Buffer*)> metadata(
      wants_metadata != 0 ? TF_NewBuffer() : nullptr, TF_DeleteBuffer);
  if (!Run(session, step, option_buffer.get(), metadata.get())) return nullptr;
  Ref results(TakeResults(step));
  if (!results) return nullptr;
  if (metadata == nullptr) return Py_BuildValue("(OO)", results.get(), Py_None);
  return Py_BuildValue("(Oy#)", results.get(), static_cast<const char*>(metadata->data),
                       static_cast<Py_ssize_t>(metadata->length));
}

PyObject* PartialRunSetup(PyObject* self, PyObject* args) {
  PyObject *feeds = nullptr, *fetches = nullptr, *targets = nullptr;
  if (!PyArg_ParseTuple(args, "O!O!O!", &PyList_Type, &feeds, &PyList_Type, &fetches, &PyList_Type,
                        &targets)) {
    return nullptr;
  }
  SessionObject* session = SessionOf(self);
  if (session->session == nullptr) return ClosedError();
  Step step(0, static_cast<size_t>(PyList_GET_SIZE(fetches)), static_cast<size_t>(PyList_GET_SIZE(targets)));
  if (!FillStep(nullptr, fetches, targets, session, &step)) return nullptr;
  std::vector<TF_Output> fed;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(feeds); ++i) {
    PyObject* tensor = PyList_GET_ITEM(feeds, i);
    if (!IsTensor(tensor) || !IsOfGraph(session, tensor)) {
      PyErr_Format(PyExc_ValueError, "Tensor %R is not an element of this graph.", tensor);
      return nullptr;
    }
    fed.push_back(OutputOf(TensorOf(tensor)));
  }
  const StatusHolder status;
  const char* handle = nullptr;
  TF_SessionPRunSetup(session->session, fed.data(), static_cast<int>(fed.size()), step.fetches.data(),
                      static_cast<int>(step.num_fetches), step.targets.data(),
                      static_cast<int>(step.num_targets), &handle, status.get());
  if (!status.ok()) return RaiseStatus(status);
  PyObject* text = PyUnicode_FromString(handle);
  TF_DeletePRunHandle(handle);
  return text;
}

PyObject* PartialRun(PyObject* self, PyObject* args) {
  const char* handle = nullptr;
  PyObject *feeds = nullptr, *fetches = nullptr;
  if (!PyArg_ParseTuple(args, "sO!O!", &handle, &PyList_Type, &feeds, &PyList_Type, &fetches)) return nullptr;
  SessionObject* session = SessionOf(self);
  if (session->session == nullptr) return ClosedError();
  Step step(static_cast<size_t>(PyList_GET_SIZE(feeds)), static_cast<size_t>(PyList_GET_SIZE(fetches)), 0);
  if (!FillStep(feeds, fetches, nullptr, session, &step)) return nullptr;
  const StatusHolder status;
  ++session->running;
  {
    const WithoutGil unlocked;
    TF_SessionPRun(session->session, handle, step.feeds.data(), step.values.data(),
                   static_cast<int>(step.num_feeds), step.fetches.data(), step.results.data(),
                   static_cast<int>(step.num_fetches), nullptr, 0, status.get());
  }
  --session->running;
  return status.ok() ? TakeResults(step) : RaiseStatus(status);
}

PyObject* Extend(PyObject* self, PyObject* /*unused*/) {
  SessionObject* session = SessionOf(self);
  if (session->session == nullptr) return ClosedError();
  const StatusHolder status;
  {
    const WithoutGil unlocked;
    Millrace_ExtendSession(session->session, status.get());
  }
  if (!status.ok()) return RaiseStatus(status);
  Py_RETURN_NONE;
}

PyObject* NumIds(PyObject* self, PyObject* /*unused*/) {
  return PyLong_FromLong(Millrace_SessionNumIds(SessionOf(self)->session));
}

PyObject* ListDevices(PyObject* self, PyObject* /*unused*/) {
  SessionObject* session = SessionOf(self);
  if (session->session == nullptr) return ClosedError();
  const StatusHolder status;
  TF_DeviceList* devices = TF_SessionListDevices(session->session, status.get());
  if (!status.ok()) return RaiseStatus(status);
  Ref list(PyList_New(0));
  for (int i = 0; list && i < TF_DeviceListCount(devices); ++i) {
    const Ref entry(Py_BuildValue(
        "(ssLK)", TF_DeviceListName(devices, i, nullptr), TF_DeviceListType(devices, i, nullptr),
        static_cast<long long>(TF_DeviceListMemoryBytes(devices, i, nullptr)),
        static_cast<unsigned long long>(TF_DeviceListIncarnation(devices, i, nullptr))));
    if (!entry || PyList_Append(list.get(), entry.get()) < 0) list = Ref();
  }
  TF_DeleteDeviceList(devices);
  return list.release();
}

PyObject* Close(PyObject* self, PyObject* /*unused*/) {
  SessionObject* session = SessionOf(self);
  if (session->session == nullptr) Py_RETURN_NONE;
  const StatusHolder status;
  {
    const WithoutGil unlocked;
    TF_CloseSession(session->session, status.get());
  }
  if (!status.ok()) return RaiseStatus(status);
  Py_RETURN_NONE;
}

PyObject* Cancel(PyObject* self, PyObject* /*unused*/) {
  SessionObject* session = SessionOf(self);
  if (session->session != nullptr) {
    const WithoutGil unlocked;
    Millrace_CancelSteps(session->session);
  }
  Py_RETURN_NONE;
}

void DeleteSession(SessionObject* session) {
  TF_Session* handle = std::exchange(session->session, nullptr);
  if (handle == nullptr) return;
  const StatusHolder status;
  const WithoutGil unlocked;
  TF_CloseSession(handle, status.get());
  TF_DeleteSession(handle, status.get());
}

// SessionBase(graph, target, config): config is a serialised ConfigProto or None.
PyObject* NewSession(PyTypeObject* type, PyObject* /*args*/, PyObject* /*kwargs*/) {
  return type->tp_alloc(type, 0);
}

PyObject* Open(PyObject* self, PyObject* args) {
  PyObject* graph = nullptr;
  const char *target = nullptr, *config = nullptr;
  Py_ssize_t target_size = 0, config_size = 0;
  if (!PyArg_ParseTuple(args, "O!s#z#", &graph_type, &graph, &target, &target_size, &config, &config_size))
    return nullptr;
  SessionObject* session = SessionOf(self);
  if (session->session != nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "The session is open already");
    return nullptr;
  }
  TF_SessionOptions* options = TF_NewSessionOptions();
  const StatusHolder status;
  TF_SetTarget(options, target);
  if (config != nullptr) TF_SetConfig(options, config, static_cast<size_t>(config_size), status.get());
  TF_Session* made = nullptr;
  if (status.ok()) {
    const WithoutGil unlocked;
    made = TF_NewSession(GraphOf(graph)->graph, options, status.get());
  }
  TF_DeleteSessionOptions(options);
  if (!status.ok()) return RaiseStatus(status);
  session->session = made;
  PyObject* old = std::exchange(session->graph, Py_NewRef(graph));
  Py_XDECREF(old);
  Py_RETURN_NONE;
}

int Traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(SessionOf(self)->graph);
  Py_VISIT(SessionOf(self)->dict);
  return 0;
}

int Clear(PyObject* self) {
  Py_CLEAR(SessionOf(self)->dict);
  return 0;
}

void Free(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  SessionObject* session = SessionOf(self);
  if (session->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  DeleteSession(session);
  Clear(self);
  Py_CLEAR(session->graph);
  type->tp_free(self);
}

PyObject* MakeCallable(PyObject* self, PyObject* args);

PyMethodDef session_methods[] = {
    {"_open", Open, METH_VARARGS, nullptr},
    {"_fast_run", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(FastRun)), METH_FASTCALL,
     nullptr},
    {"_run_step", RunMethod, METH_VARARGS, nullptr},
    {"_partial_run_setup", PartialRunSetup, METH_VARARGS, nullptr},
    {"_partial_run_step", PartialRun, METH_VARARGS, nullptr},
    {"_extend_graph", Extend, METH_NOARGS, nullptr},
    {"_num_ids", NumIds, METH_NOARGS, nullptr},
    {"_device_list", ListDevices, METH_NOARGS, nullptr},
    {"_close_session", Close, METH_NOARGS, nullptr},
    {"_cancel_steps", Cancel, METH_NOARGS, nullptr},
    {"_make_fast_callable", MakeCallable, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef session_members[] = {{"_graph_base", T_OBJECT, offsetof(SessionObject, graph), READONLY, nullptr},
                                 {nullptr, 0, 0, 0, nullptr}};

// --- Callables

struct CallableObject {
  PyObject_HEAD vectorcallfunc call;
  PyObject* session;
  PyObject* keep;  // what the handles belong to
  std::vector<TF_Output>* feeds;
  std::vector<int>* feed_types;
  std::vector<TF_Output>* fetches;
  std::vector<const TF_Operation*>* targets;
  bool is_single;  // returns the array of the one fetch, not a list
};

PyObject* Call(PyObject* self, PyObject* const* args, size_t count_and_flag, PyObject* names) {
  auto* callable = reinterpret_cast<CallableObject*>(self);
  const auto count = static_cast<size_t>(PyVectorcall_NARGS(count_and_flag));
  if (names != nullptr && PyTuple_GET_SIZE(names) > 0) {
    PyErr_SetString(PyExc_TypeError, "A callable takes its feeds by position");
    return nullptr;
  }
  if (count != callable->feeds->size()) {
    PyErr_Format(PyExc_ValueError, "Expected %zu feeds, got %zu", callable->feeds->size(), count);
    return nullptr;
  }
  Step step(count, callable->fetches->size(), callable->targets->size());
  for (size_t i = 0; i < count; ++i) {
    step.feeds[i] = (*callable->feeds)[i];
    step.values[i] = TensorOfFeed(args[i], (*callable->feed_types)[i]);
    if (step.values[i] == nullptr) return nullptr;
  }
  std::copy(callable->fetches->begin(), callable->fetches->end(), step.fetches.data());
  std::copy(callable->targets->begin(), callable->targets->end(), step.targets.data());
  if (!Run(SessionOf(callable->session), step, nullptr, nullptr)) return nullptr;
  if (!callable->is_single) return TakeResults(step);
  if (step.num_fetches == 0) Py_RETURN_NONE;
  return TakeResult(step, 0);
}

int TraverseCallable(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(reinterpret_cast<CallableObject*>(self)->session);
  Py_VISIT(reinterpret_cast<CallableObject*>(self)->keep);
  return 0;
}

void FreeCallable(PyObject* self) {
  PyObject_GC_UnTrack(self);
  auto* callable = reinterpret_cast<CallableObject*>(self);
  Py_CLEAR(callable->session);
  Py_CLEAR(callable->keep);
  delete callable->feeds;
  delete callable->feed_types;
  delete callable->fetches;
  delete callable->targets;
  PyObject_GC_Del(self);
}

PyTypeObject callable_type = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject session_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

// _make_fast_callable(feeds, fetches, targets, is_single)
PyObject* MakeCallable(PyObject* self, PyObject* args) {
  PyObject *feeds = nullptr, *fetches = nullptr, *targets = nullptr;
  int is_single = 0;
  if (!PyArg_ParseTuple(args, "O!O!O!p", &PyList_Type, &feeds, &PyList_Type, &fetches, &PyList_Type, &targets,
                        &is_single)) {
    return nullptr;
  }
  const Ref made(PyType_GenericAlloc(&callable_type, 0));
  if (!made) return nullptr;
  auto* callable = reinterpret_cast<CallableObject*>(made.get());
  callable->call = Call;
  callable->session = Py_NewRef(self);
  callable->feeds = new std::vector<TF_Output>();
  callable->feed_types = new std::vector<int>();
  callable->fetches = new std::vector<TF_Output>();
  callable->targets = new std::vector<const TF_Operation*>();
  callable->is_single = is_single != 0;
  callable->keep = PyTuple_Pack(3, feeds, fetches, targets);
  for (PyObject* list : {feeds, fetches}) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
      PyObject* tensor = PyList_GET_ITEM(list, i);
      if (!IsTensor(tensor) || !IsOfGraph(SessionOf(self), tensor)) {
        PyErr_Format(PyExc_ValueError, "Tensor %R is not an element of this graph.", tensor);
        return nullptr;
      }
      (list == feeds ? callable->feeds : callable->fetches)->push_back(OutputOf(TensorOf(tensor)));
      if (list == feeds) callable->feed_types->push_back(TensorOf(tensor)->dtype_number);
    }
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(targets); ++i) {
    PyObject* op = PyList_GET_ITEM(targets, i);
    if (!IsOperation(op) || !IsOfGraph(SessionOf(self), op)) {
      PyErr_Format(PyExc_ValueError, "Operation %R is not an element of this graph.", op);
      return nullptr;
    }
    callable->targets->push_back(OperationOf(op)->op);
  }
  return Py_NewRef(made.get());
}

}  // namespace

bool ReadySessionTypes(PyObject* module) {
  session_type.tp_name = "millrace.python._engine.SessionBase";
  session_type.tp_basicsize = sizeof(SessionObject);
  session_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
  session_type.tp_dictoffset = offsetof(SessionObject, dict);
  session_type.tp_weaklistoffset = offsetof(SessionObject, weak_references);
  session_type.tp_new = NewSession;
  session_type.tp_traverse = Traverse;
  session_type.tp_clear = Clear;
  session_type.tp_dealloc = Free;
  session_type.tp_methods = session_methods;
  session_type.tp_members = session_members;
  callable_type.tp_name = "millrace.python._engine.Callable";
  callable_type.tp_basicsize = sizeof(CallableObject);
  callable_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL;
  callable_type.tp_vectorcall_offset = offsetof(CallableObject, call);
  callable_type.tp_call = PyVectorcall_Call;
  callable_type.tp_traverse = TraverseCallable;
  callable_type.tp_dealloc = FreeCallable;
  if (PyType_Ready(&session_type) < 0 || PyType_Ready(&callable_type) < 0) return false;
  return PyModule_AddObjectRef(module, "SessionBase", reinterpret_cast<PyObject*>(&session_type)) == 0;
}

}  // namespace millrace::python
