// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// DrawBoundingBoxes, SampleDistortedBoundingBox, RandomCrop and ExtractGlimpse.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "base/random/philox.h"
#include "kernels/cpu/nn/util.h"

namespace millrace {
namespace {

// Draws numbers one at a time, as TensorFlow's kernels do.
class Draws {
 public:
  explicit Draws(PhiloxRandom generator) : generator_(generator) {}
  uint32_t Word() {
    if (used_ == block_.size()) {
      block_ = generator_();
      used_ = 0;
    }
    return block_[used_++];
  }
  // In [0, 1).
  float Unit() { return std::bit_cast<float>((Word() & 0x7fffffu) | 0x3f800000u) - 1.0f; }
  // In [0, n). REQUIRES: n > 0.
  uint32_t Below(uint32_t n) {
    if ((n & (n - 1)) == 0) return Word() & (n - 1);
    const uint32_t uneven = std::numeric_limits<uint32_t>::max() % n + 1;
    uint32_t word = Word();
    while (word < uneven) word = Word();
    return word % n;
  }

 private:
  PhiloxRandom generator_;
  PhiloxRandom::Block block_{};
  size_t used_ = 4;
};

// Converts a float to an integer; NaN and values out of range become the nearest limit of 32 bits.
int64_t Whole(float x) {
  if (!(x > -2147483648.0f)) return std::numeric_limits<int32_t>::min();
  return x < 2147483648.0f ? static_cast<int64_t>(x) : std::numeric_limits<int32_t>::max();
}

class DrawBoxesKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& images = context.input(0);
    const Tensor& boxes = context.input(1);
    if (images.rank() != 4) return errors::InvalidArgument("The rank of the images should be 4");
    if (boxes.rank() != 3) return errors::InvalidArgument("The rank of the boxes tensor should be 3");
    if (images.dim(0) != boxes.dim(0)) return errors::InvalidArgument("The batch sizes should be the same");
    if (boxes.dim(2) != 4)
      return errors::InvalidArgument("The size of the third dimension of the box must be 4. Received: ",
                                     boxes.dim(2));
    const int64_t depth = images.dim(3);
    if (depth != 4 && depth != 1 && depth != 3) {
      return errors::InvalidArgument("Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA)");
    }
    MR_ASSIGN_OR_RETURN(const Colors colors, ReadColors(context, depth));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, images.shape()));
    if (out->num_elements() == 0) return Status();
    std::memcpy(out->raw_data(), images.raw_data(), images.num_bytes());
    for (int64_t b = 0; b < images.dim(0); ++b) {
      for (int64_t i = 0; i < boxes.dim(1); ++i) {
        const float* box = boxes.data<float>() + (b * boxes.dim(1) + i) * 4;
        if (out->dtype() == DataType::kHalf) {
          Draw(box, colors.Of(i), b, out->shape(), out->data<half>());
        } else {
          Draw(box, colors.Of(i), b, out->shape(), out->data<float>());
        }
      }
    }
    return Status();
  }

 private:
  // The colours of boxes, used in turn.
  struct Colors {
    const float* values;
    int64_t count, width;
    const float* Of(int64_t box) const { return values + box % count * width; }
  };

  // The colours in input 2, or default ones if it is missing or empty.
  static StatusOr<Colors> ReadColors(const KernelContext& context, int64_t depth) {
    static constexpr float kColors[][4] = {{1, 1, 0, 1},   {0, 0, 1, 1},   {1, 0, 0, 1},  {0, 1, 0, 1},
                                           {.5, 0, .5, 1}, {.5, .5, 0, 1}, {.5, 0, 0, 1}, {0, 0, .5, 1},
                                           {0, 1, 1, 1},   {1, 0, 1, 1}};
    // On a grey image the default colour of all boxes is white.
    const Colors usual{kColors[0], depth == 1 ? 1 : static_cast<int64_t>(std::size(kColors)), 4};
    if (context.num_inputs() == 2) return usual;
    const Tensor& given = context.input(2);
    if (given.rank() != 2) return errors::InvalidArgument("colors must be a 2-D matrix", given.shape());
    if (given.dim(1) < depth) {
      return errors::InvalidArgument("colors must have equal or more channels than the image provided: ",
                                     given.shape());
    }
    return given.num_elements() == 0 ? usual : Colors{given.data<float>(), given.dim(0), given.dim(1)};
  }

  template <typename T>
  static void Draw(const float* box, const float* color, int64_t image, const TensorShape& shape, T* pixels) {
    const int64_t height = shape.dim(1), width = shape.dim(2), depth = shape.dim(3);
    const int64_t top = Whole(box[0] * static_cast<float>(height - 1));
    const int64_t left = Whole(box[1] * static_cast<float>(width - 1));
    const int64_t bottom = Whole(box[2] * static_cast<float>(height - 1));
    const int64_t right = Whole(box[3] * static_cast<float>(width - 1));
    if (std::isnan(box[0] + box[1] + box[2] + box[3]) || top > bottom || left > right) return;
    if (top >= height || bottom < 0 || left >= width || right < 0) return;
    const auto paint = [&](int64_t y, int64_t x) {
      T* pixel = pixels + ((image * height + y) * width + x) * depth;
      for (int64_t c = 0; c < depth; ++c) pixel[c] = static_cast<T>(color[c]);
    };
    const int64_t first_row = std::max<int64_t>(top, 0), last_row = std::min(bottom, height - 1);
    const int64_t first_column = std::max<int64_t>(left, 0), last_column = std::min(right, width - 1);
    for (int64_t x = first_column; x <= last_column; ++x) {
      if (top >= 0) paint(top, x);
      if (bottom < height) paint(bottom, x);
    }
    for (int64_t y = first_row; y <= last_row; ++y) {
      if (left >= 0) paint(y, left);
      if (right < width) paint(y, right);
    }
  }
};

