// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The records of files.
#include <algorithm>
#include <memory>

#include "base/env.h"
#include "base/strings.h"
#include "device/device.h"
#include "io/input_stream.h"
#include "io/match_files.h"
#include "io/record_file.h"
#include "kernels/data/dataset_kernel.h"
#include "kernels/data/register.h"

namespace millrace::data {
namespace {

// A file that is being read.
class OpenFile {
 public:
  virtual ~OpenFile() = default;
  // OutOfRange at the end of the file.
  virtual Status Read(std::string* record) = 0;
  // The same, as a view of the bytes, perhaps in `room`, until the next call.
  virtual Status ReadView(std::string* room, std::string_view* record) {
    MR_RETURN_IF_ERROR(Read(room));
    *record = *room;
    return Status();
  }
  // After an error: whether the record after the invalid one could be found, and is next.
  virtual bool SkipBroken() { return false; }
};

// A file format: opens files.
class FileFormat {
 public:
  virtual ~FileFormat() = default;
  virtual StatusOr<std::unique_ptr<OpenFile>> Open(const std::string& path) const = 0;
};

class FilesDataset final : public Dataset {
 public:
  FilesDataset(std::string kind, std::vector<std::string> files, std::unique_ptr<FileFormat> format)
      : Dataset(std::move(kind), {{DataType::kString}, {PartialShape({})}}),
        files_(std::move(files)),
        format_(std::move(format)) {}

 protected:
  class It final : public Iterator {
   public:
    explicit It(const FilesDataset& dataset) : dataset_(dataset) {}
    bool MayWait(int64_t /*n*/) const override { return false; }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      std::string record;
      MR_RETURN_IF_ERROR(ReadNext(
          ctx, [&] { return open_->Read(&record); }, end));
      if (*end) return Status();
      out->clear();
      out->emplace_back(DataType::kString, TensorShape());
      if (!out->back().IsInitialized()) return errors::ResourceExhausted("No memory for a record");
      out->back().scalar<std::string>() = std::move(record);
      return Status();
    }
    bool GivesRows() const override { return true; }
    Status GetRows(Context& ctx, int64_t n, Element* out, int64_t* got) override {
      *got = 0;
      MR_ASSIGN_OR_RETURN(Tensor rows, Tensor::Allocate(DataType::kString, TensorShape({n}),
                                                        ctx.runtime->device->host_allocator()));
      std::string* const records = rows.data<std::string>();
      for (bool end = false; *got < n; ++*got) {
        MR_RETURN_IF_ERROR(ReadNext(
            ctx, [&] { return open_->Read(records + *got); }, &end));
        if (end) break;
      }
      out->clear();
      out->push_back(*got == n ? std::move(rows) : rows.Slice(0, *got));
      return Status();
    }
    Status GetTexts(Context& ctx, int64_t n, TextSink& sink, int64_t* got) override {
      *got = 0;
      for (bool end = false; *got < n; ++*got) {
        std::string_view record;
        MR_RETURN_IF_ERROR(ReadNext(
            ctx, [&] { return open_->ReadView(&room_, &record); }, &end));
        if (end) break;
        sink.Add(record);
      }
      return Status();
    }
    // The next record, read by `read`, of the open file; sets *end, which is false before, if there is none.
    template <typename Read>
    Status ReadNext(Context& ctx, Read read, bool* end) {
      while (file_ < static_cast<int64_t>(dataset_.files_.size())) {
        if (ctx.cancelled()) return CancelledStatus();
        if (open_ == nullptr) {
          auto opened = dataset_.format_->Open(dataset_.files_[static_cast<size_t>(file_)]);
          // The next call continues with the next file.
          if (!opened.ok()) {
            NextFile();
            return opened.status();
          }
          open_ = *std::move(opened);
        }
        Status status = read();
        if (status.ok()) {
          ++read_;
          return status;
        }
        // The next call continues after an invalid record of known length, or else with the next file.
        if (open_->SkipBroken()) {
          ++read_;
        } else {
          NextFile();
        }
        if (!errors::IsOutOfRange(status)) return status;
      }
      *end = true;
      return Status();
    }
    Status Save(Context& /*ctx*/, StateWriter& state) override {
      state.Write("file", file_);
      state.Write("read", open_ == nullptr ? int64_t{-1} : read_);
      return Status();
    }
    Status Restore(Context& ctx, const StateReader& state) override {
      MR_ASSIGN_OR_RETURN(file_, state.Count("file", static_cast<int64_t>(dataset_.files_.size())));
      MR_ASSIGN_OR_RETURN(const int64_t read, state.Int("read"));
      open_.reset();
      read_ = 0;
      if (read < 0) return Status();
      if (file_ == static_cast<int64_t>(dataset_.files_.size())) {
        return errors::DataLoss("The saved state of the iterator is of another list of files");
      }
      MR_ASSIGN_OR_RETURN(open_, dataset_.format_->Open(dataset_.files_[static_cast<size_t>(file_)]));
      std::string record;
      for (; read_ < read; ++read_) {
        if (ctx.cancelled()) return CancelledStatus();
        const Status status = open_->Read(&record);
        if (!status.ok() && !open_->SkipBroken()) return status;
      }
      return Status();
    }

