"""Planners: pure functions from a situation and a goal to a proposal.

Each moves the fewest bytes that reach its goal, keeps what `draft` says that every one keeps, and
says in notes what it could not do. The same situation, goal and seed give the same proposal.
"""
