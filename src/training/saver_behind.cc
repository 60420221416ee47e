// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Checkpoints that a thread writes while steps continue.
#if defined(__linux__)
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/env.h"
#include "base/logging.h"
#include "base/mutex.h"
#include "graph/graph.h"
#include "io/checkpoint/bundle.h"
#include "millrace/ops.h"
#include "millrace/saver.h"
#include "tensor/spare_buffers.h"
#include "tensor/tensor_slice.h"
#include "training/user_call.h"

namespace millrace {
namespace {

// The inputs of the nodes of `save`: the tensors by their names in the graph, and the names and slices that
// they have in the checkpoint.
struct Values {
  std::vector<std::string> tensors, names, slices;
};

Status AddTexts(const Node& node, int input, std::vector<std::string>* texts) {
  MR_ASSIGN_OR_RETURN(const Edge* const edge, node.InputEdge(input));
  MR_ASSIGN_OR_RETURN(const Tensor value, edge->src->Attr<Tensor>("value"));
  if (edge->src->op_name() != "Const" || value.dtype() != DataType::kString) {
    return errors::InvalidArgument("'", node.name(), "' does not have constant names of tensors");
  }
  const auto all = value.flat<std::string>();
  texts->insert(texts->end(), all.begin(), all.end());
  return Status();
}

StatusOr<Values> FindValues(const Graph& graph, const std::string& save_tensor) {
  const Node* const save = graph.FindNode(ParseTensorId(save_tensor).name);
  if (save == nullptr) return errors::NotFound("There is no node '", save_tensor, "' in the graph");
  Values values;
  std::vector<const Node*> pending = {save};
  std::set<const Node*> seen;
  constexpr int kFirstTensor = 3;  // after the file, the names and the slices
  while (!pending.empty()) {
    const Node* const node = pending.back();
    pending.pop_back();
    if (!node->IsOp() || !seen.insert(node).second) continue;
    if (node->op_name() == "SaveV2") {
      MR_RETURN_IF_ERROR(AddTexts(*node, 1, &values.names));
      MR_RETURN_IF_ERROR(AddTexts(*node, 2, &values.slices));
      for (int i = kFirstTensor; i < node->num_inputs(); ++i) {
        MR_ASSIGN_OR_RETURN(const Edge* const edge, node->InputEdge(i));
        values.tensors.push_back(StrCat(edge->src->name(), ":", edge->src_output));
      }
      continue;
    }
    for (const Edge* edge : node->in_edges()) {
      if (edge != nullptr) pending.push_back(edge->src);
    }
  }
  if (values.tensors.empty() || values.names.size() != values.tensors.size() ||
      values.slices.size() != values.tensors.size()) {
    return errors::InvalidArgument("'", save_tensor,
                                   "' does not save version 2, the only one to be written in the background");
  }
  return values;
}

// In the order of their names, as in the op.
std::vector<size_t> SortedByName(const std::vector<std::string>& names) {
  std::vector<size_t> order(names.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return names[a] < names[b]; });
  return order;
}

Status AddTo(io::BundleWriter& writer, const std::string& name, const std::string& slice,
             const Tensor& tensor) {
  if (slice.empty()) return writer.Add(name, tensor);
  MR_ASSIGN_OR_RETURN(const ShapeAndSlice part, ParseShapeAndSlice(slice));
  return writer.AddSlice(name, part.full_shape, part.slice, tensor);
}

// Steps have precedence: they need the processors at once, the checkpoint is not urgent.
void RunWhenIdle() {
#if defined(__linux__)
  const sched_param priority = {};
  ::sched_setscheduler(0, SCHED_IDLE, &priority);
#endif
}
void RunWithLittleShare() {
#if defined(__linux__)
  constexpr int kNice = 10;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNice);
#endif
}

}  // namespace

// The checkpoint in progress, written tensor by tensor by a thread that runs while the processors are idle.
// If that is not enough within kPatience, another thread gets a share of the processors. A caller that waits
// for the checkpoint helps. One at a time.
class Saver::Behind {
 public:
  struct Job {
    std::string checkpoint;
    Values values;
    std::vector<Tensor> tensors;
    std::function<Status()> may_save;  // called before the checkpoint gets its final names
    std::function<Status()> when_written;
    // The previous checkpoints, and those that were to be deleted then.
    std::vector<Kept> last, to_delete;
    double next_kept_time = 0;
  };

