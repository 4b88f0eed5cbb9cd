"""The other side of the job: a worker prepares, serves ssh, says when it is ready, drains."""
