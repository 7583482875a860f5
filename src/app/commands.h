#pragma once

#include "app/command.h"

namespace partforge::app {

// One function a command, each in cmd_<name>.cc. The list itself is in commands.cc.
Command CheckCommand();
Command CompletionsCommand();
Command ConfigCommand();
Command DebugCommand();
Command DemoCommand();
Command EventsCommand();
Command ExplainCommand();
Command FileConcatCommand();
Command FileInspectCommand();
Command FreezeCommand();
Command GcCommand();
Command ImportFinishedCommand();
Command JobStatusCommand();
Command ListJobsCommand();
Command MigrateCommand();
Command PlanCommand();
Command RetryFailedCommand();
Command RewriteCommand();
Command UploadFreezeCommand();
Command VerifyCommand();
Command VersionCommand();
Command WorkerCommand();

}  // namespace partforge::app
