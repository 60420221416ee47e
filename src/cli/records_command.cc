// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// millrace records: the contents of TFRecord files.
#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "cli/commands.h"
#include "cli/example_text.h"
#include "cli/options.h"
#include "display/text.h"
#include "io/crc32c.h"
#include "io/input_stream.h"
#include "io/record_file.h"
#include "io/record_index.h"

namespace millrace::cli {
namespace {

using io::Compression;
using io::RecordIndex;
using io::RecordReader;

struct RecordsOptions {
  std::vector<std::string> files;
  std::string file;
  std::string compression = "auto";
  std::string index;   // path of an index; "": beside the file, if it exists
  std::string output;  // of the index
  std::string as = "auto";
  int64_t count = 5;
  int64_t at = -1;
  int64_t values = 10;
};

std::string_view NameOf(Compression compression) {
  return compression == Compression::kNone ? "none" : compression == Compression::kZlib ? "zlib" : "gzip";
}

uint64_t LittleEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i > 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i - 1]);
  return value;
}

// Detects compression by the first bytes: those of an uncompressed file have a checksum.
StatusOr<Compression> Guess(Env& env, const std::string& path) {
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<RandomAccessFile> file, env.NewRandomAccessFile(path));
  std::string head;
  const Status status = file->Read(0, 12, &head);
  if (!status.ok() && !errors::IsOutOfRange(status)) return status;
  const auto byte = [&](size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(head[i])); };
  if (head.size() == 12 &&
      LittleEndian(std::string_view(head).substr(8)) == io::MaskCrc(io::Crc32c(head.substr(0, 8)))) {
    return Compression::kNone;
  }
  if (head.size() >= 2 && byte(0) == 0x1f && byte(1) == 0x8b) return Compression::kGzip;
  if (head.size() >= 2 && (byte(0) & 15) == 8 && (byte(0) * 256 + byte(1)) % 31 == 0) {
    return Compression::kZlib;
  }
  return Compression::kNone;
}

StatusOr<Compression> CompressionOf(const RecordsOptions& options, const std::string& path, Env& env) {
  MR_ASSIGN_OR_RETURN(const FileStat stat, env.Stat(path));
  if (stat.is_directory) return errors::FailedPrecondition(path, "; is a directory");
  if (options.compression == "none") return Compression::kNone;
  if (options.compression == "zlib") return Compression::kZlib;
  if (options.compression == "gzip") return Compression::kGzip;
  return Guess(env, path);
}

// The result of reading a file. `status` is OK at the end of the file, or the error that ended the reading.
struct Survey {
  std::string path;
  Compression compression = Compression::kNone;
  uint64_t file_bytes = 0;
  uint64_t records = 0;
  uint64_t data_bytes = 0;
  uint64_t shortest = std::numeric_limits<uint64_t>::max();
  uint64_t longest = 0;
  std::string kind;  // of the first record; "" without one, or when records are not read
  Status status;
};

Status Walk(const Context& context, RecordReader& reader, bool read, Survey* survey) {
  Progress progress(context, StrCat("reading ", survey->path),
                    survey->compression == Compression::kNone ? survey->file_bytes : 0);
  for (std::string record;;) {
    uint64_t length = 0;
    if (read || survey->records == 0) {
      MR_RETURN_IF_ERROR(reader.Read(&record));
      length = record.size();
      if (survey->records == 0) survey->kind = RecordKindName(KindOfRecord(record));
    } else {
      MR_ASSIGN_OR_RETURN(length, reader.Skip());
    }
    ++survey->records;
    survey->data_bytes += length;
    survey->shortest = std::min(survey->shortest, length);
    survey->longest = std::max(survey->longest, length);
    if (survey->records % 256 == 0) progress.Set(reader.offset());
  }
}

