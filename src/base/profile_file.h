#pragma once
/// The writing half of hammock/profile.h: events in Chrome's JSON Array Format.
///
/// Note [Profiles are whole]: every write to the file ends with the closing bracket, and the next
/// one begins on top of it. So the file is valid JSON whenever the process ends, however it ends.

#include <cstdint>
#include <string>
#include <string_view>

#include "hammock/profile.h"

namespace hammock::profile {

/// Starts, stops or changes the profile as the option `profile_file` says.
void FollowOption();

/// Nanoseconds of a clock that only goes forward.
int64_t Now();

/// The number of the profile that is being written, from 1; 0: none. Who has written something into
/// a profile once remembers it.
uint64_t ProfileNumber();

/// `args` is a JSON object or empty. All of these do nothing where no profile is written.
void WriteSpan(const char* category, std::string_view name, int64_t begin, int64_t end,
               std::string_view args = {});
void WriteInstant(const char* category, std::string_view name, std::string_view args = {});
void WriteCounter(std::string_view name, std::string_view args);
/// Bytes of a device ("cpu:0") in use now, and at the highest point of the run that is under way.
void WriteMemory(std::string_view device, int64_t in_use, int64_t planned);
/// Writes an entry that viewers of profiles ignore and `hammock report` reads.
void WriteMetadata(std::string_view name, std::string_view args);

/// When a span of this thread began or ended last. What spans several calls has to be cut there,
/// for viewers want the spans of a thread one inside the other.
extern constinit thread_local int64_t span_boundary;

/// Makes sure that what was written so far is in the file.
void Flush();

/// A JSON string with its quotes; bytes that are no UTF-8 are replaced.
std::string Quoted(std::string_view text);

}  // namespace hammock::profile
