// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// AudioSpectrogram and Mfcc: spectrograms, and mel-frequency cepstral coefficients of spectrograms.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <numbers>
#include <vector>

#include "base/mutex.h"
#include "kernels/cpu/contract/scratch.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/linalg/fft.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/loop_math.h"
#include "kernels/cpu/vector/transpose.h"

namespace millrace {
namespace {

class SpectrogramKernel final : public OpKernel {
 public:
  explicit SpectrogramKernel(KernelConstruction& c)
      : OpKernel(c),
        window_(c.Attr<int64_t>("window_size")),
        stride_(c.Attr<int64_t>("stride")),
        squared_(c.Attr<bool>("magnitude_squared")) {
    if (window_ < 2 || window_ > INT32_MAX || stride_ < 1) {
      c.SetError(errors::InvalidArgument("Spectrogram initialization failed for window size ", window_,
                                         " and stride ", stride_));
    }
  }

  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    if (in.rank() != 2) return errors::InvalidArgument("input must be 2-dimensional", in.shape());
    const int64_t samples = in.dim(0), channels = in.dim(1);
    const auto length = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(window_)));
    const int64_t bins = 1 + length / 2;
    const int64_t slices = samples < window_ ? 0 : 1 + (samples - window_) / stride_;
    TensorShape shape;
    for (const int64_t d : {channels, slices, bins}) MR_RETURN_IF_ERROR(shape.TryAddDim(d));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    if (shape.num_elements() == 0) return Status();
    const std::shared_ptr<const Tables> tables = TablesFor(length);
    std::atomic<bool> ok{true};
    context.ParallelFor(channels * slices, length * 3, [&](int64_t begin, int64_t end) {
      const Slices s{in.data<float>(), channels, slices,   stride_,
                     window_,          bins,     squared_, out->data<float>()};
      const RealFft& fft = tables->fft;
      int64_t i = begin;
      if (fft.has_line()) {
        const cpu::Scratch room = cpu::Scratch::Of<float>(fft.line_size(1) + fft.scratch_size(1));
        if (!room.ok()) return ok.store(false);
        for (; i < end; ++i) s.RunLine(*tables, i, room.data<float>(), room.data<float>() + fft.line_size(1));
        return;
      }
      const int64_t lanes = fft.has_lanes() && end - begin >= kLeastLanes ? kLanes : 1;
      std::vector<float> x(static_cast<size_t>(fft.line_size(lanes)));
      std::vector<float> scratch(static_cast<size_t>(fft.scratch_size(lanes)));
      std::vector<float> powers(static_cast<size_t>(bins * lanes));
      for (; i < end; i += lanes) {
        if (lanes == kLanes) {
          s.Run<kLanes>(*tables, i, std::min(end - i, lanes), x.data(), scratch.data(), powers.data());
        } else {
          s.Run<1>(*tables, i, 1, x.data(), scratch.data(), powers.data());
        }
      }
    });
    return ok.load() ? Status() : errors::ResourceExhausted("no memory for the slices of a spectrogram");
  }

 private:
  // In single precision: the error of a bin is below 1e-6 of the largest of its slice.
  using RealFft = cpu::BasicRealFft<float>;
  static constexpr int kLanes = RealFft::kLanes, kLeastLanes = 3;

  struct Tables {
    RealFft fft;
    std::vector<float> hann;
  };
  std::shared_ptr<const Tables> TablesFor(int64_t length) {
    MutexLock lock(mu_);
    if (tables_ != nullptr) return tables_;
    std::vector<float> hann(static_cast<size_t>(window_));
    for (size_t i = 0; i < hann.size(); ++i) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(window_);
      hann[i] = static_cast<float>(0.5 - 0.5 * std::cos(angle));
    }
    return tables_ = std::shared_ptr<const Tables>(new Tables{RealFft(length), std::move(hann)});
  }

  // The windows of all channels that are transformed, by index.
  struct Slices {
    const float* samples;
    int64_t channels, count, stride, window, bins;
    bool squared;
    float* out;

    const float* Start(int64_t i) const { return samples + i % count * stride * channels + i / count; }

    // Transforms `lines` of them from the first on, side by side as kLanes lanes.
    template <int kLines>
    void Run(const Tables& tables, int64_t first, int64_t lines, float* x, float* scratch,
             float* powers) const {
      // Pairs of samples: a real and an imaginary part.
      if (lines < kLines || window % 2 != 0 || 2 * tables.fft.half() != window)
        std::fill_n(x, tables.fft.line_size(kLines), 0.0f);
      if (kLines > 1 && channels == 1) {
        cpu::TransposePlane(Start(first), stride, x, kLines, lines, window, sizeof(float));
      } else {
        for (int64_t l = 0; l < lines; ++l) {
          const float* const from = Start(first + l);
          for (int64_t j = 0; j < window; ++j) x[kLines * j + l] = from[j * channels];
        }
      }
      float units[kLines];
      Shape<kLines>(tables.hann.data(), x, units);
      tables.fft.Forward<kLines>(x, scratch);
      RunLoop([=, &units, bins = bins, squared = squared]() MR_INLINE_LAMBDA {
        for (int64_t k = 0; k < bins; ++k) {
          const float *const re = x + 2 * kLines * k, *const im = re + kLines;
          float* const to = powers + k * kLines;
          ForLanes<kLines>([&](int l) MR_INLINE_LAMBDA {
            const float power = (re[l] * re[l] + im[l] * im[l]) * units[l] * units[l];
            to[l] = squared ? power : std::sqrt(power);
          });
        }
      });
      if constexpr (kLines > 1) {
        cpu::TransposePlane(powers, kLines, out + first * bins, bins, bins, lines, sizeof(float));
      } else {
        std::copy_n(powers, bins, out + first * bins);
      }
    }

    // The same for a slice on its own, where RealFft has that.
    void RunLine(const Tables& tables, int64_t i, float* x, float* scratch) const {
      std::fill(x + window, x + tables.fft.line_size(1), 0.0f);
      int32_t most = 0;
      RunLoop([=, &most, from = Start(i), hann = tables.hann.data(), window = window, channels = channels]()
                  MR_INLINE_LAMBDA {
                    int32_t largest = 0;  // size by its bits
                    const auto add = [&](int64_t j, float sample) MR_INLINE_LAMBDA {
                      x[j] = sample * hann[j];
                      const int32_t size = std::bit_cast<int32_t>(x[j]) & INT32_MAX;
                      largest = largest < size ? size : largest;
                    };
                    if (channels == 1) {
                      for (int64_t j = 0; j < window; ++j) add(j, from[j]);
                    } else {
                      for (int64_t j = 0; j < window; ++j) add(j, from[j * channels]);
                    }
                    most = largest;
                  });
      const bool huge = most > std::bit_cast<int32_t>(kHuge);
      for (int64_t j = 0; huge && j < window; ++j) x[j] *= 1 / kUnit;
      tables.fft.ForwardLine(x, reinterpret_cast<RealFft::Number*>(x), scratch);
      RunLoop([=, to = out + i * bins, bins = bins, squared = squared, unit = huge ? kUnit : 1.0f]()
                  MR_INLINE_LAMBDA {
                    for (int64_t k = 0; k < bins; ++k) {
                      const float re = x[2 * k], im = x[2 * k + 1];
                      const float power = (re * re + im * im) * unit * unit;
                      to[k] = squared ? power : std::sqrt(power);
                    }
                  });
    }

    static constexpr float kHuge = 1e30f, kUnit = 0x1p64f;

    // Multiplies by the window, and divides lines of huge samples, whose sums would overflow, by their unit.
    template <int kLines>
    void Shape(const float* hann, float* x, float* units) const {
      RunLoop([=, window = window]() MR_INLINE_LAMBDA {
        float most[kLines] = {};
        for (int64_t j = 0; j < window; ++j) {
          const float factor = hann[j];
          float* const at = x + kLines * j;
          ForLanes<kLines>([&](int l) MR_INLINE_LAMBDA {
            at[l] *= factor;
            const float size = at[l] < 0 ? -at[l] : at[l];
            most[l] = most[l] < size ? size : most[l];
          });
        }
        bool huge = false;
        for (int l = 0; l < kLines; ++l) {
          units[l] = most[l] > kHuge ? kUnit : 1.0f;
          huge |= most[l] > kHuge;
        }
        for (int64_t j = 0; huge && j < window; ++j) {
          for (int l = 0; l < kLines; ++l) x[kLines * j + l] *= 1 / units[l];
        }
      });
    }
  };

  const int64_t window_, stride_;
  const bool squared_;
  Mutex mu_;
  std::shared_ptr<const Tables> tables_ MR_GUARDED_BY(mu_);
};