struct Box {
  int64_t left = 0, top = 0, right = 0, bottom = 0;
  float Area() const { return static_cast<float>((right - left) * (bottom - top)); }
  bool empty() const { return left >= right || top >= bottom; }
  Box Intersect(const Box& o) const {
    const Box both{std::max(left, o.left), std::max(top, o.top), std::min(right, o.right),
                   std::min(bottom, o.bottom)};
    return both.empty() ? Box() : both;
  }
};

// Draws a crop with the aspect ratio and a share of the image in the range; none if rounding leaves
// none.
std::optional<Box> DrawCrop(int64_t image_w, int64_t image_h, float least_share, float most_share,
                            float aspect, Draws& draws) {
  if (!(most_share > 0) || !(aspect > 0) || image_w <= 0 || image_h <= 0 || least_share > most_share)
    return std::nullopt;
  const float pixels = static_cast<float>(image_w) * static_cast<float>(image_h);
  const float least = least_share * pixels, most = most_share * pixels;
  const auto rounded = [](float x) { return int64_t{std::lrint(std::min(x, 2147483648.0f))}; };
  const auto wide = [&](int64_t h) { return rounded(static_cast<float>(h) * aspect); };
  int64_t height = rounded(std::sqrt(least / aspect));
  int64_t tallest = rounded(std::sqrt(most / aspect));
  if (wide(tallest) > image_w) {
    // The largest height whose rounded width still fits.
    tallest =
        static_cast<int64_t>((static_cast<double>(image_w) + 0.5 - 0.0000001) / static_cast<double>(aspect));
    if (wide(tallest) > image_w) --tallest;
  }
  tallest = std::min(tallest, image_h);
  height = std::min(height, tallest);
  if (height < tallest) height += draws.Below(static_cast<uint32_t>(tallest - height + 1));
  int64_t width = wide(height);
  // Rounding may leave the range by a little.
  if (static_cast<float>(width * height) < least) width = wide(++height);
  if (static_cast<float>(width * height) > most) width = wide(--height);
  const auto area = static_cast<float>(width * height);
  if (area < least || area > most || width > image_w || height > image_h || width <= 0 || height <= 0)
    return std::nullopt;
  const int64_t y = height < image_h ? draws.Below(static_cast<uint32_t>(image_h - height)) : 0;
  const int64_t x = width < image_w ? draws.Below(static_cast<uint32_t>(image_w - width)) : 0;
  return Box{x, y, x + width, y + height};
}

