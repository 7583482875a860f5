#include "base/machine.h"

#include <gtest/gtest.h>

#include <fstream>

#include "testing/test_world.h"

namespace partforge {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// A tree of proc and sys files: 8 CPUs, 16 GiB, no control group, and what a test adds.
class MachineTest : public ::testing::Test {
 protected:
  MachineTest() {
    Put("proc/meminfo", "MemTotal:       16777216 kB\nMemFree:        1 kB\n");
    Put("sys/devices/system/cpu/online", "0-7\n");
  }
  void Put(const std::string& file, std::string_view text) {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  void Drop(const std::string& file) { std::filesystem::remove(root_ / file); }
  MachineLimits Read() {
    const auto limits = ReadMachineLimits(root_.path());
    EXPECT_TRUE(limits.ok()) << (limits.ok() ? "" : limits.status().ToString());
    return limits.ok() ? *limits : MachineLimits{.cpus = -1, .memory_bytes = -1};
  }
  Code Refusal() {
    const auto limits = ReadMachineLimits(root_.path());
    EXPECT_FALSE(limits.ok());
    return limits.ok() ? Code::kInternal : limits.status().code();
  }

 private:
  testing::TempDir root_;
};

TEST_F(MachineTest, WithoutGroupsTheHostDecides) {
  EXPECT_EQ(Read().cpus, 8);
  EXPECT_EQ(Read().memory_bytes, 16 * kGiB);
}

TEST_F(MachineTest, CountsProcessorsWhereTheKernelGivesNoList) {
  Drop("sys/devices/system/cpu/online");
  Put("proc/cpuinfo", "processor\t: 0\nmodel name\t: x\n\nprocessor\t: 1\nmodel name\t: x\n");
  EXPECT_EQ(Read().cpus, 2);
}

TEST_F(MachineTest, UnifiedQuotaRoundsUp) {
  Put("sys/fs/cgroup/cpu.max", "150000 100000\n");
  Put("sys/fs/cgroup/memory.max", "4294967296\n");
  EXPECT_EQ(Read().cpus, 2);
  EXPECT_EQ(Read().memory_bytes, 4 * kGiB);
  Put("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(Read().cpus, 2);
  Put("sys/fs/cgroup/cpu.max", "1000 100000\n");
  EXPECT_EQ(Read().cpus, 1);
}

TEST_F(MachineTest, MaxMeansNone) {
  Put("sys/fs/cgroup/cpu.max", "max 100000\n");
  Put("sys/fs/cgroup/memory.max", "max\n");
  Put("sys/fs/cgroup/cpuset.cpus.effective", "\n");
  EXPECT_EQ(Read().cpus, 8);
  EXPECT_EQ(Read().memory_bytes, 16 * kGiB);
}

TEST_F(MachineTest, ALimitAboveTheHostIsTheHost) {
  Put("sys/fs/cgroup/cpu.max", "6400000 100000\n");
  Put("sys/fs/cgroup/memory.max", "1099511627776\n");
  EXPECT_EQ(Read().cpus, 8);
  EXPECT_EQ(Read().memory_bytes, 16 * kGiB);
}

TEST_F(MachineTest, EveryGroupAboveBindsToo) {
  Put("proc/self/cgroup", "0::/system.slice/worker\n");
  Put("sys/fs/cgroup/system.slice/worker/cpu.max", "500000 100000\n");
  Put("sys/fs/cgroup/system.slice/cpu.max", "300000 100000\n");
  Put("sys/fs/cgroup/system.slice/worker/memory.max", "2147483648\n");
  Put("sys/fs/cgroup/system.slice/memory.max", "max\n");
  Put("sys/fs/cgroup/other/cpu.max", "100000 100000\n");
  EXPECT_EQ(Read().cpus, 3);
  EXPECT_EQ(Read().memory_bytes, 2 * kGiB);
}

TEST_F(MachineTest, AGroupOfAnotherNamespaceSaysNothing) {
  Put("proc/self/cgroup", "0::/../../kubepods/pod1\n");
  Put("sys/fs/cgroup/cpu.max", "400000 100000\n");
  EXPECT_EQ(Read().cpus, 4);
  Put("proc/self/cgroup", "0::/not/mounted/here\n");
  EXPECT_EQ(Read().cpus, 4);
}

TEST_F(MachineTest, FirstVersionOfGroups) {
  Put("proc/self/cgroup", "12:cpuset:/a\n4:cpu,cpuacct:/a\n3:memory:/a\n1:name=systemd:/a\n");
  Put("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n");
  Put("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  Put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1073741824\n");
  Put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Read().cpus, 3);
  EXPECT_EQ(Read().memory_bytes, kGiB);
  Put("sys/fs/cgroup/cpuset/a/cpuset.cpus", "0,5\n");
  EXPECT_EQ(Read().cpus, 2);
}

TEST_F(MachineTest, MinusOneMeansNoQuota) {
  Put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  Put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Read().cpus, 8);
}

TEST_F(MachineTest, CountsTheCpusOfASet) {
  Put("sys/fs/cgroup/cpuset.cpus.effective", "0-1,3,6-7\n");
  EXPECT_EQ(Read().cpus, 5);
  Put("sys/fs/cgroup/cpuset.cpus.effective", "\n");
  Put("sys/fs/cgroup/cpuset.cpus", "2\n");
  EXPECT_EQ(Read().cpus, 1);
}

TEST_F(MachineTest, RefusesZeroAndNonsense) {
  const std::pair<const char*, const char*> bad[] = {
      {"sys/fs/cgroup/cpu.max", "0 100000"},
      {"sys/fs/cgroup/cpu.max", "100000 0"},
      {"sys/fs/cgroup/cpu.max", "100000"},
      {"sys/fs/cgroup/cpu.max", "-5 100000"},
      {"sys/fs/cgroup/cpu.max", ""},
      {"sys/fs/cgroup/memory.max", "0"},
      {"sys/fs/cgroup/memory.max", "4G"},
      {"sys/fs/cgroup/memory.max", "99999999999999999999"},
      {"sys/fs/cgroup/cpuset.cpus", "3-1"},
      {"sys/fs/cgroup/cpuset.cpus", "a"},
      {"sys/fs/cgroup/cpuset.cpus", "0-99999999999"},
      {"sys/fs/cgroup/memory/memory.limit_in_bytes", "0"},
      {"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "0"},
      {"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "1000"},  // and no period
  };
  for (const auto& [file, text] : bad) {
    Put(file, text);
    EXPECT_EQ(Refusal(), Code::kCorruption) << file << ": " << text;
    Drop(file);
  }
  EXPECT_EQ(Read().cpus, 8);
}

TEST_F(MachineTest, RefusesAHostThatSaysNothing) {
  Put("proc/meminfo", "MemFree: 1 kB\n");
  EXPECT_EQ(Refusal(), Code::kCorruption);
  Put("proc/meminfo", "MemTotal: 0 kB\n");
  EXPECT_EQ(Refusal(), Code::kCorruption);
  Drop("proc/meminfo");
  EXPECT_EQ(Refusal(), Code::kNotFound);
}

TEST(Machine, ThisOneHasLimits) {
  const auto limits = ReadMachineLimits();
  ASSERT_TRUE(limits.ok()) << limits.status().ToString();
  EXPECT_GE(limits->cpus, 1);
  EXPECT_GT(limits->memory_bytes, int64_t{64} << 20);
}

}  // namespace
}  // namespace partforge
