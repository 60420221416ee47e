// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <utility>

#include "millrace/json_writer.h"
#include "png_writer.h"
#include "replace_file.h"
#include "report_page.h"

namespace millrace::mnist {
namespace {

constexpr size_t kSpriteColumns = 25;

void WriteCurve(std::string_view name, const Curve& curve, JsonWriter& json) {
  json.Key(name).BeginObject();
  json.Field("steps", curve.steps);
  json.Key("values").BeginArray();
  for (const double value : curve.values) json.Value(static_cast<float>(value));
  json.EndArray().EndObject();
}

void WriteParameter(const ParameterHistory& parameter, JsonWriter& json) {
  json.BeginObject().Field("name", parameter.name).Field("shape", parameter.shape);
  json.Key("steps").BeginArray();
  for (const Distribution& d : parameter.snapshots) json.Value(d.step);
  json.EndArray().Key("bounds").BeginArray();
  for (const Distribution& d : parameter.snapshots) {
    json.BeginArray();
    for (const double bound : d.bounds) json.Value(static_cast<float>(bound));
    json.EndArray();
  }
  json.EndArray().Key("not_finite").BeginArray();
  for (const Distribution& d : parameter.snapshots) json.Value(d.not_finite);
  json.EndArray().EndObject();
}

void WriteStepTimes(const StepTimes& times, JsonWriter& json) {
  json.Key("step_times").BeginObject();
  json.Field("count", times.count).Field("median", times.median).Field("p99", times.p99);
  json.Field("minimum", times.minimum).Field("maximum", times.maximum);
  json.Field("edges", times.edges).Field("bins", times.bins).Field("slower", times.slower);
  json.EndObject();
}

std::string DataJson(const ReportData& report) {
  JsonWriter json;
  json.BeginObject();
  json.Field("model", report.model).Field("data", report.data).Field("steps", report.steps);
  // As text: a seed of 64 bits does not fit the numbers of JavaScript.
  json.Field("batch", report.batch)
      .Field("seed", std::to_string(report.seed))
      .Field("threads", report.threads);
  json.Field("final_accuracy", report.final_accuracy).Field("final_loss", report.final_loss);
  json.Field("seconds", report.seconds);
  WriteCurve("train_loss", report.train_loss, json);
  WriteCurve("train_accuracy", report.train_accuracy, json);
  WriteCurve("test_loss", report.test_loss, json);
  WriteCurve("test_accuracy", report.test_accuracy, json);
  json.Key("parameters").BeginArray();
  for (const ParameterHistory& parameter : report.parameters) WriteParameter(parameter, json);
  json.EndArray();
  WriteStepTimes(report.step_times, json);
  json.Field("confusion", report.confusion);
  json.Field("sprite_columns", kSpriteColumns).Key("digits").BeginArray();
  for (const ShownDigit& digit : report.digits) {
    json.BeginArray().Value(digit.index).Value(int{digit.label}).Value(int{digit.predicted});
    json.Value(digit.confidence).EndArray();
  }
  json.EndArray().EndObject();
  return json.text();
}

// All shown digits in one image, kSpriteColumns to a row, as a data URI; "" when there is none.
StatusOr<std::string> Sprite(const ReportData& report) {
  const size_t count = report.digits.size();
  if (report.digit_pixels.size() != count * kPixels) {
    return errors::InvalidArgument("report: ", report.digit_pixels.size(), " pixels for ", count, " digits");
  }
  if (count == 0) return std::string();
  const size_t width = kSpriteColumns * kImageSide;
  const size_t height = (count + kSpriteColumns - 1) / kSpriteColumns * kImageSide;
  std::vector<uint8_t> sheet(width * height);
  for (size_t i = 0; i < count; ++i) {
    for (size_t y = 0; y < kImageSide; ++y) {
      const size_t row = i / kSpriteColumns * kImageSide + y;
      std::copy_n(report.digit_pixels.begin() + static_cast<ptrdiff_t>(i * kPixels + y * kImageSide),
                  kImageSide,
                  sheet.begin() + static_cast<ptrdiff_t>(row * width + i % kSpriteColumns * kImageSide));
    }
  }
  MR_ASSIGN_OR_RETURN(const std::string png,
                      EncodeGreyPng(static_cast<int>(width), static_cast<int>(height), sheet));
  return "data:image/png;base64," + Base64(png);
}

std::string EscapeHtml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&' || c == '<' || c == '>' || c == '"') {
      out += "&#" + std::to_string(static_cast<int>(c)) + ";";
    } else {
      out += c;
    }
  }
  return out;
}

// The text for readers without JavaScript, search engines and link previews.
std::string Summary(const ReportData& report) {
  char numbers[160];
  std::snprintf(numbers, sizeof(numbers), "test accuracy %.4f, test loss %.4f after %lld steps in %.1f s",
                report.final_accuracy, report.final_loss, static_cast<long long>(report.steps),
                report.seconds);
  return StrCat(report.model, " on ", report.data, ": ", numbers);
}

// Replaces each @NAME@ of the page, once and in one pass, so that filled-in text is never searched again.
std::string Fill(std::string_view page,
                 std::span<const std::pair<std::string_view, std::string_view>> values) {
  std::string out;
  while (!page.empty()) {
    size_t at = std::string_view::npos;
    std::pair<std::string_view, std::string_view> first;
    for (const auto& value : values) {
      const size_t found = page.find(value.first);
      if (found < at) at = found, first = value;
    }
    out += page.substr(0, at);
    if (at == std::string_view::npos) break;
    out += first.second;
    page.remove_prefix(at + first.first.size());
  }
  return out;
}

}  // namespace

void AddTestPredictions(const Examples& test, std::span<const float> probabilities, ReportData& report) {
  constexpr int kMostWrong = 1000, kMostRight = 200;
  int wrong = 0, right = 0;
  for (int64_t i = 0; i < test.size(); ++i) {
    const auto row = probabilities.subspan(static_cast<size_t>(i) * kClasses, kClasses);
    const auto best = std::max_element(row.begin(), row.end());
    const uint8_t predicted = static_cast<uint8_t>(best - row.begin());
    const uint8_t label = test.labels[static_cast<size_t>(i)];
    ++report.confusion[label][predicted];
    if (predicted == label ? right++ >= kMostRight : wrong++ >= kMostWrong) continue;
    report.digits.push_back({i, label, predicted, *best});
    for (const float pixel : test.image(i)) {
      report.digit_pixels.push_back(static_cast<uint8_t>(std::clamp(pixel, 0.0f, 1.0f) * 255.0f + 0.5f));
    }
  }
}

StatusOr<std::string> RenderReport(const ReportData& report) {
  MR_ASSIGN_OR_RETURN(const std::string sprite, Sprite(report));
  const std::string title = EscapeHtml(report.model + " – digit training report");
  const std::string summary = EscapeHtml(Summary(report));
  const std::string data = DataJson(report);
  const std::pair<std::string_view, std::string_view> values[] = {
      {"@TITLE@", title},        {"@SUMMARY@", summary},      {"@SPRITE@", sprite},
      {"@STYLE@", kReportStyle}, {"@SCRIPT@", kReportScript}, {"@DATA@", data}};
  return Fill(kReportHtml, values);
}

Status WriteReport(const ReportData& report, const std::string& path) {
  MR_ASSIGN_OR_RETURN(const std::string page, RenderReport(report));
  return ReplaceFile(path, page);
}

}  // namespace millrace::mnist
