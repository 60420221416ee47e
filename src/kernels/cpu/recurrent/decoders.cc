// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// CTCGreedyDecoder and CTCBeamSearchDecoder.
#include <atomic>
#include <deque>
#include <map>
#include <set>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/recurrent/ctc.h"

namespace millrace {
namespace {

using Sequence = std::vector<int64_t>;

// One sequence for each entry of the batch, as a sparse tensor in three outputs.
Status StoreSequences(KernelContext& context, const std::vector<Sequence>& sequences, int indices_at,
                      int values_at, int shape_at) {
  int64_t count = 0, longest = 0;
  for (const Sequence& s : sequences) {
    count += static_cast<int64_t>(s.size());
    longest = std::max(longest, static_cast<int64_t>(s.size()));
  }
  MR_ASSIGN_OR_RETURN(Tensor * indices, context.AllocateOutput(indices_at, {count, 2}));
  MR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(values_at, {count}));
  MR_ASSIGN_OR_RETURN(Tensor * shape, context.AllocateOutput(shape_at, {2}));
  shape->data<int64_t>()[0] = static_cast<int64_t>(sequences.size());
  shape->data<int64_t>()[1] = longest;
  int64_t at = 0;
  for (size_t b = 0; b < sequences.size(); ++b) {
    for (size_t i = 0; i < sequences[b].size(); ++i, ++at) {
      indices->data<int64_t>()[2 * at] = static_cast<int64_t>(b);
      indices->data<int64_t>()[2 * at + 1] = static_cast<int64_t>(i);
      values->data<int64_t>()[at] = sequences[b][i];
    }
  }
  return Status();
}

void StoreNumber(double value, int64_t i, Tensor* t) {
  if (t->dtype() == DataType::kDouble) {
    t->data<double>()[i] = value;
  } else {
    t->data<float>()[i] = static_cast<float>(value);
  }
}

class GreedyDecoderKernel final : public OpKernel {
 public:
  explicit GreedyDecoderKernel(KernelConstruction& c) : OpKernel(c), merge_(c.Attr<bool>("merge_repeated")) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const Scores s, ReadScores(context.input(0), context.input(1)));
    MR_ASSIGN_OR_RETURN(Tensor * score, context.AllocateOutput(3, {s.batch, 1}));
    std::vector<Sequence> sequences(static_cast<size_t>(s.batch));
    const auto decode = [&]<typename T>(const T* scores) {
      context.ParallelFor(s.batch, s.Cost(0.3), [&](int64_t begin, int64_t end) {
        std::vector<int64_t> best(static_cast<size_t>(s.time));
        for (int64_t b = begin; b < end; ++b) {
          const int64_t steps = s.steps[static_cast<size_t>(b)];
          FindBest(scores + b * s.classes, steps, s.batch * s.classes, s.classes, best.data());
          Sequence& sequence = sequences[static_cast<size_t>(b)];
          sequence.resize(static_cast<size_t>(steps));
          double sum = 0;
          int64_t last = -1;
          size_t count = 0;
          for (int64_t t = 0; t < steps; ++t) {
            const int64_t found = best[static_cast<size_t>(t)];
            sum -= static_cast<double>(scores[(t * s.batch + b) * s.classes + found]);
            sequence[count] = found;
            count += found != s.blank() && !(merge_ && found == last) ? 1 : 0;
            last = found;
          }
          sequence.resize(count);
          StoreNumber(sum, b, score);
        }
      });
    };
    if (s.tensor->dtype() == DataType::kDouble) {
      decode(s.tensor->data<double>());
    } else {
      decode(s.tensor->data<float>());
    }
    return StoreSequences(context, sequences, 0, 1, 2);
  }

 private:
  // The first of the largest scores of each step; the first class if its score is NaN.
  template <typename T>
  static void FindBest(const T* scores, int64_t steps, int64_t stride, int64_t classes, int64_t* best) {
    RunLoop([=]() MR_INLINE_LAMBDA {
      constexpr int kLanes = 16;
      for (int64_t t = 0; t < steps; ++t) {
        const T* const row = scores + t * stride;
        T most[kLanes];
        ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA { most[l] = row[0]; });
        int64_t c = 0;
        for (; c + kLanes <= classes; c += kLanes)
          ForLanes<kLanes>([&](int l)
                               MR_INLINE_LAMBDA { most[l] = most[l] < row[c + l] ? row[c + l] : most[l]; });
        T largest = row[0];
        for (; c < classes; ++c) largest = largest < row[c] ? row[c] : largest;
        for (int half = kLanes / 2; half > 0; half /= 2) {
          for (int l = 0; l < half; ++l) most[l] = most[l] < most[l + half] ? most[l + half] : most[l];
        }
        largest = largest < most[0] ? most[0] : largest;
        int64_t at = classes;
        for (c = 0; c < classes && at == classes; c += kLanes) {
          const int64_t end = classes - c < kLanes ? classes - c : kLanes;
          for (int64_t l = end; l-- > 0;) at = row[c + l] == largest ? c + l : at;
        }
        best[t] = at == classes ? 0 : at;
      }
    });
  }

  const bool merge_;
};

