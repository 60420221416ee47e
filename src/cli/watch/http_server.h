// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/watch/http_request.h"
#include "millrace/status.h"

namespace millrace::cli {

struct HttpResponse {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

// Serves GET requests, one for each connection, in the thread that calls Serve. Resources of peers are
// limited: connections, request size, time to send a request and to receive the response.
class HttpServer {
 public:
  using Clock = std::chrono::steady_clock;
  struct Options {
    std::string listen = "127.0.0.1";  // an address, or a name of this machine
    int port = 0;                      // 0: one that is free
    size_t most_connections = 64;      // more wait until one of them ends
    size_t most_request_bytes = 8192;
    Clock::duration request_time = std::chrono::seconds(10);
    Clock::duration wait_time = std::chrono::seconds(20);    // for news
    Clock::duration answer_time = std::chrono::seconds(60);  // without progress
  };
  // Empty: there is no response yet; the request is repeated at each call of Serve, and for the last time,
  // with `too_late`, after wait_time.
  using Handler = std::function<std::optional<HttpResponse>(const HttpRequest&)>;

  static StatusOr<std::unique_ptr<HttpServer>> Listen(const Options& options, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // "http://127.0.0.1:6006/".
  std::string url() const;
  int port() const { return port_; }
  size_t num_connections() const { return connections_.size(); }
  // Handles new and waiting requests, and waits for more until the time, or until the file `also` is
  // readable. Returns whether that is the case.
  StatusOr<bool> Serve(Clock::time_point until, int also = -1);

 private:
  struct Connection;
  HttpServer(Options options, Handler handler, int file);

  // Waits for an event; returns true if it is for `also`.
  StatusOr<bool> Poll(Clock::time_point until, int also);
  void Accept();
  void Work(Connection* connection, bool readable, bool writable);
  void ReadRequest(Connection* connection);
  // Reads the rest of a refused request, so that the peer reads the response before the connection ends.
  void Drain(Connection* connection);
  void AnswerHead(std::string_view head, Connection* connection);
  void AskHandler(Connection* connection);
  void Answer(const HttpResponse& response, Connection* connection);
  void Write(Connection* connection);

  const Options options_;
  const std::vector<std::string> own_names_;
  const Handler handler_;
  int file_ = -1;
  int port_ = 0;
  Clock::time_point accept_after_;  // when there was no room for a connection
  std::list<Connection> connections_;
};

}  // namespace millrace::cli