  Behind() = default;
  Behind(const Behind&) = delete;
  Behind& operator=(const Behind&) = delete;
  ~Behind() {
    const Status status = Finish();
    if (!status.ok()) MR_LOG(Error) << "A checkpoint was not written: " << status;
  }
  // REQUIRES: Finish was called since the last one.
  Status Start(Job job) {
    int64_t bytes_of_job = 0;
    for (const Tensor& tensor : job.tensors) bytes_of_job += static_cast<int64_t>(tensor.num_bytes());
    {
      MutexLock lock(mu_);
      job_ = std::move(job);
      order_ = SortedByName(job_.values.names);
      next_ = 0;
      bytes_ = bytes_of_job;
      done_ = false;
      status_ = Status();
    }
    try {
      idle_ = std::thread([this] {
        RunWhenIdle();
        WriteAll();
      });
      // The idle thread does it alone if this one can't be created.
      if (bytes_of_job >= kWorthAShare) late_ = std::thread([this] { WriteLate(); });
    } catch (const std::system_error& e) {
      if (idle_.joinable()) return Status();
      MutexLock lock(mu_);
      job_ = Job();
      return errors::ResourceExhausted("No thread to write a checkpoint: ", e.what());
    }
    return Status();
  }
  Status Finish() {
    if (!idle_.joinable()) return Status();
    WriteAll();
    idle_.join();
    if (late_.joinable()) late_.join();
    MutexLock lock(mu_);
    return std::exchange(status_, Status());
  }
  // REQUIRES: nothing is being written. Returns the last job.
  Job TakeJob() {
    MutexLock lock(mu_);
    return std::move(job_);
  }

 private:
  static constexpr std::chrono::seconds kPatience{2};
  static constexpr int64_t kWorthAShare = 16 << 20;  // bytes

  void WriteAll() MR_EXCLUDES(mu_) {
    while (WriteNext()) {
    }
  }
  void WriteLate() MR_EXCLUDES(mu_) {
    RunWithLittleShare();
    {
      const auto deadline = std::chrono::steady_clock::now() + kPatience;
      MutexLock lock(mu_);
      while (!done_ && std::chrono::steady_clock::now() < deadline) finished_.WaitUntil(mu_, deadline);
    }
    WriteAll();
  }
  // False if everything was written.
  bool WriteNext() MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (done_) return false;
    status_ = WritePart();
    done_ = !status_.ok() || next_ > order_.size();
    if (done_) {
      writer_ = nullptr;
      job_.tensors.clear();
      job_.may_save = nullptr;
      job_.when_written = nullptr;
      finished_.NotifyAll();
    }
    return !done_;
  }
  // Writes a tensor or, after the last, the end.
  Status WritePart() MR_REQUIRES(mu_) {
    if (next_ == 0) {
      MR_ASSIGN_OR_RETURN(writer_, io::BundleWriter::Open(Env::Posix(), job_.checkpoint));
    }
    if (next_ == order_.size()) {
      ++next_;
      if (job_.may_save) MR_RETURN_IF_ERROR(CallInThread("Saver::SaveOptions::may_save", job_.may_save));
      MR_RETURN_IF_ERROR(writer_->Finish());
      return job_.when_written ? job_.when_written() : Status();
    }
    const size_t i = order_[next_++];
    MR_RETURN_IF_ERROR(AddTo(*writer_, job_.values.names[i], job_.values.slices[i], job_.tensors[i]));
    // Steps after the next save write their new values there, unless they are using it now.
    spares_.Give(std::exchange(job_.tensors[i], Tensor()), bytes_);
    return Status();
  }

  std::thread idle_, late_;
  SpareBuffers spares_;
  mutable Mutex mu_;  // held while a tensor is written
  CondVar finished_;
  Job job_ MR_GUARDED_BY(mu_);
  std::vector<size_t> order_ MR_GUARDED_BY(mu_);
  size_t next_ MR_GUARDED_BY(mu_) = 0;
  int64_t bytes_ MR_GUARDED_BY(mu_) = 0;  // of all tensors
  std::unique_ptr<io::BundleWriter> writer_ MR_GUARDED_BY(mu_);
  bool done_ MR_GUARDED_BY(mu_) = true;
  Status status_ MR_GUARDED_BY(mu_);
};

Status Saver::Finish() {
  if (behind_ == nullptr) return Status();
  Status status = behind_->Finish();
  if (!status.ok()) {
    Behind::Job job = behind_->TakeJob();
    last_ = std::move(job.last);
    to_delete_ = std::move(job.to_delete);
    next_kept_time_ = job.next_kept_time;
  }
  return status;
}

StatusOr<std::string> Saver::SaveBehind(Session& session, const std::string& checkpoint,
                                        const SaveOptions& options) {
  MR_ASSIGN_OR_RETURN(Values values, FindValues(scope_.graph(), def_.save_tensor_name));
  std::vector<Tensor> tensors;
  MR_RETURN_IF_ERROR(session.Run({}, values.tensors, {}, &tensors));
  MR_RETURN_IF_ERROR(WriteMetaGraph(checkpoint, options));
  std::vector<Kept> last = last_, to_delete = to_delete_;
  const double next_kept_time = next_kept_time_;
  std::function<Status()> when_written;
  if (options.write_state) when_written = [update = Record(checkpoint, options)] { return update.Do(); };
  if (behind_ == nullptr) behind_ = std::make_shared<Behind>();
  MR_RETURN_IF_ERROR(behind_->Start({.checkpoint = checkpoint,
                                     .values = std::move(values),
                                     .tensors = std::move(tensors),
                                     .may_save = options.may_save,
                                     .when_written = std::move(when_written),
                                     .last = std::move(last),
                                     .to_delete = std::move(to_delete),
                                     .next_kept_time = next_kept_time}));
  return checkpoint;
}

}  // namespace millrace