bool CoversOne(const Box& crop, float share, const std::vector<Box>& objects) {
  constexpr float kLeastArea = 1;
  if (crop.Area() < kLeastArea) return false;
  return std::any_of(objects.begin(), objects.end(), [&](const Box& object) {
    const float area = object.Area();
    return area >= kLeastArea && crop.Intersect(object).Area() / area >= share;
  });
}

int64_t Integer(const Tensor& t, int64_t i) {
  return VisitReal(t.dtype(), int64_t{0}, [&]<typename T>() -> int64_t {
    if constexpr (std::is_integral_v<T>) return static_cast<int64_t>(t.data<T>()[i]);
    return 0;
  });
}
void SetInteger(Tensor* t, int64_t i, int64_t value) {
  VisitReal(t->dtype(), 0, [&]<typename T>() {
    if constexpr (std::is_integral_v<T>) t->data<T>()[i] = static_cast<T>(value);
    return 0;
  });
}

class SampleBoxKernel final : public OpKernel {
 public:
  explicit SampleBoxKernel(KernelConstruction& c)
      : OpKernel(c),
        generator_(c.Attr<int64_t>("seed"), c.Attr<int64_t>("seed2")),
        covered_(num_inputs() == 2 ? c.Attr<float>("min_object_covered") : 0),
        aspect_(c.Attr<std::vector<float>>("aspect_ratio_range")),
        area_(c.Attr<std::vector<float>>("area_range")),
        attempts_(c.Attr<int64_t>("max_attempts")),
        boxes_optional_(c.Attr<bool>("use_image_if_no_bounding_boxes")) {
    if (!c.status().ok()) return;
    if (num_inputs() == 2 && !(covered_ >= 0))
      c.SetError(errors::InvalidArgument("Min object covered must be non-negative: ", covered_));
    if (aspect_.size() != 2)
      c.SetError(errors::InvalidArgument("Aspect ratio range field must specify 2 dimensions"));
    if (area_.size() != 2) c.SetError(errors::InvalidArgument("Area range field must specify 2 dimensions"));
    if (!c.status().ok()) return;
    if (!(aspect_[0] > 0) || !(aspect_[1] > 0)) {
      c.SetError(errors::InvalidArgument("Aspect ratio range must be non-negative: [", aspect_[0], ",",
                                         aspect_[1], "]"));
    }
    if (!(area_[0] > 0) || !(area_[1] > 0)) {
      c.SetError(errors::InvalidArgument("Area range must be non-negative: [", area_[0], ",", area_[1], "]"));
    }
    if (!(area_[0] <= 1) || !(area_[1] <= 1)) {
      c.SetError(errors::InvalidArgument("Area range must be less then or equal to 1.0: [", area_[0], ",",
                                         area_[1], "]"));
    }
    if (attempts_ <= 0) c.SetError(errors::InvalidArgument("Max attempts must be positive: ", attempts_));
    if (attempts_ > kMostAttempts)
      c.SetError(errors::InvalidArgument("Max attempts must not be over ", kMostAttempts, ": ", attempts_));
  }

