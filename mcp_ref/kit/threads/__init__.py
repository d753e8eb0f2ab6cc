"""Threads that wait and end: deadlines, cancelling, pools of handlers, queues of callbacks, limits on rates.

Contract: every wait takes a Deadline, and every thread has an owner whose `close` ends or leaves it by a deadline. No
user's code runs while a lock is held.

Door: `deadline.Deadline`, `Cancel` and `holding`, `workers.Workers`, `callbacks.CallbackThread`, `outbox.Outbox`,
`rates.RateLimits`, `forks.check_process`.
"""
