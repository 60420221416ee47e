// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/graph_import.h"

#include <algorithm>
#include <climits>
#include <unordered_map>
#include <utility>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "graph/function_body.h"
#include "graph/function_library.h"
#include "graph/node_def_text.h"
#include "graph/shape_refiner.h"
#include "graph/upgrade.h"
#include "op/attr_codec.h"
#include "op/function_attrs.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

// All input and output slots of one GraphDef together; a number attribute could require more than there is
// memory.
constexpr int64_t kMaxSlots = int64_t{1} << 26;

GraphVersions VersionsOf(const tensorflow::GraphDef& def) {
  GraphVersions versions;
  versions.producer = def.versions().producer();
  versions.min_consumer = def.versions().min_consumer();
  versions.bad_consumers.assign(def.versions().bad_consumers().begin(), def.versions().bad_consumers().end());
  return versions;
}

// Adds one GraphDef to a graph. Nodes are added as they are read; the caller removes them on error.
class Importer {
 public:
  // `given` is null or `def`, whose tensors may then be taken out.
  Importer(const tensorflow::GraphDef& def, tensorflow::GraphDef* given, const ImportOptions& options,
           Graph* graph)
      : def_(def), given_(given), options_(options), graph_(graph), first_id_(graph->num_node_ids()) {}

  Status Run() {
    MR_RETURN_IF_ERROR(AddFunctions());
    MR_RETURN_IF_ERROR(AddNodes());
    MR_RETURN_IF_ERROR(AddInputs());
    MR_RETURN_IF_ERROR(OrderNodes());
    if (options_.validate_shapes) MR_RETURN_IF_ERROR(InferNewShapes());
    graph_->FixupSourceAndSinkEdges();
    return Status();
  }

 private:
  using NodeDef = tensorflow::NodeDef;
  using NodeOutput = std::pair<Node*, int>;

  // An op that the GraphDef uses, with the kind of its last node.
  struct OpEntry {
    const OpRegistration* op = nullptr;
    bool has_later_attrs = false;
    AttrMap attrs;
    std::shared_ptr<const NodeProps> props;
  };

  Status AddFunctions();
  Status AddNodes();
  Status AddNode(const NodeDef& def, int index);
  StatusOr<std::string> NewNodeName(const NodeDef& def) const;
  StatusOr<OpEntry*> FindOp(const NodeDef& def);
  StatusOr<std::shared_ptr<const NodeProps>> MakeProps(const NodeDef& def, int index);
  void RenameColocation(AttrMap* attrs) const;
  Status AddInputs();
  Status AddNodeInputs(const NodeDef& def, Node* node);
  Status AddDataInput(const NodeDef& def, Node* node, int slot);
  Status AddControlInput(const NodeDef& def, Node* node, std::string_view input);
  StatusOr<NodeOutput> Resolve(const NodeDef& def, std::string_view input) const;
  Status OrderNodes();
  void InferOldShapes(ShapeRefiner* shapes) const;
  Status InferNewShapes();
  Status MergeDeclaredShapes(const Node& node, ShapeRefiner* shapes) const;

  bool renames() const { return !options_.prefix.empty() || options_.uniquify_names; }
  Node* NodeOf(int index) const { return graph_->node(first_id_ + index); }
  int Find(std::string_view name) const {
    return by_name_.Find(name, [this](int i) -> const std::string& { return def_.node(i).name(); });
  }

  const tensorflow::GraphDef& def_;
  tensorflow::GraphDef* const given_;
  const ImportOptions& options_;
  Graph* const graph_;
  const int first_id_;
  NameTable by_name_;  // position in def_ by name in def_
  std::unordered_map<std::string_view, OpEntry> ops_;
  int64_t slots_ = 0;
  int64_t tensor_bytes_ = 0;
  std::vector<int> control_of_;     // by node id: the node with the newest control edge from that node
  std::vector<const Node*> order_;  // the new nodes, inputs first
};

