#pragma once

namespace hammock::tool {

/// The files in report/, which the build turns into code. The page has the marks /*STYLE*/,
/// /*SCRIPT*/ and /*DATA*/.
extern const char kReportHtml[];
extern const char kReportCss[];
extern const char kReportScript[];

}  // namespace hammock::tool