Survey SurveyFile(const RecordsOptions& options, const std::string& path, bool read, const Context& context) {
  Survey survey;
  survey.path = path;
  const auto compression = CompressionOf(options, path, context.env);
  if (!compression.ok()) {
    survey.status = compression.status();
    return survey;
  }
  survey.compression = *compression;
  if (const auto stat = context.env.Stat(path); stat.ok()) survey.file_bytes = stat->length;
  const auto reader = RecordReader::Open(context.env, path, survey.compression);
  survey.status = reader.ok() ? Walk(context, **reader, read, &survey) : reader.status();
  if (errors::IsOutOfRange(survey.status)) survey.status = Status();
  if (survey.records == 0) survey.shortest = 0;
  return survey;
}

void WriteSurveyJson(const Survey& survey, JsonWriter* json) {
  json->BeginObject().Field("path", survey.path).Field("ok", survey.status.ok());
  json->Field("compression", NameOf(survey.compression)).Field("file_bytes", survey.file_bytes);
  json->Field("records", survey.records).Field("data_bytes", survey.data_bytes);
  json->Field("shortest", survey.shortest).Field("longest", survey.longest).Field("kind", survey.kind);
  if (!survey.status.ok()) {
    json->Key("error").BeginObject().Field("code", ErrorCodeName(survey.status.code()));
    json->Field("message", survey.status.message()).EndObject();
  }
  json->EndObject();
}

// Reads all files, also after one that is corrupt. `print` shows the
// results.
ExitCode SurveyAll(const RecordsOptions& options, bool read, const Context& context,
                   const std::function<void(const std::vector<Survey>&)>& print) {
  std::vector<Survey> surveys;
  bool all_ok = true;
  for (const std::string& path : options.files) {
    surveys.push_back(SurveyFile(options, path, read, context));
    all_ok = all_ok && surveys.back().status.ok();
  }
  if (context.json) {
    JsonWriter json;
    json.BeginObject().Key("files").BeginArray();
    for (const Survey& survey : surveys) WriteSurveyJson(survey, &json);
    json.EndArray().EndObject();
    context.Print(json);
  } else {
    print(surveys);
    for (const Survey& survey : surveys) {
      if (!survey.status.ok()) context.ReportError(survey.status);
    }
  }
  return all_ok ? ExitCode::kOk : ExitCode::kFailed;
}

ExitCode List(const RecordsOptions& options, const Context& context) {
  return SurveyAll(options, false, context, [&](const std::vector<Survey>& surveys) {
    using enum TextTable::Align;
    TextTable table({{"records", kRight},
                     {"data", kRight},
                     {"shortest", kRight},
                     {"longest", kRight},
                     {"compression", kLeft},
                     {"holds", kLeft},
                     {"file", kLeft}});
    for (const Survey& s : surveys) {
      if (!s.status.ok() && s.records == 0) continue;
      table.AddRow({CountText(s.records), BytesText(s.data_bytes), BytesText(s.shortest),
                    BytesText(s.longest), std::string(NameOf(s.compression)), s.kind, s.path});
    }
    if (table.num_rows() > 0) context.out << table.ToString();
  });
}

ExitCode Count(const RecordsOptions& options, const Context& context) {
  return SurveyAll(options, false, context, [&](const std::vector<Survey>& surveys) {
    uint64_t sum = 0;
    for (const Survey& s : surveys) sum += s.records;
    if (surveys.size() == 1) {
      context.out << sum << "\n";
      return;
    }
    for (const Survey& s : surveys) context.out << s.records << " " << Printable(s.path) << "\n";
    context.out << sum << " in all\n";
  });
}

ExitCode Verify(const RecordsOptions& options, const Context& context) {
  return SurveyAll(options, true, context, [&](const std::vector<Survey>& surveys) {
    for (const Survey& s : surveys) {
      context.out << Printable(s.path) << ": " << (s.status.ok() ? "ok" : "BROKEN") << ", "
                  << CountText(s.records) << (s.status.ok() ? "" : " good")
                  << (s.records == 1 ? " record, " : " records, ") << BytesText(s.data_bytes) << "\n";
    }
  });
}

