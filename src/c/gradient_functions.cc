// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The functions of millrace/c/gradients.h.
#include "millrace/c/gradients.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/add_gradients.h"
#include "autodiff/gradient_context.h"
#include "c/internal.h"
#include "graph/node_def_text.h"

namespace millrace::c_api {
namespace {

constexpr TF_Output kNoTensor = {nullptr, -1};
constexpr Millrace_Gradient kNoGradient = {MILLRACE_GRADIENT_NONE, kNoTensor, kNoTensor, kNoTensor};

TF_Output Tensor(const Output& output) {
  return output.IsSet() ? TF_Output{OperationOf(output.node), output.index} : kNoTensor;
}

Millrace_Gradient ToClient(const GradientValue& value) {
  if (!value.IsSet()) return kNoGradient;
  if (!value.IsSlices()) return {MILLRACE_GRADIENT_DENSE, Tensor(value.dense), kNoTensor, kNoTensor};
  return {MILLRACE_GRADIENT_SLICES, Tensor(value.slices.values), Tensor(value.slices.indices),
          Tensor(value.slices.dense_shape)};
}

StatusOr<Output> ReadTensor(const Graph& graph, const TF_Output& tensor) {
  MR_RETURN_IF_ERROR(CheckOutput(&graph, tensor));
  return Output{NodeOf(tensor.oper), tensor.index};
}

StatusOr<GradientValue> FromClient(const Graph& graph, const Millrace_Gradient& gradient) {
  if (gradient.kind == MILLRACE_GRADIENT_NONE) return GradientValue();
  if (gradient.kind != MILLRACE_GRADIENT_DENSE && gradient.kind != MILLRACE_GRADIENT_SLICES) {
    return errors::InvalidArgument("A gradient has the unknown kind ", gradient.kind);
  }
  MR_ASSIGN_OR_RETURN(const Output values, ReadTensor(graph, gradient.values));
  if (gradient.kind == MILLRACE_GRADIENT_DENSE) return GradientValue(values);
  IndexedSlices slices{values, {}, {}};
  MR_ASSIGN_OR_RETURN(slices.indices, ReadTensor(graph, gradient.indices));
  const DataType type = BaseType(slices.indices.node->output_type(slices.indices.index));
  if (type != DataType::kInt32 && type != DataType::kInt64) {
    return errors::InvalidArgument("The indices '", slices.indices.node->name(), "' of slices have the type ",
                                   type, ", expected int32 or int64");
  }
  if (gradient.dense_shape.oper != nullptr) {
    MR_ASSIGN_OR_RETURN(slices.dense_shape, ReadTensor(graph, gradient.dense_shape));
  }
  return GradientValue(slices);
}

StatusOr<std::vector<GradientValue>> AllFromClient(const Graph& graph, const Millrace_Gradient* gradients,
                                                   int count) {
  std::vector<GradientValue> values;
  for (int i = 0; i < count; ++i) {
    MR_ASSIGN_OR_RETURN(values.emplace_back(), FromClient(graph, gradients[i]));
  }
  return values;
}

// A gradient function of a client, with the data that it owns.
class ClientGradient {
 public:
  ClientGradient(Millrace_GradientFunction function, void* user_data, void (*delete_user_data)(void*))
      : function_(function), user_data_(user_data), delete_user_data_(delete_user_data) {}
  ~ClientGradient() {
    if (delete_user_data_ != nullptr) delete_user_data_(user_data_);
  }
  ClientGradient(const ClientGradient&) = delete;
  ClientGradient& operator=(const ClientGradient&) = delete;

  Status Call(GradientContext& c) const;

 private:
  Status CallUnlocked(TF_Graph& graph, Millrace_GradientCall* call) const;

  Status CallFor(TF_Graph& graph, GradientContext& c) const MR_REQUIRES(graph.mu);

