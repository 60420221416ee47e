// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// A tour of the engine: one small graph passes through every folder of src/, in the order in which a graph
// does so in practice, and each chapter checks its effect. Read it from here to the end.
//
// The graph, as text:          x ──┬─ a = x·x ─┐
//                                  └─ b = x·x ─┴─ c = a + b ── y = five·c ── z = sum(y)
//                  two + three = five ────────────────────────┘ (on the second CPU)
//                              x ── unused = -x
//
// So y = 10x² and z is its sum. b repeats a, five can be computed in advance, unused is not needed, and the
// multiplication by five runs on another device: every pass has something to do.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "autodiff/add_gradients.h"
#include "base/env.h"
#include "builtin/register.h"
#include "compile/optimize/cse.h"
#include "compile/optimize/fold.h"
#include "compile/pipeline.h"
#include "device/device.h"
#include "exec/executor.h"
#include "graph/graph_import.h"
#include "graph/shape_refiner.h"
#include "kernel/kernel_registry.h"
#include "millrace/client_session.h"
#include "millrace/gradients.h"
#include "millrace/ops.h"
#include "millrace/optimizers.h"
#include "step/constant_evaluator.h"
#include "step/local_rendezvous.h"
#include "step/local_worker.h"
#include "step/step_compiler.h"
#include "step/step_runner.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

constexpr char kGraph[] = R"(
  node { name: "x" op: "Placeholder"
         attr { key: "dtype" value { type: DT_FLOAT } }
         attr { key: "shape" value { shape { dim { size: 2 } } } } }
  node { name: "two" op: "Const"
         attr { key: "dtype" value { type: DT_FLOAT } }
         attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 2 } } } }
  node { name: "three" op: "Const"
         attr { key: "dtype" value { type: DT_FLOAT } }
         attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 3 } } } }
  node { name: "axis" op: "Const"
         attr { key: "dtype" value { type: DT_INT32 } }
         attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape {} int_val: 0 } } } }
  node { name: "five" op: "Add" input: "two" input: "three" attr { key: "T" value { type: DT_FLOAT } } }
  node { name: "a" op: "Mul" input: "x" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
  node { name: "b" op: "Mul" input: "x" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
  node { name: "c" op: "Add" input: "a" input: "b" attr { key: "T" value { type: DT_FLOAT } } }
  node { name: "y" op: "Mul" input: "five" input: "c" device: "/cpu:1"
         attr { key: "T" value { type: DT_FLOAT } } }
  node { name: "z" op: "Sum" input: "y" input: "axis" attr { key: "T" value { type: DT_FLOAT } } }
  node { name: "unused" op: "Neg" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
  versions { producer: 24 }
)";

constexpr char kCpu0[] = "/job:localhost/replica:0/task:0/device:CPU:0";
constexpr char kCpu1[] = "/job:localhost/replica:0/task:0/device:CPU:1";

// With x = [1, 2]: z = 10·(1 + 4), and its derivative 20x.
const Tensor& X() {
  static const Tensor x = Tensor::Vector<float>({1, 2});
  return x;
}
void ExpectAnswers(std::span<const Tensor> answers) {
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].scalar<float>(), 50);
  EXPECT_THAT(answers[1].flat<float>(), ElementsAre(20, 40));
}

// The data that the chapters pass on.
class Tour {
 public:
  Status Registries();
  Status BytesToMessage();
  Status MessageToTensor();
  Status MessageToGraph();
  Status Shapes();
  Status Gradients();
  Status Devices();
  Status Passes();
  Status Partitions();
  Status Plans();
  Status Execution();
  Status WholeStep();
  Status WholeSession();

 private:
  std::vector<std::string> NamesOf(const Graph& graph, std::string_view op) const {
    std::vector<std::string> names;
    for (const Node* node : graph.OpNodes()) {
      if (node->op_name() == op) names.push_back(node->name());
    }
    return names;
  }

  tensorflow::GraphDef def_;
  std::unique_ptr<Graph> graph_;
  RunSignature signature_;  // feeds x; fetches z and dz/dx
  std::shared_ptr<LocalDevices> devices_;
  std::unique_ptr<LocalWorker> worker_;
  std::unique_ptr<Graph> pruned_;
  std::vector<GraphPartition> partitions_;
  std::vector<std::unique_ptr<Plan>> plans_;
};

