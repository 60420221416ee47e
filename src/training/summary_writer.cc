// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <deque>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "base/env.h"
#include "base/mutex.h"
#include "io/event_file.h"
#include "millrace/summary.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "tensorflow/core/util/event.pb.h"
#include "training/summary_metadata.h"

namespace millrace {
namespace {

using tensorflow::Event;
using Clock = std::chrono::steady_clock;

Event NewEvent(int64_t step) {
  Event event;
  event.set_wall_time(
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
  event.set_step(step);
  return event;
}

// A message in the wire format, written field by field. Only for lengths below 2^28, which layouts have.
class Message {
 public:
  Message& Add(int field, std::string_view bytes) {
    AddVarint(static_cast<uint64_t>(field) << 3 | 2);
    AddVarint(bytes.size());
    bytes_ += bytes;
    return *this;
  }
  Message& Add(int field, uint64_t value) {
    AddVarint(static_cast<uint64_t>(field) << 3);
    AddVarint(value);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void AddVarint(uint64_t value) {
    for (; value >= 128; value >>= 7) bytes_ += static_cast<char>(value | 128);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

// The messages Layout, Category and Chart of TensorBoard's plugin.
std::string ChartBytes(const CustomScalars::Chart& chart) {
  Message message, content;
  message.Add(1, chart.title);
  if (chart.margins.empty()) {
    for (const std::string& tag : chart.tags) content.Add(1, tag);
    return message.Add(2, content.bytes()).bytes();
  }
  for (const CustomScalars::Margin& margin : chart.margins) {
    content.Add(1, Message().Add(1, margin.value).Add(2, margin.lower).Add(3, margin.upper).bytes());
  }
  return message.Add(3, content.bytes()).bytes();
}

std::string LayoutBytes(const CustomScalars& layout) {
  Message message;
  for (const CustomScalars::Category& category : layout.categories) {
    Message part;
    part.Add(1, category.title);
    for (const CustomScalars::Chart& chart : category.charts) part.Add(2, ChartBytes(chart));
    if (category.closed) part.Add(3, 1);
    message.Add(2, part.bytes());
  }
  return message.bytes();
}

}  // namespace

std::string PluginMetadata(std::string_view plugin) {
  tensorflow::SummaryMetadata metadata;
  metadata.mutable_plugin_data()->set_plugin_name(std::string(plugin));
  return metadata.SerializeAsString();
}

struct SummaryWriter::State {
  State(std::string f, const Options& o, std::unique_ptr<io::EventWriter> w)
      : folder(std::move(f)), options(o), writer(std::move(w)) {}

  Status Add(Event event);
  Status WaitForWritten();
  void Write();  // the body of the thread

  const std::string folder;
  const Options options;
  const std::unique_ptr<io::EventWriter> writer;  // of the thread
  Mutex mu;
  CondVar changed;
  std::thread thread MR_GUARDED_BY(mu);
  std::deque<Event> queue MR_GUARDED_BY(mu);
  std::set<std::string> tags MR_GUARDED_BY(mu);  // of run metadata
  bool closing MR_GUARDED_BY(mu) = false;
  int64_t flushes_asked MR_GUARDED_BY(mu) = 0;
  int64_t flushes_done MR_GUARDED_BY(mu) = 0;
  Status error MR_GUARDED_BY(mu);
};

Status SummaryWriter::State::Add(Event event) {
  MutexLock lock(mu);
  while (error.ok() && !closing && queue.size() >= static_cast<size_t>(std::max(options.max_queue, 1))) {
    changed.Wait(mu);
  }
  MR_RETURN_IF_ERROR(error);
  if (closing) return errors::FailedPrecondition("the SummaryWriter of '", folder, "' is closed");
  queue.push_back(std::move(event));
  changed.NotifyAll();
  return Status();
}

void SummaryWriter::State::Write() {
  const auto flush_after =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.flush_secs));
  Clock::time_point flush_at = Clock::now() + flush_after;
  bool unflushed = false;
  int64_t flushed = 0;  // a copy of flushes_done, which only this thread changes
  for (bool last = false; !last;) {
    std::deque<Event> events;
    int64_t asked = 0;
    {
      MutexLock lock(mu);
      while (queue.empty() && !closing && flushes_asked == flushes_done) {
        if (!unflushed) {
          changed.Wait(mu);
        } else if (!changed.WaitUntil(mu, flush_at)) {
          break;
        }
      }
      events.swap(queue);
      asked = flushes_asked;
      last = closing;
      changed.NotifyAll();  // there is room again
    }
    Status status;
    for (const Event& event : events) status.Update(writer->Write(event));
    unflushed = unflushed || !events.empty();
    if (last || asked > flushed || Clock::now() >= flush_at) {
      status.Update(last ? writer->Close() : writer->Flush());
      unflushed = false;
      flush_at = Clock::now() + flush_after;
    }
    MutexLock lock(mu);
    error.Update(status);
    flushes_done = flushed = asked;
    changed.NotifyAll();
  }
}

Status SummaryWriter::State::WaitForWritten() {
  MutexLock lock(mu);
  if (closing) return error;
  const int64_t mine = ++flushes_asked;
  changed.NotifyAll();
  while (flushes_done < mine) changed.Wait(mu);
  return error;
}

SummaryWriter::SummaryWriter(std::unique_ptr<State> state) : state_(std::move(state)) {
  MutexLock lock(state_->mu);
  state_->thread = std::thread([s = state_.get()] { s->Write(); });
}

SummaryWriter::~SummaryWriter() { Close().IgnoreError("a caller that needs the status calls Close itself"); }

StatusOr<std::unique_ptr<SummaryWriter>> SummaryWriter::Open(const std::string& folder,
                                                             const Options& options) {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) return errors::Unknown("can't make the folder '", folder, "': ", code.message());
  io::EventWriter::Options file;
  file.suffix = options.suffix;
  file.flush_after_secs = options.flush_secs;
  MR_ASSIGN_OR_RETURN(auto writer, io::EventWriter::Open(Env::Posix(), folder + "/events", std::move(file)));
  return std::unique_ptr<SummaryWriter>(
      new SummaryWriter(std::make_unique<State>(folder, options, std::move(writer))));
}

StatusOr<std::shared_ptr<SummaryWriter>> SummaryWriter::ForFolder(const std::string& folder) {
  static Mutex mu;
  static auto& writers = *new std::map<std::string, std::weak_ptr<SummaryWriter>>();  // guarded by mu
  MutexLock lock(mu);
  std::weak_ptr<SummaryWriter>& known = writers[folder];
  if (auto writer = known.lock()) return writer;
  MR_ASSIGN_OR_RETURN(auto opened, Open(folder));
  std::shared_ptr<SummaryWriter> writer = std::move(opened);
  known = writer;
  return writer;
}

const std::string& SummaryWriter::folder() const { return state_->folder; }

Status SummaryWriter::AddSummary(std::string_view serialized, int64_t step) {
  Event event = NewEvent(step);
  if (!event.mutable_summary()->ParseFromArray(serialized.data(), static_cast<int>(serialized.size()))) {
    return errors::InvalidArgument("not a serialised Summary of ", serialized.size(), " bytes");
  }
  return state_->Add(std::move(event));
}

Status SummaryWriter::AddScalar(const std::string& tag, float value, int64_t step) {
  Event event = NewEvent(step);
  auto& entry = *event.mutable_summary()->add_value();
  entry.set_tag(tag);
  entry.set_simple_value(value);
  return state_->Add(std::move(event));
}

Status SummaryWriter::AddTensor(const std::string& tag, const Tensor& tensor, int64_t step,
                                std::string_view serialized_metadata) {
  Event event = NewEvent(step);
  auto& entry = *event.mutable_summary()->add_value();
  entry.set_tag(tag);
  if (!entry.mutable_metadata()->ParseFromArray(serialized_metadata.data(),
                                                static_cast<int>(serialized_metadata.size()))) {
    return errors::InvalidArgument("the metadata of '", tag, "' is not a SummaryMetadata");
  }
  TensorToProto(tensor, entry.mutable_tensor());
  return state_->Add(std::move(event));
}

Status SummaryWriter::AddText(const std::string& tag, const Tensor& strings, int64_t step) {
  if (strings.dtype() != DataType::kString) {
    return errors::InvalidArgument("the text '", tag, "' is of type ", DataTypeName(strings.dtype()));
  }
  return AddTensor(tag, strings, step, PluginMetadata("text"));
}

Status SummaryWriter::AddCustomScalars(const CustomScalars& layout) {
  return AddTensor("custom_scalars__config__", Tensor::Scalar(LayoutBytes(layout)), 0,
                   PluginMetadata("custom_scalars"));
}

Status SummaryWriter::AddGraph(const Scope& scope, int64_t step) {
  MR_RETURN_IF_ERROR(scope.status());
  tensorflow::GraphDef graph;
  scope.ToGraphDef(&graph);
  Event event = NewEvent(step);
  event.set_graph_def(graph.SerializeAsString());
  return state_->Add(std::move(event));
}

Status SummaryWriter::AddMetaGraph(std::string_view serialized, int64_t step) {
  if (tensorflow::MetaGraphDef meta;
      !meta.ParseFromArray(serialized.data(), static_cast<int>(serialized.size()))) {
    return errors::InvalidArgument("not a serialised MetaGraphDef of ", serialized.size(), " bytes");
  }
  Event event = NewEvent(step);
  event.set_meta_graph_def(std::string(serialized));
  return state_->Add(std::move(event));
}

Status SummaryWriter::AddRunMetadata(const RunMetadata& metadata, const std::string& tag, int64_t step) {
  {
    MutexLock lock(state_->mu);
    if (!state_->tags.insert(tag).second) {
      return errors::InvalidArgument("The provided tag was already used for this event type");
    }
  }
  Event event = NewEvent(step);
  event.mutable_tagged_run_metadata()->set_tag(tag);
  event.mutable_tagged_run_metadata()->set_run_metadata(metadata.SerializeAsString());
  return state_->Add(std::move(event));
}

Status SummaryWriter::AddSessionLog(SessionStatus status, int64_t step, const std::string& checkpoint_path,
                                    const std::string& message) {
  Event event = NewEvent(step);
  tensorflow::SessionLog& log = *event.mutable_session_log();
  log.set_status(static_cast<tensorflow::SessionLog::SessionStatus>(status));
  log.set_checkpoint_path(checkpoint_path);
  log.set_msg(message);
  return state_->Add(std::move(event));
}

Status SummaryWriter::Flush() { return state_->WaitForWritten(); }

Status SummaryWriter::Close() {
  std::thread thread;
  {
    MutexLock lock(state_->mu);
    state_->closing = true;
    state_->changed.NotifyAll();
    thread.swap(state_->thread);  // one of the callers joins it
  }
  if (thread.joinable()) thread.join();
  MutexLock lock(state_->mu);
  return state_->error;
}

}  // namespace millrace
