// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Writers of event files and databases as resources, and the ops that write with them.
#include <algorithm>
#include <string>

#include "base/env.h"
#include "io/match_files.h"
#include "kernel/resource_op.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/logging/event_log.h"
#include "kernels/cpu/logging/summary.h"
#include "kernels/cpu/logging/summary_database.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/summary.pb.h"
#include "tensorflow/core/util/event.pb.h"

namespace millrace {
namespace {

class SummaryWriterKernel final : public OpKernel {
 public:
  explicit SummaryWriterKernel(KernelConstruction& c)
      : OpKernel(c), handle_(DataType::kResource, TensorShape()) {
    const auto shared_name = c.Attr<std::string>("shared_name");
    handle_.scalar<ResourceHandle>() = c.resources().MakeHandle<SummarySink>(
        c.Attr<std::string>("container"), shared_name.empty() ? name() : shared_name);
  }
  Status Compute(KernelContext& context) override {
    context.set_output(0, handle_);
    return Status();
  }

 private:
  Tensor handle_;
};

StatusOr<std::string> TextInput(const KernelContext& context, int i, const char* name) {
  MR_RETURN_IF_ERROR(RequireScalar(context.input(i), name));
  return context.input(i).scalar<std::string>();
}
StatusOr<ResourceHandle> HandleOf(const KernelContext& context) {
  const Tensor& handle = context.input(0);
  if (handle.num_elements() != 1) return BadHandle(context, 0);
  return handle.data<ResourceHandle>()[0];
}

// Inputs: writer, logdir, max_queue, flush_millis, filename_suffix.
class CreateKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(context));
    MR_ASSIGN_OR_RETURN(const std::string folder, TextInput(context, 1, "logdir"));
    MR_RETURN_IF_ERROR(RequireScalar(context.input(2), "max_queue"));
    MR_RETURN_IF_ERROR(RequireScalar(context.input(3), "flush_millis"));
    MR_ASSIGN_OR_RETURN(const std::string suffix, TextInput(context, 4, "filename_suffix"));
    const int64_t most_held = context.input(2).scalar<int32_t>();
    const int64_t millis = context.input(3).scalar<int32_t>();
    const auto make = [&]() -> StatusOr<RefPtr<SummarySink>> {
      MR_RETURN_IF_ERROR(io::MakeFolders(Env::Posix(), folder));
      io::EventWriter::Options options;
      options.suffix = suffix;
      options.flush_after_secs = static_cast<double>(std::max<int64_t>(0, millis)) / 1000;
      MR_ASSIGN_OR_RETURN(auto writer,
                          io::EventWriter::Open(Env::Posix(), folder + "/events", std::move(options)));
      return RefPtr<SummarySink>(MakeRef<EventLog>(std::move(writer), std::max<int64_t>(0, most_held)));
    };
    return context.resources().LookupOrCreateHandle<SummarySink>(handle, make).status();
  }
};

// Inputs: writer, db_uri, experiment_name, run_name, user_name.
class CreateDatabaseKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(context));
    MR_ASSIGN_OR_RETURN(const std::string uri, TextInput(context, 1, "db_uri"));
    SummaryDatabase::Names names;
    MR_ASSIGN_OR_RETURN(names.experiment, TextInput(context, 2, "experiment_name"));
    MR_ASSIGN_OR_RETURN(names.run, TextInput(context, 3, "run_name"));
    MR_ASSIGN_OR_RETURN(names.user, TextInput(context, 4, "user_name"));
    const auto make = [&]() -> StatusOr<RefPtr<SummarySink>> {
      MR_ASSIGN_OR_RETURN(auto database, SummaryDatabase::Open(uri, std::move(names)));
      return RefPtr<SummarySink>(std::move(database));
    };
    return context.resources().LookupOrCreateHandle<SummarySink>(handle, make).status();
  }
};

class FlushKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<SummarySink> sink, FindResource<SummarySink>(context, 0));
    return sink->Flush();
  }
};

class CloseKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<SummarySink> sink, FindResource<SummarySink>(context, 0));
    MR_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(context));
    MR_RETURN_IF_ERROR(context.resources().DeleteHandle(handle));
    return sink->Close();
  }
};

// The other ops: inputs writer and step, and those from which `Fill` makes an event.
class WriteKernel : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<SummarySink> sink, FindResource<SummarySink>(context, 0));
    tensorflow::Event event;
    if (input_type(1) == DataType::kInt64) {
      MR_RETURN_IF_ERROR(RequireScalar(context.input(1), "step"));
      event.set_step(context.input(1).scalar<int64_t>());
    }
    event.set_wall_time(EventTime());
    MR_RETURN_IF_ERROR(Fill(context, *sink, &event));
    return sink->Write(event, &context.cancellation());
  }

 protected:
  virtual Status Fill(KernelContext& context, const SummarySink& sink, tensorflow::Event* event) = 0;
};

// Inputs after the step: tensor, tag, metadata.
class WriteTensorKernel final : public WriteKernel {
  using WriteKernel::WriteKernel;
  Status Fill(KernelContext& context, const SummarySink& /*sink*/, tensorflow::Event* event) override {
    MR_ASSIGN_OR_RETURN(const std::string tag, TextInput(context, 3, "tag"));
    MR_ASSIGN_OR_RETURN(const std::string metadata, TextInput(context, 4, "summary_metadata"));
    AddTensor(tag, context.input(2), event->mutable_summary());
    tensorflow::Summary::Value* const value = event->mutable_summary()->mutable_value(0);
    if (!metadata.empty() && !value->mutable_metadata()->ParseFromString(metadata))
      return errors::InvalidArgument("summary_metadata is not a SummaryMetadata message");
    return Status();
  }
};

