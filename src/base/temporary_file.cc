// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/temporary_file.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <string_view>

#include "base/strings.h"

namespace millrace {
namespace {

constexpr std::string_view kMark = ".tempstate";
constexpr std::chrono::hours kOld{24};

struct Writer {
  int64_t process = 0;
  uint64_t start = 0;  // ticks since the host was booted; 0: not known
  uint64_t host = 0;   // 0: not known
};

std::string TextOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The start time of a process, 0 if unknown. *ended: the process is a zombie.
uint64_t StartOf(int64_t process, bool* ended) {
  const std::string text = TextOf(StrCat("/proc/", process, "/stat"));
  // The second field is a name in parentheses, with any characters.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  unsigned long long start = 0;
  char state = 0;
  const int read = std::sscanf(text.c_str() + name_end + 1,
                               " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
                               "%llu",
                               &state, &start);
  *ended = state == 'Z' || state == 'X';
  return read == 2 ? start : 0;
}

// Identifies the boot of the kernel and the PID namespace, within which process ids are unique.
uint64_t ThisHost() {
  std::string text = TextOf("/proc/sys/kernel/random/boot_id");
  char space[64];
  const ssize_t n = ::readlink("/proc/self/ns/pid", space, sizeof(space));
  if (text.empty() || n <= 0) return 0;
  text.append(space, static_cast<size_t>(n));
  uint64_t hash = 14695981039346656037u;  // FNV-1a, the same in all programs
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

Writer ThisProcess() {
  Writer writer{.process = ::getpid(), .host = ThisHost()};
  bool ended = false;
  writer.start = StartOf(writer.process, &ended);
  return writer;
}

template <typename T>
bool TakeNumber(std::string_view* text, int base, T* value) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *value, base);
  if (error != std::errc() || end == text->data()) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

// Matches names from TemporaryName, and no others.
std::optional<Writer> WriterOf(std::string_view name) {
  const size_t at = name.rfind(kMark);
  if (at == std::string_view::npos || at == 0) return std::nullopt;
  name.remove_prefix(at + kMark.size());
  Writer writer;
  uint64_t number = 0;
  const bool parsed = TakeNumber(&name, 10, &writer.process) && ConsumePrefix(&name, "-") &&
                      TakeNumber(&name, 10, &writer.start) && ConsumePrefix(&name, "-") &&
                      TakeNumber(&name, 16, &writer.host) && ConsumePrefix(&name, ".") &&
                      TakeNumber(&name, 10, &number) && name.empty();
  if (!parsed || writer.process <= 0 || writer.process > INT32_MAX) return std::nullopt;
  return writer;
}

bool Lives(const Writer& writer) {
  if (::kill(static_cast<pid_t>(writer.process), 0) != 0 && errno == ESRCH) return false;
  bool ended = false;
  const uint64_t start = StartOf(writer.process, &ended);
  if (start == 0 || writer.start == 0) return true;  // as far as this can be determined
  return start == writer.start && !ended;
}

bool IsOld(const FileStat& stat) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return now - std::chrono::nanoseconds(stat.mtime_ns) > kOld;
}

}  // namespace

std::string TemporaryName(const std::string& path) {
  static std::atomic<uint64_t> counter{std::random_device{}()};  // relaxed: only the values matter
  const Writer writer = ThisProcess();
  char host[24];
  std::snprintf(host, sizeof(host), "%llx", static_cast<unsigned long long>(writer.host));
  return StrCat(path, kMark, writer.process, "-", writer.start, "-", host, ".",
                counter.fetch_add(1, std::memory_order_relaxed));
}

void DeleteStaleTemporaries(Env& env, const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  const auto names = env.GetChildren(folder.empty() ? "." : folder == "/" ? folder : path.substr(0, slash));
  if (!names.ok()) return;
  const uint64_t here = ThisHost();
  for (const std::string& name : *names) {
    const std::optional<Writer> writer = WriterOf(name);
    if (!writer) continue;
    const bool can_ask = here != 0 && writer->host == here;
    if (can_ask && Lives(*writer)) continue;
    const std::string file = folder + name;
    const auto stat = env.Stat(file);
    if (!stat.ok() || stat->is_directory || (!can_ask && !IsOld(*stat))) continue;
    env.DeleteFile(file).IgnoreError("only disk space is lost");
  }
}

}  // namespace millrace
