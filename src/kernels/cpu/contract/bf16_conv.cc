// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Convolutions of bfloat16. A row of a product is assembled from the pixels that one result reads; only the
// rows of one block of results exist at a time.
#include <algorithm>
#include <atomic>
#include <vector>

#include "kernels/cpu/contract/bf16.h"
#include "kernels/cpu/contract/bf16_product.h"
#include "kernels/cpu/contract/conv_geometry.h"
#include "kernels/cpu/contract/scratch.h"

namespace millrace::cpu {
namespace {

// Short sums, or few results, do not gain.
constexpr int64_t kMinDepth = 16, kMinColumns = 16, kMinPixels = 16;

bool IsPossible(const ConvParams& p) {
  const int64_t smallest =
      std::min({p.batch, p.in_h, p.in_w, p.in_c, p.filter_h, p.filter_w, p.out_h, p.out_w, p.out_c});
  return ActiveBf16Kernels() != nullptr && smallest > 0 && p.layout == ImageLayout::kNhwc && IsModest(p);
}

// The tensor as bfloat16: itself, or a rounded copy.
class Rounded {
 public:
  Rounded(const uint16_t* data, int64_t /*count*/, Parallel& /*parallel*/)
      : copy_(Scratch::Of<uint16_t>(0)), data_(data) {}
  Rounded(const float* data, int64_t count, Parallel& parallel) : copy_(Scratch::Of<uint16_t>(count)) {
    if (!copy_.ok()) return;
    constexpr int64_t kChunk = 1 << 14;
    auto* const to = copy_.data<uint16_t>();
    const auto round = ActiveBf16Kernels()->round;
    parallel.For(CeilDiv(count, kChunk), kChunk / 8, [&](int64_t begin, int64_t end) {
      const int64_t from = begin * kChunk;
      round(data + from, std::min(end * kChunk, count) - from, to + from);
    });
    data_ = to;
  }
  const uint16_t* data() const { return data_; }

 private:
  const Scratch copy_;
  const uint16_t* data_ = nullptr;
};

// A pixel that results read, relative to their position.
struct Tap {
  int64_t row, column;
};

// Results on a grid over each image, each the sum over taps of `depth` values of a pixel.
struct Windows {
  const uint16_t* images;
  int64_t in_h, in_w, depth;  // of the input images
  int64_t rows, columns;      // of the grid, for each image
  int64_t step_h, step_w;     // from a grid point to the next
  std::vector<Tap> taps;      // in the order of the rows of B
  int64_t row_taps;           // adjacent taps in one row of the image that form one run; 1: none
  int64_t out_h, out_w;       // of the output images
  int64_t out_step_h, out_step_w, out_top, out_left;

  int64_t results(int64_t batch) const { return batch * rows * columns; }

  // The values that result `index` reads.
  void RunsOf(int64_t index, std::vector<Bf16Run>* runs) const {
    const int64_t image = index / (rows * columns), place = index % (rows * columns);
    const int64_t y = place / columns * step_h, x = place % columns * step_w;
    const uint16_t* const base = images + image * in_h * in_w * depth;
    runs->clear();
    for (size_t t = 0; t < taps.size();) {
      const int64_t row = y + taps[t].row, column = x + taps[t].column;
      const bool in_row = row >= 0 && row < in_h;
      const bool whole =
          in_row && t % static_cast<size_t>(row_taps) == 0 && column >= 0 && column + row_taps <= in_w;
      const int64_t side_by_side = whole ? row_taps : 1;
      const bool inside = in_row && column >= 0 && column < in_w;
      runs->push_back({inside ? base + (row * in_w + column) * depth : nullptr, side_by_side * depth});
      t += static_cast<size_t>(side_by_side);
    }
  }