  Status Compute(KernelContext& context) override {
    const Tensor& size = context.input(0);
    if (size.rank() != 1) return errors::InvalidArgument("image_size must be 1-dimensional", size.shape());
    if (size.dim(0) != 3) return errors::InvalidArgument("image_size must contain 3 elements", size.shape());
    const int64_t height = Integer(size, 0), width = Integer(size, 1);
    constexpr int64_t kMostSide = int64_t{1} << 30;
    if (height <= 0 || width <= 0 || height > kMostSide || width > kMostSide) {
      return errors::InvalidArgument("image height and width must be positive, got ", height, " and ", width);
    }
    MR_ASSIGN_OR_RETURN(const std::vector<Box> objects, ReadBoxes(context.input(1), height, width));
    float covered = covered_;
    if (num_inputs() == 3) {
      const Tensor& share = context.input(2);
      if (!share.shape().IsScalar())
        return errors::InvalidArgument("min_object_covered must be 0-D, got shape ", share.shape());
      covered = share.scalar<float>();
      if (!(covered >= 0))
        return errors::InvalidArgument("Min object covered must be non-negative: ", covered);
    }
    // As many blocks as TensorFlow reserves for its 32-bit samples.
    Draws draws(generator_.ReserveBlocks(static_cast<uint64_t>(4 * attempts_ + 3) / 4));
    Box crop{0, 0, width, height};
    // Each attempt checks all boxes.
    const int64_t attempts = std::min(attempts_, kMostComparisons / static_cast<int64_t>(objects.size()) + 1);
    for (int64_t i = 0; i < attempts; ++i) {
      const float aspect = draws.Unit() * (aspect_[1] - aspect_[0]) + aspect_[0];
      const auto drawn = DrawCrop(width, height, area_[0], area_[1], aspect, draws);
      if (!drawn.has_value() || !CoversOne(*drawn, covered, objects)) continue;
      crop = *drawn;
      break;
    }
    return SetOutputs(context, crop, height, width);
  }

 private:
  static constexpr int64_t kMostAttempts = 1 << 20;
  static constexpr int64_t kMostComparisons = 1 << 28;

  StatusOr<std::vector<Box>> ReadBoxes(const Tensor& boxes, int64_t height, int64_t width) const {
    if (boxes.rank() != 3)
      return errors::InvalidArgument("input boxes must be 3-dimensional [batch, num_boxes, coords]: ",
                                     boxes.shape());
    if (boxes.dim(2) != 4) {
      return errors::InvalidArgument("bounding boxes must have shape [4] or [*, 4], got ", boxes.shape());
    }
    if (boxes.num_elements() == 0 && !boxes_optional_) {
      return errors::InvalidArgument(
          "No bounding boxes provided as input. One must enable use_image_if_no_bounding_boxes if you wish "
          "to not provide any bounding boxes.");
    }
    std::vector<Box> objects;
    const float* data = boxes.data<float>();
    for (int64_t i = 0; i < boxes.num_elements(); i += 4) {
      for (int k = 0; k < 4; ++k) {
        if (!(data[i + k] >= 0 && data[i + k] <= 1)) {
          return errors::InvalidArgument("All bounding box coordinates must be in [0.0, 1.0]: ", data[i + k]);
        }
      }
      const auto h = static_cast<float>(height), w = static_cast<float>(width);
      objects.push_back(
          {Whole(data[i + 1] * w), Whole(data[i] * h), Whole(data[i + 3] * w), Whole(data[i + 2] * h)});
    }
    if (objects.empty()) objects.push_back({0, 0, width, height});
    return objects;
  }

  static Status SetOutputs(KernelContext& context, const Box& crop, int64_t height, int64_t width) {
    MR_ASSIGN_OR_RETURN(Tensor * begin, context.AllocateOutput(0, TensorShape({3})));
    MR_ASSIGN_OR_RETURN(Tensor * size, context.AllocateOutput(1, TensorShape({3})));
    MR_ASSIGN_OR_RETURN(Tensor * box, context.AllocateOutput(2, TensorShape({1, 1, 4})));
    const int64_t begins[] = {crop.top, crop.left, 0};
    const int64_t sizes[] = {crop.bottom - crop.top, crop.right - crop.left, -1};
    for (int i = 0; i < 3; ++i) {
      SetInteger(begin, i, begins[i]);
      SetInteger(size, i, sizes[i]);
    }
    float* shares = box->data<float>();
    shares[0] = static_cast<float>(crop.top) / static_cast<float>(height);
    shares[1] = static_cast<float>(crop.left) / static_cast<float>(width);
    shares[2] = static_cast<float>(crop.bottom) / static_cast<float>(height);
    shares[3] = static_cast<float>(crop.right) / static_cast<float>(width);
    return Status();
  }