// builtin/ fills the registries from the catalogues ops/, gradients/ and kernels/. Nothing registers itself:
// a program with other ops registers them. An op (op/) is a name with typed inputs, outputs and attributes; a
// kernel (kernel/) is one way to compute it on one type of device.
Status Tour::Registries() {
  MR_RETURN_IF_ERROR(RegisterBuiltins());
  MR_ASSIGN_OR_RETURN(const OpRegistration* const mul, OpRegistry::Global().LookUp("Mul"));
  EXPECT_EQ(mul->def.inputs.size(), 2u);
  EXPECT_TRUE(mul->def.is_commutative);
  EXPECT_FALSE(mul->def.is_stateful) << "so passes may merge, fold and drop it";
  const auto unknown = OpRegistry::Global().LookUp("Mull");
  EXPECT_THAT(unknown.status().message(), HasSubstr("Op type not registered 'Mull'"));
  return Status::Ok();
}

// base/ is the basis of everything; here its file system is used, in memory so that the test leaves no files.
// A graph is given to the engine and returned as bytes: messages of proto/, which are TensorFlow's own.
Status Tour::BytesToMessage() {
  tensorflow::GraphDef written;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(kGraph, &written));
  MemEnv env;
  MR_RETURN_IF_ERROR(WriteFileAtomically(env, "graph.pb", written.SerializeAsString()));

  MR_ASSIGN_OR_RETURN(const std::string bytes, ReadFileToString(env, "graph.pb"));
  MR_RETURN_IF_ERROR(ParseGraphDef(bytes, &def_));
  EXPECT_EQ(def_.node_size(), 11);
  EXPECT_TRUE(errors::IsInvalidArgument(ParseGraphDef(bytes.substr(0, bytes.size() - 1), &written)))
      << "nothing in a file may be more than an error";
  return Status::Ok();
}

// tensor/ converts values on the wire to memory of the engine and back.
Status Tour::MessageToTensor() {
  const auto& message = def_.node(1).attr().at("value").tensor();
  MR_ASSIGN_OR_RETURN(const Tensor two, TensorFromProto(message));
  EXPECT_EQ(two.dtype(), DataType::kFloat);
  EXPECT_EQ(two.shape(), TensorShape());
  EXPECT_EQ(two.scalar<float>(), 2);
  const Tensor same = two;
  EXPECT_TRUE(same.SharesBufferWith(two)) << "copies share the buffer";
  return Status::Ok();
}

// graph/ is the one representation of a graph between import and execution. Import checks everything that the
// rest of the engine then relies on.
Status Tour::MessageToGraph() {
  graph_ = std::make_unique<Graph>(OpRegistry::Global());
  MR_RETURN_IF_ERROR(ImportGraphDef(def_, {}, graph_.get()));
  MR_RETURN_IF_ERROR(graph_->Validate());
  const Node* const y = graph_->FindNode("y");
  if (y == nullptr) return errors::NotFound("y");
  MR_ASSIGN_OR_RETURN(const Edge* const edge, y->InputEdge(1));
  EXPECT_EQ(edge->src->name(), "c");
  EXPECT_EQ(y->requested_device(), "/cpu:1");
  EXPECT_FALSE(y->has_assigned_device()) << "requested, not yet assigned";

  tensorflow::GraphDef bad = def_;
  bad.mutable_node(9)->set_input(0, "nowhere");
  Graph other(OpRegistry::Global());
  EXPECT_THAT(ImportGraphDef(bad, {}, &other).message(), HasSubstr("Node 'z': Unknown input node 'nowhere'"));
  return Status::Ok();
}

// Each op of ops/ has a function that infers the shapes of its outputs as far as possible before a step.
Status Tour::Shapes() {
  MR_ASSIGN_OR_RETURN(const auto shapes, InferShapes(*graph_));
  EXPECT_EQ(shapes[graph_->FindNode("y")->id()][0], PartialShape({2}));
  EXPECT_EQ(shapes[graph_->FindNode("z")->id()][0], PartialShape({}))
      << "the axis is constant, so the rank is known";
  return Status::Ok();
}

// autodiff/ traverses the graph backwards and calls gradients/ for each op. It adds ordinary
// nodes.
Status Tour::Gradients() {
  const int before = graph_->num_nodes();
  const Output z{graph_->FindNode("z"), 0};
  const Output x{graph_->FindNode("x"), 0};
  std::vector<Output> grads;
  MR_RETURN_IF_ERROR(AddGradients(graph_.get(), {z}, {x}, {}, &grads));
  if (!grads[0].IsSet()) return errors::NotFound("a gradient");
  EXPECT_GT(graph_->num_nodes(), before);
  EXPECT_THAT(grads[0].node->name(), testing::StartsWith("gradients/"));
  signature_ = {.feeds = {"x"}, .fetches = {"z", grads[0].node->name()}, .targets = {}};
  return Status::Ok();
}

