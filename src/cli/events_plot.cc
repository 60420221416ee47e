// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/events_plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>

#include "display/text.h"
#include "millrace/status.h"

namespace millrace::cli {
namespace {

// One panel, in pixels.
constexpr double kPanelWidth = 520, kPanelHeight = 300, kGap = 24, kMargin = 24;
constexpr double kLeft = 62, kRight = 16, kTop = 40, kBottom = 40;
constexpr double kPlotWidth = kPanelWidth - kLeft - kRight, kPlotHeight = kPanelHeight - kTop - kBottom;
constexpr size_t kMostPanels = 100;
constexpr size_t kMostRunsInLegend = 12;
constexpr size_t kBuckets = 520;  // of a curve; each keeps its lowest and highest point

constexpr const char* kColours[] = {"#0b62a8", "#d3370c", "#2a8a57", "#8a4fc7",
                                    "#b8860b", "#0f7f77", "#c2407e", "#5b626b"};

std::string Fixed(double v) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.1f", v);
  return text;
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  bool empty() const { return low > high; }
  void Add(double v) { low = std::min(low, v), high = std::max(high, v); }
};

// Round numbers in the range, about `wanted` of them.
std::vector<double> Ticks(const Range& range, int wanted) {
  const double rough = (range.high - range.low) / wanted;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5, 2, 1}) {
    if (factor * power >= rough * 0.999) step = factor * power;
  }
  std::vector<double> ticks;
  const double first = std::ceil(range.low / step);
  for (int i = 0; i < 4 * wanted; ++i) {
    const double tick = (first + i) * step;
    if (!(tick <= range.high + step * 1e-9)) break;
    ticks.push_back(std::abs(tick) < step * 1e-9 ? 0 : tick);
  }
  return ticks;
}

std::string TickText(double v) {
  char text[64];
  const double size = std::abs(v);
  if (size >= 1e4 && size < 1e15) return ShortCount(v);
  std::snprintf(text, sizeof(text), "%.4g", v);
  return text;
}

struct XY {
  double x, y;
};

// The drawn part of a series: finite points, smoothed, in the scale of the axis.
std::vector<XY> Curve(const ScalarSeries& series, double smoothing, bool log_scale) {
  std::vector<XY> curve;
  double average = 0, weight = 0;
  for (const ScalarPoint& point : series.points) {
    if (!std::isfinite(point.value) || (log_scale && point.value <= 0)) continue;
    // Divided by the sum of the weights, so that the first points are not drawn towards zero.
    average = smoothing * average + (1 - smoothing) * point.value;
    weight = smoothing * weight + (1 - smoothing);
    const double y = average / weight;
    curve.push_back({static_cast<double>(point.step), log_scale ? std::log10(y) : y});
  }
  return curve;
}

// The lowest and the highest point of each stretch, in order.
std::vector<XY> Thin(const std::vector<XY>& curve) {
  if (curve.size() <= 4 * kBuckets) return curve;
  std::vector<XY> out;
  for (size_t b = 0; b < kBuckets; ++b) {
    const size_t begin = curve.size() * b / kBuckets, end = curve.size() * (b + 1) / kBuckets;
    const auto by_y = [](const XY& p, const XY& q) { return p.y < q.y; };
    const auto [low, high] = std::minmax_element(curve.begin() + static_cast<ptrdiff_t>(begin),
                                                 curve.begin() + static_cast<ptrdiff_t>(end), by_y);
    out.push_back(low < high ? *low : *high);
    if (low != high) out.push_back(low < high ? *high : *low);
  }
  return out;
}

class Panel {
 public:
  Panel(std::string tag, const PlotOptions& options) : tag_(std::move(tag)), options_(options) {}

  void Add(const ScalarSeries& series, const char* colour) {
    // A line of one point is invisible, so a dot is drawn.
    Line line{&series, colour, Curve(series, options_.smoothing, options_.log_scale), {}};
    if (options_.smoothing > 0) line.raw = Curve(series, 0, options_.log_scale);
    for (const auto* const curve : {&line.curve, &line.raw}) {
      for (const XY& p : *curve) x_.Add(p.x), y_.Add(p.y);
    }
    lines_.push_back(std::move(line));
  }

