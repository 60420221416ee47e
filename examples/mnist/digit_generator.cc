// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "digit_generator.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "digit_strokes.h"

namespace millrace::mnist {
namespace {

struct Point {
  float x, y;
};

// A command of a stroke: M and L have one point, C has three.
struct Command {
  char kind;
  std::array<Point, 3> points;
};

struct Variant {
  float weight;
  float aspect;
  std::vector<Command> commands;
};

std::vector<Command> ParseStrokes(std::string_view text) {
  std::vector<Command> commands;
  size_t at = 0;
  const auto number = [&] {
    while (at < text.size() && text[at] == ' ') ++at;
    int value = 0;
    const auto end = std::from_chars(text.data() + at, text.data() + text.size(), value).ptr;
    at = static_cast<size_t>(end - text.data());
    return static_cast<float>(value) / 100.0f;
  };
  while (at < text.size()) {
    if (text[at] == ' ') {
      ++at;
      continue;
    }
    Command command{text[at++], {}};
    for (int i = 0; i < (command.kind == 'C' ? 3 : 1); ++i) {
      const float x = number();
      command.points[i] = {x, number()};
    }
    commands.push_back(command);
  }
  return commands;
}

// The variants by digit, parsed once.
const std::array<std::vector<Variant>, kClasses>& Variants() {
  static const auto* variants = [] {
    auto* all = new std::array<std::vector<Variant>, kClasses>;
    for (const WritingVariant& v : WritingVariants()) {
      (*all)[v.digit].push_back({v.weight, v.aspect, ParseStrokes(v.strokes)});
    }
    return all;
  }();
  return *variants;
}

const Variant& PickVariant(int digit, RandomStream& random) {
  const std::vector<Variant>& variants = Variants()[digit];
  float total = 0;
  for (const Variant& v : variants) total += v.weight;
  float pick = random.Uniform() * total;
  for (const Variant& v : variants) {
    pick -= v.weight;
    if (pick < 0) return v;
  }
  return variants.back();
}

// A polyline; breaks[i] says that no ink joins point i - 1 and point i.
struct Trace {
  std::vector<Point> points;
  std::vector<bool> breaks;

