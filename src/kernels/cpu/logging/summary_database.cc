// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/logging/summary_database.h"

#include <re2/re2.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <random>
#include <utility>

#include "base/logging.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/logging/graph_rows.h"
#include "kernels/cpu/logging/summary_tables.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/summary.pb.h"
#include "tensorflow/core/util/event.pb.h"

namespace millrace {
namespace {

// Ids have 23, 31 or 47 bits: small ones take less space. The next tier is used after many collisions.
constexpr uint64_t kIdTiers[] = {0x7fffff, 0x7fffffff, 0x7fffffffffff};
constexpr int kMostCollisions = 21;

// NULL for 0.
SqliteValue IdOrNull(int64_t id) { return id == 0 ? SqliteValue() : SqliteValue(id); }

Status CheckName(const char* what, const std::string& name, const RE2& pattern) {
  if (name.empty() || RE2::FullMatch(name, pattern)) return Status();
  return errors::InvalidArgument(what, " (", name, ") must match ", pattern.pattern());
}

Status CheckNames(const SummaryDatabase::Names& names) {
  RE2::Options any_case;
  any_case.set_case_sensitive(false);
  MR_RETURN_IF_ERROR(CheckName("experiment_name", names.experiment, RE2(R"(^[^\x00-\x1F<>]{0,256}$)")));
  MR_RETURN_IF_ERROR(CheckName("run_name", names.run, RE2(R"(^[^\x00-\x1F<>]{0,512}$)")));
  return CheckName("user_name", names.user, RE2(R"(^[a-z]([-a-z0-9]{0,29}[a-z0-9])?$)", any_case));
}

// Types whose elements are numbers or bools.
bool IsNumber(DataType type) {
  static const TypeList types = Concat(NumberTypes(), {DataType::kBool});
  return std::find(types.begin(), types.end(), type) != types.end();
}

// Sizes separated by commas; empty for a scalar.
std::string ShapeText(const TensorShape& shape) {
  std::string text;
  for (int i = 0; i < shape.rank(); ++i) text += StrCat(i == 0 ? "" : ",", shape.dim(i));
  return text;
}

std::string_view BytesOf(const Tensor& t) { return {static_cast<const char*>(t.raw_data()), t.num_bytes()}; }

// A row for each bucket: its lower and upper limit, and its count.
StatusOr<Tensor> HistogramTensor(const tensorflow::HistogramProto& histogram) {
  const int buckets = histogram.bucket_size();
  if (buckets != histogram.bucket_limit_size()) return errors::InvalidArgument("size mismatch");
  Tensor rows(DataType::kDouble, TensorShape({buckets, 3}));
  double* out = rows.data<double>();
  double lower = std::numeric_limits<double>::min();  // as in TensorFlow
  for (int i = 0; i < buckets; ++i) {
    *out++ = lower;
    *out++ = lower = histogram.bucket_limit(i);
    *out++ = histogram.bucket(i);
  }
  return rows;
}

// The tensor for a value, as TensorBoard's plugins expect it; uninitialised: none.
StatusOr<Tensor> TensorOf(const tensorflow::Summary::Value& value, const char** plugin) {
  using Value = tensorflow::Summary::Value;
  switch (value.value_case()) {
    case Value::kTensor:
      return TensorFromProto(value.tensor());
    case Value::kSimpleValue:
      *plugin = "scalars";
      return Tensor::Scalar<float>(value.simple_value());
    case Value::kHisto:
      *plugin = "histograms";
      return HistogramTensor(value.histo());
    case Value::kImage:
      *plugin = "images";
      return Tensor::Vector<std::string>({StrCat(value.image().width()), StrCat(value.image().height()),
                                          value.image().encoded_image_string()});
    case Value::kAudio:
      *plugin = "audio";
      return Tensor::From<std::string>({value.audio().encoded_audio_string(), ""}, TensorShape({1, 2}));
    default:
      return Tensor();
  }
}

}  // namespace

StatusOr<RefPtr<SummaryDatabase>> SummaryDatabase::Open(const std::string& uri, Names names,
                                                        std::chrono::milliseconds patience) {
  MR_RETURN_IF_ERROR(CheckNames(names));
  MR_ASSIGN_OR_RETURN(auto database, SqliteDatabase::Open(uri, patience));
  MR_RETURN_IF_ERROR(MakeSummaryTables(*database));
  return MakeRef<SummaryDatabase>(std::move(database), std::move(names));
}

SummaryDatabase::~SummaryDatabase() {
  if (const Status status = Close(); !status.ok())
    MR_LOG(Warning) << "Could not finish a run of summaries: " << status;
}

Status SummaryDatabase::Close() {
  MutexLock lock(mu_);
  if (database_ == nullptr) return Status();
  Status status = End();
  database_.reset();
  return status;
}

Status SummaryDatabase::End() {
  if (place_.run == 0) return Status();
  return database_->Run("UPDATE Runs SET finished_time = ? WHERE run_id = ?", {EventTime(), place_.run});
}

Status SummaryDatabase::Write(const tensorflow::Event& event, const CancellationManager* cancellation) {
  MutexLock lock(mu_);
  if (database_ == nullptr) return errors::FailedPrecondition("The writer of summaries is closed");
  database_->set_cancellation(cancellation);
  const Place before = place_;
  new_tags_.clear();
  Status status = WriteParts(event);
  if (!status.ok()) {  // the new rows were rolled back
    place_ = before;
    for (const std::string& tag : new_tags_) tags_.erase(tag);
  }
  database_->set_cancellation(nullptr);
  return status;
}

Status SummaryDatabase::WriteParts(const tensorflow::Event& event) {
  const bool graph = event.what_case() == tensorflow::Event::kGraphDef;
  if (!graph && event.what_case() != tensorflow::Event::kSummary) return Status();
  MR_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(*database_));
  if (graph) {
    MR_RETURN_IF_ERROR(WriteGraph(event).WithContext(Where("__graph__", event.step())));
  } else {
    for (const tensorflow::Summary::Value& value : event.summary().value())
      MR_RETURN_IF_ERROR(WriteValue(event, value).WithContext(Where(value.tag(), event.step())));
  }
  return transaction.Commit();
}

