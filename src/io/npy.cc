// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/npy.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <vector>

#include "base/strings.h"
#include "io/zip_archive.h"

namespace millrace::io {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlign = 64;  // where the elements begin, for programs that map the file
// Strings need more memory than bytes in the file; this limits the memory that a small file can
// request.
constexpr uint64_t kMostUnpacked = 1032;  // times the size of an archive: what deflate can do

Status Bad(const std::string& what, std::string_view why) {
  return errors::InvalidArgument(what, " is not an array that can be read: ", why);
}

// The contents of the dictionary.
struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// Reads the dictionary: a Python literal, of which only what NumPy writes is understood.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& what) : text_(text), what_(what) {}

  StatusOr<Header> Parse() {
    Header h;
    bool seen_descr = false, seen_order = false, seen_shape = false;
    if (!Take('{')) return Bad(what_, "its header is not a dictionary");
    while (!Take('}')) {
      MR_ASSIGN_OR_RETURN(const std::string key, String());
      if (!Take(':')) return Bad(what_, "its header lacks a colon");
      if (key == "descr" && !seen_descr) {
        if (!Peek('\'') && !Peek('"')) return Bad(what_, "records have no element type");
        MR_ASSIGN_OR_RETURN(h.descr, String());
        seen_descr = true;
      } else if (key == "fortran_order" && !seen_order) {
        if (TakeWord("True")) {
          h.fortran_order = true;
        } else if (!TakeWord("False")) {
          return Bad(what_, "fortran_order is neither True nor False");
        }
        seen_order = true;
      } else if (key == "shape" && !seen_shape) {
        MR_ASSIGN_OR_RETURN(h.shape, Shape());
        seen_shape = true;
      } else {
        return Bad(what_, StrCat("its header has '", CEscape(key), "'"));
      }
      if (!Take(',') && !Peek('}')) return Bad(what_, "its header lacks a comma");
    }
    if (!seen_descr || !seen_order || !seen_shape) return Bad(what_, "its header is not complete");
    return h;
  }