  void Add(Point p, bool begins) {
    points.push_back(p);
    breaks.push_back(begins);
  }
};

// A sine that needs no libm: a parabola through the zeros and peaks, exact arithmetic on every machine.
float Wave(float turns) {
  const float t = turns - std::floor(turns);
  return t < 0.5f ? 16.0f * t * (0.5f - t) : -16.0f * (t - 0.5f) * (1.0f - t);
}

// Follows the strokes with jittered points, in a box of 1 x 1.
Trace Flatten(const Variant& variant, float jitter, RandomStream& random) {
  constexpr int kCurveSteps = 9;
  constexpr int kLineSteps = 4;
  Trace trace;
  Point pen{0, 0};
  const auto jittered = [&](Point p) {
    return Point{p.x + jitter * random.Bell(), p.y + jitter * random.Bell()};
  };
  for (const Command& command : variant.commands) {
    if (command.kind == 'M') {
      pen = jittered(command.points[0]);
      trace.Add(pen, true);
    } else if (command.kind == 'L') {
      const Point to = jittered(command.points[0]);
      for (int i = 1; i <= kLineSteps; ++i) {
        const float t = static_cast<float>(i) / kLineSteps;
        trace.Add({pen.x + (to.x - pen.x) * t, pen.y + (to.y - pen.y) * t}, false);
      }
      pen = to;
    } else {
      const Point a = jittered(command.points[0]);
      const Point b = jittered(command.points[1]);
      const Point to = jittered(command.points[2]);
      for (int i = 1; i <= kCurveSteps; ++i) {
        const float t = static_cast<float>(i) / kCurveSteps, s = 1 - t;
        const float c0 = s * s * s, c1 = 3 * s * s * t, c2 = 3 * s * t * t, c3 = t * t * t;
        trace.Add(
            {c0 * pen.x + c1 * a.x + c2 * b.x + c3 * to.x, c0 * pen.y + c1 * a.y + c2 * b.y + c3 * to.y},
            false);
      }
      pen = to;
    }
  }
  return trace;
}

// Bends, shears, stretches and turns the trace, then fits it into the image.
void Distort(float aspect, RandomStream& random, Trace& trace) {
  const float bend_x = 0.045f * random.Bell(), bend_y = 0.045f * random.Bell();
  const float phase_x = random.Uniform(), phase_y = random.Uniform();
  const float frequency_x = random.Uniform(0.4f, 1.3f), frequency_y = random.Uniform(0.4f, 1.3f);
  const float shear = 0.12f + 0.23f * random.Bell();
  const float width = std::clamp(aspect * (1.0f + 0.20f * random.Bell()), aspect * 0.5f, aspect * 1.7f);
  // Rotation through the tangent half-angle: exactly orthogonal, and no sine.
  const float half = std::clamp(0.065f * random.Bell(), -0.2f, 0.2f);
  const float cosine = (1 - half * half) / (1 + half * half), sine = 2 * half / (1 + half * half);
  Point low{1e9f, 1e9f}, high{-1e9f, -1e9f}, sum{0, 0};
  for (Point& p : trace.points) {
    const float bent_x = p.x + bend_x * Wave(frequency_x * p.y + phase_x);
    const float bent_y = p.y + bend_y * Wave(frequency_y * p.x + phase_y);
    const float y = bent_y - 0.5f;
    const float x = (bent_x - 0.5f) * width - shear * y;
    p = {x * cosine - y * sine, x * sine + y * cosine};
    low = {std::min(low.x, p.x), std::min(low.y, p.y)};
    high = {std::max(high.x, p.x), std::max(high.y, p.y)};
    sum = {sum.x + p.x, sum.y + p.y};
  }
  // As in MNIST the digit fills a box of about 20 pixels and its centre of mass is the centre of the image.
  const float extent = std::max({high.x - low.x, high.y - low.y, 0.2f});
  const float scale = random.Uniform(15.2f, 18.8f) / extent;
  const float count = static_cast<float>(trace.points.size());
  const float shift_x = 13.5f + 0.45f * random.Bell(), shift_y = 13.5f + 0.45f * random.Bell();
  for (Point& p : trace.points) {
    p = {(p.x - sum.x / count) * scale + shift_x, (p.y - sum.y / count) * scale + shift_y};
  }
}

using Canvas = std::array<float, kPixels>;

// Inks the segment from a to b with a round pen of radius `radius` whose edge fades over `edge` pixels.
void Ink(Point a, Point b, float radius, float edge, Canvas& canvas) {
  const float reach = radius + edge / 2;
  const auto clip = [](float v) { return std::clamp(static_cast<int>(v), 0, kImageSide - 1); };
  const int x0 = clip(std::min(a.x, b.x) - reach), x1 = clip(std::max(a.x, b.x) + reach + 1);
  const int y0 = clip(std::min(a.y, b.y) - reach), y1 = clip(std::max(a.y, b.y) + reach + 1);
  const float dx = b.x - a.x, dy = b.y - a.y;
  const float inverse_length = 1.0f / std::max(dx * dx + dy * dy, 1e-6f);
  for (int y = y0; y <= y1; ++y) {
    for (int x = x0; x <= x1; ++x) {
      const float px = static_cast<float>(x) - a.x, py = static_cast<float>(y) - a.y;
      const float t = std::clamp((px * dx + py * dy) * inverse_length, 0.0f, 1.0f);
      const float ex = px - t * dx, ey = py - t * dy;
      const float distance2 = ex * ex + ey * ey;
      if (distance2 >= reach * reach) continue;
      const float ink = std::min((reach - std::sqrt(distance2)) / edge, 1.0f);
      float& pixel = canvas[y * kImageSide + x];
      pixel = std::max(pixel, ink);
    }
  }
}

void DrawTrace(const Trace& trace, RandomStream& random, Canvas& canvas) {
  const float radius = std::clamp(1.15f + 0.36f * random.Bell(), 0.55f, 2.3f);
  const float edge = random.Uniform(0.9f, 1.7f);
  const float swell = random.Uniform(0.0f, 0.28f), phase = random.Uniform();
  // Sometimes a stroke has a short gap, or starts late.
  const size_t skip =
      random.Uniform() < 0.15f ? 1 + random.Below(trace.points.size() - 1) : trace.points.size();
  for (size_t i = 1; i < trace.points.size(); ++i) {
    if (trace.breaks[i] || i == skip) continue;
    const float along = static_cast<float>(i) / static_cast<float>(trace.points.size());
    Ink(trace.points[i - 1], trace.points[i], radius * (1 + swell * Wave(along + phase)), edge, canvas);
  }
}

// Mixes the canvas with its 3 x 3 binomial blur.
void Blur(float amount, Canvas& canvas) {
  Canvas rows = canvas;
  for (int y = 0; y < kImageSide; ++y) {
    const float* in = &canvas[y * kImageSide];
    for (int x = 1; x + 1 < kImageSide; ++x) {
      rows[y * kImageSide + x] = 0.25f * in[x - 1] + 0.5f * in[x] + 0.25f * in[x + 1];
    }
  }
  for (int y = 1; y + 1 < kImageSide; ++y) {
    for (int x = 0; x < kImageSide; ++x) {
      const float* in = &rows[y * kImageSide + x];
      float& out = canvas[y * kImageSide + x];
      out += amount * (0.25f * in[-kImageSide] + 0.5f * in[0] + 0.25f * in[kImageSide] - out);
    }
  }
}

void FillSet(uint64_t seed, uint64_t set, int threads, Examples& examples) {
  const int64_t size = examples.size();
  const auto fill = [&, seed, set](int64_t begin, int64_t end) {
    std::array<uint8_t, kPixels> pixels;
    for (int64_t i = begin; i < end; ++i) {
      RandomStream random(seed, set, static_cast<uint64_t>(i));
      const int digit = static_cast<int>(random.Below(kClasses));
      DrawDigit(digit, random, pixels);
      examples.labels[i] = static_cast<uint8_t>(digit);
      float* out = &examples.images[static_cast<size_t>(i) * kPixels];
      for (int p = 0; p < kPixels; ++p) out[p] = static_cast<float>(pixels[p]) / 255.0f;
    }
  };
  std::vector<std::jthread> workers;
  for (int t = 1; t < threads; ++t) {
    workers.emplace_back(fill, size * t / threads, size * (t + 1) / threads);
  }
  fill(0, size / threads);
}

}  // namespace

void DrawDigit(int digit, RandomStream& random, std::span<uint8_t> pixels) {
  const Variant& variant = PickVariant(digit, random);
  Trace trace = Flatten(variant, random.Uniform(0.02f, 0.09f), random);
  Distort(variant.aspect, random, trace);
  Canvas canvas{};
  DrawTrace(trace, random, canvas);
  Blur(random.Uniform(), canvas);
  const float gain = random.Uniform(0.85f, 1.25f);
  const float grain = random.Uniform(0.0f, 0.10f);
  for (int p = 0; p < kPixels; ++p) {
    float ink = canvas[p];
    if (ink > 0) ink = ink * gain + grain * random.Bell() * ink;
    pixels[p] = static_cast<uint8_t>(std::clamp(ink, 0.0f, 1.0f) * 255.0f + 0.5f);
  }
  // A few specks in every twelfth image.
  if (random.Uniform() < 0.08f) {
    for (uint64_t n = 1 + random.Below(6); n > 0; --n) {
      pixels[random.Below(kPixels)] = static_cast<uint8_t>(64 + random.Below(192));
    }
  }
}

Dataset GenerateDigits(const GeneratorOptions& options) {
  Variants();  // parsed before the threads start
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  const int threads = std::clamp(options.threads > 0 ? options.threads : static_cast<int>(cores), 1, 64);
  Dataset data;
  for (const bool test : {false, true}) {
    Examples& examples = test ? data.test : data.train;
    const size_t size = static_cast<size_t>(test ? options.test_size : options.train_size);
    examples.labels.resize(size);
    examples.images.resize(size * kPixels);
    FillSet(options.seed, test ? 1 : 0, threads, examples);
  }
  data.source = "generated digits, seed " + std::to_string(options.seed);
  return data;
}

}  // namespace millrace::mnist