  std::string Draw(double left, double top) {
    std::string out = StrCat("<g transform=\"translate(", Fixed(left), " ", Fixed(top), ")\">\n");
    out += StrCat("<rect class=\"panel\" width=\"", Fixed(kPanelWidth), "\" height=\"", Fixed(kPanelHeight),
                  "\" rx=\"6\"/>\n<text class=\"tag\" x=\"16\" y=\"26\">", EscapeXml(Printable(tag_, 60)),
                  "</text>\n");
    if (x_.empty()) {
      out += StrCat("<text class=\"tick\" x=\"", Fixed(kPanelWidth / 2), "\" y=\"", Fixed(kPanelHeight / 2),
                    "\" text-anchor=\"middle\">no finite values</text>\n");
    } else {
      Widen(&x_, 0);
      Widen(&y_, 0.06);
      DrawAxes(&out);
      for (const Line& line : lines_) {
        if (!line.raw.empty()) DrawLine(line.raw, line.colour, true, &out);
      }
      for (const Line& line : lines_) DrawLine(line.curve, line.colour, false, &out);
      DrawLast(&out);
    }
    return out + "</g>\n";
  }

 private:
  struct Line {
    const ScalarSeries* series;
    const char* colour;
    std::vector<XY> curve;
    std::vector<XY> raw;  // empty without smoothing
  };

  static void Widen(Range* range, double margin) {
    double width = range->high - range->low;
    // Halves, so that the width of a range of huge numbers is finite.
    if (!std::isfinite(width)) range->low /= 4, range->high /= 4, width = range->high - range->low;
    if (!(width > std::abs(range->high) * 1e-12)) {
      const double half = std::max(std::abs(range->high) * 0.05, 0.5);
      range->low -= half, range->high += half;
    } else {
      range->low -= width * margin, range->high += width * margin;
    }
  }
  double X(double x) const { return kLeft + (x - x_.low) / (x_.high - x_.low) * kPlotWidth; }
  double Y(double y) const {
    const double at = kTop + (y_.high - y) / (y_.high - y_.low) * kPlotHeight;
    return std::clamp(at, kTop, kTop + kPlotHeight);
  }

  void DrawAxes(std::string* out) const {
    for (const double tick : Ticks(y_, 6)) {
      const std::string y = Fixed(Y(tick));
      *out +=
          StrCat("<path class=\"grid\" d=\"M", Fixed(kLeft), " ", y, "h", Fixed(kPlotWidth),
                 "\"/><text class=\"tick\" text-anchor=\"end\" x=\"", Fixed(kLeft - 8), "\" y=\"", y,
                 "\" dy=\"0.32em\">", TickText(options_.log_scale ? std::pow(10, tick) : tick), "</text>\n");
    }
    const double bottom = kTop + kPlotHeight;
    for (const double tick : Ticks(x_, 6)) {
      const std::string x = Fixed(X(tick));
      *out += StrCat("<path class=\"axis\" d=\"M", x, " ", Fixed(bottom),
                     "v4\"/><text class=\"tick\" text-anchor=\"middle\" x=\"", x, "\" y=\"",
                     Fixed(bottom + 18), "\">", TickText(tick), "</text>\n");
    }
    *out += StrCat("<path class=\"axis\" d=\"M", Fixed(kLeft), " ", Fixed(bottom), "h", Fixed(kPlotWidth),
                   "\"/><text class=\"tick\" text-anchor=\"middle\" x=\"", Fixed(kLeft + kPlotWidth / 2),
                   "\" y=\"", Fixed(bottom + 34), "\">step</text>\n");
  }

  void DrawLine(const std::vector<XY>& curve, const char* colour, bool faint, std::string* out) const {
    if (curve.empty()) return;
    std::string path;
    for (const XY& p : Thin(curve)) {
      path += StrCat(path.empty() ? "M" : "L", Fixed(X(p.x)), " ", Fixed(Y(p.y)));
    }
    if (curve.size() == 1) path += "h0";
    *out += StrCat("<path class=\"line\" stroke=\"", colour, faint ? "\" opacity=\"0.25" : "",
                   curve.size() == 1 ? "\" stroke-width=\"6" : "", "\" d=\"", path, "\"/>\n");
  }

  // The last value, if there is only one run: several could not be told apart.
  void DrawLast(std::string* out) const {
    if (lines_.size() != 1 || lines_[0].series->points.empty()) return;
    const ScalarPoint& last = lines_[0].series->points.back();
    *out += StrCat("<text class=\"last\" text-anchor=\"end\" x=\"", Fixed(kPanelWidth - kRight),
                   "\" y=\"26\">", TickText(last.value), " at step ",
                   CountText(static_cast<uint64_t>(std::max<int64_t>(last.step, 0))), "</text>\n");
  }

  const std::string tag_;
  const PlotOptions& options_;
  std::vector<Line> lines_;
  Range x_, y_;
};