  int64_t OffsetOf(int64_t index, int64_t channels) const {
    const int64_t image = index / (rows * columns), place = index % (rows * columns);
    const int64_t y = place / columns * out_step_h + out_top, x = place % columns * out_step_w + out_left;
    return ((image * out_h + y) * out_w + x) * channels;
  }
};

// results = windows * packed. `aligned`: the rows of B for each tap begin at a step.
bool MultiplyWindows(const Windows& windows, int64_t batch, bool aligned, const uint16_t* packed,
                     const Bf16Results& results, Parallel& parallel) {
  const Bf16Kernels& kernels = *ActiveBf16Kernels();
  const auto taps = static_cast<int64_t>(windows.taps.size());
  const int64_t steps =
      aligned ? taps * CeilDiv(windows.depth, kBf16Step) : CeilDiv(taps * windows.depth, kBf16Step);
  const int64_t size = steps * kBf16StepElements;
  const int64_t total = windows.results(batch), panels = CeilDiv(results.columns, kBf16Group);
  // Groups of rows that share each read of B, as far as they fit into the second cache.
  constexpr int64_t kCacheElements = 1 << 18, kMinUnits = 8;
  const int64_t all = CeilDiv(total, kBf16Group);
  const int64_t groups = std::clamp<int64_t>(std::min(kCacheElements / size, all / kMinUnits), 1, 8);
  std::atomic<bool> short_of_memory{false};
  parallel.For(CeilDiv(all, groups), groups * panels * steps * 50, [&](int64_t begin, int64_t end) {
    const Scratch scratch = Scratch::Of<uint16_t>(groups * size + steps * kBf16Step);
    if (!scratch.ok()) {
      short_of_memory = true;
      return;
    }
    auto* const rows = scratch.data<uint16_t>();
    uint16_t* const line = rows + groups * size;
    std::vector<Bf16Run> runs;
    std::vector<int64_t> offsets(static_cast<size_t>(groups * kBf16Group));
    kernels.begin(kBf16Group);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t first = unit * groups * kBf16Group;
      const int64_t count = std::min(groups * kBf16Group, total - first);
      for (int64_t i = 0; i < count; ++i) {
        windows.RunsOf(first + i, &runs);
        offsets[static_cast<size_t>(i)] = windows.OffsetOf(first + i, results.columns);
        kernels.gather({.runs = runs.data(),
                        .count = static_cast<int64_t>(runs.size()),
                        .aligned = aligned,
                        .line = line,
                        .row = i % kBf16Group,
                        .tiles = rows + i / kBf16Group * size});
      }
      for (int64_t panel = 0; panel < panels; ++panel) {
        for (int64_t i = 0; i < count; i += kBf16Group) {
          results.Multiply(kernels, rows + i / kBf16Group * size, packed + panel * size, steps,
                           std::min(kBf16Group, count - i), offsets.data() + i, panel * kBf16Group);
        }
      }
    }
    kernels.end();
  });
  return !short_of_memory;
}

Windows ForwardWindows(const ConvParams& p, const uint16_t* images) {
  Windows w{.images = images,
            .in_h = p.in_h,
            .in_w = p.in_w,
            .depth = p.in_c,
            .rows = p.out_h,
            .columns = p.out_w,
            .step_h = p.stride_h,
            .step_w = p.stride_w,
            .taps = {},
            .row_taps = p.dilation_w == 1 ? p.filter_w : 1,
            .out_h = p.out_h,
            .out_w = p.out_w,
            .out_step_h = 1,
            .out_step_w = 1,
            .out_top = 0,
            .out_left = 0};
  for (int64_t y = 0; y < p.filter_h; ++y) {
    for (int64_t x = 0; x < p.filter_w; ++x)
      w.taps.push_back({y * p.dilation_h - p.pad_top, x * p.dilation_w - p.pad_left});
  }
  return w;
}

// A filter of one pixel: the tensors are matrices.
bool IsProduct(const ConvParams& p) {
  return p.filter_h == 1 && p.filter_w == 1 && p.stride_h == 1 && p.stride_w == 1 && p.pad_top == 0 &&
         p.pad_left == 0 && p.out_h == p.in_h && p.out_w == p.in_w;
}

int64_t Pixels(const ConvParams& p) { return p.batch * p.out_h * p.out_w; }

}  // namespace

