// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/place/colocation_graph.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace millrace {
namespace {

constexpr std::string_view kLoc = "loc:@";
constexpr size_t kMaxTypes = 64;

// _Arg, _Retval, _Send and _Recv carry values across borders, and need no colocation.
bool IsBorder(const Node& node) { return node.op_name().starts_with('_'); }

}  // namespace

ColocationGraph::ColocationGraph(const Graph& graph, const PlaceOptions& options)
    : graph_(graph), options_(options), function_resources_(graph, options) {
  InternSpec(DeviceName());
}

int ColocationGraph::InternSpec(const DeviceName& spec) {
  const auto [it, is_new] = spec_index_.try_emplace(spec.ToString(), static_cast<int>(specs_.size()));
  if (is_new) specs_.push_back(spec);
  return it->second;
}

int ColocationGraph::Find(int id) const {
  while (members_[static_cast<size_t>(id)].parent != id) {
    // Path halving.
    const Member& member = members_[static_cast<size_t>(id)];
    member.parent = members_[static_cast<size_t>(member.parent)].parent;
    id = member.parent;
  }
  return id;
}

Status ColocationGraph::Build() {
  if (options_.devices->devices().empty()) return errors::Internal("No devices are registered");
  if (options_.devices->types().size() > kMaxTypes) {
    return errors::Unimplemented("More than ", kMaxTypes, " types of devices");
  }
  members_.resize(static_cast<size_t>(graph_.num_node_ids()));
  for (int id = 2; id < graph_.num_node_ids(); ++id) {
    if (graph_.node(id) != nullptr) MR_RETURN_IF_ERROR(AddNode(*graph_.node(id)));
  }
  MR_RETURN_IF_ERROR(ColocateByClass());
  for (int id = 2; id < graph_.num_node_ids(); ++id) {
    if (graph_.node(id) != nullptr) MR_RETURN_IF_ERROR(ColocateByEdges(*graph_.node(id)));
  }
  return Status();
}

StatusOr<int> ColocationGraph::ParseSpec(const Node& node) {
  const auto device = static_cast<size_t>(node.requested_device_index());
  if (device == 0) return 0;
  if (device >= spec_of_device_.size()) spec_of_device_.resize(device + 1, -1);
  if (spec_of_device_[device] < 0) {
    const auto spec = DeviceName::Parse(node.requested_device());
    if (!spec.ok()) {
      return spec.status().WithContext(
          StrCat("; requested by node '", node.name(), "' (op ", node.op_name(), ")"));
    }
    spec_of_device_[device] = InternSpec(*spec);
  }
  return spec_of_device_[device];
}

ColocationGraph::TypeMask ColocationGraph::KernelTypes(const Node& node) {
  const auto [it, is_new] = kernel_types_.try_emplace(&node.props(), 0);
  if (!is_new) return it->second;
  const std::vector<std::string>& types = options_.devices->types();
  for (size_t i = 0; i < types.size(); ++i) {
    if (options_.has_kernel(types[i], node.props())) it->second |= TypeMask{1} << i;
  }
  return it->second;
}

Status ColocationGraph::NoKernel(const Node& node) const {
  std::vector<std::string> attrs;
  for (const auto& [name, value] : node.attrs()) attrs.push_back(StrCat(name, "=", value.ToString()));
  return errors::InvalidArgument(
      "No OpKernel was registered to support Op '", node.op_name(), "' used by {{node ", node.name(),
      "}}with these attrs: [", StrJoin(attrs, ", "), "]\nRegistered devices: [",
      StrJoin(options_.devices->types(), ", "), "]\nRegistered kernels:\n",
      options_.kernels_text ? options_.kernels_text(node.op_name()) : "", "\n\t [[", node.name(), "]]");
}

