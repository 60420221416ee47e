// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/watch/http_server.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/strings.h"

namespace millrace::cli {
namespace {

// Scripts and styles are part of the page; no other sources are allowed, and no other site may show it in a
// frame.
constexpr const char* kHeaders =
    "Connection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\nX-Frame-Options: "
    "SAMEORIGIN\r\n"
    "Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src 'self' data:; media-src 'self' data:; connect-src 'self'; frame-src 'self'; base-uri 'none'; "
    "form-action 'none'\r\n";
constexpr auto kDrainTime = std::chrono::seconds(1);
constexpr size_t kMostDrained = 1 << 20;

const char* ReasonOf(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 421:
      return "Misdirected Request";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    default:
      return "Bad Request";
  }
}

Status SystemError(std::string_view what) { return errors::Unavailable(what, ": ", std::strerror(errno)); }

StatusOr<int> Bind(const addrinfo& address) {
  const int file =
      socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address.ai_protocol);
  if (file < 0) return SystemError("no socket");
  const int on = 1;
  setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  constexpr int kBacklog = 64;
  if (bind(file, address.ai_addr, address.ai_addrlen) == 0 && listen(file, kBacklog) == 0) return file;
  const Status status = SystemError("cannot listen");
  close(file);
  return status;
}

// Valid host names in requests, besides the addresses of this machine.
std::vector<std::string> OwnNames(const std::string& listen) {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return {listen};
  return {listen, name};
}

int PortOf(int file) {
  sockaddr_storage address = {};
  socklen_t length = sizeof(address);
  char port[16] = {};
  if (getsockname(file, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&address), length, nullptr, 0, port, sizeof(port),
                  NI_NUMERICSERV) != 0) {
    return 0;
  }
  return SafeStringToInt32(port).value_or(0);
}

}  // namespace

struct HttpServer::Connection {
  int file = -1;
  enum class State { kReading, kWaiting, kWriting, kDraining, kClosed } state = State::kReading;
  std::string input;
  HttpRequest request;
  std::string output;
  size_t written = 0;
  size_t drained = 0;
  Clock::time_point deadline;

  ~Connection() {
    if (file >= 0) close(file);
  }
};

HttpServer::HttpServer(Options options, Handler handler, int file)
    : options_(std::move(options)),
      own_names_(OwnNames(options_.listen)),
      handler_(std::move(handler)),
      file_(file),
      port_(PortOf(file)) {}

HttpServer::~HttpServer() { close(file_); }

StatusOr<std::unique_ptr<HttpServer>> HttpServer::Listen(const Options& options, Handler handler) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  std::string_view name = options.listen;
  if (ConsumePrefix(&name, "[")) ConsumeSuffix(&name, "]");
  const int error =
      getaddrinfo(std::string(name).c_str(), std::to_string(options.port).c_str(), &hints, &found);
  if (error != 0) return errors::InvalidArgument(options.listen, "; ", gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, freeaddrinfo);
  const StatusOr<int> file = Bind(*addresses);
  if (!file.ok()) {
    return errors::Unavailable(options.listen, ":", options.port, "; ", file.status().message(),
                               "; --port 0 takes a free port");
  }
  return std::unique_ptr<HttpServer>(new HttpServer(options, std::move(handler), *file));
}

std::string HttpServer::url() const {
  const std::string& listen = options_.listen;
  const bool is_six = listen.find(':') != std::string::npos && !listen.starts_with('[');
  return StrCat("http://", is_six ? StrCat("[", listen, "]") : listen, ":", port_, "/");
}

StatusOr<bool> HttpServer::Serve(Clock::time_point until, int also) {
  for (Connection& connection : connections_) {
    if (connection.state == Connection::State::kWaiting) AskHandler(&connection);
  }
  for (;;) {
    MR_ASSIGN_OR_RETURN(const bool ended, Poll(until, also));
    if (ended || Clock::now() >= until) return ended;
  }
}

