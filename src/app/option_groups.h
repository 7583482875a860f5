#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "app/options.h"

namespace partforge::app {

// Options that several commands share; each is defined once.
OptionSpec LeaseTtlOption();                     // of commands that work on parts
OptionSpec MaxCrashesOption();                   // the same
OptionSpec DryRunOption(std::string_view help);  // -n, of commands that write
OptionSpec DetailsOption(std::string_view help);
std::vector<OptionSpec> StateOptions();    // where jobs live
std::vector<OptionSpec> StoreOptions();    // where artifacts live
std::vector<OptionSpec> ServerOptions();   // the ClickHouse server that holds the table
std::vector<OptionSpec> EngineOptions();   // the embedded engine, memory, work folder
std::vector<OptionSpec> RewriteOptions();  // how parts are rewritten
// One after the other; of two options of one name the first stays.
std::vector<OptionSpec> Join(std::initializer_list<std::vector<OptionSpec>> groups);

}  // namespace partforge::app
