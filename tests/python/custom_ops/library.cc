// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Ops that use TensorFlow's headers other than those for kernels and shapes: strings, random numbers, files,
// image formats, Eigen if TensorFlow has it. For C++11.
#include <cfloat>
#include <unordered_map>

#include "tensorflow/core/framework/bounds_check.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/numeric_types.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_def_builder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/kernels/bounds_check.h"
#include "tensorflow/core/lib/core/blocking_counter.h"
#include "tensorflow/core/lib/core/notification.h"
#include "tensorflow/core/lib/core/stringpiece.h"
#include "tensorflow/core/lib/gtl/array_slice.h"
#include "tensorflow/core/lib/gtl/inlined_vector.h"
#include "tensorflow/core/lib/gtl/map_util.h"
#include "tensorflow/core/lib/gtl/stl_util.h"
#include "tensorflow/core/lib/hash/hash.h"
#include "tensorflow/core/lib/io/path.h"
#include "tensorflow/core/lib/math/math_util.h"
#include "tensorflow/core/lib/random/distribution_sampler.h"
#include "tensorflow/core/lib/random/philox_random.h"
#include "tensorflow/core/lib/random/random_distributions.h"
#include "tensorflow/core/lib/random/simple_philox.h"
#include "tensorflow/core/lib/strings/numbers.h"
#include "tensorflow/core/lib/strings/str_util.h"
#include "tensorflow/core/lib/strings/strcat.h"
#include "tensorflow/core/lib/strings/stringprintf.h"
#include "tensorflow/core/platform/cpu_info.h"
#include "tensorflow/core/platform/default/integral_types.h"
#include "tensorflow/core/platform/default/logging.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/prefetch.h"
#include "tensorflow/core/platform/thread_annotations.h"
#include "tensorflow/core/public/version.h"
#include "tensorflow/core/util/guarded_philox_random.h"
#include "tensorflow/core/util/padding.h"
#include "tensorflow/core/util/tensor_format.h"
#include "tensorflow/core/util/work_sharder.h"
#ifndef MILLRACE_NO_EIGEN
#include "third_party/eigen3/Eigen/Core"
#include "third_party/eigen3/unsupported/Eigen/CXX11/Tensor"
#endif

#if TF_MAJOR_VERSION != 1 || TF_MINOR_VERSION != 15
#error "another version of TensorFlow"
#endif

namespace tensorflow {
namespace {

using shape_inference::DimensionHandle;
using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

// The largest values in boxes of images: batch, row, column, row, column.
REGISTER_OP("CustomBoxMax")
    .Attr("T: {half, float, double}")
    .Attr("size: int >= 1")
    .Attr(GetPaddingAttrString())
    .Attr(GetConvnetDataFormatAttrString())
    .Input("images: T")
    .Input("boxes: int32")
    .Output("largest: T")
    .Output("argmax: int64")
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle images, boxes;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 4, &images));
      TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 2, &boxes));
      DimensionHandle five;
      TF_RETURN_IF_ERROR(c->WithValue(c->Dim(boxes, 1), 5, &five));
      int32 size;
      TF_RETURN_IF_ERROR(c->GetAttr("size", &size));
      const ShapeHandle output = c->MakeShape({c->Dim(boxes, 0), size, size, c->Dim(images, 3)});
      TF_RETURN_IF_ERROR(c->set_output("largest", {output}));
      return c->set_output("argmax", {output});
    });

