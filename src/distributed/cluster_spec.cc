// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>

#include "base/strings.h"
#include "millrace/cluster.h"
#include "tensorflow/core/protobuf/cluster.pb.h"

namespace millrace {
namespace {

constexpr int64_t kMaxPort = 65535;

// Whether names of devices allow it as a job name.
bool IsJobName(std::string_view name) {
  if (name.empty() || std::isalpha(static_cast<unsigned char>(name[0])) == 0) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; });
}

Status CheckAddress(const std::string& job, int task, const std::string& address) {
  const size_t colon = address.rfind(':');
  const auto error = [&] {
    return errors::InvalidArgument("Could not interpret \"", address, "\" as a host-port pair, for task ",
                                   task, " of job \"", job, "\".");
  };
  if (colon == std::string::npos || colon == 0 || address.find_first_of("/ \t\n\"") != std::string::npos)
    return error();
  const auto port = SafeStringToInt64(std::string_view(address).substr(colon + 1));
  if (!port || *port < 0 || *port > kMaxPort) return error();
  // Addresses of IPv6 are in brackets.
  const std::string_view host = std::string_view(address).substr(0, colon);
  const bool bracketed = host.front() == '[' && host.back() == ']' && host.size() > 2;
  if (!bracketed && host.find_first_of(":[]") != std::string_view::npos) return error();
  return Status();
}

}  // namespace

Status ClusterSpec::AddTask(const std::string& job, int task, const std::string& address) {
  if (!IsJobName(job)) return errors::InvalidArgument("Invalid job name: \"", job, "\"");
  if (task < 0) return errors::InvalidArgument("Job \"", job, "\" has a task with a negative number: ", task);
  MR_RETURN_IF_ERROR(CheckAddress(job, task, address));
  const auto [it, is_new] = jobs_[job].try_emplace(task, address);
  if (is_new) return Status();
  return errors::InvalidArgument("JobDef for job \"", job, "\" specified two addresses for task \"", task,
                                 "\": ", it->second, " and ", address);
}

StatusOr<ClusterSpec> ClusterSpec::Parse(std::string_view text) {
  ClusterSpec spec;
  std::string job;
  int next = 0;
  for (std::string_view item : StrSplit(text, ',')) {
    item = StripWhitespace(item);
    const size_t equals = item.find('=');
    if (equals != std::string_view::npos) {
      std::string_view name = StripWhitespace(item.substr(0, equals));
      next = 0;
      if (const size_t colon = name.find(':'); colon != std::string_view::npos) {
        const auto first = SafeStringToInt32(name.substr(colon + 1));
        if (!first || *first < 0)
          return errors::InvalidArgument("Invalid task number: \"", name, "\" in \"", text, "\"");
        next = *first;
        name = name.substr(0, colon);
      } else if (spec.jobs_.contains(std::string(name))) {
        return errors::InvalidArgument("Duplicate job ID in cluster specification: ", name);
      }
      job = name;
      item = StripWhitespace(item.substr(equals + 1));
    }
    if (job.empty()) {
      return errors::InvalidArgument(
          "A cluster is written \"ps=host:port,worker=host:port,host:port\", not \"", text, "\"");
    }
    MR_RETURN_IF_ERROR(spec.AddTask(job, next, std::string(item)));
    ++next;
  }
  return spec;
}

StatusOr<ClusterSpec> ClusterSpec::FromProto(const tensorflow::ClusterDef& def) {
  ClusterSpec spec;
  for (const tensorflow::JobDef& job : def.job()) {
    if (spec.jobs_.contains(job.name()))
      return errors::InvalidArgument("Duplicate job ID in cluster specification: ", job.name());
    if (!IsJobName(job.name())) return errors::InvalidArgument("Invalid job name: \"", job.name(), "\"");
    spec.jobs_[job.name()];
    for (const auto& [task, address] : job.tasks())
      MR_RETURN_IF_ERROR(spec.AddTask(job.name(), task, address));
  }
  return spec;
}

void ClusterSpec::ToProto(tensorflow::ClusterDef* def) const {
  if (def == nullptr) internal::EndWithMessage("ClusterSpec::ToProto: the message is null");
  for (const auto& [name, tasks] : jobs_) {
    tensorflow::JobDef* const job = def->add_job();
    job->set_name(name);
    for (const auto& [task, address] : tasks) (*job->mutable_tasks())[task] = address;
  }
}

std::string ClusterSpec::ToString() const {
  std::string text;
  for (const auto& [name, tasks] : jobs_) {
    int next = 0;
    bool first = true;
    for (const auto& [task, address] : tasks) {
      if (!text.empty()) text += ',';
      if (task != next) {
        text += StrCat(name, ":", task, "=");
      } else if (first) {
        text += StrCat(name, "=");
      }
      text += address;
      next = task + 1;
      first = false;
    }
  }
  return text;
}

size_t ClusterSpec::num_tasks() const {
  size_t count = 0;
  for (const auto& [name, tasks] : jobs_) count += tasks.size();
  return count;
}

StatusOr<std::string> ClusterSpec::AddressOf(const std::string& job, int task) const {
  const auto of_job = jobs_.find(job);
  if (of_job == jobs_.end()) return errors::InvalidArgument("Job \"", job, "\" was not defined in cluster");
  const auto address = of_job->second.find(task);
  if (address != of_job->second.end()) return address->second;
  return errors::InvalidArgument("Task ", task, " was not defined in job \"", job, "\"");
}

}  // namespace millrace