std::string SummaryDatabase::Where(const std::string& what, int64_t step) const {
  return StrCat("\n\t", names_.user, "/", names_.experiment, "/", names_.run, "/", what, "@", step);
}

Status SummaryDatabase::WriteValue(const tensorflow::Event& event, const tensorflow::Summary::Value& value) {
  const char* plugin = nullptr;
  MR_ASSIGN_OR_RETURN(const Tensor tensor, TensorOf(value, &plugin));
  if (!tensor.IsInitialized()) return Status();
  if (tensor.dtype() != DataType::kString && !IsNumber(tensor.dtype())) {
    return errors::Unimplemented(DataTypeName(tensor.dtype()), " tensors unsupported on platform");
  }
  tensorflow::SummaryMetadata metadata = value.metadata();
  if (plugin != nullptr && metadata.plugin_data().plugin_name().empty())
    metadata.mutable_plugin_data()->set_plugin_name(plugin);
  MR_ASSIGN_OR_RETURN(const int64_t tag, TagOf(value.tag(), metadata, event.wall_time()));
  return WriteTensor(tag, event.step(), event.wall_time(), tensor);
}

Status SummaryDatabase::WriteTensor(int64_t tag, int64_t step, double time, const Tensor& tensor) {
  const bool strings = tensor.dtype() == DataType::kString;
  SqliteValue data;  // NULL if the elements have separate rows
  if (!strings) {
    data = SqliteBlob{BytesOf(tensor)};
  } else if (tensor.shape().IsScalar()) {
    data = SqliteBlob{tensor.scalar<std::string>()};
  }
  // An existing tensor with the tag and step is replaced, with its strings.
  MR_RETURN_IF_ERROR(
      database_->Run("DELETE FROM TensorStrings WHERE tensor_rowid IN (SELECT rowid FROM Tensors WHERE "
                     "series = ? AND step = ?)",
                     {tag, step}));
  MR_RETURN_IF_ERROR(
      database_->Run("INSERT OR REPLACE INTO Tensors (series, step, computed_time, dtype, shape, data) "
                     "VALUES (?, ?, ?, ?, ?, ?)",
                     {tag, step, time, static_cast<int64_t>(DataTypeToProto(tensor.dtype())),
                      std::string_view(ShapeText(tensor.shape())), data}));
  if (!strings || tensor.shape().IsScalar()) return Status();
  const int64_t row = database_->last_row();
  MR_ASSIGN_OR_RETURN(
      SqliteStatement insert,
      database_->Prepare("INSERT INTO TensorStrings (tensor_rowid, idx, data) VALUES (?, ?, ?)"));
  for (int64_t i = 0; i < tensor.num_elements(); ++i)
    MR_RETURN_IF_ERROR(insert.Run({row, i, SqliteBlob{tensor.data<std::string>()[i]}}));
  return Status();
}

Status SummaryDatabase::WriteGraph(const tensorflow::Event& event) {
  tensorflow::GraphDef graph;
  if (!graph.ParseFromString(event.graph_def())) return errors::InvalidArgument("bad proto");
  MR_RETURN_IF_ERROR(FindRun(event.wall_time()));
  MR_ASSIGN_OR_RETURN(const int64_t id, NewId());
  MR_RETURN_IF_ERROR(WriteNodes(*database_, id, graph));
  graph.clear_node();
  return database_->Run(
      "INSERT OR REPLACE INTO Graphs (run_id, graph_id, inserted_time, graph_def) VALUES (?, ?, ?, ?)",
      {IdOrNull(place_.run), id, EventTime(), SqliteBlob{graph.SerializeAsString()}});
}

