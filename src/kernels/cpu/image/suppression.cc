// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// NonMaxSuppression in all its versions, and CombinedNonMaxSuppression.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <vector>

#include "kernels/cpu/nn/util.h"

namespace millrace {
namespace {

constexpr float kNoThreshold = std::numeric_limits<float>::lowest();

struct Limits {
  int64_t most = 0;  // boxes
  float overlap = 0.5f;
  float score = kNoThreshold;
  float sigma = 0;  // > 0: overlap lowers scores instead of removing boxes
};

struct Selection {
  std::vector<int32_t> boxes;
  std::vector<float> scores;
};

struct Candidate {
  int32_t box;
  float score;
  size_t seen;  // the number of selected boxes with which it was compared
  // The best score comes first; of equal ones the first box.
  bool operator<(const Candidate& o) const { return score == o.score ? box > o.box : score < o.score; }
};

// Boxes by their scores as numbers that ascend from the best to the worst; of equal scores the first box
// comes first. They are sorted as far as needed.
class Ranking {
 public:
  Ranking(std::span<const float> scores, float above) : keys_(scores.size()) {
    size_t count = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
      const auto bits = std::bit_cast<uint32_t>(scores[i] + 0.0f);  // -0 becomes 0
      const uint32_t ascending = bits >> 31 != 0 ? bits : ~bits & 0x7fffffffu;
      keys_[count] = uint64_t{ascending} << 32 | i;
      count += scores[i] > above ? 1 : 0;
    }
    keys_.resize(count);
  }
  // The next box, or -1.
  int32_t Next() {
    if (next_ == sorted_ && !Sort()) return -1;
    return static_cast<int32_t>(keys_[next_++] & 0xffffffffu);
  }

 private:
  bool Sort() {
    if (sorted_ == keys_.size()) return false;
    const auto begin = keys_.begin() + static_cast<int64_t>(sorted_);
    sorted_ = std::min(keys_.size(), std::max<size_t>(2 * sorted_, 256));
    const auto end = keys_.begin() + static_cast<int64_t>(sorted_);
    if (end != keys_.end()) std::nth_element(begin, end, keys_.end());
    std::sort(begin, end);
    return true;
  }

  std::vector<uint64_t> keys_;
  size_t next_ = 0, sorted_ = 0;
};

// Boxes that overlap a selected one are removed, the others keep their scores. False if an overlap is NaN or
// infinite, which changes scores.
template <typename Overlap>
bool SelectHard(std::span<const float> scores, const Limits& limits, Overlap overlap, Selection* out) {
  Ranking ranking(scores, limits.score);
  while (static_cast<int64_t>(out->boxes.size()) < limits.most) {
    const int32_t box = ranking.Next();
    if (box < 0) break;
    bool keep = true;
    for (size_t j = out->boxes.size(); j > 0 && keep; --j) {
      const float shared = overlap(box, out->boxes[j - 1]);
      if (!std::isfinite(shared)) return false;
      keep = shared <= limits.overlap;
    }
    if (!keep) continue;
    out->boxes.push_back(box);
    out->scores.push_back(scores[static_cast<size_t>(box)]);
  }
  return true;
}

// Selects the best remaining box, unless it overlaps a selected one. Scores that are not above the threshold,
// including NaN, are skipped.
template <typename Overlap>
Selection Select(std::span<const float> scores, const Limits& limits, Overlap overlap) {
  Selection out;
  if (limits.sigma <= 0 && !std::isnan(limits.overlap) && SelectHard(scores, limits, overlap, &out))
    return out;
  out = {};
  std::vector<Candidate> candidates;
  candidates.reserve(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] > limits.score) candidates.push_back({static_cast<int32_t>(i), scores[i], 0});
  }
  // Made of all at once, which takes as many steps as there are boxes.
  std::priority_queue queue(std::less<Candidate>(), std::move(candidates));
  const bool soft = limits.sigma > 0;
  const float scale = soft ? -0.5f / limits.sigma : 0;
  while (static_cast<int64_t>(out.boxes.size()) < limits.most && !queue.empty()) {
    Candidate next = queue.top();
    queue.pop();
    const float before = next.score;
    bool dropped = false;
    for (size_t j = out.boxes.size(); j > next.seen && !dropped; --j) {
      const float shared = overlap(next.box, out.boxes[j - 1]);
      next.score *= shared <= limits.overlap ? std::exp(scale * shared * shared) : 0.0f;
      if (!soft && shared > limits.overlap) dropped = true;
      if (next.score <= limits.score) break;
    }
    next.seen = out.boxes.size();
    if (dropped) continue;
    if (next.score == before) {
      out.boxes.push_back(next.box);
      out.scores.push_back(next.score);
    } else if (next.score > limits.score) {
      queue.push(next);
    }
  }
  return out;
}

