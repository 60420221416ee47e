// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/shape_refiner.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/hash.h"
#include "base/strings.h"
#include "graph/constant_value.h"

namespace millrace {
namespace {

struct ShapeHash {
  size_t operator()(const PartialShape& shape) const {
    uint64_t hash = shape.unknown_rank() ? 1 : 2;
    for (const int64_t size : shape.dims()) hash = HashCombine(hash, static_cast<uint64_t>(size));
    return hash;
  }
};

struct Handle {
  PartialShape shape;
  DataType dtype = DataType::kInvalid;
};

// The entries of `values` from `*next` on that the dimensions from `dim` on hold: "1 2", "[1 2][3 4]".
template <typename T>
void AppendValues(std::span<const T> values, const TensorShape& shape, int dim, size_t* next,
                  std::string* out) {
  constexpr size_t kMaxValues = 256;
  const int64_t count = dim < shape.rank() ? shape.dim(dim) : 1;
  for (int64_t i = 0; i < count && *next < values.size(); ++i) {
    if (*next >= kMaxValues) {
      if (!out->ends_with("...")) *out += "...";
      return;
    }
    if (dim + 1 < shape.rank()) {
      *out += '[';
      AppendValues(values, shape, dim + 1, next, out);
      *out += ']';
    } else {
      *out += StrCat(i == 0 ? "" : " ", values[(*next)++]);
    }
  }
}

// "[2,?]".
std::string ShapeText(const PartialShape& shape) {
  std::string text;
  for (const int64_t size : shape.dims()) {
    text += text.empty() ? "" : ",";
    text += size < 0 ? "?" : StrCat(size);
  }
  return StrCat("[", text, "]");
}

// "input[1] = <2 3>", or nothing for values that are not numbers.
std::string InputValue(int input, const Tensor& tensor) {
  std::string text;
  size_t next = 0;
  if (const auto numbers = IntegerValues(tensor); numbers.ok()) {
    AppendValues(std::span<const int64_t>(*numbers), tensor.shape(), 0, &next, &text);
  } else if (tensor.dtype() == DataType::kFloat) {
    AppendValues(tensor.flat<float>(), tensor.shape(), 0, &next, &text);
  } else if (tensor.dtype() == DataType::kDouble) {
    AppendValues(tensor.flat<double>(), tensor.shape(), 0, &next, &text);
  } else {
    return "";
  }
  return StrCat("input[", input, "] = <", text, ">");
}

}  // namespace

// Shapes are kept once and named by number; 0 is the unknown shape. A node has one number per output.
struct ShapeRefiner::State {
  State(const Graph& g, OpEvaluator e) : graph(g), evaluator(e) { Intern(PartialShape()); }

  int Intern(const PartialShape& shape) {
    const auto [it, is_new] = numbers.try_emplace(shape, static_cast<int>(shapes.size()));
    if (is_new) shapes.push_back(&it->first);
    return it->second;
  }
  // Number of the shape of an output; 0 when the node was not added.
  int NumberOf(const Node& node, int output) const {
    const auto id = static_cast<size_t>(node.id());
    if (id >= first.size() || first[id] < 0 || output < 0 || output >= node.num_outputs()) return 0;
    return outputs[static_cast<size_t>(first[id] + output)];
  }
  static uint64_t Key(const Node& node, int output) {
    return static_cast<uint64_t>(node.id()) << 32 | static_cast<uint32_t>(output);
  }
  void Store(const Node& node, const std::vector<int>& shapes_of_outputs) {
    const auto id = static_cast<size_t>(node.id());
    if (first.size() <= id) first.resize(std::max(id + 1, static_cast<size_t>(graph.num_node_ids())), -1);
    first[id] = static_cast<int>(outputs.size());
    outputs.insert(outputs.end(), shapes_of_outputs.begin(), shapes_of_outputs.end());
  }

