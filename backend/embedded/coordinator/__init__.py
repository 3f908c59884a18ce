"""Group and transaction coordinators, as pure state machines.

Time is passed in, records go out through one callable, and nothing here waits: `handlers` does.
`routing` says which broker coordinates a key. `members` are a group's values, and `classic_group`
is one classic group. `offsets` are what groups have committed. `group_coordinator` is the
coordinator of all of them. `transaction_steps` decides what one transactional id does next, and
`transaction_coordinator` is their coordinator. `records` is what survives the process.
"""