 private:
  void SkipSpace() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n' || text_[0] == '\t'))
      text_.remove_prefix(1);
  }
  bool Peek(char c) {
    SkipSpace();
    return !text_.empty() && text_[0] == c;
  }
  bool Take(char c) {
    if (!Peek(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool TakeWord(std::string_view word) {
    SkipSpace();
    return ConsumePrefix(&text_, word);
  }
  StatusOr<std::string> String() {
    SkipSpace();
    if (text_.empty() || (text_[0] != '\'' && text_[0] != '"'))
      return Bad(what_, "its header lacks a string");
    const size_t end = text_.find(text_[0], 1);
    if (end == std::string_view::npos) return Bad(what_, "a string in its header does not end");
    std::string s(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return s;
  }
  StatusOr<std::vector<int64_t>> Shape() {
    std::vector<int64_t> shape;
    if (!Take('(')) return Bad(what_, "its shape is not a tuple");
    while (!Take(')')) {
      SkipSpace();
      size_t digits = 0;
      while (digits < text_.size() && text_[digits] >= '0' && text_[digits] <= '9') ++digits;
      const std::optional<int64_t> size = SafeStringToInt64(text_.substr(0, digits));
      if (!size || shape.size() == TensorShape::kMaxRank) return Bad(what_, "its shape has no sizes");
      shape.push_back(*size);
      text_.remove_prefix(digits);
      TakeWord("L");  // Python 2 wrote it behind numbers
      if (!Take(',') && !Peek(')')) return Bad(what_, "its shape lacks a comma");
    }
    return shape;
  }

  std::string_view text_;
  const std::string& what_;
};

// The type of the elements in the file.
struct ElementType {
  DataType dtype = DataType::kInvalid;
  char kind = 0;
  size_t bytes = 0;  // of an element
  size_t swap = 1;   // pieces of this number of bytes are reversed; 1: none
};

StatusOr<ElementType> ParseDescr(const std::string& descr, const std::string& what) {
  const Status unknown = Bad(what, StrCat("type '", CEscape(descr), "'"));
  if (descr.empty()) return unknown;
  const bool has_order = std::string_view("<>|=").find(descr[0]) != std::string_view::npos;
  const std::string_view rest = std::string_view(descr).substr(has_order ? 1 : 0);
  if (rest.size() < 2 && rest != "?") return unknown;
  ElementType t;
  t.kind = rest[0] == '?' ? 'b' : rest[0];
  const std::optional<int64_t> size = rest == "?" ? 1 : SafeStringToInt64(rest.substr(1));
  if (!size || *size < 0 || *size > INT32_MAX) return unknown;
  t.bytes = static_cast<size_t>(*size);
  struct Row {
    char kind;
    int64_t size;
    DataType dtype;
  };
  static constexpr Row kRows[] = {
      {'b', 1, DataType::kBool},      {'i', 1, DataType::kInt8},        {'i', 2, DataType::kInt16},
      {'i', 4, DataType::kInt32},     {'i', 8, DataType::kInt64},       {'u', 1, DataType::kUint8},
      {'u', 2, DataType::kUint16},    {'u', 4, DataType::kUint32},      {'u', 8, DataType::kUint64},
      {'f', 2, DataType::kHalf},      {'f', 4, DataType::kFloat},       {'f', 8, DataType::kDouble},
      {'c', 8, DataType::kComplex64}, {'c', 16, DataType::kComplex128},
  };
  for (const Row& row : kRows) {
    if (row.kind == t.kind && row.size == *size) t.dtype = row.dtype;
  }
  if (t.kind == 'S' || t.kind == 'U') t.dtype = DataType::kString;
  if (t.dtype == DataType::kInvalid) return unknown;
  if (t.kind == 'U') t.bytes *= 4;
  if (descr[0] == '>') t.swap = t.kind == 'c' ? t.bytes / 2 : t.kind == 'U' ? 4 : t.kind == 'S' ? 1 : t.bytes;
  return t;
}

void AppendUtf8(uint32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out->push_back(static_cast<char>(0xc0 | c >> 6));
    out->push_back(static_cast<char>(0x80 | (c & 0x3f)));
  } else if (c < 0x10000) {
    out->push_back(static_cast<char>(0xe0 | c >> 12));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3f)));
  } else {
    out->push_back(static_cast<char>(0xf0 | c >> 18));
    out->push_back(static_cast<char>(0x80 | (c >> 12 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3f)));
  }
}

Status ReadString(std::string_view element, const ElementType& t, const std::string& what, std::string* out) {
  if (t.kind == 'S') {
    const size_t end = element.find_last_not_of('\0');
    *out = std::string(element.substr(0, end == std::string_view::npos ? 0 : end + 1));
    return Status();
  }
  size_t end = element.size();
  while (end >= 4 && element.substr(end - 4, 4) == std::string_view("\0\0\0\0", 4)) end -= 4;
  for (size_t i = 0; i < end; i += 4) {
    uint32_t c = 0;
    for (size_t b = 0; b < 4; ++b) {
      const size_t at = t.swap == 4 ? 3 - b : b;
      c |= uint32_t{static_cast<unsigned char>(element[i + at])} << (8 * b);
    }
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return errors::DataLoss(what, ": invalid character");
    AppendUtf8(c, out);
  }
  return Status();
}

Status ReadElement(std::string_view bytes, const ElementType& t, int64_t to, const std::string& what,
                   Tensor* tensor) {
  if (t.dtype == DataType::kString) return ReadString(bytes, t, what, &tensor->data<std::string>()[to]);
  char* out = static_cast<char*>(tensor->raw_data()) + to * static_cast<int64_t>(t.bytes);
  if (t.dtype == DataType::kBool) {
    *out = bytes[0] != 0 ? 1 : 0;
    return Status();
  }
  std::memcpy(out, bytes.data(), t.bytes);
  for (size_t i = 0; t.swap > 1 && i < t.bytes; i += t.swap) std::reverse(out + i, out + i + t.swap);
  return Status();
}

// Where the elements of an array in Fortran's order, whose first index runs fastest, lie in a tensor.
class FortranOrder {
 public:
  explicit FortranOrder(const TensorShape& shape) : dims_(static_cast<size_t>(shape.rank())) {
    int64_t stride = 1;
    for (int i = shape.rank() - 1; i >= 0; --i) {
      dims_[i] = {.size = shape.dim(i), .stride = stride};
      stride *= shape.dim(i);
    }
  }