Status ColocationGraph::AddNode(const Node& node) {
  Member& member = members_[static_cast<size_t>(node.id())];
  member.parent = node.id();
  if (node.has_assigned_device()) {
    member.assigned = options_.devices->Find(node.assigned_device());
    if (member.assigned == nullptr) {
      return errors::Internal("Assigned device '", node.assigned_device(), "' of node '", node.name(),
                              "' does not match any device");
    }
  }
  MR_ASSIGN_OR_RETURN(member.spec, ParseSpec(node));
  member.types = KernelTypes(node);
  member.usable = function_resources_.Types(node);
  if (member.types == 0 && member.assigned == nullptr) {
    if (!options_.leave_without_kernel) return NoKernel(node);
    without_kernel_.insert(node.id());
    member.types = ~TypeMask{0} >> (kMaxTypes - options_.devices->types().size());
  }
  return Status();
}

// Groups are named after a node that need not exist; nodes with the same name of a group belong together.
Status ColocationGraph::ColocateByClass() {
  std::unordered_map<std::string_view, const Node*> groups;
  for (int id = 2; id < graph_.num_node_ids(); ++id) {
    const Node* node = graph_.node(id);
    const AttrValue* value = node == nullptr ? nullptr : node->attrs().Find("_class");
    if (value == nullptr) continue;
    const auto* classes = value->As<std::vector<std::string>>();
    if (classes == nullptr) continue;
    for (const std::string& entry : *classes) {
      if (!entry.starts_with(kLoc)) continue;
      const std::string_view name = std::string_view(entry).substr(kLoc.size());
      const auto [it, is_new] = groups.try_emplace(name, node);
      const Node* first = is_new ? graph_.FindNode(name) : it->second;
      if (first != nullptr && first->IsOp()) MR_RETURN_IF_ERROR(Unite(*first, *node));
    }
  }
  return Status();
}

Status ColocationGraph::ColocateByEdges(const Node& node) {
  if (IsBorder(node)) return Status();
  for (int i = 0; i < node.num_inputs(); ++i) {
    const DataType type = node.input_type(i);
    if (!IsRefType(type) && type != DataType::kResource) continue;
    const Edge* edge = node.in_edges()[static_cast<size_t>(i)];
    if (edge == nullptr || IsBorder(*edge->src)) continue;
    const Status status = Unite(*edge->src, node);
    if (status.ok()) continue;
    return errors::InvalidArgument(
        "Nodes were connected by a ", IsRefType(type) ? "reference" : "resource",
        " connection (requiring them to be on the same device), but the two nodes could "
        "not be colocated: ",
        status.message());
  }
  return Status();
}

Status ColocationGraph::Unite(const Node& x, const Node& y) {
  int into = Find(x.id());
  int from = Find(y.id());
  if (into == from) return Status();
  Member* a = &members_[static_cast<size_t>(into)];
  Member* b = &members_[static_cast<size_t>(from)];
  const std::string who = StrCat("Cannot colocate nodes '", x.name(), "' and '", y.name(), "'");
  if (a->assigned != nullptr && b->assigned != nullptr && a->assigned != b->assigned) {
    return errors::InvalidArgument(who, " because they are assigned to different devices: '",
                                   a->assigned->name(), "' and '", b->assigned->name(), "'");
  }
  DeviceName merged = specs_[static_cast<size_t>(a->spec)];
  if (a->spec != b->spec) {
    const Status status =
        merged.MergeFrom(specs_[static_cast<size_t>(b->spec)], options_.compile.allow_soft_placement);
    if (!status.ok()) return errors::InvalidArgument(who, ": ", status.message());
  }
  const DeviceDescription* assigned = a->assigned != nullptr ? a->assigned : b->assigned;
  if ((a->types & b->types) == 0 && assigned == nullptr) {
    return errors::InvalidArgument(who,
                                   " because no device type supports both of those nodes and the other nodes "
                                   "colocated with them.",
                                   GroupText(into), GroupText(from));
  }
  if (a->size < b->size) {
    std::swap(into, from);
    std::swap(a, b);
  }
  if (a->spec != b->spec) a->spec = InternSpec(merged);
  a->types &= b->types;
  a->usable &= b->usable;
  a->size += b->size;
  a->assigned = assigned;
  b->parent = into;
  return Status();
}

