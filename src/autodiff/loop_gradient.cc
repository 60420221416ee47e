// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "autodiff/loop_gradient.h"

#include <algorithm>

namespace millrace {
namespace {

DataType TypeOf(const Output& tensor) { return BaseType(tensor.node->output_type(tensor.index)); }

Output Sibling(const Output& tensor, int index) {
  return tensor.IsSet() ? Output{tensor.node, index} : Output();
}

// A value, or a placeholder for a missing one.
bool IsConstant(const Node& node) { return node.op_name() == "Const" || node.op_name() == "FakeParam"; }

}  // namespace

LoopGradient::LoopGradient(GraphBuilder& builder, const LoopForest& loops, const Loop& loop,
                           GradientFrame& parent, const Names& names)
    : builder_(builder),
      loops_(loops),
      loop_(loop),
      parent_(parent),
      scope_(names.scope),
      device_(names.device),
      frame_name_(names.frame) {
  for (const Loop::Variable& variable : loop.variables) frame_.boundary.insert(variable.enter);
  frame_.boundary.insert(loop.constants.begin(), loop.constants.end());
}

void LoopGradient::Place(const GraphBuilder::Place& place) {
  builder_.SetScope(scope_, device_);
  builder_.SetPlace(place);
}

Output LoopGradient::Add(const char* op, const std::vector<Output>& inputs, AttrMap attrs) {
  std::vector<InputArg> args;
  args.reserve(inputs.size());
  for (const Output& input : inputs) args.push_back({{input}, false});
  return {builder_.Add(op, std::move(args), std::move(attrs)), 0};
}

Output LoopGradient::AddList(const char* op, const std::vector<Output>& inputs) {
  return {builder_.Add(op, {InputArg{inputs, true}}), 0};
}

Output LoopGradient::Int(int32_t value) { return builder_.Constant(Tensor::Scalar(value)); }

Output LoopGradient::Enter(Direction direction, const Output& tensor, bool is_constant) {
  const bool forward = direction == Direction::kForward;
  const Output enter = Add("Enter", {tensor},
                           {{"frame_name", forward ? loop_.frame_name : frame_name_},
                            {"is_constant", is_constant},
                            {"parallel_iterations", loop_.parallel_iterations}});
  if (enter.IsSet()) {
    if (forward) {
      frame_.boundary.insert(enter.node);
    } else {
      local_.insert(enter.node);
    }
  }
  return enter;
}

LoopGradient::Variable LoopGradient::Header(const Output& enter) {
  Variable variable;
  variable.merge = AddList("Merge", {enter, enter});
  return variable;
}

LoopGradient::Variable LoopGradient::Cycle(const Output& enter, const Output& condition) {
  Variable variable = Header(enter);
  variable.done = Add("Switch", {variable.merge, condition});
  variable.value = Add("Identity", {Sibling(variable.done, 1)});
  return variable;
}

void LoopGradient::Close(const Variable& variable, const Output& next) {
  const Output back = Add("NextIteration", {next});
  if (back.IsSet()) builder_.graph().UpdateInput(variable.merge.node, 1, back.node, 0);
}

// New nodes in the parent of the forward loop run when the loop does.
const GraphBuilder::Place& LoopGradient::ForwardParent() {
  if (forward_parent_.has_value()) return *forward_parent_;
  GraphBuilder::Place& place = forward_parent_.emplace(parent_.forward);
  const auto entering = loop_.variables.front().enter->InputEdge(0);
  if (!entering.ok()) return place;
  const Guard guard = parent_.guards.Of({(*entering)->src, (*entering)->src_output});
  if (guard.empty()) return place;
  Place(place);
  const auto& [pred, side] = guard.back();
  const Output sides = Add("Switch", {pred, pred});
  place.pivot = Add("Identity", {Sibling(sides, side)}).node;
  return place;
}

void LoopGradient::Begin() {
  const GraphBuilder::Place forward_parent = ForwardParent();
  Place(forward_parent);
  const Output zero = Int(0);
  const Output enter = Enter(Direction::kForward, zero, false);
  Place({});
  const Variable count = Cycle(enter, loop_.condition);
  forward_index_ = count.value;
  frame_.forward = {nullptr, count.value.node};
  Place(frame_.forward);
  Close(count, Add("Add", {count.value, Int(1)}));
  Place(forward_parent);
  const Output trips = Add("Exit", {count.done});

  Place(parent_.backward);
  const Output down = Enter(Direction::kBackward, trips, false);
  frame_.backward = {&frame_.added, nullptr};
  Place(frame_.backward);
  Variable left = Header(down);
  frame_.backward.pivot = left.merge.node;
  Place(frame_.backward);
  condition_ = Add("LoopCond", {Add("Greater", {left.merge, Int(0)})});
  left.done = Add("Switch", {left.merge, condition_});
  left.value = Add("Identity", {Sibling(left.done, 1)});
  frame_.backward.pivot = left.value.node;
  Place(frame_.backward);
  backward_index_ = Add("Sub", {left.value, Int(1)});
  Close(left, backward_index_);
}

size_t LoopGradient::AddVariable(const Output& initial, const PartialShape& shape) {
  Place(parent_.backward);
  const Output enter = Enter(Direction::kBackward, initial, false);
  if (enter.IsSet()) builder_.Fail(builder_.shapes().MergeOutput(*enter.node, 0, shape));
  Place(frame_.backward);
  variables_.push_back(Cycle(enter, condition_));
  return variables_.size() - 1;
}

void LoopGradient::SetNext(size_t variable, const Output& next) {
  Place(frame_.backward);
  Close(variables_[variable], next);
}

Output LoopGradient::Result(size_t variable) {
  Place(parent_.backward);
  return Add("Exit", {variables_[variable].done});
}

StatusOr<LoopGradient::Rows> LoopGradient::BeginRows(const Output& first) {
  MR_RETURN_IF_ERROR(builder_.status());
  const PartialShape shape = builder_.ShapeOf(first);
  AttrMap attrs = {{"dtype", TypeOf(first)}, {"dynamic_size", true}};
  Place(parent_.backward);
  Rows rows;
  rows.array = Add("TensorArrayV3", {Int(1)}, std::move(attrs));
  const Output flow = Add("TensorArrayWriteV3", {rows.array, Int(0), first, Sibling(rows.array, 1)});
  rows.handle = Enter(Direction::kBackward, rows.array, true);
  MR_RETURN_IF_ERROR(builder_.status());
  rows.flow = AddVariable(flow, TensorShape());
  MR_RETURN_IF_ERROR(builder_.status());
  return rows;
}

void LoopGradient::AddRows(const Rows& rows, const Output& value) {
  Place(frame_.backward);
  // The counter of iterations counts down to 0, inclusive.
  const Output index = Add("Add", {backward_index_, Int(1)});
  SetNext(rows.flow, Add("TensorArrayWriteV3", {rows.handle, index, value, Value(rows.flow)}));
}

Output LoopGradient::EndRows(const Rows& rows, const PartialShape& shape) {
  const Output flow = Result(rows.flow);
  AttrMap attrs;
  if (!rows.array.IsSet() || !builder_.status().ok()) return Output();
  attrs.Set("dtype", rows.array.node->Attr<DataType>("dtype").value_or(DataType::kInvalid));
  if (!shape.unknown_rank() && shape.rank() > 0) {
    const std::vector<int64_t> tail(shape.dims().begin() + 1, shape.dims().end());
    attrs.Set("element_shape_except0", PartialShape(tail));
  }
  return Add("TensorArrayConcatV3", {rows.array, flow}, std::move(attrs));
}

bool LoopGradient::IsLocal(const Node* node) {
  for (; num_local_ < frame_.added.size(); ++num_local_) local_.insert(frame_.added[num_local_]);
  return local_.contains(node);
}

Status LoopGradient::End() {
  // Copies of nodes of the body are in the body as well.
  const size_t num_added = frame_.added.size();
  for (size_t i = 0; i < num_added; ++i) {
    MR_ASSIGN_OR_RETURN(const bool replaced, Bring(frame_.added[i]));
    if (replaced && !builder_.IsAdopted(frame_.added[i])) {
      local_.erase(frame_.added[i]);
      builder_.graph().RemoveNode(frame_.added[i]);
    }
    MR_RETURN_IF_ERROR(builder_.status());
  }
  EndFlow();
  return builder_.status();
}

StatusOr<bool> LoopGradient::Bring(Node* node) {
  if (IsExit(*node)) return false;  // an Exit of a nested backward loop, which is complete
  MR_ASSIGN_OR_RETURN(bool replaced, MoveMetadata(node));
  if (!replaced) {
    MR_ASSIGN_OR_RETURN(replaced, MoveZeros(node));
  }
  if (replaced) return true;
  for (int i = 0; i < node->num_inputs(); ++i) {
    const Edge* edge = node->in_edges()[static_cast<size_t>(i)];
    if (edge == nullptr || IsLocal(edge->src)) continue;
    MR_ASSIGN_OR_RETURN(const Output image, Image({edge->src, edge->src_output}));
    builder_.graph().UpdateInput(node, i, image.node, image.index);
  }
  return false;
}

void LoopGradient::Replace(Node* node, int output, const Output& by) {
  const std::vector<Edge*> edges(node->out_edges().begin(), node->out_edges().end());
  for (const Edge* edge : edges) {
    if (edge->src_output == output)
      builder_.graph().UpdateInput(edge->dst, edge->dst_input, by.node, by.index);
  }
}

StatusOr<bool> LoopGradient::MoveMetadata(Node* node) {
  if (!node->traits().metadata_only) return false;
  std::vector<InputArg> inputs;
  InputArg list{{}, true};
  for (const Edge* edge : node->data_in_edges()) {
    if (edge == nullptr || IsLocal(edge->src) || IsInvariant(*edge->src) || IsOutside(*edge->src))
      return false;
    list.tensors.push_back({edge->src, edge->src_output});
  }
  if (list.tensors.size() == 1 && node->op_def().inputs[0].number_attr.empty()) list.is_list = false;
  Place(frame_.forward);
  Node* const twin = builder_.Add(node->op_name(), {list}, node->attrs());
  MR_RETURN_IF_ERROR(builder_.status());
  for (int i = 0; i < node->num_outputs(); ++i) {
    MR_ASSIGN_OR_RETURN(const Output image, Image({twin, i}));
    Replace(node, i, image);
  }
  return true;
}

StatusOr<bool> LoopGradient::MoveZeros(Node* node) {
  if (node->op_name() != "ZerosLike") return false;
  const Edge* edge = node->data_in_edges()[0];
  if (edge == nullptr || IsLocal(edge->src) || IsInvariant(*edge->src) || IsOutside(*edge->src)) return false;
  const Output like = {edge->src, edge->src_output};
  const DataType dtype = TypeOf(like);
  if (dtype == DataType::kVariant || dtype == DataType::kString || dtype == DataType::kResource) return false;
  Place(frame_.forward);
  const Output shape = Add("Shape", {like});
  MR_RETURN_IF_ERROR(builder_.status());
  MR_ASSIGN_OR_RETURN(const Output image, Image(shape));
  Place(frame_.backward);
  Tensor zero(dtype, TensorShape());
  std::fill_n(static_cast<char*>(zero.raw_data()), zero.num_bytes(), '\0');
  const Output zeros = Add("Fill", {image, builder_.Constant(std::move(zero))});
  MR_RETURN_IF_ERROR(builder_.status());
  Replace(node, 0, zeros);
  return true;
}

StatusOr<Output> LoopGradient::Image(const Output& tensor) {
  const std::pair<const Node*, int> key(tensor.node, tensor.index);
  if (const auto it = images_.find(key); it != images_.end()) return it->second;
  MR_ASSIGN_OR_RETURN(const Output image, MakeImage(tensor));
  MR_RETURN_IF_ERROR(builder_.status());
  images_[key] = image;
  return image;
}

// The value is the same in all iterations, so it need not be kept.
bool LoopGradient::IsInvariant(const Node& node) const {
  if (IsConstant(node)) return true;
  return IsEnter(node) && frame_.boundary.contains(&node) && node.Attr<bool>("is_constant").value_or(false);
}

bool LoopGradient::IsOutside(const Node& node) const {
  if (!loops_.Knows(node)) return false;
  const Loop* const of = loops_.LoopOf(node);
  for (const Loop* loop = loop_.parent;; loop = loop->parent) {
    if (of == loop) return true;
    if (loop == nullptr) return false;
  }
}

StatusOr<Output> LoopGradient::MakeImage(const Output& tensor) {
  Node* const node = tensor.node;
  if (IsConstant(*node)) {
    Place(frame_.backward);
    return Guarded({builder_.Add(node->op_name(), {}, node->attrs()), 0}, frame_.guards.Of(tensor));
  }
  if (IsInvariant(*node)) {
    MR_ASSIGN_OR_RETURN(const Edge* outside, node->InputEdge(0));
    Place(parent_.backward);
    return Enter(Direction::kBackward, {outside->src, outside->src_output}, true);
  }
  if (IsOutside(*node)) {
    Place(parent_.backward);
    return Enter(Direction::kBackward, tensor, true);
  }
  return Saved(tensor);
}

void LoopGradient::BeginFlow() {
  if (flow_.value.IsSet()) return;
  const GraphBuilder::Place forward_parent = ForwardParent();
  Place(forward_parent);
  const Output enter = Enter(Direction::kForward, builder_.Constant(Tensor::Scalar(0.0f)), false);
  if (enter.IsSet()) builder_.Fail(builder_.shapes().MergeOutput(*enter.node, 0, TensorShape()));
  Place({});
  flow_ = Cycle(enter, loop_.condition);
  Place(forward_parent);
  const Output end = Add("Exit", {flow_.done});
  Place(parent_.backward);
  flow_in_backward_ = Enter(Direction::kBackward, end, true);
}

void LoopGradient::EndFlow() {
  if (flows_.empty()) return;
  Place(frame_.forward);
  Close(flow_, flows_.size() == 1 ? flows_[0] : AddList("AddN", flows_));
}

// A tensor that is never dead: the given one, or, if its branch was not taken, a value that is not
// used.
Output LoopGradient::Lift(Output tensor, const Guard& guard, const Output& handle) {
  if (guard.empty()) return tensor;
  const DataType dtype = TypeOf(tensor);
  Place(frame_.forward);
  Output filler = handle;
  if (dtype != DataType::kResource) {
    Tensor value(dtype, TensorShape());
    if (dtype != DataType::kString && dtype != DataType::kVariant)
      std::fill_n(static_cast<char*>(value.raw_data()), value.num_bytes(), '\0');
    filler = builder_.Constant(std::move(value));
  }
  for (auto it = guard.rbegin(); it != guard.rend(); ++it) {
    const auto& [pred, side] = *it;
    tensor = AddList("Merge", {tensor, Sibling(Add("Switch", {filler, pred}), 1 - side)});
  }
  return tensor;
}

StatusOr<Output> LoopGradient::Guarded(Output image, const Guard& guard) {
  MR_RETURN_IF_ERROR(builder_.status());
  for (const auto& [pred, side] : guard) {
    MR_ASSIGN_OR_RETURN(const Output taken, Image(pred));
    Place(frame_.backward);
    image = Sibling(Add("Switch", {image, taken}), side);
  }
  MR_RETURN_IF_ERROR(builder_.status());
  return image;
}

StatusOr<Output> LoopGradient::Saved(const Output& tensor) {
  const DataType dtype = TypeOf(tensor);
  BeginFlow();
  const Guard guard = frame_.guards.Of(tensor);
  const PartialShape shape = builder_.ShapeOf(tensor);
  AttrMap attrs = {{"dtype", dtype}, {"dynamic_size", true}};
  if (guard.empty() && shape.IsFullyDefined()) attrs.Set("element_shape", shape);
  Place(ForwardParent());
  const Output array = Add("TensorArrayV3", {Int(0)}, std::move(attrs));
  const Output forward_handle = Enter(Direction::kForward, array, true);
  const Output value = Lift(tensor, guard, forward_handle);
  Place(frame_.forward);
  flows_.push_back(Add("TensorArrayWriteV3", {forward_handle, forward_index_, value, flow_.value}));
  Place(parent_.backward);
  const Output handle = Enter(Direction::kBackward, array, true);
  Place(frame_.backward);
  const Output read =
      Add("TensorArrayReadV3", {handle, backward_index_, flow_in_backward_}, {{"dtype", dtype}});
  MR_ASSIGN_OR_RETURN(const Output image, Guarded(read, guard));
  if (dtype != DataType::kResource) {
    MR_RETURN_IF_ERROR(builder_.shapes().MergeOutput(*image.node, image.index, shape));
  }
  return image;
}

}  // namespace millrace
