"""Every route of the server. What is not here does not exist, and what is here is in `openapi.json`."""

from __future__ import annotations

from quire.server import answers
from quire.server.handlers import (
    agents,
    branches,
    changes,
    commits,
    consumers,
    credentials,
    graph,
    history,
    merges,
    sql,
    system,
    tables,
    transactions,
    upkeep,
)
from quire.server.handlers.history import OnBranch
from quire.server.routes import LAKE, Route
from quire.server.row_formats import ARROW, NDJSON, STREAMS

AGENTS = (
    Route(
        "POST", "/mcp/{lake}", "agents", "Answer one message of an agent (MCP).", agents.answer, "read",
        media=("application/json",), follows=True, audited=True,
    ),
)  # fmt: skip

SYSTEM = (
    Route("GET", "/healthz", "health", "Say that the server runs.", system.health, "public", answer=answers.Health),
    Route(
        "GET", "/readyz", "ready", "Say whether the server takes work.", system.ready, "public", answer=answers.Health
    ),
    Route("GET", "/openapi.json", "openapi", "Describe every address.", system.openapi, "public"),
    Route("GET", "/metrics", "metrics", "Count what the server did.", system.metrics, "any", media=("text/plain",)),
    Route("GET", "/v1/lakes", "lakes", "List the lakes.", system.lakes, "any", answer=answers.Lakes),
)

READING = (
    Route(
        "GET", f"{LAKE}/tables", "tables", "List the tables of a commit.", tables.tables,
        query=tables.At, answer=answers.Tables,
    ),
    Route(
        "GET", f"{LAKE}/tables/{{table}}", "table", "Describe a table.", tables.table,
        query=tables.At, answer=answers.TableDescription,
    ),
    Route(
        "GET", f"{LAKE}/tables/{{table}}/rows", "rows", "Read or search the rows of a table.", tables.rows,
        query=tables.RowsAsked, answer=answers.Page, media=STREAMS,
    ),
    Route(
        "POST", f"{LAKE}/tables/{{table}}/rows", "find-rows", "Read rows by a question too long for an address.",
        tables.find, body=tables.RowsAsked, answer=answers.Page, media=STREAMS,
    ),
    Route(
        "GET", f"{LAKE}/tables/{{table}}/count", "count", "Count the rows of a table.", tables.count,
        query=tables.CountAsked, answer=answers.Count,
    ),
    Route(
        "GET", f"{LAKE}/tables/{{table}}/history", "history", "List the versions of one row.", tables.history,
        query=tables.HistoryAsked, answer=answers.History,
    ),
    Route(
        "POST", f"{LAKE}/sql", "sql", "Run one SELECT over all tables of a commit.", sql.sql,
        query=tables.At, body=sql.Query, answer=answers.Page, media=STREAMS,
    ),
    Route(
        "GET", f"{LAKE}/commits", "commits", "List the commits of a branch, newest first.", history.log,
        query=history.LogAsked, answer=answers.Commits,
    ),
    Route(
        "GET", f"{LAKE}/commits/{{commit}}", "commit", "Show a commit, with what it cost.", history.show,
        query=OnBranch, answer=answers.Commit,
    ),
    Route(
        "GET", f"{LAKE}/diff/{{a}}/{{b}}", "diff", "Compare two commits; HEAD is the newest one.", history.diff,
        query=history.DiffAsked, answer=answers.Difference,
    ),
    Route(
        "GET", f"{LAKE}/diff/{{a}}/{{b}}/{{table}}", "diff-rows", "Read the rows of a table that differ.",
        history.diff_rows, query=history.DiffRowsAsked, answer=answers.Page, media=STREAMS,
    ),
    Route(
        "GET", f"{LAKE}/outcomes/{{write}}", "outcome", "Find out whether a commit landed.", history.outcome,
        query=OnBranch, answer=answers.Outcome,
    ),
    Route(
        "GET", f"{LAKE}/branches", "branches", "List the branches.", branches.branches, answer=answers.Branches,
    ),
    Route(
        "POST", f"{LAKE}/credentials", "credentials", "Give credentials that read the files of some tables.",
        credentials.credentials, body=credentials.CredentialsAsked, answer=answers.Credentials,
    ),
    Route("GET", f"{LAKE}/tags", "tags", "List the tags.", branches.tags, answer=answers.Tags),
    Route(
        "GET", f"{LAKE}/changes", "changes", "Read what changed, commit by commit, and wait for more.",
        changes.changes, query=changes.ChangesAsked, answer=answers.Changes, media=(changes.EVENTS, ARROW),
        follows=True,
    ),
    Route(
        "POST", f"{LAKE}/changes/baseline", "baseline", "Read all rows, and the cursor from which the feed goes on.",
        changes.baseline, body=changes.BaselineAsked, media=(NDJSON,),
    ),
)  # fmt: skip

