// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// CTCLoss, CTCLossV2 and their gradients, by the forward and backward variables of the paper, in double
// precision.
#include "base/mutex.h"
#include "kernels/cpu/recurrent/ctc.h"

namespace millrace {
namespace {

using Row = std::vector<double>;

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
      const int64_t label = values.data<int32_t>()[i];
      if (label < 0) return errors::InvalidArgument("All labels must be nonnegative integers, batch: ", b);
      if (label >= s.classes || label == Blank(s)) {
        return errors::InvalidArgument("Saw a label of ", label, ", but there are ", s.classes - 1,
                                       " besides the null label, batch: ", b);
      }
      auto& of_batch = labels[static_cast<size_t>(b)];
      if (!collapse_ || of_batch.empty() || of_batch.back() != label) of_batch.push_back(label);
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

  // The loss of sequence b; its gradient goes to its rows of [time, batch, classes].
  template <typename T>
  StatusOr<double> One(const KernelContext& context, const Scores& s, int64_t b,
                       const std::vector<int64_t>& labels, T* gradient) const {
    const int64_t steps = s.steps[static_cast<size_t>(b)];
    if (steps == 0 || static_cast<int64_t>(labels.size()) > steps) return 0.0;
    std::vector<int64_t> path = {Blank(s)};  // a blank around each label
    for (const int64_t label : labels) path.insert(path.end(), {label, Blank(s)});
    std::vector<Row> log_y(static_cast<size_t>(steps));
    for (int64_t t = 0; t < steps; ++t) s.LogProbabilities(t, b, &log_y[static_cast<size_t>(t)]);
    // The forward variables of all steps are kept, the backward ones of one. Room for the former grows with
    // the product of the lengths.
    const size_t width = path.size();
    if (steps > kMostVariables / static_cast<int64_t>(width)) {
      return errors::ResourceExhausted("The loss of ", labels.size(), " labels in ", steps,
                                       " steps would take too much memory");
    }
    MR_ASSIGN_OR_RETURN(Tensor room,
                        Tensor::Allocate(DataType::kDouble, {steps, static_cast<int64_t>(width)}));
    double* const alpha = room.data<double>();
    MR_RETURN_IF_ERROR(Forward(context, s, path, log_y, alpha));
    const double* const ends = alpha + (log_y.size() - 1) * width;
    double log_p = kLogZero;
    for (size_t u = width - std::min<size_t>(width, 2); u < width; ++u) log_p = LogSum(log_p, ends[u]);
    Row beta;
    for (int64_t t = steps; t-- > 0;) {
      MR_RETURN_IF_ERROR(CheckCancelled(context));
      const auto at = static_cast<size_t>(t);
      beta = Before(s, path, log_y, at, beta);
      Row sums(static_cast<size_t>(s.classes), kLogZero);
      for (size_t u = 0; u < path.size(); ++u) {
        double& sum = sums[static_cast<size_t>(path[u])];
        sum = LogSum(sum, alpha[at * width + u] + beta[u]);
      }
      T* to = gradient + (t * s.batch + b) * s.classes;
      for (size_t c = 0; c < sums.size(); ++c) {
        const double y = std::exp(log_y[at][c]);
        // Without a path the gradient is only the softmax.
        to[c] = static_cast<T>(log_p == kLogZero ? y : y - std::exp(sums[c] - log_p));
      }
    }
    return -log_p;
  }

  // Whether a path may go on from u - 2 to u, and stay at u.
  bool Jumps(const Scores& s, const std::vector<int64_t>& path, size_t u) const {
    return u > 1 && path[u] != Blank(s) && !(merge_ && path[u] == path[u - 2]);
  }
  bool Stays(const Scores& s, const std::vector<int64_t>& path, size_t u) const {
    return merge_ || path[u] == Blank(s);
  }

  static Status CheckCancelled(const KernelContext& context) {
    if (!context.cancellation().IsCancelled()) return Status();
    return errors::Cancelled("The step was cancelled while labels were aligned");
  }

  // Logarithms of the probabilities of the beginnings of paths that end at u, y(t) included: a row for each
  // t.
  Status Forward(const KernelContext& context, const Scores& s, const std::vector<int64_t>& path,
                 const std::vector<Row>& log_y, double* alpha) const {
    for (size_t t = 0; t < log_y.size(); ++t) {
      MR_RETURN_IF_ERROR(CheckCancelled(context));
      double* const row = alpha + t * path.size();
      const double* const before = row - (t == 0 ? 0 : path.size());
      for (size_t u = 0; u < path.size(); ++u) {
        double sum = kLogZero;
        if (t == 0) {
          if (u < 2) sum = 0;
        } else {
          if (Stays(s, path, u)) sum = before[u];
          if (u > 0) sum = LogSum(sum, before[u - 1]);
          if (Jumps(s, path, u)) sum = LogSum(sum, before[u - 2]);
        }
        row[u] = sum + log_y[t][static_cast<size_t>(path[u])];
      }
    }
    return Status();
  }

  // The probabilities of path suffixes at step t, without y(t), from those at the next step.
  Row Before(const Scores& s, const std::vector<int64_t>& path, const std::vector<Row>& log_y, size_t t,
             const Row& beta) const {
    Row before(path.size(), kLogZero);
    if (t + 1 == log_y.size()) {
      for (size_t u = path.size() - std::min<size_t>(path.size(), 2); u < path.size(); ++u) before[u] = 0;
      return before;
    }
    const auto next = [&](size_t v) { return beta[v] + log_y[t + 1][static_cast<size_t>(path[v])]; };
    for (size_t u = 0; u < path.size(); ++u) {
      double sum = Stays(s, path, u) ? next(u) : kLogZero;
      if (u + 1 < path.size()) sum = LogSum(sum, next(u + 1));
      if (u + 2 < path.size() && Jumps(s, path, u + 2)) sum = LogSum(sum, next(u + 2));
      before[u] = sum;
    }
    return before;
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
