// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/watch/summary_reader.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "cli/event_files.h"
#include "display/text.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/summary.pb.h"

namespace millrace::cli {
namespace {

constexpr int64_t kMostOfStep = 16;  // images, sounds or texts in one tensor
constexpr size_t kMostTextBytes = 64 << 10;
constexpr int64_t kMostTensorBytes = int64_t{64} << 20;

// The type of media, by its first bytes: only types that a browser shows or plays without running scripts.
std::string TypeOfBytes(std::string_view bytes) {
  if (bytes.starts_with("\x89PNG")) return "image/png";
  if (bytes.starts_with("\xff\xd8\xff")) return "image/jpeg";
  if (bytes.starts_with("GIF8")) return "image/gif";
  if (bytes.starts_with("BM")) return "image/bmp";
  if (bytes.starts_with("RIFF") && bytes.substr(0, 12).ends_with("WEBP")) return "image/webp";
  if (bytes.starts_with("RIFF") && bytes.substr(0, 12).ends_with("WAVE")) return "audio/wav";
  if (bytes.starts_with("OggS")) return "audio/ogg";
  if (bytes.starts_with("fLaC")) return "audio/flac";
  if (bytes.starts_with("ID3") || bytes.starts_with("\xff\xfb")) return "audio/mpeg";
  return "application/octet-stream";
}

}  // namespace

void SummaryReader::Malformed(const tensorflow::Summary::Value& value, const char* what) {
  store_.Note(StrCat("run ", run_->name, ": ", what, " of ", Printable(value.tag(), 100), " is malformed"));
}

Series* SummaryReader::SeriesOf(SeriesKind kind, const std::string& tag,
                                const tensorflow::Summary::Value& value) {
  constexpr size_t kMostDescription = 500;
  Series* const series = store_.GetSeries(kind, tag, run_);
  if (series != nullptr && series->description.empty()) {
    series->description = value.metadata().summary_description().substr(0, kMostDescription);
  }
  return series;
}

void SummaryReader::Read(const tensorflow::Summary::Value& value) {
  using Value = tensorflow::Summary::Value;
  double scalar = 0;
  switch (value.value_case()) {
    case Value::kSimpleValue:
      return AddScalar(value, static_cast<double>(value.simple_value()));
    case Value::kHisto:
      return AddHistogram(value);
    case Value::kImage:
      return AddBlob(SeriesKind::kImages, value.tag(), value, value.image().encoded_image_string());
    case Value::kAudio:
      return AddBlob(SeriesKind::kAudio, value.tag(), value, value.audio().encoded_audio_string());
    case Value::kTensor:
      return ScalarOf(value, &scalar) ? AddScalar(value, scalar) : ReadTensor(value);
    default:
      return;
  }
}

void SummaryReader::ReadTensor(const tensorflow::Summary::Value& value) {
  const std::string& plugin = value.metadata().plugin_data().plugin_name();
  const bool is_known = plugin == "histograms" || plugin == "images" || plugin == "audio" || plugin == "text";
  if (!is_known) return;
  const auto tensor = TensorFromProto(value.tensor(), {.max_bytes = kMostTensorBytes});
  if (!tensor.ok()) return Malformed(value, "a tensor");
  if (plugin == "histograms") return AddHistogram(value, *tensor);
  if (tensor->dtype() != DataType::kString) return Malformed(value, "a tensor");
  // Images: width and height, then the pictures. Sounds: alone, or each with a label.
  if (plugin == "images") return AddBlobs(SeriesKind::kImages, value, *tensor, 2, 1);
  if (plugin == "text") return AddBlobs(SeriesKind::kText, value, *tensor, 0, 1);
  AddBlobs(SeriesKind::kAudio, value, *tensor, 0, tensor->shape().dims().size() == 2 ? 2 : 1);
}

void SummaryReader::AddScalar(const tensorflow::Summary::Value& value, double scalar) {
  Series* const series = SeriesOf(SeriesKind::kScalars, value.tag(), value);
  if (series == nullptr) return;
  series->scalars.Add({step_, wall_time_, scalar});
  store_.Changed(series);
}

void SummaryReader::AddHistogram(const tensorflow::Summary::Value& value) {
  const tensorflow::HistogramProto& histogram = value.histo();
  std::vector<HistogramBucket> buckets;
  double left = histogram.min();
  const int count = std::min(histogram.bucket_size(), histogram.bucket_limit_size());
  buckets.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    buckets.push_back({left, histogram.bucket_limit(i), histogram.bucket(i)});
    left = histogram.bucket_limit(i);
  }
  AddHistogram(value, Rebin(buckets, histogram.min(), histogram.max()));
}

// Rows of left, right and count.
void SummaryReader::AddHistogram(const tensorflow::Summary::Value& value, const Tensor& tensor) {
  const bool has_rows = tensor.shape().dims().size() == 2 && tensor.shape().dim(1) == 3;
  if (!has_rows || (tensor.dtype() != DataType::kDouble && tensor.dtype() != DataType::kFloat)) {
    return Malformed(value, "a histogram");
  }
  std::vector<HistogramBucket> buckets;
  const auto add = [&](const auto& numbers) {
    for (size_t i = 0; i + 2 < numbers.size(); i += 3) {
      buckets.push_back({static_cast<double>(numbers[i]), static_cast<double>(numbers[i + 1]),
                         static_cast<double>(numbers[i + 2])});
    }
  };
  if (tensor.dtype() == DataType::kDouble) {
    add(tensor.flat<double>());
  } else {
    add(tensor.flat<float>());
  }
  if (buckets.empty()) return;
  AddHistogram(value, Rebin(buckets, buckets.front().left, buckets.back().right));
}

void SummaryReader::AddHistogram(const tensorflow::Summary::Value& value,
                                 std::optional<HistogramPoint> point) {
  if (!point) return;  // of no values, or of such as can't be drawn
  Series* const series = SeriesOf(SeriesKind::kHistograms, value.tag(), value);
  if (series == nullptr) return;
  point->step = step_;
  point->wall_time = wall_time_;
  series->histograms.Add(*point);
  store_.Changed(series);
}

void SummaryReader::AddBlobs(SeriesKind kind, const tensorflow::Summary::Value& value, const Tensor& tensor,
                             int64_t first, int64_t stride) {
  const auto strings = tensor.flat<std::string>();
  const auto size = static_cast<int64_t>(strings.size());
  const bool is_one = size <= first + stride;
  for (int64_t i = first; i < size && i < first + kMostOfStep * stride; i += stride) {
    const std::string tag = is_one ? value.tag() : StrCat(value.tag(), "/", (i - first) / stride);
    AddBlob(kind, tag, value, std::string(strings[static_cast<size_t>(i)]));
  }
}

void SummaryReader::AddBlob(SeriesKind kind, const std::string& tag, const tensorflow::Summary::Value& value,
                            std::string bytes) {
  const bool is_text = kind == SeriesKind::kText;
  if (bytes.empty() && !is_text) return;
  std::string type = is_text ? "" : TypeOfBytes(bytes);
  const char* const wanted = kind == SeriesKind::kImages ? "image/" : "audio/";
  if (!is_text && !type.starts_with(wanted)) return Malformed(value, "what should be an image or a sound");
  if (is_text && bytes.size() > kMostTextBytes) bytes = bytes.substr(0, kMostTextBytes) + "…";
  Series* const series = SeriesOf(kind, tag, value);
  if (series == nullptr) return;
  store_.AddBlob(
      series, *run_,
      {.step = step_, .wall_time = wall_time_, .key = 0, .bytes = std::move(bytes), .type = std::move(type)});
}

}  // namespace millrace::cli
