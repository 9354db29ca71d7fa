#pragma once
/// Random programs of ops, views, in-place writes, reads and steps, run in three ways: lazily, op
/// by op, and on PlainTensors, where every op sees fresh copies and views are plain strides. All
/// must give the same bits.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/program.h"

namespace hammock::testing {

/// A valid program; the same seed gives the same one. One with gradients has leaves that require
/// them, regions without history, and backward passes, of which one is near the end.
Program GenerateProgram(uint64_t seed, bool gradients = false);

/// A bug put in on purpose: statements for which it holds are left out of the lazy run.
using InjectedBug = std::function<bool(const Program&, const Statement&)>;

/// Runs a program in the three ways. Empty if they agree, else what differs.
std::string FindDifference(const Program& program, const InjectedBug& bug = nullptr);

/// Drops statements, and those that depend on them, as long as `fails` holds. No single statement
/// of the result can be dropped.
Program ShrinkProgram(Program program, const std::function<bool(const Program&)>& fails);

/// How often each op was generated since the process began; tests check that none is forgotten.
const std::map<std::string, int64_t>& GeneratedOps();
/// Internal errors that refused a statement since the process began; there should be none.
const std::vector<std::string>& InternalErrors();

}  // namespace hammock::testing