StatusOr<int64_t> SummaryDatabase::NewId() {
  std::random_device entropy;
  MR_ASSIGN_OR_RETURN(SqliteStatement insert, database_->Prepare("INSERT INTO Ids (id) VALUES (?)"));
  for (int i = 0;; ++i) {
    const uint64_t random = uint64_t{entropy()} << 32 | entropy();
    const auto id = std::max(int64_t{1}, static_cast<int64_t>(random & kIdTiers[id_tier_]));
    const Status status = insert.Run({id});
    if (status.ok()) return id;
    if (!errors::IsInvalidArgument(status) || i == kMostCollisions) return status;
    if (id_tier_ + 1 < std::size(kIdTiers)) ++id_tier_;
  }
}

StatusOr<int64_t> SummaryDatabase::TagOf(const std::string& name, const tensorflow::SummaryMetadata& metadata,
                                         double time) {
  MR_RETURN_IF_ERROR(FindRun(time));
  if (const auto found = tags_.find(name); found != tags_.end()) return found->second;
  MR_ASSIGN_OR_RETURN(const int64_t id, NewId());
  MR_RETURN_IF_ERROR(database_->Run("INSERT OR REPLACE INTO Descriptions (id, description) VALUES (?, ?)",
                                    {id, std::string_view(metadata.summary_description())}));
  MR_RETURN_IF_ERROR(database_->Run(
      "INSERT INTO Tags (run_id, tag_id, tag_name, inserted_time, display_name, plugin_name, plugin_data) "
      "VALUES (?, ?, ?, ?, ?, ?, ?)",
      {IdOrNull(place_.run), id, std::string_view(name), EventTime(),
       std::string_view(metadata.display_name()), std::string_view(metadata.plugin_data().plugin_name()),
       SqliteBlob{metadata.plugin_data().content()}}));
  tags_[name] = id;
  new_tags_.push_back(name);
  return id;
}

Status SummaryDatabase::FindUser() {
  if (names_.user.empty() || place_.user != 0) return Status();
  const std::string_view name = names_.user;
  MR_ASSIGN_OR_RETURN(SqliteStatement get,
                      database_->Prepare("SELECT user_id FROM Users WHERE user_name = ?"));
  MR_ASSIGN_OR_RETURN(const bool found, get.First({name}));
  if (found) {
    place_.user = get.Integer(0);
    return Status();
  }
  MR_ASSIGN_OR_RETURN(place_.user, NewId());
  return database_->Run("INSERT INTO Users (user_id, user_name, inserted_time) VALUES (?, ?, ?)",
                        {place_.user, name, EventTime()});
}

Status SummaryDatabase::FindExperiment(double time) {
  if (names_.experiment.empty()) return Status();
  if (place_.experiment == 0) {
    MR_RETURN_IF_ERROR(FindUser());
    const std::string_view name = names_.experiment;
    MR_ASSIGN_OR_RETURN(SqliteStatement get,
                        database_->Prepare("SELECT experiment_id, started_time FROM Experiments "
                                           "WHERE user_id IS ? AND experiment_name = ?"));
    MR_ASSIGN_OR_RETURN(const bool found, get.First({IdOrNull(place_.user), name}));
    if (found) {
      place_.experiment = get.Integer(0);
      place_.experiment_started = get.Real(1);
    } else {
      MR_ASSIGN_OR_RETURN(place_.experiment, NewId());
      place_.experiment_started = time;
      MR_RETURN_IF_ERROR(database_->Run(
          "INSERT INTO Experiments (user_id, experiment_id, experiment_name, inserted_time, started_time, "
          "is_watching) VALUES (?, ?, ?, ?, ?, 0)",
          {IdOrNull(place_.user), place_.experiment, name, EventTime(), time}));
    }
  }
  if (time >= place_.experiment_started) return Status();
  place_.experiment_started = time;
  return database_->Run("UPDATE Experiments SET started_time = ? WHERE experiment_id = ?",
                        {time, place_.experiment});
}

Status SummaryDatabase::FindRun(double time) {
  if (names_.run.empty()) return Status();
  MR_RETURN_IF_ERROR(FindExperiment(time));
  if (place_.run == 0) {
    MR_ASSIGN_OR_RETURN(place_.run, NewId());
    place_.run_started = time;
    return database_->Run(
        "INSERT OR REPLACE INTO Runs (experiment_id, run_id, run_name, inserted_time, started_time) "
        "VALUES (?, ?, ?, ?, ?)",
        {IdOrNull(place_.experiment), place_.run, std::string_view(names_.run), EventTime(), time});
  }
  if (time >= place_.run_started) return Status();
  place_.run_started = time;
  return database_->Run("UPDATE Runs SET started_time = ? WHERE run_id = ?", {time, place_.run});
}

}  // namespace millrace
