// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/watch/event_store.h"
#include "millrace/tensor.h"

namespace tensorflow {
class Summary_Value;
}  // namespace tensorflow

namespace millrace::cli {

// Puts the values of a summary into the series of a run: the fields of their own that scalars, histograms,
// images and audio have, and the tensors of TensorBoard's plugins of these names and of texts.
class SummaryReader {
 public:
  SummaryReader(EventStore* store, Run* run, int64_t step, double wall_time)
      : store_(*store), run_(run), step_(step), wall_time_(wall_time) {}

  void Read(const tensorflow::Summary_Value& value);

 private:
  void ReadTensor(const tensorflow::Summary_Value& value);
  void AddScalar(const tensorflow::Summary_Value& value, double scalar);
  void AddHistogram(const tensorflow::Summary_Value& value);
  void AddHistogram(const tensorflow::Summary_Value& value, const Tensor& tensor);
  void AddHistogram(const tensorflow::Summary_Value& value, std::optional<HistogramPoint> point);
  // Strings of `tensor` from `first` on; with more than one each has a series of its own.
  void AddBlobs(SeriesKind kind, const tensorflow::Summary_Value& value, const Tensor& tensor, int64_t first,
                int64_t stride);
  void AddBlob(SeriesKind kind, const std::string& tag, const tensorflow::Summary_Value& value,
               std::string bytes);
  Series* SeriesOf(SeriesKind kind, const std::string& tag, const tensorflow::Summary_Value& value);
  void Malformed(const tensorflow::Summary_Value& value, const char* what);

  EventStore& store_;
  Run* const run_;
  const int64_t step_;
  const double wall_time_;
};

}  // namespace millrace::cli
