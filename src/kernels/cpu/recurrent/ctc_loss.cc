// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// CTCLoss, CTCLossV2 and their gradients, by the forward and backward variables of the paper, in double
// precision.
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/loop_math.h"
#include "kernels/cpu/recurrent/ctc.h"

namespace millrace {
namespace {

using Row = std::vector<double>;

// Labels for a message: the first thousand, with commas between them.
template <typename Labels>
std::string Joined(const Labels& labels) {
  std::string text;
  size_t count = 0;
  for (const auto label : labels) {
    if (count++ > 0) text += ',';
    if (count > 1000) return text + "...";
    text += std::to_string(label);
  }
  return text;
}

class CtcLossKernel final : public OpKernel {
 public:
  explicit CtcLossKernel(KernelConstruction& c)
      : OpKernel(c),
        blank_first_(c.props()->op->def.name == "CTCLossV2"),
        collapse_(c.Attr<bool>("preprocess_collapse_repeated")),
        merge_(c.Attr<bool>("ctc_merge_repeated")),
        ignore_longer_(c.Attr<bool>("ignore_longer_outputs_than_inputs")) {}

  // Inputs: inputs, labels_indices, labels_values, sequence_length.
  Status Compute(KernelContext& context) override {
    const Tensor& inputs = context.input(0);
    MR_ASSIGN_OR_RETURN(const Scores s, ReadScores(inputs, context.input(3)));
    MR_ASSIGN_OR_RETURN(const auto labels, ReadLabels(context.input(1), context.input(2), s));
    MR_ASSIGN_OR_RETURN(Tensor * loss, context.AllocateOutput(0, {s.batch}));
    MR_ASSIGN_OR_RETURN(Tensor * gradient, context.AllocateOutput(1, inputs.shape()));
    Mutex mu;
    Status status;
    const auto run = [&]<typename T>() {
      std::fill_n(gradient->data<T>(), gradient->num_elements(), T(0));
      context.ParallelFor(s.batch, s.Cost(50), [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          const auto found = One(context, s, b, labels[static_cast<size_t>(b)], gradient->data<T>());
          if (found.ok()) {
            loss->data<T>()[b] = static_cast<T>(*found);
            continue;
          }
          MutexLock lock(mu);
          status.Update(found.status());
          return;
        }
      });
    };
    if (inputs.dtype() == DataType::kDouble) {
      run.template operator()<double>();
    } else {
      run.template operator()<float>();
    }
    return status;
  }

 private:
  // The class that is no label: the last, in the second version the first.
  int64_t Blank(const Scores& s) const { return blank_first_ ? 0 : s.blank(); }

  // The labels of each sequence.
  StatusOr<std::vector<std::vector<int64_t>>> ReadLabels(const Tensor& indices, const Tensor& values,
                                                         const Scores& s) const {
    if (!indices.shape().IsMatrix()) return errors::InvalidArgument("labels_indices is not a matrix");
    if (!values.shape().IsVector()) return errors::InvalidArgument("labels_values is not a vector");
    if (indices.dim(0) != values.dim(0) || indices.dim(1) != 2) {
      return errors::InvalidArgument(
          "labels_indices and labels_values must contain the same number of rows, but saw shapes: ",
          indices.shape(), " vs. ", values.shape());
    }
    std::vector<std::vector<int64_t>> labels(static_cast<size_t>(s.batch));
    int64_t last_batch = -1, last_place = -1;
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      const int64_t b = indices.data<int64_t>()[2 * i], place = indices.data<int64_t>()[2 * i + 1];
      if (b < 0 || b >= s.batch || place < 0)
        return errors::InvalidArgument("label SparseTensor is not valid: indices[", i, "] = [", b, ",", place,
                                       "] is out of bounds");
      if (b < last_batch || (b == last_batch && place <= last_place))
        return errors::InvalidArgument("label SparseTensor is not valid: indices[", i, "] = [", b, ",", place,
                                       "] is out of order or repeated");
      last_batch = b;
      last_place = place;
    }
    // CTCLoss: the null label or one above it ends the labels of a sequence, and only such labels may follow.
    for (int64_t i = 0, end; i < values.num_elements(); i = end) {
      const int64_t b = indices.data<int64_t>()[2 * i];
      end = i + 1;
      while (end < values.num_elements() && indices.data<int64_t>()[2 * end] == b) ++end;
      const std::span given(values.data<int32_t>() + i, static_cast<size_t>(end - i));
      auto& of_batch = labels[static_cast<size_t>(b)];
      bool ended = false;
      for (size_t u = 0; u < given.size(); ++u) {
        if (collapse_ && u > 0 && given[u] == given[u - 1]) continue;
        if (blank_first_ && (given[u] == 0 || given[u] >= s.classes)) {
          return errors::InvalidArgument("Saw a label of ", given[u], ", but there are ", s.classes - 1,
                                         " besides the null label, batch: ", b);
        }
        if (!blank_first_ && given[u] >= s.blank()) {
          ended = true;
        } else if (ended) {
          return errors::InvalidArgument(
              "Saw a non-null label (index >= num_classes - 1) following a null label, batch: ", b,
              " num_classes: ", s.classes, " labels: ", Joined(given),
              " labels seen so far: ", Joined(of_batch));
        } else {
          of_batch.push_back(given[u]);
        }
      }
      for (const int64_t label : of_batch) {
        if (label < 0) {
          return errors::InvalidArgument("All labels must be nonnegative integers, batch: ", b,
                                         " labels: ", Joined(of_batch));
        }
      }
    }
    for (int64_t b = 0; b < s.batch; ++b) {
      const auto required = static_cast<int64_t>(labels[static_cast<size_t>(b)].size());
      const int64_t available = s.steps[static_cast<size_t>(b)];
      if (ignore_longer_ || available == 0 || required <= available) continue;
      return errors::InvalidArgument(
          "Not enough time for target transition sequence (required: ", required, ", available: ", available,
          ")", b,
          "You can turn this error into a warning by using the flag ignore_longer_outputs_than_inputs");
    }
    return labels;
  }