template <typename In, typename Out>
bool ConvBf16(const ConvParams& p, const In* input, const In* filter, Out* output, Parallel& parallel,
              const GemmEpilogue<float>& epilogue, const uint16_t* packed) {
  const int64_t depth = p.filter_h * p.filter_w * p.in_c;
  if (!IsPossible(p) || depth < kMinDepth || p.out_c < kMinColumns || Pixels(p) < kMinPixels) return false;
  if (IsProduct(p)) {
    return GemmBf16({.m = Pixels(p), .n = p.out_c, .k = p.in_c}, input, filter, output, parallel, epilogue,
                    packed);
  }
  const Rounded images(input, p.batch * p.in_h * p.in_w * p.in_c, parallel);
  const Scratch panels = Scratch::Of<uint16_t>(packed == nullptr ? PackedBf16Elements(depth, p.out_c) : 0);
  if (images.data() == nullptr || !panels.ok()) return false;
  if (packed == nullptr) {
    PackPanels(depth, p.out_c, filter, p.out_c, false, panels.data<uint16_t>(), parallel);
    packed = panels.data<uint16_t>();
  }
  const Bf16Results results{
      .out = output, .to_float = sizeof(Out) == 4, .columns = p.out_c, .epilogue = epilogue};
  return MultiplyWindows(ForwardWindows(p, images.data()), p.batch, p.in_c % kBf16Step == 0, packed, results,
                         parallel);
}

namespace {

// The gradient for the pixels of one phase of the strides.
Windows BackwardWindows(const ConvParams& p, const uint16_t* gradients, const AxisPhase& row,
                        const AxisPhase& column, std::vector<int64_t>* filter_pixels) {
  const ConvAxis rows = RowAxis(p), columns = ColumnAxis(p);
  // Pixel i of the image has i + pad = q * stride + phase.
  const auto first = [](const ConvAxis& axis, int64_t phase) {
    const int64_t behind = axis.pad - phase;
    return behind <= 0 ? 0 : CeilDiv(behind, axis.stride);
  };
  const int64_t q = first(rows, row.phase), r = first(columns, column.phase);
  const int64_t top = q * rows.stride + row.phase - rows.pad;
  const int64_t left = r * columns.stride + column.phase - columns.pad;
  Windows w{.images = gradients,
            .in_h = p.out_h,
            .in_w = p.out_w,
            .depth = p.out_c,
            .rows = top < p.in_h ? CeilDiv(p.in_h - top, rows.stride) : 0,
            .columns = left < p.in_w ? CeilDiv(p.in_w - left, columns.stride) : 0,
            .step_h = 1,
            .step_w = 1,
            .taps = {},
            .row_taps = 1,
            .out_h = p.in_h,
            .out_w = p.in_w,
            .out_step_h = rows.stride,
            .out_step_w = columns.stride,
            .out_top = top,
            .out_left = left};
  for (const int64_t y : row.taps) {
    for (const int64_t x : column.taps) {
      w.taps.push_back({q - rows.shift(y), r - columns.shift(x)});
      filter_pixels->push_back(y * p.filter_w + x);
    }
  }
  return w;
}

// Pixels that no tap reads have no gradient.
template <typename Out>
void Clear(Out* out, int64_t count) {
  std::fill(out, out + count, Out(0));
}

}  // namespace