class WriteRawKernel final : public WriteKernel {
  using WriteKernel::WriteKernel;
  Status Fill(KernelContext& context, const SummarySink& /*sink*/, tensorflow::Event* event) override {
    const Tensor& messages = context.input(2);
    for (int64_t i = 0; i < messages.num_elements(); ++i) {
      tensorflow::Summary summary;
      if (!summary.ParseFromString(messages.data<std::string>()[i]))
        return errors::DataLoss("Bad tf.compat.v1.Summary binary proto tensor string at index ", i);
      event->mutable_summary()->MergeFrom(summary);
    }
    return Status();
  }
};

class ImportKernel final : public WriteKernel {
  using WriteKernel::WriteKernel;
  Status Fill(KernelContext& context, const SummarySink& /*sink*/, tensorflow::Event* event) override {
    MR_ASSIGN_OR_RETURN(const std::string bytes, TextInput(context, 1, "event"));
    if (!event->ParseFromString(bytes)) return errors::DataLoss("Bad tf.Event binary proto tensor string");
    return Status();
  }
};

class WriteScalarKernel final : public WriteKernel {
  using WriteKernel::WriteKernel;
  Status Fill(KernelContext& context, const SummarySink& sink, tensorflow::Event* event) override {
    MR_ASSIGN_OR_RETURN(const std::string tag, TextInput(context, 2, "tag"));
    MR_RETURN_IF_ERROR(RequireScalar(context.input(3), "value"));
    if (sink.keeps_scalar_types()) {
      AddTensor(tag, context.input(3), event->mutable_summary());
      event->mutable_summary()->mutable_value(0)->mutable_metadata()->mutable_plugin_data()->set_plugin_name(
          "scalars");
      return Status();
    }
    tensorflow::Summary::Value* const value = event->mutable_summary()->add_value();
    value->set_tag(tag);
    value->set_simple_value(static_cast<float>(RealAt(context.input(3), 0)));
    return Status();
  }
};

class WriteHistogramKernel final : public WriteKernel {
  using WriteKernel::WriteKernel;
  Status Fill(KernelContext& context, const SummarySink& /*sink*/, tensorflow::Event* event) override {
    MR_ASSIGN_OR_RETURN(const std::string tag, TextInput(context, 2, "tag"));
    return AddHistogram(tag, context.input(3), name(), event->mutable_summary());
  }
};

class WriteImageKernel final : public WriteKernel {
 public:
  explicit WriteImageKernel(KernelConstruction& c) : WriteKernel(c), most_(c.Attr<int64_t>("max_images")) {}

 private:
  Status Fill(KernelContext& context, const SummarySink& /*sink*/, tensorflow::Event* event) override {
    MR_ASSIGN_OR_RETURN(const std::string tag, TextInput(context, 2, "tag"));
    const Tensor& bad_color = context.input(4);
    if (!bad_color.shape().IsVector())
      return errors::InvalidArgument("bad_color must be a vector, got shape ", bad_color.shape());
    return AddImages(context, tag, context.input(3), most_, bad_color, event->mutable_summary());
  }
  const int64_t most_;
};

class WriteAudioKernel final : public WriteKernel {
 public:
  explicit WriteAudioKernel(KernelConstruction& c) : WriteKernel(c), most_(c.Attr<int64_t>("max_outputs")) {}

 private:
  Status Fill(KernelContext& context, const SummarySink& /*sink*/, tensorflow::Event* event) override {
    MR_ASSIGN_OR_RETURN(const std::string tag, TextInput(context, 2, "tag"));
    MR_RETURN_IF_ERROR(RequireScalar(context.input(4), "sample_rate"));
    return AddAudio(tag, context.input(3), context.input(4).scalar<float>(), most_, event->mutable_summary());
  }
  const int64_t most_;
};

class WriteGraphKernel final : public WriteKernel {
  using WriteKernel::WriteKernel;
  Status Fill(KernelContext& context, const SummarySink& /*sink*/, tensorflow::Event* event) override {
    MR_ASSIGN_OR_RETURN(std::string bytes, TextInput(context, 2, "tensor"));
    if (tensorflow::GraphDef graph; !graph.ParseFromString(bytes))
      return errors::DataLoss("Bad tf.GraphDef binary proto scalar string");
    event->set_graph_def(std::move(bytes));
    return Status();
  }
};

}  // namespace

void RegisterSummaryWriterKernels(KernelRegistry& registry) {
  registry.Register<SummaryWriterKernel>(KernelDef("SummaryWriter"));
  registry.Register<CreateKernel>(KernelDef("CreateSummaryFileWriter"));
  registry.Register<CreateDatabaseKernel>(KernelDef("CreateSummaryDbWriter"));
  registry.Register<FlushKernel>(KernelDef("FlushSummaryWriter"));
  registry.Register<CloseKernel>(KernelDef("CloseSummaryWriter"));
  registry.Register<WriteTensorKernel>(KernelDef("WriteSummary"));
  registry.Register<WriteRawKernel>(KernelDef("WriteRawProtoSummary"));
  registry.Register<ImportKernel>(KernelDef("ImportEvent"));
  registry.Register<WriteScalarKernel>(KernelDef("WriteScalarSummary").Types("T", RealTypes()));
  registry.Register<WriteHistogramKernel>(KernelDef("WriteHistogramSummary").Types("T", RealTypes()));
  registry.Register<WriteImageKernel>(KernelDef("WriteImageSummary"));
  registry.Register<WriteAudioKernel>(KernelDef("WriteAudioSummary"));
  registry.Register<WriteGraphKernel>(KernelDef("WriteGraphSummary"));
}

}  // namespace millrace
