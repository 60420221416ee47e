// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/debug/dump.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "base/env.h"
#include "base/strings.h"
#include "io/match_files.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/summary.pb.h"
#include "tensorflow/core/util/event.pb.h"

namespace millrace {
namespace {

constexpr std::string_view kFile = "file://";

// "node:1" as the node's name and "1".
std::pair<std::string_view, std::string_view> Split(std::string_view tensor) {
  const size_t colon = tensor.rfind(':');
  if (colon == std::string_view::npos) return {tensor, "0"};
  return {tensor.substr(0, colon), tensor.substr(colon + 1)};
}

tensorflow::Event EventOf(const DumpKey& key, const Tensor& value, int64_t micros) {
  const auto [node, slot] = Split(key.tensor);
  tensorflow::Event event;
  event.set_wall_time(static_cast<double>(micros));
  tensorflow::Summary::Value* const summary = event.mutable_summary()->add_value();
  summary->set_tag(std::string(node));
  summary->set_node_name(StrCat(key.tensor, ":", key.op));
  tensorflow::SummaryMetadata::PluginData* const plugin = summary->mutable_metadata()->mutable_plugin_data();
  plugin->set_plugin_name("debugger");
  plugin->set_content(
      StrCat("{\"device\":\"", key.device, "\",\"outputSlot\":", slot, ",\"numChunks\":1,\"chunkIndex\":0}"));
  if (!value.IsInitialized()) {  // its type distinguishes it from an empty tensor, which has a shape
    summary->mutable_tensor()->set_dtype(static_cast<tensorflow::DataType>(value.dtype()));
  } else if (value.dtype() == DataType::kString) {
    TensorToProto(value, summary->mutable_tensor());
  } else {
    TensorToProtoContent(value, summary->mutable_tensor());
  }
  return event;
}

std::string DeviceFolder(std::string_view device) {
  std::string folder = "_tfdbg_device_";
  for (const char c : device) folder += c == '/' ? ',' : c == ':' ? '_' : c;
  return folder;
}

// A timestamp that is later than that of every other file, since iterations of a loop may run concurrently.
int64_t UniqueMicros() {
  static std::atomic<int64_t> last{0};
  const int64_t now = std::chrono::duration_cast<std::chrono::microseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  int64_t before = last.load(std::memory_order_relaxed);
  int64_t micros = 0;
  do {
    micros = std::max(now, before + 1);
  } while (!last.compare_exchange_weak(before, micros, std::memory_order_relaxed));
  return micros;
}

}  // namespace

Status CheckDumps(std::string_view tensor, const std::vector<std::string>& urls) {
  for (const std::string& url : urls) {
    if (!std::string_view(url).starts_with(kFile) || url.size() == kFile.size())
      return errors::Unimplemented("Debug URLs other than file:// are not supported: ", url);
  }
  if (!urls.empty() && StrCat("/", tensor, "/").find("/../") != std::string::npos)
    return errors::InvalidArgument("The name of a watched tensor leaves its folder: ", tensor);
  return Status();
}

Status DumpTensor(const DumpKey& key, const std::vector<std::string>& urls, const Tensor& value) {
  const auto [node, slot] = Split(key.tensor);
  Env& env = Env::Posix();
  const int64_t micros = UniqueMicros();
  std::string event;
  if (!EventOf(key, value, micros).SerializeToString(&event))  // a message must have less than 2 GiB
    return errors::ResourceExhausted("A tensor of ", value.num_bytes(),
                                     " bytes is too large to be dumped: ", key.tensor);
  for (const std::string& url : urls) {
    const std::string stem = StrCat(url.substr(kFile.size()), "/", DeviceFolder(key.device), "/", node, "_",
                                    slot, "_", key.op, "_");
    MR_RETURN_IF_ERROR(io::MakeFolders(env, stem.substr(0, stem.rfind('/'))));
    MR_RETURN_IF_ERROR(WriteFileAtomically(env, StrCat(stem, micros), event));
  }
  return Status();
}

}  // namespace millrace
