#pragma once

#include "base/context.h"
#include "job/commit.h"
#include "job/kind.h"

namespace partforge {

// Publishes without a job store: Prepare → Inspect → Stage → Apply → Clean, for `commit
// RESULT.json…` and the Python builder. The caller keeps the identity (id, epoch, serial) and
// passes the same one again after a failure; that is safe only for tables whose commit is one
// compare-and-set carrying this identity (Iceberg, Paimon). Returns the commit as CLEANED with its
// evidence; one that Inspect finds applied already is not applied again (evidence "{}").
// kUnknownOutcome: call again with the same identity.
Result<Commit> CommitDirect(const Context& ctx, Committer& committer, const Commit& commit);

}  // namespace partforge