template <typename T>
class BoxMaxOp : public OpKernel {
 public:
  explicit BoxMaxOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("size", &size_));
    OP_REQUIRES_OK(context, context->GetAttr("padding", &padding_));
    string format;
    OP_REQUIRES_OK(context, context->GetAttr("data_format", &format));
    OP_REQUIRES(context, FormatFromString(format, &format_) && format_ == FORMAT_NHWC,
                errors::InvalidArgument("only NHWC, not ", format));
  }
  void Compute(OpKernelContext* context) override {
    const Tensor& images = context->input(0);
    const Tensor& boxes = context->input(1);
    auto in = images.tensor<T, 4>();
    auto box = boxes.matrix<int32>();
    const int64 height = GetTensorDim(images, format_, 'H'),
                width = GetTensorDim(images.shape(), format_, 'W');
    const int64 channels = GetTensorDim(images, format_, 'C');
    int dims[4] = {static_cast<int>(boxes.dim_size(0)), size_, size_, static_cast<int>(channels)};
    TensorShape shape;
    OP_REQUIRES_OK(context, TensorShapeUtils::MakeShape(dims, 4, &shape));
    Tensor* largest = nullptr;
    Tensor* argmax = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output("largest", shape, &largest));
    OP_REQUIRES_OK(context, context->allocate_output(1, shape, &argmax));
    auto out = largest->template flat<T>();
    auto at = argmax->template flat<int64>();
    const int size = size_;
    bool good = true;
    for (int b = 0; b < dims[0]; ++b) {
      good = good && FastBoundsCheck(internal::SubtleMustCopy(box(b, 0)), images.dim_size(0));
      good = good && box(b, 1) >= 0 && box(b, 2) >= 0 && box(b, 3) <= height && box(b, 4) <= width;
    }
    OP_REQUIRES(context, good, errors::InvalidArgument("a box is outside the images"));
    auto shard = [=, &box, &in, &out, &at](int64 begin, int64 end) {
      for (int64 i = begin; i < end; ++i) {
        const int64 c = i % channels, x = i / channels % size, y = i / channels / size % size;
        const int b = static_cast<int>(i / channels / size / size);
        T best = T(-FLT_MAX);
        int64 best_at = -1;
        const int64 rows = box(b, 3) - box(b, 1), columns = box(b, 4) - box(b, 2);
        for (int64 r = box(b, 1) + y * rows / size; r < box(b, 1) + (y + 1) * rows / size; ++r) {
          for (int64 k = box(b, 2) + x * columns / size; k < box(b, 2) + (x + 1) * columns / size; ++k) {
            if (!(in(box(b, 0), r, k, c) > best)) continue;
            best = in(box(b, 0), r, k, c);
            best_at = (r * width + k) * channels + c;
          }
        }
        out(i) = best;
        at(i) = best_at;
      }
    };
    const DeviceBase::CpuWorkerThreads& threads = *(context->device()->tensorflow_cpu_worker_threads());
    Shard(threads.num_threads, threads.workers, out.size(), height * width / size / size, shard);
  }

 private:
  int size_;
  Padding padding_;
  TensorFormat format_;
};
#define REGISTER_BOX_MAX(T) \
  REGISTER_KERNEL_BUILDER(Name("CustomBoxMax").Device(DEVICE_CPU).TypeConstraint<T>("T"), BoxMaxOp<T>);
TF_CALL_GPU_NUMBER_TYPES(REGISTER_BOX_MAX)

// Words of a file that are frequent enough, and pairs of neighbours drawn from it.
REGISTER_OP("CustomSkipgram")
    .Output("vocab_word: string")
    .Output("vocab_freq: int32")
    .Output("examples: int32")
    .Output("labels: int32")
    .Output("negatives: int32")
    .SetIsStateful()
    .Attr("filename: string")
    .Attr("batch_size: int")
    .Attr("window_size: int = 5")
    .Attr("min_count: int = 5")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0");

class SkipgramOp : public OpKernel {
 public:
  explicit SkipgramOp(OpKernelConstruction* ctx) : OpKernel(ctx), rng_(&philox_) {
    string filename;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("filename", &filename));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("batch_size", &batch_size_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("window_size", &window_size_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("min_count", &min_count_));
    OP_REQUIRES_OK(ctx, guarded_philox_.Init(ctx));
    philox_ = guarded_philox_.ReserveSamples128(1000);
    OP_REQUIRES_OK(ctx, Init(ctx->env(), filename));
  }
  void Compute(OpKernelContext* ctx) override {
    Tensor examples(DT_INT32, TensorShape({batch_size_}));
    Tensor labels(DT_INT32, TensorShape({batch_size_}));
    Tensor negatives(DT_INT32, TensorShape({batch_size_}));
    auto Texamples = examples.flat<int32>();
    auto Tlabels = labels.flat<int32>();
    {
      mutex_lock l(mu_);
      for (int i = 0; i < batch_size_; ++i) {
        const int64 at = static_cast<int64>(rng_.Uniform64(corpus_.size()));
        const int64 skip = 1 + rng_.Uniform(static_cast<uint32>(window_size_));
        const int64 other = std::min<int64>(at + skip, static_cast<int64>(corpus_.size()) - 1);
        port::prefetch<port::PREFETCH_HINT_T0>(&corpus_[static_cast<size_t>(other)]);
        Texamples(i) = corpus_[static_cast<size_t>(at)];
        Tlabels(i) = corpus_[static_cast<size_t>(other)];
        negatives.flat<int32>()(i) = sampler_->Sample(&rng_);
      }
    }
    ctx->set_output(0, word_);
    ctx->set_output(1, freq_);
    ctx->set_output(2, examples);
    ctx->set_output(3, labels);
    OP_REQUIRES_OK(ctx, ctx->set_output("negatives", negatives));
  }

