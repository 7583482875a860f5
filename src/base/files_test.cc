#include "base/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "base/hash.h"
#include "testing/test_world.h"

namespace partforge {
namespace {

namespace fs = std::filesystem;

void Write(const fs::path& path, std::string_view text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string Names(const fs::path& folder) {
  std::string names;
  for (const FileEntry& entry : ListTree(folder).value()) names += entry.relative_path + " ";
  return names;
}

TEST(Errno, ChoosesTheCodeByWhatTheCallerDoes) {
  EXPECT_EQ(ErrnoStatus(ENOENT, "x").code(), Code::kNotFound);
  EXPECT_EQ(ErrnoStatus(EEXIST, "x").code(), Code::kAlreadyExists);
  EXPECT_EQ(ErrnoStatus(ENOSPC, "x").code(), Code::kExhausted);
  EXPECT_EQ(ErrnoStatus(ENOSPC, "x").explanation().pf_number, 7007);
  for (const int refused : {EACCES, EPERM, EROFS, EMFILE, ENFILE, ENOMEM, EAGAIN}) {
    EXPECT_EQ(ErrnoStatus(refused, "x").explanation().pf_number, 7015) << refused;
    EXPECT_TRUE(IsErrnoOfSurroundings(refused)) << refused;
  }
  for (const int of_the_file :
       {EIO, ENOENT, EEXIST, EISDIR, ENOTDIR, ENAMETOOLONG, ELOOP, EINVAL}) {
    EXPECT_EQ(ErrnoStatus(of_the_file, "x").explanation().pf_number, 7018) << of_the_file;
    EXPECT_FALSE(IsErrnoOfSurroundings(of_the_file)) << of_the_file;
  }
  EXPECT_EQ(ErrnoStatus(EDQUOT, "x").code(), Code::kExhausted);
  EXPECT_EQ(ErrnoStatus(EACCES, "x").code(), Code::kRefused);
  EXPECT_EQ(ErrnoStatus(EXDEV, "x").code(), Code::kInvalidArgument);
  EXPECT_EQ(ErrnoStatus(EIO, "x").code(), Code::kCorruption);
  EXPECT_EQ(ErrnoStatus(EMFILE, "x").code(), Code::kInternal);
  EXPECT_EQ(ErrnoStatus(ENOENT, "open a").message(), "open a: No such file or directory");
}

TEST(UniqueFd, ClosesOnceAndMoves) {
  const testing::TempDir dir;
  UniqueFd fd = OpenFile(dir / "a", O_RDWR | O_CREAT).value();
  const int number = fd.get();
  UniqueFd other = std::move(fd);
  EXPECT_FALSE(fd.is_open());  // NOLINT(bugprone-use-after-move): that is the law
  EXPECT_EQ(other.get(), number);
  EXPECT_TRUE(other.Close().ok());
  EXPECT_FALSE(other.is_open());
  EXPECT_EQ(fcntl(number, F_GETFD), -1);
  {
    const UniqueFd scoped(OpenFile(dir / "a", O_RDONLY).value().Release());
    EXPECT_TRUE(scoped.is_open());
  }
  EXPECT_EQ(fcntl(number, F_GETFD), -1);
}

TEST(ReadAt, GivesAllBytesOrSaysThatTheFileEnds) {
  const testing::TempDir dir;
  Write(dir / "a", "0123456789");
  const UniqueFd fd = OpenFile(dir / "a", O_RDONLY).value();
  std::string out(4, ' ');
  EXPECT_TRUE(ReadAt(fd.get(), 3, std::as_writable_bytes(std::span(out))).ok());
  EXPECT_EQ(out, "3456");
  EXPECT_EQ(ReadAt(fd.get(), 7, std::as_writable_bytes(std::span(out))).code(), Code::kCorruption);
  EXPECT_TRUE(ReadAt(fd.get(), 100, {}).ok());
}

TEST(ReadFile, ReadsAnySizeUpToItsLimit) {
  const testing::TempDir dir;
  const std::string text(200'000, 'x');
  Write(dir / "a", text);
  Write(dir / "empty", "");
  EXPECT_EQ(ReadFile(dir / "a").value(), text);
  EXPECT_EQ(ReadFile(dir / "a", 200'000).value(), text);
  EXPECT_EQ(ReadFile(dir / "empty", 0).value(), "");
  EXPECT_EQ(ReadFile(dir / "a", 199'999).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ReadFile(dir / "none").status().code(), Code::kNotFound);
  EXPECT_FALSE(ReadFile(dir.path()).ok());
  EXPECT_FALSE(ReadFile("/proc/self/status").value().empty());
}

TEST(WriteFileDurably, ReplacesTheFileAndLeavesNothingBeside) {
  const testing::TempDir dir;
  EXPECT_TRUE(WriteFileDurably(dir / "a", "one").ok());
  EXPECT_TRUE(WriteFileDurably(dir / "a", std::string(100'000, '2'), 0640).ok());
  EXPECT_EQ(ReadFile(dir / "a").value(), std::string(100'000, '2'));
  EXPECT_EQ(fs::status(dir / "a").permissions(), fs::perms(0640));
  EXPECT_EQ(Names(dir.path()), "a ");
  EXPECT_EQ(WriteFileDurably(dir / "none/a", "x").code(), Code::kNotFound);
}

TEST(WriteFileDurably, AFailureKeepsTheOldAndNoTemporary) {
  const testing::TempDir dir;
  fs::create_directories(dir / "target/full");
  EXPECT_FALSE(
      WriteFileDurably(dir / "target", "x").ok());  // a folder that is not empty cannot be replaced
  EXPECT_EQ(Names(dir.path()), "target target/full ");
}

TEST(WriteFileDurably, ConcurrentWritersLeaveOneWholeFile) {
  const testing::TempDir dir;
  {
    std::vector<std::jthread> writers;
    for (char c = 'a'; c < 'e'; ++c) {
      writers.emplace_back([&, c] {
        for (int i = 0; i < 20; ++i)
          EXPECT_TRUE(WriteFileDurably(dir / "f", std::string(10'000, c)).ok());
      });
    }
  }
  const std::string text = ReadFile(dir / "f").value();
  EXPECT_EQ(text, std::string(10'000, text.at(0)));
  EXPECT_EQ(Names(dir.path()), "f ");
}

TEST(RenameNoReplace, KeepsWhatIsThere) {
  const testing::TempDir dir;
  Write(dir / "a", "a");
  Write(dir / "b", "b");
  EXPECT_EQ(RenameNoReplace(dir / "a", dir / "b").code(), Code::kAlreadyExists);
  EXPECT_EQ(ReadFile(dir / "b").value(), "b");
  EXPECT_TRUE(RenameNoReplace(dir / "a", dir / "c").ok());
  EXPECT_EQ(RenameNoReplace(dir / "a", dir / "d").code(), Code::kNotFound);
  EXPECT_EQ(Names(dir.path()), "b c ");
}

TEST(MakeDirectories, MakesAllAndAcceptsThoseThatExist) {
  const testing::TempDir dir;
  EXPECT_TRUE(MakeDirectories(dir / "a/b/c").ok());
  EXPECT_TRUE(MakeDirectories(dir / "a/b/c/").ok());
  EXPECT_TRUE(fs::is_directory(dir / "a/b/c"));
  Write(dir / "file", "");
  EXPECT_FALSE(MakeDirectories(dir / "file/x").ok());
  EXPECT_EQ(MakeDirectories(dir / "file").code(), Code::kAlreadyExists);
}

TEST(RemoveTree, RemovesLinksAndNotWhatTheyPointTo) {
  const testing::TempDir dir;
  Write(dir / "kept/x", "x");
  Write(dir / "gone/sub/y", "y");
  fs::create_directory_symlink(dir / "kept", dir / "gone/sub/link");
  EXPECT_TRUE(RemoveTree(dir / "gone").ok());
  EXPECT_TRUE(RemoveTree(dir / "gone").ok());
  EXPECT_TRUE(RemoveTree(dir / "kept/x/below-a-file").ok());
  EXPECT_EQ(Names(dir.path()), "kept kept/x ");
}

TEST(ListNames, IsTheWholeListOrAnError) {
  const testing::TempDir dir;
  Write(dir / "b", "b");
  Write(dir / "a/inner", "i");
  fs::create_symlink("nowhere", dir / "c");
  EXPECT_EQ(ListNames(dir.path()).value(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(ListNames(dir / "absent").status().code(), Code::kNotFound);
  EXPECT_FALSE(ListNames(dir / "b").ok());
  EXPECT_EQ(ListNames(dir.path(), 2).status().code(), Code::kRefused);
}

TEST(ListTree, IsInLexicalOrderWithDirectoriesBeforeTheirFiles) {
  const testing::TempDir dir;
  Write(dir / "b/2", "22");
  Write(dir / "b/10", "");
  Write(dir / "a", "1");
  Write(dir / "b.x", "");
  fs::create_directories(dir / "c/empty");
  const auto entries = ListTree(dir.path()).value();
  EXPECT_EQ(Names(dir.path()), "a b b.x b/10 b/2 c c/empty ");
  EXPECT_EQ(entries[0].size_bytes, 1);
  EXPECT_FALSE(entries[0].is_directory);
  EXPECT_TRUE(entries[1].is_directory);
  EXPECT_EQ(entries[4].size_bytes, 2);
}

TEST(ListTree, RefusesLinksAndDevicesByName) {
  const testing::TempDir dir;
  Write(dir / "d/a", "1");
  fs::create_symlink("a", dir / "d/link");
  const Status status = ListTree(dir.path()).status();
  EXPECT_EQ(status.code(), Code::kRefused);
  EXPECT_NE(status.message().find("d/link"), std::string::npos);
  fs::remove(dir / "d/link");
  ASSERT_EQ(mkfifo((dir / "d/pipe").c_str(), 0600), 0);
  EXPECT_EQ(ListTree(dir.path()).status().code(), Code::kRefused);
}

TEST(ListTree, StopsAtItsLimits) {
  const testing::TempDir dir;
  for (int i = 0; i < 5; ++i) Write(dir / ("f" + std::to_string(i)), "");
  EXPECT_TRUE(ListTree(dir.path(), 5).ok());
  EXPECT_EQ(ListTree(dir.path(), 4).status().code(), Code::kRefused);
  EXPECT_EQ(ListTree(dir / "none").status().code(), Code::kNotFound);
  fs::path deep = dir.path();
  for (int i = 0; i < 210; ++i) fs::create_directory(deep /= "d");
  EXPECT_EQ(ListTree(dir.path()).status().code(), Code::kRefused);
}

TEST(RelativePath, AcceptsPlainNamesBelow) {
  for (const char* path :
       {"a", "a/b", "a.b/c", "...", "a..b", ".hidden", "data/\u00fc.bin", "a b", "*"}) {
    EXPECT_TRUE(CheckRelativePath(path).ok()) << path;
    EXPECT_EQ(JoinBelow("/root", path).value(), fs::path("/root") / path);
  }
  EXPECT_TRUE(CheckRelativePath(std::string(1024, 'x')).ok());
}

TEST(RelativePath, RefusesWhatLeavesOrHides) {
  const std::string_view paths[] = {"",
                                    "/",
                                    "/a",
                                    "a/",
                                    "a//b",
                                    ".",
                                    "..",
                                    "../a",
                                    "a/..",
                                    "a/./b",
                                    "a\\b",
                                    "a\nb",
                                    "a\x7f",
                                    "a\x1b[",
                                    "./a",
                                    "../../etc/cron.d/x",
                                    std::string_view("a\0b", 3)};
  for (const std::string_view path : paths) {
    const auto joined = JoinBelow("/root", path);
    ASSERT_FALSE(joined.ok()) << path;
    EXPECT_EQ(joined.status().code(), Code::kRefused) << path;
    EXPECT_EQ(joined.status().explanation().pf_number, 8006);
    EXPECT_EQ(joined.status().message().find('\n'), std::string::npos);
  }
  EXPECT_FALSE(CheckRelativePath(std::string(1025, 'x')).ok());
}

TEST(OpenBeneath, OpensAndCreatesBelow) {
  const testing::TempDir dir;
  Write(dir / "a/b", "text");
  const UniqueFd folder = OpenFile(dir.path(), O_RDONLY | O_DIRECTORY).value();
  const UniqueFd file = OpenBeneath(folder.get(), "a/b", O_RDONLY).value();
  std::string out(4, ' ');
  EXPECT_TRUE(ReadAt(file.get(), 0, std::as_writable_bytes(std::span(out))).ok());
  EXPECT_EQ(out, "text");
  const UniqueFd made =
      OpenBeneath(folder.get(), "a/new", O_WRONLY | O_CREAT | O_EXCL, 0640).value();
  EXPECT_TRUE(WriteAll(made.get(), AsBytes("x")).ok());
  EXPECT_EQ(ReadFile(dir / "a/new").value(), "x");
  EXPECT_EQ(OpenBeneath(folder.get(), "a/none", O_RDONLY).status().code(), Code::kNotFound);
}

TEST(OpenBeneath, FollowsNoLinkAnywhere) {
  const testing::TempDir dir;
  Write(dir / "outside/secret", "s");
  Write(dir / "root/inside/x", "x");
  fs::create_directory_symlink(dir / "outside", dir / "root/link");
  fs::create_directory_symlink("inside", dir / "root/near");
  fs::create_symlink(dir / "outside/secret", dir / "root/last");
  const UniqueFd folder = OpenFile(dir / "root", O_RDONLY | O_DIRECTORY).value();
  for (const char* path : {"link/secret", "near/x", "last"}) {
    EXPECT_EQ(OpenBeneath(folder.get(), path, O_RDONLY).status().code(), Code::kRefused) << path;
    EXPECT_EQ(internal::WalkBeneath(folder.get(), path, O_RDONLY, 0).status().code(),
              Code::kRefused)
        << path;
  }
  EXPECT_EQ(OpenBeneath(folder.get(), "../outside/secret", O_RDONLY).status().code(),
            Code::kRefused);
}

TEST(OpenBeneath, FallbackWalkOpensTheSameFiles) {
  const testing::TempDir dir;
  Write(dir / "a/b/c", "c");
  const UniqueFd folder = OpenFile(dir.path(), O_RDONLY | O_DIRECTORY).value();
  EXPECT_TRUE(internal::WalkBeneath(folder.get(), "a/b/c", O_RDONLY, 0).ok());
  EXPECT_TRUE(internal::WalkBeneath(folder.get(), "a/new", O_WRONLY | O_CREAT | O_EXCL, 0600).ok());
  EXPECT_EQ(internal::WalkBeneath(folder.get(), "a/x/c", O_RDONLY, 0).status().code(),
            Code::kNotFound);
}

TEST(FileLock, IsHeldByOneUntilDropped) {
  const testing::TempDir dir;
  {
    const auto first = FileLock::TryTake(dir / "lock");
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(FileLock::TryTake(dir / "lock").status().code(), Code::kConflict);
  }
  EXPECT_TRUE(FileLock::TryTake(dir / "lock").ok());
  EXPECT_FALSE(FileLock::TryTake(dir / "none/lock").ok());
}

TEST(FreeBytes, IsPositiveWhereWeTest) {
  const testing::TempDir dir;
  EXPECT_GT(FreeBytes(dir.path()).value(), 0);
  EXPECT_EQ(FreeBytes(dir / "none").status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace partforge