  const Millrace_GradientFunction function_;
  void* const user_data_;
  void (*const delete_user_data_)(void*);
};

// The function calls back into the graph, so it runs without the mutex. Changes by other threads wait.
Status ClientGradient::CallUnlocked(TF_Graph& graph,
                                    Millrace_GradientCall* call) const MR_NO_THREAD_SAFETY_ANALYSIS {
  const std::thread::id before = graph.builder;
  graph.builder = std::this_thread::get_id();
  TF_Status status;
  graph.mu.Unlock();
  Enter(&status, [&]() -> Status {
    function_(call, &status);
    return status.status;
  });
  graph.mu.Lock();
  graph.builder = before;
  if (before == std::thread::id()) graph.builder_left.NotifyAll();
  return status.status;
}

bool HasZeros(DataType type) {
  const DataType base = BaseType(type);
  return IsFloatingType(base) || IsComplexType(base) || base == DataType::kVariant;
}

// The caller that computes gradients holds the mutex of the graph's handle; a graph without a handle belongs
// to the C++ API or is the body of a function.
Status ClientGradient::Call(GradientContext& c) const MR_NO_THREAD_SAFETY_ANALYSIS {
  Graph& graph = c.builder().graph();
  if (graph.client() != nullptr) return CallFor(*static_cast<TF_Graph*>(graph.client()), c);
  TF_Graph handle(graph, c.builder().shapes());
  MutexLock lock(handle.mu);
  return CallFor(handle, c);
}

Status ClientGradient::CallFor(TF_Graph& graph, GradientContext& c) const {
  std::vector<Millrace_Gradient> grads, results(static_cast<size_t>(c.num_inputs()), kNoGradient);
  for (int i = 0; i < c.num_outputs(); ++i) {
    const bool missing = !c.has_grad(i) && HasZeros(c.node().output_type(i));
    grads.push_back(ToClient(missing ? GradientValue(c.grad_or_zeros(i).output()) : c.grad_value(i)));
  }
  MR_RETURN_IF_ERROR(c.status());
  const int inputs = c.num_inputs();  // the function may give the node more
  std::vector<unsigned char> wanted;
  for (int i = 0; i < c.num_inputs(); ++i) wanted.push_back(c.wants(i) ? 1 : 0);
  const std::string scope = c.builder().scope();
  Millrace_GradientCall call = {.struct_size = sizeof(Millrace_GradientCall),
                                .user_data = user_data_,
                                .graph = &graph,
                                .oper = OperationOf(&c.mutable_node()),
                                .name_scope = scope.c_str(),
                                .device = c.computation().device.c_str(),
                                .colocate = c.computation().colocate ? 1 : 0,
                                .num_outputs = c.num_outputs(),
                                .num_inputs = inputs,
                                .output_gradients = grads.data(),
                                .wanted = wanted.data(),
                                .input_gradients = results.data()};
  const int first = c.builder().graph().num_node_ids();
  const Status called = CallUnlocked(graph, &call);
  c.builder().AdoptFrom(first);
  MR_RETURN_IF_ERROR(called);
  for (int i = 0; i < inputs; ++i) {
    MR_ASSIGN_OR_RETURN(const GradientValue value,
                        FromClient(c.builder().graph(), results[static_cast<size_t>(i)]));
    c.SetInputGrad(i, value);
  }
  return c.status();
}

// Names of nodes begin with it; "" is none.
Status CheckScope(const std::string& scope) {
  if (scope.empty() || IsValidNodeName(scope, /*internal=*/true)) return Status();
  return errors::InvalidArgument("'", scope, "' is not a valid scope name");
}

// The caller's options, which may be those of an older header. What `read` takes from them is checked.
StatusOr<Millrace_GradientOptions> Known(const Millrace_GradientOptions* options) {
  Millrace_GradientOptions known;
  Millrace_InitGradientOptions(&known);
  if (options == nullptr) return known;
  if (options->struct_size < sizeof(size_t)) {
    return errors::InvalidArgument("The options of gradients were not initialised");
  }
  std::memcpy(&known, options, std::min(options->struct_size, sizeof(known)));
  if (known.num_stop_gradients < 0)
    return errors::InvalidArgument("The number of stop_gradients is negative");
  if (known.num_stop_gradients > 0 && known.stop_gradients == nullptr) return NullArgument("stop_gradients");
  if (known.aggregation < MILLRACE_AGGREGATE_ADD_N || known.aggregation > MILLRACE_AGGREGATE_ACCUMULATE_N) {
    return errors::InvalidArgument("Invalid aggregation_method specified ", known.aggregation, ".");
  }
  return known;
}

StatusOr<GradientOptions> OptionsOf(TF_Graph& graph, const Millrace_GradientOptions* given)
    MR_REQUIRES(graph.mu) {
  MR_ASSIGN_OR_RETURN(const Millrace_GradientOptions known, Known(given));
  GradientOptions options;
  options.shapes = &graph.refiner;
  options.registry = &graph.gradients;
  options.names = GradientNames::kPython;
  if (known.prefix != nullptr) {
    MR_RETURN_IF_ERROR(CheckScope(known.prefix));
    options.scope = known.prefix;
    options.exact_scope = true;
  }
  if (known.device != nullptr) options.device = known.device;
  for (int i = 0; i < known.num_stop_gradients; ++i) {
    MR_ASSIGN_OR_RETURN(options.stop_gradients.emplace_back(),
                        ReadTensor(graph.graph, known.stop_gradients[i]));
  }
  options.colocate = known.colocate != 0;
  options.gate = known.gate != 0;
  options.zeros = known.zeros != 0;
  options.integers = known.int_flow != 0;
  options.aggregation = static_cast<GradientAggregation>(known.aggregation);
  return options;
}

struct AddCall {
  const TF_Output* y;
  int ny;
  const TF_Output* x;
  int nx;
  const Millrace_Gradient* grad_ys;
};

Status Add(TF_Graph& graph, const AddCall& call, const Millrace_GradientOptions* given,
           Millrace_Gradient* gradients) MR_REQUIRES(graph.mu) {
  std::vector<Output> ys, xs;
  for (int i = 0; i < call.ny; ++i) {
    MR_ASSIGN_OR_RETURN(ys.emplace_back(), ReadTensor(graph.graph, call.y[i]));
  }
  for (int i = 0; i < call.nx; ++i) {
    MR_ASSIGN_OR_RETURN(xs.emplace_back(), ReadTensor(graph.graph, call.x[i]));
  }
  std::vector<GradientValue> grad_ys, grads;
  if (call.grad_ys != nullptr) {
    MR_ASSIGN_OR_RETURN(grad_ys, AllFromClient(graph.graph, call.grad_ys, call.ny));
  }
  MR_ASSIGN_OR_RETURN(const GradientOptions options, OptionsOf(graph, given));
  MR_RETURN_IF_ERROR(AddGradientValues(&graph.graph, ys, xs, grad_ys, options, &grads));
  std::transform(grads.begin(), grads.end(), gradients, ToClient);
  return Status();
}

// Runs `body` with the graph locked, when it is this thread's turn to change it. The compiler does not see
// that the mutex which `body` names is this one.
template <typename F>
Status Change(TF_Graph* graph, F&& body) MR_NO_THREAD_SAFETY_ANALYSIS {
  const GraphHold hold(graph);
  MutexLock lock(graph->mu);
  graph->AwaitTurn();
  Status status = body();
  graph->PublishNodes();
  return status;
}

}  // namespace
}  // namespace millrace::c_api

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library
using millrace::GradientRegistry;
using millrace::GradientValue;
using millrace::Status;
namespace errors = millrace::errors;