template <typename In, typename Out>
bool ConvBackpropInputBf16(const ConvParams& p, const In* filter, const In* out_grad, Out* in_grad,
                           Parallel& parallel) {
  if (!IsPossible(p) || p.out_c < kMinDepth || p.in_c < kMinColumns || Pixels(p) < kMinPixels) return false;
  if (IsProduct(p)) {
    return GemmBf16({.m = Pixels(p), .n = p.in_c, .k = p.out_c, .trans_b = true}, out_grad, filter, in_grad,
                    parallel);
  }
  const std::vector<AxisPhase> rows = PhasesOf(RowAxis(p)), columns = PhasesOf(ColumnAxis(p));
  const Rounded gradients(out_grad, Pixels(p) * p.out_c, parallel);
  // For each tap the transposed matrix of one pixel of the filter, its rows padded to a step.
  const int64_t tap_steps = CeilDiv(p.out_c, kBf16Step), panels = CeilDiv(p.in_c, kBf16Group);
  const int64_t taps = p.filter_h * p.filter_w;
  const Scratch scratch = Scratch::Of<uint16_t>(taps * tap_steps * panels * kBf16StepElements);
  if (gradients.data() == nullptr || !scratch.ok()) return false;
  const Bf16Kernels& kernels = *ActiveBf16Kernels();
  const GemmEpilogue<float> nothing;
  const Bf16Results results{
      .out = in_grad, .to_float = sizeof(Out) == 4, .columns = p.in_c, .epilogue = nothing};
  const bool all =
      static_cast<int64_t>(rows.size()) == p.stride_h && static_cast<int64_t>(columns.size()) == p.stride_w;
  if (!all) Clear(in_grad, p.batch * p.in_h * p.in_w * p.in_c);
  for (const AxisPhase& row : rows) {
    for (const AxisPhase& column : columns) {
      std::vector<int64_t> pixels;
      const Windows windows = BackwardWindows(p, gradients.data(), row, column, &pixels);
      if (windows.results(p.batch) == 0) continue;
      auto* const packed = scratch.data<uint16_t>();
      const auto of_phase = static_cast<int64_t>(pixels.size());
      parallel.For(panels * of_phase, p.out_c * 4 + 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t panel = i / of_phase, tap = i % of_phase, first = panel * kBf16Group;
          const In* const matrix = filter + pixels[static_cast<size_t>(tap)] * p.in_c * p.out_c;
          kernels.pack({.source = matrix + first * p.out_c,
                        .is_float = sizeof(In) == 4,
                        .ld = p.out_c,
                        .along_k = true,
                        .as_rows = false,
                        .count = std::min(kBf16Group, p.in_c - first),
                        .k = p.out_c,
                        .tiles = packed + i * tap_steps * kBf16StepElements});
        }
      });
      if (!MultiplyWindows(windows, p.batch, /*aligned=*/true, packed, results, parallel)) return false;
    }
  }
  return true;
}

namespace {

// The gradient of the filter: [out_c, pixels] * [pixels, filter_h * filter_w * in_c], cut into ranges of
// columns and parts of the pixels. Everything depends on the shape only.
struct FilterGrid {
  int64_t pixels, depth;      // of the sums, and columns
  int64_t columns, ranges;    // of a range
  int64_t part_steps, parts;  // steps of 32 pixels of a part

  explicit FilterGrid(const ConvParams& p) : pixels(Pixels(p)), depth(p.filter_h * p.filter_w * p.in_c) {
    constexpr int64_t kMaxColumns = 256, kWantedUnits = 16, kMaxSums = 1 << 22;
    columns = std::min(kMaxColumns, RoundUp(depth, kBf16Group));
    ranges = CeilDiv(depth, columns);
    const int64_t steps = CeilDiv(pixels, kBf16Step);
    const int64_t room = std::max<int64_t>(kMaxSums / (depth * p.out_c), 1);
    parts = std::clamp<int64_t>(kWantedUnits / ranges, 1, std::min(room, CeilDiv(steps, 16)));
    part_steps = CeilDiv(steps, parts);
    parts = CeilDiv(steps, part_steps);
  }
};

// The values [begin, end) of those that pixel `index` reads.
void RunsWithin(const Windows& windows, int64_t index, int64_t begin, int64_t end, std::vector<Bf16Run>* all,
                std::vector<Bf16Run>* runs) {
  windows.RunsOf(index, all);
  runs->clear();
  int64_t at = 0;
  for (const Bf16Run& run : *all) {
    const int64_t from = std::max(begin, at), to = std::min(end, at + run.length);
    if (from < to) runs->push_back({run.data == nullptr ? nullptr : run.data + (from - at), to - from});
    at += run.length;
  }
}

// The sums of one unit, in blocks of 32 x 32; the blocks of one panel of columns are contiguous.
class FilterUnit {
 public:
  FilterUnit(const ConvParams& p, const FilterGrid& grid, const Windows& windows, const uint16_t* gradients)
      : p_(p),
        grid_(grid),
        windows_(windows),
        gradients_(gradients),
        panels_(grid.columns / kBf16Group),
        groups_(CeilDiv(p.out_c, kBf16Group)),
        lines_(Scratch::Of<uint16_t>(kBf16Step * grid.columns)),
        packed_(Scratch::Of<uint16_t>(kSteps * panels_ * kBf16StepElements)),
        sums_(Scratch::Of<float>(panels_ * groups_ * kBf16Sums)) {}

