"""Where bytes are kept: a folder of a file system, or one of a bucket. The rooms above do not know which.

folder.py             the interface; `local_folder`, `bucket_folder`: its implementations; `folder_at`: by path or URL
bucket_file.py        reads a file of a bucket piece by piece; `bucket_upload`: writes one in parts
bucket_errors.py      tells a store that is away from one that refuses, and from a missing file
bucket_settings.py    how a bucket is reached; `bucket_url`; `providers`: what differs between S3 and Azure
requests.py           counts requests to buckets, which `run.monitors.request_monitor` journals; `operations`: since
                      when this process waits for a store
folder_trial.py       tries a folder before it is used; `folder_state`: whole folders
"""
