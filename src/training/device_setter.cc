// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/strings.h"
#include "device/device_name.h"
#include "millrace/replicas.h"

namespace millrace {
namespace {

// Ops with state that replicas share.
constexpr const char* kPsOps[] = {"Variable",
                                  "VariableV2",
                                  "AutoReloadVariable",
                                  "MutableHashTable",
                                  "MutableHashTableV2",
                                  "MutableHashTableOfTensors",
                                  "MutableHashTableOfTensorsV2",
                                  "MutableDenseHashTable",
                                  "MutableDenseHashTableV2",
                                  "VarHandleOp",
                                  "BoostedTreesEnsembleResourceHandleOp",
                                  "BoostedTreesQuantileStreamResourceHandleOp"};

StatusOr<std::string> ChooseDevice(const ReplicaDeviceOptions& options, const NodeToPlace& node) {
  if (!options.merge_devices && !node.device.empty()) return node.device;
  MR_ASSIGN_OR_RETURN(const DeviceName wanted, DeviceName::Parse(node.device));
  const bool is_variable =
      std::find(options.ps_ops.begin(), options.ps_ops.end(), node.op) != options.ps_ops.end();
  MR_ASSIGN_OR_RETURN(DeviceName device,
                      DeviceName::Parse(is_variable ? options.ps_device : options.worker_device));
  if (is_variable && device.job.has_value() && (!wanted.job.has_value() || wanted.job == device.job)) {
    MR_ASSIGN_OR_RETURN(device.task, options.strategy(node));
  }
  return device.OverriddenBy(wanted).ToString();
}

}  // namespace

PlacementStrategy RoundRobinStrategy(int num_tasks) {
  return [num_tasks, next = 0](const NodeToPlace&) mutable -> StatusOr<int> {
    if (num_tasks < 1) return errors::InvalidArgument("there are ", num_tasks, " parameter servers");
    const int task = next;
    next = (next + 1) % num_tasks;
    return task;
  };
}

StatusOr<double> ByteSizeLoad(const NodeToPlace& node) {
  const auto shape = node.shape.ToTensorShape();
  const size_t size = DataTypeSize(node.dtype);
  if (!shape.ok() || size == 0) {
    return errors::InvalidArgument("the bytes of a variable of ", node.dtype, " of shape ", node.shape,
                                   " are not known");
  }
  return static_cast<double>(size) * static_cast<double>(shape->num_elements());
}

PlacementStrategy GreedyLoadBalancingStrategy(int num_tasks, LoadFn load) {
  return [load = std::move(load), loads = std::vector<double>(static_cast<size_t>(std::max(num_tasks, 0)))](
             const NodeToPlace& node) mutable -> StatusOr<int> {
    if (loads.empty()) return errors::InvalidArgument("there are no parameter servers");
    if (load == nullptr)
      return errors::InvalidArgument("GreedyLoadBalancingStrategy has no function for loads");
    const auto least = std::min_element(loads.begin(), loads.end());
    MR_ASSIGN_OR_RETURN(const double more, load(node));
    *least += more;
    return static_cast<int>(least - loads.begin());
  };
}

DeviceFunction ReplicaDeviceSetter(ReplicaDeviceOptions options) {
  if (options.ps_tasks <= 0) return nullptr;
  if (options.ps_ops.empty()) options.ps_ops.assign(std::begin(kPsOps), std::end(kPsOps));
  if (options.strategy == nullptr) options.strategy = RoundRobinStrategy(options.ps_tasks);
  return [options = std::move(options)](const NodeToPlace& node) { return ChooseDevice(options, node); };
}

}  // namespace millrace
