// Messages of the C interface, put together without a C library.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "abi.h"

namespace cuvil {

inline bool starts_with(const char* text, const char* prefix) {
  while (*prefix && *text == *prefix) ++text, ++prefix;
  return *prefix == 0;
}

inline bool same_text(const char* a, const char* b) {
  while (*a && *a == *b) ++a, ++b;
  return *a == *b;
}

inline bool is_number(const char* text) {
  const char* at = text;
  while (*at >= '0' && *at <= '9') ++at;
  return at != text && *at == 0;
}

// Appends to a status' message; what doesn't fit is cut off between characters. Nothing is
// written before the first << or the final fail() or fine(). Out of line, for the library's size.
class Message {
 public:
  explicit Message(cuvil_status* status, int32_t index = -1, int32_t axis = -1)
      : status_(status), index_(index), axis_(axis) {}

  __attribute__((noinline)) Message& operator<<(const char* text) {
    if (!status_ || full_) return *this;
    while (*text && length_ + 1 < sizeof(status_->message)) {
      status_->message[length_++] = *text++;
    }
    full_ = *text != 0;
    // The start of a character whose rest (UTF-8 continuation bytes) no longer fits goes too.
    if ((*text & 0xc0) == 0x80) {
      while (length_ > 0 && (status_->message[length_ - 1] & 0xc0) == 0x80) --length_;
      if (length_ > 0) --length_;
    }
    status_->message[length_] = 0;
    return *this;
  }

  __attribute__((noinline)) Message& operator<<(int64_t value) {
    char digits[24];
    char* at = digits + sizeof(digits);
    *--at = 0;
    uint64_t rest = value < 0 ? 0 - uint64_t(value) : uint64_t(value);
    do *--at = char('0' + rest % 10);
    while (rest /= 10);
    if (value < 0) *--at = '-';
    return *this << static_cast<const char*>(at);
  }
  Message& operator<<(int32_t value) { return *this << int64_t(value); }
  Message& operator<<(uint64_t value) { return *this << int64_t(value); }

  int32_t fail(int32_t code) {
    if (status_) {
      status_->code = code;
      status_->index = index_;
      status_->axis = axis_;
      status_->reserved = 0;
    }
    return code;
  }

  int32_t fine() {
    if (status_) status_->message[0] = 0;
    return fail(CUVIL_OK);
  }

 private:
  cuvil_status* status_;
  int32_t index_, axis_;
  size_t length_ = 0;
  bool full_ = false;
};

}  // namespace cuvil