// Bodies are checked when all functions are added: they may call each other.
Status Importer::AddFunctions() {
  const FunctionLibrary before = graph_->functions();
  MR_RETURN_IF_ERROR(graph_->functions().AddLibrary(def_.library()));
  for (const tensorflow::FunctionDef& function : def_.library().function()) {
    const std::string& name = function.signature().name();
    if (before.Find(name) != nullptr) continue;
    if (graph_->ops().LookUp(name).ok()) {
      return errors::InvalidArgument("Cannot add function '", name,
                                     "' because an op with the same name already exists.");
    }
    MR_RETURN_IF_ERROR(ValidateFunction(graph_->functions(), graph_->ops(), function));
  }
  return Status();
}

Status Importer::AddNodes() {
  if (def_.node_size() > options_.max_nodes) {
    return errors::InvalidArgument("The GraphDef has ", def_.node_size(), " nodes, more than the limit of ",
                                   options_.max_nodes);
  }
  by_name_.Reserve(static_cast<size_t>(def_.node_size()));
  // All names exist before a colocation group is renamed.
  for (int i = 0; i < def_.node_size(); ++i) {
    const std::string& name = def_.node(i).name();
    if (!IsValidNodeName(name, options_.allow_internal_ops)) {
      return errors::InvalidArgument("Node '", name, "': Node name contains invalid characters");
    }
    if (Find(name) >= 0) return errors::InvalidArgument("Node '", name, "' is not unique");
    by_name_.Insert(name, i);
  }
  for (int i = 0; i < def_.node_size(); ++i) MR_RETURN_IF_ERROR(AddNode(def_.node(i), i));
  return Status();
}

StatusOr<std::string> Importer::NewNodeName(const NodeDef& def) const {
  std::string name = options_.prefix.empty() ? def.name() : StrCat(options_.prefix, "/", def.name());
  if (options_.uniquify_names) return graph_->NewName(name);
  if (graph_->FindNode(name) != nullptr) {
    return errors::AlreadyExists("Node name '", name, "' already exists in the Graph");
  }
  return name;
}

StatusOr<Importer::OpEntry*> Importer::FindOp(const NodeDef& def) {
  OpEntry& entry = ops_[def.op()];
  if (entry.op != nullptr) return &entry;
  if (!options_.allow_internal_ops && IsReservedOp(def.op())) {
    return errors::InvalidArgument("Node '", def.name(), "': op type '", def.op(), "' is internal");
  }
  MR_ASSIGN_OR_RETURN(const OpRegistration* op, graph_->LookUpOp(def.op()));
  if (!options_.allow_removed_ops) {
    MR_RETURN_IF_ERROR(CheckOpDeprecation(op->def, graph_->versions().producer));
  }
  entry.op = op;
  entry.has_later_attrs = HasLaterAttrs(def.op());
  return &entry;
}

// "loc:@a" follows the new name of `a`.
void Importer::RenameColocation(AttrMap* attrs) const {
  constexpr std::string_view kLoc = "loc:@";
  const AttrValue* value = attrs->Find("_class");
  const auto* list = value == nullptr ? nullptr : value->As<std::vector<std::string>>();
  if (list == nullptr) return;
  std::vector<std::string> renamed = *list;
  for (std::string& entry : renamed) {
    if (!entry.starts_with(kLoc)) continue;
    const std::string_view name = std::string_view(entry).substr(kLoc.size());
    const int index = Find(name);
    const Node* node = index >= 0 && first_id_ + index < graph_->num_node_ids() ? NodeOf(index) : nullptr;
    if (node != nullptr) {
      entry = StrCat(kLoc, node->name());
    } else if (!options_.prefix.empty()) {
      entry = StrCat(kLoc, options_.prefix, "/", name);
    }
  }
  attrs->Set("_class", std::move(renamed));
}