WRITING = (
    Route(
        "POST", f"{LAKE}/commits", "commit-new", "Commit statements on any tables, all or none.", commits.commit,
        "write", body=commits.NewCommit, multipart=True, answer=answers.Receipt,
    ),
    Route(
        "POST", f"{LAKE}/commits/{{commit}}/revert", "revert", "Undo a commit with a new commit.", merges.revert,
        "write", body=merges.Picking, answer=answers.Merge,
    ),
    Route(
        "POST", f"{LAKE}/commits/{{commit}}/cherry-pick", "cherry-pick", "Do here what a commit did on another branch.",
        merges.cherry_pick, "write", body=merges.Picking, answer=answers.Merge,
    ),
    Route(
        "POST", f"{LAKE}/restore", "restore", "Bring tables back to an earlier commit.", commits.restore, "write",
        body=commits.Restoring, answer=answers.Receipt,
    ),
    Route(
        "POST", f"{LAKE}/branches/{{branch}}/fast-forward", "fast-forward", "Fast-forward a branch to another.",
        commits.fast_forward, "write", body=commits.FastForwarding, answer=answers.Receipt,
    ),
    Route(
        "POST", f"{LAKE}/branches", "create-branch", "Create a branch.", branches.create_branch, "write",
        body=branches.NewBranch, answer=answers.Branch, status=201, audited=True,
    ),
    Route(
        "DELETE", f"{LAKE}/branches/{{branch}}", "delete-branch", "Delete a branch.", branches.delete_branch, "admin",
        status=204, audited=True,
    ),
    Route(
        "POST", f"{LAKE}/tags", "create-tag", "Name a commit.", branches.create_tag, "write",
        body=branches.NewTag, answer=answers.Tag, status=201, audited=True,
    ),
    Route(
        "DELETE", f"{LAKE}/tags/{{tag}}", "delete-tag", "Delete a tag.", branches.delete_tag, "admin", status=204,
        audited=True,
    ),
)  # fmt: skip

TRANSACTION = f"{LAKE}/transactions/{{id}}"

TRANSACTIONS = (
    Route(
        "POST", f"{LAKE}/transactions", "begin", "Begin a transaction of several requests.", transactions.begin,
        "write", body=transactions.NewTransaction, answer=answers.Begun, status=201,
    ),
    Route(
        "POST", f"{TRANSACTION}/operations", "operations", "Run statements in a transaction.", transactions.run,
        "write", body=transactions.Statements, multipart=True, answer=answers.Results,
    ),
    Route(
        "GET", f"{TRANSACTION}/tables", "transaction-tables", "List the tables as a transaction sees them.",
        transactions.tables, "write", answer=answers.Names,
    ),
    Route(
        "GET", f"{TRANSACTION}/tables/{{table}}", "transaction-table", "Describe a table as a transaction sees it.",
        transactions.table, "write", answer=answers.TransactionTable,
    ),
    Route(
        "GET", f"{TRANSACTION}/tables/{{table}}/rows", "transaction-rows", "Read rows as a transaction sees them.",
        transactions.rows, "write", query=tables.RowsAsked, answer=answers.Page, media=STREAMS,
    ),
    Route(
        "POST", f"{TRANSACTION}/sql", "transaction-sql", "Run one SELECT over what a transaction sees.",
        transactions.sql, "write", body=sql.Query, answer=answers.Page, media=STREAMS,
    ),
    Route(
        "POST", f"{TRANSACTION}/commit", "transaction-commit", "Commit a transaction.", transactions.commit, "write",
        answer=answers.Receipt,
    ),
    Route(
        "DELETE", TRANSACTION, "discard", "Discard a transaction.", transactions.discard, "write", status=204,
    ),
)  # fmt: skip

