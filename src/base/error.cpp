#include "hammock/error.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/location_scope.h"
#include "base/throw.h"

namespace hammock {
namespace {

constexpr size_t kCodeCount = static_cast<size_t>(ErrorCode::kInternal) + 1;

constexpr auto kCodeNames = [] {
  std::array<std::array<char, 6>, kCodeCount> names{};
  for (size_t i = 0; i < kCodeCount; ++i) {
    names[i] = {
        'H', 'M', '0', '0', static_cast<char>('0' + i / 10), static_cast<char>('0' + i % 10)};
  }
  return names;
}();

}  // namespace

std::string_view ErrorCodeName(ErrorCode code) {
  auto index = static_cast<size_t>(code);
  const auto& name = kCodeNames[index < kCodeCount ? index : 0];
  return {name.data(), name.size()};
}

struct Error::Text {
  Text(ErrorCode code, std::string message_in, std::string where_in)
      : message(std::move(message_in)), where(std::move(where_in)) {
    what = where.empty() ? fmt::format("{} ({})", message, ErrorCodeName(code))
                         : fmt::format("{} [at {}] ({})", message, where, ErrorCodeName(code));
  }

  std::string message;
  std::string where;
  std::string what;
};

Error::Error(ErrorCode code, std::string message)
    : code_(code), text_(std::make_shared<const Text>(code, std::move(message), CurrentWhere())) {}

Error::Error(const Error&) noexcept = default;
Error& Error::operator=(const Error&) noexcept = default;
Error::~Error() = default;

const std::string& Error::message() const noexcept { return text_->message; }
const std::string& Error::where() const noexcept { return text_->where; }
const char* Error::what() const noexcept { return text_->what.c_str(); }

void Error::SetWhere(std::string where) {
  text_ = std::make_shared<const Text>(code_, text_->message, std::move(where));
}

void Error::AddNote(const std::string& note) {
  text_ = std::make_shared<const Text>(code_, text_->message + "; " + note, text_->where);
}

void Error::SetMessage(std::string message) {
  text_ = std::make_shared<const Text>(code_, std::move(message), text_->where);
}

void Error::Raise() const { throw *this; }

std::shared_ptr<Error> Error::Clone() const { return std::make_shared<Error>(*this); }

void FailCheck(const char* condition, const char* file, int line, const std::string& detail) {
  throw InternalError(ErrorCode::kInternal,
                      fmt::format("{}:{}: check failed: {}{}{}", file, line, condition,
                                  detail.empty() ? "" : ": ", detail));
}

}  // namespace hammock