StatusOr<std::shared_ptr<const NodeProps>> Importer::MakeProps(const NodeDef& def, int index) {
  MR_ASSIGN_OR_RETURN(OpEntry * entry, FindOp(def));
  const auto with_node = [&](const Status& s) {
    return s.WithContext(StrCat("; NodeDef: ", NodeTag(def.name())));
  };
  for (const auto& [name, value] : def.attr()) tensor_bytes_ += DeclaredTensorBytes(value);
  if (tensor_bytes_ > options_.max_tensor_bytes) {
    return with_node(errors::ResourceExhausted("The tensors of the GraphDef need more than ",
                                               options_.max_tensor_bytes, " bytes"));
  }
  auto attrs = given_ == nullptr ? AttrMapFromProto(def.attr())
                                 : TakeAttrMapFromProto(given_->mutable_node(index)->mutable_attr());
  if (!attrs.ok()) return with_node(attrs.status());
  UpgradeAttrs(def.op(), def_.versions().producer(), &*attrs);
  if (entry->has_later_attrs) DropLaterAttrs(entry->op->def, &*attrs);
  if (!options_.allow_internal_ops) DropOwnAttrs(def.op(), &*attrs);
  if (renames()) RenameColocation(&*attrs);
  if (entry->props != nullptr && entry->attrs == *attrs) return entry->props;
  AttrMap known = *attrs;
  if (options_.drop_unknown_attrs) {
    for (const auto& [name, value] : *attrs) {
      if (!name.starts_with('_') && entry->op->def.FindAttr(name) == nullptr) known.Erase(name);
    }
  }
  const OpDef& op = entry->op->def;
  if (!options_.add_default_attrs) {
    if (const Status s = ValidateAttrs(op, known); !s.ok()) return WithNodeName(s, op, def.name());
  }
  auto props = NodeProps::Make(*entry->op, std::move(known));
  if (!props.ok()) return WithNodeName(props.status(), op, def.name());
  entry->attrs = *std::move(attrs);
  entry->props =
      graph_->functions().Find(op.name) == nullptr ? *std::move(props) : WithKeptTypes(*std::move(props));
  return entry->props;
}

Status Importer::AddNode(const NodeDef& def, int index) {
  MR_ASSIGN_OR_RETURN(std::shared_ptr<const NodeProps> props, MakeProps(def, index));
  slots_ += static_cast<int64_t>(props->input_types.size() + props->output_types.size());
  if (slots_ > kMaxSlots) {
    return errors::ResourceExhausted("The nodes up to '", def.name(), "' have more than ", kMaxSlots,
                                     " inputs and outputs");
  }
  MR_ASSIGN_OR_RETURN(const std::string name, NewNodeName(def));
  Node* node = graph_->AddNodeWithProps(name, std::move(props));
  if (node->id() != first_id_ + index) return errors::Internal("Import gave node '", name, "' a wrong id");
  const std::string& device = def.device().empty() ? options_.default_device : def.device();
  if (!device.empty()) node->set_requested_device(device);
  return Status();
}

// The tensor (or, with index -1, the node) that `input` of `def` names.
StatusOr<Importer::NodeOutput> Importer::Resolve(const NodeDef& def, std::string_view input) const {
  const TensorId id = ParseTensorId(input);
  if (!options_.input_map.empty()) {
    const auto it = options_.input_map.find(id.index == Edge::kControlSlot ? id.ToString()
                                                                           : StrCat(id.name, ":", id.index));
    if (it != options_.input_map.end()) return it->second;
  }
  Node* node = nullptr;
  if (const int index = Find(id.name); index >= 0) {
    node = NodeOf(index);
  } else if (options_.inputs_from_graph) {
    node = graph_->FindNode(id.name);
  }
  if (node == nullptr || !node->IsOp()) {
    return errors::InvalidArgument("Node '", def.name(), "': Unknown input node '", input, "'");
  }
  return NodeOutput(node, id.index);
}

Status Importer::AddDataInput(const NodeDef& def, Node* node, int slot) {
  MR_ASSIGN_OR_RETURN(const NodeOutput source, Resolve(def, def.input(slot)));
  const auto [src, output] = source;
  if (output < 0 || output >= src->num_outputs()) {
    return errors::InvalidArgument("Node '", def.name(), "': Connecting to invalid output ", output,
                                   " of source node ", src->name(), " which has ", src->num_outputs(),
                                   " outputs");
  }
  const DataType given = src->output_type(output);
  const DataType wanted = node->input_type(slot);
  if (given != wanted && (IsRefType(wanted) || BaseType(given) != wanted)) {
    return errors::InvalidArgument("Input ", slot, " of node ", node->name(), " was passed ",
                                   DataTypeName(given), " from ", src->name(), ":", output,
                                   " incompatible with expected ", DataTypeName(wanted), ".");
  }
  graph_->AddEdge(src, output, node, slot);
  return Status();
}

