#include "plugins/status.h"

#include <fmt/format.h>

#include <new>

#include "hammock/lazy/backend_interface.h"

namespace hammock::plugins {
namespace {

/// The code of a status, and the class that is thrown for it. The first row with a code gives its
/// status.
struct Row {
  HammockStatus status;
  ErrorCode code;
  std::shared_ptr<Error> (*make)(ErrorCode code, std::string message);
};

template <class E>
std::shared_ptr<Error> Make(ErrorCode code, std::string message) {
  return std::make_shared<E>(code, std::move(message));
}

constexpr Row kRows[] = {
    {HAMMOCK_VALUE_ERROR, ErrorCode::kValue, Make<ValueError>},
    {HAMMOCK_NOT_SUPPORTED, ErrorCode::kNotSupported, Make<NotSupported>},
    {HAMMOCK_COMPILE_ERROR, ErrorCode::kCompile, Make<CompileError>},
    {HAMMOCK_EXECUTE_ERROR, ErrorCode::kExecute, Make<DeviceError>},
    {HAMMOCK_TRANSFER_ERROR, ErrorCode::kTransfer, Make<DeviceError>},
    {HAMMOCK_OUT_OF_MEMORY, ErrorCode::kOutOfMemory, Make<OutOfMemory>},
    {HAMMOCK_DEVICE_ERROR, ErrorCode::kDevice, Make<DeviceError>},
    {HAMMOCK_INTERNAL_ERROR, ErrorCode::kInternal, Make<InternalError>},
    {HAMMOCK_INDEX_ERROR, ErrorCode::kIndexOutOfRange, Make<ValueError>},
    {HAMMOCK_STALE_HANDLE, ErrorCode::kInternal, Make<InternalError>},
    {HAMMOCK_WRONG_THREAD, ErrorCode::kInternal, Make<InternalError>},
};

HammockStatus StatusOf(const Error& error) {
  for (const Row& row : kRows) {
    if (row.code == error.code()) return row.status;
  }
  if (dynamic_cast<const ValueError*>(&error)) return HAMMOCK_VALUE_ERROR;
  if (dynamic_cast<const NotSupported*>(&error)) return HAMMOCK_NOT_SUPPORTED;
  if (dynamic_cast<const InternalError*>(&error)) return HAMMOCK_INTERNAL_ERROR;
  return HAMMOCK_DEVICE_ERROR;
}

}  // namespace

HammockWriter Into(Collected<std::string>& text) {
  return {&text, [](void* context, const void* bytes, uint64_t size) noexcept {
            static_cast<Collected<std::string>*>(context)->Try([&](std::string& written) {
              if (bytes) written.append(static_cast<const char*>(bytes), size);
            });
          }};
}

void ErrorText::Append(void* text, const void* bytes, uint64_t size) noexcept {
  try {
    if (bytes) static_cast<std::string*>(text)->append(static_cast<const char*>(bytes), size);
  } catch (const std::exception&) {
  }
}

std::shared_ptr<Error> ErrorOf(HammockStatus status, const std::string& text, const std::string& op,
                               int32_t node) {
  std::string message = op.empty() ? text : fmt::format("{}: {}", op, text);
  if (text.empty()) message += fmt::format("an error without a text (status {})", status);
  for (const Row& row : kRows) {
    if (row.status != status) continue;
    if (node >= 0) {
      return std::make_shared<lazy::ExecutionError>(row.code, std::move(message), NodeId(node));
    }
    return row.make(row.code, std::move(message));
  }
  return std::make_shared<InternalError>(ErrorCode::kInternal,
                                         fmt::format("{} (unknown status {})", message, status));
}

HammockStatus WriteError(const Error& thrown, HammockError* error) noexcept {
  if (!error) return StatusOf(thrown);
  if (const auto* execution = dynamic_cast<const lazy::ExecutionError*>(&thrown)) {
    error->node = execution->node().number();
  }
  hammock_write(error->text, thrown.message().c_str());
  return StatusOf(thrown);
}

HammockStatus WriteCurrentError(HammockError* error) noexcept {
  auto write = [error](const char* text) {
    if (error) hammock_write(error->text, text);
  };
  try {
    throw;
  } catch (const Error& thrown) {
    return WriteError(thrown, error);
  } catch (const std::bad_alloc&) {
    write("out of host memory");
    return HAMMOCK_OUT_OF_MEMORY;
  } catch (const std::exception& thrown) {
    write(thrown.what());
    return HAMMOCK_INTERNAL_ERROR;
  } catch (...) {
    write("an exception of an unknown type");
    return HAMMOCK_INTERNAL_ERROR;
  }
}

}  // namespace hammock::plugins