// Boxes given by two opposite corners: intersection over union.
float SharedArea(const float* a, const float* b) {
  const float a_top = std::min(a[0], a[2]), a_left = std::min(a[1], a[3]);
  const float a_bottom = std::max(a[0], a[2]), a_right = std::max(a[1], a[3]);
  const float b_top = std::min(b[0], b[2]), b_left = std::min(b[1], b[3]);
  const float b_bottom = std::max(b[0], b[2]), b_right = std::max(b[1], b[3]);
  const float a_area = (a_bottom - a_top) * (a_right - a_left);
  const float b_area = (b_bottom - b_top) * (b_right - b_left);
  if (a_area <= 0 || b_area <= 0) return 0;
  const float height = std::max(std::min(a_bottom, b_bottom) - std::max(a_top, b_top), 0.0f);
  const float width = std::max(std::min(a_right, b_right) - std::max(a_left, b_left), 0.0f);
  const float both = height * width;
  return both / (a_area + b_area - both);
}

StatusOr<float> ScalarInput(KernelContext& context, int i, const char* name) {
  const Tensor& t = context.input(i);
  if (!t.shape().IsScalar()) return errors::InvalidArgument(name, " must be 0-D, got shape ", t.shape());
  return t.dtype() == DataType::kHalf ? static_cast<float>(t.scalar<half>()) : t.scalar<float>();
}

class SuppressionKernel final : public OpKernel {
 public:
  explicit SuppressionKernel(KernelConstruction& c)
      : OpKernel(c),
        matrix_(c.props()->op->def.name == "NonMaxSuppressionWithOverlaps"),
        soft_(num_outputs() == 3),
        pad_(c.HasAttr("pad_to_max_output_size") && c.Attr<bool>("pad_to_max_output_size")) {
    if (c.HasAttr("iou_threshold")) {
      overlap_ = c.Attr<float>("iou_threshold");
      if (!(overlap_ >= 0 && overlap_ <= 1))
        c.SetError(errors::InvalidArgument("iou_threshold must be in [0, 1]"));
    }
  }

  Status Compute(KernelContext& context) override {
    const Tensor& boxes = context.input(0);
    const Tensor& scores = context.input(1);
    MR_RETURN_IF_ERROR(CheckBoxes(boxes, scores));
    MR_ASSIGN_OR_RETURN(const Limits limits, ReadLimits(context));
    MR_ASSIGN_OR_RETURN(const Tensor floats, ToFloat(context, boxes));
    MR_ASSIGN_OR_RETURN(const Tensor float_scores, ToFloat(context, scores));
    const float* data = floats.data<float>();
    const int64_t n = float_scores.num_elements();
    Selection selection;
    if (matrix_) {
      selection =
          Select(float_scores.flat<float>(), limits, [&](int32_t a, int32_t b) { return data[a * n + b]; });
    } else {
      selection = Select(float_scores.flat<float>(), limits, [&](int32_t a, int32_t b) {
        return SharedArea(data + int64_t{a} * 4, data + int64_t{b} * 4);
      });
    }
    return SetOutputs(context, limits, std::move(selection));
  }

 private:
  Status CheckBoxes(const Tensor& boxes, const Tensor& scores) const {
    const char* name = matrix_ ? "overlaps" : "boxes";
    if (boxes.rank() != 2) return errors::InvalidArgument(name, " must be 2-D", boxes.shape());
    const int64_t n = boxes.dim(0);
    if (n > std::numeric_limits<int32_t>::max()) return errors::InvalidArgument("too many boxes: ", n);
    if (matrix_ && boxes.dim(1) != n)
      return errors::InvalidArgument("overlaps must be square, got ", boxes.shape());
    if (!matrix_ && boxes.dim(1) != 4) return errors::InvalidArgument("boxes must have 4 columns");
    if (scores.rank() != 1) return errors::InvalidArgument("scores must be 1-D", scores.shape());
    if (scores.dim(0) != n) return errors::InvalidArgument("scores has incompatible shape");
    return Status();
  }

