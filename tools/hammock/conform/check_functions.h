#pragma once
/// The checks of the rules, by the file that has them.

#include "conform/rules.h"

namespace hammock::tool {

// ---- data_rules.cpp
std::string Loads(const Subject& subject);
std::string KeepsEveryDType(const Subject& subject);
std::string UploadsAreCopies(const Subject& subject);
std::string GivesMemoryBack(const Subject& subject);

// ---- op_rules.cpp
std::string SamplesAgree(const Subject& subject);
std::string RunsAllPrimitives(const Subject& subject);
std::string AcceptsOddSizes(const Subject& subject);
std::string RaisesBadIndices(const Subject& subject);

// ---- random_programs.cpp
std::string RunsRandomPrograms(const Subject& subject);

// ---- contract_rules.cpp
std::string KeepsWhatIsNotDonated(const Subject& subject);
std::string ObeysMemoryLimits(const Subject& subject);
std::string SavesComputations(const Subject& subject);
std::string Unregisters(const Subject& subject);

// ---- error_rules.cpp
std::string KeepsErrorsWithValues(const Subject& subject);
std::string RunsCloseToItsLimit(const Subject& subject);

// ---- golden_rule.cpp
std::string ReplaysGoldenSuite(const Subject& subject);

// ---- run_rules.cpp
std::string RepeatsRuns(const Subject& subject);
std::string GivesResultsMemory(const Subject& subject);
std::string CopiesData(const Subject& subject);
std::string InstancesAreCompilations(const Subject& subject);
std::string SeedsChangeNoValue(const Subject& subject);
std::string SharesExecutables(const Subject& subject);

// ---- table_rules.cpp
std::string RepeatsCapabilities(const Subject& subject);
std::string KeepsItsFingerprint(const Subject& subject);
std::string GivesHandlesOnce(const Subject& subject);
std::string DescribesExecutables(const Subject& subject);
std::string CountsMemory(const Subject& subject);
std::string KeepsNothingOfFailedCalls(const Subject& subject);

// ---- borrow_rules.cpp
std::string BorrowsArguments(const Subject& subject);

// ---- lend_rules.cpp
std::string LendsMemory(const Subject& subject);

// ---- fault_rules.cpp
std::string ServesThreads(const Subject& subject);
std::string SurvivesFaults(const Subject& subject);

}  // namespace hammock::tool