// device/ has the devices: here two that share the cores of this machine, so that there are edges to cut.
// step/ has the worker, which owns the devices and runs the nodes placed on them.
Status Tour::Devices() {
  DeviceOptions options;
  options.device_count["CPU"] = 2;
  MR_ASSIGN_OR_RETURN(auto devices, DeviceFactoryRegistry::Global().CreateDevices(options));
  EXPECT_EQ(devices->client_device()->name(), kCpu0);
  devices_ = std::make_shared<LocalDevices>(std::move(devices));
  worker_ = std::make_unique<LocalWorker>(devices_);
  EXPECT_EQ(worker_->task(), "/job:localhost/replica:0/task:0");
  return Status::Ok();
}

// compile/ turns the whole graph into the graphs of this signature. Each pass takes a graph and returns a
// graph, so they can be called one by one, as here; compile/pipeline.cc lists them in order.
Status Tour::Passes() {
  // Prune: nodes that the fetches do not need are removed, feeds and fetches have become nodes with a
  // position.
  MR_ASSIGN_OR_RETURN(PrunedGraph pruned, PruneForRun(*graph_, signature_, {.client_device = kCpu0}));
  pruned_ = std::move(pruned.graph);
  EXPECT_EQ(pruned_->FindNode("unused"), nullptr);
  EXPECT_EQ(NamesOf(*pruned_, "_Arg").size(), 1u);
  EXPECT_EQ(NamesOf(*pruned_, "_Retval").size(), 2u);
  EXPECT_NE(graph_->FindNode("unused"), nullptr) << "the session's graph stays as it is";

  // Place: every node gets a device that has a kernel for it.
  const auto has_kernel = [](std::string_view device_type, const NodeProps& props) {
    return KernelRegistry::Global().HasKernel(device_type, props);
  };
  const CompileOptions options;
  const DeviceView view(devices_->devices());
  MR_RETURN_IF_ERROR(Place(pruned_.get(), {.compile = options, .devices = &view, .has_kernel = has_kernel}));
  EXPECT_EQ(pruned_->FindNode("y")->assigned_device(), kCpu1);
  EXPECT_EQ(pruned_->FindNode("c")->assigned_device(), kCpu0);

  // Fold: five is computed now. compile/ may not include executors, so it declares an interface, and step/
  // implements it by running the constant part as a separate step.
  StepConstantEvaluator evaluator(*worker_);
  MR_ASSIGN_OR_RETURN(const int folded, FoldConstants(pruned_.get(), {.compile = options,
                                                                      .evaluator = &evaluator,
                                                                      .has_kernel = has_kernel,
                                                                      .client_device = kCpu0}));
  EXPECT_GE(folded, 1);
  EXPECT_EQ(pruned_->FindNode("two"), nullptr) << "no node needs it";
  MR_ASSIGN_OR_RETURN(const Edge* const five, pruned_->FindNode("y")->InputEdge(0));
  EXPECT_EQ(five->src->op_name(), "Const");
  MR_ASSIGN_OR_RETURN(const Tensor value, ConstantValue(*five->src, 0, nullptr));
  EXPECT_EQ(value.scalar<float>(), 5);

  // Common subexpressions: one of a and b is left, and c adds it to itself.
  MR_ASSIGN_OR_RETURN(const int merged, EliminateCommonSubexpressions(pruned_.get()));
  EXPECT_GE(merged, 1);
  EXPECT_NE(pruned_->FindNode("a") == nullptr, pruned_->FindNode("b") == nullptr);
  const Node* const c = pruned_->FindNode("c");
  EXPECT_EQ(c->data_in_edges()[0]->src, c->data_in_edges()[1]->src);
  MR_RETURN_IF_ERROR(pruned_->Validate());
  return Status::Ok();
}