constexpr std::string_view kStyle =
    "<style>\n"
    "svg{color-scheme:light dark;background:#f6f6f3;font:12px system-ui,'Segoe UI',Roboto,'Noto Sans',"
    "'DejaVu Sans',sans-serif;font-variant-numeric:tabular-nums}\n"
    ".panel{fill:#fff;stroke:#d9d9d2}.tag{font-size:14px;font-weight:600;fill:#1b1d20}\n"
    ".tick,.last{fill:#5b626b}.grid{stroke:#ecece7}.axis{stroke:#b5b9bf}\n"
    ".grid,.axis{fill:none}.line{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}\n"
    ".line[stroke-width]{stroke-width:6}\n"
    "@media(prefers-color-scheme:dark){svg{background:#15171a}.panel{fill:#1d2024;stroke:#3a4047}"
    ".tag{fill:#e9eaec}.tick,.last{fill:#a3a9b2}.grid{stroke:#282c32}.axis{stroke:#5b626b}"
    ".line{filter:brightness(1.5)}}\n"
    "</style>\n";

// A line of runs with their colours. Returns its height.
double DrawLegend(const std::vector<std::string>& runs, double width, std::string* out) {
  if (runs.size() < 2) return 0;
  double x = kMargin, y = kMargin + 8;
  for (size_t i = 0; i < runs.size() && i < kMostRunsInLegend; ++i) {
    const std::string name =
        i + 1 == kMostRunsInLegend && runs.size() > kMostRunsInLegend
            ? StrCat("and ", runs.size() - i, " more")
            : Printable(runs[i].empty() ? std::string_view(".") : std::string_view(runs[i]), 60);
    const double item = 34 + 7.0 * static_cast<double>(Width(name));
    if (x + item > width - kMargin && x > kMargin) x = kMargin, y += 20;
    *out += StrCat("<path class=\"line\" stroke=\"", kColours[i % std::size(kColours)], "\" d=\"M", Fixed(x),
                   " ", Fixed(y), "h16\"/><text class=\"tick\" x=\"", Fixed(x + 22), "\" y=\"", Fixed(y),
                   "\" dy=\"0.32em\">", EscapeXml(name), "</text>\n");
    x += item;
  }
  return y + 12 - kMargin;
}

}  // namespace

std::string PlotScalars(const std::vector<ScalarSeries>& series, const PlotOptions& options) {
  std::vector<std::string> runs;
  std::map<std::string, std::vector<const ScalarSeries*>> by_tag;
  for (const ScalarSeries& s : series) {
    if (std::find(runs.begin(), runs.end(), s.run) == runs.end()) runs.push_back(s.run);
    by_tag[s.tag].push_back(&s);
  }
  const size_t panels = std::min(by_tag.size(), kMostPanels);
  const size_t columns = panels <= 1 ? 1 : panels <= 4 ? 2 : 3;
  const size_t rows = std::max<size_t>((panels + columns - 1) / columns, 1);
  const double width = 2 * kMargin + static_cast<double>(columns) * (kPanelWidth + kGap) - kGap;
  std::string body;
  const double legend = DrawLegend(runs, width, &body);
  size_t i = 0;
  for (const auto& [tag, of_tag] : by_tag) {
    if (i == panels) break;
    Panel panel(tag, options);
    for (const ScalarSeries* s : of_tag) {
      const auto run = static_cast<size_t>(std::find(runs.begin(), runs.end(), s->run) - runs.begin());
      panel.Add(*s, kColours[run % std::size(kColours)]);
    }
    const auto row = i / columns, column = i % columns;
    body += panel.Draw(kMargin + static_cast<double>(column) * (kPanelWidth + kGap),
                       kMargin + legend + static_cast<double>(row) * (kPanelHeight + kGap));
    ++i;
  }
  double height = 2 * kMargin + legend + static_cast<double>(rows) * (kPanelHeight + kGap) - kGap;
  if (by_tag.size() > panels) {
    body += StrCat("<text class=\"tick\" x=\"", Fixed(kMargin), "\" y=\"", Fixed(height), "\">",
                   CountOf(by_tag.size() - panels, "more tag"), by_tag.size() - panels == 1 ? " is" : " are",
                   " not shown; choose some with --tag</text>\n");
    height += kMargin;
  }
  return StrCat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", Fixed(width), "\" height=\"",
                Fixed(height), "\" viewBox=\"0 0 ", Fixed(width), " ", Fixed(height), "\">\n", kStyle, body,
                "</svg>\n");
}

}  // namespace millrace::cli
