// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "kernels/cpu/logging/sqlite_database.h"
#include "kernels/cpu/logging/summary_sink.h"
#include "millrace/tensor.h"

namespace tensorflow {
class GraphDef;
class Summary_Value;
class SummaryMetadata;
}  // namespace tensorflow

namespace millrace {

// Writes the summaries and graphs of one run to an SQLite database with the tables of TensorFlow 1.15. Each
// event is written in one transaction, which other programs see when Write returns.
class SummaryDatabase final : public SummarySink {
 public:
  // An empty name omits that level: no run, a run without an experiment, an experiment without a user.
  struct Names {
    std::string experiment;
    std::string run;
    std::string user;
  };
  static constexpr std::chrono::milliseconds kPatience{5000};

  // InvalidArgument for names with invalid characters; SQLite's errors. Waits at most `patience` for other
  // writers, here and in each Write.
  static StatusOr<RefPtr<SummaryDatabase>> Open(const std::string& uri, Names names,
                                                std::chrono::milliseconds patience = kPatience);
  SummaryDatabase(std::unique_ptr<SqliteDatabase> database, Names names)
      : names_(std::move(names)), database_(std::move(database)) {}
  ~SummaryDatabase() override;

  Status Write(const tensorflow::Event& event, const CancellationManager* cancellation) override;
  Status Flush() override { return Status(); }
  // Writes the time at which the run ended.
  Status Close() override;
  bool keeps_scalar_types() const override { return true; }
  std::string DebugString() const override { return "SummaryDbWriter"; }

 private:
  // The rows of this run: ids, 0 if there is none yet, and times of the first event.
  struct Place {
    int64_t user = 0;
    int64_t experiment = 0;
    int64_t run = 0;
    double experiment_started = 0;
    double run_started = 0;
  };

  Status WriteParts(const tensorflow::Event& event) MR_REQUIRES(mu_);
  Status WriteValue(const tensorflow::Event& event, const tensorflow::Summary_Value& value) MR_REQUIRES(mu_);
  Status WriteTensor(int64_t tag, int64_t step, double time, const Tensor& tensor) MR_REQUIRES(mu_);
  Status WriteGraph(const tensorflow::Event& event) MR_REQUIRES(mu_);
  StatusOr<int64_t> NewId() MR_REQUIRES(mu_);
  StatusOr<int64_t> TagOf(const std::string& name, const tensorflow::SummaryMetadata& metadata, double time)
      MR_REQUIRES(mu_);
  Status FindUser() MR_REQUIRES(mu_);
  Status FindExperiment(double time) MR_REQUIRES(mu_);
  Status FindRun(double time) MR_REQUIRES(mu_);
  Status End() MR_REQUIRES(mu_);
  std::string Where(const std::string& what, int64_t step) const;

  const Names names_;
  Mutex mu_;
  std::unique_ptr<SqliteDatabase> database_ MR_GUARDED_BY(mu_);  // null: closed
  Place place_ MR_GUARDED_BY(mu_);
  std::map<std::string, int64_t> tags_ MR_GUARDED_BY(mu_);
  std::vector<std::string> new_tags_ MR_GUARDED_BY(mu_);  // of the running transaction
  size_t id_tier_ MR_GUARDED_BY(mu_) = 0;
};

}  // namespace millrace
