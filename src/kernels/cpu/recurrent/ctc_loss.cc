// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// CTCLoss, CTCLossV2 and their gradients, by the forward and backward variables of the paper, in double
// precision.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
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

// Labels for a message: the first thousand, separated by commas.
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
        Room room;
        for (int64_t b = begin; b < end; ++b) {
          const auto found = One(context, s, b, labels[static_cast<size_t>(b)], gradient->data<T>(), &room);
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
  // The class of the blank: the last, in the second version the first.
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
    // CTCLoss: the first label not below the null label ends a sequence, and only such labels may follow.
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

  // Probabilities of paths do not fit into doubles, and sums of their logarithms take three exponentials and
  // a logarithm each. So they are m 2^e, where e is a double, too. Below kZero there is no path.
  struct Wide {
    double *m, *e;
  };
  static constexpr double kNothing = -1e300, kZero = -1e290;

  // The states of a sequence: a blank around each label.
  struct States {
    std::vector<int64_t> path;  // their classes
    // 0 where a path may stay at a state or come to it from the one before the last, otherwise kNothing.
    // Behind the states are two to which none comes.
    Row stays, jumps;
    int64_t size() const { return static_cast<int64_t>(path.size()); }
  };
  void SetStates(const Scores& s, const std::vector<int64_t>& labels, States* states) const {
    auto& path = states->path;
    path = {Blank(s)};
    for (const int64_t label : labels) path.insert(path.end(), {label, Blank(s)});
    states->stays.clear();
    states->jumps.clear();
    for (size_t u = 0; u < path.size(); ++u) {
      const bool blank = path[u] == Blank(s);
      states->stays.push_back(merge_ || blank ? 0 : kNothing);
      states->jumps.push_back(u > 1 && !blank && !(merge_ && path[u] == path[u - 2]) ? 0 : kNothing);
    }
    states->jumps.insert(states->jumps.end(), 2, kNothing);
  }

  // The memory for one sequence after the other.
  struct Room {
    States states;
    Row weights, sums, frame;
  };

  // The loss of sequence b; its gradient goes to its rows of [time, batch, classes].
  template <typename T>
  StatusOr<double> One(const KernelContext& context, const Scores& s, int64_t b,
                       const std::vector<int64_t>& labels, T* gradient, Room* room) const {
    const int64_t steps = s.steps[static_cast<size_t>(b)];
    if (steps == 0 || static_cast<int64_t>(labels.size()) > steps) return 0.0;
    SetStates(s, labels, &room->states);
    const int64_t width = room->states.size(), all = steps * s.classes;
    // The forward variables of all steps are kept, the backward ones of one. Room for the former grows with
    // the product of the lengths.
    if (steps > kMostVariables / (width + 2)) {
      return errors::ResourceExhausted("The loss of ", labels.size(), " labels in ", steps,
                                       " steps would take too much memory");
    }
    MR_ASSIGN_OR_RETURN(Tensor forward, Tensor::Allocate(DataType::kDouble, {2, steps, width + 2}));
    room->weights.resize(static_cast<size_t>(2 * all));
    room->sums.resize(static_cast<size_t>(steps));
    room->frame.resize(static_cast<size_t>(7 * (width + 2) + s.classes));
    const Wide y{room->weights.data(), room->weights.data() + all};
    const Wide alpha{forward.data<double>(), forward.data<double>() + steps * (width + 2)};
    const Lattice lattice{.states = width,
                          .classes = s.classes,
                          .path = room->states.path.data(),
                          .stays = room->states.stays.data(),
                          .jumps = room->states.jumps.data(),
                          .y = y,
                          .sums = room->sums.data(),
                          .alpha = alpha,
                          .frame = room->frame.data()};
    if (s.tensor->dtype() == DataType::kDouble) {
      Weigh(s.tensor->data<double>() + b * s.classes, s.batch * s.classes, steps, lattice);
    } else {
      Weigh(s.tensor->data<float>() + b * s.classes, s.batch * s.classes, steps, lattice);
    }
    for (int64_t t = 0; t < steps; t += kFrames) {
      MR_RETURN_IF_ERROR(CheckCancelled(context));
      lattice.Forward(t, std::min(t + kFrames, steps));
    }
    // All paths: those that end at the last two states.
    double m = 0, e = kNothing;
    for (int64_t u = std::max<int64_t>(width - 2, 0); u < width; ++u) {
      const int64_t at = (steps - 1) * (width + 2) + 2 + u;
      const double top = std::max(e, alpha.e[at]);
      m = m * Power(e - top) + alpha.m[at] * Power(alpha.e[at] - top);
      e = top;
    }
    const bool none = m == 0 || e < kZero;
    for (int64_t t = steps; t > 0;) {
      MR_RETURN_IF_ERROR(CheckCancelled(context));
      const int64_t first = std::max<int64_t>(t - kFrames, 0);
      lattice.Backward(first, t, steps, m, e, none, gradient + b * s.classes, s.batch * s.classes);
      t = first;
    }
    if (none) return -kLogZero;
    double loss = -std::log(m) - e * std::numbers::ln2;
    for (int64_t t = 0; t < steps; ++t) loss += std::log(lattice.sums[t]);
    return loss;
  }

  // 2^e; 0 where it is small.
  static MR_INLINE_LAMBDA double Power(double e) {
    const double least = LoopSelect(e < -1023, -1023.0, e);
    return std::bit_cast<double>(std::bit_cast<uint64_t>(least + (0x1p52 + 1023)) << 52);
  }

  static constexpr int64_t kFrames = 32;  // between two looks at whether the step was cancelled

  // The states of a sequence at all steps: the tables of the kernel's loops.
  struct Lattice {
    int64_t states, classes;
    const int64_t* path;
    const double *stays, *jumps;
    Wide y;        // [steps, classes]: of the classes, beside the likeliest
    double* sums;  // [steps]: of those
    Wide alpha;    // [steps, 2 + states]: of the beginnings of paths; two to which none comes are first
    double* frame;

    // alpha at steps [begin, end).
    void Forward(int64_t begin, int64_t end) const {
      RunLoop([=, l = *this]() MR_INLINE_LAMBDA {
        const int64_t stride = l.states + 2;
        double *const ym = l.frame, *const ye = ym + l.states;
        for (int64_t t = begin; t < end; ++t) {
          double *const m = l.alpha.m + t * stride + 2, *const e = l.alpha.e + t * stride + 2;
          l.Gather(t, ym, ye);
          m[-2] = m[-1] = 0;
          e[-2] = e[-1] = kNothing;
          if (t == 0) {
            for (int64_t u = 0; u < l.states; ++u) {
              m[u] = u < 2 ? ym[u] : 0;
              e[u] = u < 2 ? ye[u] : kNothing;
            }
            continue;
          }
          const double *const pm = m - stride, *const pe = e - stride;
#pragma GCC ivdep
          for (int64_t u = 0; u < l.states; ++u) {
            const double a = pe[u] + l.stays[u], b = pe[u - 1], c = pe[u - 2] + l.jumps[u];
            const double ab = a < b ? b : a, abc = ab < c ? c : ab,
                         top = LoopSelect(abc < kNothing, kNothing, abc);
            m[u] = (pm[u] * Power(a - top) + pm[u - 1] * Power(b - top) + pm[u - 2] * Power(c - top)) * ym[u];
            e[u] = top + ye[u];
          }
          if (t % kNormal == 0) Normalise(l.states, m, e);
        }
      });
    }

    // The gradient at steps [begin, end), from what the step behind left in `frame`: the probabilities of the
    // ends of paths, without the class of the step itself. m and e are those of all paths.
    template <typename T>
    void Backward(int64_t begin, int64_t end, int64_t steps, double m, double e, bool none, T* gradient,
                  int64_t row) const {
      RunLoop([=, l = *this]() MR_INLINE_LAMBDA {
        const int64_t n = l.states, stride = n + 2;
        double *const ym = l.frame, *const ye = ym + n, *const bm = ye + n, *const be = bm + n;
        // Two to which none comes follow.
        double *const nm = be + n, *const ne = nm + stride, *const shares = ne + stride,
                      *const of_class = shares + n;
        const double factor = 1 / m;
        for (int64_t t = end; t-- > begin;) {
          if (t + 1 == steps) {
            for (int64_t u = 0; u < n; ++u) {
              bm[u] = u + 2 < n ? 0 : 1;
              be[u] = u + 2 < n ? kNothing : 0;
            }
          } else {
            l.Gather(t + 1, ym, ye);
            for (int64_t u = 0; u < n; ++u) {
              nm[u] = bm[u] * ym[u];
              ne[u] = be[u] + ye[u];
            }
            nm[n] = nm[n + 1] = 0;
            ne[n] = ne[n + 1] = kNothing;
#pragma GCC ivdep
            for (int64_t u = 0; u < n; ++u) {
              const double a = ne[u] + l.stays[u], b = ne[u + 1], c = ne[u + 2] + l.jumps[u + 2];
              const double ab = a < b ? b : a, abc = ab < c ? c : ab,
                           top = LoopSelect(abc < kNothing, kNothing, abc);
              bm[u] = nm[u] * Power(a - top) + nm[u + 1] * Power(b - top) + nm[u + 2] * Power(c - top);
              be[u] = top;
            }
            if (t % kNormal == 0) Normalise(n, bm, be);
          }
          for (int64_t c = 0; c < l.classes; ++c) of_class[c] = 0;
          if (!none) {
            const double *const am = l.alpha.m + t * stride + 2, *const ae = l.alpha.e + t * stride + 2;
            for (int64_t u = 0; u < n; ++u) shares[u] = am[u] * bm[u] * factor * Power(ae[u] + be[u] - e);
            double blanks = 0;
            for (int64_t u = 0; u < n; u += 2) blanks += shares[u];
            for (int64_t u = 1; u < n; u += 2) of_class[l.path[u]] += shares[u];
            of_class[l.path[0]] += blanks;
          }
          const double *const wm = l.y.m + t * l.classes, *const we = l.y.e + t * l.classes;
          const double part = 1 / l.sums[t];
          T* const to = gradient + t * row;
          for (int64_t c = 0; c < l.classes; ++c)
            to[c] = static_cast<T>(wm[c] * Power(we[c]) * part - of_class[c]);
        }
      });
    }

    // Mantissas grow or shrink by a small factor at a step, so they need no care for some time.
    static constexpr int64_t kNormal = 64;
    static MR_INLINE_LAMBDA void Normalise(int64_t n, double* m, double* e) {
      for (int64_t u = 0; u < n; ++u) {
        const auto bits = std::bit_cast<uint64_t>(m[u]);
        const double exponent = std::bit_cast<double>((bits >> 52) | 0x4330000000000000) - (0x1p52 + 1023);
        const double mantissa = std::bit_cast<double>((bits & 0xfffffffffffff) | 0x3ff0000000000000);
        const bool number = m[u] == m[u];
        e[u] = LoopSelect(number, e[u] + exponent, e[u]);
        m[u] = LoopSelect(number, mantissa, m[u]);
      }
    }

    // The weights of the classes of all states.
    MR_INLINE_LAMBDA void Gather(int64_t t, double* ym, double* ye) const {
      const double *const m = y.m + t * classes, *const e = y.e + t * classes;
      for (int64_t u = 0; u < states; ++u) ym[u] = m[path[u]];
      for (int64_t u = 0; u < states; ++u) ye[u] = e[path[u]];
    }
  };

  // e^(x - the largest) of all classes at all steps, and their sums. Rows of scores lie `row` apart.
  template <typename T>
  static void Weigh(const T* scores, int64_t row, int64_t steps, const Lattice& lattice) {
    RunLoop([=, n = lattice.classes, y = lattice.y, sums = lattice.sums]() MR_INLINE_LAMBDA {
      for (int64_t t = 0; t < steps; ++t) {
        const T* const from = scores + t * row;
        double *const m = y.m + t * n, *const e = y.e + t * n;
        T largest = from[0];
        for (int64_t c = 0; c < n; ++c) largest = largest < from[c] ? from[c] : largest;
        for (int64_t c = 0; c < n; ++c) {
          const double x = static_cast<double>(from[c]) - static_cast<double>(largest);
          // x = exponent log(2) + rest. Far below, the exponent is all there is.
          const bool far = x < -0x1p50;
          const double near = LoopSelect(far, 0.0, x), shifted = near * 1.4426950408889634 + 0x1.8p52;
          const double exponent = shifted - 0x1.8p52;
          const double below = x * 1.4426950408889634, least = LoopSelect(below < kNothing, kNothing, below);
          m[c] = LoopExpOfRest(near, exponent);
          e[c] = LoopSelect(far, least, exponent);
        }
        double parts[8] = {}, sum = 0;
        int64_t c = 0;
        for (; c + 8 <= n; c += 8) {
          MR_LANES
          for (int l = 0; l < 8; ++l) parts[l] += m[c + l] * Power(e[c + l]);
        }
        for (; c < n; ++c) sum += m[c] * Power(e[c]);
        for (const double part : parts) sum += part;
        sums[t] = sum;
      }
    });
  }

  static Status CheckCancelled(const KernelContext& context) {
    if (!context.cancellation().IsCancelled()) return Status();
    return errors::Cancelled("The step was cancelled while labels were aligned");
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
