#pragma once

#include <vector>

#include "app/command.h"
#include "app/progress_line.h"
#include "clickhouse/upload_freeze.h"

namespace partforge::app {

// The options that upload-freeze, rewrite and plan share, and what they ask for.
std::vector<OptionSpec> UploadOptions();
Result<clickhouse::UploadFreezeRequest> UploadRequestFrom(const CommandInput& input,
                                                          std::vector<std::string> freezes);
// The plan as a table of parts and as a document.
void ShowUploadPlan(const CommandInput& input, std::string_view command,
                    const clickhouse::UploadPlan& plan);
// How far the copy of the plan's parts is, by bytes.
void ShowUploaded(ProgressLine& line, const clickhouse::UploadPlan& plan, int64_t parts,
                  int64_t bytes);

}  // namespace partforge::app
