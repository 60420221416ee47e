// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Pairs of nearby words of a text, and training steps on them: Mikolov and others, "Distributed
// Representations of Words and Phrases and their Compositionality".
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/env.h"
#include "kernels/cpu/candidate/distribution.h"
#include "kernels/cpu/data_flow/turns.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/state/variable_util.h"

namespace millrace {
namespace {

// The number of words of a sentence, whatever the text.
constexpr int64_t kSentenceSize = 1000;
// The number of words between checks for cancellation, and the limit for one sentence: subsampling may drop
// nearly all words.
constexpr int64_t kWordsPerCheck = 4096;
constexpr int64_t kMaxWords = int64_t{1} << 32;
// The number of negative samples between such checks.
constexpr int64_t kSamplesPerCheck = 256;

constexpr std::string_view kBlanks = " \t\n\v\f\r";

// The words between blanks, in order.
std::vector<std::string_view> WordsOf(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t at = text.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(kBlanks, end);
  }
  return words;
}

// A text as indices of its words. 0 stands for all rare words; the others are ordered by frequency, then by
// their first occurrence.
struct Corpus {
  Tensor words, counts;
  std::vector<int32_t> ids;

  static StatusOr<Corpus> Read(const std::string& path, int64_t window, int64_t min_count) {
    MR_ASSIGN_OR_RETURN(const std::string text, ReadFileToString(Env::Posix(), path));
    const std::vector<std::string_view> all = WordsOf(text);
    const auto size = static_cast<int64_t>(all.size());
    if (size < window * 10) {
      return errors::InvalidArgument("The text file ", path, " contains too little data: ", size, " words");
    }
    if (size > INT32_MAX)
      return errors::InvalidArgument("The text file ", path, " has too many words: ", size);
    std::unordered_map<std::string_view, int32_t> count;
    std::vector<std::string_view> distinct;
    for (const std::string_view word : all) {
      if (count[word]++ == 0) distinct.push_back(word);
    }
    std::erase_if(distinct, [&](std::string_view word) { return count[word] < min_count; });
    std::stable_sort(distinct.begin(), distinct.end(),
                     [&](std::string_view a, std::string_view b) { return count[a] > count[b]; });
    const TensorShape shape({static_cast<int64_t>(distinct.size()) + 1});
    Corpus corpus{Tensor(DataType::kString, shape), Tensor(DataType::kInt32, shape), {}};
    corpus.words.data<std::string>()[0] = "UNK";
    int32_t rest = static_cast<int32_t>(size);
    std::unordered_map<std::string_view, int32_t> id;
    for (size_t i = 0; i < distinct.size(); ++i) {
      corpus.words.data<std::string>()[i + 1] = distinct[i];
      corpus.counts.data<int32_t>()[i + 1] = count[distinct[i]];
      rest -= count[distinct[i]];
      id[distinct[i]] = static_cast<int32_t>(i) + 1;
    }
    corpus.counts.data<int32_t>()[0] = rest;
    corpus.ids.reserve(all.size());
    for (const std::string_view word : all) {
      const auto found = id.find(word);
      corpus.ids.push_back(found == id.end() ? 0 : found->second);
    }
    return corpus;
  }
};

// Pairs each word of a sentence with the words within a distance that is drawn for each word, up to the
// window.
class SkipgramKernel final : public OpKernel {
 public:
  explicit SkipgramKernel(KernelConstruction& c)
      : OpKernel(c),
        batch_(c.Attr<int64_t>("batch_size")),
        window_(c.Attr<int64_t>("window_size")),
        subsample_(c.Attr<float>("subsample")),
        stream_(PhiloxRandom(RandomSeed64(), RandomSeed64())) {
    if (batch_ < 0 || window_ < 1 || window_ > kSentenceSize) {
      c.SetError(errors::InvalidArgument("batch_size must not be negative, and window_size must lie in [1, ",
                                         kSentenceSize, "], got ", batch_, " and ", window_));
      return;
    }
    auto corpus = Corpus::Read(c.Attr<std::string>("filename"), window_, c.Attr<int64_t>("min_count"));
    if (!corpus.ok()) {
      c.SetError(corpus.status());
      return;
    }
    corpus_ = *std::move(corpus);
    next_ = static_cast<int64_t>(corpus_.ids.size());
  }

  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(Tensor * examples, context.AllocateOutput(5, TensorShape({batch_})));
    MR_ASSIGN_OR_RETURN(Tensor * labels, context.AllocateOutput(6, TensorShape({batch_})));
    return InTurn(context, turns_, [&]() -> Status {
      for (int64_t i = 0; i < batch_; ++i) {
        MR_RETURN_IF_ERROR(Next(context, examples->data<int32_t>() + i, labels->data<int32_t>() + i));
      }
      context.set_output(0, corpus_.words);
      context.set_output(1, corpus_.counts);
      context.set_output(2, Tensor::Scalar(static_cast<int64_t>(corpus_.ids.size())));
      context.set_output(3, Tensor::Scalar(epoch_));
      context.set_output(4, Tensor::Scalar(processed_));
      return Status();
    });
  }