StatusOr<RecordIndex> BuildIndex(const RecordsOptions& options, const Context& context) {
  MR_ASSIGN_OR_RETURN(const Compression compression, CompressionOf(options, options.file, context.env));
  MR_ASSIGN_OR_RETURN(const FileStat stat, context.env.Stat(options.file));
  Progress progress(context, StrCat("indexing ", options.file),
                    compression == Compression::kNone ? stat.length : 0);
  return RecordIndex::Build(context.env, options.file, compression,
                            [&](uint64_t offset) { progress.Set(offset); });
}

StatusOr<ExitCode> Index(const RecordsOptions& options, const Context& context) {
  if (options.output.empty() && options.file == "-") {
    return context.Usage("records from standard input have no place for their index; name one with -o");
  }
  const std::string path = options.output.empty() ? options.file + ".idx" : options.output;
  if (path == options.file) return context.Usage("the index would replace the file; name another with -o");
  MR_ASSIGN_OR_RETURN(const RecordIndex index, BuildIndex(options, context));
  MR_RETURN_IF_ERROR(index.Save(context.env, path));
  if (context.json) {
    JsonWriter json;
    json.BeginObject().Field("index", path).Field("records", index.size());
    json.Field("data_bytes", index.data_bytes()).EndObject();
    return context.Print(json);
  }
  context.out << Printable(path) << ": " << CountOf(index.size(), "record") << ", "
              << BytesText(index.data_bytes()) << "\n";
  return ExitCode::kOk;
}

// The given index, the one beside the file if it is up to date, or a new one in memory.
StatusOr<RecordIndex> FindIndex(const RecordsOptions& options, const Context& context) {
  if (!options.index.empty()) return RecordIndex::Load(context.env, options.index);
  const std::string beside = options.file + ".idx";
  if (!context.env.FileExists(beside)) return BuildIndex(options, context);
  auto index = RecordIndex::Load(context.env, beside);
  if (index.ok()) {
    MR_ASSIGN_OR_RETURN(const FileStat stat, context.env.Stat(options.file));
    if (stat.length == index->file_bytes()) return index;
    context.Warn(StrCat(beside, " belongs to another file; not used"));
  } else {
    context.Warn(StrCat(index.status().message(), "; not used"));
  }
  return BuildIndex(options, context);
}

// Shows records as they come, or as items of a JSON array.
class RecordPrinter {
 public:
  RecordPrinter(const RecordsOptions& options, const Context& context)
      : options_(options), context_(context) {
    if (context_.json) json_.BeginObject().Field("path", options_.file).Key("records").BeginArray();
  }

  void Print(uint64_t number, uint64_t offset, std::string_view record) {
    const RecordKind kind = options_.as == "bytes"      ? RecordKind::kBytes
                            : options_.as == "example"  ? RecordKind::kExample
                            : options_.as == "sequence" ? RecordKind::kSequenceExample
                                                        : KindOfRecord(record);
    if (context_.json) {
      json_.BeginObject().Field("record", number).Field("offset", offset).Field("length", record.size());
      json_.Field("kind", RecordKindName(kind));
      WriteRecordJson(record, kind, options_.values, &json_);
      json_.EndObject();
      return;
    }
    context_.out << "record " << number << " at " << offset << ", " << BytesText(record.size()) << ", "
                 << RecordKindName(kind) << "\n"
                 << RecordText(record, kind, options_.values);
  }

  ExitCode Finish() {
    if (!context_.json) return ExitCode::kOk;
    json_.EndArray().EndObject();
    return context_.Print(json_);
  }

 private:
  const RecordsOptions& options_;
  const Context& context_;
  JsonWriter json_;
};

