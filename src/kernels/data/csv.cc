// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// CSVDataset: the records of files of comma-separated values, RFC 4180, with a component for each column.
#include <algorithm>
#include <memory>

#include "base/env.h"
#include "base/strings.h"
#include "io/input_stream.h"
#include "kernels/cpu/number_text.h"
#include "kernels/data/dataset_kernel.h"
#include "kernels/data/register.h"

namespace millrace::data {
namespace {

struct CsvFormat {
  io::Compression compression = io::Compression::kNone;
  bool header = false;
  char delimiter = ',';
  bool quotes = true;
  std::string na_value;
  std::vector<int64_t> columns;  // to be read, in order; empty: all
  std::vector<Tensor> defaults;  // for those; empty tensors for required values
};

// Reads records from a file. A quoted field may extend over several lines.
class CsvFile {
 public:
  CsvFile(std::unique_ptr<io::ByteSource> source, const CsvFormat& format)
      : stream_(std::move(source)), format_(format) {}
  // OutOfRange at the end of the file.
  Status Read(std::vector<std::string>* fields) {
    fields->clear();
    // As in TensorFlow empty lines are skipped, except in files of one column.
    do {
      MR_RETURN_IF_ERROR(stream_.ReadLine(&line_));
    } while (line_.empty() && format_.defaults.size() > 1);
    at_ = 0;
    while (true) {
      std::string field;
      const bool quoted = format_.quotes && at_ < line_.size() && line_[at_] == '"';
      MR_RETURN_IF_ERROR(quoted ? ReadQuoted(&field) : ReadPlain(&field));
      fields->push_back(std::move(field));
      if (at_ >= line_.size()) return Status();
      ++at_;  // the delimiter
    }
  }

 private:
  Status ReadPlain(std::string* field) {
    for (; at_ < line_.size() && line_[at_] != format_.delimiter; ++at_) {
      if (format_.quotes && line_[at_] == '"') {
        return errors::InvalidArgument("Unquoted fields cannot have quotes inside");
      }
      *field += line_[at_];
    }
    return Status();
  }
  Status ReadQuoted(std::string* field) {
    ++at_;
    while (true) {
      if (at_ >= line_.size()) {
        const Status status = stream_.ReadLine(&line_);
        if (errors::IsOutOfRange(status)) {
          return errors::InvalidArgument("Reached end of file without closing quoted field in record");
        }
        MR_RETURN_IF_ERROR(status);
        *field += '\n';
        at_ = 0;
        continue;
      }
      const char c = line_[at_++];
      if (c != '"') {
        *field += c;
        continue;
      }
      if (at_ >= line_.size() || line_[at_] == format_.delimiter) return Status();
      if (line_[at_] != '"') {
        return errors::InvalidArgument("Quote inside a string has to be escaped by another quote");
      }
      *field += '"';
      ++at_;
    }
  }

  io::InputStream stream_;
  const CsvFormat& format_;
  std::string line_;
  size_t at_ = 0;
};

template <typename T>
StatusOr<Tensor> NumberField(const std::string& text, size_t column) {
  const auto number = ParseNumber<T>(text);
  if (number) return Tensor::Scalar(*number);
  return errors::InvalidArgument("Field ", column, " in record is not a valid ", DataTypeName(kDataTypeOf<T>),
                                 ": ", text);
}

StatusOr<Tensor> FieldValue(const std::string& text, const Tensor& fallback, const CsvFormat& format,
                            size_t column) {
  if (text.empty() || text == format.na_value) {
    if (fallback.num_elements() == 1) return fallback.WithShape(TensorShape());
    return errors::InvalidArgument("Field ", column, " is required but missing in record!");
  }
  switch (fallback.dtype()) {
    case DataType::kInt32:
      return NumberField<int32_t>(text, column);
    case DataType::kInt64:
      return NumberField<int64_t>(text, column);
    case DataType::kFloat:
      return NumberField<float>(text, column);
    case DataType::kDouble:
      return NumberField<double>(text, column);
    default:
      return Tensor::Scalar(text);
  }
}

class CsvDataset final : public Dataset {
 public:
  CsvDataset(std::string kind, Signature signature, std::vector<std::string> files, CsvFormat format)
      : Dataset(std::move(kind), std::move(signature)),
        files_(std::move(files)),
        format_(std::move(format)) {}