  bool ok() const { return lines_.ok() && packed_.ok() && sums_.ok(); }

  // Writes to out[depth, out_c], rows of the unit's range.
  void Run(int64_t range, int64_t part, float* out) {
    const Bf16Kernels& kernels = *ActiveBf16Kernels();
    const int64_t begin = range * grid_.columns, end = std::min(begin + grid_.columns, grid_.depth);
    const int64_t all_steps = CeilDiv(grid_.pixels, kBf16Step);
    const int64_t last = std::min((part + 1) * grid_.part_steps, all_steps);
    bool accumulate = false;
    for (int64_t step = part * grid_.part_steps; step < last; step += kSteps) {
      const int64_t steps = std::min(kSteps, last - step);
      for (int64_t i = 0; i < steps; ++i) PackStep((step + i) * kBf16Step, begin, end, i);
      for (int64_t j = 0; j * kBf16Group < end - begin; ++j) {
        for (int64_t i = 0; i < groups_; ++i) {
          kernels.multiply({.a = gradients_ + (i * all_steps + step) * kBf16StepElements,
                            .b = packed_.data<uint16_t>() + j * kSteps * kBf16StepElements,
                            .steps = steps,
                            .rows = std::min(kBf16Group, p_.out_c - i * kBf16Group),
                            .cols = std::min(kBf16Group, end - begin - j * kBf16Group),
                            .sums = Block(i, j),
                            .accumulate = accumulate});
        }
      }
      accumulate = true;
    }
    for (int64_t k = begin; k < end; ++k) {
      const int64_t j = (k - begin) / kBf16Group, column = (k - begin) % kBf16Group;
      for (int64_t o = 0; o < p_.out_c; ++o)
        out[k * p_.out_c + o] = Block(o / kBf16Group, j)[o % kBf16Group * kBf16Group + column];
    }
  }

 private:
  static constexpr int64_t kSteps = 8;

  float* Block(int64_t group, int64_t panel) const {
    return sums_.data<float>() + (panel * groups_ + group) * kBf16Sums;
  }

  // Packs step i of the panels, from pixel `first` on.
  void PackStep(int64_t first, int64_t begin, int64_t end, int64_t i) {
    const Bf16Kernels& kernels = *ActiveBf16Kernels();
    auto* const lines = lines_.data<uint16_t>();
    const int64_t count = std::min(kBf16Step, grid_.pixels - first);
    for (int64_t pixel = 0; pixel < count; ++pixel) {
      RunsWithin(windows_, first + pixel, begin, end, &all_, &runs_);
      kernels.join(runs_.data(), static_cast<int64_t>(runs_.size()), lines + pixel * grid_.columns);
    }
    for (int64_t j = 0; j * kBf16Group < end - begin; ++j) {
      kernels.pack({.source = lines + j * kBf16Group,
                    .is_float = false,
                    .ld = grid_.columns,
                    .along_k = false,
                    .as_rows = false,
                    .count = std::min(kBf16Group, end - begin - j * kBf16Group),
                    .k = count,
                    .tiles = packed_.data<uint16_t>() + (j * kSteps + i) * kBf16StepElements});
    }
  }

  const ConvParams& p_;
  const FilterGrid& grid_;
  const Windows& windows_;
  const uint16_t* const gradients_;
  const int64_t panels_, groups_;
  const Scratch lines_, packed_, sums_;
  std::vector<Bf16Run> all_, runs_;
};

float* SumsTo(float* out, const Scratch& /*scratch*/) { return out; }
float* SumsTo(uint16_t* /*out*/, const Scratch& scratch) { return scratch.data<float>(); }

}  // namespace

