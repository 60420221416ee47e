// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// SnapshotDataset: the first reader of a dataset writes its elements to files, later ones read these.
#include <chrono>
#include <memory>
#include <random>
#include <string>

#include "base/env.h"
#include "base/peer_hash.h"
#include "base/strings.h"
#include "io/match_files.h"
#include "io/record_file.h"
#include "kernels/data/dataset_graph.h"
#include "kernels/data/dataset_kernel.h"
#include "kernels/data/register.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/protobuf/data/experimental/snapshot.pb.h"

namespace millrace::data {
namespace {

namespace pb = tensorflow::data::experimental;

struct SnapshotOptions {
  std::string path;  // of the snapshots of all datasets
  std::string hash;  // of the dataset
  std::string reader_prefix, writer_prefix;
  io::Compression compression = io::Compression::kNone;
  int64_t shard_bytes = 0;
  int64_t expiry_secs = 0;  // after which an unfinished snapshot is begun again
};

std::string Hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}
int64_t Micros() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// The files of one snapshot: <path>/<hash>/snapshot.metadata and <path>/<hash>/<run>/00000000.snapshot.
class SnapshotFiles {
 public:
  explicit SnapshotFiles(const SnapshotOptions& options) : options_(options) {}

  // NotFound if there is none.
  StatusOr<pb::SnapshotMetadataRecord> Metadata() const {
    MR_ASSIGN_OR_RETURN(const std::string bytes,
                        ReadFileToString(Env::Posix(), MetadataPath(), kMostMetadata));
    pb::SnapshotMetadataRecord record;
    if (!record.ParseFromString(bytes) || record.run_id().find('/') != std::string::npos) {
      return errors::DataLoss("'", MetadataPath(), "' is not the metadata of a snapshot");
    }
    return record;
  }
  Status WriteMetadata(const pb::SnapshotMetadataRecord& record) const {
    MR_RETURN_IF_ERROR(io::MakeFolders(Env::Posix(), StrCat(options_.path, "/", options_.hash)));
    return WriteFileAtomically(Env::Posix(), MetadataPath(), record.SerializeAsString());
  }
  std::string ShardPath(const std::string& prefix, const std::string& run, int64_t shard) const {
    char name[32];
    std::snprintf(name, sizeof name, "%08lld.snapshot", static_cast<long long>(shard));
    return StrCat(prefix, options_.path, "/", options_.hash, "/", run, "/", name);
  }

 private:
  static constexpr uint64_t kMostMetadata = 1 << 20;
  std::string MetadataPath() const { return StrCat(options_.path, "/", options_.hash, "/snapshot.metadata"); }
  const SnapshotOptions& options_;
};

// Writes elements to shards.
class SnapshotWriter {
 public:
  explicit SnapshotWriter(const SnapshotOptions& options) : options_(options), files_(options) {}
  Status Begin() {
    std::random_device random;
    metadata_.set_graph_hash(options_.hash);
    metadata_.set_run_id(Hex(static_cast<uint64_t>(random()) << 32 | random()));
    metadata_.set_creation_timestamp(Micros());
    return files_.WriteMetadata(metadata_);
  }
  Status Write(const Element& element) {
    pb::SnapshotRecord record;
    for (const Tensor& t : element) {
      if (t.dtype() == DataType::kVariant || t.dtype() == DataType::kResource) {
        return errors::Unimplemented("A snapshot cannot hold a ", DataTypeName(t.dtype()));
      }
      TensorToProtoContent(t, record.add_tensor());
    }
    const size_t size = record.ByteSizeLong();
    if (size > INT32_MAX)
      return errors::InvalidArgument("An element of ", size, " bytes is too large for a snapshot");
    if (writer_ != nullptr && bytes_ >= options_.shard_bytes) MR_RETURN_IF_ERROR(CloseShard());
    if (writer_ == nullptr) MR_RETURN_IF_ERROR(OpenShard());
    bytes_ += static_cast<int64_t>(size);
    return writer_->Write(record.SerializeAsString());
  }
  // From now on others read it, unless another writer has started over meanwhile.
  Status Finish() {
    if (writer_ == nullptr && shard_ == 0) MR_RETURN_IF_ERROR(OpenShard());
    if (writer_ != nullptr) MR_RETURN_IF_ERROR(CloseShard());
    MR_ASSIGN_OR_RETURN(const pb::SnapshotMetadataRecord now, files_.Metadata());
    if (now.run_id() != metadata_.run_id()) return Status();
    metadata_.set_finalized(true);
    return files_.WriteMetadata(metadata_);
  }