// A prefix of labels, with the log probabilities of the paths that end in a blank, in the last label, and of
// both.
struct Probability {
  double total = kLogZero, blank = kLogZero, label = kLogZero;
};
struct Beam {
  Beam* parent = nullptr;
  int64_t label = -1;
  int64_t number = 0;  // in order of creation
  Probability before, now;
  bool is_leaf = false;
  std::map<int64_t, Beam*> children;

  bool Active() const { return now.total != kLogZero; }
};

// The most probable beams of one sequence.
class BeamSearch {
 public:
  // All beams stay in memory; a search with more beams than this fails.
  static constexpr int64_t kMostBeams = int64_t{1} << 21;

  explicit BeamSearch(int64_t width) : width_(width) {
    root_.now = {0, 0, kLogZero};
    Keep(&root_);
  }

  // False if there are too many beams, or the step is cancelled.
  bool Step(const std::vector<double>& log_y, const CancellationManager& step) {
    const std::vector<Beam*> branches(leaves_.begin(), leaves_.end());
    leaves_.clear();
    for (Beam* b : branches) b->is_leaf = false;
    const auto blank = static_cast<int64_t>(log_y.size()) - 1;
    for (Beam* b : branches) b->before = b->now;
    for (Beam* b : branches) {
      if (b->parent != nullptr) {
        if (b->parent->Active()) {
          const Probability& from = b->parent->before;
          b->now.label = LogSum(b->now.label, b->label == b->parent->label ? from.blank : from.total);
        }
        b->now.label += log_y[static_cast<size_t>(b->label)];
      }
      b->now.blank = b->before.total + log_y[static_cast<size_t>(blank)];
      b->now.total = LogSum(b->now.blank, b->now.label);
      Keep(b);
    }
    for (Beam* b : branches) {
      if (step.IsCancelled()) return false;
      if (!Fits(b->before.total)) continue;
      for (int64_t label = 0; label < blank; ++label) {
        if (!Grow(b, label, log_y[static_cast<size_t>(label)])) return false;
      }
    }
    return true;
  }

  // The best n, with their scores; false if there are fewer.
  bool Best(int64_t n, bool merge, std::vector<Sequence>* sequences, std::vector<double>* scores) const {
    if (n > static_cast<int64_t>(leaves_.size())) return false;
    auto leaf = leaves_.begin();
    for (int64_t i = 0; i < n; ++i, ++leaf) {
      Sequence labels;
      int64_t last = -1;
      for (const Beam* b = *leaf; b->parent != nullptr; b = b->parent) {
        if (!merge || b->label != last) labels.push_back(b->label);
        last = b->label;
      }
      std::reverse(labels.begin(), labels.end());
      sequences->push_back(std::move(labels));
      scores->push_back((*leaf)->now.total);
    }
    return true;
  }

 private:
  struct Better {
    // NaN is the worst of all.
    static double Key(const Beam* b) { return std::isnan(b->now.total) ? kLogZero : b->now.total; }
    bool operator()(const Beam* a, const Beam* b) const {
      return Key(a) != Key(b) ? Key(a) > Key(b) : a->number < b->number;
    }
  };

  // The set of leaves is ordered by their probabilities, which must not change while they are in it.
  void Keep(Beam* b) {
    b->is_leaf = true;
    leaves_.insert(b);
  }
  void Drop(Beam* b) {
    leaves_.erase(b);
    b->is_leaf = false;
  }

