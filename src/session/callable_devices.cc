// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "session/callable_devices.h"

#include <map>
#include <string>
#include <vector>

#include "device/device_name.h"

namespace millrace {
namespace {

Status CheckDevice(const Graph& graph, const DeviceView& devices, const std::string& tensor,
                   const std::string& name) {
  if (!DeviceName::Parse(name).ok()) {
    return errors::InvalidArgument("Invalid device name ('", name, "') provided for the tensor '", tensor,
                                   "' in CallableOptions");
  }
  const DeviceDescription* const device = devices.Find(name);
  if (device == nullptr) {
    return errors::InvalidArgument("Device '", name, "' specified for tensor '", tensor,
                                   "' in CallableOptions does not exist");
  }
  if (device->type() == "CPU") return Status();
  const TensorId id = ParseTensorId(tensor);
  const Node* const node = graph.FindNode(id.name);
  // A name that is not in the graph is an error of the step.
  if (node == nullptr || id.index < 0 || id.index >= node->num_outputs()) return Status();
  return errors::Unimplemented("Cannot feed or fetch tensor '", id.ToString(), "' from device ", name,
                               " as feeding/fetching from ", device->type(),
                               " devices is not yet supported for ",
                               DataTypeName(BaseType(node->output_type(id.index))), " tensors");
}

// Names in `by_tensor` that are not among `tensors` are ignored, as in TensorFlow.
Status CheckAll(const Graph& graph, const DeviceView& devices, const std::vector<std::string>& tensors,
                const std::map<std::string, std::string>& by_tensor) {
  for (const std::string& tensor : tensors) {
    const auto device = by_tensor.find(tensor);
    if (device != by_tensor.end()) MR_RETURN_IF_ERROR(CheckDevice(graph, devices, tensor, device->second));
  }
  return Status();
}

}  // namespace

Status CheckCallableDevices(const Graph& graph, const DeviceView& devices, const CallableOptions& options) {
  MR_RETURN_IF_ERROR(CheckAll(graph, devices, options.feeds, options.feed_devices));
  MR_RETURN_IF_ERROR(CheckAll(graph, devices, options.fetches, options.fetch_devices));
  if (options.fetch_devices.empty() || options.fetch_skip_sync) return Status();
  return errors::Unimplemented(
      "CallableOptions.fetch_skip_sync = false is not yet implemented. You can set it to true instead, but "
      "MUST ensure that Device::Sync() is invoked on the Device corresponding to the fetched tensor before "
      "dereferencing the Tensor's memory.");
}

}  // namespace millrace
