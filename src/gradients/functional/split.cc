// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Gradients of functions that must not run again, since they are random or have side effects: the forward
// functions return the values that the backward functions need.
#include <algorithm>
#include <memory>
#include <utility>

#include "autodiff/function_split.h"
#include "gradients/functional/operands.h"
#include "graph/function_gradient.h"
#include "graph/function_library.h"
#include "op/function_attrs.h"
#include "tensorflow/core/framework/function.pb.h"

namespace millrace::gradients {
namespace {

using Split = std::unique_ptr<FunctionSplit>;
using Request = FunctionSplit::Request;

bool Carries(DataType type) {
  return IsFloatingType(type) || IsComplexType(type) || type == DataType::kResource ||
         type == DataType::kVariant;
}

std::vector<DataType> TypesOf(const std::vector<Output>& tensors) {
  std::vector<DataType> types;
  types.reserve(tensors.size());
  for (const Output& t : tensors) types.push_back(BaseType(t.node->output_type(t.index)));
  return types;
}

template <typename T>
void Append(std::vector<T>* to, const std::vector<T>& more) {
  to->insert(to->end(), more.begin(), more.end());
}

// Extends a list of types, and the list of shapes beside it.
void Lengthen(Node* node, const char* attr, const std::vector<DataType>& more) {
  const auto shapes = node->Attr<std::vector<PartialShape>>("output_shapes");
  if (shapes.ok() && !shapes->empty()) {
    std::vector<PartialShape> longer = *shapes;
    longer.resize(longer.size() + more.size());
    node->SetAttr("output_shapes", std::move(longer));
  }
  std::vector<DataType> types;
  if (auto known = node->Attr<std::vector<DataType>>(attr); known.ok()) types = *std::move(known);
  Append(&types, more);
  node->SetAttr(attr, std::move(types));
}

// After the node has changed: keeps the shapes that were known for its outputs.
Status InferAgain(GradientContext& c, int old_outputs) {
  ShapeRefiner& shapes = c.builder().shapes();
  std::vector<PartialShape> known;
  known.reserve(static_cast<size_t>(old_outputs));
  for (int i = 0; i < old_outputs; ++i) known.push_back(shapes.OutputShape(c.node(), i));
  shapes.ForgetLast();
  MR_RETURN_IF_ERROR(shapes.AddNode(c.node()));
  for (int i = 0; i < old_outputs; ++i)
    MR_RETURN_IF_ERROR(shapes.MergeOutput(c.node(), i, known[static_cast<size_t>(i)]));
  return Status();
}

// The incoming gradients of a call, and the required ones.
Request RequestOf(GradientContext& c, int first, const std::vector<DataType>& types,
                  std::vector<Output>* grads) {
  Request request;
  request.scope = c.scope();
  request.num_parameters = static_cast<size_t>(c.num_inputs() - first);
  request.num_results = static_cast<size_t>(c.num_outputs());
  for (int i = 0; i < c.num_outputs(); ++i) {
    if (!c.has_grad(i)) continue;
    const Expr grad = c.grad(i);
    grads->push_back(grad.output());
    request.arriving.push_back(i);
    request.arriving_types.push_back(grad.dtype());
  }
  for (int i = first; i < c.num_inputs(); ++i) {
    if (!c.wants(i)) continue;
    request.targets.push_back(i - first);
    request.target_types.push_back(types[static_cast<size_t>(i - first)]);
  }
  return request;
}

// Branch `which` also returns values in place of those that the others keep; they are not used.
StatusOr<NameAttrList> WriteForward(std::vector<Split>& splits, size_t which) {
  FunctionSplit& split = *splits[which];
  std::vector<Output> results = split.results();
  for (size_t i = 0; i < splits.size(); ++i) {
    for (const Output& kept : splits[i]->kept()) {
      if (i == which) {
        results.push_back(kept);
        continue;
      }
      const DataType type = BaseType(kept.node->output_type(kept.index));
      MR_ASSIGN_OR_RETURN(const Output fake,
                          split.AddForward("FakeParam", {{"dtype", type}, {"shape", PartialShape()}}, {}));
      results.push_back(fake);
    }
  }
  return split.WriteForward(split.parameters(), results);
}

StatusOr<NameAttrList> WriteBackward(std::vector<Split>& splits, size_t which) {
  FunctionSplit& split = *splits[which];
  std::vector<Output> inputs = split.parameters();
  for (size_t i = 0; i < splits.size(); ++i) {
    for (const Output& kept : splits[i]->kept()) {
      if (i == which) {
        inputs.push_back(kept);
        continue;
      }
      MR_ASSIGN_OR_RETURN(const Output unused,
                          split.AddParameter(BaseType(kept.node->output_type(kept.index))));
      inputs.push_back(unused);
    }
  }
  Append(&inputs, split.arriving());
  return split.WriteBackward(inputs, split.gradients());
}

AttrMap FunctionAttrs(const SplitCall& call, std::vector<NameAttrList> functions) {
  AttrMap attrs;
  if (std::string_view(call.attrs[0]) == "branches") {
    attrs.Set(call.attrs[0], std::move(functions));
    return attrs;
  }
  for (size_t i = 0; i < functions.size(); ++i) attrs.Set(call.attrs[i], std::move(functions[i]));
  return attrs;
}

// The gradient of a loop under construction.
class LoopSplit {
 public:
  explicit LoopSplit(GradientContext& c)
      : c_(c), node_(c.mutable_node()), graph_(node_.graph()), count_(c.num_inputs()) {}