  // The states of a sequence: a blank around each label.
  struct States {
    std::vector<int64_t> path;  // their classes
    // 0 where a path may stay at a state or come to it from the one before the last, otherwise -infinity.
    // Behind the states are two to which none comes.
    Row stays, jumps;
    int64_t size() const { return static_cast<int64_t>(path.size()); }
  };
  States StatesOf(const Scores& s, const std::vector<int64_t>& labels) const {
    States states;
    auto& path = states.path;
    path = {Blank(s)};
    for (const int64_t label : labels) path.insert(path.end(), {label, Blank(s)});
    for (size_t u = 0; u < path.size(); ++u) {
      const bool blank = path[u] == Blank(s);
      states.stays.push_back(merge_ || blank ? 0 : kLogZero);
      states.jumps.push_back(u > 1 && !blank && !(merge_ && path[u] == path[u - 2]) ? 0 : kLogZero);
    }
    states.jumps.insert(states.jumps.end(), 2, kLogZero);
    return states;
  }

  // The loss of sequence b; its gradient goes to its rows of [time, batch, classes].
  template <typename T>
  StatusOr<double> One(const KernelContext& context, const Scores& s, int64_t b,
                       const std::vector<int64_t>& labels, T* gradient) const {
    const int64_t steps = s.steps[static_cast<size_t>(b)];
    if (steps == 0 || static_cast<int64_t>(labels.size()) > steps) return 0.0;
    const States states = StatesOf(s, labels);
    Row log_y(static_cast<size_t>(steps * s.classes));
    for (int64_t t = 0; t < steps; ++t) LogProbabilities(s, t, b, log_y.data() + t * s.classes);
    // The forward variables of all steps are kept, the backward ones of one. Room for the former grows with
    // the product of the lengths.
    const int64_t width = states.size();
    if (steps > kMostVariables / (width + 2)) {
      return errors::ResourceExhausted("The loss of ", labels.size(), " labels in ", steps,
                                       " steps would take too much memory");
    }
    MR_ASSIGN_OR_RETURN(Tensor room, Tensor::Allocate(DataType::kDouble, {steps, width + 2}));
    double* const alpha = room.data<double>();
    MR_RETURN_IF_ERROR(Forward(context, s, states, steps, log_y.data(), alpha));
    const double* const ends = alpha + (steps - 1) * (width + 2) + 2;
    double log_p = kLogZero;
    for (int64_t u = width - std::min<int64_t>(width, 2); u < width; ++u) log_p = LogSum(log_p, ends[u]);
    // At u: the probabilities of path suffixes from u on, without y(t); two that are zero follow.
    Row beta(static_cast<size_t>(width + 2), kLogZero), next = beta;
    Row shares(static_cast<size_t>(width)), sums(static_cast<size_t>(s.classes));
    for (int64_t t = steps; t-- > 0;) {
      MR_RETURN_IF_ERROR(CheckCancelled(context));
      if (t + 1 == steps) {
        for (int64_t u = width - std::min<int64_t>(width, 2); u < width; ++u)
          beta[static_cast<size_t>(u)] = 0;
      } else {
        Before(states, log_y.data() + (t + 1) * s.classes, next.data(), beta.data());
      }
      Share(alpha + t * (width + 2) + 2, beta.data(), log_p, width, shares.data());
      std::ranges::fill(sums, 0.0);
      for (int64_t u = 0; u < width; ++u)
        sums[static_cast<size_t>(states.path[static_cast<size_t>(u)])] += shares[static_cast<size_t>(u)];
      T* const to = gradient + (t * s.batch + b) * s.classes;
      RunLoop([=, from = log_y.data() + t * s.classes, sums = sums.data(), n = s.classes]() MR_INLINE_LAMBDA {
        for (int64_t c = 0; c < n; ++c) to[c] = static_cast<T>(LoopExp(from[c]) - sums[c]);
      });
    }
    return -log_p;
  }

