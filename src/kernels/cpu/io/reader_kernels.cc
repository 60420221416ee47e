// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Readers and the ops on them. The kernels serve the ops of both kinds of handles.
#include "kernels/cpu/data_flow/access_kernel.h"
#include "kernels/cpu/io/reader.h"
#include "kernels/cpu/io/reader_work.h"
#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

// Reads the attributes of a kind of reader.
using MakeOpener = WorkOpener (*)(KernelConstruction& c);

class ReaderKernel final : public ResourceOpKernel<Reader> {
 public:
  ReaderKernel(KernelConstruction& c, MakeOpener make)
      : ResourceOpKernel(c, Unnamed::kNodeName), open_(make(c)) {}

 private:
  StatusOr<RefPtr<Reader>> Make(KernelContext& /*context*/) override {
    return MakeRef<Reader>(name(), open_);
  }

  const WorkOpener open_;
};

WorkOpener MakeIdentity(KernelConstruction& /*c*/) { return IdentityWork(); }
WorkOpener MakeWholeFile(KernelConstruction& /*c*/) { return WholeFileWork(Env::Posix()); }

WorkOpener MakeTextLine(KernelConstruction& c) {
  const auto skip = c.Attr<int64_t>("skip_header_lines");
  if (skip < 0) c.SetError(errors::InvalidArgument("skip_header_lines must be >= 0 not ", skip));
  return TextLineWork(Env::Posix(), skip);
}

WorkOpener MakeFixedLength(KernelConstruction& c) {
  const auto bytes = [&](const char* attr, int64_t least) {
    const auto value = c.Attr<int64_t>(attr);
    if (value < least) {
      c.SetError(errors::InvalidArgument(attr, " must be ", least == 0 ? ">= 0" : "> 0", " not ", value));
    }
    return static_cast<uint64_t>(value);
  };
  // The first version of the op has no compression.
  const auto compression =
      io::ParseCompression(c.HasAttr("encoding") ? c.Attr<std::string>("encoding") : std::string());
  if (!compression.ok()) c.SetError(compression.status());
  return FixedLengthWork(Env::Posix(), {.header_bytes = bytes("header_bytes", 0),
                                        .record_bytes = bytes("record_bytes", 1),
                                        .footer_bytes = bytes("footer_bytes", 0),
                                        .hop_bytes = bytes("hop_bytes", 0),
                                        .compression = compression.value_or(io::Compression::kNone)});
}

WorkOpener MakeRecord(KernelConstruction& c) {
  const auto compression = io::ParseCompression(c.Attr<std::string>("compression_type"));
  if (!compression.ok()) {
    c.SetError(compression.status());
    return IdentityWork();
  }
  return RecordWork(Env::Posix(), *compression);
}

WorkOpener MakeLmdb(KernelConstruction& /*c*/) { return LmdbWork(Env::Posix()); }

// Reads one record, or up to a given number of them.
class ReadKernel final : public AccessKernel<Reader> {
 public:
  using AccessKernel::AccessKernel;

 private:
  bool many() const { return num_inputs() == 3; }

  Status Prepare(const KernelContext& context, Reader& /*reader*/, Reader::Attempt& attempt,
                 bool& nothing_to_do) override {
    MR_ASSIGN_OR_RETURN(attempt.queue, FindResource<Queue>(context, 1));
    // Errors of the queue are reported before anything is dequeued.
    const std::vector<DataType>& types = attempt.queue->spec().types;
    if (types.size() != 1) return errors::InvalidArgument("Expected single component queue");
    if (types[0] != DataType::kString) {
      return errors::InvalidArgument("Expected queue with single string component");
    }
    if (!many()) return Status();
    MR_RETURN_IF_ERROR(RequireScalar(context.input(2), "num_records"));
    attempt.wanted = context.input(2).scalar<int64_t>();
    if (attempt.wanted < 0) {
      return errors::InvalidArgument("num_records must be >= 0 not ", attempt.wanted);
    }
    nothing_to_do = attempt.wanted == 0;
    return Status();
  }

  Status Deliver(KernelContext& context, Reader& /*reader*/, Reader::Attempt& attempt) override {
    MR_RETURN_IF_ERROR(DeliverTexts(context, 0, attempt.keys));
    return DeliverTexts(context, 1, attempt.values);
  }

  Status DeliverTexts(KernelContext& context, int output, std::vector<std::string>& texts) const {
    const TensorShape shape = many() ? TensorShape({static_cast<int64_t>(texts.size())}) : TensorShape();
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(output, shape));
    std::move(texts.begin(), texts.end(), out->data<std::string>());
    return Status();
  }
};

class RecordsProducedKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<Reader> reader, FindResource<Reader>(context, 0));
    context.set_output(0, Tensor::Scalar<int64_t>(reader->records_produced()));
    return Status();
  }
};

class WorkUnitsCompletedKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<Reader> reader, FindResource<Reader>(context, 0));
    context.set_output(0, Tensor::Scalar<int64_t>(reader->work_units_completed()));
    return Status();
  }
};

class SerializeStateKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<Reader> reader, FindResource<Reader>(context, 0));
    context.set_output(0, Tensor::Scalar<std::string>(reader->SerializeState()));
    return Status();
  }
};

class RestoreStateKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<Reader> reader, FindResource<Reader>(context, 0));
    const Tensor& state = context.input(1);
    if (state.shape().rank() != 0) {
      return errors::InvalidArgument("Reader state must be scalar, but had shape: ", state.shape());
    }
    return reader->RestoreState(state.scalar<std::string>());
  }
};

class ReaderResetKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<Reader> reader, FindResource<Reader>(context, 0));
    reader->Reset();
    return Status();
  }
};

}  // namespace

void RegisterReaderKernels(KernelRegistry& registry) {
  constexpr std::pair<const char*, MakeOpener> kReaders[] = {{"IdentityReader", MakeIdentity},
                                                             {"WholeFileReader", MakeWholeFile},
                                                             {"TextLineReader", MakeTextLine},
                                                             {"FixedLengthRecordReader", MakeFixedLength},
                                                             {"TFRecordReader", MakeRecord}};
  registry.Register(KernelDef("LMDBReader"),
                    [](KernelConstruction& c) { return std::make_unique<ReaderKernel>(c, MakeLmdb); });
  for (const std::string version : {"", "V2"}) {
    for (const auto& [op, make] : kReaders) {
      registry.Register(KernelDef(op + version), [make = make](KernelConstruction& c) {
        return std::make_unique<ReaderKernel>(c, make);
      });
    }
    registry.Register<ReadKernel>(KernelDef("ReaderRead" + version));
    registry.Register<ReadKernel>(KernelDef("ReaderReadUpTo" + version));
    registry.Register<RecordsProducedKernel>(KernelDef("ReaderNumRecordsProduced" + version));
    registry.Register<WorkUnitsCompletedKernel>(KernelDef("ReaderNumWorkUnitsCompleted" + version));
    registry.Register<SerializeStateKernel>(KernelDef("ReaderSerializeState" + version));
    registry.Register<RestoreStateKernel>(KernelDef("ReaderRestoreState" + version));
    registry.Register<ReaderResetKernel>(KernelDef("ReaderReset" + version));
  }
}

}  // namespace millrace
