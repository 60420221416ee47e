// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// CTCGreedyDecoder and CTCBeamSearchDecoder.
#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <set>

#include "kernels/cpu/recurrent/ctc.h"
#include "kernels/cpu/vector/reduce.h"

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
  int64_t* index = indices->data<int64_t>();
  int64_t* value = values->data<int64_t>();
  for (size_t b = 0; b < sequences.size(); ++b) {
    const Sequence& sequence = sequences[b];
    value = std::copy(sequence.begin(), sequence.end(), value);
    for (size_t i = 0; i < sequence.size(); ++i, index += 2) {
      index[0] = static_cast<int64_t>(b);
      index[1] = static_cast<int64_t>(i);
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
        for (int64_t b = begin; b < end; b += kBlock)
          DecodeBlock(s, scores, b, std::min(end, b + kBlock), sequences.data(), score->data<T>());
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
  static constexpr int64_t kBlock = 64;  // sequences that go through time together
  // What is known of a sequence after some steps.
  struct State {
    double sum;
    int64_t last, steps;
    int64_t* to;  // where the next label goes
  };

  // Sequences [begin, end). Their scores of one step lie side by side.
  template <typename T>
  void DecodeBlock(const Scores& s, const T* scores, int64_t begin, int64_t end, Sequence* sequences,
                   T* score) const {
    std::array<State, kBlock> states;
    std::array<int64_t, kBlock> best;
    const int64_t count = end - begin, classes = s.classes, blank = s.blank();
    const bool merge = merge_;
    int64_t longest = 0;
    for (int64_t k = 0; k < count; ++k) {
      const int64_t steps = s.steps[static_cast<size_t>(begin + k)];
      sequences[begin + k].resize(static_cast<size_t>(steps));
      states[static_cast<size_t>(k)] = {0, -1, steps, sequences[begin + k].data()};
      longest = std::max(longest, steps);
    }
    for (int64_t t = 0; t < longest; ++t) {
      const T* row = scores + (t * s.batch + begin) * classes;
      cpu::ArgMaxRows(row, count, classes, best.data());
      for (int64_t k = 0; k < count; ++k, row += classes) {
        State& state = states[static_cast<size_t>(k)];
        if (t >= state.steps) continue;
        // If the first score is NaN, it is the one found.
        const int64_t found = row[0] != row[0] ? 0 : best[static_cast<size_t>(k)];
        state.sum -= static_cast<double>(row[found]);
        *state.to = found;
        state.to += found != blank && !(merge && found == state.last) ? 1 : 0;
        state.last = found;
      }
    }
    for (int64_t k = 0; k < count; ++k) {
      const State& state = states[static_cast<size_t>(k)];
      Sequence& sequence = sequences[begin + k];
      sequence.resize(static_cast<size_t>(state.to - sequence.data()));
      score[begin + k] = static_cast<T>(state.sum);
    }
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