  Status Run() {
    types_ = TypesOfGradients(c_, 0);
    MR_RETURN_IF_ERROR(c_.status());
    const NameAttrList body = c_.Attr<NameAttrList>("body");
    MR_ASSIGN_OR_RETURN(std::vector<bool> constant, ConstantVariables(body));
    Request request = EmptyRequest();
    request.only_constant_parameters = true;
    for (int i = 0; i < count_; ++i) {
      const DataType type = types_[static_cast<size_t>(i)];
      // Constants do not propagate gradients.
      if (!Carries(type) || type == DataType::kResource) continue;
      if (constant[static_cast<size_t>(i)] && !c_.wants(i)) continue;
      request.targets.push_back(i);
      request.target_types.push_back(type);
    }
    request.arriving = request.targets;
    request.arriving_types = request.target_types;
    MR_ASSIGN_OR_RETURN(split_, FunctionSplit::Make(graph_, body, request));
    MR_RETURN_IF_ERROR(WriteFunctions());
    MR_RETURN_IF_ERROR(LengthenLoop());
    return AddBackwardLoop(request);
  }

 private:
  Request EmptyRequest() const {
    Request request;
    request.scope = c_.scope();
    request.num_parameters = request.num_results = static_cast<size_t>(count_);
    return request;
  }

  StatusOr<std::vector<bool>> ConstantVariables(const NameAttrList& body) {
    MR_ASSIGN_OR_RETURN(const Split plain, FunctionSplit::Make(graph_, body, EmptyRequest()));
    std::vector<bool> constant;
    constant.reserve(static_cast<size_t>(count_));
    for (int i = 0; i < count_; ++i) constant.push_back(plain->IsConstant(static_cast<size_t>(i)));
    return constant;
  }

  // The tensors of the body that are kept; at least one, since the lists determine the number of iterations.
  StatusOr<std::vector<Output>> Kept() {
    std::vector<Output> kept = split_->kept();
    if (!kept.empty()) return kept;
    MR_ASSIGN_OR_RETURN(
        const Output one,
        split_->AddForward("Const", {{"dtype", DataType::kBool}, {"value", Tensor::Scalar(true)}}, {}));
    return std::vector<Output>{one};
  }

  Status WriteFunctions() {
    MR_ASSIGN_OR_RETURN(const std::vector<Output> kept, Kept());
    kept_types_ = TypesOf(kept);
    std::vector<Output> inputs = split_->parameters(), outputs = split_->results();
    std::vector<Output> back_inputs, back_outputs;
    MR_ASSIGN_OR_RETURN(
        const Output any_shape,
        split_->AddBackward(
            "Const", {{"dtype", DataType::kInt32}, {"value", Tensor::Scalar(static_cast<int32_t>(-1))}}, {}));
    for (size_t i = 0; i < kept.size(); ++i) {
      const AttrMap element{{"element_dtype", kept_types_[i]}};
      MR_ASSIGN_OR_RETURN(const Output list, split_->AddParameter(DataType::kVariant));
      MR_ASSIGN_OR_RETURN(const Output longer,
                          split_->AddForward("TensorListPushBack", element, {list, kept[i]}));
      inputs.push_back(list);
      outputs.push_back(longer);
      MR_ASSIGN_OR_RETURN(const Output back, split_->AddParameter(DataType::kVariant));
      MR_ASSIGN_OR_RETURN(const Output shorter,
                          split_->AddBackward("TensorListPopBack", element, {back, any_shape}));
      back_inputs.push_back(back);
      back_outputs.push_back(shorter);
      if (i < split_->kept().size()) pops_.push_back({shorter.node, 1});
    }
    MR_ASSIGN_OR_RETURN(body_, split_->WriteForward(inputs, outputs));
    for (size_t i = 0; i < pops_.size(); ++i) split_->ReplaceKept(i, pops_[i]);
    for (size_t i = 0; i < split_->parameters().size(); ++i) {
      if (!split_->IsConstant(i)) continue;
      constants_.push_back(static_cast<int>(i));
      back_inputs.push_back(split_->parameters()[i]);
      back_outputs.push_back(split_->parameters()[i]);
    }
    Append(&back_inputs, split_->arriving());
    Append(&back_outputs, split_->gradients());
    back_types_ = TypesOf(back_inputs);
    MR_ASSIGN_OR_RETURN(backward_body_, split_->WriteBackward(back_inputs, back_outputs));
    MR_ASSIGN_OR_RETURN(backward_cond_, WriteBackwardCondition());
    const std::vector<DataType> lists(kept.size(), DataType::kVariant);
    MR_ASSIGN_OR_RETURN(cond_, WithMoreParameters(graph_, c_.Attr<NameAttrList>("cond"), lists));
    return c_.status();
  }