  const Graph& graph;
  const OpEvaluator evaluator;
  std::unordered_map<int, std::vector<Tensor>> evaluated;  // by node id
  std::unordered_map<PartialShape, int, ShapeHash> numbers;
  std::vector<const PartialShape*> shapes;  // by number; keys of `numbers`
  std::vector<int> first;                   // by node id: where its outputs begin; -1: not added
  std::vector<int> outputs;
  std::unordered_map<uint64_t, Handle> handles;

  // The node inferred last, if its result depends on nothing but its kind and the shapes of its inputs: a
  // chain of alike nodes is inferred once.
  const NodeProps* last_props = nullptr;
  std::vector<int> last_inputs;
  std::vector<int> last_outputs;

  // Scratch.
  std::vector<int> input_numbers;
  std::vector<PartialShape> input_shapes;
};

namespace {

// Runs the shape function of one node.
class NodeInference {
 public:
  NodeInference(const Node& node, const ShapeRefiner& refiner, const std::vector<PartialShape>& inputs)
      : node_(node),
        refiner_(refiner),
        context_(node.op_def(), node.attrs(), node.name(), node.num_outputs(), inputs),
        values_(inputs.size()),
        asked_(inputs.size(), false),
        asked_as_shape_(inputs.size(), false),
        as_shapes_(inputs.size()) {}

  InferenceContext& context() { return context_; }
  // False when the result depends on this node alone.
  bool reusable() const { return reusable_; }

  void SetHandles() {
    for (int i = 0; i < node_.num_inputs(); ++i) {
      const Edge* edge = node_.in_edges()[i];
      Handle handle;
      if (edge == nullptr ||
          !refiner_.OutputHandle(*edge->src, edge->src_output, &handle.shape, &handle.dtype))
        continue;
      reusable_ = false;
      auto shape = context_.MakeShapeFromPartial(handle.shape);
      if (shape.ok()) context_.set_input_handle(i, {{*shape, handle.dtype}});
    }
  }

  // Repeated while the function requests values that are known and that it was not given.
  Status Run() {
    const ShapeFn& fn = node_.op().shape_fn;
    if (!fn) return Status();
    bool more = true;
    while (more) {
      if (const Status status = fn(context_); !status.ok()) return WithContext(status);
      MR_ASSIGN_OR_RETURN(more, ProvideRequested());
    }
    return Status();
  }

 private:
  // Whether new values were found.
  StatusOr<bool> ProvideRequested() {
    bool more = false;
    for (int i = 0; i < context_.num_inputs(); ++i) {
      if (context_.requested_input_tensor(i) && !asked_[i]) more |= ProvideValue(i);
      if (!context_.requested_input_as_shape(i) || asked_as_shape_[i]) continue;
      more |= ProvideShape(i);
      // The message of TensorFlow does not name the node: the shape function has no part in it.
      if (values_[i] != nullptr) MR_RETURN_IF_ERROR(CheckSizes(*values_[i]));
    }
    return more;
  }
  static Status CheckSizes(const Tensor& value) {
    const auto sizes = IntegerValues(value);
    if (!sizes.ok() || value.rank() != 1) return Status();  // the shape function reports it
    const auto wrong = std::find_if(sizes->begin(), sizes->end(), [](int64_t n) { return n < -1; });
    if (wrong == sizes->end()) return Status();
    return errors::InvalidArgument("Invalid value in tensor used for shape: ", *wrong);
  }
  bool ProvideValue(int i) {
    asked_[i] = true;
    reusable_ = false;
    const Edge* edge = node_.in_edges()[i];
    if (edge == nullptr) return false;
    auto value = ConstantValue(*edge->src, edge->src_output, &refiner_);
    if (!value.ok()) return false;
    values_[i] = std::make_unique<Tensor>(*std::move(value));
    context_.set_input_tensor(i, values_[i].get());
    return true;
  }
  bool ProvideShape(int i) {
    asked_as_shape_[i] = true;
    reusable_ = false;
    const Edge* edge = node_.in_edges()[i];
    if (edge == nullptr || values_[i] != nullptr) return false;
    const std::optional<PartialShape> value = ConstantValueAsShape(*edge->src, edge->src_output, &refiner_);
    if (!value) return false;
    const auto shape = context_.MakeShapeFromPartial(*value);
    if (!shape.ok()) return false;
    context_.set_input_as_shape(i, *shape);
    as_shapes_[i] = *value;
    return true;
  }
  Status WithContext(const Status& status) {
    constexpr int kMaxInputs = 32;
    std::string text = StrCat(" for '", node_.name(), "' (op: '", node_.op_name(), "') with input shapes: ");
    for (int i = 0; i < context_.num_inputs() && i <= kMaxInputs; ++i) {
      text += i == 0 ? "" : ", ";
      text += i == kMaxInputs ? "..." : context_.DebugString(context_.input(i));
    }
    return status.WithContext(text + UsedValues() + ".");
  }