 private:
  Status Init(Env* env, const string& filename) {
    string data;
    TF_RETURN_IF_ERROR(ReadFileToString(env, filename, &data));
    std::unordered_map<string, int32> counts;
    const std::vector<string> words = str_util::Split(data, " \n", str_util::SkipEmpty());
    for (const string& word : words) ++counts[word];
    std::vector<std::pair<string, int32>> ordered;
    for (const auto& count : counts) {
      if (count.second >= min_count_) ordered.push_back(count);
    }
    if (ordered.empty()) {
      return errors::InvalidArgument("The text file ", io::Basename(filename),
                                     " has no word often enough: ", static_cast<unsigned int>(words.size()),
                                     " words");
    }
    std::sort(ordered.begin(), ordered.end(),
              [](const std::pair<string, int32>& a, const std::pair<string, int32>& b) {
                return a.second != b.second ? a.second > b.second : a.first < b.first;
              });
    word_ = Tensor(DT_STRING, TensorShape({static_cast<int64>(ordered.size())}));
    freq_ = Tensor(DT_INT32, TensorShape({static_cast<int64>(ordered.size())}));
    std::unordered_map<string, int32> ids;
    std::vector<float> weights;
    for (size_t i = 0; i < ordered.size(); ++i) {
      word_.flat<string>()(static_cast<int64>(i)) = ordered[i].first;
      freq_.flat<int32>()(static_cast<int64>(i)) = ordered[i].second;
      ids[ordered[i].first] = static_cast<int32>(i);
      weights.push_back(static_cast<float>(ordered[i].second));
    }
    for (const string& word : words) {
      if (gtl::FindOrNull(ids, word) != nullptr) corpus_.push_back(gtl::FindWithDefault(ids, word, -1));
    }
    sampler_.reset(new random::DistributionSampler(weights));
    VLOG(1) << "Data file: " << filename << " contains " << data.size() << " bytes";
    return Status::OK();
  }

  int32 batch_size_ = 0, window_size_ = 5, min_count_ = 5;
  Tensor word_, freq_;
  std::vector<int32> corpus_;
  std::unique_ptr<random::DistributionSampler> sampler_;
  GuardedPhiloxRandom guarded_philox_;
  mutex mu_;
  random::PhiloxRandom philox_ GUARDED_BY(mu_);
  random::SimplePhilox rng_ GUARDED_BY(mu_);
};
REGISTER_KERNEL_BUILDER(Name("CustomSkipgram").Device(DEVICE_CPU), SkipgramOp);

// The numbers of TensorFlow's own random ops with the same seeds.
REGISTER_OP("CustomRandom")
    .Attr("T: {float, double, int32, int64}")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Attr("normal: bool = false")
    .Input("n: int64")
    .Output("numbers: T")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      DimensionHandle n;
      TF_RETURN_IF_ERROR(c->MakeDimForScalarInput(0, &n));
      c->set_output(0, c->Vector(n));
      return Status::OK();
    });

using random::PhiloxRandom;
template <typename T>
random::UniformDistribution<PhiloxRandom, T> Uniform(T) {
  return random::UniformDistribution<PhiloxRandom, T>(-5, 1000);
}
random::UniformDistribution<PhiloxRandom, float> Uniform(float) { return {}; }
random::UniformDistribution<PhiloxRandom, double> Uniform(double) { return {}; }