  int64_t position() const { return position_; }

  void Next() {
    for (Dim& dim : dims_) {
      position_ += dim.stride;
      if (++dim.index < dim.size) break;
      position_ -= dim.stride * dim.index;
      dim.index = 0;
    }
  }

 private:
  struct Dim {
    int64_t size = 0;
    int64_t stride = 0;
    int64_t index = 0;
  };
  std::vector<Dim> dims_;
  int64_t position_ = 0;
};

Status ReadElements(std::string_view data, const ElementType& t, bool fortran, const std::string& what,
                    Tensor* tensor) {
  const int64_t n = tensor->num_elements();
  if (n == 0) return Status();
  if (!fortran && t.swap == 1 && t.dtype != DataType::kString && t.dtype != DataType::kBool) {
    std::memcpy(tensor->raw_data(), data.data(), static_cast<size_t>(n) * t.bytes);
    return Status();
  }
  FortranOrder order(tensor->shape());
  for (int64_t from = 0; from < n; ++from) {
    MR_RETURN_IF_ERROR(ReadElement(data.substr(static_cast<size_t>(from) * t.bytes, t.bytes), t,
                                   fortran ? order.position() : from, what, tensor));
    if (fortran) order.Next();
  }
  return Status();
}

StatusOr<std::string> Descr(const Tensor& tensor, size_t* string_bytes) {
  switch (tensor.dtype()) {
    case DataType::kBool:
      return std::string("|b1");
    case DataType::kInt8:
      return std::string("|i1");
    case DataType::kUint8:
      return std::string("|u1");
    case DataType::kInt16:
    case DataType::kInt32:
    case DataType::kInt64:
      return StrCat("<i", DataTypeSize(tensor.dtype()));
    case DataType::kUint16:
    case DataType::kUint32:
    case DataType::kUint64:
      return StrCat("<u", DataTypeSize(tensor.dtype()));
    case DataType::kHalf:
    case DataType::kFloat:
    case DataType::kDouble:
      return StrCat("<f", DataTypeSize(tensor.dtype()));
    case DataType::kComplex64:
    case DataType::kComplex128:
      return StrCat("<c", DataTypeSize(tensor.dtype()));
    case DataType::kString: {
      *string_bytes = 1;  // NumPy has no empty type
      for (const std::string& s : tensor.flat<std::string>()) {
        if (!s.empty() && s.back() == '\0')
          return errors::Unimplemented("NumPy's strings can't end in a zero byte");
        *string_bytes = std::max(*string_bytes, s.size());
      }
      return StrCat("|S", *string_bytes);
    }
    default:
      return errors::InvalidArgument("NumPy has no counterpart of ", DataTypeName(tensor.dtype()));
  }
}

std::string WithoutSuffix(std::string_view name) {
  ConsumeSuffix(&name, ".npy");
  return std::string(name);
}

}  // namespace

StatusOr<Tensor> ParseNpy(std::string_view bytes, const std::string& what) {
  // Strings of no length take none of the bytes, but memory: an archive could hold any number of them.
  const uint64_t most_empty_strings = bytes.size();
  if (!ConsumePrefix(&bytes, kMagic) || bytes.size() < 2) return Bad(what, "its magic string is missing");
  const int major = static_cast<unsigned char>(bytes[0]);
  bytes.remove_prefix(2);
  const size_t width = major == 1 ? 2 : 4;
  if (major < 1 || major > 3) return Bad(what, StrCat("version ", major));
  if (bytes.size() < width) return errors::DataLoss(what, ": truncated header");
  size_t length = 0;
  for (size_t i = 0; i < width; ++i) length |= size_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  bytes.remove_prefix(width);
  if (bytes.size() < length) return errors::DataLoss(what, ": truncated header");
  MR_ASSIGN_OR_RETURN(const Header header, HeaderParser(bytes.substr(0, length), what).Parse());
  bytes.remove_prefix(length);
  MR_ASSIGN_OR_RETURN(const ElementType type, ParseDescr(header.descr, what));
  MR_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make(header.shape));
  const auto n = static_cast<uint64_t>(shape.num_elements());
  if (n > (type.bytes == 0 ? most_empty_strings : bytes.size() / type.bytes)) {
    return errors::DataLoss(what, ": truncated array: shape ", shape.ToString(), " of ", type.bytes,
                            " bytes an element, but ", bytes.size(), " bytes are present");
  }
  MR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(type.dtype, shape));
  MR_RETURN_IF_ERROR(ReadElements(bytes, type, header.fortran_order, what, &tensor));
  return tensor;
}