  // The shape that input i was found to describe; of unknown rank when none was.
  PartialShape AsShape(int i) const {
    if (values_[i] == nullptr) return as_shapes_[i];
    const auto numbers = IntegerValues(*values_[i]);
    if (!numbers.ok() || values_[i]->rank() != 1) return PartialShape();
    if (std::any_of(numbers->begin(), numbers->end(), [](int64_t n) { return n < -1; }))
      return PartialShape();
    return PartialShape(*numbers);
  }
  // " and with computed input tensors: input[1] = <2 3>" or similar, or empty when no value was used.
  std::string UsedValues() {
    std::vector<std::string> values, shapes;
    for (int i = 0; i < context_.num_inputs(); ++i) {
      if (!context_.requested_input_as_shape(i)) {
        if (values_[i] == nullptr) continue;
        if (std::string value = InputValue(i, *values_[i]); !value.empty())
          values.push_back(std::move(value));
      } else if (const PartialShape shape = AsShape(i); !shape.unknown_rank()) {
        shapes.push_back(StrCat("input[", i, "] = ", ShapeText(shape)));
      }
    }
    std::string text;
    if (!values.empty()) text += " and with computed input tensors: " + StrJoin(values, ", ");
    if (!shapes.empty())
      text += " and with input tensors computed as partial shapes: " + StrJoin(shapes, ",");
    return text;
  }

