// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Matrices of checkpoints whose rows and columns correspond to words: the indices of the words of a new
// vocabulary in an old one, and the matrix with its rows and columns in the new order.
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/env.h"
#include "io/checkpoint/checkpoint_reader.h"
#include "kernel/kernel_context.h"
#include "kernel/kernel_registry.h"
#include "kernel/op_kernel.h"

namespace millrace {
namespace {

// The lines of a text; the last one need not end with a newline.
std::vector<std::string_view> LinesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

Status CheckScalar(const Tensor& tensor, const char* what) {
  if (tensor.num_elements() == 1) return Status();
  return errors::InvalidArgument(what, " should be a single string, but got ", tensor.num_elements());
}

class GenerateVocabRemappingKernel final : public OpKernel {
 public:
  explicit GenerateVocabRemappingKernel(KernelConstruction& c)
      : OpKernel(c),
        offset_(c.Attr<int64_t>("new_vocab_offset")),
        count_(c.Attr<int64_t>("num_new_vocab")),
        old_size_(c.Attr<int64_t>("old_vocab_size")) {}

  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckScalar(context.input(0), "new_vocab_file"));
    MR_RETURN_IF_ERROR(CheckScalar(context.input(1), "old_vocab_file"));
    const std::string &new_file = *context.input(0).data<std::string>(),
                      &old_file = *context.input(1).data<std::string>();
    if (new_file.empty()) return errors::InvalidArgument("new vocab filename cannot be empty.");
    if (old_file.empty()) return errors::InvalidArgument("old vocab filename cannot be empty.");
    MR_ASSIGN_OR_RETURN(const std::string new_text, ReadFileToString(Env::Posix(), new_file));
    MR_ASSIGN_OR_RETURN(const std::string old_text, ReadFileToString(Env::Posix(), old_file));
    const std::vector<std::string_view> words = LinesOf(new_text);
    if (static_cast<uint64_t>(offset_) + static_cast<uint64_t>(count_) > words.size()) {
      return errors::InvalidArgument("Requested [", offset_, ",", offset_, " + ", count_, ") entries of ",
                                     new_file, ", which has ", words.size());
    }
    std::vector<std::string_view> old_words = LinesOf(old_text);
    if (old_size_ >= 0 && static_cast<size_t>(old_size_) < old_words.size()) {
      old_words.resize(static_cast<size_t>(old_size_));
    }
    std::unordered_map<std::string_view, int64_t> places;
    for (size_t i = 0; i < old_words.size(); ++i) {
      if (places.emplace(old_words[i], static_cast<int64_t>(i)).second) continue;
      return errors::InvalidArgument("HashTable has different value for same key. Key ", old_words[i],
                                     " is twice in ", old_file);
    }
    MR_ASSIGN_OR_RETURN(Tensor* const remapping, context.AllocateOutput(0, TensorShape({count_})));
    MR_ASSIGN_OR_RETURN(Tensor* const present, context.AllocateOutput(1, TensorShape()));
    int32_t found = 0;
    for (int64_t i = 0; i < count_; ++i) {
      const auto at = places.find(words[static_cast<size_t>(offset_ + i)]);
      remapping->data<int64_t>()[i] = at == places.end() ? -1 : at->second;
      found += at == places.end() ? 0 : 1;
    }
    *present->data<int32_t>() = found;
    return Status();
  }

 private:
  const int64_t offset_, count_, old_size_;
};

// The old row (or column) of each new one, -1 for none.
Status ReadRemapping(const Tensor& tensor, const char* what, int64_t wanted, int64_t limit,
                     std::vector<int64_t>* to) {
  if (tensor.rank() != 1 || tensor.dim(0) != wanted) {
    return errors::InvalidArgument("Size of ", what, " is ", tensor.shape(), " but should be ", wanted);
  }
  std::unordered_set<int64_t> seen;
  to->assign(tensor.data<int64_t>(), tensor.data<int64_t>() + wanted);
  for (const int64_t id : *to) {
    if (id < 0) continue;
    if (id >= limit) {
      return errors::InvalidArgument("Index ", id, " of ", what, " is not in the old matrix, which has ",
                                     limit);
    }
    if (!seen.insert(id).second) {
      return errors::Unimplemented("Old ID ", id, " is in ", what,
                                   " more than once: duplicates are not supported.");
    }
  }
  return Status();
}

class LoadAndRemapMatrixKernel final : public OpKernel {
 public:
  explicit LoadAndRemapMatrixKernel(KernelConstruction& c)
      : OpKernel(c), rows_(c.Attr<int64_t>("num_rows")), cols_(c.Attr<int64_t>("num_cols")) {}

  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckScalar(context.input(0), "The `ckpt_path` tensor"));
    MR_RETURN_IF_ERROR(CheckScalar(context.input(1), "The `old_tensor_name` tensor"));
    MR_ASSIGN_OR_RETURN(const auto reader,
                        io::CheckpointReader::Open(Env::Posix(), *context.input(0).data<std::string>()));
    const std::string& name = *context.input(1).data<std::string>();
    MR_ASSIGN_OR_RETURN(const Tensor old, reader->GetTensor(name));
    if (old.dtype() != DataType::kFloat) {
      return errors::InvalidArgument("Tensor ", name, " has invalid type ", DataTypeName(old.dtype()),
                                     " instead of expected type float");
    }
    if (old.rank() != 2) {
      return errors::InvalidArgument("Old tensor ", name, " must be a matrix; got shape ", old.shape());
    }
    std::vector<int64_t> rows, cols;
    MR_RETURN_IF_ERROR(ReadRemapping(context.input(2), "row_remapping", rows_, old.dim(0), &rows));
    const bool remaps_cols = context.input(3).num_elements() > 0;
    if (remaps_cols) {
      MR_RETURN_IF_ERROR(ReadRemapping(context.input(3), "col_remapping", cols_, old.dim(1), &cols));
    } else if (old.dim(1) != cols_) {
      return errors::InvalidArgument("Number of columns ", cols_, " is not that of the old matrix, ",
                                     old.dim(1), ", but there is no col_remapping");
    }
    const float* fresh = context.input(4).data<float>();
    const float* const fresh_end = fresh + context.input(4).num_elements();
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, TensorShape({rows_, cols_})));
    float* to = out->data<float>();
    for (const int64_t row : rows) {
      for (int64_t j = 0; j < cols_; ++j) {
        const int64_t col = remaps_cols ? cols[static_cast<size_t>(j)] : j;
        if (row >= 0 && col >= 0) {
          *to++ = old.data<float>()[row * old.dim(1) + col];
        } else if (fresh == fresh_end) {
          return errors::InvalidArgument("There are only ", context.input(4).num_elements(),
                                         " initializing_values, more elements are missing");
        } else {
          *to++ = *fresh++;
        }
      }
    }
    if (fresh == fresh_end) return Status();
    return errors::InvalidArgument("Passed in ", context.input(4).num_elements(),
                                   " initializing_values, of which ", fresh_end - fresh, " are left over");
  }

 private:
  const int64_t rows_, cols_;
};

}  // namespace

void RegisterCheckpointRemapKernels(KernelRegistry& registry) {
  registry.Register<GenerateVocabRemappingKernel>(KernelDef("GenerateVocabRemapping"));
  registry.Register<LoadAndRemapMatrixKernel>(KernelDef("LoadAndRemapMatrix"));
}

}  // namespace millrace