   private:
    void NextFile() {
      open_.reset();
      ++file_;
      read_ = 0;
    }
    const FilesDataset& dataset_;
    int64_t file_ = 0;
    int64_t read_ = 0;  // records of the file
    std::unique_ptr<OpenFile> open_;
    std::string room_;  // for a record
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& /*ctx*/) const override {
    return std::unique_ptr<Iterator>(std::make_unique<It>(*this));
  }

 private:
  const std::vector<std::string> files_;
  const std::unique_ptr<FileFormat> format_;
};

class RecordFormat final : public FileFormat {
 public:
  explicit RecordFormat(io::Compression compression) : compression_(compression) {}
  StatusOr<std::unique_ptr<OpenFile>> Open(const std::string& path) const override {
    class File final : public OpenFile {
     public:
      explicit File(std::unique_ptr<io::RecordReader> reader) : reader_(std::move(reader)) {}
      Status Read(std::string* record) override { return reader_->Read(record); }
      Status ReadView(std::string* /*room*/, std::string_view* record) override {
        return reader_->ReadView(record);
      }
      bool SkipBroken() override { return reader_->SkipBroken(); }

     private:
      const std::unique_ptr<io::RecordReader> reader_;
    };
    MR_ASSIGN_OR_RETURN(auto reader, io::RecordReader::Open(Env::Posix(), path, compression_));
    return std::unique_ptr<OpenFile>(std::make_unique<File>(std::move(reader)));
  }

 private:
  const io::Compression compression_;
};

class LineFormat final : public FileFormat {
 public:
  explicit LineFormat(io::Compression compression) : compression_(compression) {}
  StatusOr<std::unique_ptr<OpenFile>> Open(const std::string& path) const override {
    class File final : public OpenFile {
     public:
      explicit File(std::unique_ptr<io::ByteSource> source) : stream_(std::move(source)) {}
      Status Read(std::string* record) override { return stream_.ReadLine(record); }

     private:
      io::InputStream stream_;
    };
    MR_ASSIGN_OR_RETURN(auto source, io::OpenFile(Env::Posix(), path, compression_));
    return std::unique_ptr<OpenFile>(std::make_unique<File>(std::move(source)));
  }

 private:
  const io::Compression compression_;
};

// Records of one length between a header and a footer.
class FixedLengthFormat final : public FileFormat {
 public:
  struct Sizes {
    uint64_t header = 0, record = 1, footer = 0;
  };
  FixedLengthFormat(Sizes sizes, io::Compression compression) : sizes_(sizes), compression_(compression) {}
  StatusOr<std::unique_ptr<OpenFile>> Open(const std::string& path) const override {
    if (compression_ == io::Compression::kNone) {
      MR_ASSIGN_OR_RETURN(const FileStat stat, Env::Posix().Stat(path));
      const uint64_t around = sizes_.header + sizes_.footer;
      if (stat.length < around || (stat.length - around) % sizes_.record != 0) {
        return errors::InvalidArgument("Excess bytes at the end of the file: file \"", path,
                                       "\" has body length ", stat.length - std::min(stat.length, around),
                                       " bytes, which is not an exact multiple of the record length (",
                                       sizes_.record, " bytes).");
      }
    }
    class File final : public OpenFile {
     public:
      File(std::string path, std::unique_ptr<io::ByteSource> source, Sizes sizes)
          : path_(std::move(path)), stream_(std::move(source)), sizes_(sizes) {}
      // Reads ahead by the footer's length, since the footer is only known at the end of the file.
      Status Read(std::string* record) override {
        if (!begun_) {
          MR_RETURN_IF_ERROR(stream_.Skip(sizes_.header));
          MR_RETURN_IF_ERROR(stream_.Read(sizes_.footer, &ahead_));
          begun_ = true;
        }
        std::string next;
        const Status status = stream_.Read(sizes_.record, &next);
        if (errors::IsOutOfRange(status) && !next.empty()) {
          return errors::InvalidArgument("Excess bytes at the end of the file: file \"", path_, "\" has ",
                                         next.size(), " bytes beyond its last record of ", sizes_.record,
                                         " bytes.");
        }
        MR_RETURN_IF_ERROR(status);
        ahead_ += next;
        record->assign(ahead_, 0, sizes_.record);
        ahead_.erase(0, sizes_.record);
        return Status();
      }

     private:
      const std::string path_;
      io::InputStream stream_;
      const Sizes sizes_;
      std::string ahead_;
      bool begun_ = false;
    };
    MR_ASSIGN_OR_RETURN(auto source, io::OpenFile(Env::Posix(), path, compression_));
    return std::unique_ptr<OpenFile>(std::make_unique<File>(path, std::move(source), sizes_));
  }