template <typename T>
class RandomOp : public OpKernel {
 public:
  explicit RandomOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, generator_.Init(context));
    OP_REQUIRES_OK(context, context->GetAttr("normal", &normal_));
  }
  void Compute(OpKernelContext* context) override {
    const int64 n = context->input(0).scalar<int64>()();
    Tensor* output;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape({n}), &output, AllocatorAttributes()));
    PhiloxRandom generator = generator_.ReserveRandomOutputs(n, 256);
    auto out = output->flat<T>();
    if (normal_) {
      Fill(
          random::NormalDistribution<PhiloxRandom,
                                     typename std::conditional<std::is_integral<T>::value, float, T>::type>(),
          &generator, n, &out);
    } else {
      Fill(Uniform(T()), &generator, n, &out);
    }
  }

 private:
  template <typename Distribution, typename Out>
  static void Fill(Distribution distribution, PhiloxRandom* generator, int64 n, Out* out) {
    for (int64 i = 0; i < n;) {
      const typename Distribution::ResultType block = distribution(generator);
      for (int k = 0; k < Distribution::kResultElementCount && i < n; ++k)
        (*out)(i++) = static_cast<T>(block[k]);
    }
  }
  GuardedPhiloxRandom generator_;
  bool normal_;
};
#define REGISTER_RANDOM(T) \
  REGISTER_KERNEL_BUILDER(Name("CustomRandom").Device(DEVICE_CPU).TypeConstraint<T>("T"), RandomOp<T>)
REGISTER_RANDOM(float);
REGISTER_RANDOM(double);
REGISTER_RANDOM(int32);
REGISTER_RANDOM(int64);

// The results of the functions for strings, paths and integers, one per line.
REGISTER_OP("CustomTexts").Input("text: string").Output("lines: string").Output("hash: int64");

class TextsOp : public OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(OpKernelContext* context) override {
    const Tensor* input = nullptr;
    OP_REQUIRES_OK(context, context->input("text", &input));
    const string text = input->scalar<string>()();
    std::vector<string> lines;
    lines.push_back(str_util::Join(str_util::Split(text, ',', str_util::SkipWhitespace()), "|"));
    lines.push_back(str_util::Join(str_util::Split(text, ",;"), "|"));
    lines.push_back(str_util::Lowercase(text) + str_util::Uppercase(text));
    StringPiece piece(text);
    const size_t removed = str_util::RemoveWhitespaceContext(&piece);
    lines.push_back(strings::StrCat(removed, ":", piece));
    const bool consumed = str_util::ConsumePrefix(&piece, "a") && str_util::EndsWith(piece, "9");
    lines.push_back(strings::Printf("%d %s %05.2f", consumed, string(piece).c_str(), 3.14159));
    lines.push_back(str_util::StringReplace(text, "b", "<b>", true));
    lines.push_back(str_util::StringReplace(text, "b", "", false));
    lines.push_back(Numbers(piece));
    lines.push_back(io::JoinPath("/tmp/", "/x", "y.txt"));
    lines.push_back(
        strings::StrCat(io::Dirname("/a/b.c"), " ", io::Basename("/a/b.c"), " ", io::Extension("/a/b.c")));
    lines.push_back(strings::StrCat(MathUtil::CeilOfRatio(-7, 2), " ", MathUtil::FloorOfRatio(-7, 2), " ",
                                    MathUtil::CeilOfRatio(7, 2), " ", MathUtil::GCD(12u, 18u)));
    string appended("x");
    strings::StrAppend(&appended, 1, StringPiece("y"), 2.5);
    strings::Appendf(&appended, "%c", 'z');
    lines.push_back(appended);
    gtl::InlinedVector<int64, 4> sizes = {2, 3};
    const TensorShape shape{gtl::ArraySlice<int64>(sizes)};
    int64 sum = 0;
    for (auto dim : shape) sum += dim.size;
    lines.push_back(strings::StrCat(sum, TensorShapeUtils::ShapeListString({shape, TensorShape()})));

    PersistentTensor kept;
    Tensor* all = nullptr;
    OP_REQUIRES_OK(context, context->allocate_persistent(
                                DT_STRING, TensorShape({static_cast<int64>(lines.size()) + 2}), &kept, &all));
    for (size_t i = 0; i < lines.size(); ++i) all->vec<string>()(static_cast<int64>(i) + 1) = lines[i];
    const Tensor middle = kept.AccessTensor(context)->Slice(1, 1 + static_cast<int64>(lines.size()));
    OP_REQUIRES(context, middle.SharesBufferWith(*all), errors::Internal("a slice is a copy"));
    context->set_output(0, middle);
    Tensor hash(DT_INT64, TensorShape({3}));
    hash.vec<int64>()(1) = static_cast<int64>(Hash64(text));
    OP_REQUIRES(context, hash.tensor_data().size() == 24, errors::Internal("not three numbers"));
    context->set_output(1, hash.SubSlice(1));
  }

 private:
  static string Numbers(StringPiece text) {
    const std::vector<string> parts = str_util::Split(text, ',');
    string result;
    for (const string& part : parts) {
      int32 i = -1;
      uint64 u = 1;
      float f = -1;
      const bool is_int = strings::safe_strto32(part, &i), is_unsigned = strings::safe_strtou64(part, &u);
      strings::StrAppend(&result, is_int, i, is_unsigned, u, strings::safe_strtof(part, &f), f, ";");
    }
    return result;
  }
};
REGISTER_KERNEL_BUILDER(Name("CustomTexts").Device(DEVICE_CPU), TextsOp);

