// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Initial centers for k-means: by k-means++ (Arthur and Vassilvitskii, with the best of several draws for
// each center) and by the chain of K-MC2 (Bachem and others); the nearest centers of points.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/random/philox_stream.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/loop.h"

namespace millrace {
namespace {

Status CheckMatrix(const Tensor& t, const char* what) {
  if (t.rank() == 2) return Status();
  return errors::InvalidArgument("Input ", what, " should be a matrix.");
}
Status CheckScalar(const Tensor& t, const char* what) {
  if (t.shape().IsScalar()) return Status();
  return errors::InvalidArgument("Input ", what, " should be a scalar.");
}
Status CheckPositive(int64_t value, const char* what) {
  if (value > 0) return Status();
  return errors::InvalidArgument("Expected ", what, " > 0.");
}
Status CheckCancelled(const KernelContext& context) {
  if (!context.cancellation().IsCancelled()) return Status();
  return errors::Cancelled("The step was cancelled while points were clustered");
}

// Partial sums side by side, which are then added in order.
inline MR_INLINE_LAMBDA float SquaredDistance(const float* a, const float* b, int64_t n) {
  constexpr int kLanes = 16;
  float sums[kLanes];
  ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA { sums[l] = 0; });
  int64_t d = 0;
  for (; d + kLanes <= n; d += kLanes)
    ForLanes<kLanes>([&](int l)
                         MR_INLINE_LAMBDA { sums[l] += (a[d + l] - b[d + l]) * (a[d + l] - b[d + l]); });
  float sum = 0;
  for (; d < n; ++d) sum += (a[d] - b[d]) * (a[d] - b[d]);
  for (int l = 0; l < kLanes; ++l) sum += sums[l];
  return sum;
}

// points, num_to_sample, seed, num_retries_per_sample -> samples
class PlusPlusKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& points = context.input(0);
    MR_RETURN_IF_ERROR(CheckMatrix(points, "points"));
    MR_RETURN_IF_ERROR(CheckScalar(context.input(1), "num_to_sample"));
    MR_RETURN_IF_ERROR(CheckScalar(context.input(2), "seed"));
    MR_RETURN_IF_ERROR(CheckScalar(context.input(3), "num_retries_per_sample"));
    const int64_t samples = IntValue(context.input(1));
    int64_t retries = IntValue(context.input(3));
    MR_RETURN_IF_ERROR(CheckPositive(points.dim(0), "points.rows()"));
    MR_RETURN_IF_ERROR(CheckPositive(samples, "num_to_sample"));
    if (samples > points.dim(0)) {
      return errors::InvalidArgument("Expected num_to_sample <= points.rows(). ", samples, " vs ",
                                     points.dim(0), ".");
    }
    if (retries < 0) retries = 2 + static_cast<int64_t>(std::log(static_cast<double>(samples)));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape({samples, points.dim(1)})));
    Sampler sampler(context, points, IntValue(context.input(2)));
    for (int64_t i = 0; i < samples; ++i) {
      MR_ASSIGN_OR_RETURN(const int64_t next, sampler.Next(retries));
      const float* from = points.data<float>() + next * points.dim(1);
      std::copy_n(from, points.dim(1), out->data<float>() + i * points.dim(1));
    }
    return Status();
  }

 private:
  class Sampler {
   public:
    Sampler(KernelContext& context, const Tensor& points, int64_t seed)
        : context_(context),
          points_(points),
          n_(points.dim(0)),
          stream_(PhiloxRandom(static_cast<uint64_t>(seed), 0)),
          distances_(static_cast<size_t>(n_), std::numeric_limits<float>::infinity()),
          sums_(static_cast<size_t>(n_)),
          taken_(static_cast<size_t>(n_)) {}

    // The best of `retries` + 1 draws: the one with the smallest sum of distances.
    StatusOr<int64_t> Next(int64_t retries) {
      std::partial_sum(distances_.begin(), distances_.end(), sums_.begin());
      int64_t best = -1;
      float best_sum = 0;
      std::vector<float> distances(distances_.size()), best_distances;
      for (int64_t retry = 0; retry <= retries; ++retry) {
        MR_RETURN_IF_ERROR(CheckCancelled(context_));
        const int64_t drawn = Draw();
        const float sum = Distances(drawn, distances);
        if (best >= 0 && !(sum < best_sum)) continue;
        best = drawn;
        best_sum = sum;
        best_distances = distances;
      }
      distances_ = std::move(best_distances);
      taken_[static_cast<size_t>(best)] = true;
      any_ = true;
      return best;
    }

   private:
    // The number of draws of an already taken point (a practically impossible case) before any other is used.
    static constexpr int kMostDraws = 1000;

    // Draws a point in proportion to its distance to the nearest taken one; the first one uniformly.
    int64_t Draw() {
      if (!any_) return static_cast<int64_t>(stream_.Uniform64(static_cast<uint64_t>(n_)));
      for (int i = 0; i < kMostDraws; ++i) {
        const auto at = std::upper_bound(sums_.begin(), sums_.end(), stream_.NextFloat() * sums_.back());
        if (at == sums_.end()) break;  // all distances are zero or NaN
        const int64_t index = at - sums_.begin();
        if (!taken_[static_cast<size_t>(index)]) return index;
      }
      for (int64_t i = n_ - 1; i > 0; --i) {
        if (!taken_[static_cast<size_t>(i)]) return i;
      }
      return 0;
    }
    // The distances if `drawn` is taken, too, and their sum.
    float Distances(int64_t drawn, std::vector<float>& distances) {
      const int64_t d = points_.dim(1);
      const float* all = points_.data<float>();
      context_.ParallelFor(n_, d + 1, [&](int64_t begin, int64_t end) {
        RunLoop([=, before = distances_.data(), to = distances.data()]() MR_INLINE_LAMBDA {
          for (int64_t i = begin; i < end; ++i) {
            const float distance = 0.5f * SquaredDistance(all + i * d, all + drawn * d, d);
            to[i] = distance < before[i] ? distance : before[i];
          }
        });
      });
      return std::accumulate(distances.begin(), distances.end(), 0.0f);
    }

    KernelContext& context_;
    const Tensor& points_;
    const int64_t n_;
    PhiloxStream stream_;
    std::vector<float> distances_;  // half the squared distance to the nearest point that is taken
    std::vector<float> sums_;
    std::vector<bool> taken_;
    bool any_ = false;
  };
};