void Millrace_InitGradientOptions(Millrace_GradientOptions* options) {
  if (options == nullptr) return;
  *options = {};
  options->struct_size = sizeof(Millrace_GradientOptions);
  options->aggregation = MILLRACE_AGGREGATE_ADD_N;
}

void Millrace_AddGradients(TF_Graph* graph, const TF_Output* y, int ny, const TF_Output* x, int nx,
                           const Millrace_Gradient* grad_ys, const Millrace_GradientOptions* options,
                           Millrace_Gradient* gradients, TF_Status* status) {
  for (int i = 0; gradients != nullptr && i < nx; ++i) gradients[i] = kNoGradient;
  Enter(status, [&]() -> Status {
    if (graph == nullptr) return NullArgument("The graph");
    if (ny < 0 || nx < 0) return errors::InvalidArgument("The number of tensors is negative");
    if ((ny > 0 && y == nullptr) || (nx > 0 && (x == nullptr || gradients == nullptr))) {
      return NullArgument("An array of tensors");
    }
    return Change(graph, [&]() MR_REQUIRES(graph->mu) {
      return Add(*graph, {y, ny, x, nx, grad_ys}, options, gradients);
    });
  });
}

void Millrace_RegisterGradient(TF_Graph* graph, const char* name, Millrace_GradientFunction function,
                               void* user_data, void (*delete_user_data)(void* user_data),
                               TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (name == nullptr || *name == '\0') {
      if (delete_user_data != nullptr) delete_user_data(user_data);
      return name == nullptr ? NullArgument("The name")
                             : errors::InvalidArgument("The name of a gradient is empty");
    }
    GradientRegistry& registry = graph != nullptr ? graph->gradients : GradientRegistry::Global();
    if (function == nullptr) {
      if (delete_user_data != nullptr) delete_user_data(user_data);
      return registry.RegisterNotDifferentiable(name);
    }
    const auto client = std::make_shared<const ClientGradient>(function, user_data, delete_user_data);
    return registry.Register(name, [client](millrace::GradientContext& c) { return client->Call(c); });
  });
}