// Still compile/: one graph for each device. Edges that were cut have become pairs of Send and Recv.
Status Tour::Partitions() {
  MR_ASSIGN_OR_RETURN(partitions_, PartitionGraph(std::move(pruned_), {}));
  if (partitions_.size() != 2) return errors::Internal(partitions_.size(), " partitions");
  EXPECT_EQ(partitions_[0].key, kCpu0);
  EXPECT_EQ(partitions_[1].key, kCpu1);
  EXPECT_EQ(NamesOf(*partitions_[0].graph, "_Send").size(), NamesOf(*partitions_[1].graph, "_Recv").size());
  EXPECT_EQ(NamesOf(*partitions_[1].graph, "_Send").size(), NamesOf(*partitions_[0].graph, "_Recv").size());
  EXPECT_NE(partitions_[1].graph->FindNode("y"), nullptr);
  EXPECT_EQ(partitions_[0].graph->FindNode("y"), nullptr);
  return Status::Ok();
}

// exec/ prepares a partition for running: nodes in topological order in one array, their edges in another, a
// kernel of kernels/ for each. A plan is immutable, so any number of steps may use it concurrently.
Status Tour::Plans() {
  for (GraphPartition& part : partitions_) {
    Device* const device = devices_->devices().Find(part.key);
    if (device == nullptr) return errors::NotFound(part.key);
    const auto make_kernel = [&](const Node& node) -> StatusOr<std::shared_ptr<OpKernel>> {
      KernelConstruction c(node.name(), node.shared_props(), *device, devices_->resources(*device));
      MR_ASSIGN_OR_RETURN(auto kernel, KernelRegistry::Global().Create(device->type(), c));
      return std::shared_ptr<OpKernel>(std::move(kernel));
    };
    MR_ASSIGN_OR_RETURN(auto plan, Plan::Build(std::move(part.graph), *device, make_kernel));
    EXPECT_GT(plan->num_nodes(), 0);
    EXPECT_FALSE(plan->roots().empty()) << "something must be ready at the start";
    EXPECT_TRUE(plan->has_async()) << "a Recv waits without holding a thread";
    plans_.push_back(std::move(plan));
  }
  EXPECT_EQ(plans_[1]->constant_slots().size(), NamesOf(plans_[1]->graph(), "Const").size())
      << "constants are no nodes of a plan: their tensors lie in the slots of their consumers";
  return Status::Ok();
}

// One step, by hand: feeds and fetches by position, a rendezvous for sends and receives, and a cancellation
// manager. RunPartitions returns when nothing of the step runs any more.
Status Tour::Execution() {
  const Tensor* const args[] = {&X()};
  std::vector<Tensor> rets(2);
  CallFrame frame{args, rets};
  CancellationManager cancellation;
  const auto rendezvous = MakeRef<LocalRendezvous>();
  std::vector<PartitionRun> runs;
  for (const auto& plan : plans_) {
    StepServices services;
    services.step_id = 1;
    services.UseDevice(plan->device());
    services.resources = &devices_->resources(plan->device());
    services.rendezvous = rendezvous.get();
    services.call_frame = &frame;
    services.cancellation = &cancellation;
    runs.push_back({.plan = plan.get(), .services = services});
  }
  MR_RETURN_IF_ERROR(RunPartitions(runs, nullptr));
  ExpectAnswers(rets);
  return Status::Ok();
}

// step/ does the last four chapters in one call, and runs the result any number of times. It uses neither
// messages nor sessions.
Status Tour::WholeStep() {
  std::vector<std::string> dumped;
  CompileOptions options;
  options.dump = [&](std::string_view pass, std::string_view, const Graph&) { dumped.emplace_back(pass); };
  const StepCompiler compiler({worker_.get()}, options);
  MR_ASSIGN_OR_RETURN(const auto step, compiler.Compile(*graph_, signature_));
  EXPECT_THAT(std::vector(dumped.begin(), dumped.begin() + 5),
              ElementsAre("prune", "inline", "lower", "place", "reads"));
  EXPECT_THAT(dumped, IsSupersetOf({"identity", "fold", "cse"}));
  EXPECT_EQ(dumped.back(), "partition");
  EXPECT_EQ(step->partitions.size(), 1u) << "cut by task, of which there is one; its worker cuts by device";
  EXPECT_EQ(step->feeds[0].shape, PartialShape({2}));

  StepRunner runner;
  const Tensor* const args[] = {&X()};
  for (int run = 0; run < 3; ++run) {
    std::vector<Tensor> rets(2);
    MR_RETURN_IF_ERROR(runner.Run(*step, {.args = args, .rets = rets}));
    ExpectAnswers(rets);
  }
  runner.Close();
  std::vector<Tensor> rets(2);
  EXPECT_TRUE(errors::IsCancelled(runner.Run(*step, {.args = args, .rets = rets})));
  return Status::Ok();
}

