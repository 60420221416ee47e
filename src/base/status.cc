// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/status.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <streambuf>

namespace millrace {

std::string_view ErrorCodeName(ErrorCode code) {
  static constexpr std::array<std::string_view, 17> kNames = {
      "OK",        "Cancelled",      "Unknown",           "Invalid argument",   "Deadline exceeded",
      "Not found", "Already exists", "Permission denied", "Resource exhausted", "Failed precondition",
      "Aborted",   "Out of range",   "Unimplemented",     "Internal",           "Unavailable",
      "Data loss", "Unauthenticated"};
  const auto index = static_cast<size_t>(code);
  return index < kNames.size() ? kNames[index] : std::string_view("Unknown code");
}

Status::Status(ErrorCode code, std::string message) {
  if (code != ErrorCode::kOk) rep_ = new Rep{1, code, std::move(message)};
}

void Status::Unref(Rep* rep) {
  // Pairs with the other decrements: the last owner sees all their uses of the text as done.
  if (rep->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) delete rep;
}

const std::string& Status::message() const {
  static const std::string kEmpty;
  return ok() ? kEmpty : rep_->message;
}

std::string Status::ToString() const {
  if (ok()) return "OK";
  return StrCat(ErrorCodeName(code()), ": ", message());
}

Status Status::WithContext(std::string_view context) const {
  if (ok()) return *this;
  return Status(code(), StrCat(message(), context));
}

namespace internal {
namespace {

// An ostream that appends to a string.
class StringBuffer final : public std::streambuf {
 public:
  explicit StringBuffer(std::string& out) : out_(out) {}

 private:
  int_type overflow(int_type c) override {
    if (c != traits_type::eof()) out_.push_back(traits_type::to_char_type(c));
    return traits_type::not_eof(c);
  }
  std::streamsize xsputn(const char* text, std::streamsize n) override {
    out_.append(text, static_cast<size_t>(n));
    return n;
  }

  std::string& out_;
};

template <typename T>
void AppendNumber(T number, std::string* out) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  out->append(digits, static_cast<size_t>(end - digits));
}

}  // namespace

std::string TextPiece::Concatenate(std::initializer_list<TextPiece> pieces) {
  std::string out;
  size_t size = 0;
  for (const TextPiece& piece : pieces) size += piece.kind_ == Kind::kText ? piece.text_.size() : 8;
  out.reserve(size);
  for (const TextPiece& piece : pieces) {
    switch (piece.kind_) {
      case Kind::kText:
        out.append(piece.text_);
        break;
      case Kind::kSigned:
        AppendNumber(piece.signed_, &out);
        break;
      case Kind::kUnsigned:
        AppendNumber(piece.unsigned_, &out);
        break;
      case Kind::kPrinted: {
        StringBuffer buffer(out);
        std::ostream os(&buffer);
        piece.printed_.print(os, piece.printed_.value);
        break;
      }
    }
  }
  return out;
}

void EndWithMessage(std::string_view message) {
  const std::string line = StrCat("millrace: ", message, "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  std::abort();
}

void NoValue(const Status& status) {
  EndWithMessage(StrCat("StatusOr: the value of an error is accessed: ",
                        status.ok() ? std::string("it was moved away") : status.ToString()));
}

Status MakeError(ErrorCode code, std::initializer_list<TextPiece> pieces) {
  return Status(code, TextPiece::Concatenate(pieces));
}

}  // namespace internal

std::ostream& operator<<(std::ostream& os, const Status& status) { return os << status.ToString(); }

}  // namespace millrace
