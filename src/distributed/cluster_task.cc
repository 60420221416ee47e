// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Clusters that the environment describes.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/strings.h"
#include "millrace/cluster.h"

namespace millrace {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

constexpr int64_t kMostSlurmTasks = 1'000'000;

const Value* Find(const Struct& object, const std::string& key) {
  const auto it = object.fields().find(key);
  return it == object.fields().end() ? nullptr : &it->second;
}

StatusOr<int> TaskNumber(const Value& value) {
  if (value.kind_case() == Value::kNumberValue) {
    const double number = value.number_value();
    if (number >= 0 && number <= INT32_MAX && number == std::floor(number)) return static_cast<int>(number);
  } else if (value.kind_case() == Value::kStringValue) {
    if (const auto number = SafeStringToInt32(value.string_value()); number && *number >= 0) return *number;
  }
  return errors::InvalidArgument("TF_CONFIG: \"task\" has no \"index\" that is the number of a task");
}

StatusOr<ClusterSpec> ReadCluster(const Struct& cluster) {
  ClusterSpec spec;
  for (const auto& [job, tasks] : cluster.fields()) {
    const auto add = [&spec, name = job](int task, const Value& address) -> Status {
      if (address.kind_case() != Value::kStringValue)
        return errors::InvalidArgument("TF_CONFIG: the address of task ", task, " of job \"", name,
                                       "\" is not a string");
      return spec.AddTask(name, task, address.string_value());
    };
    if (tasks.kind_case() == Value::kListValue) {
      for (int i = 0; i < tasks.list_value().values_size(); ++i)
        MR_RETURN_IF_ERROR(add(i, tasks.list_value().values(i)));
    } else if (tasks.kind_case() == Value::kStructValue) {
      for (const auto& [number, address] : tasks.struct_value().fields()) {
        const auto task = SafeStringToInt32(number);
        if (!task) return errors::InvalidArgument("TF_CONFIG: job \"", job, "\" has a task \"", number, "\"");
        MR_RETURN_IF_ERROR(add(*task, address));
      }
    } else {
      return errors::InvalidArgument("TF_CONFIG: the tasks of job \"", job,
                                     "\" are neither a list nor an object");
    }
  }
  return spec;
}

// "node[01-03,7],other" -> node01 node02 node03 node7 other
StatusOr<std::vector<std::string>> ExpandHosts(const std::string& text) {
  const auto error = [&] { return errors::InvalidArgument("Not a Slurm node list: \"", text, "\""); };
  std::vector<std::string> hosts;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = text.find_first_of(",[", at);
    if (end == std::string::npos) end = text.size();
    const std::string prefix = text.substr(at, end - at);
    if (end == text.size() || text[end] == ',') {
      if (prefix.empty()) return error();
      hosts.push_back(prefix);
      at = end + 1;
      continue;
    }
    const size_t close = text.find(']', end);
    if (close == std::string::npos || (close + 1 < text.size() && text[close + 1] != ',')) return error();
    for (const std::string_view range :
         StrSplit(std::string_view(text).substr(end + 1, close - end - 1), ',')) {
      const size_t dash = std::min(range.find('-'), range.size());
      const std::string_view low = range.substr(0, dash);
      const std::string_view high = dash < range.size() ? range.substr(dash + 1) : low;
      const auto first = SafeStringToInt64(low);
      const auto last = SafeStringToInt64(high);
      if (!first || !last || *first < 0 || *last < *first || *last - *first > kMostSlurmTasks) return error();
      for (int64_t i = *first; i <= *last; ++i) {
        std::string number = StrCat(i);
        if (number.size() < low.size()) number.insert(0, low.size() - number.size(), '0');
        hosts.push_back(prefix + number);
      }
    }
    at = close + 2;
  }
  return hosts;
}

// "2(x3),1" -> 2 2 2 1
StatusOr<std::vector<int64_t>> ExpandCounts(const std::string& text) {
  std::vector<int64_t> counts;
  for (const std::string_view part : StrSplit(text, ',')) {
    const size_t open = std::min(part.find('('), part.size());
    const auto count = SafeStringToInt64(part.substr(0, open));
    std::optional<int64_t> times = 1;
    if (open < part.size()) {
      std::string_view repeat = part.substr(open);
      times = ConsumePrefix(&repeat, "(x") && ConsumeSuffix(&repeat, ")") ? SafeStringToInt64(repeat)
                                                                          : std::nullopt;
    }
    if (!count || !times || *count < 0 || *times < 1 || *times > kMostSlurmTasks || *count > kMostSlurmTasks)
      return errors::InvalidArgument("Not a Slurm list of task counts: \"", text, "\"");
    counts.insert(counts.end(), static_cast<size_t>(*times), *count);
  }
  return counts;
}