double Mel(double hertz) { return 1127.0 * std::log1p(hertz / 700.0); }

// Triangular filters over the bins of a spectrum, evenly spaced in mel. The first one begins at the lower
// limit, and each falls where the next one rises.
struct MelBank {
  int64_t first = 0, end = 0;    // bins that count
  std::vector<int64_t> falling;  // for each of them: the channel whose right side it is on, or -1
  std::vector<float> weights;    // and its weight there; the remainder goes to the next channel
  bool valid = false;            // false: impossible with these parameters

  // Without `is_needed` only the parameters are checked.
  MelBank(int64_t bins, double rate, int64_t channels, double lower, double upper, bool is_needed) {
    if (channels < 1 || !(rate > 0) || bins < 2 || !(lower >= 0) || !(upper > lower)) return;
    if (!std::isfinite(upper)) return;
    valid = true;
    if (!is_needed) return;  // the tensor has no elements: `bins` may be any number
    const double low = Mel(lower), spacing = (Mel(upper) - low) / static_cast<double>(channels + 1);
    const auto center = [&](int64_t channel) { return low + spacing * static_cast<double>(channel + 1); };
    const double hertz = 0.5 * rate / static_cast<double>(bins - 1);
    // All channels are empty if the spectrum does not reach the upper limit.
    const double start = 1.5 + lower / hertz, last = upper / hertz;
    if (!(last < static_cast<double>(bins)) || !(start < static_cast<double>(bins))) return;
    first = static_cast<int64_t>(start);
    end = std::max(static_cast<int64_t>(last) + 1, first);
    int64_t channel = 0;
    for (int64_t i = first; i < end; ++i) {
      const double mel = Mel(static_cast<double>(i) * hertz);
      while (channel < channels && center(channel) < mel) ++channel;
      falling.push_back(channel - 1);
      const double from = channel == 0 ? low : center(channel - 1), to = center(channel);
      weights.push_back(static_cast<float>((to - mel) / (to - from)));
    }
  }

