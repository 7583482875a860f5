#pragma once

#include <map>
#include <memory>
#include <string>

#include "app/command.h"
#include "app/wire.h"
#include "data/file_concat.h"

namespace partforge::app {

// A file as a command names it, taken apart. Pure.
struct FilePlace {
  std::string bucket;  // of s3://bucket/key; empty for a file of this machine
  std::string path;    // the key, or the path as it was given
};
// Takes s3://bucket/key (s3a and s3n are the same), file:///path and plain paths.
// kInvalidArgument (PF1005) for anything else that looks like a URL.
Result<FilePlace> ParseFilePlace(const std::string& text);

// The objects behind the files that a command names, each store opened once. Files of this machine
// belong to a store of their folder; links are followed to where they lead.
class FilePlaces {
 public:
  explicit FilePlaces(const CommandInput& input) : buckets_(input) {}
  // A file that must be there: kNotFound (PF1019) otherwise.
  Result<data::StoredFile> Input(const Context& ctx, const std::string& text);
  // A file to be written; its folder must be there.
  Result<data::StoredFile> Output(const Context& ctx, const std::string& text);
  // Takes away what writing left beside the output: the temporary folder, and after a failure half
  // a file. Best effort.
  void Tidy(const Context& ctx, const data::StoredFile& output, const Status& outcome);

 private:
  Result<ObjectStore*> Folder(const std::string& path);

  BucketStores buckets_;
  std::map<std::string, std::unique_ptr<ObjectStore>> folders_;
};

}  // namespace partforge::app