 private:
  Status Next(const KernelContext& context, int32_t* example, int32_t* label) {
    for (;; ++label_) {
      if (label_ >= end_) {
        ++processed_;
        if (++at_ >= static_cast<int64_t>(sentence_.size())) MR_RETURN_IF_ERROR(NextSentence(context));
        const int64_t reach = 1 + stream_.Uniform(static_cast<uint32_t>(window_));
        label_ = std::max<int64_t>(0, at_ - reach);
        end_ = std::min(kSentenceSize, at_ + reach + 1);
      }
      if (label_ != at_) break;
    }
    *example = sentence_[static_cast<size_t>(at_)];
    *label = sentence_[static_cast<size_t>(label_++)];
    return Status();
  }

  // Frequent words are dropped randomly.
  Status NextSentence(const KernelContext& context) {
    const auto size = static_cast<int64_t>(corpus_.ids.size());
    const double threshold = static_cast<double>(subsample_) * static_cast<double>(size);
    std::vector<int32_t> sentence;
    for (int64_t looked = 0; static_cast<int64_t>(sentence.size()) < kSentenceSize; ++looked, ++next_) {
      if (looked % kWordsPerCheck == 0 && context.cancellation().IsCancelled()) {
        return errors::Cancelled("The step was cancelled while words were chosen");
      }
      if (looked == kMaxWords)
        return errors::Internal("Nearly all words are left out at subsample ", subsample_);
      if (next_ >= size) {
        if (epoch_ < INT32_MAX) ++epoch_;
        next_ = 0;
      }
      const int32_t id = corpus_.ids[static_cast<size_t>(next_)];
      if (subsample_ > 0) {
        const double count = corpus_.counts.data<int32_t>()[id];
        const double keep = (std::sqrt(count / threshold) + 1) * threshold / count;
        if (stream_.NextFloat() > keep) continue;
      }
      sentence.push_back(id);
    }
    sentence_ = std::move(sentence);
    at_ = 0;
    return Status();
  }

  const int64_t batch_, window_;
  const float subsample_;
  Corpus corpus_;
  Turns turns_;
  // The random numbers of the step that has the turn.
  PhiloxStream stream_;
  std::vector<int32_t> sentence_;
  int64_t next_ = 0;            // in the text
  int64_t at_ = kSentenceSize;  // in the sentence
  int64_t label_ = 0, end_ = 0;
  int64_t processed_ = 0;
  int32_t epoch_ = -1;
};

// Gradient ascent on log(sigmoid(in . out)) for pairs and on log(sigmoid(-in . out)) for samples.
class NegTrainKernel final : public OpKernel {
 public:
  explicit NegTrainKernel(KernelConstruction& c)
      : OpKernel(c), samples_(c.Attr<int64_t>("num_negative_samples")), generator_(0, 0) {
    const auto counts = c.Attr<std::vector<int64_t>>("vocab_count");
    std::vector<float> weights;
    bool fine = false;
    for (const int64_t count : counts) {
      weights.push_back(static_cast<float>(std::pow(static_cast<double>(std::max<int64_t>(count, 0)), 0.75)));
      fine = fine || count > 0;
    }
    if (!fine || samples_ < 0) {
      c.SetError(errors::InvalidArgument(
          "NegTrain needs a word with a count above 0 and no negative number of samples"));
      return;
    }
    words_ = static_cast<int64_t>(weights.size());
    distribution_ = MakeWeightedDistribution(std::move(weights));
  }