  // Whether the first list has elements.
  StatusOr<NameAttrList> WriteBackwardCondition() {
    Graph graph(graph_.ops());
    std::vector<Output> inputs;
    for (const DataType type : back_types_) {
      MR_ASSIGN_OR_RETURN(Node * node,
                          graph.AddNode(graph.NewName("variable"), "Placeholder", {{"dtype", type}}));
      inputs.push_back({node, 0});
    }
    MR_ASSIGN_OR_RETURN(Node * length, graph.AddNode("length", "TensorListLength", {}));
    graph.AddEdge(inputs[0].node, 0, length, 0);
    MR_ASSIGN_OR_RETURN(Node * zero, graph.AddNode("zero", "Const",
                                                   {{"dtype", DataType::kInt32},
                                                    {"value", Tensor::Scalar(static_cast<int32_t>(0))}}));
    MR_ASSIGN_OR_RETURN(Node * more, graph.AddNode("more", "Greater", {{"T", DataType::kInt32}}));
    graph.AddEdge(length, 0, more, 0);
    graph.AddEdge(zero, 0, more, 1);
    return AddWrittenFunction(graph_, StrCat(c_.Attr<NameAttrList>("cond").name, "_backward"),
                              {length, zero, more}, std::move(inputs), {{more, 0}});
  }

  // A node beside the loop, not beside its gradient.
  StatusOr<Node*> AddBeside(const char* op, AttrMap attrs, const std::vector<Node*>& inputs) {
    MR_ASSIGN_OR_RETURN(Node * node, graph_.AddNode(graph_.NewName(StrCat(node_.name(), "_kept/", op)), op,
                                                    std::move(attrs), node_.requested_device()));
    for (size_t i = 0; i < inputs.size(); ++i) graph_.AddEdge(inputs[i], 0, node, static_cast<int>(i));
    // In a loop or branch made of primitive ops, it runs in the context of the node.
    if (inputs.empty() && count_ > 0) {
      MR_ASSIGN_OR_RETURN(const Edge* first, node_.InputEdge(0));
      graph_.AddControlEdge(first->src, node);
    }
    MR_RETURN_IF_ERROR(c_.builder().shapes().AddNode(*node));
    return node;
  }

  Status LengthenLoop() {
    MR_ASSIGN_OR_RETURN(
        Node * size,
        AddBeside("Const", {{"dtype", DataType::kInt32}, {"value", Tensor::Scalar(static_cast<int32_t>(-1))}},
                  {}));
    std::vector<Node*> lists;
    for (const DataType type : kept_types_) {
      const AttrMap attrs{{"element_dtype", type}, {"shape_type", DataType::kInt32}};
      MR_ASSIGN_OR_RETURN(Node * list, AddBeside("EmptyTensorList", attrs, {size, size}));
      lists.push_back(list);
    }
    node_.SetAttr("cond", cond_);
    node_.SetAttr("body", body_);
    Lengthen(&node_, "T", std::vector<DataType>(lists.size(), DataType::kVariant));
    for (size_t i = 0; i < lists.size(); ++i)
      graph_.AddEdge(lists[i], 0, &node_, count_ + static_cast<int>(i));
    return InferAgain(c_, count_);
  }

  Output FirstGradient(int i) {
    if (c_.has_grad(i)) return c_.grad(i).output();
    if (BaseType(node_.input_type(i)) != DataType::kResource) return ZerosLike(c_.output(i)).output();
    const DataType type = types_[static_cast<size_t>(i)];
    return ZerosLike(Op("ReadVariableOp", {c_.input(i)}, {{"dtype", type}})).output();
  }