  StatusOr<Limits> ReadLimits(KernelContext& context) const {
    Limits limits;
    const Tensor& most = context.input(2);
    if (!most.shape().IsScalar())
      return errors::InvalidArgument("max_output_size must be 0-D, got shape ", most.shape());
    limits.most = IntValue(most);
    if (limits.most < 0) {
      return errors::InvalidArgument("max_output_size must be non-negative, got ", limits.most);
    }
    limits.overlap = overlap_;
    if (num_inputs() > 3) {
      MR_ASSIGN_OR_RETURN(limits.overlap,
                          ScalarInput(context, 3, matrix_ ? "overlap_threshold" : "iou_threshold"));
      if (!matrix_ && !(limits.overlap >= 0 && limits.overlap <= 1))
        return errors::InvalidArgument("iou_threshold must be in [0, 1]");
    }
    if (num_inputs() > 4) {
      MR_ASSIGN_OR_RETURN(limits.score, ScalarInput(context, 4, "score_threshold"));
    }
    if (num_inputs() > 5) {
      MR_ASSIGN_OR_RETURN(limits.sigma, ScalarInput(context, 5, "soft_nms_sigma"));
      if (!(limits.sigma >= 0)) return errors::InvalidArgument("soft_nms_sigma must be non-negative");
    }
    return limits;
  }

  Status SetOutputs(KernelContext& context, const Limits& limits, Selection selection) const {
    const auto valid = static_cast<int32_t>(selection.boxes.size());
    const int64_t n = pad_ ? limits.most : valid;
    MR_ASSIGN_OR_RETURN(Tensor * boxes, context.AllocateOutput(0, TensorShape({n})));
    std::fill_n(boxes->data<int32_t>(), n, 0);
    std::copy(selection.boxes.begin(), selection.boxes.end(), boxes->data<int32_t>());
    if (num_outputs() == 1) return Status();
    if (soft_) {
      MR_ASSIGN_OR_RETURN(Tensor * scores, context.AllocateOutput(1, TensorShape({n})));
      selection.scores.resize(static_cast<size_t>(n));
      FromFloat(context, Tensor::Vector<float>(selection.scores), scores);
    }
    context.set_output(num_outputs() - 1, Tensor::Scalar(valid));
    return Status();
  }

  const bool matrix_, soft_, pad_;
  float overlap_ = 0.5f;
};