StatusOr<bool> HttpServer::Poll(Clock::time_point until, int also) {
  using State = Connection::State;
  std::vector<pollfd> polled;
  Clock::time_point wake = until;
  for (const Connection& connection : connections_) {
    // While a request waits for news, only the end of the connection matters.
    const short events = connection.state == State::kWaiting   ? POLLRDHUP
                         : connection.state == State::kWriting ? POLLOUT
                                                               : POLLIN;
    polled.push_back({connection.file, events, 0});
    wake = std::min(wake, connection.deadline);
  }
  const bool has_room = connections_.size() < options_.most_connections && Clock::now() >= accept_after_;
  polled.push_back({has_room ? file_ : -1, POLLIN, 0});
  polled.push_back({also, POLLIN, 0});
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(wake - Clock::now()).count();
  const int n = poll(polled.data(), polled.size(), static_cast<int>(std::clamp<int64_t>(left, 0, 60'000)));
  if (n < 0 && errno != EINTR) return SystemError("poll");
  if (n < 0) return false;
  size_t i = 0;
  for (Connection& connection : connections_) {
    const short got = polled[i++].revents;
    const bool is_gone = connection.state == State::kWaiting && got != 0;
    if (is_gone) connection.state = State::kClosed;
    Work(&connection, (got & ~POLLOUT) != 0, (got & ~POLLIN) != 0);
  }
  connections_.remove_if([](const Connection& connection) { return connection.state == State::kClosed; });
  if (polled[i].revents != 0) Accept();
  return polled[i + 1].revents != 0;
}

void HttpServer::Accept() {
  while (connections_.size() < options_.most_connections) {
    const int file = accept4(file_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (file < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EAGAIN) accept_after_ = Clock::now() + std::chrono::seconds(1);
      return;
    }
    Connection& connection = connections_.emplace_back();
    connection.file = file;
    connection.deadline = Clock::now() + options_.request_time;
  }
}

void HttpServer::Work(Connection* connection, bool readable, bool writable) {
  using State = Connection::State;
  const bool is_late = Clock::now() >= connection->deadline;
  switch (connection->state) {
    case State::kReading:
      if (readable) ReadRequest(connection);
      if (is_late && connection->state == State::kReading) {
        // Browsers open connections that they may not need; no request is pending on those.
        if (connection->input.empty()) {
          connection->state = State::kClosed;
        } else {
          Answer({.code = 408, .body = "The request did not come in time.\n"}, connection);
        }
      }
      return;
    case State::kWaiting:
      if (!is_late) return;
      connection->request.too_late = true;
      return AskHandler(connection);
    case State::kWriting:
      if (writable) Write(connection);
      if (is_late && connection->state == State::kWriting) connection->state = State::kClosed;
      return;
    case State::kDraining:
      if (readable) Drain(connection);
      if (is_late) connection->state = State::kClosed;
      return;
    case State::kClosed:
      return;
  }
}

void HttpServer::ReadRequest(Connection* connection) {
  char piece[4096];
  const ssize_t n = recv(connection->file, piece, sizeof(piece), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    connection->state = Connection::State::kClosed;
    return;
  }
  connection->input.append(piece, static_cast<size_t>(n));
  const std::string_view input = connection->input;
  const size_t end = std::min(input.find("\r\n\r\n"), input.find("\n\n"));
  if (std::min(end, input.size()) > options_.most_request_bytes) {
    Answer({.code = 431, .body = StrCat("A request has at most ", options_.most_request_bytes, " bytes.\n")},
           connection);
  } else if (end != std::string_view::npos) {
    AnswerHead(input.substr(0, end), connection);
  }
}

void HttpServer::Drain(Connection* connection) {
  char piece[4096];
  const ssize_t n = recv(connection->file, piece, sizeof(piece), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  connection->drained += static_cast<size_t>(std::max<ssize_t>(n, 0));
  if (n <= 0 || connection->drained > kMostDrained) connection->state = Connection::State::kClosed;
}

void HttpServer::AnswerHead(std::string_view head, Connection* connection) {
  switch (const int refused = ParseHttpRequest(head, own_names_, &connection->request); refused) {
    case 0:
      connection->deadline = Clock::now() + options_.wait_time;
      return AskHandler(connection);
    case 405:
      return Answer({.code = 405, .body = "There is only GET here.\n"}, connection);
    case 421:
      return Answer({.code = 421, .body = "This is not the machine that the request names (Host).\n"},
                    connection);
    default:
      return Answer({.code = refused, .body = "This is not a valid request.\n"}, connection);
  }
}

void HttpServer::AskHandler(Connection* connection) {
  const std::optional<HttpResponse> response = handler_(connection->request);
  if (response.has_value()) return Answer(*response, connection);
  if (connection->request.too_late) {
    return Answer({.code = 500, .body = "No answer is available.\n"}, connection);
  }
  connection->state = Connection::State::kWaiting;
}

void HttpServer::Answer(const HttpResponse& response, Connection* connection) {
  connection->output =
      StrCat("HTTP/1.1 ", response.code, " ", ReasonOf(response.code), "\r\nContent-Type: ", response.type,
             "\r\nContent-Length: ", response.body.size(), "\r\n",
             response.code == 405 ? "Allow: GET\r\n" : "", kHeaders, "\r\n", response.body);
  connection->state = Connection::State::kWriting;
  connection->deadline = Clock::now() + options_.answer_time;
  Write(connection);
}

void HttpServer::Write(Connection* connection) {
  const std::string_view rest = std::string_view(connection->output).substr(connection->written);
  const ssize_t n = send(connection->file, rest.data(), rest.size(), MSG_NOSIGNAL);
  if (n < 0) {
    if (errno != EAGAIN && errno != EINTR) connection->state = Connection::State::kClosed;
    return;
  }
  connection->written += static_cast<size_t>(n);
  connection->deadline = Clock::now() + options_.answer_time;
  if (connection->written < connection->output.size()) return;
  connection->output.clear();
  shutdown(connection->file, SHUT_WR);
  connection->state = Connection::State::kDraining;
  connection->deadline = Clock::now() + kDrainTime;
}

}  // namespace millrace::cli
