// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/logging.h"
#include "base/strings.h"
#include "io/memmapped_package.h"
#include "millrace/session.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tests/fuzz/fuzz_targets.h"
#include "training/graph_tools/graph_tools.h"

namespace millrace {
namespace {

constexpr int kMostNodes = 20;
constexpr const char* kAny = "any status will do";

// A file without a name in any folder: sessions map it by its path in /proc.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& bytes) : fd_(::memfd_create("package", MFD_CLOEXEC)) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written != static_cast<ssize_t>(bytes.size())) std::abort();
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return StrCat("/proc/self/fd/", fd_); }

 private:
  const int fd_;
};

void ReadRegions(Env& env, const std::string& path, size_t input_size) {
  const auto package = io::MemmappedEnv::Open(env, path);
  if (!package.ok()) return;
  uint64_t sum = 0;
  for (const std::string& name : (*package)->Names()) {
    if (!name.starts_with(io::kMemmappedPrefix)) continue;  // a file of the other Env
    const auto region = (*package)->NewReadOnlyMemoryRegion(name);
    if (!region.ok() || (*region)->length() > input_size) std::abort();
    for (const char c : (*region)->bytes()) sum += static_cast<unsigned char>(c);
    const auto read = ReadFileToString(**package, name);
    if (!read.ok() || *read != (*region)->bytes()) std::abort();
  }
  if (sum > 255 * input_size * input_size) std::abort();
}

void RunConstants(const tensorflow::GraphDef& graph) {
  SessionOptions options;
  options.inter_op_parallelism_threads = 1;
  options.intra_op_parallelism_threads = 1;
  auto session = NewSession(options);
  if (!session.ok() || !(*session)->Create(graph).ok()) return;
  for (int i = 0; i < graph.node_size() && i < kMostNodes; ++i) {
    if (graph.node(i).op() != "ImmutableConst") continue;
    std::vector<Tensor> values;
    const Status status = (*session)->Run({}, {graph.node(i).name()}, {}, &values);
    if (status.ok() && values.at(0).num_bytes() > 0) {
      const auto* bytes = static_cast<const char*>(values[0].raw_data());
      volatile char last = bytes[values[0].num_bytes() - 1];  // must be accessible
      (void)last;
    }
  }
}

// Nodes of other ops are not tested here, and some would end the process.
void KeepConstants(tensorflow::GraphDef* graph) {
  tensorflow::GraphDef kept;
  for (const auto& node : graph->node()) {
    if (node.op() == "ImmutableConst" && node.input_size() == 0) *kept.add_node() = node;
  }
  graph->Swap(&kept);
}

}  // namespace

void FuzzMemmapped(std::string_view bytes) {
  PrepareFuzzing();
  MemoryFile file{std::string(bytes)};
  ReadRegions(Env::Posix(), file.path(), bytes.size());
  tensorflow::GraphDef graph;
  if (!LoadMemmappedGraph(Env::Posix(), file.path(), &graph).ok()) return;
  KeepConstants(&graph);
  // Names of other files would make the target depend on the machine.
  for (const auto& node : graph.node()) {
    const auto region = node.attr().find("memory_region_name");
    if (region != node.attr().end() && !region->second.s().starts_with(file.path())) return;
  }
  RunConstants(graph);
  RestoreMappedConstants(Env::Posix(), &graph).IgnoreError(kAny);
}

}  // namespace millrace
