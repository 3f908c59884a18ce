"""The controller's decisions: each command computes records and answers, and changes nothing.

A command is a function of the image and the request (and, where it matters, of the time in
milliseconds and a seeded random source). It returns a `Decision`. The caller commits its
records to the log and replays them into the image. This is the division of Kafka's
`ReplicationControlManager`.
"""