StatusOr<std::string> Variable(const char* of_step, const char* of_job) {
  for (const char* name : {of_step, of_job}) {
    const char* const value = name == nullptr ? nullptr : std::getenv(name);
    if (value != nullptr && *value != '\0') return std::string(value);
  }
  return errors::NotFound("The environment variable ", of_step, " is not set: this is not a step of Slurm");
}

}  // namespace

StatusOr<ClusterTask> ClusterTask::FromTfConfig(std::string_view json) {
  Struct root;
  const auto parsed = google::protobuf::util::JsonStringToMessage(std::string(json), &root,
                                                                  google::protobuf::util::JsonParseOptions());
  if (!parsed.ok()) return errors::InvalidArgument("TF_CONFIG is not a JSON object: ", parsed.ToString());
  const Value* const cluster = Find(root, "cluster");
  if (cluster == nullptr || cluster->kind_case() != Value::kStructValue)
    return errors::InvalidArgument("TF_CONFIG has no object \"cluster\"");
  ClusterTask result;
  MR_ASSIGN_OR_RETURN(result.cluster, ReadCluster(cluster->struct_value()));
  const Value* const task = Find(root, "task");
  if (task == nullptr || task->kind_case() != Value::kStructValue)
    return errors::InvalidArgument("TF_CONFIG has no object \"task\"");
  const Value* const type = Find(task->struct_value(), "type");
  if (type == nullptr || type->kind_case() != Value::kStringValue)
    return errors::InvalidArgument("TF_CONFIG: \"task\" has no \"type\" that is the name of a job");
  result.job = type->string_value();
  if (const Value* const index = Find(task->struct_value(), "index"); index != nullptr) {
    MR_ASSIGN_OR_RETURN(result.task, TaskNumber(*index));
  }
  MR_RETURN_IF_ERROR(result.cluster.AddressOf(result.job, result.task).status());
  return result;
}

StatusOr<ClusterTask> ClusterTask::FromSlurm(const std::vector<std::pair<std::string, int>>& jobs,
                                             int first_port) {
  MR_ASSIGN_OR_RETURN(const std::string nodes, Variable("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"));
  MR_ASSIGN_OR_RETURN(const std::string counts,
                      Variable("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"));
  MR_ASSIGN_OR_RETURN(const std::string rank_text, Variable("SLURM_PROCID", nullptr));
  MR_ASSIGN_OR_RETURN(const std::vector<std::string> hosts, ExpandHosts(nodes));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> per_host, ExpandCounts(counts));
  if (hosts.size() != per_host.size()) {
    return errors::InvalidArgument("Slurm names ", hosts.size(), " nodes, and numbers of tasks for ",
                                   per_host.size());
  }
  std::vector<std::string> addresses;
  for (size_t i = 0; i < hosts.size(); ++i) {
    for (int64_t k = 0; k < per_host[i]; ++k) addresses.push_back(StrCat(hosts[i], ":", first_port + k));
  }
  const auto rank = SafeStringToInt64(rank_text);
  if (!rank || *rank < 0 || static_cast<size_t>(*rank) >= addresses.size())
    return errors::InvalidArgument("SLURM_PROCID is ", rank_text, ", of ", addresses.size(), " processes");
  ClusterTask result;
  size_t next = 0;
  for (const auto& [job, count] : jobs) {
    for (int task = 0; task < count; ++task, ++next) {
      if (next == addresses.size())
        return errors::InvalidArgument("Slurm runs ", addresses.size(), " processes: none is left for task ",
                                       task, " of job \"", job, "\"");
      MR_RETURN_IF_ERROR(result.cluster.AddTask(job, task, addresses[next]));
      if (next != static_cast<size_t>(*rank)) continue;
      result.job = job;
      result.task = task;
    }
  }
  if (next != addresses.size())
    return errors::InvalidArgument("Slurm runs ", addresses.size(), " processes, but the jobs have ", next,
                                   " tasks");
  return result;
}

}  // namespace millrace