GRAPH = (
    Route(
        "GET", f"{LAKE}/schema", "schema", "Show the schema of the graph.", graph.schema,
        query=tables.At, answer=answers.Schema,
    ),
    Route(
        "POST", f"{LAKE}/schema/plan", "plan-schema", "Say what applying a schema would change.", graph.plan_schema,
        body=graph.SchemaText, answer=answers.SchemaPlan,
    ),
    Route(
        "POST", f"{LAKE}/schema/apply", "apply-schema", "Change the graph to a schema.", graph.apply_schema, "write",
        body=graph.SchemaText, answer=answers.SchemaApplied,
    ),
    Route(
        "POST", f"{LAKE}/query", "query", "Query the graph.", graph.query,
        query=tables.At, body=graph.Asked, answer=answers.Page, media=STREAMS,
    ),
    Route(
        "POST", f"{LAKE}/explain", "explain", "Say how a query of the graph is answered.", graph.explain,
        query=tables.At, body=graph.Explaining, answer=answers.Explanation,
    ),
    Route(
        "POST", f"{LAKE}/lint", "lint", "Check queries of the graph without running them.", graph.lint,
        query=tables.At, body=graph.Linting, answer=answers.Findings,
    ),
    Route(
        "POST", f"{LAKE}/queries", "store-queries", "Keep queries in the lake.", graph.store, "write",
        body=graph.Storing, answer=answers.StoredNames,
    ),
    Route(
        "DELETE", f"{LAKE}/queries/{{query}}", "delete-query", "Remove a stored query.", graph.unstore, "write",
        query=OnBranch, status=204,
    ),
    Route(
        "GET", f"{LAKE}/queries", "queries", "List the stored queries.", graph.stored,
        query=tables.At, answer=answers.StoredQueries,
    ),
    Route(
        "POST", f"{LAKE}/queries/{{query}}", "run-query", "Run a stored query.", graph.run_stored,
        query=tables.At, body=graph.StoredAsked, answer=answers.Page, media=STREAMS,
    ),
    Route(
        "POST", f"{LAKE}/mutate", "mutate", "Run the statements of a mutation of the graph.", graph.mutate, "write",
        body=graph.Mutating, answer=answers.Mutated,
    ),
    Route(
        "POST", f"{LAKE}/load", "load", "Load rows into the graph, from JSON lines.", graph.load, "write",
        query=graph.LoadAsked, answer=answers.LoadedRows,
    ),
    Route(
        "GET", f"{LAKE}/blobs/{{type}}/{{id}}/{{property}}", "blob", "Read the bytes of a blob.", graph.blob,
        query=graph.BlobAsked, media=("application/octet-stream",),
    ),
)  # fmt: skip