// For each image and class the best boxes, then the best of all classes of the image.
class CombinedSuppressionKernel final : public OpKernel {
 public:
  explicit CombinedSuppressionKernel(KernelConstruction& c)
      : OpKernel(c), per_class_(c.Attr<bool>("pad_per_class")), clip_(c.Attr<bool>("clip_boxes")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& boxes = context.input(0);
    const Tensor& scores = context.input(1);
    MR_RETURN_IF_ERROR(CheckShapes(boxes, scores));
    Limits limits;
    MR_ASSIGN_OR_RETURN(limits.most, PositiveInput(context, 2, "max_size_per_class"));
    MR_ASSIGN_OR_RETURN(int64_t total, PositiveInput(context, 3, "max_total_size"));
    MR_ASSIGN_OR_RETURN(limits.overlap, ScalarInput(context, 4, "iou_threshold"));
    MR_ASSIGN_OR_RETURN(limits.score, ScalarInput(context, 5, "score_threshold"));
    if (!(limits.overlap >= 0 && limits.overlap <= 1))
      return errors::InvalidArgument("iou_threshold must be in [0, 1]");
    const int64_t batch = boxes.dim(0), classes = scores.dim(2);
    if (int64_t all; per_class_ && MultiplyFits(limits.most, classes, &all)) total = std::min(total, all);
    MR_ASSIGN_OR_RETURN(const TensorShape boxes_shape, ShapeFromValues(Dims{batch, total, 4}));
    Outputs out;
    MR_ASSIGN_OR_RETURN(out.boxes, context.AllocateOutput(0, boxes_shape));
    MR_ASSIGN_OR_RETURN(out.scores, context.AllocateOutput(1, TensorShape({batch, total})));
    MR_ASSIGN_OR_RETURN(out.classes, context.AllocateOutput(2, TensorShape({batch, total})));
    MR_ASSIGN_OR_RETURN(out.valid, context.AllocateOutput(3, TensorShape({batch})));
    for (Tensor* t : {out.boxes, out.scores, out.classes})
      std::fill_n(t->data<float>(), t->num_elements(), 0.0f);
    constexpr int64_t kCostPerScoreNs = 50;
    context.ParallelFor(batch, boxes.dim(1) * classes * kCostPerScoreNs, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) RunImage(context, b, limits, total, out);
    });
    return Status();
  }

 private:
  struct Outputs {
    Tensor *boxes, *scores, *classes, *valid;
  };
  struct Detection {
    const float* box;
    float score;
    int64_t label;
  };

  static Status CheckShapes(const Tensor& boxes, const Tensor& scores) {
    if (boxes.rank() != 4) return errors::InvalidArgument("boxes must be 4-D, got shape ", boxes.shape());
    if (boxes.dim(3) != 4) return errors::InvalidArgument("boxes must have 4 columns");
    if (boxes.dim(1) > std::numeric_limits<int32_t>::max())
      return errors::InvalidArgument("too many boxes: ", boxes.dim(1));
    if (scores.rank() != 3) return errors::InvalidArgument("scores must be 3-D, got shape ", scores.shape());
    if (boxes.dim(0) != scores.dim(0))
      return errors::InvalidArgument("boxes and scores must have same batch size");
    if (scores.dim(1) != boxes.dim(1)) return errors::InvalidArgument("scores has incompatible shape");
    if (boxes.dim(2) != 1 && boxes.dim(2) != scores.dim(2)) {
      return errors::InvalidArgument("third dimension of boxes must be either 1 or num classes");
    }
    return Status();
  }
  static StatusOr<int64_t> PositiveInput(const KernelContext& context, int i, const char* name) {
    const Tensor& t = context.input(i);
    if (!t.shape().IsScalar()) return errors::InvalidArgument(name, " must be 0-D, got shape ", t.shape());
    if (IntValue(t) <= 0) return errors::InvalidArgument(name, " must be > 0");
    return IntValue(t);
  }

  void RunImage(const KernelContext& context, int64_t image, const Limits& limits, int64_t total,
                const Outputs& out) const {
    const Tensor& boxes = context.input(0);
    const Tensor& scores = context.input(1);
    const int64_t n = scores.dim(1), classes = scores.dim(2), choices = boxes.dim(2);
    std::vector<Detection> all;
    std::vector<float> of_class(static_cast<size_t>(n));
    for (int64_t label = 0; label < classes; ++label) {
      const float* from = scores.data<float>() + image * n * classes + label;
      for (size_t i = 0; i < of_class.size(); ++i) of_class[i] = from[static_cast<int64_t>(i) * classes];
      const auto box = [&](int32_t i) {
        return boxes.data<float>() + ((image * n + i) * choices + (choices > 1 ? label : 0)) * 4;
      };
      const Selection best =
          Select(of_class, limits, [&](int32_t a, int32_t b) { return SharedArea(box(a), box(b)); });
      for (size_t i = 0; i < best.boxes.size(); ++i)
        all.push_back({box(best.boxes[i]), best.scores[i], label});
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const Detection& a, const Detection& b) { return a.score > b.score; });
    const int64_t kept = std::min(total, static_cast<int64_t>(all.size()));
    for (int64_t i = 0; i < kept; ++i) {
      const Detection& d = all[static_cast<size_t>(i)];
      const int64_t to = image * total + i;
      for (int k = 0; k < 4; ++k)
        out.boxes->data<float>()[to * 4 + k] = clip_ ? std::clamp(d.box[k], 0.0f, 1.0f) : d.box[k];
      out.scores->data<float>()[to] = d.score;
      out.classes->data<float>()[to] = static_cast<float>(d.label);
    }
    out.valid->data<int32_t>()[image] = static_cast<int32_t>(kept);
  }

  const bool per_class_, clip_;
};

}  // namespace

void RegisterSuppressionKernels(KernelRegistry& registry) {
  for (const char* op : {"NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3",
                         "NonMaxSuppressionV4", "NonMaxSuppressionV5", "NonMaxSuppressionWithOverlaps"}) {
    registry.Register<SuppressionKernel>(KernelDef(op));
  }
  registry.Register<CombinedSuppressionKernel>(KernelDef("CombinedNonMaxSuppression"));
}

}  // namespace millrace