  GuardedPhilox generator_;
  const float covered_;
  const std::vector<float> aspect_, area_;
  const int64_t attempts_;
  const bool boxes_optional_;
};

class RandomCropKernel final : public OpKernel {
 public:
  explicit RandomCropKernel(KernelConstruction& c)
      : OpKernel(c), generator_(c.Attr<int64_t>("seed"), c.Attr<int64_t>("seed2")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& image = context.input(0);
    const Tensor& size = context.input(1);
    if (image.rank() != 3) return errors::InvalidArgument("input must be 3-dimensional", image.shape());
    if (size.rank() != 1) return errors::InvalidArgument("shape_t must be 1-dimensional", size.shape());
    if (size.num_elements() != 2)
      return errors::InvalidArgument("shape_t must have two elements", size.shape());
    const int64_t height = IntValue(size, 0), width = IntValue(size, 1), channels = image.dim(2);
    if (height < 0 || width < 0) return errors::InvalidArgument("the crop's size must not be negative");
    if (height > image.dim(0) || width > image.dim(1)) {
      return errors::InvalidArgument("the crop [", height, ",", width, "] must fit into the image ",
                                     image.shape());
    }
    if (image.dim(0) - height > std::numeric_limits<int32_t>::max() ||
        image.dim(1) - width > std::numeric_limits<int32_t>::max()) {
      return errors::InvalidArgument("the image is too large: ", image.shape());
    }
    Draws draws(generator_.ReserveBlocks(1));
    const auto choose = [&](int64_t all, int64_t part) {
      return all > part ? int64_t{draws.Word() % static_cast<uint32_t>(all - part + 1)} : 0;
    };
    const int64_t top = choose(image.dim(0), height), left = choose(image.dim(1), width);
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape({height, width, channels})));
    const auto pixel = static_cast<size_t>(channels) * ElementSize(image.dtype());
    const auto* from = static_cast<const char*>(image.raw_data());
    auto* to = static_cast<char*>(out->raw_data());
    for (int64_t y = 0; y < height && out->num_elements() > 0; ++y) {
      std::memcpy(to + static_cast<size_t>(y * width) * pixel,
                  from + static_cast<size_t>((top + y) * image.dim(1) + left) * pixel,
                  static_cast<size_t>(width) * pixel);
    }
    return Status();
  }

 private:
  GuardedPhilox generator_;
};