  bool Fits(double total) const {
    if (!(total > kLogZero)) return false;
    return static_cast<int64_t>(leaves_.size()) < width_ || total > (*leaves_.rbegin())->now.total;
  }

  bool Grow(Beam* b, int64_t label, double log_y) {
    const auto known = b->children.find(label);
    Beam* child = known == b->children.end() ? nullptr : known->second;
    if (child != nullptr && child->Active()) return true;
    const double total = log_y + (label == b->label ? b->before.blank : b->before.total);
    if (child != nullptr && child->is_leaf) Drop(child);
    if (!Fits(total)) {
      if (child != nullptr) child->before = child->now = Probability();
      return true;
    }
    if (child == nullptr) {
      if (static_cast<int64_t>(beams_.size()) == kMostBeams) return false;
      child = &beams_.emplace_back();
      child->parent = b;
      child->label = label;
      child->number = static_cast<int64_t>(beams_.size());
      b->children.emplace(label, child);
    }
    if (static_cast<int64_t>(leaves_.size()) == width_) {
      Beam* bottom = *leaves_.rbegin();
      Drop(bottom);
      bottom->now = Probability();
    }
    child->now = {total, kLogZero, total};
    Keep(child);
    return true;
  }

  const int64_t width_;
  Beam root_;
  std::deque<Beam> beams_;  // all except the root
  std::set<Beam*, Better> leaves_;
};

class BeamSearchDecoderKernel final : public OpKernel {
 public:
  explicit BeamSearchDecoderKernel(KernelConstruction& c)
      : OpKernel(c),
        width_(c.Attr<int64_t>("beam_width")),
        paths_(c.Attr<int64_t>("top_paths")),
        merge_(c.Attr<bool>("merge_repeated")) {
    if (width_ < 1 || paths_ < 1)
      c.SetError(errors::InvalidArgument("beam_width and top_paths must be >= 1"));
    if (paths_ > width_) c.SetError(errors::InvalidArgument("requested more paths than the beam width."));
  }

  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const Scores s, ReadScores(context.input(0), context.input(1)));
    const int paths = static_cast<int>(paths_);
    MR_ASSIGN_OR_RETURN(Tensor * score, context.AllocateOutput(3 * paths, {s.batch, paths_}));
    std::vector<std::vector<Sequence>> best(static_cast<size_t>(s.batch));
    std::atomic<int> failure{0};  // seq_cst: read after the loop
    context.ParallelFor(s.batch, s.Cost(1000), [&](int64_t begin, int64_t end) {
      std::vector<double> row;
      for (int64_t b = begin; b < end && failure == 0; ++b) {
        BeamSearch search(width_);
        for (int64_t t = 0; t < s.steps[static_cast<size_t>(b)]; ++t) {
          s.LogProbabilities(t, b, &row);
          if (!search.Step(row, context.cancellation())) {
            failure = 2;
            return;
          }
        }
        std::vector<double> scores;
        if (!search.Best(paths_, merge_, &best[static_cast<size_t>(b)], &scores)) {
          failure = 1;
          return;
        }
        for (int64_t p = 0; p < paths_; ++p)
          StoreNumber(scores[static_cast<size_t>(p)], b * paths_ + p, score);
      }
    });
    if (failure == 1) return errors::InvalidArgument("Less leaves in the beam search than requested.");
    if (context.cancellation().IsCancelled())
      return errors::Cancelled("The step was cancelled while beams were searched");
    if (failure == 2)
      return errors::ResourceExhausted("The beam search met more than ", BeamSearch::kMostBeams, " beams");
    for (int p = 0; p < paths; ++p) {
      std::vector<Sequence> sequences;
      for (auto& of_batch : best) sequences.push_back(std::move(of_batch[static_cast<size_t>(p)]));
      MR_RETURN_IF_ERROR(StoreSequences(context, sequences, p, paths + p, 2 * paths + p));
    }
    return Status();
  }

 private:
  const int64_t width_, paths_;
  const bool merge_;
};

}  // namespace

void RegisterDecoderKernels(KernelRegistry& registry) {
  const TypeList types = {DataType::kFloat, DataType::kDouble};
  registry.Register<GreedyDecoderKernel>(KernelDef("CTCGreedyDecoder").Types("T", types));
  registry.Register<BeamSearchDecoderKernel>(KernelDef("CTCBeamSearchDecoder").Types("T", types));
}

}  // namespace millrace