// The sums of lists, by the names of the arguments; broadcasting of two shapes.
REGISTER_OP("CustomSums")
    .Attr("n: int >= 1")
    .Attr("m: int >= 0")
    .Input("first: n * float")
    .Input("second: m * float")
    .Output("sums: n * float")
    .Output("last: float")
    .SetShapeFn([](InferenceContext* c) {
      std::vector<ShapeHandle> first, second;
      TF_RETURN_IF_ERROR(c->input("first", &first));
      TF_RETURN_IF_ERROR(c->input("second", &second));
      if (c->input("third", &second).ok()) return errors::Internal("there is no third argument");
      ShapeHandle merged = first[0], prefix;
      for (const ShapeHandle& shape : second)
        TF_RETURN_IF_ERROR(c->MergePrefix(merged, shape, &merged, &prefix));
      first[0] = merged;
      TF_RETURN_IF_ERROR(c->set_output("sums", first));
      return c->set_output("last", {c->Scalar()});
    });

class ListsOp : public OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(OpKernelContext* context) override {
    OpInputList first, second;
    OpOutputList sums;
    OP_REQUIRES_OK(context, context->input_list("first", &first));
    OP_REQUIRES_OK(context, context->input_list("second", &second));
    OP_REQUIRES_OK(context, context->output_list("sums", &sums));
    BlockingCounter left(first.size());
    Notification all;
    std::vector<Thread*> threads;
    for (int i = 0; i < first.size(); ++i) {
      Tensor* sum = nullptr;
      OP_REQUIRES_OK(context, sums.allocate(i, first[i].shape(), &sum));
      sum->flat<float>() = first[i].flat<float>();
      threads.push_back(
          context->env()->StartThread(ThreadOptions(), "one", [&left] { left.DecrementCount(); }));
    }
    left.Wait();
    all.Notify();
    all.WaitForNotification();
    gtl::STLDeleteElements(&threads);
    context->set_output(first.size(),
                        Tensor(static_cast<float>(second.size() + (port::NumSchedulableCPUs() < 1))));
  }
};
REGISTER_KERNEL_BUILDER(Name("CustomSums").Device(DEVICE_CPU), ListsOp);

REGISTER_OP("CustomBroadcast")
    .Input("a: float")
    .Input("b: float")
    .Output("sum: float")
    .SetShapeFn(shape_inference::BroadcastBinaryOpShapeFn);

// The number of windows of a pool, and the padding before and after.
REGISTER_OP("CustomWindows")
    .Attr("window: int")
    .Attr("stride: int")
    .Attr(GetPaddingAttrString())
    .Input("size: int64")
    .Output("result: int64");

class WindowsOp : public OpKernel {
 public:
  explicit WindowsOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("window", &window_));
    OP_REQUIRES_OK(context, context->GetAttr("stride", &stride_));
    OP_REQUIRES_OK(context, context->GetAttr("padding", &padding_));
  }
  void Compute(OpKernelContext* context) override {
    int64 output = 0, before = 0, after = 0;
    OP_REQUIRES_OK(context, GetWindowedOutputSizeVerbose(context->input(0).scalar<int64>()(), window_,
                                                         stride_, padding_, &output, &before, &after));
    Tensor result(DT_INT64, TensorShape({3}));
    result.vec<int64>()(0) = output;
    result.vec<int64>()(1) = before;
    result.vec<int64>()(2) = after;
    context->set_output(0, result);
  }

 private:
  int64 window_, stride_;
  Padding padding_;
};
REGISTER_KERNEL_BUILDER(Name("CustomWindows").Device(DEVICE_CPU), WindowsOp);

}  // namespace
}  // namespace tensorflow