  Status AddBackwardLoop(const Request& request) {
    std::vector<Output> inputs;
    for (size_t i = 0; i < kept_types_.size(); ++i) inputs.push_back({&node_, count_ + static_cast<int>(i)});
    for (const int i : constants_) inputs.push_back(c_.input(i).output());
    for (const int i : request.targets) inputs.push_back(FirstGradient(i));
    AttrMap attrs = c_.CopyAttrs({"parallel_iterations"});
    attrs.Set("T", back_types_);
    attrs.Set("cond", backward_cond_);
    attrs.Set("body", backward_body_);
    if (!c_.status().ok()) return c_.status();
    const auto* def = graph_.functions().Find(backward_body_.name);
    const bool stateful = def != nullptr && def->signature().is_stateful();
    const int first = static_cast<int>(inputs.size() - request.targets.size());
    Node* loop = c_.builder().Add(stateful ? "While" : "StatelessWhile", {InputArg{std::move(inputs), true}},
                                  std::move(attrs));
    for (size_t i = 0; loop != nullptr && i < request.targets.size(); ++i) {
      if (c_.wants(request.targets[i]))
        c_.SetInputGrad(request.targets[i], Expr(c_.builder(), {loop, first + static_cast<int>(i)}));
    }
    return c_.status();
  }

  GradientContext& c_;
  Node& node_;
  Graph& graph_;
  const int count_;
  std::vector<DataType> types_;  // of the gradients of the variables
  Split split_;
  std::vector<DataType> kept_types_, back_types_;
  std::vector<Output> pops_;
  std::vector<int> constants_;
  NameAttrList cond_, body_, backward_cond_, backward_body_;
};

}  // namespace

bool MustSplit(const GradientContext& c, const std::vector<NameAttrList>& functions,
               const std::vector<NameAttrList>& gradients) {
  if (RunsAgainScope::IsActive()) return false;
  const Graph& graph = c.node().graph();
  bool repeatable = true;
  for (const NameAttrList& f : functions) {
    const auto body = InstantiateCallee(graph.functions(), graph.ops(), f);
    if (!body.ok()) return false;
    repeatable = repeatable && CheckRunsTwice(*body->graph).ok();
  }
  if (repeatable) return false;
  return std::any_of(gradients.begin(), gradients.end(), [&](const NameAttrList& f) {
    const Status derived = InstantiateCallee(graph.functions(), graph.ops(), f).status();
    return derived.code() == ErrorCode::kUnimplemented;
  });
}

Status SplitCallGradient(GradientContext& c, const SplitCall& call) {
  Node& node = c.mutable_node();
  const std::vector<DataType> types = TypesOfGradients(c, call.first);
  std::vector<Output> grads, inputs;
  const Request request = RequestOf(c, call.first, types, &grads);
  if (!c.status().ok()) return c.status();
  std::vector<Split> splits;
  std::vector<DataType> kept;
  for (const NameAttrList& f : call.functions) {
    MR_ASSIGN_OR_RETURN(Split split, FunctionSplit::Make(node.graph(), f, request));
    Append(&kept, TypesOf(split->kept()));
    splits.push_back(std::move(split));
  }
  std::vector<NameAttrList> forward, backward;
  for (size_t i = 0; i < splits.size(); ++i) {
    MR_ASSIGN_OR_RETURN(NameAttrList f, WriteForward(splits, i));
    forward.push_back(std::move(f));
    MR_ASSIGN_OR_RETURN(NameAttrList g, WriteBackward(splits, i));
    backward.push_back(std::move(g));
  }
  const int outputs = node.num_outputs();
  for (const auto& [name, value] : FunctionAttrs(call, std::move(forward))) node.SetAttr(name, value);
  const bool by_name = call.attrs[0] == kForwardAttr;
  Lengthen(&node, by_name ? kKeptTypesAttr.data() : "Tout", kept);
  MR_RETURN_IF_ERROR(InferAgain(c, outputs));
  for (int i = call.first; i < c.num_inputs(); ++i) inputs.push_back(c.input(i).output());
  for (int i = outputs; i < node.num_outputs(); ++i) inputs.push_back({&node, i});
  Append(&inputs, grads);
  AttrMap attrs = by_name ? AttrMap{{"f", backward[0]}} : FunctionAttrs(call, std::move(backward));
  attrs.Set("Tin", TypesOf(inputs));
  attrs.Set("Tout", request.target_types);
  std::vector<InputArg> args;
  if (call.first > 0) args.push_back(InputArg{{c.input(0).output()}, false});
  if (node.op_name() == "If" || node.op_name() == "StatelessIf") attrs.Set("Tcond", c.input(0).dtype());
  args.push_back(InputArg{std::move(inputs), true});
  const char* call_op = node.op_def().is_stateful ? "StatefulPartitionedCall" : "PartitionedCall";
  Node* gradient =
      c.builder().Add(by_name ? call_op : node.op_name().c_str(), std::move(args), std::move(attrs));
  for (size_t i = 0; gradient != nullptr && i < request.targets.size(); ++i)
    c.SetInputGrad(call.first + request.targets[i], Expr(c.builder(), {gradient, static_cast<int>(i)}));
  return c.status();
}

Status SplitLoopGradient(GradientContext& c) { return LoopSplit(c).Run(); }

}  // namespace millrace::gradients