  // Logarithms of the softmax of a step.
  static void LogProbabilities(const Scores& s, int64_t t, int64_t b, double* row) {
    const auto run = [&]<typename T>(const T* from) {
      RunLoop([=, n = s.classes]() MR_INLINE_LAMBDA {
        double largest = static_cast<double>(from[0]), sum = 0;
        for (int64_t c = 0; c < n; ++c) {
          const auto x = static_cast<double>(from[c]);
          row[c] = x;
          largest = largest < x ? x : largest;
        }
        double parts[8] = {};
        int64_t c = 0;
        for (; c + 8 <= n; c += 8) {
          MR_LANES
          for (int l = 0; l < 8; ++l) parts[l] += LoopExp(row[c + l] - largest);
        }
        for (; c < n; ++c) sum += LoopExp(row[c] - largest);
        for (const double part : parts) sum += part;
        const double offset = largest + LoopLog(sum);
        for (c = 0; c < n; ++c) row[c] -= offset;
      });
    };
    const int64_t at = (t * s.batch + b) * s.classes;
    if (s.tensor->dtype() == DataType::kDouble) {
      run(s.tensor->data<double>() + at);
    } else {
      run(s.tensor->data<float>() + at);
    }
  }

  // shares[u]: the part of all paths that are at u, of which log_p is the logarithm; zeros where there are
  // none.
  static void Share(const double* alpha, const double* beta, double log_p, int64_t width, double* shares) {
    if (log_p == kLogZero) {
      std::fill_n(shares, width, 0.0);
      return;
    }
    RunLoop([=]() MR_INLINE_LAMBDA {
      for (int64_t u = 0; u < width; ++u) shares[u] = LoopExp(alpha[u] + beta[u] - log_p);
    });
  }

  // The logarithm of e^a + e^b + e^c.
  static MR_INLINE_LAMBDA double LogSumOfThree(double a, double b, double c) {
    const double ab = LoopSelect(a < b, b, a), largest = LoopSelect(ab < c, c, ab);
    // Without any: not a number before this.
    const double base = LoopSelect(largest == kLogZero, 0.0, largest);
    return base + LoopLog(LoopExp(a - base) + LoopExp(b - base) + LoopExp(c - base));
  }

  static Status CheckCancelled(const KernelContext& context) {
    if (!context.cancellation().IsCancelled()) return Status();
    return errors::Cancelled("The step was cancelled while labels were aligned");
  }

  // Logarithms of the probabilities of the beginnings of paths that end at u, y(t) included: for each t a row
  // that begins with two zero probabilities.
  static Status Forward(const KernelContext& context, const Scores& s, const States& states, int64_t steps,
                        const double* log_y, double* alpha) {
    const int64_t width = states.size();
    Row y(static_cast<size_t>(width));
    for (int64_t t = 0; t < steps; ++t) {
      MR_RETURN_IF_ERROR(CheckCancelled(context));
      double* const row = alpha + t * (width + 2) + 2;
      const double* const before = row - (t == 0 ? 0 : width + 2);
      row[-2] = row[-1] = kLogZero;
      for (int64_t u = 0; u < width; ++u)
        y[static_cast<size_t>(u)] = log_y[t * s.classes + states.path[static_cast<size_t>(u)]];
      if (t == 0) {
        for (int64_t u = 0; u < width; ++u) row[u] = u < 2 ? y[static_cast<size_t>(u)] : kLogZero;
        continue;
      }
      RunLoop([=, y = y.data(), stays = states.stays.data(), jumps = states.jumps.data()]() MR_INLINE_LAMBDA {
        for (int64_t u = 0; u < width; ++u)
          row[u] = LogSumOfThree(before[u] + stays[u], before[u - 1], before[u - 2] + jumps[u]) + y[u];
      });
    }
    return Status();
  }

  // The probabilities of path suffixes at a step, without its y, from those at the next step, in their place.
  static void Before(const States& states, const double* log_y, double* next, double* beta) {
    const int64_t width = states.size();
    for (int64_t u = 0; u < width; ++u) next[u] = beta[u] + log_y[states.path[static_cast<size_t>(u)]];
    RunLoop([=, stays = states.stays.data(), jumps = states.jumps.data()]() MR_INLINE_LAMBDA {
      for (int64_t u = 0; u < width; ++u)
        beta[u] = LogSumOfThree(next[u] + stays[u], next[u + 1], next[u + 2] + jumps[u + 2]);
    });
  }

  static constexpr int64_t kMostVariables = int64_t{1} << 31;

  const bool blank_first_, collapse_, merge_, ignore_longer_;
};

}  // namespace

void RegisterCtcLossKernels(KernelRegistry& registry) {
  registry.Register<CtcLossKernel>(KernelDef("CTCLoss").Types("T", {DataType::kFloat, DataType::kDouble}));
  registry.Register<CtcLossKernel>(KernelDef("CTCLossV2"));
}

}  // namespace millrace