  // Adds up the magnitudes of kLines spectra by channel: [channels, kLines], of powers side by side from the
  // first bin that counts on.
  template <int kLines>
  MR_INLINE_LAMBDA void Apply(const float* powers, int64_t channels, float* energies) const {
    for (int64_t i = 0; i < channels * kLines; ++i) energies[i] = 0;
    for (int64_t i = 0; i < end - first; ++i) {
      const auto at = static_cast<size_t>(i);
      const float weight = weights[at];
      const int64_t channel = falling[at];
      float values[kLines], weighted[kLines];
      ForLanes<kLines>([&](int l) MR_INLINE_LAMBDA { values[l] = std::sqrt(powers[kLines * i + l]); });
      ForLanes<kLines>([&](int l) MR_INLINE_LAMBDA { weighted[l] = values[l] * weight; });
      if (channel >= 0) {
        float* const own = energies + channel * kLines;
        ForLanes<kLines>([&](int l) MR_INLINE_LAMBDA { own[l] += weighted[l]; });
      }
      if (channel + 1 < channels) {
        float* const next = energies + (channel + 1) * kLines;
        ForLanes<kLines>([&](int l) MR_INLINE_LAMBDA { next[l] += values[l] - weighted[l]; });
      }
    }
  }
};

class MfccKernel final : public OpKernel {
 public:
  explicit MfccKernel(KernelConstruction& c)
      : OpKernel(c),
        upper_(c.Attr<float>("upper_frequency_limit")),
        lower_(c.Attr<float>("lower_frequency_limit")),
        channels_(c.Attr<int64_t>("filterbank_channel_count")),
        coefficients_(c.Attr<int64_t>("dct_coefficient_count")) {
    if (!c.status().ok()) return;
    possible_ = channels_ >= 1 && coefficients_ >= 1 && coefficients_ <= channels_ &&
                channels_ <= kMostCosines / coefficients_;
    if (!possible_) return;
    const double scale = std::sqrt(2.0 / static_cast<double>(channels_));
    const double arc = std::numbers::pi / static_cast<double>(channels_);
    cosines_.resize(static_cast<size_t>(channels_ * coefficients_));
    for (int64_t i = 0; i < coefficients_; ++i) {
      for (int64_t j = 0; j < channels_; ++j) {
        cosines_[static_cast<size_t>(i * channels_ + j)] = static_cast<float>(
            scale * std::cos(static_cast<double>(i) * arc * (static_cast<double>(j) + 0.5)));
      }
    }
  }

  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& rate = context.input(1);
    if (in.rank() != 3) return errors::InvalidArgument("spectrogram must be 3-dimensional", in.shape());
    if (!rate.shape().IsScalar()) {
      return errors::InvalidArgument("Input sample_rate should be a scalar tensor, got ", rate.shape(),
                                     " instead.");
    }
    const int64_t bins = in.dim(2);
    const std::shared_ptr<const MelBank> shared = BankFor(bins, IntValue(rate), in.num_elements() > 0);
    const MelBank& bank = *shared;
    if (!bank.valid) {
      return errors::InvalidArgument("Mfcc initialization failed for channel count ", bins,
                                     " and sample rate ", IntValue(rate));
    }
    TensorShape shape;
    for (const int64_t d : {in.dim(0), in.dim(1), coefficients_}) MR_RETURN_IF_ERROR(shape.TryAddDim(d));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    if (out->num_elements() == 0) return Status();
    if (bank.end == 0) {
      std::fill_n(out->data<float>(), out->num_elements(), 0.0f);
      return Status();
    }
    const int64_t cost = (channels_ * coefficients_ + 10 * bins) / 4;
    context.ParallelFor(in.dim(0) * in.dim(1), cost, [&](int64_t begin, int64_t end) {
      std::vector<float> energies(static_cast<size_t>(channels_ * kLines));
      std::vector<float> powers(static_cast<size_t>((bank.end - bank.first) * kLines));
      while (begin < end) {
        const float* const from = in.data<float>() + begin * bins;
        float* const to = out->data<float>() + begin * coefficients_;
        if (end - begin >= kLines) {
          Run<kLines>(bank, from, bins, powers.data(), energies.data(), to);
          begin += kLines;
        } else {
          Run<1>(bank, from, bins, powers.data(), energies.data(), to);
          ++begin;
        }
      }
    });
    return Status();
  }

 private:
  static constexpr float kFloor = 1e-12f;  // of the energies, whose logarithms are taken
  static constexpr int64_t kMostCosines = int64_t{1} << 20;

  static constexpr int kLines = 16;  // side by side

  std::shared_ptr<const MelBank> BankFor(int64_t bins, int64_t rate, bool is_needed) {
    MutexLock lock(mu_);
    if (bank_ == nullptr || bank_bins_ != bins || bank_rate_ != rate || !is_needed || bank_->end == 0) {
      bank_ = std::make_shared<const MelBank>(bins, static_cast<double>(rate), possible_ ? channels_ : 0,
                                              static_cast<double>(lower_), static_cast<double>(upper_),
                                              is_needed);
      bank_bins_ = bins;
      bank_rate_ = rate;
    }
    return bank_;
  }

  // Cosine sums of the logarithms of the energies of kCount spectra.
  template <int kCount>
  void Run(const MelBank& bank, const float* spectra, int64_t bins, float* powers, float* energies,
           float* to) const {
    cpu::TransposePlane(spectra + bank.first, bins, powers, kCount, kCount, bank.end - bank.first,
                        sizeof(float));
    RunLoop([=, &bank, channels = channels_, coefficients = coefficients_,
             cosines = cosines_.data()]() MR_INLINE_LAMBDA {
      bank.Apply<kCount>(powers, channels, energies);
      for (int64_t i = 0; i < channels * kCount; ++i) {
        const float energy = LoopSelect(energies[i] < kFloor, kFloor, energies[i]);
        // Infinity and NaN stay.
        energies[i] =
            LoopSelect(energy <= std::numeric_limits<float>::max(), LoopLogOfNormal(energy), energy);
      }
      const auto sum = [&](auto rows, int64_t i) MR_INLINE_LAMBDA {
        float sums[rows()][kCount];
        for (int r = 0; r < rows(); ++r) ForLanes<kCount>([&](int l) MR_INLINE_LAMBDA { sums[r][l] = 0; });
        for (int64_t j = 0; j < channels; ++j) {
          for (int r = 0; r < rows(); ++r) {
            const float cosine = cosines[(i + r) * channels + j];
            ForLanes<kCount>([&](int l)
                                 MR_INLINE_LAMBDA { sums[r][l] += cosine * energies[j * kCount + l]; });
          }
        }
        for (int r = 0; r < rows(); ++r) {
          for (int l = 0; l < kCount; ++l) to[l * coefficients + i + r] = sums[r][l];
        }
      };
      int64_t i = 0;
      for (; i + 4 <= coefficients; i += 4) sum(std::integral_constant<int, 4>(), i);
      for (; i < coefficients; ++i) sum(std::integral_constant<int, 1>(), i);
    });
  }

  const float upper_, lower_;
  const int64_t channels_, coefficients_;
  bool possible_ = false;
  std::vector<float> cosines_;  // [coefficients, channels]
  Mutex mu_;
  std::shared_ptr<const MelBank> bank_ MR_GUARDED_BY(mu_);  // the last one used
  int64_t bank_bins_ MR_GUARDED_BY(mu_) = 0;
  int64_t bank_rate_ MR_GUARDED_BY(mu_) = 0;
};

}  // namespace

void RegisterAudioKernels(KernelRegistry& registry) {
  registry.Register<SpectrogramKernel>(KernelDef("AudioSpectrogram"));
  registry.Register<MfccKernel>(KernelDef("Mfcc"));
}

}  // namespace millrace