MERGES = (
    Route(
        "POST", f"{LAKE}/merges", "merge", "Merge a branch into another, or say what that would do.", merges.merge,
        "write", body=merges.Merging, answer=answers.Merge,
    ),
    Route(
        "GET", f"{LAKE}/merges/{{merge}}/conflicts", "conflicts", "List the conflicts of a preview.", merges.conflicts,
        query=merges.ConflictsAsked, answer=answers.MergeConflicts,
    ),
    Route(
        "GET", f"{LAKE}/requests", "requests", "List the merge requests.", merges.requests,
        query=merges.RequestsAsked, answer=answers.MergeRequests,
    ),
    Route(
        "POST", f"{LAKE}/requests", "open-request", "Ask for a branch to be merged.", merges.open_request, "write",
        body=merges.NewRequest, answer=answers.MergeRequest, status=201, audited=True,
    ),
    Route(
        "GET", f"{LAKE}/requests/{{number}}", "request", "Show a merge request.", merges.request,
        answer=answers.MergeRequest,
    ),
    Route(
        "POST", f"{LAKE}/requests/{{number}}/reviews", "review", "Say something of a merge request.", merges.review,
        "write", body=merges.NewReview, answer=answers.MergeRequest, audited=True,
    ),
    Route(
        "POST", f"{LAKE}/requests/{{number}}/resolutions", "resolve-request", "Say how its conflicts are resolved.",
        merges.resolve, "write", body=merges.Resolutions, answer=answers.MergeRequest, audited=True,
    ),
    Route(
        "POST", f"{LAKE}/requests/{{number}}/merge", "merge-request", "Merge what a request asks for.",
        merges.merge_request, "write", body=merges.MergingRequest, answer=answers.Receipt, audited=True,
    ),
    Route(
        "POST", f"{LAKE}/requests/{{number}}/close", "close-request", "Close a merge request.", merges.close, "write",
        body=merges.Closing, answer=answers.MergeRequest, audited=True,
    ),
    Route(
        "POST", f"{LAKE}/requests/{{number}}/reopen", "reopen-request", "Open a closed merge request again.",
        merges.reopen, "write", answer=answers.MergeRequest, audited=True,
    ),
)  # fmt: skip

CONSUMERS = (
    Route(
        "GET", f"{LAKE}/consumers", "consumers", "List the named consumers of changes.", consumers.consumers,
        answer=answers.Consumers,
    ),
    Route(
        "POST", f"{LAKE}/consumers", "open-consumer", "Open a named consumer of changes.", consumers.open_consumer,
        "write", body=consumers.NewConsumer, answer=answers.ConsumerAt, audited=True,
    ),
    Route(
        "DELETE", f"{LAKE}/consumers/{{consumer}}", "drop-consumer", "Forget a consumer.", consumers.drop_consumer,
        "write", status=204, audited=True,
    ),
    Route(
        "GET", f"{LAKE}/consumers/{{consumer}}/changes", "consumer-changes", "Read what a consumer has not read.",
        consumers.changes, query=consumers.ConsumerAsked, answer=answers.Changes, media=(changes.EVENTS, ARROW),
        follows=True,
    ),
    Route(
        "POST", f"{LAKE}/consumers/{{consumer}}/commit", "consumer-commit", "Say up to where a consumer is done.",
        consumers.done, "write", body=consumers.Done, answer=answers.ConsumerAt, audited=True,
    ),
    Route(
        "POST", f"{LAKE}/consumers/{{consumer}}/reset", "consumer-reset", "Let a consumer begin anew.",
        consumers.reset, "write", body=consumers.Resetting, answer=answers.ConsumerAt, audited=True,
    ),
)  # fmt: skip

UPKEEP = (
    Route("GET", f"{LAKE}/status", "status", "Show where a lake stands.", upkeep.status, answer=answers.Status),
    Route(
        "POST", f"{LAKE}/maintenance/{{verb}}", "maintain", "Begin a job of upkeep.", upkeep.begin, "admin",
        body=upkeep.Upkeep, answer=answers.Job, status=202, audited=True,
    ),
    Route("GET", f"{LAKE}/jobs/{{job}}", "job", "Show how a job stands.", upkeep.job, answer=answers.Job),
)  # fmt: skip

ROUTES = (*SYSTEM, *READING, *WRITING, *TRANSACTIONS, *GRAPH, *MERGES, *CONSUMERS, *UPKEEP, *AGENTS)