StatusOr<std::string> NpyBytes(const Tensor& tensor) {
  size_t string_bytes = 0;
  MR_ASSIGN_OR_RETURN(const std::string descr, Descr(tensor, &string_bytes));
  std::string header = StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (");
  for (const int64_t size : tensor.shape().dims()) header += StrCat(size, ", ");
  if (tensor.rank() > 1) header.resize(header.size() - 2);
  if (tensor.rank() == 1) header.resize(header.size() - 1);
  header += "), }";
  const size_t prefix = kMagic.size() + 4;
  header.append(kAlign - (prefix + header.size() + 1) % kAlign, ' ');
  header += '\n';
  std::string out(kMagic);
  out += std::string_view("\x01\x00", 2);
  out += static_cast<char>(header.size() & 0xff);
  out += static_cast<char>(header.size() >> 8);
  out += header;
  if (tensor.dtype() == DataType::kString) {
    for (const std::string& s : tensor.flat<std::string>())
      out.append(s).append(string_bytes - s.size(), '\0');
  } else {
    out.append(static_cast<const char*>(tensor.raw_data()), tensor.num_bytes());
  }
  return out;
}

StatusOr<Tensor> ReadNpyFile(Env& env, const std::string& path) {
  MR_ASSIGN_OR_RETURN(const std::string bytes, ReadFileToString(env, path));
  return ParseNpy(bytes, path);
}

Status WriteNpyFile(Env& env, const std::string& path, const Tensor& tensor) {
  MR_ASSIGN_OR_RETURN(const std::string bytes, NpyBytes(tensor));
  return WriteFileAtomically(env, path, bytes);
}

StatusOr<std::map<std::string, Tensor>> ParseNpz(std::string_view bytes, const std::string& what) {
  MR_ASSIGN_OR_RETURN(const std::vector<ZipMember> members, ListZip(bytes, what));
  std::map<std::string, Tensor> arrays;
  uint64_t total = 0;
  for (const ZipMember& member : members) {
    // Members may share their bytes, but only malicious archives do.
    total += std::min<uint64_t>(member.size, kMostUnpacked * bytes.size() + 1);
    if (total > kMostUnpacked * bytes.size())
      return errors::DataLoss(what, ": its arrays would be larger than its data allows");
    MR_ASSIGN_OR_RETURN(const std::string unpacked, UnpackZipMember(member, what));
    const std::string name = WithoutSuffix(member.name);
    MR_ASSIGN_OR_RETURN(Tensor tensor, ParseNpy(unpacked, StrCat(what, ": ", name)));
    if (!arrays.emplace(name, std::move(tensor)).second)
      return errors::DataLoss(what, ": two arrays are called '", name, "'");
  }
  return arrays;
}

StatusOr<std::string> NpzBytes(const std::map<std::string, Tensor>& arrays) {
  ZipWriter zip;
  for (const auto& [name, tensor] : arrays) {
    MR_ASSIGN_OR_RETURN(const std::string bytes, NpyBytes(tensor));
    MR_RETURN_IF_ERROR(zip.Add(name + ".npy", bytes));
  }
  return std::move(zip).Finish();
}

StatusOr<std::map<std::string, Tensor>> ReadNpzFile(Env& env, const std::string& path) {
  MR_ASSIGN_OR_RETURN(const std::string bytes, ReadFileToString(env, path));
  return ParseNpz(bytes, path);
}

Status WriteNpzFile(Env& env, const std::string& path, const std::map<std::string, Tensor>& arrays) {
  MR_ASSIGN_OR_RETURN(const std::string bytes, NpzBytes(arrays));
  return WriteFileAtomically(env, path, bytes);
}

}  // namespace millrace::io