// session/ keeps the graph and, for each signature, its compiled step. It uses names instead of positions,
// and checks the caller's arguments.
Status Tour::WholeSession() {
  tensorflow::GraphDef exported;
  ExportGraphDef(*graph_, &exported);
  SessionOptions options;
  options.device_count["CPU"] = 2;
  MR_ASSIGN_OR_RETURN(const auto session, NewSession(options));
  MR_RETURN_IF_ERROR(session->Create(exported));
  std::vector<Tensor> answers;
  MR_RETURN_IF_ERROR(session->Run({{"x", X()}}, signature_.fetches, {}, &answers));
  ExpectAnswers(answers);

  const Status wrong = session->Run({{"x", Tensor::Vector<int32_t>({1, 2, 3})}}, {"z"}, {}, &answers);
  EXPECT_THAT(wrong.message(), HasSubstr("Expects arg[0] to be float but int32 is provided"));
  MR_RETURN_IF_ERROR(session->Close());
  return Status::Ok();
}

TEST(TourTest, OneGraphGoesThroughEveryFolder) {
  Tour tour;
  for (Status (Tour::*chapter)() :
       {&Tour::Registries, &Tour::BytesToMessage, &Tour::MessageToTensor, &Tour::MessageToGraph,
        &Tour::Shapes, &Tour::Gradients, &Tour::Devices, &Tour::Passes, &Tour::Partitions, &Tour::Plans,
        &Tour::Execution, &Tour::WholeStep, &Tour::WholeSession}) {
    ASSERT_EQ((tour.*chapter)(), Status::Ok()) << "and the next chapter stands on this one";
  }
}

// cc/ lets a program build the same graph without messages.
Status WrittenInCpp() {
  MR_RETURN_IF_ERROR(RegisterBuiltins());
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DataType::kFloat, ops::Placeholder::Shape({2}));
  const Output c = ops::Add(root, ops::Mul(root, x, x), ops::Mul(root, x, x));
  const Output y = ops::Mul(root.WithDevice("/cpu:1"), ops::Add(root, 2.f, 3.f), c);
  const Output z = ops::Sum(root, y, 0);
  std::vector<Output> gradient;
  MR_RETURN_IF_ERROR(AddSymbolicGradients(root, {z}, {x}, &gradient));
  MR_RETURN_IF_ERROR(root.status());

  SessionOptions options;
  options.device_count["CPU"] = 2;
  const ClientSession session(root, options);
  std::vector<Tensor> answers;
  MR_RETURN_IF_ERROR(session.Run({{x, X()}}, {z, gradient[0]}, &answers));
  ExpectAnswers(answers);
  return Status::Ok();
}

TEST(TourTest, TheSameGraphCanBeWrittenInCpp) { EXPECT_EQ(WrittenInCpp(), Status::Ok()); }

// training/ uses the gradients: x becomes a variable, and a step of rate 1/32 against the gradient of z,
// which is 20x, leaves 3/8 of it.
Status Trained() {
  MR_RETURN_IF_ERROR(RegisterBuiltins());
  const Scope root = Scope::NewRootScope();
  const GraphVariable x(root.WithOpName("x"), X());
  const Output z = ops::Sum(root, ops::Mul(root, 10.f, ops::Square(root, x)), 0);
  const Operation train = GradientDescentOptimizer(1.f / 32).Minimize(root, z);
  const Operation init = GlobalVariablesInitializer(root);
  MR_RETURN_IF_ERROR(root.status());

  const ClientSession session(root);
  MR_RETURN_IF_ERROR(session.Run({}, {}, {init}, nullptr));
  MR_RETURN_IF_ERROR(session.Run({}, {}, {train}, nullptr));
  std::vector<Tensor> answers;
  MR_RETURN_IF_ERROR(session.Run({x, z}, &answers));
  EXPECT_THAT(answers[0].flat<float>(), ElementsAre(0.375f, 0.75f))
      << "state lives in the session, from Run to Run";
  EXPECT_EQ(answers[1].scalar<float>(), 50 * 9.f / 64);
  return Status::Ok();
}

TEST(TourTest, TheSameGraphCanBeTrained) { EXPECT_EQ(Trained(), Status::Ok()); }

}  // namespace
}  // namespace millrace
