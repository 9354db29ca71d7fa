#pragma once

#include "hammock/interrupt.h"
#include "hammock/lazy/backend_data.h"

namespace hammock {

/// Waits for a value that the user wants, in a span of its own; see SetWaitCheck.
void WaitForResult(lazy::BackendData& data);

/// While one lives, the calling thread does not hold the lock of a host language; see SetHostLock.
/// The thread holds no mutex at its end: others may wait for that mutex with the host's lock.
class WithoutHostLock {
 public:
  WithoutHostLock();
  ~WithoutHostLock() noexcept(false);  // Python may end a thread by unwinding
  WithoutHostLock(const WithoutHostLock&) = delete;
  WithoutHostLock& operator=(const WithoutHostLock&) = delete;

 private:
  const HostLock* const lock_;
  void* const released_;
};

}  // namespace hammock
