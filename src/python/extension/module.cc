// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The module millrace.python._engine: the C API for the Python package.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "python/extension/module.h"

#include "python/extension/arrays.h"
#include "python/extension/bfloat16.h"
#include "python/extension/eager.h"
#include "python/extension/interrupt.h"
#include "python/extension/methods.h"

namespace millrace::python {
namespace {

namespace py = pybind11;

// Sets a field of `registered`; the old value is kept alive, threads may be using it.
void Register(const std::string& what, const py::object& value) {
  PyObject* object = value.inc_ref().ptr();
  if (what == "error_classes") {
    registered.error_classes = object;
  } else if (what == "operation") {
    registered.operation = reinterpret_cast<PyTypeObject*>(object);
  } else if (what == "tensor") {
    registered.tensor = reinterpret_cast<PyTypeObject*>(object);
  } else if (what == "eager_tensor") {
    registered.eager_tensor = reinterpret_cast<PyTypeObject*>(object);
  } else if (what == "record") {
    registered.record = object;
  } else if (what == "tensor_shape") {
    registered.tensor_shape = object;
  } else if (what == "slow_apply") {
    registered.slow_apply = object;
  } else if (what == "default_graph") {
    registered.default_graph = object;
  } else if (what == "attr_to_proto") {
    registered.attr_to_proto = object;
  } else if (what == "gradient_function") {
    registered.gradient_function = object;
  } else if (what == "dtype_enum") {
    registered.dtype_enum = object;
  } else {
    throw py::key_error(what);
  }
}

void RegisterDtype(int number, const py::object& dtype) {
  if (number < 0 || number >= 256) throw py::index_error("data type");
  registered.dtypes[number] = dtype.inc_ref().ptr();
}

[[noreturn]] void Throw() { throw py::error_already_set(); }

void Check(const StatusHolder& status) {
  if (status.ok()) return;
  RaiseStatus(status);
  Throw();
}

py::bytes BytesOf(TF_Buffer* buffer) {
  py::bytes bytes(static_cast<const char*>(buffer->data), buffer->length);
  TF_DeleteBuffer(buffer);
  return bytes;
}

py::bytes AllOps() { return BytesOf(TF_GetAllOpList()); }

py::bytes Kernels(const py::object& op) {
  const StatusHolder status;
  TF_Buffer* buffer = op.is_none()
                          ? TF_GetAllRegisteredKernels(status.get())
                          : TF_GetRegisteredKernelsForOp(std::string(py::str(op)).c_str(), status.get());
  Check(status);
  return BytesOf(buffer);
}

// The serialised OpList of a library of ops. Libraries stay loaded.
py::bytes LoadLibrary(const std::string& path) {
  const StatusHolder status;
  TF_Library* library = TF_LoadLibrary(path.c_str(), status.get());
  Check(status);
  const TF_Buffer ops = TF_GetOpList(library);
  py::bytes bytes(static_cast<const char*>(ops.data), ops.length);
  TF_DeleteLibraryHandle(library);
  return bytes;
}

// The page of a serialised GraphDef.
py::bytes GraphPage(const py::bytes& graph_def, const std::string& title) {
  const StatusHolder status;
  const auto view = static_cast<std::string_view>(graph_def);
  TF_Buffer* page = Millrace_GraphPage(view.data(), view.size(), title.c_str(), status.get());
  Check(status);
  return BytesOf(page);
}

void ResetContainers(const std::string& target, const std::vector<std::string>& containers,
                     const py::object& config) {
  const StatusHolder status;
  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_SetTarget(options, target.c_str());
  if (!config.is_none()) {
    const auto text = config.cast<std::string>();
    TF_SetConfig(options, text.data(), text.size(), status.get());
  }
  std::vector<const char*> names;
  names.reserve(containers.size());
  for (const std::string& name : containers) names.push_back(name.c_str());
  if (status.ok()) TF_Reset(options, names.data(), static_cast<int>(names.size()), status.get());
  TF_DeleteSessionOptions(options);
  Check(status);
}

// The array of a tensor that is known from the graph alone, or None.
py::object TryEvaluate(const py::object& tensor) {
  if (!IsTensor(tensor.ptr())) throw py::type_error("Expected a Tensor");
  TensorObject* object = TensorOf(tensor.ptr());
  TF_Tensor* value = nullptr;
  const StatusHolder status;
  const bool known = TF_TryEvaluateConstant(GraphOf(GraphOfTensor(object))->graph, OutputOf(object), &value,
                                            status.get()) != 0;
  if (!known || !status.ok() || value == nullptr) return py::none();
  PyObject* array = ArrayNotScalar(value);
  if (array == nullptr) Throw();
  return py::reinterpret_steal<py::object>(array);
}

class Server {
 public:
  explicit Server(const py::bytes& def) {
    const std::string text = def;
    const StatusHolder status;
    server_ = TF_NewServer(text.data(), text.size(), status.get());
    Check(status);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    if (server_ != nullptr) TF_DeleteServer(server_);
  }
  void Start() { Call(TF_ServerStart); }
  void Stop() { Call(TF_ServerStop); }
  void Join() { Call(TF_ServerJoin); }
  std::string Target() const { return TF_ServerTarget(server_); }

 private:
  void Call(void (*method)(TF_Server*, TF_Status*)) {
    const StatusHolder status;
    {
      const WithoutGil unlocked;
      method(server_, status.get());
    }
    Check(status);
  }
  TF_Server* server_ = nullptr;
};

PyMethodDef functions[] = {
    {"set_py_func_callback", SetPyFunc, METH_O,
     "set_py_func_callback(function): function(token, arrays) -> arrays does what PyFunc "
     "nodes do."},
    {"has_gradient", HasGradient, METH_O,
     "has_gradient(name): 0 without an entry, 1 with a function, 2 when gradients end there."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace
}  // namespace millrace::python

PYBIND11_MODULE(_engine, m) {
  using namespace millrace::python;  // NOLINT(google-build-using-namespace): the module is made of it
  m.doc() = "The engine's C API for the Python package; not for programs.";
  if (!ImportNumpy() || !ReadyTypes(m.ptr()) || !ReadyBfloat16(m.ptr()) || !ReadySessionTypes(m.ptr()) ||
      !ReadyEagerTypes(m.ptr()) || PyModule_AddFunctions(m.ptr(), functions) < 0 || !StartShutdown()) {
    throw pybind11::error_already_set();
  }
  StartInterrupts();
  m.def("register", Register);
  m.def("register_dtype", RegisterDtype);
  m.def("all_ops", AllOps);
  m.def("kernels", Kernels, pybind11::arg("op") = pybind11::none());
  m.def("load_library", LoadLibrary);
  m.def("graph_page", GraphPage);
  m.def("reset_containers", ResetContainers);
  m.def("try_evaluate_constant", TryEvaluate);
  m.def("elementwise_kind", [](const std::string& op) { return Millrace_ElementwiseKind(op.c_str()); });
  m.def("version", TF_Version);
  pybind11::class_<Server>(m, "Server")
      .def(pybind11::init<const pybind11::bytes&>())
      .def("start", &Server::Start)
      .def("stop", &Server::Stop)
      .def("join", &Server::Join)
      .def_property_readonly("target", &Server::Target);
}