Status Importer::AddControlInput(const NodeDef& def, Node* node, std::string_view input) {
  MR_ASSIGN_OR_RETURN(const NodeOutput source, Resolve(def, input));
  // A repeated dependency has no effect.
  int& newest = control_of_[source.first->id()];
  if (newest == node->id()) return Status();
  newest = node->id();
  graph_->AddControlEdgeUnchecked(source.first, node);
  return Status();
}

Status Importer::AddNodeInputs(const NodeDef& def, Node* node) {
  int num_data = 0;
  while (num_data < def.input_size() && !def.input(num_data).starts_with('^')) ++num_data;
  for (int i = num_data; i < def.input_size(); ++i) {
    if (!def.input(i).starts_with('^')) {
      return errors::InvalidArgument("Node '", def.name(),
                                     "': Control dependencies must come after regular dependencies");
    }
  }
  if (num_data != node->num_inputs()) {
    return errors::InvalidArgument("NodeDef expected inputs '", DataTypesText(node->props().input_types),
                                   "' do not match ", num_data, " inputs specified; ",
                                   SummarizeOp(node->op_def()), "; NodeDef: {{node ", def.name(), "}}");
  }
  for (int i = 0; i < num_data; ++i) MR_RETURN_IF_ERROR(AddDataInput(def, node, i));
  for (int i = num_data; i < def.input_size(); ++i)
    MR_RETURN_IF_ERROR(AddControlInput(def, node, def.input(i)));
  return Status();
}

Status Importer::AddInputs() {
  control_of_.assign(static_cast<size_t>(graph_->num_node_ids()), -1);
  for (int i = 0; i < def_.node_size(); ++i) {
    Node* node = NodeOf(i);
    MR_RETURN_IF_ERROR(AddNodeInputs(def_.node(i), node));
    if (options_.control_dependencies.empty()) continue;
    const auto is_new = [&](const Edge* edge) { return edge->src->id() >= first_id_; };
    if (std::any_of(node->in_edges().begin(), node->in_edges().end(), is_new)) continue;
    for (Node* dependency : options_.control_dependencies) graph_->AddControlEdge(dependency, node);
  }
  return Status();
}

// Nothing outside depends on a new node, so a cycle has new nodes only.
Status Importer::OrderNodes() {
  std::vector<int> waiting(static_cast<size_t>(def_.node_size()), 0);
  const auto waits_for = [&](const Edge* edge) {
    return edge->src->id() >= first_id_ && !IsLoopBackEdge(*edge);
  };
  order_.reserve(waiting.size());
  for (size_t i = 0; i < waiting.size(); ++i) {
    Node* node = NodeOf(static_cast<int>(i));
    for (const Edge* edge : node->in_edges()) waiting[i] += waits_for(edge) ? 1 : 0;
    if (waiting[i] == 0) order_.push_back(node);
  }
  for (size_t next = 0; next < order_.size(); ++next) {
    for (const Edge* edge : order_[next]->out_edges()) {
      if (waits_for(edge) && --waiting[edge->dst->id() - first_id_] == 0) order_.push_back(edge->dst);
    }
  }
  if (order_.size() == waiting.size()) return Status();
  return errors::InvalidArgument(waiting.size() - order_.size(), " nodes in a cycle");
}

Status Importer::MergeDeclaredShapes(const Node& node, ShapeRefiner* shapes) const {
  const AttrValue* declared = node.attrs().Find("_output_shapes");
  const auto* list = declared == nullptr ? nullptr : declared->As<std::vector<PartialShape>>();
  if (list == nullptr || list->size() != node.props().output_types.size()) return Status();
  for (int i = 0; i < node.num_outputs(); ++i) {
    const Status status = shapes->MergeOutput(node, i, (*list)[i]);
    if (!status.ok()) {
      return errors::InvalidArgument(
          "Node '", node.name(),
          "' has an _output_shapes attribute inconsistent with the GraphDef for output #", i, ": ",
          status.message());
    }
  }
  return Status();
}

