// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/watch/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "base/strings.h"

namespace millrace::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Clock = HttpServer::Clock;
using std::chrono::milliseconds;

constexpr const char* kHost = "Host: localhost\r\n";

// A connected client.
class Peer {
 public:
  explicit Peer(int port) : file_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(file_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ~Peer() { Close(); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void Send(std::string_view bytes) {
    EXPECT_EQ(send(file_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  void Close() {
    if (file_ >= 0) close(file_);
    file_ = -1;
  }
  // Appends all received bytes. True: the other side has closed the connection.
  bool Receive(std::string* all) const {
    char piece[65536];
    for (;;) {
      const ssize_t n = recv(file_, piece, sizeof(piece), MSG_DONTWAIT);
      if (n <= 0) return n == 0 || errno != EAGAIN;
      all->append(piece, static_cast<size_t>(n));
    }
  }

 private:
  int file_;
};

class HttpServerTest : public ::testing::Test {
 protected:
  void Listen(HttpServer::Options options) {
    auto server = HttpServer::Listen(options, [this](const HttpRequest& request) { return Handle(request); });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
  }
  void SetUp() override { Listen({}); }

  std::optional<HttpResponse> Handle(const HttpRequest& request) {
    ++asked_;
    if (request.path == "/big") return HttpResponse{.body = std::string(20 << 20, 'x')};
    if (request.path == "/later" && !news_ && !request.too_late) return std::nullopt;
    if (request.path == "/never") return std::nullopt;
    std::string body = StrCat("path ", request.path, request.too_late ? " too late" : "");
    for (const auto& [name, value] : request.query) body += StrCat(" ", name, "=", value);
    return HttpResponse{.body = body};
  }
  void ServeOnce() {
    const auto served = server_->Serve(Clock::now() + milliseconds(2));
    ASSERT_TRUE(served.ok()) << served.status();
  }
  // The response of the server to these bytes, up to the end of the connection.
  std::string Ask(std::string_view bytes) {
    Peer peer(server_->port());
    peer.Send(bytes);
    return AnswerTo(peer);
  }
  std::string AnswerTo(const Peer& peer) {
    std::string all;
    const Clock::time_point deadline = Clock::now() + std::chrono::seconds(60);
    while (!peer.Receive(&all)) {
      ServeOnce();
      if (Clock::now() > deadline) return all + " (never ended)";
    }
    return all;
  }
  std::string Get(const std::string& target) {
    return Ask(StrCat("GET ", target, " HTTP/1.1\r\n", kHost, "\r\n"));
  }

  std::unique_ptr<HttpServer> server_;
  bool news_ = false;
  int asked_ = 0;
};

TEST_F(HttpServerTest, AnswersWithHeadersThatKeepThePageToItself) {
  const std::string answer = Get("/a/b?x=1&y=&z&=2");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Security-Policy: default-src 'none'; "));
  EXPECT_THAT(answer, HasSubstr("\r\nX-Content-Type-Options: nosniff\r\n"));
  EXPECT_THAT(answer, Not(HasSubstr("Access-Control")));
  EXPECT_THAT(answer, ::testing::EndsWith("\r\n\r\npath /a/b =2 x=1 y= z="));
  EXPECT_EQ(server_->url(), StrCat("http://127.0.0.1:", server_->port(), "/"));
}

TEST_F(HttpServerTest, ARequestMayComeInPieces) {
  Peer peer(server_->port());
  for (const char byte : StrCat("GET /x HTTP/1.0\r\n", kHost, "\r\n")) {
    peer.Send({&byte, 1});
    ServeOnce();
  }
  EXPECT_THAT(AnswerTo(peer), HasSubstr("path /x"));
}

TEST_F(HttpServerTest, LargeAnswersArriveWhole) {
  const std::string answer = Get("/big");
  EXPECT_EQ(answer.size() - answer.find("\r\n\r\n") - 4, size_t{20} << 20);
}

TEST_F(HttpServerTest, OnlyGetIsAllowed) {
  for (const char* const method : {"POST", "HEAD", "PUT", "OPTIONS", "get", "CONNECT"}) {
    const std::string answer = Ask(StrCat(method, " / HTTP/1.1\r\n", kHost, "\r\n"));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 405 ")) << method;
    EXPECT_THAT(answer, HasSubstr("\r\nAllow: GET\r\n"));
  }
  EXPECT_EQ(asked_, 0);
}

TEST_F(HttpServerTest, WhatIsNoRequestIsRefused) {
  const std::string host = kHost;
  for (const std::string& request :
       {std::string("\r\n\r\n"), "GET\r\n" + host + "\r\n", "GET / HTTP/2\r\n" + host + "\r\n",
        "GET http://localhost/ HTTP/1.1\r\n" + host + "\r\n", "GET / x HTTP/1.1\r\n" + host + "\r\n",
        std::string("GET / HTTP/1.1\r\n\r\n"), StrCat("GET / HTTP/1.1\r\n", host, host, "\r\n"),
        "GET / HTTP/1.1\r\nno colon\r\n" + host + "\r\n", "GET / HTTP/1.1\r\n: v\r\n" + host + "\r\n",
        "GET / HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\nhello",
        "GET / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\r\n" + host + std::string("X: a\0b\r\n\r\n", 10),
        std::string("\x16\x03\x01\x02\x00\n\n", 7)}) {
    EXPECT_THAT(Ask(request), StartsWith("HTTP/1.1 400 ")) << request;
  }
  EXPECT_EQ(asked_, 0);
}

TEST_F(HttpServerTest, AHostThatIsNotThisMachineIsRefused) {
  for (const char* const host :
       {"localhost", "LocalHost:80", "127.0.0.1", "127.0.0.1:6006", "[::1]:1", "10.0.0.7"}) {
    EXPECT_THAT(Ask(StrCat("GET / HTTP/1.1\r\nhost:  ", host, " \r\n\r\n")), StartsWith("HTTP/1.1 200 "))
        << host;
  }
  for (const char* const host :
       {"example.com", "localhost.example.com", "127.0.0.1.example.com", "", "localhost:x", "[::1", "[::1]x",
        "127.1", "localhost:123456", "[example.com]"}) {
    EXPECT_THAT(Ask(StrCat("GET / HTTP/1.1\r\nHost: ", host, "\r\n\r\n")), StartsWith("HTTP/1.1 421 "))
        << host;
  }
}

TEST_F(HttpServerTest, TheMachineHasNamesOfItsOwn) {
  HttpRequest request;
  const std::vector<std::string> names = {"", "gpu1"};
  EXPECT_EQ(ParseHttpRequest("GET / HTTP/1.1\r\nHost: GPU1:6006", names, &request), 0);
  EXPECT_EQ(ParseHttpRequest("GET / HTTP/1.1\r\nHost: gpu1.example.com", names, &request), 421);
  EXPECT_EQ(ParseHttpRequest("GET / HTTP/1.1\r\nHost:", names, &request), 421);
}

TEST_F(HttpServerTest, TooLongARequestIsRefusedAndStillAnswered) {
  const std::string head = StrCat("GET / HTTP/1.1\r\n", kHost);
  EXPECT_THAT(Ask(head + "X: " + std::string(50'000, 'x') + "\r\n\r\n"), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(Ask(std::string(20'000, 'y')), StartsWith("HTTP/1.1 431 "));
  const std::string just = head + "X: " + std::string(8192 - head.size() - 3, 'x');
  EXPECT_THAT(Ask(just + "\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, AnAnswerMayWaitForNews) {
  Peer peer(server_->port());
  peer.Send(StrCat("GET /later HTTP/1.1\r\n", kHost, "\r\n"));
  while (asked_ < 3) ServeOnce();
  std::string all;
  EXPECT_FALSE(peer.Receive(&all));
  EXPECT_EQ(all, "");
  news_ = true;
  EXPECT_THAT(AnswerTo(peer), HasSubstr("path /later"));
}

TEST_F(HttpServerTest, AWaitEndsInTime) {
  Listen({.wait_time = milliseconds(20)});
  EXPECT_THAT(Get("/later"), HasSubstr("path /later too late"));
  EXPECT_THAT(Get("/never"), StartsWith("HTTP/1.1 500 "));
}

TEST_F(HttpServerTest, APeerThatGoesAwayWhileItWaitsLeavesNothing) {
  Peer peer(server_->port());
  peer.Send(StrCat("GET /later HTTP/1.1\r\n", kHost, "\r\n"));
  while (asked_ == 0) ServeOnce();
  EXPECT_EQ(server_->num_connections(), 1u);
  peer.Close();
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(60);
  while (server_->num_connections() > 0 && Clock::now() < deadline) ServeOnce();
  EXPECT_EQ(server_->num_connections(), 0u);
}

TEST_F(HttpServerTest, ARequestThatDoesNotComeInTimeIsRefused) {
  Listen({.request_time = milliseconds(20)});
  EXPECT_THAT(Ask("GET / HT"), StartsWith("HTTP/1.1 408 "));
  EXPECT_EQ(Ask(""), "");
}

TEST_F(HttpServerTest, APeerThatTakesNothingIsLeft) {
  Listen({.answer_time = milliseconds(20)});
  Peer peer(server_->port());
  peer.Send(StrCat("GET /big HTTP/1.1\r\n", kHost, "\r\n"));
  while (asked_ == 0) ServeOnce();
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(60);
  while (server_->num_connections() > 0 && Clock::now() < deadline) ServeOnce();
  EXPECT_EQ(server_->num_connections(), 0u);
}

TEST_F(HttpServerTest, MoreConnectionsThanAllowedWait) {
  Listen({.most_connections = 2, .request_time = milliseconds(50)});
  std::vector<std::unique_ptr<Peer>> idle;
  idle.reserve(5);
  for (int i = 0; i < 5; ++i) idle.push_back(std::make_unique<Peer>(server_->port()));
  for (int i = 0; i < 5; ++i) {
    ServeOnce();
    EXPECT_LE(server_->num_connections(), 2u);
  }
  EXPECT_THAT(Get("/after"), HasSubstr("path /after"));
}

TEST_F(HttpServerTest, EndsWhenTheOtherFileCanBeRead) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const auto before = server_->Serve(Clock::now(), ends[0]);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  const auto after = server_->Serve(Clock::now() + std::chrono::hours(1), ends[0]);
  close(ends[0]);
  close(ends[1]);
  EXPECT_FALSE(*before);
  EXPECT_TRUE(*after);
}

TEST_F(HttpServerTest, ErrorsNameTheAddress) {
  const auto handler = [](const HttpRequest&) { return std::optional<HttpResponse>(); };
  const auto taken = HttpServer::Listen({.port = server_->port()}, handler);
  EXPECT_EQ(taken.status().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(std::string(taken.status().message()), HasSubstr(StrCat("127.0.0.1:", server_->port())));
  const auto unknown = HttpServer::Listen({.listen = "no such machine"}, handler);
  EXPECT_EQ(unknown.status().code(), ErrorCode::kInvalidArgument);
}

TEST_F(HttpServerTest, AnyBytesGetAnAnswerOrNone) {
  uint64_t state = 7;
  const std::string request = StrCat("GET /x?a=1 HTTP/1.1\r\n", kHost, "Accept: */*\r\n\r\n");
  for (int round = 0; round < 500; ++round) {
    std::string changed = request;
    for (int change = 0; change < 2; ++change) {
      state = state * 6364136223846793005 + 1442695040888963407;
      changed[(state >> 33) % changed.size()] = static_cast<char>(state >> 20);
    }
    HttpRequest parsed;
    const int refused = ParseHttpRequest(changed.substr(0, changed.find("\r\n\r\n")), {}, &parsed);
    EXPECT_TRUE(refused == 0 || refused == 400 || refused == 405 || refused == 421) << refused;
  }
}

}  // namespace
}  // namespace millrace::cli
