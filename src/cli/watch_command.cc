// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// millrace watch: the events of training runs, as a page in a browser.
#include <memory>

#include "base/strings.h"
#include "cli/commands.h"
#include "cli/end_signals.h"
#include "cli/options.h"
#include "cli/watch/event_watcher.h"
#include "cli/watch/http_server.h"
#include "cli/watch/watch_data.h"
#include "cli/watch/watch_service.h"
#include "display/text.h"

namespace millrace::cli {
namespace {

struct WatchOptions {
  std::vector<std::string> paths;
  std::string html;
  std::string listen = "127.0.0.1";
  int port = 6006;
  double interval = 2;
};

// A page with images of more than that would take a browser too long.
constexpr uint64_t kMostBlobBytesOfPage = uint64_t{64} << 20;

// "run1" of "logs/run1/".
std::string TitleOf(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  for (std::string path : paths) {
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    names.push_back(path.substr(path.find_last_of('/') + 1));
  }
  return StrJoin(names, ", ");
}

bool IsLoopback(const std::string& listen) {
  return listen == "localhost" || listen.starts_with("127.") || listen == "::1" || listen == "[::1]";
}

StatusOr<ExitCode> WriteData(const WatchOptions& options, const Context& context) {
  StoreLimits limits;
  if (!options.html.empty()) limits.blob_bytes = kMostBlobBytesOfPage;
  EventWatcher watcher(context.env, options.paths, limits);
  MR_RETURN_IF_ERROR(watcher.ReadAll());
  if (watcher.num_files() == 0) {
    return errors::NotFound(options.paths.front(), "; there are no event files in it");
  }
  if (options.html.empty()) {
    context.out << AllJson(watcher) << "\n";
    return ExitCode::kOk;
  }
  const std::string page = WholePage(watcher, TitleOf(options.paths));
  MR_RETURN_IF_ERROR(WriteFileAtomically(context.env, options.html, page));
  for (const std::string& note : watcher.store().notes()) context.Warn(note);
  const size_t runs = watcher.store().runs().size();
  if (context.json) {
    JsonWriter json;
    json.BeginObject().Field("output", options.html).Field("runs", runs);
    json.Field("files", watcher.num_files()).Field("bytes", page.size()).EndObject();
    return context.Print(json);
  }
  context.out << Printable(options.html) << ": " << runs << (runs == 1 ? " run, " : " runs, ")
              << BytesText(page.size()) << "\n";
  return ExitCode::kOk;
}

StatusOr<ExitCode> ServePage(const WatchOptions& options, const Context& context) {
  const EndSignals signals;
  WatchService service(Env::Posix(), options.paths, TitleOf(options.paths));
  MR_ASSIGN_OR_RETURN(
      const std::unique_ptr<HttpServer> server,
      HttpServer::Listen({.listen = options.listen, .port = options.port},
                         [&](const HttpRequest& request) { return service.Answer(request); }));
  MR_RETURN_IF_ERROR(service.Refresh(HttpServer::Clock::now()).status());
  context.out << "millrace: watching " << Printable(TitleOf(options.paths)) << " at " << server->url()
              << (IsLoopback(options.listen) ? "" : ", open to everybody who reaches it") << std::endl;
  const auto interval = std::chrono::duration_cast<HttpServer::Clock::duration>(
      std::chrono::duration<double>(options.interval));
  size_t warned = 0;
  for (bool more = true, ended = false; !ended;) {
    MR_ASSIGN_OR_RETURN(
        ended, server->Serve(HttpServer::Clock::now() + (more ? interval * 0 : interval), signals.file()));
    constexpr auto kMostAtOnce = std::chrono::milliseconds(100);  // then requests are served
    const StatusOr<bool> refreshed = service.Refresh(HttpServer::Clock::now() + kMostAtOnce);
    more = refreshed.ok() && *refreshed;
    const auto& notes = service.notes();
    for (; warned < notes.size(); ++warned) context.Warn(notes[warned]);
  }
  return ExitCode::kOk;
}

}  // namespace

void AddWatchCommand(Commands* commands) {
  const auto options = std::make_shared<WatchOptions>();
  const Command command =
      commands->Add("watch",
                    "Show the runs of a log folder live in a browser: a page on this machine, until Ctrl-C; "
                    "with --html a file, with --json the data",
                    [options](const Context& context) {
                      const bool is_server = options->html.empty() && !context.json;
                      return is_server ? ServePage(*options, context) : WriteData(*options, context);
                    });
  command
      .AddOption("logdir", options->paths,
                 "Folders in which event files are looked for; each folder that has some is a run")
      .Required()
      .TypeName("PATH");
  command.AddOption("--html", options->html, "Write one page with all data to this file, and exit")
      .TypeName("FILE");
  command.AddOption("--port", options->port, "The port of the page, default: 6006; 0 takes a free one")
      .Check(Between(0, 65535));
  command.AddOption("--listen", options->listen,
                    "The address to listen at, 0.0.0.0 for all of this machine; default: 127.0.0.1");
  command.AddOption("--interval", options->interval, "Seconds between two checks of the files")
      .Check(Between(0.1, 3600))
      .ShowDefault();
}

}  // namespace millrace::cli