// distances, seed -> index
class ChainKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& distances = context.input(0);
    if (!distances.shape().IsVector()) return errors::InvalidArgument("Input distances should be a vector.");
    MR_RETURN_IF_ERROR(CheckScalar(context.input(1), "seed"));
    MR_RETURN_IF_ERROR(CheckPositive(distances.num_elements(), "distances_tensor.size()"));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape()));
    PhiloxStream stream(PhiloxRandom(static_cast<uint64_t>(IntValue(context.input(1))), 0));
    const std::span<const float> all = distances.flat<float>();
    size_t at = 0;
    for (size_t i = 1; i < all.size(); ++i) {
      // The chain moves with a probability of the ratio of the distances.
      if (all[i] > stream.NextFloat() * all[at]) at = i;
    }
    out->scalar<int64_t>() = static_cast<int64_t>(at);
    return Status();
  }
};

// points, centers, k -> indices, squared distances; of equally near centers the first comes first
class NearestKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& points = context.input(0);
    const Tensor& centers = context.input(1);
    MR_RETURN_IF_ERROR(CheckMatrix(points, "points"));
    MR_RETURN_IF_ERROR(CheckMatrix(centers, "centers"));
    MR_RETURN_IF_ERROR(CheckScalar(context.input(2), "k"));
    MR_RETURN_IF_ERROR(CheckPositive(points.dim(0), "points.rows()"));
    MR_RETURN_IF_ERROR(CheckPositive(points.dim(1), "points.cols()"));
    MR_RETURN_IF_ERROR(CheckPositive(centers.dim(0), "centers.rows()"));
    MR_RETURN_IF_ERROR(CheckPositive(centers.dim(1), "centers.cols()"));
    MR_RETURN_IF_ERROR(CheckPositive(IntValue(context.input(2)), "k"));
    if (points.dim(1) != centers.dim(1)) {
      return errors::InvalidArgument("Expected points.cols() == centers.cols(). ", points.dim(1), " vs ",
                                     centers.dim(1), ".");
    }
    const int64_t k = std::min(IntValue(context.input(2)), centers.dim(0));
    const TensorShape shape({points.dim(0), k});
    MR_ASSIGN_OR_RETURN(Tensor * indices, context.AllocateOutput(0, shape));
    MR_ASSIGN_OR_RETURN(Tensor * distances, context.AllocateOutput(1, shape));
    MR_ASSIGN_OR_RETURN(const Tensor columns, Transposed(context, centers));
    const int64_t n = centers.dim(0), d = centers.dim(1);
    context.ParallelFor(points.dim(0), n * d / 16 + n, [&](int64_t begin, int64_t end) {
      const int64_t width = columns.dim(1);
      std::vector<float> sums(static_cast<size_t>(kPoints * width));
      std::vector<int64_t> order(k > kMostInserted ? static_cast<size_t>(n) : 0);
      for (int64_t i = begin; i < end;) {
        if (context.cancellation().IsCancelled()) return;
        const float* const point = points.data<float>() + i * d;
        const int64_t count = i + kPoints <= end ? kPoints : 1;
        if (count == kPoints) {
          Distances<kPoints>(point, columns.data<float>(), d, width, sums.data());
        } else {
          Distances<1>(point, columns.data<float>(), d, width, sums.data());
        }
        for (int64_t p = 0; p < count; ++p, ++i) {
          const std::span<const float> own(sums.data() + p * width, static_cast<size_t>(n));
          Nearest(own, order, k, indices->data<int64_t>() + i * k, distances->data<float>() + i * k);
        }
      }
    });
    return CheckCancelled(context);
  }

 private:
  static constexpr int kCenters = 16, kPoints = 4;  // side by side
  static constexpr int64_t kMostInserted = 16;      // for more, a heap is used

  // Padded with zeros to a multiple of kCenters.
  static StatusOr<Tensor> Transposed(KernelContext& context, const Tensor& matrix) {
    const int64_t n = matrix.dim(0), d = matrix.dim(1), width = (n + kCenters - 1) / kCenters * kCenters;
    MR_ASSIGN_OR_RETURN(Tensor out, context.AllocateTemp(DataType::kFloat, TensorShape({d, width})));
    for (int64_t j = 0; j < d; ++j) {
      float* const row = out.data<float>() + j * width;
      for (int64_t i = 0; i < n; ++i) row[i] = matrix.data<float>()[i * d + j];
      std::fill(row + n, row + width, 0.0f);
    }
    return out;
  }
  template <int kCount>
  static void Distances(const float* points, const float* columns, int64_t d, int64_t width, float* sums) {
    RunLoop([=]() MR_INLINE_LAMBDA {
      for (int64_t c = 0; c < width; c += kCenters) {
        float block[kCount][kCenters];
        for (int p = 0; p < kCount; ++p) ForLanes<kCenters>([&](int l) MR_INLINE_LAMBDA { block[p][l] = 0; });
        for (int64_t j = 0; j < d; ++j) {
          const float* const column = columns + j * width + c;
          for (int p = 0; p < kCount; ++p) {
            const float x = points[p * d + j];
            ForLanes<kCenters>([&](int l)
                                   MR_INLINE_LAMBDA { block[p][l] += (x - column[l]) * (x - column[l]); });
          }
        }
        for (int p = 0; p < kCount; ++p)
          ForLanes<kCenters>([&](int l) MR_INLINE_LAMBDA { sums[p * width + c + l] = block[p][l]; });
      }
    });
  }

  // NaN is larger than all numbers.
  static bool Nearer(float x, float y) { return (x == x) & !(x >= y); }

  static void Nearest(std::span<const float> sums, std::vector<int64_t>& order, int64_t k, int64_t* indices,
                      float* distances) {
    if (k <= kMostInserted) {
      int64_t found = 0;
      for (size_t c = 0; c < sums.size(); ++c) {
        if (found == k && !Nearer(sums[c], distances[k - 1])) continue;
        int64_t place = found < k ? found++ : k - 1;
        for (; place > 0 && Nearer(sums[c], distances[place - 1]); --place) {
          distances[place] = distances[place - 1];
          indices[place] = indices[place - 1];
        }
        distances[place] = sums[c];
        indices[place] = static_cast<int64_t>(c);
      }
      return;
    }
    std::iota(order.begin(), order.end(), 0);
    const auto nearer = [&](int64_t a, int64_t b) {
      const float x = sums[static_cast<size_t>(a)], y = sums[static_cast<size_t>(b)];
      return Nearer(x, y) || (!Nearer(y, x) && a < b);
    };
    std::partial_sort(order.begin(), order.begin() + k, order.end(), nearer);
    for (int64_t i = 0; i < k; ++i) {
      indices[i] = order[static_cast<size_t>(i)];
      distances[i] = sums[static_cast<size_t>(indices[i])];
    }
  }
};

}  // namespace

void RegisterClusteringKernels(KernelRegistry& registry) {
  registry.Register<PlusPlusKernel>(KernelDef("KmeansPlusPlusInitialization"));
  registry.Register<ChainKernel>(KernelDef("KMC2ChainInitialization"));
  registry.Register<NearestKernel>(KernelDef("NearestNeighbors"));
}

}  // namespace millrace
