// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::cli {

struct ScalarPoint {
  int64_t step = 0;
  double wall_time = 0;  // seconds since 1970
  double value = 0;
};

// The values of one tag in one run, by step.
struct ScalarSeries {
  std::string tag;
  std::string run;
  std::vector<ScalarPoint> points;
};

struct PlotOptions {
  double smoothing = 0;  // 0 to 1: the weight of the previous value; above 0 the raw curve is drawn faintly
  bool log_scale = false;
};

// An SVG with a panel for each tag and a curve for each run. Thousands of points are reduced to at most a few
// for each pixel; values that are not finite are left out.
std::string PlotScalars(const std::vector<ScalarSeries>& series, const PlotOptions& options);

}  // namespace millrace::cli
