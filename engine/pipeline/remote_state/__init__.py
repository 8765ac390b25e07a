"""A pipeline's state in a bucket, so that any host can run the pipeline, watch it and command it.

The bucket has what a pipeline's directory has (`engine.pipeline.directory`), but for files of one host: locks, logs,
caches. Every host works on a copy, a directory as ever, and each file has one owner who writes it:

    ledger/           the runner, before anybody else sees an epoch (`ledger_folder`): its creation there is the commit.
                      After a restore, the lease names another folder for it
    lease.json        the runner: who runs the pipeline, that it lives, and its `runner.json` (`lease`)
    journal/, alerts.json, verify/ …
                      the runner, within seconds while it commits, else within a minute (`runner_sync`); a journal's
                      growing end in pieces (`journal_tail`)
    pipeline.toml     the runner, at its start
    inbox/, acknowledged/, silences/
                      operators, at once (`operator_copy`); the runner deletes what it has answered

Requests cost money and time, so nobody lists or asks in turn. The runner replaces its lease every few seconds, if it
still has the tag of the last time. An operator who leaves something replaces the lease too, so the runner's next
replacement is refused, and it looks. A host that only watches asks for the lease's tag, and lists if the lease says
that files have changed.

Another host, started with `run --standby`, takes over by `lease.take_lease`, at once if the holder has ended in order,
else once it has not renewed the lease for as long as it said: `runner_sync` calls it, `run.lifecycle.workplace` puts it
together (docs/s3.md#state-in-a-bucket). In a folder on a shared file system, `engine.pipeline.pipeline_lock` does this.
Then `engine.run.lifecycle.takeover` takes the next term in ledger and destination, which shuts out the earlier runner.

`state_copy` downloads what a copy lacks.

`host_pipelines` lists the pipelines of a host, copies included; `spec_url` finds one by the URL of its state.
"""
