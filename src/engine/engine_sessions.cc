#include "engine/engine_sessions.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "engine/clickhouse_codes.h"

namespace partforge {
namespace {
constexpr size_t kSessionsMax = 1'000;
}  // namespace

ConnectionLease::~ConnectionLease() {
  connection.reset();
  release();
}

EngineSessions::EngineSessions(std::shared_ptr<const ChdbLibrary> library,
                               std::vector<std::string> arguments)
    : library_(std::move(library)), arguments_(std::move(arguments)) {}

Result<std::unique_ptr<ChdbConnection>> EngineSessions::OpenConnection() const {
  return ChdbConnection::Open(library_, arguments_);
}

Result<std::shared_ptr<ConnectionLease>> EngineSessions::Take(const LeaseRequest& request) {
  {
    const std::lock_guard lock(mutex_);
    if (!running_ids_.insert(request.query_id).second) {
      return FromClickHouseCode(
          216, fmt::format("Query with id = {} is already running", request.query_id));
    }
  }
  const auto lease = std::make_shared<ConnectionLease>([] {});
  lease->release = [this, query_id = request.query_id] { Release(query_id, ""); };
  if (request.session_id.empty()) {
    PF_ASSIGN(lease->connection, OpenConnection());
    return lease;
  }
  PF_TRY(TakeSession(request, *lease));
  lease->release = [this, query_id = request.query_id, session = request.session_id] {
    Release(query_id, session);
  };
  return lease;
}

Status EngineSessions::TakeSession(const LeaseRequest& request, ConnectionLease& lease) {
  CloseIdle();
  {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(request.session_id);
    if (found == sessions_.end() && request.must_exist) {
      return FromClickHouseCode(372, fmt::format("Session {} not found", request.session_id));
    }
    if (found == sessions_.end() && sessions_.size() >= kSessionsMax) {
      return FromClickHouseCode(202, fmt::format("Too many sessions. Maximum: {}", kSessionsMax));
    }
    Session& session = found == sessions_.end() ? sessions_[request.session_id] : found->second;
    if (session.is_busy) {
      return FromClickHouseCode(
          373, fmt::format("Session {} is locked by a concurrent client", request.session_id));
    }
    session.is_busy = true;
    session.idle_ms = request.session_idle_ms;
    lease.connection = session.connection;
  }
  if (lease.connection) return {};
  auto opened = OpenConnection();  // outside the lock: it can take a while
  const std::lock_guard lock(mutex_);
  if (!opened.ok()) {
    sessions_.erase(request.session_id);
    return std::move(opened).status();
  }
  Session& session = sessions_[request.session_id];
  session.connection = std::move(opened).value();
  lease.connection = session.connection;
  return {};
}

void EngineSessions::Release(const std::string& query_id, const std::string& session_id) {
  const std::lock_guard lock(mutex_);
  running_ids_.erase(query_id);
  const auto session = sessions_.find(session_id);
  if (session == sessions_.end()) return;
  session->second.is_busy = false;
  session->second.last_used_ms = MonotonicMs();
}

void EngineSessions::CloseIdle() {
  std::vector<std::shared_ptr<ChdbConnection>> closing;  // closed behind the lock
  const std::lock_guard lock(mutex_);
  for (auto session = sessions_.begin(); session != sessions_.end();) {
    const Session& state = session->second;
    const bool is_over = !state.is_busy && MonotonicMs() - state.last_used_ms > state.idle_ms;
    if (is_over) closing.push_back(state.connection);
    session = is_over ? sessions_.erase(session) : std::next(session);
  }
}

void EngineSessions::CloseAll() {
  std::map<std::string, Session> closing;
  const std::lock_guard lock(mutex_);
  closing.swap(sessions_);
}

}  // namespace partforge