// Visits the old nodes on which new ones depend: depth first, without recursion.
void Importer::InferOldShapes(ShapeRefiner* shapes) const {
  std::vector<bool> seen(static_cast<size_t>(first_id_), false);
  std::vector<std::pair<const Node*, size_t>>
      path;  // nodes whose inputs are being followed, with the next input
  const auto enter = [&](const Edge* edge) {
    const auto id = static_cast<size_t>(edge->src->id());
    if (edge->IsControl() || id >= seen.size() || seen[id]) return;
    seen[id] = true;
    path.emplace_back(edge->src, 0);
  };
  for (const Node* node : order_) {
    for (const Edge* edge : node->data_in_edges()) {
      enter(edge);
      while (!path.empty()) {
        const Node* old = path.back().first;
        const size_t next = path.back().second++;
        if (next < old->data_in_edges().size()) {
          if (old->in_edges()[next] != nullptr) enter(old->in_edges()[next]);
          continue;
        }
        path.pop_back();
        shapes->AddNode(*old).IgnoreError("the node was accepted before; its shape stays unknown");
      }
    }
  }
}

Status Importer::InferNewShapes() {
  ShapeRefiner own(*graph_);
  ShapeRefiner& shapes = options_.shapes == nullptr ? own : *options_.shapes;
  if (first_id_ > 2 && options_.shapes == nullptr) InferOldShapes(&shapes);
  for (const Node* node : order_) {
    MR_RETURN_IF_ERROR(shapes.AddNode(*node));
    MR_RETURN_IF_ERROR(MergeDeclaredShapes(*node, &shapes));
  }
  return Status();
}

Status Import(const tensorflow::GraphDef& def, tensorflow::GraphDef* given, const ImportOptions& options,
              Graph* graph) {
  const GraphVersions old_versions = graph->versions();
  GraphVersions versions = VersionsOf(def);
  MR_RETURN_IF_ERROR(CheckGraphVersions(def));
  if (graph->num_nodes() > 2) {
    versions.producer = std::min(versions.producer, old_versions.producer);
    versions.min_consumer = std::max(versions.min_consumer, old_versions.min_consumer);
    versions.bad_consumers.insert(versions.bad_consumers.end(), old_versions.bad_consumers.begin(),
                                  old_versions.bad_consumers.end());
    std::sort(versions.bad_consumers.begin(), versions.bad_consumers.end());
    versions.bad_consumers.erase(std::unique(versions.bad_consumers.begin(), versions.bad_consumers.end()),
                                 versions.bad_consumers.end());
  }
  const int first_id = graph->num_node_ids();
  const FunctionLibrary old_functions = graph->functions();
  graph->set_versions(std::move(versions));
  Status status = Importer(def, given, options, graph).Run();
  if (!status.ok()) {
    graph->RemoveNodesFrom(first_id);
    if (options.shapes != nullptr) options.shapes->ForgetNodesFrom(first_id);
    graph->functions() = old_functions;
    graph->set_versions(old_versions);
  }
  return status;
}

}  // namespace

Status ImportGraphDef(const tensorflow::GraphDef& def, const ImportOptions& options, Graph* graph) {
  return Import(def, nullptr, options, graph);
}

Status ImportGraphDef(tensorflow::GraphDef&& def, const ImportOptions& options, Graph* graph) {
  return Import(def, &def, options, graph);
}

Status ParseGraphDef(std::string_view bytes, tensorflow::GraphDef* def) {
  if (bytes.size() > INT_MAX)
    return errors::InvalidArgument("Invalid GraphDef: ", bytes.size(), " bytes are too many");
  google::protobuf::io::ArrayInputStream array(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream stream(&array);
  stream.SetTotalBytesLimit(INT_MAX);
  if (!def->ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    return errors::InvalidArgument("Invalid GraphDef");
  }
  return Status();
}

}  // namespace millrace
