// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/file_sync.h"

#include <atomic>
#include <cstdlib>
#include <string_view>

namespace millrace {
namespace {

std::atomic<bool>& Flag() {
  static std::atomic<bool> flag = [] {
    const char* const value = std::getenv("MILLRACE_SYNC_FILES");
    return value == nullptr || std::string_view(value) != "0";
  }();
  return flag;
}

}  // namespace

// Relaxed: it orders nothing else.
bool SyncsFiles() { return Flag().load(std::memory_order_relaxed); }
void SetSyncsFiles(bool syncs) { Flag().store(syncs, std::memory_order_relaxed); }

}  // namespace millrace