std::string ColocationGraph::TypesText(TypeMask types) const {
  std::string out;
  for (size_t i = 0; i < options_.devices->types().size(); ++i) {
    if ((types >> i & 1) != 0) out += options_.devices->types()[i] + " ";
  }
  return out;
}

std::string ColocationGraph::GroupText(int root) const {
  constexpr int kMaxLines = 20;
  std::string out = "\nColocation Debug Info:\nColocation group had the following types and devices: ";
  int lines = 0;
  for (int id = 2; id < graph_.num_node_ids() && lines < kMaxLines; ++id) {
    const Node* node = graph_.node(id);
    if (node == nullptr || Find(id) != root) continue;
    const auto known = kernel_types_.find(&node->props());
    out += StrCat("\n", node->op_name(), ": ", known == kernel_types_.end() ? "" : TypesText(known->second));
    ++lines;
  }
  return out;
}

std::vector<const DeviceDescription*> ColocationGraph::FindCandidates(int spec, TypeMask types) const {
  std::vector<const DeviceDescription*> found;
  const auto collect = [&](const DeviceName& name) {
    for (const DeviceDescription* device : options_.devices->Matching(name)) {
      const std::vector<std::string>& all = options_.devices->types();
      const auto type = std::find(all.begin(), all.end(), device->type()) - all.begin();
      if ((types >> type & 1) != 0) found.push_back(device);
    }
  };
  DeviceName name = specs_[static_cast<size_t>(spec)];
  collect(name);
  if (found.empty() && options_.compile.allow_soft_placement) {
    name.type.reset();
    name.index.reset();
    collect(name);
  }
  return found;
}

StatusOr<const std::vector<const DeviceDescription*>*> ColocationGraph::Candidates(const Node& node) {
  const Member& root = members_[static_cast<size_t>(Find(node.id()))];
  if (root.spec != last_spec_ || root.types != last_types_ || root.usable != last_usable_) {
    const std::string key =
        StrCat(std::to_string(root.spec), ",", std::to_string(root.types), ",", std::to_string(root.usable));
    const auto [it, is_new] = candidates_.try_emplace(key);
    if (is_new) it->second = FindCandidates(root.spec, root.types & root.usable);
    // Calls that cannot use a resource where it has to be fail when they run.
    if (is_new && it->second.empty()) it->second = FindCandidates(root.spec, root.types);
    last_spec_ = root.spec;
    last_types_ = root.types;
    last_usable_ = root.usable;
    last_candidates_ = &it->second;
  }
  if (last_candidates_->empty()) return NoCandidateError(node);
  return last_candidates_;
}

Status ColocationGraph::NoCandidateError(const Node& node) const {
  const int root = Find(node.id());
  const DeviceName& wanted = specs_[static_cast<size_t>(members_[static_cast<size_t>(root)].spec)];
  const std::string prefix = StrCat("Cannot assign a device for operation ", node.name(), ": ");
  const auto own = DeviceName::Parse(node.requested_device());
  if (!own.ok() || *own != wanted) {
    return errors::InvalidArgument(prefix, "Could not satisfy explicit device specification '",
                                   node.requested_device(),
                                   "' because the node was colocated with a group of nodes that required "
                                   "incompatible device '",
                                   wanted.ToString(), "'", GroupText(root));
  }
  if (options_.devices->Matching(wanted).empty()) {
    std::vector<std::string> names;
    for (const auto& device : options_.devices->devices()) names.push_back(device->name());
    std::sort(names.begin(), names.end());
    return errors::InvalidArgument(
        prefix, "{{node ", node.name(), "}} was explicitly assigned to ", node.requested_device(),
        " but available devices are [ ", StrJoin(names, ", "),
        " ]. Make sure the device specification refers to a valid device.\n\t [[", node.name(), "]]");
  }
  return errors::InvalidArgument(prefix, "Could not satisfy explicit device specification '",
                                 node.requested_device(), "' because no supported kernel for ",
                                 wanted.type.value_or("those"), " devices is available.", GroupText(root));
}

}  // namespace millrace