 private:
  Status OpenShard() {
    const std::string path = files_.ShardPath(options_.writer_prefix, metadata_.run_id(), shard_++);
    MR_RETURN_IF_ERROR(io::MakeFolders(Env::Posix(), path.substr(0, path.rfind('/'))));
    MR_ASSIGN_OR_RETURN(file_, Env::Posix().NewWritableFile(path));
    writer_ = std::make_unique<io::RecordWriter>(*file_, options_.compression);
    bytes_ = 0;
    return Status();
  }
  Status CloseShard() {
    MR_RETURN_IF_ERROR(writer_->Close());
    writer_.reset();
    Status closed = file_->Close();
    file_.reset();
    return closed;
  }

  const SnapshotOptions& options_;
  const SnapshotFiles files_;
  pb::SnapshotMetadataRecord metadata_;
  std::unique_ptr<WritableFile> file_;
  std::unique_ptr<io::RecordWriter> writer_;  // null: the next element begins a shard
  int64_t shard_ = 0, bytes_ = 0;
};

// Reads elements from the shards of a finished run.
class SnapshotReader {
 public:
  SnapshotReader(const SnapshotOptions& options, std::string run)
      : options_(options), files_(options), run_(std::move(run)) {}
  Status Read(const std::vector<DataType>& types, Element* out, bool* end) {
    std::string record;
    while (true) {
      if (reader_ == nullptr) {
        const std::string path = files_.ShardPath(options_.reader_prefix, run_, shard_);
        if (shard_ > 0 && !Env::Posix().FileExists(path)) {
          *end = true;
          return Status();
        }
        MR_ASSIGN_OR_RETURN(reader_, io::RecordReader::Open(Env::Posix(), path, options_.compression));
      }
      Status status = reader_->Read(&record);
      if (status.ok()) break;
      if (!errors::IsOutOfRange(status)) return status;
      reader_.reset();
      ++shard_;
    }
    pb::SnapshotRecord message;
    if (!message.ParseFromString(record)) return errors::DataLoss("A record of a snapshot is not an element");
    out->clear();
    for (const tensorflow::TensorProto& proto : message.tensor()) {
      MR_ASSIGN_OR_RETURN(Tensor value, TensorFromProto(proto));
      out->push_back(std::move(value));
    }
    return CheckElement({types, {}}, *out);
  }

 private:
  const SnapshotOptions& options_;
  const SnapshotFiles files_;
  const std::string run_;
  int64_t shard_ = 0;
  std::unique_ptr<io::RecordReader> reader_;  // of shard_; null: to be opened
};

class SnapshotDataset final : public UnaryDataset {
 public:
  SnapshotDataset(std::string kind, Signature signature, RefPtr<const Dataset> input, SnapshotOptions options)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(input)), options_(std::move(options)) {}

 protected:
  class It final : public UnaryIterator<SnapshotDataset> {
   public:
    using UnaryIterator::UnaryIterator;
    bool MayWait(int64_t n) const override { return reader_ == nullptr && UnaryIterator::MayWait(n); }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      *end = ended_;
      if (ended_) return Status();
      if (!begun_) MR_RETURN_IF_ERROR(Begin());
      if (reader_ != nullptr) {
        MR_RETURN_IF_ERROR(reader_->Read(dataset_.types(), out, end));
      } else {
        MR_RETURN_IF_ERROR(NextInput(ctx, out, end));
        if (writer_ != nullptr) MR_RETURN_IF_ERROR(*end ? writer_->Finish() : writer_->Write(*out));
      }
      if (*end) ended_ = true;
      if (!*end) ++next_;
      return Status();
    }
    Status Save(Context& ctx, StateWriter& state) override {
      state.Write("next", next_);
      state.Write("ended", int64_t{ended_});
      return UnaryIterator::Save(ctx, state);
    }
    // A restored writer writes no more: the earlier elements are not available.
    Status Restore(Context& ctx, const StateReader& state) override {
      MR_ASSIGN_OR_RETURN(const int64_t next, state.Count("next"));
      MR_ASSIGN_OR_RETURN(const int64_t ended, state.Count("ended", 1));
      next_ = 0;
      ended_ = false;
      const bool from_input = state.HasIterator("input");
      if (from_input) {
        begun_ = true;
        reader_.reset();
        writer_.reset();
        MR_RETURN_IF_ERROR(UnaryIterator::Restore(ctx, state));
      } else if (ended == 0) {
        begun_ = false;
        Element element;
        for (bool end = false; next_ < next;) {
          if (ctx.cancelled()) return CancelledStatus();
          MR_RETURN_IF_ERROR(GetNext(ctx, &element, &end));
          if (end) return errors::DataLoss("The saved state of the iterator is of another snapshot");
        }
      }
      next_ = next;
      ended_ = ended != 0;
      return Status();
    }

