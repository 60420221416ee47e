// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/logging.h"
#include "io/checkpoint/checkpoint_reader.h"
#include "io/checkpoint/checkpoint_state.h"
#include "io/checkpoint/checkpoint_testing.h"
#include "tests/fuzz/fuzz_targets.h"

namespace millrace {
namespace {

constexpr int kMostTensors = 20;

std::string_view Take(std::string_view* in, size_t n) {
  const std::string_view taken = in->substr(0, n);
  in->remove_prefix(taken.size());
  return taken;
}
size_t TakeNumber(std::string_view* in, size_t bytes) {
  size_t value = 0;
  for (const char c : Take(in, bytes)) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

// Wrong checksums would stop a fuzzer early, so most forms get correct ones here.
std::string TableOf(int form, std::string_view bytes) {
  namespace tb = io::testing_bytes;
  if (form == 0) return std::string(bytes);
  if (form < 3) {  // one block, unchanged or compressed
    return tb::TableOfBlocks(
        {std::pair(std::string("~"), tb::Stored(std::string(bytes), form == 2 ? 1 : 0))});
  }
  tb::Entries entries{{"", ""}};
  while (!bytes.empty()) {
    const std::string_view key = Take(&bytes, TakeNumber(&bytes, 1));
    entries.emplace_back(key, Take(&bytes, TakeNumber(&bytes, 2)));
  }
  entries.erase(entries.begin());
  std::sort(entries.begin(), entries.end());
  if (entries.empty()) entries.emplace_back("", "");
  return tb::Table(entries);
}

void ReadAll(Env& env, size_t input_size) {
  auto reader = io::CheckpointReader::Open(env, "/p");
  if (!reader.ok()) return;
  int left = kMostTensors;
  for (const auto& [name, variable] : (*reader)->variables()) {
    if (left-- == 0) break;
    const auto tensor = (*reader)->GetTensor(name);
    if (tensor.ok() && tensor->num_bytes() > 40 * input_size + (16 << 20)) {
      MR_LOG(Error) << "fuzzing: " << input_size << " bytes made a tensor of " << tensor->num_bytes();
      std::abort();
    }
    if ((*reader)->bundle() == nullptr || variable.shape.rank() != 2) continue;
    const auto slice = TensorSlice::Parse("0,1:-");
    (*reader)->bundle()->ReadSlice(name, *slice).status().IgnoreError("any status will do");
  }
}

}  // namespace

void FuzzCheckpoint(std::string_view bytes) {
  PrepareFuzzing();
  const size_t input_size = bytes.size();
  const size_t mode = TakeNumber(&bytes, 1);
  if (mode % 8 == 7) {
    io::ParseCheckpointState(bytes).status().IgnoreError("any status will do");
    return;
  }
  const std::string_view table = Take(&bytes, TakeNumber(&bytes, 2));
  MemEnv env;
  const bool old_format = mode % 8 >= 4;
  const Status written =
      WriteFileAtomically(env, old_format ? "/p" : "/p.index", TableOf(static_cast<int>(mode % 4), table));
  written.IgnoreError("memory does not fail");
  WriteFileAtomically(env, "/p.data-00000-of-00001", bytes).IgnoreError("memory does not fail");
  ReadAll(env, input_size);
}

}  // namespace millrace
