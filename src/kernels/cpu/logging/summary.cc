// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Summary messages of scalars, histograms and tensors, and their union.
#include "kernels/cpu/logging/summary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "kernels/cpu/nn/util.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/summary.pb.h"

namespace millrace {

Status SetSummary(KernelContext& context, const tensorflow::Summary& summary) {
  MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape()));
  if (!summary.SerializeToString(&out->scalar<std::string>()))
    return errors::InvalidArgument("The summary is too large to be written");
  return Status();
}

double RealAt(const Tensor& t, int64_t i) {
  return VisitReal(t.dtype(), 0.0, [&]<typename T>() -> double {
    if constexpr (kIsSmallFloat<T>) {
      return static_cast<double>(static_cast<float>(t.data<T>()[i]));
    } else {
      return static_cast<double>(t.data<T>()[i]);
    }
  });
}

namespace {

class ScalarSummaryKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& tags = context.input(0);
    const Tensor& values = context.input(1);
    if (tags.shape() != values.shape()) {
      return errors::InvalidArgument(
          "tags and values not the same shape: ", tags.shape(), " != ", values.shape(),
          tags.num_elements() == 1 ? StrCat(" (tag '", tags.data<std::string>()[0], "')") : std::string());
    }
    tensorflow::Summary summary;
    for (int64_t i = 0; i < tags.num_elements(); ++i) {
      tensorflow::Summary::Value* value = summary.add_value();
      value->set_tag(tags.data<std::string>()[i]);
      value->set_simple_value(static_cast<float>(RealAt(values, i)));
    }
    return SetSummary(context, summary);
  }
};

// The upper limits of TensorFlow's buckets: steps of 10 % from 1e-12 to 1e20, on both sides of 0.
const std::vector<double>& BucketLimits() {
  static const auto& limits = *new std::vector<double>([] {
    constexpr double kMost = std::numeric_limits<double>::max();
    std::vector<double> positive;
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
    positive.push_back(kMost);
    std::vector<double> all;
    for (auto it = positive.rbegin(); it != positive.rend(); ++it) all.push_back(-*it);
    all.push_back(0);
    all.insert(all.end(), positive.begin(), positive.end());
    return all;
  }());
  return limits;
}

// Of consecutive empty buckets only the last one is kept.
void AddBuckets(const std::vector<double>& limits, const std::vector<double>& counts,
                tensorflow::HistogramProto* histogram) {
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0 && i + 1 < counts.size() && counts[i + 1] == 0) continue;
    histogram->add_bucket_limit(limits[i]);
    histogram->add_bucket(counts[i]);
  }
}

class HistogramSummaryKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& tag = context.input(0);
    if (!tag.shape().IsScalar()) return errors::InvalidArgument("tags must be scalar");
    tensorflow::Summary summary;
    MR_RETURN_IF_ERROR(AddHistogram(tag.scalar<std::string>(), context.input(1), name(), &summary));
    return SetSummary(context, summary);
  }
};

class MergeSummaryKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    tensorflow::Summary all;
    std::set<std::string> tags;
    for (int i = 0; i < context.num_inputs(); ++i) {
      for (const std::string& bytes : context.input(i).flat<std::string>()) {
        tensorflow::Summary part;
        if (!part.ParseFromString(bytes))
          return errors::InvalidArgument("Could not parse one of the summary inputs");
        for (tensorflow::Summary::Value& value : *part.mutable_value()) {
          if (!value.tag().empty() && !tags.insert(value.tag()).second)
            return errors::InvalidArgument("Duplicate tag ", value.tag(), " found in summary inputs");
          *all.add_value() = std::move(value);
        }
      }
    }
    return SetSummary(context, all);
  }
};

void SetTensor(const Tensor& tensor, tensorflow::Summary::Value* value) {
  if (tensor.dtype() == DataType::kString) {
    TensorToProto(tensor, value->mutable_tensor());
  } else {
    TensorToProtoContent(tensor, value->mutable_tensor());
  }
}

class TensorSummaryKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    tensorflow::Summary summary;
    tensorflow::Summary::Value* const value = summary.add_value();
    value->set_node_name(name());
    SetTensor(context.input(0), value);
    return SetSummary(context, summary);
  }
};

class TensorSummaryV2Kernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& tag = context.input(0);
    if (!tag.shape().IsScalar()) return errors::InvalidArgument("tag must be scalar");
    const Tensor& metadata = context.input(2);
    if (!metadata.shape().IsScalar())
      return errors::InvalidArgument("serialized_summary_metadata must be scalar");
    tensorflow::Summary summary;
    tensorflow::Summary::Value* const value = summary.add_value();
    value->set_tag(tag.scalar<std::string>());
    SetTensor(context.input(1), value);
    if (!value->mutable_metadata()->ParseFromString(metadata.scalar<std::string>()))
      return errors::InvalidArgument("serialized_summary_metadata is not a SummaryMetadata message");
    return SetSummary(context, summary);
  }
};

}  // namespace

Status AddHistogram(const std::string& tag, const Tensor& values, const std::string& name,
                    tensorflow::Summary* summary) {
  const std::vector<double>& limits = BucketLimits();
  std::vector<double> counts(limits.size());
  tensorflow::Summary::Value* const value = summary->add_value();
  value->set_tag(tag);
  tensorflow::HistogramProto* const histogram = value->mutable_histo();
  double least = limits.back(), most = -limits.back(), sum = 0, squares = 0;
  for (int64_t i = 0; i < values.num_elements(); ++i) {
    const double x = RealAt(values, i);
    if (std::isnan(x)) return errors::InvalidArgument("Nan in summary histogram for: ", name);
    if (std::isinf(x)) return errors::InvalidArgument("Infinity in summary histogram for: ", name);
    const auto bucket = std::upper_bound(limits.begin(), limits.end(), x) - limits.begin();
    ++counts[std::min(static_cast<size_t>(bucket), counts.size() - 1)];
    least = std::min(least, x);
    most = std::max(most, x);
    sum += x;
    squares += x * x;
  }
  histogram->set_min(least);
  histogram->set_max(most);
  histogram->set_num(static_cast<double>(values.num_elements()));
  histogram->set_sum(sum);
  histogram->set_sum_squares(squares);
  AddBuckets(limits, counts, histogram);
  return Status();
}

void AddTensor(const std::string& tag, const Tensor& tensor, tensorflow::Summary* summary) {
  tensorflow::Summary::Value* const value = summary->add_value();
  value->set_tag(tag);
  SetTensor(tensor, value);
}

void RegisterSummaryKernels(KernelRegistry& registry) {
  registry.Register<ScalarSummaryKernel>(KernelDef("ScalarSummary"));
  registry.Register<HistogramSummaryKernel>(KernelDef("HistogramSummary"));
  registry.Register<MergeSummaryKernel>(KernelDef("MergeSummary"));
  registry.Register<TensorSummaryKernel>(KernelDef("TensorSummary"));
  registry.Register<TensorSummaryV2Kernel>(KernelDef("TensorSummaryV2"));
}

}  // namespace millrace