   private:
    // Reads a finished snapshot; writes one if no other writer does.
    Status Begin() {
      const SnapshotOptions& options = dataset_.options_;
      const auto found = SnapshotFiles(options).Metadata();
      if (!found.ok() && !errors::IsNotFound(found.status())) return found.status();
      if (found.ok() && found->finalized()) {
        reader_ = std::make_unique<SnapshotReader>(options, found->run_id());
        input_.reset();
      } else if (!found.ok() || (Micros() - found->creation_timestamp()) / 1000000 >= options.expiry_secs) {
        writer_ = std::make_unique<SnapshotWriter>(options);
        MR_RETURN_IF_ERROR(writer_->Begin());
      }
      begun_ = true;
      return Status();
    }

    bool begun_ = false, ended_ = false;
    std::unique_ptr<SnapshotReader> reader_;  // at most one of these is set
    std::unique_ptr<SnapshotWriter> writer_;
    int64_t next_ = 0;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    return MakeUnary<It>(*this, ctx);
  }

 private:
  const SnapshotOptions options_;
};

class SnapshotKernel final : public NodeKernel {
 public:
  explicit SnapshotKernel(KernelConstruction& c) : NodeKernel(c), functions_(c.functions()) {}
  Status Compute(KernelContext& context) override {
    const NodeArgs args = Args(context);
    MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
    MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
    SnapshotOptions options;
    MR_ASSIGN_OR_RETURN(options.path, args.Scalar<std::string>("path"));
    MR_ASSIGN_OR_RETURN(const std::string compression, args.Attr<std::string>("compression"));
    MR_ASSIGN_OR_RETURN(options.reader_prefix, args.Attr<std::string>("reader_path_prefix"));
    MR_ASSIGN_OR_RETURN(options.writer_prefix, args.Attr<std::string>("writer_path_prefix"));
    MR_ASSIGN_OR_RETURN(options.shard_bytes, args.Attr<int64_t>("shard_size_bytes"));
    MR_ASSIGN_OR_RETURN(options.expiry_secs, args.Attr<int64_t>("pending_snapshot_expiry_seconds"));
    if (!compression.empty() && compression != "GZIP") {
      return errors::InvalidArgument("compression must be either '' or 'GZIP'.");
    }
    MR_ASSIGN_OR_RETURN(options.compression, io::ParseCompression(compression));
    if (options.expiry_secs < 1) {
      return errors::InvalidArgument("pending_snapshot_expiry_seconds must be at least 1 second.");
    }
    MR_ASSIGN_OR_RETURN(const std::string graph, GraphOf(*input, functions_));
    options.hash = Hex(PeerHash64(graph));
    auto dataset = MakeRefDataset<SnapshotDataset>(args.Kind(), std::move(signature), std::move(input),
                                                   std::move(options));
    dataset->SetNode(context.kernel().name());
    Tensor out = DatasetToTensor(std::move(dataset));
    if (!out.IsInitialized()) return errors::ResourceExhausted("No memory for a dataset");
    context.set_output(0, std::move(out));
    return Status();
  }

 private:
  FunctionCaller* const functions_;
};

}  // namespace

void RegisterSnapshotDatasets(KernelRegistry& registry) {
  registry.Register<SnapshotKernel>(KernelDef("SnapshotDataset"));
}

}  // namespace millrace::data