 private:
  const Sizes sizes_;
  const io::Compression compression_;
};

StatusOr<io::Compression> CompressionOf(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(const std::string name, args.Scalar<std::string>("compression_type"));
  return io::ParseCompression(name);
}

template <typename Format>
StatusOr<RefPtr<const Dataset>> MakeFiles(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(std::vector<std::string> files, args.Vector<std::string>("filenames"));
  MR_ASSIGN_OR_RETURN(const io::Compression compression, CompressionOf(args));
  MR_ASSIGN_OR_RETURN(const int64_t buffer, args.Scalar<int64_t>("buffer_size"));
  if (buffer < 0) {
    return errors::InvalidArgument("`buffer_size` must be >= 0 (0 == ",
                                   std::is_same_v<Format, LineFormat> ? "default" : "no buffering", ")");
  }
  return MakeRefDataset<FilesDataset>(args.Kind(), std::move(files), std::make_unique<Format>(compression));
}

StatusOr<RefPtr<const Dataset>> MakeFixedLength(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(std::vector<std::string> files, args.Vector<std::string>("filenames"));
  MR_ASSIGN_OR_RETURN(const int64_t header, args.Scalar<int64_t>("header_bytes"));
  MR_ASSIGN_OR_RETURN(const int64_t record, args.Scalar<int64_t>("record_bytes"));
  MR_ASSIGN_OR_RETURN(const int64_t footer, args.Scalar<int64_t>("footer_bytes"));
  MR_ASSIGN_OR_RETURN(const int64_t buffer, args.Scalar<int64_t>("buffer_size"));
  io::Compression compression = io::Compression::kNone;
  if (args.op().ends_with("V2")) {
    MR_ASSIGN_OR_RETURN(compression, CompressionOf(args));
  }
  if (header < 0) return errors::InvalidArgument("`header_bytes` must be >= 0");
  if (record <= 0) return errors::InvalidArgument("`record_bytes` must be > 0");
  if (footer < 0) return errors::InvalidArgument("`footer_bytes` must be >= 0");
  if (buffer < 0) return errors::InvalidArgument("`buffer_size` must be >= 0 (0 == default)");
  const FixedLengthFormat::Sizes sizes{static_cast<uint64_t>(header), static_cast<uint64_t>(record),
                                       static_cast<uint64_t>(footer)};
  return MakeRefDataset<FilesDataset>(args.Kind(), std::move(files),
                                      std::make_unique<FixedLengthFormat>(sizes, compression));
}

// The names of files, in order.
StatusOr<RefPtr<const Dataset>> MakeMatchingFiles(const NodeArgs& args) {
  class Names final : public FileFormat {
   public:
    StatusOr<std::unique_ptr<OpenFile>> Open(const std::string& path) const override {
      class File final : public OpenFile {
       public:
        explicit File(std::string path) : path_(std::move(path)) {}
        Status Read(std::string* record) override {
          if (path_.empty()) return errors::OutOfRange("end");
          *record = std::move(path_);
          path_.clear();
          return Status();
        }

       private:
        std::string path_;
      };
      return std::unique_ptr<OpenFile>(std::make_unique<File>(path));
    }
  };
  MR_ASSIGN_OR_RETURN(const std::vector<std::string> patterns, args.Vector<std::string>("patterns"));
  std::vector<std::string> files;
  for (const std::string& pattern : patterns) {
    MR_ASSIGN_OR_RETURN(const std::vector<std::string> matching, io::MatchingFiles(Env::Posix(), pattern));
    files.insert(files.end(), matching.begin(), matching.end());
  }
  std::ranges::sort(files);
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return MakeRefDataset<FilesDataset>(args.Kind(), std::move(files), std::make_unique<Names>());
}

}  // namespace

void RegisterFileDatasets(KernelRegistry& registry) {
  RegisterDataset(registry, "TFRecordDataset", MakeFiles<RecordFormat>);
  RegisterDataset(registry, "TextLineDataset", MakeFiles<LineFormat>);
  for (const char* op : {"FixedLengthRecordDataset", "FixedLengthRecordDatasetV2"})
    RegisterDataset(registry, op, MakeFixedLength);
  RegisterDataset(registry, "MatchingFilesDataset", MakeMatchingFiles);
}

}  // namespace millrace::data
