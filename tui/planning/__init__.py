"""From a goal to a plan that can be started: questions to the planners, and how answers read."""
