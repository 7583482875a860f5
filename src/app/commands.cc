#include "app/commands.h"

#include <vector>

namespace partforge::app {

std::span<const Command> Commands() {
  static const std::vector<Command> kCommands = {
      DemoCommand(),         RewriteCommand(),     FreezeCommand(),
      UploadFreezeCommand(), WorkerCommand(),      ImportFinishedCommand(),
      ListJobsCommand(),     JobStatusCommand(),   EventsCommand(),
      RetryFailedCommand(),  CheckCommand(),       PlanCommand(),
      VerifyCommand(),       GcCommand(),          FileInspectCommand(),
      FileConcatCommand(),   MigrateCommand(),     ConfigCommand(),
      ExplainCommand(),      CompletionsCommand(), VersionCommand(),
      DebugCommand(),
  };
  return kCommands;
}

std::vector<CommandSpec> CommandSpecs() {
  std::vector<CommandSpec> specs;
  for (const Command& command : Commands()) specs.push_back(command.spec);
  return specs;
}

}  // namespace partforge::app