  const Node& node_;
  const ShapeRefiner& refiner_;
  InferenceContext context_;
  std::vector<std::unique_ptr<Tensor>> values_;
  std::vector<bool> asked_, asked_as_shape_;
  std::vector<PartialShape> as_shapes_;
  bool reusable_ = true;
};

}  // namespace

ShapeRefiner::ShapeRefiner(const Graph& graph, OpEvaluator evaluator)
    : state_(std::make_unique<State>(graph, evaluator)) {}
ShapeRefiner::~ShapeRefiner() = default;

Status ShapeRefiner::AddNode(const Node& node) {
  State& s = *state_;
  s.input_numbers.clear();
  for (const Edge* edge : node.data_in_edges()) {
    s.input_numbers.push_back(edge == nullptr ? 0 : s.NumberOf(*edge->src, edge->src_output));
  }
  if (&node.props() == s.last_props && s.input_numbers == s.last_inputs) {
    s.Store(node, s.last_outputs);
    return Status();
  }
  s.input_shapes.clear();
  for (const int number : s.input_numbers) s.input_shapes.push_back(*s.shapes[static_cast<size_t>(number)]);
  NodeInference inference(node, *this, s.input_shapes);
  if (!s.handles.empty()) inference.SetHandles();
  MR_RETURN_IF_ERROR(inference.Run());
  // For resources, the types and shapes of their values count, too.
  const std::vector<DataType>& types = node.props().input_types;
  bool reusable =
      inference.reusable() && std::find(types.begin(), types.end(), DataType::kResource) == types.end();
  const InferenceContext& c = inference.context();
  std::vector<int> numbers;
  numbers.reserve(static_cast<size_t>(node.num_outputs()));
  for (int i = 0; i < node.num_outputs(); ++i) {
    numbers.push_back(s.Intern(c.ToPartialShape(c.output(i))));
    if (c.output_handle(i).empty()) continue;
    const HandleShapeAndType& handle = c.output_handle(i).front();
    s.handles[State::Key(node, i)] = {c.ToPartialShape(handle.shape), handle.dtype};
    reusable = false;
  }
  s.Store(node, numbers);
  s.last_props = reusable ? &node.props() : nullptr;
  s.last_inputs.swap(s.input_numbers);
  s.last_outputs = std::move(numbers);
  return Status();
}

Status ShapeRefiner::MergeOutput(const Node& node, int output, const PartialShape& shape) {
  if (output < 0 || output >= node.num_outputs()) {
    return errors::InvalidArgument("Node '", node.name(), "' has no output ", output);
  }
  State& s = *state_;
  const auto id = static_cast<size_t>(node.id());
  if (id >= s.first.size() || s.first[id] < 0) {
    return errors::Internal("Could not find shape information for node '", node.name(), "'");
  }
  MR_ASSIGN_OR_RETURN(const PartialShape merged, OutputShape(node, output).MergeWith(shape));
  s.outputs[static_cast<size_t>(s.first[id] + output)] = s.Intern(merged);
  return Status();
}

void ShapeRefiner::ForgetNodesFrom(int first_id) {
  State& s = *state_;
  if (static_cast<size_t>(first_id) < s.first.size()) s.first.resize(static_cast<size_t>(first_id));
  std::erase_if(s.handles,
                [&](const auto& entry) { return entry.first >> 32 >= static_cast<uint64_t>(first_id); });
  std::erase_if(s.evaluated, [&](const auto& entry) { return entry.first >= first_id; });
  s.last_props = nullptr;  // another node's may get the same address
}

PartialShape ShapeRefiner::OutputShape(const Node& node, int output) const {
  return *state_->shapes[static_cast<size_t>(state_->NumberOf(node, output))];
}

bool ShapeRefiner::OutputHandle(const Node& node, int output, PartialShape* shape, DataType* dtype) const {
  const auto it = state_->handles.find(State::Key(node, output));
  if (it == state_->handles.end()) return false;
  *shape = it->second.shape;
  *dtype = it->second.dtype;
  return true;
}

void ShapeRefiner::SetOutputHandle(const Node& node, int output, const PartialShape& shape, DataType dtype) {
  state_->handles[State::Key(node, output)] = {shape, dtype};
}

void ShapeRefiner::ForgetLast() {
  state_->last_props = nullptr;
  state_->evaluated.clear();
}

bool ShapeRefiner::evaluates() const { return state_->evaluator != nullptr; }

const std::vector<Tensor>* ShapeRefiner::Evaluated(const Node& node) const {
  const auto it = state_->evaluated.find(node.id());
  return it == state_->evaluated.end() ? nullptr : &it->second;
}

const std::vector<Tensor>* ShapeRefiner::Evaluate(const Node& node, std::span<const Tensor> inputs) const {
  if (!evaluates()) return nullptr;
  auto values = state_->evaluator(node.name(), node.shared_props(), inputs);
  if (!values.ok() || values->size() != static_cast<size_t>(node.num_outputs())) return nullptr;
  return &(state_->evaluated[node.id()] = *std::move(values));
}

StatusOr<std::vector<std::vector<PartialShape>>> InferShapes(const Graph& graph) {
  MR_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(graph));
  ShapeRefiner refiner(graph);
  std::vector<std::vector<PartialShape>> shapes(static_cast<size_t>(graph.num_node_ids()));
  for (const Node* node : order) {
    if (!node->IsOp()) continue;
    MR_RETURN_IF_ERROR(refiner.AddNode(*node));
    std::vector<PartialShape>& of_node = shapes[static_cast<size_t>(node->id())];
    for (int i = 0; i < node->num_outputs(); ++i) of_node.push_back(refiner.OutputShape(*node, i));
  }
  return shapes;
}

}  // namespace millrace