StatusOr<ExitCode> HeadAt(const RecordsOptions& options, const Context& context) {
  MR_ASSIGN_OR_RETURN(RecordIndex index, FindIndex(options, context));
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<io::IndexedRecordReader> reader,
                      io::IndexedRecordReader::Open(context.env, options.file, std::move(index)));
  RecordPrinter printer(options, context);
  std::string record;
  const auto first = static_cast<uint64_t>(options.at);
  for (int64_t i = 0; i < options.count; ++i) {
    const uint64_t number = first + static_cast<uint64_t>(i);
    if (i > 0 && number >= reader->index().size()) break;
    MR_RETURN_IF_ERROR(reader->Read(number, &record));
    printer.Print(number, reader->index().offset(number), record);
  }
  return printer.Finish();
}

StatusOr<ExitCode> Head(const RecordsOptions& options, const Context& context) {
  if (options.at >= 0) return HeadAt(options, context);
  MR_ASSIGN_OR_RETURN(const Compression compression, CompressionOf(options, options.file, context.env));
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<RecordReader> reader,
                      RecordReader::Open(context.env, options.file, compression));
  RecordPrinter printer(options, context);
  std::string record;
  for (int64_t i = 0; i < options.count; ++i) {
    const uint64_t offset = reader->offset();
    const Status status = reader->Read(&record);
    if (errors::IsOutOfRange(status)) break;
    MR_RETURN_IF_ERROR(status);
    printer.Print(static_cast<uint64_t>(i), offset, record);
  }
  return printer.Finish();
}

using Function = StatusOr<ExitCode> (*)(const RecordsOptions&, const Context&);

// A command of the group, with what all of them have.
Command AddOne(Commands* commands, const Command& group, const char* name, const char* what,
               const std::shared_ptr<RecordsOptions>& options, Function function, bool many) {
  const Command command = commands->Add(
      name, what, [options, function](const Context& context) { return function(*options, context); }, group);
  if (many) {
    command.AddOption("files", options->files, "TFRecord files").Required().TypeName("FILE");
  } else {
    command.AddOption("file", options->file, "A TFRecord file").Required().TypeName("FILE");
  }
  command.AddOption("--compression", options->compression, "The compression of the file; auto detects it")
      .OneOf({"auto", "none", "zlib", "gzip"})
      .ShowDefault();
  return command;
}

template <ExitCode (*kFunction)(const RecordsOptions&, const Context&)>
StatusOr<ExitCode> Always(const RecordsOptions& options, const Context& context) {
  return kFunction(options, context);
}

}  // namespace

void AddRecordsCommand(Commands* commands) {
  const Command group = commands->Group("records", "Show TFRecord files");
  const auto options = std::make_shared<RecordsOptions>();
  AddOne(commands, group, "ls", "List files: records, sizes, compression, contents", options, Always<List>,
         true);
  AddOne(commands, group, "count", "Count records, without reading their data", options, Always<Count>, true);
  AddOne(commands, group, "verify", "Read every record and check every checksum", options, Always<Verify>,
         true);
  const Command head =
      AddOne(commands, group, "head", "Show records; Examples as text", options, Head, false);
  head.AddOption("-n,--count", options->count, "Number of records").Check(NotNegative()).ShowDefault();
  head.AddOption("--at", options->at, "The number of the first record, counted from 0; fast with an index")
      .Check(NotNegative());
  head.AddOption("--values", options->values, "Number of values shown of a feature")
      .Check(NotNegative())
      .ShowDefault();
  head.AddOption("--as", options->as, "The type of the records; auto detects it")
      .OneOf({"auto", "example", "sequence", "bytes"})
      .ShowDefault();
  head.AddOption("--index", options->index, "An index; default: FILE.idx if it exists").TypeName("FILE");
  const Command index =
      AddOne(commands, group, "index", "Write an index, which makes head --at fast", options, Index, false);
  index.AddOption("-o,--output", options->output, "Output file; default: FILE.idx").TypeName("FILE");
}

}  // namespace millrace::cli
