"""Group and transaction coordinators, as pure state machines.

Time is passed in, records go out through one callable, and nothing here waits: `handlers` does.
`routing` says which broker coordinates a key; `members` are a group's values and `group` is one
classic group; `offsets` are what groups have committed; `groups` is the coordinator of all of
them. `transaction` decides what one transactional id does next, and `transactions` is their
coordinator. `records` is what survives the process.
"""
