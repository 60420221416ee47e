// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "device/device_name.h"

#include <cctype>
#include <utility>

#include "base/strings.h"

namespace millrace {
namespace {

bool IsAlpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// [a-zA-Z][a-zA-Z0-9_]*, which job names and device types look like.
std::optional<std::string> ConsumeWord(std::string_view* text) {
  size_t n = 0;
  while (n < text->size() && (IsAlpha((*text)[n]) || (n > 0 && (IsDigit((*text)[n]) || (*text)[n] == '_'))))
    ++n;
  if (n == 0) return std::nullopt;
  std::string word(text->substr(0, n));
  text->remove_prefix(n);
  return word;
}

std::optional<int> ConsumeNumber(std::string_view* text) {
  size_t n = 0;
  while (n < text->size() && IsDigit((*text)[n])) ++n;
  const std::optional<int32_t> value = SafeStringToInt32(text->substr(0, n));
  if (n == 0 || !value) return std::nullopt;
  text->remove_prefix(n);
  return *value;
}

// Reads a number or '*', which leaves the part open. False when there is neither.
bool ConsumeNumberOrStar(std::string_view* text, std::optional<int>* out) {
  out->reset();
  if (ConsumePrefix(text, "*")) return true;
  *out = ConsumeNumber(text);
  return out->has_value();
}

std::string ToUpper(std::string text) {
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

bool ConsumeTypeAndIndex(std::string_view* text, DeviceName* name) {
  name->type.reset();
  name->index.reset();
  if (!ConsumePrefix(text, "*")) {
    std::optional<std::string> type = ConsumeWord(text);
    if (!type) return false;
    name->type = ToUpper(*std::move(type));
  }
  return !ConsumePrefix(text, ":") || ConsumeNumberOrStar(text, &name->index);
}

// Reads one "/key:value" part.
bool ConsumePart(std::string_view* text, DeviceName* name) {
  if (ConsumePrefix(text, "/job:")) {
    name->job.reset();
    if (ConsumePrefix(text, "*")) return true;
    name->job = ConsumeWord(text);
    return name->job.has_value();
  }
  if (ConsumePrefix(text, "/replica:")) return ConsumeNumberOrStar(text, &name->replica);
  if (ConsumePrefix(text, "/task:")) return ConsumeNumberOrStar(text, &name->task);
  if (ConsumePrefix(text, "/device:")) return ConsumeTypeAndIndex(text, name);
  if (ConsumePrefix(text, "/cpu:") || ConsumePrefix(text, "/CPU:")) {
    name->type = "CPU";
    return ConsumeNumberOrStar(text, &name->index);
  }
  if (ConsumePrefix(text, "/gpu:") || ConsumePrefix(text, "/GPU:")) {
    name->type = "GPU";
    return ConsumeNumberOrStar(text, &name->index);
  }
  return false;
}

template <typename T>
bool Allows(const std::optional<T>& wanted, const std::optional<T>& actual) {
  return !wanted || wanted == actual;
}

template <typename T>
bool InConflict(const std::optional<T>& a, const std::optional<T>& b) {
  return a && b && *a != *b;
}

template <typename T>
void Override(std::optional<T>* part, const std::optional<T>& with) {
  if (with) *part = with;
}

}  // namespace

StatusOr<DeviceName> DeviceName::Parse(std::string_view text) {
  DeviceName name;
  std::string_view rest = text;
  if (rest == "/") return name;
  while (!rest.empty()) {
    if (!ConsumePart(&rest, &name) || (!rest.empty() && rest.front() != '/')) {
      return errors::InvalidArgument("Malformed device specification '", text, "'");
    }
  }
  return name;
}

std::string DeviceName::ToString() const {
  std::string out;
  if (job) out += "/job:" + *job;
  if (replica) out += "/replica:" + std::to_string(*replica);
  if (task) out += "/task:" + std::to_string(*task);
  if (type || index) {
    out += "/device:" + type.value_or("*") + ":" + (index ? std::to_string(*index) : std::string("*"));
  }
  return out;
}

bool DeviceName::Describes(const DeviceName& o) const {
  return Allows(job, o.job) && Allows(replica, o.replica) && Allows(task, o.task) && Allows(type, o.type) &&
         Allows(index, o.index);
}

DeviceName DeviceName::OverriddenBy(const DeviceName& o) const {
  DeviceName out = *this;
  Override(&out.job, o.job);
  Override(&out.replica, o.replica);
  Override(&out.task, o.task);
  Override(&out.type, o.type);
  Override(&out.index, o.index);
  return out;
}

Status DeviceName::MergeFrom(const DeviceName& o, bool allow_soft) {
  const auto conflict = [&](const char* what) {
    return errors::InvalidArgument("Cannot merge devices with incompatible ", what, ": '", ToString(),
                                   "' and '", o.ToString(), "'");
  };
  if (InConflict(job, o.job)) return conflict("jobs");
  if (InConflict(replica, o.replica)) return conflict("replicas");
  if (InConflict(task, o.task)) return conflict("tasks");
  const bool types_differ = InConflict(type, o.type);
  const bool indices_differ = InConflict(index, o.index);
  if (types_differ && !allow_soft) return conflict("types");
  if (indices_differ && !allow_soft) return conflict("ids");
  DeviceName merged = OverriddenBy(o);
  if (types_differ) merged.type.reset();
  if (types_differ || indices_differ) merged.index.reset();
  *this = std::move(merged);
  return Status();
}

bool SplitDeviceName(std::string_view name, std::string* task, std::string* device) {
  const auto parsed = DeviceName::Parse(name);
  if (!parsed.ok() || !parsed->IsFullySpecified()) return false;
  const DeviceName of_task{parsed->job, parsed->replica, parsed->task, {}, {}};
  const DeviceName of_device{{}, {}, {}, parsed->type, parsed->index};
  *task = of_task.ToString();
  *device = of_device.ToString().substr(1);
  return true;
}

}  // namespace millrace