class GlimpseKernel final : public OpKernel {
 public:
  explicit GlimpseKernel(KernelConstruction& c)
      : OpKernel(c),
        centered_(c.Attr<bool>("centered")),
        normalized_(c.Attr<bool>("normalized")),
        noise_(c.Attr<std::string>("noise")),
        generator_(0, 0) {
    // The attribute uniform_noise is the older way to select the noise.
    if (!c.Attr<bool>("uniform_noise") && noise_ == "uniform") noise_ = "gaussian";
    if (noise_ != "uniform" && noise_ != "gaussian" && noise_ != "zero")
      c.SetError(errors::InvalidArgument("noise could only be uniform, gaussian, or zero, got ", noise_));
  }
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& size = context.input(1);
    const Tensor& offsets = context.input(2);
    if (in.rank() != 4) {
      return errors::InvalidArgument("input must be 4-dimensional (batch_size, height, width, depth)",
                                     in.shape());
    }
    if (size.rank() != 1 || size.dim(0) != 2)
      return errors::InvalidArgument("input must be a vector of size 2 (height, width)", size.shape());
    if (offsets.rank() != 2) return errors::InvalidArgument("input must be a matrix", offsets.shape());
    if (offsets.dim(0) != in.dim(0))
      return errors::InvalidArgument("first dimension should be batch", offsets.shape());
    if (offsets.dim(1) != 2)
      return errors::InvalidArgument("second dimension should be of size 2 (y,x)", offsets.shape());
    const int64_t height = IntValue(size, 0), width = IntValue(size, 1), channels = in.dim(3);
    if (height < 0 || width < 0)
      return errors::InvalidArgument("size must not be negative: ", height, ", ", width);
    MR_RETURN_IF_ERROR(CheckImageSize("The glimpse", in.dim(0), height, width, channels));
    MR_ASSIGN_OR_RETURN(Tensor * out,
                        context.AllocateOutput(0, TensorShape({in.dim(0), height, width, channels})));
    for (int64_t b = 0; b < in.dim(0) && out->num_elements() > 0; ++b) Extract(b, in, offsets, out);
    return Status();
  }

 private:
  void Extract(int64_t b, const Tensor& in, const Tensor& offsets, Tensor* out) {
    const int64_t in_h = in.dim(1), in_w = in.dim(2), channels = in.dim(3);
    const int64_t height = out->dim(1), width = out->dim(2);
    const int64_t top = Start(offsets.data<float>()[2 * b], in_h, height);
    const int64_t left = Start(offsets.data<float>()[2 * b + 1], in_w, width);
    const float* from = in.data<float>() + b * in_h * in_w * channels;
    float* to = out->data<float>() + b * height * width * channels;
    if (top < 0 || left < 0 || top + height > in_h || left + width > in_w)
      FillNoise({from, static_cast<size_t>(in_h * in_w * channels)},
                {to, static_cast<size_t>(height * width * channels)});
    const int64_t first = std::max<int64_t>(left, 0), last = std::min(left + width, in_w);
    for (int64_t y = std::max<int64_t>(top, 0); y < std::min(top + height, in_h) && first < last; ++y) {
      std::copy_n(from + (y * in_w + first) * channels, (last - first) * channels,
                  to + ((y - top) * width + first - left) * channels);
    }
  }

  // The first row or column of the image in the glimpse.
  int64_t Start(float offset, int64_t in, int64_t out) const {
    if (normalized_) offset *= static_cast<float>(in);
    if (centered_) offset = offset / 2.0f + static_cast<float>(in) / 2.0f - static_cast<float>(out) / 2.0f;
    return Whole(offset);
  }

  // Noise with the distribution of the image, where the glimpse extends beyond it.
  void FillNoise(std::span<const float> image, std::span<float> glimpse) {
    if (noise_ == "zero" || image.empty()) {
      std::fill(glimpse.begin(), glimpse.end(), 0.0f);
      return;
    }
    Draws draws(generator_.Reserve(static_cast<int64_t>(glimpse.size()), 2));
    if (noise_ == "uniform") {
      const auto [least, most] = std::minmax_element(image.begin(), image.end());
      for (float& x : glimpse) x = *least + (*most - *least) * draws.Unit();
      return;
    }
    double sum = 0, squares = 0;
    for (const float x : image) sum += static_cast<double>(x);
    const double mean = sum / static_cast<double>(image.size());
    for (const float x : image) squares += (static_cast<double>(x) - mean) * (static_cast<double>(x) - mean);
    const double deviation = std::sqrt(squares / static_cast<double>(image.size()));
    for (float& x : glimpse) {
      // Box and Muller.
      const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(draws.Unit())));
      x = static_cast<float>(mean + deviation * radius *
                                        std::cos(6.283185307179586 * static_cast<double>(draws.Unit())));
    }
  }

  const bool centered_, normalized_;
  std::string noise_;
  GuardedPhilox generator_;
};

}  // namespace

void RegisterBoxKernels(KernelRegistry& registry) {
  registry.Register<DrawBoxesKernel>(KernelDef("DrawBoundingBoxes"));
  registry.Register<DrawBoxesKernel>(KernelDef("DrawBoundingBoxesV2"));
  registry.Register<SampleBoxKernel>(KernelDef("SampleDistortedBoundingBox"));
  registry.Register<SampleBoxKernel>(KernelDef("SampleDistortedBoundingBoxV2"));
  registry.Register<RandomCropKernel>(KernelDef("RandomCrop"));
  registry.Register<GlimpseKernel>(KernelDef("ExtractGlimpse"));
}

}  // namespace millrace