template <typename In, typename Out>
bool ConvBackpropFilterBf16(const ConvParams& p, const In* input, const In* out_grad, Out* filter_grad,
                            Parallel& parallel) {
  if (!IsPossible(p)) return false;
  const FilterGrid grid(p);
  if (grid.depth < kMinDepth || p.out_c < kMinColumns || grid.pixels < 4 * kMinPixels) return false;
  const Rounded images(input, p.batch * p.in_h * p.in_w * p.in_c, parallel);
  const int64_t steps = CeilDiv(grid.pixels, kBf16Step), size = steps * kBf16StepElements;
  const int64_t groups = CeilDiv(p.out_c, kBf16Group), results = grid.depth * p.out_c;
  constexpr bool kToFloat = sizeof(Out) == 4;
  const Scratch packed = Scratch::Of<uint16_t>(groups * size);
  const Scratch partial = Scratch::Of<float>((grid.parts - (kToFloat ? 1 : 0)) * results);
  if (images.data() == nullptr || !packed.ok() || !partial.ok()) return false;
  const Bf16Kernels& kernels = *ActiveBf16Kernels();
  // Pieces of the pixels: the steps of an operand are independent of each other.
  constexpr int64_t kPieceSteps = 16;
  const int64_t pieces = CeilDiv(steps, kPieceSteps);
  parallel.For(groups * pieces, kPieceSteps * 200, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t group = i / pieces, step = i % pieces * kPieceSteps;
      kernels.pack({.source = out_grad + step * kBf16Step * p.out_c + group * kBf16Group,
                    .is_float = sizeof(In) == 4,
                    .ld = p.out_c,
                    .along_k = false,
                    .as_rows = true,
                    .count = std::min(kBf16Group, p.out_c - group * kBf16Group),
                    .k = std::min(kPieceSteps * kBf16Step, grid.pixels - step * kBf16Step),
                    .tiles = packed.data<uint16_t>() + group * size + step * kBf16StepElements});
    }
  });
  const Windows windows = ForwardWindows(p, images.data());
  // Part 0 is written to the result itself if that is of floats.
  float* const sums = SumsTo(filter_grad, partial);
  const auto part_sums = [&](int64_t part) {
    return part == 0 ? sums : partial.data<float>() + (part - (kToFloat ? 1 : 0)) * results;
  };
  std::atomic<bool> short_of_memory{false};
  parallel.For(grid.ranges * grid.parts, grid.part_steps * groups * grid.columns * 2,
               [&](int64_t begin, int64_t end) {
                 FilterUnit unit(p, grid, windows, packed.data<uint16_t>());
                 if (!unit.ok()) {
                   short_of_memory = true;
                   return;
                 }
                 kernels.begin(kBf16Group);
                 for (int64_t i = begin; i < end; ++i)
                   unit.Run(i % grid.ranges, i / grid.ranges, part_sums(i / grid.ranges));
                 kernels.end();
               });
  if (short_of_memory) return false;
  for (int64_t part = 1; part < grid.parts; ++part) {
    const float* const more = part_sums(part);
    for (int64_t i = 0; i < results; ++i) sums[i] += more[i];
  }
  if constexpr (!kToFloat) kernels.round(sums, results, filter_grad);
  return true;
}

#define MR_BF16_CONVS(In, Out)                                                                   \
  template bool ConvBf16(const ConvParams&, const In*, const In*, Out*, Parallel&,               \
                         const GemmEpilogue<float>&, const uint16_t*);                           \
  template bool ConvBackpropInputBf16(const ConvParams&, const In*, const In*, Out*, Parallel&); \
  template bool ConvBackpropFilterBf16(const ConvParams&, const In*, const In*, Out*, Parallel&);
MR_BF16_CONVS(float, float)
MR_BF16_CONVS(uint16_t, uint16_t)
#undef MR_BF16_CONVS

}  // namespace millrace::cpu