  Status Compute(KernelContext& context) override {
    const Tensor& examples = context.input(2);
    const Tensor& labels = context.input(3);
    const Tensor& rate = context.input(4);
    LockedVariables vars;
    MR_RETURN_IF_ERROR(vars.Open(context, 2, DataType::kFloat));
    if (vars[0].rank() != 2) return errors::InvalidArgument("Must be a matrix");
    if (vars[0].shape() != vars[1].shape()) return errors::InvalidArgument("w_in.shape == w_out.shape");
    if (!examples.shape().IsVector()) return errors::InvalidArgument("Must be a vector");
    if (examples.shape() != labels.shape()) return errors::InvalidArgument("examples.shape == labels.shape");
    if (!rate.shape().IsScalar()) return errors::InvalidArgument("Must be a scalar");
    if (vars[0].dim(0) != words_) {
      return errors::InvalidArgument("vocab_size mismatches: ", vars[0].dim(0), " vs. ", words_);
    }
    for (const Tensor* t : {&examples, &labels}) {
      for (int64_t i = 0; i < t->num_elements(); ++i) {
        if (IntValue(*t, i) < 0 || IntValue(*t, i) >= words_) {
          return errors::InvalidArgument("Word ", IntValue(*t, i), " is not in [0, ", words_, ")");
        }
      }
    }
    MR_RETURN_IF_ERROR(vars.MakeAllWritable(context));
    const int64_t n = examples.num_elements(), width = vars[0].dim(1);
    PhiloxStream stream(
        generator_.ReserveBlocks(static_cast<uint64_t>(n) * static_cast<uint64_t>(samples_) * 2 + 1));
    std::vector<float> change(static_cast<size_t>(width));
    for (int64_t i = 0; i < n; ++i) {
      if (context.cancellation().IsCancelled())
        return errors::Cancelled("The step was cancelled within NegTrain");
      float* in = vars[0].data<float>() + int64_t{examples.data<int32_t>()[i]} * width;
      const int32_t label = labels.data<int32_t>()[i];
      std::fill(change.begin(), change.end(), 0.0f);
      Pull(in, vars[1].data<float>() + int64_t{label} * width, rate.scalar<float>(), true, change);
      for (int64_t k = 0; k < samples_; ++k) {
        if (k % kSamplesPerCheck == 0 && context.cancellation().IsCancelled())
          return errors::Cancelled("The step was cancelled within NegTrain");
        const int64_t sample = distribution_->Sample(stream);
        if (sample == label) continue;
        Pull(in, vars[1].data<float>() + sample * width, rate.scalar<float>(), false, change);
      }
      for (int64_t d = 0; d < width; ++d) in[d] += change[static_cast<size_t>(d)];
    }
    return Status();
  }

 private:
  // Moves `out` toward (or away from) `in`, and adds the corresponding change of `in` to `change`.
  static void Pull(const float* in, float* out, float rate, bool toward, std::vector<float>& change) {
    float dot = 0;
    for (size_t d = 0; d < change.size(); ++d) dot += in[d] * out[d];
    const float step = rate * (toward ? 1 / (std::exp(dot) + 1) : -1 / (std::exp(-dot) + 1));
    for (size_t d = 0; d < change.size(); ++d) {
      change[d] += out[d] * step;
      out[d] += in[d] * step;
    }
  }

  const int64_t samples_;
  GuardedPhilox generator_;
  int64_t words_ = 0;
  std::unique_ptr<CandidateDistribution> distribution_;
};

}  // namespace

void RegisterWord2vecKernels(KernelRegistry& registry) {
  registry.Register<SkipgramKernel>(KernelDef("Skipgram"));
  registry.Register<NegTrainKernel>(KernelDef("NegTrain"));
}

}  // namespace millrace
