// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compile/place/function_resources.h"
#include "compile/place/placer.h"

namespace millrace {

// The nodes of a graph in groups that must share a device, by union-find. A group has the combined requested
// device of its members, the types of devices for which all of them have kernels, and the device of a member
// that is already assigned. Groups are named by any member's id.
class ColocationGraph {
 public:
  // REQUIRES: both outlive this.
  ColocationGraph(const Graph& graph, const PlaceOptions& options);

  // One group per node; then unites nodes connected by references, resource handles and `_class`.
  Status Build();

  int Find(int id) const;
  // Nodes that have no kernel, allowed by PlaceOptions::leave_without_kernel.
  const std::unordered_set<int>& without_kernel() const { return without_kernel_; }
  // Devices that the group of `node` may use, best first: never empty when OK.
  StatusOr<const std::vector<const DeviceDescription*>*> Candidates(const Node& node);
  // The device that a member of the group has already; null if there is none.
  const DeviceDescription* AssignedDevice(int root) const {
    return members_[static_cast<size_t>(root)].assigned;
  }
  void Assign(int root, const DeviceDescription* device) {
    members_[static_cast<size_t>(root)].assigned = device;
  }

 private:
  using TypeMask = FunctionResources::TypeMask;

  struct Member {
    mutable int parent = 0;  // its own id: a root
    int spec = 0;            // index in specs_: the requested device of the group
    TypeMask types = 0;      // device types for which the group has kernels
    TypeMask usable = 0;     // those on which functions can use its resources, if there is one
    int size = 1;
    const DeviceDescription* assigned = nullptr;
  };

  Status AddNode(const Node& node);
  StatusOr<int> ParseSpec(const Node& node);
  TypeMask KernelTypes(const Node& node);
  Status NoKernel(const Node& node) const;
  Status ColocateByClass();
  Status ColocateByEdges(const Node& node);
  Status Unite(const Node& x, const Node& y);
  int InternSpec(const DeviceName& spec);
  std::vector<const DeviceDescription*> FindCandidates(int spec, TypeMask types) const;
  Status NoCandidateError(const Node& node) const;
  std::string GroupText(int root) const;
  std::string TypesText(TypeMask types) const;

  const Graph& graph_;
  const PlaceOptions& options_;
  std::vector<Member> members_;  // by node id
  std::vector<DeviceName> specs_;
  std::unordered_map<std::string, int> spec_index_;
  std::vector<int> spec_of_device_;  // by requested device index; -1: not parsed yet
  std::unordered_map<const NodeProps*, TypeMask> kernel_types_;
  FunctionResources function_resources_;
  std::unordered_set<int> without_kernel_;
  std::unordered_map<std::string, std::vector<const DeviceDescription*>> candidates_;
  // The last query: most nodes of a graph are alike.
  int last_spec_ = -1;
  TypeMask last_types_ = 0;
  TypeMask last_usable_ = 0;
  const std::vector<const DeviceDescription*>* last_candidates_ = nullptr;
};

}  // namespace millrace
