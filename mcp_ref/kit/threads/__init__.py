"""Threads that wait and end: deadlines, cancelling, rates, pools of handlers, queues of callbacks.

Contract: every wait takes a Deadline, and every thread has an owner whose `close` ends or leaves it by a deadline. No
user's code runs while a lock is held.

Door: `deadline.Deadline`, `Cancel`, `holding` and `RateLimits`, `workers.Workers`, `callbacks.CallbackThread`,
`outbox.Outbox`, `forks.check_process`.
"""