 protected:
  class It final : public Iterator {
   public:
    explicit It(const CsvDataset& dataset) : dataset_(dataset) {}
    bool MayWait(int64_t /*n*/) const override { return false; }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      while (file_ < static_cast<int64_t>(dataset_.files_.size())) {
        if (ctx.cancelled()) return CancelledStatus();
        if (open_ == nullptr) {
          Status opened = Open();
          if (!opened.ok()) {
            ++file_;
            return opened;
          }
        }
        const Status status = open_ == nullptr ? errors::OutOfRange("empty") : open_->Read(&fields_);
        if (errors::IsOutOfRange(status)) {
          open_.reset();
          ++file_;
          read_ = 0;
          continue;
        }
        ++read_;
        MR_RETURN_IF_ERROR(status);
        return Parse(out);
      }
      *end = true;
      return Status();
    }
    Status Save(Context& /*ctx*/, StateWriter& state) override {
      state.Write("file", file_);
      state.Write("read", open_ == nullptr ? int64_t{-1} : read_);
      return Status();
    }
    Status Restore(Context& /*ctx*/, const StateReader& state) override {
      MR_ASSIGN_OR_RETURN(file_, state.Count("file", static_cast<int64_t>(dataset_.files_.size())));
      MR_ASSIGN_OR_RETURN(const int64_t read, state.Int("read"));
      open_.reset();
      if (read < 0 || file_ == static_cast<int64_t>(dataset_.files_.size())) return Status();
      MR_RETURN_IF_ERROR(Open());
      for (read_ = 0; open_ != nullptr && read_ < read; ++read_) {
        const Status status = open_->Read(&fields_);
        if (errors::IsOutOfRange(status)) break;
        status.IgnoreError("it was reported when the record was read first");
      }
      return Status();
    }

   private:
    // Null open_: the file lacks even a header.
    Status Open() {
      read_ = 0;
      MR_ASSIGN_OR_RETURN(auto source, io::OpenFile(Env::Posix(), dataset_.files_[static_cast<size_t>(file_)],
                                                    dataset_.format_.compression));
      auto opened = std::make_unique<CsvFile>(std::move(source), dataset_.format_);
      if (dataset_.format_.header) {
        const Status status = opened->Read(&fields_);
        if (errors::IsOutOfRange(status)) return Status();
        MR_RETURN_IF_ERROR(status);
      }
      open_ = std::move(opened);
      return Status();
    }
    Status Parse(Element* out) {
      const CsvFormat& format = dataset_.format_;
      const size_t wanted = format.defaults.size();
      if (format.columns.empty() && fields_.size() != wanted) {
        return errors::InvalidArgument("Expect ", wanted, " fields but have ", fields_.size(), " in record");
      }
      Element element;
      for (size_t i = 0; i < wanted; ++i) {
        const size_t column = format.columns.empty() ? i : static_cast<size_t>(format.columns[i]);
        if (column >= fields_.size()) {
          return errors::InvalidArgument("Expect ", wanted, " fields but have ", i, " in record");
        }
        MR_ASSIGN_OR_RETURN(Tensor value, FieldValue(fields_[column], format.defaults[i], format, i));
        element.push_back(std::move(value));
      }
      *out = std::move(element);
      return Status();
    }

    const CsvDataset& dataset_;
    int64_t file_ = 0;
    int64_t read_ = 0;  // records of the file
    std::unique_ptr<CsvFile> open_;
    std::vector<std::string> fields_;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& /*ctx*/) const override {
    return std::unique_ptr<Iterator>(std::make_unique<It>(*this));
  }

 private:
  const std::vector<std::string> files_;
  const CsvFormat format_;
};

StatusOr<RefPtr<const Dataset>> MakeCsv(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(std::vector<std::string> files, args.Vector<std::string>("filenames"));
  CsvFormat format;
  MR_ASSIGN_OR_RETURN(const std::string compression, args.Scalar<std::string>("compression_type"));
  MR_ASSIGN_OR_RETURN(format.compression, io::ParseCompression(compression));
  MR_ASSIGN_OR_RETURN(const int64_t buffer, args.Scalar<int64_t>("buffer_size"));
  if (buffer <= 0) return errors::InvalidArgument("buffer_size should be positive");
  MR_ASSIGN_OR_RETURN(format.header, args.Scalar<bool>("header"));
  MR_ASSIGN_OR_RETURN(const std::string delimiter, args.Scalar<std::string>("field_delim"));
  if (delimiter.size() != 1) return errors::InvalidArgument("field_delim should be only 1 char");
  format.delimiter = delimiter[0];
  MR_ASSIGN_OR_RETURN(format.quotes, args.Scalar<bool>("use_quote_delim"));
  MR_ASSIGN_OR_RETURN(format.na_value, args.Scalar<std::string>("na_value"));
  MR_ASSIGN_OR_RETURN(format.columns, args.Vector<int64_t>("select_cols"));
  MR_ASSIGN_OR_RETURN(format.defaults, args.Values("record_defaults"));
  for (size_t i = 0; i < format.defaults.size(); ++i) {
    if (format.defaults[i].num_elements() <= 1) continue;
    return errors::InvalidArgument("There should only be 1 default per field but field ", i, " has ",
                                   format.defaults[i].num_elements());
  }
  if (!format.columns.empty() && format.columns.size() != format.defaults.size()) {
    return errors::InvalidArgument("select_cols should match output size");
  }
  for (size_t i = 0; i < format.columns.size(); ++i) {
    if (format.columns[i] < 0 || (i > 0 && format.columns[i] <= format.columns[i - 1])) {
      return errors::InvalidArgument("select_cols should be strictly increasing indices");
    }
  }
  return MakeRefDataset<CsvDataset>(args.Kind(), std::move(signature), std::move(files), std::move(format));
}

}  // namespace

void RegisterCsvDatasets(KernelRegistry& registry) { RegisterDataset(registry, "CSVDataset", MakeCsv); }

}  // namespace millrace::data