int Millrace_HasGradient(TF_Graph* graph, const char* name) {
  if (name == nullptr) return MILLRACE_GRADIENT_UNDEFINED;
  return EnterOr(MILLRACE_GRADIENT_UNDEFINED, [&] {
    const auto entry = (graph != nullptr ? graph->gradients : GradientRegistry::Global()).LookUp(name);
    if (!entry.ok()) return MILLRACE_GRADIENT_UNDEFINED;
    return (*entry)->fn == nullptr ? MILLRACE_GRADIENT_NOT_DIFFERENTIABLE : MILLRACE_GRADIENT_DEFINED;
  });
}

void Millrace_CallGradient(TF_Graph* graph, TF_Operation* oper, const char* name,
                           const Millrace_Gradient* output_gradients, const Millrace_GradientOptions* options,
                           Millrace_Gradient* input_gradients, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (graph == nullptr || oper == nullptr) return NullArgument("The graph or the operation");
    millrace::Node* const node = NodeOf(oper);
    if (&node->graph() != &graph->graph) {
      return errors::InvalidArgument("Node ", node->name(), " was not found in the graph");
    }
    if ((node->num_outputs() > 0 && output_gradients == nullptr) ||
        (node->num_inputs() > 0 && input_gradients == nullptr)) {
      return NullArgument("An array of gradients");
    }
    std::fill_n(input_gradients, node->num_inputs(), kNoGradient);
    return Change(graph, [&]() MR_REQUIRES(graph->mu) -> Status {
      MR_ASSIGN_OR_RETURN(const std::vector<GradientValue> given,
                          AllFromClient(graph->graph, output_gradients, node->num_outputs()));
      MR_ASSIGN_OR_RETURN(millrace::GradientOptions settings, OptionsOf(*graph, options));
      if (!settings.exact_scope) settings.scope = node->name() + "_grad";
      settings.exact_scope = true;
      std::vector<GradientValue> results;
      MR_RETURN_IF_ERROR(
          millrace::AddNodeGradient(&graph->graph, node, OrEmpty(name), given, settings, &results));
      std::transform(results.begin(), results.end(), input_gradients, ToClient);
      return Status();
    });
  });
}

TF_Output Millrace_DenseGradient(TF_Graph* graph, const char* prefix, const Millrace_Gradient* gradient,
                                 TF_Status* status) {
  TF_Output result = kNoTensor;
  Enter(status, [&]() -> Status {
    if (graph == nullptr || gradient == nullptr) return NullArgument("The graph or the gradient");
    return Change(graph, [&]() MR_REQUIRES(graph->mu) -> Status {
      MR_ASSIGN_OR_RETURN(const GradientValue value, FromClient(graph->graph, *gradient));
      if (value.IsSlices() && !value.slices.dense_shape.IsSet()) {
        return errors::InvalidArgument("The slices '", value.values().node->name(), "' have no dense_shape");
      }
      MR_RETURN_IF_ERROR(CheckScope(OrEmpty(prefix)));
      const int first = graph->graph.num_node_ids();
      millrace::GraphBuilder builder(graph->graph, graph->refiner);
      builder.UsePythonNames();
      builder.SetScope(OrEmpty(prefix), value.IsSet() ? value.values().node->requested_device() : "");
      const millrace::Output dense = DenseGradient(builder, value, value.values());
      if (builder.status().ok()) {
        result = Tensor(dense);
      } else {
        graph->graph.RemoveNodesFrom(first);
        graph->refiner.ForgetNodesFrom(first);
      }
      return builder.status();
    });
  });
  return result;
}
